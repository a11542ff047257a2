//! Decides which streams a listener serves: one policy for every listener over TCP, TLS, QUIC and Unix sockets.
//!
//! A listener has M places. Some are for other nodes of the site ([`Policy::for_members`]), some for the node itself
//! ([`Policy::for_node`]), and the rest, S, for everybody. The same bounds hold for all:
//!
//! | bound | beyond it |
//! | --- | --- |
//! | streams of a source (an address, /64 in IPv6, or a user of a Unix socket): max(8, S/8) | the oldest of its own that is idle or unfinished ends |
//! | streams of a network (/24, /48): four times that | the oldest such stream of the source that has the most there ends |
//! | handshakes at once: S/4 | the oldest of the source that has the most ends |
//! | streams in all | the oldest such stream of the source that has the most ends, if that is above its share (S by the number of sources) or more than the newcomer's source has |
//!
//! If there is no such stream, the newcomer is refused. A stream with an answer in flight never ends for another one,
//! and nor does one whose client has proven that it is a node of the site. Each phase has a time ([`FIRST_OCTET`],
//! [`HANDSHAKE`], [`REQUEST`]); while more than half of S is taken, the time to be idle shrinks.
//!
//! So a source without streams always finds a place, unless every stream has an answer in flight: no number of idle or
//! unfinished ones keeps it out.
//!
//! Never does I/O and reads no clock: the time is an argument.

mod crowd;
mod policy;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crowd::{Crowd, Share};
pub use policy::{
    BODY_GRACE, BODY_RATE, FIRST_OCTET, HANDSHAKE, IDLE, Policy, REQUEST, SHORTEST_IDLE, STALL,
};
pub use source::Source;
use source::{Key, Network};

/// The number of a stream; none has it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

/// The kind of a client, as far as its address tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anybody.
    Other,
    /// The node itself.
    Node,
    /// A process at the address of another node of the site. Only a certificate proves that it is the node.
    Member,
}

/// The beginning of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A request.
    Request,
    /// A handshake.
    Handshake,
}

/// Why a stream got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All places are taken, and no stream of a source above its share may end.
    Full,
    /// Its source has too many.
    Source,
    /// Its network has too many.
    Network,
    /// Too many handshakes are unfinished.
    Handshakes,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Full, Self::Source, Self::Network, Self::Handshakes];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Source => "source",
            Self::Network => "network",
            Self::Handshakes => "handshakes",
        }
    }
}

/// Why a stream has to give its place back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another client needs the place.
    Displaced,
    /// It has sent nothing.
    Silent,
    /// Its handshake takes too long.
    Handshake,
    /// Its request takes too long.
    Request,
    /// The body of its request comes too slowly.
    Slow,
    /// It is idle while places are few.
    Idle,
    /// Its client takes nothing of what is sent.
    Stalled,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Displaced,
        Self::Silent,
        Self::Handshake,
        Self::Request,
        Self::Slow,
        Self::Idle,
        Self::Stalled,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Displaced => "displaced",
            Self::Silent => "silent",
            Self::Handshake => "handshake",
            Self::Request => "request",
            Self::Slow => "slow",
            Self::Idle => "idle",
            Self::Stalled => "stalled",
        }
    }
}

/// A stream that has to end. Its place is free already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The stream.
    pub id: Id,
    /// The reason.
    pub reason: Reason,
}

/// The decision on a newcomer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its place, or the reason that it has none.
    pub outcome: Result<Id, Refusal>,
    /// The streams that give their places to it.
    pub ended: Vec<Ended>,
}

/// Places that are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// By anybody.
    pub others: usize,
    /// By the node itself.
    pub node: usize,
    /// By other nodes, and by others at their addresses.
    pub members: usize,
}

impl Taken {
    /// All of them.
    #[must_use]
    pub const fn all(self) -> usize {
        self.others + self.node + self.members
    }

