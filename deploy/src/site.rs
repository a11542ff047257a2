//! A site: its domain, its nodes, and the names it answers for.
//!
//! This is the one description from which every file of every service is rendered; nothing in it
//! says on which machine or in which directory a service runs ([`crate::render::Layout`] does).
//! It never reads files, addresses of this machine or clocks.

use std::net::{IpAddr, Ipv4Addr};

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// What people call it; also the first label of its domain.
    pub(crate) name: String,
    /// The domain it is authoritative for, without a final dot.
    pub(crate) domain: String,
    /// Its nodes, masters first.
    pub(crate) nodes: Vec<Node>,
    /// The start of its zone.
    pub(crate) zone: ZoneHead,
    /// Names answered with those masters on which a port is up.
    pub(crate) published: Vec<Published>,
    /// Names with one fixed address.
    pub(crate) hosts: Vec<Host>,
}

/// A machine of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its host name within the domain.
    pub(crate) name: String,
    /// What it does.
    pub(crate) role: Role,
    /// Where it is.
    pub(crate) address: IpAddr,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs the control plane, etcd, and the services of the site.
    Master,
    /// Runs workloads only.
    Worker,
}

/// The SOA record's values, the default TTL, and the name servers of the zone.
///
/// Times are written as master files write them (`3H`), because people read the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneHead {
    /// TTL in seconds of every record that does not say otherwise.
    pub(crate) ttl: u32,
    /// The mailbox of the zone, a label of the domain.
    pub(crate) contact: String,
    /// Serial number (RFC 1982).
    pub(crate) serial: u32,
    /// SOA refresh.
    pub(crate) refresh: String,
    /// SOA retry.
    pub(crate) retry: String,
    /// SOA expire.
    pub(crate) expire: String,
    /// SOA minimum: the TTL of negative answers (RFC 2308).
    pub(crate) minimum: String,
    /// The name servers; the first is the SOA's primary.
    pub(crate) name_servers: Vec<Host>,
}

/// Something that every master offers on one port, and the names under which clients find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// What is offered, for people.
    pub(crate) what: String,
    /// The TCP port that tells whether a master offers it.
    pub(crate) port: u16,
    /// The names, relative to the domain; `@` is the domain itself.
    pub(crate) names: Vec<String>,
}

/// A name with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name, relative to the domain.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) address: IpAddr,
}

impl Site {
    /// The site that Outpost was made for: three masters and three workers of `ocp4.redhat.ren`.
    pub(crate) fn example() -> Self {
        let lan = |last| IpAddr::V4(Ipv4Addr::new(192, 168, 7, last));
        let node = |name: &str, role, last| Node {
            name: name.to_owned(),
            role,
            address: lan(last),
        };
        Self {
            name: "ocp4".to_owned(),
            domain: "ocp4.redhat.ren".to_owned(),
            nodes: vec![
                node("master-0", Role::Master, 13),
                node("master-1", Role::Master, 14),
                node("master-2", Role::Master, 15),
                node("worker-0", Role::Worker, 16),
                node("worker-1", Role::Worker, 17),
                node("worker-2", Role::Worker, 18),
            ],
            zone: ZoneHead {
                ttl: 180,
                contact: "postmaster".to_owned(),
                serial: 2_014_080_704,
                refresh: "3H".to_owned(),
                retry: "30M".to_owned(),
                expire: "2W".to_owned(),
                minimum: "1W".to_owned(),
                name_servers: vec![
                    Host::new("ns1", IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8))),
                    Host::new("ns2", IpAddr::V4(Ipv4Addr::new(8, 8, 4, 4))),
                ],
            },
            published: vec![
                Published::new("API", 6443, &["@", "api", "api-int"]),
                Published::new("ingress", 443, &["*.apps"]),
                Published::new("registry", 5443, &["registry", "quay"]),
            ],
            hosts: vec![
                Host::new("helper", lan(11)),
                Host::new("yum", lan(1)),
                Host::new("nexus", lan(1)),
                Host::new("git", lan(11)),
                Host::new("tmp-registry", lan(177)),
            ],
        }
    }

    /// The same site with its masters at other addresses, each port moved as `port` says.
    ///
    /// Masters beyond the addresses given stay where they are.
    pub(crate) fn with_masters_at(
        mut self,
        addresses: &[Ipv4Addr],
        port: impl Fn(u16) -> u16,
    ) -> Self {
        let masters = self
            .nodes
            .iter_mut()
            .filter(|node| node.role == Role::Master);
        for (node, address) in masters.zip(addresses) {
            node.address = IpAddr::V4(*address);
        }
        for published in &mut self.published {
            published.port = port(published.port);
        }
        self
    }

    /// The masters, in order.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Master)
    }

    /// `name.domain`; a `*` stands for any label, so one is made up.
    pub(crate) fn example_name(&self, name: &str) -> String {
        match name.strip_prefix('*') {
            _ if name == "@" => self.domain.clone(),
            Some(rest) => format!("c{rest}.{}", self.domain),
            None => format!("{name}.{}", self.domain),
        }
    }
}

impl Published {
    fn new(what: &str, port: u16, names: &[&str]) -> Self {
        Self {
            what: what.to_owned(),
            port,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

impl Host {
    fn new(name: &str, address: IpAddr) -> Self {
        Self {
            name: name.to_owned(),
            address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_move_and_workers_stay() {
        let moved = Site::example().with_masters_at(
            &[Ipv4Addr::new(127, 0, 0, 13), Ipv4Addr::new(127, 0, 0, 14)],
            |p| {
                if p == 443 { 8443 } else { p }
            },
        );
        let addresses: Vec<String> = moved
            .nodes
            .iter()
            .map(|node| node.address.to_string())
            .collect();
        assert_eq!(
            addresses,
            [
                "127.0.0.13",
                "127.0.0.14",
                "192.168.7.15",
                "192.168.7.16",
                "192.168.7.17",
                "192.168.7.18"
            ]
        );
        let ports: Vec<u16> = moved
            .published
            .iter()
            .map(|published| published.port)
            .collect();
        assert_eq!(ports, [6443, 8443, 5443]);
    }

    #[test]
    fn an_example_name_can_be_asked_for() {
        let site = Site::example();
        assert_eq!(site.example_name("@"), "ocp4.redhat.ren");
        assert_eq!(site.example_name("*.apps"), "c.apps.ocp4.redhat.ren");
        assert_eq!(site.example_name("helper"), "helper.ocp4.redhat.ren");
    }
}
