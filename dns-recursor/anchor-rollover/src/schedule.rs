//! One zone whose keys are followed: its anchors, and when to ask for its keys (RFC 5011 §2.3).
//!
//! Two clocks: one that only runs, and the time of day for what happened before a restart. Nothing that the time of day says counts for more
//! than [`LONGEST_INTERVAL`].

use std::time::Duration;

use crate::{Anchors, Change, DAY, LONGEST_INTERVAL, Refused, Rules, Set};

/// The shortest time between two questions with the hold-down of the standard (RFC 5011 §2.3).
const SHORTEST_INTERVAL: Duration = Duration::from_secs(3_600);
/// The shortest one with any hold-down.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// The part of a short hold-down that may pass between two questions.
const PART_OF_HOLD_DOWN: u32 = 10;

/// A time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of day, in seconds since 1970.
    pub wall: u64,
    /// By a clock that only runs.
    pub steady: Duration,
}

/// The last set that counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When it came, in seconds since 1970.
    pub wall: u64,
    /// Its original TTL.
    pub ttl: Duration,
    /// How long its signatures were still good.
    pub signed_for: Duration,
}

impl Heard {
    /// The time until the next question.
    fn interval(&self, rules: Rules<'_>) -> Duration {
        let half = self.ttl.min(self.signed_for) / 2;
        half.min(LONGEST_INTERVAL).max(shortest(rules))
    }
}

/// A zone whose keys are followed.
#[derive(Clone, Debug)]
pub struct Zone {
    anchors: Anchors,
    heard: Option<Heard>,
    /// When the last set came to this process.
    heard_at: Option<Duration>,
    due: Duration,
}

impl Zone {
    /// A zone of which nothing was heard yet: the next question is due at once.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self {
            anchors: Anchors::default(),
            heard: None,
            heard_at: None,
            due: now.steady,
        }
    }

    /// A zone as it was kept on disk.
    #[must_use]
    pub fn restored(anchors: Anchors, heard: Heard, rules: Rules<'_>, now: Now) -> Self {
        let interval = heard.interval(rules);
        // A clock that stands before the last set says nothing.
        let passed = now.wall.checked_sub(heard.wall).map(Duration::from_secs);
        let left = passed.map_or(Duration::ZERO, |passed| interval.saturating_sub(passed));
        Self {
            anchors,
            heard: Some(heard),
            heard_at: None,
            due: now.steady + left,
        }
    }

    /// The keys and their states.
    #[must_use]
    pub const fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    /// The last set that counted.
    #[must_use]
    pub const fn heard(&self) -> Option<Heard> {
        self.heard
    }

    /// When the next question is due, by the clock that only runs.
    #[must_use]
    pub const fn due(&self) -> Duration {
        self.due
    }

    /// Whether all keys are revoked or removed: the zone has no trust anchor any more (RFC 5011 §5).
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.heard.is_some() && self.anchors.is_given_up()
    }

    /// Takes a set that was asked for.
    ///
    /// # Errors
    /// When no trusted key has signed it: nothing changes, and the next question is due earlier.
    pub fn take(
        &mut self,
        set: Set<'_>,
        rules: Rules<'_>,
        now: Now,
    ) -> Result<Vec<Change>, Refused> {
        match self.anchors.take(set, self.elapsed(now), rules) {
            Ok(changes) => {
                let heard = Heard {
                    wall: now.wall,
                    ttl: set.ttl,
                    signed_for: set.signed_for,
                };
                self.heard = Some(heard);
                self.heard_at = Some(now.steady);
                self.due = now.steady + heard.interval(rules);
                Ok(changes)
            }
            Err(refused) => {
                self.failed(rules, now);
                Err(refused)
            }
        }
    }

    /// Takes that there was no set with a good signature.
    pub fn failed(&mut self, rules: Rules<'_>, now: Now) {
        let tenth = self.heard.map_or(Duration::ZERO, |heard| {
            heard.ttl.min(heard.signed_for) / PART_OF_HOLD_DOWN
        });
        self.due = now.steady + tenth.min(DAY).max(shortest(rules));
    }

    /// The time since the last set.
    fn elapsed(&self, now: Now) -> Option<Duration> {
        let by_day = |heard: Heard| Duration::from_secs(now.wall.saturating_sub(heard.wall));
        match self.heard_at {
            Some(at) => Some(now.steady.saturating_sub(at)),
            None => self.heard.map(by_day),
        }
    }
}

