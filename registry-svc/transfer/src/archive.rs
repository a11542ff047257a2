//! Archives on the disk: a directory, a tar archive, one compressed with gzip, or several that are one
//! (oc-mirror cuts its archives into `mirror_000001.tar` and so on).
//!
//! Opening one goes through it once, for the names of what it holds. Nothing is unpacked: entries are
//! read from where they are. In a compressed archive that means from its beginning, so what wants many
//! entries asks for them in the order of [`Archive::order`], and small ones are kept from the first
//! time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use parking_lot::{Mutex, MutexGuard};
use registry_archive::catalogue::{Files, Problems};
use registry_archive::entries::{Entries, EntryError, File as Place};
use registry_archive::tar;
use registry_archive::tar::{Forward, Kind, TarError};

/// Directories below one another. Repositories' names have 255 octets, so 128 components at most.
const MAX_DEPTH: usize = 192;
/// Files that make up one archive; oc-mirror numbers them with six digits, and makes few.
const MAX_SEGMENTS: usize = 10_000;
/// The largest file of a compressed archive that stays in memory, so that links and manifests are
/// not unpacked again.
const KEPT_FILE: u64 = 256 << 10;
/// All of that together.
const KEPT: u64 = 128 << 20;
/// The size of one read from a file.
const BUFFER: usize = 256 << 10;

/// An archive that is open.
#[derive(Debug)]
pub struct Archive {
    title: String,
    entries: Entries,
    form: Form,
    /// The problems of entries, or of the archive's end.
    pub problems: Problems,
}

#[derive(Debug)]
enum Form {
    /// Entries are files below this one.
    Directory(PathBuf),
    /// Entries are in these.
    Tar(Vec<Segment>),
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    packed: Option<Packed>,
}

/// How far a compressed file is unpacked, and what was kept of it.
#[derive(Debug, Default)]
struct Packed {
    kept: BTreeMap<u64, Vec<u8>>,
    /// The end of the last read: the next entry is most likely behind it.
    stands: Mutex<Option<Unpacking>>,
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// How that failed.
        #[source]
        source: io::Error,
    },
    /// A file is no archive.
    #[error("{path} is no archive", path = .path.display())]
    NoArchive {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: TarError,
    },
    /// An archive that no tool writes.
    #[error("{path}", path = .path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: EntryError,
    },
    /// Several directories, or a directory and archives.
    #[error("several paths have to be the tar archives of one oc-mirror archive")]
    Several,
}

impl Archive {
    /// Opens what is at a path, or the parts of one archive at several.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is neither a directory nor a tar archive.
    pub fn open(paths: &[PathBuf]) -> Result<Self, ArchiveError> {
        match paths {
            [path] if is_directory(path)? => {
                let parts = segments_in(path)?;
                match parts.is_empty() {
                    true => Self::directory(path),
                    false => Self::tar(&parts, title(path)),
                }
            }
            [] => Err(ArchiveError::Several),
            paths if paths.len() > MAX_SEGMENTS => Err(ArchiveError::Several),
            [path, ..] => {
                for path in paths {
                    if is_directory(path)? {
                        return Err(ArchiveError::Several);
                    }
                }
                Self::tar(paths, title(path))
            }
        }
    }

    /// The name of its file or directory, without the suffix of its form.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The place of an entry, for reading many in the cheapest order.
    #[must_use]
    pub fn order(&self, name: &str) -> (u32, u64) {
        let found = self.entries.file(name);
        found.map_or((u32::MAX, 0), |(_, file)| (file.segment, file.offset))
    }

