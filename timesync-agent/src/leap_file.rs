//! Leap seconds that are known before they come: from a time zone that counts them (`right/UTC`, RFC 9636) or from the list of the
//! IERS. Not every system has that time zone; the list lies beside the others, and is read where the zone is not there.

use std::path::{Path, PathBuf};

use config_text::{Position, Problem};
use daemon::{calendar, disk};

use time_model::settings::LeapSettings;
use time_model::time::{SECOND, UnixTime};
use timekeeper::LeapSecond;

/// The directory of the time zones.
const ZONES: [&str; 3] = [
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/usr/share/lib/zoneinfo",
];
/// The list beside them.
const LIST: &str = "leap-seconds.list";
/// That of 2012-06-30.
const PAST: LeapSecond = LeapSecond {
    at: UnixTime(1_341_100_800 * SECOND),
    tai_offset: 35,
};
/// TAI − UTC before the first leap second, in seconds.
const FIRST_TAI_OFFSET: i32 = 10;
/// Seconds from 1900-01-01, which the list counts from, to 1970-01-01.
const UNIX_IN_LIST: i64 = 2_208_988_800;

/// Reads the file of the settings, and checks it; `now` decides whether it has expired.
#[must_use]
pub fn read(settings: &LeapSettings, now: UnixTime) -> (Vec<LeapSecond>, Vec<String>) {
    read_below(&ZONES.map(Path::new), settings, now)
}

fn read_below(
    zones: &[&Path],
    settings: &LeapSettings,
    now: UnixTime,
) -> (Vec<LeapSecond>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut list = settings.list.clone();
    if let Some(zone) = &settings.time_zone {
        if let Some(leaps) = read_zone(zones, zone).filter(|leaps| is_known(leaps)) {
            return (leaps, warnings);
        }
        let mut warning = format!(
            "the time zone {zone} is not installed, or does not have the leap seconds of the past"
        );
        list = list.or_else(|| existing(zones, LIST));
        if let Some(path) = &list {
            warning.push_str(&format!("; {} is read", path.display()));
        }
        warnings.push(warning);
    }
    let Some(path) = list else {
        return (Vec::new(), warnings);
    };
    let leaps = match read_list(&path) {
        Ok(list) if !is_known(&list.leaps) => {
            warnings.push(format!(
                "{} does not have the leap seconds of the past: it is not used",
                path.display()
            ));
            Vec::new()
        }
        Ok(list) => {
            if let Some(expiry) = list.expires.filter(|expires| *expires < now) {
                warnings.push(format!(
                    "{} has expired on {}: there may be leap seconds that it does not know",
                    path.display(),
                    date(expiry)
                ));
            }
            list.leaps
        }
        Err(problem) => {
            warnings.push(problem.to_string());
            Vec::new()
        }
    };
    (leaps, warnings)
}

/// The first file of that name below these directories.
fn existing(directories: &[&Path], name: &str) -> Option<PathBuf> {
    let mut paths = directories.iter().map(|directory| directory.join(name));
    paths.find(|path| path.is_file())
}

/// Whether a leap second is there that everybody knows; chronyd looks for the same one.
fn is_known(leaps: &[LeapSecond]) -> bool {
    leaps.contains(&PAST)
}

fn read_zone(zones: &[&Path], zone: &str) -> Option<Vec<LeapSecond>> {
    let path = existing(zones, zone)?;
    zone_leaps(&disk::read(&path).ok()?)
}

fn read_list(path: &Path) -> Result<List, Problem> {
    let octets = disk::read(path).map_err(|error| {
        Problem::new(format!(
            "cannot read the leap seconds in {}: {error}",
            path.display()
        ))
    })?;
    list_leaps(&octets).map_err(|line| {
        let position = Position {
            file: path.into(),
            line,
            column: 1,
        };
        Problem::at(position, "seconds since 1900 and TAI − UTC are expected")
    })
}

/// The day, in UTC.
fn date(at: UnixTime) -> String {
    let seconds = u64::try_from(at.0.div_euclid(SECOND)).unwrap_or(0);
    let (year, month, day) = calendar::civil_date(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
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

    /// The offset of the leap seconds after the header, with times of this many octets.
    fn leaps(&self, time: usize) -> Option<usize> {
        self.n_times
            .checked_mul(time + 1)?
            .checked_add(self.n_types.checked_mul(6)?)?
            .checked_add(self.n_letters)
    }

    /// The end of the data.
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
        // An inserted second is listed at its beginning, and has the number of the second after it; a deleted one is listed at
        // the second after it.
        let unix = moment.checked_sub(before.min(correction).into())?;
        leaps.push(LeapSecond {
            at: UnixTime(unix.checked_mul(SECOND)?),
            tai_offset: FIRST_TAI_OFFSET.checked_add(correction)?,
        });
        before = correction;
    }
    Some(leaps)
}

/// The contents of a list.
#[derive(Clone, Debug, Default, PartialEq)]
struct List {
    leaps: Vec<LeapSecond>,
    /// Until when all leap seconds are in it.
    expires: Option<UnixTime>,
}

