//! A world for the engine to be tried in: clocks that wander, networks that delay, servers that lie. Deterministic by its seed.
//!
//! Time in here is true time in seconds, as a float, from 0; clocks show what they make of it.

pub mod direct;
pub mod network;
pub mod oscillator;
pub mod packets;
pub mod random;
pub mod replay;
pub mod scenario;
pub mod statistics;
#[cfg(test)]
mod tests;

use self::network::Network;
use self::oscillator::LocalClock;
use self::random::Random;
use time_model::time::{RawTime, Reading, Span, UnixTime};
use time_model::view::Leap;
use timekeeper::Timekeeper;

/// A host, by its number.
pub type HostId = usize;

/// A packet between hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// A question, with a number that comes back.
    Request(u64),
    /// The answer to it.
    Reply(Reply),
    /// A real packet of a client, and the number of its socket.
    Question(u64, Vec<u8>),
    /// A real packet of a server, to that socket.
    Answer(u64, Vec<u8>),
}

/// The contents of an NTP response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    /// The number of the request.
    pub number: u64,
    /// When the request came, on the server's clock.
    pub received: UnixTime,
    /// When this was sent.
    pub sent: UnixTime,
    /// The server's stratum.
    pub stratum: u8,
    /// Its leap indicator.
    pub leap: Leap,
    /// Its reference ID.
    pub reference_id: u32,
    /// Its root delay.
    pub root_delay: f64,
    /// Its root dispersion.
    pub root_dispersion: f64,
}

/// The actions of a program on its host and the network.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Sends.
    Send {
        /// The receiver.
        to: HostId,
        /// The packet.
        payload: Payload,
    },
    /// Sets the rate of the wall clock, in parts per billion of the raw clock.
    Rate(f64),
    /// Steps the wall clock.
    Step(Span),
    /// Lets the kernel insert or delete a second at midnight.
    Arm(Leap),
}

/// A program that runs on a host.
pub trait Program {
    /// When there is something to do.
    fn poll_timeout(&self, now: Reading) -> Option<RawTime>;
    /// Time has passed.
    fn handle_timeout(&mut self, now: Reading);
    /// Something came.
    fn receive(&mut self, from: HostId, payload: &Payload, now: Reading);
    /// The next action; called again until there is none.
    fn poll_action(&mut self) -> Option<Action>;
    /// Requests so far.
    fn n_requests(&self) -> u64 {
        0
    }
    /// The program's estimate of the time, if it has one.
    fn timekeeper(&self) -> Option<&Timekeeper> {
        None
    }
}

/// A machine.
struct Host {
    clock: LocalClock,
    program: Box<dyn Program>,
    alive: bool,
}

/// Events, in their order.
struct Arrival {
    at: f64,
    /// The order of sending decides between two at one time.
    order: u64,
    from: HostId,
    to: HostId,
    payload: Payload,
}

/// Hosts, the network between them, and time.
pub struct World {
    /// True time.
    pub now: f64,
    hosts: Vec<Host>,
    network: Network,
    random: Random,
    arrivals: Vec<Arrival>,
    n_sent: u64,
    /// The next whole second, when clocks wander.
    second: f64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Observes the clocks, once a second.
pub trait Observer {
    /// `offset` and `frequency` of each wall clock against true time, in seconds and in seconds per second.
    fn second(&mut self, now: f64, host: HostId, offset: f64, frequency: f64);
    /// A clock was stepped.
    fn stepped(&mut self, _now: f64, _host: HostId, _span: Span) {}
}

impl World {
    /// No program runs here yet.
    #[must_use]
    pub fn new(seed: u64, network: Network) -> Self {
        Self {
            now: 0.0,
            hosts: Vec::new(),
            network,
            random: Random::new(seed),
            arrivals: Vec::new(),
            n_sent: 0,
            second: 1.0,
        }
    }

    /// A host, and its number.
    pub fn add(&mut self, clock: LocalClock, program: Box<dyn Program>) -> HostId {
        self.hosts.push(Host {
            clock,
            program,
            alive: true,
        });
        self.hosts.len() - 1
    }

    /// The time of both clocks of a host.
    #[must_use]
    pub fn reading(&self, host: HostId) -> Reading {
        self.hosts
            .get(host)
            .map_or_else(Reading::default, |host| host.clock.reading())
    }

