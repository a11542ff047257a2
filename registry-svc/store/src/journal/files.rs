//! The files of the journal: their names, and reading them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use registry_facts::frame;
use registry_facts::frame::{Found, Frame, Kind};
use registry_facts::record::{Record, Vector};

use super::{JournalError, Place};
use crate::disk::{Access, Disk, File, remove_if_there};

/// The name of a segment.
#[must_use]
pub fn segment(number: u64) -> String {
    format!("{number:08}.log")
}

/// The name of the snapshot that stands for all segments before `number`.
#[must_use]
pub fn snapshot(number: u64) -> String {
    format!("{number:08}.snapshot")
}

/// The number of a file whose name ends so.
#[must_use]
pub fn number(name: &str, suffix: &str) -> Option<u64> {
    name.strip_suffix(suffix)?.parse().ok()
}

/// The files in a directory of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The newest snapshot.
    pub snapshot: Option<u64>,
    /// The segments that follow it, in order.
    pub segments: Vec<u64>,
    /// Names of what no longer counts: older files, and what was being written.
    pub stale: Vec<String>,
}

impl Files {
    /// Looks at a directory.
    ///
    /// # Errors
    ///
    /// Fails when segments are missing.
    pub fn of(disk: &dyn Disk, directory: &Path) -> Result<Self, JournalError> {
        let names = disk
            .list(directory)
            .map_err(JournalError::io("list the journal"))?
            .unwrap_or_default();
        let snapshot = names
            .iter()
            .filter_map(|name| number(name, ".snapshot"))
            .max();
        let first = snapshot.unwrap_or(1);
        let mut files = Self {
            snapshot,
            ..Self::default()
        };
        for name in names {
            match number(&name, ".log") {
                Some(segment) if segment >= first => files.segments.push(segment),
                Some(_) => files.stale.push(name),
                None if name.ends_with(".tmp") => files.stale.push(name),
                None if number(&name, ".snapshot").is_some_and(|number| number < first) => {
                    files.stale.push(name);
                }
                None => {}
            }
        }
        files.segments.sort_unstable();
        let begins = snapshot.is_some() || !files.segments.is_empty();
        for (expected, n_segment) in (first..).zip(0..files.segments.len().max(usize::from(begins)))
        {
            if files.segments.get(n_segment) != Some(&expected) {
                return Err(JournalError::Damaged {
                    file: segment(expected),
                    at: 0,
                    what: "it is missing".to_owned(),
                });
            }
        }
        Ok(files)
    }
}

/// The result of reading the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The files.
    pub files: Files,
    /// The end of the last whole record.
    pub end: Place,
    /// Whether another segment has to follow.
    pub is_sealed: bool,
    /// Bytes behind the end: a write that the node did not finish.
    pub n_torn: u64,
    /// Records read.
    pub n_records: u64,
    /// The accepted records.
    pub vector: Vector,
    /// Octets in the segments before the last.
    pub n_sealed: u64,
}

