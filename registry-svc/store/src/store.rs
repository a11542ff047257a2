//! The store: blobs in files, names and tags in the journal, an index over them.
//!
//! A blob is a file named by its digest, written aside, hashed while it is written, synced and then
//! renamed into place: a file in its place is whole. The content of repositories and the targets of
//! tags are facts in the [journal](crate::journal); the [index](registry_facts::index) is derived
//! from it. **Acknowledged content is on the disk**: no operation returns before the file, its
//! directory entry and the journal record are synced.
//!
//! Blocking work runs on the runtime's blocking threads; a [`Store`] is a handle and cheap to clone.

mod ages;
pub mod batch;
pub mod blob;
mod block;
mod cache;
pub mod damage;
mod error;
mod incoming;
pub mod layout;
pub mod lock;
pub mod manifest;
pub mod membership;
mod naming;
mod open;
mod pulls;
pub mod reader;
pub mod upload;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use daemon::clock;
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};
use parking_lot::Mutex;
use registry_facts::continuity::Continuity;
use registry_facts::hlc::{Hlc, Stamps, TimeRange};
use registry_facts::index::IndexError;
use registry_facts::index::view::View;
use registry_facts::lease;
use registry_facts::lease::Leases;
use registry_facts::name::{NodeName, UploadId};
use registry_facts::record::{Key, NodeId, Position, Record, Stamped, Vector};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::disk::Disk;
use crate::journal::current::Current;
use crate::journal::feed::{Feed, Taken};
use crate::journal::salvage::Salvaged;
use crate::journal::writer::{Own, Renewal, State, SteadyClock, WallClock, Writer};
use ages::StoreAges;
use blob::Flights;
use cache::Cache;
use damage::Damage;
use layout::Layout;
use lock::{Alone, Locks, Shared};
use membership::{Noted, Notes};
use naming::Naming;
use open::Clean;
use pulls::Pulls;
use reader::Buffers;
use upload::Sessions;

pub use error::{StoreError, Subject};
pub use pulls::Purpose;
pub use reader::BlobReader;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory that everything is in.
    pub root: PathBuf,
    /// The node's name in the site.
    pub node: NodeName,
    /// The other nodes of the site: each says how far it knows this node's records, before this node
    /// continues them.
    pub others: Vec<NodeName>,
    /// The kind of index.
    pub index: IndexKind,
    /// How many octets of an index on disk are kept in memory.
    pub index_memory: u64,
    /// A program that opens a doubtful index first when called as `PROGRAM index-trial DIRECTORY`:
    /// an index that kills that program must not kill this one.
    pub trial: Option<PathBuf>,
    /// How long a segment of the journal grows, in octets.
    pub segment: u64,
    /// How many octets of manifests are kept in memory.
    pub cache: usize,
    /// The time that the sweep leaves alone content that a client was promised.
    pub lease: Duration,
    /// The wall clock, in milliseconds since 1970.
    pub wall: WallClock,
    /// The clock that ages go by, in milliseconds.
    pub steady: SteadyClock,
    /// How much of the time between two processes counts for ages at most: the wall clock may have jumped meanwhile.
    pub between: Duration,
}

pub use config::registry_svc::IndexKind;

impl Settings {
    /// Records that a segment holds before the next begins.
    const SEGMENT: u64 = 64 << 20;

    /// Manifests kept in memory: hundreds of releases' worth, and small beside the page cache.
    const CACHE: usize = 16 << 20;

    /// The index in memory: a site's facts are some megabytes.
    const INDEX_MEMORY: u64 = 64 << 20;

    /// Longer than a node takes to start again, and less than what the sweep leaves alone.
    const BETWEEN: Duration = Duration::from_hours(1);

    /// The usual settings.
    #[must_use]
    pub fn new(root: PathBuf, node: NodeName) -> Self {
        Self {
            root,
            node,
            others: Vec::new(),
            index: IndexKind::default(),
            index_memory: Self::INDEX_MEMORY,
            trial: None,
            segment: Self::SEGMENT,
            cache: Self::CACHE,
            lease: lease::TERM,
            wall: wall_clock,
            steady: steady_clock,
            between: Self::BETWEEN,
        }
    }
}

