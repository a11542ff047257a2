//! Proofs by NSEC records (RFC 4035 §5.4).

use dns_wire::{Name, Type};

use super::Cut;
use super::bitmap::Bitmap;
use crate::response::Set;

/// An NSEC record.
#[derive(Clone, Debug)]
pub(crate) struct Nsec<'a> {
    owner: &'a Name,
    next: Name,
    /// Whether it is the last of its zone: `next` is the apex.
    is_last: bool,
    zone: &'a Name,
    types: Bitmap<'a>,
}

/// The relation of a name to a gap between two names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gap {
    /// The name does not exist; the closest name that does.
    Missing(Name),
    /// The name has no records, but names below it do.
    Empty,
    /// The record says nothing about it.
    Outside,
}

impl<'a> Nsec<'a> {
    /// Reads the record of a set; `None` for other types and for one that leads out of the zone.
    pub(crate) fn read(set: &'a Set, zone: &'a Name) -> Option<Self> {
        let [rdata] = set.rdatas.as_slice() else {
            return None;
        };
        if set.rtype != Type::NSEC {
            return None;
        }
        let (next, length) = Name::from_wire(rdata).ok()?;
        let leads_on = set.owner.is_within(zone) && next.is_within(zone);
        leads_on.then_some(Self {
            owner: &set.owner,
            is_last: next == *zone,
            next,
            zone,
            types: Bitmap(rdata.get(length..)?),
        })
    }

    /// The relation of a name to the gap behind the owner.
    fn gap(&self, name: &Name) -> Gap {
        let is_behind = self.owner < name && (self.is_last || *name < self.next);
        // RFC 6840 §4.1: the record of a zone cut or of a DNAME denies nothing below it.
        let is_foreign = name.is_within(self.owner) && self.types.ends_zone();
        if !is_behind || !name.is_within(self.zone) || is_foreign {
            return Gap::Outside;
        }
        match self.next.is_within(name) {
            true => Gap::Empty,
            false => {
                let labels = common(name, self.owner).max(common(name, &self.next));
                Gap::Missing(name.suffix(labels))
            }
        }
    }

    /// Whether it says that a name does not exist, with nothing below.
    pub(super) fn denies(&self, name: &Name) -> bool {
        matches!(self.gap(name), Gap::Missing(_))
    }
}

/// The number of labels that two names share at their ends.
fn common(a: &Name, b: &Name) -> usize {
    let labels = a.n_labels().min(b.n_labels());
    let shared = (0..=labels).rev().find(|n| a.suffix(*n) == b.suffix(*n));
    shared.unwrap_or(0)
}

/// The closest name that exists, if the name itself does not.
pub(crate) fn encloser(all: &[Nsec<'_>], name: &Name) -> Option<Name> {
    all.iter().find_map(|nsec| match nsec.gap(name) {
        Gap::Missing(encloser) => Some(encloser),
        Gap::Empty | Gap::Outside => None,
    })
}

/// Whether neither the name nor a wildcard in its place exists.
pub(crate) fn no_name(all: &[Nsec<'_>], name: &Name) -> bool {
    // RFC 9824 §3.5: a signer that answers online says so in the list of types.
    let is_said = |nsec: &Nsec<'_>| *nsec.owner == *name && nsec.types.has(Type::NXNAME);
    if all.iter().any(is_said) {
        return true;
    }
    let wildcard = encloser(all, name).and_then(|encloser| encloser.prepend(b"*").ok());
    wildcard.is_some_and(|wildcard| all.iter().any(|nsec| nsec.denies(&wildcard)))
}

/// Whether the name has no records of a type, or does not exist and the wildcard in its place has none.
pub(crate) fn no_data(all: &[Nsec<'_>], name: &Name, rtype: Type) -> bool {
    let denies_at = |owner: &Name| {
        let mut at = all.iter().filter(|nsec| *nsec.owner == *owner);
        at.any(|nsec| nsec.types.denies(owner, rtype))
    };
    if denies_at(name) || all.iter().any(|nsec| nsec.gap(name) == Gap::Empty) {
        return true;
    }
    let wildcard = encloser(all, name).and_then(|encloser| encloser.prepend(b"*").ok());
    wildcard.is_some_and(|wildcard| denies_at(&wildcard))
}

/// The state of a name without DS records.
pub(super) fn cut(all: &[Nsec<'_>], name: &Name) -> Option<Cut> {
    if let Some(nsec) = all.iter().find(|nsec| *nsec.owner == *name) {
        return nsec.types.cut();
    }
    all.iter().find_map(|nsec| match nsec.gap(name) {
        Gap::Missing(_) => Some(Cut::Nothing),
        Gap::Empty => Some(Cut::None),
        Gap::Outside => None,
    })
}
