//! The catalog that each member zone belongs to (RFC 9432 §4.3.1, §5).
//!
//! ```text
//!              listed                 listed elsewhere with `coo` here
//!   (nowhere) ───────► member of C ─────────────────────────────────► member of D, with its data if its identifier is the same
//!       ▲                 │   │ ▲
//!       └── not listed ───┘   └─┘ another identifier: its data goes first
//! ```
//!
//! A zone that was configured otherwise, and one that another catalog has, is never taken over.

use std::collections::{BTreeMap, BTreeSet};

use dns_wire::Name;

use crate::catalog::{Catalog, Node};

/// A zone that a catalog has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The catalog.
    pub catalog: Name,
    /// The label that identifies the zone there.
    pub id: Box<[u8]>,
    /// The groups of the zone there.
    pub groups: Vec<String>,
}

/// The zones that catalogs have added.
pub type Members = BTreeMap<Name, Member>;

/// A catalog, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'c> {
    /// Its name.
    pub name: &'c Name,
    /// Its last version that was not broken; `None` while there is none: its members stay.
    pub catalog: Option<&'c Catalog>,
}

/// A zone that a catalog lists and does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The zone.
    pub zone: Name,
    /// The catalog.
    pub catalog: Name,
    /// Why it does not get the zone.
    pub reason: Reason,
}

/// Why a catalog does not get a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The zone is configured otherwise.
    Configured,
    /// The zone belongs to this catalog.
    Belongs(Name),
    /// The catalog lists it more than once.
    Twice,
}

/// The result of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The members.
    pub members: Members,
    /// The zones among them that were members before and whose data must go first: their identifier is another one, or another
    /// catalog has them without `coo` (RFC 9432 §5.4, §4.3.1).
    pub reset: BTreeSet<Name>,
    /// The zones that some catalog does not get.
    pub conflicts: Vec<Conflict>,
}

/// Says which catalog has which zone. `catalogs` are those of the configuration, in their order: the first of several that list a
/// new zone gets it. `is_configured` says of a zone whether it is configured otherwise.
#[must_use]
pub fn assign(
    before: &Members,
    catalogs: &[Known<'_>],
    is_configured: &dyn Fn(&Name) -> bool,
) -> Assigned {
    let mut listed: BTreeMap<&Name, Vec<(&Name, &Node)>> = BTreeMap::new();
    for known in catalogs {
        for (zone, nodes) in known.catalog.into_iter().flat_map(Catalog::members) {
            let places = listed.entry(zone).or_default();
            places.extend(nodes.iter().map(|node| (known.name, node)));
        }
    }
    let mut assigned = Assigned::default();
    for (zone, member) in before {
        let is_unknown =
            |known: &Known<'_>| known.catalog.is_none() && *known.name == member.catalog;
        if catalogs.iter().any(is_unknown) && !is_configured(zone) {
            assigned.members.insert(zone.clone(), member.clone());
        }
    }
    for (zone, places) in listed {
        let conflict = |catalog: &Name, reason| Conflict {
            zone: zone.clone(),
            catalog: catalog.clone(),
            reason,
        };
        if is_configured(zone) {
            let names: BTreeSet<&Name> = places.iter().map(|(name, _)| *name).collect();
            let all = names.into_iter();
            let all = all.map(|name| conflict(name, Reason::Configured));
            assigned.conflicts.extend(all);
            continue;
        }
        if let Some(kept) = assigned.members.get(zone) {
            // Its catalog has not come yet, and may still list it.
            let owner = kept.catalog.clone();
            let all = places.iter();
            let all = all.map(|(name, _)| conflict(name, Reason::Belongs(owner.clone())));
            assigned.conflicts.extend(all);
            continue;
        }
        let held = before.get(zone);
        let Some(((owner, node), keeps)) = choose(held, &places) else {
            continue;
        };
        if held.is_some() && !keeps {
            assigned.reset.insert(zone.clone());
        }
        for (name, other) in &places {
            if *name == owner && other.id == node.id {
                continue;
            }
            // A catalog that hands the zone over still lists it until the other one has it.
            if *name != owner && other.coo.as_ref() == Some(owner) {
                continue;
            }
            let reason = match *name == owner {
                true => Reason::Twice,
                false => Reason::Belongs(owner.clone()),
            };
            assigned.conflicts.push(conflict(name, reason));
        }
        let member = Member {
            catalog: owner.clone(),
            id: node.id.clone(),
            groups: node.groups.clone(),
        };
        assigned.members.insert(zone.clone(), member);
    }
    assigned
}

type Place<'c> = (&'c Name, &'c Node);

/// The place that has a zone, and whether its data stays.
fn choose<'c>(held: Option<&Member>, places: &[Place<'c>]) -> Option<(Place<'c>, bool)> {
    let Some(held) = held else {
        return Some((*places.first()?, true));
    };
    let of_catalog = |catalog: &Name| {
        let mut mine = places.iter().filter(|(name, _)| *name == catalog);
        let same = mine.clone().find(|(_, node)| node.id == held.id);
        same.or_else(|| mine.next()).copied()
    };
    let current = of_catalog(&held.catalog);
    let heir = current.and_then(|(_, node)| node.coo.as_ref());
    let heir = heir.filter(|heir| **heir != held.catalog);
    if let Some(next) = heir.and_then(of_catalog) {
        return Some((next, next.1.id == held.id));
    }
    match current {
        Some(place) => Some((place, place.1.id == held.id)),
        // Its catalog has given it up: this is a new zone of the same name.
        None => Some((*places.first()?, false)),
    }
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { zone, catalog, .. } = self;
        match &self.reason {
            Reason::Configured => write!(
                f,
                "{catalog} lists {zone}, which is configured otherwise and stays as it is"
            ),
            Reason::Belongs(owner) => {
                write!(f, "{catalog} lists {zone}, which belongs to {owner}")
            }
            Reason::Twice => write!(f, "{catalog} lists {zone} more than once"),
        }
    }
}
