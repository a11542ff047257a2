//! The way from a trust anchor down to the zone of a name (RFC 4035 §5).

use std::sync::Arc;

use dns_wire::{Name, Type};

use crate::anchors::{Anchors, Closest};
use crate::keys::Key;
use crate::verdict::Why;
use crate::zones::{State, Zones};

/// The end of the way, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The zone of the name has these keys.
    Zone(Name, Arc<[Key]>),
    Insecure(Why),
    Bogus(Why),
    /// These records have to be had first; the second name is that of the zone above, for DS.
    Need {
        name: Name,
        rtype: Type,
        above: Name,
    },
}

/// A name within a zone at which no other zone begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoCut {
    pub(crate) name: Name,
    /// Whether nothing is below it either.
    pub(crate) is_end: bool,
}

/// Finds the zone of a name.
pub(crate) fn place(
    target: &Name,
    anchors: &Anchors,
    zones: &Zones,
    no_cuts: &[NoCut],
    now: u64,
) -> Place {
    let mut zone = match anchors.closest(target, now) {
        Closest::None => return Place::Insecure(Why::NoAnchor),
        Closest::Negative(_) => return Place::Insecure(Why::NegativeAnchor),
        Closest::Positive(zone) => zone,
    };
    let need = |name: &Name, rtype, above: &Name| Place::Need {
        name: name.clone(),
        rtype,
        above: above.clone(),
    };
    let mut keys = match zones.get(&zone, now) {
        Some(State::Keys(keys)) => Arc::clone(keys),
        Some(State::Insecure(why)) => return Place::Insecure(*why),
        Some(State::Bogus(why)) => return Place::Bogus(*why),
        Some(State::Delegated(_)) | None => return need(&zone, Type::DNSKEY, &zone),
    };
    for labels in zone.n_labels() + 1..=target.n_labels() {
        let child = target.suffix(labels);
        match zones.get(&child, now) {
            Some(State::Keys(of_child)) => {
                keys = Arc::clone(of_child);
                zone = child;
            }
            Some(State::Delegated(_)) => return need(&child, Type::DNSKEY, &zone),
            Some(State::Insecure(why)) => return Place::Insecure(*why),
            Some(State::Bogus(why)) => return Place::Bogus(*why),
            None => match no_cuts.iter().find(|known| known.name == child) {
                Some(no_cut) if no_cut.is_end => break,
                Some(_) => {}
                None => return need(&child, Type::DS, &zone),
            },
        }
    }
    Place::Zone(zone, keys)
}
