//! The hosts file: read whole, and replaced whole.
//!
//! ```text
//! read ─► new content ─► a file beside it ─► has the file changed? ──no──► rename
//!                                                    │
//!                                                   yes: read again
//! ```
//!
//! A reader sees the old file or the new one, also when this process is killed at any moment. A file that is a mount point
//! itself cannot be replaced by a rename. It is written in its place: in one write that leaves nothing of the old content, and
//! is cut after it. So is a file whose directory cannot be written, and one whose owner or attributes another file cannot get.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use daemon::disk::MAX_FILE_SIZE;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, OFlags, StatxAttributes, StatxFlags, XattrFlags,
    fallocate, fgetxattr, flistxattr, flock, fsetxattr, statx,
};
use rustix::io::Errno;

/// Readings of a file that changes meanwhile.
const READINGS: usize = 10;
/// The octets of the names of a file's attributes, and of one of their values (xattr(7)).
const MAX_ATTRIBUTE: usize = 65_536;

/// The hosts file of a node.
#[derive(Clone, Debug)]
pub(super) struct HostsFile {
    path: PathBuf,
}

/// The file as it was read.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// The path behind links.
    path: PathBuf,
    /// None for a file that is not there.
    identity: Option<Identity>,
    /// When it was changed last, in seconds since 1970.
    pub(super) changed: i64,
}

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// How a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMethod {
    /// Another file was put in its place.
    Replaced,
    /// In its place.
    InPlace(Obstacle),
}

/// Why a file is written in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It is a mount point.
    MountPoint,
    /// No file can be made beside it.
    Directory,
    /// Another file cannot have its owner or its attributes.
    Attributes,
}

impl std::fmt::Display for WriteMethod {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Replaced => "replaced",
            Self::InPlace(Obstacle::MountPoint) => {
                "in place: the file is a mount point; mount its directory instead"
            }
            Self::InPlace(Obstacle::Directory) => "in place: its directory cannot be written",
            Self::InPlace(Obstacle::Attributes) => {
                "in place: another file cannot have its owner or its attributes"
            }
        })
    }
}

/// Why a file was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Another program has changed it, or is about to.
    Changed,
    /// The system refuses; the old content is still there.
    Io(io::Error),
    /// The file has to be written in its place.
    InPlace(Obstacle),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for WriteError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl HostsFile {
    /// The file at a path, which may be a link.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The path as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; one that is not there is empty.
    pub(super) fn read(&self) -> io::Result<Content> {
        let path = match fs::canonicalize(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Content {
                    bytes: Vec::new(),
                    path: self.path.clone(),
                    identity: None,
                    changed: 0,
                });
            }
            path => path?,
        };
        for _ in 0..READINGS {
            let file = File::open(&path)?;
            let before = file.metadata()?;
            if !before.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            if before.nlink() == 0 {
                // Another program has replaced it since it was opened, unless the path still leads to it.
                if is_at(&before, &path) {
                    let text = "the file that is mounted here is no more in its directory";
                    return Err(io::Error::other(text));
                }
                continue;
            }
            if before.size() > MAX_FILE_SIZE {
                return Err(io::Error::other("too large for a hosts file"));
            }
            let mut bytes = Vec::new();
            (&file).take(MAX_FILE_SIZE).read_to_end(&mut bytes)?;
            let identity = Identity::of(&before);
            if Identity::of(&file.metadata()?) == identity {
                let changed = before.mtime();
                return Ok(Content {
                    bytes,
                    path,
                    identity: Some(identity),
                    changed,
                });
            }
        }
        Err(io::Error::other("it changes while it is read"))
    }

    /// Puts other content in the place of what was read. Blocks until it is on disk.
    pub(super) fn write(before: &Content, bytes: &[u8]) -> Result<WriteMethod, WriteError> {
        let replaced = match is_mount_point(&before.path) {
            true => Err(WriteError::InPlace(Obstacle::MountPoint)),
            false => replace(before, bytes),
        };
        match replaced {
            Ok(()) => Ok(WriteMethod::Replaced),
            Err(WriteError::InPlace(because)) if before.identity.is_some() => {
                overwrite(before, bytes)?;
                Ok(WriteMethod::InPlace(because))
            }
            Err(WriteError::InPlace(_)) => Err(Errno::ACCESS.into()),
            Err(error) => Err(error),
        }
    }
}

/// Whether a path leads to a file.
fn is_at(file: &Metadata, path: &Path) -> bool {
    let there = fs::metadata(path);
    there.is_ok_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino()))
}

