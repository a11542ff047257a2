//! The only place that reads the clock.

use std::time::Instant;

use dns_cache::moment::Moment;
use tokio::time::Instant as TokioInstant;

/// Turns the system's monotonic clock into moments.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that begins to run.
    #[must_use]
    pub fn start() -> Self {
        Self { start: now() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Moment {
        let micros = now().saturating_duration_since(self.start).as_micros();
        Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// When a moment comes, for a timer.
    #[must_use]
    pub fn instant(&self, moment: Moment) -> TokioInstant {
        TokioInstant::from_std(self.start) + moment.since(Moment::START)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that reads the clock"
)]
fn now() -> Instant {
    Instant::now()
}
