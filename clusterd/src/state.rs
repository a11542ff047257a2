//! The last snapshot on disk, so that a restart serves it while the source is away.
//!
//! ```text
//! state  =  "outpost-clusterd-state\n"  version (u32)  CRC-32C of the rest (u32)  pieces
//! piece  =  length (varint)  WatchResponse (protobuf)
//! ```
//!
//! Integers are big endian. The pieces are those that a new subscriber gets. The file counts whole or not at all: one that is
//! damaged is moved aside, and clusterd begins with nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::Snapshot;
use daemon::drain::{Drain, Guard};
use daemon::latest::Reader;
use daemon::readiness::Readiness;
use durable::state::{self, Format, StateError};
use parking_lot::Mutex;
use prost::Message as _;
use proto::cluster::{Assembly, pieces};
use proto::wire::cluster::WatchResponse;

use crate::metrics::Counters;

/// The form of the file.
const FORMAT: Format = Format {
    service: "clusterd",
    version: 1,
    checksum: crc32c::crc32c,
    // A larger file is no state of ours: 20,000 slices of 100 endpoints have less.
    max_size: 512 << 20,
};
/// Between two writes at least: endpoints change all the time, and must not wear out the disk.
const REST: Duration = Duration::from_secs(5);
/// The pause after a write that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Encodes a snapshot.
#[must_use]
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let mut body = Vec::new();
    for piece in pieces(&snapshot.difference_from(None)) {
        body.extend(piece.encode_length_delimited_to_vec());
    }
    FORMAT.encode(&body)
}

/// Decodes a snapshot. Objects that this version cannot read are left out.
///
/// # Errors
/// When the octets are not those that [`encode`] wrote.
pub fn decode(octets: &[u8]) -> Result<Snapshot, StateError> {
    let mut body = FORMAT.content(octets)?;
    let mut assembly = Assembly::default();
    while !body.is_empty() {
        let piece = WatchResponse::decode_length_delimited(&mut body);
        if let Some(difference) = assembly.add(piece.map_err(|_| StateError::Damaged)?) {
            return Ok(Snapshot::default().with(difference));
        }
    }
    Err(StateError::Damaged)
}

/// The directory that holds the state.
pub type Store = state::Store<Snapshot>;

/// The state in a directory, which is made if it is not there.
///
/// # Errors
/// When the directory cannot be made.
pub fn open(directory: &Path) -> io::Result<Store> {
    Store::open(directory, &FORMAT, decode)
}

//--- Saver

/// How the last write went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The generation that is on disk; 0 before the first write.
    pub generation: u64,
    /// Why the last attempt failed.
    pub problem: Option<String>,
}

/// The task that writes.
#[derive(Debug)]
pub struct Saver {
    stop: Drain,
    saved: Arc<Mutex<Saved>>,
}

impl Saver {
    /// Writes whenever there is another snapshot.
    #[must_use]
    pub fn start(
        store: Store,
        snapshots: Reader<Snapshot>,
        readiness: Readiness,
        counters: Counters,
    ) -> Self {
        let (stop, guard) = Drain::new();
        let saved = Arc::default();
        let task = Task {
            store: Arc::new(store),
            snapshots,
            readiness,
            counters,
            guard,
            saved: Arc::clone(&saved),
        };
        tokio::spawn(task.run());
        Self { stop, saved }
    }

    /// How the last write went.
    #[must_use]
    pub fn saved(&self) -> Saved {
        self.saved.lock().clone()
    }

    /// Writes a last time; true when that was done in time.
    pub async fn finish(self, limit: Duration) -> bool {
        self.stop.finish(limit).await
    }
}

struct Task {
    store: Arc<Store>,
    snapshots: Reader<Snapshot>,
    readiness: Readiness,
    counters: Counters,
    guard: Guard,
    saved: Arc<Mutex<Saved>>,
}

impl Task {
    async fn run(mut self) {
        // Also without a change: a process that is killed twice must not use a generation twice.
        let mut is_saved = self.save(self.snapshots.shared()).await;
        loop {
            let change = async {
                match is_saved {
                    true => self.snapshots.changed().await,
                    false => tokio::time::sleep(AGAIN).await,
                }
            };
            tokio::select! {
                () = self.guard.asked() => {}
                () = change => {}
            }
            let is_last = self.guard.is_asked();
            let is_new = self.snapshots.refresh();
            let current = self.snapshots.shared();
            if is_new || !is_saved || self.saved.lock().generation != current.generation {
                is_saved = self.save(current).await;
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = self.guard.asked() => {}
                () = tokio::time::sleep(REST) => {}
            }
        }
    }

    async fn save(&self, snapshot: Arc<Snapshot>) -> bool {
        let (store, generation) = (Arc::clone(&self.store), snapshot.generation);
        let saved = tokio::task::spawn_blocking(move || store.save(&encode(&snapshot))).await;
        let saved = saved.unwrap_or_else(|error| Err(io::Error::other(error)));
        self.counters.saved(saved.is_ok());
        let problem = saved.err().map(|error| {
            let path = self.store.path();
            tracing::error!(path = %path.display(), %error, "State cannot be written");
            format!("{} cannot be written: {error}", path.display())
        });
        let mut state = self.saved.lock();
        if problem.is_none() {
            state.generation = generation;
        }
        state.problem.clone_from(&problem);
        drop(state);
        self.readiness.set_reason("state", problem.clone());
        problem.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cluster::{Freshness, Kind, Meta, Namespace, Object};

    use durable::state::Loaded;

    use super::*;

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for number in 0..2000 {
            let mut meta = Meta {
                name: format!("n{number}"),
                ..Meta::default()
            };
            meta.annotations.insert("a".to_owned(), "x".repeat(1000));
            snapshot.put(Object::Namespace(Namespace { meta }));
        }
        snapshot.set_freshness(Kind::Namespace, Freshness::Current);
        snapshot.generation = 7;
        snapshot
    }

    #[test]
    fn a_state_is_read_back_and_a_damaged_one_is_refused() {
        let octets = encode(&snapshot());
        assert_eq!(decode(&octets).unwrap(), snapshot());
        for place in [0, 24, 28, 40, octets.len() - 1] {
            let mut damaged = octets.clone();
            damaged[place] ^= 1;
            assert!(decode(&damaged).is_err(), "bit at {place}");
        }
        for length in [0, 10, 26, 30, octets.len() - 1] {
            assert!(
                decode(octets.get(..length).unwrap()).is_err(),
                "{length} octets"
            );
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_is_moved_aside() {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place.path().join("state")).unwrap();
        assert!(matches!(store.load(), Loaded::Absent));
        store.save(&encode(&snapshot())).unwrap();
        assert!(matches!(store.load(), Loaded::Restored(read) if read == snapshot()));
        fs::write(store.path(), "half").unwrap();
        assert!(
            matches!(store.load(), Loaded::Refused(refused) if refused.to_string().contains("state.refused"))
        );
        assert!(matches!(store.load(), Loaded::Absent));
    }
}
