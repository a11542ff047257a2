//! Builds a [`Zone`] from its records.
//!
//! Keeps the first spelling of each name, drops repeated records, gives an RRset one TTL, adds empty
//! non-terminals, finds the names that delegations and DNAMEs hide, and renders every answer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use config_text::Problem;
use dns_wire::hash::{Seed, Suffixes};
use dns_wire::{Class, Name, Type};
use hashbrown::HashTable;

use super::denial::Denial;
use super::split::Extent;
use super::{Answer, Kind, LiveSet, Node, NodeAnswers, RrSet, SetData, Soa, Zone, rendering};
use crate::merge::canonical;
use crate::name_table::{Index, NameTable};
use crate::program::Program;
use crate::record::{Record, RecordData};
use crate::store::{Store, shrunk};

impl Zone {
    /// Compiles a zone; names will be looked up by hashes of this seed.
    ///
    /// # Errors
    /// Fails when the records cannot be served as a zone: without a SOA record at the apex, or with too
    /// many names for the table.
    pub fn build(apex: &Name, records: &[Record], seed: Seed) -> Result<Self, Vec<Problem>> {
        Ok(Self::pack(apex, records, seed)?.with_answers())
    }

    /// As [`Zone::build`], and gives the records' memory back before the answers are rendered: a large zone
    /// needs room for one or the other.
    ///
    /// # Errors
    /// As [`Zone::build`].
    pub fn build_of(apex: &Name, records: Vec<Record>, seed: Seed) -> Result<Self, Vec<Problem>> {
        let zone = Self::pack(apex, &records, seed)?;
        drop(records);
        Ok(zone.with_answers())
    }

    fn pack(apex: &Name, records: &[Record], seed: Seed) -> Result<Self, Vec<Problem>> {
        let mut builder = Builder::new(apex, records, seed);
        for (number, record) in records.iter().enumerate() {
            if record.class == Class::IN && record.owner.is_within(apex) {
                builder.add(number).map_err(|problem| vec![problem])?;
            }
        }
        builder.finish().map_err(|problem| vec![problem])
    }

    fn with_answers(mut self) -> Self {
        self.denial = Denial::of(&self);
        rendering::render(&mut self);
        self
    }

    /// Compiles a part of a zone. The names of `empty` exist, with or without a record. An alias that leads into another part
    /// is answered as one that leads out of the zone: the server continues it.
    ///
    /// # Errors
    /// As [`Zone::build`].
    pub fn build_part(
        apex: &Name,
        records: &[Record],
        empty: &[Name],
        extent: Extent,
        seed: Seed,
    ) -> Result<Self, Vec<Problem>> {
        let mut builder = Builder::new(apex, records, seed);
        for (number, record) in records.iter().enumerate() {
            if record.owner.is_within(apex) {
                builder.add(number).map_err(|problem| vec![problem])?;
            }
        }
        for name in empty.iter().filter(|name| name.is_within(apex)) {
            builder.place_of(name).map_err(|problem| vec![problem])?;
        }
        let mut zone = builder.finish().map_err(|problem| vec![problem])?;
        zone.extent = Some(extent);
        rendering::render(&mut zone);
        Ok(zone)
    }
}

/// An RRset while a node is packed.
struct DraftSet<'r> {
    rtype: Type,
    ttl: u32,
    rdata: Vec<&'r [u8]>,
    programs: Vec<Program>,
}

/// A record and the node of its owner.
#[derive(Clone, Copy)]
struct Member {
    node: u32,
    record: u32,
}

/// Takes records one by one, and keeps no copy of them. A zone of a million names needs some hundred octets a name in
/// all, so a name has no allocation of its own here.
struct Builder<'r> {
    apex: &'r Name,
    apex_labels: usize,
    seed: Seed,
    records: &'r [Record],
    members: Vec<Member>,
    /// The names and empty non-terminals; each parent comes before its children.
    nodes: Vec<Node>,
    /// The lower-case wire forms of the nodes' names.
    names: Vec<u8>,
    spellings: BTreeMap<u32, Name>,
    /// The hash of each node's name.
    hashes: Vec<u64>,
    parents: Vec<Option<Index>>,
    /// Whether there are names below the node.
    is_parent: Vec<bool>,
    /// The nodes by name.
    table: HashTable<Index>,
    suffixes: Suffixes,
}

impl<'r> Builder<'r> {
    fn new(apex: &'r Name, records: &'r [Record], seed: Seed) -> Self {
        Self {
            apex,
            apex_labels: apex.n_labels(),
            seed,
            records,
            members: Vec::with_capacity(records.len()),
            nodes: Vec::new(),
            names: Vec::new(),
            spellings: BTreeMap::new(),
            hashes: Vec::new(),
            parents: Vec::new(),
            is_parent: Vec::new(),
            table: HashTable::new(),
            suffixes: Suffixes::default(),
        }
    }