/// Hands every record to `visit`: those of the snapshot and then those of the segments, up to
/// `until` if that is said.
///
/// # Errors
///
/// Fails when something that was acknowledged cannot be read.
pub fn replay(
    disk: &dyn Disk,
    directory: &Path,
    until: Option<Place>,
    visit: &mut dyn FnMut(Record) -> Result<(), JournalError>,
) -> Result<Replayed, JournalError> {
    let mut files = Files::of(disk, directory)?;
    let mut replayed = Replayed::default();
    let mut reach = Reach::default();
    if let Some(number) = files.snapshot {
        let source = Source::open(disk, directory, snapshot(number))?;
        let ending = source.read(None, &mut replayed.n_records, &mut |record| {
            reach.snapshot(&record);
            visit(record)
        })?;
        if !matches!(ending, Ending::Sealed(_)) {
            return Err(source.damaged(ending.at(), "it has no end"));
        }
    }
    let mut index = 0;
    while let Some(&number) = files.segments.get(index) {
        index += 1;
        let source = Source::open(disk, directory, segment(number))?;
        let limit = until.and_then(|until| (until.segment == number).then_some(until.at));
        let ending = source.read(limit, &mut replayed.n_records, &mut |record| {
            reach.segments.advance(&record.origin, record.sequence);
            visit(record)
        })?;
        replayed.end = Place {
            segment: number,
            at: ending.at(),
        };
        replayed.is_sealed = matches!(ending, Ending::Sealed(_));
        if limit.is_some() {
            break;
        }
        if replayed.is_sealed {
            if index < files.segments.len() {
                replayed.n_sealed += ending.at();
            }
            continue;
        }
        // A successor is made before the seal is written, and nothing is written to it before the
        // seal is synced: beside an empty successor a segment is still the last.
        let followers = files.segments.get(index..).unwrap_or_default();
        let is_last = match followers {
            [] => true,
            [next] => Source::open(disk, directory, segment(*next))?.size()? == 0,
            _ => false,
        };
        if !is_last {
            return Err(source.damaged(ending.at(), "it has no end, and another follows"));
        }
        if let Ending::Broken(at) = ending {
            replayed.n_torn = source.torn(at)?;
        }
        for follower in files.segments.split_off(index) {
            files.stale.push(segment(follower));
        }
    }
    if until.is_none() && reach.is_short() {
        return Err(JournalError::Damaged {
            file: segment(replayed.end.segment),
            at: replayed.end.at,
            what: "its end is lost: the snapshot has later records".to_owned(),
        });
    }
    replayed.files = files;
    replayed.vector = reach.segments;
    Ok(replayed)
}

/// How far the files of a journal reach.
///
/// A snapshot is made while records are stated: it may hold some that also follow it. When they do not follow, the end of the
/// journal is lost, and with it others that no snapshot holds.
#[derive(Default)]
struct Reach {
    /// The records whose registers the snapshot has.
    snapshot: Vector,
    /// The records that it stands for, and those of the segments.
    segments: Vector,
}

impl Reach {
    fn snapshot(&mut self, record: &Record) {
        // A record without facts tells how far its origin is.
        let reach = match record.facts.is_empty() {
            true => &mut self.segments,
            false => &mut self.snapshot,
        };
        reach.advance(&record.origin, record.sequence);
    }

    fn is_short(&self) -> bool {
        let mut all = self.snapshot.iter();
        all.any(|(origin, sequence)| sequence > self.segments.of(origin))
    }
}

/// How the reading of a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The expected end, or the end of the file.
    Open(u64),
    /// With the frame that says that nothing follows.
    Sealed(u64),
    /// At something that is no frame.
    Broken(u64),
}

impl Ending {
    fn at(self) -> u64 {
        match self {
            Self::Open(at) | Self::Sealed(at) | Self::Broken(at) => at,
        }
    }
}

/// A file that is read.
struct Source {
    name: String,
    file: Box<dyn File>,
}

impl Source {
    fn open(disk: &dyn Disk, directory: &Path, name: String) -> Result<Self, JournalError> {
        let path: PathBuf = directory.join(&name);
        let file = disk
            .open(&path, Access::Read)
            .map_err(JournalError::io("open a file of the journal"))?;
        Ok(Self { name, file })
    }

    fn size(&self) -> Result<u64, JournalError> {
        self.file
            .size()
            .map_err(JournalError::io("read the journal"))
    }

