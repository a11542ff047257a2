//! The chain of names that proves what a signed zone does not have: NSEC (RFC 4034 §4) or NSEC3 (RFC 5155).
//!
//! Finds the records that match or cover a name. `proof` says which of them a response needs.

use std::cmp::Ordering;

use dns_wire::name::labels;
use dns_wire::{Name, Type};
use sha1::{Digest, Sha1};

use super::Zone;
use crate::name_table::Index;

/// The most extra iterations of a hash (RFC 5155 §10.3). A zone with more has no proofs: each query would cost
/// thousands of hashes.
const MAX_ITERATIONS: u16 = 2500;
/// SHA-1, the only hash of NSEC3 (RFC 5155 §11).
const SHA1: u8 = 1;

/// The hash of a name.
type Hash = [u8; 20];

/// The proofs of a signed zone.
#[derive(Debug)]
pub(super) enum Denial {
    /// Signatures without proofs: the zone has no complete chain.
    None,
    /// The names that own NSEC, in canonical order.
    Nsec(Box<[Index]>),
    /// The names that own NSEC3, by the hash they stand for.
    Nsec3(Nsec3),
}

/// A chain of NSEC3 records.
#[derive(Debug)]
pub(super) struct Nsec3 {
    salt: Box<[u8]>,
    iterations: u16,
    owners: Box<[(Hash, Index)]>,
}

impl Denial {
    /// The proofs of a zone; `None` if it is not signed: its SOA record has no signature.
    pub(super) fn of(zone: &Zone) -> Option<Self> {
        let apex = zone.node(Index::FIRST)?;
        let signatures = zone.set_of(apex, Type::RRSIG)?;
        let covers_soa = |rdata: &[u8]| rdata.starts_with(&Type::SOA.0.to_be_bytes());
        if !zone.rdata_of(signatures).any(covers_soa) {
            return None;
        }
        if let Some(chain) = Nsec3::of(zone) {
            return Some(Self::Nsec3(chain));
        }
        if zone.set_of(apex, Type::NSEC).is_none() {
            return Some(Self::None);
        }
        let owners = zone.nodes.iter().enumerate().filter_map(|(place, node)| {
            let index = Index::new(place)?;
            let is_owner = !node.occluded && zone.set_of(node, Type::NSEC).is_some();
            is_owner.then_some(index)
        });
        let mut owners: Vec<Index> = owners.collect();
        let name = |index: &Index| {
            zone.node(*index)
                .map_or(&[0][..], |node| zone.name_of(node))
        };
        owners.sort_by(|a, b| compare(name(a), name(b)));
        Some(Self::Nsec(owners.into()))
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Nsec(owners) => size_of_val(&**owners),
            Self::Nsec3(chain) => size_of_val(&*chain.owners),
        }
    }
}

/// The owner of the NSEC at a name or before it; `name` in lower case.
pub(super) fn nsec_before(zone: &Zone, owners: &[Index], name: &[u8]) -> Option<Index> {
    let is_before = |index: &Index| {
        let node = zone.node(*index);
        node.is_some_and(|node| compare(zone.name_of(node), name) != Ordering::Greater)
    };
    let n_before = owners.partition_point(is_before);
    owners.get(n_before.checked_sub(1)?).copied()
}

impl Nsec3 {
    fn of(zone: &Zone) -> Option<Self> {
        let apex = zone.node(Index::FIRST)?;
        let parameters = zone.set_of(apex, Type::NSEC3PARAM)?;
        // RFC 5155 §7.3: any complete set of records; a parameter with flags is not for servers (§4.1.2).
        let chains = zone.rdata_of(parameters).filter_map(|rdata| {
            let (iterations, salt, _) = parameters_of(rdata)?;
            let is_usable = rdata.get(1) == Some(&0) && iterations <= MAX_ITERATIONS;
            is_usable.then_some((iterations, salt))
        });
        let chains: Vec<(u16, &[u8])> = chains.collect();
        chains.into_iter().find_map(|(iterations, salt)| {
            let mut owners = Vec::new();
            for (place, node) in zone.nodes.iter().enumerate() {
                let Some(set) = zone.set_of(node, Type::NSEC3) else {
                    continue;
                };
                let is_ours = zone.rdata_of(set).any(|rdata| {
                    parameters_of(rdata).is_some_and(|(n, its, _)| (n, its) == (iterations, salt))
                });
                let label = labels(zone.name_of(node)).next().and_then(decode);
                if let (true, Some(hash), Some(index)) = (is_ours, label, Index::new(place)) {
                    owners.push((hash, index));
                }
            }
            owners.sort_unstable();
            (!owners.is_empty()).then(|| Self {
                salt: salt.into(),
                iterations,
                owners: owners.into(),
            })
        })
    }

