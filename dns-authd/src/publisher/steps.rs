//! The step from the version of a zone in service to the next one, and the way back to an older one.

use std::path::Path;
use std::sync::Arc;

use daemon::clock;
use dns_history::{Change, History, Limits, Rollback, Version};
use dns_lua::LuaSettings;
use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::incoming::line;
use dns_zone::parse::{self, Options};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{RecordData, Zone};
use peer_bind::ZoneDecl;

use crate::histories::{self, Keeping};

/// The step to a version of a zone.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// It is the first in service. The history was kept on disk; `is_dropped` says that another one was, which does not lead
    /// to this version.
    First { history: History, is_dropped: bool },
    /// It has the records of this version in service.
    Same(Arc<Zone>),
    /// This change of the version in service.
    Change(Arc<Zone>, Arc<Change>),
    /// From the version in service back to an older one, with the history behind that.
    Back(Arc<Zone>, History),
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
            } if served.is_none() => {
                kept.keep_within(limits);
                return (kept, is_dropped);
            }
            Self::Stay(zone) if is_served(&zone) => return (history, false),
            Self::Same(zone) if is_served(&zone) => {
                let was_back = history.rollback().is_some();
                history.end_rollback();
                return (history, was_back);
            }
            Self::Change(zone, change) if is_served(&zone) => history.push(change, limits),
            Self::Back(zone, behind) if is_served(&zone) => history = behind,
            _ => history.clear(),
        }
        (history, true)
    }
}

/// The first step of a zone: reads its history from the disk. A rollback is in force again, and `zone` then becomes the version
/// that it published.
pub(super) fn first(
    declared: &ZoneDecl,
    zone: &mut Arc<Zone>,
    (keeping, options, lua): (&Keeping, &Options, &LuaSettings),
    seed: Seed,
) -> Step {
    let name = &declared.name;
    let none = |is_dropped| Step::First {
        history: History::default(),
        is_dropped,
    };
    let Some(file) = keeping.file(name).filter(|_| keeping.limits.versions > 0) else {
        return none(false);
    };
    let mut history = histories::read(&file, name);
    if history.is_empty() {
        return none(false);
    }
    let version = Version::of(zone);
    if version.is_some() && history.newest() == version.as_ref() {
        history.end_rollback();
        return Step::First {
            history,
            is_dropped: false,
        };
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
    let renewed = renewed.and_then(|(version, records)| {
        let path = declared.file.as_deref();
        build(name, path, (&version, records), (options, lua), seed)
    });
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
    version.soa = with_serial(&version.soa, next).ok_or("its SOA record cannot be read")?;
    let path = declared.file.as_deref();
    let zone = build(
        &declared.name,
        path,
        (&version, records),
        (options, lua),
        *seed,
    )?;
    let since = clock::since_1970().as_secs();
    let too_large =
        "the difference is larger than [history] keeps: a restart would undo the rollback";
    let change = Change::between(served, &zone, since, limits.octets);
    let change = change.ok().flatten().ok_or(too_large)?;
    let file = match history.rollback() {
        Some(rollback) => rollback.file.clone(),
        None => change.from.clone(),
    };
    let mut behind = history.clone();
    let rollback = Rollback {
        to: *serial,
        since,
        file,
    };
    match behind.roll_back(change, rollback, *limits) {
        true => Ok((zone, Step::Back(Arc::clone(served), behind))),
        false => Err(too_large.to_owned()),
    }
}

/// A SOA record with another serial.
fn with_serial(soa: &ZoneRecord<'static>, serial: u32) -> Option<ZoneRecord<'static>> {
    let mut rdata = soa.rdata.to_vec();
    let [s3, s2, s1, s0, ..] = rdata.last_chunk_mut::<20>()?;
    [*s3, *s2, *s1, *s0] = serial.to_be_bytes();
    Some(ZoneRecord {
        rdata: rdata.into(),
        ..soa.clone()
    })
}

/// The zone of a version, by way of a master file, as a zone that came by a transfer.
fn build(
    name: &Name,
    path: Option<&Path>,
    (version, mut records): (&Version, Vec<ZoneRecord<'static>>),
    (options, lua): (&Options, &LuaSettings),
    seed: Seed,
) -> Result<Zone, String> {
    records.push(version.soa.clone());
    // The SOA record comes first.
    let place = |record: &ZoneRecord<'static>| record.rtype != Type::SOA;
    records.sort_by(|a, b| {
        (place(a), &a.owner, a.rtype, &a.rdata).cmp(&(place(b), &b.owner, b.rtype, &b.rdata))
    });
    let lines = records
        .iter()
        .map(|record| line(&record.owner, record.rtype, record.ttl, &record.rdata) + "\n");
    let text: String = lines.collect();
    let path = path.unwrap_or_else(|| Path::new("history"));
    let mut load = |asked: &Path| match asked == path {
        true => Ok(text.clone().into_bytes()),
        false => Err(std::io::ErrorKind::NotFound.into()),
    };
    let parsed = parse::parse(path, name, &mut load, options);
    let built = parsed
        .map_err(|rejected| rejected.problems)
        .and_then(|file| {
            let is_program = |data: &RecordData| matches!(data, RecordData::Lua { .. });
            let has_programs = file.records.iter().any(|record| is_program(&record.data));
            let zone = Zone::build(name, &file.records, seed)?;
            Ok((zone, has_programs))
        });
    let (zone, has_programs) = built.map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        format!(
            "that version cannot be served: {}",
            first.unwrap_or_default()
        )
    })?;
    if has_programs && !lua.limits.enabled {
        return Err("that version has LUA records, which are not enabled".to_owned());
    }
    match Version::of(&zone).as_ref() == Some(version) {
        true => Ok(zone),
        false => Err("that version cannot be put together as it was".to_owned()),
    }
}
