//! The upstreams of a name: those of the forward zone with the longest matching suffix.
//!
//! A zone is forwarded to servers that are authoritative for it (queries without RD) or to other recursive
//! servers (queries with RD). A policy orders the healthy ones among several upstreams. Never opens a
//! socket.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use config::dns_recursor::{DnssecMode, ForwardMode, Policy, Protocol};
use dns_validate::Anchors;
use dns_wire::{Name, Type};

use crate::suffixes::{Suffixes, parent};

/// A zone and its servers.
#[derive(Debug)]
pub struct Route {
    /// The zone's apex.
    pub zone: Name,
    pub mode: Mode,
    /// Whether its upstreams answer, or the root's servers and those below.
    pub source: ForwardMode,
    /// The upstreams in the order they were configured.
    pub upstreams: Vec<SocketAddr>,
    pub policy: Policy,
    pub protocol: Protocol,
    /// Whether the upstreams' AD bit is passed on.
    pub trust_ad: bool,
    /// The mode of validation.
    pub dnssec: DnssecMode,
    /// How long a client waits before it gets a stale answer; none for that of all zones.
    pub stale_wait: Option<Duration>,
    /// How long the last good answer wins over a denial; zero for not at all.
    pub keep_last_good: Duration,
    /// Whether only recursion itself has questions for it.
    is_inner: bool,
    /// Set while no upstream can answer.
    down: AtomicBool,
    /// The number of queries that took this route.
    turns: AtomicU64,
}

/// The kind of servers that a zone's upstreams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Authoritative for the zone: queries have RD clear.
    Authoritative,
    /// Recursive: queries have RD set.
    Recursive,
}

impl Route {
    /// A route whose upstreams count as healthy.
    #[must_use]
    pub const fn new(zone: Name, mode: Mode, upstreams: Vec<SocketAddr>) -> Self {
        Self {
            zone,
            mode,
            source: ForwardMode::Forward,
            upstreams,
            policy: Policy::Sequential,
            protocol: Protocol::Udp,
            trust_ad: false,
            dnssec: DnssecMode::Off,
            stale_wait: None,
            keep_last_good: Duration::ZERO,
            is_inner: false,
            down: AtomicBool::new(false),
            turns: AtomicU64::new(0),
        }
    }

    /// The route of the questions that recursion itself has: for keys on the way from the root to a zone, which may have
    /// another route for clients, or none.
    fn inner() -> Self {
        Self {
            source: ForwardMode::Recurse,
            is_inner: true,
            ..Self::new(Name::root(), Mode::Authoritative, Vec::new())
        }
    }

    /// Whether only recursion itself has questions for it. The table gives it no names: the servers of a zone speak for
    /// all that is in the zone.
    #[must_use]
    pub const fn is_inner(&self) -> bool {
        self.is_inner
    }

    /// Whether no upstream can answer, so that a stale answer is sent at once.
    #[must_use]
    #[inline]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Sets whether no upstream can answer; only the resolver does.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// Counts a query that takes this route; returns how many did before.
    #[inline]
    pub fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether answers are validated, at least for clients that ask for it.
    #[must_use]
    pub fn validates(&self) -> bool {
        self.dnssec != DnssecMode::Off
    }

    /// Whether answers learnt by `other` are as good as this route's: upstreams of one zone are equivalent.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.zone == other.zone
            && self.mode == other.mode
            && self.source == other.source
            && self.is_inner == other.is_inner
            && self.trust_ad == other.trust_ad
            && self.validates() == other.validates()
    }

    /// Whether `other` has the same upstreams, so that a failure there is one here.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_like(other) && self.upstreams == other.upstreams
    }
}

/// All routes, by suffix.
#[derive(Debug)]
pub struct Table {
    routes: Suffixes<Arc<Route>>,
    /// The route of recursion's own questions.
    inner: Arc<Route>,
    /// Zones that this server itself answers, unless a route other than the root's has them.
    local: Suffixes<()>,
    /// The trust anchors of validation.
    anchors: Arc<Anchors>,
    /// The addresses of the root's servers.
    root: Vec<IpAddr>,
    /// Whether some route validates for clients that ask for it only.
    has_process: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self::new([])
    }
}

