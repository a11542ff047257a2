use std::time::Instant;

use super::*;

fn target(port: u16) -> Target {
    Target::tcp(([192, 168, 7, 13], port).into())
}

fn site(rise: u32, fall: u32) -> Schedules {
    let site = Schedule {
        rise,
        fall,
        ..Schedule::default()
    };
    Schedules {
        site,
        ..Schedules::default()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an instant to count from, whichever it is"
)]
fn at(seconds: u64) -> Now {
    Now {
        steady: Instant::now(),
        wall: Duration::from_secs(seconds),
    }
}

fn finding(good: bool) -> Finding {
    Finding {
        good,
        reason: "x".to_owned(),
        latency: Duration::from_millis(3),
    }
}

fn table() -> LivenessTable {
    LivenessTable::new(100, AdminRules::default(), site(1, 2))
}

#[test]
fn only_what_changed_is_told_and_each_target_once() {
    let mut table = table();
    let (a, b) = (table.add(target(1)), table.add(target(2)));
    assert_eq!(table.add(target(1)), a, "one target, one number");
    let seen = table.generation();
    let steps = [
        (a, true, Effect::Flipped),
        (b, true, Effect::Flipped),
        (a, true, Effect::None),
        (a, false, Effect::None),
        (a, false, Effect::Flipped),
    ];
    for (id, good, effect) in steps {
        assert_eq!(table.judge(id, finding(good), at(5)), effect);
    }
    assert_eq!(table.generation(), seen + 3);
    let changed = |since| table.changed_since(since).collect::<Vec<_>>();
    let (a, b) = (Key::of(a), Key::of(b));
    assert_eq!(changed(seen), [b, a]);
    assert_eq!(changed(seen + 2), [a]);
    assert_eq!(changed(table.generation()), []);
    assert_eq!(changed(0), [b, a]);
}

#[test]
fn the_same_result_again_is_no_change_but_is_remembered() {
    let mut table = table();
    let id = table.add(target(1));
    table.judge(id, finding(true), at(5));
    let generation = table.generation();
    table.judge(id, finding(true), at(9));
    assert_eq!(table.generation(), generation);
    let entry = table.get(id).unwrap();
    assert_eq!(entry.since, Some(Duration::from_secs(5)));
    assert_eq!(entry.last_check, Some(Duration::from_secs(9)));
    assert_eq!(entry.counts.n_probes(), 2);
}

#[test]
fn since_does_not_go_back_with_the_wall_clock() {
    let mut table = table();
    let id = table.add(target(1));
    for (good, wall, since) in [
        (true, 100, 100),
        (false, 40, 100),
        (false, 41, 100),
        (true, 110, 110),
    ] {
        table.judge(id, finding(good), at(wall));
        let entry = table.get(id).unwrap();
        assert_eq!(entry.since, Some(Duration::from_secs(since)));
    }
}

#[test]
fn a_target_from_before_the_restart_is_warm_until_confirmed() {
    let mut table = table();
    let known = Known {
        target: target(1),
        liveness: Liveness::Up,
        since: Some(Duration::from_secs(3)),
        last_check: None,
        latency: Duration::ZERO,
        reason: "connected".to_owned(),
    };
    let id = table.add_known(known);
    assert!(table.get(id).unwrap().state.is_warm());
    let generation = table.generation();
    assert_eq!(
        table.judge(id, finding(true), at(50)),
        Effect::Confirmed,
        "subscribers are told"
    );
    assert_eq!(table.generation(), generation + 1);
    assert_eq!(table.get(id).unwrap().since, Some(Duration::from_secs(3)));
}

#[test]
fn a_decision_covers_targets_that_come_later() {
    let mut table = table();
    let id = table.add(target(1));
    let scope = Scope::Address([192, 168, 7, 13].into());
    let generation = table.generation();
    assert_eq!(table.set_admin(scope, AdminState::Drain.into()), 1);
    let drained = table.generation();
    assert!(drained > generation);
    assert_eq!(table.set_admin(scope, AdminState::Drain.into()), 1);
    assert_eq!(table.generation(), drained, "nothing changed");
    let elsewhere = Scope::Address([192, 168, 7, 99].into());
    assert_eq!(table.set_admin(elsewhere, AdminState::Drain.into()), 0);
    assert!(table.generation() > drained, "there is something to keep");
    table.judge(id, finding(true), at(1));
    assert_eq!(table.get(id).unwrap().effective(), Liveness::Down);
    let later = table.add(target(2));
    assert_eq!(table.get(later).unwrap().admin, AdminState::Drain);
    table.set_admin(scope, AdminState::Ready.into());
    assert_eq!(table.get(id).unwrap().effective(), Liveness::Up);
}