/// The leap seconds of a list as the IERS publishes it: lines of seconds since 1900 and TAI − UTC from then on, and one that
/// begins with `#@` and holds the date of expiry. `Err` is the number of a line with another form.
fn list_leaps(octets: &[u8]) -> Result<List, usize> {
    let text = String::from_utf8_lossy(octets);
    let mut list = List::default();
    for (number, line) in (1_usize..).zip(text.lines()) {
        if let Some(expiry) = line.strip_prefix("#@") {
            list.expires = Some(listed(expiry.trim()).ok_or(number)?);
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let at = words.next().and_then(listed).ok_or(number)?;
        let tai_offset = words.next().and_then(|word| word.parse().ok());
        let tai_offset: i32 = tai_offset.ok_or(number)?;
        // The first line is no leap second but where counting begins.
        if tai_offset != FIRST_TAI_OFFSET {
            list.leaps.push(LeapSecond { at, tai_offset });
        }
    }
    Ok(list)
}

/// A moment, as the list has it.
fn listed(word: &str) -> Option<UnixTime> {
    let since: i64 = word.parse().ok()?;
    let unix = since.checked_sub(UNIX_IN_LIST)?;
    Some(UnixTime(unix.checked_mul(SECOND)?))
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
        let list = list_leaps(list.as_bytes()).unwrap();
        assert_eq!(list.leaps.len(), 3);
        has_known(&list.leaps);
        assert_eq!(list.expires.map(date).as_deref(), Some("2024-06-28"));
        for (text, line) in [
            (&b"hello world"[..], 1),
            (b"#\n99999999999999999999 1", 2),
            (b"2287785600 11\n\n3550089600\n", 3),
            (b"#@ soon\n", 1),
            (b"2287785600 \xff\n", 1),
        ] {
            assert_eq!(list_leaps(text), Err(line), "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_list_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leap-seconds.list");
        let settings = LeapSettings {
            time_zone: Some("right/Nowhere".to_owned()),
            list: Some(path.clone()),
            ..LeapSettings::default()
        };
        let now = |unix: i64| UnixTime(unix * SECOND);
        let told = |text: &str, at| {
            std::fs::write(&path, text).unwrap();
            let (leaps, warnings) = read(&settings, now(at));
            (leaps.len(), warnings)
        };
        let good = "#@ 3928521600\n2287785600 11\n3550089600 35\n";
        let (n, warnings) = told(good, 1_700_000_000);
        assert_eq!((n, warnings.len()), (2, 1), "{warnings:?}");
        assert!(warnings[0].contains("right/Nowhere"), "{warnings:?}");
        let (n, warnings) = told(good, 1_800_000_000);
        assert_eq!((n, warnings.len()), (2, 2), "it is used: {warnings:?}");
        assert!(
            warnings[1].contains("expired on 2024-06-28"),
            "{warnings:?}"
        );
        let (n, warnings) = told("2287785600 11\n", 0);
        assert!(
            n == 0 && warnings[1].contains("not used"),
            "cut short: {warnings:?}"
        );
        let (n, warnings) = told("\nx\n", 0);
        let place = format!("{}:2:1: ", path.display());
        assert!(n == 0 && warnings[1].starts_with(&place), "{warnings:?}");
        std::fs::remove_file(&path).unwrap();
        let (_, warnings) = read(&settings, now(0));
        assert!(warnings[1].starts_with("cannot read"), "{warnings:?}");
    }

    #[test]
    fn without_the_time_zone_the_list_beside_the_others_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let zones = [Path::new("/nowhere"), directory.path()];
        let settings = LeapSettings {
            time_zone: Some("right/UTC".to_owned()),
            ..LeapSettings::default()
        };
        let read = || read_below(&zones, &settings, UnixTime(0));
        let (leaps, warnings) = read();
        assert!(leaps.is_empty() && warnings.len() == 1, "{warnings:?}");
        let list = directory.path().join(LIST);
        std::fs::write(&list, "2287785600 11\n3550089600 35\n3692217600 37\n").unwrap();
        let (leaps, warnings) = read();
        has_known(&leaps);
        let said = format!("; {} is read", list.display());
        assert!(
            warnings.len() == 1 && warnings[0].ends_with(&said),
            "{warnings:?}"
        );
        // A zone that counts none is as good as none.
        std::fs::create_dir(directory.path().join("right")).unwrap();
        let put = |leaps: &[(i64, i32)]| {
            std::fs::write(directory.path().join("right/UTC"), zone(leaps)).unwrap();
        };
        put(&[(78_796_800, 1)]);
        assert_eq!(read().0, leaps);
        put(&[(78_796_800, 1), (1_341_100_801, 25)]);
        let (leaps, warnings) = read();
        assert_eq!((leaps.len(), warnings.len()), (2, 0), "{warnings:?}");
        // It is not asked for.
        let (leaps, warnings) = read_below(&zones, &LeapSettings::default(), UnixTime(0));
        assert!(leaps.is_empty() && warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn the_zone_of_this_machine_has_them_if_it_is_installed() {
        if let Some(leaps) = read_zone(&ZONES.map(Path::new), "right/UTC") {
            has_known(&leaps);
            assert!(is_known(&leaps));
        }
    }
}
