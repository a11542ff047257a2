//! The promise of a process to a successor, and the lock by which a successor shows that it waits.
//!
//! A successor holds the lock of a file in the directory that it asks for, until it has the directory. The kernel lets
//! go of it when the successor ends, however it does.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::exit;

/// The name of the file that a successor locks while it waits.
const NEXT: &str = "daemon.next";

/// A promise to a successor.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    /// The directory that it asked for.
    pub(crate) directory: PathBuf,
    /// Whether it locks [`NEXT`] while it waits.
    pub(crate) is_marked: bool,
}

impl Promise {
    /// Whether a successor waits at this moment.
    pub(crate) fn is_waited_for(&self) -> bool {
        is_locked(&self.directory.join(NEXT))
    }
}

/// The promise of this process, if a successor has asked; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Promises(Arc<Mutex<Option<Promise>>>);

impl Promises {
    /// Promises the directory; false when it was promised before.
    pub(crate) fn promise(&self, promise: Promise) -> bool {
        let mut promised = self.0.lock();
        let is_first = promised.is_none();
        promised.get_or_insert(promise);
        is_first
    }

    pub(crate) fn take_back(&self) {
        *self.0.lock() = None;
    }

    /// Gives the exit code of a process that has drained and would end with `code`: another one when the
    /// successor that asked for it has gone.
    pub(crate) fn end(&self, code: u8) -> u8 {
        let promised = self.0.lock();
        let lost = promised
            .as_ref()
            .filter(|promise| promise.is_marked && !promise.is_waited_for());
        match lost {
            Some(promise) if code == exit::OK => {
                tracing::error!(
                    directory = %promise.directory.display(),
                    "The successor has gone; ending with an error, to be started again"
                );
                exit::TEMPORARY
            }
            _ => code,
        }
    }
}

/// Whether another process has locked a file. One that cannot be opened is locked by none.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    // Had for a moment: a successor tries again.
    let tried = flock(&file, FlockOperation::NonBlockingLockShared);
    tried == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Shows the holder of the directory, for as long as the file is open, that a successor waits.
pub(crate) fn wait_mark(directory: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let file = options.open(directory.join(NEXT)).ok()?;
    // When another successor waits as well, its mark says the same.
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(file),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_well_while_its_successor_waits() {
        let directory = tempfile::tempdir().unwrap();
        let promise = |is_marked| Promise {
            directory: directory.path().to_owned(),
            is_marked,
        };
        let promises = Promises::default();
        assert_eq!(promises.end(exit::OK), exit::OK, "none has asked");
        // One of the version before, of which nothing can be seen.
        assert!(promises.promise(promise(false)));
        assert_eq!(promises.end(exit::OK), exit::OK);
        promises.take_back();
        let waits = wait_mark(directory.path());
        assert!(waits.is_some());
        assert!(promises.promise(promise(true)));
        assert!(!promises.promise(promise(true)), "it was promised");
        assert_eq!(promises.end(exit::OK), exit::OK);
        assert!(wait_mark(directory.path()).is_none(), "another one waits");
        drop(waits);
        assert_eq!(promises.end(exit::OK), exit::TEMPORARY);
        // A failure is one all the same.
        assert_eq!(promises.end(exit::SOFTWARE), exit::SOFTWARE);
    }
}
