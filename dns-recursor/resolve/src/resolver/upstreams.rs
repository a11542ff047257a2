//! All upstreams of all routes, and servers that referrals name.
//!
//! An address has a state for each zone that it gets queries about: it may be silent about one and answer for another.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_wire::Name;

use super::ExchangeId;
use crate::forward::{Fitness, Protocol, Route, Table};
use crate::upstream_state::{Absence, Change, Probe, Upstream};

/// The most probes of one upstream that still count when their response is late.
const MAX_PROBES: usize = 4;
/// The most servers named by referrals whose state is remembered: more than a site's delegated zones have.
/// The oldest one makes room.
const MAX_DELEGATES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UpstreamId(u32);

#[derive(Default)]
pub(super) struct Upstreams {
    /// All configured addresses so far, and those of `delegates`. Ids are never used twice.
    entries: BTreeMap<UpstreamId, Entry>,
    by_address: BTreeMap<(SocketAddr, Name), UpstreamId>,
    last: u32,
    /// Servers that referrals name, in the order of their discovery.
    delegates: VecDeque<UpstreamId>,
}

struct Entry {
    state: Upstream,
    zone: Name,
    armed: Option<Instant>,
    protocol: Protocol,
    probes: VecDeque<ExchangeId>,
    sickness: Option<Sickness>,
}

/// The time in which an upstream was not good, or not for long.
#[derive(Clone, Copy)]
struct Sickness {
    /// The first doubt.
    since: Instant,
    /// The time at which it was good again.
    good: Option<Instant>,
    was_absent: bool,
}

/// An upstream that has been good for this long is well: its answers before that are as good as ever.
const WELL: Duration = Duration::from_mins(1);

/// The state of an upstream, for status and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamView {
    pub address: SocketAddr,
    /// Its fitness.
    pub fitness: Fitness,
    /// The reason for its absence, if it is absent.
    pub absence: Option<Absence>,
    /// The time of the last change of its fitness.
    pub since: Instant,
    /// Its usual round-trip time.
    pub round_trip: Option<Duration>,
}

impl Upstreams {
    /// Adopts the upstreams of a table; those it does not have are no longer used.
    pub(super) fn adopt(&mut self, table: &Table, now: Instant) -> Vec<(UpstreamId, Change)> {
        let mut wanted: BTreeMap<(SocketAddr, Name), Probe> = BTreeMap::new();
        for route in table.routes() {
            for address in &route.upstreams {
                wanted.insert((*address, route.zone.clone()), Probe::of(route));
            }
        }
        let mut changes = Vec::new();
        for (place, id) in &self.by_address {
            if let Some(entry) = self.entries.get_mut(id) {
                let probe = wanted.remove(place);
                if let Some(probe) = &probe {
                    entry.protocol = probe.protocol;
                }
                let change = entry.state.set_wanted(probe, now);
                changes.extend(change.map(|change| (*id, change)));
            }
        }
        for ((address, zone), probe) in wanted {
            let state = Upstream::new(address, probe, now);
            self.add(state, zone);
        }
        changes
    }

    fn add(&mut self, mut state: Upstream, zone: Name) -> UpstreamId {
        self.last += 1;
        let id = UpstreamId(self.last);
        self.by_address.insert((state.address(), zone.clone()), id);
        let entry = Entry {
            protocol: state.probe().protocol,
            state,
            zone,
            armed: None,
            probes: VecDeque::new(),
            sickness: None,
        };
        self.entries.insert(id, entry);
        id
    }

    /// The server at an address that a referral below a route names. It is never probed, unless it is also an
    /// upstream of that route.
    pub(super) fn delegate(
        &mut self,
        address: SocketAddr,
        route: &Route,
        now: Instant,
    ) -> UpstreamId {
        if let Some(id) = self.find(address, &route.zone) {
            return id;
        }
        if self.delegates.len() >= MAX_DELEGATES
            && let Some(oldest) = self.delegates.pop_front()
            && let Some(entry) = self.entries.get(&oldest)
            && !entry.state.is_wanted()
        {
            let place = (entry.state.address(), entry.zone.clone());
            self.by_address.remove(&place);
            self.entries.remove(&oldest);
        }
        let mut probe = Probe::of(route);
        probe.protocol = Protocol::Udp;
        let mut state = Upstream::new(address, probe, now);
        // A server that has just been discovered is fit, and stays so.
        let _no_change = state.set_wanted(None, now);
        let id = self.add(state, route.zone.clone());
        self.delegates.push_back(id);
        id
    }

    /// Whether some route uses the upstream at this address.
    pub(super) fn is_wanted(&self, address: SocketAddr) -> bool {
        let mut at = self.at(address);
        at.any(|id| self.get(id).is_some_and(Upstream::is_wanted))
    }

    /// The upstreams at an address that some route uses, one a zone.
    pub(super) fn wanted_at(&self, address: SocketAddr) -> Vec<UpstreamId> {
        self.at(address)
            .filter(|id| self.get(*id).is_some_and(Upstream::is_wanted))
            .collect()
    }

    /// An upstream, and those at the same address.
    pub(super) fn alike(&self, id: UpstreamId) -> Vec<UpstreamId> {
        self.at(self.address(id)).collect()
    }

    /// The best fitness that the address of an upstream has for another zone.
    pub(super) fn best_of_others(&self, id: UpstreamId) -> Option<Fitness> {
        let others = self.wanted_at(self.address(id)).into_iter();
        let others = others.filter(|other| *other != id);
        others.map(|other| self.fitness(other)).min()
    }

