use health::Schedule;

use super::*;

const LIMITS: Limits = Limits {
    in_flight: 8,
    targets: 100,
    grace: Duration::from_secs(60),
};

fn target(port: u16) -> Target {
    let mut target = Target::tcp(([192, 168, 7, 13], port).into());
    target.schedule = Schedule {
        interval: Duration::from_secs(1),
        fast_interval: Duration::from_millis(200),
        fall: 3,
        ..Schedule::default()
    };
    target
}

fn statement(number: u64, ports: &[u16]) -> Statement {
    Statement {
        subscriber: "test".to_owned(),
        number,
        targets: (1..).zip(ports.iter().map(|port| target(*port))).collect(),
        all: false,
    }
}

/// A monitor, a clock and which ports answer.
struct Site {
    monitor: Monitor,
    now: Now,
    open: BTreeSet<u16>,
    n_probes: usize,
}

impl Site {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to count from, whichever it is"
    )]
    fn new(limits: Limits, restored: Restored) -> Self {
        let now = Now {
            steady: Instant::now(),
            wall: Duration::from_secs(1_000_000),
        };
        Self {
            monitor: Monitor::new(limits, 7, restored, now),
            now,
            open: BTreeSet::new(),
            n_probes: 0,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.steady += time;
        self.now.wall += time;
    }

    /// Runs for so long; each probe is answered after a millisecond.
    fn run(&mut self, time: Duration) {
        let end = self.now.steady + time;
        loop {
            while let Some(probe) = self.monitor.poll(self.now) {
                self.n_probes += 1;
                let good = self.open.contains(&probe.target.address.port());
                let mut after = self.now;
                after.steady += Duration::from_millis(1);
                after.wall += Duration::from_millis(1);
                let finding = Finding {
                    good,
                    reason: if good { "connected" } else { "refused" }.to_owned(),
                    latency: Duration::from_millis(1),
                };
                self.monitor.finish(probe.id, finding, after);
            }
            let next = self.monitor.next_deadline().unwrap_or(end);
            if next >= end {
                self.pass(end - self.now.steady);
                return;
            }
            self.pass((next - self.now.steady).max(Duration::from_millis(1)));
        }
    }

    fn liveness(&self, port: u16) -> Option<Liveness> {
        let id = self.monitor.table().find(&target(port))?;
        Some(self.monitor.table().get(id)?.state.liveness())
    }

    /// What the shell writes to disk.
    fn saved(&self) -> Restored {
        let known = self.monitor.table().entries().map(|entry| Known {
            target: Target::clone(&entry.target),
            liveness: entry.state.liveness(),
            since: entry.since,
            last_check: entry.last_check,
            latency: entry.latency,
            reason: entry.reason.clone(),
        });
        Restored {
            generation: self.monitor.generation() + 1000,
            known: known.collect(),
            rules: self.monitor.table().rules().clone(),
        }
    }
}

fn places(news: &Changes<'_>) -> Vec<(u32, u16)> {
    let entries = news.entries.iter();
    entries
        .map(|(place, entry)| (*place, entry.target.address.port()))
        .collect()
}

#[test]
fn two_subscribers_of_one_target_share_its_probe() {
    let mut site = Site::new(LIMITS, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor
        .state(a, statement(1, &[1, 2]), site.now)
        .unwrap();
    site.monitor
        .state(b, statement(1, &[2, 1]), site.now)
        .unwrap();
    assert_eq!(site.monitor.table().len(), 2);
    site.run(Duration::from_millis(1));
    assert_eq!(site.n_probes, 2);
    assert_eq!(places(&site.monitor.full(a).unwrap()), [(1, 1), (2, 2)]);
    assert_eq!(places(&site.monitor.full(b).unwrap()), [(2, 1), (1, 2)]);
}

#[test]
fn a_subscriber_is_told_what_changed_for_it_and_nothing_else() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open = BTreeSet::from([1, 2, 3]);
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor
        .state(a, statement(9, &[1, 3]), site.now)
        .unwrap();
    site.monitor.state(b, statement(1, &[2]), site.now).unwrap();
    site.run(Duration::from_secs(3));
    let seen = site.monitor.generation();
    assert!(site.monitor.changes(a, seen).is_none());
    site.open.remove(&3);
    site.run(Duration::from_secs(3));
    let news = site.monitor.changes(a, seen).unwrap();
    assert_eq!((news.statement, news.full), (9, false));
    assert_eq!(places(&news), [(2, 3)]);
    assert_eq!(news.generation, site.monitor.generation());
    assert!(site.monitor.changes(b, seen).is_none());
    assert_eq!(site.liveness(3), Some(Liveness::Down));
}

