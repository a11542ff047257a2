//! A zone, compiled for answering: RFC 1034 §4.3.2 lookup, wildcards by RFC 4592, delegations,
//! DNAME by RFC 6672.
//!
//! A zone is built once from its records and never changed: a reload builds another, and an update of a few names copies it and
//! changes the copy before anyone has it. A hash table finds
//! names, and since every ancestor of a name up to the apex is in the table (RFC 4592 §2.2.2 calls those
//! without data empty non-terminals), bisection finds the closest encloser of a name that does not exist.
//! Names below a delegation or a DNAME are kept apart: they are glue, or nothing, and never an answer.
//!
//! Never reads a file, a clock or a socket, and never allocates for an answer that was rendered when the
//! zone was built.

mod build;
pub mod cursor;
mod denial;
mod patch;
mod place;
mod proof;
mod rendering;
mod resolve;
pub mod split;

pub use patch::Edit;
pub use place::NamePlace;
pub use resolve::{Asked, MAX_CHAIN};

use std::collections::BTreeMap;

use dns_wire::hash::{Seed, Suffixes};
use dns_wire::{Name, Type};

use crate::name_table::{Index, NameTable};
use crate::program::Program;
use crate::resolution::RdataItems;
use crate::store::{Rendered, Store};
use denial::Denial;
use split::Extent;

/// One zone, ready to answer.
#[derive(Debug)]
pub struct Zone {
    apex: Name,
    apex_labels: usize,
    /// Labels of the deepest name that is not glue.
    max_labels: usize,
    soa: Soa,
    seed: Seed,
    /// The names that it has, when it is a part of a zone.
    extent: Option<Extent>,
    nodes: Vec<Node>,
    /// Lower-case wire forms of all names.
    names: Vec<u8>,
    /// Names written with capitals, as they were written.
    spellings: BTreeMap<u32, Name>,
    /// Names that can be answered for.
    visible: NameTable,
    /// Names below a delegation or a DNAME.
    occluded: NameTable,
    sets: Vec<RrSet>,
    rdata: Vec<u8>,
    n_records: usize,
    live_sets: Box<[LiveSet]>,
    /// `LUA LUA` records, which other programs include.
    libraries: Vec<(Name, Program)>,
    answers: Vec<TypedAnswer>,
    store: Store,
    /// The responses whose last alias may lead into another zone, in their order, with its target.
    onward: Vec<(u32, Name)>,
    /// The answers of the whole zone: a name without the question's type, and a name that does not exist.
    nodata: Answer,
    nxdomain: Answer,
    /// The proofs of a signed zone; `None` if it is not signed.
    denial: Option<Denial>,
    /// In a signed zone the answers of each node with signatures and proofs.
    signed: Box<[NodeAnswers]>,
    /// How many names have other records than when it was built; their former records still take room.
    n_patched: usize,
}

/// The fields of the SOA record that the server itself needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soa {
    /// The zone's version (RFC 1982).
    pub serial: u32,
    /// The TTL of negative answers: min(SOA TTL, MINIMUM) (RFC 2308 §5).
    pub negative_ttl: u32,
}

impl Soa {
    /// Whether a serial comes after another in the arithmetic of RFC 1982 §3.2.
    #[must_use]
    pub const fn is_newer(serial: u32, than: u32) -> bool {
        let ahead = serial.wrapping_sub(than);
        ahead != 0 && ahead < 1 << 31
    }
}

/// An RRset that has `LUA` records, perhaps beside plain ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSet {
    pub owner: Name,
    /// The type of its records.
    pub rtype: Type,
    /// The data of its plain records, which are always served, with their TTL.
    pub fixed: Vec<Box<[u8]>>,
    /// The TTL of the plain records.
    pub fixed_ttl: u32,
    /// Its `LUA` records.
    pub programs: Vec<Program>,
}

/// One node's data of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RrSet {
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) data: SetData,
}

/// The place of the data of an [`RrSet`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum SetData {
    /// In [`Zone::rdata`], each item behind its length in two octets.
    Fixed { start: u32, end: u32 },
    /// The live set of this number: some of its records come from a program.
    Live(u32),
}

/// The role of a node in lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It answers for itself, and through its wildcard for names below.
    Plain,
    /// A delegation: it answers DS, and refers all other questions, at and below it.
    Cut,
    /// It answers for itself; names below it are redirected (RFC 6672).
    Dname,
}

/// A name of the zone.
#[derive(Clone, Copy, Debug)]
struct Node {
    name_start: u32,
    name_length: u8,
    kind: Kind,
    /// Whether it is below a delegation or a DNAME, and so gives no answers.
    occluded: bool,
    /// The node of `*.` this name.
    wildcard: Option<Index>,
    sets_start: u32,
    n_sets: u16,
    answers: NodeAnswers,
}

