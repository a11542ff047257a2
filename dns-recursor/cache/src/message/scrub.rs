//! The records of a response that answer its question, and nothing else.
//!
//! A server speaks for the names of its [`Bailiwick`] only. The walk starts at the question's name and takes the
//! links of the CNAME chain, then the records of the question's type or the denial. Order and sections of the
//! response do not matter beyond that; the rest of it is dropped. A chain that leaves the bailiwick is cut there:
//! other servers answer for its target.

use std::collections::{HashMap, HashSet};
use std::fmt;

use dns_wire::layout::{Field, Layout};
use dns_wire::{Name, Rcode, Section, Type};

use super::{Record, Unusable};
use crate::key;

/// The most links of a CNAME chain within one response; a longer chain counts as a loop.
const MAX_CHAIN: usize = 16;

/// The most NSEC and NSEC3 records of one response that are kept: a denial needs three (RFC 5155 §7.2.2), and a
/// chain one more for each wildcard.
const MAX_PROOFS: usize = 16;

/// The names that the servers of a response may speak for.
pub trait Bailiwick: fmt::Debug {
    /// Whether they may speak for records of a type at a name.
    fn owns(&self, name: &Name, rtype: Type) -> bool;
}

/// The rule by which records of a response count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scrubber<'a> {
    /// The question, in lower case.
    pub(super) question: &'a [u8],
    pub(super) bailiwick: &'a dyn Bailiwick,
    /// Whether DNSSEC records were asked for.
    pub(super) dnssec_ok: bool,
}

/// The CNAME chain of a response.
pub(super) struct Chain {
    /// Its links, and the records that it ends at.
    pub(super) records: Vec<Record>,
    /// The name that it leads to.
    pub(super) end: Name,
    pub(super) leads: Leads,
}

impl Chain {
    fn has(&self, rtype: Type, owner: &Name) -> bool {
        let mut records = self.records.iter();
        records.any(|record| record.rtype == rtype && record.owner == *owner)
    }
}

/// The end of a CNAME chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// Records of the question's type.
    Data,
    /// A name without such records, after this many links.
    Nothing(usize),
    /// A name that is not the servers' to speak for.
    Away,
    /// A name that is too long to exist (RFC 6672 §2.2).
    TooLong,
}

impl Scrubber<'_> {
    /// Takes the chain out of `records`: from the question's name to its end.
    pub(super) fn chain(&self, rcode: Rcode, records: &mut Vec<Record>) -> Result<Chain, Unusable> {
        let qtype = key::qtype(self.question);
        let (end, _) = Name::from_wire(self.question).map_err(|_| Unusable::Malformed)?;
        let mut chain = Chain {
            records: Vec::new(),
            end,
            leads: Leads::Data,
        };
        for link in 0..MAX_CHAIN {
            // An error denies data; only the aliases that lead to it count.
            if rcode == Rcode::NOERROR && self.take_data(qtype, records, &mut chain) {
                return Ok(chain);
            }
            match self.take_alias(records, &mut chain) {
                Alias::None => chain.leads = Leads::Nothing(link),
                Alias::TooLong => chain.leads = Leads::TooLong,
                // A circle.
                Alias::Of(target) if chain.has(Type::CNAME, &target) => break,
                Alias::Of(target) => {
                    chain.end = target;
                    if self.bailiwick.owns(&chain.end, qtype) {
                        continue;
                    }
                    chain.leads = Leads::Away;
                }
            }
            return Ok(chain);
        }
        Err(Unusable::Malformed)
    }

    /// Takes the records of the question's type at the end of the chain; false when there are none.
    fn take_data(&self, qtype: Type, records: &mut Vec<Record>, chain: &mut Chain) -> bool {
        let before = chain.records.len();
        let end = &chain.end;
        let is_data = |record: &mut Record| {
            record.section == Section::Answer
                && record.owner == *end
                && (record.rtype == qtype || qtype == Type::ANY)
        };
        chain.records.extend(records.extract_if(.., is_data));
        let found = chain.records.len() > before;
        if found {
            self.take_signatures(records, &chain.end, qtype, &mut chain.records);
        }
        found
    }

    /// Takes the alias at the end of the chain.
    fn take_alias(&self, records: &mut Vec<Record>, chain: &mut Chain) -> Alias {
        let end = &chain.end;
        let answers = |record: &Record| record.section == Section::Answer;
        let is_dname = |record: &Record| {
            record.rtype == Type::DNAME
                && end.is_within(&record.owner)
                && *end != record.owner
                // A second one at a name is an error (RFC 6672 §2.4).
                && !chain.has(Type::DNAME, &record.owner)
                && self.bailiwick.owns(&record.owner, Type::DNAME)
        };
        if let Some(at) = records.iter().position(|it| answers(it) && is_dname(it)) {
            let dname = records.remove(at);
            let target = substitute(end, &dname);
            // RFC 6672 §3.1: made from the DNAME, whatever the response has.
            let alias = target.as_ref().map(|target| Record {
                owner: end.clone(),
                rtype: Type::CNAME,
                rdata: target.as_wire().to_vec(),
                class: dname.class,
                section: Section::Answer,
                ttl: dname.ttl,
            });
            let owner = dname.owner.clone();
            chain.records.push(dname);
            self.take_signatures(records, &owner, Type::DNAME, &mut chain.records);
            chain.records.extend(alias);
            return target.map_or(Alias::TooLong, Alias::Of);
        }
        let is_alias = |it: &Record| it.rtype == Type::CNAME && it.owner == *end;
        let Some(at) = records.iter().position(|it| answers(it) && is_alias(it)) else {
            return Alias::None;
        };
        let alias = records.remove(at);
        let Ok((target, _)) = Name::from_wire(&alias.rdata) else {
            return Alias::None;
        };
        chain.records.push(alias);
        self.take_signatures(records, &chain.end, Type::CNAME, &mut chain.records);
        Alias::Of(target)
    }

    /// Takes the SOA record that denies a name, and its proofs; false when there is none.
    pub(super) fn take_denial(
        &self,
        denied: &Name,
        records: &mut Vec<Record>,
        kept: &mut Vec<Record>,
    ) -> bool {
        let is_soa = |record: &Record| {
            record.section == Section::Authority
                && record.rtype == Type::SOA
                && denied.is_within(&record.owner)
                && self.bailiwick.owns(&record.owner, Type::SOA)
        };
        let Some(at) = records.iter().position(is_soa) else {
            return false;
        };
        let soa = records.remove(at);
        let zone = soa.owner.clone();
        kept.push(soa);
        self.take_signatures_in(Section::Authority, records, &zone, Type::SOA, kept);
        self.take_proofs(records, kept);
        true
    }

    /// Takes the records that prove a denial or the use of a wildcard (RFC 4035 §3.1.3).
    pub(super) fn take_proofs(&self, records: &mut Vec<Record>, kept: &mut Vec<Record>) {
        if !self.dnssec_ok {
            return;
        }
        let is_proof = |record: &mut Record| {
            record.section == Section::Authority
                && matches!(record.rtype, Type::NSEC | Type::NSEC3)
                // The NSEC record of a zone cut belongs to the zone above, as DS does.
                && (self.bailiwick.owns(&record.owner, record.rtype)
                    || self.bailiwick.owns(&record.owner, Type::DS))
        };
        let proofs = records.extract_if(.., is_proof).take(MAX_PROOFS);
        let proofs: Vec<Record> = proofs.collect();
        for proof in proofs {
            let (owner, rtype) = (proof.owner.clone(), proof.rtype);
            kept.push(proof);
            self.take_signatures_in(Section::Authority, records, &owner, rtype, kept);
        }
    }

    fn take_signatures(
        &self,
        records: &mut Vec<Record>,
        owner: &Name,
        rtype: Type,
        kept: &mut Vec<Record>,
    ) {
        self.take_signatures_in(Section::Answer, records, owner, rtype, kept);
    }

    /// Takes the signatures of a set.
    fn take_signatures_in(
        &self,
        section: Section,
        records: &mut Vec<Record>,
        owner: &Name,
        rtype: Type,
        kept: &mut Vec<Record>,
    ) {
        if self.dnssec_ok {
            let is_of = |record: &mut Record| {
                record.section == section
                    && record.owner == *owner
                    && record.covered() == Some(rtype)
            };
            kept.extend(records.extract_if(.., is_of));
        }
    }
}

