use health::{AdminState, Deviation, Schedule, Terms};

use super::*;

const LIMITS: Limits = Limits {
    in_flight: 8,
    targets: 100,
    grace: Duration::from_secs(60),
};

fn target(port: u16) -> Target {
    Target::tcp(([192, 168, 7, 13], port).into())
}

fn schedules() -> Schedules {
    let site = Schedule {
        interval: Duration::from_secs(1),
        fast_interval: Duration::from_millis(200),
        rise: 1,
        fall: 3,
        ..Schedule::default()
    };
    Schedules {
        site,
        ..Schedules::default()
    }
}

fn statement(number: u64, ports: &[u16]) -> Statement {
    Statement {
        subscriber: "test".to_owned(),
        number,
        targets: (1..)
            .zip(ports.iter().map(|port| target(*port).into()))
            .collect(),
        all: false,
    }
}

fn deviating(number: u64, port: u16, deviation: Deviation) -> Statement {
    let target = target(port);
    Statement {
        targets: vec![(1, Watched { target, deviation })],
        ..statement(number, &[])
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
            monitor: Monitor::new(limits, schedules(), 7, restored, now),
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
        .map(|(place, seen)| (*place, seen.entry.target.address.port()))
        .collect()
}

#[test]
fn two_subscribers_of_one_target_share_its_probe() {
    let mut site = Site::new(LIMITS, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor.state(a, statement(1, &[1, 2]), site.now);
    site.monitor.state(b, statement(1, &[2, 1]), site.now);
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
    site.monitor.state(a, statement(9, &[1, 3]), site.now);
    site.monitor.state(b, statement(1, &[2]), site.now);
    site.run(Duration::from_secs(3));
    let seen = site.monitor.generation();
    assert!(site.monitor.changes(a, seen).is_none());
    site.open.remove(&3);
    site.run(Duration::from_secs(3));
    let news = site.monitor.changes(a, seen).unwrap();
    assert_eq!((news.statement, news.full), (9, false));
    assert_eq!(places(&news), [(2, 3)]);
    assert_eq!(news.generation, site.monitor.generation());
    let others = site.monitor.changes(b, seen).unwrap();
    assert_eq!(places(&others), [], "the generation alone");
    assert_eq!(others.generation, news.generation);
    assert_eq!(site.liveness(3), Some(Liveness::Down));
}

#[test]
fn a_target_stated_twice_is_told_of_at_both_places() {
    let mut site = Site::new(LIMITS, Restored::default());
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[5, 5]), site.now);
    assert_eq!(places(&site.monitor.full(id).unwrap()), [(1, 5), (2, 5)]);
    site.monitor.state(id, statement(2, &[5]), site.now);
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
    site.monitor.state(id, statement(1, &[1]), site.now);
    site.run(Duration::from_secs(2));
    site.monitor.close(id, site.now);
    let probed = site.n_probes;
    site.run(Duration::from_secs(30));
    assert!(site.n_probes > probed + 20, "it is still probed");
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1]), site.now);
    let news = site.monitor.full(id).unwrap();
    let [(1, seen)] = news.entries[..] else {
        panic!("{news:?}");
    };
    assert_eq!(seen.state().liveness(), Liveness::Up);
    site.run(Duration::from_secs(90));
    assert_eq!(site.liveness(1), Some(Liveness::Up), "held, so it stays");
    site.monitor.state(id, statement(2, &[]), site.now);
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
    site.monitor.state(a, all, site.now);
    site.run(Duration::from_secs(2));
    let seen = site.monitor.generation();
    assert!(site.monitor.changes(a, seen).is_none());
    site.monitor.state(b, statement(1, &[1]), site.now);
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
fn a_statement_of_too_many_is_served_for_those_that_fit_and_the_others_by_name() {
    let limits = Limits {
        targets: 4,
        ..LIMITS
    };
    let mut site = Site::new(limits, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor.state(a, statement(1, &[1, 2, 3]), site.now);
    let n_waiting = site.monitor.state(b, statement(1, &[1, 4, 5, 6]), site.now);
    assert_eq!(n_waiting, 2);
    let news = site.monitor.full(b).unwrap();
    assert_eq!(places(&news), [(1, 1), (2, 4)]);
    let waiting: Vec<u32> = news.waiting.iter().map(|(place, _)| *place).collect();
    assert_eq!(waiting, [3, 4]);
    let subscriber = site.monitor.subscribers().last().unwrap();
    assert_eq!((subscriber.n_targets(), subscriber.n_waiting()), (2, 2));
    let named: Vec<String> = subscriber.waiting().map(ToString::to_string).collect();
    assert_eq!(named, ["tcp 192.168.7.13:5", "tcp 192.168.7.13:6"]);
    // Targets without a holder make room, one after the other, and `b` hears of it.
    let seen = site.monitor.generation();
    site.monitor.state(a, statement(2, &[1, 3]), site.now);
    assert_eq!(site.liveness(2), None, "nobody asked for it");
    assert_eq!(places(&site.monitor.changes(b, seen).unwrap()), [(3, 5)]);
    site.monitor.close(a, site.now);
    assert_eq!(places(&site.monitor.full(b).unwrap()).len(), 4);
    assert_eq!(site.monitor.table().len(), 4);
    assert!(site.monitor.full(b).unwrap().waiting.is_empty());
    site.monitor.state(b, statement(2, &[3, 4, 5]), site.now);
    assert_eq!(site.monitor.table().len(), 4);
    assert!(site.liveness(3).is_some(), "it was asked for again");
    assert_eq!(site.liveness(1), None, "the first that nobody asked for");
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
        .state(a, statement(1, &[1, 1, 2, 3, 4]), site.now);
    site.monitor.state(b, statement(1, &[4]), site.now);
    assert_eq!(places(&site.monitor.full(a).unwrap()).len(), 5);
    let n_waiting = site.monitor.state(a, statement(2, &[5, 6, 7, 8]), site.now);
    assert_eq!(n_waiting, 1);
    let now = places(&site.monitor.full(a).unwrap());
    assert_eq!(now, [(1, 5), (2, 6), (3, 7)]);
    assert_eq!(places(&site.monitor.full(b).unwrap()), [(1, 4)]);
    assert_eq!(site.monitor.table().len(), 4);
    let higher = Limits {
        targets: 5,
        ..LIMITS
    };
    site.monitor.set_limits(higher, site.now);
    assert_eq!(places(&site.monitor.full(a).unwrap()).len(), 4);
}

#[test]
fn a_view_counts_as_a_target_and_is_kept_for_a_while() {
    let limits = Limits {
        targets: 2,
        ..LIMITS
    };
    let mut site = Site::new(limits, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    let strict = Deviation {
        fall: Some(1),
        ..Deviation::NONE
    };
    assert_eq!(site.monitor.state(a, deviating(1, 1, strict), site.now), 0);
    assert_eq!(site.monitor.state(b, statement(1, &[2]), site.now), 1);
    site.monitor.state(b, statement(2, &[]), site.now);
    site.open.insert(1);
    site.run(Duration::from_secs(2));
    site.open.remove(&1);
    let liveness = |site: &Site, id| {
        let news = site.monitor.full(id).unwrap();
        news.entries[0].1.state().liveness()
    };
    while liveness(&site, a) == Liveness::Up {
        site.run(Duration::from_millis(50));
    }
    assert_eq!(site.liveness(1), Some(Liveness::Up), "fall is 3");
    site.monitor.close(a, site.now);
    let a = site.monitor.open(site.now);
    site.monitor.state(a, deviating(1, 1, strict), site.now);
    assert_eq!(liveness(&site, a), Liveness::Down, "as it was");
    site.monitor.state(a, statement(2, &[1]), site.now);
    site.run(Duration::from_secs(61));
    assert_eq!(site.monitor.table().n_views(), 0, "forgotten");
    assert!(site.liveness(1).is_some(), "held, so it stays");
}

#[test]
fn a_deviation_tightens_the_one_stream_of_probes_as_long_as_it_is_held() {
    let mut site = Site::new(LIMITS, Restored::default());
    let (a, b) = (site.monitor.open(site.now), site.monitor.open(site.now));
    site.monitor.state(a, statement(1, &[1]), site.now);
    site.open.insert(1);
    site.run(Duration::from_secs(2));
    let within = |site: &mut Site, time| {
        let before = site.n_probes;
        site.run(Duration::from_secs(time));
        site.n_probes - before
    };
    let usual = within(&mut site, 20);
    assert!((20..=23).contains(&usual), "{usual}");
    let hasty = Deviation {
        interval: Some(Duration::from_millis(1)),
        ..Deviation::NONE
    };
    site.monitor.state(b, deviating(1, 1, hasty), site.now);
    let tight = within(&mut site, 20);
    assert!((190..=223).contains(&tight), "not below the least: {tight}");
    site.monitor.close(b, site.now);
    let again = within(&mut site, 20);
    assert!((19..=24).contains(&again), "{again}");
}

#[test]
fn another_schedule_of_the_site_applies_at_once_and_forgets_nothing() {
    let mut site = Site::new(LIMITS, Restored::default());
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1, 2]), site.now);
    site.open.insert(1);
    site.run(Duration::from_secs(3));
    let before = site.n_probes;
    let slow = |interval, fall| Schedules {
        site: Schedule {
            interval: Duration::from_secs(interval),
            fall,
            ..schedules().site
        },
        ..Schedules::default()
    };
    let seen = site.monitor.generation();
    site.monitor.set_schedules(slow(3600, 1), site.now);
    assert_eq!(places(&site.monitor.changes(id, seen).unwrap()).len(), 2);
    assert_eq!(site.liveness(1), Some(Liveness::Up));
    assert_eq!(site.liveness(2), Some(Liveness::Down));
    site.run(Duration::from_secs(60));
    assert_eq!(site.n_probes, before + 2, "the probes that were due");
    site.open.remove(&1);
    site.monitor.set_schedules(slow(1, 1), site.now);
    site.run(Duration::from_millis(10));
    assert_eq!(site.liveness(1), Some(Liveness::Down), "it is overdue now");
}

