//! Builds a [`Zone`] from its records.
//!
//! Keeps the first spelling of each name, drops repeated records, gives an RRset one TTL, adds empty
//! non-terminals, finds the names that delegations and DNAMEs hide, and renders every answer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use config_text::Problem;
use dns_wire::hash::{Seed, Suffixes};
use dns_wire::{Class, Name, Type};

use super::denial::Denial;
use super::split::Extent;
use super::{Answer, Kind, LiveSet, Node, NodeAnswers, RrSet, SetData, Soa, Zone, rendering};
use crate::merge::canonical;
use crate::name_table::{Index, NameTable};
use crate::program::Program;
use crate::record::{Record, RecordData};
use crate::store::Store;

impl Zone {
    /// Compiles a zone; names will be looked up by hashes of this seed.
    ///
    /// # Errors
    /// Fails when the records cannot be served as a zone: without a SOA record at the apex, or with too
    /// many names for the table.
    pub fn build(apex: &Name, records: &[Record], seed: Seed) -> Result<Self, Vec<Problem>> {
        let mut builder = Builder::new(apex);
        for record in records {
            if record.class == Class::IN && record.owner.is_within(apex) {
                builder.add(record).map_err(|problem| vec![problem])?;
            }
        }
        let mut zone = builder.finish(seed).map_err(|problem| vec![problem])?;
        zone.denial = Denial::of(&zone);
        rendering::render(&mut zone);
        Ok(zone)
    }
}

impl Zone {
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
        let mut builder = Builder::new(apex);
        for record in records.iter().filter(|it| it.owner.is_within(apex)) {
            builder.add(record).map_err(|problem| vec![problem])?;
        }
        for name in empty.iter().filter(|name| name.is_within(apex)) {
            builder.place_of(name);
        }
        let mut zone = builder.finish(seed).map_err(|problem| vec![problem])?;
        zone.extent = Some(extent);
        rendering::render(&mut zone);
        Ok(zone)
    }
}

/// A name while records are added.
struct Draft<'r> {
    name: Name,
    parent: Option<usize>,
    sets: Vec<DraftSet<'r>>,
    kind: Kind,
    occluded: bool,
    wildcard: Option<Index>,
    /// Whether there are names below it.
    is_parent: bool,
}

impl Draft<'_> {
    /// Whether the name is only the hash of another one. It does not exist for questions (RFC 5155 §7.2.8).
    fn is_proof(&self) -> bool {
        let is_part = |set: &DraftSet<'_>| matches!(set.rtype, Type::NSEC3 | Type::RRSIG);
        !self.is_parent
            && self.sets.iter().all(is_part)
            && self.sets.iter().any(|set| set.rtype == Type::NSEC3)
    }
}

/// An RRset while records are added.
struct DraftSet<'r> {
    rtype: Type,
    ttl: u32,
    rdata: Vec<&'r [u8]>,
    programs: Vec<Program>,
}

struct Builder<'r> {
    apex: Name,
    drafts: Vec<Draft<'r>>,
    /// Places in `drafts` by lower-case name.
    index: HashMap<Box<[u8]>, usize>,
}

impl<'r> Builder<'r> {
    fn new(apex: &Name) -> Self {
        let mut builder = Self {
            apex: apex.clone(),
            drafts: Vec::new(),
            index: HashMap::new(),
        };
        builder.insert(apex.clone(), None);
        builder
    }

