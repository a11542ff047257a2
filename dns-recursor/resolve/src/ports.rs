//! The UDP ports that queries leave from, and the query that a datagram on one of them answers.
//!
//! Each server has a set of places, each with one random port. Queries take new ports until every place has one; then a
//! query leaves from a random one of them. A port serves few queries for a short time before another
//! one takes its place. So a forger has to guess a port and an id for every query (RFC 5452 §9.2), and under load
//! most queries need no new socket. A port never carries an id twice, so that each datagram belongs to one query.
//!
//! Only keeps account: the sockets are the caller's, in `S`.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use dns_cache::instant::Instant;

use crate::exchange::Entropy;
use crate::resolver::ExchangeId;

/// The ports of one server.
pub const PORTS_PER_SERVER: usize = 64;
/// The most queries of one port.
pub const QUERIES_PER_PORT: usize = 128;
/// The longest time that a port takes new queries. Also bounds how long queries leave from a source address that this
/// host no longer has.
pub const PORT_LIFE: Duration = Duration::from_secs(10);
/// The most ports at once, over all servers.
pub const MAX_PORTS: usize = 2048;
/// The datagrams that a port takes beside two for each query; more are a flood.
const MAX_STRANGE: usize = 32;
/// Ports that are old enough are closed together, so that an idle server wakes rarely.
const CLOSE_TOGETHER: Duration = Duration::from_secs(2);
/// Places that are tried for an id that the chosen port has carried already.
const ATTEMPTS: usize = 4;

/// A port. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u64);

/// The port for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This one.
    Use(PortId),
    /// A new one, to be added in this place.
    Open(Place),
    /// There are too many ports.
    Full,
}

/// A place for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    server: SocketAddr,
    index: usize,
}

/// The queries that a datagram belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The query with its id.
    Exchange(ExchangeId),
    /// A query that has ended.
    Ended,
    /// No query has its id: it may be forged, and each of these may be its aim.
    Nobody(Vec<ExchangeId>),
    /// The port gets a flood of datagrams. It is closed, and these queries are lost.
    Flood(Vec<ExchangeId>),
}

struct Port<S> {
    socket: S,
    place: Place,
    /// The ids that it has carried.
    used: Vec<u16>,
    waiting: Vec<(u16, ExchangeId)>,
    n_datagrams: usize,
    /// Whether it still is in its place.
    takes_queries: bool,
}

/// All ports.
pub struct Ports<S> {
    ports: HashMap<PortId, Port<S>>,
    places: HashMap<SocketAddr, Vec<Option<PortId>>>,
    by_age: VecDeque<(Instant, PortId)>,
    last: u64,
}

impl<S> Default for Ports<S> {
    fn default() -> Self {
        Self {
            ports: HashMap::new(),
            places: HashMap::new(),
            by_age: VecDeque::new(),
            last: 0,
        }
    }
}

impl<S> Ports<S> {
    /// Picks a port for a query with this id.
    pub fn pick(
        &mut self,
        server: SocketAddr,
        id: u16,
        entropy: &mut (impl Entropy + ?Sized),
    ) -> Pick {
        let mut index = match self.places.get(&server) {
            Some(places) => places.iter().position(Option::is_none),
            None => Some(0),
        };
        for _ in 0..ATTEMPTS {
            if index.is_some() {
                break;
            }
            let place = random_place(entropy);
            let port = self.at(Place {
                server,
                index: place,
            });
            let Some((known, port)) = port.and_then(|id| Some((id, self.ports.get(&id)?))) else {
                break;
            };
            if port.used.len() >= QUERIES_PER_PORT {
                index = Some(place);
            } else if !port.used.contains(&id) {
                return Pick::Use(known);
            }
        }
        let index = index.unwrap_or_else(|| random_place(entropy));
        if self.ports.len() >= MAX_PORTS {
            self.retire_idle();
        }
        if self.ports.len() < MAX_PORTS {
            return Pick::Open(Place { server, index });
        }
        let places = self.places.get(&server).into_iter().flatten().flatten();
        let fits = |port: &&PortId| {
            let known = self.ports.get(port);
            known.is_some_and(|it| it.used.len() < QUERIES_PER_PORT && !it.used.contains(&id))
        };
        places
            .copied()
            .find(|port| fits(&port))
            .map_or(Pick::Full, Pick::Use)
    }

