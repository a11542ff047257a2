//! UDP: one responder for each thread of the engine.

use std::net::UdpSocket;
use std::sync::Arc;

use daemon::latest::{Latest, Reader};
use daemon::random;
use daemon::udp::{Datagram, Engine, EngineOptions, Outcome, Respond};
use dns_answer::{Client, Ixfr, Responder, Snapshot, Transport, Verdict};
use dns_serve::rate::RateLimit;
use dns_views::ZoneId;
use dns_wire::Name;

use crate::access::Access;
use crate::hold::{Hold, Waiting};
use crate::metrics::{ThreadTotals, Totals};
use crate::publisher::Asked;
use crate::secondary::Notified;
use crate::signed;
use crate::updates::{Response, Updates};
use dns_primary::histories::Histories;
use dns_programs::LuaPrograms;

/// The parts that every thread needs.
#[derive(Clone, Debug)]
pub struct WorkerParts {
    /// The published snapshot.
    pub cell: Arc<Latest<Snapshot>>,
    /// The access lists.
    pub access: Arc<Latest<Access>>,
    /// The limit of responses, if there is one.
    pub limit: Arc<Latest<Option<RateLimit>>>,
    /// The queries that wait.
    pub hold: Hold,
    /// The receiver of NOTIFY messages.
    pub notified: Notified,
    /// The receiver of updates.
    pub updates: Updates,
    /// The histories of zones.
    pub histories: Histories,
    /// The counters of all threads.
    pub totals: Totals,
}

/// Answers datagrams on one thread.
#[derive(Debug)]
struct Answerer {
    reader: Reader<Snapshot>,
    access: Reader<Access>,
    limit: Reader<Option<RateLimit>>,
    responder: Responder<LuaPrograms>,
    hold: Hold,
    notified: Notified,
    updates: Updates,
    histories: Histories,
    totals: Arc<ThreadTotals>,
    local_port: u16,
}

/// Starts the threads on these sockets.
pub fn start(
    sockets: Vec<UdpSocket>,
    threads: usize,
    parts: &WorkerParts,
) -> std::io::Result<Engine> {
    let options = EngineOptions {
        name: "dns",
        ..EngineOptions::default()
    };
    let ports: Vec<u16> = sockets
        .iter()
        .map(|socket| socket.local_addr().map_or(0, |address| address.port()))
        .collect();
    Engine::start(sockets, threads, options, |number| Answerer {
        reader: Reader::new(Arc::clone(&parts.cell)),
        access: Reader::new(Arc::clone(&parts.access)),
        limit: Reader::new(Arc::clone(&parts.limit)),
        responder: Responder::new(LuaPrograms, random::seed()),
        hold: parts.hold.clone(),
        notified: parts.notified.clone(),
        updates: parts.updates.clone(),
        histories: parts.histories.clone(),
        totals: parts.totals.add_thread(),
        local_port: ports.iter().cycle().nth(number).copied().unwrap_or(0),
    })
}

impl Answerer {
    /// Answers a query for an incremental transfer: with the differences, if the client may have them and they fit.
    #[cold]
    fn respond_incremental(
        &mut self,
        (zone, key): (&ZoneId, Option<&Name>),
        message: &[u8],
        client: &Client,
        reply: &mut [u8],
    ) -> Outcome {
        let snapshot = self.reader.get();
        let access = self.access.get();
        let zone = snapshot.zone(zone);
        let peer = client.peer.ip();
        let zone = zone.filter(|served| {
            access.may_transfer(served, peer, key) && !access.needs_tls(served, peer, key)
        });
        let zone = zone.and_then(|served| served.zone.as_ref());
        let history = zone.and_then(|zone| self.histories.of(zone));
        let responder = &mut self.responder;
        responder.set_ixfr(history.map_or(Ixfr::SoaAlone, Ixfr::Differences));
        let verdict = signed::respond(responder, snapshot, message, client, reply);
        responder.set_ixfr(Ixfr::Undecided);
        match verdict {
            Verdict::Reply(length) => Outcome::Reply(length),
            _ => Outcome::Silent,
        }
    }
}

impl Respond for Answerer {
    fn refresh(&mut self) {
        self.reader.refresh();
        self.access.refresh();
        self.limit.refresh();
    }

    #[inline]
    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let peer = datagram.peer();
        let client = Client {
            peer,
            local: datagram.local(),
            local_port: self.local_port,
            transport: Transport::Udp,
            can_wait: true,
            may_ask: self.access.get().may_ask(peer.ip()),
            clock: dns_serve::cookies::clock,
        };
        let message = datagram.payload();
        if let Some(limit) = self.limit.get() {
            let cookies = self.reader.get().settings.cookies.as_deref();
            if let Some(limited) = limit.check(peer.ip(), message, cookies, reply) {
                return limited;
            }
        }
        let responder = &mut self.responder;
        match signed::respond(responder, self.reader.get(), message, &client, reply) {
            Verdict::Reply(length) => Outcome::Reply(length),
            Verdict::Notified { apex, length } => {
                self.notified.take(apex, peer.ip());
                Outcome::Reply(length)
            }
            Verdict::Update {
                zone,
                update,
                grants,
                session,
            } => {
                let asked = Asked::new((zone, *update), grants, &session, peer);
                let response = Response::new(message, *session);
                self.updates.take(asked, response, datagram.return_path());
                Outcome::Silent
            }
            Verdict::Incremental { zone, key } => {
                self.respond_incremental((&zone, key.as_ref()), message, &client, reply)
            }
            Verdict::Silent | Verdict::Signed | Verdict::Transfer { .. } => Outcome::Silent,
            Verdict::Wait { zone, set } => {
                let waiting = Waiting {
                    message: message.into(),
                    path: datagram.return_path(),
                    local: client.local,
                    local_port: client.local_port,
                    zone,
                    set,
                };
                if self.hold.hold(waiting) {
                    return Outcome::Silent;
                }
                let client = Client {
                    can_wait: false,
                    ..client
                };
                let responder = &mut self.responder;
                match signed::respond(responder, self.reader.get(), message, &client, reply) {
                    Verdict::Reply(length) => Outcome::Reply(length),
                    _ => Outcome::Silent,
                }
            }
        }
    }

    fn settle(&mut self) {
        let tally = self.responder.tally();
        if !tally.is_empty() {
            self.totals.add(&tally.take());
        }
    }
}