    /// Wall time less true time of a host.
    #[must_use]
    pub fn offset(&self, host: HostId) -> f64 {
        self.hosts
            .get(host)
            .map_or(0.0, |host| host.clock.offset(self.now))
    }

    /// Datagrams that a host sent as a client.
    #[must_use]
    pub fn n_requests(&self, host: HostId) -> u64 {
        self.hosts
            .get(host)
            .map_or(0, |host| host.program.n_requests())
    }

    /// The estimate of a host's program.
    #[must_use]
    pub fn timekeeper(&self, host: HostId) -> Option<&Timekeeper> {
        self.hosts.get(host)?.program.timekeeper()
    }

    /// The network, to be changed.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The program of a host is gone, its clock is not.
    pub fn kill(&mut self, host: HostId) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.alive = false;
        }
    }

    /// Time passes until `end`.
    pub fn run(&mut self, end: f64, observer: &mut dyn Observer) {
        for host in 0..self.hosts.len() {
            self.act(host, observer);
        }
        while self.now < end {
            let arrival = self
                .arrivals
                .iter()
                .enumerate()
                .min_by(|(_, a), (_, b)| a.at.total_cmp(&b.at).then(a.order.cmp(&b.order)))
                .map(|(index, arrival)| (index, arrival.at));
            let mut next = self.second.min(end);
            let mut timer = None;
            for (index, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.alive) {
                let reading = host.clock.reading();
                if let Some(at) = host.program.poll_timeout(reading) {
                    // The least a clock can tell, so that a timer is never early.
                    let due = host.clock.when(self.now, at) + 1e-9;
                    if due < next {
                        next = due;
                        timer = Some(index);
                    }
                }
            }
            if let Some((index, at)) = arrival
                && at <= next
            {
                self.pass(at.max(self.now));
                let arrival = self.arrivals.swap_remove(index);
                self.deliver(&arrival, observer);
                continue;
            }
            self.pass(next.max(self.now));
            if let Some(index) = timer {
                if let Some(host) = self.hosts.get_mut(index) {
                    let reading = host.clock.reading();
                    host.program.handle_timeout(reading);
                }
                self.act(index, observer);
            } else if self.now >= self.second {
                self.tick(observer);
            }
        }
    }

    /// A second is over.
    fn tick(&mut self, observer: &mut dyn Observer) {
        self.second += 1.0;
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let (offset, frequency) = (host.clock.offset(self.now), host.clock.frequency());
            observer.second(self.now, index, offset, frequency);
            host.clock.wander(self.now, &mut self.random);
        }
    }

    /// Clocks run until `until`.
    fn pass(&mut self, until: f64) {
        let seconds = until - self.now;
        for host in &mut self.hosts {
            host.clock.run(seconds);
        }
        self.now = until;
    }

    fn deliver(&mut self, arrival: &Arrival, observer: &mut dyn Observer) {
        let Some(host) = self.hosts.get_mut(arrival.to).filter(|host| host.alive) else {
            return;
        };
        let reading = host.clock.reading();
        host.program
            .receive(arrival.from, &arrival.payload, reading);
        self.act(arrival.to, observer);
    }

    /// Does what a program wants done.
    fn act(&mut self, index: HostId, observer: &mut dyn Observer) {
        while let Some(action) = self
            .hosts
            .get_mut(index)
            .and_then(|host| host.program.poll_action())
        {
            match action {
                Action::Send { to, payload } => {
                    self.n_sent += 1;
                    let Some(delay) = self.network.delay(index, to, self.now, &mut self.random)
                    else {
                        continue;
                    };
                    self.arrivals.push(Arrival {
                        at: self.now + delay,
                        order: self.n_sent,
                        from: index,
                        to,
                        payload,
                    });
                }
                Action::Rate(parts_per_billion) => {
                    if let Some(host) = self.hosts.get_mut(index) {
                        host.clock.set_rate(parts_per_billion);
                    }
                }
                Action::Arm(leap) => {
                    if let Some(host) = self.hosts.get_mut(index) {
                        host.clock.arm(leap);
                    }
                }
                Action::Step(span) => {
                    if let Some(host) = self.hosts.get_mut(index) {
                        host.clock.step(span);
                    }
                    observer.stepped(self.now, index, span);
                }
            }
        }
    }
}
