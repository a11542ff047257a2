//! One zone of the publisher: its declaration, files, data and report.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::dns_authd::HeldVersion;
use config_text::Problem;
use daemon::clock;
use daemon::disk::Stamp;
use dns_cluster::nodes::Facts;
use dns_flatten::Flat;
use dns_history::{History, Limits};
use dns_lua::Watched;
use dns_views::ZoneId;
use dns_zone::{Doubt, Zone};
use peer_bind::ZoneDecl;

use super::loader::{Evaluation, LARGE, MANY_RECORDS, Prepared};
use super::report::ZoneReport;
use super::updating::Waiting;
use crate::load::Fresh;
use dns_programs::{LiveZone, Message};

/// The way in which a zone's files have changed since they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Not at all.
    None,
    /// Every changed file is complete.
    Complete,
    /// Some changed file may still be written.
    Incomplete,
}

/// The most problems of one zone that are logged.
const LOGGED_PROBLEMS: usize = 20;

/// One zone: its declaration, files, data and report.
pub(super) struct ZoneState {
    pub(super) declared: ZoneDecl,
    pub(super) files: Vec<(PathBuf, Stamp)>,
    pub(super) zone: Option<Arc<Zone>>,
    pub(super) live: LiveZone,
    pub(super) report: Arc<ZoneReport>,
    /// Its flattened version.
    pub(super) flat: Option<Arc<Flat>>,
    /// The versions before the one in service.
    pub(super) history: History,
    /// Whether it is another one than on disk.
    pub(super) must_write: bool,
    /// The version that waits until an operator accepts it.
    held: Option<Prepared>,
    /// The updates that wait.
    pub(super) updates: VecDeque<Waiting>,
    /// The updates that are carried out.
    pub(super) updating: Vec<Waiting>,
    /// The targets of its programs, as they were sent to healthd.
    pub(super) watched: BTreeSet<Watched>,
    pub(super) load: ItsLoad,
    /// Whether files may have changed while the zone was being loaded.
    pub(super) must_look: bool,
    /// Whether its primaries were not reached for so long that its data counts no more.
    pub(super) is_expired: bool,
}

/// The load of a zone that runs or is next.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and they come in all combinations"
)]
pub(super) struct ItsLoad {
    /// Whether the next one reads the files; another only evaluates the programs.
    pub(super) must_read: bool,
    /// Whether the next one that reads the files reads the history from the disk too.
    pub(super) must_renew: bool,
    /// Whether the one that runs reads the files.
    pub(super) is_reading: bool,
    /// Whether its end is logged.
    pub(super) must_log: bool,
    /// The serial of the older version that the next one goes back to.
    pub(super) restore: Option<u32>,
    /// Why the zone did not go back to an older version.
    pub(super) failure: Option<String>,
}

/// Live sets that were adopted: the facts that they are of, and the messages of their programs.
pub(super) type Adopted = (Facts, Vec<Message>);

impl ZoneState {
    pub(super) fn new(declared: ZoneDecl) -> Self {
        Self {
            report: Arc::new(ZoneReport::new(&declared)),
            declared,
            files: Vec::new(),
            zone: None,
            live: LiveZone::default(),
            flat: None,
            history: History::default(),
            must_write: false,
            held: None,
            updates: VecDeque::new(),
            updating: Vec::new(),
            watched: BTreeSet::new(),
            load: ItsLoad {
                must_read: true,
                must_renew: false,
                is_reading: false,
                must_log: false,
                restore: None,
                failure: None,
            },
            must_look: false,
            is_expired: false,
        }
    }

    /// The same zone with the declaration of another configuration.
    pub(super) fn declare(self, declared: ZoneDecl) -> Self {
        let mut report = self.report;
        if report.file != declared.file {
            Arc::make_mut(&mut report).file.clone_from(&declared.file);
        }
        Self {
            // A zone that is edited here does not expire.
            is_expired: self.is_expired && !declared.primaries.is_empty(),
            declared,
            report,
            ..self
        }
    }

    /// The way in which the files have changed since they were read; `complete` says of a changed file whether
    /// its new state is complete.
    pub(super) fn change(&self, mut complete: impl FnMut(&Path, Stamp) -> bool) -> Change {
        let main = self.declared.file.as_ref();
        if self.files.is_empty() || self.files.first().map(|(path, _)| path) != main {
            return Change::Complete;
        }
        let mut change = Change::None;
        for (path, known) in &self.files {
            let stamp = Stamp::of(path);
            if stamp == *known {
                continue;
            }
            // The others count too: the time that they stay the same begins now.
            change = match (complete(path, stamp), change) {
                (true, Change::None | Change::Complete) => Change::Complete,
                _ => Change::Incomplete,
            };
        }
        change
    }

