//! The configuration of lb-proxy.
//!
//! On a node it listens beside what the node itself offers: the API server has the port that clients
//! know, so lb-proxy has another, and the node redirects what comes to a virtual IP there.

use std::net::{IpAddr, SocketAddr};

use config_text::toml::{duration, list, quoted};
use ipnet::IpNet;

use super::{Layout, admin, endpoint, head, path};
use site::service::Service;
use site::{Node, Published, Site, Vip, VipRole};

/// Renders the file: a frontend for each thing that nodes offer, and a virtual router for each
/// address that one of them holds.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let mut text = [
        head(Service::LbProxy, layout),
        admin(Service::LbProxy, layout),
        format!(
            "\n[health]\nendpoint = {}\n",
            quoted(&endpoint(layout).to_string())
        ),
        format!("\n[swap]\nsocket = {}\n", path(&layout.swap_socket)),
    ]
    .concat();
    let node = layout.node();
    if node.is_some() && !site.vips.is_empty() {
        text.push_str(&format!(
            "\n# Virtual routers have the numbers that OpenShift computes from the cluster's name.\n[openshift]\ncluster = {}\n",
            quoted(&site.name)
        ));
    }
    for published in &site.published {
        if let Some(port) = listen_port(published, layout) {
            text.push_str(&frontend(published, port, layout));
            text.push_str(&backend(site, published, layout));
        }
    }
    if let Some(node) = node {
        for vip in &site.vips {
            text.push_str(&virtual_ip(site, node, vip));
        }
    }
    text
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

/// Where clients connect to reach something, if lb-proxy is where they connect. A demonstration has
/// the ports of the masters to itself.
fn listen_port(published: &Published, layout: &Layout) -> Option<u16> {
    match layout.node() {
        None => Some(published.port),
        Some(_) => published.proxy_port,
    }
}

fn frontend(published: &Published, port: u16, layout: &Layout) -> String {
    let listen = layout.proxy.iter().map(|ip| SocketAddr::new(*ip, port));
    let name = quoted(&published.frontend());
    let role = match layout.node().and_then(|_| role(published)) {
        Some(role) => format!("role = \"{role}\"\n"),
        None => String::new(),
    };
    format!(
        "\n[[frontend]]\nname = {name}\nlisten = {}\n{role}backend = {name}\n",
        list(listen)
    )
}

/// The role in OpenShift, which decides how its servers are checked and chosen.
fn role(published: &Published) -> Option<&'static str> {
    match published.role {
        // Behind the same address as the API, and no API server: it has no /readyz.
        VipRole::Api if published.port == MACHINE_CONFIG => None,
        role => role_name(role),
    }
}

fn role_name(role: VipRole) -> Option<&'static str> {
    match role {
        VipRole::Api => Some("api"),
        VipRole::Ingress => Some("ingress"),
        VipRole::Plain => None,
    }
}

/// Servers are checked as their role says. Those of a demonstration only accept connections, and
/// are probed as often as those of the zone's LUA records.
fn backend(site: &Site, published: &Published, layout: &Layout) -> String {
    let check = match layout.node() {
        Some(_) => String::new(),
        None => format!(
            "check = {{ kind = \"tcp\", interval = {} }}\n",
            duration(layout.probe_interval)
        ),
    };
    let mut text = format!(
        "\n[[backend]]\nname = {}\n{check}",
        quoted(&published.frontend())
    );
    for node in site.offering(published) {
        let address = SocketAddr::new(node.address(), published.port);
        text.push_str(&format!(
            "\n[[backend.server]]\nname = {}\naddress = {}\n",
            quoted(&node.name),
            quoted(&address.to_string())
        ));
    }
    text
}

//--- Virtual IPs

/// A virtual router for each family; both move together.
fn virtual_ip(site: &Site, node: &Node, vip: &Vip) -> String {
    let is_both = [true, false]
        .into_iter()
        .all(|v4| vip.addresses.iter().any(|one| one.addr().is_ipv4() == v4));
    let mut text = String::new();
    for (index, address) in vip.addresses.iter().enumerate() {
        let name = match (is_both, index) {
            (true, 1..) => format!("{}-{}", vip.name, family(address.addr())),
            (_, _) => vip.name.clone(),
        };
        text.push_str(&virtual_router(site, node, vip, (&name, address)));
        if is_both {
            text.push_str(&format!("group = {}\n", quoted(&vip.name)));
        }
    }
    text
}

fn virtual_router(site: &Site, node: &Node, vip: &Vip, (name, address): (&str, &IpNet)) -> String {
    let is_ipv4 = address.addr().is_ipv4();
    let of_family = |node: &Node| {
        let addresses = node.addresses.iter();
        addresses
            .copied()
            .find(|address| address.is_ipv4() == is_ipv4)
    };
    let mut text = format!("\n[[vip]]\nname = {}\n", quoted(name));
    match (vip.router_id, role_name(vip.role)) {
        (Some(id), _) => text.push_str(&format!("router-id = {id}\n")),
        (None, Some(role)) => text.push_str(&format!("role = \"{role}\"\n")),
        // The site file has no such virtual IP.
        (None, None) => {}
    }
    let interface = node.interface.as_ref().unwrap_or(&site.interface);
    text.push_str(&format!(
        "addresses = {}\ninterface = {}\n",
        list([address]),
        quoted(interface)
    ));
    let others = site
        .nodes
        .iter()
        .filter(|other| other.name != node.name && other.services.contains(&Service::LbProxy));
    let peers: Vec<IpAddr> = others.filter_map(of_family).collect();
    // An empty list would say that the peers are not known yet.
    if !peers.is_empty() {
        text.push_str(&format!("peers = {}\n", list(peers)));
    }
    if let Some(source) = of_family(node) {
        text.push_str(&format!("source = {}\n", quoted(&source.to_string())));
    }
    if let Some(tracked) = tracked(site, vip) {
        let tracked = format!("frontend:{}", tracked.frontend());
        text.push_str(&format!("track = {}\n", list([tracked])));
    }
    text
}

/// What a node has to be able to reach to hold an address: the first thing behind it. The second
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
drain = "2s"

[admin]
listen = "127.0.0.1:9404"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"

[swap]
socket = "/run/user/1000/outpost-up/lb-proxy.swap"

[[frontend]]
name = "api"
listen = ["127.0.0.1:6443"]
backend = "api"

[[backend]]
name = "api"
check = { kind = "tcp", interval = "500ms" }

[[backend.server]]
name = "master-0"
address = "127.0.0.13:6443"

[[backend.server]]
name = "master-1"
address = "127.0.0.14:6443"

[[backend.server]]
name = "master-2"
address = "127.0.0.15:6443"

[[frontend]]
name = "ingress"
listen = ["127.0.0.1:8443"]
backend = "ingress"
"#;

    #[test]
    fn each_thing_that_masters_offer_has_a_frontend() {
        let (site, layout) = demo();
        let text = render(&site, &layout);
        assert!(text.starts_with(BEGINNING), "{text}");
        assert_eq!(text.matches("[[frontend]]").count(), site.published.len());
        assert_eq!(text.matches("[[backend.server]]").count(), 9);
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
