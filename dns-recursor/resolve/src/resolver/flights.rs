//! All flights, and the waits between them.

use std::collections::{BTreeMap, HashMap};

use dns_cache::key::Key;

use super::FlightId;
use super::flight::{Flight, LinkPurpose};
use super::shares::Shares;
use crate::origin::Origin;

/// Flights that may wait for one another in a row, over all clients. `CoreDNS` and unbound follow a CNAME
/// chain about as far.
pub(super) const MAX_DEPTH: u8 = 8;

pub(super) struct Flights<C> {
    /// Boxed: the nodes of the map would be large, and made again all the time.
    by_id: BTreeMap<FlightId, Box<Flight<C>>>,
    /// The flight that a client with this question joins.
    by_question: HashMap<Box<[u8]>, FlightId>,
    n_clients: usize,
    /// The clients that wait, by origin.
    waiting: HashMap<Origin, usize>,
    by_owner: Shares<Origin>,
    by_zone: Shares<Box<[u8]>>,
    last: u64,
}

impl<C> Default for Flights<C> {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_question: HashMap::new(),
            n_clients: 0,
            waiting: HashMap::new(),
            by_owner: Shares::default(),
            by_zone: Shares::default(),
            last: 0,
        }
    }
}

impl<C> Flights<C> {
    /// Adds a flight, which later clients join.
    pub(super) fn add(&mut self, flight: Flight<C>) -> FlightId {
        self.last += 1;
        let id = FlightId(self.last);
        self.by_question.insert(flight.key.as_bytes().into(), id);
        if let Some(owner) = &flight.owner {
            self.by_owner.add(owner, id);
        }
        self.by_zone.add(&flight.counted_zone, id);
        self.by_id.insert(id, Box::new(flight));
        id
    }

    /// Removes a flight. Its clients do not wait any more.
    pub(super) fn remove(&mut self, id: FlightId) -> Option<Flight<C>> {
        let is_joined = self.is_joined(id);
        let mut flight = self.by_id.remove(&id)?;
        if is_joined {
            self.by_question.remove(flight.key.as_bytes());
        }
        if let Some(owner) = &flight.owner {
            self.by_owner.remove(owner, id);
        }
        self.by_zone.remove(&flight.counted_zone, id);
        self.n_clients -= flight.clients.len();
        self.leave(&std::mem::take(&mut flight.origins));
        Some(*flight)
    }

