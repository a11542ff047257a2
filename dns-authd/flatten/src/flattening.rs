//! When a flattened version of a zone is made, and of what.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns_history::Limits;
use dns_zone::Zone;

use crate::flat::{Flat, FlatSet, Given, sets};

/// How long a first version waits until every live set knows its targets.
const UNDECIDED: Duration = Duration::from_secs(5);
/// The time for which versions are counted.
const MINUTE: Duration = Duration::from_mins(1);

/// How often there may be a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The shortest time between two.
    pub interval: Duration,
    /// The most in a minute. Behind the first half they are spread, so that the wait of a change stays short.
    pub per_minute: usize,
}

/// The flattened versions of one zone.
#[derive(Debug, Default)]
pub struct Flattening {
    flat: Option<Arc<Flat>>,
    /// When live sets without results were first seen.
    undecided: Option<Instant>,
    /// The times of the versions of the last minute, the oldest first.
    made: VecDeque<Instant>,
}

/// The next step for a zone.
#[derive(Debug)]
pub enum Step {
    /// The version is that of the live sets.
    Current,
    /// Look again at this time.
    At(Instant),
    /// Make the version of this draft.
    Make(Draft),
}

/// A version without its serial.
#[derive(Debug)]
pub struct Draft {
    zone: Arc<Zone>,
    sets: Vec<FlatSet>,
    n_partial: usize,
}

impl Flattening {
    /// The newest version.
    #[must_use]
    pub const fn flat(&self) -> Option<&Arc<Flat>> {
        self.flat.as_ref()
    }

    /// Begins with the last version of another process.
    pub fn begin_with(&mut self, flat: Flat) {
        self.flat = Some(Arc::new(flat));
    }

    /// The next step, with what the live sets of the zone give now, in their order.
    pub fn step(&mut self, zone: &Arc<Zone>, given: &[Given], pace: Pace, now: Instant) -> Step {
        let is_undecided = given.iter().any(|given| match given {
            Given::Records { is_undecided, .. } => *is_undecided,
            Given::Nothing => false,
        });
        let until = match is_undecided {
            true => *self.undecided.get_or_insert(now) + UNDECIDED,
            false => {
                self.undecided = None;
                now
            }
        };
        if self.flat.is_none() && until > now {
            return Step::At(until);
        }
        let flat = self.flat.as_deref();
        let (sets, n_partial) = sets(zone, given, flat, until > now);
        if flat.is_some_and(|flat| Arc::ptr_eq(flat.zone(), zone) && flat.sets() == sets) {
            // A set that is undecided for too long counts as it is.
            return match until > now {
                true => Step::At(until),
                false => Step::Current,
            };
        }
        let due = self.due(pace, now);
        if due > now {
            return Step::At(due);
        }
        Step::Make(Draft {
            zone: Arc::clone(zone),
            sets,
            n_partial,
        })
    }

    /// Makes the version of a draft; `None` if its zone has no SOA record.
    pub fn make(
        &mut self,
        draft: Draft,
        serial: u32,
        now: Instant,
        kept: (u64, Limits),
    ) -> Option<&Arc<Flat>> {
        let before = self.flat.as_deref();
        let sets = (draft.sets, draft.n_partial);
        let flat = Flat::new(&draft.zone, sets, serial, before, kept)?;
        self.made.push_back(now);
        Some(self.flat.insert(Arc::new(flat)))
    }

    /// When there may be a version.
    fn due(&mut self, pace: Pace, now: Instant) -> Instant {
        let most = pace.per_minute.max(1);
        while self.made.front().is_some_and(|at| *at + MINUTE <= now) {
            self.made.pop_front();
        }
        let Some(last) = self.made.back() else {
            return now;
        };
        let half = most.div_ceil(2);
        let spread = MINUTE / u32::try_from(half).unwrap_or(u32::MAX);
        let pause = match self.made.len() < half {
            true => pace.interval,
            false => pace.interval.max(spread),
        };
        // A smaller bound than before counts at once.
        let oldest = self.made.len().checked_sub(most);
        let oldest = oldest.and_then(|number| self.made.get(number));
        let room = oldest.map_or(now, |at| *at + MINUTE);
        (*last + pause).max(room)
    }
}

#[cfg(test)]
mod tests;
