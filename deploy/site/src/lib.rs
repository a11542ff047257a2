//! A site: its domain, its nodes, and the names it answers for.
//!
//! Every file of every service is rendered from this one description. It does not say in which directory
//! a service runs: `Layout` of `site-render` does.
//!
//! | module | content |
//! | --- | --- |
//! | [`facts`] | the user of each service, and which others may connect to it |
//! | [`service`] | the services, in the order in which they start |
//! | [`slot`] | the two slots of a service on a node |
//! | [`paths`] | paths, ports and users of everything on a node |
//! | [`secrets`] | keys, certificates and passwords of a site |
//!
//! Never reads a file, an address of this machine or a clock.

pub mod facts;
pub mod paths;
pub mod secrets;
pub mod service;
pub mod slot;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use config::healthd::Schedule;
use config::lb_proxy::AddressRange;
pub use config::nodes::ClusterNodes;
pub use config::site::ServiceForward;
pub use config::site::{Role, VipRole};
use ipnet::IpNet;

use crate::service::Service;

/// The most healthds that exchange findings; masters come first.
const MAX_OBSERVERS: usize = 16;

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The name of the cluster; the numbers of virtual routers are computed from it.
    pub name: String,
    /// The domain it is authoritative for, without a final dot.
    pub domain: String,
    /// The networks of its nodes and virtual IPs, and of its reverse zones.
    pub networks: Vec<IpNet>,
    /// Other networks whose hosts ask the site for names and for the time, as pods do.
    pub clients: Vec<IpNet>,
    /// The interface of virtual IPs, unless a node has another.
    pub interface: String,
    /// Its nodes, masters first.
    pub nodes: Vec<Node>,
    /// The start of its zone.
    pub zone: ZoneHead,
    /// The ports that nodes offer, and their names.
    pub published: Vec<Published>,
    /// Names with one fixed address.
    pub hosts: Vec<Host>,
    /// Any other records of the zone.
    pub records: Vec<Record>,
    /// Servers that resolve names outside the site. Empty: such names are refused at once.
    pub upstreams: Vec<SocketAddr>,
    /// Zones that other servers have.
    pub forwards: Vec<Forward>,
    /// The source of its time.
    pub time: Time,
    /// The schedule of probes.
    pub health: Schedule,
    /// Addresses that one of the nodes holds.
    pub vips: Vec<Vip>,
    /// Its registry.
    pub registry: Registry,
    /// Its page, if it is published.
    pub page: Option<Page>,
    /// The Kubernetes cluster on its nodes.
    pub cluster: Option<Cluster>,
    /// The directory of certificates and keys, relative to the site file.
    pub pki: PathBuf,
    /// How many days clients believe a certificate after a node was given it; none where a node has one for years.
    pub certificate_days: Option<u16>,
    /// How its nodes run the services.
    pub platform: Platform,
}

/// A machine of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its host name within the domain.
    pub name: String,
    /// The role.
    pub role: Role,
    /// At least one address; other nodes connect to the first.
    pub addresses: Vec<IpAddr>,
    /// The interface of virtual IPs, where it is not the site's.
    pub interface: Option<String>,
    /// The services that it runs, in the order of [`Service::ALL`].
    pub services: Vec<Service>,
}

/// The SOA record's values, the default TTL, and the name servers of the zone.
///
/// Times are written as master files write them (`3H`), because people read the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneHead {
    /// TTL in seconds of every record that does not say otherwise.
    pub ttl: u32,
    /// The mailbox of the zone, a label of the domain.
    pub contact: String,
    /// Serial number (RFC 1982); without one, `outpost` moves it with the content.
    pub serial: Option<u32>,
    /// SOA refresh.
    pub refresh: String,
    /// SOA retry.
    pub retry: String,
    /// SOA expire.
    pub expire: String,
    /// SOA minimum: the TTL of negative answers (RFC 2308).
    pub minimum: String,
    /// The name servers; the first is the SOA's primary.
    pub name_servers: Vec<Host>,
}