    const fn of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Other => &mut self.others,
            Class::Node => &mut self.node,
            Class::Member => &mut self.members,
        }
    }
}

/// The phase of a stream while no answer is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has come.
    Opening(Opening),
    Handshake,
    /// A part of a request has come.
    Request,
    /// The head of a request has come, and its body follows; the octets of that.
    Body(u64),
    Idle,
}

#[derive(Debug)]
struct Stream {
    class: Class,
    key: Key,
    arrived: Instant,
    phase: Phase,
    /// The beginning of the phase.
    since: Instant,
    /// Answers in flight.
    answers: u32,
    /// The time since when its client takes nothing.
    blocked: Option<Instant>,
    /// Whether its client is a node of the site by its certificate.
    is_proven: bool,
    /// Its time among those that are timed.
    armed: Option<Instant>,
}

impl Stream {
    /// Whether it may end for another one.
    const fn may_end(&self) -> bool {
        self.answers == 0 && self.blocked.is_none() && !self.is_proven
    }

    const fn is_handshake(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening(Opening::Handshake) | Phase::Handshake
        ) && !self.is_proven
            && !matches!(self.class, Class::Member)
    }

    /// The time at which it has to end, and the reason; none while it is idle, answers or is proven.
    fn deadline(&self, policy: &Policy) -> Option<(Instant, Reason)> {
        if self.is_proven {
            return None;
        }
        if let Some(blocked) = self.blocked {
            return Some((blocked + policy.stall, Reason::Stalled));
        }
        if self.answers > 0 {
            return None;
        }
        match self.phase {
            Phase::Opening(_) => Some((self.since + FIRST_OCTET, Reason::Silent)),
            Phase::Handshake => Some((self.arrived + policy.handshake, Reason::Handshake)),
            Phase::Request => Some((self.since + REQUEST, Reason::Request)),
            Phase::Body(octets) => {
                let lasts = Duration::from_secs(octets / BODY_RATE).max(BODY_GRACE);
                Some((self.since + lasts, Reason::Slow))
            }
            Phase::Idle => None,
        }
    }

    /// Whether its time to be idle runs.
    fn is_idle(&self) -> bool {
        self.may_end() && self.phase == Phase::Idle
    }
}

/// The places of one listener, or of several that share them.
#[derive(Debug)]
pub struct Admission {
    policy: Policy,
    streams: BTreeMap<Id, Stream>,
    next: u64,
    taken: Taken,
    /// Streams by source, for each class.
    others: Crowd,
    node: Crowd,
    members: Crowd,
    /// The same of others, by network.
    networks: BTreeMap<Network, Crowd>,
    handshakes: Crowd,
    /// Streams with a deadline, the next first.
    timed: BTreeSet<(Instant, Id)>,
    /// Idle streams, the oldest first.
    idle: BTreeSet<(Instant, Id)>,
}

impl Admission {
    /// No stream yet.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            streams: BTreeMap::new(),
            next: 0,
            taken: Taken {
                others: 0,
                node: 0,
                members: 0,
            },
            others: Crowd::new(),
            node: Crowd::new(),
            members: Crowd::new(),
            networks: BTreeMap::new(),
            handshakes: Crowd::new(),
            timed: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The places that are taken.
    #[must_use]
    pub const fn taken(&self) -> Taken {
        self.taken
    }

    //--- Arrival

    /// Decides on a stream that has come.
    pub fn arrive(
        &mut self,
        source: Source,
        class: Class,
        opening: Opening,
        now: Instant,
    ) -> Decision {
        let mut ended = self.due(now);
        let key = source.key();
        let outcome = self
            .make_room(key, class, opening, &mut ended)
            .map(|()| self.take(key, class, opening, now));
        Decision { outcome, ended }
    }

