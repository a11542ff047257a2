//! Proofs that a name or a type does not exist (RFC 4035 §5.4, RFC 5155 §8, RFC 6840 §4).
//!
//! The records come from the caller with their signatures checked and their owners within the zone. Each rule looks for
//! the records that it needs; further ones do not matter.

mod bitmap;
pub(crate) mod nsec;
mod nsec3;

use dns_wire::{Name, Type};

use crate::budget::Budget;
use crate::response::Set;
use crate::verdict::Why;
pub(crate) use nsec::Nsec;
use nsec3::Nsec3s;

/// The records of one zone that prove denials.
#[derive(Debug)]
pub(crate) struct Proofs<'a> {
    zone: &'a Name,
    nsec: Vec<Nsec<'a>>,
    nsec3: Nsec3s<'a>,
}

/// A proof that holds, and the state that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It holds.
    Holds,
    /// It holds, but unsigned zones may hide in it, or it was not computed.
    Insecure(Why),
}

/// The state of a name in a zone by the proof that it has no DS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A zone without DS records begins there.
    Insecure(Why),
    /// No zone begins there.
    None,
    /// The name does not exist, and none below it does.
    Nothing,
}

impl<'a> Proofs<'a> {
    /// Sorts the sets of a zone.
    pub(crate) fn new(zone: &'a Name, sets: &[&'a Set]) -> Self {
        let nsec = sets.iter().filter_map(|set| Nsec::read(set, zone));
        Self {
            zone,
            nsec: nsec.collect(),
            nsec3: Nsec3s::read(sets, zone),
        }
    }

    /// Whether a name is proven not to exist.
    pub(crate) fn no_name(&self, name: &Name, budget: &mut Budget) -> Result<Proof, Why> {
        if nsec::no_name(&self.nsec, name) {
            return Ok(Proof::Holds);
        }
        self.nsec3.no_name(name, budget)
    }

    /// Whether a name is proven to have no records of a type.
    pub(crate) fn no_data(
        &self,
        name: &Name,
        rtype: Type,
        budget: &mut Budget,
    ) -> Result<Proof, Why> {
        if nsec::no_data(&self.nsec, name, rtype) {
            return Ok(Proof::Holds);
        }
        self.nsec3.no_data(name, rtype, budget)
    }

    /// Whether a name is proven to have no closer match than a wildcard whose parent has this many labels.
    pub(crate) fn is_wildcard(
        &self,
        name: &Name,
        labels: usize,
        budget: &mut Budget,
    ) -> Result<Proof, Why> {
        let next_closer = name.suffix(labels + 1);
        if self.nsec.iter().any(|nsec| nsec.denies(&next_closer)) {
            return Ok(Proof::Holds);
        }
        self.nsec3.denies(&next_closer, budget)
    }

    /// The state of a name below the zone's apex that has no DS records.
    pub(crate) fn cut(&self, name: &Name, budget: &mut Budget) -> Result<Cut, Why> {
        debug_assert!(name != self.zone, "a zone's own DS is in the zone above");
        if let Some(cut) = nsec::cut(&self.nsec, name) {
            return Ok(cut);
        }
        self.nsec3.cut(name, budget)
    }
}