#[test]
fn evidence_against_the_state_has_a_probe_run_at_once_and_flips_nothing() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open.insert(1);
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1]), site.now);
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
fn evidence_is_confirmed_a_tenth_of_a_second_apart() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open.insert(1);
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1]), site.now);
    site.run(Duration::from_secs(3));
    // Long after the last probe, and long before the next one.
    while site.monitor.next_deadline() < Some(site.now.steady + Duration::from_millis(700)) {
        site.run(Duration::from_millis(50));
    }
    site.open.remove(&1);
    assert!(site.monitor.report(&target(1), false, site.now));
    site.run(Duration::from_millis(205));
    assert_eq!(site.liveness(1), Some(Liveness::Up), "fall is 3");
    site.run(Duration::from_millis(100));
    assert_eq!(site.liveness(1), Some(Liveness::Down));
    // Without evidence the confirmation comes at the fast interval.
    site.open.insert(1);
    site.run(Duration::from_secs(3));
    site.open.remove(&1);
    let due = site.monitor.next_deadline().unwrap();
    site.run(due - site.now.steady + Duration::from_millis(399));
    assert_eq!(site.liveness(1), Some(Liveness::Up));
    site.run(Duration::from_millis(10));
    assert_eq!(site.liveness(1), Some(Liveness::Down));
}

