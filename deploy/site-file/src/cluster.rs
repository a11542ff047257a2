//! The Kubernetes cluster on the nodes: the source from which clusterd knows it, its names, and its nodes.

use std::path::{Component, Path, PathBuf};

use config::dns_authd::Kubernetes;
use config::lb_proxy::AddressRange;
use config::site as file;
use config::{Step, at};
use dns_kubernetes::Options;
use ipnet::IpNet;

use super::build::overlap;
use super::builder::{Builder, MAX_LISTED};
use super::{Holds, Named, names};
use site::service::Service;
use site::{Cluster, ClusterNodes, ClusterSource, Node, Site, paths};

impl Builder<'_, '_> {
    /// The cluster, if the file has one; `site` is all the rest, with the nodes in the order of the file.
    pub(super) fn kubernetes(
        &mut self,
        spec: Option<&file::Cluster>,
        site: &Site,
    ) -> Option<Cluster> {
        let nodes = &site.nodes;
        let is_lost = self.report.is_lost(&at!["cluster"]);
        let Some(spec) = spec else {
            if !is_lost {
                self.no_cluster(nodes);
            }
            return None;
        };
        let span = self.report.span(&at!["cluster"]);
        let is_run = nodes
            .iter()
            .any(|node| node.services.contains(&Service::Clusterd));
        // A node that could not be read may run it.
        if !is_run && !self.report.is_lost(&at!["node"]) {
            self.report.wrong(
                span.clone(),
                "no node runs clusterd; add it to the `services` of a master, or take [cluster] out",
            );
        }
        let port = paths::admin(Service::Clusterd).port();
        let who = "clusterd's admin listener".to_owned();
        self.ports.claim(&mut self.report, port, span, who);
        let cluster = Cluster {
            source: self.cluster_source(spec),
            domain: self.cluster_domain(spec, site),
            reverse: self.cluster_networks(spec),
            follow: spec.follow.clone(),
            forwards: spec.forwards,
            addresses: spec.addresses.clone(),
            follow_addresses: spec.follow_addresses.clone(),
            forward: spec.forward,
        };
        self.followed(&cluster, site);
        self.service_addresses(&cluster, site);
        Some(cluster)
    }

    /// Refuses nodes of the cluster that no port of the site can follow, and a lb-proxy that cannot know them.
    fn followed(&mut self, cluster: &Cluster, site: &Site) {
        for (index, nodes) in cluster.follow.iter().enumerate() {
            let span = self.report.span(&at!["cluster", "follow", index]);
            let name = nodes.name();
            let before = cluster.follow.iter().take(index);
            if before.clone().any(|before| before == nodes) {
                let message = format!("`{name}` is given twice; take one of them out");
                self.report.wrong(span, message);
                continue;
            }
            if *nodes == ClusterNodes::Ingress && site.platform.openshift.is_none() {
                let message = "`ingress` stands for the routers of OpenShift, and the site has no OpenShift; write \"masters\" or \"workers\"";
                self.report.wrong(span, message);
                continue;
            }
            let mut published = site.published.iter();
            let is_used = published.any(|published| {
                published.proxy_port.is_some() && cluster.followed(published).contains(nodes)
            });
            if !is_used && !self.report.is_lost(&at!["publish"]) {
                let message = format!(
                    "`{name}` join no backend: no [[publish]] with a `proxy-port` is offered by them; take `{name}` out, or publish a port"
                );
                self.report.wrong(span, message);
            }
        }
        if !cluster.follow.is_empty() {
            let why = "from which it learns the nodes of the cluster";
            self.needs_clusterd(Service::LbProxy, why, &site.nodes);
        }
    }