    /// Ends streams until there is room for one more of this source.
    fn make_room(
        &mut self,
        key: Key,
        class: Class,
        opening: Opening,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Refusal> {
        if self.is_source_full(key, class) {
            let victim = self.crowd(class).oldest_of(key);
            self.displace(victim.ok_or(Refusal::Source)?, ended);
        }
        if let Some(network) = self.full_network(key, class) {
            let victim = network.above_share(self.policy.network_most(), key);
            self.displace(victim.ok_or(Refusal::Network)?.1, ended);
        }
        if self.are_handshakes_full(class, opening) {
            let most = self.policy.handshakes_most();
            let victim = self.handshakes.above_share(most, key);
            self.displace(victim.ok_or(Refusal::Handshakes)?.1, ended);
        }
        if !self.has_room(class) {
            let victim = self.most_above_share(key, class).ok_or(Refusal::Full)?;
            self.displace(victim, ended);
        }
        Ok(())
    }

    /// Whether a stream of this source would get a place, and no other one had to end for it.
    #[must_use]
    pub fn has_free(&self, source: Source, class: Class, opening: Opening) -> bool {
        let key = source.key();
        !self.is_source_full(key, class)
            && self.full_network(key, class).is_none()
            && !self.are_handshakes_full(class, opening)
            && self.has_room(class)
    }

    fn is_source_full(&self, key: Key, class: Class) -> bool {
        self.crowd(class).total(key) >= self.policy.source_most(class)
    }

    fn full_network(&self, key: Key, class: Class) -> Option<&Crowd> {
        let network = self.networks.get(&key.network())?;
        let is_full = class == Class::Other && network.all() >= self.policy.network_most();
        is_full.then_some(network)
    }

    fn are_handshakes_full(&self, class: Class, opening: Opening) -> bool {
        opening == Opening::Handshake
            && class != Class::Member
            && self.handshakes.all() >= self.policy.handshakes_most()
    }

    fn has_room(&self, class: Class) -> bool {
        let reserved = match class {
            Class::Other => false,
            Class::Node => self.taken.node < self.policy.for_node(),
            Class::Member => self.taken.members < self.policy.for_members(),
        };
        // A proven one leaves the places of its class to others of it, so these alone are no bound.
        self.taken.all() < self.policy.places()
            && (reserved || self.shared() < self.policy.for_all())
    }

    /// The places of everybody that are taken: those that others have, and those that the node and members have beyond
    /// their own.
    fn shared(&self) -> usize {
        self.taken.others + self.over(Class::Node) + self.over(Class::Member)
    }

    /// The places that a class has beyond its own.
    fn over(&self, class: Class) -> usize {
        match class {
            Class::Other => self.taken.others,
            Class::Node => self.taken.node.saturating_sub(self.policy.for_node()),
            Class::Member => self.taken.members.saturating_sub(self.policy.for_members()),
        }
    }

    /// The stream whose end makes room for one of this class.
    fn most_above_share(&self, key: Key, class: Class) -> Option<Id> {
        // A stream within the places of its own class makes no room for another class.
        let classes = [Class::Other, Class::Node, Class::Member];
        let fitting = classes
            .into_iter()
            .filter(|one| *one == class || self.over(*one) > 0);
        let own = self.crowd(class).total(key);
        let sources = self.others.n_sources() + self.node.n_sources() + self.members.n_sources();
        let share = Share {
            most: self.policy.for_all(),
            sources: sources + usize::from(own == 0),
            own,
        };
        let of_most = fitting
            .filter_map(|one| self.crowd(one).of_most())
            .filter(|(total, _)| share.is_below(*total))
            .max_by_key(|(total, _)| *total);
        let victim = match class {
            Class::Other => of_most,
            // Its own places are not lost to idle streams of its own class.
            Class::Node | Class::Member => of_most.or_else(|| self.crowd(class).of_most()),
        };
        victim.map(|(_, id)| id)
    }

    const fn crowd(&self, class: Class) -> &Crowd {
        match class {
            Class::Other => &self.others,
            Class::Node => &self.node,
            Class::Member => &self.members,
        }
    }

    fn take(&mut self, key: Key, class: Class, opening: Opening, now: Instant) -> Id {
        let id = Id(self.next);
        self.next += 1;
        let stream = Stream {
            class,
            key,
            arrived: now,
            phase: Phase::Opening(opening),
            since: now,
            answers: 0,
            blocked: None,
            is_proven: false,
            armed: None,
        };
        *self.taken.of(class) += 1;
        self.enter(id, stream);
        id
    }

    fn displace(&mut self, id: Id, ended: &mut Vec<Ended>) {
        self.leave(id);
        ended.push(Ended {
            id,
            reason: Reason::Displaced,
        });
    }

    /// A load balancer has named the client of a stream, which takes a place of that client's. Without one it has ended.
    pub fn move_to(&mut self, id: Id, source: Source, class: Class, now: Instant) -> Decision {
        let mut ended = self.due(now);
        let Some(mut stream) = self.withdraw(id) else {
            // Its place was needed meanwhile.
            let outcome = Err(Refusal::Full);
            return Decision { outcome, ended };
        };
        *self.taken.of(stream.class) -= 1;
        let key = source.key();
        let opening = match stream.is_handshake() {
            true => Opening::Handshake,
            false => Opening::Request,
        };
        let room = self.make_room(key, class, opening, &mut ended);
        let outcome = room.map(|()| {
            (stream.key, stream.class) = (key, class);
            *self.taken.of(class) += 1;
            self.enter(id, stream);
            id
        });
        Decision { outcome, ended }
    }

    //--- Phases

    /// Something has come from the client: the beginning of a handshake or of a request, or a part of a body.
    pub fn received(&mut self, id: Id, octets: u64, now: Instant) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let next = match stream.phase {
            // `due` compares them with the deadline.
            Phase::Body(before) => {
                stream.phase = Phase::Body(before.saturating_add(octets));
                return;
            }
            Phase::Opening(Opening::Handshake) => Phase::Handshake,
            Phase::Opening(Opening::Request) | Phase::Idle => Phase::Request,
            Phase::Handshake | Phase::Request => return,
        };
        if stream.answers == 0 {
            self.change(id, |stream| (stream.phase, stream.since) = (next, now));
        }
    }

