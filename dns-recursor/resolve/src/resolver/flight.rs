//! One question in flight.

use std::sync::Arc;

use dns_cache::instant::Instant;
use dns_cache::key::{self, Key, Variant};
use dns_cache::message::Answer;
use dns_iterate::delegations::Scope;
use dns_iterate::minimise;
use dns_wire::{Class, Name, Type};

use super::checks::{Checks, Spent};
use super::delegation::Delegation;
use super::shares::zone_of;
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, Reason};
use crate::forward::{ForwardMode, Mode, Protocol, Route};
use crate::origin::Origin;

/// The largest factor by which repeated queries stretch the wait.
const MAX_STRETCH: u32 = 8;

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact that no other one implies"
)]
pub(super) struct Flight<C> {
    pub(super) key: Box<Key>,
    pub(super) route: Arc<Route>,
    pub(super) clients: Vec<C>,
    /// The origins of these clients, as far as they are known.
    pub(super) origins: Vec<Origin>,
    /// The client that the flight counts for.
    pub(super) owner: Option<Origin>,
    /// The zone that it counts for.
    pub(super) counted_zone: Box<[u8]>,
    /// Whether there is a stale answer.
    pub(super) has_stale: bool,
    /// Whether its zone has changed since it began: its answer may be an old one.
    pub(super) is_outdated: bool,
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    /// The time of the next step while there is no response.
    pub(super) next_try: Instant,
    /// The timer that is set.
    pub(super) armed: Option<Instant>,
    /// The upstreams, in the order of the queries.
    pub(super) order: Vec<UpstreamId>,
    /// The number of these that were queried or passed over.
    pub(super) n_tried: usize,
    pub(super) n_sends: u32,
    /// The upstreams that have answered with a failure: they get no second query.
    pub(super) failed: Vec<UpstreamId>,
    /// Whether the upstreams count as absent, and the query is to show whether they still are.
    pub(super) is_trial: bool,
    /// The error for the client when no upstream is left.
    pub(super) reason: Reason,
    /// An upstream that rejects OPT: gets its query without.
    pub(super) without_edns: Option<UpstreamId>,
    exchanges: Vec<ExchangeId>,
    /// Whether the root's servers and those below get the queries.
    pub(super) is_recursing: bool,
    /// The zone that the servers of the route, or of the root, serve.
    apex: Name,
    /// The labels of the name that servers learn, when that is not the whole name.
    pub(super) hidden: Option<usize>,
    /// The number of queries for a part of the name.
    n_steps: usize,
    /// The messages to the servers of all zones.
    pub(super) n_sends_in_all: u32,
    /// The lookups of servers' addresses.
    pub(super) n_fetches: u8,
    /// Whether an upstream has answered SERVFAIL.
    pub(super) has_failed: bool,
    /// The zone that referrals have led to, when it is below the route's.
    pub(super) delegation: Option<Delegation>,
    /// The state of validation.
    pub(super) checks: Checks,
    /// Another question that has to be answered first.
    pub(super) link: Option<Link>,
    /// Flights that wait for this one.
    pub(super) awaited_by: Vec<FlightId>,
    /// The number of flights that lead here in a row.
    pub(super) depth: u8,
    /// The number of these that look for a server's address.
    pub(super) n_sought: u8,
}

/// A question that has to be answered first, and the flight that is to answer it.
pub(super) struct Link {
    pub(super) purpose: LinkPurpose,
    pub(super) awaits: Option<FlightId>,
}

/// The purpose of an answer to another question.
pub(super) enum LinkPurpose {
    /// The rest of a CNAME chain; this is its first part.
    Rest(Answer),
    /// The address of a delegation's server.
    Server,
    /// Keys of a zone, for validation.
    Keys,
    /// Its own answer, which others have asked for without validation.
    Unchecked,
}

impl<C> Flight<C> {
    pub(super) fn new(
        key: &Key,
        route: Arc<Route>,
        order: Vec<UpstreamId>,
        began: Instant,
        deadline: Instant,
    ) -> Self {
        Self {
            key: Box::new(key.clone()),
            counted_zone: zone_of(key.name(), route.zone.n_labels()),
            apex: route.zone.clone(),
            route,
            clients: Vec::new(),
            origins: Vec::new(),
            owner: None,
            has_stale: false,
            is_outdated: false,
            began,
            deadline,
            next_try: deadline,
            armed: None,
            order,
            n_tried: 0,
            n_sends: 0,
            failed: Vec::new(),
            is_trial: false,
            reason: Reason::Unanswered,
            without_edns: None,
            exchanges: Vec::new(),
            is_recursing: false,
            hidden: None,
            n_steps: 0,
            n_sends_in_all: 0,
            n_fetches: 0,
            has_failed: false,
            delegation: None,
            checks: Checks::default(),
            link: None,
            awaited_by: Vec::new(),
            depth: 0,
            n_sought: 0,
        }
    }

    /// The zone whose servers get the query.
    pub(super) fn zone(&self) -> &Name {
        let delegated = self.delegation.as_ref().map(|it| &it.zone);
        delegated.unwrap_or(&self.apex)
    }

    /// Turns it to the root's servers.
    pub(super) fn recurse(&mut self) {
        self.is_recursing = true;
        self.apex = Name::root();
    }

