//! The only place that reads the clock.

use std::time::Instant as StdInstant;

use daemon::clock;
use dns_cache::instant::Instant;
use tokio::time::Instant as TokioInstant;

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
        let micros = clock::now()
            .saturating_duration_since(self.start)
            .as_micros();
        Instant::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The instant of a timer.
    #[must_use]
    pub fn instant(&self, instant: Instant) -> TokioInstant {
        TokioInstant::from_std(self.start) + instant.since(Instant::START)
    }
}
