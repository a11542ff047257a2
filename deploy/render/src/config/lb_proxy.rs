//! The configuration of lb-proxy.
//!
//! On a node it listens beside what the node itself offers: the API server has the port that clients
//! know, so lb-proxy has another, and the node redirects what comes to a virtual IP there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ::config::lb_proxy::{
    self as file, AddressRange, Backend, Follow, Forward, HealthCheck, Kind, LbProxy, OpenShift,
    Role, Server, Swap, VirtualAddress,
};
use ::config::site::{Network, ServiceForward};
use ::config::{Address, Admin, AdminListen, HumanDuration, Ip, Whole, at};
use ipnet::IpNet;

use super::{Layout, endpoint, in_utf8, written};
use site::service::Service;
use site::{Cluster, Node, Published, Site, Vip, VipRole};

/// The pool of the addresses that clusterd gives.
pub(super) const SERVICE_POOL: &str = "services";

/// The pool of those that others give.
const FOLLOWED_POOL: &str = "followed";

/// Renders the file: a frontend for each thing that nodes offer, and a virtual router for each
/// address that one of them holds.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let node = layout.node();
    let has_vips = node.is_some() && !site.vips.is_empty();
    let published = || {
        let port = |published| Some((published, listen_port(published, layout)?));
        site.published.iter().filter_map(port)
    };
    let vips = node.map(|node| {
        let vips = site.vips.iter();
        vips.flat_map(|vip| virtual_ip(site, node, vip)).collect()
    });
    let serves = node.is_some() && site.cluster.as_ref().is_some_and(Cluster::serves);
    let pools = node.map(|node| service_pools(site, node));
    let config = LbProxy {
        drain: HumanDuration(layout.drain),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::LbProxy)),
        },
        health: file::Health {
            endpoint: endpoint(layout),
            ..file::Health::default()
        },
        cluster: (follows_any(site, layout) || serves).then(|| file::Cluster {
            socket: in_utf8(&layout.clusterd_socket),
            networks: site.networks.iter().copied().map(Network::from).collect(),
            node: node.filter(|_| serves).map(|node| node.name.clone()),
        }),
        state: in_utf8(&layout.state.join("lb-proxy")),
        swap: Swap::at(in_utf8(&layout.swap_socket)),
        openshift: OpenShift {
            cluster: has_vips.then(|| site.name.clone()),
            ..OpenShift::default()
        },
        frontend: published()
            .map(|(published, port)| frontend(published, port, layout))
            .collect(),
        backend: published()
            .map(|(published, _)| backend(site, published, layout))
            .collect(),
        vip: vips.unwrap_or_default(),
        pool: pools.unwrap_or_default(),
        ..LbProxy::default()
    };
    let numbers =
        "Virtual routers have the numbers that OpenShift computes from the cluster's name.";
    written(Service::LbProxy, &config)
        .comment(&at!["openshift"], numbers)
        .to_string()
}

//--- Frontends and backends

/// The listeners of lb-proxy, on every address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// The frontend's name, by which it asks systemd for its sockets.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// The offers that lb-proxy balances on a node, in the order of the site's file.
pub fn frontends(site: &Site, node: &Node) -> Vec<Frontend> {
    if !node.services.contains(&Service::LbProxy) {
        return Vec::new();
    }
    let frontend = |published: &Published| {
        Some(Frontend {
            name: published.frontend(),
            port: published.proxy_port?,
        })
    };
    site.published.iter().filter_map(frontend).collect()
}

/// The port that clients connect to, if they connect to lb-proxy. A demonstration has the ports of the masters to
/// itself.
fn listen_port(published: &Published, layout: &Layout) -> Option<u16> {
    match layout.node() {
        None => Some(published.port),
        Some(_) => published.proxy_port,
    }
}

fn frontend(published: &Published, port: u16, layout: &Layout) -> file::Frontend {
    let listen = layout.proxy.iter().map(|ip| SocketAddr::new(*ip, port));
    let name = published.frontend();
    file::Frontend {
        role: layout
            .node()
            .map_or(Role::Plain, |_| frontend_role(published)),
        backend: Some(name.clone()),
        ..file::Frontend::new(name, listen.map(Address).collect())
    }
}

