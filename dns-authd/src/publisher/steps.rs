//! The step from the version of a zone in service to the next one, and the way back to an older one.

use std::sync::Arc;

use daemon::clock;
use dns_history::{Change, History, Limits, Making, Rollback, Version};
use dns_lua::LuaSettings;
use dns_wire::hash::Seed;
use dns_zone::parse::Options;
use dns_zone::{Soa, Zone};
use peer_bind::ZoneDecl;

use dns_primary::histories::{self, Keeping};

/// The step to a version of a zone.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It is the first in service, or another process has led to it. The history was kept on disk; `is_dropped` says that another one was, which does not lead
    /// to this version.
    First { history: History, is_dropped: bool },
    /// It has the records of this version in service.
    Same(Arc<Zone>),
    /// This change of the version in service.
    Change(Arc<Zone>, Arc<Change>),
    /// From the version in service to one that is not that of the files, with the history behind that.
    Apart(Arc<Zone>, History),
    /// Its files are set aside: the version in service stays.
    Stay(Arc<Zone>),
    /// The difference is not kept.
    Unknown,
}

impl Step {
    /// The step between two versions.
    pub(super) fn between(served: &Arc<Zone>, new: &Zone, limits: Limits) -> Self {
        if limits.versions == 0 {
            return Self::Unknown;
        }
        let now = clock::since_1970().as_secs();
        match Change::between(served, new, now, limits.octets) {
            Ok(None) => Self::Same(Arc::clone(served)),
            Ok(Some(change)) => Self::Change(Arc::clone(served), Arc::new(change)),
            Err(dns_history::TooLarge) => {
                let (zone, limit) = (new.apex(), limits.octets);
                tracing::info!(%zone, limit, "The difference is too large for the history of the zone, which begins again");
                Self::Unknown
            }
        }
    }

    /// The change from the version in service, if it is known.
    pub(super) const fn change(&self) -> Option<&Arc<Change>> {
        match self {
            Self::Change(_, change) => Some(change),
            _ => None,
        }
    }

    /// The history behind the step, and whether it is another one than on disk. `served` is the version in service: a step from
    /// another one leads nowhere.
    pub(super) fn take(
        self,
        served: Option<&Arc<Zone>>,
        before: &History,
        limits: Limits,
    ) -> (History, bool) {
        let is_served = |zone: &Arc<Zone>| served.is_some_and(|served| Arc::ptr_eq(served, zone));
        let mut history = before.clone();
        match self {
            Self::First {
                history: mut kept,
                is_dropped,
            } => {
                kept.keep_within(limits);
                return (kept, is_dropped);
            }
            Self::Stay(zone) if is_served(&zone) => return (history, false),
            Self::Same(zone) if is_served(&zone) => {
                let was_apart = history.set_aside().is_some();
                history.return_to_files();
                return (history, was_apart);
            }
            Self::Change(zone, change) if is_served(&zone) => history.push(change, limits),
            Self::Apart(zone, behind) if is_served(&zone) => history = behind,
            _ => history.clear(),
        }
        (history, true)
    }
}

/// The first step of a zone: reads its history from the disk. A rollback is in force again, or updates are laid over the files
/// again, and `zone` then becomes the version that was published.
pub(super) fn first(
    declared: &ZoneDecl,
    zone: &mut Arc<Zone>,
    keeping: &Keeping,
    making: &Making<'_>,
) -> Step {
    let name = &declared.id();
    let none = |is_dropped| Step::First {
        history: History::default(),
        is_dropped,
    };
    let Some(file) = keeping.file(name) else {
        return none(false);
    };
    let mut history = histories::read(&file, &name.apex);
    if history.is_empty() {
        return none(false);
    }
    let version = Version::of(zone);
    if version.is_some() && history.newest() == version.as_ref() {
        history.return_to_files();
        return Step::First {
            history,
            is_dropped: false,
        };
    }
    if let Some(updates) = history.updates() {
        return again(zone, (history, &updates), making, keeping.limits);
    }
    let Some(rollback) = history.rollback() else {
        tracing::info!(zone = %name, "Zone has changed while no server ran: its history begins again");
        return none(true);
    };
    if Some(&rollback.file) != version.as_ref() {
        tracing::warn!(zone = %name, to = rollback.to, "Rollback of the zone ends: its files have changed while no server ran");
        return none(true);
    }
    let renewed = history.renew(zone).map_err(|error| error.to_string());
    let renewed = renewed.and_then(|(version, records)| making.exactly(&version, records));
    match renewed {
        Ok(renewed) => {
            let (to, serial) = (rollback.to, renewed.soa().serial);
            tracing::warn!(zone = %name, to, serial, "Zone is still rolled back; its files are set aside until they change");
            *zone = Arc::new(renewed);
            Step::First {
                history,
                is_dropped: false,
            }
        }
        Err(error) => {
            tracing::error!(zone = %name, error, "Rollback of the zone is lost, its files are served");
            none(true)
        }
    }
}