/// Something that nodes offer on one port, and the names under which clients find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The name, for people.
    pub what: String,
    /// Its role in OpenShift.
    pub role: VipRole,
    /// The TCP port that tells whether a node offers it.
    pub port: u16,
    /// The port of lb-proxy on a node on which the offered service has `port` itself. `None`: it is
    /// not balanced, because every node that clients are led to has it itself.
    pub proxy_port: Option<u16>,
    /// The names, relative to the domain; `@` is the domain itself.
    pub names: Vec<String>,
    /// The virtual IP that the names stand for, by its name. `None`: they stand for the nodes on
    /// which the port is up.
    pub vip: Option<String>,
    /// The nodes that offer it.
    pub offered_by: OfferedBy,
}

/// The nodes that offer a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferedBy {
    /// Those of these roles.
    Roles(Vec<Role>),
    /// Those that run this service.
    Running(Service),
}

/// A zone that other servers have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Without a final dot.
    pub zone: String,
    pub upstreams: Vec<SocketAddr>,
    /// Whether the servers resolve names for others.
    pub recursive: bool,
}

/// A name with an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name, relative to the domain.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

/// A record of the zone as a master file has it (RFC 1035 §5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner, relative to the domain; `@` is the domain itself.
    pub name: String,
    /// Its TTL in seconds, where it is not the zone's.
    pub ttl: Option<u32>,
    /// Its type, as in `TXT`.
    pub rtype: String,
    /// Its value, as it stands in a master file.
    pub value: String,
}

/// The source of the site's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    /// NTP servers outside the site. Empty: the nodes agree on a time of their own.
    pub servers: Vec<String>,
    /// Whether the clocks of the nodes are set by it. Containers share the clock of their host.
    pub correct_clock: bool,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            correct_clock: true,
        }
    }
}

/// A virtual IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// Its name.
    pub name: String,
    /// The servers behind it.
    pub role: VipRole,
    /// The address, at most one of each family, with the prefix length of its network.
    pub addresses: Vec<IpNet>,
    /// The number of its virtual router; the cluster's name and the role give it when not set.
    pub router_id: Option<u8>,
}

/// The site's registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// Its names, relative to the domain.
    pub names: Vec<String>,
    /// Its port on every node that runs it.
    pub port: u16,
    /// The port between its nodes.
    pub cluster_port: u16,
    /// A file of users and passwords (htpasswd, bcrypt), seen from the site file. `None`: clients only pull,
    /// unless the registry is open.
    pub users: Option<PathBuf>,
    /// Whether those may pull who do not say who they are, where there are users.
    pub anonymous_pull: bool,
    /// Whether every client may push and delete; never where there are users.
    pub open: bool,
    /// The most that some repositories may hold.
    pub quotas: Vec<Quota>,
    /// Mirrors: other registries whose content is fetched on demand, and kept.
    pub mirrors: Vec<Mirror>,
}

/// The most that each repository may hold whose name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// A pattern of names.
    pub repositories: String,
    /// In octets.
    pub size: u64,
}

/// A registry elsewhere, under a prefix of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The URLs, tried in order.
    pub upstreams: Vec<String>,
    /// `prefix/NAME` here is `NAME` there.
    pub prefix: String,
    /// The name that containerd uses for it (`?ns=`), if that leads here too.
    pub namespace: Option<String>,
    /// How long a tag is taken for current, where it is not registry-svc's own idea.
    pub ttl: Option<Duration>,
    /// A file with `user:password`, seen from the site file.
    pub credentials: Option<PathBuf>,
    /// The authority that signs its certificate, if it is not public (PEM), relative to the site file.
    pub ca: Option<PathBuf>,
}

/// The site's page as it is published: over TLS, by the healthd of each node that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its names, relative to the domain.
    pub names: Vec<String>,
    /// Its port.
    pub port: u16,
    /// A file of users and passwords (htpasswd, bcrypt), seen from the site file.
    pub users: Option<PathBuf>,
    /// The authority of clients that need no password (PEM), seen from the site file.
    pub client_ca: Option<PathBuf>,
    /// Whether every client may look; never where there are users or an authority.
    pub open: bool,
}

