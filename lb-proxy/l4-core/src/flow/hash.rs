//! How the table of flows hashes.

use std::hash::{BuildHasher, Hasher};

use balance::pool::mix;

/// Hashes keys in a way that who sends datagrams cannot foresee.
#[derive(Debug, Clone)]
pub(super) struct Seed(pub(super) u64);

pub(super) struct KeyHasher(u64);

impl BuildHasher for Seed {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let word = chunk
                .iter()
                .fold(0, |word, octet| word << 8 | u64::from(*octet));
            self.0 = mix(self.0 ^ word);
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = mix(self.0 ^ u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u32(number.into());
    }

    fn write_isize(&mut self, number: isize) {
        self.write(&number.to_ne_bytes());
    }
}
