//! Waits for files that are put into a directory, written or removed.
//!
//! Watches the directory, not its files: editors and configuration managers replace files, and a mounted `ConfigMap` swaps a
//! link beside them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Octets of events that are read at a time.
const EVENTS: usize = 4096;
/// The most readings of queued events at a time.
const MAX_READINGS: usize = 64;

/// The events of a directory that say that its files have changed, or that it is another directory now.
pub const WATCHED: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);

/// A watched directory.
#[derive(Debug)]
pub struct Directory {
    queue: AsyncFd<OwnedFd>,
}

/// The last thing that has happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A writer has it open, and may not be done.
    Open,
    /// It is complete: its writer has closed it, or it was moved here.
    Complete,
    /// It is gone.
    Gone,
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
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&queue, path, WATCHED)?;
        Ok(Self {
            queue: sys::wait::watched(queue)?,
        })
    }

    /// Waits for a change, and for those that come within `settle` after it: writing a file is several events. Cancel safe: an
    /// event is taken only after the last wait.
    ///
    /// # Errors
    ///
    /// When the runtime ends.
    pub async fn changes(&self, settle: Duration) -> io::Result<Changes> {
        loop {
            let mut ready = self.queue.readable().await?;
            if !settle.is_zero() {
                tokio::time::sleep(settle).await;
            }
            ready.clear_ready();
            let mut changes = Changes::default();
            let mut n_readings = 0;
            while n_readings < MAX_READINGS && self.read(&mut changes) {
                n_readings += 1;
            }
            if n_readings > 0 {
                return Ok(changes);
            }
        }
    }

    /// Takes the events that are queued now; returns whether there are any.
    fn read(&self, into: &mut Changes) -> bool {
        let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
        let mut queue = inotify::Reader::new(self.queue.get_ref(), &mut buffer);
        let mut found = false;
        while let Ok(event) = queue.next() {
            found = true;
            let flags = event.events();
            let Some(name) = event.file_name() else {
                // The queue is full, or the directory has gone.
                into.is_lossy = true;
                continue;
            };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            let change = if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
                Change::Complete
            } else if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                Change::Gone
            } else {
                Change::Open
            };
            into.files.insert(name, change);
        }
        found
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
        let changes = directory.changes(Duration::ZERO).await.unwrap();
        let of = |name: &str| changes.files.get(std::ffi::OsStr::new(name)).copied();
        assert_eq!(of("half"), Some(Change::Open));
        assert_eq!(of("whole"), Some(Change::Gone));
        assert_eq!(of("gone"), Some(Change::Gone));
        assert_eq!(of("moved"), Some(Change::Complete));
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
