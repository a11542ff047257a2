//! One question under way.

use std::sync::Arc;

use dns_cache::key::Key;
use dns_cache::message::Answer;
use dns_cache::moment::Moment;
use dns_wire::Name;

use super::delegation::Delegation;
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, Reason};
use crate::forward::{Protocol, Route};

/// The longest that patience is stretched when a query is repeated.
const MAX_STRETCH: u32 = 8;

pub(super) struct Flight<C> {
    pub(super) key: Box<Key>,
    pub(super) route: Arc<Route>,
    pub(super) clients: Vec<C>,
    /// The clients' question has a stale answer to fall back on.
    pub(super) has_stale: bool,
    pub(super) began: Moment,
    pub(super) deadline: Moment,
    /// When something is done about the response that has not come.
    pub(super) next_try: Moment,
    /// The timer that is set.
    pub(super) armed: Option<Moment>,
    /// Whom to ask, in this order.
    pub(super) order: Vec<UpstreamId>,
    /// How many of these were asked or passed over.
    pub(super) n_tried: usize,
    pub(super) n_sends: u32,
    /// Who has answered with a failure: not asked again.
    pub(super) failed: Vec<UpstreamId>,
    /// What to say when nobody is left.
    pub(super) reason: Reason,
    /// An upstream that has taken offence at OPT: asked without.
    pub(super) without_edns: Option<UpstreamId>,
    exchanges: Vec<ExchangeId>,
    /// The zone whose servers are asked, when referrals have led below the route's.
    pub(super) delegation: Option<Delegation>,
    /// Another question that has to be answered first.
    pub(super) link: Option<Link>,
    /// Flights that wait for this one.
    pub(super) awaited_by: Vec<FlightId>,
    /// Flights that lead here, one after the other.
    pub(super) depth: u8,
    /// How many of these want to know where a server is.
    pub(super) n_sought: u8,
}

/// A question that has to be answered first, and the flight that is to answer it.
pub(super) struct Link {
    pub(super) wanted: Wanted,
    pub(super) awaits: Option<FlightId>,
}

/// What the answer to another question is wanted for.
pub(super) enum Wanted {
    /// It is the rest of a CNAME chain of which this is the first part.
    Rest(Answer),
    /// It says where a server of the delegation is.
    Server,
}

impl<C> Flight<C> {
    pub(super) fn new(
        key: &Key,
        route: Arc<Route>,
        order: Vec<UpstreamId>,
        began: Moment,
        deadline: Moment,
    ) -> Self {
        Self {
            key: Box::new(key.clone()),
            route,
            clients: Vec::new(),
            has_stale: false,
            began,
            deadline,
            next_try: deadline,
            armed: None,
            order,
            n_tried: 0,
            n_sends: 0,
            failed: Vec::new(),
            reason: Reason::Unanswered,
            without_edns: None,
            exchanges: Vec::new(),
            delegation: None,
            link: None,
            awaited_by: Vec::new(),
            depth: 0,
            n_sought: 0,
        }
    }

    /// The zone whose servers are asked.
    pub(super) fn zone(&self) -> &Name {
        let delegated = self.delegation.as_ref().map(|it| &it.zone);
        delegated.unwrap_or(&self.route.zone)
    }

    /// What these servers are asked over first.
    pub(super) fn protocol(&self) -> Protocol {
        match self.delegation {
            Some(_) => Protocol::Udp,
            None => self.route.protocol,
        }
    }

    /// Whether these servers' AD bit is passed on: nobody has said so of those that a referral names.
    pub(super) fn trusts_ad(&self) -> bool {
        self.delegation.is_none() && self.route.trust_ad
    }

    pub(super) fn began_exchange(&mut self, exchange: ExchangeId) {
        self.exchanges.push(exchange);
        self.n_sends += 1;
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

    /// How much longer than usual to wait: twice as long for each time all were asked before.
    pub(super) fn repeats(&self) -> u32 {
        let n_upstreams = u32::try_from(self.order.len()).unwrap_or(1).max(1);
        1_u32
            .checked_shl(self.n_sends / n_upstreams)
            .unwrap_or(MAX_STRETCH)
            .min(MAX_STRETCH)
    }
}
