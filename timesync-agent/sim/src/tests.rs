mod peers;

use super::direct;
use super::network::{Jitter, Network, Path};
use super::oscillator::{EPOCH, LocalClock, MIDNIGHT};
use super::packets::{Node, Server, source};
use super::scenario::{self, POLLS, Scenario};
use super::statistics::{Record, Summary, median};
use super::{HostId, Observer, World};
use time_model::settings::{
    AccessRule, Bounds, ClientMatch, LeapMode, Local, Settings, SourceOptions,
};
use time_model::time::{SECOND, Span, UnixTime};
use time_model::view::{ClockState, Leap, SourceState};
use timekeeper::LeapSecond;

/// Seconds of a run here: the full ones, of docs/time-accuracy.md, are for a release build.
const SHORT: f64 = 9000.0;
/// The second from which on offsets count.
const SETTLED: usize = 4000;

type Figures = (f64, f64, f64);

/// chronyd 4.3 in the same scenarios: seconds to 1 ms, RMS of the offset in µs, RMS of the frequency in ppb, for each of `POLLS`.
const CHRONYD: [(&str, [Figures; 3]); 6] = [
    (
        "A",
        [(5.0, 123.7, 99.0), (5.0, 21.6, 97.0), (1.0, 10.0, 372.0)],
    ),
    (
        "B",
        [(6.0, 123.6, 100.0), (6.0, 21.9, 102.0), (3.0, 10.0, 373.0)],
    ),
    ("C", [(6.0, 8.2, 47.0), (6.0, 3.5, 50.0), (3.0, 1.2, 62.0)]),
    (
        "D",
        [
            (156.0, 463.0, 205.0),
            (59.0, 183.0, 487.0),
            (7.0, 209.0, 9060.0),
        ],
    ),
    (
        "E",
        [(6.0, 108.7, 668.0), (6.0, 52.9, 614.0), (3.0, 16.7, 695.0)],
    ),
    (
        "F",
        [(7.0, 120.6, 62.0), (7.0, 22.8, 51.0), (4.0, 6.3, 89.0)],
    ),
];
/// The same, RMS of the offset in µs at polls 4 to 6.
const CHRONYD_ADVERSE: [(&str, f64); 4] = [("G", 5.0), ("H", 31.6), ("I", 67.2), ("J", 31.4)];

const SEED: u64 = 501;
/// Runs of each case with servers that lie.
const SEEDS: u64 = 16;

/// As many seeds as usual, unless `SIM_SEEDS` says how many. `SIM_SEED=17` repeats one.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(usual),
    }
}

#[test]
fn the_clock_is_better_than_with_chronyd() {
    for (scenario, (name, figures)) in scenario::measured().iter().zip(CHRONYD) {
        assert_eq!(scenario.name, name);
        for (poll, (to_millisecond, rms, frequency)) in POLLS.into_iter().zip(figures) {
            let summary = median_of(scenario, poll);
            let goal = if name == "D" { 0.9 } else { 0.7 };
            let what = format!("{name} polls {poll:?}: {summary:?}");
            assert!(summary.rms * 1e6 <= goal * rms, "{what}");
            assert!(summary.frequency * 1e9 <= 2.0 * frequency, "{what}");
            assert!(summary.to_millisecond <= to_millisecond, "{what}");
        }
    }
}

/// The median of three seeds.
fn median_of(scenario: &Scenario, poll: (i8, i8)) -> Summary {
    // At long intervals there is little to go by in a short run.
    let duration = if poll.1 > 6 {
        scenario::DURATION
    } else {
        SHORT
    };
    let runs = (SEED..SEED + 3).map(|seed| {
        let (record, packets) = scenario::run(scenario, poll, seed, duration);
        record.summary(SETTLED, packets)
    });
    median(&runs.collect::<Vec<Summary>>())
}