    /// The paths of its files; before they are read, that of its own file.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        match self.files.is_empty() {
            true => self.declared.file.iter().cloned().collect(),
            false => self.files.iter().map(|(path, _)| path.clone()).collect(),
        }
    }

    /// The size of its files, as far as it is known without reading them.
    pub(super) fn size(&self) -> u64 {
        let main = self.declared.file.as_deref();
        let main = main.map_or(0, |path| Stamp::of(path).length());
        let known: u64 = self.files.iter().map(|(_, stamp)| stamp.length()).sum();
        // Records that `$GENERATE` makes are in no file.
        let generated = match self.report.records >= MANY_RECORDS {
            true => LARGE,
            false => 0,
        };
        main.max(known).max(generated)
    }

    /// Whether a version is held back.
    pub(super) const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Takes the new version of the zone, or keeps the data in service when the new is broken or doubtful.
    pub(super) fn take(
        &mut self,
        version: Result<(Box<Prepared>, Vec<Doubt>), Vec<Problem>>,
        took: Duration,
        limits: Limits,
    ) -> Option<Adopted> {
        self.held = None;
        match version {
            Err(problems) => self.refuse(&problems, took),
            Ok((prepared, doubts)) => {
                log_fresh(&self.declared.id(), &prepared.fresh);
                if doubts.is_empty() {
                    let log = self.load.must_log;
                    return Some(self.adopt(*prepared, log, limits));
                }
                self.hold(*prepared, &doubts);
            }
        }
        None
    }

    /// Takes the live sets of the zone in service with other settings.
    pub(super) fn take_live(&mut self, evaluation: Evaluation) -> Option<Adopted> {
        let zone = self.zone.clone()?;
        Some(self.adopt_live(&zone, evaluation))
    }

    /// Takes the version that is held back; `None` when there is none.
    pub(super) fn accept(&mut self, limits: Limits) -> Option<Adopted> {
        let prepared = self.held.take()?;
        Some(self.adopt(prepared, true, limits))
    }

    /// Takes the older version that the zone goes back to.
    pub(super) fn take_restored(
        &mut self,
        restored: Result<Box<Prepared>, String>,
        limits: Limits,
    ) -> Option<Adopted> {
        match restored {
            Ok(prepared) => {
                let adopted = self.adopt(*prepared, false, limits);
                let (zone, serial) = (self.declared.id(), self.report.serial);
                let to = self.history.rollback().map(|rollback| rollback.to);
                tracing::warn!(%zone, to, serial, "Zone is rolled back; its files are set aside until they change");
                Some(adopted)
            }
            Err(failure) => {
                self.load.failure = Some(failure);
                None
            }
        }
    }

    /// Takes the version that updates have made; it is on disk. The oddities of the files stay.
    pub(super) fn take_updated(&mut self, next: Prepared, limits: Limits) -> Adopted {
        let before = Arc::clone(&self.report);
        let adopted = self.adopt(next, false, limits);
        self.must_write = false;
        let report = Arc::make_mut(&mut self.report);
        report.warnings.clone_from(&before.warnings);
        report.left_out.clone_from(&before.left_out);
        adopted
    }

    /// Drops the version that is held back, so that its files are read again.
    pub(super) fn drop_held(&mut self) {
        self.held = None;
        self.files.clear();
        self.load.must_read = true;
    }

    fn hold(&mut self, prepared: Prepared, doubts: &[Doubt]) {
        let fresh = &prepared.fresh;
        let held = HeldVersion {
            serial: fresh.zone.soa().serial,
            records: fresh.zone.n_records(),
            reasons: doubts.iter().map(ToString::to_string).collect(),
        };
        for reason in &held.reasons {
            let (zone, serial, records) = (self.declared.id(), held.serial, held.records);
            tracing::warn!(%zone, serial, records, reason, "New version of the zone is held back");
        }
        let change = prepared.step.change().cloned();
        self.report = Arc::new(self.report.held((held, change), prepared.took));
        self.held = Some(prepared);
    }

    fn adopt(&mut self, prepared: Prepared, log: bool, limits: Limits) -> Adopted {
        let Prepared {
            fresh,
            took,
            evaluation,
            step,
        } = prepared;
        (self.history, self.must_write) = step.take(self.zone.as_ref(), &self.history, limits);
        self.report = Arc::new(
            self.report
                .loaded(&fresh, &self.history, took, clock::wall()),
        );
        let zone = fresh.zone;
        if log {
            let (serial, records) = (zone.soa().serial, zone.n_records());
            tracing::info!(zone = %self.declared.id(), serial, records, ?took, "Zone is loaded");
        }
        let adopted = self.adopt_live(&zone, evaluation);
        self.zone = Some(zone);
        adopted
    }

    /// Takes live sets; those of them whose wait is over stay so.
    fn adopt_live(&mut self, zone: &Zone, evaluation: Evaluation) -> Adopted {
        let Evaluation {
            mut live,
            facts,
            messages,
        } = evaluation;
        if let Some(before) = &self.zone {
            live.inherit(zone, &self.live, before);
        }
        self.live = live;
        (facts, messages)
    }

    fn refuse(&mut self, problems: &[Problem], took: Duration) {
        let is_secondary = !self.declared.primaries.is_empty();
        let sentence = match self.zone {
            Some(_) => "Zone file is broken, the old zone stays",
            None if is_secondary => {
                "Zone is not transferred yet, or its file is broken; it answers SERVFAIL"
            }
            None => "Zone file is broken, the zone answers SERVFAIL",
        };
        for problem in problems.iter().take(LOGGED_PROBLEMS) {
            tracing::error!(zone = %self.declared.id(), %problem, "{sentence}");
        }
        let served = self.zone.is_some();
        self.report = Arc::new(self.report.refused(problems, served, took));
    }
}

fn log_fresh(zone: &ZoneId, fresh: &Fresh) {
    for warning in fresh.warnings.iter().take(LOGGED_PROBLEMS) {
        tracing::warn!(%zone, %warning, "Zone file is odd");
    }
    for problem in fresh.left_out.first.iter().take(LOGGED_PROBLEMS) {
        let count = fresh.left_out.count;
        tracing::warn!(%zone, %problem, count, "Record is unknown and left out");
    }
}
