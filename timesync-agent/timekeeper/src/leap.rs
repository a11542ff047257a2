//! Leap seconds: the announcements, and their execution.

use super::terms::LeapSecond;
use time_model::settings::LeapMode;
use time_model::time::{SECOND, Span, UnixTime};
use time_model::view::Leap;

/// Nanoseconds of a day.
const DAY: i64 = 86_400 * SECOND;
/// So close to a leap second, samples are not taken: servers do it at different moments.
const CLOSE: i64 = 5 * SECOND;

/// The known leap seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct LeapSeconds {
    pub(super) mode: LeapMode,
    table: Vec<LeapSecond>,
    /// The announcement of most sources.
    announced: Leap,
    /// The next one, if it comes at the end of this day.
    pub(super) next: Option<(UnixTime, Leap)>,
    /// The last one that has passed.
    passed: Option<UnixTime>,
    /// How many were inserted since the table's last entry, by announcement alone.
    beyond_table: i32,
}

impl LeapSeconds {
    pub(super) fn new(mode: LeapMode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    pub(super) fn set_table(&mut self, table: &[LeapSecond]) {
        self.table = table.to_vec();
        self.table.sort_by_key(|leap| leap.at);
        // A table as new as the last one that passed has it, and those before.
        let passed = self.passed;
        if passed.is_some_and(|passed| self.table.iter().any(|leap| leap.at >= passed)) {
            self.beyond_table = 0;
        }
    }

    /// Takes what sources announce; gives what is to come if that is another thing than before.
    pub(super) fn vote(
        &mut self,
        leaps: impl Iterator<Item = Leap>,
        wall: UnixTime,
    ) -> Option<Leap> {
        let (mut n, mut insert, mut delete) = (0, 0, 0);
        for leap in leaps {
            n += 1;
            insert += u32::from(leap == Leap::Insert);
            delete += u32::from(leap == Leap::Delete);
        }
        if n > 0 {
            self.announced = if insert * 2 > n {
                Leap::Insert
            } else if delete * 2 > n {
                Leap::Delete
            } else {
                Leap::Normal
            };
        }
        self.plan(wall)
    }

    /// Finds out what comes at the end of this day; gives it if that is another thing than before.
    pub(super) fn plan(&mut self, wall: UnixTime) -> Option<Leap> {
        let before = self.pending();
        let midnight = UnixTime((wall.0.div_euclid(DAY) + 1).saturating_mul(DAY));
        // The kernel shows the first second of the next day, then again the last one of this.
        let over = self.passed == Some(midnight);
        self.next = match self.in_table(midnight) {
            Some(leap) if !over => Some((midnight, leap)),
            None if !over && is_leap_day(wall) && self.announced != Leap::Normal => {
                Some((midnight, self.announced))
            }
            _ => None,
        };
        let now = self.pending();
        (now != before).then_some(now)
    }

    fn in_table(&self, midnight: UnixTime) -> Option<Leap> {
        let index = self.table.iter().position(|leap| leap.at == midnight)?;
        let after = self.table.get(index)?.tai_offset;
        let before = index
            .checked_sub(1)
            .and_then(|i| self.table.get(i))?
            .tai_offset;
        match after - before {
            1 => Some(Leap::Insert),
            -1 => Some(Leap::Delete),
            _ => None,
        }
    }

    /// The leap second at the end of this day.
    pub(super) fn pending(&self) -> Leap {
        self.next.map_or(Leap::Normal, |(_, leap)| leap)
    }

    /// The kernel's task at the end of the day.
    pub(super) fn for_kernel(&self) -> Leap {
        match self.mode {
            LeapMode::System => self.pending(),
            LeapMode::Step | LeapMode::Slew | LeapMode::Ignore => Leap::Normal,
        }
    }

    /// TAI − UTC, where there is a table.
    pub(super) fn tai_offset(&self, wall: UnixTime) -> Option<i32> {
        let known = self
            .table
            .iter()
            .rev()
            .find(|leap| leap.at <= wall)?
            .tai_offset;
        Some(known + self.beyond_table)
    }

    /// The leap second that is over by now, and by how much it moves every clock.
    pub(super) fn pass(&mut self, wall: UnixTime) -> Option<(Leap, Span)> {
        let (at, leap) = self.next?;
        // A deleted second is the last one of the day.
        let moment = if leap == Leap::Delete {
            at - Span(SECOND)
        } else {
            at
        };
        if wall < moment {
            return None;
        }
        self.next = None;
        self.passed = Some(at);
        self.announced = Leap::Normal;
        let seconds = if leap == Leap::Delete { 1 } else { -1 };
        if self.in_table(at).is_none() {
            self.beyond_table -= i32::try_from(seconds).unwrap_or(0);
        }
        Some((leap, Span(seconds * SECOND)))
    }

    /// The time until the next one is over on the wall clock; if none is due today, until the next look at the table.
    pub(super) fn until(&self, wall: UnixTime) -> Option<Span> {
        match self.next {
            Some((at, Leap::Delete)) => Some(at - Span(SECOND) - wall),
            Some((at, _)) => Some(at - wall),
            None if self.table.is_empty() => None,
            None => {
                let next_day = (wall.0.div_euclid(DAY) + 1).saturating_mul(DAY);
                Some(UnixTime(next_day) + Span(SECOND) - wall)
            }
        }
    }

    /// Returns whether the state of sources is uncertain at this time.
    pub(super) fn is_close(&self, wall: UnixTime) -> bool {
        let next = self.next.map(|(at, _)| at);
        next.into_iter()
            .chain(self.passed)
            .any(|at| (wall - at).0.abs() < CLOSE)
    }
}

/// Leap seconds are announced on the last days of June and December (ITU-R TF.460-6 §2.1).
fn is_leap_day(wall: UnixTime) -> bool {
    let (month, day) = month_and_day(wall.0.div_euclid(DAY));
    matches!((month, day), (6, 30) | (12, 31))
}

/// Month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn month_and_day(days: i64) -> (i64, i64) {
    // Years begin in March, so that the leap day is the last one; eras have 400 years.
    let days = days + 719_468;
    let day_of_era = days.rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(days: i64, seconds: i64) -> UnixTime {
        UnixTime((days * 86_400 + seconds) * SECOND)
    }

