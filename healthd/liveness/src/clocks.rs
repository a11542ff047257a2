//! The clocks of nodes: the last report of each reporter.
//!
//! A clock takes no part in liveness; healthd keeps each report and shows its age. A silent reporter stays,
//! marked as stale, until it expires or a new one needs its place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use health::{ClockReport, ClockState};

use crate::now::Now;

/// Clocks known at a time. A site has a few nodes; this many reporters are a mistake somewhere.
const MAX_CLOCKS: usize = 256;

/// A reporter that has said nothing for this long is no longer part of the site.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A report and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    pub report: ClockReport,
    /// When the state became what it is, since 1970.
    pub since: Duration,
    /// When it came.
    heard: Instant,
}

impl Clock {
    /// How old the report is.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard)
    }

    /// Whether the report is older than it holds.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        self.age(now) > self.report.valid
    }
}

/// There are as many clocks as may be, and none is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no more than {MAX_CLOCKS} clocks can be reported")]
pub struct TooManyClocks;

/// The clocks by the name of their reporters.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    by_reporter: BTreeMap<String, Clock>,
}

impl Clocks {
    /// Takes in a report. The answer is the state that was known before, if another.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn report(
        &mut self,
        report: ClockReport,
        now: Now,
    ) -> Result<Option<ClockState>, TooManyClocks> {
        self.by_reporter
            .retain(|_, clock| clock.age(now.steady) < FORGET_AFTER);
        let before = self.by_reporter.get(&report.reporter);
        if before.is_none() && self.by_reporter.len() >= MAX_CLOCKS {
            self.make_room(now.steady)?;
        }
        let before = self.by_reporter.get(&report.reporter);
        let state = before.map(|clock| clock.report.state);
        let since = before
            .filter(|clock| clock.report.state == report.state)
            .map_or(now.wall, |clock| clock.since);
        let changed = state.filter(|state| *state != report.state);
        let clock = Clock {
            since,
            heard: now.steady,
            report,
        };
        self.by_reporter
            .insert(clock.report.reporter.clone(), clock);
        Ok(changed)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Clock> {
        self.by_reporter.values()
    }

    /// Lets go of the one that has been silent for longest, if it is stale.
    fn make_room(&mut self, now: Instant) -> Result<(), TooManyClocks> {
        let oldest = self.by_reporter.values().min_by_key(|clock| clock.heard);
        let oldest = oldest.filter(|clock| clock.is_stale(now));
        let name = oldest.map(|clock| clock.report.reporter.clone());
        let name = name.ok_or(TooManyClocks)?;
        self.by_reporter.remove(&name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use health::Leap;

    use super::*;

    fn report(reporter: &str, state: ClockState) -> ClockReport {
        ClockReport {
            reporter: reporter.to_owned(),
            state,
            offset: 10,
            root_distance: Duration::from_millis(1),
            stratum: 3,
            leap: Leap::Normal,
            n_sources: 4,
            n_selectable: 4,
            reference: String::new(),
            valid: Duration::from_secs(30),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
    fn start() -> Now {
        Now {
            steady: Instant::now(),
            wall: Duration::from_secs(1_000),
        }
    }

    fn later(moment: Now, seconds: u64) -> Now {
        Now {
            steady: moment.steady + Duration::from_secs(seconds),
            wall: moment.wall + Duration::from_secs(seconds),
        }
    }

    #[test]
    fn the_last_word_counts_and_the_first_of_its_kind_says_since_when() {
        let (mut clocks, t0) = (Clocks::default(), start());
        assert_eq!(clocks.report(report("a", ClockState::Locked), t0), Ok(None));
        let t1 = later(t0, 5);
        assert_eq!(clocks.report(report("a", ClockState::Locked), t1), Ok(None));
        let clock = clocks.iter().next().unwrap().clone();
        assert_eq!(
            (clock.since, clock.age(t1.steady)),
            (t0.wall, Duration::ZERO)
        );
        let t2 = later(t0, 9);
        let changed = clocks.report(report("a", ClockState::Holdover), t2);
        assert_eq!(changed, Ok(Some(ClockState::Locked)));
        assert_eq!(clocks.iter().next().unwrap().since, t2.wall);
    }

    #[test]
    fn silence_makes_stale_and_then_is_forgotten() {
        let (mut clocks, t0) = (Clocks::default(), start());
        clocks.report(report("a", ClockState::Locked), t0).unwrap();
        let clock = clocks.iter().next().unwrap();
        assert!(!clock.is_stale(later(t0, 30).steady));
        assert!(clock.is_stale(later(t0, 31).steady));
        let next_day = later(t0, 24 * 3600);
        clocks
            .report(report("b", ClockState::Local), next_day)
            .unwrap();
        let names: Vec<_> = clocks.iter().map(|clock| &*clock.report.reporter).collect();
        assert_eq!(names, ["b"]);
    }

    #[test]
    fn there_is_room_for_so_many_and_the_silent_give_way() {
        let (mut clocks, t0) = (Clocks::default(), start());
        for number in 0..MAX_CLOCKS {
            let name = format!("node-{number:03}");
            clocks
                .report(report(&name, ClockState::Locked), t0)
                .unwrap();
        }
        let one_more = report("other", ClockState::Locked);
        assert_eq!(clocks.report(one_more.clone(), t0), Err(TooManyClocks));
        let known = report("node-000", ClockState::Locked);
        assert_eq!(clocks.report(known, later(t0, 31)), Ok(None));
        assert_eq!(clocks.report(one_more, later(t0, 31)), Ok(None));
        assert_eq!(clocks.iter().count(), MAX_CLOCKS);
        let names: Vec<_> = clocks.iter().map(|clock| &*clock.report.reporter).collect();
        assert!(names.contains(&"node-000") && !names.contains(&"node-001"));
    }
}