/// The Kubernetes cluster on the nodes of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The source from which clusterd knows it.
    pub source: ClusterSource,
    /// Its domain, if the site answers for the names of Services, without a final dot.
    pub domain: Option<String>,
    /// The networks of Services and pods whose addresses have names.
    pub reverse: Vec<IpNet>,
    /// The nodes of the cluster that join what the site file has.
    pub follow: Vec<ClusterNodes>,
    /// Whether dns-recursor takes the forwards of its DNS operator.
    pub forwards: bool,
    /// The addresses that clusterd gives to Services.
    pub addresses: Vec<AddressRange>,
    /// The addresses that others give to Services.
    pub follow_addresses: Vec<AddressRange>,
    /// The destination of the traffic to all of them.
    pub forward: ServiceForward,
}

impl Cluster {
    /// A cluster of which the site only knows the source.
    pub const fn new(source: ClusterSource) -> Self {
        Self {
            source,
            domain: None,
            reverse: Vec::new(),
            follow: Vec::new(),
            forwards: false,
            addresses: Vec::new(),
            follow_addresses: Vec::new(),
            forward: ServiceForward::KubeProxy,
        }
    }

    /// Whether lb-proxy holds addresses of Services.
    pub fn serves(&self) -> bool {
        !(self.addresses.is_empty() && self.follow_addresses.is_empty())
    }

    /// The nodes of the cluster that offer something beside those of the site file.
    pub fn followed(&self, published: &Published) -> Vec<ClusterNodes> {
        let OfferedBy::Roles(roles) = &published.offered_by else {
            return Vec::new();
        };
        let is_followed = |nodes: &ClusterNodes| self.follow.contains(nodes);
        if published.role == VipRole::Ingress && is_followed(&ClusterNodes::Ingress) {
            return vec![ClusterNodes::Ingress];
        }
        let of_role = |role: &Role| match role {
            Role::Master => ClusterNodes::Masters,
            Role::Worker => ClusterNodes::Workers,
        };
        roles.iter().map(of_role).filter(is_followed).collect()
    }
}

/// The source from which clusterd knows a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSource {
    /// The API, with the kubeconfig at this path relative to the site file. `None`: the nodes get it in another way.
    Kubeconfig(Option<PathBuf>),
    /// The API, with files on the nodes.
    Token {
        /// The file of the token.
        token: PathBuf,
        /// The file of the authorities of the API servers.
        authorities: PathBuf,
    },
    /// A directory of manifests on the nodes.
    Manifests(PathBuf),
}

/// How nodes run the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The OpenShift release, as (4, 18). `None`: there is none on the nodes.
    pub openshift: Option<(u8, u8)>,
    /// How services are started.
    pub runtime: Runtime,
}

/// How services are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Containers, from quadlets that this podman understands.
    Quadlet(Podman),
    /// Containers, from plain units that run a podman which knows no quadlets.
    NoQuadlet,
    /// Plain hardened units that run the binaries.
    Native,
}

/// Levels of podman, by what their quadlets understand: each is the first release that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Podman {
    /// RHEL 9.2, OpenShift 4.13 to 4.15.
    V4_4,
    /// OpenShift 4.16.
    V4_9,
    /// RHEL 9.5, OpenShift 4.17 and later.
    V5_2,
    /// Debian 13, RHEL 10.
    V5_4,
}

