//! Answers to NTP clients (RFC 5905 §9.2, §14), as chronyd gives them.
//!
//! ```text
//!  datagram ─► well formed? ─► allowed? ─► mode 3, 1? ─► not too often? ─► verified? ─► answer
//!               wire            acl                    clients, rate     keys         interleaved, reference
//! ```
//!
//! A peer in symmetric mode that polls this node (mode 1) gets the answer of a passive peer (mode 2), as from chronyd: no association is
//! made for it, and its time is not followed.
//!
//! The responder answers only requests, in their own version, and never with more octets than they have: a sender cannot use it
//! to hit a victim harder than the sender could alone. The memory of clients is bounded.
//!
//! Reads no clock and sends nothing: stamps come with the request, and the time of sending from a function that is called last.

mod acl;
mod clients;
mod counters;
mod interleaved;
mod place;
mod policy;
mod rate;
#[cfg(test)]
mod tests;

pub use acl::Acl;
pub use clients::{Access, ClientView, Service};
pub use counters::{Counter, Statistics};
pub use interleaved::Receipt;
pub use policy::Policy;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clients::Clients;
use counters::{Counters, Registry};
use interleaved::Stamps;
use rate::{Limit, Verdict};

use crate::wire::{
    LONGEST_PACKET, Message, Mode, NTS_AUTHENTICATOR, NTS_COOKIE, Packet,
    SHORTEST_UNIQUE_IDENTIFIER, Trailer, UNIQUE_IDENTIFIER, Writer,
};
use random::Random;
use time_model::settings::RateLimit;
use time_model::time::{NtpShort, NtpTimestamp, UnixTime};
use time_model::view::{Leap, StampSource};
use timekeeper::Reference;

/// The longest answer, which is no longer than the longest request.
pub const LONGEST_ANSWER: usize = LONGEST_PACKET;

/// The port that a version 1 client does not ask from: mode 0 from there is no request (RFC 1059 has no modes).
const NTP_PORT: u16 = 123;
/// The reference ID of the kiss-o'-death for asking too often (RFC 5905 §7.4).
const RATE: u32 = u32::from_be_bytes(*b"RATE");
/// The stratum of who has no time to tell (RFC 5905 figure 11).
const UNSYNCHRONISED_STRATUM: u8 = 16;
/// Root delay and root dispersion while there is no time to tell, in seconds; chronyd's.
const UNSYNCHRONISED_DISTANCE: f64 = 1.0;

/// A datagram and what is known of how it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The datagram.
    pub datagram: &'a [u8],
    /// The sender.
    pub from: SocketAddr,
    /// When it came, on the wall clock of this node.
    pub received: UnixTime,
    /// How that is known.
    pub stamp: StampSource,
}

/// The result of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send the first octets of the buffer back, this many.
    Reply {
        /// How many.
        length: usize,
        /// If it matters when exactly this leaves: for [`Tables::transmitted`].
        receipt: Option<Receipt>,
    },
    /// Nothing is sent.
    Drop(Reason),
}

/// Why a datagram is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is no packet.
    Malformed,
    /// Its sender is not allowed.
    Denied,
    /// It is no request.
    Mode,
    /// Its sender asks too often.
    RateLimited,
    /// It is signed, and not with a key of ours.
    Unauthenticated,
    /// The answer has no room, in the buffer or in the length of the request.
    TooLong,
}

/// The state that all responders of a node share: memory of clients and of answers, and counters.
#[derive(Debug)]
pub struct Tables {
    clients: Clients,
    stamps: Stamps,
    counters: Registry,
}

impl Tables {
    /// Tables of at most about `limit` octets (`clientloglimit`). The seed keeps others from aiming at places in them.
    #[must_use]
    pub fn new(limit: u64, seed: [u64; 2]) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self {
            clients: Clients::new(limit - limit / 4, seed),
            stamps: Stamps::new(limit / 4, seed),
            counters: Registry::default(),
        })
    }

    /// The kernel or the card says when an answer left.
    pub fn transmitted(&self, receipt: Receipt, transmitted: UnixTime, source: StampSource) {
        self.stamps.correct(receipt, transmitted, source);
    }

    /// To be called when the clock was stepped: stamps from before are of another time.
    pub fn forget_stamps(&self) {
        self.stamps.clear();
    }

    /// A request over chronyc's protocol: true if it may be answered. `noclientlog` is for the caller to obey.
    #[must_use]
    pub fn command(
        &self,
        from: IpAddr,
        now: UnixTime,
        limit: Option<&RateLimit>,
        random: &mut Random,
    ) -> bool {
        let limit = limit.map(|limit| Limit::new(limit, RateLimit::COMMANDS));
        let service = Service::Command;
        let verdict = self
            .clients
            .request(service, from, now, limit.as_ref(), random);
        let is_answered = verdict == Verdict::Answer;
        self.counters.command(is_answered);
        is_answered
    }

    /// Places of the table of clients, of which each has a client or none.
    #[must_use]
    pub fn client_places(&self) -> usize {
        self.clients.capacity()
    }

    /// The client at a place.
    #[must_use]
    pub fn client(&self, place: usize) -> Option<ClientView> {
        self.clients.at(place)
    }

    /// Resets the counters of the client at a place.
    pub fn reset_client(&self, place: usize) {
        self.clients.reset(place);
    }

    /// Everything that was counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (stamps_held, ends) = self.stamps.extent();
        Statistics {
            clients_forgotten: self.clients.n_forgotten(),
            stamps_held,
            stamps_span: ends.map(|(first, last)| last - first).unwrap_or_default(),
            counts: self.counters.sum(),
        }
    }

    /// Resets the counters.
    pub fn reset_statistics(&self) {
        self.counters.reset();
    }
}