/// The ports whose servers lb-proxy asks for `/readyz` as those of the API.
pub(super) fn api_ports(site: &Site, layout: &Layout) -> BTreeSet<u16> {
    let published = site.published.iter().filter(|published| {
        let is_balanced = layout.node().is_some() && published.proxy_port.is_some();
        is_balanced && frontend_role(published) == Role::Api
    });
    published.map(|published| published.port).collect()
}

/// The role in OpenShift, which decides how its servers are checked and chosen.
pub(super) fn frontend_role(published: &Published) -> Role {
    match published.role {
        // Behind the same address as the API, and no API server: it has no /readyz.
        VipRole::Api if published.port == MACHINE_CONFIG => Role::Plain,
        role => role_of(role),
    }
}

fn role_of(role: VipRole) -> Role {
    match role {
        VipRole::Api => Role::Api,
        VipRole::Ingress => Role::Ingress,
        VipRole::Plain => Role::Plain,
    }
}

/// Servers are checked as their role says. Those of a demonstration only accept connections. The schedule is
/// healthd's, as that of the zone's LUA records.
fn backend(site: &Site, published: &Published, layout: &Layout) -> Backend {
    let check = HealthCheck {
        kind: Some(Kind::Tcp),
        ..HealthCheck::default()
    };
    let server = |node: &Node| {
        let address = SocketAddr::new(node.address(), published.port);
        Server::new(&node.name, address)
    };
    Backend {
        check: layout.node().is_none().then_some(check),
        follow: follow(site, published, layout),
        server: site.offering(published).map(server).collect(),
        ..Backend::new(published.frontend())
    }
}

/// The nodes of the cluster that join the servers of what is published. In a demonstration the masters are responders, whatever
/// nodes its manifests have.
fn follow(site: &Site, published: &Published, layout: &Layout) -> Option<Follow> {
    let cluster = site.cluster.as_ref().filter(|_| layout.node().is_some())?;
    let nodes = cluster.followed(published);
    let port = Whole::new(published.port.into())?;
    (!nodes.is_empty()).then_some(Follow { nodes, port })
}

/// Whether any backend follows nodes of the cluster.
fn follows_any(site: &Site, layout: &Layout) -> bool {
    let mut balanced = site
        .published
        .iter()
        .filter(|published| listen_port(published, layout).is_some());
    balanced.any(|published| follow(site, published, layout).is_some())
}

//--- Virtual IPs

/// A virtual router for each family; both move together.
fn virtual_ip(site: &Site, node: &Node, vip: &Vip) -> Vec<file::Vip> {
    let is_both = [true, false]
        .into_iter()
        .all(|v4| vip.addresses.iter().any(|one| one.addr().is_ipv4() == v4));
    let addresses = vip.addresses.iter().enumerate();
    addresses
        .map(|(index, address)| {
            let name = match (is_both, index) {
                (true, 1..) => format!("{}-{}", vip.name, family(address.addr())),
                (_, _) => vip.name.clone(),
            };
            file::Vip {
                group: is_both.then(|| vip.name.clone()),
                ..virtual_router(site, node, vip, (name, *address))
            }
        })
        .collect()
}

fn virtual_router(
    site: &Site,
    node: &Node,
    vip: &Vip,
    (name, address): (String, IpNet),
) -> file::Vip {
    let is_ipv4 = address.addr().is_ipv4();
    let of_family = |node: &Node| {
        let addresses = node.addresses.iter();
        addresses
            .copied()
            .find(|address| address.is_ipv4() == is_ipv4)
    };
    let interface = node.interface.as_ref().unwrap_or(&site.interface);
    let others = site
        .nodes
        .iter()
        .filter(|other| other.name != node.name && other.services.contains(&Service::LbProxy));
    let peers: Vec<Ip> = others.filter_map(of_family).map(Ip).collect();
    let router_id = vip.router_id;
    file::Vip {
        // Its number follows from the role, unless it has one of its own.
        role: match router_id {
            Some(_) => Role::Plain,
            None => role_of(vip.role),
        },
        router_id: router_id.and_then(|id| Whole::new(id.into())),
        // An empty list would say that the peers are not known yet.
        peers: (!peers.is_empty()).then_some(peers),
        source: of_family(node).map(Ip),
        lease: grants_leases(site),
        track: tracked(site, vip).map(|tracked| vec![format!("frontend:{}", tracked.frontend())]),
        ..file::Vip::new(name, vec![VirtualAddress(address)], interface)
    }
}

