//! The configuration as parsed: only legal values.
//!
//! The listeners, the number of threads, the bounds of the cache, the stale time and the address of healthd
//! are fixed for the life of the process; a reload changes everything else.

pub mod v1;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use config_text::counted;
use daemon::acl::{self, Cidrs};
use daemon::config::Common;
use daemon::tls::CertificateFiles;
use dns_cache::cache::CacheOptions;
use dns_front::local::{Local, LocalOptions};
use dns_front::policy::Outsiders;
use dns_resolve::forward::{Mode, Policy, Protocol, Route, Table};
use dns_resolve::resolver;
use dns_wire::Name;
use ipnet::IpNet;
use proto::endpoint::Endpoint;

/// The address of the admin listener unless the configuration has another.
pub const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9403);

/// The addresses of the server unless the configuration has others; without IPv6 in the kernel, those of
/// IPv4 only.
pub const DEFAULT_LISTEN: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 53),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 53),
];

/// The configuration of one server.
#[derive(Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// Listeners.
    pub network: Network,
    pub access: Access,
    pub forwards: Vec<Forward>,
    /// Bounds of the cache, and the stale time.
    pub cache: CacheOptions,
    /// The settings of the resolver.
    pub resolve: resolver::Settings,
    /// The settings of answers from the cache.
    pub serve: Serve,
    /// The names that this server answers itself.
    pub local: LocalOptions,
    /// The address of healthd, if it is used.
    pub health: Option<Endpoint>,
    /// Settings that are understood, but odd.
    pub warnings: Vec<String>,
}

/// Listeners and sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Addresses for UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Threads for datagrams.
    pub threads: usize,
    /// Bounds of TCP.
    pub tcp: TcpLimits,
    /// DNS over TLS.
    pub tls: Option<Tls>,
    /// The addresses that queries to upstreams leave from.
    pub source: Source,
}

/// DNS over TLS (RFC 7858).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Addresses.
    pub listen: Vec<SocketAddr>,
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

impl Tls {
    /// The files of the certificate.
    #[must_use]
    pub fn files(&self) -> CertificateFiles {
        CertificateFiles::new(&self.certificate, &self.key)
    }
}

/// Bounds of TCP (RFC 7766 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one client at once.
    pub per_client: usize,
    /// The time that a connection may be silent.
    pub idle: Duration,
    /// The most queries of one connection that wait for answers.
    pub pipeline: usize,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 256,
            idle: Duration::from_secs(10),
            pipeline: 100,
        }
    }
}

/// The source addresses of queries to upstreams; unspecified is the kernel's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// To IPv4 upstreams.
    pub v4: Ipv4Addr,
    /// To IPv6 upstreams.
    pub v6: Ipv6Addr,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            v4: Ipv4Addr::UNSPECIFIED,
            v6: Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// The access rules for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The clients that get answers.
    pub allow: Allow,
    /// The treatment of all other clients.
    pub outsiders: Outsiders,
    /// The clients whose NOTIFY flushes a zone from the cache.
    pub notify: Cidrs,
}

/// The clients that get answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// Loopback and the private networks that the node has at the time.
    Local,
    /// These.
    Listed(Cidrs),
}

impl Allow {
    /// The current networks.
    #[must_use]
    pub fn networks(&self) -> Cidrs {
        match self {
            Self::Local => acl::local_networks()
                .into_iter()
                .filter(is_private)
                .collect(),
            Self::Listed(networks) => networks.clone(),
        }
    }
}

/// Whether a network is private: only the site's own clients can be in it (RFC 1918, RFC 6598, RFC 3927,
/// RFC 4193, loopback and link-local).
fn is_private(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => {
            let address = network.network();
            let shared = address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64;
            let wide_enough = network.prefix_len() >= 8;
            wide_enough
                && (address.is_private()
                    || address.is_loopback()
                    || address.is_link_local()
                    || shared)
        }
        IpNet::V6(network) => {
            let address = network.network();
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

/// A zone and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The zone's apex.
    pub zone: Name,
    pub mode: Mode,
    /// The upstreams.
    pub upstreams: Vec<SocketAddr>,
    /// The order of the upstreams.
    pub policy: Policy,
    /// The transport.
    pub protocol: Protocol,
    /// Whether the AD bit is passed on.
    pub trust_ad: bool,
}

/// The settings of answers from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serve {
    /// TTL of stale answers.
    pub stale_ttl: Duration,
    /// The time that a failure is remembered, and that a stale answer serves without another try.
    pub recheck: Duration,
    /// Whether names in demand are refreshed before they expire.
    pub prefetch: bool,
}

impl Config {
    /// The routes. All upstreams begin as healthy.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::new(self.forwards.iter().map(|forward| {
            let zone = forward.zone.clone();
            let mut route = Route::new(zone, forward.mode, forward.upstreams.clone());
            route.policy = forward.policy;
            route.protocol = forward.protocol;
            route.trust_ad = forward.trust_ad;
            route
        }))
    }

    /// The local names.
    #[must_use]
    pub fn local(&self) -> Local {
        Local::new(&self.local)
    }

    /// Every upstream, once.
    #[must_use]
    pub fn upstreams(&self) -> Vec<SocketAddr> {
        let all = self.forwards.iter().flat_map(|forward| &forward.upstreams);
        let mut upstreams: Vec<SocketAddr> = all.copied().collect();
        upstreams.sort_unstable();
        upstreams.dedup();
        upstreams
    }

    /// A summary of the configuration in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let zones: Vec<String> = self.forwards.iter().map(|f| f.zone.to_string()).collect();
        match zones.as_slice() {
            [] => "nothing is forwarded".to_owned(),
            zones => format!(
                "{} for {}: {}",
                counted(self.upstreams().len(), "upstream"),
                counted(zones.len(), "zone"),
                zones.join(" ")
            ),
        }
    }
}

#[cfg(test)]
mod tests;
