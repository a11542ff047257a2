//! Opening a store: finishes or takes back operations that a crash interrupted.
//!
//! The mark of an orderly stop is removed before anything else is touched; without it the index is
//! rebuilt from the journal, and the end of the journal is copied, because pages that an earlier
//! process failed to sync may look whole until the next loss of power.
//!
//! Records that the journal has lost are put back from its copy. A journal that is damaged in both is set aside,
//! another is made of what can be read of it, and the node begins a new incarnation: nothing tells which
//! of its records are lost.
//!
//! The journal of a node that the others have forgotten is set aside whole: it would bring back what was
//! deleted meanwhile.
//!
//! On a read-only file system nothing is changed, and the store serves what is there.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use oci::digest::Digest;
use registry_facts::hlc::Hlc;
use registry_facts::index::memory::MemoryIndex;
use registry_facts::index::view::View;
use registry_facts::index::{Index, IndexError, SCAN, Summary};
use registry_facts::name::NodeName;
use registry_facts::record::{Fact, NodeId, Record, Vector};
use registry_life_cycle::{self as life_cycle, Claim, Duty, Event, State, step};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::layout::{Layout, read_whole, remove_if_there, write_whole};
use super::membership::{self, BEGIN_ANEW};
use super::{IndexKind, Recovery, Settings, StoreError};
use crate::database::sled::SledIndex;
use crate::database::trial;
use crate::disk::{Access, Disk, File};
use crate::journal::copy::{self, Compared, Copy};
use crate::journal::files::{self, Replayed};
use crate::journal::salvage::{self, Keep};
use crate::journal::snapshot::Directory;
use crate::journal::{JournalError, Place};

/// The version of a store's files.
const VERSION: &str = "1\n";

/// The version of the index's entries: another number rebuilds it.
pub(crate) const SCHEMA: u32 = 1;

/// The mark with the incarnation of this node.
const NODE_ID: &str = "node-id";

/// The longest of the marks.
const LONGEST_MARK: u64 = 4096;

/// Records applied to a new index at once.
const APPLIED_AT_ONCE: usize = 1000;

//--- Marks

/// The state that an orderly stop left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    /// The end of the journal.
    pub(crate) place: Place,
    /// The index; none when it was in memory.
    pub(crate) index: Option<Left>,
}

/// A database that an orderly stop left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The sum of its entries.
    pub(crate) summary: Summary,
    /// Its directory.
    pub(crate) name: String,
}

impl Clean {
    const NAME: &str = "clean";

    pub(crate) fn write(&self, disk: &dyn Disk, layout: &Layout) -> io::Result<()> {
        let Place { segment, at } = self.place;
        let mut text = format!("journal {segment} {at}\n");
        if let Some(Left { summary, name }) = &self.index {
            let Summary { n_entries, sum } = summary;
            text += &format!("index {SCHEMA} {n_entries} {sum} {name}\n");
        }
        write_whole(disk, &layout.mark(Self::NAME), text.as_bytes())
    }

    /// Reads the mark and takes it away, durably.
    fn take(disk: &dyn Disk, layout: &Layout) -> io::Result<Option<Self>> {
        let path = layout.mark(Self::NAME);
        let octets = read_whole(disk, &path, LONGEST_MARK)?;
        if remove_if_there(disk, &path)? {
            disk.sync_directory(layout.root())?;
        }
        Ok(octets.and_then(|octets| Self::parse(&octets)))
    }

    fn parse(octets: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(octets).ok()?.strip_suffix('\n')?;
        let mut lines = text.lines();
        let mut journal = lines.next()?.strip_prefix("journal ")?.split(' ');
        let place = Place {
            segment: journal.next()?.parse().ok()?,
            at: journal.next()?.parse().ok()?,
        };
        let index = lines.next().and_then(|line| {
            let mut words = line.strip_prefix("index ")?.split(' ');
            let schema: u32 = words.next()?.parse().ok()?;
            let n_entries = words.next()?.parse().ok()?;
            let sum = words.next()?.parse().ok()?;
            let name = words.next().filter(|name| is_name(name))?.to_owned();
            let summary = Summary { n_entries, sum };
            (schema == SCHEMA).then_some(Left { summary, name })
        });
        Some(Self { place, index })
    }
}

