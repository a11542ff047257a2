//! Leap seconds that are known before they come: from a time zone that counts them (`right/UTC`, RFC 9636) or from the list of the
//! IERS.

use std::fs;
use std::path::Path;

use crate::settings::LeapSettings;
use crate::time::{SECOND, UnixTime};
use crate::timekeeper::LeapSecond;

/// Where time zones are.
const ZONES: [&str; 3] = [
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/usr/share/lib/zoneinfo",
];
/// The longest file that is read; both are a few kilobytes.
const LONGEST: u64 = 1 << 20;
/// TAI − UTC before the first leap second, in seconds.
const FIRST_TAI_OFFSET: i32 = 10;
/// Seconds from 1900-01-01, which the list counts from, to 1970-01-01.
const UNIX_IN_LIST: i64 = 2_208_988_800;

/// What the settings name; nothing, and a line that says so, if it cannot be read.
#[must_use]
pub fn read(settings: &LeapSettings) -> Vec<LeapSecond> {
    if let Some(zone) = &settings.time_zone {
        let found = ZONES
            .iter()
            .map(|directory| Path::new(directory).join(zone))
            .find(|path| path.is_file());
        let leaps = found
            .as_deref()
            .and_then(contents)
            .and_then(|octets| zone_leaps(&octets));
        match leaps.filter(|leaps| !leaps.is_empty()) {
            Some(leaps) => return leaps,
            None => tracing::warn!(
                zone,
                "There are no leap seconds in this time zone, or it is not installed"
            ),
        }
    }
    let list = settings.list.as_deref();
    let Some(path) = list else {
        return Vec::new();
    };
    let leaps = contents(path).and_then(|octets| list_leaps(&octets));
    if leaps.is_none() {
        tracing::warn!(path = %path.display(), "This is no list of leap seconds");
    }
    leaps.unwrap_or_default()
}

fn contents(path: &Path) -> Option<Vec<u8>> {
    let is_short = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= LONGEST);
    is_short.then(|| fs::read(path).ok()).flatten()
}

/// Numbers of the header of a time zone file (RFC 9636 §3.1).
#[derive(Clone, Copy, Debug)]
struct Header {
    version: u8,
    n_utc: usize,
    n_std: usize,
    n_leaps: usize,
    n_times: usize,
    n_types: usize,
    n_letters: usize,
}

/// Octets of that.
const HEADER: usize = 44;

impl Header {
    fn read(octets: &[u8]) -> Option<Self> {
        if octets.get(..4) != Some(b"TZif") {
            return None;
        }
        let number = |place: usize| -> Option<usize> {
            let at = 20 + 4 * place;
            let octets = octets.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_be_bytes(octets)).ok()
        };
        Some(Self {
            version: *octets.get(4)?,
            n_utc: number(0)?,
            n_std: number(1)?,
            n_leaps: number(2)?,
            n_times: number(3)?,
            n_types: number(4)?,
            n_letters: number(5)?,
        })
    }

    /// Where leap seconds begin after the header, with times of so many octets.
    fn leaps(&self, time: usize) -> Option<usize> {
        self.n_times
            .checked_mul(time + 1)?
            .checked_add(self.n_types.checked_mul(6)?)?
            .checked_add(self.n_letters)
    }

    /// Where the data end.
    fn end(&self, time: usize) -> Option<usize> {
        self.leaps(time)?
            .checked_add(self.n_leaps.checked_mul(time + 4)?)?
            .checked_add(self.n_std)?
            .checked_add(self.n_utc)
    }
}

/// The leap seconds of a time zone file (RFC 9636 §3.2). Times there count the leap seconds before them.
fn zone_leaps(octets: &[u8]) -> Option<Vec<LeapSecond>> {
    let first = Header::read(octets)?;
    let (header, start, time) = if first.version >= b'2' {
        // The same again follows, with times of 64 bits.
        let second = HEADER.checked_add(first.end(4)?)?;
        let header = Header::read(octets.get(second..)?)?;
        (header, second.checked_add(HEADER)?, 8)
    } else {
        (first, HEADER, 4)
    };
    let start = start.checked_add(header.leaps(time)?)?;
    let mut leaps = Vec::new();
    let mut before = 0;
    for place in 0..header.n_leaps {
        let at = place.checked_mul(time + 4)?.checked_add(start)?;
        let moment = octets.get(at..at.checked_add(time)?)?;
        let moment = match time {
            8 => i64::from_be_bytes(moment.try_into().ok()?),
            _ => i32::from_be_bytes(moment.try_into().ok()?).into(),
        };
        let at = at + time;
        let correction = i32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?);
        if correction == before {
            // The end of what the file is good for (version 4), and no leap second.
            continue;
        }
        // An inserted second is told of as it begins, and has the number of the one after it; of a deleted one, the one after it is.
        let unix = moment.checked_sub(before.min(correction).into())?;
        leaps.push(LeapSecond {
            at: UnixTime(unix.checked_mul(SECOND)?),
            tai_offset: FIRST_TAI_OFFSET.checked_add(correction)?,
        });
        before = correction;
    }
    Some(leaps)
}

