//! All zones of a server, and the one that answers for a name.
//!
//! The table is replaced as a whole, but its zones are shared: a change of one zone among ten thousand
//! copies a few hundred pointers and no zone.

use std::net::IpAddr;
use std::sync::Arc;

use dns_views::{Clients, ViewName, ZoneAccess, ZoneId};
use dns_wire::hash::{Seed, Suffixes};
use dns_wire::{Name, Type};
use dns_zone::Zone;
use dns_zone::name_table::{Index, NameTable};
use dns_zone::zone::split::Split;

use crate::live::LiveSets;
use crate::shared_list::SharedList;

/// The zones of a server at one moment.
#[derive(Clone, Debug)]
pub struct Table {
    directory: Arc<Directory>,
    served: SharedList<Served>,
}

/// The index of zones by apex.
#[derive(Debug)]
struct Directory {
    seed: Seed,
    names: NameTable,
    /// Lower-case apexes, in the order of the served zones.
    apexes: Box<[Box<[u8]>]>,
    /// Bit `n` is set when some apex has `n` labels: with one zone, a lookup tries one depth.
    depths: u128,
}

/// A zone that the server is responsible for.
#[derive(Debug)]
pub struct Served {
    /// The zone's name.
    pub apex: Name,
    /// Its view; a zone without one is for every client, unless a view has a zone of that name.
    pub view: Option<ViewName>,
    /// Its data; `None` if it could never be loaded, and its names get SERVFAIL. A zone in parts has its root here.
    pub zone: Option<Arc<Zone>>,
    /// The parts of a zone in parts.
    pub parts: Option<Parts>,
    /// The answers of its live sets.
    pub live: Arc<LiveSets>,
    /// Why the server has it.
    pub origin: Origin,
    /// The clients that may query and transfer it; `None` if it has no lists of its own.
    pub access: Option<Arc<ZoneAccess>>,
}

/// Why a server has a zone.
#[derive(Clone, Debug, Default)]
pub enum Origin {
    /// It is configured.
    #[default]
    Configured,
    /// A catalog lists it.
    Member,
    /// It is a catalog, which lists the zones of a site for its name servers alone: only those that may transfer zones may read it.
    Catalog(Arc<Clients>),
}

/// The parts of a zone in parts. Such a zone is made from the objects of a cluster; it is not transferred, and has no live sets.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The way in which the zone is split.
    pub split: Split,
    /// The parts.
    pub zones: SharedList<Zone>,
    /// Whether the zone next above answers for names that this one does not have.
    pub falls_through: bool,
    /// The TTL of names of pods that are computed from the name alone; `None` if there are no such names.
    pub computed_pods: Option<u32>,
}

impl Served {
    /// The zone as it is known.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        ZoneId {
            apex: self.apex.clone(),
            view: self.view.clone(),
        }
    }

    /// Whether it is the zone of this name and view.
    #[must_use]
    pub fn is(&self, zone: &ZoneId) -> bool {
        self.view == zone.view && self.apex == zone.apex
    }

    /// Whether a client may have answers from the zone; `key` signs its query.
    #[inline]
    #[must_use]
    pub fn is_open_to(&self, client: IpAddr, key: Option<&Name>) -> bool {
        let access = self.access.as_ref();
        let is_listed = access.is_none_or(|access| access.may_query(client, key));
        match &self.origin {
            Origin::Configured | Origin::Member => is_listed,
            Origin::Catalog(readers) => readers.has(client, key),
        }
    }

    /// The zone, or the part of it, that has the answer for a name.
    #[inline]
    #[must_use]
    pub fn zone_of(&self, name: &Suffixes) -> Option<&Arc<Zone>> {
        let root = self.zone.as_ref()?;
        let Some(parts) = &self.parts else {
            return Some(root);
        };
        match parts.split.part_of(name) {
            Some(part) => parts.zones.get(part),
            None => Some(root),
        }
    }
}

impl Table {
    /// A table of these zones. When several have one apex, the first counts.
    #[must_use]
    pub fn new(seed: Seed, served: &[Arc<Served>]) -> Self {
        let mut suffixes = Suffixes::default();
        let mut depths = 0_u128;
        let mut entries = Vec::with_capacity(served.len());
        let mut apexes = Vec::with_capacity(served.len());
        for (place, zone) in served.iter().enumerate() {
            suffixes.read(seed, zone.apex.as_wire());
            let n = suffixes.n_labels();
            depths |= 1 << n;
            entries.extend(Index::new(place).map(|index| (suffixes.hash(n), index)));
            apexes.push(suffixes.name().into());
        }
        Self {
            directory: Arc::new(Directory {
                seed,
                names: NameTable::new(&entries),
                apexes: apexes.into(),
                depths,
            }),
            served: SharedList::new(served),
        }
    }