/// Whether a text is the name of a database's directory.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_hexdigit())
}

/// Whether the file system of the store takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Writable,
    ReadOnly,
}

/// Checks the version of what is there, and says who this node is in this life of its disk.
fn identify(
    disk: &dyn Disk,
    layout: &Layout,
    settings: &Settings,
    medium: Medium,
) -> Result<NodeId, StoreError> {
    let doing = || StoreError::io("read the marks of the store");
    let version = layout.mark("VERSION");
    match read_whole(disk, &version, LONGEST_MARK).map_err(doing())? {
        Some(octets) if octets == VERSION.as_bytes() => {}
        Some(_) => {
            let text = "the store was written by another version of this service";
            return Err(StoreError::Damaged(text.to_owned()));
        }
        None if medium == Medium::ReadOnly => return Err(no_store()),
        None => write_whole(disk, &version, VERSION.as_bytes()).map_err(doing())?,
    }
    let path = layout.mark(NODE_ID);
    let octets = read_whole(disk, &path, LONGEST_MARK).map_err(doing())?;
    let incarnation = match octets {
        Some(octets) => {
            let text = std::str::from_utf8(&octets).unwrap_or_default().trim_end();
            match u64::from_str_radix(text, 16) {
                Ok(incarnation) => incarnation,
                Err(_) if medium == Medium::Writable => {
                    tracing::error!(
                        "The file node-id is damaged; this node begins a new incarnation"
                    );
                    return new_incarnation(disk, layout, &settings.node).map_err(doing());
                }
                Err(_) => random().map_err(doing())?,
            }
        }
        None if medium == Medium::Writable => {
            return new_incarnation(disk, layout, &settings.node).map_err(doing());
        }
        None => random().map_err(doing())?,
    };
    Ok(NodeId {
        name: settings.node.clone(),
        incarnation,
    })
}

/// Makes an incarnation of this node, and notes it durably.
pub(crate) fn new_incarnation(
    disk: &dyn Disk,
    layout: &Layout,
    node: &NodeName,
) -> io::Result<NodeId> {
    let incarnation = random()?;
    let text = format!("{incarnation:016x}\n");
    write_whole(disk, &layout.mark(NODE_ID), text.as_bytes())?;
    Ok(NodeId {
        name: node.clone(),
        incarnation,
    })
}

/// The failure to make a store where nothing can be written.
fn no_store() -> StoreError {
    let text = "the directory holds no store, and its file system is read-only";
    StoreError::Damaged(text.to_owned())
}

fn random() -> io::Result<u64> {
    let mut octets = [0; 8];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(octets))
}

//--- Opening

/// A store whose parts are in order and not at work yet.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) origin: NodeId,
    pub(crate) directory: Directory,
    /// The segment that is written on, and the copy; none on a read-only file system.
    pub(crate) segment: Option<(Box<dyn File>, Copy)>,
    pub(crate) end: Place,
    pub(crate) n_sealed: u64,
    pub(crate) vector: Vector,
    /// The greatest stamp of this node in this incarnation.
    pub(crate) stamp: Hlc,
    pub(crate) view: View,
    /// The directory of the index; none when it is in memory.
    pub(crate) index: Option<String>,
    pub(crate) recovery: Recovery,
    pub(crate) lock: Held,
}

