//! The configuration of dns-authd.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ::config::dns_authd::{
    Cluster, DnsAuthd, Health, History, Kubernetes, Notify, PortProbe, PortProbeKind, Zones,
};
use ::config::site::Network;
use ::config::{Address, Admin, AdminListen, Cookies, HumanDuration, Whole, at};
use dns_kubernetes::Options;

use super::{Layout, askers, endpoint, in_utf8, lb_proxy, lists, written, zone_list};
use site::Site;
use site::paths;
use site::service::Service;

/// Renders the file.
///
/// A listener beyond loopback is for the other nodes of the site, and answers no other client.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let is_open = layout.authority.iter().any(|at| !at.ip().is_loopback());
    let is_fast = *layout.schedule.interval < SHORTEST_TTL;
    let health = Health {
        endpoint: endpoint(layout),
        port: lb_proxy::api_ports(site, layout)
            .into_iter()
            .map(|port| PortProbe {
                port: Whole::clamped(port.into()),
                kind: PortProbeKind::Https,
                path: "/readyz".to_owned(),
            })
            .collect(),
        ..Health::default()
    };
    let no_ttl = HumanDuration(Duration::ZERO);
    let config = DnsAuthd {
        drain: HumanDuration(layout.drain),
        listen: layout.authority.iter().copied().map(Address).collect(),
        allow_from: is_open.then(|| askers(site)),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::DnsAuthd)),
        },
        zones: Zones {
            named_conf: Some(in_utf8(
                &layout.directory_of(Service::DnsAuthd).join(zone_list::NAME),
            )),
            // A site file may have a `dns.serial` of its own that stays or falls. Its zone is to be served all the same; dns-authd says what
            // secondaries make of it.
            serial_must_rise: false,
            ..Zones::default()
        },
        cookies: Cookies {
            cookie_secret_file: layout.node().map(|_| paths::cookie(Service::DnsAuthd)),
            ..Cookies::default()
        },
        // Its cache has what was served before.
        notify: Notify {
            also: resolver(layout).into_iter().map(Address).collect(),
            ..Notify::default()
        },
        // The versions before: for differences to secondaries, and for a way back.
        history: History {
            directory: Some(in_utf8(&layout.state.join("dns-authd"))),
            ..History::default()
        },
        kubernetes: cluster(site, layout).map(|table| Kubernetes {
            socket: in_utf8(&layout.clusterd_socket),
            ..table
        }),
        cluster: node_lists(site, layout),
        health: match is_fast {
            true => Health {
                min_ttl: no_ttl,
                unknown_ttl: no_ttl,
                ..health
            },
            false => health,
        },
        ..DnsAuthd::default()
    };
    let comment =
        "The next probe comes before the shortest TTL is over: no cache may keep an answer.";
    let written = written(Service::DnsAuthd, &config);
    match is_fast {
        true => written.comment(&at!["health", "unknown-ttl"], comment),
        false => written,
    }
    .to_string()
}

/// The dns-recursor here, at an address at which it takes NOTIFY: on loopback, or where its upstreams are.
fn resolver(layout: &Layout) -> Option<SocketAddr> {
    let listening = layout
        .dns
        .iter()
        .filter(|_| layout.runs(Service::DnsRecursor));
    let mut reached = listening.map(|at| match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
        _ => *at,
    });
    reached.find(|at: &SocketAddr| {
        let is_upstream = layout.authorities.iter().any(|it| it.ip() == at.ip());
        at.ip().is_loopback() || is_upstream
    })
}

/// The names of the cluster that the site answers for, all but the socket of clusterd. A demonstration with manifests has them
/// too.
fn cluster(site: &Site, layout: &Layout) -> Option<Kubernetes> {
    match (&site.cluster, layout.node()) {
        (Some(cluster), Some(_)) => Some(Kubernetes {
            domain: cluster.domain.clone()?,
            reverse: cluster.reverse.iter().copied().map(Network::from).collect(),
            ..Kubernetes::default()
        }),
        (None, Some(_)) => None,
        (_, None) => layout.manifests.is_some().then(Kubernetes::default),
    }
}

/// The lists of nodes that the site's zone names. In a demonstration the masters are responders, which no node joins.
fn node_lists(site: &Site, layout: &Layout) -> Option<Cluster> {
    let mut list = lists::lists(site);
    let is_node = layout.node().is_some();
    if !is_node {
        list.iter_mut().for_each(|list| list.nodes.clear());
    }
    (!list.is_empty()).then(|| Cluster {
        socket: in_utf8(&layout.clusterd_socket),
        networks: site.networks.iter().copied().map(Network::from).collect(),
        excluded: lists::virtual_ips(site),
        state: is_node.then(|| layout.state.join("dns-authd").join("nodes")),
        list,
    })
}

/// The zones of the cluster that dns-authd serves, without a final dot.
pub(super) fn cluster_zones(site: &Site, layout: &Layout) -> Vec<String> {
    // A site file has no networks that dns-authd refuses.
    let options = cluster(site, layout).and_then(|table| Options::of(&table).ok());
    let zones = options.iter().flat_map(Options::apexes);
    zones
        .map(|zone| zone.to_string().trim_end_matches('.').to_owned())
        .collect()
}

