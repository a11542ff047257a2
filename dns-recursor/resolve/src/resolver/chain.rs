//! Questions that wait for the answer to another one: CNAME chains that leave an authoritative upstream's
//! zones (RFC 1034 §3.6.2), and servers of a delegation whose address is not known. That answer is
//! looked up in the cache, or becomes a flight of its own that the first one awaits. What becomes of that
//! one is told to those that await it, one after the other: no more than [`MAX_DEPTH`] are in a row,
//! whoever asked first.

use std::sync::Arc;

use dns_cache::key::Key;
use dns_cache::message::{self, Answer};
use dns_cache::moment::Moment;

use super::flight::Wanted;
use super::{Cause, FlightId, MAX_DEPTH, Reason, Resolver};
use crate::exchange::Entropy;

/// Whether a flight has just been made, or was under way.
struct IsNew(bool);

impl<C, E: Entropy> Resolver<C, E> {
    /// The answer that a flight waits for is in the cache or has been learnt.
    pub(super) fn link_answered(&mut self, id: FlightId, answer: &Answer, now: Moment) {
        let link = self.flights.get_mut(&id).and_then(|f| f.link.take());
        match link.map(|link| link.wanted) {
            None => {}
            Some(Wanted::Rest(first)) => self.end_chain(id, &first, answer, now),
            Some(Wanted::Server) => self.ask_servers(id, &answer.message.addresses(), now),
        }
    }

    /// There is no answer to what a flight waits for.
    pub(super) fn link_failed(&mut self, id: FlightId, reason: Reason) {
        let link = self.flights.get_mut(&id).and_then(|f| f.link.take());
        match link.map(|link| link.wanted) {
            None => {}
            Some(Wanted::Server) if self.seek(id) => {}
            Some(_) => self.fail(id, reason),
        }
    }

    fn end_chain(&mut self, id: FlightId, first: &Answer, rest: &Answer, now: Moment) {
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
            None => self.fail(id, Reason::Chain),
        }
    }

    /// What a flight waits for has to be asked.
    pub(super) fn follow_link(&mut self, id: FlightId, key: &Key, now: Moment) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        let depth = flight.depth + 1;
        let is_server = flight
            .link
            .as_ref()
            .is_some_and(|link| matches!(link.wanted, Wanted::Server));
        let n_sought = flight.n_sought + u8::from(is_server);
        let next = match self.by_question.get(key.as_bytes()).copied() {
            Some(next) => match self.n_behind(next, id) {
                Some(n_behind) if depth + n_behind <= MAX_DEPTH => Ok((next, IsNew(false))),
                _ => Err(Reason::Chain),
            },
            None if depth > MAX_DEPTH => Err(Reason::Chain),
            None => match self.table.find(key.name(), key.qtype()).map(Arc::clone) {
                None => Err(Reason::NoRoute),
                Some(route) => match self.begin(key, route, now) {
                    Some(next) => Ok((next, IsNew(true))),
                    None => Err(Reason::Absent),
                },
            },
        };
        match next {
            Err(reason) => self.link_failed(id, reason),
            Ok((next, IsNew(is_new))) => {
                self.with_flight(next, |flight| flight.awaited_by.push(id));
                self.deepen(next, depth, n_sought);
                self.with_flight(id, |flight| {
                    if let Some(link) = &mut flight.link {
                        link.awaits = Some(next);
                    }
                });
                if is_new {
                    self.advance(next, Cause::Begin, now);
                    self.arm(next);
                }
            }
        }
    }

    /// How many flights a flight waits for, one after the other; nothing when `other` is it or among them.
    fn n_behind(&self, mut from: FlightId, other: FlightId) -> Option<u8> {
        let mut n_behind = 0;
        // No circle and no chain of more than MAX_DEPTH is ever let in, so the walk ends soon.
        loop {
            if from == other {
                return None;
            }
            let link = self.flights.get(&from).and_then(|f| f.link.as_ref());
            match link.and_then(|link| link.awaits) {
                Some(next) => from = next,
                None => return Some(n_behind),
            }
            n_behind += 1;
        }
    }

    /// So many flights lead to a flight, and so to those that it waits for.
    fn deepen(&mut self, mut id: FlightId, mut depth: u8, mut n_sought: u8) {
        while let Some(flight) = self.flights.get_mut(&id) {
            flight.depth = flight.depth.max(depth);
            flight.n_sought = flight.n_sought.max(n_sought);
            let Some(link) = &flight.link else { return };
            let Some(next) = link.awaits else { return };
            depth = flight.depth + 1;
            n_sought = flight.n_sought + u8::from(matches!(link.wanted, Wanted::Server));
            id = next;
        }
    }
}
