//! The second copy of the journal.
//!
//! `journal-copy/` has each file of the journal that counts, byte for byte. The writer adds a group of
//! records to it when the group is durable in the journal, and syncs it when a segment is full, at an
//! orderly stop and at a start. So a push pays for no further sync, and a record that only the copy has
//! was acknowledged.
//!
//! A start [compares](mend) both: a frame that is whole in the copy alone is put back into the journal, at
//! its place. A file that is missing or shorter than its copy is damaged in the same way. Only what both
//! have lost is left to [`salvage`].
//!
//! Never stops the journal: a copy that cannot be written is reported, and made again later.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use daemon::clock;
use registry_facts::frame::{self, Found};
use registry_facts::index::view::View;

use super::files::{self, Files, duplicate, fill};
use super::salvage::{self, Salvaged};
use super::snapshot::Directory;
use super::{JournalError, Place};
use crate::disk::{Access, Disk, File, remove_if_there, write_whole};

/// The time between two attempts to make a copy that failed: each writes the whole journal.
const RETRY: Duration = Duration::from_mins(10);

/// Bytes that are compared at once.
const PIECE: usize = 1 << 20;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Files that are equal.
    equal: BTreeSet<String>,
    /// Frames that were put back into the journal.
    pub n_put_back: u64,
}

/// Compares a journal with its copy, and puts back into the journal what only the copy has.
///
/// # Errors
///
/// Fails when the journal's files cannot be written. A copy that cannot be read is made again later.
pub fn mend(directory: &Directory) -> Result<Compared, JournalError> {
    let (disk, journal, copy) = (&*directory.disk, &directory.path, &directory.copy);
    let doing = || JournalError::io("put back what only the copy of the journal has");
    let here = salvage::names(disk, journal)?;
    let mut compared = Compared::default();
    for name in counted(disk, directory)? {
        let (file, other) = (journal.join(&name), copy.join(&name));
        let relation = here.contains(&name).then(|| compare(disk, &file, &other));
        let octets = match relation {
            Some(Relation::Equal) => {
                compared.equal.insert(name);
                continue;
            }
            Some(Relation::Behind) => continue,
            Some(Relation::Different) => salvage::octets(disk, &file)?,
            None => Vec::new(),
        };
        let copied = salvage::octets(disk, &other)?;
        let Some(merged) = merge(octets, &copied) else {
            tracing::warn!(
                file = name,
                "The copy is not of this journal, and is made again"
            );
            continue;
        };
        if merged.n_put_back == 0 {
            continue;
        }
        disk.create_directory(journal).map_err(doing())?;
        write_whole(disk, &file, &merged.octets).map_err(doing())?;
        if let Some(root) = journal.parent() {
            disk.sync_directory(root).map_err(doing())?;
        }
        tracing::warn!(
            file = name,
            records = merged.n_put_back,
            "The journal was damaged; its copy had the records, which were put back"
        );
        compared.n_put_back += merged.n_put_back;
    }
    Ok(compared)
}

/// Applies the copy's whole records to a view: for a journal that cannot be written.
///
/// # Errors
///
/// Fails on a record of a newer version.
pub fn read(directory: &Directory, view: &View) -> Result<Salvaged, JournalError> {
    let disk = &*directory.disk;
    salvage::read_files(disk, &directory.copy, counted(disk, directory)?, view)
}

/// The files of the copy that stand for something: no older than the newest snapshot of both.
fn counted(disk: &dyn Disk, directory: &Directory) -> Result<Vec<String>, JournalError> {
    // One that cannot be listed is made again.
    let mut copied = salvage::names(disk, &directory.copy).unwrap_or_default();
    let here = salvage::names(disk, &directory.path)?;
    let snapshots = copied.iter().chain(&here);
    let first = snapshots.filter_map(|name| files::number(name, ".snapshot"));
    let first = first.max().unwrap_or(0);
    copied.retain(|name| salvage::number(name).is_some_and(|number| number >= first));
    Ok(copied)
}

/// A file beside its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// Both have the same bytes.
    Equal,
    /// The copy is the beginning of the file.
    Behind,
    /// Anything else, or one that cannot be read.
    Different,
}

fn compare(disk: &dyn Disk, file: &Path, copy: &Path) -> Relation {
    try_compare(disk, file, copy).unwrap_or(Relation::Different)
}

fn try_compare(disk: &dyn Disk, file: &Path, copy: &Path) -> io::Result<Relation> {
    let (file, copy) = (
        disk.open(file, Access::Read)?,
        disk.open(copy, Access::Read)?,
    );
    let (size, n_copied) = (file.size()?, copy.size()?);
    if n_copied > size {
        return Ok(Relation::Different);
    }
    let mut at = 0;
    while at < n_copied {
        let wanted = usize::try_from(n_copied - at).unwrap_or(PIECE).min(PIECE);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        fill(&*file, &mut one, at, wanted)?;
        fill(&*copy, &mut other, at, wanted)?;
        if one != other || one.is_empty() {
            return Ok(Relation::Different);
        }
        at += one.len() as u64;
    }
    Ok(match size == n_copied {
        true => Relation::Equal,
        false => Relation::Behind,
    })
}