    /// Refuses addresses for Services that are others', or that no node can hold.
    fn service_addresses(&mut self, cluster: &Cluster, site: &Site) {
        let lists = [
            ("addresses", &cluster.addresses),
            ("follow-addresses", &cluster.follow_addresses),
        ];
        let mut before: Vec<AddressRange> = Vec::new();
        for (key, list) in lists {
            self.bound(&at!["cluster", key, MAX_LISTED], list.len());
            for (index, range) in list.iter().take(MAX_LISTED).enumerate() {
                let span = self.report.span(&at!["cluster", key, index]);
                let ends = [range.first(), range.last()];
                let is_near = site
                    .networks
                    .iter()
                    .any(|network| ends.iter().all(|end| network.contains(end)));
                if !is_near && !self.report.is_lost(&at!["networks"]) {
                    let message = format!(
                        "{range} is outside the site's networks, and no neighbour would ask for it; correct it, or add its network to `networks`"
                    );
                    self.report.wrong(span.clone(), message);
                }
                let nodes = site.nodes.iter().flat_map(|node| {
                    let addresses = node.addresses.iter();
                    addresses.map(move |address| (*address, format!("node {}", node.name)))
                });
                let vips = site.vips.iter().flat_map(|vip| {
                    let addresses = vip.addresses.iter();
                    addresses.map(move |one| (one.addr(), format!("virtual IP {}", vip.name)))
                });
                let mut others = nodes.chain(vips);
                if let Some((address, who)) = others.find(|(address, _)| range.contains(*address)) {
                    let message = format!(
                        "{range} has {address}, the address of {who}; leave it out of the addresses for Services"
                    );
                    self.report.wrong(span.clone(), message);
                }
                let meets = |other: &AddressRange| {
                    other.contains(range.first()) || range.contains(other.first())
                };
                if let Some(other) = before.iter().find(|other| meets(other)) {
                    let message = format!("{range} has addresses of {other}; write each once");
                    self.report.wrong(span, message);
                }
                before.push(*range);
            }
        }
        if cluster.serves() {
            let why = "from which it learns the addresses of Services";
            self.needs_clusterd(Service::LbProxy, why, &site.nodes);
            let mut holders = site.nodes.iter();
            let is_held = holders.any(|node| node.services.contains(&Service::LbProxy));
            if !is_held && !self.report.is_lost(&at!["node"]) {
                let span = self.report.span(&at!["cluster"]);
                let message = "no node can hold the addresses of Services: no node runs lb-proxy; add it to the `services` of a node";
                self.report.wrong(span, message);
            }
            let bare = site.nodes.iter().filter(|node| {
                let holds = node.services.contains(&Service::LbProxy);
                holds && node.interface.is_none() && site.interface.is_empty()
            });
            let bare: Vec<&str> = bare.map(|node| node.name.as_str()).collect();
            if !bare.is_empty() && !self.report.is_lost(&at!["interface"]) {
                let span = self.report.span(&at!["cluster"]);
                let message = format!(
                    "no interface for the addresses of Services on {}; write `interface` at the top of the file, or in the [[node]]",
                    bare.join(", ")
                );
                self.report.wrong(span, message);
            }
        }
    }

    /// Refuses nodes that run a service without clusterd.
    fn needs_clusterd(&mut self, service: Service, why: &str, nodes: &[Node]) {
        for (index, node) in nodes.iter().enumerate() {
            let runs = |service| node.services.contains(&service);
            if runs(service) && !runs(Service::Clusterd) {
                let span = self.report.span(&at!["node", index, "services"]);
                let message = format!(
                    "`{}` runs {service} without clusterd, {why}; add it to `services`",
                    node.name
                );
                self.report.wrong(span, message);
            }
        }
    }

    /// The domain whose names the site answers for.
    fn cluster_domain(&mut self, spec: &file::Cluster, site: &Site) -> Option<String> {
        let way = at!["cluster", "domain"];
        let domain = spec.domain.as_ref()?;
        let domain = self.name(domain, &way, |domain| {
            names::host(domain.strip_suffix('.').unwrap_or(domain))
        });
        let domain = domain.strip_suffix('.').unwrap_or(&domain).to_owned();
        if domain == site.domain {
            let span = self.report.span(&way);
            let message = format!(
                "`{domain}` is the domain of the site, whose names are others; write that of the cluster, as in domain = \"cluster.local\""
            );
            self.report.wrong(span, message);
        }
        let why = "from which it learns the names of the cluster";
        self.needs_clusterd(Service::DnsAuthd, why, &site.nodes);
        Some(domain)
    }

