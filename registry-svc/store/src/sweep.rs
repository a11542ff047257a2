//! The sweep: takes away what no manifest refers to, while everybody pushes.
//!
//! ```text
//! mark: every manifest of every repository, and what it refers to
//! blobs ──not marked, older than the grace──► trash ──the second grace──► gone, and no repository has it
//!            ▲                                  │
//!            └── a push, a mount, a HEAD ───────┘
//! ```
//!
//! A client that pushes asks first which blobs are there, and the answer has to hold until the
//! manifest comes: so content that was written, linked or requested within the grace stays, and
//! content in the trash comes back when a client wants it. A blob is moved, and deleted, only under
//! its digest's lock, which a caller that makes a reference to it holds too; marked content is
//! checked again there.
//!
//! Among several nodes, another one may have referred to a blob while this one could not hear it.
//! So links to a blob are taken back only while every node has been heard, and as of a moment in
//! the past: a node that has referred to it since has stated a link that wins against that on every
//! node. Should a link have been lost all the same, by a node that comes back after long, a node
//! that has its content states it again; a link that an operator has taken back stays so, for a
//! sweep's stamps are [known](Hlc::is_last).
//!
//! A manifest that cannot be read stops nothing: its repository keeps everything, and the rest is swept.
//!
//! A node without others sweeps nothing while a damaged journal lies aside: its content may have lost its
//! name alone.
//!
//! Damaged files leave the quarantine a day after their content is whole again, and after a month otherwise, unless
//! configured otherwise; the oldest leave first when there are too many.
//!
//! Manifests without a tag stay unless configured otherwise: mirrors are pulled by digest.

pub(crate) mod mark;
mod report;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use daemon::clock;
use oci::digest::{Algorithm, Digest};
use registry_facts::hlc::Hlc;
use registry_facts::index::key::{BLOB, MANIFEST};
use registry_facts::record::Key;
use registry_life_cycle::{Claim, Duty, Event, File, Holders, Proof, Since, State, Visit, step};

use crate::disk::Disk;
use crate::others::Others;
use crate::store::layout::{Layout, remove_if_there};
use crate::store::{Store, StoreError};

pub use report::{Amount, Report};

/// Repositories that are looked at for one that has linked a blob of late; one that more have is
/// needed by some of them.
const MOST_HOLDERS: usize = 1000;

/// How far in the past it is at most that links are taken back as of. Longer than news between two
/// nodes that are connected takes and than their clocks differ, and much shorter than tombstones are
/// remembered.
const MOST_BACK: Duration = Duration::from_hours(24);

pub use config::registry_svc::{Sweep as Settings, Untagged};

/// How long a damaged file lies in the quarantine at most after its content is whole again: an operator may want to
/// look at it.
const HEALED: Duration = Duration::from_hours(24);

/// Whether a sweep changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does what it says.
    Sweep,
    /// It says what it would do.
    DryRun,
}

/// Removes unneeded content; `others` are the other nodes, if there are any.
///
/// # Errors
///
/// Fails when the index or a directory cannot be read; its work until then stands. After the journal has failed
/// nothing is swept: a manifest that was refused then may be there after the next start.
pub async fn sweep(
    store: &Store,
    others: Option<&dyn Others>,
    settings: &Settings,
    mode: Mode,
) -> Result<Report, StoreError> {
    let begun = clock::now();
    let mut report = Report {
        is_dry_run: mode == Mode::DryRun,
        ..Report::default()
    };
    if store.is_in_doubt() || mode == Mode::Sweep && store.is_on_read_only_disk() {
        return Err(StoreError::ReadOnly);
    }
    if mode == Mode::Sweep {
        // Blobs that are moved from here on have their second grace, also if the process ends and the clock jumps.
        store.note_time().await?;
        report.n_sessions = store.expire_sessions(settings.uploads.get()).await;
    }
    if settings.untagged == Untagged::Delete {
        mark::delete_untagged(store, settings.grace.get(), mode, &mut report).await?;
    }
    let restates = others.is_some() && mode == Mode::Sweep;
    let marked = mark::marked(store, restates, &mut report).await?;
    let sweep = Sweep {
        store,
        others,
        settings,
        mode,
        marked,
    };
    // Names that a damaged journal has lost are nowhere else: an operator gives their content new ones.
    report.is_held = others.is_none() && store.has_damaged_journal().await?;
    if !report.is_held {
        sweep.empty_trash(&mut report).await?;
        sweep.empty_quarantine(&mut report).await?;
        for algorithm in Algorithm::ALL {
            for shard in 0..=u8::MAX {
                sweep.shard(algorithm, shard, &mut report).await?;
            }
        }
    }
    report.took = begun.elapsed();
    Ok(report)
}

struct Sweep<'a> {
    store: &'a Store,
    others: Option<&'a dyn Others>,
    settings: &'a Settings,
    mode: Mode,
    marked: HashSet<Digest>,
}

/// A file of the store.
struct Found {
    digest: Digest,
    size: u64,
    modified: SystemTime,
}

