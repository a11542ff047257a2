//! Any bytes as a message between healthd and its subscribers.

use std::collections::BTreeSet;

use proto::health::{Liveness, Schedule, Target, decode_watch_request, decode_watch_response};
use proto::wire;

pub(super) fn body(data: &[u8]) {
    if let Ok(targets) = decode_watch_request(data) {
        targets.iter().for_each(travels);
        // Targets are keys of every map there is: order and equality must agree.
        let n_distinct = targets.iter().collect::<BTreeSet<_>>().len();
        assert!(
            n_distinct <= targets.len(),
            "a set has no more members than its source"
        );
    }
    if let Ok(snapshot) = decode_watch_response(data) {
        for (target, status) in &snapshot.targets {
            travels(target);
            let again = wire::TargetStatus::from((target, status));
            let (same_target, same_status) = (&again).try_into().expect("own form");
            assert_eq!((target, status), (&same_target, &same_status));
            assert_eq!(
                snapshot.status(target),
                Some(status),
                "what is listed is found"
            );
            let usable = status.is_usable();
            assert!(
                !usable || status.effective() == Liveness::Up,
                "usable means up: {status:?}"
            );
        }
    }
}

/// A target means the same on the other side, and its schedule is one that can be kept.
fn travels(target: &Target) {
    let again = Target::try_from(wire::Target::from(target));
    assert_eq!(again.as_ref(), Ok(target));
    let schedule = target.schedule;
    assert!(schedule.interval >= Schedule::MIN_INTERVAL, "{schedule:?}");
    assert!(schedule.fast_interval <= schedule.interval, "{schedule:?}");
    assert!(
        !schedule.fast_interval.is_zero() && !schedule.timeout.is_zero(),
        "{schedule:?}"
    );
    assert!(schedule.rise > 0 && schedule.fall > 0, "{schedule:?}");
    assert_ne!(target.address.port(), 0, "a port that can be connected to");
}
