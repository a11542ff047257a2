//! Rules for names, of response policy zones and lists of names.
//!
//! Zones count in their order; the first with a rule for a name decides. Within a zone, a rule for the name itself comes
//! before one for the names below another, and of these the deepest decides.

use std::collections::HashMap;

use config::dns_recursor::PolicyAction;
use dns_resolve::suffixes::{Suffixes, parent};
use dns_wire::{Name, Type};

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
    n_rules: usize,
    /// Rules of the file that this server does not honour, such as those about addresses.
    pub n_left_out: usize,
}

impl PolicyZone {
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

    /// The rule of a name, for adding records to it.
    pub(crate) fn rule_mut(&mut self, name: &Name, is_below: bool) -> Option<&mut Rule> {
        let name = name.as_wire().to_ascii_lowercase();
        match is_below {
            true => self.below.get_mut(&name),
            false => self.exact.get_mut(name.as_slice()),
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

    /// The rule for a name in wire form and lower case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Rule> {
        self.exact
            .get(name)
            .or_else(|| self.below.longest(parent(name)?))
    }
}
