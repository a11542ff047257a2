//! The validation of one answer: the keys that it needs, and its verdict.

mod chain;
mod key_records;

use std::sync::Arc;

use dns_wire::{Name, Section, Type};

use crate::anchors::{Anchors, Closest};
use crate::budget::{Budget, Spent};
use crate::denial::{Proof, Proofs};
use crate::denials::Denials;
use crate::keys::Key;
use crate::response::{Response, Set};
use crate::signature::{self, Signed};
use crate::verdict::{Verdict, Why};
use crate::walk::{self, NoCut, Place};
use crate::zones::Zones;
use chain::{Chain, Part};

/// A validation under way.
#[derive(Debug)]
pub struct Validation {
    qtype: Type,
    response: Response,
    chain: Chain,
    budget: Budget,
    /// The records that were asked for, and the zone above.
    pending: Option<(Need, Name)>,
    no_cuts: Vec<NoCut>,
    /// The end, when keys cannot be had.
    failed: Option<Why>,
}

/// Records that a validation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Their owner, in lower case.
    pub name: Name,
    /// DNSKEY or DS.
    pub rtype: Type,
}

/// The next step of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for these records, and pass the response to [`Validation::supply`].
    Need(Need),
    /// The end.
    Done(Verdict),
}

/// The context of a step.
#[derive(Debug)]
pub struct Context<'a> {
    pub anchors: &'a Anchors,
    pub zones: &'a mut Zones,
    /// The time, in seconds since 1970.
    pub now: u64,
}

impl Context<'_> {
    /// The time as signatures have it: it wraps (RFC 4034 §3.1.5).
    fn wrapped(&self) -> u32 {
        u32::try_from(self.now & u64::from(u32::MAX)).unwrap_or(u32::MAX)
    }
}

impl Validation {
    /// Begins the validation of the response to a question. A chain that `dangles` ends with an alias, and another
    /// response answers for its target. `budget` is what is left of the work for this question.
    #[must_use]
    pub fn new(
        qname: &Name,
        qtype: Type,
        response: Response,
        dangles: bool,
        budget: Budget,
    ) -> Self {
        let chain = Chain::of(&qname.to_lowercase(), qtype, &response, dangles);
        Self {
            qtype,
            response,
            chain,
            budget,
            pending: None,
            no_cuts: Vec::new(),
            failed: None,
        }
    }

    /// The rest of the work that it may cost.
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Passes on what a negative answer that is secure for `lifetime` seconds denies of its zone.
    pub fn teach(&self, denials: &mut Denials, lifetime: u32, now: u64) {
        if self.chain.parts.last() == Some(&Part::Denial) {
            denials.learn(&self.chain.end, &self.response, lifetime, now);
        }
    }

    /// Takes the next step. After [`Step::Need`] call [`Validation::supply`], then this again.
    pub fn step(&mut self, context: &mut Context<'_>) -> Step {
        if let Some(why) = self.failed {
            return Step::Done(Verdict::indeterminate(why));
        }
        // All keys come first: then no signature is verified twice.
        let mut places = Vec::with_capacity(self.chain.parts.len());
        let mut left = u32::MAX;
        for part in &self.chain.parts {
            let (owner, target) = self.target(part);
            let Context {
                anchors,
                zones,
                now,
            } = context;
            // The zone above signs its denial of a name that has a negative anchor, too.
            if let Closest::Negative(ends) = anchors.closest(&owner, *now) {
                let ends = ends.map_or(u32::MAX, |it| u32::try_from(it).unwrap_or(u32::MAX));
                left = left.min(ends);
                places.push(Place::Insecure(Why::NegativeAnchor));
                continue;
            }
            match walk::place(&target, anchors, zones, &self.no_cuts, *now) {
                Place::Need { name, rtype, above } => {
                    let need = Need { name, rtype };
                    if self.budget.question() == Err(Spent) {
                        return Step::Done(Verdict::bogus(Why::TooMuch));
                    }
                    self.pending = Some((need.clone(), above));
                    return Step::Need(need);
                }
                place => places.push(place),
            }
        }
        let mut verdict = self.judge(&places, context.wrapped());
        verdict.lifetime = verdict.lifetime.min(left);
        Step::Done(verdict)
    }

    /// The name whose anchors count for a part, and the name whose zone has to have signed it: the signer that its signatures name, if it may
    /// sign there. This is only where to look: whether a zone begins there is proven on the way.
    fn target(&self, part: &Part) -> (Name, Name) {
        let (owner, rtype) = match part {
            Part::Set(at) => match self.response.sets.get(*at) {
                Some(set) => (&set.owner, set.rtype),
                None => (&self.chain.end, self.qtype),
            },
            Part::Denial => (&self.chain.end, self.qtype),
        };
        let may_sign = |signer: &Name| {
            owner.is_within(signer) && (rtype != Type::DS || owner != signer || owner.is_root())
        };
        // The zone above has DS records and denies them.
        let place = match rtype {
            Type::DS => owner.parent().unwrap_or_else(Name::root),
            _ => owner.clone(),
        };
        let mut signers = self.signatures(part);
        let signer = signers.find(|signer| may_sign(signer)).cloned();
        let target = signer.unwrap_or_else(|| place.clone());
        (place, target)
    }

