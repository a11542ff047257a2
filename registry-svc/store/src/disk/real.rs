//! The file system of the machine.

use std::fmt;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use super::{ALIGNMENT, Access, Disk, File, FileSystem, Room, Status};

/// Files as the kernel has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// Room beyond a file's length that is not given back: less than what is made ahead, more than file systems take for themselves.
const SPARE: u64 = 128 << 10;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(Box::new(RealFile::new(options.open(path)?, OFlags::RDWR)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(access == Access::Write);
        let file = options.open(path)?;
        let rights = match access {
            Access::Write => OFlags::RDWR,
            Access::Read => OFlags::RDONLY,
        };
        Ok(Box::new(RealFile::new(file, rights)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            result => result,
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            // A name that is no text is none of ours.
            if let (false, Ok(name)) =
                (entry.file_type()?.is_dir(), entry.file_name().into_string())
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(Some(names))
    }

    fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(metadata) => Ok(Some(status(&metadata))),
        }
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags)?;
        Ok(())
    }

    fn room(&self, path: &Path) -> io::Result<Room> {
        let room = rustix::fs::statvfs(path)?;
        Ok(Room {
            total: room.f_blocks.saturating_mul(room.f_frsize),
            free: room.f_bavail.saturating_mul(room.f_frsize),
        })
    }

    fn file_system(&self, path: &Path) -> io::Result<Option<Box<dyn FileSystem>>> {
        Ok(Some(Box::new(RealFileSystem(fs::File::open(path)?))))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }
}

/// A directory of the file system.
#[derive(Debug)]
struct RealFileSystem(fs::File);

impl FileSystem for RealFileSystem {
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    /// The same file, past the page cache; none where the file system cannot.
    direct: OnceLock<Option<fs::File>>,
    /// Whether it is read, or written as well.
    rights: OFlags,
}

impl RealFile {
    fn new(file: fs::File, rights: OFlags) -> Self {
        Self {
            file,
            direct: OnceLock::new(),
            rights,
        }
    }

    fn direct(&self) -> Option<&fs::File> {
        let open = || {
            // The flag is of an open file, so it takes another one, of whatever name it has.
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let flags = self.rights | OFlags::DIRECT | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).ok()
        };
        self.direct
            .get_or_init(|| open().map(fs::File::from))
            .as_ref()
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn read_block(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if is_aligned(buffer, at)
            && let Some(direct) = self.direct()
        {
            match direct.read_at(buffer, at) {
                // Some file systems only say so now; and who was interrupted asks again.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidInput | io::ErrorKind::Interrupted
                    ) => {}
                result => return result,
            }
        }
        self.read_at(buffer, at)
    }

    fn write_at(&self, pieces: &[Bytes], mut at: u64) -> io::Result<()> {
        for group in pieces.chunks(MOST_SLICES) {
            let mut slices: Vec<IoSlice<'_>> =
                group.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut rest = slices.as_mut_slice();
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                let written = match rustix::io::pwritev(&self.file, rest, at) {
                    Err(Errno::INTR) => continue,
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    result => result?,
                };
                IoSlice::advance_slices(&mut rest, written);
                at += written as u64;
            }
        }
        Ok(())
    }

    fn write_block(&self, octets: &[u8], at: u64) -> io::Result<()> {
        if is_aligned(octets, at)
            && let Some(direct) = self.direct()
        {
            match direct.write_all_at(octets, at) {
                // Some file systems only say so now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                result => return result,
            }
        }
        self.file.write_all_at(octets, at)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, length) {
            // Room is then found while writing, or not.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            result => Ok(result?),
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let now = self.file.metadata()?;
        // A file that has this length and no room beyond it keeps its date.
        if now.len() == length && 512 * now.blocks() <= length.saturating_add(SPARE) {
            return Ok(());
        }
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn seal(&self) -> io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
        Ok(())
    }

    fn status(&self) -> io::Result<Status> {
        Ok(status(&self.file.metadata()?))
    }
}

/// Whether octets can go between a place of a file and this memory without the page cache.
fn is_aligned(octets: &[u8], at: u64) -> bool {
    !octets.is_empty()
        && octets.as_ptr().addr().is_multiple_of(ALIGNMENT)
        && octets.len().is_multiple_of(ALIGNMENT)
        && at.is_multiple_of(ALIGNMENT as u64)
}

fn status(metadata: &fs::Metadata) -> Status {
    Status {
        inode: metadata.ino(),
        size: metadata.len(),
        modified: modified(metadata),
    }
}

/// The time of the last change of the content; before 1970 is 1970.
fn modified(metadata: &fs::Metadata) -> SystemTime {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}

/// Pieces in one system call: the kernel takes no more.
const MOST_SLICES: usize = 1024;

#[cfg(test)]
mod tests;
