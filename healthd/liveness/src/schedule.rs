//! The order and the times of probes.
//!
//! A target waits for its due time, then for room among the probes in flight, then for its result;
//! the due time counts from the start of the probe before. One heap holds all due times, so an idle
//! target costs one entry and no task. The target that has been due the longest goes first: none starves.
//!
//! Pure: the shell says what time it is, starts the probes that it gets and reports each end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use health::Schedule;

/// The shortest time between two starts of probes of one target when evidence asks for one: however
/// much is reported, a target is probed ten times a second at most.
pub const EVIDENCE_GAP: Duration = Duration::from_millis(100);

/// A probe starts up to this part of its interval early, so that probes spread out. Never late: an
/// outage is noticed within the interval.
const JITTER: f64 = 0.1;

/// Names a target for as long as it is known; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u64);

/// How fast the next probe follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// After the interval.
    Usual,
    /// After the fast interval: the target's state is undecided.
    Fast,
}

/// A probe to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The target.
    pub id: TargetId,
    /// How long after its due time.
    pub late: Duration,
}

/// The due times of all targets.
#[derive(Debug)]
pub struct Scheduler {
    entries: BTreeMap<TargetId, Entry>,
    /// Due times, the next first. One that its entry does not have any longer is skipped.
    due: BinaryHeap<Reverse<(Instant, TargetId)>>,
    n_in_flight: usize,
    max_in_flight: usize,
    seed: u64,
}

#[derive(Debug)]
struct Entry {
    schedule: Schedule,
    phase: Phase,
    /// When the last probe started.
    started: Option<Instant>,
    /// Whether a probe has ended.
    settled: bool,
    /// Evidence against the state came, and no result has agreed with the state since.
    urgent: bool,
}

#[derive(Debug)]
enum Phase {
    Waiting {
        due: Instant,
    },
    InFlight {
        /// Evidence came since the start: the result of this probe may be older.
        again: bool,
    },
}

impl Scheduler {
    /// No targets. At most `max_in_flight` probes run at a time; `seed` decides the jitter.
    #[must_use]
    pub fn new(max_in_flight: usize, seed: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            due: BinaryHeap::new(),
            n_in_flight: 0,
            max_in_flight: max_in_flight.max(1),
            seed,
        }
    }

    /// Adds a target, due at once.
    pub fn add(&mut self, id: TargetId, schedule: Schedule, now: Instant) {
        let entry = Entry {
            schedule,
            phase: Phase::Waiting { due: now },
            started: None,
            settled: false,
            urgent: false,
        };
        self.entries.insert(id, entry);
        self.due.push(Reverse((now, id)));
    }

    /// Removes a target. A probe in flight still has to be reported as ended.
    pub fn remove(&mut self, id: TargetId) {
        self.entries.remove(&id);
        self.tidy();
    }

    /// Gives a target another schedule. A probe that it has due sooner comes sooner; none comes later.
    pub fn set_schedule(&mut self, id: TargetId, schedule: Schedule, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.schedule == schedule {
            return;
        }
        entry.schedule = schedule;
        let (Phase::Waiting { due }, Some(started)) = (&mut entry.phase, entry.started) else {
            return;
        };
        let latest = started.checked_add(schedule.interval).unwrap_or(started);
        let latest = latest.max(now);
        if latest < *due {
            *due = latest;
            self.due.push(Reverse((latest, id)));
            self.tidy();
        }
    }

    /// Makes the next probe of a target run at once, or as soon as [`EVIDENCE_GAP`] allows, and those that confirm
    /// its result at this distance.
    pub fn hurry(&mut self, id: TargetId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.urgent = true;
        let soonest = entry.soonest(now);
        match &mut entry.phase {
            Phase::InFlight { again } => *again = true,
            Phase::Waiting { due } if soonest < *due => {
                *due = soonest;
                self.due.push(Reverse((soonest, id)));
                self.tidy();
            }
            Phase::Waiting { .. } => {}
        }
    }

    /// The next probe to start, if one is due and there is room.
    pub fn poll(&mut self, now: Instant) -> Option<Start> {
        let due = self.next_deadline().filter(|due| *due <= now)?;
        let Reverse((_, id)) = self.due.pop()?;
        let entry = self.entries.get_mut(&id)?;
        entry.phase = Phase::InFlight { again: false };
        entry.started = Some(now);
        self.n_in_flight += 1;
        Some(Start {
            id,
            late: now.saturating_duration_since(due),
        })
    }

    /// When to poll next; `None` when there is nothing to start before a probe ends.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        if self.n_in_flight >= self.max_in_flight {
            return None;
        }
        loop {
            let &Reverse((due, id)) = self.due.peek()?;
            if self.entries.get(&id).is_some_and(|entry| entry.is_due(due)) {
                return Some(due);
            }
            self.due.pop();
        }
    }

    /// A probe that was started has ended.
    pub fn finish(&mut self, id: TargetId, pace: Pace, now: Instant) {
        self.n_in_flight = self.n_in_flight.saturating_sub(1);
        let fraction = self.draw();
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Phase::InFlight { again } = entry.phase else {
            return;
        };
        if pace == Pace::Usual {
            // Evidence that came after the start is not answered by this result.
            entry.urgent = again;
        }
        let due = if again {
            entry.soonest(now)
        } else {
            let started = entry.started.unwrap_or(now);
            let wait = entry.wait(pace, fraction);
            started.checked_add(wait).unwrap_or(started).max(now)
        };
        entry.settled = true;
        entry.phase = Phase::Waiting { due };
        self.due.push(Reverse((due, id)));
    }

    /// How many probes are in flight.
    #[must_use]
    pub fn n_in_flight(&self) -> usize {
        self.n_in_flight
    }

    /// How many probes may be in flight.
    #[must_use]
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// Takes up another bound; probes in flight continue.
    pub fn set_max_in_flight(&mut self, max: usize) {
        self.max_in_flight = max.max(1);
    }

    /// Rebuilds the heap when most of what it holds is out of date.
    fn tidy(&mut self) {
        if self.due.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.due.retain(|Reverse((due, id))| {
                entries.get(id).is_some_and(|entry| entry.is_due(*due))
            });
        }
    }

    /// A number from 0 to 1 (`SplitMix64`).
    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let [high, low, ..] = (mixed ^ (mixed >> 31)).to_be_bytes();
        f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX)
    }
}

impl Entry {
    fn is_due(&self, at: Instant) -> bool {
        matches!(self.phase, Phase::Waiting { due } if due == at)
    }

    /// When evidence may have a probe started.
    fn soonest(&self, now: Instant) -> Instant {
        let allowed = self.started.map(|started| started + EVIDENCE_GAP);
        allowed.map_or(now, |allowed| allowed.max(now))
    }

    /// From the start of one probe to the start of the next.
    fn wait(&self, pace: Pace, fraction: f64) -> Duration {
        match pace {
            // Half of the confirmation may be there already, and clients wait for the other half.
            Pace::Fast if self.urgent => self.schedule.fast_interval.min(EVIDENCE_GAP),
            Pace::Fast => self.schedule.fast_interval,
            Pace::Usual if self.settled => self.schedule.interval.mul_f64(1.0 - JITTER * fraction),
            // Targets that came together part at once: any part of the interval is left of the first.
            Pace::Usual => self
                .schedule
                .interval
                .mul_f64(1.0 - fraction)
                .max(Schedule::MIN_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests;
