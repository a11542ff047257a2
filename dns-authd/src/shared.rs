//! Shared by the connections of all stream transports: snapshot, bounds, counters and one responder.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon::connections::{Connections, Place};
use daemon::snapshot::Cell;
use dns_answer::{Client, Responder, Snapshot, Transport, Verdict};
use dns_wire::Rcode;
use tokio::time::Instant;

use crate::access::Access;
use crate::config::TcpLimits;
use crate::metrics::{ThreadTotals, Totals};
use crate::programs::LuaPrograms;
use crate::quic::Ask;
use crate::random;

/// The longest query that is read: a query with every option there is does not come near.
pub(crate) const MAX_QUERY: usize = 4096;
/// The time between two attempts to answer a waiting query.
pub(crate) const POLL: Duration = Duration::from_millis(2);
/// How long connections are still read when the server stops, so that queries on their way are answered.
pub(crate) const LAST: Duration = Duration::from_millis(500);

/// Shared by all connections. One thread runs them all.
#[derive(Debug)]
pub struct Shared {
    pub(crate) cell: Arc<Cell<Snapshot>>,
    pub(crate) limits: TcpLimits,
    pub(crate) hold: Duration,
    pub(crate) access: Arc<Cell<Access>>,
    connections: Arc<Connections>,
    totals: Totals,
    thread: Arc<ThreadTotals>,
    responder: Mutex<Responder<LuaPrograms>>,
}

impl Shared {
    #[must_use]
    pub fn new(
        cell: Arc<Cell<Snapshot>>,
        limits: TcpLimits,
        hold: Duration,
        access: Arc<Cell<Access>>,
        totals: Totals,
    ) -> Arc<Self> {
        let responder = Responder::new(LuaPrograms, random::seed());
        Arc::new(Self {
            responder: Mutex::new(responder),
            cell,
            limits,
            hold,
            access,
            connections: Connections::new(limits.connections, limits.per_client),
            thread: totals.add_thread(),
            totals,
        })
    }

    /// Answers one message; for every transport that is a stream.
    pub fn respond(&self, message: &[u8], client: &Client, out: &mut [u8]) -> Verdict {
        // A responder left by a panic elsewhere holds nothing but scratch.
        let snapshot = self.cell.current();
        let mut responder = self
            .responder
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let verdict = responder.respond(&snapshot, message, client, out);
        let tally = responder.tally().take();
        drop(responder);
        self.thread.add(&tally);
        verdict
    }

    /// Answers one message, after a wait while nothing is known yet; `None` is silence.
    pub(crate) async fn answer(
        &self,
        message: &[u8],
        peer: SocketAddr,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let deadline = now() + self.hold;
        let mut out = vec![0; dns_answer::MAX_MESSAGE];
        let length = loop {
            let client = Client {
                peer,
                local: None,
                local_port: 0,
                transport,
                can_wait: now() < deadline,
                may_ask: self.access.current().may_ask(peer.ip()),
            };
            match self.respond(message, &client, &mut out) {
                Verdict::Reply(length) => break length,
                Verdict::Wait { .. } => tokio::time::sleep(POLL).await,
                Verdict::Silent => return None,
                // Transfers are for TCP, or TLS with a protocol of its own (RFC 9103).
                Verdict::Transfer { .. } => {
                    break dns_answer::refuse(message, Rcode::REFUSED, &mut out)?;
                }
            }
        };
        out.truncate(length);
        Some(out)
    }

    /// The longest time from the last query to its answer: the wait for first results, and the sending.
    pub(crate) fn last_answer(&self) -> Duration {
        self.hold + LAST
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }

    /// Waits until no connection is open.
    pub async fn wait_until_closed(&self) {
        while self.connections.open() > 0 {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Takes a place for a client, unless the access list excludes it or a bound is reached.
    pub(crate) fn admit(&self, client: IpAddr) -> Option<Place> {
        if !self.access.current().may_ask(client) {
            self.totals.outsiders.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.connections.admit(client)
    }
}

/// Answers for QUIC.
#[must_use]
pub fn ask(shared: Arc<Shared>) -> Ask {
    Arc::new(move |message, peer| {
        let shared = Arc::clone(&shared);
        Box::pin(async move { shared.answer(&message, peer, Transport::Quic).await })
    })
}

pub(crate) fn now() -> Instant {
    Instant::now()
}
