//! Questions in flight: their clients, their upstreams, and the next step of each.
//!
//! ```text
//!            ask ─► flight (one per question) ─► exchange ─► upstream
//!                     │ ▲                          │ overdue: a second upstream, or again
//!   clients wait here ┘ │                          │ failed: the next upstream
//!                       └── response that fits ◄───┘ truncated: TCP
//!   answer, stale answer or failure ─► every client of the flight, once
//! ```
//!
//! All clients that ask one question share a flight (RFC 5452 §5 asks for that; a hundred clients with a
//! cold name cost one query). A flight ends with the first usable response, or when no upstream is left, or
//! at its deadline. A client that a stale answer exists for waits for [`Settings::stale_wait`] only (RFC
//! 8767 §5); the flight continues and refreshes the cache. A CNAME chain continues as another flight, by the
//! forward table, where it leaves the names of the upstream; a referral to the servers of a zone below leads the
//! same flight there.
//!
//! A state machine: inputs are method calls with `now`, outputs are drained with [`Resolver::poll_output`],
//! and [`Resolver::next_deadline`] is the time of the next [`Resolver::tick`]. Never touches a socket, a
//! clock or the cache.

mod answering;
mod asking;
mod checks;
mod delegation;
mod exchanges;
mod flight;
mod flights;
mod health;
mod interface;
mod recursing;
mod shares;
mod timers;
mod upstreams;
mod validating;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_cache::key::{Key, Seed};
use dns_cache::message::MAX_MESSAGE;
use dns_iterate::delegations::Delegations;
use dns_iterate::hints;
use dns_validate::{Denials, Zones};
use dns_wire::Name;

use crate::exchange::{Entropy, Match};
use crate::forward::{self, Protocol, Route, Table};
use crate::origin::Origin;
use crate::own_addresses::OwnAddresses;
use crate::upstream_state::{Absence, Report};
use asking::Cause;
use exchanges::{Exchanges, Purpose};
use flight::Flight;
use flights::Flights;
pub use interface::{
    CacheResult, Counts, ExchangeId, FlightId, Known, Loss, Output, Reason, ResolveRequest,
    Settings, Validated,
};
use timers::{Timer, Timers};
pub use upstreams::UpstreamView;
use upstreams::{UpstreamId, Upstreams};

/// The most messages of one flight to upstreams: enough for every repeat within the deadline, and for one
/// upstream that fails with EDNS, one with letter case and one with truncation.
pub const MAX_SENDS: u32 = 12;
/// The most messages of one flight over all zones that referrals lead to.
const MAX_SENDS_IN_ALL: u32 = 50;

/// One client may have this part of all places for clients that wait, so that it cannot take them from all others.
const CLIENT_SHARE: usize = 4;

/// All flights, exchanges and upstreams.
pub struct Resolver<C, E> {
    settings: Settings,
    seed: Seed,
    table: Arc<Table>,
    own_addresses: OwnAddresses,
    upstreams: Upstreams,
    flights: Flights<C>,
    exchanges: Exchanges,
    timers: Timers,
    outputs: VecDeque<Output<C>>,
    entropy: E,
    scratch: Vec<u8>,
    counts: Counts,
    /// The servers of zones that referrals have named.
    delegations: Delegations,
    /// The query for the root's servers, and the time of the next.
    priming: Option<ExchangeId>,
    next_priming: Instant,
    /// The keys of zones, by the anchors of the table.
    zones: Zones,
    /// The denials of zones.
    denials: Denials,
    /// The seconds since 1970 at an instant.
    wall: (Instant, u64),
}

impl<C, E> std::fmt::Debug for Resolver<C, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver")
            .field("flights", &self.flights.len())
            .field("exchanges", &self.exchanges.len())
            .field("n_clients", &self.flights.n_clients())
            .finish_non_exhaustive()
    }
}

impl<C, E: Entropy> Resolver<C, E> {
    /// A resolver without flights; `seed` is the cache's.
    #[must_use]
    pub fn new(
        settings: Settings,
        table: Arc<Table>,
        seed: Seed,
        entropy: E,
        now: Instant,
    ) -> Self {
        let mut resolver = Self {
            settings,
            seed,
            table: Arc::default(),
            own_addresses: OwnAddresses::default(),
            upstreams: Upstreams::default(),
            flights: Flights::default(),
            exchanges: Exchanges::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            entropy,
            scratch: vec![0; MAX_MESSAGE],
            counts: Counts::default(),
            delegations: Delegations::default(),
            priming: None,
            next_priming: Instant::START,
            zones: Zones::default(),
            denials: Denials::default(),
            wall: (now, 0),
        };
        resolver.reconfigure(settings, table, now);
        resolver
    }

