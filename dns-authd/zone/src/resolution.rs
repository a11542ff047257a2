//! The records of a response before they are encoded.

use dns_wire::{Name, Rcode, Section, Type};

use crate::name_table::Index;

/// The records that answer a question.
#[derive(Debug)]
pub struct Resolution<'z> {
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    pub(crate) entries: Vec<Entry<'z>>,
    /// The number of entries that a complete response must have; later ones may be left out.
    pub(crate) n_required: usize,
    /// The nodes that the lookup visited.
    pub(crate) visited: Vec<Index>,
    /// The name behind the last alias, if it may belong to another zone: it is outside this one, or below a
    /// delegation.
    pub(crate) onward: Option<Name>,
}

/// One RRset of a response.
#[derive(Debug)]
pub(crate) struct Entry<'z> {
    pub(crate) section: Section,
    /// `None` is the question's name.
    pub(crate) owner: Option<Name>,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) data: Data<'z>,
}

/// The data of an RRset.
#[derive(Clone, Debug)]
pub(crate) enum Data<'z> {
    /// The zone's own.
    Zone(RdataItems<'z>),
    /// Data made for this response.
    Made(Vec<Vec<u8>>),
    /// Those of a name's signatures that cover this type.
    Signatures(RdataItems<'z>, Type),
}

/// The records of a live set, for the resolver.
#[derive(Debug)]
pub enum Pick {
    /// These records.
    Records {
        /// Their TTL.
        ttl: u32,
        /// Their data.
        rdata: Vec<Vec<u8>>,
    },
    /// No records: the name exists without data of the type.
    Empty,
    /// The live set has no answer: the response is SERVFAIL.
    Fail,
    /// The live set must be drawn for each query, so the answer cannot be rendered beforehand.
    PerQuery,
}

/// The reason why a question has no [`Resolution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// A live set failed.
    Failed,
    /// A live set must be drawn for each query.
    PerQuery,
}

impl Data<'_> {
    /// Each record's data.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        let (zone, made, covered) = match self {
            Data::Zone(items) => (Some(items.clone()), None, None),
            Data::Made(items) => (None, Some(items.iter().map(Vec::as_slice)), None),
            Data::Signatures(items, covered) => (Some(items.clone()), None, Some(*covered)),
        };
        // The type covered comes first (RFC 4034 §3.1).
        let is_wanted = move |item: &&[u8]| {
            covered.is_none_or(|covered| item.starts_with(&covered.0.to_be_bytes()))
        };
        let zone = zone.into_iter().flatten().filter(is_wanted);
        zone.chain(made.into_iter().flatten())
    }
}

impl<'z> Resolution<'z> {
    /// Continues this answer with that of another zone for the name behind the last alias. The sections of both
    /// are joined; the response code is that of the chain's end (RFC 6604 §2.1), and the authority that of its
    /// beginning (RFC 1035 §4.1.1).
    ///
    /// Returns `false` and changes nothing if the chain would repeat itself: an alias or a redirection of the
    /// other answer is part of this one.
    pub fn continue_with(&mut self, qname: &[u8], other: Self) -> bool {
        let is_here = |entry: &Entry<'z>| self.entries.iter().any(|own| own.is_set(entry, qname));
        let mut answer = other.entries.iter();
        if answer.any(|entry| entry.section == Section::Answer && is_here(entry)) {
            return false;
        }
        let is_new: Vec<bool> = other.entries.iter().map(|entry| !is_here(entry)).collect();
        let split = |entries: Vec<Entry<'z>>, n_required: usize| {
            let numbered = entries.into_iter().enumerate();
            numbered.partition::<Vec<_>, _>(|(place, _)| *place < n_required)
        };
        let own = split(std::mem::take(&mut self.entries), self.n_required);
        let others = split(other.entries, other.n_required);
        // A proof of the first zone may serve the end of the chain too.
        let is_new = |(place, _): &(usize, Entry<'z>)| is_new.get(*place) == Some(&true);
        let new_ones = others.0.into_iter().filter(is_new);
        let mut required: Vec<_> = own.0.into_iter().chain(new_ones).collect();
        self.n_required = required.len();
        // The sort is stable: each section keeps its order.
        required.sort_by_key(|(_, entry)| entry.section);
        let optional = own.1.into_iter().chain(others.1.into_iter().filter(is_new));
        let entries = required.into_iter().chain(optional);
        self.entries = entries.map(|(_, entry)| entry).collect();
        self.rcode = other.rcode;
        self.onward = other.onward;
        true
    }
}

impl Entry<'_> {
    /// Whether this is the same RRset, or the same signatures, in the same section.
    fn is_set(&self, other: &Entry<'_>, qname: &[u8]) -> bool {
        let owner = self.owner.as_ref().map_or(qname, Name::as_wire);
        let their_owner = other.owner.as_ref().map_or(qname, Name::as_wire);
        (self.section, self.rtype, self.covered()) == (other.section, other.rtype, other.covered())
            && owner.eq_ignore_ascii_case(their_owner)
    }

    /// The type that signatures cover.
    const fn covered(&self) -> Option<Type> {
        match self.data {
            Data::Signatures(_, covered) => Some(covered),
            Data::Zone(_) | Data::Made(_) => None,
        }
    }
}

impl Resolution<'_> {
    /// Whether it only says that the name has no data of the type.
    pub(crate) fn is_plain_nodata(&self) -> bool {
        let [entry] = self.entries.as_slice() else {
            return false;
        };
        self.rcode == Rcode::NOERROR && entry.section == Section::Authority && self.authoritative
    }

    /// The name behind the last alias, if it may belong to another zone.
    #[must_use]
    pub const fn onward(&self) -> Option<&Name> {
        self.onward.as_ref()
    }

    /// How many aliases the answer has.
    #[must_use]
    pub fn n_aliases(&self) -> usize {
        let is_alias = |entry: &&Entry<'_>| entry.rtype == Type::CNAME;
        self.entries.iter().filter(is_alias).count()
    }

    /// Whether the chain passes this name, of which the question has `qname`: to follow it again is a loop.
    pub(crate) fn was_at(&self, target: &Name, qname: &[u8]) -> bool {
        let is = |owner: &Option<Name>| match owner {
            Some(owner) => owner == target,
            None => target.as_wire().eq_ignore_ascii_case(qname),
        };
        self.entries
            .iter()
            .any(|entry| entry.rtype == Type::CNAME && is(&entry.owner))
    }

    /// Whether an alias led back to the node where the answer began.
    pub(crate) fn returns(&self) -> bool {
        match self.visited.split_first() {
            Some((first, others)) => others.contains(first),
            None => false,
        }
    }
}

impl Default for Resolution<'_> {
    fn default() -> Self {
        Self {
            rcode: Rcode::NOERROR,
            authoritative: true,
            entries: Vec::new(),
            n_required: 0,
            visited: Vec::new(),
            onward: None,
        }
    }
}

/// The RDATA of one set, item by item; each behind its length in two octets.
#[derive(Clone, Debug)]
pub(crate) struct RdataItems<'a> {
    rest: &'a [u8],
}

impl<'a> RdataItems<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }
}

impl<'a> Iterator for RdataItems<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (item, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest;
        Some(item)
    }
}
