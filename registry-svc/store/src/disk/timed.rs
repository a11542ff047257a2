//! How long operations on the disk take, under the names that distribution's storage actions have.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use daemon::clock;

use super::actions::{Action, Actions};
use super::{Access, Disk, File, FileSystem, Room, Status};

/// A disk whose operations are timed.
#[derive(Debug)]
pub struct TimedDisk {
    disk: Arc<dyn Disk>,
    actions: Actions,
}

impl TimedDisk {
    /// The operations of `disk` are counted in `actions`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, actions: Actions) -> Self {
        Self { disk, actions }
    }

    fn time<T>(&self, action: Action, work: impl FnOnce(&dyn Disk) -> T) -> T {
        let begun = clock::now();
        let result = work(&*self.disk);
        self.actions
            .took(action, clock::now().duration_since(begun));
        result
    }
}

impl Disk for TimedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.time(Action::Writer, |disk| disk.create(path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        let action = match access {
            Access::Read => Action::Reader,
            Access::Write => Action::Writer,
        };
        self.time(action, |disk| disk.open(path, access))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.time(Action::Move, |disk| disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.time(Action::Delete, |disk| disk.remove(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.time(Action::Sync, |disk| disk.sync_directory(path))
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>> {
        self.time(Action::List, |disk| disk.list(path))
    }

    fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        self.time(Action::Stat, |disk| disk.status(path))
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        self.disk.touch(path)
    }

    fn room(&self, path: &Path) -> io::Result<Room> {
        self.disk.room(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<Option<Box<dyn FileSystem>>> {
        self.disk.file_system(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>> {
        self.disk.lock(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::disk::suite;

    #[test]
    fn a_timed_disk_does_what_the_other_does_and_counts_it() {
        let scratch = tempfile::tempdir().unwrap();
        let actions = Actions::default();
        let disk = TimedDisk::new(Arc::new(RealDisk), actions.clone());
        suite::check(&disk, scratch.path());
        for (action, distribution) in actions.read() {
            assert!(distribution.count() > 0, "{}", action.name());
        }
    }
}