#[test]
fn a_restart_goes_on_from_where_it_was() {
    let mut site = Site::new(LIMITS, Restored::default());
    site.open = BTreeSet::from([1]);
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1, 2]), site.now);
    site.monitor.set_admin(
        Scope::Address([192, 168, 7, 13].into()),
        AdminState::Drain.into(),
    );
    site.run(Duration::from_secs(5));
    let saved = site.saved();
    let before = site.monitor.generation();

    let mut again = Site::new(LIMITS, saved);
    again.open = BTreeSet::from([2]);
    assert!(again.monitor.generation() > before);
    let id = again.monitor.open(again.now);
    again.monitor.state(id, statement(1, &[1, 2]), again.now);
    let news = again.monitor.full(id).unwrap();
    let states: Vec<_> = news
        .entries
        .iter()
        .map(|(_, seen)| {
            let state = seen.state();
            (state.liveness(), state.is_warm(), seen.entry.admin)
        })
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
fn a_decision_ends_by_itself_also_after_a_restart() {
    let scope = Scope::Address([192, 168, 7, 13].into());
    let decision = |site: &Site, seconds| Decision {
        state: AdminState::Drain,
        terms: Terms {
            until: Some(site.now.wall + Duration::from_secs(seconds)),
            ..Terms::default()
        },
    };
    let admin = |site: &Site| {
        let mut entries = site.monitor.table().entries();
        entries.next().map(|entry| entry.admin)
    };
    let mut site = Site::new(LIMITS, Restored::default());
    site.open = BTreeSet::from([1]);
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1]), site.now);
    site.monitor.set_admin(scope, decision(&site, 10));
    site.run(Duration::from_secs(9));
    assert_eq!(admin(&site), Some(AdminState::Drain));
    let (saved, wall) = (site.saved(), site.now.wall);
    site.run(Duration::from_millis(1_010));
    assert_eq!(admin(&site), Some(AdminState::Ready));
    let ended = site.monitor.take_ended();
    assert_eq!(
        ended.iter().map(|(scope, _)| *scope).collect::<Vec<_>>(),
        [scope]
    );
    assert_eq!(site.monitor.take_ended(), []);

    // It ended while healthd was away.
    let mut again = Site::new(LIMITS, saved);
    again.now.wall = wall + Duration::from_secs(60);
    again.run(Duration::from_millis(10));
    assert_eq!(admin(&again), Some(AdminState::Ready));

    // Nothing else is due: the end alone wakes the monitor.
    let mut idle = Site::new(LIMITS, Restored::default());
    idle.monitor.set_admin(scope, decision(&idle, 7));
    idle.run(Duration::ZERO);
    let due = idle.monitor.next_deadline().unwrap();
    assert_eq!(due - idle.now.steady, Duration::from_secs(7));
}

