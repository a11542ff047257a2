//! The state of zones, for status and metrics.

use api::dns_authd::{HeldVersion, Loads, Rollback, Updates, ZoneState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config_text::{Problem, counted};
use dns_answer::shared_list::SharedList;
use dns_history::{Change, History};
use dns_views::ZoneId;
use dns_zone::parse::LeftOut;
use peer_bind::ZoneDecl;

use super::{NotLoaded, Outcome};
use crate::load::Fresh;
use dns_programs::LiveReport;

/// The state of all zones at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// Each zone, in the order they were declared.
    pub zones: SharedList<ZoneReport>,
    /// The number of watched targets.
    pub n_targets: usize,
    /// The loads.
    pub loads: Loads,
}

/// One zone.
#[derive(Clone, Debug)]
pub struct ZoneReport {
    /// The zone.
    pub name: ZoneId,
    /// Its file.
    pub file: Option<PathBuf>,
    /// Its state.
    pub state: ZoneState,
    /// The served serial.
    pub serial: u32,
    /// The number of served records.
    pub records: usize,
    /// The memory of the records, in octets.
    pub memory: usize,
    /// The time when the served data was loaded.
    pub loaded: Option<SystemTime>,
    /// The duration of the last load.
    pub took: Duration,
    /// The number of loads.
    pub n_loads: u64,
    /// The number of refused loads.
    pub n_refused: u64,
    /// The version of its files that is held back.
    pub held: Option<HeldVersion>,
    /// The change that it would make, if it is known.
    pub held_change: Option<Arc<Change>>,
    /// The older version that is served again, until the files change.
    pub rollback: Option<Rollback>,
    /// The history with the updates that are laid over its files; `None` if there are none.
    pub updated: Option<History>,
    /// The serial of its flattened version.
    pub flattened: Option<u32>,
    /// Errors of its files.
    pub problems: Vec<String>,
    /// Warnings of its files.
    pub warnings: Vec<String>,
    /// The records that are left out because something in them is unknown.
    pub left_out: LeftOut,
    /// Its live sets.
    pub live: Vec<Arc<LiveReport>>,
}

impl ZoneReport {
    pub(super) fn new(declared: &ZoneDecl) -> Self {
        Self::named(declared.id(), declared.file.clone())
    }

    pub(crate) fn named(name: ZoneId, file: Option<PathBuf>) -> Self {
        Self {
            name,
            file,
            state: ZoneState::Loading,
            serial: 0,
            records: 0,
            memory: 0,
            loaded: None,
            took: Duration::ZERO,
            n_loads: 0,
            n_refused: 0,
            held: None,
            held_change: None,
            rollback: None,
            updated: None,
            flattened: None,
            problems: Vec::new(),
            warnings: Vec::new(),
            left_out: LeftOut::default(),
            live: Vec::new(),
        }
    }

    /// The updates that are laid over its files. Counts them.
    #[must_use]
    pub fn updates(&self) -> Option<Updates> {
        let updates = self.updated.as_ref()?.updates()?;
        Some(Updates {
            file: updates.from.serial(),
            removed: updates.removed.len(),
            added: updates.added.len(),
        })
    }

    pub(super) fn loaded(
        &self,
        fresh: &Fresh,
        history: &History,
        took: Duration,
        now: SystemTime,
    ) -> Self {
        let zone = &fresh.zone;
        Self {
            state: ZoneState::Loaded,
            serial: zone.soa().serial,
            records: zone.n_records(),
            memory: zone.memory(),
            loaded: Some(now),
            took,
            n_loads: self.n_loads + 1,
            held: None,
            held_change: None,
            rollback: history.rollback().map(rollback_view),
            updated: history.has_updates().then(|| history.clone()),
            problems: Vec::new(),
            warnings: fresh.warnings.iter().map(ToString::to_string).collect(),
            left_out: fresh.left_out.clone(),
            live: Vec::new(),
            ..self.clone()
        }
    }

    /// The report after a rendering of names of a cluster.
    pub(super) fn rendered(
        &self,
        serial: u32,
        (records, memory): (usize, usize),
        took: Duration,
        now: SystemTime,
    ) -> Self {
        Self {
            state: ZoneState::Loaded,
            serial,
            records,
            memory,
            loaded: Some(now),
            took,
            n_loads: self.n_loads + 1,
            ..self.clone()
        }
    }

    pub(super) fn refused(&self, problems: &[Problem], served: bool, took: Duration) -> Self {
        Self {
            state: match served {
                true => ZoneState::Stale,
                false => ZoneState::Failed,
            },
            took,
            n_refused: self.n_refused + 1,
            held: None,
            held_change: None,
            problems: problems.iter().map(ToString::to_string).collect(),
            ..self.clone()
        }
    }

    pub(super) fn held(
        &self,
        (held, held_change): (HeldVersion, Option<Arc<Change>>),
        took: Duration,
    ) -> Self {
        Self {
            state: ZoneState::Held,
            took,
            held: Some(held),
            held_change,
            problems: Vec::new(),
            ..self.clone()
        }
    }

    pub(super) fn with_live(&self, live: Vec<Arc<LiveReport>>) -> Self {
        Self {
            live,
            ..self.clone()
        }
    }

    /// The trouble in one line; `None` if the served data is that of its files.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if let Some(held) = &self.held {
            let (name, reasons) = (&self.name, held.reasons.join("; "));
            return Some(format!(
                "a new version is held back, the old zone is served: {reasons}; \
                 `dns-authd zone accept {name}` publishes it"
            ));
        }
        let first = self.problems.first().map_or("", String::as_str);
        let what = match self.state {
            ZoneState::Loaded => return self.rollback.as_ref().map(ToString::to_string),
            ZoneState::Held | ZoneState::Loading => return None,
            ZoneState::Stale => "the new file is broken, the old zone is served",
            ZoneState::Failed => "the file is broken, queries get SERVFAIL",
        };
        Some(format!(
            "{what}: {}, the first: {first}",
            counted(self.problems.len(), "problem")
        ))
    }

    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            name: self.name.clone(),
            result: match &self.held {
                Some(held) => Err(NotLoaded::Held(held.clone())),
                None if self.state == ZoneState::Loaded => Ok((self.serial, self.records)),
                None => Err(NotLoaded::Broken(self.problems.clone())),
            },
        }
    }
}

/// A rollback, for the status.
#[must_use]
pub fn rollback_view(rollback: &dns_history::Rollback) -> Rollback {
    Rollback {
        to: rollback.to,
        file: rollback.file.serial(),
        since: rollback.since,
    }
}
