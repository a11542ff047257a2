mod trouble;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::*;
use crate::responder::{Answer, LONGEST_ANSWER, Policy, Request, Responder, Tables};
use time_model::settings::{
    AccessRule, ClientMatch as Who, Host, LogFile, MakeStep, SelectOptions, ServerSettings,
    SourceSettings,
};
use time_model::time::{SECOND, UnixTime};
use time_model::view::{ClockState, Leap, StampSource, View};

/// When everything begins, by true time; the raw clock begins at zero.
const START: i64 = 1_800_000_000 * SECOND;
/// One way to a server, in nanoseconds.
const WAY: i64 = 200_000;

/// A clock that is corrected, servers that answer at once, names that are known.
struct World {
    engine: Engine,
    /// Raw time, which is true time since the start.
    raw: i64,
    wall: f64,
    rate: f64,
    /// By how much each server is ahead of true time, in nanoseconds; none does not answer.
    servers: BTreeMap<IpAddr, Option<i64>>,
    /// What becomes of the answers of some.
    spoils: BTreeMap<IpAddr, fn(&mut [u8])>,
    names: BTreeMap<String, Vec<IpAddr>>,
    /// What arrives: when, where, what.
    flying: Vec<(i64, SocketId, Vec<u8>)>,
    open: BTreeMap<SocketId, SocketAddr>,
    steps: Vec<f64>,
    records: Vec<Record>,
    asked: Vec<String>,
    /// When each request left, and where it went.
    requests: Vec<(i64, IpAddr)>,
}

