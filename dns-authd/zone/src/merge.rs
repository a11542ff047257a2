//! Merges the records of a zone's files into `RRsets`: without duplicates (RFC 2181 §5), and with one
//! TTL for each set, the lowest (RFC 2181 §5.2).

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use config_text::Position;
use dns_wire::Type;
use dns_wire::hash::{Seed, Suffixes};
use dns_wire::layout::{Field, Layout};
use dns_wire::name::wire_length;

use crate::record::{Record, RecordData};

/// Removes duplicates and levels TTLs; `warn` gets each.
pub(crate) fn merge(records: &mut Vec<Record>, mut warn: impl FnMut(&Position, String)) {
    let mut findings = Findings::default();
    let order = order(records);
    for alike in order.chunk_by(|(hash, _), (other, _)| hash == other) {
        if alike.len() > 1 {
            findings.look_at(records, alike);
        }
    }
    drop(order);
    findings.sort();
    let at = |number: usize| records.get(number).map(|record| &record.position);
    for (number, first) in &findings.repeated {
        if let (Some(here), Some(first)) = (at(*number), at(*first)) {
            let line = first.line;
            warn(here, format!("the same record is on line {line}"));
        }
    }
    for (number, lowest) in &findings.odd_ttls {
        if let Some(record) = records.get(*number) {
            let (owner, rtype) = (&record.owner, record.rtype());
            let message = format!("{owner} {rtype} has different TTLs; {lowest} is used for all");
            warn(&record.position, message);
        }
    }
    for (number, lowest) in findings.higher {
        if let Some(record) = records.get_mut(number) {
            record.ttl = lowest;
        }
    }
    if findings.repeated.is_empty() {
        return;
    }
    let mut repeated = findings.repeated.iter().map(|(number, _)| *number);
    let mut next = repeated.next();
    let mut number = 0;
    records.retain(|_| {
        let is_repeated = next == Some(number);
        if is_repeated {
            next = repeated.next();
        }
        number += 1;
        !is_repeated
    });
}

/// The numbers of the records, those of one owner and type together: by a hash of both, then as in the file.
///
/// Most sets have one record. A sorted list finds the others in far less memory than a table of all sets.
fn order(records: &[Record]) -> Vec<(u64, u32)> {
    let seed = Seed(RandomState::new().hash_one(0));
    let mut suffixes = Suffixes::default();
    let numbered = (0..).zip(records);
    let mut order: Vec<(u64, u32)> = numbered
        .map(|(number, record)| {
            suffixes.read(seed, record.owner.as_wire());
            let owner = suffixes.hash(suffixes.n_labels());
            let rtype = record.rtype().0.to_be_bytes();
            (Suffixes::child_hash(owner, &rtype), number)
        })
        .collect();
    order.sort_unstable();
    order
}

/// Oddities of RRsets, by the numbers of records.
#[derive(Default)]
struct Findings {
    /// The records that repeat an earlier one, with that one.
    repeated: Vec<(usize, usize)>,
    /// The first record of each set whose TTL is not the first's, with the lowest.
    odd_ttls: Vec<(usize, u32)>,
    /// The records whose TTL is not the lowest of their set, with the lowest.
    higher: Vec<(usize, u32)>,
}

impl Findings {
    /// Looks at records whose owners and types have one hash: nearly always one set.
    fn look_at(&mut self, records: &[Record], alike: &[(u64, u32)]) {
        let numbers = alike.iter().map(|(_, number)| *number as usize);
        let mut rest: Vec<(usize, &Record)> = numbers
            .filter_map(|number| Some((number, records.get(number)?)))
            .collect();
        while let Some((_, first)) = rest.first().copied() {
            let is_of_set = |(_, it): &mut (usize, &Record)| {
                it.owner == first.owner && it.rtype() == first.rtype()
            };
            let set: Vec<(usize, &Record)> = rest.extract_if(.., is_of_set).collect();
            self.look_at_set(first, &set);
        }
    }

    fn look_at_set(&mut self, first: &Record, set: &[(usize, &Record)]) {
        let mut seen: HashSet<Content<'_>> = HashSet::with_capacity(set.len());
        for (number, record) in set {
            let content = Content::of(*number, record);
            match seen.get(&content) {
                Some(earlier) => self.repeated.push((*number, earlier.number)),
                None => {
                    seen.insert(content);
                }
            }
        }
        // Signatures have the TTL of the set they sign (RFC 4034 §3): those of one name differ.
        if first.rtype() == Type::RRSIG {
            return;
        }
        let ttls = set.iter().map(|(_, record)| record.ttl);
        let lowest = ttls.min().unwrap_or(first.ttl);
        let odd = set.iter().find(|(_, it)| it.ttl != first.ttl);
        self.odd_ttls
            .extend(odd.map(|(number, _)| (*number, lowest)));
        let higher = set.iter().filter(|(_, it)| it.ttl != lowest);
        self.higher
            .extend(higher.map(|(number, _)| (*number, lowest)));
    }

    /// Orders what people read as their file is.
    fn sort(&mut self) {
        self.repeated.sort_unstable();
        self.odd_ttls.sort_unstable();
    }
}

/// The data of a record in a set; names in it compare without regard to case.
struct Content<'a> {
    number: usize,
    /// Whether it is a program, which no plain data equals.
    is_program: bool,
    octets: Cow<'a, [u8]>,
}

impl<'a> Content<'a> {
    fn of(number: usize, record: &'a Record) -> Self {
        let (is_program, octets) = match &record.data {
            RecordData::Wire { rtype, rdata } => (false, canonical(*rtype, rdata)),
            RecordData::Lua { program, .. } => (true, Cow::Borrowed(program.code.as_bytes())),
        };
        Self {
            number,
            is_program,
            octets,
        }
    }
}

impl PartialEq for Content<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.is_program, &self.octets) == (other.is_program, &other.octets)
    }
}

impl Eq for Content<'_> {}

impl Hash for Content<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.is_program, &self.octets).hash(state);
    }
}

/// The data with its names in lower case (RFC 4034 §6.2).
#[must_use]
pub fn canonical(rtype: Type, rdata: &[u8]) -> Cow<'_, [u8]> {
    let layout = Layout::of(rtype);
    if !layout.has_names() {
        return Cow::Borrowed(rdata);
    }
    let mut lower = Vec::with_capacity(rdata.len());
    let mut rest = rdata;
    for field in layout.fields {
        let length = match field {
            Field::Octets(n) => *n,
            Field::Name => wire_length(rest).unwrap_or(rest.len()),
            Field::CharacterString => rest.first().map_or(0, |length| usize::from(*length) + 1),
            Field::Rest => rest.len(),
        };
        let (part, tail) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        if *field == Field::Name {
            lower.extend(part.to_ascii_lowercase());
        } else {
            lower.extend_from_slice(part);
        }
        rest = tail;
    }
    lower.extend_from_slice(rest);
    Cow::Owned(lower)
}