    /// The signers of a part.
    fn signatures(&self, part: &Part) -> impl Iterator<Item = &Name> {
        let sets = match part {
            Part::Set(at) => self.response.sets.get(*at..=*at).unwrap_or_default(),
            Part::Denial => &self.response.sets,
        };
        let is_denial = matches!(part, Part::Denial);
        let sets = sets
            .iter()
            .filter(move |set| !is_denial || set.section == Section::Authority);
        sets.flat_map(|set| set.signatures.iter().map(|signature| &signature.signer))
    }

    fn judge(&mut self, places: &[Place], now: u32) -> Verdict {
        if self.chain.is_broken {
            return Verdict::bogus(Why::NoProof);
        }
        let mut verdict = Verdict::SECURE;
        let mut budget = self.budget;
        for (part, place) in self.chain.parts.iter().zip(places) {
            let of_part = match place {
                Place::Insecure(why) => Verdict::insecure(*why),
                Place::Bogus(why) => Verdict::bogus(*why),
                Place::Need { .. } => Verdict::indeterminate(Why::Unanswered),
                Place::Zone(zone, keys) => {
                    let mut judge = Judge {
                        response: &self.response,
                        zone,
                        keys,
                        now,
                        budget: &mut budget,
                    };
                    let judged = match part {
                        Part::Set(at) => match self.response.sets.get(*at) {
                            Some(set) => judge.set(set),
                            None => Err(Why::NoSignature),
                        },
                        Part::Denial => judge.denial(&self.chain.end, self.qtype),
                    };
                    judged.unwrap_or_else(Verdict::bogus)
                }
            };
            verdict = verdict.and(of_part);
            if verdict.security == crate::Security::Bogus {
                break;
            }
        }
        self.budget = budget;
        verdict
    }
}

/// The judge of what one zone has signed.
struct Judge<'a> {
    response: &'a Response,
    zone: &'a Name,
    keys: &'a Arc<[Key]>,
    now: u32,
    budget: &'a mut Budget,
}

impl<'a> Judge<'a> {
    fn check(&mut self, set: &Set) -> Result<Signed, Why> {
        signature::check(set, self.zone, self.keys, self.now, self.budget)
    }

    /// Judges a set of the answer section.
    fn set(&mut self, set: &Set) -> Result<Verdict, Why> {
        let signed = self.check(set)?;
        let mut verdict = Verdict::secure(signed.lifetime);
        if let Some(labels) = signed.wildcard {
            let (sets, lifetime) = self.proofs()?;
            let proofs = Proofs::new(self.zone, &sets);
            let proof = proofs.is_wildcard(&set.owner, labels, self.budget)?;
            verdict = verdict.and(of_proof(proof, lifetime));
        }
        Ok(verdict)
    }

    /// Judges a negative answer.
    fn denial(&mut self, name: &Name, rtype: Type) -> Result<Verdict, Why> {
        let mut lifetime = u32::MAX;
        let response = self.response;
        let soa = response.section(Section::Authority);
        for set in soa.filter(|set| set.rtype == Type::SOA) {
            lifetime = lifetime.min(self.check(set)?.lifetime);
        }
        let (sets, of_proofs) = self.proofs()?;
        let proofs = Proofs::new(self.zone, &sets);
        let proof = match response.rcode {
            dns_wire::Rcode::NXDOMAIN => proofs.no_name(name, self.budget)?,
            _ => proofs.no_data(name, rtype, self.budget)?,
        };
        Ok(of_proof(proof, lifetime.min(of_proofs)))
    }

    /// The sets that may prove something: all must be signed. Also the seconds that they may be kept.
    fn proofs(&mut self) -> Result<(Vec<&'a Set>, u32), Why> {
        proofs(self.response, self.zone, self.keys, self.now, self.budget)
    }
}

const fn of_proof(proof: Proof, lifetime: u32) -> Verdict {
    match proof {
        Proof::Holds => Verdict::secure(lifetime),
        Proof::Insecure(why) => Verdict::insecure(why),
    }
}

/// The signed proofs of a response that a zone has made. One without a good signature fails all: nothing but this zone
/// belongs there.
fn proofs<'a>(
    response: &'a Response,
    zone: &Name,
    keys: &[Key],
    now: u32,
    budget: &mut Budget,
) -> Result<(Vec<&'a Set>, u32), Why> {
    let mut lifetime = u32::MAX;
    let mut sets = Vec::new();
    for set in response.proofs() {
        // An alias chain has the proofs of its other zones, too.
        let is_ours = set.signatures.iter().any(|it| it.signer == *zone);
        if set.owner.is_within(zone) && is_ours {
            let signed = signature::check(set, zone, keys, now, budget)?;
            lifetime = lifetime.min(signed.lifetime).min(set.ttl);
            sets.push(set);
        }
    }
    Ok((sets, lifetime))
}

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod tests;
