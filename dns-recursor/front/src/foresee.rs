//! How a query would be judged, for people who ask: nothing is answered, counted or refreshed.

use dns_cache::cache::State;
use dns_cache::key::Key;
use dns_names::{Origin, Reply};
use dns_wire::{Name, Query};

use crate::front::{Front, question_for};
use crate::policy::{self, Outsiders};

/// The source of the answer that a query would get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// The client may not ask, and gets REFUSED.
    Refused,
    /// The client may not ask, and gets no response.
    Ignored,
    /// The type or the class is none that an upstream should see.
    Rejected,
    /// A fresh entry of the cache.
    Fresh,
    /// A failure that the cache remembers.
    Failed,
    /// A stale entry of the cache: a question has failed a moment ago.
    Held,
    /// A stale entry of the cache: no upstream of the route answers.
    Unreachable,
    /// This server itself.
    Local,
    /// A name of the configuration or of a hosts file.
    Names,
    /// A response policy.
    Policy,
    /// The upstreams of the route.
    Resolve {
        /// Whether there is a stale entry, if they do not answer.
        has_stale: bool,
    },
    /// No route has the name.
    NoRoute,
}

impl Front<'_> {
    /// Foresees how a query over UDP is judged that asks for recursion; leaves its question in `key`, or that for the target of an
    /// alias of the configuration, which it returns.
    pub fn foresee(
        &self,
        query: &Query<'_>,
        may_ask: bool,
        key: &mut Key,
    ) -> (Foreseen, Option<Name>) {
        self.read_key(query, key);
        let is_judged = may_ask && policy::refusal(query).is_none();
        let reply = match is_judged {
            true => self.names.reply(key.question(), &self.view.table),
            false => None,
        };
        match reply {
            Some((Reply::Alias { target, .. }, _)) => {
                self.read_question(query, &question_for(&target, query.question), key);
                (self.foresee_question(query, may_ask, key), Some(target))
            }
            Some((_, Origin::Names)) => (Foreseen::Names, None),
            Some((_, Origin::Policy)) => (Foreseen::Policy, None),
            None => (self.foresee_question(query, may_ask, key), None),
        }
    }

    fn foresee_question(&self, query: &Query<'_>, may_ask: bool, key: &Key) -> Foreseen {
        if !may_ask {
            return match self.view.outsiders {
                Outsiders::Refuse => Foreseen::Refused,
                Outsiders::Ignore => Foreseen::Ignored,
            };
        }
        if policy::refusal(query).is_some() {
            return Foreseen::Rejected;
        }
        let state = self.cache.peek(key, self.now, |entry| entry.state);
        match state {
            Some(State::Fresh | State::Ending) => return Foreseen::Fresh,
            Some(State::Failed) => return Foreseen::Failed,
            Some(State::Held) => return Foreseen::Held,
            Some(State::Expired) if self.is_unreachable(key) => return Foreseen::Unreachable,
            Some(State::Expired) => return Foreseen::Resolve { has_stale: true },
            None => {}
        }
        let table = &self.view.table;
        let is_local = self.view.local.covers(key.name(), table)
            && self.view.local.answer(key.question()).is_some();
        match table.find(key.name(), key.qtype()) {
            _ if is_local => Foreseen::Local,
            Some(_) => Foreseen::Resolve { has_stale: false },
            None => Foreseen::NoRoute,
        }
    }
}
