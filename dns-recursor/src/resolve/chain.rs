//! CNAME chains that leave an authoritative upstream's zones (RFC 1034 §3.6.2): the rest is looked
//! up in the cache, or becomes a flight of its own that the first one awaits.

use std::sync::Arc;

use super::{Cause, FlightId, MAX_DEPTH, Reason, Resolver};
use crate::exchange::Entropy;
use crate::key::Key;
use crate::message::{self, Answer};
use crate::moment::Moment;

/// Whether a flight has just been made, or was under way.
struct IsNew(bool);

impl<C, E: Entropy> Resolver<C, E> {
    /// The chain's end is in the cache or has been learnt.
    pub(super) fn end_chain(&mut self, id: FlightId, rest: &Answer) {
        let Some(link) = self.flights.get_mut(&id).and_then(|f| f.chain.take()) else {
            return;
        };
        let joined = message::join(&link.first.message, &rest.message, &mut self.scratch);
        match joined {
            Some(message) => {
                let answer = Answer {
                    message,
                    pool: rest.pool,
                    lifetime: link.first.lifetime.min(rest.lifetime),
                    dangling: None,
                };
                self.settle(id, answer);
            }
            None => self.fail(id, Reason::Chain),
        }
    }

    /// The chain's end has to be asked for.
    pub(super) fn follow_chain(&mut self, id: FlightId, key: &Key, now: Moment) {
        let depth = self.flights.get(&id).map_or(0, |flight| flight.depth) + 1;
        let next = match self.by_question.get(key.as_bytes()).copied() {
            Some(next) if self.awaits(next, id) => Err(Reason::Chain),
            Some(next) => Ok((next, IsNew(false))),
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
            Err(reason) => self.fail(id, reason),
            Ok((next, IsNew(is_new))) => {
                self.with_flight(next, |flight| {
                    flight.awaited_by.push(id);
                    flight.depth = flight.depth.max(depth);
                });
                self.with_flight(id, |flight| {
                    if let Some(link) = &mut flight.chain {
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

    /// Whether a flight waits for another, at however many removes.
    fn awaits(&self, mut from: FlightId, other: FlightId) -> bool {
        // No circle is ever let in, so the walk ends.
        loop {
            if from == other {
                return true;
            }
            let link = self.flights.get(&from).and_then(|f| f.chain.as_ref());
            match link.and_then(|link| link.awaits) {
                Some(next) => from = next,
                None => return false,
            }
        }
    }
}
