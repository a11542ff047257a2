//! A disk in memory that forgets what was not synced, tears what was being written, and fails.
//!
//! A file's octets are durable once the file was synced after they were written; a name once its
//! directory was synced. When the power goes each change that is not durable is there or not, as
//! chance has it: writes whole, in part or not at all, names in any combination. When the process is
//! killed everything stays as it was. A failed sync loses what it was to write, and the next sync
//! of the same file succeeds without it.
//!
//! A [`FaultyDisk`] is one life of a process: after its end every call on it fails.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by it"
)]

mod operations;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// Chance that comes out the same for the same seed: `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[expect(clippy::should_implement_trait, reason = "no iterator: it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, cases: u64) -> bool {
        self.below(1000) < cases
    }
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is killed.
    Kill,
    /// The power goes.
    PowerLoss,
}

/// What goes wrong in a life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The operation in which the life ends.
    pub last_operation: Option<u64>,
    /// Writes and new files that fail for want of room, of a thousand.
    pub full: u64,
    /// Operations that change something and fail, of a thousand.
    pub broken: u64,
    /// Syncs of files that fail, of a thousand.
    pub unsynced: u64,
    /// Whether the file system is read-only.
    pub read_only: bool,
    /// What the disk says it has synced and has not.
    pub lie: Option<Lie>,
}

/// What a disk does not do, for tests that have to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Make octets durable.
    Files,
    /// Make names durable.
    Directories,
}

/// One life of a process on a disk.
#[derive(Clone)]
pub struct FaultyDisk {
    medium: Arc<Mutex<Medium>>,
    life: u64,
}

struct Medium {
    chance: Chance,
    life: u64,
    is_over: bool,
    n_operations: u64,
    /// Successful syncs of files and directories.
    n_syncs: u64,
    faults: Faults,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    /// Files whose octets cannot be read.
    unreadable: BTreeSet<u64>,
    names: Names,
    durable: Names,
    /// Changes of names that are not durable, in order.
    changes: Vec<Change>,
    locks: BTreeSet<PathBuf>,
    /// In milliseconds since 1970; every operation takes one.
    clock: u64,
}

#[derive(Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, u64>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Clone)]
enum Change {
    Set(PathBuf, u64),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, u64),
    Directory(PathBuf),
}

impl Change {
    /// Whether a sync of a directory makes it durable.
    fn is_in(&self, directory: &Path) -> bool {
        let is_in = |path: &Path| path.parent() == Some(directory);
        match self {
            Self::Set(path, _) | Self::Remove(path) | Self::Directory(path) => is_in(path),
            Self::Rename(from, to, _) => is_in(from) || is_in(to),
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Set(path, file) => {
                names.files.insert(path.clone(), *file);
            }
            Self::Remove(path) => {
                names.files.remove(path);
            }
            Self::Rename(from, to, file) => {
                if names.files.get(from) == Some(file) {
                    names.files.remove(from);
                }
                names.files.insert(to.clone(), *file);
            }
            Self::Directory(path) => {
                names.directories.insert(path.clone());
            }
        }
    }
}

#[derive(Default)]
struct Content {
    octets: Vec<u8>,
    durable: Vec<u8>,
    /// What was done since the last sync.
    writes: Vec<Write>,
    modified: u64,
}

enum Write {
    At(u64, Vec<u8>),
    Truncate(u64),
}

impl Write {
    fn apply(&self, octets: &mut Vec<u8>) {
        match self {
            Self::At(at, new) => {
                let at = usize::try_from(*at).unwrap();
                let end = at + new.len();
                if octets.len() < end {
                    octets.resize(end, 0);
                }
                octets[at..end].copy_from_slice(new);
            }
            Self::Truncate(length) => octets.resize(usize::try_from(*length).unwrap(), 0),
        }
    }
}

impl FaultyDisk {
    /// An empty disk in its first life.
    pub fn new(seed: u64) -> Self {
        let mut names = Names::default();
        names.directories.insert(PathBuf::from("/"));
        let medium = Medium {
            chance: Chance::new(seed),
            life: 0,
            is_over: false,
            n_operations: 0,
            n_syncs: 0,
            faults: Faults::default(),
            files: BTreeMap::new(),
            next_file: 0,
            unreadable: BTreeSet::new(),
            durable: names.clone(),
            names,
            changes: Vec::new(),
            locks: BTreeSet::new(),
            clock: 1_700_000_000_000,
        };
        Self {
            medium: Arc::new(Mutex::new(medium)),
            life: 0,
        }
    }

    /// Ends this life and begins the next on what is left.
    pub fn next_life(&self, end: End, faults: Faults) -> Self {
        let mut medium = self.medium();
        if end == End::PowerLoss {
            medium.lose_power();
        }
        medium.life += 1;
        medium.is_over = false;
        medium.n_operations = 0;
        medium.faults = faults;
        medium.locks.clear();
        Self {
            medium: Arc::clone(&self.medium),
            life: medium.life,
        }
    }

