//! Random subscribers with random deviations, over random results.
//!
//! | always |
//! | --- |
//! | one stream of probes a target: never two at once, and never more often than the shortest interval stated |
//! | a subscriber without a deviation sees exactly the state of the target |
//! | every view is what the state machine makes of the results since the view began |
//! | a subscriber that has heard the newest generation has the newest states |

use health::Schedule;

use super::*;
use crate::target_state::TargetState;

/// A view, computed from the results alone.
#[derive(Clone, Copy, Debug)]
struct Model {
    state: TargetState,
    schedule: Schedule,
}

struct Simulation {
    seed: u64,
    random: u64,
    monitor: Monitor,
    now: Now,
    schedules: Schedules,
    models: BTreeMap<Watched, Model>,
    /// Each subscriber, with what it has heard: the generation, and the liveness of each place.
    heard: BTreeMap<SubscriberId, (u64, BTreeMap<u32, Liveness>)>,
    /// What each subscriber states.
    stated: BTreeMap<SubscriberId, Vec<Watched>>,
    running: BTreeMap<TargetId, (Instant, bool, Duration)>,
    started: BTreeMap<TargetId, Instant>,
    n_numbers: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let limits = Limits {
            grace: Duration::from_secs(3600),
            targets: 1000,
            ..LIMITS
        };
        let site = Site::new(limits, Restored::default());
        Self {
            seed,
            random: seed,
            monitor: site.monitor,
            now: site.now,
            schedules: schedules(),
            models: BTreeMap::new(),
            heard: BTreeMap::new(),
            stated: BTreeMap::new(),
            running: BTreeMap::new(),
            started: BTreeMap::new(),
            n_numbers: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below
    }

    fn deviation(&mut self) -> Deviation {
        let mut maybe = |least: u64, most: u64| {
            let value = least + self.draw(most - least);
            (self.draw(2) == 0).then_some(value)
        };
        let millis = |count: Option<u64>| count.map(Duration::from_millis);
        let count = |count: Option<u64>| count.map(|count| u32::try_from(count).unwrap());
        Deviation {
            interval: millis(maybe(1, 3000)),
            fast_interval: millis(maybe(1, 500)),
            timeout: millis(maybe(1, 60)),
            rise: count(maybe(1, 4)),
            fall: count(maybe(1, 4)),
        }
    }

    /// One subscriber comes, goes or states something else.
    fn restate(&mut self) {
        let id = match self.draw(4) {
            0 => {
                let id = self.monitor.open(self.now);
                self.heard.insert(id, (0, BTreeMap::new()));
                id
            }
            choice => {
                let n_subscribers = u64::try_from(self.heard.len()).unwrap().max(1);
                let nth = usize::try_from(self.draw(n_subscribers)).unwrap();
                let Some(id) = self.heard.keys().nth(nth).copied() else {
                    return;
                };
                if choice == 1 {
                    self.monitor.close(id, self.now);
                    self.heard.remove(&id);
                    self.stated.remove(&id);
                    return;
                }
                id
            }
        };
        let n_targets = self.draw(5);
        let stated: Vec<Watched> = (0..n_targets)
            .map(|_| {
                let port = u16::try_from(1 + self.draw(6)).unwrap();
                let deviation = match self.draw(2) {
                    0 => Deviation::NONE,
                    _ => self.deviation(),
                };
                Watched {
                    target: target(port),
                    deviation,
                }
            })
            .collect();
        self.n_numbers += 1;
        let statement = Statement {
            subscriber: "simulated".to_owned(),
            number: self.n_numbers,
            targets: (1..).zip(stated.iter().cloned()).collect(),
            all: false,
        };
        for watched in &stated {
            let site = self.schedules.of(&watched.target);
            let target = Watched::from(watched.target.clone());
            let own = self.models.entry(target).or_insert_with(|| Model {
                state: TargetState::default(),
                schedule: site,
            });
            let state = own.state;
            self.models.entry(watched.clone()).or_insert_with(|| Model {
                state,
                schedule: site.with(&watched.deviation),
            });
        }
        self.monitor.state(id, statement, self.now);
        self.stated.insert(id, stated);
        let full = self.monitor.full(id).unwrap();
        let states = full.entries.iter();
        let states = states.map(|(place, seen)| (*place, seen.state().liveness()));
        self.heard.insert(id, (full.generation, states.collect()));
    }

