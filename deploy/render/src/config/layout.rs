//! The addresses and paths of the services of one node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use site::paths;
use site::service::{PerService, Service};
use site::{Node, Schedule, Site};

/// The addresses and directories of one node's services, and the differences between a node
/// and a demonstration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The directory of the rendered files. Absolute.
    pub directory: PathBuf,
    /// The directory of state. Absolute.
    pub state: PathBuf,
    /// The socket of healthd.
    pub healthd_socket: PathBuf,
    /// The socket of clusterd.
    pub clusterd_socket: PathBuf,
    /// The directory of manifests that the clusterd of a demonstration reads; without one, none runs there.
    pub manifests: Option<PathBuf>,
    /// The handover socket of lb-proxy.
    pub swap_socket: PathBuf,
    /// The addresses of dns-recursor.
    pub dns: Vec<SocketAddr>,
    /// The addresses of dns-authd.
    pub authority: Vec<SocketAddr>,
    /// The upstreams of dns-recursor for the zones of the site; it uses the first that works.
    pub authorities: Vec<SocketAddr>,
    /// The addresses of lb-proxy; the ports are those of what is offered.
    pub proxy: Vec<IpAddr>,
    /// The addresses of registry-svc.
    pub registry: Vec<SocketAddr>,
    /// The addresses of timesync-agent.
    pub time: Vec<SocketAddr>,
    /// The admin listeners.
    pub admin: PerService<SocketAddr>,
    /// The schedule of healthd's probes.
    pub schedule: Schedule,
    /// How long a service may take to finish what has begun.
    pub drain: Duration,
    /// Servers that resolve names outside the site. Empty: such names are refused at once.
    pub upstreams: Vec<SocketAddr>,
    /// Zones that other servers have.
    pub forwards: Vec<site::Forward>,
    /// The platform of the services.
    pub place: Place,
}

/// The platform of the services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This machine, on loopback, without privileges: no certificates, no virtual IPs, no clock
    /// that is set, and the masters' ports belong to responders on addresses of their own.
    Demonstration,
    /// This node of the site.
    Node(Box<Node>),
}

impl Layout {
    /// The layout of a node, as [`paths`] has it.
    pub fn of_node(site: &Site, node: &Node) -> Self {
        Self {
            directory: paths::ETC.into(),
            state: paths::STATE.into(),
            healthd_socket: paths::HEALTHD_SOCKET.into(),
            clusterd_socket: paths::CLUSTERD_SOCKET.into(),
            manifests: None,
            swap_socket: paths::SWAP_SOCKET.into(),
            dns: everywhere(paths::DNS_PORT),
            authority: match site.shares_authorities() {
                true => everywhere(paths::AUTHORITY_PORT),
                false => vec![paths::authority()],
            },
            authorities: authorities(site, node),
            proxy: ANY.to_vec(),
            registry: everywhere(site.registry.port),
            time: everywhere(paths::TIME_PORT),
            admin: PerService::from_fn(paths::admin),
            schedule: site.health,
            drain: DRAIN,
            upstreams: site.upstreams.clone(),
            forwards: site.forwards.clone(),
            place: Place::Node(Box::new(node.clone())),
        }
    }

    /// The directory of the files of a service. On a node each has its own, and sees no other.
    pub fn directory_of(&self, service: Service) -> PathBuf {
        match self.place {
            Place::Demonstration => self.directory.clone(),
            Place::Node(_) => paths::etc(service),
        }
    }

    /// The node, unless this is a demonstration.
    pub fn node(&self) -> Option<&Node> {
        match &self.place {
            Place::Demonstration => None,
            Place::Node(node) => Some(node),
        }
    }

    /// Whether a service runs here.
    pub fn runs(&self, service: Service) -> bool {
        match self.node() {
            Some(node) => node.services.contains(&service),
            None => service != Service::Clusterd || self.manifests.is_some(),
        }
    }
}

/// The upstreams of a node's dns-recursor for the zones of the site: the node's own dns-authd as long as it
/// answers, then those of the other nodes. All have the same zones.
fn authorities(site: &Site, node: &Node) -> Vec<SocketAddr> {
    let others = site.other_authorities(node);
    let mut all = Vec::with_capacity(others.len() + 1);
    if others.is_empty() || node.services.contains(&Service::DnsAuthd) {
        all.push(paths::authority());
    }
    let there = |other: &&Node| SocketAddr::new(other.address(), paths::AUTHORITY_PORT);
    all.extend(others.iter().map(there));
    all
}

/// A port on every address, of both families.
pub(super) fn everywhere(port: u16) -> Vec<SocketAddr> {
    ANY.iter().map(|ip| SocketAddr::new(*ip, port)).collect()
}

/// Every address.
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// Transfers that have begun continue in the other slot or begin again; units wait longer than this.
pub const DRAIN: Duration = Duration::from_secs(10);