    /// The seed by which names are hashed.
    #[inline]
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.directory.seed
    }

    /// All zones.
    #[must_use]
    pub const fn zones(&self) -> &SharedList<Served> {
        &self.served
    }

    /// This table with other data for some of its zones. Zones of other views are left out.
    #[must_use]
    pub fn replace(&self, served: impl IntoIterator<Item = Arc<Served>>) -> Self {
        let mut suffixes = Suffixes::default();
        let places = served.into_iter().filter_map(|one| {
            suffixes.read(self.seed(), one.apex.as_wire());
            let place = self.find_apex(&suffixes, suffixes.n_labels())?;
            let before = self.served.get(place.get())?;
            (before.view == one.view).then_some((place.get(), one))
        });
        Self {
            served: self.served.replace(places),
            directory: Arc::clone(&self.directory),
        }
    }

    /// The zone of exactly this name.
    #[must_use]
    pub fn zone(&self, apex: &Name) -> Option<&Arc<Served>> {
        let mut suffixes = Suffixes::default();
        suffixes.read(self.seed(), apex.as_wire());
        self.find_apex(&suffixes, suffixes.n_labels())
            .and_then(|index| self.served.get(index.get()))
    }

    /// The zone that answers a question: the one with the closest apex above the name (RFC 1034 §4.3.2 step
    /// 2). A DS record belongs to the parent side of its name (RFC 4035 §3.1.4.1).
    #[inline]
    #[must_use]
    pub fn find(&self, name: &Suffixes, qtype: Type) -> Option<&Served> {
        let n_labels = name.n_labels();
        let closest = self.find_above(name, n_labels);
        if qtype == Type::DS
            && n_labels > 0
            && let Some(parent) = self.find_above(name, n_labels - 1)
        {
            return Some(parent);
        }
        closest
    }

    /// The zone closest to the suffix of `n_labels` labels.
    #[inline]
    pub(crate) fn find_above(&self, name: &Suffixes, n_labels: usize) -> Option<&Served> {
        // The shift drops the depths below the name's own.
        let spare = 127_usize.saturating_sub(n_labels);
        let mut depths = self.directory.depths << spare >> spare;
        while depths != 0 {
            let n = 127 - depths.leading_zeros();
            if let Some(index) = self.find_apex(name, n as usize) {
                return self.served.get(index.get()).map(|served| &**served);
            }
            depths &= !(1 << n);
        }
        None
    }

    #[inline]
    fn find_apex(&self, name: &Suffixes, n_labels: usize) -> Option<Index> {
        self.directory.names.find(name.hash(n_labels), |index| {
            let apex = self.directory.apexes.get(index.get());
            apex.is_some_and(|apex| **apex == *name.suffix(n_labels))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(apexes: &[&str]) -> Table {
        let served = |apex: &&str| {
            Arc::new(Served {
                apex: apex.parse().unwrap(),
                zone: None,
                parts: None,
                live: Arc::default(),
                origin: Origin::Configured,
                view: None,
                access: None,
            })
        };
        Table::new(Seed(3), &apexes.iter().map(served).collect::<Vec<_>>())
    }

    fn find(table: &Table, name: &str, qtype: Type) -> Option<String> {
        let mut suffixes = Suffixes::default();
        suffixes.read(table.seed(), name.parse::<Name>().unwrap().as_wire());
        table
            .find(&suffixes, qtype)
            .map(|served| served.apex.to_string())
    }

    #[test]
    fn the_closest_apex_answers() {
        let table = table(&["example.", "Sub.example.", "a.b.c.d.other."]);
        for (name, wanted) in [
            ("example.", Some("example.")),
            ("www.EXAMPLE.", Some("example.")),
            ("sub.example.", Some("Sub.example.")),
            ("x.y.sub.example.", Some("Sub.example.")),
            ("xsub.example.", Some("example.")),
            ("z.a.b.c.d.other.", Some("a.b.c.d.other.")),
            ("b.c.d.other.", None),
            ("other.", None),
            (".", None),
        ] {
            assert_eq!(find(&table, name, Type::A).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn ds_at_an_apex_is_the_parents_when_it_is_here() {
        let table = table(&["example.", "sub.example."]);
        for (name, wanted) in [
            ("sub.example.", Some("example.")),
            ("x.sub.example.", Some("sub.example.")),
            ("example.", Some("example.")),
        ] {
            assert_eq!(find(&table, name, Type::DS).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn the_root_zone_and_the_deepest_name_work() {
        let deepest = "a.".repeat(127);
        let table = table(&[".", &deepest]);
        assert_eq!(find(&table, ".", Type::A).as_deref(), Some("."));
        assert_eq!(find(&table, "x.", Type::DS).as_deref(), Some("."));
        assert_eq!(find(&table, &deepest, Type::A), Some(deepest.clone()));
        assert_eq!(
            find(&table, &"a.".repeat(126), Type::A).as_deref(),
            Some(".")
        );
    }

    #[test]
    fn one_zone_is_replaced_and_the_others_are_shared() {
        let before = table(&["a.", "b."]);
        let after = before.replace([Arc::new(Served {
            apex: "A.".parse().unwrap(),
            zone: None,
            parts: None,
            live: Arc::default(),
            origin: Origin::Configured,
            view: None,
            access: None,
        })]);
        assert!(!Arc::ptr_eq(
            before.zones().get(0).unwrap(),
            after.zones().get(0).unwrap()
        ));
        assert!(Arc::ptr_eq(
            before.zones().get(1).unwrap(),
            after.zones().get(1).unwrap()
        ));
        assert_eq!(find(&after, "a.", Type::A).as_deref(), Some("A."));
    }

    #[test]
    fn ten_thousand_zones_are_told_apart() {
        let names: Vec<String> = (0..10_000).map(|i| format!("zone{i}.test.")).collect();
        let table = table(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for name in &names {
            assert_eq!(
                find(&table, &format!("www.{name}"), Type::A).as_ref(),
                Some(name)
            );
        }
        assert_eq!(find(&table, "zone10000.test.", Type::A), None);
    }
}