fn source(host: &str) -> SourceSettings {
    SourceSettings {
        host: Host::parse(host),
        pool: None,
        is_peer: false,
        options: settings::SourceOptions {
            minpoll: 2,
            maxpoll: 4,
            iburst: true,
            ..settings::SourceOptions::default()
        },
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl World {
    /// A local clock that is off by so many seconds.
    fn new(settings: &Settings, off: f64) -> Self {
        let wall = -off * 1e9;
        let now = Reading {
            raw: RawTime(0),
            wall: UnixTime(START + Span::from_seconds(-off).0),
        };
        let random = Random::new([9; 16]);
        Self {
            engine: Engine::new(settings, KeyRing::new(), None, random, now),
            raw: 0,
            wall,
            rate: 0.0,
            servers: BTreeMap::new(),
            spoils: BTreeMap::new(),
            names: BTreeMap::new(),
            flying: Vec::new(),
            open: BTreeMap::new(),
            steps: Vec::new(),
            records: Vec::new(),
            asked: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn with(mut self, host: &str, ahead: Option<f64>) -> Self {
        let ahead = ahead.map(|seconds| Span::from_seconds(seconds).0);
        self.servers.insert(address(host), ahead);
        self
    }

    /// True time less wall time, in seconds.
    fn off(&self) -> f64 {
        -self.wall / 1e9
    }

    #[expect(clippy::cast_possible_truncation, reason = "the wall clock is near")]
    fn now(&self) -> Reading {
        Reading {
            raw: RawTime(self.raw),
            wall: UnixTime(START + self.raw + self.wall as i64),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "spans are short")]
    fn go_on(&mut self, to: i64) {
        self.wall += (to - self.raw) as f64 * self.rate * 1e-9;
        self.raw = to;
    }

    fn run(&mut self, seconds: i64) {
        let end = self.raw + seconds * SECOND;
        loop {
            self.perform();
            let timer = self.engine.poll_timeout(self.now()).map(|at| at.0);
            let packet = self.flying.iter().map(|(at, ..)| *at).min();
            let next = [timer, packet].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.go_on(next.max(self.raw));
            if let Some(place) = self.flying.iter().position(|(at, ..)| *at <= self.raw) {
                let (_, socket, octets) = self.flying.remove(place);
                if self.open.contains_key(&socket) {
                    let stamp = self.stamp();
                    let input = Input::Datagram {
                        socket,
                        octets: &octets,
                        stamp,
                    };
                    self.engine.handle(input, self.now());
                }
            } else {
                self.engine.handle_timeout(self.now());
            }
        }
        self.go_on(end);
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            wall: self.now().wall,
            raw: None,
            by: StampSource::Kernel,
            error: 0.0,
        }
    }

    fn perform(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send {
                    socket, to, octets, ..
                } => self.send(socket, to, &octets),
                Output::Close(socket) => {
                    self.open.remove(&socket).expect("it is open");
                }
                Output::Resolve(name) => {
                    let addresses = self.names.get(&name).cloned().unwrap_or_default();
                    let input = Input::Resolved {
                        name: &name,
                        addresses: &addresses,
                    };
                    self.engine.handle(input, self.now());
                    self.asked.push(name);
                }
                Output::Clock(Effect::SetRate(rate)) => {
                    self.rate = rate;
                    self.engine.applied(rate, self.now());
                }
                Output::Clock(Effect::Step(span)) => {
                    self.wall += span.seconds() * 1e9;
                    self.steps.push(span.seconds());
                }
                Output::Clock(_) => {}
                Output::Log(record) => self.records.push(record),
            }
        }
    }

    fn send(&mut self, socket: SocketId, to: SocketAddr, request: &[u8]) {
        assert!(self.open.insert(socket, to).is_none(), "a number twice");
        self.requests.push((self.raw, to.ip()));
        let input = Input::Sent {
            socket,
            stamp: self.stamp(),
            local: Some(address("198.51.100.1")),
        };
        self.engine.handle(input, self.now());
        let Some(Some(ahead)) = self.servers.get(&to.ip()) else {
            return;
        };
        let there = UnixTime(START + self.raw + WAY + ahead);
        let mut answer = answer(request, there);
        if let Some(spoil) = self.spoils.get(&to.ip()) {
            spoil(&mut answer);
        }
        self.flying.push((self.raw + 2 * WAY, socket, answer));
    }

    fn view(&self) -> View {
        self.engine.view(Vec::new(), self.now())
    }
}

/// What a server of stratum 1 answers.
fn answer(request: &[u8], time: UnixTime) -> Vec<u8> {
    let allow = AccessRule {
        allow: true,
        all: false,
        clients: Who::Everybody,
    };
    let settings = ServerSettings {
        access: vec![allow],
        ..ServerSettings::default()
    };
    let policy = Policy::new(&settings, KeyRing::new().into(), -24, |_| Vec::new());
    let mut responder = Responder::new(&Tables::new(4096, [1, 2]), Random::new([4; 16]));
    let reference = Reference {
        leap: Leap::Normal,
        stratum: 1,
        reference_id: 0x4750_5300,
        reference_time: time - Span(SECOND),
        ..Reference::default()
    };
    let asked = Request {
        datagram: request,
        from: "198.51.100.1:4000".parse().unwrap(),
        received: time,
        stamp: StampSource::Kernel,
    };
    let mut out = [0; LONGEST_ANSWER];
    match responder.answer(&asked, &policy, &reference, || time, &mut out) {
        Answer::Reply { length, .. } => out[..length].to_vec(),
        Answer::Drop(reason) => panic!("{reason:?}"),
    }
}

fn settings(hosts: &[&str]) -> Settings {
    Settings {
        sources: hosts.iter().map(|host| source(host)).collect(),
        ..Settings::default()
    }
}

#[test]
fn the_clock_is_corrected_by_slewing() {
    let mut world = World::new(&settings(&["192.0.2.1"]), 0.3).with("192.0.2.1", Some(0.0));
    world.run(1);
    assert!(
        world.off() < 0.3 - 1e-3,
        "the first sample corrects: {}",
        world.off()
    );
    world.run(120);
    assert!(world.off().abs() < 1e-5, "{}", world.off());
    assert!(world.steps.is_empty());
    let view = world.view();
    assert_eq!(view.state, ClockState::Locked);
    assert_eq!(
        (view.tracking.stratum, view.tracking.reference_id),
        (2, 0xC000_0201)
    );
    assert_eq!(view.tracking.address, Some(address("192.0.2.1")));
    assert_eq!(view.sources[0].state, SourceState::Best);
    assert_eq!(world.engine.reference(world.now()).stratum, 2);
}

#[test]
fn the_clock_is_stepped_where_it_may_be_and_requests_of_before_are_forgotten() {
    let mut settings = settings(&["192.0.2.1", "192.0.2.2"]);
    settings.clock.makestep = Some(MakeStep {
        threshold: 1.0,
        limit: Some(3),
    });
    let mut world = World::new(&settings, 1000.0)
        .with("192.0.2.1", Some(0.0))
        .with("192.0.2.2", Some(0.0));
    world.run(60);
    assert_eq!(world.steps.len(), 1, "{:?}", world.steps);
    assert!((world.steps[0] - 1000.0).abs() < 0.001);
    assert!(world.off().abs() < 1e-4, "{}", world.off());
}

#[test]
fn one_that_lies_is_told_from_three() {
    let hosts = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let mut world = World::new(&settings(&hosts), 0.01)
        .with(hosts[0], Some(0.5))
        .with(hosts[1], Some(0.0))
        .with(hosts[2], Some(1e-5))
        .with(hosts[3], Some(-1e-5));
    world.run(120);
    assert!(world.off().abs() < 1e-4, "{}", world.off());
    let states: Vec<SourceState> = world
        .view()
        .sources
        .iter()
        .map(|source| source.state)
        .collect();
    assert_eq!(states[0], SourceState::Falseticker);
    assert!(states[1..].contains(&SourceState::Best), "{states:?}");
}

#[test]
fn a_server_of_a_name_that_does_not_answer_is_replaced() {
    let mut world = World::new(&settings(&["ntp.example.org"]), 0.0)
        .with("192.0.2.1", None)
        .with("192.0.2.2", Some(0.0));
    let both = vec![address("192.0.2.1"), address("192.0.2.2")];
    world.names.insert("ntp.example.org".to_owned(), both);
    world.run(1);
    assert_eq!(world.asked, ["ntp.example.org"]);
    assert_eq!(world.view().sources[0].address, Some(address("192.0.2.1")));
    world.run(300);
    let view = world.view();
    assert_eq!(view.sources.len(), 1);
    assert_eq!(view.sources[0].address, Some(address("192.0.2.2")));
    assert_eq!(view.sources[0].name, "ntp.example.org");
    assert_eq!(view.state, ClockState::Locked);
    let replaced = Record::Replaced {
        name: "ntp.example.org".to_owned(),
        old: address("192.0.2.1"),
        new: address("192.0.2.2"),
    };
    assert!(world.records.contains(&replaced), "{:?}", world.records);
    assert_eq!(
        world
            .engine
            .title(world.engine.timekeeper().leading().unwrap()),
        "192.0.2.2 (ntp.example.org)"
    );
}

#[test]
fn a_name_without_address_is_counted_and_tried_again() {
    let mut world = World::new(&settings(&["ntp.example.org"]), 0.0).with("192.0.2.1", Some(0.0));
    world.run(10);
    let view = world.view();
    assert_eq!((view.n_unresolved, view.sources.len()), (1, 0));
    world
        .names
        .insert("ntp.example.org".to_owned(), vec![address("192.0.2.1")]);
    world.run(30);
    assert_eq!(world.view().n_unresolved, 0);
    assert_eq!(world.view().state, ClockState::Locked);
}

/// Whether each source is online, and in a burst.
type States = [(bool, bool); 2];

/// Has this done, and looks at what has become of the sources.
#[track_caller]
fn tell(world: &mut World, command: &Command, reply: &Reply, expected: States) {
    let now = world.now();
    assert_eq!(world.engine.command(command, now), *reply, "{command:?}");
    let sources = world.view().sources;
    let states: Vec<(bool, bool)> = sources
        .iter()
        .map(|source| (source.online, source.burst))
        .collect();
    assert_eq!(states, expected, "{command:?}");
}

#[test]
fn commands_reach_the_sources_they_name() {
    const OFF: (bool, bool) = (false, false);
    const ON: (bool, bool) = (true, false);
    let mut world = World::new(&settings(&["192.0.2.1", "203.0.113.1"]), 0.0)
        .with("192.0.2.1", Some(0.0))
        .with("203.0.113.1", Some(0.0));
    world.run(30);
    let net = |text: &str| SourceMatch::Network(text.parse().unwrap());
    let nobody = Command::Offline(net("198.51.100.0/24"));
    tell(&mut world, &nobody, &Reply::NoSuchSource, [ON, ON]);
    let first = Command::Offline(net("192.0.2.0/24"));
    tell(&mut world, &first, &Reply::Done, [OFF, ON]);
    // Who comes online begins with a burst.
    let all = Command::Online(SourceMatch::All);
    tell(&mut world, &all, &Reply::Done, [(true, true), ON]);
    let all = Command::Offline(SourceMatch::All);
    tell(&mut world, &all, &Reply::Done, [OFF, OFF]);
    let burst = |good, total, sources| Command::Burst {
        good,
        total,
        sources,
    };
    let odd = burst(2, 1, SourceMatch::All);
    tell(&mut world, &odd, &Reply::Invalid, [OFF, OFF]);
    let second = burst(2, 4, net("203.0.113.1/32"));
    tell(&mut world, &second, &Reply::Done, [OFF, (false, true)]);
    let polling = |minpoll| Command::SetPolling {
        sources: SourceMatch::All,
        minpoll: Some(minpoll),
        maxpoll: Some(minpoll),
    };
    tell(
        &mut world,
        &polling(99),
        &Reply::Invalid,
        [OFF, (false, true)],
    );
    tell(&mut world, &polling(5), &Reply::Done, [OFF, (false, true)]);
    assert!(world.view().sources.iter().all(|source| source.poll == 5));
}

#[test]
fn a_limit_of_the_polling_interval_takes_the_other_one_along() {
    for (minpoll, maxpoll, poll) in [(Some(8), None, 8), (None, Some(1), 1)] {
        let mut world = World::new(&settings(&["192.0.2.1"]), 0.0).with("192.0.2.1", Some(0.0));
        world.run(30);
        let command = Command::SetPolling {
            sources: SourceMatch::All,
            minpoll,
            maxpoll,
        };
        let now = world.now();
        assert_eq!(world.engine.command(&command, now), Reply::Done);
        world.run(1200);
        assert_eq!(world.view().sources[0].poll, poll, "{command:?}");
    }
}

#[test]
fn what_is_set_of_one_source_holds_for_it_alone() {
    let mut world = World::new(&settings(&["192.0.2.1", "192.0.2.2"]), 0.0)
        .with("192.0.2.1", Some(0.0))
        .with("192.0.2.2", Some(0.0));
    world.run(30);
    let tune = |world: &mut World, host: &str, tuning| {
        let sources = SourceMatch::Network(address(host).into());
        let now = world.now();
        world
            .engine
            .command(&Command::Tune { sources, tuning }, now)
    };
    let noselect = |is_set| Tuning::Select {
        mask: SelectOptions {
            noselect: true,
            ..SelectOptions::default()
        },
        to: SelectOptions {
            noselect: is_set,
            // This does not change.
            prefer: true,
            ..SelectOptions::default()
        },
    };
    let first = "192.0.2.1";
    assert_eq!(tune(&mut world, first, noselect(true)), Reply::Done);
    assert_eq!(
        tune(&mut world, "203.0.113.9", noselect(true)),
        Reply::NoSuchSource
    );
    world.run(300);
    let options = |world: &World| {
        let view = world.view();
        let of = |index: usize| view.sources[index].selection.configured;
        (of(0).noselect, of(0).prefer, of(1).noselect)
    };
    assert_eq!(options(&world), (true, false, false));
    let selected = |world: &World| world.view().sources[0].state != SourceState::Unselectable;
    assert!(!selected(&world), "{:?}", world.view().sources[0]);
    assert_eq!(tune(&mut world, first, noselect(false)), Reply::Done);
    world.run(300);
    assert!(selected(&world), "{:?}", world.view().sources[0]);
    // From here on it is of stratum 9, and counts as half a second off.
    assert_eq!(tune(&mut world, first, Tuning::MinStratum(9)), Reply::Done);
    assert_eq!(tune(&mut world, first, Tuning::Offset(0.5)), Reply::Done);
    world.run(600);
    let view = world.view();
    assert_eq!(view.sources[0].stratum, 9);
    let apart = view.sources[0].measured_offset - view.sources[1].measured_offset;
    assert!((apart.abs() - 0.5).abs() < 0.01, "{apart}");
    // No round trip is so short: nothing is used any more.
    assert_eq!(tune(&mut world, first, Tuning::MaxDelay(1e-9)), Reply::Done);
    world.run(300);
    let n_good = |world: &World| world.view().sources[0].packet.unwrap().n_good;
    let before = n_good(&world);
    world.run(1200);
    assert_eq!(n_good(&world), before);
    // A clock that is not there.
    let sources = SourceMatch::Clock(7);
    let tuning = noselect(true);
    let now = world.now();
    let command = Command::Tune { sources, tuning };
    assert_eq!(world.engine.command(&command, now), Reply::NoSuchSource);
}

#[test]
fn makestep_corrects_at_once_what_is_left() {
    let mut world = World::new(&settings(&["192.0.2.1"]), 0.0).with("192.0.2.1", Some(0.0));
    world.run(60);
    world.wall -= 6e10;
    world.run(30);
    let left = world.off();
    assert!(left > 10.0, "it is slewed: {left}");
    world.engine.command(&Command::MakeStep, world.now());
    world.run(0);
    assert_eq!(world.steps.len(), 1);
    assert!(world.off().abs() < 1e-3, "{}", world.off());
}

#[test]
fn a_reload_takes_sources_away_and_adds_others() {
    let mut world = World::new(&settings(&["192.0.2.1", "192.0.2.2"]), 0.0)
        .with("192.0.2.1", Some(0.0))
        .with("192.0.2.2", Some(0.0))
        .with("192.0.2.3", Some(0.0));
    world.run(30);
    let n_samples = world.view().sources[1].statistics.n_samples;
    assert!(n_samples > 3);
    let after = settings(&["192.0.2.2", "192.0.2.3"]);
    world.engine.configure(&after, KeyRing::new(), world.now());
    world.run(10);
    let view = world.view();
    let hosts: Vec<&str> = view
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    assert_eq!(hosts, ["192.0.2.2", "192.0.2.3"]);
    assert!(
        view.sources[0].statistics.n_samples >= n_samples,
        "it was not disturbed"
    );
    world.run(60);
    assert!(
        world
            .open
            .values()
            .all(|to| to.ip() != address("192.0.2.1"))
    );
}

/// A reference clock and nothing else; the own clock is 20 ms off.
fn beside_a_clock(is_local: bool) -> World {
    let mut settings = Settings::default();
    settings.refclocks.push(RefclockSettings::new(
        settings::RefclockDriver::Shm {
            segment: 0,
            mode: 0o600,
        },
        settings::RefclockOptions {
            reference_id: Some(0x4750_5300),
            local: is_local,
            ..settings::RefclockOptions::default()
        },
        0,
    ));
    World::new(&settings, 0.02)
}

impl World {
    /// The reference clock has something to say, or nothing.
    fn hear_clock(&mut self, has_sample: bool) {
        let made = ClockSample {
            at: RawTime(self.raw),
            ahead: START,
            dispersion: 1e-6,
            delay: 1e-9,
            precision: 1e-6,
            stratum: 0,
            leap: Leap::Normal,
            reference_id: 0x4750_5300,
        };
        let input = Input::ReferenceClock {
            index: 0,
            made: has_sample.then_some(made),
        };
        self.engine.handle(input, self.now());
    }
}

#[test]
fn a_reference_clock_that_is_steady_and_not_right_is_shown_and_not_followed() {
    let mut world = beside_a_clock(true);
    for _ in 0..20 {
        world.hear_clock(true);
        world.run(16);
    }
    let view = world.view();
    assert_eq!(view.sources[0].reach, 0xFF);
    assert_eq!(view.sources[0].state, SourceState::Unselectable);
    assert_eq!((world.rate, world.steps.len()), (0.0, 0), "{}", world.off());
    assert_eq!(view.state, ClockState::Unsynchronised);
}

#[test]
fn a_reference_clock_leads_and_is_lost() {
    let mut world = beside_a_clock(false);
    for second in 0..200 {
        world.hear_clock(second < 100);
        world.run(16);
        if second == 99 {
            let view = world.view();
            assert_eq!(view.sources[0].name, "GPS");
            assert_eq!(
                (view.sources[0].reach, view.sources[0].state),
                (0xFF, SourceState::Best)
            );
            assert_eq!(view.tracking.stratum, 1);
            assert!(world.off().abs() < 1e-5, "{}", world.off());
        }
    }
    let view = world.view();
    assert_eq!(view.sources[0].reach, 0);
    assert_eq!(view.state, ClockState::Holdover);
}

#[test]
fn the_precision_that_was_measured_stays_with_other_settings() {
    let mut settings = settings(&["192.0.2.1"]);
    let mut world = World::new(&settings, 0.0);
    world.engine.set_precision(3e-8);
    for given in [None, Some(1e-6), None] {
        settings.clock.precision = given;
        let now = world.now();
        world.engine.configure(&settings, KeyRing::new(), now);
        let wanted = given.unwrap_or(3e-8);
        assert!((world.engine.precision() - wanted).abs() < 1e-12);
    }
}

#[test]
fn logs_get_what_was_asked_for_and_nothing_else() {
    for is_wanted in [false, true] {
        let mut settings = settings(&["192.0.2.1"]);
        if is_wanted {
            settings.logs.write = [
                LogFile::Measurements,
                LogFile::Selection,
                LogFile::Statistics,
                LogFile::Tracking,
            ]
            .into();
        }
        let mut world = World::new(&settings, 0.0).with("192.0.2.1", Some(0.0));
        world.run(30);
        let count =
            |is: fn(&Record) -> bool| world.records.iter().filter(|record| is(record)).count();
        let counts = [
            count(|record| matches!(record, Record::Measurement(_))),
            count(|record| matches!(record, Record::Selection { .. })),
            count(|record| matches!(record, Record::Statistics(_))),
            count(|record| matches!(record, Record::Tracking(_))),
        ];
        assert_eq!(counts.iter().all(|n| *n > 3), is_wanted, "{counts:?}");
        assert_eq!(counts.iter().all(|n| *n == 0), !is_wanted, "{counts:?}");
    }
}
