//! From a file to a [`Site`]: the meaning of values, and whether they fit together.

use config::site as file;
use config::{Check, Step, at};
use ipnet::IpNet;

use super::builder::{Builder, MAX_LISTED};
use super::claims::Addresses;
use super::registry::UpstreamContext;
use super::report::Remark;
use super::zone::Outside;
use super::{Named, names};
use site::service::Service;
use site::{Node, Platform, Role, Schedule, Site};

/// More machines than this are no site of one link, and what compares all with all stays quick.
const MAX_NODES: usize = 100;

/// A site as far as it could be made, and what is to be said of it beside problems.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) site: Site,
    pub(super) remarks: Vec<Remark>,
    pub(super) named: Vec<Named>,
}

/// Makes a site of a file; problems go to `check`.
pub(super) fn build(file: &file::Site, check: &mut Check<'_>) -> Built {
    let mut builder = Builder::new(check);
    builder.bounds(file);
    let site = builder.site(file);
    Built {
        site,
        remarks: builder.report.remarks,
        named: builder.named,
    }
}

impl Builder<'_, '_> {
    /// The site as far as it can be made.
    fn site(&mut self, spec: &file::Site) -> Site {
        let name = self.name(&spec.name, &at!["name"], names::label);
        let domain = self.name(&spec.domain, &at!["domain"], |domain| {
            names::host(domain.strip_suffix('.').unwrap_or(domain))
        });
        let domain = domain.strip_suffix('.').unwrap_or(&domain).to_owned();
        let platform = self.platform(spec.platform);
        self.cluster(spec, &platform);
        self.multicast(&domain);
        let networks = self.networks(spec, &platform);
        self.gateways(spec);
        let clients = clients(spec.clients.as_deref(), &platform);
        let interface = spec
            .interface
            .as_ref()
            .map(|text| self.name(text, &at!["interface"], names::interface));
        let has_openshift = platform.openshift.is_some();
        // OpenShift's network keeps the addresses of a node here.
        let interface = interface.or_else(|| has_openshift.then(|| "br-ex".to_owned()));

        let nodes = self.nodes(spec, &platform);
        let zone = self.zone_head(&spec.dns, &domain, &nodes);
        let outside = Outside::of(&spec.dns);
        let registry = self.registry(
            &spec.registry,
            &UpstreamContext {
                domain: &domain,
                nodes: &nodes,
                clients: &clients,
                platform: &platform,
                outside,
                is_lost: self.report.is_lost(&at!["dns", "upstreams"]),
            },
        );
        let page = self.page(spec.page.as_ref(), &nodes);
        let vips = self.vips(&spec.vip, &spec.name, interface.as_deref(), &nodes);
        let published = self.published(spec, (&registry, page.as_ref()), &platform, &vips, &nodes);
        let (hosts, records) = self.records(&spec.record, &domain);
        let upstreams = self.upstreams(&spec.dns.upstreams, &nodes, &at!["dns", "upstreams"]);
        let forwards = self.forwards(&spec.dns.forward, &domain, &networks, &nodes);
        let time = self.time(&spec.time, &domain, &outside, &nodes);
        self.led(&vips, &published);
        let mut site = Site {
            name,
            domain,
            networks,
            clients,
            interface: interface.unwrap_or_default(),
            nodes,
            zone,
            published,
            hosts,
            records,
            upstreams,
            forwards,
            time,
            health: self.schedule(spec.health),
            vips,
            registry,
            page,
            cluster: None,
            pki: spec.pki.clone(),
            certificate_days: spec.certificate_days.map(config::Whole::get),
            platform,
        };
        self.renewal(&site);
        site.cluster = self.kubernetes(spec.cluster.as_ref(), &site);
        self.not_of_cluster(&site.forwards, site.cluster.as_ref());
        // Problems of nodes are found by their places in the file.
        site.nodes.sort_by_key(|node| node.role != Role::Master);
        site
    }

    /// Certificates are renewed by other nodes: those of the registry's cluster, and for the page those that exchange findings.
    fn renewal(&mut self, site: &Site) {
        if site.certificate_days.is_none() {
            return;
        }
        let span = self.report.span(&at!["certificate-days"]);
        let mut wrong = |words: &str| self.report.wrong(span.clone(), words);
        let mut nodes = site.nodes.iter();
        let has_registry = |node: &&Node| node.services.contains(&Service::RegistrySvc);
        if nodes.by_ref().filter(has_registry).count() == 1 {
            wrong(
                "one node alone runs registry-svc: no other could renew its certificate; take `certificate-days` out, or add registry-svc to another node",
            );
        }
        let mut showing = site
            .nodes
            .iter()
            .filter(|node| site.shows_page(node).is_some());
        if showing.any(|node| !site.observes(node)) {
            wrong(
                "certificates of the page are renewed among three nodes with healthd or more; take `certificate-days` or [page] out",
            );
        }
    }

    fn gateways(&mut self, spec: &file::Site) {
        for (index, gateway) in spec.gateways.iter().enumerate() {
            let span = self.report.span(&at!["gateways", index]);
            let report = &mut self.report;
            self.addresses.claim(report, gateway.0, span, "the gateway");
        }
    }

