//! Rules between the keys of a file.

use std::collections::BTreeSet;

use ::config::timesync_agent::{
    FallbackDrift, RefclockSettings, Source, TimesyncAgent, default_id,
};
use ::config::{Check, at};

use time_model::settings::SourceSettings;

/// The names of the key of a source's host.
const HOST: [&str; 3] = ["host", "name", "address"];

/// Collects the values of a file that break a rule; `base` is the chrony.conf below it.
pub(super) fn check(file: &TimesyncAgent, base: &TimesyncAgent, check: &mut Check<'_>) {
    for (kind, sources) in [("server", &file.server), ("peer", &file.peer)] {
        for (index, source) in sources.iter().enumerate() {
            if source.maxsources.is_some() {
                let message = "`maxsources` is for a `[[pool]]`";
                check.problem(&at![kind, index, "maxsources"], message);
            }
            one_source(kind, index, source, check);
        }
    }
    for (index, source) in file.pool.iter().enumerate() {
        one_source("pool", index, source, check);
    }
    refclocks(file, base, check);
    for (index, ptp) in file.ptp.iter().enumerate() {
        let way = at!["ptp", index, "interface"];
        if ptp.interface.is_empty() && !check.is_lost(&way) {
            check.problem(&way, "missing key `interface`");
        }
    }
    for (index, stamps) in file.client.hardware_stamps.iter().enumerate() {
        let way = at!["client", "hwtimestamp", index, "interface"];
        if stamps.interface.is_empty() && !check.is_lost(&way) {
            check.problem(&way, "missing key `interface`");
        }
    }
    if let Some(FallbackDrift { min, max }) = file.clock.fallback_drift
        && max < min
    {
        let message = format!("`max` is below `min`: it is from {min} to 24");
        check.problem(&at!["clock", "fallbackdrift", "max"], message);
    }
}

fn one_source(kind: &str, index: usize, source: &Source, check: &mut Check<'_>) {
    let host = at![kind, index, "host"];
    let mut names = HOST.iter().map(|name| at![kind, index, *name]);
    if names.clone().any(|way| check.is_lost(&way)) {
        // The value itself is a problem already.
    } else if !names.any(|way| check.has(&way)) {
        check.problem(&host, "missing key `host`");
    } else if source.host.is_none() {
        check.problem(&host, "neither an address nor a name");
    }
    let maxpoll = at![kind, index, "maxpoll"];
    if source.maxpoll < source.minpoll && check.has(&maxpoll) {
        check.problem(&maxpoll, "`maxpoll` is below `minpoll`");
    }
}

fn refclocks(file: &TimesyncAgent, base: &TimesyncAgent, check: &mut Check<'_>) {
    let n_below = base.refclock.len();
    let named = base.refclock.iter().chain(&file.refclock).enumerate();
    let name = |(index, clock): (usize, &::config::timesync_agent::Refclock)| {
        let default = || default_id(clock.driver.name(), index);
        clock.reference_id.unwrap_or_else(default)
    };
    let n_clocks = n_below + file.refclock.len();
    let ptp = file.ptp.iter().enumerate().map(|(index, ptp)| {
        let default = || default_id("PTP", n_clocks + index);
        ptp.reference_id.unwrap_or_else(default)
    });
    let names: BTreeSet<u32> = named.map(name).chain(ptp).collect();
    // A reference to a clock whose own refid is wrong is no problem of its own.
    let is_refid_lost =
        (0..file.refclock.len()).any(|it| check.is_lost(&at!["refclock", it, "refid"]));
    for (index, clock) in file.refclock.iter().enumerate() {
        let driver = at!["refclock", index, "driver"];
        if check.is_lost(&driver) {
            // The value itself is a problem already.
        } else if !check.has(&driver) {
            check.problem(&at!["refclock", index], "missing key `driver`");
        } else if let Err(missing) = RefclockSettings::of(clock, n_below + index) {
            let driver = clock.driver.name();
            let message = format!("a clock of driver {driver} needs its `{missing}`");
            check.problem(&at!["refclock", index, "driver"], message);
        }
        let is_unknown = clock.lock.is_some_and(|lock| !names.contains(&lock));
        if is_unknown && !is_refid_lost {
            let message = "no reference clock has this refid";
            check.problem(&at!["refclock", index, "lock"], message);
        }
        let mut before = file.refclock.iter().take(index);
        if clock.reference_id.is_some()
            && before.any(|other| other.reference_id == clock.reference_id)
        {
            let message = "another reference clock has this refid";
            check.problem(&at!["refclock", index, "refid"], message);
        }
    }
}

/// Servers, pools and peers in the order of the file.
pub(super) fn sources_in_order(file: &TimesyncAgent, check: &Check<'_>) -> Vec<SourceSettings> {
    type Kind<'a> = (&'a str, &'a [Source], fn(Source) -> SourceSettings);
    let kinds: [Kind<'_>; 3] = [
        ("server", &file.server, SourceSettings::server),
        ("pool", &file.pool, SourceSettings::pool),
        ("peer", &file.peer, SourceSettings::peer),
    ];
    let mut sources = Vec::new();
    for (kind, of_kind, settings) in kinds {
        for (index, source) in of_kind.iter().enumerate() {
            let position = check.position(&at![kind, index]);
            sources.push((position, settings(source.clone())));
        }
    }
    sources.sort_by(|(one, _), (other, _)| one.cmp(other));
    sources.into_iter().map(|(_, source)| source).collect()
}
