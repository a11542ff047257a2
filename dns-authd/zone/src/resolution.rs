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

impl Resolution<'_> {
    /// Whether it only says that the name has no data of the type.
    pub(crate) fn is_plain_nodata(&self) -> bool {
        let [entry] = self.entries.as_slice() else {
            return false;
        };
        self.rcode == Rcode::NOERROR && entry.section == Section::Authority && self.authoritative
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
