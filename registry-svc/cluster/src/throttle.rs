//! A bound on the bandwidth that replication takes, so that a node that refills itself leaves room
//! for those that pull.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Octets that may come at once after a quiet moment, as time at the full rate.
const BURST: Duration = Duration::from_millis(100);

/// Limits a rate of bytes a second.
#[derive(Debug)]
pub(super) struct Throttle {
    rate: Option<u64>,
    /// When all that was let through is paid for.
    paid: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self {
            rate: rate.filter(|rate| *rate > 0),
            paid: Mutex::new(None),
        }
    }

    /// Waits until this many bytes may come.
    pub(super) async fn take(&self, octets: usize) {
        let Some(rate) = self.rate else {
            return;
        };
        let now = Instant::now();
        let until = self.reserve(octets, rate, now);
        tokio::time::sleep_until(until).await;
    }

    /// When the octets may come; those that ask later wait behind them.
    fn reserve(&self, octets: usize, rate: u64, now: Instant) -> Instant {
        let cost = u64::try_from(octets)
            .unwrap_or(u64::MAX)
            .saturating_mul(1_000_000)
            / rate;
        let mut paid = self.paid.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = paid.map_or(earliest, |paid| paid.max(earliest));
        *paid = Some(begin + Duration::from_micros(cost));
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_wait_until_those_before_them_are_paid_for() {
        let throttle = Throttle::new(Some(1_000_000));
        let now = Instant::now();
        let first = throttle.reserve(1_000_000, 1_000_000, now);
        assert!(first <= now, "a burst goes through at once");
        let second = throttle.reserve(500_000, 1_000_000, now);
        assert_eq!(second, first + Duration::from_secs(1));
        let third = throttle.reserve(1, 1_000_000, now);
        assert_eq!(third, second + Duration::from_millis(500));
        // Time that nobody used is not saved up.
        let later = now + Duration::from_secs(60);
        assert_eq!(throttle.reserve(1, 1_000_000, later), later - BURST);
    }
}
