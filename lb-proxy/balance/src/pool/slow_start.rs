//! How much of its share a server gets while it comes back.

use std::time::{Duration, Instant};

/// A whole share.
pub(crate) const FULL: u32 = 1 << 16;

/// The share a server begins with, so that it is chosen at all (HAProxy's: one step of 16).
const LEAST: u32 = FULL / 16;

/// The share of a server that has been up since `since` and takes `length` to reach its full
/// weight: grows in a straight line from [`LEAST`] to [`FULL`].
pub(crate) fn share(since: Option<Instant>, length: Duration, now: Instant) -> u32 {
    let Some(since) = since else { return FULL };
    let elapsed = now.saturating_duration_since(since);
    if elapsed >= length {
        return FULL;
    }
    let length = length.as_micros().max(1);
    let share = (elapsed.as_micros() * u128::from(FULL) + length / 2) / length;
    u32::try_from(share).unwrap_or(FULL).clamp(LEAST, FULL)
}

/// The part of a limit that `share` leaves; at least one.
pub(crate) fn limit(max: u32, share: u32) -> u32 {
    if share >= FULL {
        return max;
    }
    let full = u64::from(FULL);
    let part = (u64::from(max) * u64::from(share) + full / 2) / full;
    u32::try_from(part).unwrap_or(max).max(1).min(max)
}

#[cfg(test)]
mod tests {
    use super::super::tests::start;
    use super::*;

    #[test]
    fn a_share_grows_in_a_straight_line() {
        let start = start();
        let length = Duration::from_secs(10);
        for (milliseconds, percent) in [
            (0, 6),
            (500, 6),
            (1_000, 10),
            (2_500, 25),
            (5_000, 50),
            (9_990, 99),
            (10_000, 100),
            (60_000, 100),
        ] {
            let now = start + Duration::from_millis(milliseconds);
            let share = share(Some(start), length, now);
            assert_eq!((u64::from(share) * 100) >> 16, percent, "{milliseconds} ms");
        }
    }

    #[test]
    fn a_server_that_never_failed_has_its_whole_share() {
        let now = start();
        assert_eq!(share(None, Duration::from_secs(10), now), FULL);
        assert_eq!(share(Some(now), Duration::ZERO, now), FULL);
    }

    #[test]
    fn a_limit_shrinks_to_one_at_the_least() {
        for (max, share, expected) in [
            (100, FULL, 100),
            (100, FULL / 2, 50),
            (100, LEAST, 6),
            (5, LEAST, 1),
            (1, LEAST, 1),
            (0, FULL, 0),
            (0, LEAST, 0),
            (u32::MAX, FULL / 2, 1 << 31),
        ] {
            assert_eq!(limit(max, share), expected, "{max} at {share}");
        }
    }
}
