//! A server for tests: it answers every message with the same message.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::connections::Connections;
use tokio::sync::mpsc;

use crate::service::{Admission, Answer, Client, Counters, Limits, Replies, Service};

pub(crate) struct Echo {
    pub limits: Limits,
    counters: Counters,
    /// Whether replies come later, after half a second.
    is_slow: bool,
}

impl Echo {
    pub(crate) fn new(limits: Limits, is_slow: bool) -> Arc<Self> {
        Arc::new(Self {
            limits,
            counters: Counters::new(&limits),
            is_slow,
        })
    }
}

pub(crate) fn limits() -> Limits {
    let long = Duration::from_secs(10);
    Limits {
        connections: 16,
        per_client: 8,
        pipeline: 4,
        idle: long,
        quic_idle: long,
        handshake: long,
        write: long,
        last: Duration::from_millis(100),
        answer: long,
    }
}

impl Service for Echo {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn admit(&self, _client: IpAddr, connections: &Arc<Connections>) -> Option<Admission> {
        Some(Admission {
            connections: Arc::clone(connections),
            is_refusal: false,
        })
    }

    fn answer(
        self: &Arc<Self>,
        message: &[u8],
        _client: &Client,
        later: &mpsc::Sender<Vec<u8>>,
        replies: &mut Replies,
    ) -> Answer {
        if self.is_slow {
            let (message, later) = (message.to_vec(), later.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(500)).await;
                drop(later.send(message).await);
            });
            return Answer::Later;
        }
        replies.push(message);
        Answer::Now
    }
}