    /// Whether entries are best read one after the other in their order.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        match &self.form {
            Form::Directory(_) => false,
            Form::Tar(segments) => segments.iter().any(|segment| segment.packed.is_some()),
        }
    }

    fn directory(path: &Path) -> Result<Self, ArchiveError> {
        let mut archive = Self {
            title: title(path),
            entries: Entries::default(),
            form: Form::Directory(path.to_owned()),
            problems: Problems::default(),
        };
        archive.walk(path, &mut Vec::new())?;
        Ok(archive)
    }

    fn walk(&mut self, directory: &Path, parents: &mut Vec<String>) -> Result<(), ArchiveError> {
        let unreadable = |source| ArchiveError::Read {
            path: directory.to_owned(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                self.problems
                    .add(path.display().to_string(), "its name is not UTF-8");
                continue;
            };
            parents.push(name);
            let name = parents.join("/");
            let kind = entry.file_type().map_err(unreadable)?;
            let added = if kind.is_dir() && parents.len() < MAX_DEPTH {
                self.walk(&path, parents)?;
                Ok(())
            } else if kind.is_file() {
                let size = entry.metadata().map_err(unreadable)?.len();
                self.entries.add_file(&name, place(size, 0, 0))
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(unreadable)?;
                match target.to_str() {
                    Some(target) => self.entries.add_symlink(&name, target),
                    None => Err(EntryError::Outside),
                }
            } else {
                Ok(())
            };
            self.note(directory, &name, added)?;
            parents.pop();
        }
        Ok(())
    }

    fn tar(paths: &[PathBuf], title: String) -> Result<Self, ArchiveError> {
        let mut archive = Self {
            title,
            entries: Entries::default(),
            form: Form::Tar(Vec::new()),
            problems: Problems::default(),
        };
        let mut segments = Vec::new();
        for (number, path) in (0..).zip(paths) {
            segments.push(archive.segment(path, number)?);
        }
        archive.form = Form::Tar(segments);
        Ok(archive)
    }

    /// Goes through one file, and adds what is in it.
    fn segment(&mut self, path: &Path, number: u32) -> Result<Segment, ArchiveError> {
        let unreadable = |source| ArchiveError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut begins = Vec::new();
        (&mut file)
            .take(2)
            .read_to_end(&mut begins)
            .map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        let mut segment = Segment {
            path: path.to_owned(),
            packed: None,
        };
        let ended = match begins.as_slice() {
            [0x1f, 0x8b] => {
                let mut packed = Packed::default();
                let ended =
                    self.index(Unpacking::new(file), number, path, Some(&mut packed.kept))?;
                segment.packed = Some(packed);
                ended
            }
            _ => self.index(Seeking { file, length }, number, path, None)?,
        };
        match ended {
            Ok(()) => {}
            Err(source @ TarError::NoHeader(0)) => {
                let path = path.to_owned();
                return Err(ArchiveError::NoArchive { path, source });
            }
            // The entries up to here can be copied all the same, and a second run with the whole
            // archive continues.
            Err(error) => {
                let shown = path.display().to_string();
                self.problems.add(shown, daemon::exit::chain(&error));
            }
        }
        Ok(segment)
    }

    /// Adds the members of one file; the inner result says how the file ended.
    fn index(
        &mut self,
        from: impl Forward,
        segment: u32,
        path: &Path,
        mut kept: Option<&mut BTreeMap<u64, Vec<u8>>>,
    ) -> Result<Result<(), TarError>, ArchiveError> {
        let mut reader = tar::Reader::new(from);
        let mut n_kept = 0;
        loop {
            let member = match reader.next_member() {
                Ok(Some(member)) => member,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let shown = path.display();
            let Some(name) = &member.name else {
                let what = format!("the name at octet {} is not UTF-8", member.offset);
                self.problems.add(shown.to_string(), what);
                continue;
            };
            let added = match &member.kind {
                Kind::File => self
                    .entries
                    .add_file(name, place(member.size, segment, member.offset)),
                Kind::Symlink(target) => self.entries.add_symlink(name, target),
                Kind::HardLink(target) => self.entries.add_hard_link(name, target),
                Kind::Directory | Kind::Other => continue,
            };
            self.note(path, name, added)?;
            if let Some(kept) = kept.as_deref_mut()
                && member.kind == Kind::File
                && member.size <= KEPT_FILE
                && n_kept + member.size <= KEPT
            {
                n_kept += member.size;
                match reader.read_member(&member, usize::MAX) {
                    Ok(octets) => kept.insert(member.offset, octets),
                    Err(error) => return Ok(Err(error)),
                };
            }
        }
    }

    /// A name that leads nowhere is a problem of that entry; too many are one of the archive.
    fn note(
        &mut self,
        path: &Path,
        name: &str,
        added: Result<(), EntryError>,
    ) -> Result<(), ArchiveError> {
        match added {
            Ok(()) => Ok(()),
            Err(source @ EntryError::TooMany) => Err(ArchiveError::Entry {
                path: path.to_owned(),
                source,
            }),
            Err(error) => {
                self.problems.add(name, error.to_string());
                Ok(())
            }
        }
    }
}

impl Files for Archive {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send + '_>> {
        let found = self.entries.file(name);
        let (name, place) = found.ok_or(io::ErrorKind::NotFound)?;
        match &self.form {
            Form::Directory(root) => {
                let file = open_below(&root.join(name))?;
                // It may have grown since: its size has been told.
                Ok(Box::new(file.take(place.size)))
            }
            Form::Tar(segments) => {
                let at = usize::try_from(place.segment).unwrap_or(usize::MAX);
                let segment = segments.get(at).ok_or(io::ErrorKind::NotFound)?;
                segment.open(place)
            }
        }
    }
}

