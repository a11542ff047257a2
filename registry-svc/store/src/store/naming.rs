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
        self.begin(std::slice::from_ref(digest));
        let result = publish();
        self.end(std::slice::from_ref(digest), result.is_ok());
        result
    }

    /// The same for several at once, with a `publish` that syncs their directories last.
    pub(crate) fn name_and_sync_all<T, E>(
        &self,
        digests: &[Digest],
        publish: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let n_failed = self.begin(digests);
        let result = publish();
        self.end(digests, result.is_ok());
        if result.is_ok() {
            self.synced(digests, n_failed);
        }
        result
    }

    /// Content is being named from here on; returns how many names could not be made durable before.
    fn begin(&self, digests: &[Digest]) -> u64 {
        self.with(|names| {
            names.underway.extend(digests);
            names.n_failed
        })
    }

    fn end(&self, digests: &[Digest], is_durable: bool) {
        self.with(|names| {
            for digest in digests {
                if !is_durable {
                    names.synced.remove(&shard(digest));
                }
                names.underway.remove(digest);
            }
            names.n_failed += u64::from(!is_durable);
        });
    }

    /// The directories of content were synced, in an attempt that began after this number of failures.
    fn synced(&self, digests: &[Digest], n_failed: u64) {
        self.with(|names| {
            // A failure meanwhile may have come too late for this.
            if names.n_failed == n_failed {
                names.synced.extend(digests.iter().map(shard));
            }
        });
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
            self.synced(std::slice::from_ref(digest), n_failed);
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
        // Several at once sync their directories.
        octets[0] = 9;
        let elsewhere = Digest::Sha256(octets);
        let named: Result<(), ()> = naming.name_and_sync_all(&[elsewhere], || Ok(()));
        named.unwrap();
        assert!(!syncs(&naming, &elsewhere));
        // What failed may have been named all the same.
        naming.name(&one, || Err::<(), ()>(())).unwrap_err();
        assert_eq!(naming.ensure(&one, || Err(())), Err(()));
        assert!(syncs(&naming, &one) && !syncs(&naming, &one));
    }
}
