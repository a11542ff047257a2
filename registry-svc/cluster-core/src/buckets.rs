//! Sums by which two nodes detect whether they have the same content.
//!
//! Each register falls into one of 256 buckets by the hash of its key, and a bucket is known by how
//! many it has and the XOR of their hashes. Equal buckets have equal registers, so two nodes that
//! agree exchange a few kilobytes; only buckets that differ are listed. Blobs are compared the same
//! way by their digests.
//!
//! Tombstones are left out of the sums: each node forgets old ones in its own time, and content that
//! is gone on both sides is equal. They are in the lists, because a tombstone is what repairs a side
//! that still shows what was deleted.

use std::collections::{BTreeMap, BTreeSet};

use oci::digest::{Algorithm, Digest};
use registry_facts::record::{Fact, Key, Rank, Stamped};
use registry_proto as wire;

/// How many buckets there are.
pub const N_BUCKETS: usize = 256;

/// The sums over a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets([Bucket; N_BUCKETS]);

/// How many are in a bucket, and the XOR of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    count: u64,
    hash: u64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self([Bucket::default(); N_BUCKETS])
    }
}

impl Buckets {
    /// Counts a register, unless it is a tombstone.
    pub fn add_register(&mut self, register: &Stamped) {
        if !register.fact.is_tombstone() {
            self.add(bucket_of(&register.fact.key()), hash_of(register));
        }
    }

    /// Counts a blob, once.
    pub fn add_blob(&mut self, digest: &Digest) {
        self.add(digest.shard(), short(digest));
    }

    fn add(&mut self, bucket: u8, hash: u64) {
        if let Some(bucket) = self.0.get_mut(usize::from(bucket)) {
            bucket.count += 1;
            bucket.hash ^= hash;
        }
    }

    /// How many there are in all.
    #[must_use]
    pub fn n_counted(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.count).sum()
    }

    /// The buckets in which two sets differ.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<u8> {
        (0..=u8::MAX)
            .zip(self.0.iter().zip(&other.0))
            .filter_map(|(number, (here, there))| (here != there).then_some(number))
            .collect()
    }

    /// The form on the wire.
    #[must_use]
    pub fn to_wire(&self) -> Vec<wire::Bucket> {
        let bucket = |bucket: &Bucket| wire::Bucket {
            count: bucket.count,
            hash: bucket.hash,
        };
        self.0.iter().map(bucket).collect()
    }

    /// Reads the form on the wire; none unless there are as many as there have to be.
    #[must_use]
    pub fn from_wire(buckets: &[wire::Bucket]) -> Option<Self> {
        let buckets: Vec<Bucket> = buckets
            .iter()
            .map(|bucket| Bucket {
                count: bucket.count,
                hash: bucket.hash,
            })
            .collect();
        Some(Self(buckets.try_into().ok()?))
    }
}

/// The bucket of a key.
#[must_use]
pub fn bucket_of(key: &Key) -> u8 {
    let hash = match key {
        Key::Blob { repository, digest } => hash(&["b", repository.as_str(), &digest.to_string()]),
        Key::Manifest { repository, digest } => {
            hash(&["m", repository.as_str(), &digest.to_string()])
        }
        Key::Tag { repository, tag } => hash(&["t", repository.as_str(), tag.as_str()]),
        Key::Node { name } => hash(&["n", name.as_str()]),
    };
    hash.shard()
}

/// The hash of a register: its key, its value, and what decides whether it holds.
fn hash_of(register: &Stamped) -> u64 {
    let rank = [
        register.stamp.to_bits().to_string(),
        register.origin.to_string(),
    ];
    let (kind, repository, name, value) = match &register.fact {
        Fact::Blob {
            repository,
            digest,
            size,
        } => (
            "b",
            repository.as_str(),
            digest.to_string(),
            format!("{size:?}"),
        ),
        Fact::Manifest {
            repository,
            digest,
            link,
        } => {
            let value = link.as_ref().map(|link| (&link.media_type, link.size));
            (
                "m",
                repository.as_str(),
                digest.to_string(),
                format!("{value:?}"),
            )
        }
        Fact::Tag {
            repository,
            tag,
            target,
        } => {
            let target = target.as_ref().map(ToString::to_string);
            (
                "t",
                repository.as_str(),
                tag.to_string(),
                target.unwrap_or_default(),
            )
        }
        Fact::Node { name, membership } => {
            ("n", "", name.as_str().to_owned(), format!("{membership:?}"))
        }
    };
    let [stamp, origin] = &rank;
    short(&hash(&[kind, repository, &name, &value, stamp, origin]))
}

/// The hash of a list of texts that do not contain the separator.
fn hash(parts: &[&str]) -> Digest {
    Digest::of(Algorithm::Sha256, parts.join("\n").as_bytes())
}

/// Sixty-four bits of a hash: enough that no two of a registry's registers are taken for each other.
fn short(digest: &Digest) -> u64 {
    // Not the first octets: those of one bucket are alike.
    let octets = digest
        .octets()
        .get(8..16)
        .and_then(|octets| octets.try_into().ok());
    u64::from_be_bytes(octets.unwrap_or_default())
}

//--- Differences

/// Registers by their keys.
pub type Registers = BTreeMap<Key, Stamped>;

/// The registers that a node has to take over from another one: those that are missing here, and
/// those that win against the ones here.
#[must_use]
pub fn repairs(here: &Registers, there: &Registers) -> Vec<Stamped> {
    let outdated = |(key, register): &(&Key, &Stamped)| {
        let rank = |register: &Stamped| -> Rank { register.rank() };
        here.get(key).map(rank) < Some(register.rank())
    };
    let mut repairs: Vec<Stamped> = there
        .iter()
        .filter(outdated)
        .map(|(_, register)| register.clone())
        .collect();
    // Registers deleted on both sides are equal, however long either remembers them.
    repairs.retain(|register| {
        !register.fact.is_tombstone() || here.contains_key(&register.fact.key())
    });
    repairs
}

/// Something that two nodes do not have alike.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "short lists, mostly of the larger kind"
)]
pub enum Difference {
    /// A register that does not show the same.
    Register {
        /// The key.
        key: Key,
        /// The register of this node.
        here: Option<Stamped>,
        /// The register of the other node.
        there: Option<Stamped>,
    },
    /// A blob that only one of them holds.
    Blob {
        /// The blob.
        digest: Digest,
        /// Whether this node is the one.
        here: bool,
    },
}

/// The registers that two nodes do not have alike; tombstones are like nothing.
#[must_use]
pub fn register_differences(here: &Registers, there: &Registers) -> Vec<Difference> {
    let keys: BTreeSet<&Key> = here.keys().chain(there.keys()).collect();
    let shown = |registers: &Registers, key: &Key| {
        let register = registers.get(key)?;
        (!register.fact.is_tombstone()).then(|| register.clone())
    };
    keys.into_iter()
        .filter_map(|key| {
            let (here, there) = (shown(here, key), shown(there, key));
            let alike = match (&here, &there) {
                (Some(here), Some(there)) => here.rank() == there.rank() && here.fact == there.fact,
                (here, there) => here.is_none() && there.is_none(),
            };
            (!alike).then(|| Difference::Register {
                key: key.clone(),
                here,
                there,
            })
        })
        .collect()
}

/// The blobs that only one of two nodes holds.
#[must_use]
pub fn blob_differences(here: &BTreeSet<Digest>, there: &BTreeSet<Digest>) -> Vec<Difference> {
    here.symmetric_difference(there)
        .map(|digest| Difference::Blob {
            digest: *digest,
            here: here.contains(digest),
        })
        .collect()
}

#[cfg(test)]
mod tests;
