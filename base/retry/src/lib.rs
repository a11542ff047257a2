//! How long to wait before trying again. Never waits itself.

#![warn(missing_docs)]

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The part of a wait that is spread: clients that lost one server do not all come back at once.
const SPREAD: f64 = 0.25;

/// Waits between attempts: doubling, bounded, and spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// At most `first` before the second attempt, then twice as long each time, and at most `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// How long to wait after one more failure.
    pub fn next_wait(&mut self) -> Duration {
        // The standard library seeds this hasher from the system, differently in each process.
        let draw = RandomState::new().hash_one(self.failures).to_ne_bytes();
        let [draw, ..] = draw;
        self.spread(f64::from(draw) / 256.0)
    }

    /// As [`Self::next_wait`], with the number from 0 to 1 that spreads the wait.
    pub fn spread(&mut self, fraction: f64) -> Duration {
        self.failures = self.failures.saturating_add(1).min(32);
        self.after(self.failures, fraction)
    }

    /// The wait after this many failures in a row, for a caller that counts them itself; a fraction of 0
    /// shortens it by nothing, and 1 by a quarter.
    #[must_use]
    pub fn after(&self, failures: u32, fraction: f64) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(factor).min(self.longest);
        wait.mul_f64(1.0 - SPREAD * fraction.clamp(0.0, 1.0))
    }

    /// The longest wait.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// An attempt succeeded: the next wait is the first again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many failures there were in a row, 32 at most.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_stay_spread() {
        let (first, longest) = (Duration::from_millis(50), Duration::from_secs(2));
        let mut backoff = Backoff::new(first, longest);
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next_wait()).collect();
        assert!(waits[0] <= first && waits[0] >= first.mul_f64(0.75));
        assert!(waits.iter().all(|wait| *wait <= longest));
        assert!(waits[30] >= longest.mul_f64(0.75));
        backoff.reset();
        assert_eq!(backoff.spread(0.0), first);
        assert_eq!(backoff.spread(1.0), first * 2 * 3 / 4);
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn a_caller_may_count_its_failures_itself() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let waits: Vec<u64> = [0, 1, 2, 3, 6, 7, 8, 40, u32::MAX]
            .into_iter()
            .map(|failures| backoff.after(failures, 0.0).as_secs())
            .collect();
        assert_eq!(waits, [1, 1, 2, 4, 32, 60, 60, 60, 60]);
        let four = Backoff::new(Duration::from_secs(4), Duration::from_secs(4));
        assert_eq!(four.after(1, 1.0), Duration::from_secs(3));
        assert!(four.after(1, 0.5) < four.after(1, 0.0));
    }

    #[test]
    fn a_first_wait_beyond_the_longest_is_the_longest() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::from_secs(1));
        for _ in 0..40 {
            assert_eq!(backoff.spread(0.0), Duration::from_secs(1));
        }
    }
}
