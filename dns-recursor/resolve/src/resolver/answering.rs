//! The end of a flight: a response has come, or none will.

use std::sync::Arc;

use dns_cache::instant::Instant;
use dns_cache::key::Key;
use dns_cache::message::{self, Answer, Reader, Unusable};
use dns_validate::Why;
use dns_wire::{Rcode, Type};

use super::asking::Cause;
use super::flight::{Flight, Link, LinkPurpose};
use super::flights::MAX_DEPTH;
use super::timers::Timer;
use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId, Output, Reason, Resolver};
use crate::bailiwick::Realm;
use crate::exchange::Entropy;

impl<C, E: Entropy> Resolver<C, E> {
    /// Reads a response, and judges whether it is an answer.
    pub(super) fn read(
        &mut self,
        id: FlightId,
        exchange: ExchangeId,
        message: &[u8],
        now: Instant,
    ) {
        let (Some(flight), Some(pending)) =
            (self.flights.get_mut(id), self.exchanges.get(exchange))
        else {
            return;
        };
        let (upstream, had_edns) = (pending.upstream, pending.sent.had_edns());
        let protocol = pending.protocol;
        let realm = Realm {
            table: &self.table,
            route: &flight.route,
            zone: flight.zone(),
        };
        let hidden = pending.hidden;
        let asked = flight.asked(hidden);
        let reader = Reader {
            question: &asked,
            limits: self.settings.limits,
            trust_ad: flight.trusts_ad(),
            dnssec_ok: flight.asks().dnssec_ok(),
            zone: flight.zone(),
            bailiwick: &realm,
        };
        match reader.read(message, &mut self.scratch) {
            Ok(answer) if hidden.is_some() => {
                let goes_on = answer.message.rcode() == Rcode::NOERROR;
                self.keep_part(id, &asked, answer, now);
                self.ask_more(id, exchange, goes_on, now);
            }
            Ok(answer) => {
                if let Some(name) = flight.inner_name() {
                    self.delegations.note_inner(name, answer.lifetime, now);
                }
                if flight.without_edns == Some(upstream)
                    && let Some(state) = self.upstreams.get_mut(upstream)
                {
                    state.cannot_edns(now);
                }
                // An upstream may strip signatures. Keys without them are of no use.
                let is_stripped = flight.checks.is_for_keys && !answer.message.has(Type::RRSIG);
                match flight.validates() {
                    _ if is_stripped => {
                        self.drop_exchange(id, exchange);
                        self.bogus(id, Some(upstream), Why::NoSignature, now);
                    }
                    true => self.validate(id, Some(upstream), answer, now),
                    false => self.answered(id, answer, now),
                }
            }
            // RFC 6891 §7: a server that does not know OPT says FORMERR or NOTIMP.
            Err(Unusable::Rcode(Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS)) if had_edns => {
                flight.without_edns = Some(upstream);
                self.drop_exchange(id, exchange);
                self.send(id, upstream, protocol, now);
                self.arm(id);
            }
            Err(unusable) => {
                if let Unusable::Referral(referral) = &unusable
                    && self.refer(id, referral, now)
                {
                    return;
                }
                if hidden.is_some() {
                    self.ask_more(id, exchange, false, now);
                    return;
                }
                let has_failed = matches!(unusable, Unusable::Rcode(Rcode::SERVFAIL));
                self.refused(id, exchange, upstream, has_failed, now);
            }
        }
    }

    /// Turns away from an upstream whose response is no answer.
    fn refused(
        &mut self,
        id: FlightId,
        exchange: ExchangeId,
        upstream: UpstreamId,
        has_failed: bool,
        now: Instant,
    ) {
        self.counts.unusable += 1;
        self.with_flight(id, |flight| {
            flight.has_failed |= has_failed;
            flight.failed.push(upstream);
            flight.failed_by(Reason::Refused);
        });
        self.drop_exchange(id, exchange);
        self.advance(id, Cause::Failed, now);
        self.arm(id);
    }

