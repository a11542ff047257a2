//! Finds the node whose clock is wrong, by the times that the nodes say.
//!
//! Each node says its time with every message, at least once a second. A node whose clock is ahead of
//! the others' by more than the bound stamps with the others' time and the bound; one that is behind all
//! of several others stamps with theirs less the bound. So a clock that is wrong does not decide which
//! tag holds, and nothing that other nodes receive is refused or delayed for its stamp.
//!
//! The time of another node continues with the monotonic clock, so a step of the own clock is noticed at
//! once, and a node that cannot be reached still counts.
//!
//! Never reads a clock: times are handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use registry_facts::hlc::{Hlc, TimeRange};
use registry_facts::name::NodeName;

/// The clocks of the other nodes.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// In milliseconds.
    bound: u64,
    /// The last time that each node said, in milliseconds since 1970, and when that was.
    heard: BTreeMap<NodeName, (u64, Instant)>,
}

/// A fault of this node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is ahead of the clocks of all other nodes, or of most.
    Ahead(Duration),
    /// It is behind them.
    Behind(Duration),
    /// Only one other node has been heard, and the two clocks differ: either is wrong.
    Apart(Duration),
}

impl Clocks {
    /// No node has been heard; clocks may differ by `bound`.
    #[must_use]
    pub fn new(bound: Duration) -> Self {
        Self {
            bound: milliseconds(bound),
            heard: BTreeMap::new(),
        }
    }

    /// Another node has said its time.
    pub fn heard(&mut self, name: NodeName, time: u64, now: Instant) {
        self.heard.insert(name, (time, now));
    }

    /// Other nodes than these are the site's no longer.
    pub fn keep(&mut self, names: &BTreeSet<&NodeName>) {
        self.heard.retain(|name, _| names.contains(name));
    }

    /// How far the clock of another node is ahead of `here`, the wall clock, in milliseconds; negative
    /// when it is behind.
    #[must_use]
    pub fn difference(&self, name: &NodeName, here: u64, now: Instant) -> Option<i64> {
        let (time, since) = self.heard.get(name)?;
        let there = time_at(*time, *since, now);
        Some(match there.checked_sub(here) {
            Some(ahead) => i64::try_from(ahead).unwrap_or(i64::MAX),
            None => i64::try_from(here - there).map_or(i64::MIN, i64::wrapping_neg),
        })
    }

    /// Whether two clocks differ by more than they may.
    #[must_use]
    pub fn is_beyond(&self, difference: i64) -> bool {
        difference.unsigned_abs() > self.bound
    }

    /// The times that this node may stamp with.
    #[must_use]
    pub fn range(&self, now: Instant) -> TimeRange {
        let mut range = TimeRange::default();
        if let Some((low, high)) = self.middle(now) {
            range.latest = high.saturating_add(self.bound);
            // One node alone, whose clock may be the wrong one, lifts no stamp: a stamp from the future
            // does harm, and one from the past does little.
            if self.heard.len() > 1 {
                range.earliest = low.saturating_sub(self.bound);
            }
        }
        range
    }

    /// The fault of the wall clock that shows `here`.
    #[must_use]
    pub fn fault(&self, here: u64, now: Instant) -> Option<Fault> {
        let (low, high) = self.middle(now)?;
        let by = Duration::from_millis;
        if here > high.saturating_add(self.bound) {
            return Some(match self.heard.len() {
                1 => Fault::Apart(by(here - high)),
                _ => Fault::Ahead(by(here - high)),
            });
        }
        (here < low.saturating_sub(self.bound)).then(|| match self.heard.len() {
            1 => Fault::Apart(by(low - here)),
            _ => Fault::Behind(by(low - here)),
        })
    }

    /// Whether another node has said its time.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Whether a stamp is further ahead than two clocks may differ; `here` is the time that statements
    /// are stamped with.
    #[must_use]
    pub fn is_ahead(&self, stamp: Hlc, here: u64) -> bool {
        stamp.milliseconds() > here.saturating_add(self.bound)
    }

