//! The memory of a server's failed connections, for as long as healthd does not probe it.
//!
//! A server that fails is avoided: connections go to the others, as long as there is one. When the time is over,
//! one connection tries it, and the others stay away until that one knows. Each failure in a row makes the time longer.
//!
//! ```text
//!          failed ──────────────► avoided ◄─────── failed
//!             ▲                      │ time is over
//!  connected ─┤◄─── connected ─── on trial: one connection
//! ```
//!
//! A refusal costs a connection next to nothing, and a server that is being restarted is back soon. Silence costs it the
//! whole time-out.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a server that refuses is avoided.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// How long a server that is silent is avoided the first time.
const AFTER_SILENCE: Duration = Duration::from_secs(10);

/// How long it is avoided at most.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a connection on trial may take before another one is: longer than a time-out usually is.
const TRIAL: Duration = Duration::from_secs(15);

/// The way a connection has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It failed at once: refused, unreachable.
    Refusal,
    /// Nothing came back in time.
    Silence,
}

/// The failed connections of one server since one was made; all workers share them.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Zero is the usual state, and all that a choice looks at then.
    in_a_row: AtomicU32,
    /// Until when it is avoided, in microseconds since `epoch`.
    until: AtomicU64,
    /// The first failure.
    epoch: OnceLock<Instant>,
}

impl Failures {
    /// Remembers a failure; true for the first in a row.
    pub(super) fn note(&self, failure: Failure, now: Instant) -> bool {
        let before = self.in_a_row.fetch_add(1, Ordering::Relaxed);
        let time = match failure {
            Failure::Refusal => AFTER_REFUSAL,
            Failure::Silence => AFTER_SILENCE
                .saturating_mul(1 << before.min(8))
                .min(LONGEST),
        };
        let until = self.micros(now).saturating_add(micros(time));
        // A trial that has failed is over, however long it might have taken.
        self.until.store(until, Ordering::Relaxed);
        before == 0
    }

    /// A connection was made; true when it ends failures in a row.
    pub(super) fn forget(&self) -> bool {
        // The usual case costs a read.
        self.in_a_row.load(Ordering::Relaxed) > 0 && self.in_a_row.swap(0, Ordering::Relaxed) > 0
    }

    /// How many there were in a row.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row.load(Ordering::Relaxed)
    }

    /// How much longer it is avoided; none when it is not, and for the connection that may try it.
    pub(super) fn avoided(&self, now: Instant) -> Option<Duration> {
        if self.in_a_row() == 0 {
            return None;
        }
        let left = self
            .until
            .load(Ordering::Relaxed)
            .checked_sub(self.micros(now))?;
        (left > 0).then(|| Duration::from_micros(left))
    }

    /// Puts a connection on trial; false when another one is already. Without failures there is no trial.
    pub(super) fn try_again(&self, now: Instant) -> bool {
        if self.in_a_row() == 0 {
            return true;
        }
        let (until, now) = (self.until.load(Ordering::Relaxed), self.micros(now));
        let next = now.saturating_add(micros(TRIAL));
        until <= now
            && self
                .until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn micros(&self, now: Instant) -> u64 {
        let epoch = self.epoch.get_or_init(|| now);
        micros(now.saturating_duration_since(*epoch))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::start;
    use super::*;

    #[test]
    fn silence_is_avoided_longer_each_time_and_one_connection_tries_it() {
        let failures = Failures::default();
        let mut now = start();
        assert_eq!(failures.avoided(now), None);
        assert!(failures.try_again(now) && failures.try_again(now));
        for (seconds, is_first) in [
            (10, true),
            (20, false),
            (40, false),
            (60, false),
            (60, false),
        ] {
            assert_eq!(failures.note(Failure::Silence, now), is_first);
            assert_eq!(failures.avoided(now), Some(Duration::from_secs(seconds)));
            assert!(!failures.try_again(now));
            now += Duration::from_secs(seconds);
            assert_eq!(failures.avoided(now), None);
            assert!(failures.try_again(now), "{seconds}");
            assert!(!failures.try_again(now), "one is on trial");
            assert_eq!(failures.avoided(now), Some(TRIAL));
            // The trial takes its time.
            now += Duration::from_secs(5);
        }
        assert_eq!(failures.in_a_row(), 5);
        assert!(failures.forget() && !failures.forget());
        assert_eq!(failures.avoided(now), None);
        assert!(failures.note(Failure::Refusal, now));
        assert_eq!(failures.avoided(now), Some(AFTER_REFUSAL));
    }

    #[test]
    fn a_trial_without_a_result_is_followed_by_another() {
        let failures = Failures::default();
        let now = start();
        failures.note(Failure::Silence, now);
        let later = now + AFTER_SILENCE;
        assert!(failures.try_again(later));
        let nearly = TRIAL.saturating_sub(Duration::from_millis(1));
        assert!(!failures.try_again(later + nearly));
        assert!(failures.try_again(later + TRIAL));
    }

    #[test]
    fn many_that_fail_at_once_count_and_overflow_nothing() {
        let failures = Failures::default();
        let now = start();
        for _ in 0..100 {
            failures.note(Failure::Silence, now);
        }
        assert_eq!(failures.avoided(now), Some(LONGEST));
        failures.note(Failure::Refusal, now);
        assert_eq!(failures.avoided(now), Some(AFTER_REFUSAL));
    }
}