#[test]
fn adversity_is_borne_better_than_by_chronyd() {
    for (scenario, (name, rms)) in scenario::adverse().iter().zip(CHRONYD_ADVERSE) {
        assert_eq!(scenario.name, name);
        let (record, packets) = scenario::run(scenario, (4, 6), SEED, SHORT);
        let summary = record.summary(SETTLED, packets);
        assert!(summary.rms * 1e6 <= rms, "{name} seed {SEED}: {summary:?}");
    }
}

/// chronyd in clknetsim in N to P, RMS of the offset in µs at polls 4 to 6. In P it counted for twice as long after the jump, in
/// which most of the offset is just after it: the root of two more is its figure here.
const CHRONYD_HARD: [(&str, f64); 3] = [
    ("N", 26.4),
    ("O", 29.4),
    ("P", 88.9 * std::f64::consts::SQRT_2),
];

#[test]
fn one_sided_waiting_and_a_jump_of_the_frequency_are_found_out() {
    for (scenario, (name, rms)) in scenario::hard().iter().zip(CHRONYD_HARD) {
        assert_eq!(scenario.name, name);
        let runs = (SEED..SEED + 3).map(|seed| {
            let (record, packets) = scenario::run(scenario, (4, 6), seed, SHORT);
            record.summary(SETTLED, packets)
        });
        let summary = median(&runs.collect::<Vec<Summary>>());
        assert!(summary.rms * 1e6 <= rms, "{name}: {summary:?}");
    }
}