/// Whether something is mounted at a file itself. An old kernel does not say so: then the rename does (EBUSY).
fn is_mount_point(path: &Path) -> bool {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

//--- Another file in its place

/// Writes a file beside it and renames it.
///
/// The file beside it has a fixed name, so that one that a killed process has left is used again. Its lock keeps two processes
/// apart: the process that holds it and finds the same file at the path may write and rename it.
fn replace(before: &Content, bytes: &[u8]) -> Result<(), WriteError> {
    let beside = before.path.with_file_name(beside(&before.path));
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&beside);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => WriteError::InPlace(Obstacle::Directory),
        _ => WriteError::Io(error),
    })?;
    lock(&file)?;
    let own = file.metadata()?;
    let at_path = fs::symlink_metadata(&beside).map_err(|_| WriteError::Changed)?;
    if (own.dev(), own.ino()) != (at_path.dev(), at_path.ino()) {
        return Err(WriteError::Changed);
    }
    let renamed = fill(&file, before, bytes).and_then(|()| {
        if before.identity != current(&before.path)? {
            return Err(WriteError::Changed);
        }
        fs::rename(&beside, &before.path).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => WriteError::InPlace(Obstacle::MountPoint),
            _ => WriteError::Io(error),
        })
    });
    if renamed.is_err() {
        // The first error tells more than one of this.
        drop(fs::remove_file(&beside));
    }
    renamed?;
    durable::sync_directory_of(&before.path)?;
    Ok(())
}

fn fill(file: &File, before: &Content, bytes: &[u8]) -> Result<(), WriteError> {
    file.set_len(0)?;
    let mut writer = file;
    writer.write_all(bytes)?;
    match before.identity {
        None => file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?,
        Some(_) => {
            let old = File::open(&before.path)?;
            copy_attributes(&old, file).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::PERM | Errno::ACCESS) => WriteError::InPlace(Obstacle::Attributes),
                _ => WriteError::Io(error),
            })?;
        }
    }
    file.sync_all()?;
    Ok(())
}

/// Gives a file the owner, the attributes and the mode of another one.
fn copy_attributes(old: &File, new: &File) -> io::Result<()> {
    let (from, to) = (old.metadata()?, new.metadata()?);
    if (from.uid(), from.gid()) != (to.uid(), to.gid()) {
        fchown(new, Some(from.uid()), Some(from.gid()))?;
    }
    let mut names = vec![0_u8; MAX_ATTRIBUTE];
    let length = match flistxattr(old, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    names.truncate(length);
    let mut value = vec![0_u8; MAX_ATTRIBUTE];
    let mut present = vec![0_u8; MAX_ATTRIBUTE];
    for name in names
        .split(|octet| *octet == 0)
        .filter(|name| !name.is_empty())
    {
        let length = fgetxattr(old, name, value.as_mut_slice())?;
        let has = fgetxattr(new, name, present.as_mut_slice());
        let wanted = value.get(..length).unwrap_or_default();
        if has.is_ok_and(|length| present.get(..length) == Some(wanted)) {
            continue;
        }
        fsetxattr(new, name, wanted, XattrFlags::empty())?;
    }
    new.set_permissions(from.permissions())
}

/// The state of the file at a path at this moment.
fn current(path: &Path) -> io::Result<Option<Identity>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(Identity::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of the file beside it. It begins with a dot, so that no program takes it for a file of its own.
fn beside(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.outpost-new")
}

/// Takes the lock of a file, which its end gives back.
fn lock(file: &File) -> Result<(), WriteError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(WriteError::Changed),
        locked => Ok(locked?),
    }
}

//--- In its place

/// Writes the file itself. In one write, so that a reader finds nothing of the old content behind the new: shorter content
/// has empty lines behind it until the file is cut.
fn overwrite(before: &Content, bytes: &[u8]) -> Result<(), WriteError> {
    let file = OpenOptions::new().write(true).open(&before.path)?;
    lock(&file)?;
    if before.identity != Some(Identity::of(&file.metadata()?)) {
        return Err(WriteError::Changed);
    }
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    // Room first: a disk that is full in the middle of the write would leave half of it.
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(Errno::INVAL) if length == 0 => {}
        Err(error) => return Err(error.into()),
    }
    let mut whole = bytes.to_vec();
    if whole.len() < before.bytes.len() {
        whole.resize(before.bytes.len(), b'\n');
    }
    file.write_all_at(&whole, 0)?;
    file.set_len(length)?;
    file.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests;
