//! From a spec to a [`Site`]: what values mean, and whether they fit together.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::str::FromStr;

use daemon_base::config::{Document, nearest};
use ipnet::IpNet;

use super::claims::{Addresses, Names, Ports};
use super::report::Report;
use super::spec::{DnsSpec, NodeSpec, PlatformSpec, RecordSpec, Spec, Text, TimeSpec};
use super::{Named, SiteFile, master_file, names};
use crate::service::Service;
use crate::site::{
    Host, Node, Platform, Podman, Record, Registry, Role, Runtime, Site, Time, ZoneHead,
};

/// More machines than this are no site of one link, and what compares all with all stays quick.
const MAX_NODES: usize = 100;

/// More of one kind (networks, virtual IPs, what is published, upstreams) no site has; all are compared
/// with all.
const MAX_LISTED: usize = 100;

/// What is built, and what everything claims.
#[derive(Debug)]
pub(super) struct Builder<'d> {
    pub(super) report: Report<'d>,
    pub(super) addresses: Addresses,
    pub(super) names: Names,
    pub(super) ports: Ports,
}

/// Makes a site of a spec.
pub(super) fn build(document: &Document, spec: Spec) -> SiteFile {
    let mut builder = Builder {
        report: Report::new(document),
        addresses: Addresses::default(),
        names: Names::default(),
        ports: Ports::new(),
    };
    let named = spec.registry.users.as_ref().map(|users| Named {
        what: "the users of the registry",
        path: users.get_ref().clone(),
        position: document.position(users.span().start),
    });
    let site = builder.site(spec);
    let Report {
        problems, remarks, ..
    } = builder.report;
    SiteFile {
        site: problems.unless_empty(site),
        remarks,
        named: named.into_iter().collect(),
    }
}