/// The treatment of a blob in the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    /// Its second grace has not ended.
    Early,
    Deleted,
    /// It stays there: another node has not been heard.
    Waits,
    Wanted,
}

impl Sweep<'_> {
    /// Deletes damaged files that are of no use, for their content is whole again or they lie there for long,
    /// and the oldest of too many.
    async fn empty_quarantine(&self, report: &mut Report) -> Result<(), StoreError> {
        let directory = self.store.layout().quarantine();
        let mut found = self.list(directory, Layout::parse_flat).await?;
        found.sort_by_key(|file| Reverse(file.modified));
        let mut n_kept = 0;
        for file in found {
            let longest = self.settings.quarantine.get();
            let age = match self.is_of_use(&file.digest)? {
                true => longest,
                false => longest.min(HEALED),
            };
            n_kept += file.size;
            let is_within = n_kept <= self.settings.quarantine_size.0;
            let visit = match self.is_younger(file.modified, age) && is_within {
                true => Visit::Early,
                false => Visit::Due,
            };
            let state = State::of(File::InQuarantine, Claim::None);
            if !step(state, Event::Swept(visit)).asks_for(Duty::Delete) {
                continue;
            }
            n_kept -= file.size;
            report.quarantine.add(file.size);
            if self.mode == Mode::DryRun {
                continue;
            }
            let _alone = self.store.alone(&file.digest).await;
            let remove = move |disk: &dyn Disk, layout: &Layout| {
                remove_if_there(disk, &layout.quarantined(&file.digest))?;
                disk.sync_directory(&layout.quarantine())
            };
            self.store.on_disk("empty the quarantine", remove).await?;
        }
        Ok(())
    }

    /// Whether a damaged file may still be the best that there is of its content.
    fn is_of_use(&self, digest: &Digest) -> Result<bool, StoreError> {
        Ok(self.store.is_waiting(digest) && self.store.is_named(digest)?)
    }

    /// Moves unneeded content of one directory to the trash.
    async fn shard(
        &self,
        algorithm: Algorithm,
        shard: u8,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let directory = self.store.layout().shard(algorithm, shard);
        let parse = move |name: &str| format!("{algorithm}:{name}").parse().ok();
        let found = self.list(directory, parse).await?;
        report.n_examined += found.len() as u64;
        let mut n_moved = 0;
        for blob in found {
            if let Some(proof) = self.proof_at_a_glance(&blob)
                && !leaves(Some(proof))
            {
                if proof == Proof::Young {
                    report.young.add(blob.size);
                }
                continue;
            }
            if self.mode == Mode::DryRun {
                match leaves(self.proof(&blob.digest)?) {
                    true => report.trashed.add(blob.size),
                    false => report.wanted.add(blob.size),
                }
                continue;
            }
            let _alone = self.store.alone(&blob.digest).await;
            if !leaves(self.proof(&blob.digest)?) {
                report.wanted.add(blob.size);
                continue;
            }
            if self.move_to_trash(blob.digest).await? {
                report.trashed.add(blob.size);
                n_moved += 1;
            }
        }
        if n_moved > 0 {
            self.store
                .on_disk("sync what was moved", move |disk, layout| {
                    disk.sync_directory(&layout.trash())?;
                    disk.sync_directory(&layout.shard(algorithm, shard))
                })
                .await?;
        }
        Ok(())
    }

    /// Moves a blob to the trash, for a caller that holds its digest alone. False when it is not
    /// there any more: a scrub may have put it away.
    async fn move_to_trash(&self, digest: Digest) -> Result<bool, StoreError> {
        let moving = move |disk: &dyn Disk, layout: &Layout| {
            let path = layout.blob(&digest);
            // Its second grace begins here, and before it is there: a process that dies between the
            // two leaves a young blob and not old trash.
            let moved = disk.touch(&path);
            match moved.and_then(|()| disk.rename(&path, &layout.trashed(&digest))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                moved => moved.map(|()| true),
            }
        };
        let is_moved = self
            .store
            .on_disk("move a blob to the trash", moving)
            .await?;
        self.store.forget(&digest);
        Ok(is_moved)
    }

    /// Deletes what has been in the trash for long enough, and what repositories say of it.
    async fn empty_trash(&self, report: &mut Report) -> Result<(), StoreError> {
        let trash = self.store.layout().trash();
        for blob in self.list(trash, Layout::parse_flat).await? {
            let since = match self.is_younger(blob.modified, self.settings.trash.get()) {
                true => Since::WithinGrace,
                false => Since::Long,
            };
            let fate = match (since, self.mode) {
                (Since::WithinGrace, _) => self.fate(&blob.digest, since)?,
                (Since::Long, Mode::DryRun) => self.fate(&blob.digest, since)?,
                (Since::Long, Mode::Sweep) => self.delete(&blob.digest).await?,
            };
            match fate {
                Disposition::Early => report.in_trash.add(blob.size),
                Disposition::Deleted => report.deleted.add(blob.size),
                Disposition::Waits => report.waiting.add(blob.size),
                Disposition::Wanted => report.wanted.add(blob.size),
            }
        }
        Ok(())
    }

    /// The treatment of content in the trash without a claim.
    fn fate(&self, digest: &Digest, since: Since) -> Result<Disposition, StoreError> {
        // Whether another node may have referred to it without this one knowing.
        let has_heard_all = self.others.is_none_or(Others::has_heard_all);
        let holders = match (
            self.store.holders(digest, BLOB, 1)?.is_empty(),
            has_heard_all,
        ) {
            (true, _) => Holders::None,
            (false, true) => Holders::Heard,
            (false, false) => Holders::UnheardNodes,
        };
        let visit = Visit::to_trash(since, holders);
        let swept = step(State::of(File::InTrash, Claim::None), Event::Swept(visit));
        Ok(match visit {
            _ if swept.asks_for(Duty::Delete) => Disposition::Deleted,
            Visit::Early => Disposition::Early,
            Visit::Unheard | Visit::Due => Disposition::Waits,
        })
    }

    /// Deletes content in the trash unless it is needed, or may be.
    async fn delete(&self, digest: &Digest) -> Result<Disposition, StoreError> {
        let _alone = self.store.alone(digest).await;
        let wanted = *digest;
        let is_back = move |disk: &dyn Disk, layout: &Layout| disk.status(&layout.blob(&wanted));
        // A client pushed it again meanwhile: the repositories have it.
        let is_back = self.store.on_disk("look for a blob", is_back).await?;
        if is_back.is_none() {
            // A manifest that was not visible when this was moved: a journal that failed may turn
            // out to have kept it.
            let proof = match self.marked.contains(digest) {
                true => Some(Proof::Marked),
                false => self.proof(digest)?,
            };
            if Claim::of(proof) != Claim::None {
                self.store.take_back(digest).await?;
                return Ok(Disposition::Wanted);
            }
            let fate = self.fate(digest, Since::Long)?;
            if fate != Disposition::Deleted {
                return Ok(fate);
            }
            // First what is said of it, then itself: repositories never have what is gone.
            let back = self.settings.grace.get().min(MOST_BACK);
            let as_of = Hlc::last_before(milliseconds(self.store.stated_time() - back));
            if !self.store.unlink_everywhere(digest, as_of).await? {
                self.store.take_back(digest).await?;
                return Ok(Disposition::Wanted);
            }
        }
        self.store
            .on_disk("empty the trash", move |disk, layout| {
                remove_if_there(disk, &layout.trashed(&wanted))
            })
            .await?;
        Ok(Disposition::Deleted)
    }

    /// A proof that content is needed which costs nothing to look for.
    fn proof_at_a_glance(&self, blob: &Found) -> Option<Proof> {
        if self.marked.contains(&blob.digest) {
            return Some(Proof::Marked);
        }
        let is_young = self.is_younger(blob.modified, self.settings.grace.get());
        is_young.then_some(Proof::Young)
    }

    /// A proof that a client may rely on a blob, or that a manifest has referred to it since the marking.
    fn proof(&self, digest: &Digest) -> Result<Option<Proof>, StoreError> {
        if self.store.is_leased(digest) {
            return Ok(Some(Proof::Lease));
        }
        if self.store.is_in_doubt() {
            return Ok(Some(Proof::JournalInDoubt));
        }
        if !self.store.holders(digest, MANIFEST, 1)?.is_empty() {
            return Ok(Some(Proof::Manifest));
        }
        let holders = self.store.holders(digest, BLOB, MOST_HOLDERS)?;
        if holders.len() == MOST_HOLDERS {
            return Ok(Some(Proof::ManyLinks));
        }
        for repository in holders {
            let key = Key::Blob {
                repository,
                digest: *digest,
            };
            let register = self.store.register(&key)?;
            // A manifest states its blobs again.
            if register.is_some_and(|it| self.store.is_of_late(it.stamp, self.settings.grace.get()))
            {
                return Ok(Some(Proof::LateLink));
            }
        }
        Ok(None)
    }

    /// Whether a file was written within `age`, or has a date of the future.
    fn is_younger(&self, modified: SystemTime, age: Duration) -> bool {
        self.store.age(modified) < age
    }

    /// The files of a directory whose names are digests.
    async fn list(
        &self,
        directory: PathBuf,
        parse: impl Fn(&str) -> Option<Digest> + Send + 'static,
    ) -> Result<Vec<Found>, StoreError> {
        self.store
            .on_disk("list a directory", move |disk, _| {
                let mut found = Vec::new();
                for name in disk.list(&directory)?.unwrap_or_default() {
                    if let Some(digest) = parse(&name)
                        && let Some(status) = disk.status(&directory.join(&name))?
                    {
                        found.push(Found {
                            digest,
                            size: status.size,
                            modified: status.modified,
                        });
                    }
                }
                Ok(found)
            })
            .await
    }
}

/// Whether a blob leaves its place for the trash, with such a proof that it is needed.
fn leaves(proof: Option<Proof>) -> bool {
    let state = State::of(File::InPlace, Claim::of(proof));
    step(state, Event::Swept(Visit::Due)).asks_for(Duty::MoveToTrash)
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