/// The addresses of Services of the cluster.
fn service_pools(site: &Site, node: &Node) -> Vec<file::Pool> {
    let Some(cluster) = &site.cluster else {
        return Vec::new();
    };
    let others = site
        .nodes
        .iter()
        .filter(|other| other.name != node.name && other.services.contains(&Service::LbProxy));
    let peers: Vec<Ip> = others
        .flat_map(|other| other.addresses.iter().copied().map(Ip))
        .collect();
    let interface = node.interface.as_ref().unwrap_or(&site.interface);
    let lists = [
        (SERVICE_POOL, &cluster.addresses),
        (FOLLOWED_POOL, &cluster.follow_addresses),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let pool = |(name, list): (&str, &Vec<AddressRange>)| file::Pool {
        name: name.to_owned(),
        addresses: list.clone(),
        automatic: true,
        cluster: Some(match cluster.forward {
            ServiceForward::KubeProxy => Forward::KubeProxy,
            ServiceForward::NodePorts => Forward::NodePorts,
            ServiceForward::Endpoints => Forward::Endpoints,
        }),
        lease: grants_leases(site),
        interface: interface.clone(),
        priority: None,
        interval: None,
        // An empty list would say that the peers are not known yet.
        peers: (!peers.is_empty()).then(|| peers.clone()),
        notify: None,
    };
    lists.map(pool).collect()
}

/// Whether the healthds of the site grant leases: three or more of them exchange findings, and each lb-proxy has one beside it.
fn grants_leases(site: &Site) -> bool {
    let observers = site.observers();
    let mut proxies = site
        .nodes
        .iter()
        .filter(|node| node.services.contains(&Service::LbProxy));
    !observers.is_empty() && proxies.all(|proxy| site.observes(proxy))
}

/// The destination that a node must reach to hold an address: the first thing behind it. The second
/// may be away without making any other node a better place.
fn tracked<'a>(site: &'a Site, vip: &Vip) -> Option<&'a Published> {
    let balanced = || site.published.iter().filter(|p| p.proxy_port.is_some());
    balanced()
        .find(|published| published.vip.as_ref() == Some(&vip.name))
        .or_else(|| {
            balanced().find(|published| {
                published.role == vip.role && vip.role != VipRole::Plain && published.vip.is_none()
            })
        })
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ipv4" } else { "ipv6" }
}

/// The machine configuration server.
const MACHINE_CONFIG: u16 = 22_623;

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    const BEGINNING: &str = r#"# lb-proxy, rendered by `outpost`.
version = "v1"
state = "/run/user/1000/outpost-up/state/lb-proxy"
drain = "2s"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"

[swap]
socket = "/run/user/1000/outpost-up/lb-proxy.swap"

[[frontend]]
name = "api"
listen = ["127.0.0.1:6443"]
backend = "api"

[[frontend]]
name = "ingress"
listen = ["127.0.0.1:8443"]
backend = "ingress"
"#;

    const BACKEND: &str = r#"
[[backend]]
name = "api"

[backend.check]
kind = "tcp"

[[backend.server]]
name = "master-0"
address = "127.0.0.13:6443"

[[backend.server]]
name = "master-1"
address = "127.0.0.14:6443"