    fn at(&self, address: SocketAddr) -> impl Iterator<Item = UpstreamId> {
        let all = self.by_address.range((address, Name::root())..);
        all.take_while(move |((known, _), _)| *known == address)
            .map(|(_, id)| *id)
    }

    /// A route's upstreams and their fitness, in the route's order.
    pub(super) fn of(&self, route: &Route) -> (Vec<UpstreamId>, Vec<Fitness>) {
        route
            .upstreams
            .iter()
            .filter_map(|address| self.find(*address, &route.zone))
            .map(|id| (id, self.fitness(id)))
            .unzip()
    }

    fn find(&self, address: SocketAddr, zone: &Name) -> Option<UpstreamId> {
        self.by_address.get(&(address, zone.clone())).copied()
    }

    pub(super) fn ids(&self) -> Vec<UpstreamId> {
        self.by_address.values().copied().collect()
    }

    pub(super) fn get(&self, id: UpstreamId) -> Option<&Upstream> {
        self.entry(id).map(|entry| &entry.state)
    }

    /// Notes a change of an upstream's fitness. When it answers again after it was absent, returns its zone and the time of
    /// the first doubt.
    pub(super) fn note_change(
        &mut self,
        id: UpstreamId,
        change: Change,
        now: Instant,
    ) -> Option<(Name, Instant)> {
        let entry = self.entry_mut(id)?;
        if change.to == Fitness::Good {
            let sickness = entry.sickness.as_mut()?;
            sickness.good = Some(now);
            let is_back = std::mem::take(&mut sickness.was_absent);
            return is_back.then(|| (entry.zone.clone(), sickness.since));
        }
        let lasts = |sickness: &Sickness| sickness.good.is_none_or(|good| now < good.after(WELL));
        let mut sickness = entry.sickness.filter(lasts).unwrap_or(Sickness {
            since: now,
            good: None,
            was_absent: false,
        });
        sickness.good = None;
        sickness.was_absent |= change.to == Fitness::Absent;
        entry.sickness = Some(sickness);
        None
    }

    pub(super) fn get_mut(&mut self, id: UpstreamId) -> Option<&mut Upstream> {
        self.entry_mut(id).map(|entry| &mut entry.state)
    }

    pub(super) fn fitness(&self, id: UpstreamId) -> Fitness {
        self.entry(id)
            .map_or(Fitness::Absent, |entry| entry.state.fitness())
    }

    pub(super) fn address(&self, id: UpstreamId) -> SocketAddr {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.entry(id)
            .map_or(nowhere, |entry| entry.state.address())
    }

    /// The transport that queries to the upstream begin with.
    pub(super) fn protocol(&self, id: UpstreamId) -> Protocol {
        self.entry(id).map_or(Protocol::Udp, |entry| entry.protocol)
    }

    /// Sets the timer of an upstream; returns the one before.
    pub(super) fn set_armed(&mut self, id: UpstreamId, at: Option<Instant>) -> Option<Instant> {
        let entry = self.entry_mut(id)?;
        std::mem::replace(&mut entry.armed, at)
    }

    //--- Probes

    /// Notes a probe; returns one that has waited long enough.
    pub(super) fn begin_probe(&mut self, id: UpstreamId, probe: ExchangeId) -> Option<ExchangeId> {
        let entry = self.entry_mut(id)?;
        entry.probes.push_back(probe);
        if entry.probes.len() > MAX_PROBES {
            return entry.probes.pop_front();
        }
        None
    }

    pub(super) fn end_probe(&mut self, id: UpstreamId, probe: ExchangeId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.probes.retain(|known| *known != probe);
        }
    }

    pub(super) fn take_probes(&mut self, id: UpstreamId) -> VecDeque<ExchangeId> {
        self.entry_mut(id)
            .map(|entry| std::mem::take(&mut entry.probes))
            .unwrap_or_default()
    }

    /// The state of each address that some route uses: that of the zone that it serves best.
    pub(super) fn views(&self) -> impl Iterator<Item = UpstreamView> {
        let mut views: BTreeMap<SocketAddr, UpstreamView> = BTreeMap::new();
        let wanted = self
            .entries
            .values()
            .filter(|entry| entry.state.is_wanted());
        for entry in wanted {
            let view = UpstreamView {
                address: entry.state.address(),
                fitness: entry.state.fitness(),
                absence: entry.state.absence(),
                since: entry.state.since(),
                round_trip: entry.state.round_trip(),
            };
            let known = views.entry(view.address).or_insert(view);
            if view.fitness < known.fitness {
                *known = view;
            }
        }
        views.into_values()
    }

    fn entry(&self, id: UpstreamId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    fn entry_mut(&mut self, id: UpstreamId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Mode;

    #[test]
    fn of_servers_that_referrals_name_the_one_known_longest_makes_room() {
        let route = Route::new(Name::root(), Mode::Authoritative, Vec::new());
        let mut upstreams = Upstreams::default();
        let delegate = |upstreams: &mut Upstreams, n: u16| {
            let [high, low] = n.to_be_bytes();
            let address = SocketAddr::from(([10, 0, high, low], 53));
            upstreams.delegate(address, &route, Instant::START)
        };
        let first = delegate(&mut upstreams, 0);
        assert_eq!(delegate(&mut upstreams, 0), first);
        for n in 1..2000 {
            delegate(&mut upstreams, n);
        }
        assert_eq!(upstreams.entries.len(), MAX_DELEGATES);
        assert_eq!(upstreams.by_address.len(), MAX_DELEGATES);
        assert!(upstreams.get_mut(first).is_none());
        assert_ne!(delegate(&mut upstreams, 0), first);
        assert_eq!(upstreams.views().count(), 0);
    }
}
