//! Instants as people read them: RFC 3339 in UTC, without a time zone database.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time that displays as `2026-11-21T09:30:00.250Z`.
///
/// Times before 1970 display as 1970-01-01T00:00:00.000Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(pub SystemTime);

impl Timestamp {
    /// The time of day.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the shells' one reading of the calendar"
    )]
    pub fn now() -> Self {
        Self(SystemTime::now())
    }

    /// Time since 1970-01-01 UTC.
    #[must_use]
    pub fn since_epoch(self) -> Duration {
        self.0.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.since_epoch();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = civil_date(days);
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            second / 3600,
            second / 60 % 60,
            second % 60,
            since.subsec_millis()
        )
    }
}

/// Days since 1970-01-01 as year, month and day of the Gregorian calendar.
///
/// Counts in eras of 400 years that begin on 1 March, so that the leap day comes last.
#[must_use]
pub fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_date(days), date, "day {days}");
        }
    }

    #[test]
    fn a_timestamp_reads_as_rfc_3339() {
        let time = UNIX_EPOCH + Duration::from_millis(1_795_253_405_250);
        assert_eq!(Timestamp(time).to_string(), "2026-11-21T09:30:05.250Z");
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp(before).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
