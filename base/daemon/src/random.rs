//! Seeds that no client can guess.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A new seed, made of the keys that the system gives every hash map.
#[must_use]
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
