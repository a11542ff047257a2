//! Proofs by NSEC3 records (RFC 5155 §8).

use dns_wire::{Name, Type};

use super::bitmap::Bitmap;
use super::{Cut, Proof};
use crate::budget::{Budget, MAX_ITERATIONS, Spent};
use crate::crypto;
use crate::response::Set;
use crate::verdict::Why;

/// The one hash algorithm that exists: SHA-1.
const SHA1: u8 = 1;
/// The octets of its hashes.
const HASH: usize = 20;
/// The flag of records that leave out unsigned delegations (RFC 5155 §3.1.2.1).
const OPT_OUT: u8 = 1;

type Hash = [u8; HASH];

/// The NSEC3 records of a zone: all with the parameters of the first, as a zone has one chain at a time.
#[derive(Debug)]
pub(super) struct Nsec3s<'a> {
    zone: &'a Name,
    salt: &'a [u8],
    iterations: u16,
    records: Vec<Nsec3<'a>>,
}

#[derive(Debug)]
struct Nsec3<'a> {
    owner: Hash,
    next: Hash,
    opt_out: bool,
    types: Bitmap<'a>,
}

/// The closest name above another that exists, by its proof (RFC 5155 §8.3).
struct Encloser {
    name: Name,
    /// Whether the next closer name may be an unsigned zone.
    opt_out: bool,
}

impl Nsec3<'_> {
    /// Whether a hash is in the gap behind the owner.
    fn covers(&self, hash: &Hash) -> bool {
        match self.owner < self.next {
            true => self.owner < *hash && *hash < self.next,
            // The last of the zone, or the only one.
            false => self.owner < *hash || *hash < self.next,
        }
    }
}

impl<'a> Nsec3s<'a> {
    /// Reads those among the sets of a zone.
    pub(super) fn read(sets: &[&'a Set], zone: &'a Name) -> Self {
        let mut all = Self {
            zone,
            salt: &[],
            iterations: 0,
            records: Vec::new(),
        };
        for set in sets.iter().filter(|set| set.rtype == Type::NSEC3) {
            for rdata in &set.rdatas {
                all.add(&set.owner, rdata);
            }
        }
        all
    }

    /// Takes a record if it is one of the zone's chain.
    fn add(&mut self, owner: &Name, rdata: &'a [u8]) -> Option<()> {
        let (&[algorithm, flags, high, low, salt_length], rest) = rdata.split_first_chunk()?;
        let (salt, rest) = rest.split_at_checked(salt_length.into())?;
        let (hash_length, rest) = rest.split_first()?;
        let (next, types) = rest.split_at_checked((*hash_length).into())?;
        let iterations = u16::from_be_bytes([high, low]);
        // RFC 5155 §8.2: unknown algorithms and flags are ignored.
        if algorithm != SHA1 || flags & !OPT_OUT != 0 || owner.parent()? != *self.zone {
            return None;
        }
        if self.records.is_empty() {
            (self.salt, self.iterations) = (salt, iterations);
        } else if (self.salt, self.iterations) != (salt, iterations) {
            return None;
        }
        self.records.push(Nsec3 {
            owner: decode(owner.labels().next()?)?,
            next: next.try_into().ok()?,
            opt_out: flags & OPT_OUT != 0,
            types: Bitmap(types),
        });
        Some(())
    }

    fn hash(&self, name: &Name, budget: &mut Budget) -> Result<Hash, Why> {
        budget.hash().map_err(|Spent| Why::TooMuch)?;
        let name = name.to_lowercase();
        let hash = crypto::nsec3(name.as_wire(), self.salt, self.iterations);
        hash.as_ref().try_into().map_err(|_| Why::NoProof)
    }

    /// Fails when there are no records, or none that may be computed.
    fn usable(&self, name: &Name) -> Result<Option<Why>, Why> {
        if self.records.is_empty() || !name.is_within(self.zone) {
            return Err(Why::NoProof);
        }
        // RFC 9276 §3.2.
        let too_many = self.iterations > MAX_ITERATIONS;
        Ok(too_many.then_some(Why::Iterations))
    }

    fn at(&self, hash: &Hash) -> Option<&Nsec3<'a>> {
        self.records.iter().find(|record| record.owner == *hash)
    }

