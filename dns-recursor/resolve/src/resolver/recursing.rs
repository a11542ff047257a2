//! Leads flights from zone to zone: to the servers that referrals name, and from the root's servers downwards.
//!
//! A flight begins at the deepest zone whose servers are known. From the root downwards, each zone's servers learn no more
//! of the name than they need to (RFC 9156).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_cache::key::{Key, Variant};
use dns_cache::message::{Answer, Referral};
use dns_iterate::delegations::{Delegations, most_fetches};
use dns_iterate::order;
use dns_wire::{Name, Type};

use super::asking::Cause;
use super::delegation::{self, Delegation};
use super::exchanges::{Pending, Purpose};
use super::flight::{Flight, LinkPurpose};
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, Output, Reason, Resolver};
use crate::exchange::{Asking, Entropy};
use crate::forward::{Fitness, ForwardMode, Mode, Protocol, Route};

/// The time between queries for the root's servers that are not answered.
const PRIMING_INTERVAL: Duration = Duration::from_secs(10);
/// The question for the root's servers.
const ROOT_SERVERS: [u8; 5] = [0, 0, 2, 0, 1];

impl<C, E: Entropy> Resolver<C, E> {
    /// Leads a flight that begins to the deepest zone whose servers are known. One whose upstreams all count as absent
    /// turns to the root's servers if it may.
    pub(super) fn lead(&mut self, flight: &mut Flight<C>, now: Instant) {
        let is_left = flight.order.is_empty() && flight.may_recurse();
        if is_left || flight.route.source == ForwardMode::Recurse {
            flight.recurse();
        }
        if flight.mode() != Mode::Authoritative {
            return;
        }
        let Ok((name, _)) = Name::from_wire(flight.key.name()) else {
            return;
        };
        // The servers of the zone above have a zone's DS records.
        let from = match flight.key.qtype() {
            Type::DS => name.parent().unwrap_or_else(Name::root),
            _ => name,
        };
        let known = self.delegations.deepest(&flight.scope(), &from, now);
        let known = known.map(|known| (known.zone.clone(), known.addresses.clone()));
        if let Some((zone, addresses)) = known {
            let order = self.by_speed(&addresses, &flight.route, now);
            if !order.is_empty() {
                flight.order = order;
                flight.delegation = Some(Delegation::known(zone));
            }
        }
        if flight.is_recursing && flight.delegation.is_none() {
            let hints = self.table.root().to_vec();
            flight.order = self.by_speed(&hints, &flight.route, now);
            if let Some(server) = flight.order.first() {
                self.prime(*server, now);
            }
        }
        minimise(&self.delegations, flight, now);
    }

    /// Turns a flight whose upstreams have failed to the root's servers, if it may.
    pub(super) fn fall_back(&mut self, id: FlightId, now: Instant) -> bool {
        let flight = self.flights.get_mut(id);
        let Some(flight) = flight.filter(|flight| flight.may_recurse()) else {
            return false;
        };
        let mut ahead = Flight::new(
            &flight.key,
            Arc::clone(&flight.route),
            Vec::new(),
            flight.began,
            flight.deadline,
        );
        let left = flight.take_exchanges();
        for exchange in left {
            self.close(exchange);
        }
        self.lead(&mut ahead, now);
        if ahead.order.is_empty() {
            return false;
        }
        self.with_flight(id, |flight| {
            flight.recurse();
            flight.hidden = ahead.hidden;
            flight.delegation = ahead.delegation;
            flight.is_trial = false;
            flight.reason = Reason::Unanswered;
        });
        self.turn_to(id, ahead.order, now);
        true
    }

    /// Continues with the servers of a referral; false when it cannot be followed.
    pub(super) fn refer(&mut self, id: FlightId, referral: &Referral, now: Instant) -> bool {
        let Some(flight) = self.flights.get_mut(id) else {
            return false;
        };
        if flight.mode() != Mode::Authoritative {
            return false;
        }
        let before = flight.delegation.as_ref();
        let n_referrals = Delegation::next(referral, flight.key.question(), before);
        let Some(n_referrals) = n_referrals else {
            return false;
        };
        let (scope, from) = (flight.scope(), flight.zone().clone());
        let Some(found) = self.delegations.learn(&scope, &from, referral, now) else {
            return false;
        };
        flight.delegation = Some(Delegation::of(&found, n_referrals));
        flight.reason = Reason::Unanswered;
        flight.hidden = None;
        minimise(&self.delegations, flight, now);
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.ask_servers(id, &found.addresses, now);
        true
    }

    /// Takes the addresses of a server that a referral has named without one.
    pub(super) fn located(&mut self, id: FlightId, addresses: &[IpAddr], now: Instant) {
        if let Some(flight) = self.flights.get(id) {
            let (scope, zone) = (flight.scope(), flight.zone().to_lowercase());
            self.delegations.locate(&scope, &zone, addresses);
        }
        self.ask_servers(id, addresses, now);
    }

    /// Queries the servers at these addresses, or looks for others when no address is usable.
    fn ask_servers(&mut self, id: FlightId, addresses: &[IpAddr], now: Instant) {
        let Some(flight) = self.flights.get(id) else {
            return;
        };
        let route = Arc::clone(&flight.route);
        let order = self.by_speed(addresses, &route, now);
        self.turn_to(id, order, now);
    }