    /// The networks whose addresses have names in the cluster.
    fn cluster_networks(&mut self, spec: &file::Cluster) -> Vec<IpNet> {
        let mut networks: Vec<IpNet> = Vec::new();
        if spec.domain.is_none()
            && !spec.reverse.is_empty()
            && !self.report.is_lost(&at!["cluster", "domain"])
        {
            let span = self.report.span(&at!["cluster", "reverse"]);
            let message = "`reverse` belongs to `domain`, without which the site does not know the names; write `domain`, as in domain = \"cluster.local\"";
            self.report.wrong(span, message);
        }
        self.bound(&at!["cluster", "reverse", MAX_LISTED], spec.reverse.len());
        for (index, network) in spec.reverse.iter().take(MAX_LISTED).enumerate() {
            let network = IpNet::from(*network);
            let way = at!["cluster", "reverse", index];
            let span = self.report.span(&way);
            let of_site = self
                .addresses
                .networks()
                .iter()
                .find(|of_site| overlap(of_site, &network));
            if let Some(of_site) = of_site {
                let message = format!(
                    "network {network} overlaps {of_site}, whose addresses are those of the site's nodes; write the networks of Services and pods"
                );
                self.report.wrong(span, message);
                continue;
            }
            if let Some(other) = networks.iter().find(|other| overlap(other, &network)) {
                let message = format!(
                    "network {network} overlaps {other}; take one of them out, or make it smaller"
                );
                self.report.wrong(span, message);
                continue;
            }
            networks.push(network);
        }
        let reverse = networks.iter().copied().map(file::Network::from).collect();
        let table = Kubernetes {
            reverse,
            ..Kubernetes::default()
        };
        // The networks after the first that is refused need even more zones.
        let refused = Options::of(&table).err().into_iter().flatten().next();
        if let Some(refused) = refused {
            let span = self.report.span(&at!["cluster", "reverse"]);
            let message = format!("{}; write smaller networks", refused.message);
            self.report.wrong(span, message);
        }
        networks
    }

    /// Nodes that run clusterd without a cluster.
    fn no_cluster(&mut self, nodes: &[Node]) {
        for (index, node) in nodes.iter().enumerate() {
            if node.services.contains(&Service::Clusterd) {
                let span = self.report.span(&at!["node", index, "services"]);
                let message = format!(
                    "`{}` runs clusterd, and the file has no [cluster]; add the table, or take clusterd out of `services`",
                    node.name
                );
                self.report.wrong(span, message);
            }
        }
    }

    fn cluster_source(&mut self, spec: &file::Cluster) -> ClusterSource {
        self.one_source(spec);
        if let Some(path) = &spec.kubeconfig {
            self.named.push(Named {
                what: "the kubeconfig of clusterd",
                holds: Holds::Kubeconfig,
                path: path.clone(),
                position: self.report.position(&at!["cluster", "kubeconfig"]),
            });
        }
        let place = |builder: &mut Self, path: Option<&PathBuf>, key| {
            let path = path?;
            builder.on_node(path, &at!["cluster", key]);
            Some(path.clone())
        };
        let token = place(self, spec.token_file.as_ref(), "token-file");
        let authorities = place(self, spec.ca_file.as_ref(), "ca-file");
        let manifests = place(self, spec.manifests.as_ref(), "manifests");
        match (manifests, token, authorities) {
            (Some(manifests), ..) => ClusterSource::Manifests(manifests),
            (None, Some(token), Some(authorities)) => ClusterSource::Token { token, authorities },
            (None, Some(_), None) => {
                let span = self.report.span(&at!["cluster", "token-file"]);
                let message = "clusterd cannot verify the API servers: a token has no authorities; write `ca-file`, as in ca-file = \"/etc/outpost/clusterd/ca.crt\"";
                self.report.wrong(span, message);
                ClusterSource::Kubeconfig(None)
            }
            (None, None, Some(_)) => {
                let span = self.report.span(&at!["cluster", "ca-file"]);
                let message = "`ca-file` belongs to `token-file`, and a kubeconfig has the authorities itself; take it out, or write `token-file`";
                self.report.wrong(span, message);
                ClusterSource::Kubeconfig(None)
            }
            (None, None, None) => ClusterSource::Kubeconfig(spec.kubeconfig.clone()),
        }
    }