impl Segment {
    fn open(&self, place: Place) -> io::Result<Box<dyn Read + Send + '_>> {
        let Some(packed) = &self.packed else {
            let mut file = open(&self.path)?;
            file.seek(SeekFrom::Start(place.offset))?;
            return Ok(Box::new(Exactly {
                from: file,
                left: place.size,
            }));
        };
        if let Some(octets) = packed.kept.get(&place.offset) {
            return Ok(Box::new(octets.as_slice()));
        }
        let stands = lock(&packed.stands).take();
        let mut unpacking = match stands.filter(|stands| stands.position <= place.offset) {
            Some(stands) => stands,
            None => Unpacking::new(open(&self.path)?),
        };
        unpacking.skip(place.offset - unpacking.position)?;
        Ok(Box::new(OnePacked {
            from: Some(unpacking),
            left: place.size,
            stands: &packed.stands,
        }))
    }
}

fn place(size: u64, segment: u32, offset: u64) -> Place {
    Place {
        size,
        segment,
        offset,
    }
}

//--- Reading

/// A file that can be read from anywhere.
struct Seeking {
    file: File,
    length: u64,
}

impl Read for Seeking {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.file.read(to)
    }
}

impl Forward for Seeking {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        let here = self.file.stream_position()?;
        // Beyond the end there is nothing to read, which shows; a file system may refuse to go far.
        let to = here.saturating_add(length).min(self.length);
        let is_beyond = here.saturating_add(length) > self.length;
        self.file.seek(SeekFrom::Start(to))?;
        match is_beyond {
            true => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the archive breaks off",
            )),
            false => Ok(()),
        }
    }
}

/// A compressed file, and how far it is unpacked.
#[derive(Debug)]
struct Unpacking {
    from: MultiGzDecoder<BufReader<File>>,
    position: u64,
}

impl Unpacking {
    fn new(file: File) -> Self {
        Self {
            from: MultiGzDecoder::new(BufReader::with_capacity(BUFFER, file)),
            position: 0,
        }
    }
}

impl Read for Unpacking {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        self.position += u64::try_from(length).unwrap_or(u64::MAX);
        Ok(length)
    }
}

impl Forward for Unpacking {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        io::copy(&mut self.take(length), &mut io::sink())?;
        Ok(())
    }
}

/// The octets of one entry; that there are fewer is an error and not an end.
struct Exactly {
    from: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        exactly(&mut self.from, &mut self.left, to)
    }
}

/// The octets of one entry of a compressed archive; how far that is unpacked is left for the next.
struct OnePacked<'a> {
    from: Option<Unpacking>,
    left: u64,
    stands: &'a Mutex<Option<Unpacking>>,
}

impl Read for OnePacked<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match &mut self.from {
            Some(from) => exactly(from, &mut self.left, to),
            None => Ok(0),
        }
    }
}

impl Drop for OnePacked<'_> {
    fn drop(&mut self) {
        *lock(self.stands) = self.from.take();
    }
}

fn exactly(from: &mut impl Read, left: &mut u64, to: &mut [u8]) -> io::Result<usize> {
    let room = usize::try_from(*left).map_or(to.len(), |left| left.min(to.len()));
    let Some(to) = to.get_mut(..room).filter(|to| !to.is_empty()) else {
        return Ok(0);
    };
    match from.read(to)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        length => {
            *left -= u64::try_from(length).unwrap_or(*left);
            Ok(length)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

//--- Files

/// Opens a file below a directory, and nothing but a file: no link that was put in its place since, and
/// no queue to wait on.
fn open_below(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    open_with(path, flags)
}

/// Opens a file that the user names, which may be a link.
fn open(path: &Path) -> io::Result<File> {
    open_with(path, rustix::fs::OFlags::NONBLOCK)
}

fn open_with(path: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a file")),
    }
}

fn is_directory(path: &Path) -> Result<bool, ArchiveError> {
    let metadata = fs::metadata(path).map_err(|source| ArchiveError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(metadata.is_dir())
}

/// The parts of an archive of oc-mirror in a directory, in their order.
fn segments_in(directory: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let unreadable = |source| ArchiveError::Read {
        path: directory.to_owned(),
        source,
    };
    let mut parts = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_str().is_some_and(is_segment) {
            parts.push(entry.path());
        }
        if parts.len() > MAX_SEGMENTS {
            return Err(ArchiveError::Several);
        }
    }
    parts.sort();
    Ok(parts)
}

/// `mirror_000001.tar`.
fn is_segment(name: &str) -> bool {
    let number = name
        .strip_prefix("mirror_")
        .and_then(|rest| rest.strip_suffix(".tar"));
    number.is_some_and(|number| {
        number.len() == 6 && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

fn title(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = real.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let endings = [".tar.gz", ".tgz", ".tar"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests;
