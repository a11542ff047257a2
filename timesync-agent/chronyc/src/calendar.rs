//! Moments as chronyc prints them.

use time_model::time::{SECOND, UnixTime};

const DAY: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `Sat Nov 21 19:22:50 2026`, in UTC.
#[must_use]
pub fn text(time: UnixTime) -> String {
    let seconds = time.0.div_euclid(SECOND);
    let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let weekday = usize::try_from(days.rem_euclid(7)).unwrap_or_default();
    let (year, month, day) = date(days);
    let weekday = WEEKDAYS.get(weekday).copied().unwrap_or_default();
    let month = MONTHS.get(month).copied().unwrap_or_default();
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Year, month from 0 and day of a number of days since 1970-01-01.
fn date(days: i64) -> (i64, usize, i64) {
    // Years begin in March, so that the day that comes and goes is the last one; 400 of them have 146,097 days.
    let since = days + 719_468;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month_from_january = (month + 2) % 12;
    let year = year + era * 400 + i64::from(month >= 10);
    (
        year,
        usize::try_from(month_from_january).unwrap_or_default(),
        day,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_printed_as_date_does() {
        for (seconds, expected) in [
            (0, "Thu Jan 01 00:00:00 1970"),
            (-1, "Wed Dec 31 23:59:59 1969"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_288_970, "Sat Nov 21 19:22:50 2026"),
            (4_107_542_399, "Sun Feb 28 23:59:59 2100"),
            (4_107_542_400, "Mon Mar 01 00:00:00 2100"),
        ] {
            assert_eq!(text(UnixTime(seconds * SECOND)), expected);
        }
    }
}