impl Table {
    /// A table of these routes. When two are for one zone the later counts.
    #[must_use]
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let routes: Vec<Route> = routes.into_iter().collect();
        Self {
            has_process: routes.iter().any(|it| it.dnssec == DnssecMode::Process),
            routes: routes
                .into_iter()
                .map(|route| (route.zone.clone(), Arc::new(route)))
                .collect(),
            inner: Arc::new(Route::inner()),
            local: Suffixes::default(),
            anchors: Arc::default(),
            root: Vec::new(),
        }
    }

    /// The table with the root's servers at these addresses.
    #[must_use]
    pub fn with_root(mut self, addresses: Vec<IpAddr>) -> Self {
        self.root = addresses;
        self
    }

    /// The addresses of the root's servers.
    #[must_use]
    pub fn root(&self) -> &[IpAddr] {
        &self.root
    }

    /// The table with these trust anchors.
    #[must_use]
    pub fn with_anchors(mut self, anchors: Anchors) -> Self {
        self.anchors = Arc::new(anchors);
        self
    }

    /// The trust anchors.
    #[must_use]
    pub const fn anchors(&self) -> &Arc<Anchors> {
        &self.anchors
    }

    /// Whether an answer is validated for a client only if it asks for that.
    #[must_use]
    pub fn validates_on_request(&self, name: &[u8], qtype: Type) -> bool {
        let is_process = |route: &Arc<Route>| route.dnssec == DnssecMode::Process;
        self.has_process && self.find(name, qtype).is_some_and(is_process)
    }

    /// The table of a server that itself answers for these zones.
    #[must_use]
    pub fn with_local(mut self, zones: impl IntoIterator<Item = Name>) -> Self {
        self.local = zones.into_iter().map(|zone| (zone, ())).collect();
        self
    }

    /// Whether this server itself answers for a name, in wire form and lower case.
    #[must_use]
    pub fn is_local(&self, name: &[u8]) -> bool {
        self.local.longest(name).is_some() && !self.is_taken_over(name)
    }

    /// Whether a server may say that a zone has changed: it is configured as authoritative for it, or for a zone above.
    #[must_use]
    pub fn may_notify(&self, zone: &Name, server: IpAddr) -> bool {
        let zone = zone.to_lowercase();
        let route = self.find(zone.as_wire(), Type::SOA);
        route.is_some_and(|route| {
            route.mode == Mode::Authoritative
                && route.source != ForwardMode::Recurse
                && !zone.is_root()
                && route.upstreams.iter().any(|it| it.ip() == server)
        })
    }

    /// Whether a route other than the root's has a name, in wire form and lower case.
    #[must_use]
    pub fn is_taken_over(&self, name: &[u8]) -> bool {
        let route = self.find(name, Type::A);
        route.is_some_and(|route| !route.zone.is_root())
    }

    /// The route for a question; its name in wire form and lower case.
    #[must_use]
    pub fn find(&self, name: &[u8], qtype: Type) -> Option<&Arc<Route>> {
        // RFC 4035 §3.1.4.1: the parent's servers hold the DS records of a zone.
        if qtype == Type::DS
            && let Some(parent) = parent(name)
            && let Some(route) = self.longest(parent)
        {
            return Some(route);
        }
        self.longest(name)
    }

    /// The zone of a route that a name is below, in wire form and lower case; none when that is the zone of all names.
    #[must_use]
    pub fn zone_of(&self, name: &[u8]) -> Option<&[u8]> {
        let route = self.longest(name).filter(|route| !route.zone.is_root());
        route.map(|route| route.zone.as_wire())
    }

    fn longest(&self, name: &[u8]) -> Option<&Arc<Route>> {
        self.routes.longest(name)
    }

    /// The route of a question of recursion itself: the client's route if that recurses, too.
    #[must_use]
    pub fn find_inner(&self, name: &[u8], qtype: Type) -> &Arc<Route> {
        let recurses = |route: &&Arc<Route>| route.source != ForwardMode::Forward;
        let route = self.find(name, qtype).filter(recurses);
        route.filter(|it| it.zone.is_root()).unwrap_or(&self.inner)
    }

    /// The routes, in the order of their apexes' wire form.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.routes.values()
    }

    /// Whether nothing is forwarded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

/// The fitness of an upstream, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fitness {
    /// No evidence against it.
    Good,
    /// It owes an answer; a probe will decide.
    Doubtful,
    /// It does not answer.
    Absent,
}