/// The answers of a node.
#[derive(Clone, Copy, Debug)]
struct NodeAnswers {
    n: u16,
    start: u32,
    /// The answer for types that have none of their own.
    other: Answer,
}

impl Default for NodeAnswers {
    fn default() -> Self {
        Self {
            n: 0,
            start: 0,
            other: Answer::Resolve,
        }
    }
}

/// One type's answer at a node; a node's are sorted by type.
#[derive(Clone, Copy, Debug)]
struct TypedAnswer {
    rtype: Type,
    answer: Answer,
}

/// The way in which a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With the response of this number in the zone's store.
    Rendered(u32),
    /// With the response of this number, unless the server has the zone that its last alias leads into
    /// ([`Zone::onward`]).
    Onward(u32),
    /// With the current answer of the live set of this number.
    Live(u32),
    /// By resolving it for each query: the response depends on more than the question's type.
    Resolve,
}

/// The place of a name in the zone, by RFC 1034 §4.3.2 step 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The name itself exists.
    Exact(Index),
    /// A wildcard matches it.
    Wildcard(Index),
    /// It is below a delegation.
    BelowCut(Index),
    /// It is below a name that owns a DNAME.
    BelowDname(Index),
    /// It does not exist.
    Missing,
}

/// A type that no record has: it represents all types without data of their own (RFC 6895 §3.1 reserves
/// it).
const NO_TYPE: Type = Type(u16::MAX);

/// Takes a record: owner, type, TTL and data.
type Each<'e> = &'e mut dyn FnMut(&Name, Type, u32, &[u8]);

impl Zone {
    /// The zone's name.
    #[inline]
    #[must_use]
    pub const fn apex(&self) -> &Name {
        &self.apex
    }

    /// The fields of the SOA record that the server needs.
    #[must_use]
    pub const fn soa(&self) -> Soa {
        self.soa
    }

    /// How many records the zone has, `LUA` records counted as one each.
    #[must_use]
    pub const fn n_records(&self) -> usize {
        self.n_records
    }

    /// The sets whose records programs make.
    #[inline]
    #[must_use]
    pub fn live_sets(&self) -> &[LiveSet] {
        &self.live_sets
    }

    /// Programs that others include, each with its name.
    #[must_use]
    pub fn libraries(&self) -> &[(Name, Program)] {
        &self.libraries
    }

    /// The data of the plain records of this name and type.
    #[must_use]
    pub fn data(&self, name: &Name, rtype: Type) -> Vec<&[u8]> {
        let mut suffixes = Suffixes::default();
        suffixes.read(self.seed, name.as_wire());
        let index = self
            .visible_node(&suffixes, suffixes.n_labels())
            .or_else(|| self.occluded_node(&suffixes));
        index
            .and_then(|index| self.node(index))
            .and_then(|node| self.set_of(node, rtype))
            .map_or_else(Vec::new, |set| self.rdata_of(set).collect())
    }

    /// Every record of the zone, hidden ones too, as a transfer sends them: owner, type, TTL, data.
    /// Programs have the record type of `PowerDNS`.
    #[must_use]
    pub fn records(&self) -> Vec<(Name, Type, u32, Vec<u8>)> {
        let mut records = self.plain_records();
        for (owner, rtype, program) in self.programs() {
            records.push((owner.clone(), Type::LUA, program.ttl, program.rdata(rtype)));
        }
        records
    }

    /// Every record except programs.
    #[must_use]
    pub fn plain_records(&self) -> Vec<(Name, Type, u32, Vec<u8>)> {
        let mut records = Vec::with_capacity(self.n_records);
        self.visit(&mut |owner, rtype, ttl, rdata| {
            records.push((owner.clone(), rtype, ttl, rdata.to_vec()));
        });
        records
    }

    /// Passes every record except programs to `each`.
    pub(crate) fn visit(&self, each: Each<'_>) {
        for (place, node) in self.nodes.iter().enumerate() {
            let Some(index) = Index::new(place) else {
                break;
            };
            let owner = self.spelling(index);
            for set in self.sets_of(node) {
                for rdata in self.rdata_of(set) {
                    each(&owner, set.rtype, self.ttl_of(node, set, rdata), rdata);
                }
            }
        }
        for set in &self.live_sets {
            for rdata in &set.fixed {
                each(&set.owner, set.rtype, set.fixed_ttl, rdata);
            }
        }
    }

