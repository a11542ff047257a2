//! The last known time. No true time is before the release of this version, nor before the last change of the drift file: the
//! agent writes that file only while it follows sources.
//!
//! The real-time clock is no such bound: one that was set to local time, or whose battery died, is hours or years ahead, and
//! then no source could ever correct it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use time_model::settings::{Bounds, Settings};
use time_model::time::{SECOND, Span, UnixTime};

/// The release of the newest version in CHANGELOG.md: 2026-11-23.
const RELEASED: UnixTime = UnixTime(1_795_392_000 * SECOND);
/// An island's own time, which the drift file has too, may have been ahead of true time by this.
const SLACK: Span = Span(86_400 * SECOND);

/// The times that a source may give.
#[must_use]
pub(crate) fn bounds(settings: &Settings) -> Bounds {
    if !settings.selection.last_known {
        return Bounds::default();
    }
    let kept = settings.clock.drift_file.as_deref().and_then(changed);
    of(kept, settings.selection.longest_absence)
}

fn of(kept: Option<UnixTime>, longest_absence: f64) -> Bounds {
    let last = kept.map_or(RELEASED, |kept| RELEASED.max(kept - SLACK));
    Bounds {
        not_before: Some(last),
        not_after: Some(last + Span::from_seconds(longest_absence)),
    }
}

/// When a file was last changed, if it is there.
fn changed(path: &Path) -> Option<UnixTime> {
    let changed = std::fs::metadata(path).and_then(|file| file.modified());
    let since: Duration = changed.ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(UnixTime)
}

#[cfg(test)]
mod tests {
    use daemon::calendar;

    use super::*;

    /// Years without leap days.
    const YEAR: i64 = 365 * 86_400 * SECOND;

    #[test]
    fn the_release_is_the_newest_one_in_the_changelog() {
        let changelog = include_str!("../../CHANGELOG.md");
        let mut headings = changelog.lines().filter(|line| line.starts_with("## "));
        let newest = headings.find_map(|line| line.split_once('(')?.1.strip_suffix(')'));
        let days = u64::try_from(RELEASED.0 / SECOND / 86_400).unwrap();
        let (year, month, day) = calendar::civil_date(days);
        assert_eq!(newest, Some(&*format!("{year}-{month:02}-{day:02}")));
    }

    #[test]
    fn a_time_is_possible_from_the_last_known_one_on_for_as_long_as_a_machine_is_off() {
        let at = |years: i64| UnixTime(RELEASED.0 + years * YEAR);
        let absence = Span(5 * YEAR).seconds();
        // Last change of the drift file, the time of a source, whether it is admitted without a key and with one.
        let table = [
            (None, at(0), true, true),
            (None, at(-1), false, false),
            (None, at(4), true, true),
            (None, at(6), false, true),
            (Some(at(-3)), at(-1), false, false),
            (Some(at(3)), at(2), false, false),
            (Some(at(3)), at(3), true, true),
            (Some(at(3)), at(3) - SLACK, true, true),
            (Some(at(3)), at(7), true, true),
            (Some(at(3)), at(9), false, true),
        ];
        for (kept, time, without, with) in table {
            let bounds = of(kept, absence);
            let admitted = (bounds.admit(time, false), bounds.admit(time, true));
            assert_eq!(admitted, (without, with), "{kept:?} {time:?}");
        }
    }

    #[test]
    fn nothing_is_bounded_where_the_operator_does_not_want_it() {
        let mut settings = Settings::default();
        settings.clock.drift_file = Some("/nonexistent/drift".into());
        assert_eq!(bounds(&settings).not_before, Some(RELEASED));
        settings.selection.last_known = false;
        assert_eq!(bounds(&settings), Bounds::default());
    }
}
