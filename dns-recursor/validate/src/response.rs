//! An answer as validation sees it: sets of records with their signatures.

use dns_cache::message::Message;
use dns_wire::records::uncompressed_rdata;
use dns_wire::{Class, Flags, Name, Rcode, Records, Section, Type};

use crate::budget::MAX_SIGNATURES;

/// The sets of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub(crate) rcode: Rcode,
    pub(crate) sets: Vec<Set>,
}

/// The records of one name and type in one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) section: Section,
    /// The owner in lower case.
    pub(crate) owner: Name,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) rdatas: Vec<Vec<u8>>,
    pub(crate) signatures: Vec<Signature>,
}

/// An RRSIG record (RFC 4034 §3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// The fields in front of the signer's name.
    pub(crate) fixed: [u8; 18],
    pub(crate) covered: Type,
    pub(crate) algorithm: u8,
    pub(crate) labels: u8,
    pub(crate) original_ttl: u32,
    pub(crate) expiration: u32,
    pub(crate) inception: u32,
    pub(crate) tag: u16,
    /// The signer's name in lower case.
    pub(crate) signer: Name,
    pub(crate) signature: Vec<u8>,
}

impl Signature {
    fn read(rdata: &[u8]) -> Option<Self> {
        let (fixed, rest) = rdata.split_first_chunk::<18>()?;
        let [
            t1,
            t0,
            algorithm,
            labels,
            o3,
            o2,
            o1,
            o0,
            e3,
            e2,
            e1,
            e0,
            i3,
            i2,
            i1,
            i0,
            k1,
            k0,
        ] = *fixed;
        let (signer, length) = Name::from_wire(rest).ok()?;
        Some(Self {
            fixed: *fixed,
            covered: Type(u16::from_be_bytes([t1, t0])),
            algorithm,
            labels,
            original_ttl: u32::from_be_bytes([o3, o2, o1, o0]),
            expiration: u32::from_be_bytes([e3, e2, e1, e0]),
            inception: u32::from_be_bytes([i3, i2, i1, i0]),
            tag: u16::from_be_bytes([k1, k0]),
            signer: signer.to_lowercase(),
            signature: rest.get(length..)?.to_vec(),
        })
    }
}

impl Response {
    /// Reads the answer and authority sections; `None` when a record cannot be read or is not of the class IN.
    #[must_use]
    pub fn read(message: &Message) -> Option<Self> {
        Self::of(message.bytes(), message.rcode())
    }

    /// Reads a response as a client gets it.
    #[must_use]
    pub fn read_whole(bytes: &[u8]) -> Option<Self> {
        Self::of(bytes, Flags::read(bytes)?.rcode())
    }

    fn of(bytes: &[u8], rcode: Rcode) -> Option<Self> {
        let mut sets: Vec<Set> = Vec::new();
        let mut signatures = Vec::new();
        for record in Records::new(bytes).ok()? {
            let record = record.ok()?;
            // Its class is a size (RFC 6891 §6.1.2).
            if record.rtype == Type::OPT {
                continue;
            }
            if record.class != Class::IN {
                return None;
            }
            if record.section == Section::Additional {
                continue;
            }
            let (owner, _) = Name::read(bytes, record.name_offset).ok()?;
            let owner = owner.to_lowercase();
            let rdata = uncompressed_rdata(bytes, &record).ok()?;
            if record.rtype == Type::RRSIG {
                let signature = Signature::read(&rdata)?;
                signatures.push((record.section, owner, signature));
                continue;
            }
            let is_it = |set: &&mut Set| {
                set.section == record.section && set.rtype == record.rtype && set.owner == owner
            };
            match sets.iter_mut().find(is_it) {
                Some(set) => {
                    set.ttl = set.ttl.min(record.ttl);
                    set.rdatas.push(rdata);
                }
                None => sets.push(Set {
                    section: record.section,
                    owner,
                    rtype: record.rtype,
                    ttl: record.ttl,
                    rdatas: vec![rdata],
                    signatures: Vec::new(),
                }),
            }
        }
        for (section, owner, signature) in signatures {
            let is_signed = |set: &&mut Set| {
                set.section == section && set.rtype == signature.covered && set.owner == owner
            };
            if let Some(set) = sets.iter_mut().find(is_signed)
                && set.signatures.len() < MAX_SIGNATURES
            {
                set.signatures.push(signature);
            }
        }
        Some(Self { rcode, sets })
    }

    pub(crate) fn answer(&self, owner: &Name, rtype: Type) -> Option<&Set> {
        self.section(Section::Answer)
            .find(|set| set.rtype == rtype && set.owner == *owner)
    }

    pub(crate) fn section(&self, section: Section) -> impl Iterator<Item = &Set> {
        self.sets.iter().filter(move |set| set.section == section)
    }

    /// The sets that prove denials.
    pub(crate) fn proofs(&self) -> impl Iterator<Item = &Set> {
        self.section(Section::Authority)
            .filter(|set| matches!(set.rtype, Type::NSEC | Type::NSEC3))
    }
}
