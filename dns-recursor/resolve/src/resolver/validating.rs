//! Validation of a flight's answer: asks for the keys that it needs, and acts on the verdict.
//!
//! An answer that is bogus is not the end: another upstream may have a good one. The keys come by questions of their own
//! with DO and CD, so that they are cached like any other answer, and what they prove is kept in `zones`.

use dns_cache::instant::Instant;
use dns_cache::key::{Key, Variant};
use dns_cache::message::{Answer, Message, Pool};
use dns_iterate::delegations::Delegations;
use dns_validate::denials::SYNTHESIZED;
use dns_validate::validation::Context;
use dns_validate::{Need, Response, Security, Step, Validation, Verdict, Why};
use dns_wire::{Class, Name, Type};

use super::asking::Cause;
use super::checks::Validating;
use super::flight::{LinkPurpose, validates};
use super::upstreams::UpstreamId;
use super::{FlightId, Reason, Resolver};
use crate::exchange::Entropy;
use crate::forward::{Route, Table};

impl<C, E: Entropy> Resolver<C, E> {
    /// Begins to resolve. An answer that is in the cache without validation needs no query: one with the records that vouch
    /// for a zone, or one for a part of a longer name.
    pub(super) fn start(&mut self, id: FlightId, now: Instant) {
        let Some(flight) = self.flights.get(id).filter(|flight| flight.validates()) else {
            self.ask_at_once(id, now);
            return;
        };
        let unchecked = Key::new(self.seed, flight.key.question(), Variant::new(true, true));
        match self.referred(&flight.key, now) {
            Some(answer) => self.validate(id, None, answer, now),
            None => self.wait_for(id, LinkPurpose::Unchecked, Box::new(unchecked)),
        }
    }

    /// Sends the first query.
    pub(super) fn ask_at_once(&mut self, id: FlightId, now: Instant) {
        self.advance(id, Cause::Begin, now);
        self.arm(id);
    }

    /// The answer to a question for DS records, when a referral had them.
    fn referred(&self, key: &Key, now: Instant) -> Option<Answer> {
        let (name, _) = Name::from_wire(key.name()).ok()?;
        let rtype = key.qtype();
        let message = referred_ds(&self.delegations, &self.table, &Need { name, rtype }, now)?;
        let lifetime = message.least_ttl();
        let is_kept = message.has(Type::DS) && lifetime <= self.settings.limits.positive_max;
        is_kept.then_some(Answer {
            message,
            pool: Pool::Positive,
            lifetime,
            dangling: None,
        })
    }

