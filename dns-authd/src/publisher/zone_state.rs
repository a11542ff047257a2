//! One zone of the publisher: its declaration, files, data and report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::dns_authd::HeldVersion;
use config_text::Problem;
use daemon::clock;
use daemon::disk::Stamp;
use dns_zone::{Doubt, Guard, Zone};
use peer_bind::ZoneDecl;

use super::report::ZoneReport;
use crate::load::{Fresh, Loaded};
use crate::programs::LiveZone;

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
    /// The version that waits until an operator accepts it, and the time that its load took.
    held: Option<(Fresh, Duration)>,
}

impl ZoneState {
    pub(super) fn new(declared: ZoneDecl) -> Self {
        Self {
            report: Arc::new(ZoneReport::new(&declared)),
            declared,
            files: Vec::new(),
            zone: None,
            live: LiveZone::default(),
            held: None,
        }
    }

    /// The same zone with the declaration of another configuration.
    pub(super) fn declare(self, declared: ZoneDecl) -> Self {
        let mut report = self.report;
        if report.file != declared.file {
            Arc::make_mut(&mut report).file.clone_from(&declared.file);
        }
        Self {
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

    /// Whether the version of the files has to be compared with the one in service: not if the files are those
    /// in service and only other options apply.
    pub(super) fn needs_guard(&self) -> bool {
        self.held.is_some() || self.change(|_, _| true) != Change::None
    }

    /// Takes the new data of the zone, or keeps the old data when the new is broken or, to the guard, doubtful.
    pub(super) fn take(&mut self, loaded: Loaded, guard: Option<&Guard>, log: bool) {
        self.files = loaded.files;
        self.held = None;
        let fresh = match loaded.result {
            Ok(fresh) => fresh,
            Err(problems) => {
                self.refuse(&problems, loaded.took);
                return;
            }
        };
        log_fresh(&fresh);
        let doubts = match (guard, &self.zone) {
            (Some(guard), Some(served)) => guard.doubts(served, &fresh.zone),
            _ => Vec::new(),
        };
        match doubts.is_empty() {
            true => self.adopt(fresh, loaded.took, log),
            false => self.hold(fresh, loaded.took, &doubts),
        }
    }

    /// Publishes the version that is held back; `false` when there is none.
    pub(super) fn accept(&mut self) -> bool {
        let Some((fresh, took)) = self.held.take() else {
            return false;
        };
        self.adopt(fresh, took, true);
        true
    }

    fn hold(&mut self, fresh: Fresh, took: Duration, doubts: &[Doubt]) {
        let held = HeldVersion {
            serial: fresh.zone.soa().serial,
            records: fresh.zone.n_records(),
            reasons: doubts.iter().map(ToString::to_string).collect(),
        };
        for reason in &held.reasons {
            let (zone, serial, records) = (fresh.zone.apex(), held.serial, held.records);
            tracing::warn!(%zone, serial, records, reason, "New version of the zone is held back");
        }
        self.report = Arc::new(self.report.held(held, took));
        self.held = Some((fresh, took));
    }

    fn adopt(&mut self, fresh: Fresh, took: Duration, log: bool) {
        self.report = Arc::new(self.report.loaded(&fresh, took, clock::wall()));
        let zone = fresh.zone;
        if log {
            let (serial, records) = (zone.soa().serial, zone.n_records());
            tracing::info!(zone = %zone.apex(), serial, records, ?took, "Zone is loaded");
        }
        let mut live = LiveZone::new(&zone);
        if let Some(before) = &self.zone {
            live.inherit(&zone, &self.live, before);
        }
        self.live = live;
        self.zone = Some(zone);
    }

    fn refuse(&mut self, problems: &[Problem], took: Duration) {
        let sentence = match self.zone {
            Some(_) => "Zone file is broken, the old zone stays",
            None => "Zone file is broken, the zone answers SERVFAIL",
        };
        for problem in problems.iter().take(LOGGED_PROBLEMS) {
            tracing::error!(zone = %self.declared.name, %problem, "{sentence}");
        }
        let served = self.zone.is_some();
        self.report = Arc::new(self.report.refused(problems, served, took));
    }

    /// Makes new live sets, for other settings.
    pub(super) fn renew_live(&mut self) {
        if let Some(zone) = &self.zone {
            self.live = LiveZone::new(zone);
        }
    }
}

fn log_fresh(fresh: &Fresh) {
    let zone = fresh.zone.apex();
    for warning in fresh.warnings.iter().take(LOGGED_PROBLEMS) {
        tracing::warn!(%zone, %warning, "Zone file is odd");
    }
    for problem in fresh.left_out.first.iter().take(LOGGED_PROBLEMS) {
        let count = fresh.left_out.count;
        tracing::warn!(%zone, %problem, count, "Record is unknown and left out");
    }
}
