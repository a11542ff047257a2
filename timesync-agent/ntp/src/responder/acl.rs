//! The access list: chrony's `allow` and `deny`.
//!
//! Networks form a tree whose levels are four bits apart, one for IPv4 and one for IPv6. The deepest level that has a verdict
//! for an address decides. Within a level the last line wins, so that of two networks whose prefix lengths are of the same
//! four, as /25 and /28 are, the later one counts where they overlap; that is how chronyd stores them, and a configuration
//! means here what it means there. A line with `all` removes the lines below its network. Without any line, no client is
//! answered.

use std::net::IpAddr;

use ipnet::IpNet;

use time_model::settings::{AccessRule, ClientMatch};

/// Bits between two levels of the tree.
const LEVEL_BITS: u8 = 4;
/// Branches of a node.
const BRANCHES: usize = 1 << LEVEL_BITS;

/// An access list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    v4: Node,
    v6: Node,
}

/// A network of a whole number of levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// The verdict of its lines; none: as the level above.
    verdict: Option<bool>,
    /// The networks within.
    branches: Option<Box<[Self; BRANCHES]>>,
}

impl Acl {
    /// No client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The list that lines of a configuration make, in their order. `resolve` gives the addresses of a name.
    pub fn from_rules(rules: &[AccessRule], mut resolve: impl FnMut(&str) -> Vec<IpAddr>) -> Self {
        let mut acl = Self::new();
        for rule in rules {
            acl.add(rule, &mut resolve);
        }
        acl
    }

    /// Adds a line.
    pub fn add(&mut self, rule: &AccessRule, resolve: impl FnOnce(&str) -> Vec<IpAddr>) {
        match &rule.clients {
            ClientMatch::Everybody => self.set(rule.allow, rule.all, None),
            ClientMatch::Network(network) => self.set(rule.allow, rule.all, Some(*network)),
            ClientMatch::Name(name) => {
                for address in resolve(name) {
                    self.set(rule.allow, rule.all, Some(address.into()));
                }
            }
        }
    }

    /// Adds a line: for a network, or for everybody.
    pub fn set(&mut self, allow: bool, all: bool, network: Option<IpNet>) {
        let Some(network) = network else {
            self.v4.set(&[], 0, allow, all);
            self.v6.set(&[], 0, allow, all);
            return;
        };
        let bits = network.prefix_len();
        match network.addr() {
            IpAddr::V4(address) => self.v4.set(&address.octets(), bits, allow, all),
            IpAddr::V6(address) => self.v6.set(&address.octets(), bits, allow, all),
        }
    }

    /// Whether an address is answered. An IPv4 address mapped into IPv6 is an IPv4 address.
    #[must_use]
    pub fn is_allowed(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.verdict_of(&address.octets()),
            IpAddr::V6(address) => self.v6.verdict_of(&address.octets()),
        }
    }

    /// Whether any address may be answered.
    #[must_use]
    pub fn allows_anybody(&self) -> bool {
        self.v4.allows_anybody() || self.v6.allows_anybody()
    }
}

impl Node {
    fn set(&mut self, address: &[u8], bits: u8, allow: bool, all: bool) {
        let mut node = self;
        for level in 0..bits / LEVEL_BITS {
            let branch = branch(address, level.into());
            let Some(next) = node.open().get_mut(branch) else {
                return;
            };
            node = next;
        }
        let rest = bits % LEVEL_BITS;
        if rest == 0 {
            node.decide(allow, all);
            return;
        }
        // The network ends between two levels: it is some of the branches.
        let n_branches = BRANCHES >> rest;
        let first = branch(address, (bits / LEVEL_BITS).into()) & !(n_branches - 1);
        for node in node.open().iter_mut().skip(first).take(n_branches) {
            node.decide(allow, all);
        }
    }

    fn decide(&mut self, allow: bool, all: bool) {
        self.verdict = Some(allow);
        if all {
            self.branches = None;
        }
    }

    fn open(&mut self) -> &mut [Self; BRANCHES] {
        self.branches.get_or_insert_with(Box::default)
    }

    fn verdict_of(&self, address: &[u8]) -> bool {
        let mut verdict = self.verdict;
        let mut node = self;
        let mut level = 0;
        while let Some(branches) = &node.branches {
            let Some(next) = branches.get(branch(address, level)) else {
                break;
            };
            verdict = next.verdict.or(verdict);
            node = next;
            level += 1;
        }
        verdict.unwrap_or(false)
    }

    fn allows_anybody(&self) -> bool {
        self.verdict == Some(true)
            || self
                .branches
                .iter()
                .flat_map(|branches| branches.iter())
                .any(Self::allows_anybody)
    }
}

/// Four bits of an address, counted from its beginning.
fn branch(address: &[u8], level: usize) -> usize {
    let octet = address.get(level / 2).copied().unwrap_or_default();
    let bits = if level.is_multiple_of(2) {
        octet >> LEVEL_BITS
    } else {
        octet & 0x0f
    };
    bits.into()
}

#[cfg(test)]
mod tests;
