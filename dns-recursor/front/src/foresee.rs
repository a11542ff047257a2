//! How a query would be judged, for people who ask: nothing is answered, counted or refreshed.

use dns_cache::cache::State;
use dns_cache::key::Key;
use dns_wire::Query;

use crate::front::Front;
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
    /// The upstreams of the route.
    Resolve {
        /// Whether there is a stale entry, if they do not answer.
        has_stale: bool,
    },
    /// No route has the name.
    NoRoute,
}

impl Front<'_> {
    /// Foresees how a query is judged that asks for recursion; leaves its question in `key`.
    pub fn foresee(&self, query: &Query<'_>, may_ask: bool, key: &mut Key) -> Foreseen {
        self.read_key(query, key);
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
