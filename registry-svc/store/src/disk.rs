//! Every file operation of the store, behind one trait.
//!
//! The store's promise rests on the order in which files and directories are synced, so that order
//! is tested against a disk that forgets what was not: `disk::faulty`. All operations block.

mod actions;
mod aligned;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
mod real;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
mod timed;

pub use actions::{Action, Actions};
pub use aligned::Aligned;
pub use real::RealDisk;
pub use timed::TimedDisk;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;

/// The alignment of writes past the page cache: the largest logical block there is.
pub const ALIGNMENT: usize = 4096;

/// A file system as the store sees it.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Makes a file that is not there yet, to read and write.
    ///
    /// # Errors
    ///
    /// Fails as the system does; also when the file is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, in one step, whatever had that name before.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory; one that is there is left as it is.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which names a directory has.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, sorted. None when there is no such directory.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>>;

    /// The status of a file; none when it is not there.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn status(&self, path: &Path) -> io::Result<Option<Status>>;

    /// Makes a file look as if it was written just now.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn touch(&self, path: &Path) -> io::Result<()>;

    /// How much room the file system has.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn room(&self, path: &Path) -> io::Result<Room>;

    /// The file system that a path is on, to make everything on it durable at once; none where that cannot be done.
    /// Opened before what it is to make durable is written, so that no failure of a write is missed.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn file_system(&self, _: &Path) -> io::Result<Option<Box<dyn FileSystem>>> {
        Ok(None)
    }

    /// Takes a file, made when it is not there, for this process alone, for as long as what is
    /// returned lives.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::WouldBlock`] when another process has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>>;
}

/// An open file system.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Makes durable what all its files and directories have.
    ///
    /// # Errors
    ///
    /// Fails when anything written since it was opened may be lost.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait File: fmt::Debug + Send + Sync {
    /// Reads at most as much as `buffer` holds; 0 is the end.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Reads as [`read_at`](Self::read_at) does, but from the disk and not from the page cache,
    /// where the system can do that and both are aligned to [`ALIGNMENT`]. Such a read displaces
    /// nothing from the page cache.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn read_block(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.read_at(buffer, at)
    }

    /// Writes all pieces, one after the other.
    ///
    /// # Errors
    ///
    /// Fails as the system does; a part may have been written then.
    fn write_at(&self, pieces: &[Bytes], at: u64) -> io::Result<()>;

    /// Writes all octets. Those that are aligned to [`ALIGNMENT`], in memory, in the file and in their
    /// number, go past the page cache where the system can do that.
    ///
    /// # Errors
    ///
    /// Fails as the system does; a part may have been written then.
    fn write_block(&self, octets: &[u8], at: u64) -> io::Result<()> {
        self.write_at(&[Bytes::copy_from_slice(octets)], at)
    }

    /// Makes room for `length` octets without changing the file's size. A file system that cannot
    /// does nothing.
    ///
    /// # Errors
    ///
    /// Fails when there is no such room.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes the content durable. After a failure the content is lost: a second call on the same
    /// file may succeed without having written it.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn sync(&self) -> io::Result<()>;

    /// Takes everybody's right to write.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn seal(&self) -> io::Result<()>;

    /// Its status, whatever name it has.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn status(&self) -> io::Result<Status>;

    /// How many octets it has.
    ///
    /// # Errors
    ///
    /// Fails as the system does.
    fn size(&self) -> io::Result<u64> {
        Ok(self.status()?.size)
    }
}

/// Takes a file away; true when it was there.
///
/// # Errors
///
/// Fails as the disk does.
pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}

/// Writes a small file as a whole: afterwards it has these octets, also after a loss of power.
///
/// # Errors
///
/// Fails as the disk does; the file is then as it was.
pub fn write_whole(disk: &dyn Disk, path: &Path, octets: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    remove_if_there(disk, &temporary)?;
    let file = disk.create(&temporary)?;
    file.write_at(&[Bytes::copy_from_slice(octets)], 0)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)?;
    match path.parent() {
        Some(directory) => disk.sync_directory(directory),
        None => Ok(()),
    }
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// The status of a file. Two that are equal are of one file with one content, as far as the system
/// knows of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The number of the file on its file system; 0 where files have none.
    pub inode: u64,
    /// In octets.
    pub size: u64,
    /// When it was written last.
    pub modified: SystemTime,
}

/// How much room a file system has, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In all.
    pub total: u64,
    /// For this process.
    pub free: u64,
}