    /// The schedule of probes: one that healthd takes.
    fn schedule(&mut self, schedule: Schedule) -> Schedule {
        let mut wrong = |key: &str, words: &str| {
            let span = self.report.span(&at!["health", key]);
            self.report.wrong(span, words);
        };
        let default = Schedule::default().fast_interval;
        if schedule.fast_interval != default && schedule.fast_interval > schedule.interval {
            wrong(
                "fast-interval",
                "the fast interval is longer than the interval; shorten it, or lengthen `interval`",
            );
        }
        let times = [
            ("interval", *schedule.interval),
            ("fast-interval", *schedule.fast_interval),
            ("timeout", *schedule.timeout),
        ];
        for (key, time) in times {
            if !time.subsec_nanos().is_multiple_of(1_000_000) {
                wrong(
                    key,
                    "the time is no number of whole milliseconds; round it, as in \"250ms\"",
                );
            }
        }
        schedule
    }

    /// Refuses lists that are longer than those of any site; only their first items are checked.
    fn bounds(&mut self, spec: &file::Site) {
        let listed = [
            (at!["vip", MAX_LISTED], spec.vip.len()),
            (at!["publish", MAX_LISTED], spec.publish.len()),
            (at!["networks", MAX_LISTED], spec.networks.len()),
        ];
        let deep = [
            (
                at!["dns", "upstreams", MAX_LISTED],
                spec.dns.upstreams.len(),
            ),
            (at!["dns", "forward", MAX_LISTED], spec.dns.forward.len()),
            (
                at!["registry", "quota", MAX_LISTED],
                spec.registry.quota.len(),
            ),
            (
                at!["registry", "mirror", MAX_LISTED],
                spec.registry.mirror.len(),
            ),
        ];
        for (way, length) in listed {
            self.bound(&way, length);
        }
        for (way, length) in deep {
            self.bound(&way, length);
        }
    }