/// Opens a store; blocks.
pub(crate) fn open(
    settings: &Settings,
    disk: &Arc<dyn Disk>,
    layout: &Layout,
) -> Result<Opened, StoreError> {
    let Some(lock) = lock(disk, layout)? else {
        return open_read_only(settings, disk, layout);
    };
    let doing = || StoreError::io("open the store's directory");
    // The version is written when everything else is there.
    let version = disk.status(&layout.mark("VERSION")).map_err(doing())?;
    if version.is_none() {
        layout.create(&**disk).map_err(doing())?;
    }
    let mut origin = identify(&**disk, layout, settings, Medium::Writable)?;
    let clean = Clean::take(&**disk, layout).map_err(doing())?;
    let directory = Directory::new(Arc::clone(disk), layout.journal(), layout.journal_copy());

    let mut compared = copy::mend(&directory)?;
    let mut recovery = Recovery {
        n_put_back: compared.n_put_back,
        ..Recovery::default()
    };
    let mut history = History::new(origin.clone());
    let found = whole(
        settings,
        layout,
        clean.as_ref(),
        &directory,
        &mut history,
        &mut recovery,
    );
    let is_damaged = matches!(found, Err(StoreError::DamagedJournal(_)));
    let indexed = match found {
        Err(StoreError::DamagedJournal(damage)) => {
            origin = set_aside(settings, layout, &directory, damage, &mut recovery)?;
            history = History::new(origin.clone());
            compared = Compared::default();
            index(
                settings,
                layout,
                None,
                &directory,
                &mut history,
                &mut recovery,
            )
        }
        found => found,
    };
    let Indexed {
        view,
        replayed,
        name,
    } = indexed?;
    let clean = clean.filter(|_| !is_damaged);
    let is_as_left = clean.is_some_and(|clean| clean.place == replayed.end);
    let (segment, end) = last_segment(&directory, &replayed, is_as_left)?;
    directory.clean()?;
    let copy = Copy::new(directory.clone(), &compared, end);
    recovery.n_records = replayed.n_records;
    recovery.n_truncated = replayed.n_torn;
    recovery.missing = missing(&**disk, layout, &view)?;
    Ok(Opened {
        origin,
        directory,
        segment: Some((segment, copy)),
        end,
        n_sealed: replayed.n_sealed,
        vector: replayed.vector,
        stamp: history.stamp,
        view,
        index: name,
        recovery,
        lock,
    })
}

/// Sets a journal aside that is damaged in both copies, for one of what can be read of it; returns the new
/// incarnation of this node.
fn set_aside(
    settings: &Settings,
    layout: &Layout,
    directory: &Directory,
    damage: String,
    recovery: &mut Recovery,
) -> Result<NodeId, StoreError> {
    if has_to_begin(&*directory.disk, layout)? {
        return begin_anew(settings, layout, directory, recovery);
    }
    let origin = new_incarnation(&*directory.disk, layout, &settings.node)
        .map_err(StoreError::io("note a new incarnation"))?;
    let salvaged = salvage::replace(directory, &layout.set_aside(), Keep::Records)?;
    recovery.damaged_journal = Some((damage, salvaged));
    Ok(origin)
}

/// Whether the other nodes have forgotten this one.
fn has_to_begin(disk: &dyn Disk, layout: &Layout) -> Result<bool, StoreError> {
    let mark = disk.status(&layout.mark(BEGIN_ANEW));
    Ok(mark.map_err(StoreError::io("look for a mark"))?.is_some())
}

/// Sets the journal aside for an empty one; returns the new incarnation of this node.
fn begin_anew(
    settings: &Settings,
    layout: &Layout,
    directory: &Directory,
    recovery: &mut Recovery,
) -> Result<NodeId, StoreError> {
    let doing = || StoreError::io("begin again");
    let disk = &*directory.disk;
    let origin = new_incarnation(disk, layout, &settings.node).map_err(doing())?;
    salvage::replace(directory, &layout.set_aside(), Keep::Nothing)?;
    // When nodes were connected tells nothing any more.
    remove_if_there(disk, &layout.mark(membership::NAME)).map_err(doing())?;
    remove_if_there(disk, &layout.mark(BEGIN_ANEW)).map_err(doing())?;
    disk.sync_directory(layout.root()).map_err(doing())?;
    recovery.has_begun_anew = true;
    Ok(origin)
}

/// Takes the store for this process; none on a read-only file system.
fn lock(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Option<Held>, StoreError> {
    let doing = || StoreError::io("open the store's directory");
    disk.create_directory(layout.root())
        .map_err(|error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => no_store(),
            _ => doing()(error),
        })?;
    match disk.lock(&layout.mark("lock")) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let text = "another process has the store open";
            Err(StoreError::Damaged(text.to_owned()))
        }
        Err(error) => Err(doing()(error)),
    }
}

