//! DNS over TCP, TLS, HTTPS and QUIC: admits clients, answers from the cache at once, and passes other questions to the
//! resolver. `dns-serve` carries the connections.
//!
//! Clients that may not ask have a few connections of their own, which are closed after the refusal.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::config::dns_recursor::Tcp;
use daemon::connections::{Connections, Policy, within_descriptors};
use daemon::run::Context;
use dns_cache::answer::Transport;
use dns_cache::message::MAX_MESSAGE;
use dns_serve::{
    Admission, Answer, Client, Counters, Limits, Listeners, Replies, Service, Streams,
};
use query_watch::Peer;
use tokio::sync::mpsc;

use crate::driver::ReturnTo;
use crate::server::{self, Done, Resources, Responder};

/// Connections of clients that may not ask: in all, and of one client.
const REFUSED: usize = 32;
const REFUSED_PER_CLIENT: usize = 4;
/// Descriptors for upstreams, the cache's file and control: misses are answered however many connections there are.
const RESERVED: usize = 256;
/// How long a connection is still read when the server stops, so that queries on their way are answered.
/// Tests wait longer than a busy machine takes.
const LAST: Duration = match cfg!(test) {
    true => Duration::from_secs(3),
    false => Duration::from_millis(500),
};
/// How long a TLS handshake or a write may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The parts that connections share. One thread runs them all.
struct Shared {
    limits: Limits,
    counters: Counters,
    /// The responder, and the buffer that it writes to.
    responder: Mutex<(Responder, Vec<u8>)>,
    /// Connections of clients that may not ask.
    refused: Arc<Connections>,
}

impl Shared {
    fn new(limits: Tcp, responder: Responder) -> Arc<Self> {
        let refused = Policy::of(limits.connections.min(REFUSED))
            .with_source(limits.per_client.min(REFUSED_PER_CLIENT))
            .with_idle(limits.idle.0)
            .with_stall(PATIENCE);
        let refused = Connections::new("dns-tcp-refused", refused);
        let limits = Limits {
            connections: within_descriptors(limits.connections, 1, RESERVED),
            per_client: limits.per_client,
            pipeline: limits.pipeline.get(),
            idle: limits.idle.0,
            quic_idle: limits.idle.0,
            handshake: PATIENCE,
            write: PATIENCE,
            last: LAST,
            answer: PATIENCE,
        };
        Arc::new(Self {
            counters: Counters::new(&limits),
            limits,
            responder: Mutex::new((responder, vec![0; MAX_MESSAGE])),
            refused,
        })
    }

    /// The responder. After a panic elsewhere it is still good: it holds nothing but scratch.
    fn responder(&self) -> MutexGuard<'_, (Responder, Vec<u8>)> {
        self.responder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that runs all connections; gives it and its counters.
pub fn start(
    listeners: Listeners,
    limits: Tcp,
    resources: &Resources,
    context: &Context,
) -> io::Result<(Streams, Counters)> {
    let shared = Shared::new(limits, Responder::new(resources));
    context.connections.add(&shared.counters.tcp);
    context.connections.add(&shared.counters.quic);
    context.connections.add(&shared.refused);
    let counters = shared.counters.clone();
    Ok((Streams::start("dns-tcp", listeners, shared)?, counters))
}

impl Service for Shared {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn admit(&self, client: IpAddr, connections: &Arc<Connections>) -> Option<Admission> {
        let (connections, is_refusal) = match self.responder().0.admission(client) {
            server::Admission::Allowed => (connections, false),
            server::Admission::Refused => (&self.refused, true),
            server::Admission::Ignored => return None,
        };
        Some(Admission {
            connections: Arc::clone(connections),
            is_refusal,
        })
    }

    fn answer(
        self: &Arc<Self>,
        message: &[u8],
        client: &Client,
        later: &mpsc::Sender<Vec<u8>>,
        replies: &mut Replies,
    ) -> Answer {
        let mut guard = self.responder();
        let (responder, scratch) = &mut *guard;
        responder.refresh();
        let mut address = client.peer;
        address.set_ip(address.ip().to_canonical());
        let peer = Peer {
            address,
            local: client.local.map(|local| local.ip().to_canonical()),
            transport: client.transport.into(),
        };
        let to = || ReturnTo::Stream(later.clone());
        match responder.handle(message, &peer, Transport::Tcp, scratch, to) {
            Done::Reply(length) => {
                replies.push(scratch.get(..length).unwrap_or_default());
                Answer::Now
            }
            Done::Later => Answer::Later,
            Done::Nothing => Answer::Silence,
        }
    }
}