#[test]
fn a_target_stated_twice_is_told_of_at_both_places() {
    let mut site = Site::new(LIMITS, Restored::default());
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[5, 5]), site.now)
        .unwrap();
    assert_eq!(places(&site.monitor.full(id).unwrap()), [(1, 5), (2, 5)]);
    site.monitor
        .state(id, statement(2, &[5]), site.now)
        .unwrap();
    site.run(Duration::from_secs(200));
    assert!(site.liveness(5).is_some(), "it is still held once");
    site.monitor.close(id, site.now);
    site.run(Duration::from_secs(61));
    assert_eq!(site.liveness(5), None);
}

#[test]
fn a_subscriber_that_comes_back_finds_its_targets_as_they_were() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open.insert(1);
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[1]), site.now)
        .unwrap();
    site.run(Duration::from_secs(2));
    site.monitor.close(id, site.now);
    let probed = site.n_probes;
    site.run(Duration::from_secs(30));
    assert!(site.n_probes > probed + 20, "it is still probed");
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[1]), site.now)
        .unwrap();
    let news = site.monitor.full(id).unwrap();
    let [(1, entry)] = news.entries[..] else {
        panic!("{news:?}");
    };
    assert_eq!(entry.state.liveness(), Liveness::Up);
    site.run(Duration::from_secs(90));
    assert_eq!(site.liveness(1), Some(Liveness::Up), "held, so it stays");
    site.monitor.state(id, statement(2, &[]), site.now).unwrap();
    site.run(Duration::from_secs(61));
    assert_eq!(site.liveness(1), None);
    let probed = site.n_probes;
    site.run(Duration::from_secs(10));
    assert_eq!(site.n_probes, probed, "nothing is left to probe");
}

#[test]
fn who_is_shown_everything_holds_nothing_and_sees_targets_come_and_go() {
    let mut site = Site::new(LIMITS, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    let all = Statement {
        all: true,
        ..statement(1, &[7])
    };
    site.monitor.state(a, all, site.now).unwrap();
    site.run(Duration::from_secs(2));
    let seen = site.monitor.generation();
    assert!(site.monitor.changes(a, seen).is_none());
    site.monitor.state(b, statement(1, &[1]), site.now).unwrap();
    let news = site.monitor.changes(a, seen).unwrap();
    assert!(news.full);
    assert_eq!(places(&news), [(1, 7), (0, 1)]);
    let seen = site.monitor.generation();
    site.run(Duration::from_secs(2));
    let news = site.monitor.changes(a, seen).unwrap();
    assert!(!news.full);
    assert_eq!(places(&news), [(0, 1)]);
    site.monitor.close(b, site.now);
    let seen = site.monitor.generation();
    site.run(Duration::from_secs(61));
    assert_eq!(places(&site.monitor.changes(a, seen).unwrap()), [(1, 7)]);
}

#[test]
fn targets_are_bounded_and_those_of_nobody_make_room() {
    let limits = Limits {
        targets: 4,
        ..LIMITS
    };
    let mut site = Site::new(limits, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor
        .state(a, statement(1, &[1, 2, 3]), site.now)
        .unwrap();
    let refused = site.monitor.state(b, statement(1, &[1, 4, 5]), site.now);
    assert_eq!(refused, Err(TooMany { limit: 4 }));
    assert_eq!(site.monitor.table().len(), 3);
    site.monitor.state(a, statement(2, &[1]), site.now).unwrap();
    site.run(Duration::from_secs(1));
    site.monitor
        .state(b, statement(2, &[3, 4, 5]), site.now)
        .unwrap();
    assert_eq!(site.monitor.table().len(), 4);
    assert_eq!(site.liveness(2), None, "nobody asked for it");
    assert!(site.liveness(3).is_some(), "it was asked for again");
}

#[test]
fn at_the_bound_targets_are_changed_for_others_but_not_at_the_cost_of_whom_they_are_shared_with() {
    let limits = Limits {
        targets: 4,
        ..LIMITS
    };
    let mut site = Site::new(limits, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    // The first is in two places of one statement, the last is held by both.
    site.monitor
        .state(a, statement(1, &[1, 1, 2, 3, 4]), site.now)
        .unwrap();
    site.monitor.state(b, statement(1, &[4]), site.now).unwrap();
    let refused = site.monitor.state(a, statement(2, &[5, 6, 7, 8]), site.now);
    assert_eq!(refused, Err(TooMany { limit: 4 }));
    assert_eq!(places(&site.monitor.full(a).unwrap()).len(), 5, "as it was");
    site.monitor
        .state(a, statement(3, &[5, 6, 7]), site.now)
        .unwrap();
    let now = places(&site.monitor.full(a).unwrap());
    assert_eq!(now, [(1, 5), (2, 6), (3, 7)]);
    assert_eq!(places(&site.monitor.full(b).unwrap()), [(1, 4)]);
    assert_eq!(site.monitor.table().len(), 4);
}

#[test]
fn evidence_against_the_state_has_a_probe_run_at_once_and_flips_nothing() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open.insert(1);
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[1]), site.now)
        .unwrap();
    site.run(Duration::from_secs(3));
    site.run(Duration::from_millis(150));
    let probed = site.n_probes;
    assert!(
        !site.monitor.report(&target(1), true, site.now),
        "it agrees"
    );
    assert!(
        !site.monitor.report(&target(2), false, site.now),
        "nobody asks"
    );
    let generation = site.monitor.generation();
    assert!(site.monitor.report(&target(1), false, site.now));
    site.run(Duration::from_millis(101));
    assert_eq!(site.n_probes, probed + 1);
    assert_eq!(site.monitor.generation(), generation);
    for _ in 0..1000 {
        site.monitor.report(&target(1), false, site.now);
        site.run(Duration::from_millis(1));
    }
    assert!(site.n_probes <= probed + 13, "{}", site.n_probes - probed);
}