    pub(super) fn answered(&mut self, id: FlightId, answer: Answer, now: Instant) {
        let Some(flight) = self.flights.get(id) else {
            return;
        };
        match answer.dangling.clone() {
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
                self.wait_for(id, LinkPurpose::Rest(answer), key);
            }
        }
    }

    pub(super) fn settle(&mut self, id: FlightId, mut answer: Answer, now: Instant) {
        let Some(mut flight) = self.end_flight(id) else {
            return;
        };
        let route = self.table.find(flight.key.name(), flight.key.qtype());
        if flight.is_outdated || !route.is_some_and(|route| route.is_like(&flight.route)) {
            // The zone or its route has changed since the question was asked: the waiting clients get the
            // answer, but the cache does not.
            answer.lifetime = 0;
        }
        for waiting in std::mem::take(&mut flight.awaited_by) {
            self.with_flight(waiting, |waiting| waiting.pays(&flight));
            self.link_answered(waiting, &answer, now);
        }
        self.outputs.push_back(Output::Answer {
            key: flight.key,
            answer,
            clients: flight.clients,
        });
    }

    pub(super) fn fail(&mut self, id: FlightId, reason: Reason, now: Instant) {
        let is_joined = self.flights.is_joined(id);
        let Some(mut flight) = self.end_flight(id) else {
            return;
        };
        // Upstreams of an old route have failed: that is not remembered of the new route's.
        let reason = match is_joined {
            true => reason,
            false => Reason::Absent,
        };
        // The zone above may name other servers by now.
        if let Some(delegation) = &flight.delegation
            && matches!(reason, Reason::Unanswered | Reason::Refused)
        {
            self.delegations.forget(&flight.scope(), &delegation.zone);
        }
        for waiting in std::mem::take(&mut flight.awaited_by) {
            self.with_flight(waiting, |waiting| waiting.pays(&flight));
            self.link_failed(waiting, reason, now);
        }
        self.outputs.push_back(Output::Fail {
            key: flight.key,
            reason,
            clients: flight.clients,
        });
    }

    pub(super) fn fail_at_once(&mut self, key: &Key, reason: Reason, client: Option<C>) {
        let key = Box::new(key.clone());
        let clients = client.into_iter().collect();
        self.outputs.push_back(Output::Fail {
            key,
            reason,
            clients,
        });
    }

    /// Removes a flight from all indexes.
    fn end_flight(&mut self, id: FlightId) -> Option<Flight<C>> {
        let mut flight = self.flights.remove(id)?;
        self.timers
            .set(Timer::Flight(id), flight.armed.take(), None);
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        Some(flight)
    }

    //--- Other questions that have to be answered first

    /// Makes a flight wait for the answer to another question: the rest of a CNAME chain that leaves the upstream's
    /// names or that it does not answer to its end (RFC 1034 §3.6.2), or the address of a delegation's server.
    pub(super) fn wait_for(&mut self, id: FlightId, purpose: LinkPurpose, key: Box<Key>) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        flight.link = Some(Link {
            purpose,
            awaits: None,
        });
        flight.next_try = flight.deadline;
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.outputs.push_back(Output::LookUp { flight: id, key });
        self.arm(id);
    }

    /// Begins another flight for a linked answer that the cache does not have.
    pub(super) fn follow_link(&mut self, id: FlightId, key: &Key, now: Instant) {
        if self
            .flights
            .get(id)
            .is_none_or(|flight| flight.link.is_none())
        {
            return;
        }
        if let Some(next) = self.flights.to_join(key) {
            match self.flights.may_await(id, next) {
                true => self.flights.wait_for(id, next),
                false => self.link_failed(id, Reason::Chain, now),
            }
            return;
        }
        let link = self.flights.get(id).and_then(|it| it.link.as_ref());
        // The flight itself asks for it.
        if link.is_some_and(|link| matches!(link.purpose, LinkPurpose::Unchecked)) {
            self.link_failed(id, Reason::Unanswered, now);
            return;
        }
        if self.flights.depth_behind(id) > MAX_DEPTH {
            self.link_failed(id, Reason::Chain, now);
            return;
        }
        // It counts for the client whose question leads here.
        let flight = self.flights.get(id);
        let owner = flight.and_then(|flight| flight.owner);
        let link = flight.and_then(|flight| flight.link.as_ref());
        let is_for_keys = link.is_some_and(|it| matches!(it.purpose, LinkPurpose::Keys));
        let is_server = link.is_some_and(|it| matches!(it.purpose, LinkPurpose::Server));
        let recurses = flight.is_some_and(|flight| flight.is_recursing);
        let route = self.table.find(key.name(), key.qtype());
        let route = match recurses && (is_for_keys || is_server && route.is_none()) {
            true => Some(self.table.find_inner(key.name(), key.qtype())),
            false => route,
        };
        let Some(route) = route.map(Arc::clone) else {
            self.link_failed(id, Reason::NoRoute, now);
            return;
        };
        if let Some(answer) = self.denied(key, &route, now) {
            self.link_answered(id, &answer, now);
            return;
        }
        match self.begin(key, route, owner, false, now) {
            None => self.link_failed(id, Reason::Absent, now),
            Some(next) => {
                self.flights.wait_for(id, next);
                if is_for_keys {
                    let spent = self.flights.get(id).map(|flight| flight.checks.spent);
                    self.with_flight(next, |flight| flight.is_for_keys_after(spent));
                }
                self.start(next, now);
            }
        }
    }

    /// Takes the linked answer, from the cache or from another flight.
    pub(super) fn link_answered(&mut self, id: FlightId, answer: &Answer, now: Instant) {
        let link = self.flights.get_mut(id).and_then(|f| f.link.take());
        match link.map(|link| link.purpose) {
            None => {}
            Some(LinkPurpose::Rest(first)) => self.end_chain(id, &first, answer, now),
            Some(LinkPurpose::Server) => self.located(id, &answer.message.addresses(), now),
            Some(LinkPurpose::Keys) => self.take_keys(id, Ok(&answer.message), now),
            Some(LinkPurpose::Unchecked) => self.validate(id, None, answer.clone(), now),
        }
    }

    /// Takes the failure of the linked question.
    pub(super) fn link_failed(&mut self, id: FlightId, reason: Reason, now: Instant) {
        let link = self.flights.get_mut(id).and_then(|f| f.link.take());
        match link.map(|link| link.purpose) {
            None => {}
            Some(LinkPurpose::Server) if self.seek(id) => {}
            Some(LinkPurpose::Unchecked) => self.ask_at_once(id, now),
            Some(LinkPurpose::Keys) => {
                let why = match reason {
                    Reason::Bogus(why) => why,
                    _ => Why::Unanswered,
                };
                self.take_keys(id, Err(why), now);
            }
            Some(_) => self.fail(id, reason, now),
        }
    }

    fn end_chain(&mut self, id: FlightId, first: &Answer, rest: &Answer, now: Instant) {
        let joined = message::join(&first.message, &rest.message, &mut self.scratch);
        match joined {
            Some(message) => {
                let answer = Answer {
                    message,
                    pool: rest.pool,
                    lifetime: first.lifetime.min(rest.lifetime),
                    dangling: None,
                };
                self.settle(id, answer, now);
            }
            None => self.fail(id, Reason::Chain, now),
        }
    }
}