    fn add(&mut self, number: usize) -> Result<(), Problem> {
        let record = |number: usize| self.records.get(number);
        let Some(owner) = record(number).map(|record| &record.owner) else {
            return Ok(());
        };
        // Files name an owner once for all its records.
        let before = self.members.last().copied();
        let known = before.filter(|member| {
            record(member.record as usize).is_some_and(|record| record.owner == *owner)
        });
        let node = match known {
            Some(member) => member.node,
            None => self.place_of(owner)?,
        };
        let record = u32::try_from(number).map_err(|_| too_large())?;
        self.members.push(Member { node, record });
        Ok(())
    }

    /// The place of a name; a new name is added with its ancestors.
    fn place_of(&mut self, name: &Name) -> Result<u32, Problem> {
        self.suffixes.read(self.seed, name.as_wire());
        let n_labels = self.suffixes.n_labels();
        let mut known = n_labels;
        let mut place = self.find(known);
        while place.is_none() && known > self.apex_labels {
            known -= 1;
            place = self.find(known);
        }
        // The names from below the closest ancestor that is there; from the apex when it is new.
        let first = place.map_or(self.apex_labels, |_| known + 1);
        for n in first..=n_labels {
            place = Some(self.insert(name, n, place)?);
        }
        let place = place.map_or(0, Index::get);
        u32::try_from(place).map_err(|_| too_large())
    }

    /// The node of the last `n` labels of the name that was read.
    fn find(&self, n: usize) -> Option<Index> {
        let lower = self.suffixes.suffix(n);
        let is_it = |index: &Index| self.name(*index) == lower;
        self.table.find(self.suffixes.hash(n), is_it).copied()
    }

    /// The lower-case wire form of a node's name.
    fn name(&self, index: Index) -> &[u8] {
        let node = self.nodes.get(index.get());
        node.and_then(|node| {
            let start = node.name_start as usize;
            self.names.get(start..start + usize::from(node.name_length))
        })
        .unwrap_or_default()
    }

    /// The name of a node as the file writes it.
    fn spelling(&self, index: Index) -> Name {
        let place = u32::try_from(index.get()).ok();
        match place.and_then(|place| self.spellings.get(&place)) {
            Some(spelling) => spelling.clone(),
            None => Name::from_wire(self.name(index)).map_or_else(|_| Name::root(), |(it, _)| it),
        }
    }

    /// Adds the last `n` labels of a name, which was read.
    fn insert(&mut self, name: &Name, n: usize, parent: Option<Index>) -> Result<Index, Problem> {
        let place = self.nodes.len();
        let index = Index::new(place).ok_or_else(too_large)?;
        let lower = self.suffixes.suffix(n);
        let hash = self.suffixes.hash(n);
        if let Some(above) = parent.map(Index::get) {
            if let Some(is_parent) = self.is_parent.get_mut(above) {
                *is_parent = true;
            }
            if let Some(encloser) = self.nodes.get_mut(above).filter(|_| is_wildcard(lower)) {
                encloser.wildcard = Some(index);
            }
        }
        self.nodes.push(Node {
            name_start: u32::try_from(self.names.len()).map_err(|_| too_large())?,
            name_length: u8::try_from(lower.len()).map_err(|_| too_large())?,
            kind: Kind::Plain,
            occluded: false,
            wildcard: None,
            sets_start: 0,
            n_sets: 0,
            answers: NodeAnswers::default(),
        });
        self.names.extend_from_slice(lower);
        // The spelling of the file is the tail of the name as it was written there.
        let skipped = name.as_wire().len().saturating_sub(lower.len());
        let written = match n == self.apex_labels {
            true => self.apex.as_wire(),
            false => name.as_wire().get(skipped..).unwrap_or_default(),
        };
        if written != lower {
            let place = u32::try_from(place).map_err(|_| too_large())?;
            let spelling =
                Name::from_wire(written).map_or_else(|_| name.suffix(n), |(name, _)| name);
            self.spellings.insert(place, spelling);
        }
        self.hashes.push(hash);
        self.parents.push(parent);
        self.is_parent.push(false);
        let hashes = &self.hashes;
        let hash_of = |index: &Index| hashes.get(index.get()).copied().unwrap_or_default();
        self.table.insert_unique(hash, index, hash_of);
        Ok(index)
    }

    //--- Finishing