    #[test]
    fn days_have_their_dates() {
        for (days, date) in [
            (0, (1, 1)),
            (59, (3, 1)),
            (11_016, (2, 29)),
            (15_521, (6, 30)),
            (15_705, (12, 31)),
            (-1, (12, 31)),
        ] {
            assert_eq!(month_and_day(days), date, "{days}");
        }
    }

    #[test]
    fn a_majority_announces_on_the_last_day_of_june() {
        let mut leap = LeapSeconds::default();
        let insert = [Leap::Insert, Leap::Insert, Leap::Normal];
        assert_eq!(
            leap.vote(insert.into_iter(), wall(15_520, 0)),
            None,
            "the day before"
        );
        assert_eq!(
            leap.vote(insert.into_iter(), wall(15_521, 0)),
            Some(Leap::Insert)
        );
        let split = [Leap::Insert, Leap::Normal];
        assert_eq!(
            leap.vote(split.into_iter(), wall(15_521, 9)),
            Some(Leap::Normal),
            "no majority"
        );
    }

    #[test]
    fn a_table_needs_no_announcement_and_knows_tai() {
        let mut leap = LeapSeconds::default();
        leap.set_table(&[
            LeapSecond {
                at: wall(14_245, 0),
                tai_offset: 34,
            },
            LeapSecond {
                at: wall(15_522, 0),
                tai_offset: 35,
            },
        ]);
        assert_eq!(
            leap.until(wall(15_520, 0)),
            Some(Span(86_401 * SECOND)),
            "another day"
        );
        assert_eq!(leap.plan(wall(15_521, 5)), Some(Leap::Insert));
        assert_eq!(leap.until(wall(15_521, 5)), Some(Span(86_395 * SECOND)));
        assert_eq!(leap.tai_offset(wall(15_521, 5)), Some(34));
        assert_eq!(leap.pass(wall(15_521, 86_399)), None);
        assert_eq!(
            leap.pass(wall(15_522, 0)),
            Some((Leap::Insert, Span(-SECOND)))
        );
        assert_eq!(
            leap.plan(wall(15_521, 86_399)),
            None,
            "it does not come twice"
        );
        assert_eq!(leap.tai_offset(wall(15_522, 1)), Some(35));
        assert!(leap.is_close(wall(15_522, 3)));
        assert!(!leap.is_close(wall(15_522, 6)));
    }
    #[test]
    fn a_leap_second_that_was_announced_counts_once_when_the_table_has_it_too() {
        let entry = |days, tai_offset| LeapSecond {
            at: wall(days, 0),
            tai_offset,
        };
        let old = [entry(14_245, 36)];
        let mut leap = LeapSeconds::default();
        leap.set_table(&old);
        let insert = [Leap::Insert];
        leap.vote(insert.into_iter(), wall(15_521, 5));
        assert!(leap.pass(wall(15_522, 0)).is_some());
        assert_eq!(leap.tai_offset(wall(15_522, 1)), Some(37), "announced");
        leap.set_table(&old);
        assert_eq!(leap.tai_offset(wall(15_523, 0)), Some(37), "as old as ever");
        leap.set_table(&[old[0], entry(15_522, 37)]);
        assert_eq!(leap.tai_offset(wall(15_523, 0)), Some(37), "a newer list");
    }
}