/// Keeps other processes away from a store.
type Held = Box<dyn std::fmt::Debug + Send + Sync>;

/// Reads the journal and has an index of it, unless something that was acknowledged is damaged.
fn whole(
    settings: &Settings,
    layout: &Layout,
    clean: Option<&Clean>,
    directory: &Directory,
    history: &mut History,
    recovery: &mut Recovery,
) -> Result<Indexed, StoreError> {
    let damaged = |what: &str| Err(StoreError::DamagedJournal(what.to_owned()));
    if has_to_begin(&*directory.disk, layout)? {
        return damaged("the other nodes have forgotten this one");
    }
    let listed = directory.disk.list(&directory.path);
    if listed
        .map_err(StoreError::io("list the journal"))?
        .is_none()
    {
        return damaged("the directory of the journal is missing");
    }
    let indexed = index(settings, layout, clean, directory, history, recovery)?;
    // Without this, the next start would treat a damaged end as a write that a crash has torn.
    match clean {
        Some(clean) if indexed.replayed.end < clean.place => {
            damaged("the journal ends before the place where an orderly stop left it")
        }
        _ => Ok(indexed),
    }
}

/// Opens a store on a file system that takes no change: a disk that the kernel has remounted, an ISO
/// image, squashfs. It needs no lock, for no process can write there, and changes nothing: the index is
/// made in memory from the journal, of which a torn end stays.
fn open_read_only(
    settings: &Settings,
    disk: &Arc<dyn Disk>,
    layout: &Layout,
) -> Result<Opened, StoreError> {
    let origin = identify(&**disk, layout, settings, Medium::ReadOnly)?;
    let directory = Directory::new(Arc::clone(disk), layout.journal(), layout.journal_copy());
    let mut history = History::new(origin.clone());
    let mut view = View::new(Arc::new(MemoryIndex::default()));
    let mut damaged_journal = None;
    let replayed = match fill(&view, &directory, &mut history) {
        Ok(replayed) => replayed,
        Err(Anew::Journal(error @ JournalError::Damaged { .. })) => {
            view = View::new(Arc::new(MemoryIndex::default()));
            history = History::new(origin.clone());
            let salvaged = salvage::read(&**disk, &directory.path, &view)?;
            damaged_journal = Some((error.to_string(), salvaged));
            Replayed::default()
        }
        Err(Anew::Journal(error)) => return Err(error.into()),
        Err(Anew::Index(error)) => return Err(error.into()),
    };
    // Records that only the copy has cannot be put back.
    copy::read(&directory, &view)?;
    let recovery = Recovery {
        damaged_journal,
        n_records: replayed.n_records,
        n_truncated: replayed.n_torn,
        missing: missing(&**disk, layout, &view)?,
        ..Recovery::default()
    };
    Ok(Opened {
        origin,
        directory,
        segment: None,
        end: replayed.end,
        n_sealed: replayed.n_sealed,
        vector: replayed.vector,
        stamp: history.stamp,
        view,
        index: None,
        recovery,
        lock: Box::new(()),
    })
}

/// The part of the journal's records that is of this node.
#[derive(Debug)]
struct History {
    own: NodeId,
    /// The greatest stamp of this node in this incarnation.
    stamp: Hlc,
}

impl History {
    fn new(own: NodeId) -> Self {
        Self {
            own,
            stamp: Hlc::default(),
        }
    }

    fn add(&mut self, record: &Record) {
        // A record without facts only tells how far its origin is.
        if record.origin == self.own && !record.facts.is_empty() {
            self.stamp = self.stamp.max(record.stamp);
        }
    }
}

/// The journal, and an index of it.
struct Indexed {
    view: View,
    replayed: Replayed,
    /// The directory of the index; none when it is in memory.
    name: Option<String>,
}