    /// The body of a request is about to be read. Until [`answer`](Self::answer) its answer is not in flight.
    pub fn body(&mut self, id: Id, now: Instant) {
        self.change(id, |stream| {
            stream.answers = stream.answers.saturating_sub(1);
            (stream.phase, stream.since) = (Phase::Body(0), now);
        });
    }

    /// The client has made its handshake, or has nothing more to come.
    pub fn idle(&mut self, id: Id, now: Instant) {
        self.change(id, |stream| {
            (stream.phase, stream.since) = (Phase::Idle, now);
        });
    }

    /// An answer is in flight from here on.
    pub fn answer(&mut self, id: Id) {
        self.change(id, |stream| stream.answers += 1);
    }

    /// An answer was given, or given up. After the last one the stream is idle.
    pub fn answered(&mut self, id: Id, now: Instant) {
        self.change(id, |stream| {
            stream.answers = stream.answers.saturating_sub(1);
            if stream.answers == 0 {
                (stream.phase, stream.since) = (Phase::Idle, now);
            }
        });
    }

    /// The client takes nothing of what is sent to it, or takes it again.
    pub fn blocked(&mut self, id: Id, is_blocked: bool, now: Instant) {
        self.change(id, |stream| {
            stream.blocked = is_blocked.then_some(now);
            if stream.phase == Phase::Idle {
                stream.since = now;
            }
        });
    }