/// The first version of a zone with updates: they are laid over the files as they are now.
fn again(
    zone: &mut Arc<Zone>,
    (history, updates): (History, &Arc<Change>),
    making: &Making<'_>,
    limits: Limits,
) -> Step {
    let name = zone.apex().clone();
    let is_same = Version::of(zone).as_ref() == Some(&updates.from);
    let renewed = match is_same {
        true => history
            .renew(zone)
            .map_err(|error| error.to_string())
            .and_then(|(version, records)| making.exactly(&version, records))
            .map(|renewed| (renewed, history)),
        // The versions before lead to another one.
        false => {
            let before = (None, updates.to.serial());
            lay_over(before, zone, (History::default(), updates), making, limits)
        }
    };
    match renewed {
        Ok((renewed, history)) => {
            let serial = renewed.soa().serial;
            tracing::info!(zone = %name, serial, "Updates are laid over the zone's files again");
            *zone = Arc::new(renewed);
            Step::First {
                history,
                is_dropped: !is_same,
            }
        }
        Err(error) => {
            tracing::error!(zone = %name, error, "Updates of the zone are lost, its files are served");
            Step::First {
                history: History::default(),
                is_dropped: true,
            }
        }
    }
}

/// The step to a version of the files that is new, under the updates.
///
/// # Errors
/// When both together cannot be served.
pub(super) fn under_updates(
    served: &Arc<Zone>,
    file: &Zone,
    (history, updates): (&History, &Arc<Change>),
    making: &Making<'_>,
    limits: Limits,
) -> Result<(Zone, Step), String> {
    let before = (Some(served), served.soa().serial);
    let (zone, behind) = lay_over(before, file, (history.clone(), updates), making, limits)?;
    Ok((zone, Step::Apart(Arc::clone(served), behind)))
}

/// A version of the files with the updates laid over it, and the history behind that. Its serial is that of the files if it is
/// higher than the one before, which else rises if anything changes.
fn lay_over(
    (served, serial): (Option<&Arc<Zone>>, u32),
    file: &Zone,
    (mut history, updates): (History, &Arc<Change>),
    making: &Making<'_>,
    limits: Limits,
) -> Result<(Zone, History), String> {
    let records = updates.lay_over(file);
    let soa = Version::of(file).ok_or("it has no SOA record")?.soa;
    let make = |serial| {
        let soa = soa.with_serial(serial);
        making.zone(soa.ok_or("its SOA record cannot be read")?, records.clone())
    };
    let now = clock::since_1970().as_secs();
    let between = |old: &Zone, new: &Zone| Change::between(old, new, now, limits.octets);
    let theirs = file.soa().serial;
    let rises = Soa::is_newer(theirs, serial);
    let mut zone = make(if rises { theirs } else { serial })?;
    let is_same = served.is_some_and(|served| between(served, &zone) == Ok(None));
    if !rises && !is_same {
        zone = make(serial.wrapping_add(1))?;
    }
    match served.map(|served| between(served, &zone)) {
        Some(Ok(None)) => {}
        Some(Ok(Some(change))) => history.push(Arc::new(change), limits),
        Some(Err(dns_history::TooLarge)) | None => history.clear(),
    }
    let left = between(file, &zone).map_err(|_| TOO_MANY_UPDATES)?;
    history.lay_over(left.map(Arc::new));
    Ok((zone, history))
}

/// Why an update is refused when there have been too many.
pub(super) const TOO_MANY_UPDATES: &str = "the updates take more than [history] size: `dns-authd zone sync` writes them into the zone's file";

/// A version to go back to.
#[derive(Debug)]
pub(super) struct Restoring {
    /// The version in service.
    pub(super) served: Arc<Zone>,
    /// Its history.
    pub(super) history: History,
    /// The serial of the older version.
    pub(super) serial: u32,
    /// The bounds of the history.
    pub(super) limits: Limits,
    /// How master files are read.
    pub(super) options: Arc<Options>,
    /// The seed by which names are hashed.
    pub(super) seed: Seed,
}

/// The zone with the records of an older version and a new serial.
///
/// # Errors
/// When the version is not kept, or would not survive a restart.
pub(super) fn restore(
    declared: &ZoneDecl,
    restoring: &Restoring,
    lua: &LuaSettings,
) -> Result<(Zone, Step), String> {
    let Restoring {
        served,
        history,
        serial,
        limits,
        options,
        seed,
    } = restoring;
    let (mut version, records) = history
        .restore(served, *serial)
        .map_err(|error| error.to_string())?;
    let next = served.soa().serial.wrapping_add(1);
    version.soa = version
        .soa
        .with_serial(next)
        .ok_or("its SOA record cannot be read")?;
    let path = declared.file.as_deref();
    let making = Making {
        name: &declared.name,
        path,
        options,
        has_programs: lua.limits.enabled,
        seed: *seed,
    };
    let zone = making.exactly(&version, records)?;
    let since = clock::since_1970().as_secs();
    let too_large =
        "the difference is larger than [history] keeps: a restart would undo the rollback";
    let change = Change::between(served, &zone, since, limits.octets);
    let change = change.ok().flatten().ok_or(too_large)?;
    let file = history.set_aside().unwrap_or(&change.from).clone();
    let mut behind = history.clone();
    let rollback = Rollback {
        to: *serial,
        since,
        file,
    };
    match behind.roll_back(change, rollback, *limits) {
        true => Ok((zone, Step::Apart(Arc::clone(served), behind))),
        false => Err(too_large.to_owned()),
    }
}