#[test]
fn nothing_makes_the_clock_diverge() {
    for scenario in scenario::endured() {
        let (record, packets) = scenario::run(&scenario, (4, 6), SEED, 16_000.0);
        let summary = record.summary(1000, packets);
        assert!(
            summary.max < 1e-3,
            "{} seed {SEED}: {summary:?}",
            scenario.name
        );
        // And at the end it is as good as before, but for an asymmetry that nobody can see.
        let end = record.summary(15_000, packets);
        let bound = if scenario.name == "L" { 220e-6 } else { 60e-6 };
        assert!(end.max < bound, "{} seed {SEED}: {end:?}", scenario.name);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let scenario: &Scenario = &scenario::adverse()[3];
    let (a, _) = scenario::run(scenario, (4, 6), 7, 600.0);
    let (b, _) = scenario::run(scenario, (4, 6), 7, 600.0);
    let (c, _) = scenario::run(scenario, (4, 6), 8, 600.0);
    assert_eq!(a.offsets(), b.offsets());
    assert_ne!(a.offsets(), c.offsets());
}

#[test]
fn only_the_first_updates_may_step() {
    let scenario = &scenario::measured()[0];
    let (record, _) = scenario::run(scenario, (4, 6), SEED, 3000.0);
    let [(at, _)] = record.steps[..] else {
        panic!("{:?}", record.steps)
    };
    assert!(at < 5.0);
}

//--- Islands

fn lan() -> Path {
    Path {
        base: 50e-6,
        jitter: Jitter::Exponential(20e-6),
        ..Path::default()
    }
}

fn options() -> SourceOptions {
    SourceOptions {
        minpoll: 2,
        maxpoll: 4,
        iburst: true,
        ..SourceOptions::default()
    }
}

/// Asks these hosts.
fn asking(hosts: impl Iterator<Item = HostId>) -> Settings {
    let mut settings = scenario::settings();
    settings.sources = hosts.map(|host| source(host, &options())).collect();
    settings.server.access = vec![AccessRule {
        allow: true,
        all: true,
        clients: ClientMatch::Everybody,
    }];
    settings
}

fn perfect(leap: Leap, seed: u64) -> Box<Server> {
    Box::new(Server::new(direct::Server::new(0.0).announcing(leap), seed))
}

/// Three nodes that name each other, and an upstream server, host 3, that they may all ask.
fn island(upstream_until: f64, seed: u64) -> World {
    let mut world = World::new(seed, Network::new(lan()));
    for (host, (offset, frequency)) in [(0.0, 3e-6), (0.3, -4e-6), (-0.2, 11e-6)]
        .iter()
        .enumerate()
    {
        let clock = LocalClock::new(*offset, *frequency, 1e-9);
        let mut settings = asking((0..4).filter(|other| *other != host));
        settings.local = Some(Local {
            stratum: 10,
            orphan: true,
            ..Local::default()
        });
        let node = Node::new(&settings, host, seed, clock.reading());
        world.add(clock, Box::new(node));
    }
    world.add(LocalClock::perfect(), perfect(Leap::Normal, seed));
    for host in 0..3 {
        let path = Path {
            outage: Some((0.0, upstream_until)),
            ..lan()
        };
        world.network().set(host, 3, path);
    }
    world
}

/// Which clocks were stepped and when, and how slow the slowest ever was, in seconds per second beside true time.
#[derive(Debug, Default)]
struct Watch {
    steps: Vec<(f64, HostId)>,
    slowest: f64,
}

impl Observer for Watch {
    fn second(&mut self, _now: f64, _host: HostId, _offset: f64, frequency: f64) {
        self.slowest = self.slowest.min(frequency);
    }

    fn stepped(&mut self, now: f64, host: HostId, _span: Span) {
        self.steps.push((now, host));
    }
}

fn states(world: &World) -> Vec<ClockState> {
    (0..3)
        .map(|host| world.timekeeper(host).unwrap().state(world.reading(host)))
        .collect()
}

fn strata(world: &World) -> Vec<u8> {
    strata_of(world, 3)
}

fn strata_of(world: &World, n: usize) -> Vec<u8> {
    (0..n)
        .map(|host| {
            world
                .timekeeper(host)
                .unwrap()
                .reference(world.reading(host))
                .stratum
        })
        .collect()
}

#[test]
fn orphans_follow_the_smallest_and_the_next_one_when_it_dies() {
    let mut world = island(f64::INFINITY, 3);
    let mut watch = Watch::default();
    world.run(600.0, &mut watch);
    assert_eq!(strata(&world), [10, 11, 11]);
    assert_eq!(
        states(&world),
        [ClockState::Local, ClockState::Locked, ClockState::Locked]
    );
    let spread = |world: &World, hosts: &[HostId]| {
        let offsets = hosts.iter().map(|host| world.offset(*host));
        let (low, high) = offsets.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        high - low
    };
    assert!(
        spread(&world, &[0, 1, 2]) < 50e-6,
        "{}",
        spread(&world, &[0, 1, 2])
    );
    world.kill(0);
    world.run(1200.0, &mut watch);
    assert_eq!(strata(&world)[1..], [10, 11]);
    assert_eq!(states(&world)[1..], [ClockState::Local, ClockState::Locked]);
    assert!(
        spread(&world, &[1, 2]) < 50e-6,
        "{}",
        spread(&world, &[1, 2])
    );
    assert_eq!(watch.steps, []);
}

#[test]
fn upstream_comes_back_and_nothing_steps() {
    let mut world = island(1500.0, 4);
    let mut watch = Watch::default();
    world.run(1490.0, &mut watch);
    assert_eq!(strata(&world), [10, 11, 11]);
    let before = world.offset(0);
    assert!(before.abs() > 1e-3, "the island went its own way: {before}");
    world.run(2200.0, &mut watch);
    assert_eq!(strata(&world), [2, 2, 2]);
    assert_eq!(watch.steps, []);
    for host in 0..3 {
        assert!(
            world.offset(host).abs() < 100e-6,
            "{host}: {}",
            world.offset(host)
        );
    }
}

#[test]
fn time_is_held_back_and_never_turned_back() {
    let mut world = World::new(5, Network::new(lan()));
    // Less than makestep asks for.
    let clock = LocalClock::new(0.9, 5e-6, 1e-9);
    let node = Node::new(&asking(1..4), 0, 5, clock.reading());
    world.add(clock, Box::new(node));
    for seed in 0..3 {
        world.add(LocalClock::perfect(), perfect(Leap::Normal, seed));
    }
    let mut watch = Watch::default();
    world.run(300.0, &mut watch);
    assert_eq!(watch.steps, []);
    assert!(world.offset(0).abs() < 100e-6, "{}", world.offset(0));
    // maxslewrate, and the error of the oscillator.
    assert!(
        (-0.0835..-0.01).contains(&watch.slowest),
        "{}",
        watch.slowest
    );
}

//--- Leap seconds

fn leap_world(mode: LeapMode, announced: bool, table: bool) -> World {
    let mut world = World::new(9, Network::new(lan()));
    let clock = LocalClock::new(0.001, 5e-6, 1e-9);
    let mut settings = asking(1..4);
    settings.leap.mode = mode;
    let mut node = Node::new(&settings, 0, 9, clock.reading());
    if table {
        let at = clock.reading().wall - Span::from_seconds(0.001) + Span::from_seconds(MIDNIGHT);
        let table = [
            LeapSecond {
                at: UnixTime(1_483_228_800 * SECOND),
                tai_offset: 37,
            },
            LeapSecond { at, tai_offset: 38 },
        ];
        node.set_leap_table(&table, clock.reading());
    }
    world.add(clock, Box::new(node));
    for seed in 0..3 {
        let leap = if announced {
            Leap::Insert
        } else {
            Leap::Normal
        };
        world.add(LocalClock::perfect(), perfect(leap, seed));
    }
    world
}

#[test]
fn a_leap_second_is_inserted_in_every_mode() {
    for mode in [LeapMode::System, LeapMode::Step, LeapMode::Slew] {
        for table in [false, true] {
            let mut world = leap_world(mode, true, table);
            let mut watch = Watch::default();
            world.run(MIDNIGHT - 10.0, &mut watch);
            let told = world
                .timekeeper(0)
                .unwrap()
                .reference(world.reading(0))
                .leap;
            assert_eq!(told, Leap::Insert, "clients are told");
            // The slew of a second takes 12 s.
            world.run(MIDNIGHT + 20.0, &mut watch);
            let offset = world.offset(0) + 1.0;
            assert!(offset.abs() < 100e-6, "{mode:?} {offset}");
            let n_steps = usize::from(mode == LeapMode::Step);
            assert_eq!(watch.steps.len(), n_steps, "{mode:?}: {:?}", watch.steps);
            world.run(MIDNIGHT + 2000.0, &mut watch);
            let offset = world.offset(0) + 1.0;
            assert!(offset.abs() < 100e-6, "{mode:?} {offset}");
            let told = world
                .timekeeper(0)
                .unwrap()
                .reference(world.reading(0))
                .leap;
            assert_eq!(told, Leap::Normal);
        }
    }
}

//--- Selection

#[test]
fn a_falseticker_is_found_out_and_never_followed() {
    let scenario = Scenario {
        servers: &[0.7, 0.0, 0.0],
        ..scenario::measured()[5].clone()
    };
    let (record, _) = scenario::run(&scenario, (4, 6), SEED, 1000.0);
    let worst = record
        .offsets()
        .iter()
        .skip(30)
        .fold(0.0, |max: f64, x| max.max(x.abs()));
    assert!(worst < 200e-6, "{worst}");
}

#[test]
fn an_outage_is_holdover_and_its_uncertainty_grows() {
    let mut world = World::new(
        5,
        Network::new(Path {
            outage: Some((1000.0, 4000.0)),
            ..lan()
        }),
    );
    let clock = LocalClock::new(0.02, 5e-6, 1e-9);
    let node = Node::new(&asking(1..2), 0, 5, clock.reading());
    world.add(clock, Box::new(node));
    world.add(LocalClock::perfect(), perfect(Leap::Normal, 5));
    let mut record = Record::new(0);
    world.run(999.0, &mut record);
    assert_eq!(
        world.timekeeper(0).unwrap().state(world.reading(0)),
        ClockState::Locked
    );
    let dispersion = |world: &World| {
        let timekeeper = world.timekeeper(0).unwrap();
        timekeeper.reference(world.reading(0)).root_dispersion
    };
    world.run(2000.0, &mut record);
    assert_eq!(
        world.timekeeper(0).unwrap().state(world.reading(0)),
        ClockState::Holdover
    );
    let early = dispersion(&world);
    world.run(3999.0, &mut record);
    // maxclockerror: 1 ppm.
    assert!(dispersion(&world) - early > 1999e-6);
    assert!(world.offset(0).abs() < dispersion(&world));
    world.run(4300.0, &mut record);
    assert_eq!(
        world.timekeeper(0).unwrap().state(world.reading(0)),
        ClockState::Locked
    );
    let mut view = time_model::view::SourceView::default();
    let timekeeper = world.timekeeper(0).unwrap();
    let leading = timekeeper.leading().unwrap();
    timekeeper.source(leading, world.reading(0), &mut view);
    assert_eq!(view.state, SourceState::Best);
    assert!(view.statistics.n_samples > 30 && view.statistics.n_runs > 5);
}

//--- Servers that lie

/// A minority of servers that is an hour ahead, and how far the clock was off from true time.
struct Liars {
    false_servers: usize,
    true_servers: usize,
    /// Round trips of both, in seconds.
    near: f64,
    far: f64,
    /// True servers are silent until this second.
    late: f64,
    /// False servers are away from the first second to the other.
    away: Option<(f64, f64)>,
    /// False servers agree with each other.
    collude: bool,
    iburst: bool,
    /// What false servers are ahead, in seconds.
    lie: f64,
    bounds: Bounds,
}

impl Default for Liars {
    fn default() -> Self {
        Self {
            false_servers: 2,
            true_servers: 3,
            near: 0.001,
            far: 0.02,
            late: 0.0,
            away: None,
            collude: true,
            iburst: true,
            lie: LIE,
            bounds: Bounds::default(),
        }
    }
}

/// The largest offset of a host in a run, and the last one.
#[derive(Default)]
struct Worst {
    largest: f64,
    last: f64,
    n_steps: usize,
}

impl Observer for Worst {
    fn second(&mut self, _now: f64, host: HostId, offset: f64, _frequency: f64) {
        if host == 0 {
            self.largest = self.largest.max(offset.abs());
            self.last = offset;
        }
    }

    fn stepped(&mut self, _now: f64, host: HostId, _span: Span) {
        self.n_steps += usize::from(host == 0);
    }
}

/// One hour: what false servers are ahead.
const LIE: f64 = 3600.0;
impl Liars {
    fn run(&self, seed: u64, seconds: f64) -> Worst {
        let path = |round_trip: f64| Path {
            base: round_trip / 2.0,
            jitter: Jitter::Exponential(round_trip / 20.0),
            ..Path::default()
        };
        let mut world = World::new(seed, Network::new(path(self.far)));
        let clock = LocalClock::new(0.0, 5e-6, 1e-9);
        let n_servers = self.false_servers + self.true_servers;
        let mut settings = asking(1..=n_servers);
        settings.bounds = self.bounds;
        for source in &mut settings.sources {
            source.options.iburst = self.iburst;
            source.options.minpoll = 6;
            source.options.maxpoll = 6;
        }
        let node = Node::new(&settings, 0, seed, clock.reading());
        world.add(clock, Box::new(node));
        for server in 1..=n_servers {
            let is_false = server <= self.false_servers;
            let error = match (is_false, self.collude) {
                (true, true) => self.lie,
                (true, false) => self.lie * server as f64,
                (false, _) => 0.0,
            };
            world.add(
                LocalClock::perfect(),
                Box::new(Server::new(
                    direct::Server::new(error),
                    seed + server as u64,
                )),
            );
            let outage = match is_false {
                true => self.away,
                false => (self.late > 0.0).then_some((0.0, self.late)),
            };
            let of = path(if is_false { self.near } else { self.far });
            world.network().set(0, server, Path { outage, ..of });
        }
        let mut worst = Worst::default();
        world.run(seconds, &mut worst);
        worst
    }
}

/// The clock of these runs begins within this of true time, and stays there.
const TRUE: f64 = 0.1;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn sim_a_minority_of_false_servers_never_sets_the_clock() {
    let base = Liars::default;
    let cases = [
        ("2 of 5, near", base()),
        (
            "2 of 5, each with a time of its own",
            Liars {
                collude: false,
                ..base()
            },
        ),
        (
            "2 of 5, as far as the others",
            Liars {
                near: 0.02,
                ..base()
            },
        ),
        (
            "2 of 5, without iburst",
            Liars {
                iburst: false,
                ..base()
            },
        ),
        (
            "2 of 5, and the others 4 s late",
            Liars {
                late: 4.0,
                ..base()
            },
        ),
        (
            "2 of 5, leaving and returning",
            Liars {
                away: Some((5.0, 30.0)),
                ..base()
            },
        ),
        (
            "3 of 7, near",
            Liars {
                false_servers: 3,
                true_servers: 4,
                ..base()
            },
        ),
        (
            "1 of 3, near",
            Liars {
                false_servers: 1,
                true_servers: 2,
                ..base()
            },
        ),
        (
            "1 of 3, and the others 4 s late",
            Liars {
                false_servers: 1,
                true_servers: 2,
                late: 4.0,
                ..base()
            },
        ),
    ];
    for (name, liars) in cases {
        for seed in seeds(SEEDS) {
            let worst = liars.run(seed, 200.0);
            assert!(
                worst.largest < TRUE,
                "{name}, seed {seed}: {} s off, {} steps",
                worst.largest,
                worst.n_steps
            );
        }
    }
}

/// Ten years, in seconds.
const TEN_YEARS: f64 = 3650.0 * 86_400.0;

#[test]
fn sim_servers_that_give_an_impossible_time_are_never_followed() {
    let day = Span(86_400 * SECOND);
    let bounds = Bounds {
        not_before: Some(EPOCH - day),
        not_after: Some(EPOCH + Span::from_seconds(TEN_YEARS / 2.0)),
    };
    // All servers lie alike, or more than half of them.
    for (n_false, n_true) in [(1, 0), (3, 0), (3, 2)] {
        for lie in [-TEN_YEARS, TEN_YEARS] {
            let liars = |bounds| Liars {
                false_servers: n_false,
                true_servers: n_true,
                lie,
                bounds,
                ..Liars::default()
            };
            for seed in seeds(SEEDS) {
                let (bounded, unbounded) = (
                    liars(bounds).run(seed, 200.0),
                    liars(Bounds::default()).run(seed, 200.0),
                );
                let case = format!("{n_false} of {}, {lie} s, seed {seed}", n_false + n_true);
                assert!(bounded.largest < TRUE, "{case}: {} s off", bounded.largest);
                assert!(unbounded.largest > TEN_YEARS / 2.0, "{case}: no lie");
            }
        }
    }
}

#[test]
fn sim_what_a_minority_has_set_alone_is_set_right_by_the_majority() {
    // The true servers answer when the first burst of all is over: until then nothing contradicts the false one.
    let liars = Liars {
        false_servers: 1,
        true_servers: 2,
        late: 20.0,
        ..Liars::default()
    };
    for seed in seeds(SEEDS) {
        let worst = liars.run(seed, 400.0);
        assert!(worst.largest > LIE / 2.0, "seed {seed}: it was never off");
        assert!(
            worst.last.abs() < TRUE,
            "seed {seed}: {} s off at the end",
            worst.last
        );
    }
}