    fn add(&mut self, record: &'r Record) -> Result<(), Problem> {
        let place = self.place_of(&record.owner);
        let rtype = record.rtype();
        let too_many = || Problem {
            position: Some(record.position.clone()),
            message: format!("too many types at {}", record.owner),
        };
        let Some(draft) = self.drafts.get_mut(place) else {
            return Ok(());
        };
        let known = draft.sets.iter().position(|set| set.rtype == rtype);
        let at = known.unwrap_or(draft.sets.len());
        if known.is_none() {
            if draft.sets.len() >= usize::from(u16::MAX) {
                return Err(too_many());
            }
            draft.sets.push(DraftSet {
                rtype,
                ttl: record.ttl,
                rdata: Vec::new(),
                programs: Vec::new(),
            });
        }
        let Some(set) = draft.sets.get_mut(at) else {
            return Ok(());
        };
        // RFC 2181 §5.2: an RRset has one TTL; the lowest is the safe choice.
        set.ttl = set.ttl.min(record.ttl);
        match &record.data {
            RecordData::Wire { rdata, .. } => set.rdata.push(rdata),
            RecordData::Lua { code, parts, .. } => set.programs.push(Program {
                ttl: record.ttl,
                code: code.as_str().into(),
                parts: Arc::clone(parts),
                position: record.position.clone(),
            }),
        }
        Ok(())
    }

    /// The place of a name; a new name is added with its ancestors.
    fn place_of(&mut self, name: &Name) -> usize {
        let lower = name.to_lowercase();
        if let Some(place) = self.index.get(lower.as_wire()) {
            return *place;
        }
        let parent = name.parent().map(|parent| self.place_of(&parent));
        self.insert(name.clone(), parent)
    }

    fn insert(&mut self, name: Name, parent: Option<usize>) -> usize {
        let place = self.drafts.len();
        let key = name.to_lowercase().as_wire().into();
        if let Some(encloser) = parent.and_then(|parent| self.drafts.get_mut(parent)) {
            encloser.is_parent = true;
            if name.is_wildcard() {
                encloser.wildcard = Index::new(place);
            }
        }
        self.drafts.push(Draft {
            name,
            parent,
            sets: Vec::new(),
            kind: Kind::Plain,
            occluded: false,
            wildcard: None,
            is_parent: false,
        });
        self.index.insert(key, place);
        place
    }

    //--- Finishing

    fn finish(mut self, seed: Seed) -> Result<Zone, Problem> {
        for draft in &mut self.drafts {
            for set in &mut draft.sets {
                remove_repeated(set);
            }
        }
        let soa = self.soa()?;
        self.classify();
        let mut packer = Packer::default();
        let mut suffixes = Suffixes::default();
        let (mut visible, mut occluded) = (Vec::new(), Vec::new());
        let mut max_labels = 0;
        for (place, draft) in self.drafts.into_iter().enumerate() {
            let index = Index::new(place).ok_or_else(too_large)?;
            suffixes.read(seed, draft.name.as_wire());
            let hash = suffixes.hash(suffixes.n_labels());
            if draft.occluded {
                occluded.push((hash, index));
            } else {
                visible.push((hash, index));
                max_labels = max_labels.max(suffixes.n_labels());
            }
            packer
                .pack(place, draft, suffixes.name())
                .ok_or_else(too_large)?;
        }
        Ok(Zone {
            apex_labels: self.apex.n_labels(),
            apex: self.apex,
            max_labels,
            soa,
            seed,
            extent: None,
            nodes: packer.nodes.into(),
            names: packer.names.into(),
            spellings: packer.spellings,
            visible: NameTable::new(&visible),
            occluded: NameTable::new(&occluded),
            sets: packer.sets.into(),
            rdata: packer.rdata.into(),
            n_records: packer.n_records,
            live_sets: packer.live_sets.into(),
            libraries: packer.libraries,
            answers: Box::default(),
            store: Store::default(),
            onward: Box::default(),
            nodata: Answer::Resolve,
            nxdomain: Answer::Resolve,
            denial: None,
            signed: Box::default(),
        })
    }

    /// Reads the SOA record, which every zone must have.
    fn soa(&self) -> Result<Soa, Problem> {
        let missing = || Problem {
            position: None,
            message: format!("zone {} has no SOA record", self.apex),
        };
        let set = self
            .drafts
            .first()
            .and_then(|apex| apex.sets.iter().find(|set| set.rtype == Type::SOA))
            .ok_or_else(missing)?;
        let rdata = set.rdata.first().ok_or_else(missing)?;
        let numbers: &[u8; 20] = rdata.last_chunk().ok_or_else(missing)?;
        let &[s3, s2, s1, s0, .., m3, m2, m1, m0] = numbers;
        let minimum = u32::from_be_bytes([m3, m2, m1, m0]);
        Ok(Soa {
            serial: u32::from_be_bytes([s3, s2, s1, s0]),
            negative_ttl: set.ttl.min(minimum),
        })
    }

