//! Denials that secure answers have proven, for further names in the same gaps (RFC 8198).
//!
//! Gaps between NSEC records alone count: the proof of one between hashes costs hashes for each name.

use std::collections::{BTreeMap, HashMap, VecDeque};

use dns_cache::message::{Message, Row};
use dns_wire::{Class, Name, Rcode, Section, Type};

use crate::anchors::{Anchors, Closest};
use crate::denial::{Nsec, nsec};
use crate::response::{Response, Set};

/// The code of the extended error for an answer made from denials, by the IANA registry of RFC 8914.
pub const SYNTHESIZED: u16 = 29;
/// The most NSEC records that are kept; the oldest makes room.
const MAX_RECORDS: usize = 10_000;
/// The most names that do not exist that are kept.
const MAX_ENDS: usize = 2_000;
/// The longest time that one is kept, in seconds: as long as unbound does it.
const MAX_KEPT: u32 = 3_600;

/// The denials of all zones.
#[derive(Debug, Default)]
pub struct Denials {
    zones: HashMap<Name, Zone>,
    /// The zone and the owner of each record, in the order in which they were learnt first.
    by_age: VecDeque<(Name, Name)>,
    /// Names that do not exist, and so have none below them (RFC 8020); the proof of a name holds for those.
    ends: HashMap<Name, End>,
    ends_by_age: VecDeque<Name>,
}

/// The proof that a name does not exist.
#[derive(Debug)]
struct End {
    zone: Name,
    /// The SOA record and the proofs.
    sets: Vec<Known>,
}

#[derive(Debug)]
struct Zone {
    soa: Known,
    /// By owner, in the order of the chain.
    gaps: BTreeMap<Name, Known>,
}

/// A set with signatures of which one was good.
#[derive(Debug)]
struct Known {
    set: Set,
    until: u64,
}

/// An answer made from denials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The zone that denies.
    pub zone: Name,
    /// The answer, with signatures and AD.
    pub message: Message,
    /// The seconds that it may be kept.
    pub lifetime: u32,
}

impl Denials {
    /// The number of NSEC records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty() && self.ends.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Learns from an answer that denies `name`, or a type there, and was secure for `lifetime` seconds.
    pub(crate) fn learn(&mut self, name: &Name, response: &Response, lifetime: u32, now: u64) {
        let mut authority = response.section(Section::Authority);
        let Some(soa) = authority.find(|set| set.rtype == Type::SOA) else {
            return;
        };
        let apex = &soa.owner;
        let is_own = |set: &Set| set.signatures.iter().any(|it| it.signer == *apex);
        if !is_own(soa) {
            return;
        }
        let most = lifetime.min(MAX_KEPT).min(soa.ttl);
        let kept = |set: &Set| Known {
            set: set.clone(),
            until: now + u64::from(most.min(set.ttl)),
        };
        // The validation has checked every record of this zone that is a proof.
        let gaps = response.proofs().filter(|set| is_own(set));
        for set in gaps.filter(|set| Nsec::read(set, apex).is_some()) {
            let zone = self.zones.entry(apex.clone()).or_insert_with(|| Zone {
                soa: kept(soa),
                gaps: BTreeMap::new(),
            });
            zone.soa = kept(soa);
            if zone.gaps.insert(set.owner.clone(), kept(set)).is_none() {
                self.by_age.push_back((apex.clone(), set.owner.clone()));
            }
        }
        while self.by_age.len() > MAX_RECORDS {
            self.forget_oldest();
        }
        if response.rcode == Rcode::NXDOMAIN {
            let proofs = response.proofs().filter(|set| is_own(set));
            let sets = [soa].into_iter().chain(proofs).map(kept).collect();
            let zone = apex.clone();
            self.learn_end(name.to_lowercase(), End { zone, sets });
        }
    }