impl Site {
    /// Whether a node of the site runs a service.
    pub fn runs(&self, service: Service) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.services.contains(&service))
    }

    /// The nodes whose dns-authd a node's dns-recursor can ask besides the node's own: those that
    /// follow it in the site file, then those before it, so that not all ask the same one.
    pub fn other_authorities(&self, node: &Node) -> Vec<&Node> {
        let own = self.nodes.iter().position(|other| other.name == node.name);
        let n_before = own.unwrap_or(0);
        let all = self.nodes.iter().cycle().skip(n_before);
        all.take(self.nodes.len())
            .filter(|other| other.name != node.name)
            .filter(|other| other.services.contains(&Service::DnsAuthd))
            .collect()
    }

    /// The masters whose API a node's clusterd may use, in the order of preference: the node itself, then those that follow it
    /// in the site file, then those before it, so that the nodes do not all lean on the same one.
    pub fn api_servers(&self, node: &Node) -> Vec<&Node> {
        let own = self.nodes.iter().position(|other| other.name == node.name);
        let all = self.nodes.iter().cycle().skip(own.unwrap_or(0));
        all.take(self.nodes.len())
            .filter(|other| other.role == Role::Master)
            .collect()
    }

    /// Whether a dns-recursor of one node may ask the dns-authd of another.
    pub fn shares_authorities(&self) -> bool {
        let mut recursors = self.nodes.iter();
        recursors.any(|node| {
            node.services.contains(&Service::DnsRecursor)
                && !self.other_authorities(node).is_empty()
        })
    }

    /// The nodes whose healthds exchange findings, in the order of the site. Fewer than three have no majority, and
    /// there are none.
    pub fn observers(&self) -> Vec<&Node> {
        let all = self.nodes.iter();
        let all = all.filter(|node| node.services.contains(&Service::Healthd));
        let observers: Vec<&Node> = all.take(MAX_OBSERVERS).collect();
        match observers.len() {
            0..3 => Vec::new(),
            _ => observers,
        }
    }

    /// Whether a node's healthd is one of them.
    pub fn observes(&self, node: &Node) -> bool {
        self.observers().iter().any(|one| one.name == node.name)
    }

    /// Whether a node proves its name to others by a certificate.
    pub fn has_certificate(&self, node: &Node) -> bool {
        node.services.contains(&Service::RegistrySvc)
            || self.observes(node)
            || self.shows_page(node).is_some()
    }

    /// Whether the other nodes renew the certificate that clients of a service of a node see.
    pub fn renews(&self, service: Service, node: &Node) -> bool {
        self.certificate_days.is_some()
            && match service {
                Service::RegistrySvc => node.services.contains(&service),
                Service::Healthd => self.shows_page(node).is_some(),
                _ => false,
            }
    }

    /// The page as a node publishes it.
    pub fn shows_page(&self, node: &Node) -> Option<&Page> {
        let page = self.page.as_ref();
        page.filter(|_| node.services.contains(&Service::Healthd))
    }

    /// The site that Outpost was made for: three masters and three workers of `ocp4.redhat.ren`.
    pub fn example() -> Self {
        let lan = |last| IpAddr::V4(Ipv4Addr::new(192, 168, 7, last));
        let node = |name: &str, role, last| Node {
            name: name.to_owned(),
            role,
            addresses: vec![lan(last)],
            interface: None,
            services: Service::of(role, false),
        };
        Self {
            name: "ocp4".to_owned(),
            domain: "ocp4.redhat.ren".to_owned(),
            networks: vec![IpNet::new_assert(lan(0), 24)],
            clients: vec![IpNet::new_assert(Ipv4Addr::new(10, 128, 0, 0).into(), 14)],
            interface: "br-ex".to_owned(),
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
                serial: Some(2_014_080_704),
                refresh: "3H".to_owned(),
                retry: "30M".to_owned(),
                expire: "2W".to_owned(),
                minimum: "1W".to_owned(),
                name_servers: vec![
                    Host::new("ns1", IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8))),
                    Host::new("ns2", IpAddr::V4(Ipv4Addr::new(8, 8, 4, 4))),
                ],
            },
            published: Published::usual(&Registry::default(), Role::Master),
            hosts: vec![
                Host::new("helper", lan(11)),
                Host::new("yum", lan(1)),
                Host::new("nexus", lan(1)),
                Host::new("git", lan(11)),
                Host::new("tmp-registry", lan(177)),
            ],
            records: Vec::new(),
            upstreams: Vec::new(),
            forwards: Vec::new(),
            time: Time::default(),
            health: Schedule::default(),
            vips: Vec::new(),
            registry: Registry::default(),
            page: None,
            cluster: None,
            pki: "pki".into(),
            certificate_days: None,
            platform: Platform {
                openshift: Some((4, 18)),
                runtime: Runtime::Quadlet(Podman::V5_2),
            },
        }
    }

    /// The same site with its masters at other addresses, each port moved as `port` says; leaves out
    /// offers on a port that it has no place for.
    ///
    /// Masters beyond the addresses given stay where they are.
    pub fn with_masters_at(
        mut self,
        addresses: &[Ipv4Addr],
        port: impl Fn(u16) -> Option<u16>,
    ) -> Self {
        let masters = self
            .nodes
            .iter_mut()
            .filter(|node| node.role == Role::Master);
        for (node, address) in masters.zip(addresses) {
            node.addresses = vec![IpAddr::V4(*address)];
        }
        self.published.retain_mut(|published| {
            port(published.port)
                .map(|port| published.port = port)
                .is_some()
        });
        self
    }

    /// The masters, in order.
    pub fn masters(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Master)
    }

    /// The nodes that offer something, in order.
    pub fn offering<'a>(&'a self, published: &'a Published) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .iter()
            .filter(|node| match &published.offered_by {
                OfferedBy::Roles(roles) => roles.contains(&node.role),
                OfferedBy::Running(service) => node.services.contains(service),
            })
    }

    /// `name.domain`; a `*` stands for any label, so one is made up.
    pub fn example_name(&self, name: &str) -> String {
        match name.strip_prefix('*') {
            _ if name == "@" => self.domain.clone(),
            Some(rest) => format!("c{rest}.{}", self.domain),
            None => format!("{name}.{}", self.domain),
        }
    }
}

