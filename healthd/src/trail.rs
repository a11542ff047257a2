//! The recent past, in memory: the results of each target's probes, the offsets of clocks, and changes.
//! Each list has a bound, and no decision depends on one.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, UNIX_EPOCH};

use api::healthd::{Event, Events};
use daemon::calendar::Timestamp;
use liveness::schedule::TargetId;

/// Results of a target that are kept: two minutes at the default interval.
pub const RESULTS: usize = 60;

/// Offsets of a clock that are kept.
pub const OFFSETS: usize = 120;

/// Changes that are kept.
pub const EVENTS: usize = 256;

/// Targets whose results are kept. They take 16 MB at most.
const TARGETS: usize = 16_384;

/// The longest reason of a change, in characters.
const REASON: usize = 300;

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Whether it was good.
    pub good: bool,
    /// How long it took, in seconds.
    pub seconds: f32,
}

/// The recent past.
#[derive(Debug, Default)]
pub struct Trail {
    results: BTreeMap<TargetId, VecDeque<Outcome>>,
    offsets: BTreeMap<String, VecDeque<f64>>,
    events: VecDeque<Event>,
    total: u64,
}

impl Trail {
    /// Keeps the result of a probe; `is_known` says which targets are still there.
    pub fn note_result(
        &mut self,
        id: TargetId,
        outcome: Outcome,
        is_known: impl Fn(TargetId) -> bool,
    ) {
        if !self.results.contains_key(&id) && self.results.len() >= TARGETS {
            self.results.retain(|id, _| is_known(*id));
            if self.results.len() >= TARGETS {
                return;
            }
        }
        push(self.results.entry(id).or_default(), outcome, RESULTS);
    }

    /// Keeps the offset of a clock, in seconds; `is_known` says which reporters are still there.
    pub fn note_offset(&mut self, reporter: &str, offset: f64, is_known: impl Fn(&str) -> bool) {
        if !self.offsets.contains_key(reporter) {
            self.offsets.retain(|reporter, _| is_known(reporter));
        }
        let offsets = self.offsets.entry(reporter.to_owned()).or_default();
        push(offsets, offset, OFFSETS);
    }

    /// Keeps a change that happened at `at`, since 1970.
    pub fn note(&mut self, at: Duration, change: Change) {
        self.total += 1;
        let event = Event {
            at: Timestamp(UNIX_EPOCH + at).to_string(),
            what: change.what,
            state: change.state,
            why: change.why.chars().take(REASON).collect(),
            by: change.by,
        };
        push(&mut self.events, event, EVENTS);
    }

    /// The last results of a target, the oldest first.
    #[must_use]
    pub fn results(&self, id: TargetId) -> Vec<Outcome> {
        let results = self.results.get(&id).into_iter().flatten();
        results.copied().collect()
    }

    /// The last offsets of every clock, the oldest first.
    #[must_use]
    pub fn offsets(&self) -> BTreeMap<String, Vec<f64>> {
        let each = self.offsets.iter();
        each.map(|(reporter, offsets)| (reporter.clone(), offsets.iter().copied().collect()))
            .collect()
    }

    /// The last changes, the newest first.
    #[must_use]
    pub fn events(&self) -> Events {
        Events {
            total: self.total,
            events: self.events.iter().rev().cloned().collect(),
        }
    }
}

/// A change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The changed thing.
    pub what: String,
    /// Its new state.
    pub state: String,
    /// The reason.
    pub why: String,
    /// The operator whose decision it is.
    pub by: String,
}

/// Appends, and lets go of the oldest beyond `most`.
fn push<T>(ring: &mut VecDeque<T>, one: T, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Outcome = Outcome {
        good: true,
        seconds: 0.001,
    };

    #[test]
    fn changes_are_bounded_and_the_newest_comes_first() {
        let mut trail = Trail::default();
        for second in 0..300 {
            let change = Change {
                what: format!("tcp 192.0.2.1:{second}"),
                state: "up".to_owned(),
                why: "x".repeat(1000),
                by: String::new(),
            };
            trail.note(Duration::from_secs(second), change);
        }
        let kept = trail.events();
        assert_eq!((kept.total, kept.events.len()), (300, EVENTS));
        let first = kept.events.first().unwrap();
        assert_eq!(first.what, "tcp 192.0.2.1:299");
        assert_eq!(first.at, "1970-01-01T00:04:59.000Z");
        assert_eq!(first.why.len(), REASON);
    }

    #[test]
    fn results_are_bounded_in_each_target_and_in_all() {
        let mut trail = Trail::default();
        let bad = Outcome {
            good: false,
            ..GOOD
        };
        trail.note_result(TargetId(0), bad, |_| true);
        for _ in 0..RESULTS {
            trail.note_result(TargetId(0), GOOD, |_| true);
        }
        assert_eq!(trail.results(TargetId(0)), [GOOD; RESULTS]);
        for number in 1..=20_000 {
            trail.note_result(TargetId(number), GOOD, |_| true);
        }
        assert_eq!(trail.results.len(), TARGETS);
        trail.note_result(TargetId(20_001), GOOD, |id| id == TargetId(0));
        assert_eq!(trail.results.len(), 2, "those of targets that are gone");
    }

    #[test]
    fn a_clock_that_is_gone_is_forgotten_with_the_next_new_one() {
        let mut trail = Trail::default();
        for _ in 0..500 {
            trail.note_offset("master-0", 0.001, |_| true);
        }
        trail.note_offset("master-1", 0.002, |reporter| reporter != "master-0");
        let offsets = trail.offsets();
        assert_eq!(offsets.keys().collect::<Vec<_>>(), ["master-1"]);
    }
}
