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
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(factor).min(self.longest);
        self.failures = self.failures.saturating_add(1).min(31);
        wait.mul_f64(1.0 - SPREAD * fraction.clamp(0.0, 1.0))
    }

    /// An attempt succeeded: the next wait is the first again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many failures there were in a row, 31 at most.
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
    fn a_first_wait_beyond_the_longest_is_the_longest() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::from_secs(1));
        for _ in 0..40 {
            assert_eq!(backoff.spread(0.0), Duration::from_secs(1));
        }
    }
}
