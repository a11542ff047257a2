//! One zone of the publisher: its declaration, files, data and report.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config_text::Problem;
use daemon::clock;
use daemon::disk::Stamp;
use dns_zone::Zone;
use peer_bind::ZoneDecl;

use super::report::ZoneReport;
use crate::load::{Fresh, Loaded};
use crate::programs::LiveZone;

/// The most problems of one zone that are logged.
const LOGGED_PROBLEMS: usize = 20;

/// One zone: its declaration, files, data and report.
pub(super) struct ZoneState {
    pub(super) declared: ZoneDecl,
    pub(super) files: Vec<(PathBuf, Stamp)>,
    pub(super) zone: Option<Arc<Zone>>,
    pub(super) live: LiveZone,
    pub(super) report: Arc<ZoneReport>,
}

impl ZoneState {
    pub(super) fn new(declared: ZoneDecl) -> Self {
        Self {
            report: Arc::new(ZoneReport::new(&declared)),
            declared,
            files: Vec::new(),
            zone: None,
            live: LiveZone::default(),
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

    /// Whether a file has changed since it was read.
    pub(super) fn is_stale(&self) -> bool {
        let main = self.declared.file.as_ref();
        self.files.is_empty()
            || self.files.first().map(|(path, _)| path) != main
            || self
                .files
                .iter()
                .any(|(path, stamp)| Stamp::of(path) != *stamp)
    }

    /// Takes the new data of the zone, or keeps the old data when the new is broken.
    pub(super) fn take(&mut self, loaded: Loaded, log: bool) {
        self.files = loaded.files;
        let zone = match loaded.result {
            Ok(fresh) => {
                log_fresh(&fresh);
                self.report = Arc::new(self.report.loaded(&fresh, loaded.took, clock::wall()));
                fresh.zone
            }
            Err(problems) => {
                self.refuse(&problems, loaded.took);
                return;
            }
        };
        if log {
            let (serial, records) = (zone.soa().serial, zone.n_records());
            tracing::info!(zone = %zone.apex(), serial, records, took = ?loaded.took, "Zone is loaded");
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