    /// Whether the root's servers can be asked in place of upstreams that have failed. To ask others after SERVFAIL would
    /// undo the validation of the upstreams.
    pub(super) fn may_recurse(&self) -> bool {
        self.route.source == ForwardMode::ForwardFirst && !self.is_recursing && !self.has_failed
    }

    /// The kind of its servers.
    pub(super) fn mode(&self) -> Mode {
        match self.is_recursing {
            true => Mode::Authoritative,
            false => self.route.mode,
        }
    }

    /// The beginning of the delegations that it follows.
    pub(super) fn scope(&self) -> Scope {
        (!self.is_recursing).then(|| self.route.zone.to_lowercase())
    }

    /// Sets how much of the name the servers of its zone learn next.
    pub(super) fn minimise(&mut self) {
        if !self.is_recursing || key::qclass(self.key.question()) != Class::IN {
            return;
        }
        let all = Name::from_wire(self.key.name()).map_or(0, |(name, _)| name.n_labels());
        let zone = self.zone().n_labels();
        let asked = self.hidden.unwrap_or(zone);
        let next = minimise::next(zone, asked, self.n_steps, all);
        self.n_steps += 1;
        self.hidden = (next < all).then_some(next);
    }

    /// The name of its question, when an answer to it says that no zone begins there.
    pub(super) fn inner_name(&self) -> Option<Name> {
        let (name, _) = Name::from_wire(self.key.name()).ok()?;
        let is_inner = self.is_recursing && self.key.qtype() != Type::DS && name != *self.zone();
        is_inner.then_some(name)
    }

    /// The question of a query with this many labels of the name.
    pub(super) fn asked(&self, hidden: Option<usize>) -> Box<[u8]> {
        let name = Name::from_wire(self.key.name());
        match (hidden, name) {
            (Some(labels), Ok((name, _))) => {
                let (name, rtype) = (name.suffix(labels), Type::A.0.to_be_bytes());
                let question = [name.as_wire(), &rtype, &Class::IN.0.to_be_bytes()];
                question.concat().into()
            }
            _ => self.key.question().into(),
        }
    }

    /// The transport that queries to these servers begin with.
    pub(super) fn protocol(&self) -> Protocol {
        match self.delegation {
            None if !self.is_recursing => self.route.protocol,
            _ => Protocol::Udp,
        }
    }

    /// Whether these servers' AD bit is passed on: never that of servers that a referral names.
    pub(super) fn trusts_ad(&self) -> bool {
        let is_configured = self.delegation.is_none() && !self.is_recursing;
        is_configured && self.route.trust_ad && !self.route.validates()
    }

    /// Whether its answer is validated: not for a client that disables checking, and never signatures themselves.
    pub(super) fn validates(&self) -> bool {
        validates(&self.route, &self.key)
    }

    /// Makes it one of those for the keys of an answer, behind others that have cost as much.
    pub(super) fn is_for_keys_after(&mut self, spent: Option<Spent>) {
        let Spent { sends, fetches } = spent.unwrap_or_default();
        self.checks.is_for_keys = true;
        self.n_sends_in_all = sends;
        self.n_fetches = fetches;
    }

    /// Notes the cost of keys that it has waited for.
    pub(super) fn pays(&mut self, ended: &Self) {
        let spent = &mut self.checks.spent;
        if ended.checks.is_for_keys {
            spent.sends = spent.sends.max(ended.n_sends_in_all);
            spent.fetches = spent.fetches.max(ended.n_fetches);
        }
    }

    /// DO and CD of its queries.
    pub(super) fn asks(&self) -> Variant {
        let variant = self.key.variant();
        match self.validates() {
            true => Variant::new(true, self.checks.checking_disabled),
            false => variant,
        }
    }

    /// Sets the error for the client. That an answer was bogus says more than that another upstream failed.
    pub(super) fn failed_by(&mut self, reason: Reason) {
        if !matches!(self.reason, Reason::Bogus(_)) {
            self.reason = reason;
        }
    }

    pub(super) fn began_exchange(&mut self, exchange: ExchangeId) {
        self.exchanges.push(exchange);
        self.n_sends += 1;
        self.n_sends_in_all += 1;
    }

    pub(super) fn forget(&mut self, exchange: ExchangeId) {
        self.exchanges.retain(|known| *known != exchange);
    }

    pub(super) fn exchanges(&self) -> impl Iterator<Item = ExchangeId> {
        self.exchanges.iter().copied()
    }

    pub(super) fn last_exchange(&self) -> Option<ExchangeId> {
        self.exchanges.last().copied()
    }

    pub(super) fn take_exchanges(&mut self) -> Vec<ExchangeId> {
        std::mem::take(&mut self.exchanges)
    }

    /// The factor of the usual wait: it doubles each time that all upstreams were queried.
    pub(super) fn repeats(&self) -> u32 {
        let n_upstreams = u32::try_from(self.order.len()).unwrap_or(1).max(1);
        1_u32
            .checked_shl(self.n_sends / n_upstreams)
            .unwrap_or(MAX_STRETCH)
            .min(MAX_STRETCH)
    }
}

/// Whether the answer to a question is validated by its route.
pub(super) fn validates(route: &Route, key: &Key) -> bool {
    route.validates()
        && !key.variant().checking_disabled()
        && key::qclass(key.question()) == Class::IN
        && key.qtype() != Type::RRSIG
}