    //--- Inputs

    /// Switches to other settings and routes. The state of upstreams that stay is kept. Flights end by the
    /// routes they began with; a later question never joins one whose route has changed.
    pub fn reconfigure(&mut self, settings: Settings, table: Arc<Table>, now: Instant) {
        self.settings = settings;
        if self.table.anchors() != table.anchors() {
            self.zones.clear();
        }
        self.table = table;
        self.delegations.clear();
        self.denials.clear();
        let table = &self.table;
        self.flights.retain_joined(|flight| {
            let route = table.find(flight.key.name(), flight.key.qtype());
            route.is_some_and(|route| route.is_same(&flight.route))
        });
        let changes = self.upstreams.adopt(&self.table, now);
        for (upstream, change) in changes {
            self.health_changed(upstream, change, now);
        }
        for upstream in self.upstreams.ids() {
            self.arm_upstream(upstream);
        }
        self.mark_routes();
    }

    /// Sets the addresses of this server: it follows no referral there.
    pub fn set_own_addresses(&mut self, own_addresses: OwnAddresses) {
        self.own_addresses = own_addresses;
    }

    /// Sets the time of day, in seconds since 1970: signatures are valid by it.
    pub const fn set_time(&mut self, seconds: u64, now: Instant) {
        self.wall = (now, seconds);
    }

    /// Forgets what validated answers have denied, as when the cache is flushed.
    pub fn forget_denials(&mut self) {
        self.denials.clear();
    }

    /// A zone has changed: answers to questions that were asked before are not kept, and later clients join none of them.
    pub fn zone_changed(&mut self, zone: &Name) {
        let zone = zone.to_lowercase();
        self.denials.clear();
        self.flights.outdate(|flight| {
            let name = Name::from_wire(flight.key.name());
            name.is_ok_and(|(name, _)| name.is_within(&zone))
        });
    }

    /// A client asks, or the cache wants a refresh.
    pub fn ask(&mut self, request: ResolveRequest<'_, C>, now: Instant) {
        if let Some(id) = self.flights.to_join(request.key) {
            self.join(id, request, now);
            return;
        }
        let Some(route) = self.table.find(request.key.name(), request.key.qtype()) else {
            self.fail_at_once(request.key, Reason::NoRoute, request.client);
            return;
        };
        let route = Arc::clone(route);
        if let Some(answer) = self.denied(request.key, &route, now) {
            self.outputs.push_back(Output::Answer {
                key: Box::new(request.key.clone()),
                answer,
                clients: request.client.into_iter().collect(),
            });
            return;
        }
        // A refresh, and a client with a stale answer, lose nothing without a trial.
        let is_bridged = request.has_stale || request.client.is_none();
        if !self.has_place(request.origin, request.client.as_ref())
            || !self.make_room(request.key, request.origin, &route, now)
        {
            self.counts.overload += 1;
            self.fail_at_once(request.key, Reason::Overload, request.client);
            return;
        }
        match self.begin(request.key, route, request.origin, is_bridged, now) {
            Some(id) => {
                let (client, origin) = (request.client, request.origin);
                let is_refresh = client.is_none();
                self.flights
                    .add_client(id, client, origin, request.has_stale);
                match is_refresh {
                    // Unchecked answers are as old as the one to be refreshed.
                    true => self.ask_at_once(id, now),
                    false => self.start(id, now),
                }
            }
            None => self.fail_at_once(request.key, Reason::Absent, request.client),
        }
    }

    /// Whether one more client of an origin may wait.
    fn has_place(&self, origin: Option<Origin>, client: Option<&C>) -> bool {
        let most = self.settings.max_clients;
        let share = (most / CLIENT_SHARE).max(1);
        client.is_none()
            || self.flights.n_clients() < most
                && origin.is_none_or(|origin| self.flights.n_waiting(origin) < share)
    }