    fn finish(mut self) -> Result<Zone, Problem> {
        self.place_of(self.apex)?;
        self.table = HashTable::new();
        self.members.sort_by_key(|member| member.node);
        let members = std::mem::take(&mut self.members);
        let mut rest = members.as_slice();
        let mut packer = Packer::default();
        let mut sets = Vec::new();
        let (mut visible, mut occluded) = (Vec::new(), Vec::new());
        let mut max_labels = 0;
        let mut soa = None;
        for place in 0..self.nodes.len() {
            let index = Index::new(place).ok_or_else(too_large)?;
            let own = rest.partition_point(|member| member.node as usize <= place);
            let (members, others) = rest.split_at(own);
            rest = others;
            self.draft(members, &mut sets)?;
            if place == 0 {
                soa = soa_of(&sets);
            }
            let (kind, is_hidden) = self.classify(place, &sets);
            let entry = (self.hashes.get(place).copied().unwrap_or_default(), index);
            if is_hidden {
                occluded.push(entry);
            } else {
                visible.push(entry);
                max_labels = max_labels.max(n_labels(self.name(index)));
            }
            let owner = || self.spelling(index);
            let (sets_start, n_sets) = packer.pack(&owner, &mut sets).ok_or_else(too_large)?;
            if let Some(node) = self.nodes.get_mut(place) {
                node.kind = kind;
                node.occluded = is_hidden;
                node.sets_start = sets_start;
                node.n_sets = n_sets;
            }
        }
        drop(members);
        let soa = soa.ok_or_else(|| Problem {
            position: None,
            message: format!("zone {} has no SOA record", self.apex),
        })?;
        Ok(Zone {
            apex_labels: self.apex_labels,
            apex: self.apex.clone(),
            max_labels,
            soa,
            seed: self.seed,
            extent: None,
            nodes: shrunk(self.nodes),
            names: shrunk(self.names),
            spellings: self.spellings,
            visible: NameTable::new(&visible),
            occluded: NameTable::new(&occluded),
            sets: shrunk(packer.sets),
            rdata: shrunk(packer.rdata),
            n_records: packer.n_records,
            live_sets: packer.live_sets.into(),
            libraries: packer.libraries,
            answers: Vec::new(),
            store: Store::default(),
            onward: Vec::new(),
            nodata: Answer::Resolve,
            nxdomain: Answer::Resolve,
            denial: None,
            signed: Box::default(),
            n_patched: 0,
        })
    }

    /// Sorts the records of one node into RRsets, in the order in which their types appear.
    fn draft(&self, members: &[Member], sets: &mut Vec<DraftSet<'r>>) -> Result<(), Problem> {
        sets.clear();
        for member in members {
            let Some(record) = self.records.get(member.record as usize) else {
                continue;
            };
            let rtype = record.rtype();
            let known = sets.iter().position(|set| set.rtype == rtype);
            let at = known.unwrap_or(sets.len());
            if known.is_none() {
                if sets.len() >= usize::from(u16::MAX) {
                    return Err(Problem {
                        position: Some(record.position.clone()),
                        message: format!("too many types at {}", record.owner),
                    });
                }
                sets.push(DraftSet {
                    rtype,
                    ttl: record.ttl,
                    rdata: Vec::new(),
                    programs: Vec::new(),
                });
            }
            let Some(set) = sets.get_mut(at) else {
                continue;
            };
            // RFC 2181 §5.2: an RRset has one TTL; the lowest is the safe choice.
            set.ttl = set.ttl.min(record.ttl);
            match &record.data {
                RecordData::Wire { rdata, .. } => set.rdata.push(rdata),
                RecordData::Lua { program, .. } => set.programs.push(Program {
                    ttl: record.ttl,
                    code: program.code.as_str().into(),
                    parts: Arc::clone(&program.parts),
                    position: record.position.clone(),
                }),
            }
        }
        sets.iter_mut().for_each(remove_repeated);
        Ok(())
    }