/// The result of opening a store.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Records that the journal held.
    pub n_records: u64,
    /// The reason why the index was rebuilt; none when an orderly stop had left it.
    pub rebuilt: Option<String>,
    /// Octets of a torn record cut from the journal's end.
    pub n_truncated: u64,
    /// Upload sessions that can continue.
    pub n_sessions: usize,
    /// Content that repositories name and the disk lacks, or has in another size.
    pub missing: Vec<Digest>,
    /// Records that the journal had lost and its copy still had.
    pub n_put_back: u64,
    /// Whether the journal was set aside because the other nodes had forgotten this one.
    pub has_begun_anew: bool,
    /// How the journal was damaged, and what could be read of it; none when it was whole.
    pub damaged_journal: Option<(String, Salvaged)>,
}

/// A blob that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// How many octets it has.
    pub size: u64,
    /// The position of its link in the journal; none when that link came by a repair.
    pub position: Option<Position>,
}

/// A manifest to be stored.
#[derive(Clone, Debug)]
pub struct NewManifest {
    /// As pushed.
    pub bytes: Bytes,
    /// As pushed, without parameters.
    pub media_type: String,
    /// The digest of the bytes: the caller has computed it.
    pub digest: Digest,
    /// The content that has to be in the repository for the manifest to be whole: blobs and
    /// manifests.
    pub closure: Vec<Digest>,
    /// The manifest it refers to, which need not be there.
    pub subject: Option<Digest>,
    /// The tags that will point to it.
    pub tags: Vec<Tag>,
}

/// A manifest as it was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its address.
    pub digest: Digest,
    /// As pushed, without parameters.
    pub media_type: Arc<str>,
    /// As pushed.
    pub bytes: Bytes,
}

/// A store that is open.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    layout: Layout,
    disk: Arc<dyn Disk>,
    node: NodeName,
    own: Arc<Own>,
    ages: StoreAges,
    current: Arc<Current>,
    taken: Arc<Taken>,
    changes: watch::Receiver<u64>,
    writer: Writer,
    /// Whether the journal's copy has everything.
    is_copied: Arc<AtomicBool>,
    /// Locks of content: see [`lock`].
    digests: Locks,
    /// Locks of repositories: a deletion holds one alone, an addition holds it shared.
    repositories: Locks,
    sessions: Sessions,
    flights: Flights,
    leases: Mutex<Leases>,
    naming: Naming,
    damage: Damage,
    manifests: Mutex<Cache<Digest, Bytes>>,
    names: Mutex<Names>,
    buffers: Arc<Buffers>,
    pulls: Arc<Pulls>,
    notes: Notes,
    /// Nothing is stated any more: the end has begun.
    is_closed: AtomicBool,
    is_on_read_only_disk: bool,
    /// The directory of the index; none when it is in memory.
    index: Option<String>,
    /// Keeps other processes away.
    _lock: Box<dyn fmt::Debug + Send + Sync>,
}

/// The results of name lookups since the journal moved last.
#[derive(Debug)]
struct Names {
    n_taken: u64,
    cache: Cache<(RepositoryName, Reference), (Digest, Arc<str>)>,
}

impl Names {
    fn new() -> Self {
        Self {
            n_taken: 0,
            cache: Cache::new(NAMES),
        }
    }
}

/// The largest `clock-bound`, in milliseconds.
const FAR_AHEAD: u64 = 24 * 3_600_000;

/// The most memory for results of name lookups: some thousands.
const NAMES: usize = 4 << 20;

impl Store {
    /// Opens a store, or makes one in an empty directory; finishes what a crash left half done.
    ///
    /// # Errors
    ///
    /// Fails when something that was acknowledged cannot be read, another process has the store
    /// open, or the disk fails.
    pub async fn open(
        settings: Settings,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, Recovery), StoreError> {
        blocking(move || Self::open_here(&settings, disk)).await
    }

