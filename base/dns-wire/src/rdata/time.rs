//! The times of signatures: `YYYYMMDDHHmmSS` in UTC, or plain seconds (RFC 4034 §3.2).

use super::text::decimal;

/// Seconds since 1970 modulo 2^32, as in RRSIG (RFC 4034 §3.1.5).
pub(super) fn parse(text: &[u8]) -> Option<u32> {
    let (date, clock) = match text.len() {
        14 => text.split_at_checked(8)?,
        _ => return decimal(text),
    };
    let (year, date) = date.split_at_checked(4)?;
    let [year, month, day] = [
        decimal::<u64>(year)?,
        decimal(date.get(..2)?)?,
        decimal(date.get(2..)?)?,
    ];
    let [hour, minute, second] = [
        decimal::<u64>(clock.get(..2)?)?,
        decimal(clock.get(2..4)?)?,
        decimal(clock.get(4..)?)?,
    ];
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if day == 0 || day > days_in(year, month) {
        return None;
    }
    let days = (1970..year).map(days_in_year).sum::<u64>()
        + (1..month).map(|month| days_in(year, month)).sum::<u64>()
        + day
        - 1;
    u32::try_from((((days * 24 + hour) * 60 + minute) * 60 + second) % (1 << 32)).ok()
}

/// Appends the time as `YYYYMMDDHHmmSS`, in the years 1970 to 2106.
pub(super) fn push(moment: u32, out: &mut String) {
    let (mut days, second) = (u64::from(moment) / 86_400, moment % 86_400);
    let (mut year, mut month) = (1970, 1);
    while days >= days_in_year(year) {
        days -= days_in_year(year);
        year += 1;
    }
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let day = days + 1;
    out.push_str(&format!(
        "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"
    ));
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_and_print() {
        for (text, moment) in [
            ("19700101000000", 0),
            ("20030322173103", 1_048_354_263),
            ("20000229235959", 951_868_799),
            ("20380119031408", 2_147_483_648),
            ("21060207062815", u32::MAX),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(moment));
            let mut printed = String::new();
            push(moment, &mut printed);
            assert_eq!(printed, text);
        }
        assert_eq!(parse(b"1048354263"), Some(1_048_354_263));
        assert_eq!(parse(b"21060207062816"), Some(0));
    }

    #[test]
    fn impossible_moments_are_refused() {
        for bad in [
            "",
            "20030229000000",
            "19000101000000",
            "20031301000000",
            "20030100000000",
            "20030101240000",
            "20030101006000",
            "2003010100000x",
            "99999999999",
            "+1",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