/// A TTL is a whole number of seconds (RFC 2181 §8).
const SHORTEST_TTL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use ::config::DurationWithin;
    use ::config::nodes::ClusterNodes;

    use super::super::layout::Place;
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn probes_that_are_seconds_apart_leave_ttls_to_the_service() {
        let (site, mut layout) = demo();
        layout.schedule.interval = DurationWithin::clamped(Duration::from_secs(1));
        let text = render(&site, &layout);
        assert!(!text.contains("ttl"), "{text}");
    }

    #[test]
    fn what_other_nodes_ask_answers_the_site_alone() {
        let mut site = Site::example();
        let text = |site: &Site| render(site, &Layout::of_node(site, &site.nodes[0]));
        let allowed = "listen = [\"0.0.0.0:5301\", \"[::]:5301\"]\nallow-from = [\"127.0.0.0/8\", \"::1/128\", \"192.168.7.0/24\", \"10.128.0.0/14\"]\n";
        assert!(text(&site).contains(allowed), "{}", text(&site));
        site.nodes.truncate(1);
        assert!(!text(&site).contains("allow-from"), "{}", text(&site));
    }

    #[test]
    fn the_resolver_of_the_node_is_notified() {
        let site = Site::example();
        let mut layout = Layout::of_node(&site, &site.nodes[0]);
        let also = "[notify]\nalso = [\"127.0.0.1:53\"]\n";
        assert!(render(&site, &layout).contains(also));
        let own: SocketAddr = ([192, 168, 7, 99], 5300).into();
        layout.dns = vec![own];
        assert_eq!(resolver(&layout), None, "it would not count from there");
        layout.authorities = vec![(own.ip(), 5301).into()];
        assert_eq!(resolver(&layout), Some(own));
        if let Place::Node(node) = &mut layout.place {
            node.services
                .retain(|service| *service != Service::DnsRecursor);
        }
        assert_eq!(resolver(&layout), None);
    }

    #[test]
    fn a_name_asks_the_api_as_the_balancer_does() {
        let site = Site::example();
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let probe = "[[health.port]]\nport = 6443\npath = \"/readyz\"\n";
        assert!(text.contains(probe), "{text}");
        let (site, layout) = demo();
        assert!(
            !render(&site, &layout).contains("/readyz"),
            "responders have none"
        );
    }

    #[test]
    fn a_cluster_with_a_domain_has_its_names_here() {
        let mut site = Site::example();
        site.cluster = Some(site::Cluster::new(site::ClusterSource::Kubeconfig(None)));
        let text = |site: &Site| render(site, &Layout::of_node(site, &site.nodes[0]));
        assert!(!text(&site).contains("kubernetes"), "{}", text(&site));
        let cluster = site.cluster.as_mut().unwrap();
        cluster.domain = Some("k8s.example.org".to_owned());
        cluster.reverse = vec!["172.30.0.0/16".parse().unwrap()];
        let table = "[kubernetes]\ndomain = \"k8s.example.org\"\nreverse = [\"172.30.0.0/16\"]\n";
        assert!(text(&site).contains(table), "{}", text(&site));
    }

    #[test]
    fn names_of_nodes_follow_the_cluster_as_far_as_the_site_says() {
        let mut site = Site::example();
        let mut cluster = site::Cluster::new(site::ClusterSource::Kubeconfig(None));
        cluster.follow = vec![ClusterNodes::Masters];
        site.cluster = Some(cluster);
        let lists = |site: &Site| {
            let table = node_lists(site, &Layout::of_node(site, &site.nodes[0]));
            let table = table.map(|table| table.list).unwrap_or_default();
            let names = table
                .into_iter()
                .map(|list| (list.name, list.members.len()));
            names.collect::<Vec<_>>()
        };
        site.vips.clear();
        let all = lists(&site);
        assert!(
            all.iter().any(|(name, n)| name == "api" && *n == 3),
            "{all:?}"
        );
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let table = "[cluster]\nnetworks = [\"192.168.7.0/24\"]\n";
        assert!(text.contains(table), "{text}");
        site.cluster.as_mut().unwrap().follow.clear();
        assert_eq!(lists(&site), []);
    }

    #[test]
    fn the_manifests_of_a_demonstration_have_names() {
        let (site, mut layout) = demo();
        layout.manifests = Some("/srv/manifests".into());
        let text = render(&site, &layout);
        let table = "[kubernetes]\nsocket = \"/run/user/1000/outpost-up/clusterd.sock\"\n";
        assert!(text.contains(table), "{text}");
        assert_eq!(cluster_zones(&site, &layout), ["cluster.local"]);
    }

    #[test]
    fn the_demonstration_is_this() {
        let (site, layout) = demo();
        assert_eq!(
            render(&site, &layout),
            r#"# dns-authd, rendered by `outpost`.
version = "v1"
drain = "2s"

[zones]
named-conf = "/run/user/1000/outpost-up/zones.conf"
serial-must-rise = false

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"
# The next probe comes before the shortest TTL is over: no cache may keep an answer.
unknown-ttl = "0s"
min-ttl = "0s"

[history]
directory = "/run/user/1000/outpost-up/state/dns-authd"

[notify]
also = ["127.0.0.1:5300"]
"#
        );
    }
}