[[backend.server]]
name = "master-2"
address = "127.0.0.15:6443"
"#;

    #[test]
    fn each_thing_that_masters_offer_has_a_frontend() {
        let (site, layout) = demo();
        let text = render(&site, &layout);
        assert!(text.starts_with(BEGINNING), "{text}");
        assert!(text.contains(BACKEND), "{text}");
        assert_eq!(text.matches("[[frontend]]").count(), site.published.len());
        assert_eq!(text.matches("[[backend.server]]").count(), 9);
    }

    #[test]
    fn nodes_of_the_cluster_join_what_they_offer() {
        let mut site = Site::example();
        let mut cluster = Cluster::new(site::ClusterSource::Kubeconfig(None));
        cluster.follow = vec![site::ClusterNodes::Masters, site::ClusterNodes::Ingress];
        site.cluster = Some(cluster);
        let text = |site: &Site| render(site, &Layout::of_node(site, &site.nodes[0]));
        let rendered = text(&site);
        let table = "[cluster]\nnetworks = [\"192.168.7.0/24\"]\n";
        assert!(rendered.contains(table), "{rendered}");
        let followed: Vec<&str> = rendered
            .lines()
            .filter(|line| line.starts_with("nodes =") || line.starts_with("port ="))
            .collect();
        assert_eq!(
            followed,
            [
                "nodes = [\"masters\"]",
                "port = 6443",
                "nodes = [\"masters\"]",
                "port = 22623",
                "nodes = [\"ingress\"]",
                "port = 443",
                "nodes = [\"ingress\"]",
                "port = 80",
            ],
            "{rendered}"
        );
        site.cluster.as_mut().unwrap().follow.clear();
        assert!(!text(&site).contains("[cluster]"));
    }

    fn with_vip(addresses: &[&str], router_id: Option<u8>) -> Site {
        let mut site = Site::example();
        for (index, node) in site.nodes.iter_mut().enumerate() {
            let six = format!("2001:db8::{:x}", 0x13 + index);
            node.addresses.push(six.parse().unwrap());
        }
        site.vips = vec![Vip {
            name: "api".to_owned(),
            role: VipRole::Api,
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
            router_id,
        }];
        site
    }

    fn vips_of(site: &Site, node: usize) -> String {
        let text = render(site, &Layout::of_node(site, &site.nodes[node]));
        let vips = text.split_inclusive("\n\n");
        vips.filter(|block| block.starts_with("[[vip]]")).collect()
    }

    #[test]
    fn an_address_is_advertised_to_the_other_masters_of_its_family() {
        let site = with_vip(&["192.168.7.100/24"], None);
        assert_eq!(
            vips_of(&site, 1),
            r#"[[vip]]
name = "api"
role = "api"
addresses = ["192.168.7.100/24"]
interface = "br-ex"
peers = ["192.168.7.13", "192.168.7.15"]
source = "192.168.7.14"
track = ["frontend:api"]
lease = true
"#
        );
    }

    #[test]
    fn addresses_of_both_families_move_together() {
        let site = with_vip(&["192.168.7.100/24", "2001:db8::100/64"], Some(51));
        let text = vips_of(&site, 0);
        assert_eq!(text.matches("group = \"api\"\n").count(), 2, "{text}");
        assert_eq!(text.matches("router-id = 51\n").count(), 2, "{text}");
        assert!(text.contains("name = \"api-ipv6\"\n"), "{text}");
        assert!(
            text.contains(
                "peers = [\"2001:db8::14\", \"2001:db8::15\"]\nsource = \"2001:db8::13\"\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_node_alone_names_no_peers() {
        let mut site = with_vip(&["192.168.7.100/24"], None);
        site.nodes.truncate(1);
        site.nodes[0].interface = Some("eth1".to_owned());
        let text = vips_of(&site, 0);
        assert!(!text.contains("peers"), "{text}");
        assert!(!text.contains("lease"), "{text}");
        assert!(text.contains("interface = \"eth1\"\n"), "{text}");
    }

    #[test]
    fn a_node_leaves_the_ports_of_what_it_offers_alone() {
        let site = Site::example();
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let listens: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("listen = [\"0.0.0.0:"))
            .collect();
        assert_eq!(
            listens,
            [
                "9445\", \"[::]:9445\"]",
                "9623\", \"[::]:9623\"]",
                "9443\", \"[::]:9443\"]",
                "9080\", \"[::]:9080\"]"
            ]
        );
        assert_eq!(text.matches("role = \"api\"").count(), 1, "{text}");
        assert_eq!(text.matches("role = \"ingress\"").count(), 2, "{text}");
        assert!(!text.contains("check"), "roles say how: {text}");
    }
}
