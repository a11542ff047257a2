//! The configuration of dns-recursor.

use std::net::SocketAddr;

use ::config::dns_recursor::{Cache, Cluster, DnsRecursor, Forward, Health};
use ::config::{Admin, AdminListen, Cookies, DnsAddress, HumanDuration, at};

use super::{Layout, askers, dns_authd, endpoint, in_utf8, reverse, written};
use site::Site;
use site::paths;
use site::service::Service;

/// Renders the file.
///
/// The zones of the site come from the dns-authd of this very node, so that a node answers for the site
/// with no other there. While its own is away, those of the other nodes answer as well as it would.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let is_node = layout.node().is_some();
    let has_choice =
        layout.authorities.len() > 1 || !layout.upstreams.is_empty() || !layout.forwards.is_empty();
    let zones = reverse::zones(site).into_iter().map(|zone| zone.name);
    let zones = [site.domain.clone()].into_iter().chain(zones);
    let own = zones.map(|zone| Forward::new(zone, &layout.authorities));
    let n_own = own.clone().count();
    let cluster = dns_authd::cluster_zones(site, layout).into_iter();
    let cluster = cluster.map(|zone| Forward::new(zone, &layout.authorities));
    let n_cluster = cluster.clone().count();
    let elsewhere = layout.forwards.iter().map(|forward| Forward {
        recursive: forward.recursive,
        ..Forward::new(&forward.zone, &forward.upstreams)
    });
    let n_elsewhere = elsewhere.clone().count();
    let config = DnsRecursor {
        drain: HumanDuration(layout.drain),
        listen: layout.dns.iter().copied().map(DnsAddress).collect(),
        allow_from: is_node.then(|| askers(site)),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::DnsRecursor)),
        },
        forward: own
            .chain(cluster)
            .chain(elsewhere)
            .chain(others(&layout.upstreams))
            .collect(),
        cache: Cache {
            // In `outpost up`, everything ends together.
            file: is_node.then(|| layout.state.join("dns-recursor").join("cache")),
            ..Cache::default()
        },
        cookies: Cookies {
            cookie_secret_file: is_node.then(|| paths::cookie(Service::DnsRecursor)),
            ..Cookies::default()
        },
        health: match is_node && has_choice {
            true => Health {
                endpoint: endpoint(layout),
            },
            false => Health::default(),
        },
        cluster: cluster_forwards(site, layout),
        ..DnsRecursor::default()
    };
    let whose = match layout.authorities.len() {
        0 | 1 => "The site's own zones.",
        _ => "The site's own zones: from this node, and while it cannot, from the others.",
    };
    let written = written(Service::DnsRecursor, &config).comment(&at!["forward", 0], whose);
    let written = match n_cluster {
        0 => written,
        _ => written.comment(&at!["forward", n_own], "The names of the cluster."),
    };
    let n_before = n_own + n_cluster;
    let written = match n_elsewhere {
        0 => written,
        _ => written.comment(&at!["forward", n_before], "Zones that other servers have."),
    };
    let n_before = n_before + n_elsewhere;
    written
        .comment(&at!["forward", n_before], "Everything else.")
        .comment(
            &at!["cache"],
            "Names that were known before a restart or a power cut are answered after it.",
        )
        .comment(
            &at!["health"],
            "Queries leave an upstream that is gone before one of them is lost.",
        )
        .to_string()
}

/// The servers of every other name.
fn others(upstreams: &[SocketAddr]) -> Option<Forward> {
    (!upstreams.is_empty()).then(|| Forward {
        recursive: true,
        ..Forward::new(".", upstreams)
    })
}

