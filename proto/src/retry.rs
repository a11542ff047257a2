//! How the clients of healthd come back to it.

use std::time::Duration;

/// Before the second attempt to connect.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between attempts at most: healthd's return is noticed within this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Waits between attempts: doubling, bounded, and spread so that the subscribers of a node do not
/// all come back in the same instant.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let doubled =
            FIRST_WAIT.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1).min(16);
        let wait = doubled.min(LONGEST_WAIT);
        // The standard library seeds this hasher from the system, differently in each process.
        let spread = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) % 256;
        wait.mul_f64(1.0 - 0.25 * f64::from(u8::try_from(spread).unwrap_or(0)) / 256.0)
    }
}

/// An error and its causes in one line; a cause that its parent already ends with is not said twice.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_stay_spread() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] <= FIRST_WAIT && waits[0] >= FIRST_WAIT.mul_f64(0.75));
        assert!(waits.iter().all(|wait| *wait <= LONGEST_WAIT));
        assert!(waits[30] >= LONGEST_WAIT.mul_f64(0.75));
    }
}