    /// The client is a node of the site by its certificate. It stays, whatever its address.
    pub fn prove(&mut self, id: Id) {
        let Some(mut stream) = self.withdraw(id) else {
            return;
        };
        *self.taken.of(stream.class) -= 1;
        (stream.class, stream.is_proven) = (Class::Member, true);
        self.taken.members += 1;
        self.enter(id, stream);
    }

    /// The stream has ended. Its place may be free already.
    pub fn leave(&mut self, id: Id) {
        if let Some(stream) = self.withdraw(id) {
            *self.taken.of(stream.class) -= 1;
        }
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Stream)) {
        if let Some(mut stream) = self.withdraw(id) {
            change(&mut stream);
            self.enter(id, stream);
        }
    }

    /// Enters a stream, and in every index.
    fn enter(&mut self, id: Id, mut stream: Stream) {
        stream.armed = stream.deadline(&self.policy).map(|(at, _)| at);
        self.timed.extend(stream.armed.map(|at| (at, id)));
        if stream.is_idle() {
            self.idle.insert((stream.since, id));
        }
        if !stream.is_proven {
            self.rank(id, &stream);
        }
        self.streams.insert(id, stream);
    }

    fn rank(&mut self, id: Id, stream: &Stream) {
        let key = stream.key;
        let victim = stream.may_end().then_some((stream.since, id));
        match stream.class {
            Class::Other => {
                self.others.enter(key, victim);
                let network = self.networks.entry(key.network());
                network.or_insert_with(Crowd::new).enter(key, victim);
            }
            Class::Node => self.node.enter(key, victim),
            Class::Member => self.members.enter(key, victim),
        }
        if stream.is_handshake() {
            self.handshakes.enter(key, victim);
        }
    }

    /// Takes a stream out, and out of every index.
    fn withdraw(&mut self, id: Id) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        if let Some(at) = stream.armed {
            self.timed.remove(&(at, id));
        }
        self.idle.remove(&(stream.since, id));
        if stream.is_proven {
            return Some(stream);
        }
        let key = stream.key;
        let victim = stream.may_end().then_some((stream.since, id));
        match stream.class {
            Class::Other => {
                self.others.leave(key, victim);
                if let Some(network) = self.networks.get_mut(&key.network()) {
                    network.leave(key, victim);
                    if network.all() == 0 {
                        self.networks.remove(&key.network());
                    }
                }
            }
            Class::Node => self.node.leave(key, victim),
            Class::Member => self.members.leave(key, victim),
        }
        if stream.is_handshake() {
            self.handshakes.leave(key, victim);
        }
        Some(stream)
    }

    //--- Time

    /// How long a stream may be idle now; none while at most half of the places of everybody are taken, when the
    /// protocol alone ends it.
    #[must_use]
    pub fn idle_time(&self) -> Option<Duration> {
        self.policy.idle_time(self.shared())
    }

    /// Ends the streams whose time is over.
    pub fn due(&mut self, now: Instant) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(&(at, id)) = self.timed.first()
            && at <= now
        {
            self.timed.pop_first();
            let deadline = self
                .streams
                .get(&id)
                .and_then(|stream| stream.deadline(&self.policy));
            match deadline {
                Some((deadline, reason)) if deadline <= now => {
                    self.leave(id);
                    ended.push(Ended { id, reason });
                }
                // The body of a request continues.
                _ => self.change(id, |_| {}),
            }
        }
        while let Some(time) = self.idle_time()
            && let Some(&(since, id)) = self.idle.first()
            && since + time <= now
        {
            self.leave(id);
            ended.push(Ended {
                id,
                reason: Reason::Idle,
            });
        }
        ended
    }

    /// The time at which [`due`](Self::due) is to be asked again, unless something changes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let timed = self.timed.first().map(|(at, _)| *at);
        let oldest = self.idle.first().map(|(since, _)| *since);
        let idle = oldest.zip(self.idle_time());
        let idle = idle.map(|(since, time)| since + time);
        timed.into_iter().chain(idle).min()
    }

    /// Whether no stream has a place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
