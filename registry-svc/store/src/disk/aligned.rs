//! Memory for reads and writes past the page cache.

use super::ALIGNMENT;

/// Octets that begin at a multiple of [`ALIGNMENT`] in memory, and never move.
#[derive(Debug, Default)]
pub struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    /// `length` octets, all zero. The system provides the memory once it is used.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self {
            memory,
            begin,
            length,
        }
    }

    /// All octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        let end = self.begin + self.length;
        self.memory.get(self.begin..end).unwrap_or_default()
    }

    /// All octets, to change them.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        let end = self.begin + self.length;
        self.memory.get_mut(self.begin..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_as_long_as_asked_for() {
        for length in [0, 1, ALIGNMENT, 3 * ALIGNMENT + 1] {
            let mut aligned = Aligned::new(length);
            assert!(aligned.octets().as_ptr().addr().is_multiple_of(ALIGNMENT));
            assert_eq!(aligned.octets(), vec![0; length]);
            aligned.octets_mut().fill(7);
            assert_eq!(aligned.octets(), vec![7; length]);
        }
    }
}
