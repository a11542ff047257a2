//! Scenarios with known figures of chronyd, and some in which the clock must not diverge.

use super::network::{Congestion, Jitter, Network, Path};
use super::oscillator::LocalClock;
use super::statistics::{Record, Summary, median};
use super::{World, direct, packets};
use time_model::settings::{self, MakeStep, Settings};
use timekeeper::Weighing;

/// A client, its clock, its network and its servers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// A letter or two.
    pub name: &'static str,
    /// The description.
    pub what: &'static str,
    /// The clock is ahead by this many seconds.
    pub offset: f64,
    /// It gains so much in a second.
    pub frequency: f64,
    /// That changes by so much in a second.
    pub wander: f64,
    /// Amplitude and period of a change of frequency with temperature.
    pub wave: Option<(f64, f64)>,
    /// From a second on it gains so much more.
    pub jump: Option<(f64, f64)>,
    /// Between the client and each server.
    pub path: Path,
    /// The error of each server.
    pub servers: &'static [f64],
}

impl Scenario {
    fn clock(&self) -> LocalClock {
        let clock = LocalClock::new(self.offset, self.frequency, self.wander);
        let clock = match self.wave {
            Some((amplitude, period)) => clock.in_temperature(amplitude, period),
            None => clock,
        };
        match self.jump {
            Some((at, more)) => clock.jumping(at, more),
            None => clock,
        }
    }
}

/// Polling intervals: a name, `minpoll` and `maxpoll`.
pub const POLLS: [(i8, i8); 3] = [(6, 10), (4, 6), (0, 3)];
/// The second from which on offsets count.
pub const SETTLED: usize = 4000;
/// Seconds of a run.
pub const DURATION: f64 = 20_000.0;

fn usual() -> Scenario {
    Scenario {
        name: "A",
        what: "1.1 s and 100 ppm wrong, wander 1e-9, 100 µs and exponential 100 µs",
        offset: 1.1,
        frequency: 100e-6,
        wander: 1e-9,
        wave: None,
        jump: None,
        path: Path {
            base: 100e-6,
            jitter: Jitter::Exponential(100e-6),
            ..Path::default()
        },
        servers: &[0.0],
    }
}

fn lan() -> Path {
    Path {
        base: 50e-6,
        jitter: Jitter::Exponential(5e-6),
        ..Path::default()
    }
}

/// Those of which chronyd's figures are known, A to F in three ranges of polling intervals.
#[must_use]
pub fn measured() -> Vec<Scenario> {
    let mild = Scenario {
        name: "B",
        what: "50 ms and 20 ppm wrong, else A",
        offset: 0.05,
        frequency: 20e-6,
        ..usual()
    };
    vec![
        usual(),
        mild.clone(),
        Scenario {
            name: "C",
            what: "local network, 50 µs and exponential 5 µs, else B",
            path: lan(),
            ..mild.clone()
        },
        Scenario {
            name: "D",
            what: "wide area, 20 ms and exponential 2 ms, else B",
            path: Path {
                base: 20e-3,
                jitter: Jitter::Exponential(2e-3),
                ..Path::default()
            },
            ..mild.clone()
        },
        Scenario {
            name: "E",
            what: "wander 1e-8, else B",
            wander: 1e-8,
            ..mild.clone()
        },
        Scenario {
            name: "F",
            what: "four servers, one of them 0.5 s wrong, else B",
            servers: &[0.0, 0.0, 0.5, 0.0],
            ..mild
        },
    ]
}

/// Those of which chronyd's figures are known at polls 4 to 6, G to J.
#[must_use]
pub fn adverse() -> Vec<Scenario> {
    let mild = Scenario {
        offset: 0.05,
        frequency: 20e-6,
        ..usual()
    };
    vec![
        Scenario {
            name: "G",
            what: "heavy tail, 10 µs times the cube of an exponential number",
            path: Path {
                base: 100e-6,
                jitter: Jitter::HeavyTail(10e-6),
                ..Path::default()
            },
            ..mild.clone()
        },
        Scenario {
            name: "H",
            what: "one way congested for 5 of 20 minutes, exponential 2 ms more",
            path: Path {
                congestion: Some(Congestion {
                    period: 1200.0,
                    duration: 300.0,
                    there: Jitter::Exponential(2e-3),
                    back: Jitter::None,
                }),
                ..mild.path.clone()
            },
            ..mild.clone()
        },
        Scenario {
            name: "I",
            what: "temperature, 1 ppm up and down in two hours",
            wave: Some((1e-6, 7200.0)),
            ..mild.clone()
        },
        Scenario {
            name: "J",
            what: "30 % of packets lost",
            path: Path {
                loss: 0.3,
                ..mild.path.clone()
            },
            ..mild
        },
    ]
}