    /// Validates an answer, and then acts on it.
    pub(super) fn validate(
        &mut self,
        id: FlightId,
        upstream: Option<UpstreamId>,
        answer: Answer,
        now: Instant,
    ) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let name = Name::from_wire(flight.key.name());
        let (Some(response), Ok((name, _))) = (Response::read(&answer.message), name) else {
            self.bogus(id, upstream, Why::Signature, now);
            return;
        };
        let dangles = answer.dangling.is_some();
        let validation = Validation::new(
            &name,
            flight.key.qtype(),
            response,
            dangles,
            flight.checks.budget,
        );
        flight.checks.validating = Some(Box::new(Validating {
            answer,
            validation,
            upstream,
        }));
        self.step(id, now);
    }

    fn step(&mut self, id: FlightId, now: Instant) {
        let seconds = self.seconds(now);
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let Some(mut validating) = flight.checks.validating.take() else {
            return;
        };
        let mut context = Context {
            anchors: self.table.anchors(),
            zones: &mut self.zones,
            now: seconds,
        };
        let step = loop {
            let step = validating.validation.step(&mut context);
            let Step::Need(need) = &step else {
                break step;
            };
            // The referral that has led to a zone has its DS records, or says that there are none.
            let referred = referred_ds(&self.delegations, &self.table, need, now);
            let referred = referred.as_ref().and_then(Response::read);
            if !referred.is_some_and(|ds| validating.validation.offer(&ds, &mut context)) {
                break step;
            }
        };
        flight.checks.budget = validating.validation.budget();
        match step {
            Step::Need(need) => {
                flight.checks.validating = Some(validating);
                let key = self.key_of(&need);
                self.wait_for(id, LinkPurpose::Keys, Box::new(key));
            }
            Step::Done(verdict) => self.judged(id, *validating, verdict, now),
        }
    }

    fn key_of(&self, need: &Need) -> Key {
        let question = [
            need.name.as_wire(),
            &need.rtype.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ]
        .concat();
        Key::new(self.seed, &question, Variant::new(true, true))
    }

    /// Takes the keys that the validation has asked for.
    pub(super) fn take_keys(&mut self, id: FlightId, message: Result<&Message, Why>, now: Instant) {
        let response = message.and_then(|it| Response::read(it).ok_or(Why::Signature));
        let seconds = self.seconds(now);
        let flight = self.flights.get_mut(id);
        let Some(validating) = flight.and_then(|flight| flight.checks.validating.as_mut()) else {
            return;
        };
        let mut context = Context {
            anchors: self.table.anchors(),
            zones: &mut self.zones,
            now: seconds,
        };
        let response = response.as_ref().map_err(|why| *why);
        validating.validation.supply(response, &mut context);
        self.step(id, now);
    }

    fn judged(&mut self, id: FlightId, validating: Validating, verdict: Verdict, now: Instant) {
        let Validating {
            mut answer,
            upstream,
            validation,
        } = validating;
        let counts = &mut self.counts.validated;
        let counter = match verdict.security {
            Security::Secure => &mut counts.secure,
            Security::Insecure => &mut counts.insecure,
            Security::Indeterminate => &mut counts.indeterminate,
            Security::Bogus => &mut counts.bogus,
        };
        *counter += 1;
        if matches!(verdict.security, Security::Bogus | Security::Indeterminate) {
            self.bogus(id, upstream, verdict.why.unwrap_or(Why::Unanswered), now);
            return;
        }
        let Some(flight) = self.flights.get(id) else {
            return;
        };
        if verdict.security == Security::Secure && self.settings.aggressive_nsec {
            let now = self.seconds(now);
            validation.teach(&mut self.denials, verdict.lifetime, now);
        }
        if !flight.key.variant().dnssec_ok() {
            let Some(stripped) = answer.message.without_dnssec(&mut self.scratch) else {
                self.fail(id, Reason::Refused, now);
                return;
            };
            answer.message = stripped;
        }
        answer.message = answer
            .message
            .with_ad(verdict.security == Security::Secure)
            .with_info_code(verdict.why.and_then(Why::info_code));
        answer.lifetime = answer.lifetime.min(verdict.lifetime);
        self.answered(id, answer, now);
    }

    /// The negative answer to a question, when what is known of its zone proves it (RFC 8198).
    pub(super) fn denied(&mut self, key: &Key, route: &Route, now: Instant) -> Option<Answer> {
        let is_validated = validates(route, key);
        if self.denials.is_empty() || !is_validated {
            return None;
        }
        let (name, _) = Name::from_wire(key.name()).ok()?;
        let (anchors, seconds) = (self.table.anchors(), self.seconds(now));
        let denied = self.denials.deny(&name, key.qtype(), anchors, seconds)?;
        // No zone denies names of another route.
        let of_zone = self.table.find(denied.zone.as_wire(), Type::SOA)?;
        if of_zone.zone != route.zone {
            return None;
        }
        let message = match key.variant().dnssec_ok() {
            true => denied.message,
            false => denied.message.without_dnssec(&mut self.scratch)?,
        };
        self.counts.denied += 1;
        Some(Answer {
            message: message.with_info_code(Some(SYNTHESIZED)),
            pool: Pool::Negative,
            lifetime: denied.lifetime.min(self.settings.limits.negative_max),
            dangling: None,
        })
    }

    /// Asks the next upstream; when none is left, the client gets the error.
    pub(super) fn bogus(
        &mut self,
        id: FlightId,
        upstream: Option<UpstreamId>,
        why: Why,
        now: Instant,
    ) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        flight.failed.extend(upstream);
        flight.reason = Reason::Bogus(why);
        flight.checks.checking_disabled = true;
        self.advance(id, Cause::Failed, now);
        self.arm(id);
    }

    /// The time of day, in seconds since 1970.
    fn seconds(&self, now: Instant) -> u64 {
        let (at, seconds) = self.wall;
        seconds + now.since(at).as_secs()
    }
}

/// The answer to a question for DS records that the referral to their zone had.
fn referred_ds(
    delegations: &Delegations,
    table: &Table,
    need: &Need,
    now: Instant,
) -> Option<Message> {
    if need.rtype != Type::DS {
        return None;
    }
    let below_route = table.find(need.name.as_wire(), Type::DS);
    let below_route = below_route.map(|route| Some(route.zone.to_lowercase()));
    let scopes = [Some(None), below_route];
    let mut scopes = scopes.iter().flatten();
    scopes.find_map(|scope| delegations.ds(scope, &need.name, now))
}
