//! Resolving a question within one zone, step by step (RFC 1034 §4.3.2).
//!
//! Returns the records of the response and their sections; does not encode them. Most answers are resolved
//! once, when the zone is built; those that depend on the exact name (below a DNAME) or on liveness (an
//! alias to a live set) are resolved per query.

use dns_wire::hash::Suffixes;
use dns_wire::layout::{Field, Layout};
use dns_wire::name::wire_length;
use dns_wire::{Name, Rcode, Section, Type};

use super::proof::Fact;
use super::{Kind, Node, Place, RrSet, SetData, Zone};
use crate::name_table::Index;
use crate::resolution::{Data, Entry, Pick, Resolution, Unresolved};

/// The most aliases that are followed within one zone; behind this number, the chain enters no further zone. Longer chains, and loops of
/// DNAMEs whose names grow with each turn, are cut there as NSD cuts them (since 4.15): the resolver asks for the rest itself.
pub const MAX_CHAIN: usize = 18;
/// The most names whose addresses one response carries in addition.
const MAX_ADDITIONAL: usize = 128;

/// A name that a record points to.
struct Target {
    name: Name,
    /// Whether glue below a delegation is acceptable: it makes the delegation work.
    glue: bool,
}

/// The next step of resolving.
enum Step {
    Done,
    Follow(Name),
}

impl Zone {
    /// The response that only says that the name has no data of the type.
    pub fn resolve_negative(&self) -> Resolution<'_> {
        let mut resolver = Resolver {
            zone: self,
            qtype: Type::SOA,
            signed: false,
            pick: &mut |_| Pick::PerQuery,
            resolution: Resolution::default(),
            proofs: Vec::new(),
            referral: None,
        };
        resolver.push_soa();
        resolver.finish()
    }

    /// The types for which a name that owns an alias has an answer beyond the alias.
    pub(crate) fn types_behind(&self, (qname, read): (&[u8], &Suffixes), none: Type) -> Vec<Type> {
        let asked = Asked::new(qname, read, none);
        let resolution = self.resolve(asked, &mut |_| Pick::PerQuery, &|_| false);
        let visited = resolution.map(|resolution| resolution.visited);
        let nodes = visited.unwrap_or_default();
        let mut types = Vec::new();
        for node in nodes.into_iter().filter_map(|index| self.node(index)) {
            match node.kind {
                // At a delegation all types but this get the referral.
                Kind::Cut => types.push(Type::DS),
                Kind::Plain | Kind::Dname => {
                    types.extend(self.sets_of(node).iter().map(|set| set.rtype));
                }
            }
        }
        types.sort();
        types.dedup();
        types
    }

    /// Resolves a question for a name within the zone; `pick` draws from a live set. The chain of aliases ends
    /// before names that are `elsewhere`: another zone answers for them, though this one has a delegation.
    pub fn resolve(
        &self,
        asked: Asked<'_>,
        pick: &mut dyn FnMut(u32) -> Pick,
        elsewhere: &dyn Fn(&Name) -> bool,
    ) -> Result<Resolution<'_>, Unresolved> {
        let mut resolver = Resolver {
            zone: self,
            qtype: asked.qtype,
            signed: asked.signed && self.is_signed(),
            pick,
            resolution: Resolution::default(),
            proofs: Vec::new(),
            referral: None,
        };
        let mut owner: Option<Name> = asked.behind.cloned();
        let mut suffixes: Option<Suffixes> = None;
        for _ in 0..MAX_CHAIN {
            let spelled = owner.as_ref().map_or(asked.qname, Name::as_wire);
            let read = suffixes.as_ref().unwrap_or(asked.read);
            let step = resolver.step(read, spelled, owner.as_ref())?;
            let Step::Follow(target) = step else {
                break;
            };
            if resolver.resolution.was_at(&target, asked.qname) {
                break;
            }
            // RFC 1034 §4.3.2 step 3a restarts in the zone of the target. The caller has the other zones.
            if !target.is_within(&self.apex) || elsewhere(&target) {
                resolver.resolution.onward = Some(target);
                break;
            }
            let mut next = Suffixes::default();
            next.read(self.seed, target.as_wire());
            if self.extent.is_some_and(|extent| !extent.has(&next)) {
                resolver.resolution.onward = Some(target);
                break;
            }
            suffixes = Some(next);
            owner = Some(target);
        }
        Ok(resolver.finish())
    }
}

/// A question within a zone.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    qname: &'a [u8],
    read: &'a Suffixes,
    qtype: Type,
    signed: bool,
    behind: Option<&'a Name>,
}

impl<'a> Asked<'a> {
    /// A question for a name, in wire form and as suffixes.
    #[must_use]
    pub const fn new(qname: &'a [u8], read: &'a Suffixes, qtype: Type) -> Self {
        Self {
            qname,
            read,
            qtype,
            signed: false,
            behind: None,
        }
    }

