//! How long to wait before something that failed is tried again.
//!
//! Never sleeps and never rolls dice: the spread is handed in.

use std::time::Duration;

/// Waits that double from `first` to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt.
    pub first: Duration,
    /// Between attempts at most.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after this many failures in a row, shortened by up to a quarter: `spread` of 255
    /// takes all of it. Nodes that lost the same peer do not all come back in one instant.
    #[must_use]
    pub fn after(&self, failures: u32, spread: u8) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(factor).min(self.longest);
        wait.saturating_sub(wait / 1024 * u32::from(spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        };
        let waits: Vec<u64> = [0, 1, 2, 3, 6, 7, 8, 40, u32::MAX]
            .into_iter()
            .map(|failures| backoff.after(failures, 0).as_secs())
            .collect();
        assert_eq!(waits, [1, 1, 2, 4, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn spread_takes_a_quarter_at_most() {
        let backoff = Backoff {
            first: Duration::from_secs(4),
            longest: Duration::from_secs(4),
        };
        assert!(backoff.after(1, 255) >= Duration::from_secs(3));
        assert!(backoff.after(1, 255) < backoff.after(1, 0));
    }
}
