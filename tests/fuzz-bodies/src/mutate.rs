//! Mutations of known inputs, the same for the same seed.

/// Makes inputs out of a corpus.
pub(super) struct Mutator<'a> {
    state: u64,
    words: &'static [&'static str],
    corpus: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    pub(super) fn new(seed: u64, words: &'static [&'static str], corpus: &'a [Vec<u8>]) -> Self {
        // Any state but zero; the multiplier spreads small seeds over all bits.
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            state,
            words,
            corpus,
        }
    }

    /// The next input.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let start = self.below(self.corpus.len());
        let mut bytes = self.corpus[start].clone();
        for _ in 0..=self.below(6) {
            self.change(&mut bytes);
        }
        bytes.truncate(MAX_INPUT);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.byte(),
            // The values at which lengths, pointers and counters turn over.
            2 if at < bytes.len() => {
                const EDGES: [u8; 10] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xff];
                bytes[at] = EDGES[self.below(EDGES.len())];
            }
            3 => {
                let byte = self.byte();
                bytes.insert(at, byte);
            }
            4 => {
                let end = bytes.len().min(at + 1 + self.below(8));
                drop(bytes.drain(at..end));
            }
            5 => {
                let end = bytes.len().min(at + 1 + self.below(32));
                let piece = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            6 => bytes.truncate(at),
            7 if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())].bytes();
                drop(bytes.splice(at..at, word));
            }
            // The head of this with the tail of another.
            _ => {
                let other = &self.corpus[self.below(self.corpus.len())];
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }

    fn byte(&mut self) -> u8 {
        self.random().to_le_bytes()[3]
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a length").max(1);
        usize::try_from((self.random() >> 16) % limit).expect("less than a length")
    }

    /// xorshift64*.
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Longer inputs find nothing that shorter ones do not, and take their time.
const MAX_INPUT: usize = 4096;