    fn open_here(settings: &Settings, disk: Arc<dyn Disk>) -> Result<(Self, Recovery), StoreError> {
        let layout = Layout::new(settings.root.clone());
        let opened = open::open(settings, &disk, &layout)?;
        let is_on_read_only_disk = opened.segment.is_none();
        let ages = StoreAges::open(settings, &*disk, &layout, is_on_read_only_disk);
        let sessions = found_sessions(settings, &disk, &layout, &ages)?;
        let mut recovery = opened.recovery;
        recovery.n_sessions = sessions.len();
        let directory = opened.directory.clone();
        let rebuild = move |view: &View, until| open::rebuild(&directory, view, until);
        let current = Arc::new(Current::new(opened.view, opened.end, Box::new(rebuild)));
        let was_damaged = recovery.damaged_journal.is_some();
        let noted = Noted::beside(&*disk, &layout, &settings.node, &opened.vector, was_damaged);
        let noted = noted.map_err(StoreError::io("read what is noted of nodes"))?;
        let taken = Arc::new(Taken::new(opened.vector));
        let own = own(settings, opened.origin, opened.stamp, &noted);
        let renewal = renewal(&disk, &layout, &settings.node);
        let is_copied = Arc::clone(&opened.directory.is_copied);
        let start = |(segment, copy)| {
            Writer::start(State {
                directory: opened.directory,
                segment,
                copy,
                end: opened.end,
                longest: settings.segment,
                n_sealed: opened.n_sealed,
                own: Arc::clone(&own),
                stamps: Stamps::default(),
                continuity: Continuity::new(settings.others.iter().cloned()),
                renewal,
                taken: Arc::clone(&taken),
                current: Arc::clone(&current),
                is_dead: Arc::default(),
            })
        };
        let writer = match opened.segment {
            Some(segment) => start(segment).map_err(StoreError::io("start the journal"))?,
            None => Writer::read_only(),
        };
        let inner = Arc::new(Inner {
            layout,
            disk,
            node: settings.node.clone(),
            own,
            ages,
            current,
            changes: taken.changes(),
            taken,
            writer,
            is_copied,
            digests: Locks::new(),
            repositories: Locks::new(),
            sessions,
            flights: Flights::default(),
            leases: Mutex::new(Leases::new(settings.lease)),
            naming: Naming::default(),
            damage: Damage::default(),
            manifests: Mutex::new(Cache::new(settings.cache)),
            names: Mutex::new(Names::new()),
            buffers: Arc::default(),
            pulls: Arc::new(Pulls::new()),
            notes: Notes::new(noted),
            is_closed: AtomicBool::new(false),
            is_on_read_only_disk,
            index: opened.index,
            _lock: opened.lock,
        });
        let missing = recovery.missing.iter();
        missing.for_each(|digest| inner.list_missing(digest));
        Ok((Self { inner }, recovery))
    }

    /// Writes the queue, and marks the index as one to be found again; later statements are
    /// refused.
    pub async fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
        if self.inner.is_on_read_only_disk {
            return;
        }
        let inner = Arc::clone(&self.inner);
        let closed = blocking(move || {
            inner.writer.close();
            inner.note_time();
            let index = match &inner.index {
                Some(name) if inner.current.n_failed() == 0 => {
                    Some(open::leave(inner.current.view().index(), name.clone())?)
                }
                _ => None,
            };
            let place = inner.current.applied();
            Clean { place, index }
                .write(&*inner.disk, &inner.layout)
                .map_err(StoreError::io("mark the orderly stop"))
        });
        if let Err(error) = closed.await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "The index will be rebuilt at the next start"
            );
        }
    }

    /// Whether the file system takes no change. Everything can be pulled then, and nothing pushed.
    #[must_use]
    pub fn is_on_read_only_disk(&self) -> bool {
        self.inner.is_on_read_only_disk
    }
}

//--- The cluster and the sweep

impl Store {
    /// This node in its present incarnation.
    #[must_use]
    pub fn origin(&self) -> NodeId {
        self.inner.own.origin()
    }

    /// The last stamp of this incarnation that came from the wall clock.
    #[must_use]
    pub fn stamp(&self) -> Hlc {
        self.inner.own.stamp()
    }

    /// Bounds the times that statements are stamped with.
    pub fn bound_time(&self, range: TimeRange) {
        self.inner.own.bound(range);
    }

    /// Remembers deletions that were stated since, in milliseconds since 1970, whatever their age.
    pub fn remember_deletions_since(&self, unheard: u64) {
        self.inner.own.remember_since(unheard);
    }