    /// Refuses a second source.
    fn one_source(&mut self, spec: &file::Cluster) {
        let sources = [
            ("kubeconfig", spec.kubeconfig.is_some()),
            ("token-file", spec.token_file.is_some()),
            ("manifests", spec.manifests.is_some()),
        ];
        let mut given = sources.iter().filter(|(_, is_given)| *is_given);
        if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
            let span = self.report.span(&at!["cluster", *second]);
            let message =
                format!("clusterd has one source, and `{first}` is one; take one of them out");
            self.report.wrong(span, message);
        }
    }

    /// Refuses a path that a service cannot see on its node.
    fn on_node(&mut self, path: &Path, way: &[Step<'_>]) {
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let own = paths::etc(Service::Clusterd);
        let below = path.strip_prefix(&own);
        let is_below = below.is_ok_and(|rest| rest.components().next().is_some());
        if !(is_plain && is_below) {
            let span = self.report.span(way);
            let message = format!(
                "`{}` is not below {}, and clusterd sees no other directory of its node; write a path there",
                path.display(),
                own.display()
            );
            self.report.wrong(span, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{check, document, site};

    use super::*;

    fn services(site: &Site) -> Vec<bool> {
        let nodes = site.nodes.iter();
        nodes
            .map(|node| node.services.contains(&Service::Clusterd))
            .collect()
    }

    #[test]
    fn masters_of_a_site_with_a_cluster_run_clusterd() {
        let worker = "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"";
        let without = site("", "", worker);
        assert_eq!(services(&without), [false; 4]);
        assert_eq!(without.cluster, None);
        let with = site("", "", &format!("{worker}\n[cluster]"));
        assert_eq!(services(&with), [true, true, true, false]);
        let source = |lines: &str| {
            let site = site("", "", &format!("[cluster]\n{lines}"));
            site.cluster.unwrap().source
        };
        assert_eq!(source(""), ClusterSource::Kubeconfig(None));
        assert_eq!(
            source("kubeconfig = \"k\""),
            ClusterSource::Kubeconfig(Some("k".into()))
        );
        assert_eq!(
            source("manifests = \"/etc/outpost/clusterd/manifests\""),
            ClusterSource::Manifests("/etc/outpost/clusterd/manifests".into())
        );
        assert_eq!(
            source(
                "token-file = \"/etc/outpost/clusterd/t\"\nca-file = \"/etc/outpost/clusterd/c\""
            ),
            ClusterSource::Token {
                token: "/etc/outpost/clusterd/t".into(),
                authorities: "/etc/outpost/clusterd/c".into()
            }
        );
    }

    #[test]
    fn a_cluster_without_one_good_source_is_refused() {
        for (lines, begins) in [
            (
                "kubeconfig = \"k\"\nmanifests = \"/etc/outpost/clusterd/m\"",
                "23:13: clusterd has one source, and `kubeconfig` is one",
            ),
            (
                "manifests = \"/srv/m\"",
                "22:13: `/srv/m` is not below /etc/outpost/clusterd",
            ),
            (
                "manifests = \"/etc/outpost/clusterd/../m\"",
                "22:13: `/etc/outpost/clusterd/../m` is not below /etc/outpost/clusterd",
            ),
            (
                "manifests = \"/etc/outpost/clusterd\"",
                "22:13: `/etc/outpost/clusterd` is not below /etc/outpost/clusterd",
            ),
            (
                "token-file = \"/etc/outpost/clusterd/t\"",
                "22:14: clusterd cannot verify the API servers",
            ),
            (
                "ca-file = \"/etc/outpost/clusterd/c\"",
                "22:11: `ca-file` belongs to `token-file`",
            ),
        ] {
            check(&document("", "", &format!("[cluster]\n{lines}")), begins);
        }
    }

    /// A site with OpenShift and a cluster with these lines.
    fn with_openshift(lines: &str) -> daemon::config::Document {
        let end = format!("[cluster]\n{lines}\n[platform]\nopenshift = \"4.18\"");
        let text = document("", "", &end).text;
        let domain = "domain = \"north.example.org\"";
        assert!(text.contains(domain));
        daemon::config::Document::inline("site.toml", text)
    }

    fn built(document: &daemon::config::Document) -> Cluster {
        let site = crate::parse(document).site;
        let site = site.unwrap_or_else(|problems| panic!("{problems}"));
        site.cluster.unwrap()
    }

    #[test]
    fn a_cluster_may_have_names_and_nodes_that_join() {
        let cluster = built(&with_openshift(
            "domain = \"cluster.local.\"\nreverse = [\"172.30.0.0/16\", \"10.128.0.0/14\"]\n\
             follow = [\"masters\", \"ingress\"]",
        ));
        assert_eq!(cluster.domain.as_deref(), Some("cluster.local"));
        let networks: Vec<String> = cluster.reverse.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["172.30.0.0/16", "10.128.0.0/14"]);
        assert_eq!(
            cluster.follow,
            [ClusterNodes::Masters, ClusterNodes::Ingress]
        );
        let without = built(&with_openshift(""));
        assert_eq!((without.domain, without.reverse), (None, Vec::new()));
    }

    #[test]
    fn names_of_a_cluster_that_cannot_be_are_refused() {
        for (lines, begins) in [
            (
                "domain = \"Cluster.local\"",
                "22:10: `Cluster.local` has capital letters",
            ),
            ("domain = \"a..b\"", "22:10: `a..b` is an empty name"),
            (
                "domain = \"north.example.org\"",
                "22:10: `north.example.org` is the domain of the site",
            ),
            (
                "reverse = [\"172.30.0.0/16\"]",
                "22:11: `reverse` belongs to `domain`",
            ),
            (
                "domain = \"cluster.local\"\nreverse = [\"192.0.0.0/16\"]",
                "23:12: network 192.0.0.0/16 overlaps 192.0.2.0/24",
            ),
            (
                "domain = \"cluster.local\"\nreverse = [\"10.0.0.0/8\", \"10.1.0.0/16\"]",
                "23:26: network 10.1.0.0/16 overlaps 10.0.0.0/8",
            ),
        ] {
            check(&document("", "", &format!("[cluster]\n{lines}")), begins);
        }
        let many = (0..11).map(|n| format!("\"{}.0.0.0/9\"", 100 + n));
        let many = many.collect::<Vec<_>>().join(", ");
        check(
            &document(
                "",
                "",
                &format!("[cluster]\ndomain = \"cluster.local\"\nreverse = [{many}]"),
            ),
            "23:11: the networks up to 108.0.0.0/9 need more than 1024 zones",
        );
    }

    #[test]
    fn zones_of_the_cluster_are_not_those_of_other_servers() {
        let cluster = "[cluster]\ndomain = \"cluster.local\"\nreverse = [\"172.30.0.0/16\"]";
        for zone in [
            "cluster.local",
            "30.172.in-addr.arpa",
            "7.30.172.in-addr.arpa",
        ] {
            let top =
                format!("dns.forward = [{{ zone = \"{zone}\", upstreams = [\"192.0.2.1\"] }}]");
            let begins = format!("5:25: `{zone}` is a zone of [cluster]");
            check(&document(&top, "", cluster), &begins);
        }
    }

    #[test]
    fn nodes_that_can_join_no_backend_are_refused() {
        for (lines, begins) in [
            (
                "follow = [\"ingress\"]",
                "22:11: `ingress` stands for the routers of OpenShift",
            ),
            ("follow = [\"masters\"]", "22:11: `masters` join no backend"),
        ] {
            check(&document("", "", &format!("[cluster]\n{lines}")), begins);
        }
        let twice = with_openshift("follow = [\"masters\", \"masters\"]");
        let problems = crate::parse(&twice).site.unwrap_err().to_string();
        assert!(
            problems.contains("22:22: `masters` is given twice"),
            "{problems}"
        );
    }

    #[test]
    fn addresses_of_services_are_in_the_site_and_of_no_other_part() {
        let good = built(&document(
            "interface = \"eth0\"",
            "",
            "[cluster]\naddresses = [\"192.0.2.200-192.0.2.220\"]\nforward = \"endpoints\"",
        ));
        assert_eq!(good.addresses.len(), 1);
        assert!(good.serves());
        for (lines, begins) in [
            (
                "addresses = [\"198.51.100.1\"]",
                "22:14: 198.51.100.1 is outside the site's networks",
            ),
            (
                "addresses = [\"192.0.2.10-192.0.2.20\"]",
                "22:14: 192.0.2.10-192.0.2.20 has 192.0.2.13, the address of node master-0",
            ),
            (
                "addresses = [\"192.0.2.200-192.0.2.220\"]\nfollow-addresses = [\"192.0.2.220\"]",
                "23:21: 192.0.2.220 has addresses of 192.0.2.200-192.0.2.220",
            ),
        ] {
            let end = format!("[cluster]\n{lines}");
            check(&document("interface = \"eth0\"", "", &end), begins);
        }
        check(
            &document("", "", "[cluster]\naddresses = [\"192.0.2.200\"]"),
            "21:1: no interface for the addresses of Services on master-0, master-1, master-2",
        );
    }

    #[test]
    fn services_that_need_the_cluster_have_clusterd_beside_them() {
        let services = "services = [\"healthd\", \"dns-authd\", \"lb-proxy\"]";
        let publish = "[[publish]]\nname = \"api\"\nport = 6443\nproxy-port = 9445\nrole = \"api\"\nnames = [\"api\"]";
        let end =
            format!("[cluster]\ndomain = \"cluster.local\"\nfollow = [\"masters\"]\n{publish}");
        let problems = crate::parse(&document("", services, &end))
            .site
            .unwrap_err();
        let text = problems.to_string();
        for said in [
            "`master-0` runs dns-authd without clusterd, from which it learns the names of the cluster",
            "`master-0` runs lb-proxy without clusterd, from which it learns the nodes of the cluster",
        ] {
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn clusterd_runs_where_there_is_a_cluster_and_a_cluster_where_clusterd_runs() {
        let runs = "services = [\"healthd\", \"clusterd\"]";
        check(
            &document("", runs, ""),
            "12:12: `master-0` runs clusterd, and the file has no [cluster]",
        );
        let none = "services = [\"healthd\"]";
        let text = document("", none, "[cluster]").text;
        let others = text
            .replace(
                "address = \"192.0.2.14\"",
                &format!("address = \"192.0.2.14\"\n{none}"),
            )
            .replace(
                "address = \"192.0.2.15\"",
                &format!("address = \"192.0.2.15\"\n{none}"),
            );
        let document = daemon::config::Document::inline("site.toml", others);
        let problems = crate::parse(&document).site.unwrap_err();
        let text = problems.to_string();
        assert!(text.contains("no node runs clusterd"), "{text}");
    }

    #[test]
    fn no_port_of_the_site_is_that_of_clusterd() {
        assert_eq!(site("registry.port = 9407", "", "").registry.port, 9407);
        check(
            &document("registry.port = 9407", "", "[cluster]"),
            "21:1: port 9407 for clusterd's admin listener is the port of",
        );
    }
}
