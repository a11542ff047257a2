//! Programs of simulated hosts that speak NTP: the whole engine, and a server that answers with the responder.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::direct;
use super::{Action, HostId, Payload, Program};
use ntp::engine::{Engine, Input, Output, SocketId};
use ntp::keys::KeyRing;
use ntp::responder::{Answer, Policy, Request, Responder, Tables};
use random::Random;
use time_model::sample::Stamp;
use time_model::settings::{
    AccessRule, ClientMatch, Host, ServerSettings, Settings, SourceOptions, SourceSettings,
};
use time_model::time::{RawTime, Reading, Span};
use time_model::view::StampSource;
use timekeeper::{Effect, LeapSecond, Note, Reference, Timekeeper};

/// Precision of all clocks in here, about 30 ns.
const PRECISION: i8 = -25;
/// Room for an answer.
const ANSWER: usize = 1024;
/// Memory for clients, in octets.
const CLIENTS: u64 = 65_536;

/// The address of a host.
#[must_use]
pub fn address(host: HostId) -> IpAddr {
    let last = u8::try_from(host + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn host(address: IpAddr) -> HostId {
    match address {
        IpAddr::V4(v4) => usize::from(v4.octets()[3]).saturating_sub(1),
        IpAddr::V6(_) => 0,
    }
}

/// The settings of a source.
#[must_use]
pub fn source(of: HostId, options: &SourceOptions) -> SourceSettings {
    SourceSettings {
        host: Host::Address(address(of)),
        pool: None,
        is_peer: false,
        options: options.clone(),
    }
}

/// A responder on a host.
#[derive(Debug)]
struct Answers {
    responder: Responder,
    policy: Policy,
    tables: Arc<Tables>,
}

impl Answers {
    fn new(seed: u64) -> Self {
        let settings = ServerSettings {
            access: vec![AccessRule {
                allow: true,
                all: true,
                clients: ClientMatch::Everybody,
            }],
            ..ServerSettings::default()
        };
        let tables = Tables::new(CLIENTS, [seed, !seed]);
        Self {
            responder: Responder::new(&tables, random(seed)),
            policy: Policy::new(&settings, Arc::new(KeyRing::new()), PRECISION, |_| {
                Vec::new()
            }),
            tables,
        }
    }

    /// `now` is the time that is served; the kernel stamps, so that it is the same on arrival and when the answer leaves.
    fn answer(
        &mut self,
        from: HostId,
        octets: &[u8],
        reference: &Reference,
        now: Reading,
    ) -> Option<Vec<u8>> {
        let request = Request {
            datagram: octets,
            from: SocketAddr::new(address(from), 1024),
            received: now.wall,
            stamp: StampSource::Kernel,
        };
        let mut out = [0; ANSWER];
        let answer =
            self.responder
                .answer(&request, &self.policy, reference, || now.wall, &mut out);
        match answer {
            Answer::Reply { length, receipt } => {
                if let Some(receipt) = receipt {
                    self.tables
                        .transmitted(receipt, now.wall, StampSource::Kernel);
                }
                out.get(..length).map(<[u8]>::to_vec)
            }
            Answer::Drop(_) => None,
        }
    }
}

fn random(seed: u64) -> Random {
    Random::new((u128::from(seed) << 64 | 0x5EED).to_be_bytes())
}

/// A server of stratum 1 that believes its clock.
#[derive(Debug)]
pub struct Server {
    clock: direct::Server,
    answers: Answers,
    actions: VecDeque<Action>,
}

impl Server {
    /// Believes this clock.
    #[must_use]
    pub fn new(clock: direct::Server, seed: u64) -> Self {
        Self {
            clock,
            answers: Answers::new(seed),
            actions: VecDeque::new(),
        }
    }
}

impl Program for Server {
    fn poll_timeout(&self, _now: Reading) -> Option<RawTime> {
        None
    }

    fn handle_timeout(&mut self, _now: Reading) {}

    fn receive(&mut self, from: HostId, payload: &Payload, now: Reading) {
        let Payload::Question(socket, octets) = payload else {
            return;
        };
        let time = now.wall + Span::from_seconds(self.clock.error);
        let (wall, leap) = self.clock.leap(time);
        let now = Reading { wall, ..now };
        let reference = Reference {
            leap,
            stratum: 1,
            reference_id: 0x4750_5300,
            reference_time: wall,
            root_dispersion: 1e-6,
            at: wall,
            ..Reference::default()
        };
        if let Some(octets) = self.answers.answer(from, octets, &reference, now) {
            self.actions.push_back(Action::Send {
                to: from,
                payload: Payload::Answer(*socket, octets),
            });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

/// A node: the engine, and a responder that gives on its time.
#[derive(Debug)]
pub struct Node {
    engine: Engine,
    answers: Answers,
    address: IpAddr,
    /// The expected server of each open socket.
    sockets: BTreeMap<SocketId, HostId>,
    /// Sockets of peers, to which their own packets come.
    peers: BTreeMap<HostId, SocketId>,
    actions: VecDeque<Action>,
    /// The sample.
    pub notes: Vec<Note>,
    n_requests: u64,
}

impl Node {
    /// Its sources are those of the settings.
    #[must_use]
    pub fn new(settings: &Settings, own: HostId, seed: u64, now: Reading) -> Self {
        let mut node = Self {
            engine: Engine::new(settings, KeyRing::new(), None, random(seed), now),
            answers: Answers::new(!seed),
            address: address(own),
            sockets: BTreeMap::new(),
            peers: BTreeMap::new(),
            actions: VecDeque::new(),
            notes: Vec::new(),
            n_requests: 0,
        };
        node.engine.set_precision(f64::from(PRECISION).exp2());
        node.drain(now);
        node
    }

    /// Leap seconds that it knows.
    pub fn set_leap_table(&mut self, table: &[LeapSecond], now: Reading) {
        self.engine.set_leap_table(table, now);
        self.drain(now);
    }

    /// A datagram came to a socket.
    fn arrived(&mut self, socket: SocketId, octets: &[u8], now: Reading) {
        let stamp = stamp(now);
        let input = Input::Datagram {
            socket,
            octets,
            stamp,
        };
        self.engine.handle(input, now);
        self.drain(now);
    }

    fn drain(&mut self, now: Reading) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send {
                    socket,
                    to,
                    is_peer,
                    octets,
                } => {
                    self.n_requests += 1;
                    let to = host(to.ip());
                    self.sockets.insert(socket, to);
                    if is_peer {
                        self.peers.insert(to, socket);
                    }
                    self.actions.push_back(Action::Send {
                        to,
                        payload: Payload::Question(socket.0, octets),
                    });
                    let stamp = stamp(now);
                    let local = Some(self.address);
                    self.engine.handle(
                        Input::Sent {
                            socket,
                            stamp,
                            local,
                        },
                        now,
                    );
                }
                Output::Close(socket) => {
                    self.sockets.remove(&socket);
                    self.peers.retain(|_, other| *other != socket);
                }
                Output::Clock(Effect::SetRate(rate)) => {
                    self.actions.push_back(Action::Rate(rate));
                    self.engine.applied(rate, now);
                }
                Output::Clock(Effect::Step(span)) => {
                    self.actions.push_back(Action::Step(span));
                    self.answers.tables.forget_stamps();
                }
                Output::Clock(Effect::SetStatus(status)) => {
                    self.actions.push_back(Action::Arm(status.leap));
                }
                Output::Clock(Effect::Note(note)) => self.notes.push(note),
                Output::Clock(Effect::SaveDrift(_) | Effect::GiveUp(_))
                | Output::Resolve(_)
                | Output::Log(_) => {}
            }
        }
    }
}

/// As the kernel stamps.
fn stamp(now: Reading) -> Stamp {
    Stamp {
        wall: now.wall,
        raw: None,
        by: StampSource::Kernel,
        error: 1e-9,
    }
}

impl Program for Node {
    fn poll_timeout(&self, now: Reading) -> Option<RawTime> {
        self.engine.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Reading) {
        self.engine.handle_timeout(now);
        self.drain(now);
    }

    fn receive(&mut self, from: HostId, payload: &Payload, now: Reading) {
        match payload {
            Payload::Question(socket, octets) => {
                if let Some(socket) = self.peers.get(&from) {
                    return self.arrived(*socket, octets, now);
                }
                let reference = self.engine.reference(now);
                if let Some(octets) = self.answers.answer(from, octets, &reference, now) {
                    self.actions.push_back(Action::Send {
                        to: from,
                        payload: Payload::Answer(*socket, octets),
                    });
                }
            }
            Payload::Answer(socket, octets) => {
                let socket = SocketId(*socket);
                if self.sockets.get(&socket) == Some(&from) {
                    self.arrived(socket, octets, now);
                }
            }
            Payload::Request(_) | Payload::Reply(_) => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn n_requests(&self) -> u64 {
        self.n_requests
    }

    fn timekeeper(&self) -> Option<&Timekeeper> {
        Some(self.engine.timekeeper())
    }
}