    fn covering(&self, hash: &Hash) -> Option<&Nsec3<'a>> {
        self.records.iter().find(|record| record.covers(hash))
    }

    /// The closest encloser of a name that does not exist.
    fn encloser(&self, name: &Name, budget: &mut Budget) -> Result<Encloser, Why> {
        let mut next_closer: Option<Hash> = None;
        for labels in (self.zone.n_labels()..=name.n_labels()).rev() {
            let candidate = name.suffix(labels);
            let hash = self.hash(&candidate, budget)?;
            let Some(record) = self.at(&hash) else {
                next_closer = Some(hash);
                continue;
            };
            // The name itself exists, or it is not the zone's to deny.
            let Some(hash) = next_closer.filter(|_| !record.types.ends_zone()) else {
                return Err(Why::NoProof);
            };
            let covering = self.covering(&hash).ok_or(Why::NoProof)?;
            return Ok(Encloser {
                name: candidate,
                opt_out: covering.opt_out,
            });
        }
        Err(Why::NoProof)
    }

    pub(super) fn no_name(&self, name: &Name, budget: &mut Budget) -> Result<Proof, Why> {
        if let Some(why) = self.usable(name)? {
            return Ok(Proof::Insecure(why));
        }
        let encloser = self.encloser(name, budget)?;
        let wildcard = self.hash(&below(&encloser.name)?, budget)?;
        self.covering(&wildcard).ok_or(Why::NoProof)?;
        Ok(proof(encloser.opt_out))
    }

    pub(super) fn no_data(
        &self,
        name: &Name,
        rtype: Type,
        budget: &mut Budget,
    ) -> Result<Proof, Why> {
        if let Some(why) = self.usable(name)? {
            return Ok(Proof::Insecure(why));
        }
        let hash = self.hash(name, budget)?;
        if let Some(record) = self.at(&hash) {
            return match record.types.denies(name, rtype) {
                true => Ok(Proof::Holds),
                false => Err(Why::NoProof),
            };
        }
        let encloser = self.encloser(name, budget)?;
        // RFC 5155 §8.6: an unsigned zone may begin there, and then has no DS.
        if rtype == Type::DS && encloser.opt_out {
            return Ok(Proof::Insecure(Why::OptOut));
        }
        let wildcard = below(&encloser.name)?;
        let hash = self.hash(&wildcard, budget)?;
        let record = self.at(&hash).ok_or(Why::NoProof)?;
        match record.types.denies(&wildcard, rtype) {
            true => Ok(proof(encloser.opt_out)),
            false => Err(Why::NoProof),
        }
    }

    /// Whether the next closer name to a wildcard does not exist (RFC 5155 §8.8).
    pub(super) fn denies(&self, next_closer: &Name, budget: &mut Budget) -> Result<Proof, Why> {
        if let Some(why) = self.usable(next_closer)? {
            return Ok(Proof::Insecure(why));
        }
        let hash = self.hash(next_closer, budget)?;
        let covering = self.covering(&hash).ok_or(Why::NoProof)?;
        Ok(proof(covering.opt_out))
    }

    pub(super) fn cut(&self, name: &Name, budget: &mut Budget) -> Result<Cut, Why> {
        if let Some(why) = self.usable(name)? {
            return Ok(Cut::Insecure(why));
        }
        let hash = self.hash(name, budget)?;
        if let Some(record) = self.at(&hash) {
            return record.types.cut().ok_or(Why::NoProof);
        }
        match self.encloser(name, budget)?.opt_out {
            true => Ok(Cut::Insecure(Why::OptOut)),
            false => Ok(Cut::Nothing),
        }
    }
}

/// A proof by way of a next closer name: with opt-out, an unsigned zone may have the name (RFC 5155 §9.2).
const fn proof(opt_out: bool) -> Proof {
    match opt_out {
        true => Proof::Insecure(Why::OptOut),
        false => Proof::Holds,
    }
}

/// The wildcard below a name.
fn below(encloser: &Name) -> Result<Name, Why> {
    encloser.prepend(b"*").map_err(|_| Why::NoProof)
}

/// The hash that a label has in base32 with the extended hex alphabet (RFC 4648 §7).
fn decode(label: &[u8]) -> Option<Hash> {
    if label.len() != HASH * 8 / 5 {
        return None;
    }
    let mut hash = [0; HASH];
    for (chunk, out) in label.chunks_exact(8).zip(hash.chunks_exact_mut(5)) {
        let mut bits: u64 = 0;
        for digit in chunk {
            let value = match digit.to_ascii_lowercase() {
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'v' => digit - b'a' + 10,
                _ => return None,
            };
            bits = bits << 5 | u64::from(value);
        }
        let [_, _, _, octets @ ..] = bits.to_be_bytes();
        out.copy_from_slice(&octets);
    }
    Some(hash)
}
