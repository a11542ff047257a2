//! Random numbers from a seed. Good enough to blur timestamps and to let some requests through; keys are made elsewhere.

/// A generator (xorshift64*).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// True once in two to the power of `log2` times on average.
    pub(super) fn one_in(&mut self, log2: u32) -> bool {
        // The upper bits are the better ones.
        let mask = 1_u64.checked_shl(log2).map_or(u64::MAX, |bound| bound - 1);
        (self.next() >> 20) & mask == 0
    }
}

/// Where in a table a value belongs: a hash that nobody can aim at without the seed.
pub(super) fn place(value: u128, seed: [u64; 2]) -> u64 {
    let [first, second] = seed;
    let [high, low] = [value >> 64, value & u128::from(u64::MAX)];
    let fold = |left: u128, right: u64| {
        let product =
            (left ^ u128::from(right)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (product >> 64) ^ (product & u128::from(u64::MAX))
    };
    let mixed = fold(fold(low, first) ^ high, second);
    u64::try_from(mixed & u128::from(u64::MAX)).unwrap_or_default()
}
