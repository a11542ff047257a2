//! Rules for names, of response policy zones and lists of names.
//!
//! Zones count in their order; the first with a rule decides. Within a zone, a rule for the client comes before one for the name, and that
//! before one for an address of the answer; a rule for the name itself comes before one for the names below another. The deepest of these
//! decides, and the network with the longest prefix.

use std::collections::HashMap;
use std::net::IpAddr;

use config::dns_recursor::PolicyAction;
use dns_resolve::suffixes::{Suffixes, parent};
use dns_wire::{Name, Type};
use ipnet::IpNet;

use crate::networks::Networks;

/// The consequence of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The name does not exist.
    NxDomain,
    /// The name has no records of the type.
    NoData,
    /// The name is answered as if there were no rules.
    PassThru,
    /// No response at all.
    Drop,
    /// Over UDP the response is truncated, so that the client comes again over TCP.
    TcpOnly,
    /// The unspecified addresses; no data for other types.
    NullAddress,
    /// These records; no data for other types.
    Records(Vec<Data>),
    /// An alias of this name.
    Alias { ttl: u32, target: Name },
    /// An alias of the name itself below this one.
    AliasBelow { ttl: u32, suffix: Name },
}

/// A record without its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub rtype: Type,
    /// In seconds.
    pub ttl: u32,
    /// In wire form.
    pub rdata: Box<[u8]>,
}

impl Rule {
    /// The rule of an action that the configuration prescribes; `None` is the file's own.
    #[must_use]
    pub const fn of(action: PolicyAction) -> Option<Self> {
        match action {
            PolicyAction::Given => None,
            PolicyAction::Nxdomain => Some(Self::NxDomain),
            PolicyAction::Nodata => Some(Self::NoData),
            PolicyAction::Passthru => Some(Self::PassThru),
            PolicyAction::Drop => Some(Self::Drop),
            PolicyAction::TcpOnly => Some(Self::TcpOnly),
            PolicyAction::NullAddress => Some(Self::NullAddress),
        }
    }
}

/// The rules of one file.
#[derive(Clone, Debug, Default)]
pub struct PolicyZone {
    /// By name in wire form and lower case.
    exact: HashMap<Box<[u8]>, Rule>,
    /// For the names below these.
    below: Suffixes<Rule>,
    /// For clients.
    clients: Networks<Rule>,
    /// For addresses of answers.
    answers: Networks<Rule>,
    n_rules: usize,
    /// Rules of the file that this server does not honour, such as those about name servers.
    pub n_left_out: usize,
}

/// The condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The query is for the name.
    Name(Name),
    /// The query is for a name below it.
    Below(Name),
    /// The client is in the network.
    Client(IpNet),
    /// An address of the answer is in the network.
    Answer(IpNet),
}

impl PolicyZone {
    /// Adds a rule.
    pub(crate) fn add_trigger(&mut self, trigger: Trigger, rule: Rule) {
        match trigger {
            Trigger::Name(name) => self.add(&name, rule),
            Trigger::Below(name) => self.add_below(&name, rule),
            Trigger::Client(network) => {
                self.n_rules += usize::from(self.clients.add(network, rule));
            }
            Trigger::Answer(network) => {
                self.n_rules += usize::from(self.answers.add(network, rule));
            }
        }
    }

    /// Adds a rule for a name.
    pub fn add(&mut self, name: &Name, rule: Rule) {
        let name = name.as_wire().to_ascii_lowercase().into();
        self.n_rules += usize::from(self.exact.insert(name, rule).is_none());
    }

    /// Adds a rule for all names below one.
    pub fn add_below(&mut self, name: &Name, rule: Rule) {
        self.n_rules += 1;
        self.below.insert(name, rule);
    }

    /// The rule of a trigger, for adding records to it.
    pub(crate) fn rule_mut(&mut self, trigger: &Trigger) -> Option<&mut Rule> {
        let wire = |name: &Name| name.as_wire().to_ascii_lowercase();
        match trigger {
            Trigger::Name(name) => self.exact.get_mut(wire(name).as_slice()),
            Trigger::Below(name) => self.below.get_mut(&wire(name)),
            Trigger::Client(network) => self.clients.rule_mut(*network),
            Trigger::Answer(network) => self.answers.rule_mut(*network),
        }
    }

    /// The number of rules.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n_rules
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_rules == 0
    }

    /// The rule for a client and the name that it asks for, in wire form and lower case.
    #[must_use]
    pub fn find_query(&self, client: Option<IpAddr>, name: &[u8]) -> Option<&Rule> {
        let client = client.map(|client| client.to_canonical());
        let by_client = client.and_then(|client| self.clients.find(client));
        by_client.map(|(_, rule)| rule).or_else(|| self.find(name))
    }

    /// Whether it has rules for addresses of answers.
    #[must_use]
    pub fn has_answer_rules(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The rule for an answer with these addresses.
    #[must_use]
    pub fn find_answer(&self, addresses: &[IpAddr]) -> Option<&Rule> {
        let found = addresses.iter().filter_map(|address| {
            let (length, rule) = self.answers.find(*address)?;
            Some((std::cmp::Reverse(length), *address, rule))
        });
        let first = found.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        first.map(|(_, _, rule)| rule)
    }

    /// The rule for a name in wire form and lower case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Rule> {
        self.exact
            .get(name)
            .or_else(|| self.below.longest(parent(name)?))
    }
}