    fn turn_to(&mut self, id: FlightId, order: Vec<UpstreamId>, now: Instant) {
        self.with_flight(id, |flight| {
            flight.order = order;
            flight.n_sends = 0;
            flight.n_tried = 0;
            flight.failed.clear();
            flight.without_edns = None;
        });
        self.advance(id, Cause::Begin, now);
        self.arm(id);
    }

    /// The servers at these addresses, the best first.
    fn by_speed(&mut self, addresses: &[IpAddr], route: &Route, now: Instant) -> Vec<UpstreamId> {
        let chance = self.entropy.next();
        let mut addresses = addresses.to_vec();
        let first = usize::try_from(chance % (addresses.len().max(1) as u64)).unwrap_or(0);
        addresses.rotate_left(first);
        let servers = delegation::servers(&addresses, &self.own_addresses);
        let ids: Vec<UpstreamId> = servers
            .map(|to| self.upstreams.delegate(to, route, now))
            .collect();
        let states = ids.iter().map(|id| self.upstreams.get(*id));
        let times: Vec<Option<Duration>> = states.map(|it| it?.round_trip()).collect();
        let order = order::by_speed(&times, self.entropy.next());
        let order = order.into_iter().filter_map(|at| ids.get(at).copied());
        let mut order: Vec<UpstreamId> = order
            .filter(|id| self.upstreams.fitness(*id) != Fitness::Absent)
            .collect();
        order.sort_by_key(|id| self.upstreams.fitness(*id));
        order
    }

    /// Looks up the next server that came without an address; false when there is none, or too many were looked up.
    pub(super) fn seek(&mut self, id: FlightId) -> bool {
        let Some(flight) = self.flights.get_mut(id) else {
            return false;
        };
        if flight.n_fetches >= most_fetches(flight.n_sought) {
            return false;
        }
        let delegation = flight.delegation.as_mut();
        let Some(question) = delegation.and_then(Delegation::next_question) else {
            return false;
        };
        flight.n_fetches += 1;
        let key = Key::new(self.seed, &question, Variant::default());
        self.wait_for(id, LinkPurpose::Server, Box::new(key));
        true
    }

    /// Asks the server of an exchange for more of the name, or at once for the whole name when `goes_on` is false.
    pub(super) fn ask_more(
        &mut self,
        id: FlightId,
        exchange: ExchangeId,
        goes_on: bool,
        now: Instant,
    ) {
        let (Some(flight), Some(pending)) =
            (self.flights.get_mut(id), self.exchanges.get(exchange))
        else {
            return;
        };
        let (upstream, protocol) = (pending.upstream, pending.protocol);
        match goes_on {
            true => minimise(&self.delegations, flight, now),
            false => flight.hidden = None,
        }
        flight.n_sends = 0;
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.send(id, upstream, protocol, now);
        self.arm(id);
    }

    /// Keeps the answer to a query for a part of the name: it is one to a question that may come.
    pub(super) fn keep_part(&mut self, id: FlightId, asked: &[u8], answer: Answer, now: Instant) {
        let Some(flight) = self.flights.get(id) else {
            return;
        };
        let variant = match flight.validates() {
            // It is not validated.
            true => Variant::new(true, true),
            false => flight.asks(),
        };
        let key = Key::new(self.seed, asked, variant);
        let route = self.table.find(key.name(), key.qtype());
        let is_own = route.is_some_and(|route| route.is_like(&flight.route));
        if let Ok((name, _)) = Name::from_wire(key.name()) {
            self.delegations.note_inner(name, answer.lifetime, now);
        }
        if is_own && answer.dangling.is_none() {
            self.outputs.push_back(Output::Answer {
                key: Box::new(key),
                answer,
                clients: Vec::new(),
            });
        }
    }

    /// Asks for the root's servers, unless that was done a moment ago (RFC 9609).
    fn prime(&mut self, server: UpstreamId, now: Instant) {
        if now < self.next_priming {
            return;
        }
        if let Some(before) = self.priming.take() {
            self.close(before);
        }
        self.next_priming = now.after(PRIMING_INTERVAL);
        let asking = Asking {
            question: &ROOT_SERVERS,
            variant: Variant::default(),
            mode: Mode::Authoritative,
            edns: true,
            randomize_case: false,
        };
        let Some((sent, message)) = asking.compose(&mut self.entropy) else {
            return;
        };
        let exchange = self.exchanges.open(Pending {
            purpose: Purpose::Priming,
            upstream: server,
            sent,
            at: now,
            protocol: Protocol::Udp,
            overdue: false,
            hidden: None,
            case_in_doubt: false,
        });
        self.priming = Some(exchange);
        self.counts.sent += 1;
        self.outputs.push_back(Output::Send {
            exchange,
            to: self.upstreams.address(server),
            protocol: Protocol::Udp,
            message,
        });
    }
}

/// Sets how much of the name the servers of a flight's zone learn next: a part at which no zone begins, as is known, they do
/// not have to be asked for.
fn minimise<C>(delegations: &Delegations, flight: &mut Flight<C>, now: Instant) {
    flight.minimise();
    let Ok((name, _)) = Name::from_wire(flight.key.name()) else {
        return;
    };
    while let Some(labels) = flight.hidden
        && delegations.is_inner(&name.suffix(labels), now)
    {
        flight.minimise();
    }
}
