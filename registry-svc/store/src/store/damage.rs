//! Content whose file is not what its digest says: kept from clients, put into the quarantine, and
//! listed until it is whole again.
//!
//! ```text
//! read, or looked for ──another size, another digest, unreadable──► refused ──judged──► quarantine
//!        │                                                             │                    │
//!        └──the file is not there──────────────────────────────────────┴─► waits until it is whole
//! ```
//!
//! The digest alone decides what is damaged. A file of another size than the journal says is refused at
//! once, for its size costs nothing to compare; it goes to the quarantine only after it was hashed, for
//! the journal may hold the size of a damaged file. The first read of a file after a start is
//! hashed while it is sent ([`reader`](super::reader)); later reads cost no more than a look at its
//! status, until its inode, size or time of change is another one.
//!
//! [`heal`](crate::heal) brings what waits here.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use daemon::clock;
use oci::digest::Digest;
use parking_lot::Mutex;
use registry_facts::index::key::{BLOB, MANIFEST};
use registry_life_cycle::{Claim, Duty, Event, File, State, step};
use retry::Backoff;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::spawn_blocking;

use super::cache::Cache;
use super::incoming::hash_file;
use super::layout::Layout;
use super::{Inner, Store, StoreError};
use crate::disk::{Access, Status};

/// Files that are known to be whole. A site has some thousands; each takes about 120 octets. The first
/// read of one that was forgotten is hashed again.
const MOST_VERIFIED: usize = 1 << 17;

/// Content that waits to be whole. More is a disk without its content, which the comparison with other
/// nodes and the scrub find too.
const MOST_WAITING: usize = 1 << 16;

/// Files that are hashed at a time for reads that cannot hash them. A disk reads two as fast as many.
const MOST_CHECKS: usize = 2;

/// The wait after the first attempt to heal that failed.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait between two attempts: content of a peer that comes back is here soon after.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// Digests that are shown by name; beyond that they are counted.
const MOST_SHOWN: usize = 20;

/// The reason why content is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its file has another size than the journal says.
    Size,
    /// Its bytes have another digest.
    Digest,
    /// Its file cannot be read.
    Unreadable,
    /// It has no file.
    Missing,
}

impl Reason {
    /// The event that it is in the life-cycle of content.
    pub(crate) const fn event(self) -> Event {
        match self {
            Self::Size | Self::Unreadable => Event::Doubted,
            Self::Digest => Event::Damaged,
            Self::Missing => Event::Lost,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Size => "its file has another size",
            Self::Digest => "its bytes have another digest",
            Self::Unreadable => "its file cannot be read",
            Self::Missing => "its file is missing",
        })
    }
}

/// The state of damaged content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// Content that was found damaged or missing since the start.
    pub n_found: u64,
    /// Files that went to the quarantine since the start.
    pub n_quarantined: u64,
    /// Content that is whole again since the start.
    pub n_healed: u64,
    /// Content that is not whole yet.
    pub n_waiting: usize,
    /// The first of it by name, with the reason.
    pub waiting: Vec<(Digest, Reason)>,
}

/// The content of the quarantine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quarantined {
    /// How many files there are.
    pub n: usize,
    /// Their octets.
    pub octets: u64,
}

/// The judgement of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its bytes have its digest.
    Whole,
    /// It may not be served.
    Unfit,
}

/// Content that waits to be whole.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    reason: Reason,
    /// The file in its place that must not be served, if there is one.
    file: Option<Status>,
    n_failures: u32,
    due: Instant,
}

/// The state of the files of content.
#[derive(Debug)]
pub(crate) struct Damage {
    verified: Mutex<Cache<Digest, Status>>,
    waiting: Mutex<BTreeMap<Digest, Waiting>>,
    /// Moves when something waits that did not.
    added: Notify,
    /// Checks under way.
    checks: Mutex<HashMap<Digest, watch::Receiver<Option<Verdict>>>>,
    slots: Arc<Semaphore>,
    n_found: AtomicU64,
    n_quarantined: AtomicU64,
    n_healed: AtomicU64,
}

impl Default for Damage {
    fn default() -> Self {
        Self {
            verified: Mutex::new(Cache::new(MOST_VERIFIED)),
            waiting: Mutex::default(),
            added: Notify::new(),
            checks: Mutex::default(),
            slots: Arc::new(Semaphore::new(MOST_CHECKS)),
            n_found: AtomicU64::new(0),
            n_quarantined: AtomicU64::new(0),
            n_healed: AtomicU64::new(0),
        }
    }
}

