//! Bob Jenkins's 1996 hash ("lookup2", public domain), by which `PowerDNS` spreads clients and names over
//! members.
//!
//! The same function on the same bytes lets a client keep its answer when a site moves from one server to
//! the other. The hash does not resist chosen keys, and is not used where it would have to.

use std::net::IpAddr;

/// The golden ratio: an arbitrary start that is the same in every implementation.
const START: u32 = 0x9e37_79b9;
/// Octets taken in at once.
const BLOCK: usize = 12;

/// The hash of a client's address: its octets in network order, no port.
#[inline]
#[must_use]
pub fn address(address: IpAddr) -> u32 {
    match address.to_canonical() {
        IpAddr::V4(v4) => hash(v4.octets().into_iter()),
        IpAddr::V6(v6) => hash(v6.octets().into_iter()),
    }
}

/// The hash of a name in wire form, root label included, whatever the case of its letters.
#[inline]
#[must_use]
pub fn name(wire: &[u8]) -> u32 {
    hash(wire.iter().map(u8::to_ascii_lowercase))
}

/// The hash of bytes as they are.
#[must_use]
pub fn bytes(key: &[u8]) -> u32 {
    hash(key.iter().copied())
}

fn hash(key: impl ExactSizeIterator<Item = u8>) -> u32 {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut state = [START, START, 0];
    let mut block = [0; BLOCK];
    let mut filled = 0;
    for octet in key {
        if let Some(slot) = block.get_mut(filled) {
            *slot = octet;
        }
        filled += 1;
        if filled == BLOCK {
            state = mix(absorb(state, block));
            block = [0; BLOCK];
            filled = 0;
        }
    }
    // The lowest octet of the last word holds the length, so the rest of the key skips it.
    let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, _] = block;
    let tail = [k0, k1, k2, k3, k4, k5, k6, k7, 0, k8, k9, k10];
    let [a, b, c] = absorb(state, tail);
    let [_, _, c] = mix([a, b, c.wrapping_add(length)]);
    c
}

#[inline]
fn absorb([a, b, c]: [u32; 3], block: [u8; BLOCK]) -> [u32; 3] {
    let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11] = block;
    [
        a.wrapping_add(u32::from_le_bytes([k0, k1, k2, k3])),
        b.wrapping_add(u32::from_le_bytes([k4, k5, k6, k7])),
        c.wrapping_add(u32::from_le_bytes([k8, k9, k10, k11])),
    ]
}

/// Reversible mixing of three words, by the shifts its author found to avalanche.
#[inline]
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_a_name_does_not_change_its_hash() {
        assert_eq!(
            name(b"\x03WwW\x07Example\x03oRg\0"),
            name(b"\x03www\x07example\x03org\0")
        );
        assert_ne!(bytes(b"www"), bytes(b"WWW"));
    }

    #[test]
    fn a_mapped_address_hashes_as_the_address_it_maps() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(address(mapped), address("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn every_length_around_a_block_gives_its_own_hash() {
        let zeros = [0; 40];
        let hashes: std::collections::BTreeSet<u32> =
            (0..=zeros.len()).map(|n| bytes(&zeros[..n])).collect();
        assert_eq!(hashes.len(), zeros.len() + 1);
    }

    #[test]
    fn names_that_powerdns_tests_itself_with_hash_as_it_expects() {
        // Its regression tests hold that of 42 + 15 parts these two names differ, and which is
        // which; the parts lie in the order `select::hash_map_order` describes.
        let part = |text: &str| {
            let name = dns_wire::Name::parse(text).unwrap();
            super::name(name.as_wire()) % 57
        };
        assert!(part("test.namehashed.example.org") >= 42);
        assert!(part("test2.namehashed.example.org") < 42);
    }
}
