//! Names of content that are durable.
//!
//! Content gets its name, and then its directory is synced. Between the two it can be seen; a
//! statement that a repository has it must not rely on that name before it is durable.

use std::collections::HashSet;

use oci::digest::{Algorithm, Digest};
use parking_lot::Mutex;

/// Names that may not be durable.
#[derive(Debug, Default)]
pub(crate) struct Naming(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// Content that is being named: as many as there are requests at work.
    underway: HashSet<Digest>,
    /// Directories that were synced since the process began and since the last attempt that failed: a
    /// process that was killed may have left a name that a loss of power takes away.
    synced: HashSet<(Algorithm, u8)>,
    /// How many names could not be made durable.
    n_failed: u64,
}

impl Naming {
    /// Has `publish` give content its name and make that durable.
    pub(crate) fn name<T, E>(
        &self,
        digest: &Digest,
        publish: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.with(|names| names.underway.insert(*digest));
        let result = publish();
        self.with(|names| {
            if result.is_err() {
                names.synced.remove(&shard(digest));
                names.n_failed += 1;
            }
            names.underway.remove(digest)
        });
        result
    }

    /// Runs `sync` on the directory of content that can be seen, if its name may not be durable.
    pub(crate) fn ensure<E>(
        &self,
        digest: &Digest,
        sync: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let (is_durable, n_failed) = self.with(|names| {
            let is_synced = names.synced.contains(&shard(digest));
            let is_durable = is_synced && !names.underway.contains(digest);
            (is_durable, names.n_failed)
        });
        if !is_durable {
            sync()?;
            self.with(|names| {
                // A failure meanwhile may have come too late for this.
                if names.n_failed == n_failed {
                    names.synced.insert(shard(digest));
                }
            });
        }
        Ok(())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Names) -> T) -> T {
        change(&mut self.0.lock())
    }
}

fn shard(digest: &Digest) -> (Algorithm, u8) {
    (digest.algorithm(), digest.shard())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the directory is synced for `digest`.
    fn syncs(naming: &Naming, digest: &Digest) -> bool {
        let mut is_synced = false;
        let sync = || {
            is_synced = true;
            Ok::<(), ()>(())
        };
        naming.ensure(digest, sync).unwrap();
        is_synced
    }

    #[test]
    fn a_name_is_relied_on_when_it_is_durable() {
        let naming = Naming::default();
        let mut octets = [7; 32];
        let one = Digest::Sha256(octets);
        octets[31] = 8;
        let beside = Digest::Sha256(octets);
        // Whatever a process before left.
        assert!(syncs(&naming, &one));
        assert!(!syncs(&naming, &one) && !syncs(&naming, &beside));
        let named: Result<(), ()> = naming.name(&one, || {
            assert!(syncs(&naming, &one) && !syncs(&naming, &beside));
            Ok(())
        });
        named.unwrap();
        assert!(!syncs(&naming, &one));
        // What failed may have been named all the same.
        naming.name(&one, || Err::<(), ()>(())).unwrap_err();
        assert_eq!(naming.ensure(&one, || Err(())), Err(()));
        assert!(syncs(&naming, &one) && !syncs(&naming, &one));
    }
}