impl Damage {
    /// Whether a file was hashed and has not changed since.
    pub(crate) fn is_verified(&self, digest: &Digest, file: &Status) -> bool {
        self.verified.lock().find(digest).as_ref() == Some(file)
    }

    /// Whether a file was found to be unfit and has not changed since.
    pub(crate) fn is_refused(&self, digest: &Digest, file: &Status) -> bool {
        let waiting = self.waiting.lock();
        let refused = waiting.get(digest).and_then(|waiting| waiting.file);
        refused.as_ref() == Some(file)
    }

    fn refused(&self, digest: &Digest) -> Option<Status> {
        let waiting = self.waiting.lock();
        waiting.get(digest).and_then(|waiting| waiting.file)
    }

    /// Takes a file as whole: its bytes were hashed. True when it waited for that.
    fn verify(&self, digest: &Digest, file: Status) -> bool {
        self.verified.lock().insert(*digest, file, 1);
        let was_waiting = self.waiting.lock().remove(digest).is_some();
        if was_waiting {
            self.n_healed.fetch_add(1, Ordering::Relaxed);
        }
        was_waiting
    }

    /// Lists content as not whole; false when it is listed for the same file already.
    fn add(&self, digest: &Digest, reason: Reason, file: Option<Status>) -> bool {
        self.verified.lock().remove(digest);
        let mut all = self.waiting.lock();
        if let Some(waiting) = all.get_mut(digest) {
            let is_new = file.is_some() && waiting.file != file;
            if file.is_some() {
                waiting.reason = reason;
                waiting.file = file;
            }
            return is_new;
        }
        self.n_found.fetch_add(1, Ordering::Relaxed);
        if all.len() < MOST_WAITING {
            let waiting = Waiting {
                reason,
                file,
                n_failures: 0,
                due: clock::now(),
            };
            all.insert(*digest, waiting);
        }
        drop(all);
        self.added.notify_one();
        true
    }

    /// The file of content has left its place.
    fn moved_away(&self, digest: &Digest) {
        self.n_quarantined.fetch_add(1, Ordering::Relaxed);
        if let Some(waiting) = self.waiting.lock().get_mut(digest) {
            waiting.file = None;
        }
    }
}

impl Inner {
    /// Whether a file may be taken for its content. One of another size than the journal says, or that
    /// was found to be unfit, may not.
    pub(crate) fn is_fit(&self, digest: &Digest, file: &Status) -> bool {
        if self.damage.is_verified(digest, file) {
            return true;
        }
        if self.damage.is_refused(digest, file) {
            return false;
        }
        let is_fit = self
            .stated_size(digest)
            .is_none_or(|size| size == file.size);
        if !is_fit {
            self.refuse(digest, Reason::Size, Some(*file));
        }
        is_fit
    }

    /// The size of content in the journal; none when no repository has it.
    fn stated_size(&self, digest: &Digest) -> Option<u64> {
        let stated = self.read(|view| {
            if let Some(repository) = view.holders(digest, BLOB, 1)?.first() {
                return view.blob(repository, digest);
            }
            match view.holders(digest, MANIFEST, 1)?.first() {
                Some(repository) => {
                    let link = view.manifest(repository, digest)?;
                    Ok(link.map(|link| link.size))
                }
                None => Ok(None),
            }
        });
        // Without an index nothing is known of sizes; the digest still decides.
        stated.ok().flatten()
    }

    /// Takes content out of service until it is whole.
    pub(crate) fn refuse(&self, digest: &Digest, reason: Reason, file: Option<Status>) {
        // The caller looked for it, so a repository names it.
        let place = file.map_or(File::None, |_| File::InPlace);
        let found = step(State::of(place, Claim::Linked), reason.event());
        if found.asks_for(Duty::EndLease) {
            self.end_lease(digest);
        }
        if found.asks_for(Duty::Heal) && self.damage.add(digest, reason, file) {
            tracing::error!(%digest, %reason, "A blob is damaged; clients get it from another node if one has it");
        }
    }