    /// The hash of a name in lower case (RFC 5155 §5).
    pub(super) fn hash(&self, name: &[u8]) -> Hash {
        let once = |octets: &[u8]| {
            let mut hasher = Sha1::new();
            hasher.update(octets);
            hasher.update(&self.salt);
            Hash::from(hasher.finalize())
        };
        let mut hash = once(name);
        for _ in 0..self.iterations {
            hash = once(&hash);
        }
        hash
    }

    /// The owner of the record that stands for a hash.
    pub(super) fn matching(&self, hash: &Hash) -> Option<Index> {
        let found = self.owners.binary_search_by(|(owner, _)| owner.cmp(hash));
        self.owners.get(found.ok()?).map(|(_, index)| *index)
    }

    /// The owner of the record before a hash; the first one comes after the last.
    pub(super) fn covering(&self, hash: &Hash) -> Option<Index> {
        let n_before = self.owners.partition_point(|(owner, _)| owner <= hash);
        let before = match n_before.checked_sub(1) {
            Some(at) => self.owners.get(at),
            None => self.owners.last(),
        };
        before.map(|(_, index)| *index)
    }
}

/// The iterations and the salt of NSEC3 or NSEC3PARAM data, if its hash is SHA-1, and the rest of the data.
fn parameters_of(rdata: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let ([SHA1, _, high, low, length], rest) = rdata.split_first_chunk::<5>()? else {
        return None;
    };
    let (salt, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((u16::from_be_bytes([*high, *low]), salt, rest))
}

/// The hash that a label spells in base 32 with extended hex digits (RFC 4648 §7), without padding.
fn decode(label: &[u8]) -> Option<Hash> {
    if label.len() != 32 {
        return None;
    }
    let mut hash = [0; 20];
    for (octets, digits) in hash.chunks_mut(5).zip(label.chunks(8)) {
        let mut bits = 0_u64;
        for digit in digits {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'v' => digit - b'a' + 10,
                b'A'..=b'V' => digit - b'A' + 10,
                _ => return None,
            };
            bits = bits << 5 | u64::from(value);
        }
        octets.copy_from_slice(bits.to_be_bytes().get(3..)?);
    }
    Some(hash)
}

/// The canonical order of names in lower case (RFC 4034 §6.1), without a copy.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a_starts, n_a) = starts(a);
    let (b_starts, n_b) = starts(b);
    let label = |name: &'_ [u8], starts: &[u8; 128], at: usize| -> (usize, usize) {
        let start = usize::from(starts.get(at).copied().unwrap_or(0));
        let length = name.get(start).copied().unwrap_or(0);
        (start + 1, start + 1 + usize::from(length))
    };
    for depth in 1..=n_a.min(n_b) {
        let (from, to) = label(a, &a_starts, n_a - depth);
        let (their_from, their_to) = label(b, &b_starts, n_b - depth);
        match a.get(from..to).cmp(&b.get(their_from..their_to)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    n_a.cmp(&n_b)
}

/// The places of a name's labels, and their number.
fn starts(name: &[u8]) -> ([u8; 128], usize) {
    let mut starts = [0; 128];
    let (mut n, mut at) = (0, 0_usize);
    while let Some(length) = name.get(at).copied().filter(|length| *length != 0)
        && let (Some(slot), Ok(place)) = (starts.get_mut(n), u8::try_from(at))
    {
        *slot = place;
        n += 1;
        at += usize::from(length) + 1;
    }
    (starts, n)
}

/// The wildcard of a name, in wire form; `None` when it is too long.
pub(super) fn wildcard_of(encloser: &[u8]) -> Option<Name> {
    let wire = [b"\x01*", encloser].concat();
    Name::from_wire(&wire).ok().map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_canonical_order() {
        // RFC 4034 §6.1.
        let names = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "z.a.example.",
            "zabc.a.example.",
            "z.example.",
            r"\001.z.example.",
            "*.z.example.",
            r"\200.z.example.",
        ];
        let names = names.map(|name| name.parse::<Name>().unwrap());
        for (i, a) in names.iter().enumerate() {
            for (j, b) in names.iter().enumerate() {
                assert_eq!(compare(a.as_wire(), b.as_wire()), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn names_are_hashed_as_in_the_standard() {
        // RFC 5155 appendix A.
        let chain = Nsec3 {
            salt: [0xaa, 0xbb, 0xcc, 0xdd].into(),
            iterations: 12,
            owners: Box::default(),
        };
        for (name, hash) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            let name: Name = name.parse().unwrap();
            let wanted = decode(hash.as_bytes()).unwrap();
            assert_eq!(chain.hash(name.as_wire()), wanted, "{name}");
        }
        assert_eq!(decode(b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tow"), None);
        assert_eq!(decode(b"0p9mhaveqvm6t7vbl5lop2u3t2rp3to"), None);
    }
}