    fn learn_end(&mut self, name: Name, end: End) {
        if self.ends.insert(name.clone(), end).is_none() {
            self.ends_by_age.push_back(name);
        }
        while self.ends_by_age.len() > MAX_ENDS {
            if let Some(oldest) = self.ends_by_age.pop_front() {
                self.ends.remove(&oldest);
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((apex, owner)) = self.by_age.pop_front() else {
            return;
        };
        if let Some(zone) = self.zones.get_mut(&apex) {
            zone.gaps.remove(&owner);
            if zone.gaps.is_empty() {
                self.zones.remove(&apex);
            }
        }
    }

    /// The negative answer to a question, when known denials prove it.
    #[must_use]
    pub fn deny(&self, name: &Name, qtype: Type, anchors: &Anchors, now: u64) -> Option<Denied> {
        // No list of types has these, and so none denies them.
        if matches!(qtype, Type::ANY | Type::RRSIG) {
            return None;
        }
        let name = name.to_lowercase();
        // The zone above has DS records and denies them.
        let from = match qtype {
            Type::DS => name.parent()?,
            _ => name.clone(),
        };
        if matches!(
            anchors.closest(&from, now),
            Closest::Negative(_) | Closest::None
        ) {
            return None;
        }
        let question = [
            name.as_wire(),
            &qtype.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ];
        let question = question.concat();
        let mut enclosing = (1..name.n_labels()).map(|n| name.suffix(n));
        if let Some(end) = enclosing.find_map(|above| self.ends.get(&above))
            && let Some(denied) = end.deny(&question, now)
        {
            return Some(denied);
        }
        let mut above = (0..=from.n_labels()).rev().map(|n| from.suffix(n));
        let (apex, zone) = above.find_map(|apex| self.zones.get_key_value(&apex))?;
        let soa = Some(&zone.soa).filter(|soa| now < soa.until)?;
        let mut used = vec![zone.gap_of(&name, now)?];
        let first = Nsec::read(&used.first()?.set, apex)?;
        let wildcard = nsec::encloser(std::slice::from_ref(&first), &name)
            .and_then(|encloser| encloser.prepend(b"*").ok());
        if let Some(wildcard) = wildcard {
            let other = zone.gap_of(&wildcard, now)?;
            if used.iter().all(|known| known.set.owner != other.set.owner) {
                used.push(other);
            }
        }
        let all: Vec<Nsec<'_>> = used
            .iter()
            .filter_map(|kept| Nsec::read(&kept.set, apex))
            .collect();
        let rcode = if nsec::no_name(&all, &name) {
            Rcode::NXDOMAIN
        } else if nsec::no_data(&all, &name, qtype) {
            Rcode::NOERROR
        } else {
            return None;
        };
        used.insert(0, soa);
        denied(apex, &question, rcode, &used, now)
    }
}

impl End {
    fn deny(&self, question: &[u8], now: u64) -> Option<Denied> {
        let sets: Vec<&Known> = self.sets.iter().collect();
        denied(&self.zone, question, Rcode::NXDOMAIN, &sets, now)
    }
}

/// An answer of sets that have not ended.
fn denied(zone: &Name, question: &[u8], rcode: Rcode, sets: &[&Known], now: u64) -> Option<Denied> {
    let until = sets.iter().map(|kept| kept.until).min()?;
    let left = until.checked_sub(now).filter(|left| *left > 0)?;
    let lifetime = u32::try_from(left).ok()?;
    let message = compose(question, rcode, sets, lifetime)?;
    Some(Denied {
        zone: zone.clone(),
        message: message.with_ad(true),
        lifetime,
    })
}

impl Zone {
    /// The record at a name, or the one whose gap may have it.
    fn gap_of(&self, name: &Name, now: u64) -> Option<&Known> {
        let (_, kept) = self.gaps.range(..=name).next_back()?;
        (now < kept.until).then_some(kept)
    }
}

fn compose(question: &[u8], rcode: Rcode, sets: &[&Known], ttl: u32) -> Option<Message> {
    let mut records: Vec<(&Name, Type, Vec<u8>)> = Vec::new();
    for Known { set, .. } in sets {
        for rdata in &set.rdatas {
            records.push((&set.owner, set.rtype, rdata.clone()));
        }
        for signature in &set.signatures {
            let (fixed, signer) = (&signature.fixed, signature.signer.as_wire());
            let rdata = [fixed.as_slice(), signer, signature.signature.as_slice()];
            records.push((&set.owner, Type::RRSIG, rdata.concat()));
        }
    }
    let rows = records.iter().map(|(owner, rtype, rdata)| Row {
        section: Section::Authority,
        owner,
        rtype: *rtype,
        ttl,
        rdata,
    });
    let rows: Vec<Row<'_>> = rows.collect();
    Message::compose(question, rcode, &rows)
}

#[cfg(test)]
mod tests;
