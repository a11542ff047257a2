//! DNSKEY and DS records.

use dns_wire::Name;

use crate::budget::{MAX_DS, MAX_KEYS};
use crate::crypto;

/// A DNSKEY record's flag for keys of a zone (RFC 4034 §2.1.1).
const ZONE: u16 = 0x0100;
/// A DNSKEY record's flag for revoked keys (RFC 5011 §2.1).
const REVOKED: u16 = 0x0080;
/// The one value of the protocol field (RFC 4034 §2.1.2).
const PROTOCOL: u8 = 3;

/// A DNSKEY record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its data, as it is hashed.
    pub(crate) rdata: Box<[u8]>,
    pub(crate) algorithm: u8,
    pub(crate) tag: u16,
    flags: u16,
    protocol: u8,
}

impl Key {
    /// Reads the data of a record.
    pub(crate) fn read(rdata: &[u8]) -> Option<Self> {
        let [high, low, protocol, algorithm, _, ..] = *rdata else {
            return None;
        };
        Some(Self {
            algorithm,
            tag: tag(rdata),
            flags: u16::from_be_bytes([high, low]),
            protocol,
            rdata: rdata.into(),
        })
    }

    /// The keys of a set, as many as count.
    pub(crate) fn read_all(rdatas: &[Vec<u8>]) -> Vec<Self> {
        let keys = rdatas.iter().filter_map(|rdata| Self::read(rdata));
        keys.take(MAX_KEYS).collect()
    }

    /// Whether it may sign a zone's data.
    pub(crate) const fn is_zone_key(&self) -> bool {
        self.flags & ZONE != 0 && self.flags & REVOKED == 0 && self.protocol == PROTOCOL
    }

    /// Whether it is a key of a zone, maybe a revoked one.
    pub(crate) const fn is_of_a_zone(&self) -> bool {
        self.flags & ZONE != 0 && self.protocol == PROTOCOL
    }

    /// The key itself.
    pub(crate) fn public(&self) -> &[u8] {
        self.rdata.get(4..).unwrap_or_default()
    }
}

/// A DS record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ds {
    pub(crate) tag: u16,
    pub(crate) algorithm: u8,
    kind: u8,
    digest: Box<[u8]>,
}

impl Ds {
    /// Reads the data of a record.
    pub(crate) fn read(rdata: &[u8]) -> Option<Self> {
        let [high, low, algorithm, kind, ref digest @ ..] = *rdata else {
            return None;
        };
        Some(Self {
            tag: u16::from_be_bytes([high, low]),
            algorithm,
            kind,
            digest: digest.into(),
        })
    }

    /// The records of a set, as many as count; those that can be checked come first.
    pub(crate) fn read_all(rdatas: &[Vec<u8>]) -> Vec<Self> {
        let mut all: Vec<Self> = rdatas.iter().filter_map(|it| Self::read(it)).collect();
        all.sort_by_key(|ds| !ds.is_known());
        all.truncate(MAX_DS);
        all
    }

    /// Whether both its algorithm and its digest are known here.
    pub(crate) const fn is_known(&self) -> bool {
        self.knows_algorithm() && crypto::knows_digest(self.kind)
    }

    /// Whether the digest has the length of its kind.
    pub(crate) fn is_whole(&self) -> bool {
        crypto::digest(self.kind, &[], &[])
            .is_none_or(|digest| digest.as_ref().len() == self.digest.len())
    }

    pub(crate) const fn knows_algorithm(&self) -> bool {
        crypto::knows_algorithm(self.algorithm)
    }

    /// Whether it names this key of a zone (RFC 4034 §5.1.4).
    pub(crate) fn names(&self, zone: &Name, key: &Key) -> bool {
        let zone = zone.to_lowercase();
        self.tag == key.tag
            && self.algorithm == key.algorithm
            && crypto::digest(self.kind, zone.as_wire(), &key.rdata)
                .is_some_and(|digest| digest.as_ref() == &*self.digest)
    }
}

/// The tag of a key (RFC 4034 appendix B).
fn tag(rdata: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in rdata.chunks(2) {
        let high = pair.first().copied().unwrap_or(0);
        let low = pair.get(1).copied().unwrap_or(0);
        sum = sum.wrapping_add(u32::from(u16::from_be_bytes([high, low])));
    }
    sum += sum >> 16 & 0xffff;
    let [_, _, high, low] = sum.to_be_bytes();
    u16::from_be_bytes([high, low])
}