/// The order of the queries to upstreams: by fitness, and among equals by policy. Absent ones are left
/// out. `turn` counts this route's queries, `chance` is random.
#[must_use]
pub fn order(policy: Policy, fitness: &[Fitness], turn: u64, mut chance: u64) -> Vec<usize> {
    let n = fitness.len().max(1);
    let shift = usize::try_from(turn % n as u64).unwrap_or(0);
    let mut order: Vec<usize> = (0..fitness.len()).collect();
    match policy {
        Policy::Sequential => {}
        Policy::RoundRobin => order.rotate_left(shift),
        // Fisher-Yates; the bias of a few dozen in 2^64 does not matter here.
        Policy::Random => {
            for left in (2..=order.len()).rev() {
                let pick = usize::try_from(chance % left as u64).unwrap_or(0);
                chance = chance.rotate_right(13).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                order.swap(left - 1, pick);
            }
        }
    }
    let fit = |upstream: &usize| fitness.get(*upstream).copied().unwrap_or(Fitness::Absent);
    order.retain(|upstream| fit(upstream) != Fitness::Absent);
    order.sort_by_key(fit);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(zones: &[&str]) -> Table {
        let upstream = "192.0.2.1:53".parse().unwrap();
        Table::new(
            zones.iter().map(|zone| {
                Route::new(Name::parse(zone).unwrap(), Mode::Recursive, vec![upstream])
            }),
        )
    }

    fn find(table: &Table, name: &str, qtype: Type) -> Option<String> {
        let name = Name::parse(name).unwrap().to_lowercase();
        table
            .find(name.as_wire(), qtype)
            .map(|route| route.zone.to_string())
    }

    #[test]
    fn the_longest_suffix_wins() {
        let table = table(&[".", "example", "Ocp4.example", "a.b.ocp4.example"]);
        for (name, zone) in [
            (".", "."),
            ("com", "."),
            ("xexample", "."),
            ("example", "example."),
            ("Xocp4.example", "example."),
            ("OCP4.EXAMPLE", "Ocp4.example."),
            ("api.ocp4.example", "Ocp4.example."),
            ("b.ocp4.example", "Ocp4.example."),
            ("x.y.a.b.ocp4.example", "a.b.ocp4.example."),
        ] {
            assert_eq!(find(&table, name, Type::A).as_deref(), Some(zone), "{name}");
        }
    }

    #[test]
    fn without_a_root_route_other_names_have_none() {
        let table = table(&["ocp4.example"]);
        assert_eq!(find(&table, "example", Type::A), None);
        assert_eq!(find(&table, ".", Type::NS), None);
        assert!(find(&table, "a.ocp4.example", Type::A).is_some());
        assert_eq!(find(&Table::default(), "a", Type::A), None);
    }

    #[test]
    fn ds_is_asked_of_the_parents_servers_when_there_are_any() {
        let both = table(&[".", "ocp4.example"]);
        assert_eq!(find(&both, "ocp4.example", Type::DS).as_deref(), Some("."));
        assert_eq!(
            find(&both, "a.ocp4.example", Type::DS).as_deref(),
            Some("ocp4.example.")
        );
        let alone = table(&["ocp4.example"]);
        assert_eq!(
            find(&alone, "ocp4.example", Type::DS).as_deref(),
            Some("ocp4.example.")
        );
        assert_eq!(find(&both, ".", Type::DS).as_deref(), Some("."));
    }

    #[test]
    fn policies_order_by_fitness_first() {
        use Fitness::{Absent, Doubtful, Good};
        let good = [Good, Good, Good];
        assert_eq!(order(Policy::Sequential, &good, 5, 9), [0, 1, 2]);
        assert_eq!(order(Policy::RoundRobin, &good, 0, 9), [0, 1, 2]);
        assert_eq!(order(Policy::RoundRobin, &good, 5, 9), [2, 0, 1]);
        let mixed = [Doubtful, Absent, Good, Doubtful];
        assert_eq!(order(Policy::Sequential, &mixed, 0, 0), [2, 0, 3]);
        assert_eq!(order(Policy::RoundRobin, &mixed, 3, 0), [2, 3, 0]);
        assert_eq!(order(Policy::Random, &[Absent, Absent], 0, 7), [0_usize; 0]);
        assert_eq!(order(Policy::Random, &[], 0, 7), [0_usize; 0]);
    }

    #[test]
    fn random_asks_each_first_about_equally_often() {
        let mut random = dns_cache::testing::Random(3);
        let mut firsts = [0; 3];
        for _ in 0..3000 {
            let order = order(Policy::Random, &[Fitness::Good; 3], 0, random.next());
            firsts[order[0]] += 1;
        }
        assert!(firsts.iter().all(|n| (850..1150).contains(n)), "{firsts:?}");
    }
}
