//! Locks on digests and repositories, spread over a fixed number.
//!
//! A caller that makes a reference to content holds its digest's lock shared until the reference is
//! durable; a caller that removes content holds it alone. Two digests may share a lock, so a caller
//! that holds several takes them in the order of their places, each once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How many there are: many more than requests that are at work at once.
const N_LOCKS: usize = 1024;

/// Some locks.
#[derive(Debug)]
pub(crate) struct Locks {
    locks: Box<[Arc<RwLock<()>>]>,
}

/// Locks that are held shared.
#[derive(Debug)]
pub struct Shared {
    _guards: Vec<OwnedRwLockReadGuard<()>>,
}

/// A lock that is held alone.
#[derive(Debug)]
pub struct Alone {
    _guard: OwnedRwLockWriteGuard<()>,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self {
            locks: (0..N_LOCKS).map(|_| Arc::default()).collect(),
        }
    }

    /// Holds the locks of some names together with others who do.
    pub(crate) async fn shared<'a, T: Hash + 'a>(
        &self,
        names: impl IntoIterator<Item = &'a T>,
    ) -> Shared {
        let places: BTreeSet<usize> = names.into_iter().map(place).collect();
        let mut guards = Vec::with_capacity(places.len());
        for place in places {
            if let Some(lock) = self.locks.get(place) {
                guards.push(Arc::clone(lock).read_owned().await);
            }
        }
        Shared { _guards: guards }
    }

    /// Holds the lock of one name alone.
    pub(crate) async fn alone<T: Hash>(&self, name: &T) -> Alone {
        let lock = self.locks.get(place(name)).map(Arc::clone);
        Alone {
            _guard: lock.unwrap_or_default().write_owned().await,
        }
    }
}

fn place<T: Hash>(name: &T) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    usize::try_from(hasher.finish() % N_LOCKS as u64).unwrap_or(0)
}