/// Reads the journal and has an index of it: the one that an orderly stop left, or a new one.
fn index(
    settings: &Settings,
    layout: &Layout,
    clean: Option<&Clean>,
    directory: &Directory,
    history: &mut History,
    recovery: &mut Recovery,
) -> Result<Indexed, StoreError> {
    let (disk, path) = (&*directory.disk, &directory.path);
    let mut reason = "it is kept in memory".to_owned();
    if settings.index == IndexKind::Sled {
        match as_left(settings, layout, clean) {
            Ok((index, clean, name)) => {
                let replayed = files::replay(disk, path, None, &mut |record| {
                    history.add(&record);
                    Ok(())
                })?;
                if replayed.end == clean.place {
                    return Ok(Indexed {
                        view: View::new(Arc::new(index)),
                        replayed,
                        name: Some(name),
                    });
                }
                "the journal does not end where the index does".clone_into(&mut reason);
            }
            Err(why) => reason = why,
        }
        let name = random().map_err(StoreError::io("name the index"))?;
        let name = format!("{name:016x}");
        match again(settings, &layout.index(), &name, directory, history) {
            Ok((view, replayed)) => {
                recovery.rebuilt = Some(reason);
                return Ok(Indexed {
                    view,
                    replayed,
                    name: Some(name),
                });
            }
            Err(Anew::Journal(error)) => return Err(error.into()),
            Err(Anew::Index(error)) => {
                reason = format!("{reason}, and a new one failed: {error}");
                tracing::error!(%error, "The index cannot be made; it is kept in memory");
            }
        }
    }
    recovery.rebuilt = Some(reason);
    let view = View::new(Arc::new(MemoryIndex::default()));
    match fill(&view, directory, history) {
        Ok(replayed) => Ok(Indexed {
            view,
            replayed,
            name: None,
        }),
        Err(Anew::Journal(error)) => Err(error.into()),
        Err(Anew::Index(error)) => Err(error.into()),
    }
}

/// The index as an orderly stop left it, and where the journal ended then; or why there is none.
fn as_left<'a>(
    settings: &Settings,
    layout: &Layout,
    clean: Option<&'a Clean>,
) -> Result<(SledIndex, &'a Clean, String), String> {
    let clean = clean.ok_or("the last stop was not an orderly one")?;
    let left = clean
        .index
        .as_ref()
        .ok_or("the last stop left none of this version")?;
    let directory = layout.index().join(&left.name);
    if !directory.is_dir() {
        return Err("it is gone".to_owned());
    }
    trial::open(
        settings.trial.as_deref(),
        &directory,
        settings.index_memory,
        left.summary,
        trial::LIMIT,
    )
    .map(|index| (index, clean, left.name.clone()))
    .map_err(|error| error.to_string())
}

/// Why a new index was not made.
enum Anew {
    Index(IndexError),
    Journal(JournalError),
}

/// Makes a new database of the journal, in a directory that never was: threads of one that was open
/// in this process a moment ago may write files into theirs.
fn again(
    settings: &Settings,
    path: &Path,
    name: &str,
    directory: &Directory,
    history: &mut History,
) -> Result<(View, Replayed), Anew> {
    let failed = |error: io::Error| Anew::Index(IndexError::Failed(error.to_string()));
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    std::fs::create_dir(path).map_err(failed)?;
    let index = SledIndex::open(&path.join(name), settings.index_memory, trial::LIMIT);
    let view = View::new(Arc::new(index.map_err(Anew::Index)?));
    let replayed = fill(&view, directory, history)?;
    Ok((view, replayed))
}

/// Applies the journal to a view.
fn fill(view: &View, directory: &Directory, history: &mut History) -> Result<Replayed, Anew> {
    let mut group: Vec<Record> = Vec::with_capacity(APPLIED_AT_ONCE);
    let mut failure = None;
    let result = files::replay(&*directory.disk, &directory.path, None, &mut |record| {
        history.add(&record);
        group.push(record);
        if failure.is_none() && group.len() == APPLIED_AT_ONCE {
            failure = view.apply(&group).err();
            group.clear();
        }
        Ok(())
    });
    let replayed = result.map_err(Anew::Journal)?;
    match failure.map_or_else(|| view.apply(&group), Err) {
        Ok(()) => Ok(replayed),
        Err(error) => Err(Anew::Index(error)),
    }
}

