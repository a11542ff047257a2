//! Picks the next upstream of a flight, and the query for it.

use std::time::Duration;

use dns_cache::instant::Instant;

use super::exchanges::{Pending, Purpose};
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, MAX_SENDS, Output, Reason, Resolver};
use crate::exchange::{Asking, Entropy};
use crate::forward::{Fitness, Protocol};
use crate::upstream_state::Others;

/// The time that an exchange over TCP has before another upstream gets the query.
const TCP_PATIENCE: Duration = Duration::from_millis(1000);
/// The time until a waiting query is reconsidered when it may not be sent to a second upstream.
const HEDGE_RETRY: Duration = Duration::from_millis(100);

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
            .filter(|upstream| self.upstreams.fitness(*upstream) != Fitness::Absent)
            .min_by_key(|upstream| self.upstreams.fitness(*upstream));
        match again {
            Some(upstream) if flight.n_sends < MAX_SENDS => {
                let protocol = flight.protocol();
                self.counts.sent_again += 1;
                self.send(id, upstream, protocol, now);
            }
            _ if flight.exchanges().next().is_none() => {
                let reason = flight.reason;
                if !self.seek(id) {
                    self.fail(id, reason, now);
                }
            }
            _ => flight.next_try = flight.deadline,
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
        let Some(state) = state.filter(|_| flight.n_sends < MAX_SENDS) else {
            flight.failed.push(upstream);
            self.advance(id, Cause::Failed, now);
            return;
        };
        let asking = Asking {
            question: flight.key.question(),
            variant: flight.asks(),
            mode: flight.route.mode,
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
            Protocol::Udp => state.patience(others) * flight.repeats(),
        };
        let to = state.address();
        let exchange = self.exchanges.open(Pending {
            purpose: Purpose::Flight(id),
            upstream,
            sent,
            at: now,
            protocol,
            overdue: false,
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