/// A responder: one for each thread.
#[derive(Debug)]
pub struct Responder {
    tables: Arc<Tables>,
    counters: Arc<Counters>,
    random: Random,
}

impl Responder {
    /// A responder that shares `tables` with others and nothing else.
    #[must_use]
    pub fn new(tables: &Arc<Tables>, random: Random) -> Self {
        Self {
            tables: Arc::clone(tables),
            counters: tables.counters.register(),
            random,
        }
    }

    /// Answers a datagram into `out`. `clock` reads the wall clock, and is called when all else is done but what depends on it.
    pub fn answer(
        &mut self,
        request: &Request<'_>,
        policy: &Policy,
        reference: &Reference,
        clock: impl FnOnce() -> UnixTime,
        out: &mut [u8],
    ) -> Answer {
        match self.try_answer(request, policy, reference, clock, out) {
            Ok(answer) => answer,
            Err(reason) => {
                self.counters.add(Counter::of(reason));
                Answer::Drop(reason)
            }
        }
    }

    fn try_answer(
        &mut self,
        request: &Request<'_>,
        policy: &Policy,
        reference: &Reference,
        clock: impl FnOnce() -> UnixTime,
        out: &mut [u8],
    ) -> Result<Answer, Reason> {
        let message = Message::parse(request.datagram).map_err(|_| Reason::Malformed)?;
        if !policy.access.is_allowed(request.from.ip()) {
            return Err(Reason::Denied);
        }
        if !is_request(&message.packet, request.from.port()) {
            return Err(Reason::Mode);
        }
        self.counters.add(Counter::Received);
        let verdict = self.limit(request, policy);
        if verdict == Verdict::Drop {
            return Err(Reason::RateLimited);
        }
        let key = authenticate(&message, policy)?;
        if verdict == Verdict::Kiss {
            let packet = kiss(&message.packet, policy);
            let length = write(&message, packet, key, policy, out)?;
            self.counters.add(Counter::Kissed);
            return Ok(Answer::Reply {
                length,
                receipt: None,
            });
        }
        self.counters.add_stamp(request.stamp, Direction::Received);
        if key.is_some() {
            self.counters.add(Counter::Authenticated);
        }

        let mut packet = told(&message.packet, policy, reference, request.received);
        // Ours are odd when something came, even when something left: so the two are never the same, and a client that
        // repeats one of the former is known by it.
        let random = self.random.bits();
        packet.receive = blurred(reference.time_at(request.received), random, policy);
        packet.receive.0 |= 1;
        packet.origin = message.packet.transmit;
        // Interleaved mode is another one between peers (RFC 9769 §3): they get the basic one.
        let wants_interleaved = policy.log_clients
            && message.packet.mode != Mode::SymmetricActive
            && message.packet.origin.0 & 1 == 1;
        let before = if wants_interleaved && message.packet.receive != message.packet.transmit {
            self.tables
                .stamps
                .take(request.from.ip(), message.packet.origin)
        } else {
            None
        };
        let now = clock();
        let sent = before.map_or(now, |(transmitted, _)| transmitted);
        packet.transmit = blurred(reference.time_at(sent), random.rotate_left(32), policy);
        packet.transmit.0 &= !1;
        if before.is_some() {
            packet.origin = message.packet.receive;
            self.counters.add(Counter::Interleaved);
        }
        let length = write(&message, packet, key, policy, out)?;
        let source = before.map_or(StampSource::Daemon, |(_, source)| source);
        self.counters.add_stamp(source, Direction::Transmitted);
        let receipt = if wants_interleaved {
            let client = request.from.ip();
            self.tables
                .stamps
                .keep(client, packet.receive, request.received, now)
        } else {
            None
        };
        Ok(Answer::Reply { length, receipt })
    }

    /// Counts the request of a client and decides whether it comes too often.
    fn limit(&mut self, request: &Request<'_>, policy: &Policy) -> Verdict {
        if !policy.log_clients {
            return Verdict::Answer;
        }
        let (from, now) = (request.from.ip(), request.received);
        let limit = policy.limit.as_ref();
        self.tables
            .clients
            .request(Service::Ntp, from, now, limit, &mut self.random)
    }
}

/// A timestamp whose digits below the precision of the clock are random: their true values are unknown, and an attacker shall
/// not guess them.
fn blurred(time: UnixTime, random: u64, policy: &Policy) -> NtpTimestamp {
    NtpTimestamp(NtpTimestamp::of(time).0 ^ (random & policy.blur))
}