    /// The role of a node, and whether a delegation or a DNAME hides it. Its parent was classified before.
    fn classify(&self, place: usize, sets: &[DraftSet<'_>]) -> (Kind, bool) {
        let parent = self.parents.get(place).copied().flatten();
        let parent = parent.and_then(|parent| self.nodes.get(parent.get()));
        let is_below = parent.is_some_and(|parent| parent.occluded || parent.kind != Kind::Plain);
        let is_parent = self.is_parent.get(place).copied().unwrap_or_default();
        let has = |rtype| {
            let mut fixed = sets.iter().filter(|set| set.programs.is_empty());
            fixed.any(|set| set.rtype == rtype)
        };
        let is_wildcard = Index::new(place).is_some_and(|index| is_wildcard(self.name(index)));
        // RFC 4592 §4.2 leaves NS at a wildcard undefined: it is plain data here.
        let kind = if place != 0 && !is_wildcard && has(Type::NS) {
            Kind::Cut
        } else if has(Type::DNAME) {
            Kind::Dname
        } else {
            Kind::Plain
        };
        (kind, is_below || (!is_parent && is_proof(sets)))
    }
}

/// Whether a name without names below it is only the hash of another one. It does not exist for questions
/// (RFC 5155 §7.2.8).
fn is_proof(sets: &[DraftSet<'_>]) -> bool {
    let is_part = |set: &DraftSet<'_>| matches!(set.rtype, Type::NSEC3 | Type::RRSIG);
    sets.iter().all(is_part) && sets.iter().any(|set| set.rtype == Type::NSEC3)
}

/// Whether the leftmost label of a name in wire form is a lone asterisk.
fn is_wildcard(wire: &[u8]) -> bool {
    wire.starts_with(b"\x01*")
}

/// The number of labels of a name in wire form, without the root's.
pub(super) fn n_labels(wire: &[u8]) -> usize {
    let (mut rest, mut n) = (wire, 0);
    while let Some((length, behind)) = rest.split_first().filter(|(length, _)| **length != 0) {
        rest = behind.get(usize::from(*length)..).unwrap_or_default();
        n += 1;
    }
    n
}

/// Reads the SOA record of the apex.
fn soa_of(sets: &[DraftSet<'_>]) -> Option<Soa> {
    let set = sets.iter().find(|set| set.rtype == Type::SOA)?;
    let numbers: &[u8; 20] = set.rdata.first()?.last_chunk()?;
    let &[s3, s2, s1, s0, .., m3, m2, m1, m0] = numbers;
    let minimum = u32::from_be_bytes([m3, m2, m1, m0]);
    Some(Soa {
        serial: u32::from_be_bytes([s3, s2, s1, s0]),
        negative_ttl: set.ttl.min(minimum),
    })
}

/// Drops records that repeat an earlier one, and all but the first of types that a name may have only once.
fn remove_repeated(set: &mut DraftSet<'_>) {
    if matches!(set.rtype, Type::CNAME | Type::DNAME | Type::SOA) {
        set.rdata.truncate(1);
    }
    if set.rdata.len() < 2 {
        return;
    }
    let mut seen: HashSet<Cow<'_, [u8]>> = HashSet::with_capacity(set.rdata.len());
    let rtype = set.rtype;
    set.rdata
        .retain(|rdata| seen.insert(canonical(rtype, rdata)));
}

fn too_large() -> Problem {
    Problem {
        position: None,
        message: "the zone is too large for the server's table".to_owned(),
    }
}

/// Arranges RRsets in the zone's flat arrays.
#[derive(Default)]
struct Packer {
    sets: Vec<RrSet>,
    rdata: Vec<u8>,
    live_sets: Vec<LiveSet>,
    libraries: Vec<(Name, Program)>,
    n_records: usize,
}

impl Packer {
    /// Takes the sets of a node; returns where they begin and how many they are.
    fn pack(
        &mut self,
        owner: &dyn Fn() -> Name,
        sets: &mut Vec<DraftSet<'_>>,
    ) -> Option<(u32, u16)> {
        self.take_libraries(owner, sets);
        let start = u32::try_from(self.sets.len()).ok()?;
        for set in &*sets {
            self.n_records += set.rdata.len() + set.programs.len();
            let data = match set.programs.is_empty() {
                true => self.pack_rdata(&set.rdata)?,
                false => self.pack_live(owner(), set)?,
            };
            self.sets.push(RrSet {
                rtype: set.rtype,
                ttl: set.ttl,
                data,
            });
        }
        Some((start, u16::try_from(sets.len()).ok()?))
    }

    /// Takes out `LUA LUA` records: parts of other programs, and no answers.
    fn take_libraries(&mut self, owner: &dyn Fn() -> Name, sets: &mut Vec<DraftSet<'_>>) {
        for set in sets.extract_if(.., |set| set.rtype == Type::LUA) {
            self.n_records += set.programs.len();
            let programs = set.programs.into_iter();
            self.libraries
                .extend(programs.map(|program| (owner(), program)));
        }
    }

    fn pack_rdata(&mut self, items: &[&[u8]]) -> Option<SetData> {
        let start = u32::try_from(self.rdata.len()).ok()?;
        for item in items {
            let length = u16::try_from(item.len()).ok()?;
            self.rdata.extend_from_slice(&length.to_be_bytes());
            self.rdata.extend_from_slice(item);
        }
        let end = u32::try_from(self.rdata.len()).ok()?;
        Some(SetData::Fixed { start, end })
    }

    fn pack_live(&mut self, owner: Name, set: &DraftSet<'_>) -> Option<SetData> {
        let number = u32::try_from(self.live_sets.len()).ok()?;
        self.live_sets.push(LiveSet {
            owner,
            rtype: set.rtype,
            fixed: set.rdata.iter().map(|rdata| (*rdata).into()).collect(),
            fixed_ttl: set.ttl,
            programs: set.programs.clone(),
        });
        Some(SetData::Live(number))
    }
}
