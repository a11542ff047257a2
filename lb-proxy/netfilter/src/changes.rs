//! Flows that have to be forgotten when rules change.
//!
//! The kernel sends the packets of a flow where the first went, whatever rules say later. A flow of a
//! server that went would so continue into nothing.

use std::net::SocketAddr;

use super::conntrack::Entry;
use super::is_at;
use super::ruleset::{KernelFrontend, Protocol};

/// Flows that have to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemovedFlows {
    protocol: Protocol,
    listen: Vec<SocketAddr>,
    /// Those forwarded to this server; without one, those that are not forwarded.
    server: Option<SocketAddr>,
}

/// The flows to servers that kept them under `old` and do not under `new`; with TCP, only if sessions
/// are reset when their server goes. With no `old` rules, all servers count as having kept theirs.
pub(super) fn removed_flows(old: &[KernelFrontend], new: &[KernelFrontend]) -> Vec<RemovedFlows> {
    let mut found: Vec<RemovedFlows> = Vec::new();
    let mut add = |frontend: &KernelFrontend, server: SocketAddr| {
        let gone = RemovedFlows {
            protocol: frontend.protocol,
            listen: frontend.listen.clone(),
            server: Some(server),
        };
        if !found.contains(&gone) {
            found.push(gone);
        }
    };
    for frontend in new.iter().filter(|frontend| moves(frontend)) {
        let before = old.iter().find(|old| is_same(old, frontend));
        for server in frontend.servers.iter().filter(|server| !server.keeps) {
            let kept = before.is_none_or(|before| keeps(before, server.address));
            if kept && !keeps(frontend, server.address) {
                add(frontend, server.address);
            }
        }
    }
    for frontend in old.iter().filter(|frontend| moves(frontend)) {
        let after = new.iter().find(|new| is_same(new, frontend));
        for server in frontend.servers.iter().filter(|server| server.keeps) {
            let is_known = after.is_some_and(|after| {
                after
                    .servers
                    .iter()
                    .any(|other| other.address == server.address)
            });
            if !is_known {
                add(frontend, server.address);
            }
        }
    }
    found
}

/// Flows of UDP that began before there were rules for them.
pub(super) fn unforwarded<'a>(
    frontends: impl IntoIterator<Item = &'a KernelFrontend>,
) -> impl Iterator<Item = RemovedFlows> {
    frontends
        .into_iter()
        .filter(|frontend| frontend.protocol == Protocol::Udp)
        .map(|frontend| RemovedFlows {
            protocol: Protocol::Udp,
            listen: frontend.listen.clone(),
            server: None,
        })
}

fn moves(frontend: &KernelFrontend) -> bool {
    frontend.protocol == Protocol::Udp || frontend.reset_on_down
}

fn is_same(one: &KernelFrontend, other: &KernelFrontend) -> bool {
    one.name == other.name && one.protocol == other.protocol
}

fn keeps(frontend: &KernelFrontend, address: SocketAddr) -> bool {
    frontend
        .servers
        .iter()
        .any(|server| server.address == address && server.keeps)
}

impl RemovedFlows {
    /// True when these are flows that are forwarded.
    pub(super) fn are_forwarded(&self) -> bool {
        self.server.is_some()
    }

    /// True when `entry` is one of these flows.
    pub(super) fn is_of(&self, entry: &Entry) -> bool {
        let is_server = match self.server {
            Some(server) => entry.is_forwarded && entry.answers_from == server,
            None => !entry.is_forwarded,
        };
        let protocol = match self.protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        };
        is_server
            && entry.protocol == protocol
            && self
                .listen
                .iter()
                .any(|listen| is_at(*listen, entry.destination))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ruleset::{KernelServer, Share};
    use super::*;

    fn frontend(
        protocol: Protocol,
        reset_on_down: bool,
        servers: &[(&str, bool)],
    ) -> KernelFrontend {
        KernelFrontend {
            name: "api".into(),
            listen: vec!["192.0.2.1:6443".parse().unwrap()],
            protocol,
            allow: None,
            deny: Vec::new(),
            masquerade: true,
            reset_on_down,
            share: Share::Random,
            servers: servers
                .iter()
                .map(|(address, keeps)| KernelServer {
                    name: (*address).into(),
                    address: address.parse().unwrap(),
                    weight: 1,
                    in_use: *keeps,
                    keeps: *keeps,
                })
                .collect(),
        }
    }

    fn check(old: &[KernelFrontend], new: &[KernelFrontend], expected: &[&str]) {
        let found: Vec<String> = removed_flows(old, new)
            .iter()
            .filter_map(|gone| gone.server.map(|server| server.to_string()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn flows_of_servers_that_went_are_forgotten() {
        let tcp = |servers: &[(&str, bool)]| frontend(Protocol::Tcp, true, servers);
        let (a, b) = ("10.0.0.1:1", "10.0.0.2:1");
        let both = [tcp(&[(a, true), (b, true)])];
        check(&both, &both, &[]);
        check(&both, &[tcp(&[(a, true), (b, false)])], &[b]);
        check(&both, &[tcp(&[(a, true)])], &[b]);
        check(&both, &[], &[a, b]);
        // What went before went once.
        let one = [tcp(&[(a, true), (b, false)])];
        check(&one, &one, &[]);
        // A predecessor may have died before it could forget.
        check(&[], &one, &[b]);
    }

    #[test]
    fn connections_that_may_finish_are_remembered() {
        let (a, b) = ("10.0.0.1:1", "10.0.0.2:1");
        for (protocol, expected) in [(Protocol::Tcp, vec![]), (Protocol::Udp, vec![b])] {
            let old = [frontend(protocol, false, &[(a, true), (b, true)])];
            let new = [frontend(protocol, false, &[(a, true), (b, false)])];
            check(&old, &new, &expected);
        }
    }

    #[test]
    fn only_flows_through_the_frontend_to_the_server_are_meant() {
        let entry = Entry {
            protocol: 6,
            client: "198.51.100.1:4000".parse().unwrap(),
            destination: "192.0.2.1:6443".parse().unwrap(),
            answers_from: "10.0.0.2:1".parse().unwrap(),
            is_forwarded: true,
            is_offloaded: false,
            tcp_state: None,
            key: Vec::new(),
        };
        let old = [frontend(Protocol::Tcp, true, &[("10.0.0.2:1", true)])];
        let gone = removed_flows(&old, &[]);
        let [gone] = gone.as_slice() else {
            panic!("{gone:?}")
        };
        assert!(gone.is_of(&entry));
        let udp = Entry {
            protocol: 17,
            ..entry.clone()
        };
        let direct = Entry {
            is_forwarded: false,
            ..entry.clone()
        };
        let elsewhere = Entry {
            destination: "192.0.2.9:6443".parse().unwrap(),
            ..entry.clone()
        };
        let other = Entry {
            answers_from: "10.0.0.3:1".parse().unwrap(),
            ..entry
        };
        for entry in [udp, direct, elsewhere, other] {
            assert!(!gone.is_of(&entry), "{entry:?}");
        }
    }
}