/// A file with what only its copy had.
struct Merged {
    octets: Vec<u8>,
    n_put_back: u64,
}

/// Takes each frame from where it is whole; none when the two are of different journals.
fn merge(mut octets: Vec<u8>, copied: &[u8]) -> Option<Merged> {
    let mut n_put_back = 0;
    let mut at = 0;
    loop {
        let one = whole(&octets, at);
        let other = whole(copied, at);
        match (one, other) {
            (Some(one), Some(other)) if one != other => return None,
            (Some(one), _) => at += one.len(),
            (None, Some(other)) => {
                let end = at + other.len();
                if octets.len() < end {
                    octets.resize(end, 0);
                }
                octets.get_mut(at..end)?.copy_from_slice(other);
                n_put_back += 1;
                at = end;
            }
            (None, None) => return Some(Merged { octets, n_put_back }),
        }
    }
}

/// The frame at a place, when it is whole.
fn whole(octets: &[u8], at: usize) -> Option<&[u8]> {
    let rest = octets.get(at..)?;
    match frame::take(rest, at as u64) {
        Found::Frame(frame) => rest.get(..frame.length),
        Found::More(_) | Found::Nothing => None,
    }
}

/// The copy that the writer adds to.
#[derive(Debug)]
pub struct Copy {
    directory: Directory,
    /// The copy of the segment that is written on; none after a failure.
    segment: Option<Box<dyn File>>,
    /// The last attempt to make it.
    made: Instant,
}

impl Copy {
    /// Brings the copy up to a journal that ends at `end`.
    pub fn new(directory: Directory, compared: &Compared, end: Place) -> Self {
        let mut copy = Self {
            directory,
            segment: None,
            made: clock::now(),
        };
        copy.make(&compared.equal, end);
        copy
    }

    /// Adds octets that are durable in the journal at `at`.
    pub fn add(&mut self, octets: Bytes, at: Place) {
        let length = octets.len() as u64;
        let added = match &self.segment {
            Some(segment) => segment.write_at(&[octets], at.at),
            None => Ok(()),
        };
        if let Err(error) = added {
            self.fail(&error);
        }
        if !self.directory.is_copied() && self.made.elapsed() >= RETRY {
            let end = Place {
                at: at.at + length,
                ..at
            };
            self.make(&BTreeSet::new(), end);
        }
    }

    /// Continues with the next segment.
    pub fn begin(&mut self, number: u64) {
        self.sync();
        if self.segment.is_none() {
            return;
        }
        let path = self.directory.copy.join(files::segment(number));
        let disk = &*self.directory.disk;
        let begun = remove_if_there(disk, &path).and_then(|_| disk.create(&path));
        match begun {
            Ok(segment) => self.segment = Some(segment),
            Err(error) => self.fail(&error),
        }
    }

    /// Makes durable what was added.
    pub fn sync(&mut self) {
        let synced = match &self.segment {
            Some(segment) => segment
                .sync()
                .and_then(|()| self.directory.disk.sync_directory(&self.directory.copy)),
            None => Ok(()),
        };
        if let Err(error) = synced {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.segment = None;
        self.directory.is_copied.store(false, Ordering::Release);
        tracing::error!(%error, "The copy of the journal cannot be written: the journal is kept once");
    }

    /// Makes every file of the copy but those in `equal`.
    fn make(&mut self, equal: &BTreeSet<String>, end: Place) {
        self.made = clock::now();
        match self.try_make(equal, end) {
            Ok(segment) => {
                self.segment = Some(segment);
                self.directory.is_copied.store(true, Ordering::Release);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn try_make(&self, equal: &BTreeSet<String>, end: Place) -> io::Result<Box<dyn File>> {
        let (disk, journal, copy) = (
            &*self.directory.disk,
            &self.directory.path,
            &self.directory.copy,
        );
        let _files = self.directory.files.lock();
        disk.create_directory(copy)?;
        let files = Files::of(disk, journal).map_err(io::Error::other)?;
        let mut names: BTreeSet<String> = files.segments.into_iter().map(files::segment).collect();
        names.extend(files.snapshot.map(files::snapshot));
        let last = files::segment(end.segment);
        for name in &names {
            let (file, other) = (journal.join(name), copy.join(name));
            let length = match *name == last {
                true => end.at,
                false => disk.open(&file, Access::Read)?.size()?,
            };
            let copied = disk.status(&other)?.map(|status| status.size);
            if !equal.contains(name) || copied != Some(length) {
                duplicate(disk, &file, &other, length)?;
            }
        }
        for name in disk.list(copy)?.unwrap_or_default() {
            if !names.contains(&name) {
                disk.remove(&copy.join(name))?;
            }
        }
        disk.sync_directory(copy)?;
        if let Some(root) = copy.parent() {
            disk.sync_directory(root)?;
        }
        disk.open(&copy.join(last), Access::Write)
    }
}
