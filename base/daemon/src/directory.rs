//! Waits for files that are put into a directory, written or removed.
//!
//! Watches the directory, not its files: editors and configuration managers replace files, and a mounted `ConfigMap` swaps a
//! link beside them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Octets of events that are read at a time.
const EVENTS: usize = 4096;
/// The most readings of queued events at a time.
const MAX_READINGS: usize = 64;

/// The events of a directory that say that its files have changed, or that it is another directory now.
const WATCHED: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);

//--- Events

/// The last thing that has happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A writer has it open, and may not be done.
    Open,
    /// It is complete: its writer has closed it, it was moved here, or it is a link, which has no writer.
    Complete,
    /// It is gone.
    Gone,
}

/// An event of a watched directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A file of the directory with this watch has changed.
    File {
        /// The number of the watch.
        watch: i32,
        /// The file's name in the directory.
        name: &'e OsStr,
        /// Whether it was just created: a link that is created is [complete](Change::Complete).
        is_created: bool,
        /// The change.
        change: Change,
    },
    /// The directory itself was moved or removed.
    Moved,
    /// Events were lost: the queue was full.
    Overflow,
}

/// The queue of the events of some directories.
#[derive(Debug)]
pub struct Queue {
    fd: AsyncFd<OwnedFd>,
}

impl Queue {
    /// An empty queue; needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// When the system has no room for another queue.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self {
            fd: sys::wait::watched(queue)?,
        })
    }

    /// Watches a directory; returns the number of its watch, which stays the same for the same directory.
    ///
    /// # Errors
    ///
    /// When it is not there, or the system has no room for another watch.
    pub fn add(&self, path: &Path) -> io::Result<i32> {
        Ok(inotify::add_watch(self.fd.get_ref(), path, WATCHED)?)
    }

    /// Ends a watch. The watch of a removed directory has ended by itself.
    pub fn remove(&self, watch: i32) {
        let _gone = inotify::remove_watch(self.fd.get_ref(), watch);
    }

    /// Waits for an event, and for those that come within `settle` after it: writing a file is several events. Hands them to
    /// `seen` in their order. Cancel safe: an event is taken only after the last wait.
    ///
    /// # Errors
    ///
    /// When the runtime ends.
    pub async fn wait(&self, settle: Duration, mut seen: impl FnMut(Event<'_>)) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            if !settle.is_zero() {
                tokio::time::sleep(settle).await;
            }
            ready.clear_ready();
            let mut n_readings = 0;
            while n_readings < MAX_READINGS && self.read(&mut seen) {
                n_readings += 1;
            }
            if n_readings > 0 {
                return Ok(());
            }
        }
    }

    /// Takes the events that are queued now; returns whether there are any.
    fn read(&self, seen: &mut impl FnMut(Event<'_>)) -> bool {
        let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
        let mut queue = inotify::Reader::new(self.fd.get_ref(), &mut buffer);
        let mut found = false;
        while let Ok(event) = queue.next() {
            found = true;
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                seen(Event::Overflow);
                continue;
            }
            let Some(name) = event.file_name() else {
                seen(Event::Moved);
                continue;
            };
            let change = if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
                Change::Complete
            } else if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                Change::Gone
            } else {
                Change::Open
            };
            seen(Event::File {
                watch: event.wd(),
                name: OsStr::from_bytes(name.to_bytes()),
                is_created: flags.contains(ReadFlags::CREATE),
                change,
            });
        }
        found
    }
}

//--- One directory

/// A watched directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    queue: Queue,
}

/// The changes since the last wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The last change of each file, by its name in the directory.
    pub files: BTreeMap<OsString, Change>,
    /// Whether events were lost, or the directory itself is gone: any file may have changed.
    pub is_lossy: bool,
}

impl Directory {
    /// Watches a directory; needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// When it is not there, or the system has no room for another watch.
    pub fn watch(path: &Path) -> io::Result<Self> {
        let queue = Queue::new()?;
        queue.add(path)?;
        Ok(Self {
            path: path.to_owned(),
            queue,
        })
    }

    /// Waits for a change, and for those that come within `settle` after it. Cancel safe.
    ///
    /// # Errors
    ///
    /// When the runtime ends.
    pub async fn changes(&self, settle: Duration) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let note = |event: Event<'_>| match event {
            Event::File {
                name,
                is_created,
                change,
                ..
            } => {
                let is_link = is_created && self.path.join(name).is_symlink();
                let change = if is_link { Change::Complete } else { change };
                changes.files.insert(name.to_owned(), change);
            }
            Event::Moved | Event::Overflow => changes.is_lossy = true,
        };
        self.queue.wait(settle, note).await?;
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn the_last_change_of_each_file_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        let directory = Directory::watch(path).unwrap();
        let mut half = File::create(path.join("half")).unwrap();
        half.write_all(b"x").unwrap();
        fs::write(path.join("whole"), "x").unwrap();
        fs::write(path.join("gone"), "x").unwrap();
        fs::remove_file(path.join("gone")).unwrap();
        fs::rename(path.join("whole"), path.join("moved")).unwrap();
        std::os::unix::fs::symlink("half", path.join("link")).unwrap();
        let changes = directory.changes(Duration::ZERO).await.unwrap();
        let of = |name: &str| changes.files.get(OsStr::new(name)).copied();
        assert_eq!(of("half"), Some(Change::Open));
        assert_eq!(of("whole"), Some(Change::Gone));
        assert_eq!(of("gone"), Some(Change::Gone));
        assert_eq!(of("moved"), Some(Change::Complete));
        assert_eq!(of("link"), Some(Change::Complete));
        drop(half);
        let changes = directory.changes(Duration::ZERO).await.unwrap();
        assert_eq!(changes.files.len(), 1);
        assert!(!changes.is_lossy);
    }

    #[tokio::test]
    async fn a_directory_that_goes_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("inside");
        assert!(Directory::watch(&path).is_err());
        fs::create_dir(&path).unwrap();
        let directory = Directory::watch(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        assert!(directory.changes(Duration::ZERO).await.unwrap().is_lossy);
    }
}