#[test]
fn coming_and_going_moves_the_membership() {
    let mut table = table();
    let id = table.add(target(1));
    let joined = table.membership();
    table.judge(id, finding(true), at(1));
    assert_eq!(table.membership(), joined);
    table.remove(id);
    assert!(table.membership() > joined);
    assert_eq!(table.changed_since(0).count(), 0);
    assert_eq!(table.find(&target(1)), None);
    assert_eq!(table.judge(id, finding(true), at(1)), Effect::None);
    assert!(table.is_empty());
}

//--- Views

fn watched(port: u16, deviation: Deviation) -> Watched {
    Watched {
        target: target(port),
        deviation,
    }
}

fn fall(count: u32) -> Deviation {
    Deviation {
        fall: Some(count),
        ..Deviation::NONE
    }
}

#[test]
fn a_view_is_made_by_its_own_rise_and_fall_and_has_its_own_generation() {
    let mut table = table();
    let target = table.add(target(1));
    let strict = table.add_watched(watched(1, fall(1)));
    assert_eq!(table.add_watched(watched(1, fall(1))), strict, "one view");
    assert_eq!((table.len(), table.n_views()), (1, 1));
    table.judge(target, finding(true), at(5));
    let seen = table.generation();
    assert_eq!(table.judge(target, finding(false), at(6)), Effect::None);
    let changed = |since| table.changed_since(since).collect::<Vec<_>>();
    assert_eq!(changed(seen), [strict], "the target has not changed");
    let liveness = |key| table.seen(key).unwrap().state().liveness();
    assert_eq!(liveness(strict), Liveness::Down);
    assert_eq!(liveness(Key::of(target)), Liveness::Up);
    let view = table.seen(strict).unwrap();
    assert_eq!(view.since(), Some(Duration::from_secs(6)));
    assert_eq!(view.changed(), table.generation());
    assert!(table.get(target).unwrap().is_undecided());
    table.remove_view(strict);
    assert!(table.seen(strict).is_none());
    assert_eq!(table.n_views(), 0);
    assert_eq!(table.changed_since(0).count(), 1);
}

#[test]
fn a_slow_answer_is_none_for_a_view_with_less_time() {
    let mut table = table();
    let hasty = Deviation {
        timeout: Some(Duration::from_millis(2)),
        ..fall(1)
    };
    let hasty = table.add_watched(watched(1, hasty));
    // The finding took 3 ms.
    table.judge(hasty.target, finding(true), at(5));
    let view = table.seen(hasty).unwrap();
    assert_eq!(view.state().liveness(), Liveness::Down);
    assert_eq!(view.reason(), "x, but not within 2ms");
    let entry = table.get(hasty.target).unwrap();
    assert_eq!(entry.state.liveness(), Liveness::Up);
    assert!(!entry.agrees(Liveness::Up) && !entry.agrees(Liveness::Down));
}

#[test]
fn an_operator_and_another_schedule_reach_every_view() {
    let mut table = table();
    let strict = table.add_watched(watched(1, fall(1)));
    let target = Key::of(strict.target);
    table.judge(strict.target, finding(true), at(5));
    let seen = table.generation();
    table.set_admin(
        Scope::Address([192, 168, 7, 13].into()),
        AdminState::Drain.into(),
    );
    let changed = |table: &LivenessTable, since| table.changed_since(since).collect::<Vec<_>>();
    assert_eq!(changed(&table, seen), [target, strict]);
    let seen = table.generation();
    assert_eq!(table.set_schedules(site(1, 2)), []);
    assert_eq!(table.set_schedules(site(4, 3)), [strict.target]);
    assert_eq!(changed(&table, seen), [target, strict]);
    let schedule = |key| table.seen(key).unwrap().schedule();
    assert_eq!((schedule(strict).rise, schedule(strict).fall), (4, 1));
    assert_eq!(schedule(target).fall, 3);
    assert_eq!(
        table.seen(target).unwrap().state().liveness(),
        Liveness::Up,
        "the state stays"
    );
}

#[test]
fn the_shortest_interval_of_those_that_are_held_counts() {
    let mut table = table();
    let millis = Duration::from_millis;
    let interval = |count| Deviation {
        interval: Some(millis(count)),
        ..Deviation::NONE
    };
    let slow = table.add_watched(watched(1, interval(9_000)));
    let fast = table.add_watched(watched(1, interval(300)));
    let id = fast.target;
    let site = Schedule::default();
    assert_eq!(
        table.tighten(id, |_| false).unwrap().interval,
        site.interval
    );
    let seen = table.generation();
    let probed = table.tighten(id, |key| key == slow).unwrap();
    assert_eq!(probed.interval, site.interval, "it loosens nothing");
    assert_eq!(table.generation(), seen);
    let probed = table.tighten(id, |_| true).unwrap();
    assert_eq!(probed.interval, millis(300));
    assert!(table.generation() > seen, "all may hear of it");
    let shown = table.seen(Key::of(id)).unwrap().schedule();
    assert_eq!((shown.interval, shown.fall), (millis(300), 2));
}
