//! The beat of the streams between nodes, and times as they tell them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a follower says what it holds, and waits are looked at.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// Milliseconds since 1970.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
