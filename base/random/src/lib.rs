//! Unguessable numbers, all from one seed.
//!
//! Requests carry a random number instead of the time, and an attacker who guesses it can answer in the server's name: the generator
//! is a block cipher in counter mode. The same seed gives the same numbers, as simulations need.

use std::fmt;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};

/// A generator.
#[derive(Clone)]
pub struct Random {
    cipher: Aes128,
    counter: u128,
}

impl Random {
    /// From a seed, which has to be a secret where it matters.
    #[must_use]
    pub fn new(seed: [u8; 16]) -> Self {
        Self {
            cipher: Aes128::new(&seed.into()),
            counter: 0,
        }
    }

    /// 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [high, _] = self.block();
        high
    }

    /// A number from 0 to below 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits are what a float has room for"
    )]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Another generator, whose numbers say nothing of this one's.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let [high, low] = self.block();
        Self::new(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }

    #[inline]
    fn block(&mut self) -> [u64; 2] {
        let mut block = self.counter.to_be_bytes().into();
        self.counter = self.counter.wrapping_add(1);
        self.cipher.encrypt_block(&mut block);
        let whole = u128::from_be_bytes(block.into());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the halves of a block are what is wanted"
        )]
        let halves = [(whole >> 64) as u64, whole as u64];
        halves
    }
}

impl fmt::Debug for Random {
    /// Without the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random")
            .field("counter", &self.counter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_others() {
        let numbers = |seed: u8| {
            let mut random = Random::new([seed; 16]);
            let mut fork = random.fork();
            (0..100)
                .flat_map(|_| [random.bits(), fork.bits()])
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        let all: BTreeSet<u64> = numbers(1).into_iter().chain(numbers(2)).collect();
        assert_eq!(all.len(), 400, "no number comes twice");
    }

    #[test]
    fn units_are_spread_over_their_range() {
        let mut random = Random::new([7; 16]);
        let mut tenths = [0; 10];
        for _ in 0..10_000 {
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
            for (tenth, count) in tenths.iter_mut().enumerate() {
                let low = f64::from(u8::try_from(tenth).unwrap()) / 10.0;
                *count += u32::from((low..low + 0.1).contains(&unit));
            }
        }
        assert!(tenths.iter().all(|n| (800..1200).contains(n)), "{tenths:?}");
    }

    #[test]
    fn debugging_does_not_tell_the_seed() {
        assert_eq!(
            format!("{:?}", Random::new([1; 16])),
            "Random { counter: 0, .. }"
        );
    }
}