/// The forwards of the cluster, which a node's dns-recursor takes from the clusterd of the same node.
fn cluster_forwards(site: &Site, layout: &Layout) -> Option<Cluster> {
    let node = layout.node()?;
    let is_asked = site.cluster.as_ref()?.forwards;
    let has_clusterd = node.services.contains(&Service::Clusterd);
    (is_asked && has_clusterd).then(|| Cluster {
        socket: in_utf8(&layout.clusterd_socket),
        state: Some(layout.state.join("dns-recursor").join("cluster")),
        ..Cluster::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::super::tests::demo;
    use super::*;

    const ALONE: &str = r#"# dns-recursor, rendered by `outpost`.
version = "v1"
listen = ["127.0.0.1:5300"]
drain = "2s"

# The site's own zones.
[[forward]]
zone = "ocp4.redhat.ren"
upstreams = ["127.0.0.1:5301"]

[[forward]]
zone = "7.168.192.in-addr.arpa"
upstreams = ["127.0.0.1:5301"]
"#;

    #[test]
    fn the_demonstration_is_this() {
        let (site, layout) = demo();
        assert_eq!(render(&site, &layout), ALONE);
    }

    #[test]
    fn a_way_out_takes_every_other_name() {
        let (site, mut layout) = demo();
        layout.upstreams = vec![([192, 0, 2, 1], 53).into(), ([192, 0, 2, 2], 5353).into()];
        let way_out = r#"
# Everything else.
[[forward]]
zone = "."
upstreams = ["192.0.2.1:53", "192.0.2.2:5353"]
recursive = true
"#;
        assert_eq!(render(&site, &layout), format!("{ALONE}{way_out}"));
    }

    #[test]
    fn zones_of_other_servers_come_before_every_other_name() {
        let mut site = Site::example();
        site.upstreams = vec![([192, 0, 2, 1], 53).into()];
        site.forwards = vec![site::Forward {
            zone: "corp.example.com".to_owned(),
            upstreams: vec![([192, 0, 2, 10], 53).into(), ([192, 0, 2, 11], 5353).into()],
            recursive: true,
        }];
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let expected = r#"
# Zones that other servers have.
[[forward]]
zone = "corp.example.com"
upstreams = ["192.0.2.10:53", "192.0.2.11:5353"]
recursive = true

# Everything else.
[[forward]]
zone = "."
upstreams = ["192.0.2.1:53"]
recursive = true
"#;
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_node_with_clusterd_takes_the_forwards_of_the_cluster_if_the_site_says_so() {
        let mut site = Site::example();
        for node in &mut site.nodes {
            node.services = Service::of(node.role, true);
        }
        let table = "[cluster]\n";
        for forwards in [false, true] {
            let mut cluster = site::Cluster::new(site::ClusterSource::Kubeconfig(None));
            cluster.forwards = forwards;
            site.cluster = Some(cluster);
            let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
            assert_eq!(text.contains(table), forwards, "{text}");
        }
        site.nodes[0]
            .services
            .retain(|service| *service != Service::Clusterd);
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert!(!text.contains(table), "{text}");
    }

    #[test]
    fn names_of_the_cluster_come_from_the_servers_of_the_site() {
        let mut site = Site::example();
        let mut cluster = site::Cluster::new(site::ClusterSource::Kubeconfig(None));
        cluster.domain = Some("cluster.local".to_owned());
        cluster.reverse = vec![
            "172.30.0.0/16".parse().unwrap(),
            "10.128.0.0/15".parse().unwrap(),
        ];
        site.cluster = Some(cluster);
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let upstreams =
            "upstreams = [\"127.0.0.1:5301\", \"192.168.7.14:5301\", \"192.168.7.15:5301\"]\n";
        let zones = [
            "30.172.in-addr.arpa",
            "128.10.in-addr.arpa",
            "129.10.in-addr.arpa",
        ];
        let mut expected = format!(
            "\n# The names of the cluster.\n[[forward]]\nzone = \"cluster.local\"\n{upstreams}"
        );
        for zone in zones {
            expected.push_str(&format!("\n[[forward]]\nzone = \"{zone}\"\n{upstreams}"));
        }
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn a_node_answers_everywhere_and_to_nobody_but_the_site() {
        let site = Site::example();
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        // The default: every address of the node.
        assert!(!text.contains("listen ="), "{text}");
        assert!(
            text.contains("allow-from = [\"127.0.0.0/8\", \"::1/128\", \"192.168.7.0/24\", \"10.128.0.0/14\"]\n"),
            "{text}"
        );
        assert!(!text.contains("zone = \".\""), "an island: {text}");
    }

    #[test]
    fn a_node_asks_itself_first_and_then_the_others_that_have_the_zones() {
        let mut site = Site::example();
        let asked = |site: &Site, node: usize| {
            let text = render(site, &Layout::of_node(site, &site.nodes[node]));
            let mut lines = text.lines().filter(|line| line.starts_with("upstreams"));
            let first = lines.next().unwrap().to_owned();
            assert!(lines.all(|line| line == first), "{text}");
            first
        };
        let own = "\"127.0.0.1:5301\"";
        let [m0, m1, m2] = [13, 14, 15].map(|last| format!("\"192.168.7.{last}:5301\""));
        assert_eq!(asked(&site, 0), format!("upstreams = [{own}, {m1}, {m2}]"));
        assert_eq!(asked(&site, 1), format!("upstreams = [{own}, {m2}, {m0}]"));
        assert_eq!(asked(&site, 2), format!("upstreams = [{own}, {m0}, {m1}]"));
        site.nodes[3].services = vec![Service::DnsRecursor];
        assert_eq!(asked(&site, 3), format!("upstreams = [{m0}, {m1}, {m2}]"));
        site.nodes.truncate(1);
        assert_eq!(asked(&site, 0), format!("upstreams = [{own}]"));
    }
}