#[test]
fn a_restart_goes_on_from_where_it_was() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open = BTreeSet::from([1]);
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[1, 2]), site.now)
        .unwrap();
    site.monitor
        .set_admin(Scope::Address([192, 168, 7, 13].into()), AdminState::Drain);
    site.run(Duration::from_secs(5));
    let saved = site.saved();
    let before = site.monitor.generation();

    let mut again = Site::new(LIMITS, saved);
    again.open = BTreeSet::from([2]);
    assert!(again.monitor.generation() > before);
    let id = again.monitor.open(again.now);
    again
        .monitor
        .state(id, statement(1, &[1, 2]), again.now)
        .unwrap();
    let news = again.monitor.full(id).unwrap();
    let states: Vec<_> = news
        .entries
        .iter()
        .map(|(_, entry)| (entry.state.liveness(), entry.state.is_warm(), entry.admin))
        .collect();
    let drained = AdminState::Drain;
    assert_eq!(
        states,
        [
            (Liveness::Up, true, drained),
            (Liveness::Down, true, drained)
        ]
    );
    let seen = again.monitor.generation();
    again.run(Duration::from_millis(10));
    assert_eq!(again.liveness(1), Some(Liveness::Up), "fall is 3");
    assert_eq!(again.liveness(2), Some(Liveness::Up), "rise is 1");
    assert_eq!(places(&again.monitor.changes(id, seen).unwrap()), [(2, 2)]);
    again.run(Duration::from_secs(2));
    assert_eq!(again.liveness(1), Some(Liveness::Down));
}

#[test]
fn what_was_known_before_a_restart_and_nobody_asks_for_is_forgotten() {
    let mut site = Site::new(LIMITS, Restored::default());
    let id = site.monitor.open(site.now);
    site.monitor
        .state(id, statement(1, &[1, 2]), site.now)
        .unwrap();
    site.run(Duration::from_secs(1));
    let mut again = Site::new(LIMITS, site.saved());
    let id = again.monitor.open(again.now);
    again
        .monitor
        .state(id, statement(1, &[1]), again.now)
        .unwrap();
    again.run(Duration::from_secs(61));
    assert!(again.liveness(1).is_some());
    assert_eq!(again.liveness(2), None);
}