#[test]
fn what_was_known_before_a_restart_and_nobody_asks_for_is_forgotten() {
    let mut site = Site::new(LIMITS, Restored::default());
    let id = site.monitor.open(site.now);
    site.monitor.state(id, statement(1, &[1, 2]), site.now);
    site.run(Duration::from_secs(1));
    let mut again = Site::new(LIMITS, site.saved());
    let id = again.monitor.open(again.now);
    again.monitor.state(id, statement(1, &[1]), again.now);
    again.run(Duration::from_secs(61));
    assert!(again.liveness(1).is_some());
    assert_eq!(again.liveness(2), None);
}

mod simulation;
mod site_verdict;

#[test]
fn one_user_leaves_room_for_the_others_whatever_it_states() {
    let limits = Limits {
        targets: 16,
        ..LIMITS
    };
    let ports = |from: u16, n: u16| (from..from + n).collect::<Vec<u16>>();
    let mut site = Site::new(limits, Restored::default());
    let open = |site: &mut Site, user| site.monitor.open_of(Owner::User(user), site.now);
    // It has several subscribers, and states all it can.
    let greedy = [1, 1].map(|user| open(&mut site, user));
    let [first, second] = greedy;
    site.monitor
        .state(first, statement(1, &ports(100, 40)), site.now);
    site.monitor
        .state(second, statement(1, &ports(200, 40)), site.now);
    assert_eq!(site.monitor.table().len(), 12, "a quarter is left");
    let other = open(&mut site, 2);
    let waiting = site
        .monitor
        .state(other, statement(1, &ports(1, 4)), site.now);
    assert_eq!(waiting, 0);
    // A service that restarts finds its targets, even if its places are wanted meanwhile.
    site.monitor.close(other, site.now);
    site.monitor
        .state(second, statement(2, &ports(300, 40)), site.now);
    site.run(Duration::from_secs(1));
    assert!(
        ports(1, 4)
            .iter()
            .all(|port| site.liveness(*port).is_some())
    );
    let other = open(&mut site, 2);
    let waiting = site
        .monitor
        .state(other, statement(1, &ports(1, 4)), site.now);
    assert_eq!(waiting, 0);
    // Its own targets without a holder make room as ever, and so do those of the greedy one for the others.
    site.monitor.close(first, site.now);
    site.monitor.close(second, site.now);
    let waiting = site
        .monitor
        .state(other, statement(2, &ports(1, 8)), site.now);
    assert_eq!(waiting, 0);
    // The node's own configuration has no share.
    let own = site.monitor.open(site.now);
    let waiting = site
        .monitor
        .state(own, statement(1, &ports(400, 8)), site.now);
    assert_eq!(waiting, 0);
}

#[test]
fn a_user_that_wants_other_targets_gets_them_in_place_of_its_own() {
    let limits = Limits {
        targets: 4,
        ..LIMITS
    };
    let mut site = Site::new(limits, Restored::default());
    let id = site.monitor.open_of(Owner::User(1), site.now);
    site.monitor.state(id, statement(1, &[1, 2, 3]), site.now);
    for round in 1..5 {
        let port = 10 * round;
        let ports = [port, port + 1, port + 2];
        let waiting = site.monitor.state(id, statement(2, &ports), site.now);
        assert_eq!(waiting, 0, "{ports:?}");
        assert!(ports.iter().all(|port| site.liveness(*port).is_some()));
    }
}
