//! The place of a value in a table.

/// The place of a value in a table: a hash that an attacker cannot aim at without the seed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_spread_and_seeds_differ() {
        let mut counts = [0; 64];
        let mut n_same = 0;
        for value in 0..6400_u128 {
            let index = place(value, [1, 2]) % 64;
            counts[usize::try_from(index).unwrap()] += 1;
            n_same += u32::from(index == place(value, [3, 4]) % 64);
        }
        // 100 each on average, with a deviation of 10.
        assert!(
            counts.iter().all(|count| (50..150).contains(count)),
            "{counts:?}"
        );
        assert!((50..150).contains(&n_same), "{n_same}");
    }
}
