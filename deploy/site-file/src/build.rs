//! From a spec to a [`Site`]: the meaning of values, and whether they fit together.

use daemon::config::{Document, nearest};
use ipnet::IpNet;

use super::builder::Builder;
use super::claims::Addresses;
use super::registry::UpstreamContext;
use super::report::Report;
use super::spec::{NodeSpec, Spec, Text};
use super::{SiteFile, names};
use site::service::Service;
use site::{Node, Platform, Role, Site};

/// More machines than this are no site of one link, and what compares all with all stays quick.
const MAX_NODES: usize = 100;

/// More of one kind (networks, virtual IPs, what is published, upstreams) no site has; all are compared
/// with all.
const MAX_LISTED: usize = 100;

/// Makes a site of a spec.
pub(super) fn build(document: &Document, spec: Spec) -> SiteFile {
    let mut builder = Builder::new(document);
    let site = builder.site(spec);
    let Report {
        problems, remarks, ..
    } = builder.report;
    SiteFile {
        site: problems.unless_empty(site),
        remarks,
        named: builder.named,
    }
}

impl Builder<'_> {
    /// The site as far as it can be made; problems stand in the report.
    fn site(&mut self, mut spec: Spec) -> Site {
        self.bound(&mut spec.vip, |vip| &vip.name);
        self.bound(&mut spec.publish, |publish| &publish.name);
        self.bound(spec.networks.get_mut(), |text| text);
        self.bound(&mut spec.dns.upstreams, |text| text);
        self.bound(&mut spec.registry.quota, |quota| &quota.repositories);
        self.bound(&mut spec.registry.mirror, |mirror| &mirror.prefix);
        let name = self.name(&spec.name, names::label);
        let domain = self.name(&spec.domain, |domain| {
            names::host(domain.strip_suffix('.').unwrap_or(domain))
        });
        let domain = domain.strip_suffix('.').unwrap_or(&domain).to_owned();
        let platform = self.platform(&spec.platform);
        self.cluster(&spec.name, &spec.domain, &platform);
        let networks = self.networks(&spec, &platform);
        for gateway in &spec.gateways {
            if let Some(address) = self.parsed(gateway, "an IP address") {
                let report = &mut self.report;
                self.addresses
                    .claim(report, address, gateway.span(), "the gateway");
            }
        }
        let clients = self.clients(spec.clients.as_deref(), &platform);
        let interface = spec.interface.as_ref().map(|text| self.interface(text));
        let has_openshift = platform.openshift.is_some();
        // OpenShift's network keeps the addresses of a node here.
        let interface = interface.or_else(|| has_openshift.then(|| "br-ex".to_owned()));

        let mut nodes = self.nodes(&spec.node, &spec.networks, &platform);
        let zone = self.zone_head(&spec.dns, &domain, &nodes);
        let registry = self.registry(
            &spec.registry,
            &UpstreamContext {
                domain: &domain,
                nodes: &nodes,
                platform: &platform,
                resolves: !spec.dns.upstreams.is_empty(),
            },
        );
        let vips = self.vips(&spec.vip, &spec.name, interface.as_deref(), &nodes);
        let published = self.published(&spec, &registry, &platform, &vips, &nodes);
        let (hosts, records) = self.records(&spec.record, &domain);
        let upstreams = self.upstreams(&spec.dns.upstreams, &nodes);
        let time = self.time(&spec.time, &domain, &upstreams);
        if time.servers.is_empty() {
            let at = spec.name.span();
            self.report.note(
                at,
                "no [time] servers: the nodes agree on a time, which may be wrong together",
            );
        }
        nodes.sort_by_key(|node| node.role != Role::Master);
        Site {
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
            time,
            vips,
            registry,
            pki: spec.pki.unwrap_or_else(|| "pki".into()),
            platform,
        }
    }

    /// Leaves out what is more than can be looked at.
    fn bound<T>(&mut self, list: &mut Vec<T>, place: impl Fn(&T) -> &Text) {
        if let Some(first) = list.get(MAX_LISTED) {
            let message = format!("more than {MAX_LISTED} of these no site has");
            self.report.wrong(place(first).span(), message);
            list.truncate(MAX_LISTED);
        }
    }

    fn interface(&mut self, text: &Text) -> String {
        self.name(text, names::interface)
    }

    //--- Networks

    fn networks(&mut self, spec: &Spec, platform: &Platform) -> Vec<IpNet> {
        let mut networks: Vec<IpNet> = Vec::new();
        for text in spec.networks.get_ref() {
            let Some(network) = self.network(text) else {
                continue;
            };
            if let Some(other) = networks.iter().find(|other| overlap(other, &network)) {
                let message = format!("network {network} overlaps {other}");
                self.report.wrong(text.span(), message);
                continue;
            }
            if platform.openshift.is_some() {
                for (taken, what) in OPENSHIFT_NETWORKS {
                    if taken.parse().is_ok_and(|taken| overlap(&taken, &network)) {
                        self.report.warn(
                            text.span(),
                            format!("network {network} overlaps {taken}, which is OpenShift's for {what} unless its install-config.yaml says otherwise"),
                        );
                    }
                }
            }
            networks.push(network);
        }
        if spec.networks.get_ref().is_empty() {
            self.report.wrong(
                spec.networks.span(),
                "no network: where are the nodes? As in networks = [\"192.168.7.0/24\"]",
            );
        }
        let readable = !networks.is_empty() && networks.len() == spec.networks.get_ref().len();
        self.addresses = Addresses::new(readable.then(|| networks.clone()));
        networks
    }

    fn network(&mut self, text: &Text) -> Option<IpNet> {
        let network: IpNet = self.parsed(text, "a network, as in 192.168.7.0/24")?;
        if network.trunc() != network {
            let message = format!(
                "`{network}` is an address in a network; the network is {}",
                network.trunc()
            );
            self.report.wrong(text.span(), message);
        }
        Some(network.trunc())
    }

    fn clients(&mut self, clients: Option<&[Text]>, platform: &Platform) -> Vec<IpNet> {
        match clients {
            Some(clients) => clients
                .iter()
                .filter_map(|text| self.network(text))
                .collect(),
            None if platform.openshift.is_some() => OPENSHIFT_NETWORKS
                .iter()
                .take(1)
                .filter_map(|(pods, _)| pods.parse().ok())
                .collect(),
            None => Vec::new(),
        }
    }

    /// OpenShift's own idea of what a cluster's domain is.
    fn cluster(&mut self, name: &Text, domain: &Text, platform: &Platform) {
        let prefix = format!("{}.", name.get_ref());
        if platform.openshift.is_some() && !domain.get_ref().starts_with(&prefix) {
            self.report.warn(
                domain.span(),
                format!(
                    "OpenShift's domain of a cluster {name} begins with {prefix} (metadata.name and baseDomain of install-config.yaml)",
                    name = name.get_ref()
                ),
            );
        }
    }

    //--- Nodes

    fn nodes(
        &mut self,
        specs: &[NodeSpec],
        networks: &toml::Spanned<Vec<Text>>,
        platform: &Platform,
    ) -> Vec<Node> {
        if let Some(first) = specs.get(MAX_NODES) {
            self.report.wrong(
                first.name.span(),
                format!("more than {MAX_NODES} nodes are no site of one link"),
            );
        }
        let masters = specs
            .iter()
            .take(MAX_NODES)
            .filter(|spec| Role::from(spec.role) == Role::Master);
        let mut n_masters = 0_usize;
        let mut last = networks.span();
        for (index, spec) in masters.enumerate() {
            n_masters += 1;
            last = spec.name.span();
            // Members of OpenShift's etcd have names, in the order of masters.
            if platform.openshift.is_some() {
                let who = format!("the etcd of {}", spec.name.get_ref());
                let name = format!("etcd-{index}");
                self.names
                    .claim(&mut self.report, &name, spec.name.span(), who);
            }
        }
        let nodes = specs
            .iter()
            .take(MAX_NODES)
            .map(|spec| self.node(spec))
            .collect();
        if n_masters == 0 {
            self.report.wrong(
                last,
                "no [[node]] of role \"master\": no node runs the services of the site",
            );
        } else if n_masters.is_multiple_of(2) {
            self.report.warn(
                last,
                format!("{n_masters} masters: etcd survives the loss of no more than with {}, and more can be lost", n_masters - 1),
            );
        }
        nodes
    }

    fn node(&mut self, spec: &NodeSpec) -> Node {
        let name = self.name(&spec.name, names::host);
        let role = Role::from(spec.role);
        let who = format!("node {name}");
        self.names
            .claim(&mut self.report, &name, spec.name.span(), who.clone());
        let list = self.address_list(spec.address.as_ref(), &spec.addresses, &spec.name);
        for (address, span) in &list {
            self.addresses
                .claim(&mut self.report, *address, span.clone(), &who);
        }
        let interface = spec.interface.as_ref().map(|text| self.interface(text));
        let services = match &spec.services {
            Some(words) => self.services(words, &spec.name),
            None => role.services(),
        };
        Node {
            name,
            role,
            addresses: list.into_iter().map(|(address, _)| address).collect(),
            interface,
            services,
        }
    }

    fn services(&mut self, words: &[Text], node: &Text) -> Vec<Service> {
        let mut named = Vec::new();
        for word in words {
            match Service::ALL
                .into_iter()
                .find(|service| service.name() == word.get_ref())
            {
                Some(service) if named.contains(&service) => {
                    self.report
                        .wrong(word.span(), format!("`{service}` is given twice"));
                }
                Some(service) => named.push(service),
                None => {
                    let meant = nearest(word.get_ref(), Service::ALL.map(Service::name));
                    let known = Service::ALL.map(Service::name).join(", ");
                    let hint = match meant {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("known are {known}"),
                    };
                    self.report.wrong(
                        word.span(),
                        format!("unknown service `{}`, {hint}", word.get_ref()),
                    );
                }
            }
        }
        for (one, other, why) in NEEDS {
            if named.contains(one) && !named.contains(other) {
                self.report.wrong(
                    node.span(),
                    format!("`{}` runs {one} without {other}, {why}", node.get_ref()),
                );
            }
        }
        Service::ALL
            .into_iter()
            .filter(|service| named.contains(service))
            .collect()
    }
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
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
        "which reports liveness to it",
    ),
    (
        Service::LbProxy,
        Service::Healthd,
        "which reports liveness to it",
    ),
    (
        Service::DnsRecursor,
        Service::DnsAuthd,
        "which answers for the names of the site",
    ),
];
