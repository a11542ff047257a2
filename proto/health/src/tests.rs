use std::time::Duration;

use super::*;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_deviation_replaces_what_it_gives_and_nothing_else() {
    let site = Schedule::default();
    assert_eq!(site.with(&Deviation::NONE), site);
    let deviation = Deviation {
        interval: Some(millis(1)),
        fast_interval: Some(millis(90_000)),
        fall: Some(0),
        ..Deviation::NONE
    };
    let stated = site.with(&deviation);
    assert_eq!(
        stated.interval,
        Schedule::MIN_INTERVAL,
        "the least there is"
    );
    assert_eq!(stated.fast_interval, Schedule::MIN_INTERVAL, "not above it");
    assert_eq!((stated.rise, stated.fall), (site.rise, 1));
    assert_eq!(stated.timeout, site.timeout);
    assert_eq!(
        deviation.to_string(),
        "interval 1ms, fast-interval 90000ms, fall 0"
    );
}

#[test]
fn a_state_lasts_until_enough_results_can_have_come() {
    let schedule = Schedule {
        interval: millis(2000),
        fast_interval: millis(200),
        rise: 1,
        fall: 3,
        ..Schedule::default()
    };
    for (liveness, least) in [
        (Liveness::Unknown, 0),
        (Liveness::Up, 2400),
        (Liveness::Down, 2000),
    ] {
        assert_eq!(schedule.time_to_change(liveness), millis(least));
    }
}

#[test]
fn a_view_and_its_target_are_apart_in_a_snapshot() {
    let target = Target::tcp(([192, 168, 7, 13], 6443).into());
    let strict = Watched {
        target: target.clone(),
        deviation: Deviation {
            fall: Some(1),
            ..Deviation::NONE
        },
    };
    let status = |liveness| TargetStatus {
        liveness,
        ..TargetStatus::default()
    };
    let mut snapshot = Snapshot::default();
    snapshot.insert(target.clone().into(), status(Liveness::Up));
    snapshot.insert(strict.clone(), status(Liveness::Down));
    assert_eq!(snapshot.liveness(&target), Liveness::Up);
    let seen = |watched: &Watched| snapshot.watched(watched).map(|status| status.liveness);
    assert_eq!(seen(&strict), Some(Liveness::Down));
    assert_eq!(seen(&target.into()), Some(Liveness::Up));
    assert_eq!(strict.to_string(), "tcp 192.168.7.13:6443 (fall 1)");
}