    /// Lets other things go wrong from here on; the count of operations begins anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut medium = self.medium();
        medium.faults = faults;
        medium.n_operations = 0;
    }

    /// Whether this life has ended.
    pub fn is_over(&self) -> bool {
        let medium = self.medium();
        medium.is_over || medium.life != self.life
    }

    /// Lets time pass, until so many milliseconds since 1970.
    pub fn pass(&self, until: u64) {
        let mut medium = self.medium();
        medium.clock = medium.clock.max(until);
    }

    /// Sets the clock that dates files ahead, or back, by a number of milliseconds.
    pub fn jump(&self, by: i64) {
        let mut medium = self.medium();
        medium.clock = medium.clock.saturating_add_signed(by);
    }

    /// Whether a file is there, without an operation.
    pub fn has(&self, path: &Path) -> bool {
        self.medium().names.files.contains_key(path)
    }

    /// Whether a loss of power leaves a file's octets as they are.
    pub fn is_durable(&self, path: &Path) -> bool {
        let mut medium = self.medium();
        let file = medium.names.files[path];
        medium.content(file).writes.is_empty()
    }

    /// Flips a bit of a file, durably.
    pub fn damage(&self, path: &Path, bit: u64) {
        let mut medium = self.medium();
        let file = medium.names.files[path];
        let content = medium.files.get_mut(&file).unwrap();
        let octet = usize::try_from(bit / 8).unwrap();
        content.octets[octet] ^= 1 << (bit % 8);
        content.durable = content.octets.clone();
        content.writes.clear();
    }

    /// Cuts a file or lengthens it with zeros, durably. Its time of change stays, as when a file system
    /// is repaired.
    pub fn resize(&self, path: &Path, length: u64) {
        let mut medium = self.medium();
        let file = medium.names.files[path];
        let content = medium.files.get_mut(&file).unwrap();
        Write::Truncate(length).apply(&mut content.octets);
        content.durable = content.octets.clone();
        content.writes.clear();
    }

    /// The names of all files, without an operation.
    pub fn names(&self) -> Vec<PathBuf> {
        self.medium().names.files.keys().cloned().collect()
    }

    /// How many syncs of files and directories have succeeded.
    pub fn n_syncs(&self) -> u64 {
        self.medium().n_syncs
    }

    /// A file's octets, without an operation.
    pub fn octets(&self, path: &Path) -> Option<Vec<u8>> {
        let medium = self.medium();
        let file = medium.names.files.get(path)?;
        Some(medium.files[file].octets.clone())
    }

    /// Takes a file's name away, durably and without an operation.
    pub fn lose(&self, path: &Path) {
        let mut medium = self.medium();
        medium.names.files.remove(path).unwrap();
        medium.durable.files.remove(path);
    }

    /// Lets reads of a file fail, or succeed again.
    pub fn set_unreadable(&self, path: &Path, is_unreadable: bool) {
        let mut medium = self.medium();
        let file = medium.names.files[path];
        match is_unreadable {
            true => medium.unreadable.insert(file),
            false => medium.unreadable.remove(&file),
        };
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock()
    }

    /// The medium, for an operation that goes well; or why it does not.
    fn begin(&self, kind: Kind) -> io::Result<MutexGuard<'_, Medium>> {
        let mut medium = self.medium();
        medium.begin(self.life, kind)?;
        Ok(medium)
    }
}

/// Which faults an operation knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Does not count: there are hundreds of directories, and nothing happens between two.
    List,
    Look,
    Change,
    Write,
    Sync,
}

impl Medium {
    fn begin(&mut self, life: u64, kind: Kind) -> io::Result<()> {
        if self.is_over || self.life != life {
            return Err(io::Error::other("this life is over"));
        }
        if kind == Kind::List {
            return Ok(());
        }
        self.n_operations += 1;
        self.clock += 1;
        if self.faults.last_operation == Some(self.n_operations) {
            self.is_over = true;
            return Err(io::Error::other("this life ends"));
        }
        if self.faults.read_only && !matches!(kind, Kind::List | Kind::Look) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let (full, broken) = (self.faults.full, self.faults.broken);
        if kind == Kind::Write && self.chance.permille(full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let unsynced = self.faults.unsynced;
        if kind == Kind::Sync && self.chance.permille(unsynced) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if kind != Kind::Look && self.chance.permille(broken) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn content(&mut self, file: u64) -> &mut Content {
        self.files.get_mut(&file).unwrap()
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        let file = self.names.files.get(path).copied();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn lose_power(&mut self) {
        // Some losses keep nearly all, some nearly nothing.
        let kept = [0, 100, 500, 900, 1000][usize::try_from(self.chance.below(5)).unwrap()];
        for change in std::mem::take(&mut self.changes) {
            if self.chance.permille(kept) {
                change.apply(&mut self.durable);
            }
        }
        self.names = self.durable.clone();
        for content in self.files.values_mut() {
            let mut octets = std::mem::take(&mut content.durable);
            for write in std::mem::take(&mut content.writes) {
                if !self.chance.permille(kept) {
                    continue;
                }
                match write {
                    Write::At(at, new) => tear(&mut self.chance, kept, &mut octets, at, &new),
                    Write::Truncate(_) => write.apply(&mut octets),
                }
            }
            content.octets.clone_from(&octets);
            content.durable = octets;
        }
    }
}

/// Writes whole sectors of a write, and perhaps a part of one.
fn tear(chance: &mut Chance, kept: u64, octets: &mut Vec<u8>, at: u64, new: &[u8]) {
    let is_whole = chance.permille(500);
    for (number, sector) in (0..).zip(new.chunks(SECTOR)) {
        if is_whole || chance.permille(kept) {
            let at = at + number * SECTOR as u64;
            Write::At(at, sector.to_vec()).apply(octets);
        }
    }
}

/// What a disk writes in one piece.
const SECTOR: usize = 64;

#[cfg(test)]
mod tests;