    /// Finds delegations and DNAMEs, and the names that they hide. A parent always comes before its
    /// children, so one pass is enough.
    fn classify(&mut self) {
        for place in 0..self.drafts.len() {
            let hidden = self
                .drafts
                .get(place)
                .and_then(|draft| draft.parent)
                .and_then(|parent| self.drafts.get(parent))
                .is_some_and(|parent| parent.occluded || parent.kind != Kind::Plain);
            let Some(draft) = self.drafts.get_mut(place) else {
                continue;
            };
            draft.occluded = hidden || draft.is_proof();
            let has = |rtype| {
                let mut fixed = draft.sets.iter().filter(|set| set.programs.is_empty());
                fixed.any(|set| set.rtype == rtype)
            };
            // RFC 4592 §4.2 leaves NS at a wildcard undefined: it is plain data here.
            draft.kind = if place != 0 && !draft.name.is_wildcard() && has(Type::NS) {
                Kind::Cut
            } else if has(Type::DNAME) {
                Kind::Dname
            } else {
                Kind::Plain
            };
        }
    }
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

/// Arranges drafts in the zone's flat arrays.
#[derive(Default)]
struct Packer {
    nodes: Vec<Node>,
    names: Vec<u8>,
    spellings: BTreeMap<u32, Name>,
    sets: Vec<RrSet>,
    rdata: Vec<u8>,
    live_sets: Vec<LiveSet>,
    libraries: Vec<(Name, Program)>,
    n_records: usize,
}

impl Packer {
    fn pack(&mut self, place: usize, mut draft: Draft<'_>, lower: &[u8]) -> Option<()> {
        self.take_libraries(&mut draft);
        self.nodes.push(Node {
            name_start: u32::try_from(self.names.len()).ok()?,
            name_length: u8::try_from(lower.len()).ok()?,
            kind: draft.kind,
            occluded: draft.occluded,
            wildcard: draft.wildcard,
            sets_start: u32::try_from(self.sets.len()).ok()?,
            n_sets: u16::try_from(draft.sets.len()).ok()?,
            answers: NodeAnswers::default(),
        });
        self.names.extend_from_slice(lower);
        if draft.name.as_wire() != lower {
            self.spellings
                .insert(u32::try_from(place).ok()?, draft.name.clone());
        }
        for set in draft.sets {
            self.n_records += set.rdata.len() + set.programs.len();
            let data = match set.programs.is_empty() {
                true => self.pack_rdata(&set.rdata)?,
                false => self.pack_live(&draft.name, &set)?,
            };
            self.sets.push(RrSet {
                rtype: set.rtype,
                ttl: set.ttl,
                data,
            });
        }
        Some(())
    }

    /// Takes out `LUA LUA` records: parts of other programs, and no answers.
    fn take_libraries(&mut self, draft: &mut Draft<'_>) {
        let name = &draft.name;
        for set in draft.sets.extract_if(.., |set| set.rtype == Type::LUA) {
            self.n_records += set.programs.len();
            let programs = set.programs.into_iter();
            self.libraries
                .extend(programs.map(|program| (name.clone(), program)));
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

    fn pack_live(&mut self, owner: &Name, set: &DraftSet<'_>) -> Option<SetData> {
        let number = u32::try_from(self.live_sets.len()).ok()?;
        self.live_sets.push(LiveSet {
            owner: owner.clone(),
            rtype: set.rtype,
            fixed: set.rdata.iter().map(|rdata| (*rdata).into()).collect(),
            fixed_ttl: set.ttl,
            programs: set.programs.clone(),
        });
        Some(SetData::Live(number))
    }
}