    /// Takes content out of service that was to be read and has no file, unless the sweep has moved it.
    pub(crate) fn lose(&self, digest: &Digest) {
        let file = match self.disk.status(&self.layout.trashed(digest)) {
            Ok(None) => File::None,
            Ok(Some(_)) => File::InTrash,
            Err(_) => return,
        };
        let lost = step(State::of(file, Claim::Linked), Event::Lost);
        if lost.asks_for(Duty::Heal) {
            self.refuse(digest, Reason::Missing, None);
        }
    }

    /// Lists content that the look at the start did not find, or not in its size. It may be all content
    /// there is, so the caller logs how much.
    pub(crate) fn list_missing(&self, digest: &Digest) {
        let (reason, file) = match self.disk.status(&self.layout.blob(digest)) {
            Ok(None) => (Reason::Missing, None),
            Ok(file) => (Reason::Size, file),
            Err(_) => (Reason::Unreadable, None),
        };
        self.damage.add(digest, reason, file);
    }

    /// Takes a file as whole whose bytes were hashed.
    pub(crate) fn verify(&self, digest: &Digest, file: Status) {
        if self.damage.verify(digest, file) {
            tracing::info!(%digest, "A damaged blob is whole again");
        }
    }

    /// Takes a lease on content that was written and hashed just now.
    pub(crate) fn arrived(&self, digest: &Digest, size: u64) {
        self.note_jump();
        self.lease(digest, size);
        if let Ok(Some(file)) = self.disk.status(&self.layout.blob(digest))
            && file.size == size
        {
            self.verify(digest, file);
        }
    }

    /// Hashes the file of content; blocks.
    pub(crate) fn judge(&self, digest: &Digest) -> Verdict {
        let path = self.layout.blob(digest);
        let mut file = None;
        let hashed = self.disk.open(&path, Access::Read).and_then(|opened| {
            let status = opened.status()?;
            file = Some(status);
            let hasher = hash_file(&*opened, status.size, digest.algorithm())?;
            Ok(hasher.finish())
        });
        match (hashed, file) {
            (Ok(found), Some(file)) if found == *digest => {
                self.verify(digest, file);
                return Verdict::Whole;
            }
            (Ok(_), file) => self.refuse(digest, Reason::Digest, file),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => self.lose(digest),
            (Err(_), file) => self.refuse(digest, Reason::Unreadable, file),
        }
        Verdict::Unfit
    }
}

impl Store {
    /// Has the file of content hashed on other threads, once for all who ask meanwhile.
    pub(crate) fn check(&self, digest: &Digest) -> watch::Receiver<Option<Verdict>> {
        let mut checks = self.inner.damage.checks.lock();
        if let Some(check) = checks.get(digest) {
            return check.clone();
        }
        let (sender, check) = watch::channel(None);
        checks.insert(*digest, check.clone());
        drop(checks);
        let (inner, digest) = (Arc::clone(&self.inner), *digest);
        tokio::spawn(async move {
            let slot = Arc::clone(&inner.damage.slots).acquire_owned().await;
            let judging = Arc::clone(&inner);
            let judged = spawn_blocking(move || judging.judge(&digest)).await;
            drop(slot);
            inner.damage.checks.lock().remove(&digest);
            sender.send_replace(Some(judged.unwrap_or(Verdict::Unfit)));
        });
        check
    }

