//! The only place that reads the clock.

use std::time::{Duration, Instant as StdInstant};

use daemon::clock;
use dns_cache::instant::Instant;
use tokio::time::Instant as TokioInstant;

/// The time at the start of the service: longer than anything is kept, so that entries from before a restart have a time.
const BEGIN: Duration = Duration::from_hours(20 * 366 * 24);

/// Turns the system's monotonic clock into instants.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: StdInstant,
}

impl Clock {
    /// Starts a clock.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: clock::now(),
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        let passed = clock::now().saturating_duration_since(self.start);
        Instant::START.after(BEGIN).after(passed)
    }

    /// The instant of a timer.
    #[must_use]
    pub fn instant(&self, instant: Instant) -> TokioInstant {
        TokioInstant::from_std(self.start) + instant.since(Instant::START.after(BEGIN))
    }
}
