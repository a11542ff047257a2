//! Answers the queries of all stream transports: snapshot, access lists, counters and one responder.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::config::dns_authd::Tcp;
use daemon::connections::{Connections, within_descriptors};
use daemon::latest::Latest;
use daemon::random;
use dns_answer::table::Served;
use dns_answer::transfer::{Kind, Version};
use dns_answer::{Client, Responder, Snapshot, Verdict};
use dns_flatten::Form;
use dns_serve::{Admission, Answer, Counters, Limits, Replies, Service};
use dns_views::ZoneId;
use dns_wire::{Name, Rcode, Session};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::access::Access;
use crate::metrics::{ThreadTotals, Totals};
use crate::publisher::Asked;
use crate::secondary::Notified;
use crate::signed;
use crate::updates::{Response, Updates};
use dns_primary::transfers::{NotBegun, Transfers};
use dns_programs::LuaPrograms;

/// The time between two attempts to answer a waiting query.
const POLL: Duration = Duration::from_millis(2);
/// Descriptors for zone files, transfers, healthd and control.
const RESERVED: usize = 128;
/// How long connections are still read when the server stops, so that queries on their way are answered.
const LAST: Duration = Duration::from_millis(500);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a connection of QUIC may be idle.
const QUIC_IDLE: Duration = Duration::from_secs(10);
/// The shortest time for the last answers of QUIC.
const QUIC_DRAIN: Duration = Duration::from_secs(1);

/// Shared by all connections. One thread runs them all.
#[derive(Debug)]
pub struct Shared {
    cell: Arc<Latest<Snapshot>>,
    limits: Limits,
    hold: Duration,
    access: Arc<Latest<Access>>,
    counters: Counters,
    totals: Totals,
    thread: Arc<ThreadTotals>,
    responder: Mutex<Responder<LuaPrograms>>,
    transfers: Transfers,
    notified: Notified,
    updates: Updates,
    /// The buffer that replies are made in.
    scratch: Mutex<Vec<u8>>,
}