    /// Adds a port in its place; one that is there takes no more queries.
    pub fn add(&mut self, place: Place, socket: S, now: Instant) -> PortId {
        if let Some(before) = self.at(place) {
            self.retire(before);
        }
        self.last += 1;
        let id = PortId(self.last);
        let places = self.places.entry(place.server);
        let places = places.or_insert_with(|| vec![None; PORTS_PER_SERVER]);
        if let Some(slot) = places.get_mut(place.index) {
            *slot = Some(id);
        }
        let port = Port {
            socket,
            place,
            used: Vec::new(),
            waiting: Vec::new(),
            n_datagrams: 0,
            takes_queries: true,
        };
        self.ports.insert(id, port);
        self.by_age.push_back((now.after(PORT_LIFE), id));
        id
    }

    /// The number of the port that is added next.
    #[must_use]
    pub const fn next_id(&self) -> PortId {
        PortId(self.last + 1)
    }

    /// The socket of a port.
    #[must_use]
    pub fn socket(&self, port: PortId) -> Option<&S> {
        self.ports.get(&port).map(|port| &port.socket)
    }

    /// Notes that a query leaves from a port.
    pub fn begin(&mut self, port: PortId, id: u16, exchange: ExchangeId) {
        if let Some(port) = self.ports.get_mut(&port) {
            port.used.push(id);
            port.waiting.push((id, exchange));
        }
    }

    /// Notes that a query needs no more datagrams.
    pub fn end(&mut self, port: PortId, exchange: ExchangeId) {
        if let Some(known) = self.ports.get_mut(&port) {
            known.waiting.retain(|(_, waiting)| *waiting != exchange);
            self.close_unused(port);
        }
    }

    /// The query that a datagram with this id belongs to; `None` for one that is too short for an id.
    pub fn owner(&mut self, port: PortId, id: Option<u16>) -> Owner {
        let Some(known) = self.ports.get_mut(&port) else {
            return Owner::Ended;
        };
        known.n_datagrams += 1;
        if known.n_datagrams > 2 * known.used.len() + MAX_STRANGE {
            return Owner::Flood(self.close(port));
        }
        let is_mine = |(waiting, _): &&(u16, ExchangeId)| Some(*waiting) == id;
        match known.waiting.iter().find(is_mine) {
            Some((_, exchange)) => Owner::Exchange(*exchange),
            None if id.is_some_and(|id| known.used.contains(&id)) => Owner::Ended,
            None => Owner::Nobody(known.exchanges()),
        }
    }

    /// The queries that wait for a datagram on a port: an error of its socket concerns all of them.
    #[must_use]
    pub fn waiting(&self, port: PortId) -> Vec<ExchangeId> {
        self.ports
            .get(&port)
            .map(Port::exchanges)
            .unwrap_or_default()
    }

    /// Closes a port; returns the queries that waited.
    pub fn close(&mut self, port: PortId) -> Vec<ExchangeId> {
        self.retire(port);
        let closed = self.ports.remove(&port);
        closed.map(|port| port.exchanges()).unwrap_or_default()
    }

    /// Lets no port take more queries.
    pub fn retire_all(&mut self) {
        let all: Vec<PortId> = self.ports.keys().copied().collect();
        for port in all {
            self.retire(port);
        }
    }

    /// Lets ports that are old enough take no more queries.
    pub fn expire(&mut self, now: Instant) {
        while let Some((at, port)) = self.by_age.front().copied()
            && at <= now
        {
            self.by_age.pop_front();
            self.retire(port);
        }
        if self.ports.is_empty() {
            self.by_age.clear();
        }
    }

