//! The schedules of the file: the site's, and what overrides and targets say otherwise.

use std::time::Duration;

use ::config::healthd::{Healthd, Interval, Kind, Override, Schedule, Target, Timeout};
use ::config::{Check, DurationWithin, Positive, Step, Whole, at};
use liveness::schedules::{self, Schedules};
use proto::health;
use proto::health::Deviation;

/// The schedules, but for those of single targets.
pub(super) fn schedules(file: &Healthd, check: &mut Check<'_>) -> Schedules {
    let Schedule {
        interval,
        fast_interval,
        timeout,
        rise,
        fall,
    } = file.schedule;
    let written = Written {
        interval: Some(interval),
        fast_interval: Some(fast_interval)
            .filter(|_| fast_interval != Schedule::default().fast_interval),
        timeout: Some(timeout),
        rise: Some(rise),
        fall: Some(fall),
    };
    let site = written.values(&at!["schedule"], check);
    let overrides = file.overrides.iter().enumerate();
    let overrides = overrides.map(|(index, one)| of_override(one, &at!["override", index], check));
    Schedules {
        overrides: overrides.collect(),
        site: health::Schedule::default().with(&site),
        ..Schedules::default()
    }
}

fn of_override(one: &Override, place: &[Step<'_>], check: &mut Check<'_>) -> schedules::Override {
    let values = Written {
        interval: one.interval,
        fast_interval: one.fast_interval,
        timeout: one.timeout,
        rise: one.rise,
        fall: one.fall,
    }
    .values(place, check);
    if one.kind.is_none() && one.address.is_none() && one.port.is_none() {
        let words =
            "an override names a `kind`, an `address` or a `port`; for all targets, set [schedule]";
        check.problem(place, words);
    }
    if values.is_none() {
        check.problem(place, "this override sets nothing");
    }
    schedules::Override {
        kind: one.kind.map(Kind::name),
        address: one.address.map(|address| address.0),
        port: one.port.map(Whole::get),
        values,
    }
}

/// The values that a target of the file has of its own.
pub(super) fn of_target(target: &Target, place: &[Step<'_>], check: &mut Check<'_>) -> Deviation {
    Written {
        interval: target.interval,
        fast_interval: target.fast_interval,
        timeout: target.timeout,
        rise: target.rise,
        fall: target.fall,
    }
    .values(place, check)
}

/// The keys of a schedule, as some table has them.
struct Written {
    interval: Option<Interval>,
    fast_interval: Option<Interval>,
    timeout: Option<Timeout>,
    rise: Option<Positive<u32>>,
    fall: Option<Positive<u32>>,
}

impl Written {
    fn values(&self, place: &[Step<'_>], check: &mut Check<'_>) -> Deviation {
        let values = Deviation {
            interval: self.interval.map(DurationWithin::get),
            fast_interval: self.fast_interval.map(DurationWithin::get),
            timeout: self.timeout.map(DurationWithin::get),
            rise: self.rise.map(Whole::get),
            fall: self.fall.map(Whole::get),
        };
        let mut problem = |key: &str, words: &str| {
            let mut path = place.to_vec();
            path.push(key.into());
            check.problem(&path, words);
        };
        let longest = values.interval;
        if longest.is_some_and(|longest| values.fast_interval > Some(longest)) {
            let words = "the fast interval is longer than the interval";
            problem("fast-interval", words);
        }
        let times = [
            ("interval", values.interval),
            ("fast-interval", values.fast_interval),
            ("timeout", values.timeout),
        ];
        for (key, time) in times {
            // The contract carries milliseconds.
            if !time.is_none_or(is_whole) {
                problem(key, "a time in whole milliseconds is needed");
            }
        }
        values
    }
}

const fn is_whole(time: Duration) -> bool {
    time.subsec_nanos().is_multiple_of(1_000_000)
}