    /// The two middle times of the other nodes, which are the same when these are an odd number.
    fn middle(&self, now: Instant) -> Option<(u64, u64)> {
        let times = self.heard.values();
        let mut times: Vec<u64> = times
            .map(|(time, since)| time_at(*time, *since, now))
            .collect();
        times.sort_unstable();
        let low = times.get(times.len().checked_sub(1)? / 2)?;
        let high = times.get(times.len() / 2)?;
        Some((*low, *high))
    }
}

fn time_at(time: u64, since: Instant, now: Instant) -> u64 {
    time.saturating_add(milliseconds(now.saturating_duration_since(since)))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    /// A time of the true clock.
    const TRUE: u64 = 20_000 * DAY;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant does")]
    fn a_clock_outside_the_others_is_the_wrong_one() {
        let now = Instant::now();
        let by = Duration::from_millis;
        // The clocks of the others, the own one, the fault, and the time that is stamped with.
        let table: &[(&[u64], u64, Option<Fault>, u64)] = &[
            (&[], TRUE + DAY, None, TRUE + DAY),
            (&[TRUE], TRUE + HOUR, None, TRUE + HOUR),
            (&[TRUE, TRUE], TRUE - HOUR, None, TRUE - HOUR),
            // Of two nodes nobody knows.
            (
                &[TRUE],
                TRUE + DAY,
                Some(Fault::Apart(by(DAY))),
                TRUE + HOUR,
            ),
            (&[TRUE + DAY], TRUE, Some(Fault::Apart(by(DAY))), TRUE),
            (
                &[TRUE, TRUE],
                TRUE + DAY,
                Some(Fault::Ahead(by(DAY))),
                TRUE + HOUR,
            ),
            (&[TRUE, TRUE], 0, Some(Fault::Behind(by(TRUE))), TRUE - HOUR),
            // Another one is wrong.
            (&[TRUE, TRUE + DAY], TRUE, None, TRUE),
            (&[TRUE, 0], TRUE, None, TRUE),
            (
                &[TRUE, TRUE, TRUE + DAY, TRUE],
                TRUE + DAY,
                Some(Fault::Ahead(by(DAY))),
                TRUE + HOUR,
            ),
        ];
        for (others, here, fault, stamped) in table {
            let mut clocks = Clocks::new(by(HOUR));
            for (name, time) in ["b", "c", "d", "e"].iter().zip(*others) {
                clocks.heard(name.parse().unwrap(), *time, now);
            }
            assert_eq!(clocks.fault(*here, now), *fault, "{others:?} {here}");
            let range = clocks.range(now);
            assert_eq!(range.nearest(*here, 0), *stamped, "{others:?} {here}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant does")]
    fn the_time_of_a_node_that_is_silent_goes_on() {
        let now = Instant::now();
        let mut clocks = Clocks::new(Duration::from_millis(HOUR));
        let (b, c) = ("b".parse().unwrap(), "c".parse().unwrap());
        clocks.heard(b, TRUE, now);
        let later = now + Duration::from_millis(DAY);
        assert_eq!(clocks.fault(TRUE + DAY, later), None);
        assert_eq!(clocks.range(later).latest, TRUE + DAY + HOUR);
        // The shell keeps a range for a while.
        assert_eq!(clocks.range(now).nearest(u64::MAX, DAY), TRUE + DAY + HOUR);
        let b = "b".parse().unwrap();
        assert_eq!(clocks.difference(&b, TRUE, later), Some(24 * 3_600_000));
        assert_eq!(clocks.difference(&b, TRUE + DAY + 5, later), Some(-5));
        assert_eq!(clocks.difference(&c, TRUE, later), None);
        assert!(clocks.is_beyond(-24 * 3_600_000) && !clocks.is_beyond(5));
        assert!(clocks.is_ahead(Hlc::at(TRUE + DAY), TRUE));
        assert!(!clocks.is_ahead(Hlc::at(TRUE + HOUR), TRUE));
    }
}