    /// Makes room for one more flight when all places are taken; false when none of them gives way.
    fn make_room(
        &mut self,
        key: &Key,
        origin: Option<Origin>,
        route: &Route,
        now: Instant,
    ) -> bool {
        if self.flights.len() < self.settings.max_flights {
            return true;
        }
        let zone = shares::zone_of(key.name(), route.zone.n_labels());
        let Some(displaced) = self.flights.room_for(origin, &zone) else {
            return false;
        };
        self.counts.overload += 1;
        self.fail(displaced, Reason::Overload, now);
        true
    }

    /// Takes a message from an exchange's socket.
    pub fn received(&mut self, exchange: ExchangeId, message: &[u8], now: Instant) {
        let Some(pending) = self.exchanges.get(exchange) else {
            return;
        };
        let matched = pending.sent.compare(message);
        let (purpose, upstream, protocol) = (pending.purpose, pending.upstream, pending.protocol);
        match matched {
            Match::Foreign => return,
            Match::NearMiss => self.counts.near_misses += 1,
            Match::OtherCase => self.counts.other_case += 1,
            Match::Truncated => self.counts.truncated += 1,
            Match::Response => {}
        }
        if matched != Match::NearMiss {
            let round_trip = now.since(pending.at);
            let change = self
                .upstreams
                .get_mut(upstream)
                .and_then(|state| state.answered(round_trip, now));
            self.apply(upstream, change, now);
        }
        match (purpose, matched) {
            (Purpose::Probe, Match::NearMiss) => {}
            (Purpose::Probe, _) => {
                self.close(exchange);
                self.upstreams.end_probe(upstream, exchange);
            }
            (Purpose::Priming, Match::NearMiss) => {}
            (Purpose::Priming, _) => {
                self.close(exchange);
                self.priming = None;
                if matched == Match::Response
                    && let Some((addresses, ttl)) = hints::of_response(message)
                {
                    // RFC 9609 §4.2: a response may be without addresses; those of the hints are right then.
                    let addresses = match addresses.is_empty() {
                        true => self.table.root().to_vec(),
                        false => addresses,
                    };
                    self.delegations.learn_root(addresses, ttl, now);
                }
            }
            (Purpose::Flight(id), Match::NearMiss | Match::OtherCase | Match::Truncated)
                if protocol == Protocol::Udp =>
            {
                // A stream settles any doubt about datagrams.
                self.drop_exchange(id, exchange);
                self.send(id, upstream, Protocol::Tcp, now);
                let doubt = matched == Match::OtherCase;
                if let Some(sent) = self.flights.get(id).and_then(Flight::last_exchange)
                    && let Some(pending) = self.exchanges.get_mut(sent)
                {
                    pending.case_in_doubt = doubt;
                }
                self.arm(id);
            }
            (Purpose::Flight(_), Match::NearMiss) => {}
            (Purpose::Flight(id), _) => self.read(id, exchange, message, now),
        }
    }

    /// Takes the end of an exchange that has no response.
    pub fn lost(&mut self, exchange: ExchangeId, loss: Loss, now: Instant) {
        let Some(pending) = self.exchanges.remove(exchange) else {
            return;
        };
        let upstream = pending.upstream;
        let absence = match loss {
            Loss::Refused => Some(Absence::Refused),
            Loss::Unreachable => Some(Absence::Unreachable),
            Loss::Untrusted => Some(Absence::Untrusted),
            Loss::Broken => None,
        };
        // A closed TCP port says nothing about UDP.
        let tells = pending.protocol == self.upstreams.protocol(upstream);
        if let Some(why) = absence.filter(|_| tells) {
            // That concerns all zones of the address.
            for upstream in self.upstreams.alike(upstream) {
                let change = self
                    .upstreams
                    .get_mut(upstream)
                    .and_then(|state| state.unreachable(why, now));
                self.apply(upstream, change, now);
            }
        }
        match pending.purpose {
            Purpose::Probe => self.upstreams.end_probe(upstream, exchange),
            Purpose::Priming => self.priming = None,
            Purpose::Flight(id) => {
                self.with_flight(id, |flight| flight.forget(exchange));
                if pending.case_in_doubt {
                    self.send_without_case(id, upstream, now);
                } else {
                    self.with_flight(id, |flight| flight.failed.push(upstream));
                    self.advance(id, Cause::Failed, now);
                }
                self.arm(id);
            }
        }
    }