    fn read(
        &self,
        limit: Option<u64>,
        n_records: &mut u64,
        visit: &mut dyn FnMut(Record) -> Result<(), JournalError>,
    ) -> Result<Ending, JournalError> {
        let mut sealed = None;
        let mut failure = Ok(());
        let ending = frames(&*self.file, &mut |frame, at| {
            if limit.is_some_and(|limit| at >= limit) {
                return ControlFlow::Break(Ending::Open(at));
            }
            match frame.kind {
                Kind::End => sealed = Some(at + frame.length as u64),
                Kind::Record => match Record::decode(frame.payload) {
                    Ok(record) => {
                        *n_records += 1;
                        failure = visit(record);
                    }
                    Err(what) => {
                        failure = Err(JournalError::Newer {
                            file: self.name.clone(),
                            at,
                            what,
                        });
                    }
                },
            }
            if failure.is_err() {
                return ControlFlow::Break(Ending::Broken(at));
            }
            ControlFlow::Continue(())
        });
        failure?;
        let ending = ending.map_err(JournalError::io("read the journal"))?;
        match (sealed, ending) {
            (Some(end), Ending::Open(at)) if end == at => Ok(Ending::Sealed(at)),
            (Some(end), _) => Err(self.damaged(end, "something follows its end")),
            (None, ending) => Ok(ending),
        }
    }

    /// How much a torn write left from `at` on.
    fn torn(&self, at: u64) -> Result<u64, JournalError> {
        let size = self.size()?;
        let mut rest = Vec::new();
        fill(
            &*self.file,
            &mut rest,
            at,
            usize::try_from(size - at).unwrap_or(usize::MAX),
        )
        .map_err(JournalError::io("read the journal"))?;
        if frame::proves_damage(&rest, at) {
            return Err(self.damaged(at, "it was synced and is not whole"));
        }
        Ok(size - at)
    }

    fn damaged(&self, at: u64, what: &str) -> JournalError {
        JournalError::Damaged {
            file: self.name.clone(),
            at,
            what: what.to_owned(),
        }
    }
}

/// Hands the frames of a file and their places to `visit`, until it breaks or they end.
fn frames(
    file: &dyn File,
    visit: &mut dyn FnMut(Frame<'_>, u64) -> ControlFlow<Ending>,
) -> std::io::Result<Ending> {
    let mut buffer = Vec::new();
    let mut start = 0;
    // The buffer's offset in the file.
    let mut at = 0;
    loop {
        let octets = buffer.get(start..).unwrap_or_default();
        let here = at + start as u64;
        match frame::take(octets, here) {
            Found::Frame(frame) => {
                let length = frame.length;
                if let ControlFlow::Break(ending) = visit(frame, here) {
                    return Ok(ending);
                }
                start += length;
            }
            Found::Nothing => return Ok(Ending::Broken(here)),
            Found::More(wanted) => {
                buffer.drain(..start);
                at = here;
                start = 0;
                fill(file, &mut buffer, at, wanted.max(CHUNK))?;
                if buffer.is_empty() {
                    return Ok(Ending::Open(at));
                }
                if buffer.len() < wanted {
                    return Ok(Ending::Broken(at));
                }
            }
        }
    }
}

/// Puts a copy of the first octets of a file at another place, or in its own place, durable when the
/// directory is synced.
///
/// # Errors
///
/// Fails as the disk does; the file in that place is then as it was.
pub fn duplicate(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    length: u64,
) -> std::io::Result<Box<dyn File>> {
    let temporary = to.with_extension("copy.tmp");
    remove_if_there(disk, &temporary)?;
    let old = disk.open(from, Access::Read)?;
    let new = disk.create(&temporary)?;
    let mut at = 0;
    while at < length {
        let wanted = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
        let mut buffer = Vec::new();
        fill(&*old, &mut buffer, at, wanted)?;
        if buffer.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let n_read = buffer.len() as u64;
        new.write_at(&[Bytes::from(buffer)], at)?;
        at += n_read;
    }
    new.sync()?;
    disk.rename(&temporary, to)?;
    Ok(new)
}

/// Reads on until the buffer, which stands at `at`, has `wanted` octets or the file ends.
pub(super) fn fill(
    file: &dyn File,
    buffer: &mut Vec<u8>,
    at: u64,
    wanted: usize,
) -> std::io::Result<()> {
    let mut filled = buffer.len();
    buffer.resize(wanted.max(filled), 0);
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match file.read_at(rest, at + filled as u64)? {
            0 => break,
            n_read => filled += n_read,
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// The size of one read.
const CHUNK: usize = 1 << 20;
