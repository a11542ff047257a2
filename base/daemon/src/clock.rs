//! The time, for shells. Cores take it as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far a restart jumps ahead of the generation on disk: beyond any that was published since it
/// was written, which is a second or two of changes.
const JUMP: u64 = 1 << 18;

/// Generations that a millisecond of the clock stands for when there is nothing on disk: a restart
/// jumps 64 ms ahead, and none comes as soon after another.
const PER_MILLISECOND: u64 = 1 << 12;

/// The clock that never steps, to measure with.
#[expect(clippy::disallowed_methods, reason = "the shell reads the clock here")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of day, which may step.
#[expect(clippy::disallowed_methods, reason = "the shell reads the clock here")]
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// The time of day since 1970. A clock before 1970 has lost its time, and zero says as much.
#[must_use]
pub fn since_1970() -> Duration {
    wall().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The generation a process begins with: above all that went before it, by what is on disk and, if
/// that is gone, by the clock.
#[must_use]
pub fn first_generation(saved: u64, wall: Duration) -> u64 {
    let millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    let by_clock = millis.saturating_mul(PER_MILLISECOND);
    saved.saturating_add(JUMP).max(by_clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_on_how_long_something_takes() {
        let (start, day) = (now(), since_1970());
        assert!(day > Duration::from_secs(1_700_000_000));
        assert!(now() >= start);
    }

    #[test]
    fn generations_grow_over_restarts_with_and_without_a_state() {
        let day = Duration::from_hours(500_000);
        let first = first_generation(0, day);
        assert!(first_generation(first + 5000, day) > first + 5000);
        assert!(first_generation(0, day + Duration::from_secs(1)) > first + 5000);
        assert!(
            first_generation(first, Duration::ZERO) > first,
            "clock lost"
        );
        assert_eq!(first_generation(u64::MAX, day), u64::MAX);
    }
}
