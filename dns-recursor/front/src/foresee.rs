//! How a query would be judged, for people who ask: nothing is answered, counted or refreshed.

use dns_cache::cache::State;
use dns_cache::key::Key;
use dns_names::{Origin, Reply};
use dns_wire::{Class, Name, Query, Type};

use crate::derived::Derived;
use crate::front::{Front, NoName, question_for};
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

/// The foreseen way of a query to its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospect {
    pub foreseen: Foreseen,
    /// The target of an alias of the configuration, or of the reverse name of a NAT64's address.
    pub alias: Option<Name>,
    /// Whether AAAA records are made of A records.
    pub is_synthesized: bool,
    /// The name and type that rules have made of the question.
    pub rewritten: Option<(Name, Type)>,
}

impl From<Foreseen> for Prospect {
    fn from(foreseen: Foreseen) -> Self {
        Self {
            foreseen,
            alias: None,
            is_synthesized: false,
            rewritten: None,
        }
    }
}

impl Front<'_> {
    /// Foresees how a query over UDP is judged that asks for recursion; leaves its question in `key`, or that for the target of an
    /// alias, or that for A records.
    pub fn foresee(&self, query: &Query<'_>, may_ask: bool, key: &mut Key) -> Prospect {
        self.read_key(query, key);
        let is_judged = may_ask && policy::refusal(query).is_none();
        let rewritten = match is_judged && query.qclass == Class::IN {
            true => self.rewrite(query, key),
            false => Ok(None),
        };
        let rewritten = match rewritten {
            Ok(None) => None,
            Ok(Some(_)) => {
                let name = Name::from_wire(key.name()).ok();
                name.map(|(name, _)| (name, key.qtype()))
            }
            Err(NoName) => return Foreseen::Rejected.into(),
        };
        let prospect = self.foresee_changed(query, may_ask, is_judged, key);
        Prospect {
            rewritten,
            ..prospect
        }
    }

    /// Foresees how the question in `key` is answered.
    fn foresee_changed(
        &self,
        query: &Query<'_>,
        may_ask: bool,
        is_judged: bool,
        key: &mut Key,
    ) -> Prospect {
        let reply = match is_judged {
            true => {
                let client = Some(self.client);
                self.names.reply(key.question(), client, &self.view.table)
            }
            false => None,
        };
        let target = match reply {
            Some((Reply::Alias { target, .. }, _)) => Some(target),
            Some((_, Origin::Names)) => return Foreseen::Names.into(),
            Some((_, Origin::Policy)) => return Foreseen::Policy.into(),
            None => {
                let dns64 = self.dns64().filter(|_| is_judged);
                let is_ours =
                    query.qclass == Class::IN && !self.view.table.is_taken_over(key.name());
                let dns64 = dns64.filter(|_| is_ours);
                if dns64.is_some_and(|it| it.well_known(key.question()).is_some()) {
                    return Foreseen::Local.into();
                }
                let alias = dns64.filter(|_| key.qtype() == Type::PTR);
                let alias = alias.and_then(|dns64| dns64.alias(key.question()));
                alias.map(|(_, target)| target)
            }
        };
        if let Some(target) = &target {
            self.read_question(query, &question_for(target, key.question()), key);
        }
        let is_synthesized = is_judged && self.foresee_synthesis(query, key);
        Prospect {
            foreseen: self.foresee_question(query, may_ask, key),
            alias: target,
            is_synthesized,
            rewritten: None,
        }
    }

    /// Whether the cache has an answer to the question in `key` in whose place A records are looked for; `key` has the
    /// question for them then.
    fn foresee_synthesis(&self, query: &Query<'_>, key: &mut Key) -> bool {
        let Some(mut derived) = self.synthesis(query, key, Derived::default()) else {
            return false;
        };
        let denial = self.cache.peek(key, self.now, |entry| {
            let is_sendable = match entry.state {
                State::Fresh | State::Ending | State::Held => true,
                State::Expired => self.is_unreachable(key),
                State::Failed => false,
            };
            let is_denial = is_sendable && derived.wants_addresses(entry.message);
            is_denial.then(|| entry.message.clone())
        });
        let Some(denial) = denial.flatten() else {
            return false;
        };
        *key = derived.ask_for_addresses(key, Some(&denial), self.cache.seed());
        true
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
        let state = self.cache.peek(key, self.now, |entry| {
            let client = Some(self.client);
            let is_usable = self.names.has_answer_rules() && !entry.failure;
            let names = self.names;
            let forged = is_usable
                && names
                    .reply_to_answer(key.question(), client, entry.message)
                    .is_some();
            (entry.state, forged)
        });
        if let Some((_, true)) = state {
            return Foreseen::Policy;
        }
        match state.map(|(state, _)| state) {
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