/// The segment that is written on.
///
/// Records that no orderly stop has vouched for are copied before anything follows them: the
/// segment, and one before it whose seal may be the last write.
fn last_segment(
    directory: &Directory,
    replayed: &Replayed,
    is_as_left: bool,
) -> Result<(Box<dyn File>, Place), StoreError> {
    let doing = || StoreError::io("open the journal's last segment");
    let disk = &*directory.disk;
    let path = |segment| directory.path.join(files::segment(segment));
    let Place { segment, at } = replayed.end;
    // A successor that was made before the segment was sealed, and never used.
    let next = path(segment + 1);
    remove_if_there(disk, &next).map_err(doing())?;
    let mut copied = None;
    if !is_as_left && segment != 0 {
        let before = segment - 1;
        if at == 0 && replayed.files.segments.contains(&before) {
            let file = disk.open(&path(before), Access::Read).map_err(doing())?;
            let length = file.size().map_err(doing())?;
            copy(directory, before, length).map_err(doing())?;
        }
        copied = Some(copy(directory, segment, at).map_err(doing())?);
    }
    if segment == 0 || replayed.is_sealed {
        let file = disk.create(&next).map_err(doing())?;
        disk.sync_directory(&directory.path).map_err(doing())?;
        let end = Place {
            segment: segment + 1,
            at: 0,
        };
        return Ok((file, end));
    }
    let file = match copied {
        Some(file) => file,
        None => disk.open(&path(segment), Access::Write).map_err(doing())?,
    };
    Ok((file, replayed.end))
}

/// Puts a copy of the first octets of a segment in its place, durably.
fn copy(directory: &Directory, segment: u64, length: u64) -> io::Result<Box<dyn File>> {
    let disk = &*directory.disk;
    let path = directory.path.join(files::segment(segment));
    let new = files::duplicate(disk, &path, &path, length)?;
    disk.sync_directory(&directory.path)?;
    Ok(new)
}

/// Content that repositories have and the disk has not, or not in its size.
fn missing(disk: &dyn Disk, layout: &Layout, view: &View) -> Result<Vec<Digest>, StoreError> {
    let mut seen = HashSet::new();
    let mut missing = Vec::new();
    let mut after = None;
    loop {
        let registers = view.registers(after.as_ref(), SCAN)?;
        let Some(last) = registers.last() else {
            return Ok(missing);
        };
        after = Some(last.fact.key());
        for register in registers {
            let (digest, size) = match register.fact {
                Fact::Blob {
                    digest,
                    size: Some(size),
                    ..
                } => (digest, size),
                Fact::Manifest {
                    digest,
                    link: Some(link),
                    ..
                } => (digest, link.size),
                _ => continue,
            };
            if !seen.insert(digest) {
                continue;
            }
            let look = StoreError::io("look for a blob");
            let status = disk.status(&layout.blob(&digest)).map_err(look)?;
            let file = match status {
                Some(status) if status.size == size => life_cycle::File::InPlace,
                Some(_) => life_cycle::File::Refused,
                // Swept content is restored when a client requests it.
                None => match disk.status(&layout.trashed(&digest)) {
                    Ok(Some(_)) => life_cycle::File::InTrash,
                    Ok(None) | Err(_) => life_cycle::File::None,
                },
            };
            let started = step(State::of(file, Claim::Linked), Event::Started);
            if started.asks_for(Duty::Heal) {
                missing.push(digest);
            }
        }
    }
}

/// Reads the journal into a view that replaces a failed one.
pub(crate) fn rebuild(
    directory: &Directory,
    view: &View,
    until: Place,
) -> Result<(), JournalError> {
    let mut failure: Option<IndexError> = None;
    directory.replay(until, &mut |record| {
        if failure.is_none() {
            failure = view.apply([&record]).err();
        }
        Ok(())
    })?;
    failure.map_or(Ok(()), |error| {
        Err(JournalError::Io {
            doing: "read the journal into memory",
            source: io::Error::other(error),
        })
    })
}

/// Flushes an index that is to be found again, and says what it holds.
pub(crate) fn leave(index: &dyn Index, name: String) -> Result<Left, IndexError> {
    index.flush()?;
    let summary = registry_facts::index::summary(index)?;
    Ok(Left { summary, name })
}
