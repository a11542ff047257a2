//! Operators' decisions for addresses and ports, also for targets that come later.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use health::{AdminState, Terms};

/// The decisions that differ from `ready`, and those of ports that differ from their address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminRules {
    addresses: BTreeMap<IpAddr, Decision>,
    ports: BTreeMap<SocketAddr, Decision>,
}

/// A decision and its terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The state of the targets.
    pub state: AdminState,
    /// The terms. After their end, probes decide again.
    pub terms: Terms,
}

impl From<AdminState> for Decision {
    fn from(state: AdminState) -> Self {
        Self {
            state,
            terms: Terms::default(),
        }
    }
}

/// The targets of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All ports of an address.
    Address(IpAddr),
    /// One of them.
    Port(SocketAddr),
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Port(port) => port.fmt(formatter),
        }
    }
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
        rule.map(|decision| decision.state).unwrap_or_default()
    }

    /// Takes a decision. One about an address takes back those about its ports.
    pub fn set(&mut self, scope: Scope, decision: Decision) {
        match scope {
            Scope::Address(address) => {
                self.ports.retain(|port, _| port.ip() != address);
                if decision.state == AdminState::Ready {
                    self.addresses.remove(&address);
                } else {
                    self.addresses.insert(address, decision);
                }
            }
            Scope::Port(port) => {
                let of_address = self.addresses.get(&port.ip());
                let state = of_address.map(|it| it.state).unwrap_or_default();
                // The longer one of two must not be lost.
                let lasts = of_address.is_none_or(|it| it.terms.until.is_none());
                if decision.state == state && lasts {
                    self.ports.remove(&port);
                } else {
                    self.ports.insert(port, decision);
                }
            }
        }
    }

    /// Takes back the decisions that have ended by this time, and returns them.
    pub fn end(&mut self, now: Duration) -> Vec<(Scope, Decision)> {
        let is_over = |decision: &Decision| decision.terms.is_over(now);
        let ended: Vec<(Scope, Decision)> = self
            .iter()
            .filter(|(_, decision)| is_over(decision))
            .map(|(scope, decision)| (scope, decision.clone()))
            .collect();
        self.addresses.retain(|_, decision| !is_over(decision));
        let addresses = &self.addresses;
        self.ports.retain(|port, decision| {
            let is_exception = addresses.contains_key(&port.ip());
            !is_over(decision) && (decision.state != AdminState::Ready || is_exception)
        });
        ended
    }

    /// The first end of a decision.
    #[must_use]
    pub fn first_end(&self) -> Option<Duration> {
        let ends = self.iter().filter_map(|(_, decision)| decision.terms.until);
        ends.min()
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
    pub fn iter(&self) -> impl Iterator<Item = (Scope, &Decision)> {
        let addresses = self.addresses.iter();
        let addresses = addresses.map(|(address, it)| (Scope::Address(*address), it));
        let ports = self.ports.iter();
        addresses.chain(ports.map(|(port, it)| (Scope::Port(*port), it)))
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
            rules.set(scope, state.into());
            assert_eq!([rules.state(api), rules.state(ingress)], expected);
            assert_eq!(rules.state(port("192.168.7.14:6443")), Ready);
            assert_eq!(rules.len(), n_rules);
            let mut copy = AdminRules::default();
            for (scope, decision) in rules.iter() {
                copy.set(scope, decision.clone());
            }
            assert_eq!(copy, rules);
        }
    }

    #[test]
    fn a_decision_ends_by_itself_and_others_stay() {
        let seconds = Duration::from_secs;
        let all = Scope::Address("192.168.7.13".parse().unwrap());
        let api = port("192.168.7.13:6443");
        let until = |state: AdminState, until| Decision {
            state,
            terms: Terms {
                until: Some(seconds(until)),
                reason: "disk".to_owned(),
                ..Terms::default()
            },
        };
        let mut rules = AdminRules::default();
        rules.set(all, until(Maintenance, 100));
        rules.set(Scope::Port(api), Ready.into());
        let other = port("192.168.7.14:6443");
        rules.set(Scope::Port(other), until(Drain, 200));
        assert_eq!(rules.first_end(), Some(seconds(100)));
        assert_eq!(rules.end(seconds(99)), []);
        assert_eq!(
            rules.end(seconds(100)),
            [(all, until(Maintenance, 100))],
            "with the exception that is none any more"
        );
        assert_eq!((rules.state(api), rules.state(other)), (Ready, Drain));
        assert_eq!((rules.len(), rules.first_end()), (1, Some(seconds(200))));
        // A port's own decision outlives that of its address, though the state is the same.
        rules.set(all, until(Drain, 300));
        rules.set(Scope::Port(api), Drain.into());
        rules.end(seconds(1_000));
        assert_eq!(rules.state(api), Drain);
        assert_eq!((rules.len(), rules.first_end()), (1, None));
    }
}