impl Shared {
    #[must_use]
    pub fn new(
        cell: Arc<Latest<Snapshot>>,
        (limits, transfers, notified, updates): (Tcp, Transfers, Notified, Updates),
        hold: Duration,
        access: Arc<Latest<Access>>,
        totals: Totals,
    ) -> Arc<Self> {
        let responder = Responder::new(LuaPrograms, random::seed());
        let limits = Limits {
            connections: within_descriptors(limits.connections, 1, RESERVED),
            per_client: limits.per_client,
            pipeline: limits.pipeline.max(1),
            idle: limits.idle.0,
            quic_idle: QUIC_IDLE,
            handshake: HANDSHAKE,
            write: limits.idle.0,
            last: LAST,
            answer: QUIC_DRAIN.max(hold + LAST),
        };
        Arc::new(Self {
            responder: Mutex::new(responder),
            scratch: Mutex::new(vec![0; dns_answer::MAX_MESSAGE]),
            transfers,
            notified,
            updates,
            cell,
            limits,
            hold,
            access,
            counters: Counters::new(&limits),
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
        let verdict = signed::respond(&mut responder, &snapshot, message, client, out);
        let tally = responder.tally().take();
        drop(responder);
        self.thread.add(&tally);
        verdict
    }

    fn scratch(&self) -> MutexGuard<'_, Vec<u8>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client as the responder sees it. A reload may change who may ask while a connection lasts.
    fn client(&self, client: &dns_serve::Client, can_wait: bool) -> Client {
        Client {
            peer: client.peer,
            local: client.local.map(|local| local.ip()),
            local_port: client.local.map_or(0, |local| local.port()),
            transport: client.transport.into(),
            can_wait,
            may_ask: self.access.current().may_ask(client.peer.ip()),
            clock: dns_serve::cookies::clock,
        }
    }

    /// Answers a query that waits for first results, when they come or the wait is over.
    async fn answer_later(
        self: Arc<Self>,
        message: Vec<u8>,
        client: dns_serve::Client,
        later: mpsc::Sender<Vec<u8>>,
    ) {
        let deadline = Instant::now() + self.hold;
        let reply = loop {
            if later.is_closed() {
                return;
            }
            match self.reply(&message, &self.client(&client, Instant::now() < deadline)) {
                Some(reply) => break reply,
                None => tokio::time::sleep(POLL).await,
            }
        };
        if later.send(reply).await.is_err() {
            tracing::debug!(peer = %client.peer, "Client is gone before its answer");
        }
    }

    /// A reply, empty when there is none; `None` while the query has to wait.
    fn reply(&self, message: &[u8], client: &Client) -> Option<Vec<u8>> {
        let mut scratch = self.scratch();
        match self.respond(message, client, &mut scratch) {
            Verdict::Reply(length) => Some(scratch.get(..length).unwrap_or_default().to_vec()),
            Verdict::Wait { .. } => None,
            Verdict::Silent
            | Verdict::Signed
            | Verdict::Notified { .. }
            | Verdict::Update { .. }
            | Verdict::Incremental { .. }
            | Verdict::Transfer { .. } => Some(Vec::new()),
        }
    }

    /// Begins to send a zone, or the differences from the client's version, if the client may have it.
    fn transfer(
        &self,
        message: &[u8],
        (id, session): (&ZoneId, Option<Session>),
        client: &dns_serve::Client,
        replies: &mut Replies,
    ) -> Answer {
        let peer = client.peer;
        let key = session.as_ref().map(|session| session.key().name().clone());
        let access = self.access.current();
        let snapshot = self.cell.current();
        let served = snapshot.zone(id).filter(|served| {
            access.may_transfer(served, peer.ip(), key.as_ref())
                && is_carried((&access, served), client, key.as_ref())
        });
        let zone = served.and_then(|served| Some((served, served.zone.clone()?)));
        let Some((served, zone)) = zone else {
            return self.refuse(message, session, Rcode::REFUSED, replies);
        };
        let flat = served.live.flat();
        let form = match zone.programs().next().is_some() || flat.is_some() {
            true => snapshot
                .settings
                .forms
                .of(&id.apex, peer.ip(), key.as_ref()),
            false => Form::Raw,
        };
        let version = match (form, flat) {
            (Form::Raw, _) => Version::from(&zone),
            (Form::Flatten, Some(flat)) => Version::from(flat),
            // Its programs serve only others to include.
            (Form::Flatten, None) if zone.live_sets().is_empty() => Version::from(&zone),
            (Form::Flatten, None) => {
                tracing::info!(zone = %id, %peer, "Zone is not flattened yet; the transfer has to be repeated");
                return self.refuse(message, session, Rcode::SERVFAIL, replies);
            }
            (Form::Refuse, _) => {
                tracing::warn!(zone = %id, %peer, "Transfer is refused: the zone has LUA records, which this server is not to get");
                return self.refuse(message, session, Rcode::REFUSED, replies);
            }
        };
        match self.transfers.begin(&version, message, session.clone()) {
            Ok((messages, kind)) => {
                let serial = version.serial();
                let key = key.as_ref().map(tracing::field::display);
                let kind = match kind {
                    Kind::Whole => "AXFR",
                    Kind::Differences => "IXFR",
                    Kind::Current => "SOA",
                };
                tracing::info!(zone = %id, %peer, key, serial, kind, "Zone is transferred");
                Answer::Messages(messages)
            }
            Err(NotBegun::TooMany) => {
                tracing::warn!(zone = %id, %peer, "Too many transfers are under way; this one has to be repeated");
                self.refuse(message, session, Rcode::SERVFAIL, replies)
            }
            Err(NotBegun::NoThread(error)) => {
                tracing::error!(zone = %id, %peer, %error, "Transfer has no thread");
                self.refuse(message, session, Rcode::SERVFAIL, replies)
            }
        }
    }

    fn refuse(
        &self,
        message: &[u8],
        session: Option<Session>,
        rcode: Rcode,
        replies: &mut Replies,
    ) -> Answer {
        let mut scratch = self.scratch();
        let length = dns_answer::respond_with(message, rcode, &mut scratch);
        let length = match session {
            Some(mut session) => {
                length.and_then(|length| session.sign(&mut scratch, length, signed::now()))
            }
            None => length,
        };
        match length {
            Some(length) => {
                replies.push(scratch.get(..length).unwrap_or_default());
                Answer::Now
            }
            None => Answer::Silence,
        }
    }
}

/// Whether the transport of this client carries the transfer of a zone that it may have: TCP unless the zone needs TLS, and TLS
/// (RFC 9103).
fn is_carried(
    (access, served): (&Access, &Served),
    client: &dns_serve::Client,
    key: Option<&Name>,
) -> bool {
    let peer = client.peer;
    let missing = match client.transport {
        dns_serve::Transport::Tcp if !access.needs_tls(served, peer.ip(), key) => return true,
        dns_serve::Transport::Tls { may_transfer: true } => return true,
        dns_serve::Transport::Tcp => "this client has to transfer it over TLS",
        dns_serve::Transport::Tls { .. } => "it needs TLS 1.3 and the protocol `dot` (ALPN)",
        dns_serve::Transport::Https | dns_serve::Transport::Quic => "it needs TCP or TLS",
    };
    tracing::warn!(zone = %served.id(), %peer, missing, "Transfer is refused");
    false
}

impl Service for Shared {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn admit(&self, client: IpAddr, connections: &Arc<Connections>) -> Option<Admission> {
        if !self.access.current().may_ask(client) {
            self.totals.outsiders.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Admission {
            connections: Arc::clone(connections),
            is_refusal: false,
        })
    }

    fn answer(
        self: &Arc<Self>,
        message: &[u8],
        client: &dns_serve::Client,
        later: &mpsc::Sender<Vec<u8>>,
        replies: &mut Replies,
    ) -> Answer {
        let asker = self.client(client, true);
        let mut scratch = self.scratch();
        match self.respond(message, &asker, &mut scratch) {
            Verdict::Reply(length) => {
                replies.push(scratch.get(..length).unwrap_or_default());
                Answer::Now
            }
            Verdict::Notified { apex, length } => {
                self.notified.take(apex, client.peer.ip());
                replies.push(scratch.get(..length).unwrap_or_default());
                Answer::Now
            }
            // Incremental transfers over UDP do not come here.
            Verdict::Silent | Verdict::Signed | Verdict::Incremental { .. } => Answer::NotDns,
            Verdict::Wait { .. } => {
                let message = message.to_vec();
                tokio::spawn(Arc::clone(self).answer_later(message, *client, later.clone()));
                Answer::Later
            }
            Verdict::Update {
                zone,
                update,
                grants,
                session,
            } => {
                let asked = Asked::new((zone, *update), grants, &session, client.peer);
                let response = Response::new(message, *session);
                let (updates, later) = (self.updates.clone(), later.clone());
                tokio::spawn(async move {
                    if let Some(reply) = updates.carry_out(asked, response).await {
                        // The client may have left.
                        drop(later.send(reply).await);
                    }
                });
                Answer::Later
            }
            Verdict::Transfer { zone, session } => {
                drop(scratch);
                let session = session.map(|session| *session);
                self.transfer(message, (&zone, session), client, replies)
            }
        }
    }
}

#[cfg(test)]
mod tests;
