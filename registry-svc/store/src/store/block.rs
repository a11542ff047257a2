//! Octets gathered into blocks that can go to the disk past the page cache.
//!
//! Copying pushed content into the page cache costs more than all other work on it, several times
//! more on a virtual machine whose host has yet to provide its memory, and it displaces pages that
//! the node needs. A block that is aligned in memory and in the file avoids that.

use parking_lot::Mutex;

use crate::disk::Aligned;

/// The length of a block: long enough that the disk is not waited for often, short enough for one
/// to be held by every push that is under way.
#[cfg(not(test))]
pub(crate) const BLOCK: usize = 512 << 10;

/// In tests of a length that the small content of simulated pushes fills.
#[cfg(test)]
pub(crate) const BLOCK: usize = 2 * crate::disk::ALIGNMENT;

/// Memory that is kept for the next blocks: as much as clients push at once, and no more than 4
/// MiB.
static KEPT: Mutex<Vec<Aligned>> = Mutex::new(Vec::new());

/// As many layers as skopeo and podman push at once, and some.
const MOST_KEPT: usize = 8;

/// Octets from an aligned place of a file on, in aligned memory.
#[derive(Debug)]
pub(crate) struct Block {
    memory: Aligned,
    n_filled: usize,
}

impl Block {
    pub(crate) fn new() -> Self {
        let kept = KEPT.lock().pop();
        Self {
            memory: kept.unwrap_or_else(|| Aligned::new(BLOCK)),
            n_filled: 0,
        }
    }

    /// Takes as much of `octets` as there is room for, and returns the rest.
    pub(crate) fn take<'a>(&mut self, octets: &'a [u8]) -> &'a [u8] {
        let room = self.memory.octets_mut().get_mut(self.n_filled..);
        let room = room.unwrap_or_default();
        let (taken, rest) = octets.split_at(room.len().min(octets.len()));
        if let Some(place) = room.get_mut(..taken.len()) {
            place.copy_from_slice(taken);
        }
        self.n_filled += taken.len();
        rest
    }

    pub(crate) fn octets(&self) -> &[u8] {
        self.memory
            .octets()
            .get(..self.n_filled)
            .unwrap_or_default()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.n_filled == BLOCK
    }

    pub(crate) fn clear(&mut self) {
        self.n_filled = 0;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut kept = KEPT.lock();
        if kept.len() < MOST_KEPT {
            kept.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::ALIGNMENT;

    #[test]
    fn a_block_is_aligned_and_never_moves() {
        let mut block = Block::new();
        for round in 0..3_u8 {
            let octets = vec![round; BLOCK / 3];
            let mut n_taken = 0;
            while !block.is_full() {
                n_taken += octets.len() - block.take(&octets).len();
                assert!(block.octets().as_ptr().addr().is_multiple_of(ALIGNMENT));
            }
            assert_eq!(n_taken, BLOCK);
            assert_eq!(block.take(&octets), octets);
            assert!(block.octets().iter().all(|octet| *octet == round));
            block.clear();
            assert_eq!(block.octets(), b"");
        }
    }
}
