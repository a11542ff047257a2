//! Zones and settings at one moment.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use dns_views::{View, ZoneId, choose};
use dns_wire::Name;
use dns_wire::hash::Seed;

use crate::settings::Settings;
use crate::table::{Served, Table};

/// Zones and settings at one moment: an answer depends only on them and the query.
#[derive(Debug)]
pub struct Snapshot {
    /// The zones of no view.
    pub table: Table,
    /// The zones of each view.
    pub views: ViewTables,
    /// The settings.
    pub settings: Settings,
}

/// The part of a snapshot that one client sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'s> {
    /// The zones.
    pub table: &'s Table,
    /// The settings.
    pub settings: &'s Settings,
}

/// The tables of all views, in the order in which they are tried. Each also has the zones of no view whose names it does not have
/// itself.
#[derive(Clone, Debug, Default)]
pub struct ViewTables(Arc<[(View, Table)]>);

impl Snapshot {
    /// The part that a client sees; `key` signs its query.
    #[inline]
    #[must_use]
    pub fn seen_by(&self, client: IpAddr, key: Option<&Name>) -> Sight<'_> {
        let table = match self.views.0.is_empty() {
            true => &self.table,
            false => self.views.seen_by(client, key).unwrap_or(&self.table),
        };
        Sight {
            table,
            settings: &self.settings,
        }
    }

    /// The zone of this name and view.
    #[must_use]
    pub fn zone(&self, zone: &ZoneId) -> Option<&Arc<Served>> {
        let table = match &zone.view {
            None => Some(&self.table),
            Some(_) => self.views.of(zone),
        };
        table?.zone(&zone.apex).filter(|served| served.is(zone))
    }

    /// The table in which a zone is; that of no view if its view is not there.
    #[must_use]
    pub fn table_of(&self, zone: &ZoneId) -> &Table {
        self.views.of(zone).unwrap_or(&self.table)
    }

    /// All zones: those of no view, and then those of each view.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Served>> {
        let views = self.views.0.iter();
        let of_views = views.flat_map(|(_, table)| table.zones().iter());
        let of_views = of_views.filter(|served| served.view.is_some());
        self.table.zones().iter().chain(of_views)
    }
}

impl ViewTables {
    /// The tables of these views, with their zones among these.
    #[must_use]
    pub fn new(seed: Seed, views: &[View], served: &[Arc<Served>]) -> Self {
        let tables = views.iter().map(|view| {
            let is_own = |one: &&Arc<Served>| one.view.as_ref() == Some(&view.name);
            let own: HashSet<&Name> = served.iter().filter(is_own).map(|one| &one.apex).collect();
            let seen = served
                .iter()
                .filter(|one| is_own(one) || one.view.is_none() && !own.contains(&one.apex));
            let seen: Vec<Arc<Served>> = seen.cloned().collect();
            (view.clone(), Table::new(seed, &seen))
        });
        Self(tables.collect())
    }

    /// The same with other data for some zones.
    #[must_use]
    pub fn replace(&self, served: &[Arc<Served>]) -> Self {
        let tables = self.0.iter();
        let tables = tables
            .map(|(view, table)| (view.clone(), table.replace(served.iter().map(Arc::clone))));
        Self(tables.collect())
    }

    /// The names of the views, in their order.
    pub fn views(&self) -> impl Iterator<Item = &View> + Clone {
        self.0.iter().map(|(view, _)| view)
    }

    #[cold]
    fn seen_by(&self, client: IpAddr, key: Option<&Name>) -> Option<&Table> {
        let place = choose(self.views(), client, key)?;
        self.0.get(place).map(|(_, table)| table)
    }

    /// The table of a zone's view.
    fn of(&self, zone: &ZoneId) -> Option<&Table> {
        let name = zone.view.as_ref()?;
        let mut tables = self.0.iter();
        let found = tables.find(|(view, _)| view.name == *name);
        found.map(|(_, table)| table)
    }
}
