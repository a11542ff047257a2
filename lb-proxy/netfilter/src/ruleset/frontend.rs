//! Frontends and their servers, as the kernel forwards to them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use balance::pool::{Algorithm, Pool};
use ipnet::IpNet;

use super::Protocol;
use super::name::{Family, plain};

/// One frontend that the kernel forwards.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelFrontend {
    /// Its name.
    pub name: Arc<str>,
    /// The address for clients. A wildcard stands for every address of this node but loopback ones:
    /// packets from those cannot leave the node.
    pub listen: Vec<SocketAddr>,
    /// The protocol.
    pub protocol: Protocol,
    /// These sources alone, if given.
    pub allow: Option<Vec<IpNet>>,
    /// Never these sources.
    pub deny: Vec<IpNet>,
    /// Servers see this node's address instead of the client's. Without it they must send their
    /// answers through this node.
    pub masquerade: bool,
    /// The fate of TCP connections whose server goes down; flows of UDP always move.
    pub reset_on_down: bool,
    /// How servers share connections.
    pub share: Share,
    /// All servers, those that get no connections included.
    pub servers: Vec<KernelServer>,
}

/// One server of a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelServer {
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub address: SocketAddr,
    /// Its share of connections.
    pub weight: u16,
    /// Gets new connections.
    pub in_use: bool,
    /// Keeps the connections it has: it is up, or drains.
    pub keeps: bool,
}

/// How servers share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// In turn.
    RoundRobin,
    /// By chance.
    Random,
    /// By source address.
    Source,
}

impl KernelFrontend {
    /// A frontend that forwards to `pool` as it stands, for every source, with masquerade.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        protocol: Protocol,
        listen: Vec<SocketAddr>,
        pool: &Pool,
    ) -> Self {
        let used: BTreeSet<usize> = pool.in_use().map(|(index, _)| index).collect();
        let servers = pool.servers.iter().enumerate().map(|(index, server)| {
            let in_use = used.contains(&index);
            KernelServer {
                name: Arc::clone(&server.name),
                address: server.address,
                weight: server.weight,
                in_use,
                keeps: in_use || server.eligibility.keeps_sessions(),
            }
        });
        Self {
            name: name.into(),
            listen,
            protocol,
            allow: None,
            deny: Vec::new(),
            masquerade: true,
            reset_on_down: false,
            share: Share::of(pool.algorithm),
            servers: servers.collect(),
        }
    }

    /// The settings that the kernel cannot carry out, a sentence each.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for listen in &self.listen {
            if listen.ip().is_loopback() {
                faults.push(format!(
                    "{listen} is a loopback address, whose packets cannot leave the node"
                ));
            }
            let family = Family::of(listen.ip());
            if !self
                .servers
                .iter()
                .any(|server| Family::of(server.address.ip()) == family)
            {
                faults.push(format!(
                    "no server is reached over {family}, so the kernel refuses every client of {listen}"
                ));
            }
        }
        for server in &self.servers {
            match server.address.ip() {
                IpAddr::V6(address) if address.is_unicast_link_local() => faults.push(format!(
                    "server {} has a link-local address, to which the kernel cannot forward",
                    server.name
                )),
                address if address.is_loopback() => faults.push(format!(
                    "server {} has a loopback address, to which the kernel cannot forward",
                    server.name
                )),
                _ => {}
            }
        }
        faults
    }

    pub(super) fn chain(&self, family: Family) -> String {
        format!("frontend/{}/{}", plain(&self.name), family.version())
    }

    /// The map from numbers to servers, and the chain whose rule draws one.
    pub(super) fn share(&self, family: Family) -> String {
        format!("share/{}/{}", plain(&self.name), family.version())
    }

    /// The set of the servers that need this node's address as the source.
    pub(super) fn servers_set(&self, family: Family) -> String {
        let kind = if self.masquerade { "servers" } else { "selves" };
        format!("{kind}/{}/{}", plain(&self.name), family.version())
    }

    pub(super) fn server_chain(&self, server: &KernelServer) -> String {
        format!("server/{}/{}", plain(&self.name), plain(&server.name))
    }

    pub(super) fn families(&self) -> BTreeSet<Family> {
        self.listen
            .iter()
            .map(|listen| Family::of(listen.ip()))
            .collect()
    }

    pub(super) fn servers_of(&self, family: Family) -> impl Iterator<Item = &KernelServer> {
        self.servers
            .iter()
            .filter(move |server| Family::of(server.address.ip()) == family)
    }

    pub(super) fn used_servers_of(&self, family: Family) -> impl Iterator<Item = &KernelServer> {
        self.servers_of(family)
            .filter(|server| server.in_use && server.weight > 0)
    }
}

impl Share {
    /// The closest the kernel comes to `algorithm`: it cannot count sessions.
    #[must_use]
    pub fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::RoundRobin => Self::RoundRobin,
            Algorithm::LeastConnections | Algorithm::RandomOfTwo => Self::Random,
            Algorithm::Source => Self::Source,
        }
    }

    /// False when [`Share::of`] changes what was asked for.
    #[must_use]
    pub fn is_exact(algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::RoundRobin | Algorithm::Source)
    }
}