    /// With signatures and proofs, if the zone has them.
    #[must_use]
    pub const fn signed(self, signed: bool) -> Self {
        Self { signed, ..self }
    }

    /// The same question for a name to which an alias of another zone leads.
    #[must_use]
    pub const fn behind(self, target: &'a Name, read: &'a Suffixes) -> Self {
        let behind = Some(target);
        Self {
            read,
            behind,
            ..self
        }
    }
}

struct Resolver<'z, 'p> {
    zone: &'z Zone,
    qtype: Type,
    /// Whether the response gets signatures and proofs.
    signed: bool,
    pick: &'p mut dyn FnMut(u32) -> Pick,
    resolution: Resolution<'z>,
    /// The owners of the NSEC or NSEC3 records of the response.
    proofs: Vec<Index>,
    /// The owner of the delegation that the response ends in.
    referral: Option<Name>,
}

impl<'z> Resolver<'z, '_> {
    /// Answers for one name of the chain.
    fn step(
        &mut self,
        name: &Suffixes,
        spelled: &[u8],
        owner: Option<&Name>,
    ) -> Result<Step, Unresolved> {
        match self.zone.locate(name) {
            Place::Missing => {
                // RFC 6604 §2.1: the code is that of the last name of the chain.
                self.resolution.rcode = Rcode::NXDOMAIN;
                self.push_soa();
                self.prove(name, Fact::NoName);
                Ok(Step::Done)
            }
            Place::BelowCut(cut) => {
                self.resolution.onward = owner.cloned();
                Ok(self.refer(cut, name))
            }
            Place::BelowDname(dname) => Ok(self.redirect(dname, spelled, owner)),
            Place::Exact(index) => match self.zone.node(index).map(|node| node.kind) {
                Some(Kind::Cut) if self.qtype != Type::DS => {
                    self.resolution.visited.push(index);
                    self.resolution.onward = owner.cloned();
                    Ok(self.refer(index, name))
                }
                _ => self.answer(index, owner, (name, Fact::NoType(index))),
            },
            Place::Wildcard(index) => {
                self.answer(index, owner, (name, Fact::WildcardNoType(index)))
            }
        }
    }

    /// Takes the answer from a name that exists, or from a wildcard that matches. Without an answer there is a
    /// fact about the name to prove.
    fn answer(
        &mut self,
        index: Index,
        owner: Option<&Name>,
        (name, nothing): (&Suffixes, Fact),
    ) -> Result<Step, Unresolved> {
        let zone = self.zone;
        let Some(node) = zone.node(index) else {
            return Ok(Step::Done);
        };
        self.resolution.visited.push(index);
        if self.qtype == Type::ANY {
            return self.answer_any(zone.sets_of(node), owner);
        }
        let found = zone.set_of(node, self.qtype).or_else(|| {
            zone.set_of(node, Type::CNAME)
                .filter(|_| node.kind != Kind::Cut)
        });
        let Some(set) = found else {
            self.push_soa();
            self.prove(name, nothing);
            return Ok(Step::Done);
        };
        if self.has_answer(set.rtype, owner) {
            return Ok(Step::Done);
        }
        if !self.push_set(Section::Answer, owner.cloned(), set)? {
            self.push_soa();
            return Ok(Step::Done);
        }
        let target = self
            .resolution
            .entries
            .last()
            .filter(|_| set.rtype != self.qtype)
            .and_then(|alias| alias.data.items().next())
            .and_then(|rdata| Name::from_wire(rdata).ok());
        self.sign(node, set.rtype);
        if matches!(nothing, Fact::WildcardNoType(_)) {
            self.prove(name, Fact::Wildcard);
        }
        Ok(target.map_or(Step::Done, |(target, _)| Step::Follow(target)))
    }

    /// Whether the answer has this RRset: a DNAME may lead to its own owner.
    fn has_answer(&self, rtype: Type, owner: Option<&Name>) -> bool {
        let mut entries = self.resolution.entries.iter();
        entries.any(|entry| entry.rtype == rtype && entry.owner.as_ref() == owner)
    }

    fn answer_any(&mut self, sets: &'z [RrSet], owner: Option<&Name>) -> Result<Step, Unresolved> {
        let mut found = false;
        for set in sets {
            found |= self.push_set(Section::Answer, owner.cloned(), set)?;
        }
        if !found {
            self.push_soa();
        }
        Ok(Step::Done)
    }

    /// Refers to a child zone: its NS records, and the addresses of its servers.
    fn refer(&mut self, cut: Index, name: &Suffixes) -> Step {
        let zone = self.zone;
        // RFC 1034 §4.3.1: a referral is not authoritative, but aliases before it are.
        self.resolution.authoritative = !self.resolution.entries.is_empty();
        let Some(node) = zone.node(cut) else {
            return Step::Done;
        };
        let owner = zone.spelling(cut);
        self.referral = Some(owner.clone());
        if let Some(set) = zone.set_of(node, Type::NS) {
            self.push_zone_set(Section::Authority, Some(owner.clone()), set);
        }
        if self.signed {
            // RFC 4035 §3.1.4: the child's keys, or a proof that there are none.
            match zone.set_of(node, Type::DS) {
                Some(set) => {
                    self.push_zone_set(Section::Authority, Some(owner), set);
                    self.sign(node, Type::DS);
                }
                None => self.prove(name, Fact::NoDs(cut)),
            }
        }
        Step::Done
    }

    /// Redirects a name below a DNAME (RFC 6672 §3.2).
    fn redirect(&mut self, dname: Index, name: &[u8], owner: Option<&Name>) -> Step {
        let zone = self.zone;
        let Some((node, set)) = zone
            .node(dname)
            .and_then(|node| Some((node, zone.set_of(node, Type::DNAME)?)))
        else {
            return Step::Done;
        };
        let Some((target, _)) = zone
            .rdata_of(set)
            .next()
            .and_then(|rdata| Name::from_wire(rdata).ok())
        else {
            return Step::Done;
        };
        let dname_owner = zone.spelling(dname);
        match self.has_answer(Type::DNAME, Some(&dname_owner)) {
            // A target below the owner: each step makes the name longer. NSD ends here too; the resolver has an alias to ask for,
            // if it wants to.
            true if target.is_within(&dname_owner) => return Step::Done,
            // Other aliases lead back here. The response has the DNAME already.
            true => {}
            false => {
                self.push_zone_set(Section::Answer, Some(dname_owner), set);
                self.sign(node, Type::DNAME);
            }
        }
        // The labels before the DNAME's owner move below its target.
        let kept = name.len().saturating_sub(usize::from(node.name_length));
        let prefix = name.get(..kept).unwrap_or_default();
        let moved = [prefix, target.as_wire()].concat();
        let Ok((moved, _)) = Name::from_wire(&moved) else {
            // RFC 6672 §2.2: the substitution makes the name too long.
            self.resolution.rcode = Rcode::YXDOMAIN;
            return Step::Done;
        };
        self.resolution.entries.push(Entry {
            section: Section::Answer,
            owner: owner.cloned(),
            rtype: Type::CNAME,
            ttl: set.ttl,
            data: Data::Made(vec![moved.as_wire().to_vec()]),
        });
        if self.qtype == Type::CNAME {
            return Step::Done;
        }
        Step::Follow(moved)
    }

    /// Adds a set; `false` when it has no records at this moment.
    fn push_set(
        &mut self,
        section: Section,
        owner: Option<Name>,
        set: &'z RrSet,
    ) -> Result<bool, Unresolved> {
        let SetData::Live(number) = set.data else {
            self.push_zone_set(section, owner, set);
            return Ok(true);
        };
        match (self.pick)(number) {
            Pick::Records { ttl, rdata } => {
                self.resolution.entries.push(Entry {
                    section,
                    owner,
                    rtype: set.rtype,
                    ttl,
                    data: Data::Made(rdata),
                });
                Ok(true)
            }
            Pick::Empty => Ok(false),
            Pick::Fail => Err(Unresolved::Failed),
            Pick::PerQuery => Err(Unresolved::PerQuery),
        }
    }

    fn push_zone_set(&mut self, section: Section, owner: Option<Name>, set: &'z RrSet) {
        self.resolution.entries.push(Entry {
            section,
            owner,
            rtype: set.rtype,
            ttl: set.ttl,
            data: Data::Zone(self.zone.rdata_of(set)),
        });
    }

    /// Adds the SOA record: without it a negative answer cannot be cached (RFC 2308 §3).
    fn push_soa(&mut self) {
        let zone = self.zone;
        let apex = zone.node(Index::FIRST);
        if let Some(set) = apex.and_then(|node| zone.set_of(node, Type::SOA)) {
            self.push_zone_set(Section::Authority, Some(zone.spelling(Index::FIRST)), set);
            if let Some(entry) = self.resolution.entries.last_mut() {
                entry.ttl = zone.soa.negative_ttl;
            }
            if let Some(node) = apex {
                self.sign(node, Type::SOA);
            }
        }
    }

    //--- Signatures and proofs

    /// Adds the signatures of the set that was just added, with its TTL (RFC 4034 §3).
    fn sign(&mut self, node: &Node, covered: Type) {
        let zone = self.zone;
        if !self.signed {
            return;
        }
        let (Some(set), Some(last)) = (
            zone.set_of(node, Type::RRSIG),
            self.resolution.entries.last(),
        ) else {
            return;
        };
        let entry = Entry {
            section: last.section,
            owner: last.owner.clone(),
            rtype: Type::RRSIG,
            ttl: last.ttl,
            data: Data::Signatures(zone.rdata_of(set), covered),
        };
        if entry.data.items().next().is_some() {
            self.resolution.entries.push(entry);
        }
    }

    /// Notes the proof of a fact about a name.
    fn prove(&mut self, name: &Suffixes, fact: Fact) {
        if self.signed {
            for owner in self.zone.proof(name, fact) {
                if !self.proofs.contains(&owner) {
                    self.proofs.push(owner);
                }
            }
        }
    }

    /// Adds the noted proofs, behind all else of the authority section.
    fn push_proofs(&mut self) {
        let zone = self.zone;
        for index in std::mem::take(&mut self.proofs) {
            let Some(node) = zone.node(index) else {
                continue;
            };
            for rtype in [Type::NSEC, Type::NSEC3] {
                if let Some(set) = zone.set_of(node, rtype) {
                    self.push_zone_set(Section::Authority, Some(zone.spelling(index)), set);
                    self.sign(node, rtype);
                }
            }
        }
    }

    //--- Additional data

    /// Adds addresses of the names that the records so far point to (RFC 1034 §4.3.2 step 6).
    fn finish(mut self) -> Resolution<'z> {
        self.push_proofs();
        let targets = self.targets();
        let referral = self.referral.take();
        let is_glue = |target: &Target| {
            referral
                .as_ref()
                .is_some_and(|owner| target.name.is_within(owner))
        };
        // RFC 9471 §3: a referral is complete only with the addresses of servers below the cut.
        for target in targets.iter().filter(|target| is_glue(target)) {
            self.push_addresses(target);
        }
        self.resolution.n_required = self.resolution.entries.len();
        for target in targets.iter().filter(|target| !is_glue(target)) {
            self.push_addresses(target);
        }
        self.resolution
    }

    /// The names in the records so far whose addresses a client will need next.
    fn targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        for entry in &self.resolution.entries {
            if !matches!(
                entry.rtype,
                Type::NS | Type::MX | Type::SRV | Type::SVCB | Type::HTTPS
            ) {
                continue;
            }
            for rdata in entry.data.items() {
                let Some(name) = target_name(entry.rtype, rdata, entry.owner.as_ref()) else {
                    continue;
                };
                let known = targets.iter().any(|target| target.name == name);
                if !known && targets.len() < MAX_ADDITIONAL && name.is_within(&self.zone.apex) {
                    let glue = entry.rtype == Type::NS;
                    targets.push(Target { name, glue });
                }
            }
        }
        targets
    }

    fn push_addresses(&mut self, target: &Target) {
        let zone = self.zone;
        let mut name = Suffixes::default();
        name.read(zone.seed, target.name.as_wire());
        let index = match zone.locate(&name) {
            Place::Exact(index) | Place::Wildcard(index) => Some(index),
            Place::BelowCut(_) if target.glue => zone.occluded_node(&name),
            Place::BelowCut(_) | Place::BelowDname(_) | Place::Missing => None,
        };
        let Some(node) = index.and_then(|index| zone.node(index)) else {
            return;
        };
        for rtype in [Type::A, Type::AAAA] {
            let Some(set) = zone.set_of(node, rtype) else {
                continue;
            };
            let answered =
                self.resolution.entries.iter().any(|entry| {
                    entry.rtype == rtype && entry.owner.as_ref() == Some(&target.name)
                });
            // A live set may draw differently the second time, so it is left out here.
            if !answered && matches!(set.data, SetData::Fixed { .. }) {
                self.push_zone_set(Section::Additional, Some(target.name.clone()), set);
                self.sign(node, rtype);
            }
        }
    }
}

/// The name in a record's data; for a service binding to `.` it is the record's owner
/// (RFC 9460 §2.5.2).
pub(super) fn target_name(rtype: Type, rdata: &[u8], owner: Option<&Name>) -> Option<Name> {
    let mut rest = rdata;
    for field in Layout::of(rtype).fields {
        match field {
            Field::Octets(n) => rest = rest.get(*n..)?,
            Field::Name => {
                let length = wire_length(rest).ok()?;
                let (name, _) = Name::from_wire(rest.get(..length)?).ok()?;
                let is_service = matches!(rtype, Type::SVCB | Type::HTTPS);
                return match name.is_root() && is_service {
                    true => owner.cloned(),
                    false => Some(name),
                };
            }
            Field::CharacterString | Field::Rest => return None,
        }
    }
    None
}
