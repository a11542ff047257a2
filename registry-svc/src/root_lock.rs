//! One process at a time has the registry's root.
//!
//! The kernel lets go of the lock when the process ends, however it does. The file says who holds
//! it, for people and for a successor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

/// The name of the file below the root.
const NAME: &str = "daemon.lock";

/// How often a lock that somebody holds is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// Roots that are kept until the process ends.
static KEPT: Mutex<Vec<RootLock>> = Mutex::new(Vec::new());

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct RootLock {
    _file: File,
}

/// Why the root is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{root} is in use{}", by(*pid), root = root.display())]
    Held {
        /// The root.
        root: PathBuf,
        /// Whose it is, if it has said so.
        pid: Option<u32>,
    },
    /// It cannot be had.
    #[error("cannot lock {root}", root = root.display())]
    Io {
        /// The root.
        root: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

impl RootLock {
    /// Takes the root, which is made if it is not there.
    ///
    /// # Errors
    /// When another process has it, or the system refuses.
    pub fn take(root: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io {
            root: root.to_owned(),
            source,
        };
        fs::create_dir_all(root).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(root.join(NAME))
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _read = (&file).take(32).read_to_string(&mut text);
                return Err(LockError::Held {
                    root: root.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        file.set_len(0).map_err(failed)?;
        let pid = std::process::id();
        file.write_all(format!("{pid}\n").as_bytes())
            .map_err(failed)?;
        Ok(Self { _file: file })
    }

    /// Keeps the root until the process ends.
    pub fn keep(self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(self);
    }

    /// Takes the root once who has it lets go; gives up after `patience`.
    ///
    /// # Errors
    /// When it is still held then, or the system refuses.
    pub async fn wait(root: &Path, patience: Duration) -> Result<Self, LockError> {
        let waited = tokio::time::timeout(patience, async {
            loop {
                let taken = Self::take(root);
                tokio::time::sleep(RETRY).await;
                // A process that ends lets go of its files one after the other, in a moment: that
                // has passed.
                if !matches!(taken, Err(LockError::Held { .. })) {
                    return taken;
                }
            }
        });
        match waited.await {
            Ok(taken) => taken,
            Err(_) => Self::take(root),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_held_by_one_and_free_once_it_is_dropped() {
        let name = format!("outpost-registry-lock-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let first = RootLock::take(&root).unwrap();
        let refused = RootLock::take(&root).unwrap_err();
        let text = refused.to_string();
        let us = format!(" is in use by process {}", std::process::id());
        assert!(text.ends_with(&us), "{text}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let waited = runtime.block_on(RootLock::wait(&root, Duration::from_millis(1)));
        assert!(matches!(waited, Err(LockError::Held { .. })));
        let second = runtime.block_on(async {
            let waiting = RootLock::wait(&root, Duration::from_secs(60));
            drop(first);
            waiting.await
        });
        drop(second.unwrap());
        fs::remove_dir_all(root).unwrap();
    }
}
