//! Any bytes as a message between healthd and its subscribers.

use proto::health::{
    Liveness, Schedule, Snapshot, Watched, apply, decode_watch_request, decode_watch_response,
};
use proto::wire;

pub(super) fn body(data: &[u8]) {
    if let Ok(targets) = decode_watch_request(data) {
        targets.iter().for_each(travels);
    }
    if let Ok(snapshot) = decode_watch_response(data) {
        let again = wire::WatchResponse {
            generation: snapshot.generation,
            full: true,
            targets: snapshot
                .targets
                .iter()
                .map(wire::TargetStatus::from)
                .collect(),
            ..wire::WatchResponse::default()
        };
        let same = apply(Snapshot::default(), &again, &[]);
        assert_eq!(same.targets, snapshot.targets, "states travel");
        for (target, status) in &snapshot.targets {
            travels(&target.clone().into());
            assert_eq!(
                snapshot.status(target),
                Some(status),
                "what is listed is found"
            );
            let usable = status.is_usable();
            assert!(!usable || status.effective() == Liveness::Up, "{status:?}");
        }
    }
}

/// A target means the same on the other side, and the schedule that its deviation makes is one that can be kept.
fn travels(watched: &Watched) {
    let again = Watched::try_from(wire::Target::from(watched));
    assert_eq!(again.as_ref(), Ok(watched));
    let schedule = Schedule::default().with(&watched.deviation);
    assert!(schedule.interval >= Schedule::MIN_INTERVAL, "{schedule:?}");
    assert!(schedule.fast_interval <= schedule.interval, "{schedule:?}");
    assert!(
        !schedule.fast_interval.is_zero() && !schedule.timeout.is_zero(),
        "{schedule:?}"
    );
    assert!(schedule.rise > 0 && schedule.fall > 0, "{schedule:?}");
    assert_ne!(
        watched.target.address.port(),
        0,
        "a port that can be connected to"
    );
}