    /// The site's schedule becomes another one.
    fn reload(&mut self) {
        let draws = [self.draw(1000), self.draw(3), self.draw(3)];
        let count = |draw: u64| 1 + u32::try_from(draw).unwrap();
        self.schedules.site.interval = Duration::from_millis(200 + draws[0]);
        self.schedules.site.rise = count(draws[1]);
        self.schedules.site.fall = count(draws[2]);
        self.monitor.set_schedules(self.schedules.clone(), self.now);
        for (watched, model) in &mut self.models {
            let site = self.schedules.of(&watched.target);
            model.schedule = site.with(&watched.deviation);
        }
    }

    fn start_probes(&mut self) {
        while let Some(probe) = self.monitor.poll(self.now) {
            let before = self.started.insert(probe.id, self.now.steady);
            if let Some(before) = before {
                let apart = self.now.steady - before;
                let least = Schedule::MIN_INTERVAL.mul_f64(0.9);
                assert!(apart >= least, "{apart:?} apart: seed {}", self.seed);
            }
            let takes = Duration::from_millis(1 + self.draw(40));
            let good = self.draw(3) != 0;
            let end = self.now.steady + takes;
            let other = self.running.insert(probe.id, (end, good, takes));
            assert!(other.is_none(), "probed twice at once: seed {}", self.seed);
        }
    }

    fn end_probes(&mut self) {
        let ended = self.running.iter();
        let ended: Vec<TargetId> = ended
            .filter(|(_, (end, _, _))| *end <= self.now.steady)
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            let (_, good, latency) = self.running.remove(&id).unwrap();
            let of = Target::clone(&self.monitor.table().get(id).unwrap().target);
            for (watched, model) in &mut self.models {
                if watched.target != of {
                    continue;
                }
                let is_view = !watched.deviation.is_none();
                let late = is_view && latency > model.schedule.timeout;
                let found = match good && !late {
                    true => Liveness::Up,
                    false => Liveness::Down,
                };
                let Schedule { rise, fall, .. } = model.schedule;
                model.state.judge(found, rise, fall);
            }
            let finding = Finding {
                good,
                reason: String::new(),
                latency,
            };
            self.monitor.finish(id, finding, self.now);
        }
    }

    fn check(&mut self) {
        for (id, (generation, states)) in &mut self.heard {
            if let Some(changes) = self.monitor.changes(*id, *generation) {
                *generation = changes.generation;
                for (place, seen) in &changes.entries {
                    states.insert(*place, seen.state().liveness());
                }
            }
            assert_eq!(*generation, self.monitor.generation(), "seed {}", self.seed);
            let stated = self.stated.get(id).into_iter().flatten();
            for (place, watched) in (1..).zip(stated) {
                let model = self.models[watched].state;
                let heard = states.get(&place).copied();
                assert_eq!(
                    heard,
                    Some(model.liveness()),
                    "{watched}: seed {}",
                    self.seed
                );
            }
        }
        for (watched, model) in &self.models {
            let key = self.monitor.table().find_watched(watched).unwrap();
            let seen = self.monitor.table().seen(key).unwrap();
            assert_eq!(seen.state(), model.state, "{watched}: seed {}", self.seed);
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.draw(40) {
                0 => self.restate(),
                1 => self.reload(),
                2 | 3 => {
                    let port = u16::try_from(1 + self.draw(6)).unwrap();
                    let success = self.draw(2) == 0;
                    self.monitor.report(&target(port), success, self.now);
                }
                _ => {}
            }
            self.start_probes();
            let step = Duration::from_millis(1 + self.draw(30));
            self.now.steady += step;
            self.now.wall += step;
            self.end_probes();
            self.check();
        }
        assert!(self.monitor.table().len() <= 6, "one record a target");
    }
}

#[test]
fn every_view_is_what_the_results_make_of_it() {
    let seeds = match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=16).collect(),
    };
    for seed in seeds {
        let mut simulation = Simulation::new(seed);
        simulation.run(2000);
        let n_views = simulation.monitor.table().n_views();
        assert!(n_views > 3, "{n_views} views: seed {seed}");
    }
}