/// The leap seconds of a list as the IERS gives it: lines of seconds since 1900 and TAI − UTC from then on.
fn list_leaps(octets: &[u8]) -> Option<Vec<LeapSecond>> {
    let text = std::str::from_utf8(octets).ok()?;
    let mut leaps = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut numbers = line.split_ascii_whitespace();
        let at: i64 = numbers.next()?.parse().ok()?;
        let tai_offset: i32 = numbers.next()?.parse().ok()?;
        // The first line is no leap second but where counting begins.
        if tai_offset != FIRST_TAI_OFFSET {
            let unix = at.checked_sub(UNIX_IN_LIST)?;
            leaps.push(LeapSecond {
                at: UnixTime(unix.checked_mul(SECOND)?),
                tai_offset,
            });
        }
    }
    Some(leaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1972-07-01, 2012-07-01 and 2017-01-01, as chrony looks for the middle one.
    const KNOWN: [(i64, i32); 3] = [(78_796_800, 11), (1_341_100_800, 35), (1_483_228_800, 37)];

    fn has_known(leaps: &[LeapSecond]) {
        for (at, tai_offset) in KNOWN {
            let leap = LeapSecond {
                at: UnixTime(at * SECOND),
                tai_offset,
            };
            assert!(leaps.contains(&leap), "{leap:?} in {leaps:?}");
        }
    }

    /// A file of the second version: an empty first part, and leap seconds in the second.
    fn zone(leaps: &[(i64, i32)]) -> Vec<u8> {
        let header = |n_leaps: u32| {
            let mut octets = b"TZif2".to_vec();
            octets.resize(20, 0);
            for number in [0, 0, n_leaps, 0, 1, 4] {
                octets.extend(number.to_be_bytes());
            }
            octets
        };
        let mut octets = header(0);
        octets.extend([0; 6 + 4]);
        octets.extend(header(u32::try_from(leaps.len()).unwrap()));
        octets.extend([0; 6 + 4]);
        for (at, correction) in leaps {
            octets.extend(at.to_be_bytes());
            octets.extend(correction.to_be_bytes());
        }
        octets.extend(b"\nUTC0\n");
        octets
    }

    #[test]
    fn leap_seconds_are_read_from_a_time_zone() {
        // Some of those that `right/UTC` has, and one that will be deleted.
        let file = zone(&[
            (78_796_800, 1),
            (1_341_100_801, 25),
            (1_435_708_825, 26),
            (1_483_228_826, 27),
            (1_924_992_026, 26),
        ]);
        let leaps = zone_leaps(&file).unwrap();
        has_known(&leaps);
        let last = leaps.last().unwrap();
        assert_eq!(last.tai_offset, 36);
        assert_eq!(last.at, UnixTime(1_924_992_000 * SECOND));
        for length in 0..file.len() - 6 {
            assert!(
                zone_leaps(&file[..length]).is_none_or(|leaps| leaps.is_empty()),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn leap_seconds_are_read_from_the_list() {
        let list = "#$ 3676924800\n#@ 3928521600\n2272060800 10 # 1 Jan 1972\n2287785600 11\n3550089600\t35\n3692217600 37\n";
        let leaps = list_leaps(list.as_bytes()).unwrap();
        assert_eq!(leaps.len(), 3);
        has_known(&leaps);
        assert_eq!(list_leaps(b"hello world"), None);
        assert_eq!(list_leaps(b"99999999999999999999 1"), None);
    }

    #[test]
    fn the_zone_of_this_machine_has_them_if_it_is_installed() {
        let path = Path::new("/usr/share/zoneinfo/right/UTC");
        if let Some(octets) = contents(path) {
            has_known(&zone_leaps(&octets).unwrap());
        }
    }
}
