//! The time, for shells. Cores take it as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_on_how_long_something_takes() {
        let (start, day) = (now(), since_1970());
        assert!(day > Duration::from_secs(1_700_000_000));
        assert!(now() >= start);
    }
}
