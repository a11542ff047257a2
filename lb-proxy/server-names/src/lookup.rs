//! One question: the records that hold, and when it is due again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::message::{Failure, Outcome, Record};

/// The times of lookups, by HAProxy's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `timeout resolve`: the shortest time between two lookups, and that after a failure.
    pub timeout_resolve: Duration,
    /// `hold valid`: the longest time between two lookups.
    pub hold_valid: Duration,
    /// `hold nx`: how long records stay while the name is denied.
    pub hold_nx: Duration,
    /// `hold obsolete`: how long a record stays that an answer lacks.
    pub hold_obsolete: Duration,
}

/// The state of a lookup, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No response has come yet.
    Asking,
    /// The last response has records.
    Found,
    /// The name does not exist, or has no such records.
    Denied {
        /// Whether the name is there with other records.
        exists: bool,
    },
    /// The last lookup failed: the records are those of an earlier one.
    Failed(Failure),
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The records of the last answer.
    records: BTreeSet<Record>,
    /// Records that the last answer lacks, and when each goes.
    obsolete: BTreeMap<Record, Instant>,
    /// Since when the records are denied, without a break.
    denied_since: Option<Instant>,
    state: State,
    /// The time of the last answer or denial.
    answered: Option<Instant>,
    due: Instant,
    is_in_flight: bool,
    /// It began with the records of before, or without any where there were none.
    is_kept: bool,
}

impl Lookup {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            records: BTreeSet::new(),
            obsolete: BTreeMap::new(),
            denied_since: None,
            state: State::Asking,
            answered: None,
            due: now,
            is_in_flight: false,
            is_kept: false,
        }
    }

    /// One that begins with records, and is due at once.
    pub(crate) fn kept(records: BTreeSet<Record>, now: Instant) -> Self {
        Self {
            records,
            is_kept: true,
            ..Self::new(now)
        }
    }

    /// Whether it has to be asked now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.is_in_flight && self.due <= now
    }

    pub(crate) const fn is_in_flight(&self) -> bool {
        self.is_in_flight
    }

    pub(crate) const fn send(&mut self) {
        self.is_in_flight = true;
    }

    /// No response will come to a query that was sent.
    pub(crate) const fn give_up(&mut self) {
        self.is_in_flight = false;
    }

    /// Takes up the outcome of a query.
    pub(crate) fn take(&mut self, outcome: Outcome, settings: &Settings, now: Instant) {
        self.is_in_flight = false;
        let interval = |ttl: Duration| {
            let longest = settings.hold_valid.max(settings.timeout_resolve);
            now + ttl.clamp(settings.timeout_resolve, longest)
        };
        match outcome {
            Outcome::Found { records, ttl } => {
                let until = now + settings.hold_obsolete;
                for lost in self.records.difference(&records) {
                    self.obsolete.entry(lost.clone()).or_insert(until);
                }
                self.obsolete.retain(|record, _| !records.contains(record));
                self.records = records;
                self.denied_since = None;
                self.state = State::Found;
                self.answered = Some(now);
                self.due = interval(ttl);
            }
            Outcome::Denied { exists, ttl } => {
                self.denied_since = self.denied_since.or(Some(now));
                self.state = State::Denied { exists };
                self.answered = Some(now);
                // While records are held, the end of the denial must not be missed.
                let ttl = ttl.filter(|_| self.is_empty());
                self.due = interval(ttl.unwrap_or_default());
            }
            Outcome::Failed(failure) => {
                // Silence confirms no denial: it has to last again.
                self.denied_since = None;
                self.state = State::Failed(failure);
                self.due = now + settings.timeout_resolve;
            }
        }
        self.tick(settings, now);
    }

    /// Lets go of records that have been held for long enough.
    pub(crate) fn tick(&mut self, settings: &Settings, now: Instant) {
        self.obsolete.retain(|_, until| *until > now);
        if self
            .denied_until(settings)
            .is_some_and(|until| until <= now)
        {
            self.records.clear();
            self.obsolete.clear();
        }
    }

    /// When [`Self::tick`] or the next query is due; `None` while a query is under way, or none may be sent, and nothing is held.
    pub(crate) fn deadline(&self, settings: &Settings, may_ask: bool) -> Option<Instant> {
        let due = (may_ask && !self.is_in_flight).then_some(self.due);
        let denied = self.denied_until(settings).filter(|_| !self.is_empty());
        let obsolete = self.obsolete.values().min().copied();
        due.into_iter().chain(denied).chain(obsolete).min()
    }

    fn denied_until(&self, settings: &Settings) -> Option<Instant> {
        self.denied_since.map(|since| since + settings.hold_nx)
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.obsolete.is_empty()
    }

    /// The records that hold: those of the last answer, then those that it lacks.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(self.obsolete.keys())
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    pub(crate) const fn answered(&self) -> Option<Instant> {
        self.answered
    }

    /// Whether nothing is known, not even from before.
    pub(crate) const fn is_open(&self) -> bool {
        !self.is_settled() && !self.is_kept
    }

    /// Whether a response, or its absence, is known.
    pub(crate) const fn is_settled(&self) -> bool {
        !matches!(self.state, State::Asking)
    }
}

#[cfg(test)]
mod tests;