impl Builder<'_> {
    /// The site as far as it can be made; problems stand in the report.
    fn site(&mut self, mut spec: Spec) -> Site {
        self.bound(&mut spec.vip, |vip| &vip.name);
        self.bound(&mut spec.publish, |publish| &publish.name);
        self.bound(spec.networks.get_mut(), |text| text);
        self.bound(&mut spec.dns.upstreams, |text| text);
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
        // Where OpenShift's network keeps the addresses of a node.
        let interface = interface.or_else(|| has_openshift.then(|| "br-ex".to_owned()));

        let mut nodes = self.nodes(&spec.node, &spec.networks, &platform);
        let zone = self.zone_head(&spec.dns, &domain, &nodes);
        let registry = self.registry(&spec.registry);
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

    //--- Pieces of text

    /// A value that a text stands for.
    pub(super) fn parsed<T: FromStr>(&mut self, text: &Text, wanted: &str) -> Option<T> {
        let value = text.get_ref().parse().ok();
        if value.is_none() {
            let message = format!("`{}` is not {wanted}", text.get_ref());
            self.report.wrong(text.span(), message);
        }
        value
    }

    /// A text that has to pass as a name.
    pub(super) fn name(
        &mut self,
        text: &Text,
        check: impl Fn(&str) -> Result<(), names::Wrong>,
    ) -> String {
        if let Err(why) = check(text.get_ref()) {
            self.report
                .wrong(text.span(), format!("`{}` {why}", text.get_ref()));
        }
        text.get_ref().clone()
    }

    fn interface(&mut self, text: &Text) -> String {
        self.name(text, names::interface)
    }

    /// The addresses under `address` and `addresses`: one at least, of each family one at most.
    pub(super) fn address_list(
        &mut self,
        one: Option<&Text>,
        several: &[Text],
        of: &Text,
    ) -> Vec<(IpAddr, Range<usize>)> {
        let mut list: Vec<(IpAddr, Range<usize>)> = Vec::new();
        for text in one.into_iter().chain(several) {
            let Some(address) = self.parsed::<IpAddr>(text, "an IP address") else {
                continue;
            };
            if list
                .iter()
                .any(|(known, _)| known.is_ipv4() == address.is_ipv4())
            {
                let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                let message = format!("`{}` has an {family} address already", of.get_ref());
                self.report.wrong(text.span(), message);
                continue;
            }
            list.push((address, text.span()));
        }
        if one.is_none() && several.is_empty() {
            let message = format!("`{}` has no `address`", of.get_ref());
            self.report.wrong(of.span(), message);
        }
        list
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
                "no [[node]] of role \"master\": nobody runs the services of the site",
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

    //--- Names and time

    fn zone_head(&mut self, spec: &DnsSpec, domain: &str, nodes: &[Node]) -> ZoneHead {
        let ttl = spec.ttl.as_ref().map_or(180, |ttl| self.ttl(ttl));
        let mut time = |text: &Option<Text>, otherwise: &str| {
            let Some(text) = text else {
                return otherwise.to_owned();
            };
            if let Err(why) = master_file::check_time(text.get_ref()) {
                self.report.wrong(text.span(), why);
            }
            text.get_ref().clone()
        };
        let refresh = time(&spec.refresh, "3H");
        let retry = time(&spec.retry, "30M");
        let expire = time(&spec.expire, "2W");
        let minimum = time(&spec.minimum, "3M");
        let contact = match &spec.contact {
            Some(contact) => self.name(contact, names::label),
            None => "postmaster".to_owned(),
        };
        let mut name_servers = Vec::new();
        for server in spec.name_servers.iter().flatten() {
            let name = self.name(&server.name, names::host);
            if let Some(address) = self.parsed(&server.address, "an IP address") {
                self.names
                    .claim_host(&mut self.report, &name, address, server.name.span());
                name_servers.push(Host { name, address });
            }
        }
        if spec.name_servers.is_none() {
            let asked = nodes
                .iter()
                .filter(|node| node.services.contains(&Service::DnsRecursor));
            for (index, node) in asked.enumerate() {
                let name = format!("ns{}", index + 1);
                let who = format!("the name server on {}", node.name);
                self.names.claim(&mut self.report, &name, 0..0, who);
                name_servers.extend(node.addresses.iter().map(|&address| Host {
                    name: name.clone(),
                    address,
                }));
            }
        }
        if name_servers.is_empty() {
            self.report.wrong(
                0..0,
                format!("nobody answers for {domain}: no node runs dns-recursor, and [dns] has no name-servers"),
            );
        }
        ZoneHead {
            ttl,
            contact,
            serial: spec.serial.unwrap_or(1),
            refresh,
            retry,
            expire,
            minimum,
            name_servers,
        }
    }

    fn ttl(&mut self, ttl: &toml::Spanned<u32>) -> u32 {
        if i32::try_from(*ttl.get_ref()).is_err() {
            self.report
                .wrong(ttl.span(), "a TTL is at most 2147483647 (RFC 2181 §8)");
        }
        *ttl.get_ref()
    }

    fn records(&mut self, specs: &[RecordSpec], domain: &str) -> (Vec<Host>, Vec<Record>) {
        let (mut hosts, mut records) = (Vec::new(), Vec::new());
        for spec in specs {
            let is_host = spec.address.is_some() || !spec.addresses.is_empty();
            match (&spec.rtype, &spec.value) {
                (None, None) if spec.ttl.is_none() => hosts.extend(self.host(spec)),
                (None, None) => {
                    // A host with a TTL of its own is a record of its own.
                    let ttl = spec.ttl.as_ref().map(|ttl| self.ttl(ttl));
                    records.extend(self.host(spec).into_iter().map(|host| Record {
                        rtype: rtype(host.address).to_owned(),
                        value: host.address.to_string(),
                        name: host.name,
                        ttl,
                    }));
                }
                (Some(rtype), Some(value)) if !is_host => {
                    records.extend(self.record(spec, rtype, value, domain));
                }
                _ => self.report.wrong(
                    spec.name.span(),
                    format!(
                        "`{}` has either `address` (or `addresses`), or `type` and `value`",
                        spec.name.get_ref()
                    ),
                ),
            }
        }
        (hosts, records)
    }

    fn host(&mut self, spec: &RecordSpec) -> Vec<Host> {
        let name = self.name(&spec.name, names::owner);
        let mut hosts = Vec::new();
        for (address, _) in self.address_list(spec.address.as_ref(), &spec.addresses, &spec.name) {
            self.names
                .claim_host(&mut self.report, &name, address, spec.name.span());
            let name = name.clone();
            hosts.push(Host { name, address });
        }
        hosts
    }

    fn record(
        &mut self,
        spec: &RecordSpec,
        rtype: &Text,
        value: &Text,
        domain: &str,
    ) -> Option<Record> {
        let record = Record {
            name: self.name(&spec.name, names::record_owner),
            ttl: spec.ttl.as_ref().map(|ttl| self.ttl(ttl)),
            rtype: rtype.get_ref().to_ascii_uppercase(),
            value: value.get_ref().clone(),
        };
        if names::record_owner(&record.name).is_err() {
            return None;
        }
        // A name that stands for another cannot be anything itself (RFC 2181 §10.1), and what
        // leads to nodes that are up has addresses of its own.
        if matches!(
            record.rtype.as_str(),
            "A" | "AAAA" | "CNAME" | "LUA" | "DNAME"
        ) && self.names.has(&record.name)
        {
            let who = format!("the record {}", record.name);
            self.names
                .claim(&mut self.report, &record.name, spec.name.span(), who);
        }
        if names::host(domain).is_ok()
            && let Err(why) = master_file::check_record(domain, &record)
        {
            self.report.wrong(value.span(), why);
        }
        Some(record)
    }

    fn upstreams(&mut self, texts: &[Text], nodes: &[Node]) -> Vec<SocketAddr> {
        let mut upstreams = Vec::new();
        for text in texts {
            let alone = text.get_ref().parse().map(|ip| SocketAddr::new(ip, 53));
            let upstream = match alone {
                Ok(upstream) => Some(upstream),
                Err(_) => self.parsed(text, "an IP address, with or without a port"),
            };
            let Some(upstream) = upstream else { continue };
            let loops = upstream.port() == 53
                && nodes.iter().any(|node| {
                    node.services.contains(&Service::DnsRecursor)
                        && node.addresses.contains(&upstream.ip())
                });
            if loops {
                self.report.wrong(
                    text.span(),
                    format!("{upstream} is a node of the site itself: it would ask in circles"),
                );
            } else if upstreams.contains(&upstream) {
                self.report
                    .wrong(text.span(), format!("{upstream} is given twice"));
            }
            upstreams.push(upstream);
        }
        upstreams
    }

    fn time(&mut self, spec: &TimeSpec, domain: &str, upstreams: &[SocketAddr]) -> Time {
        let mut servers = Vec::new();
        for text in &spec.servers {
            let server = text.get_ref().clone();
            if server.parse::<IpAddr>().is_err() {
                self.name(text, names::host);
                let inside = server
                    .strip_suffix(domain)
                    .and_then(|rest| rest.strip_suffix('.'));
                match inside {
                    Some(name) if !self.names.has(name) => self.report.wrong(
                        text.span(),
                        format!("`{server}` is a name of this site that nothing has"),
                    ),
                    None if upstreams.is_empty() => self.report.warn(
                        text.span(),
                        format!("`{server}` cannot be resolved: [dns] has no upstreams"),
                    ),
                    _ => {}
                }
            }
            servers.push(server);
        }
        Time {
            servers,
            correct_clock: spec.correct_clock.unwrap_or(true),
        }
    }

    //--- Registry and platform

    fn registry(&mut self, spec: &super::spec::RegistrySpec) -> Registry {
        let usual = Registry::default();
        let names = match &spec.names {
            Some(names) => names.iter().map(|name| name.get_ref().clone()).collect(),
            None => vec!["registry".to_owned()],
        };
        let cluster_port = spec
            .cluster_port
            .as_ref()
            .map_or(usual.cluster_port, |port| *port.get_ref());
        let span = spec.cluster_port.as_ref().map_or(0..0, toml::Spanned::span);
        let who = "the nodes of the registry".to_owned();
        self.ports.claim(&mut self.report, cluster_port, span, who);
        Registry {
            names,
            port: spec
                .port
                .as_ref()
                .map_or(usual.port, |port| *port.get_ref()),
            cluster_port,
            users: spec.users.as_ref().map(|users| users.get_ref().clone()),
            anonymous_pull: spec.anonymous_pull.unwrap_or(true),
        }
    }

    fn platform(&mut self, spec: &PlatformSpec) -> Platform {
        let openshift = spec.openshift.as_ref().and_then(|text| {
            let release = release(text.get_ref());
            match release {
                // Ignition 3.2, which MachineConfigs have here, came with 4.7.
                Some((4, minor)) if minor >= 7 => {}
                _ => self.report.wrong(
                    text.span(),
                    format!(
                        "`{}` is no release of OpenShift from 4.7 on, as in \"4.18\"",
                        text.get_ref()
                    ),
                ),
            }
            release
        });
        let podman = spec.podman.as_ref().map(|text| {
            let known = match text.get_ref().as_str() {
                "none" => Some(Runtime::Native),
                version => release(version).map(of_podman),
            };
            if known.is_none() {
                self.report.wrong(
                    text.span(),
                    format!(
                        "`{}` is no release of podman, as in \"4.9\", nor \"none\"",
                        text.get_ref()
                    ),
                );
            }
            known.unwrap_or(Runtime::Native)
        });
        let shipped = openshift.map(|(_, minor)| match minor {
            ..=12 => Runtime::NoQuadlet,
            13..=15 => Runtime::Quadlet(Podman::V4_4),
            16 => Runtime::Quadlet(Podman::V4_9),
            17.. => Runtime::Quadlet(Podman::V5_2),
        });
        Platform {
            openshift,
            // Every podman that knows quadlets understands those of the first.
            runtime: podman.or(shipped).unwrap_or(Runtime::Quadlet(Podman::V4_4)),
        }
    }
}

fn of_podman(version: (u8, u8)) -> Runtime {
    match version {
        (..=3, _) | (4, ..=3) => Runtime::NoQuadlet,
        (4, 4..=8) => Runtime::Quadlet(Podman::V4_4),
        (4, 9..) | (5, ..=1) => Runtime::Quadlet(Podman::V4_9),
        (5, 2..=3) => Runtime::Quadlet(Podman::V5_2),
        (5, 4..) | (6.., _) => Runtime::Quadlet(Podman::V5_4),
    }
}

/// `4.18`, or `5.2.2`, whose last part says nothing here.
fn release(text: &str) -> Option<(u8, u8)> {
    let mut parts = text.split('.');
    let release = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let rest_is_numbers = parts.all(|part| part.parse::<u16>().is_ok());
    rest_is_numbers.then_some(release)
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

/// The type of a record with an address.
fn rtype(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}

/// Networks that OpenShift takes for itself unless it is told otherwise; pods first.
const OPENSHIFT_NETWORKS: [(&str, &str); 2] =
    [("10.128.0.0/14", "pods"), ("172.30.0.0/16", "services")];

/// What does not work on a node without what.
const NEEDS: &[(Service, Service, &str)] = &[
    (
        Service::DnsAuthd,
        Service::Healthd,
        "which tells it what is up",
    ),
    (
        Service::LbProxy,
        Service::Healthd,
        "which tells it what is up",
    ),
    (
        Service::DnsRecursor,
        Service::DnsAuthd,
        "which it asks for the names of the site",
    ),
];