/// The alias at a name.
enum Alias {
    None,
    Of(Name),
    TooLong,
}

/// The name that a DNAME record above it leads to; `None` when it is too long.
fn substitute(name: &Name, dname: &Record) -> Option<Name> {
    let kept = name.as_wire().len() - dname.owner.as_wire().len();
    let prefix = name.as_wire().get(..kept)?;
    let substituted = [prefix, &dname.rdata].concat();
    Name::from_wire(&substituted).ok().map(|(name, _)| name)
}

/// Drops duplicates, and gives all records of a set the least TTL (RFC 2181 §5.2, §5.5).
pub(super) fn unify(records: &mut Vec<Record>) {
    if records.len() < 2 {
        return;
    }
    let mut least: HashMap<(Vec<u8>, Type, Option<Type>), u32> = HashMap::new();
    let set = |it: &Record| {
        let owner = it.owner.as_wire().to_ascii_lowercase();
        (owner, it.rtype, it.covered())
    };
    for record in &*records {
        let ttl = least.entry(set(record)).or_insert(record.ttl);
        *ttl = record.ttl.min(*ttl);
    }
    let mut seen: HashSet<(Vec<u8>, Type, Vec<u8>)> = HashSet::new();
    records.retain_mut(|record| {
        let (owner, rtype, covered) = set(record);
        let is_new = seen.insert((owner.clone(), rtype, canonical_rdata(rtype, &record.rdata)));
        if let Some(ttl) = least.get(&(owner, rtype, covered)) {
            record.ttl = *ttl;
        }
        is_new
    });
}

/// RDATA in canonical form, by which records are equal and signed: names in lower case, for the types that RFC 4034 §6.2
/// lists. RFC 6840 §5.1 takes NSEC off that list, and later types are not on it.
#[must_use]
pub fn canonical_rdata(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut canonical = rdata.to_vec();
    if matches!(
        rtype,
        Type::NSEC | Type::SVCB | Type::HTTPS | Type::LP | Type::TALINK
    ) {
        return canonical;
    }
    let mut at = 0;
    for field in Layout::of(rtype).fields {
        let rest = canonical.get_mut(at..).unwrap_or_default();
        at += match field {
            Field::Octets(n) => *n,
            Field::CharacterString => 1 + usize::from(rest.first().copied().unwrap_or(0)),
            Field::Name => {
                let length = dns_wire::name::wire_length(rest).unwrap_or(rest.len());
                let name = rest.get_mut(..length).unwrap_or_default();
                name.make_ascii_lowercase();
                length
            }
            Field::Rest => rest.len(),
        };
    }
    canonical
}

#[cfg(test)]
mod tests;
