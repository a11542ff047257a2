//! When to try again.
//!
//! After some failures in a row an endpoint is left alone for a while, twice as long each time; one
//! success ends that. Before that many it is tried again soon.

use std::time::Duration;

use daemon::Backoff;

/// The longest that an endpoint is left alone.
const LONGEST: Duration = Duration::from_hours(1);

/// The pause between tries while it may be a hiccup.
const SHORT: Duration = Duration::from_millis(100);

/// The state of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryDelay {
    threshold: u32,
    short: Duration,
    backoff: Backoff,
    failures: u32,
}

impl RetryDelay {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(threshold: u32, backoff: Duration) -> Self {
        Self {
            threshold: threshold.max(1),
            short: SHORT.min(backoff),
            backoff: Backoff::new(backoff, LONGEST),
            failures: 0,
        }
    }

    /// It has worked.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// It has failed; how long to wait before the next try.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        match self.failures.checked_sub(self.threshold) {
            // One endpoint has one client: there is nothing to spread.
            Some(beyond) => self.backoff.after(beyond.saturating_add(1), 0.0),
            None => self.short,
        }
    }

    /// How often it has failed in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_the_threshold_on_and_end_with_a_success() {
        let mut delay = RetryDelay::new(3, Duration::from_secs(1));
        let pauses: Vec<Duration> = (0..6).map(|_| delay.failed()).collect();
        let millis: Vec<u128> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [100, 100, 1000, 2000, 4000, 8000]);
        assert_eq!(delay.failures(), 6);
        delay.succeeded();
        assert_eq!(delay.failed(), SHORT);
        for _ in 0..100 {
            delay.failed();
        }
        assert_eq!(delay.failed(), LONGEST);
    }
}
