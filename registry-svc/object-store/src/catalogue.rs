//! The known objects: their sizes, and when they were last written or wanted.

use std::collections::BTreeMap;
use std::time::SystemTime;

use oci::digest::{Algorithm, Digest};
use parking_lot::{Mutex, MutexGuard};
use registry_store::disk::Status;

/// The state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

impl Object {
    pub(super) const fn status(self) -> Status {
        Status {
            // A file's number says that it was replaced; an object has none.
            inode: 0,
            size: self.size,
            modified: self.modified,
        }
    }
}

/// All objects.
#[derive(Debug)]
pub(super) struct Catalogue {
    by_digest: Mutex<BTreeMap<Digest, Object>>,
}

impl Catalogue {
    pub(super) fn new(objects: BTreeMap<Digest, Object>) -> Self {
        Self {
            by_digest: Mutex::new(objects),
        }
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Object> {
        self.lock().get(digest).copied()
    }

    pub(super) fn insert(&self, digest: Digest, object: Object) {
        self.lock().insert(digest, object);
    }

    pub(super) fn remove(&self, digest: &Digest) -> Option<Object> {
        self.lock().remove(digest)
    }

    /// Makes an object look as if it was written now; false when there is none.
    pub(super) fn touch(&self, digest: &Digest, now: SystemTime) -> bool {
        match self.lock().get_mut(digest) {
            Some(object) => {
                object.modified = now;
                true
            }
            None => false,
        }
    }

    /// The names of the objects that a directory of the store's layout would have, sorted.
    pub(super) fn shard(&self, algorithm: &str, shard: &str) -> Vec<String> {
        let (Ok(algorithm), Ok(first)) = (algorithm.parse(), u8::from_str_radix(shard, 16)) else {
            return Vec::new();
        };
        let from = lowest(algorithm, first);
        let objects = self.lock();
        objects
            .range(from..)
            .take_while(|(digest, _)| digest.algorithm() == algorithm && digest.shard() == first)
            .map(|(digest, _)| digest.hex())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Object>> {
        self.by_digest.lock()
    }
}

/// The first digest of a shard.
fn lowest(algorithm: Algorithm, first: u8) -> Digest {
    let mut octets = vec![0; algorithm.n_octets()];
    if let Some(octet) = octets.first_mut() {
        *octet = first;
    }
    Digest::from_octets(algorithm, &octets).unwrap_or(Digest::Sha256([0; 32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_its_objects_alone() {
        let modified = SystemTime::UNIX_EPOCH;
        let object = Object { size: 1, modified };
        let catalogue = Catalogue::new(BTreeMap::new());
        let mut expected = BTreeMap::new();
        for number in 0..600_u32 {
            for algorithm in Algorithm::ALL {
                let digest = Digest::of(algorithm, &number.to_be_bytes());
                catalogue.insert(digest, object);
                let shard = (algorithm.name(), format!("{:02x}", digest.shard()));
                expected
                    .entry(shard)
                    .or_insert_with(Vec::new)
                    .push(digest.hex());
            }
        }
        for ((algorithm, shard), mut names) in expected {
            names.sort();
            assert_eq!(
                catalogue.shard(algorithm, &shard),
                names,
                "{algorithm} {shard}"
            );
        }
        assert!(catalogue.shard("md5", "00").is_empty());
        assert!(catalogue.shard("sha256", "zz").is_empty());
    }

    #[test]
    fn what_is_not_there_cannot_be_touched() {
        let digest = Digest::of(Algorithm::Sha256, b"");
        let catalogue = Catalogue::new(BTreeMap::new());
        let later = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
        assert!(!catalogue.touch(&digest, later));
        let modified = SystemTime::UNIX_EPOCH;
        catalogue.insert(digest, Object { size: 0, modified });
        assert!(catalogue.touch(&digest, later));
        assert_eq!(
            catalogue.get(&digest).map(|object| object.modified),
            Some(later)
        );
    }
}
