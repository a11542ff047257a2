//! Merges the records of a zone's files into `RRsets`: without duplicates (RFC 2181 §5), and with one
//! TTL for each set, the lowest (RFC 2181 §5.2).

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use config_text::Position;
use dns_wire::layout::{Field, Layout};
use dns_wire::name::wire_length;
use dns_wire::{Name, Type};

use crate::record::{Record, RecordData};

/// Removes duplicates and levels TTLs; `warn` gets each.
pub(crate) fn merge(records: &mut Vec<Record>, mut warn: impl FnMut(&Position, String)) {
    let (set_of, mut sets) = sets(records);
    let mut keep = distinct(records, &mut warn).into_iter();
    for (index, (record, set)) in records.iter_mut().zip(set_of).enumerate() {
        let Some(set) = set.and_then(|set| sets.get_mut(set)) else {
            continue;
        };
        if set.first_other == Some(index) {
            let (owner, rtype, lowest) = (&record.owner, record.rtype(), set.lowest);
            let message = format!("{owner} {rtype} has different TTLs; {lowest} is used for all");
            warn(&record.position, message);
        }
        record.ttl = set.lowest;
    }
    records.retain(|_| keep.next().unwrap_or(true));
}

//--- Sets

/// The TTLs of the records that share owner and type.
struct Set {
    first: u32,
    lowest: u32,
    /// The first record with another TTL than the first's.
    first_other: Option<usize>,
}

/// The set that each record belongs to, and the sets.
fn sets(records: &[Record]) -> (Vec<Option<usize>>, Vec<Set>) {
    let mut numbers: HashMap<(&Name, Type), usize> = HashMap::with_capacity(records.len());
    let mut sets: Vec<Set> = Vec::with_capacity(records.len());
    let mut set_of = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        // Signatures have the TTL of the set they sign (RFC 4034 §3): those of one name differ.
        if record.rtype() == Type::RRSIG {
            set_of.push(None);
            continue;
        }
        let ttl = record.ttl;
        let number = *numbers
            .entry((&record.owner, record.rtype()))
            .or_insert(sets.len());
        match sets.get_mut(number) {
            None => sets.push(Set {
                first: ttl,
                lowest: ttl,
                first_other: None,
            }),
            Some(set) => {
                set.lowest = set.lowest.min(ttl);
                if ttl != set.first {
                    set.first_other.get_or_insert(index);
                }
            }
        }
        set_of.push(Some(number));
    }
    (set_of, sets)
}

//--- Duplicates

/// Marks the first record of each kind.
fn distinct(records: &[Record], warn: &mut impl FnMut(&Position, String)) -> Vec<bool> {
    let mut seen: HashMap<Content<'_>, &Position> = HashMap::with_capacity(records.len());
    let mut keep = Vec::with_capacity(records.len());
    for record in records {
        match seen.entry(Content(record)) {
            Entry::Occupied(first) => {
                let line = first.get().line;
                warn(
                    &record.position,
                    format!("the same record is on line {line}"),
                );
                keep.push(false);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(&record.position);
                keep.push(true);
            }
        }
    }
    keep
}

/// A record by owner, type and data; names in the data compare without regard to case.
struct Content<'a>(&'a Record);

impl PartialEq for Content<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.0.owner != other.0.owner {
            return false;
        }
        match (&self.0.data, &other.0.data) {
            (
                RecordData::Wire { rtype, rdata },
                RecordData::Wire {
                    rtype: their_type,
                    rdata: their_rdata,
                },
            ) => {
                rtype == their_type
                    && (rdata == their_rdata
                        || canonical(*rtype, rdata) == canonical(*rtype, their_rdata))
            }
            (
                RecordData::Lua { rtype, code, .. },
                RecordData::Lua {
                    rtype: their_type,
                    code: their_code,
                    ..
                },
            ) => rtype == their_type && code == their_code,
            _ => false,
        }
    }
}

impl Eq for Content<'_> {}

impl Hash for Content<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.owner.as_wire().to_ascii_lowercase().hash(state);
        match &self.0.data {
            RecordData::Wire { rtype, rdata } => {
                rtype.hash(state);
                canonical(*rtype, rdata).hash(state);
            }
            RecordData::Lua { rtype, code, .. } => (rtype, code).hash(state),
        }
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
