//! Operators' decisions for addresses and ports, also for targets that come later.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use health::AdminState;

/// The decisions that differ from `ready`, and those of ports that differ from their address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminRules {
    addresses: BTreeMap<IpAddr, AdminState>,
    ports: BTreeMap<SocketAddr, AdminState>,
}

/// The targets of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All ports of an address.
    Address(IpAddr),
    /// One of them.
    Port(SocketAddr),
}

impl Scope {
    /// Whether a target at this address is meant.
    #[must_use]
    pub fn covers(self, address: SocketAddr) -> bool {
        match self {
            Self::Address(all) => all == address.ip(),
            Self::Port(one) => one == address,
        }
    }
}

impl AdminRules {
    /// The administrative state of a target at this address.
    #[must_use]
    pub fn state(&self, address: SocketAddr) -> AdminState {
        let rule = self.ports.get(&address);
        let rule = rule.or_else(|| self.addresses.get(&address.ip()));
        rule.copied().unwrap_or_default()
    }

    /// Takes a decision. One about an address takes back those about its ports.
    pub fn set(&mut self, scope: Scope, state: AdminState) {
        match scope {
            Scope::Address(address) => {
                self.ports.retain(|port, _| port.ip() != address);
                if state == AdminState::Ready {
                    self.addresses.remove(&address);
                } else {
                    self.addresses.insert(address, state);
                }
            }
            Scope::Port(port) => {
                let of_address = self.addresses.get(&port.ip()).copied();
                if state == of_address.unwrap_or_default() {
                    self.ports.remove(&port);
                } else {
                    self.ports.insert(port, state);
                }
            }
        }
    }

    /// How many decisions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len() + self.ports.len()
    }

    /// Whether there is no decision at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All decisions, in an order in which [`set`](Self::set) makes the same rules of them.
    pub fn iter(&self) -> impl Iterator<Item = (Scope, AdminState)> {
        let addresses = self.addresses.iter();
        let addresses = addresses.map(|(address, state)| (Scope::Address(*address), *state));
        let ports = self.ports.iter();
        addresses.chain(ports.map(|(port, state)| (Scope::Port(*port), *state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AdminState::{Drain, Maintenance, Ready};

    fn port(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_wins_over_its_address_until_the_address_is_set_anew() {
        let all = Scope::Address("192.168.7.13".parse().unwrap());
        let api = port("192.168.7.13:6443");
        let ingress = port("192.168.7.13:443");
        let steps = [
            (all, Maintenance, [Maintenance, Maintenance], 1),
            (Scope::Port(api), Ready, [Ready, Maintenance], 2),
            (Scope::Port(api), Drain, [Drain, Maintenance], 2),
            (Scope::Port(api), Maintenance, [Maintenance, Maintenance], 1),
            (Scope::Port(ingress), Drain, [Maintenance, Drain], 2),
            (all, Ready, [Ready, Ready], 0),
            (Scope::Port(api), Ready, [Ready, Ready], 0),
            (Scope::Port(api), Drain, [Drain, Ready], 1),
        ];
        let mut rules = AdminRules::default();
        for (scope, state, expected, n_rules) in steps {
            rules.set(scope, state);
            assert_eq!([rules.state(api), rules.state(ingress)], expected);
            assert_eq!(rules.state(port("192.168.7.14:6443")), Ready);
            assert_eq!(rules.len(), n_rules);
            let mut copy = AdminRules::default();
            for (scope, state) in rules.iter() {
                copy.set(scope, state);
            }
            assert_eq!(copy, rules);
        }
    }
}