/// The shortest time between two questions: an hour, unless the operator has a short hold-down.
fn shortest(rules: Rules<'_>) -> Duration {
    let part = rules.add_hold_down / PART_OF_HOLD_DOWN;
    part.clamp(LEAST_INTERVAL, SHORTEST_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HOLD_DOWN, State};

    const HOUR: Duration = SHORTEST_INTERVAL;

    fn rules(add_hold_down: Duration) -> Rules<'static> {
        Rules {
            add_hold_down,
            del_hold_down: HOLD_DOWN,
            keep_missing: None,
            is_initial: &|key| key.rdata().ends_with(&[1]),
        }
    }

    fn at(seconds: u64) -> Now {
        Now {
            wall: 1_800_000_000 + seconds,
            steady: Duration::from_secs(seconds),
        }
    }

    fn set(rdatas: &[Vec<u8>], ttl: Duration, signed_for: Duration) -> Set<'_> {
        Set {
            rdatas,
            signers: &[0],
            ttl,
            signed_for,
        }
    }

    fn keys(numbers: &[u8]) -> Vec<Vec<u8>> {
        let key = |number: &u8| vec![1, 1, 3, 13, 0, *number];
        numbers.iter().map(key).collect()
    }

    #[test]
    fn questions_keep_the_intervals_of_the_standard() {
        for (ttl, signed_for, hold_down, next, again) in [
            (2 * DAY, 14 * DAY, HOLD_DOWN, DAY, 2 * DAY / 10),
            (60 * HOUR, 4 * HOUR, HOLD_DOWN, 2 * HOUR, HOUR),
            (Duration::ZERO, Duration::ZERO, HOLD_DOWN, HOUR, HOUR),
            (400 * DAY, 400 * DAY, HOLD_DOWN, 15 * DAY, DAY),
            (
                Duration::from_secs(4),
                DAY,
                Duration::from_secs(10),
                Duration::from_secs(2),
                Duration::from_secs(1),
            ),
        ] {
            let mut zone = Zone::new(at(0));
            assert_eq!(zone.due(), Duration::ZERO);
            let good = keys(&[1]);
            zone.take(set(&good, ttl, signed_for), rules(hold_down), at(0))
                .unwrap();
            assert_eq!(zone.due(), next, "{ttl:?} {signed_for:?}");
            zone.failed(rules(hold_down), at(0));
            assert_eq!(zone.due(), again, "{ttl:?} {signed_for:?}");
        }
    }

    #[test]
    fn time_counts_by_the_clock_that_only_runs_and_over_a_restart_by_the_time_of_day() {
        let both = keys(&[1, 2]);
        let both = set(&both, DAY, DAY);
        let held = |zone: &Zone| {
            let mut all = zone.anchors().keys();
            all.find_map(|(_, state)| match state {
                State::Pending { held, .. } => Some(held),
                _ => None,
            })
        };
        let mut zone = Zone::new(at(0));
        zone.take(both, rules(HOLD_DOWN), at(0)).unwrap();
        // The time of day was set a year forward.
        let jumped = Now {
            wall: at(365 * 86_400).wall,
            ..at(60)
        };
        zone.take(both, rules(HOLD_DOWN), jumped).unwrap();
        assert_eq!(held(&zone), Some(Duration::from_secs(60)));

        let heard = zone.heard().unwrap();
        for (later, due, counted) in [
            (3_600, 43_200 - 3_600, 3_660),
            (86_400, 0, 86_460),
            // No more than 15 days, whatever the time of day says.
            (365 * 86_400, 0, 15 * 86_400 + 60),
        ] {
            let now = Now {
                wall: heard.wall + later,
                steady: Duration::ZERO,
            };
            let rules = rules(HOLD_DOWN);
            let mut zone = Zone::restored(zone.anchors().clone(), heard, rules, now);
            assert_eq!(zone.due(), Duration::from_secs(due), "{later}");
            zone.take(both, rules, now).unwrap();
            assert_eq!(held(&zone), Some(Duration::from_secs(counted)), "{later}");
        }
        // A clock that was set back counts nothing, and asks at once.
        let early = Now {
            wall: 0,
            steady: Duration::ZERO,
        };
        let rules = rules(HOLD_DOWN);
        let mut zone = Zone::restored(zone.anchors().clone(), heard, rules, early);
        assert_eq!(zone.due(), Duration::ZERO);
        zone.take(both, rules, early).unwrap();
        assert_eq!(held(&zone), Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_set_that_nobody_trusted_has_signed_is_asked_for_again_earlier() {
        let (good, bad) = (keys(&[1]), keys(&[2]));
        let mut zone = Zone::new(at(0));
        let rules = rules(HOLD_DOWN);
        assert!(zone.take(set(&bad, DAY, DAY), rules, at(0)).is_err());
        assert_eq!((zone.due(), zone.heard()), (HOUR, None));
        assert!(!zone.is_given_up(), "the operator's keys still stand");
        zone.take(set(&good, 2 * DAY, DAY), rules, at(5)).unwrap();
        assert_eq!(zone.due(), Duration::from_secs(5) + DAY / 2);
        assert!(zone.take(set(&bad, DAY, DAY), rules, at(10)).is_err());
        assert_eq!(zone.due(), Duration::from_secs(10) + DAY / 10);
    }
}