    /// The time that a statement is stamped with now, which stamps are compared with.
    #[must_use]
    pub fn stated_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.inner.own.now())
    }

    /// Whether a stamp is younger than `age`. One far in the future comes from a clock that was wrong,
    /// and tells nothing: the content that it names must not stay for as long.
    #[must_use]
    pub fn is_of_late(&self, stamp: Hlc, age: Duration) -> bool {
        let now = self.inner.own.now();
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        stamp.milliseconds() >= now.saturating_sub(age) && !self.is_far_ahead(stamp)
    }

    /// Whether only a clock that was wrong can have made a stamp: it is further ahead than the clocks of
    /// two nodes may ever be.
    pub(crate) fn is_far_ahead(&self, stamp: Hlc) -> bool {
        stamp.milliseconds() > self.inner.own.now().saturating_add(FAR_AHEAD)
    }

    /// Takes note of the last record that another node has of an incarnation of this node. When this
    /// disk lacks it, the next statement comes under a new incarnation.
    ///
    /// # Errors
    ///
    /// Fails when a new incarnation is needed and cannot be noted on the disk: nothing is stated then.
    pub async fn heard(
        &self,
        from: NodeName,
        incarnation: NodeId,
        sequence: u64,
    ) -> Result<(), StoreError> {
        let heard = self.inner.writer.heard(from, incarnation, sequence);
        Ok(heard.await?)
    }

    /// Begins a new incarnation of this node, because stamps of the present one are ahead of the clocks.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be noted on the disk; the present one continues.
    pub async fn renew(&self) -> Result<(), StoreError> {
        Ok(self.inner.writer.renew().await?)
    }

    /// How many records of each origin are durable here.
    #[must_use]
    pub fn vector(&self) -> Vector {
        self.inner.taken.vector()
    }

    /// Moves with every record that is taken.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.clone()
    }

    /// Records that `from` does not cover, without overwritten ones; continues with new ones. Has
    /// to be called in a runtime.
    #[must_use]
    pub fn feed(&self, from: Vector) -> Feed {
        self.inner.taken.feed(Arc::clone(&self.inner.current), from)
    }

    /// Takes records of other nodes whose content is on the disk; durable before it returns.
    ///
    /// # Errors
    ///
    /// Fails when the journal does.
    pub async fn apply(&self, records: Vec<Record>) -> Result<(), StoreError> {
        Ok(self.inner.writer.take(records).await?)
    }

    /// The same for records that need content: a second look finds it, while nothing can take it away. It may have
    /// gone since it was brought, where a clock has jumped past the end of its lease; and what a sweep of before has
    /// moved to the trash is in its place when the records apply, so the same sweep does not delete it.
    ///
    /// # Errors
    ///
    /// Fails with the content that is not here, and when the disk or the journal does; nothing is taken then.
    pub async fn apply_beside(
        &self,
        records: Vec<Record>,
        content: &BTreeSet<Digest>,
    ) -> Result<(), StoreError> {
        let _digests = self.inner.digests.shared(content).await;
        let (inner, wanted) = (Arc::clone(&self.inner), content.clone());
        let look = move || {
            let mut missing = Vec::new();
            for digest in wanted {
                if inner.renew(&digest).is_none() && inner.present(&digest)?.is_none() {
                    missing.push(digest);
                }
            }
            Ok(missing)
        };
        let missing = blocking(look).await?;
        if !missing.is_empty() {
            return Err(StoreError::MissingBlobs(missing));
        }
        self.apply(records).await
    }

    /// The register of a key, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn register(&self, key: &Key) -> Result<Option<Stamped>, StoreError> {
        self.inner.read(|view| view.register(key))
    }

    /// Registers in the order of their keys, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn registers(&self, after: Option<&Key>, limit: usize) -> Result<Vec<Stamped>, StoreError> {
        self.inner.read(|view| view.registers(after, limit))
    }

    /// Repositories that have a digest as one of `kind`: [`BLOB`](registry_facts::index::key::BLOB) or
    /// [`MANIFEST`](registry_facts::index::key::MANIFEST).
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn holders(
        &self,
        digest: &Digest,
        kind: u8,
        limit: usize,
    ) -> Result<Vec<RepositoryName>, StoreError> {
        self.inner.read(|view| view.holders(digest, kind, limit))
    }

    /// Keeps all others from making a reference to content, for a caller that removes it.
    pub async fn alone(&self, digest: &Digest) -> Alone {
        self.inner.digests.alone(digest).await
    }

    /// Keeps content from being taken away.
    pub async fn shared(&self, digests: &[Digest]) -> Shared {
        self.inner.digests.shared(digests).await
    }

    /// Whether a client was promised content, and may rely on it.
    #[must_use]
    pub fn is_leased(&self, digest: &Digest) -> bool {
        self.inner.leased(digest).is_some()
    }

    /// Whether the journal failed: the last records are uncertain until the next start.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.inner.writer.is_dead()
    }

    /// Forgets what is known of content that is lost: leases and what is kept in memory.
    pub fn forget(&self, digest: &Digest) {
        self.inner.end_lease(digest);
        let mut manifests = self.inner.manifests.lock();
        manifests.remove(digest);
    }

    /// The wall clock, which may jump: [`age`](Self::age) tells how old a file is.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.inner.ages.date())
    }

    /// The paths of the store.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// The disk of the store.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.inner.disk
    }

    /// Runs work on the files themselves, on a thread that may block.
    ///
    /// # Errors
    ///
    /// Fails as the work does; `doing` says at what.
    pub async fn on_disk<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&dyn Disk, &Layout) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || work(&*inner.disk, &inner.layout).map_err(StoreError::io(doing))).await
    }

    /// Whether files of a damaged journal lie aside.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub async fn has_damaged_journal(&self) -> Result<bool, StoreError> {
        let look = |disk: &dyn Disk, layout: &Layout| disk.list(&layout.set_aside());
        let files = self.on_disk("look for a damaged journal", look).await?;
        Ok(files.is_some_and(|files| !files.is_empty()))
    }

    /// Whether the journal is kept twice.
    #[must_use]
    pub fn is_journal_copied(&self) -> bool {
        self.inner.is_copied.load(Ordering::Acquire)
    }

    /// How many indexes failed since the start.
    #[must_use]
    pub fn n_failed_indexes(&self) -> u64 {
        self.inner.current.n_failed()
    }
}