/// Those in which nothing may diverge.
#[must_use]
pub fn endured() -> Vec<Scenario> {
    let mild = Scenario {
        offset: 0.05,
        frequency: 20e-6,
        ..usual()
    };
    vec![
        Scenario {
            name: "K",
            what: "outage of an hour and a half",
            path: Path {
                outage: Some((8000.0, 13_400.0)),
                ..mild.path.clone()
            },
            ..mild.clone()
        },
        Scenario {
            name: "L",
            what: "the outward path becomes 200 µs longer, invisibly",
            path: Path {
                longer: Some((8000.0, 200e-6)),
                ..mild.path.clone()
            },
            ..mild.clone()
        },
        Scenario {
            name: "M",
            what: "noisy neighbour: for 2 of 4 minutes, both ways exponential 5 ms more",
            path: Path {
                congestion: Some(Congestion {
                    period: 240.0,
                    duration: 120.0,
                    there: Jitter::Exponential(5e-3),
                    back: Jitter::Exponential(5e-3),
                }),
                ..mild.path.clone()
            },
            ..mild
        },
    ]
}

/// Those in which chronyd, in clknetsim, was better once, N to P.
#[must_use]
pub fn hard() -> Vec<Scenario> {
    let mild = Scenario {
        offset: 0.05,
        frequency: 20e-6,
        ..usual()
    };
    let busy = |there, back| Path {
        jitter: Jitter::Exponential(10e-6),
        congestion: Some(Congestion {
            period: 1.0,
            duration: 1.0,
            there,
            back,
        }),
        ..mild.path.clone()
    };
    vec![
        Scenario {
            name: "N",
            what: "the way there always waits, exponential 2 ms",
            path: busy(Jitter::Exponential(2e-3), Jitter::None),
            ..mild.clone()
        },
        Scenario {
            name: "O",
            what: "the way back always waits, exponential 2 ms",
            path: busy(Jitter::None, Jitter::Exponential(2e-3)),
            ..mild.clone()
        },
        Scenario {
            name: "P",
            what: "the frequency jumps by 20 ppm",
            jump: Some((4500.0, 20e-6)),
            ..mild
        },
    ]
}

/// Settings of a site: `makestep 1.0 3`.
#[must_use]
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.clock.makestep = Some(MakeStep {
        threshold: 1.0,
        limit: Some(3),
    });
    settings
}

/// Runs a scenario with the whole engine and real packets, in interleaved mode at short intervals.
#[must_use]
pub fn run(scenario: &Scenario, poll: (i8, i8), seed: u64, duration: f64) -> (Record, u64) {
    let clock = scenario.clock();
    let options = settings::SourceOptions {
        minpoll: poll.0,
        maxpoll: poll.1,
        iburst: true,
        xleave: poll.0 < 4,
        ..settings::SourceOptions::default()
    };
    let mut settings = settings();
    let servers = 1..=scenario.servers.len();
    settings.sources = servers
        .map(|host| packets::source(host, &options))
        .collect();
    let node = packets::Node::new(&settings, 0, seed, clock.reading());
    let mut world = World::new(seed, Network::new(scenario.path.clone()));
    let client = world.add(clock, Box::new(node));
    for (seed, error) in (seed..).zip(scenario.servers) {
        let server = packets::Server::new(direct::Server::new(*error), seed);
        world.add(LocalClock::perfect(), Box::new(server));
    }
    let mut record = Record::new(client);
    world.run(duration, &mut record);
    (record, world.n_requests(client))
}

/// Runs a scenario with little more than the timekeeper.
#[must_use]
pub fn run_direct(scenario: &Scenario, poll: (i8, i8), seed: u64, duration: f64) -> (Record, u64) {
    let mut world = World::new(seed, Network::new(scenario.path.clone()));
    let servers: Vec<usize> = (1..=scenario.servers.len()).collect();
    let clock = scenario.clock();
    let options = Weighing {
        minpoll: poll.0,
        maxpoll: poll.1,
        ..Weighing::default()
    };
    let client = direct::Client::new(&settings(), None, &servers, &options, 0, clock.reading());
    let client = world.add(clock, Box::new(client));
    for error in scenario.servers {
        world.add(LocalClock::perfect(), Box::new(direct::Server::new(*error)));
    }
    let mut record = Record::new(client);
    world.run(duration, &mut record);
    (record, world.n_requests(client))
}

/// Runs a scenario with several seeds.
#[must_use]
pub fn summary(scenario: &Scenario, poll: (i8, i8), seeds: std::ops::Range<u64>) -> Summary {
    let runs: Vec<Summary> = seeds
        .map(|seed| {
            let (record, packets) = run(scenario, poll, seed, DURATION);
            record.summary(SETTLED, packets)
        })
        .collect();
    median(&runs)
}
