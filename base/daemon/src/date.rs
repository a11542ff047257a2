//! Reads the instants that `calendar` displays. The build script has that module, and not this one.

use std::time::{Duration, UNIX_EPOCH};

use crate::calendar::Timestamp;

impl Timestamp {
    /// Reads what it displays: `2026-11-21T09:30:00.250Z`; also without the fraction, or the day alone for its beginning.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = match text.len() {
            10 => format!("{text}T00:00:00.000Z"),
            20 => format!("{}.000Z", text.strip_suffix('Z')?),
            _ => text.to_owned(),
        };
        let number = |range: std::ops::Range<usize>| -> Option<u64> {
            let digits = text.get(range)?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        let days = days_since_1970(number(0..4)?, number(5..7)?, number(8..10)?)?;
        let second = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
        let since =
            Duration::from_secs(days * 86_400 + second) + Duration::from_millis(number(20..23)?);
        let time = Self(UNIX_EPOCH + since);
        (time.to_string() == text).then_some(time)
    }
}

/// The inverse of [`civil_date`](crate::calendar::civil_date); none before 1970 and for a month that there is not.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day;
    let leap_days = year / 4 - year / 100 + year / 400;
    // Day 1 of a month is no day after its beginning.
    (year * 365 + leap_days + day_of_year).checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_given_less_exactly_than_it_is_displayed() {
        for (text, expected) in [
            ("2026-11-21", "2026-11-21T00:00:00.000Z"),
            ("2026-11-21T09:30:00Z", "2026-11-21T09:30:00.000Z"),
            ("2024-02-29T09:30:00.250Z", "2024-02-29T09:30:00.250Z"),
        ] {
            let found = Timestamp::parse(text).map(|time| time.to_string());
            assert_eq!(found.as_deref(), Some(expected));
        }
        for bad in [
            "",
            "2026",
            "2026-02-29",
            "2026-13-01",
            "2026-11-21 09:30:00",
            "x026-11-21",
        ] {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
    }
}