    /// Every program, with its owner and the type that it makes.
    pub fn programs(&self) -> impl Iterator<Item = (&Name, Type, &Program)> {
        let of_sets = self.live_sets.iter().flat_map(|set| {
            let programs = set.programs.iter();
            programs.map(|program| (&set.owner, set.rtype, program))
        });
        let libraries = self.libraries.iter();
        of_sets.chain(libraries.map(|(owner, program)| (owner, Type::LUA, program)))
    }

    /// The octets the compiled zone takes, roughly.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of_val(&*self.nodes)
            + self.names.len()
            + self.visible.memory()
            + self.occluded.memory()
            + size_of_val(&*self.sets)
            + self.rdata.len()
            + size_of_val(&*self.answers)
            + self.store.memory()
            + size_of_val(&*self.onward)
            + self.denial.as_ref().map_or(0, Denial::memory)
            + size_of_val(&*self.signed)
    }

    /// Whether the zone is signed.
    #[inline]
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.denial.is_some()
    }

    /// How to answer a question for a name within this zone.
    #[inline]
    pub fn find(&self, name: &Suffixes, qtype: Type) -> Answer {
        let n = name.n_labels();
        if n <= self.max_labels
            && let Some(index) = self.visible_node(name, n)
            && let Some(node) = self.node(index)
        {
            return self.answer_at(&node.answers, qtype);
        }
        let Some(encloser) = self.node(self.closest_encloser(name)) else {
            return self.nxdomain;
        };
        match encloser.kind {
            Kind::Cut => encloser.answers.other,
            Kind::Dname => Answer::Resolve,
            Kind::Plain => match encloser.wildcard.and_then(|index| self.node(index)) {
                Some(wildcard) => self.answer_at(&wildcard.answers, qtype),
                None => self.nxdomain,
            },
        }
    }

    /// As [`Zone::find`], for a client that wants signatures and proofs (RFC 3225).
    #[inline]
    pub fn find_signed(&self, name: &Suffixes, qtype: Type) -> Answer {
        if self.denial.is_none() {
            return self.find(name, qtype);
        }
        if let Some(index) = self.visible_node(name, name.n_labels()) {
            return self.signed_answer_at(index, qtype);
        }
        // Every other proof depends on the name.
        let encloser = self.closest_encloser(name);
        match self.node(encloser).map(|node| node.kind) {
            // Below a delegation all types get the referral, DS too.
            Some(Kind::Cut) => self.signed_answer_at(encloser, NO_TYPE),
            _ => Answer::Resolve,
        }
    }

    #[inline]
    fn signed_answer_at(&self, index: Index, qtype: Type) -> Answer {
        let answers = self.signed.get(index.get());
        answers.map_or(Answer::Resolve, |answers| self.answer_at(answers, qtype))
    }

    /// The answer to ANY for a name within this zone: one RRset of the name (RFC 8482 §4.1).
    pub fn find_any(&self, name: &Suffixes, signed: bool) -> Answer {
        let place = self.locate(name);
        let node = match place {
            Place::Exact(index) | Place::Wildcard(index) => self.node(index),
            _ => None,
        };
        let Some(node) = node.filter(|node| node.kind != Kind::Cut) else {
            return match signed {
                true => self.find_signed(name, Type::ANY),
                false => self.find(name, Type::ANY),
            };
        };
        let sets = self.sets_of(node);
        // Signatures and proofs say little of a name.
        let is_data = |set: &&RrSet| !matches!(set.rtype, Type::RRSIG | Type::NSEC);
        let first = sets
            .iter()
            .find(|set| set.rtype == Type::CNAME)
            .or_else(|| sets.iter().find(is_data));
        let rtype = first.map_or(NO_TYPE, |set| set.rtype);
        match place {
            Place::Exact(_) if signed => self.find_signed(name, rtype),
            _ => self.answer_at(&node.answers, rtype),
        }
    }

    /// The answer for a name that exists without the question's type.
    #[inline]
    pub const fn nodata(&self) -> Answer {
        self.nodata
    }

    /// Whether this is the answer for names that do not exist.
    #[inline]
    #[must_use]
    pub fn says_no_name(&self, answer: Answer) -> bool {
        answer == self.nxdomain
    }

    /// Whether the suffix of `n_labels` labels of this name exists.
    #[inline]
    #[must_use]
    pub fn has(&self, name: &Suffixes, n_labels: usize) -> bool {
        self.visible_node(name, n_labels).is_some()
    }

    /// The response of this number.
    #[inline]
    pub fn rendered(&self, number: u32) -> Option<Rendered<'_>> {
        self.store.get(number)
    }

    /// The name that the last alias of this response leads to.
    #[must_use]
    pub fn onward(&self, number: u32) -> Option<&Name> {
        let found = self.onward.binary_search_by_key(&number, |(of, _)| *of);
        self.onward.get(found.ok()?).map(|(_, target)| target)
    }

    #[inline]
    fn answer_at(&self, answers: &NodeAnswers, qtype: Type) -> Answer {
        let start = answers.start as usize;
        self.answers
            .get(start..start + usize::from(answers.n))
            .and_then(|answers| answers.iter().find(|answer| answer.rtype == qtype))
            .map_or(answers.other, |answer| answer.answer)
    }

    /// The closest ancestor that exists (RFC 4592 §3.3.1) of a name that does not.
    #[inline]
    fn closest_encloser(&self, name: &Suffixes) -> Index {
        // The suffix of `exists` labels exists, the one of `absent` does not.
        let mut exists = self.apex_labels;
        let mut absent = name.n_labels().min(self.max_labels + 1);
        let mut found = Index::FIRST;
        // Most names that do not exist lack just their leftmost label.
        let mut next = absent.saturating_sub(1);
        while exists + 1 < absent {
            match self.visible_node(name, next) {
                Some(index) => (exists, found) = (next, index),
                None => absent = next,
            }
            next = exists.midpoint(absent);
        }
        found
    }

    #[inline]
    fn visible_node(&self, name: &Suffixes, n_labels: usize) -> Option<Index> {
        self.visible.find(name.hash(n_labels), |index| {
            self.name_is(index, name.suffix(n_labels))
        })
    }

    fn occluded_node(&self, name: &Suffixes) -> Option<Index> {
        self.occluded.find(name.hash(name.n_labels()), |index| {
            self.name_is(index, name.name())
        })
    }

    /// Finds the place of a name within this zone.
    fn locate(&self, name: &Suffixes) -> Place {
        if let Some(index) = self.visible_node(name, name.n_labels()) {
            return Place::Exact(index);
        }
        let encloser = self.closest_encloser(name);
        match self.node(encloser) {
            Some(node) => match (node.kind, node.wildcard) {
                (Kind::Cut, _) => Place::BelowCut(encloser),
                (Kind::Dname, _) => Place::BelowDname(encloser),
                (Kind::Plain, Some(wildcard)) => Place::Wildcard(wildcard),
                (Kind::Plain, None) => Place::Missing,
            },
            None => Place::Missing,
        }
    }

    #[inline]
    fn node(&self, index: Index) -> Option<&Node> {
        self.nodes.get(index.get())
    }

    #[inline]
    fn name_of(&self, node: &Node) -> &[u8] {
        let start = node.name_start as usize;
        self.names
            .get(start..start + usize::from(node.name_length))
            .unwrap_or(&[0])
    }

    #[inline]
    fn name_is(&self, index: Index, lower: &[u8]) -> bool {
        self.node(index)
            .is_some_and(|node| self.name_of(node) == lower)
    }

    fn sets_of(&self, node: &Node) -> &[RrSet] {
        let start = node.sets_start as usize;
        self.sets
            .get(start..start + usize::from(node.n_sets))
            .unwrap_or_default()
    }

    fn set_of(&self, node: &Node, rtype: Type) -> Option<&RrSet> {
        self.sets_of(node).iter().find(|set| set.rtype == rtype)
    }

    /// The TTL of a record of a set. A signature has that of the set which it covers (RFC 4034 §3); those of one
    /// name differ.
    fn ttl_of(&self, node: &Node, set: &RrSet, rdata: &[u8]) -> u32 {
        let covered = rdata
            .first_chunk::<2>()
            .filter(|_| set.rtype == Type::RRSIG);
        let covered = covered.map(|covered| Type(u16::from_be_bytes(*covered)));
        covered
            .and_then(|covered| self.set_of(node, covered))
            .map_or(set.ttl, |covered| covered.ttl)
    }

    /// The data of a set's fixed records.
    pub(crate) fn rdata_of(&self, set: &RrSet) -> RdataItems<'_> {
        let rest = match set.data {
            SetData::Fixed { start, end } => self
                .rdata
                .get(start as usize..end as usize)
                .unwrap_or_default(),
            SetData::Live(_) => &[],
        };
        RdataItems::new(rest)
    }

    /// A node's name as it was written.
    fn spelling(&self, index: Index) -> Name {
        let number = u32::try_from(index.get()).unwrap_or(u32::MAX);
        if let Some(name) = self.spellings.get(&number) {
            return name.clone();
        }
        self.node(index)
            .and_then(|node| Name::from_wire(self.name_of(node)).ok())
            .map_or_else(Name::root, |(name, _)| name)
    }
}
