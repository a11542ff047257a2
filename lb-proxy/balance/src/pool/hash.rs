//! A hash that is the same on every node and in every version.

use std::net::IpAddr;

/// The hash of `octets` under `seed` (FNV-1a, then mixed).
pub(crate) fn of(octets: &[u8], seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ mix(seed);
    for octet in octets {
        hash ^= u64::from(*octet);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// The hash of an address; the same for both forms of an IPv4 address.
pub(crate) fn of_address(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => mix(u64::from(address.to_bits()) | 1 << 32),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let (high, low) = octets.split_at(8);
            mix(mix(word(high)) ^ word(low))
        }
    }
}

/// Spreads the bits of `value` over the whole word (the finalizer of `SplitMix64`).
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The number below `bound` that `hash` stands for, without a division.
#[inline]
pub(crate) fn below(hash: u64, bound: usize) -> usize {
    let product = u128::from(hash) * (bound as u128);
    usize::try_from(product >> 64).unwrap_or(0)
}

fn word(octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(0, |word, octet| word << 8 | u64::from(*octet))
}