    /// Moves the file of content to the quarantine, from the trash too, where a request would restore
    /// it. If `file` is given, it moves that one alone: another one may be whole. False when there is
    /// none.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub(crate) async fn quarantine(
        &self,
        digest: &Digest,
        file: Option<Status>,
    ) -> Result<bool, StoreError> {
        if self.inner.is_on_read_only_disk {
            return Ok(false);
        }
        let _alone = self.alone(digest).await;
        let wanted = *digest;
        let moving = self.on_disk("put a damaged blob away", move |disk, layout| {
            let shard = layout.shard(wanted.algorithm(), wanted.shard());
            let places = [
                (layout.blob(&wanted), shard),
                (layout.trashed(&wanted), layout.trash()),
            ];
            for (path, directory) in places {
                if file.is_some() && disk.status(&path)? != file {
                    continue;
                }
                match disk.rename(&path, &layout.quarantined(&wanted)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    moved => moved?,
                }
                // The sweep goes by how long it lies there.
                disk.touch(&layout.quarantined(&wanted))?;
                disk.sync_directory(&layout.quarantine())?;
                disk.sync_directory(&directory)?;
                return Ok(true);
            }
            Ok(false)
        });
        let is_moved = moving.await?;
        if is_moved {
            self.inner.damage.moved_away(digest);
            self.forget(digest);
        }
        Ok(is_moved)
    }

    /// Moves a file that must not be served out of the way of one that is whole.
    pub(crate) async fn clear_way(&self, digest: &Digest) {
        let Some(file) = self.inner.damage.refused(digest) else {
            return;
        };
        if let Err(error) = self.quarantine(digest, Some(file)).await {
            // The whole file replaces it then.
            tracing::warn!(%digest, %error, "A damaged blob cannot be moved to the quarantine");
        }
    }

    /// Lists content that the scrub found damaged or missing, to be healed.
    pub(crate) fn report(&self, digest: &Digest, reason: Reason) {
        self.inner.refuse(digest, reason, None);
    }

    /// The files in the quarantine; none when it cannot be read.
    #[must_use]
    pub fn quarantined(&self) -> Option<Quarantined> {
        let (disk, directory) = (&self.inner.disk, self.inner.layout.quarantine());
        let mut quarantined = Quarantined::default();
        for name in disk.list(&directory).ok()?.unwrap_or_default() {
            if Layout::parse_flat(&name).is_some()
                && let Some(status) = disk.status(&directory.join(name)).ok()?
            {
                quarantined.n += 1;
                quarantined.octets += status.size;
            }
        }
        Some(quarantined)
    }

    /// The state of damaged content.
    #[must_use]
    pub fn damaged(&self) -> Damaged {
        let damage = &self.inner.damage;
        let waiting = damage.waiting.lock();
        let named = waiting.iter().take(MOST_SHOWN);
        Damaged {
            n_found: damage.n_found.load(Ordering::Relaxed),
            n_quarantined: damage.n_quarantined.load(Ordering::Relaxed),
            n_healed: damage.n_healed.load(Ordering::Relaxed),
            n_waiting: waiting.len(),
            waiting: named.map(|(digest, it)| (*digest, it.reason)).collect(),
        }
    }
}

//--- Healing

impl Store {
    /// Content whose next attempt is due, some of it.
    pub(crate) fn due(&self, now: Instant, limit: usize) -> Vec<Digest> {
        let waiting = self.inner.damage.waiting.lock();
        let due = waiting.iter().filter(|(_, waiting)| waiting.due <= now);
        due.map(|(digest, _)| *digest).take(limit).collect()
    }

    /// When the next attempt is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waiting = self.inner.damage.waiting.lock();
        waiting.values().map(|waiting| waiting.due).min()
    }

    /// Waits until content is found damaged.
    pub(crate) async fn damage_added(&self) {
        self.inner.damage.added.notified().await;
    }

    /// The file that lies in the place of content and must not be served, and why.
    pub(crate) fn refused_file(&self, digest: &Digest) -> Option<(Reason, Status)> {
        let waiting = self.inner.damage.waiting.lock();
        let waiting = waiting.get(digest)?;
        Some((waiting.reason, waiting.file?))
    }

    /// Whether content still waits to be whole.
    pub(crate) fn is_waiting(&self, digest: &Digest) -> bool {
        self.inner.damage.waiting.lock().contains_key(digest)
    }

    /// Takes content from the list: it is here by now (true), or no repository has it any more.
    pub(crate) fn settle(&self, digest: &Digest, is_here: bool) {
        let was_waiting = self.inner.damage.waiting.lock().remove(digest).is_some();
        if was_waiting && is_here {
            self.inner.damage.n_healed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(%digest, "A damaged blob is whole again");
        }
    }

    /// Has the next attempt made later, the longer the more have failed; returns how many have.
    pub(crate) fn put_off(&self, digest: &Digest, now: Instant) -> u32 {
        let mut all = self.inner.damage.waiting.lock();
        let Some(waiting) = all.get_mut(digest) else {
            return 0;
        };
        waiting.n_failures = waiting.n_failures.saturating_add(1);
        let wait = Backoff::new(FIRST_WAIT, LONGEST_WAIT).after(waiting.n_failures, 0.0);
        waiting.due = now + wait;
        waiting.n_failures
    }

    /// Whether any repository has content.
    pub(crate) fn is_named(&self, digest: &Digest) -> Result<bool, StoreError> {
        Ok(!self.holders(digest, BLOB, 1)?.is_empty()
            || !self.holders(digest, MANIFEST, 1)?.is_empty())
    }
}

#[cfg(test)]
mod tests;