/// The event of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Received,
    Transmitted,
}

/// Whether a datagram of this sender asks for the time, as a client does. One of symmetric mode does unless its sender is a peer of this
/// node's.
#[must_use]
pub fn asks(datagram: &[u8], from: SocketAddr, is_peer: bool) -> bool {
    Message::parse(datagram).is_ok_and(|message| {
        let is_of_peers = is_peer && message.packet.mode == Mode::SymmetricActive;
        !is_of_peers && is_request(&message.packet, from.port())
    })
}

/// Whether a packet asks for the time. Version 1 has no modes: 0 is a request unless it comes from a server's port. No answer is a
/// request, so that two nodes cannot be made to answer each other.
fn is_request(packet: &Packet, port: u16) -> bool {
    match packet.mode {
        Mode::Client | Mode::SymmetricActive => true,
        Mode::Reserved => packet.version == 1 && port != NTP_PORT,
        Mode::SymmetricPassive | Mode::Server | Mode::Broadcast | Mode::Control | Mode::Private => {
            false
        }
    }
}

/// The mode of the answer to a request.
fn answering(mode: Mode) -> Mode {
    match mode {
        Mode::SymmetricActive => Mode::SymmetricPassive,
        _ => Mode::Server,
    }
}

/// The key of a request that is signed, if it is good.
fn authenticate(message: &Message<'_>, policy: &Policy) -> Result<Option<u32>, Reason> {
    // NTS is not supported: a client that requires it would not accept an answer without it.
    if message
        .extension(NTS_COOKIE)
        .or_else(|| message.extension(NTS_AUTHENTICATOR))
        .is_some()
    {
        return Err(Reason::Unauthenticated);
    }
    match &message.trailer {
        Trailer::None => Ok(None),
        Trailer::Mac(mac) if policy.keys.verify(mac) => Ok(Some(mac.key)),
        Trailer::Mac(_) | Trailer::CryptoNak | Trailer::MsSntp => Err(Reason::Unauthenticated),
    }
}

/// The answer but for its timestamps of now.
fn told(request: &Packet, policy: &Policy, reference: &Reference, now: UnixTime) -> Packet {
    Packet {
        version: request.version,
        mode: answering(request.mode),
        poll: request.poll.max(policy.minimum_poll),
        ..header(reference, policy.precision, now)
    }
}

/// The time of this node as a packet has it, but for its timestamps of now.
pub(crate) fn header(reference: &Reference, precision: i8, now: UnixTime) -> Packet {
    let packet = Packet {
        leap: Leap::Unsynchronised,
        precision,
        root_delay: NtpShort::from_seconds(UNSYNCHRONISED_DISTANCE),
        root_dispersion: NtpShort::from_seconds(UNSYNCHRONISED_DISTANCE),
        ..Packet::default()
    };
    // Stratum 16 is sent as 0 (RFC 5905 §7.3).
    if !reference.is_synchronised() || reference.stratum >= UNSYNCHRONISED_STRATUM {
        return packet;
    }
    Packet {
        leap: reference.leap,
        stratum: reference.stratum,
        root_delay: NtpShort::from_seconds(reference.root_delay),
        root_dispersion: NtpShort::from_seconds(reference.root_dispersion_at(now)),
        reference_id: reference.reference_id,
        reference_time: NtpTimestamp::of(reference.reference_time),
        ..packet
    }
}

/// A kiss-o'-death: ask less often (RFC 5905 §7.4). It tells no time.
fn kiss(request: &Packet, policy: &Policy) -> Packet {
    Packet {
        leap: Leap::Unsynchronised,
        version: request.version,
        mode: answering(request.mode),
        stratum: 0,
        poll: request.poll.max(policy.minimum_poll),
        precision: policy.precision,
        reference_id: RATE,
        origin: request.transmit,
        receive: request.transmit,
        transmit: request.transmit,
        ..Packet::default()
    }
}

/// Writes an answer with what the request has beyond its header.
fn write(
    request: &Message<'_>,
    packet: Packet,
    key: Option<u32>,
    policy: &Policy,
    out: &mut [u8],
) -> Result<usize, Reason> {
    let mut writer = Writer::new(out, &packet).ok_or(Reason::TooLong)?;
    if let Some(body) = request.extension(UNIQUE_IDENTIFIER)
        && body.len() >= SHORTEST_UNIQUE_IDENTIFIER
        && !writer.extension(UNIQUE_IDENTIFIER, body)
    {
        return Err(Reason::TooLong);
    }
    if let Some(key) = key
        && !writer.mac(key, |covered, digest| {
            policy.keys.sign(key, packet.version, covered, digest)
        })
    {
        return Err(Reason::TooLong);
    }
    let length = writer.finish();
    // It cannot be: every part of the answer is as long as its part of the request. If it were, it would not be sent.
    if length > request.length {
        return Err(Reason::TooLong);
    }
    Ok(length)
}