    pub(super) fn bound(&mut self, first: &[Step<'_>], length: usize) {
        if length <= MAX_LISTED {
            return;
        }
        // A table is shown at its first key.
        let names = ["name", "repositories", "prefix"].map(|key| [first, &at![key]].concat());
        let spans = names.map(|way| self.report.span(&way));
        let table = self.report.span(first);
        let span = spans.into_iter().find(|span| *span != table);
        let message = format!(
            "no site has more than {MAX_LISTED} of these; describe several sites, a file each"
        );
        self.report.wrong(span.unwrap_or(table), message);
    }

    //--- Networks

    fn networks(&mut self, spec: &file::Site, platform: &Platform) -> Vec<IpNet> {
        let mut networks: Vec<IpNet> = Vec::new();
        for (index, &network) in spec.networks.iter().take(MAX_LISTED).enumerate() {
            let network = IpNet::from(network);
            let span = self.report.span(&at!["networks", index]);
            if let Some(other) = networks.iter().find(|other| overlap(other, &network)) {
                let message = format!(
                    "network {network} overlaps {other}; take one of them out, or make it smaller"
                );
                self.report.wrong(span, message);
                continue;
            }
            if platform.openshift.is_some() {
                for (taken, what) in OPENSHIFT_NETWORKS {
                    if taken.parse().is_ok_and(|taken| overlap(&taken, &network)) {
                        self.report.warn(
                            span.clone(),
                            format!("network {network} overlaps {taken}, which is OpenShift's for {what} unless its install-config.yaml says otherwise; change one of them"),
                        );
                    }
                }
            }
            networks.push(network);
        }
        let is_lost = self.report.is_lost(&at!["networks"]);
        if spec.networks.is_empty() && !is_lost {
            let span = self.report.span(&at!["networks"]);
            self.report.wrong(
                span,
                "no network; write the one that the nodes are in, as in networks = [\"192.168.7.0/24\"]",
            );
        }
        let readable = !networks.is_empty() && networks.len() == spec.networks.len() && !is_lost;
        self.addresses = Addresses::new(readable.then(|| networks.clone()));
        networks
    }

    /// OpenShift's own idea of what a cluster's domain is.
    fn cluster(&mut self, spec: &file::Site, platform: &Platform) {
        let name = &spec.name;
        let prefix = format!("{name}.");
        if platform.openshift.is_some() && !spec.domain.starts_with(&prefix) {
            let span = self.report.span(&at!["domain"]);
            self.report.warn(
                span,
                format!("OpenShift's domain of a cluster {name} begins with {prefix} (metadata.name and baseDomain of install-config.yaml); change `name` or `domain`"),
            );
        }
    }

    /// Resolvers of hosts ask for such names by multicast, and never the site (RFC 6762 §3).
    fn multicast(&mut self, domain: &str) {
        if domain == "local" || domain.ends_with(".local") {
            let span = self.report.span(&at!["domain"]);
            self.report.warn(
                span,
                format!("`{domain}` is below `local`, the domain of multicast DNS (RFC 6762 §3): many hosts never ask a server for its names; choose another domain, as in `site.example.com` or `site.home.arpa`"),
            );
        }
    }

    //--- Nodes

    fn nodes(&mut self, spec: &file::Site, platform: &Platform) -> Vec<Node> {
        let (specs, has_cluster) = (&spec.node, spec.cluster.is_some());
        if specs.len() > MAX_NODES {
            let span = self.report.span(&at!["node", MAX_NODES, "name"]);
            let message = format!(
                "more than {MAX_NODES} nodes are no site of one link; describe several sites, a file each"
            );
            self.report.wrong(span, message);
        }
        let specs: Vec<(usize, &file::Node)> = specs.iter().enumerate().take(MAX_NODES).collect();
        let masters = specs.iter().filter(|(_, spec)| spec.role == Role::Master);
        let mut n_masters = 0_usize;
        let mut last = self.report.span(&at!["networks"]);
        for (number, (index, spec)) in masters.enumerate() {
            n_masters += 1;
            last = self.report.span(&at!["node", *index, "name"]);
            // Members of OpenShift's etcd have names, in the order of masters.
            if platform.openshift.is_some() {
                let who = format!("the etcd of {}", spec.name);
                let name = format!("etcd-{number}");
                self.names.claim(&mut self.report, &name, last.clone(), who);
            }
        }
        let nodes = specs
            .iter()
            .map(|(index, spec)| self.node(*index, spec, has_cluster));
        let nodes = nodes.collect();
        // A node that could not be read may be a master.
        if self.report.is_lost(&at!["node"]) {
            return nodes;
        }
        if n_masters == 0 {
            self.report.wrong(
                last,
                "no [[node]] of role \"master\": no node runs the services of the site; make one, or three, of this role",
            );
        } else if n_masters.is_multiple_of(2) {
            self.report.warn(
                last,
                format!("{n_masters} masters: etcd survives the loss of no more than with {}, and more can be lost; add one, or make one a worker", n_masters - 1),
            );
        }
        nodes
    }

    fn node(&mut self, index: usize, spec: &file::Node, has_cluster: bool) -> Node {
        let way = at!["node", index];
        let key = |key| [&way[..], &[Step::Key(key)]].concat();
        let name = self.name(&spec.name, &key("name"), names::host);
        let who = format!("node {name}");
        let span = self.report.span(&key("name"));
        self.names.claim(&mut self.report, &name, span, who.clone());
        let list = self.address_list(spec.address, &spec.addresses, &way, &spec.name);
        for (address, span) in &list {
            self.addresses
                .claim(&mut self.report, *address, span.clone(), &who);
        }
        let interface = spec
            .interface
            .as_ref()
            .map(|text| self.name(text, &key("interface"), names::interface));
        let services = match &spec.services {
            Some(services) => self.services(services, index, &spec.name),
            None => Service::of(spec.role, has_cluster),
        };
        Node {
            name,
            role: spec.role,
            addresses: list.into_iter().map(|(address, _)| address).collect(),
            interface,
            services,
        }
    }

    fn services(&mut self, written: &[Service], index: usize, node: &str) -> Vec<Service> {
        let mut named: Vec<Service> = Vec::new();
        for (place, &service) in written.iter().enumerate() {
            if named.contains(&service) {
                let span = self.report.span(&at!["node", index, "services", place]);
                self.report.wrong(
                    span,
                    format!("`{service}` is given twice; take one of them out"),
                );
            } else {
                named.push(service);
            }
        }
        let is_lost = self.report.is_lost(&at!["node", index, "services"]);
        for (one, other, why) in NEEDS {
            if named.contains(one) && !named.contains(other) && !is_lost {
                let span = self.report.span(&at!["node", index, "name"]);
                self.report.wrong(
                    span,
                    format!("`{node}` runs {one} without {other}, {why}; add it to `services`"),
                );
            }
        }
        Service::ALL
            .into_iter()
            .filter(|service| named.contains(service))
            .collect()
    }
}

fn clients(clients: Option<&[file::Network]>, platform: &Platform) -> Vec<IpNet> {
    match clients {
        Some(clients) => clients.iter().copied().map(IpNet::from).collect(),
        None if platform.openshift.is_some() => OPENSHIFT_NETWORKS
            .iter()
            .take(1)
            .filter_map(|(pods, _)| pods.parse().ok())
            .collect(),
        None => Vec::new(),
    }
}

/// Whether two networks have an address in common.
pub(super) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

/// Networks that OpenShift takes for itself by default; pods first.
const OPENSHIFT_NETWORKS: [(&str, &str); 2] =
    [("10.128.0.0/14", "pods"), ("172.30.0.0/16", "services")];

/// The services that need another service on the same node.
const NEEDS: &[(Service, Service, &str)] = &[
    (
        Service::DnsAuthd,
        Service::Healthd,
        "liveness comes from it",
    ),
    (Service::LbProxy, Service::Healthd, "liveness comes from it"),
    (
        Service::DnsRecursor,
        Service::DnsAuthd,
        "the names of the site come from it",
    ),
];
