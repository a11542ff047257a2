//! The timers of flights and upstreams.

use std::collections::BTreeSet;

use dns_cache::instant::Instant;

use super::FlightId;
use super::upstreams::UpstreamId;

/// The owner of a timer. Each has one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Flight(FlightId),
    Upstream(UpstreamId),
}

/// All timers that are set. Their owners remember the times.
#[derive(Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Moves a timer from `before` to `at`; `None` is not set.
    pub(super) fn set(&mut self, timer: Timer, before: Option<Instant>, at: Option<Instant>) {
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.0.remove(&(before, timer));
        }
        if let Some(at) = at {
            self.0.insert((at, timer));
        }
    }

    /// Removes the first timer that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = self.0.first().copied()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some(timer)
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn has(&self, at: Instant, timer: Timer) -> bool {
        self.0.contains(&(at, timer))
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Instant, Timer)> {
        self.0.iter()
    }
}