    /// The time of the next [`Ports::expire`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let (at, _) = self.by_age.front()?;
        Some(at.after(CLOSE_TOGETHER))
    }

    /// The number of open ports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    fn at(&self, place: Place) -> Option<PortId> {
        let places = self.places.get(&place.server)?;
        places.get(place.index).copied().flatten()
    }

    /// Lets a port take no more queries. It stays open for those that wait.
    fn retire(&mut self, port: PortId) {
        let Some(known) = self.ports.get_mut(&port) else {
            return;
        };
        known.takes_queries = false;
        let place = known.place;
        if let Some(places) = self.places.get_mut(&place.server)
            && let Some(slot) = places.get_mut(place.index)
            && *slot == Some(port)
        {
            *slot = None;
            if places.iter().all(Option::is_none) {
                self.places.remove(&place.server);
            }
        }
        self.close_unused(port);
    }

    fn retire_idle(&mut self) {
        let idle = self.ports.iter().filter(|(_, it)| it.waiting.is_empty());
        let idle: Vec<PortId> = idle.map(|(id, _)| *id).collect();
        for port in idle {
            self.retire(port);
        }
    }

    fn close_unused(&mut self, port: PortId) {
        let known = self.ports.get(&port);
        if known.is_some_and(|it| !it.takes_queries && it.waiting.is_empty()) {
            self.ports.remove(&port);
        }
    }
}

impl<S> Port<S> {
    fn exchanges(&self) -> Vec<ExchangeId> {
        self.waiting.iter().map(|(_, exchange)| *exchange).collect()
    }
}

impl<S> std::fmt::Debug for Ports<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports")
            .field("ports", &self.ports.len())
            .field("servers", &self.places.len())
            .finish_non_exhaustive()
    }
}