impl Node {
    /// The address for other nodes.
    pub fn address(&self) -> IpAddr {
        // No node is made without an address; the unspecified one belongs to no node.
        self.addresses
            .first()
            .copied()
            .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl Published {
    /// The name for lb-proxy: `API` is `api`.
    pub fn frontend(&self) -> String {
        self.what.to_lowercase()
    }

    /// The ports of OpenShift's nodes and of the site's registry; nodes of the role `routers` run the routers.
    pub fn usual(registry: &Registry, routers: Role) -> Vec<Self> {
        let offered = |what: &str, role, port, proxy_port, names: &[&str]| Self {
            what: what.to_owned(),
            role,
            port,
            proxy_port,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            vip: None,
            offered_by: OfferedBy::Roles(vec![match role {
                VipRole::Ingress => routers,
                VipRole::Api | VipRole::Plain => Role::Master,
            }]),
        };
        vec![
            offered(
                "API",
                VipRole::Api,
                6443,
                Some(9445),
                &["@", "api", "api-int"],
            ),
            offered("machine-config", VipRole::Api, 22623, Some(9623), &[]),
            offered("ingress", VipRole::Ingress, 443, Some(9443), &["*.apps"]),
            offered("ingress-http", VipRole::Ingress, 80, Some(9080), &[]),
            Self::registry(registry),
        ]
    }

    /// The registry, which every node that runs it offers itself.
    pub fn registry(registry: &Registry) -> Self {
        Self {
            what: "registry".to_owned(),
            role: VipRole::Plain,
            port: registry.port,
            proxy_port: None,
            names: registry.names.clone(),
            vip: None,
            offered_by: OfferedBy::Running(Service::RegistrySvc),
        }
    }

    /// The site's page, which every node that runs healthd offers itself.
    pub fn page(page: &Page) -> Self {
        Self {
            what: "page".to_owned(),
            role: VipRole::Plain,
            port: page.port,
            proxy_port: None,
            names: page.names.clone(),
            vip: None,
            offered_by: OfferedBy::Running(Service::Healthd),
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            names: vec!["registry".to_owned(), "quay".to_owned()],
            port: 5443,
            cluster_port: 5444,
            users: None,
            anonymous_pull: true,
            open: false,
            quotas: Vec::new(),
            mirrors: Vec::new(),
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
            |p| (p > 80 && p < 22623).then_some(if p == 443 { 8443 } else { p }),
        );
        let addresses: Vec<String> = moved
            .nodes
            .iter()
            .map(|node| node.address().to_string())
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
