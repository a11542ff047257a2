//! Picks the next upstream of a flight, and the query for it.

use std::time::Duration;

use dns_cache::instant::Instant;

use super::exchanges::{Pending, Purpose};
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, MAX_SENDS, MAX_SENDS_IN_ALL, Output, Reason, Resolver};
use crate::exchange::{Asking, Entropy};
use crate::forward::{Fitness, Protocol};
use crate::upstream_state::{Others, Upstream};

/// The time that an exchange over TCP has before another upstream gets the query.
const TCP_PATIENCE: Duration = Duration::from_millis(1000);
/// The time until a waiting query is reconsidered when it may not be sent to a second upstream.
const HEDGE_RETRY: Duration = Duration::from_millis(100);
/// The longest wait before a repeated query that is longer than the upstream's usual time.
const MAX_REPEAT_WAIT: Duration = Duration::from_secs(1);
/// The copies of the last query over a slow link that can still be answered in time. All of the few before it may
/// have been lost.
const LAST_COPIES: u32 = 3;

impl<C, E: Entropy> Resolver<C, E> {
    /// Takes the next possible step of a flight.
    pub(super) fn advance(&mut self, id: FlightId, cause: Cause, now: Instant) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        if flight.link.is_some() {
            flight.next_try = flight.deadline;
            return;
        }
        // An upstream that can still answer within its usual time holds the others back.
        let waits = |x: ExchangeId| self.exchanges.get(x).is_some_and(|p| !p.overdue);
        if cause == Cause::Failed && flight.exchanges().any(waits) {
            return;
        }
        while let Some(&next) = flight.order.get(flight.n_tried) {
            if self.upstreams.fitness(next) == Fitness::Absent && !flight.is_trial {
                flight.n_tried += 1;
                continue;
            }
            let slow = flight.last_exchange().and_then(|x| self.exchanges.get(x));
            if cause == Cause::Overdue
                && let Some(slow) = slow.map(|pending| pending.upstream)
                && let Some(state) = self.upstreams.get_mut(slow)
                && !state.spend_hedge()
            {
                flight.next_try = now.after(HEDGE_RETRY);
                return;
            }
            flight.n_tried += 1;
            let protocol = flight.protocol();
            self.counts.sent_again += u64::from(cause == Cause::Overdue);
            self.send(id, next, protocol, now);
            return;
        }
        let again = flight
            .order
            .iter()
            .copied()
            .filter(|upstream| !flight.failed.contains(upstream))
            .filter(|upstream| {
                let state = self.upstreams.get(*upstream);
                let is_usable = |state: &Upstream| {
                    state.fitness() != Fitness::Absent || flight.is_trial && state.is_silent()
                };
                state.is_some_and(is_usable)
            })
            .min_by_key(|upstream| self.upstreams.fitness(*upstream));
        let is_waiting = flight.exchanges().next().is_some();
        match again {
            // The time of the repetition has not come: the upstream has only been found silent.
            Some(_) if cause == Cause::Failed && flight.is_trial && is_waiting => {}
            // Silent upstreams have had their chance.
            Some(_) if flight.n_sends as usize > flight.order.len() && flight.may_recurse() => {
                let reason = flight.reason;
                if !self.fall_back(id, now) {
                    self.fail(id, reason, now);
                }
            }
            Some(upstream) if flight.n_sends < MAX_SENDS => self.repeat(id, upstream, cause, now),
            _ if flight.exchanges().next().is_none() => {
                let reason = flight.reason;
                if !self.seek(id) && !self.fall_back(id, now) {
                    self.fail(id, reason, now);
                }
            }
            _ => flight.next_try = flight.deadline,
        }
    }

    /// Sends the query to an upstream once more, and near the deadline of a slow link in several copies.
    fn repeat(&mut self, id: FlightId, upstream: UpstreamId, cause: Cause, now: Instant) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        // Some servers are silent about names that have nothing but names below them.
        flight.hidden = None;
        let protocol = flight.protocol();
        let left = flight.deadline.since(now);
        let state = self.upstreams.get(upstream);
        let is_last = |usual: Duration| left < usual + usual / 2;
        let copies = match state.and_then(Upstream::slow_round_trip) {
            Some(usual) if is_last(usual) && cause == Cause::Overdue => LAST_COPIES,
            _ => 1,
        };
        for _ in 0..copies {
            self.counts.sent_again += 1;
            self.send(id, upstream, protocol, now);
        }
    }

    pub(super) fn send(
        &mut self,
        id: FlightId,
        upstream: UpstreamId,
        protocol: Protocol,
        now: Instant,
    ) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let state = self.upstreams.get_mut(upstream);
        let has_left = flight.n_sends < MAX_SENDS && flight.n_sends_in_all < MAX_SENDS_IN_ALL;
        let Some(state) = state.filter(|_| has_left) else {
            flight.failed.push(upstream);
            self.advance(id, Cause::Failed, now);
            return;
        };
        let asked = flight.asked(flight.hidden);
        let asking = Asking {
            question: &asked,
            variant: flight.asks(),
            mode: flight.mode(),
            edns: state.takes_edns(now) && flight.without_edns != Some(upstream),
            randomize_case: self.settings.randomize_case && state.keeps_case(now),
        };
        let Some((sent, message)) = asking.compose(&mut self.entropy) else {
            self.fail(id, Reason::Refused, now);
            return;
        };
        state.earn_hedge();
        let others = match flight.order.get(flight.n_tried) {
            Some(_) => Others::Some,
            None => Others::None,
        };
        let patience = match protocol {
            Protocol::Tcp => TCP_PATIENCE,
            Protocol::Tls | Protocol::Https | Protocol::Quic => state.stream_patience(others),
            Protocol::Udp => {
                let usual = state.patience(others);
                let wait = (usual * flight.repeats()).min(usual.max(MAX_REPEAT_WAIT));
                let left = flight.deadline.since(now);
                let slow = state.slow_round_trip();
                // Over a slow link, the next query must leave early enough for its response.
                let last = slow.map(|round_trip| left.saturating_sub(round_trip));
                let last = last.filter(|last| *last >= usual / 4);
                last.map_or(wait, |last| wait.min(last))
            }
        };
        let to = state.address();
        let exchange = self.exchanges.open(Pending {
            purpose: Purpose::Flight(id),
            upstream,
            sent,
            at: now,
            protocol,
            overdue: false,
            hidden: flight.hidden,
            case_in_doubt: false,
        });
        flight.next_try = now.after(patience);
        flight.began_exchange(exchange);
        self.counts.sent += 1;
        self.counts.sent_tcp += u64::from(protocol == Protocol::Tcp);
        self.outputs.push_back(Output::Send {
            exchange,
            to,
            protocol,
            message,
        });
    }
}

/// The reason for a flight's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It has just begun.
    Begin,
    /// An upstream takes longer than usual.
    Overdue,
    /// An upstream has failed.
    Failed,
}
