//! What becomes of a flight when a response has come, or none will.

use dns_cache::key::Key;
use dns_cache::message::{Answer, Reader, Unusable};
use dns_cache::moment::Moment;
use dns_wire::Rcode;

use super::asking::Cause;
use super::flight::{Flight, Wanted};
use super::{ExchangeId, FlightId, Output, Reason, Resolver, Timer};
use crate::exchange::Entropy;
use crate::forward::Mode;

impl<C, E: Entropy> Resolver<C, E> {
    /// A response that is one has come: is it an answer?
    pub(super) fn read(&mut self, id: FlightId, exchange: ExchangeId, message: &[u8], now: Moment) {
        let (Some(flight), Some(pending)) =
            (self.flights.get_mut(&id), self.exchanges.get(&exchange))
        else {
            return;
        };
        let (upstream, had_edns) = (pending.upstream, pending.sent.had_edns());
        let protocol = pending.protocol;
        let reader = Reader {
            question: flight.key.question(),
            limits: self.settings.limits,
            trust_ad: flight.trusts_ad(),
        };
        match reader.read(message, &mut self.scratch) {
            Ok(answer) => {
                if flight.without_edns == Some(upstream)
                    && let Some(state) = self.upstreams.get_mut(upstream)
                {
                    state.cannot_edns(now);
                }
                self.answered(id, answer, now);
            }
            // RFC 6891 §7: a server that does not know OPT says FORMERR or NOTIMP.
            Err(Unusable::Rcode(Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS)) if had_edns => {
                flight.without_edns = Some(upstream);
                self.drop_exchange(id, exchange);
                self.send(id, upstream, protocol, now);
                self.arm(id);
            }
            Err(unusable) => {
                if let Unusable::Referral(referral) = unusable
                    && self.refer(id, &referral, now)
                {
                    return;
                }
                self.counts.unusable += 1;
                self.with_flight(id, |flight| {
                    flight.failed.push(upstream);
                    flight.reason = Reason::Refused;
                });
                self.drop_exchange(id, exchange);
                self.advance(id, Cause::Failed, now);
                self.arm(id);
            }
        }
    }

    fn answered(&mut self, id: FlightId, answer: Answer, now: Moment) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        let authoritative = flight.route.mode == Mode::Authoritative;
        match answer.dangling.clone().filter(|_| authoritative) {
            None => self.settle(id, answer, now),
            Some(target) => {
                let question = [
                    target.to_lowercase().as_wire(),
                    flight
                        .key
                        .question()
                        .last_chunk::<4>()
                        .map_or(&[], |end| &end[..]),
                ]
                .concat();
                let key = Box::new(Key::new(self.seed, &question, flight.key.variant()));
                self.wait_for(id, Wanted::Rest(answer), key);
            }
        }
    }

    pub(super) fn settle(&mut self, id: FlightId, mut answer: Answer, now: Moment) {
        let Some(mut flight) = self.remove(id) else {
            return;
        };
        let route = self.table.find(flight.key.name(), flight.key.qtype());
        if !route.is_some_and(|route| route.is_like(&flight.route)) {
            // The zone goes elsewhere since the question was asked: good for those who wait, but
            // not to be kept.
            answer.lifetime = 0;
        }
        for waiting in std::mem::take(&mut flight.awaited_by) {
            self.link_answered(waiting, &answer, now);
        }
        self.outputs.push_back(Output::Answer {
            key: flight.key,
            answer,
            clients: flight.clients,
        });
    }

    pub(super) fn fail(&mut self, id: FlightId, reason: Reason) {
        let is_joined = self.is_joined(id);
        let Some(mut flight) = self.remove(id) else {
            return;
        };
        // Upstreams that no longer count have failed: not to be remembered of those that do.
        let reason = match is_joined {
            true => reason,
            false => Reason::Absent,
        };
        for waiting in std::mem::take(&mut flight.awaited_by) {
            self.link_failed(waiting, reason);
        }
        self.outputs.push_back(Output::Fail {
            key: flight.key,
            reason,
            clients: flight.clients,
        });
    }

    pub(super) fn fail_at_once(&mut self, key: &Key, reason: Reason, clients: Vec<C>) {
        let key = Box::new(key.clone());
        self.outputs.push_back(Output::Fail {
            key,
            reason,
            clients,
        });
    }

    /// Whether who asks a flight's question joins it: not when its route has changed since it began.
    fn is_joined(&self, id: FlightId) -> bool {
        let flight = self.flights.get(&id);
        flight.is_some_and(|flight| self.by_question.get(flight.key.as_bytes()) == Some(&id))
    }

    /// Takes a flight out of everything that knows it.
    fn remove(&mut self, id: FlightId) -> Option<Flight<C>> {
        let is_joined = self.is_joined(id);
        let mut flight = self.flights.remove(&id)?;
        if let Some(at) = flight.armed.take() {
            self.timers.remove(&(at, Timer::Flight(id)));
        }
        if is_joined {
            self.by_question.remove(flight.key.as_bytes());
        }
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.n_clients -= flight.clients.len();
        Some(flight)
    }
}