    pub(super) fn get(&self, id: FlightId) -> Option<&Flight<C>> {
        self.by_id.get(&id).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, id: FlightId) -> Option<&mut Flight<C>> {
        self.by_id.get_mut(&id).map(Box::as_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FlightId, &Flight<C>)> {
        self.by_id.iter().map(|(id, flight)| (*id, flight.as_ref()))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    //--- Clients

    /// The flight that a client with this question joins.
    pub(super) fn to_join(&self, key: &Key) -> Option<FlightId> {
        self.by_question.get(key.as_bytes()).copied()
    }

    /// Whether clients with a flight's question join it: not after its route has changed.
    pub(super) fn is_joined(&self, id: FlightId) -> bool {
        let flight = self.by_id.get(&id);
        flight.is_some_and(|flight| self.by_question.get(flight.key.as_bytes()) == Some(&id))
    }

    /// Makes later clients join no flight that `stays` denies.
    pub(super) fn retain_joined(&mut self, stays: impl Fn(&Flight<C>) -> bool) {
        let by_id = &self.by_id;
        self.by_question
            .retain(|_, id| by_id.get(id).is_some_and(|flight| stays(flight)));
    }

    /// Makes later clients join no flight that `is_old` names, and keeps the answers to none of them.
    pub(super) fn outdate(&mut self, is_old: impl Fn(&Flight<C>) -> bool) {
        for flight in self.by_id.values_mut().filter(|flight| is_old(flight)) {
            flight.is_outdated = true;
        }
        self.retain_joined(|flight| !flight.is_outdated);
    }

    pub(super) const fn n_clients(&self) -> usize {
        self.n_clients
    }

    pub(super) fn add_client(
        &mut self,
        id: FlightId,
        client: Option<C>,
        origin: Option<Origin>,
        has_stale: bool,
    ) {
        let Some(flight) = self.by_id.get_mut(&id) else {
            return;
        };
        flight.has_stale |= has_stale;
        let Some(client) = client else { return };
        self.n_clients += 1;
        flight.clients.push(client);
        if let Some(origin) = origin {
            flight.origins.push(origin);
            *self.waiting.entry(origin).or_default() += 1;
        }
    }

    pub(super) fn take_clients(&mut self, id: FlightId) -> Vec<C> {
        let Some(flight) = self.by_id.get_mut(&id) else {
            return Vec::new();
        };
        let clients = std::mem::take(&mut flight.clients);
        let origins = std::mem::take(&mut flight.origins);
        self.n_clients -= clients.len();
        self.leave(&origins);
        clients
    }

    fn leave(&mut self, origins: &[Origin]) {
        for origin in origins {
            if let Some(n) = self.waiting.get_mut(origin) {
                *n -= 1;
                if *n == 0 {
                    self.waiting.remove(origin);
                }
            }
        }
    }

    /// The number of clients of an origin that wait.
    pub(super) fn n_waiting(&self, origin: Origin) -> usize {
        self.waiting.get(&origin).copied().unwrap_or(0)
    }

    /// The flight that makes room for one of this origin and zone.
    pub(super) fn room_for(&self, origin: Option<Origin>, zone: &[u8]) -> Option<FlightId> {
        let zone: Box<[u8]> = zone.into();
        let by_owner = self.by_owner.room_for(origin.as_ref());
        by_owner.or_else(|| self.by_zone.room_for(Some(&zone)))
    }

    //--- Flights that wait for flights

    /// Whether a flight with a link may wait for `next`: not in a circle, and not in too long a row.
    pub(super) fn may_await(&self, id: FlightId, next: FlightId) -> bool {
        let n_behind = self.n_behind(next, id);
        n_behind.is_some_and(|n_behind| self.depth_behind(id) + n_behind <= MAX_DEPTH)
    }

    /// The number of flights that would lead to one that this flight waits for.
    pub(super) fn depth_behind(&self, id: FlightId) -> u8 {
        self.by_id.get(&id).map_or(0, |flight| flight.depth + 1)
    }

    /// Makes a flight with a link wait for `next`.
    pub(super) fn wait_for(&mut self, id: FlightId, next: FlightId) {
        let Some(flight) = self.by_id.get_mut(&id) else {
            return;
        };
        let Some(link) = &mut flight.link else { return };
        link.awaits = Some(next);
        let depth = flight.depth + 1;
        let n_sought = flight.n_sought + u8::from(matches!(link.purpose, LinkPurpose::Server));
        if let Some(next) = self.by_id.get_mut(&next) {
            next.awaited_by.push(id);
        }
        self.deepen(next, depth, n_sought);
    }

    /// The number of flights that a flight waits for in a row; `None` when `other` is it or among them.
    fn n_behind(&self, mut from: FlightId, other: FlightId) -> Option<u8> {
        let mut n_behind = 0;
        // `may_await` prevents circles and rows of more than MAX_DEPTH, so the walk ends soon.
        loop {
            if from == other {
                return None;
            }
            let link = self.by_id.get(&from).and_then(|f| f.link.as_ref());
            match link.and_then(|link| link.awaits) {
                Some(next) => from = next,
                None => return Some(n_behind),
            }
            n_behind += 1;
        }
    }

    /// Notes how many flights lead to a flight, and to those that it waits for.
    fn deepen(&mut self, mut id: FlightId, mut depth: u8, mut n_sought: u8) {
        while let Some(flight) = self.by_id.get_mut(&id) {
            flight.depth = flight.depth.max(depth);
            flight.n_sought = flight.n_sought.max(n_sought);
            let Some(link) = &flight.link else { return };
            let Some(next) = link.awaits else { return };
            depth = flight.depth + 1;
            n_sought = flight.n_sought + u8::from(matches!(link.purpose, LinkPurpose::Server));
            id = next;
        }
    }

    /// Asserts that every question leads to its flight.
    #[cfg(test)]
    pub(super) fn check_questions(&self) {
        for (question, id) in &self.by_question {
            assert_eq!(self.by_id[id].key.as_bytes(), &**question);
        }
    }

    /// Asserts that the counts of clients and zones are those of the flights.
    #[cfg(test)]
    pub(super) fn check_shares(&self) {
        let owned = self.by_id.values().filter(|it| it.owner.is_some());
        assert_eq!(self.by_owner.len(), owned.count());
        assert_eq!(self.by_zone.len(), self.by_id.len());
        let known = self.by_id.values().map(|flight| flight.origins.len());
        assert_eq!(self.waiting.values().sum::<usize>(), known.sum::<usize>());
    }

    /// The number of flights since the start.
    #[cfg(test)]
    pub(super) const fn n_begun(&self) -> u64 {
        self.last
    }
}