    /// The cache's answer to [`Output::LookUp`].
    pub fn looked_up(&mut self, id: FlightId, key: &Key, kept: CacheResult, now: Instant) {
        if self.flights.get(id).is_none() {
            return;
        }
        match kept {
            CacheResult::Answer(answer) => self.link_answered(id, &answer, now),
            // RFC 9520 §3.2: a question that failed moments ago is not sent again, for any client.
            CacheResult::Failure => self.link_failed(id, Reason::Unanswered, now),
            CacheResult::Nothing => self.follow_link(id, key, now),
        }
    }

    /// Takes healthd's report about an upstream; ignores one about an upstream that is no longer used.
    pub fn reported(&mut self, address: SocketAddr, report: Report, now: Instant) {
        for upstream in self.upstreams.wanted_at(address) {
            let change = self
                .upstreams
                .get_mut(upstream)
                .and_then(|state| state.reported(report, now));
            self.apply(upstream, change, now);
        }
    }

    /// Runs the timers that are due.
    pub fn tick(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Flight(id) => {
                    self.with_flight(id, |flight| flight.armed = None);
                    self.flight_due(id, now);
                }
                Timer::Upstream(upstream) => {
                    self.upstreams.set_armed(upstream, None);
                    self.upstream_due(upstream, now);
                }
            }
        }
    }

    //--- Outputs

    /// The next action; drain after every input.
    pub fn poll_output(&mut self) -> Option<Output<C>> {
        self.outputs.pop_front()
    }

    /// The time of the next [`Resolver::tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first()
    }

    /// The counters since the start.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The knowledge of zones from the root downwards.
    #[must_use]
    pub fn known(&self, now: Instant) -> Known {
        let root = self.delegations.deepest(&None, &Name::root(), now);
        let root_servers = root.map(|root| root.addresses.len());
        Known {
            root_servers,
            delegations: self.delegations.len() - usize::from(root_servers.is_some()),
            zones: self.zones.len(),
            denials: self.denials.len(),
        }
    }

    /// The number of questions in flight.
    #[must_use]
    pub fn n_flights(&self) -> usize {
        self.flights.len()
    }

    /// The number of clients that wait.
    #[must_use]
    pub const fn n_clients(&self) -> usize {
        self.flights.n_clients()
    }

    /// Whether an address is that of a configured upstream, not only of a server that a referral has named.
    #[must_use]
    pub fn is_upstream(&self, address: SocketAddr) -> bool {
        self.upstreams.is_wanted(address)
    }

    /// The state of every configured upstream.
    pub fn upstreams(&self) -> impl Iterator<Item = UpstreamView> {
        self.upstreams.views()
    }

    //--- Flights

    /// Begins a flight; `None` when no upstream is left, and with a stale answer also when all seem to be absent.
    fn begin(
        &mut self,
        key: &Key,
        route: Arc<Route>,
        owner: Option<Origin>,
        has_stale: bool,
        now: Instant,
    ) -> Option<FlightId> {
        let (ids, fitness) = self.upstreams.of(&route);
        let chance = self.entropy.next();
        let order: Vec<UpstreamId> =
            forward::order(route.policy, &fitness, route.next_turn(), chance)
                .into_iter()
                .filter_map(|index| ids.get(index).copied())
                .collect();
        let deadline = now.after(self.settings.deadline);
        let mut flight = Flight::new(key, route, order, now, deadline);
        flight.owner = owner;
        self.lead(&mut flight, now);
        if flight.order.is_empty() {
            if has_stale {
                return None;
            }
            let wait = self.try_absent(&mut flight, &ids, now)?;
            flight.deadline = deadline.min(now.after(wait));
        }
        Some(self.flights.add(flight))
    }

    /// Makes a flight try upstreams that count as absent: one that has just returned answers it at once. Returns how
    /// long it waits for them.
    fn try_absent(
        &self,
        flight: &mut Flight<C>,
        ids: &[UpstreamId],
        now: Instant,
    ) -> Option<Duration> {
        let usable = ids.iter().filter_map(|id| {
            let wait = self.upstreams.get(*id)?.trial_wait(now)?;
            Some((*id, wait))
        });
        let (order, waits): (Vec<UpstreamId>, Vec<Duration>) = usable.unzip();
        flight.order = order;
        flight.is_trial = true;
        flight.reason = Reason::Absent;
        waits.into_iter().max()
    }

    fn join(&mut self, id: FlightId, request: ResolveRequest<'_, C>, now: Instant) {
        let echo = self.flights.get(id).and_then(|flight| {
            let sent = flight.exchanges().filter_map(|x| self.exchanges.get(x));
            let mut echoed = sent.filter(|pending| pending.sent.is_echoed_by(request.question));
            echoed.next().map(|pending| pending.upstream)
        });
        let (client, origin) = (request.client, request.origin);
        if let Some(upstream) = echo {
            self.counts.loops += 1;
            let upstream = self.upstreams.address(upstream);
            self.outputs.push_back(Output::Loop { upstream });
            self.fail_at_once(request.key, Reason::Loop, client);
            return;
        }
        if !self.has_place(origin, client.as_ref()) {
            self.counts.overload += 1;
            self.fail_at_once(request.key, Reason::Overload, client);
            return;
        }
        self.counts.joined += u64::from(client.is_some());
        self.flights
            .add_client(id, client, origin, request.has_stale);
        self.release_to_stale(id, now);
        self.arm(id);
    }

    /// Sends the stale answer to clients that have waited long enough.
    fn release_to_stale(&mut self, id: FlightId, now: Instant) {
        let wait = self.settings.stale_wait;
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let wait = flight.route.stale_wait.unwrap_or(wait);
        if flight.has_stale && !flight.clients.is_empty() && now >= flight.began.after(wait) {
            let key = flight.key.clone();
            let clients = self.flights.take_clients(id);
            self.outputs.push_back(Output::Stale { key, clients });
        }
    }

    fn flight_due(&mut self, id: FlightId, now: Instant) {
        self.release_to_stale(id, now);
        let Some(flight) = self.flights.get(id) else {
            return;
        };
        if now >= flight.deadline {
            let reason = flight.reason;
            self.fail(id, reason, now);
            return;
        }
        if now >= flight.next_try {
            let mut in_doubt = None;
            if let Some(last) = flight.last_exchange()
                && let Some(pending) = self.exchanges.get_mut(last)
                && !pending.overdue
            {
                pending.overdue = true;
                self.counts.overdue += 1;
                let (upstream, sent) = (pending.upstream, pending.at);
                in_doubt = pending.case_in_doubt.then_some((last, upstream));
                let question = flight.key.question();
                let change = self
                    .upstreams
                    .get_mut(upstream)
                    .and_then(|state| state.unanswered(question, sent, now));
                self.apply(upstream, change, now);
            }
            match in_doubt {
                Some((exchange, upstream)) => {
                    self.drop_exchange(id, exchange);
                    self.send_without_case(id, upstream, now);
                }
                None => self.advance(id, Cause::Overdue, now),
            }
        }
        self.arm(id);
    }

    /// Repeats a query without random case: TCP fails, so the server probably does not keep case.
    fn send_without_case(&mut self, id: FlightId, upstream: UpstreamId, now: Instant) {
        if let Some(state) = self.upstreams.get_mut(upstream) {
            state.cannot_keep_case(now);
        }
        self.send(id, upstream, Protocol::Udp, now);
    }

    //--- Small things

    fn with_flight(&mut self, id: FlightId, change: impl FnOnce(&mut Flight<C>)) {
        if let Some(flight) = self.flights.get_mut(id) {
            change(flight);
        }
    }

    fn drop_exchange(&mut self, id: FlightId, exchange: ExchangeId) {
        self.with_flight(id, |flight| flight.forget(exchange));
        self.close(exchange);
    }

    fn close(&mut self, exchange: ExchangeId) {
        if self.exchanges.remove(exchange).is_some() {
            self.outputs.push_back(Output::Close(exchange));
        }
    }

    /// Sets the flight's timer to its next event.
    fn arm(&mut self, id: FlightId) {
        let wait = self.settings.stale_wait;
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let wait = flight.route.stale_wait.unwrap_or(wait);
        let mut at = flight.deadline.min(flight.next_try);
        if flight.has_stale && !flight.clients.is_empty() {
            at = at.min(flight.began.after(wait));
        }
        let before = flight.armed.replace(at);
        self.timers.set(Timer::Flight(id), before, Some(at));
    }

    fn arm_upstream(&mut self, upstream: UpstreamId) {
        let at = self
            .upstreams
            .get_mut(upstream)
            .and_then(|state| state.deadline());
        let before = self.upstreams.set_armed(upstream, at);
        self.timers.set(Timer::Upstream(upstream), before, at);
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
