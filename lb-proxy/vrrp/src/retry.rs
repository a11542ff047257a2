//! When something that failed is tried again: later each time, up to a bound, and not at the moment when
//! the other nodes try: [`Backoff`] spreads each wait over its last quarter.
//!
//! Never reads a clock, and has its randomness from a seed.

use std::time::{Duration, Instant};

use retry::Backoff;

/// The first wait: a refusal is rarely over in less, and a virtual IP without a holder is urgent.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait: an operator's repair takes effect within a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// Something that is tried again after it has failed.
#[derive(Clone, Debug)]
pub struct Retry {
    backoff: Backoff,
    again: Option<Instant>,
    random: u64,
}

impl Retry {
    /// Nothing has failed.
    pub fn new(seed: u64) -> Self {
        Self {
            backoff: Backoff::new(FIRST, LONGEST),
            again: None,
            random: seed,
        }
    }

    /// It has failed; says how long it is left alone.
    pub fn fail(&mut self, now: Instant) -> Duration {
        let fraction = f64::from(u32::try_from(self.random() % 1024).unwrap_or(0)) / 1024.0;
        let wait = self.backoff.spread(fraction);
        self.again = Some(now + wait);
        wait
    }

    /// It has worked.
    pub fn succeed(&mut self) {
        self.backoff.reset();
        self.again = None;
    }

    /// When to try again, if it has failed and was not tried since.
    pub fn again(&self) -> Option<Instant> {
        self.again
    }

    /// Whether it is time to try again; says so once.
    pub fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.again.is_some_and(|again| again <= now);
        if is_due {
            self.again = None;
        }
        is_due
    }

    /// `SplitMix64`.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "where a test's time begins")]
        Instant::now()
    }

    #[test]
    fn each_wait_is_twice_as_long_up_to_the_bound() {
        for seed in 0..100 {
            let mut retry = Retry::new(seed);
            let now = start();
            for expected in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
                let expected = Duration::from_secs(expected);
                let wait = retry.fail(now);
                assert!(wait >= expected / 2 && wait <= expected, "{seed}: {wait:?}");
                assert_eq!(retry.again(), Some(now + wait));
            }
        }
        // However long it goes on.
        let mut retry = Retry::new(0);
        for _ in 0..100 {
            assert!(retry.fail(start()) <= LONGEST);
        }
    }

    #[test]
    fn two_that_fail_together_do_not_try_again_together() {
        let now = start();
        let waits = |seed| -> Vec<Duration> {
            let mut retry = Retry::new(seed);
            (0..5).map(|_| retry.fail(now)).collect()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }

    #[test]
    fn what_is_due_is_tried_once_and_success_begins_anew() {
        let mut retry = Retry::new(0);
        let now = start();
        assert!(!retry.take_due(now));
        let wait = retry.fail(now);
        assert!(!retry.take_due(now));
        assert!(retry.take_due(now + wait));
        assert!(!retry.take_due(now + wait));
        assert!(retry.fail(now) > FIRST / 2);
        retry.succeed();
        assert_eq!(retry.again(), None);
        assert!(retry.fail(now) <= FIRST);
    }
}