fn random_place(entropy: &mut (impl Entropy + ?Sized)) -> usize {
    let [place, ..] = entropy.next().to_le_bytes();
    usize::from(place) % PORTS_PER_SERVER
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use dns_cache::testing::Random;

    use super::*;

    fn server(n: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], 53))
    }

    /// Opens what `pick` wants.
    fn send(ports: &mut Ports<()>, n: u8, id: u16, exchange: u64, random: &mut Random) -> PortId {
        let port = match ports.pick(server(n), id, random) {
            Pick::Use(port) => port,
            Pick::Open(place) => ports.add(place, (), Instant::START),
            Pick::Full => panic!("full"),
        };
        ports.begin(port, id, ExchangeId(exchange));
        port
    }

    #[test]
    fn a_datagram_belongs_to_the_query_with_its_id() {
        let mut ports = Ports::default();
        let mut random = Random(1);
        let port = send(&mut ports, 1, 7, 1, &mut random);
        ports.begin(port, 8, ExchangeId(2));
        assert_eq!(ports.owner(port, Some(7)), Owner::Exchange(ExchangeId(1)));
        assert_eq!(ports.owner(port, Some(8)), Owner::Exchange(ExchangeId(2)));
        let both = vec![ExchangeId(1), ExchangeId(2)];
        assert_eq!(ports.owner(port, Some(9)), Owner::Nobody(both.clone()));
        assert_eq!(ports.owner(port, None), Owner::Nobody(both));
        ports.end(port, ExchangeId(1));
        // A late or a repeated answer is no attack.
        assert_eq!(ports.owner(port, Some(7)), Owner::Ended);
        assert_eq!(
            ports.owner(port, Some(9)),
            Owner::Nobody(vec![ExchangeId(2)])
        );
        assert_eq!(ports.waiting(port), [ExchangeId(2)]);
    }

    #[test]
    fn a_flood_closes_the_port() {
        let mut ports = Ports::default();
        let port = send(&mut ports, 1, 7, 1, &mut Random(1));
        for _ in 0..MAX_STRANGE + 2 {
            assert_eq!(
                ports.owner(port, Some(9)),
                Owner::Nobody(vec![ExchangeId(1)])
            );
        }
        assert_eq!(
            ports.owner(port, Some(7)),
            Owner::Flood(vec![ExchangeId(1)])
        );
        assert!(ports.is_empty());
        assert_eq!(ports.owner(port, Some(7)), Owner::Ended);
    }

    #[test]
    fn a_port_serves_few_queries_for_a_short_time_and_stays_for_those_that_wait() {
        let mut ports = Ports::default();
        let mut random = Random(1);
        let port = send(&mut ports, 1, 0, 0, &mut random);
        let due = Instant::START.after(PORT_LIFE);
        assert_eq!(ports.next_deadline(), Some(due.after(CLOSE_TOGETHER)));
        ports.expire(due);
        assert!(ports.socket(port).is_some());
        assert_eq!(ports.next_deadline(), None);
        for n in 1..500 {
            assert_ne!(send(&mut ports, 1, n, n.into(), &mut random), port);
            ports.expire(Instant::START);
        }
        ports.end(port, ExchangeId(0));
        assert!(ports.socket(port).is_none());
        // A change of the source address ends them all.
        ports.retire_all();
        assert!(ports.len() <= 499);
        for n in 1..500 {
            let all: Vec<PortId> = ports.ports.keys().copied().collect();
            for port in all {
                ports.end(port, ExchangeId(n));
            }
        }
        assert!(ports.is_empty() && ports.places.is_empty());
    }

    #[test]
    fn there_are_never_more_ports_than_the_limit() {
        let mut ports = Ports::default();
        let mut random = Random(3);
        let mut full = 0;
        for n in 0..20_000_u64 {
            let [.., high, low] = n.to_be_bytes();
            let to = SocketAddr::from(([10, 0, high, low], 53));
            match ports.pick(to, 1, &mut random) {
                Pick::Use(_) => panic!("another server's port"),
                Pick::Open(place) => {
                    let port = ports.add(place, (), Instant::START);
                    ports.begin(port, 1, ExchangeId(n));
                    // Half of them wait for ever.
                    if n % 2 == 0 {
                        ports.end(port, ExchangeId(n));
                    }
                }
                Pick::Full => full += 1,
            }
            assert!(ports.len() <= MAX_PORTS);
        }
        assert!(full > 0);
        // A server that has a port goes on using it.
        let (server, port) = ports
            .places
            .iter()
            .map(|(server, places)| (*server, places[0].unwrap()))
            .next()
            .unwrap();
        assert_eq!(ports.pick(server, 2, &mut random), Pick::Use(port));
    }

    /// Queries begin and end in any order, over a few servers and with ids that repeat: each datagram finds its query.
    #[test]
    fn every_datagram_finds_its_query_in_any_order() {
        for seed in 1..=32 {
            let mut ports = Ports::default();
            let mut random = Random(seed);
            let mut now = Instant::START;
            let mut waiting: BTreeMap<u64, (PortId, u16)> = BTreeMap::new();
            let mut carried: BTreeSet<(PortId, u16)> = BTreeSet::new();
            for exchange in 0..2_000_u64 {
                let [n, high, low, what, ..] = Random::next(&mut random).to_le_bytes();
                let id = u16::from_be_bytes([high & 1, low]);
                let to = server(n % 3);
                let port = match ports.pick(to, id, &mut random) {
                    Pick::Use(port) => port,
                    Pick::Open(place) => ports.add(place, to, now),
                    Pick::Full => panic!("full"),
                };
                assert_eq!(ports.socket(port), Some(&to));
                assert!(carried.insert((port, id)), "an id twice on a port");
                ports.begin(port, id, ExchangeId(exchange));
                waiting.insert(exchange, (port, id));
                if what % 4 != 0 {
                    let [n, ..] = Random::next(&mut random).to_le_bytes();
                    let nth = usize::from(n) % waiting.len();
                    let (exchange, (port, id)) =
                        waiting.iter().nth(nth).map(|(a, b)| (*a, *b)).unwrap();
                    let owner = ports.owner(port, Some(id));
                    assert_eq!(owner, Owner::Exchange(ExchangeId(exchange)));
                    ports.end(port, ExchangeId(exchange));
                    waiting.remove(&exchange);
                    assert_eq!(ports.owner(port, Some(id)), Owner::Ended);
                }
                if what == 1 {
                    now = now.after(Duration::from_secs(1));
                    ports.expire(now);
                }
            }
            let n_used = ports.ports.values().map(|port| port.used.len());
            assert!(n_used.max().unwrap_or(0) <= QUERIES_PER_PORT);
            for (exchange, (port, _)) in waiting {
                ports.end(port, ExchangeId(exchange));
            }
            ports.retire_all();
            assert!(ports.is_empty() && ports.places.is_empty());
        }
    }
}
