//! The result of a sweep.

use std::fmt;
use std::time::Duration;

use api::registry_svc::SweepReport;
use config_text::counted;
use oci::digest::Digest;

/// The most manifests that a report for people lists by name.
const MOST_LISTED: usize = 20;

/// Some blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub n: u64,
    /// Their octets.
    pub octets: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, octets: u64) {
        self.n += 1;
        self.octets += octets;
    }

    const fn shown(self) -> api::registry_svc::Amount {
        api::registry_svc::Amount {
            blobs: self.n,
            bytes: self.octets,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}",
            counted(self.n, "blob"),
            counted(self.octets, "octet")
        )
    }
}

/// The result of a sweep, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nothing was changed.
    pub is_dry_run: bool,
    /// All content was kept, because the journal was damaged and no other node has its names.
    pub is_held: bool,
    /// Manifests that keep what they refer to.
    pub n_manifests: u64,
    /// Manifests deleted because no tag leads to them.
    pub n_untagged: u64,
    /// Upload sessions that no client continued.
    pub n_sessions: usize,
    /// Blobs on the disk.
    pub n_examined: u64,
    /// Not needed, and moved to the trash.
    pub trashed: Amount,
    /// Not needed, and too young to go.
    pub young: Amount,
    /// Not needed by a manifest, but perhaps by a client soon.
    pub wanted: Amount,
    /// In the trash before, and still.
    pub in_trash: Amount,
    /// In the trash for long enough, and kept until every other node has been heard.
    pub waiting: Amount,
    /// Links stated again that a manifest needs.
    pub n_restated: u64,
    /// Manifests that cannot be read: everything that their repositories have stays.
    pub unreadable: Vec<Digest>,
    /// Deleted from the trash.
    pub deleted: Amount,
    /// Damaged files deleted from the quarantine.
    pub quarantine: Amount,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// The report as operators see it.
    #[must_use]
    pub fn shown(&self) -> SweepReport {
        SweepReport {
            dry_run: self.is_dry_run,
            manifests: self.n_manifests,
            untagged_deleted: self.n_untagged,
            uploads_expired: self.n_sessions,
            blobs: self.n_examined,
            trashed: self.trashed.shown(),
            young: self.young.shown(),
            wanted: self.wanted.shown(),
            in_trash: self.in_trash.shown(),
            waiting_for_nodes: self.waiting.shown(),
            links_restated: self.n_restated,
            unreadable_manifests: self.unreadable.iter().map(ToString::to_string).collect(),
            deleted: self.deleted.shown(),
            quarantine_deleted: self.quarantine.shown(),
            seconds: self.took.as_secs_f64(),
            text: self.to_string(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let would = match self.is_dry_run {
            true => "would be ",
            false => "",
        };
        if self.is_held {
            writeln!(
                f,
                "all content is kept, because the journal was damaged: see `registry-svc recover`"
            )?;
        }
        writeln!(
            f,
            "{}, {}",
            counted(self.n_examined, "blob"),
            counted(self.n_manifests, "manifest")
        )?;
        writeln!(f, "{would}moved to the trash: {}", self.trashed)?;
        writeln!(f, "{would}deleted from the trash: {}", self.deleted)?;
        writeln!(f, "not needed but young: {}", self.young)?;
        writeln!(f, "not needed but asked for: {}", self.wanted)?;
        writeln!(f, "waiting in the trash: {}", self.in_trash)?;
        if self.waiting.n > 0 {
            writeln!(
                f,
                "kept until all other nodes are connected and heard: {}",
                self.waiting
            )?;
        }
        if self.quarantine.n > 0 {
            writeln!(f, "{would}deleted from the quarantine: {}", self.quarantine)?;
        }
        if self.n_restated > 0 {
            writeln!(f, "links of manifests stated again: {}", self.n_restated)?;
        }
        if !self.unreadable.is_empty() {
            writeln!(
                f,
                "manifests that cannot be read, so all content of their repositories stays: {}",
                self.unreadable.len()
            )?;
            for digest in self.unreadable.iter().take(MOST_LISTED) {
                writeln!(f, "  {digest}")?;
            }
        }
        if self.n_untagged > 0 {
            writeln!(
                f,
                "manifests without a tag, {would}deleted: {}",
                self.n_untagged
            )?;
        }
        if self.n_sessions > 0 {
            writeln!(f, "upload sessions ended: {}", self.n_sessions)?;
        }
        write!(f, "took {:.1} s", self.took.as_secs_f64())
    }
}
