//! Unpredictable bits from the kernel, fetched in blocks.
//!
//! Ids, ports and letter case of queries must not be guessed (RFC 5452 §9.2), so they come from
//! the kernel's own generator and not from one seeded by it.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use dns_resolve::exchange::Entropy;
use rustix::rand::{GetRandomFlags, getrandom};

/// Octets fetched at a time, enough for a few dozen queries.
const FETCH: usize = 512;

/// Bits from the kernel.
pub struct SystemEntropy {
    pool: [u8; FETCH],
    used: usize,
}

impl Default for SystemEntropy {
    fn default() -> Self {
        Self {
            pool: [0; FETCH],
            used: FETCH,
        }
    }
}

impl fmt::Debug for SystemEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemEntropy").finish_non_exhaustive()
    }
}

impl SystemEntropy {
    fn fetch(&mut self) {
        let mut filled = 0;
        while let Some(rest) = self.pool.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(n) => filled += n,
                Err(error) if error == rustix::io::Errno::INTR => {}
                Err(_) => {
                    // Never happens with a supported kernel; this is the standard library's own fallback.
                    for chunk in rest.chunks_mut(8) {
                        let bits = RandomState::new().build_hasher().finish().to_le_bytes();
                        for (to, from) in chunk.iter_mut().zip(bits) {
                            *to = from;
                        }
                    }
                    break;
                }
            }
        }
        self.used = 0;
    }
}

impl Entropy for SystemEntropy {
    fn next(&mut self) -> u64 {
        if self.used + 8 > FETCH {
            self.fetch();
        }
        let bytes = self.pool.get_mut(self.used..self.used + 8);
        self.used += 8;
        bytes.map_or(0, |bytes| {
            let mut taken = [0; 8];
            taken.copy_from_slice(bytes);
            // Random octets that were used do not stay in memory.
            bytes.fill(0);
            u64::from_le_bytes(taken)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_do_not_repeat() {
        let mut entropy = SystemEntropy::default();
        let drawn: std::collections::BTreeSet<u64> = (0..10_000).map(|_| entropy.next()).collect();
        assert_eq!(drawn.len(), 10_000);
    }
}
