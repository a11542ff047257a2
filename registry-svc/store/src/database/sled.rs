//! An index in a sled database.
//!
//! sled's own recovery is never relied on: a database is opened only when an orderly stop left it
//! and it still holds the same entries as then ([`Summary`]); any other is thrown away. A thread of
//! its own opens it, with a deadline. If panics unwind, a panic inside sled is an error like any
//! other; if they end the process, [`trial`](super::trial) opens the database in another process
//! first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use registry_facts::index::{Batch, Entry, Index, IndexError, Summary, summary};

/// A database, open.
#[derive(Clone)]
pub struct SledIndex {
    database: ::sled::Db,
}

impl SledIndex {
    /// Opens a database, or makes one in a directory that is not there; keeps about `memory` octets
    /// of it in memory.
    ///
    /// # Errors
    ///
    /// Fails when it does not open within `limit`.
    pub fn open(directory: &Path, memory: u64, limit: Duration) -> Result<Self, IndexError> {
        let directory = directory.to_owned();
        on_a_thread(limit, move || Self::open_here(&directory, memory))
    }

    /// Opens a database that must hold what it held when it was closed.
    ///
    /// # Errors
    ///
    /// Fails when it does not open within `limit`, or holds something else.
    pub fn open_as_left(
        directory: &Path,
        memory: u64,
        left: Summary,
        limit: Duration,
    ) -> Result<Self, IndexError> {
        let directory = directory.to_owned();
        on_a_thread(limit, move || {
            let index = Self::open_here(&directory, memory)?;
            if summary(&index)? == left {
                Ok(index)
            } else {
                Err(IndexError::Changed)
            }
        })
    }

    fn open_here(directory: &Path, memory: u64) -> Result<Self, IndexError> {
        guard(|| {
            let database = ::sled::Config::new()
                .path(directory)
                .mode(::sled::Mode::HighThroughput)
                .cache_capacity(memory)
                // The journal is durable; this is flushed when it is closed.
                .flush_every_ms(None)
                .open()?;
            Ok(Self { database })
        })
    }
}

impl std::fmt::Debug for SledIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SledIndex").finish_non_exhaustive()
    }
}

impl Index for SledIndex {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        guard(|| Ok(self.database.get(key)?.map(|value| value.to_vec())))
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>, IndexError> {
        guard(|| {
            let mut entries = Vec::new();
            let from = match after {
                Some(after) if after >= prefix => std::ops::Bound::Excluded(after),
                _ => std::ops::Bound::Included(prefix),
            };
            let range = (from, std::ops::Bound::Unbounded);
            for entry in self.database.range::<&[u8], _>(range).take(limit) {
                let (key, value) = entry?;
                if !key.starts_with(prefix) {
                    break;
                }
                entries.push((key.to_vec(), value.to_vec()));
            }
            Ok(entries)
        })
    }

    fn write(&self, batch: Batch) -> Result<(), IndexError> {
        guard(|| {
            let mut changes = ::sled::Batch::default();
            for (key, value) in batch {
                match value {
                    Some(value) => changes.insert(key, value),
                    None => changes.remove(key),
                }
            }
            self.database.apply_batch(changes)
        })
    }

    fn flush(&self) -> Result<(), IndexError> {
        guard(|| self.database.flush().map(drop))
    }
}

/// Runs a piece of sled; its panics are errors where panics unwind.
fn guard<T>(work: impl FnOnce() -> ::sled::Result<T>) -> Result<T, IndexError> {
    // None of our values is left half done: the caller that gets the error throws the database
    // away.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| IndexError::Failed(error.to_string())),
        Err(_) => Err(IndexError::Failed("it panicked".to_owned())),
    }
}

/// Runs `work` on a thread of its own and gives it up when it takes too long.
fn on_a_thread<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let spawned = thread::Builder::new()
        .name("index".to_owned())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let result =
                result.unwrap_or_else(|_| Err(IndexError::Failed("it panicked".to_owned())));
            // The waiting caller may have given up.
            drop(sender.send(result));
        });
    if let Err(error) = spawned {
        return Err(IndexError::Failed(error.to_string()));
    }
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(_) => Err(IndexError::Late(limit)),
    }
}