//--- Inside

impl Inner {
    fn read<T>(&self, ask: impl Fn(&View) -> Result<T, IndexError>) -> Result<T, StoreError> {
        Ok(self.current.read(ask)?)
    }

    /// Whether something may be acknowledged.
    fn writable(&self) -> Result<(), StoreError> {
        let is_closed = self.is_closed.load(Ordering::Acquire);
        if is_closed || self.is_on_read_only_disk || self.writer.is_dead() {
            return Err(StoreError::ReadOnly);
        }
        Ok(())
    }

    fn new_id(&self) -> Result<UploadId, StoreError> {
        let mut chance = [0; 10];
        SystemRandom::new()
            .fill(&mut chance)
            .map_err(|_| StoreError::io("get random numbers")(io::ErrorKind::Other.into()))?;
        Ok(UploadId::new(self.node.clone(), self.ages.date(), chance))
    }

    // A lease ends with the process, so the steady clock is enough.
    fn lease(&self, digest: &Digest, size: u64) {
        let now = self.ages.steady();
        let mut leases = self.leases.lock();
        leases.take(*digest, size, now);
    }

    fn leased(&self, digest: &Digest) -> Option<u64> {
        let now = self.ages.steady();
        let leases = self.leases.lock();
        leases.size(digest, now)
    }

    /// The size of content that is under a lease, which is lengthened: in one step, so that it cannot
    /// end between the two.
    fn renew(&self, digest: &Digest) -> Option<u64> {
        let now = self.ages.steady();
        let mut leases = self.leases.lock();
        let size = leases.size(digest, now)?;
        leases.take(*digest, size, now);
        Some(size)
    }

    fn end_lease(&self, digest: &Digest) {
        let mut leases = self.leases.lock();
        leases.end(digest);
    }
}

/// The upload sessions on a disk; none on a read-only one, where none can continue.
fn found_sessions(
    settings: &Settings,
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    ages: &StoreAges,
) -> Result<Sessions, StoreError> {
    let sessions = Sessions::default();
    if !ages.is_read_only() {
        sessions
            .recover(disk, layout, &settings.node, ages)
            .map_err(StoreError::io("find the upload sessions"))?;
    }
    Ok(sessions)
}

/// The source of this node's statements. Deletions are remembered that other nodes may not have heard of; before these are looked
/// at, all that the configuration names count.
fn own(settings: &Settings, origin: NodeId, stamp: Hlc, noted: &Noted) -> Arc<Own> {
    let own = Own::new(origin, stamp, settings.wall);
    let seen = |name| noted.seen.get(name).copied().unwrap_or(0);
    let unheard = settings.others.iter().map(seen).min();
    own.remember_since(unheard.unwrap_or(u64::MAX));
    own
}

/// Makes incarnations of a node.
fn renewal(disk: &Arc<dyn Disk>, layout: &Layout, node: &NodeName) -> Renewal {
    let (disk, layout, node) = (Arc::clone(disk), layout.clone(), node.clone());
    Renewal(Box::new(move || {
        open::new_incarnation(&*disk, &layout, &node)
    }))
}

/// Runs work that blocks on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let lost = |error| StoreError::Io {
        doing: "finish an operation",
        source: io::Error::other(error),
    };
    spawn_blocking(work).await.map_err(lost)?
}

/// The wall clock of the machine.
#[must_use]
pub fn wall_clock() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// The clock of the machine that never steps: milliseconds since this process first asked.
#[must_use]
pub fn steady_clock() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let begun = BEGUN.get_or_init(clock::now);
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod read_only;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
