//! Reads a site from OpenShift's install-config.yaml and agent-config.yaml.
//!
//! The content tells the two apart. Whatever describes machines, addresses and names is
//! taken over; passwords, keys and what only OpenShift's installer cares about is left where it is.
//! Pure: reads no file.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use config_text::{Position, Problem};
use daemon::config::{Document, Problems};
use ipnet::IpNet;
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::draft::{Draft, DraftNode};
use site::Role;

type Text = Spanned<String>;

/// Both files: neither has a key that means something else in the other.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    base_domain: Option<Text>,
    metadata: Option<Metadata>,
    networking: Option<Networking>,
    control_plane: Option<Pool>,
    compute: Option<Vec<Pool>>,
    platform: Option<Platforms>,
    image_content_sources: Option<Vec<Source>>,
    image_digest_sources: Option<Vec<Source>>,
    additional_trust_bundle: Option<String>,
    proxy: Option<serde_json::Value>,
    #[serde(rename = "rendezvousIP")]
    rendezvous_ip: Option<Text>,
    #[serde(rename = "additionalNTPSources")]
    additional_ntp_sources: Option<Vec<Text>>,
    hosts: Option<Vec<HostEntry>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Networking {
    machine_network: Option<Vec<Cidr>>,
    #[serde(rename = "machineCIDR")]
    machine_cidr: Option<Text>,
    cluster_network: Option<Vec<Cidr>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cidr {
    cidr: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pool {
    replicas: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Platforms {
    baremetal: Option<OnPremises>,
    vsphere: Option<OnPremises>,
    nutanix: Option<OnPremises>,
    openstack: Option<OnPremises>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OnPremises {
    #[serde(rename = "apiVIPs")]
    api_vips: Option<Vec<Text>>,
    #[serde(rename = "ingressVIPs")]
    ingress_vips: Option<Vec<Text>>,
    #[serde(rename = "apiVIP")]
    api_vip: Option<Text>,
    #[serde(rename = "ingressVIP")]
    ingress_vip: Option<Text>,
    #[serde(rename = "additionalNTPServers")]
    additional_ntp_servers: Option<Vec<Text>>,
    hosts: Option<Vec<HostEntry>>,
    load_balancer: Option<LoadBalancer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    mirrors: Option<Vec<Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HostEntry {
    hostname: Option<Text>,
    name: Option<Text>,
    role: Option<Text>,
    network_config: Option<Nmstate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Nmstate {
    interfaces: Option<Vec<Interface>>,
    dns_resolver: Option<Configured<Resolver>>,
    routes: Option<Configured<Vec<Route>>>,
}

#[derive(Debug, Deserialize)]
struct Configured<T> {
    config: Option<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    ipv4: Option<Family>,
    ipv6: Option<Family>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Family {
    address: Option<Vec<Address>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Address {
    ip: Option<Text>,
    prefix_length: Option<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resolver {
    server: Option<Vec<Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Route {
    destination: Option<String>,
    next_hop_address: Option<Text>,
}

/// Adds the values of a file to a draft; values of the draft stay.
///
/// # Errors
///
/// Everything that cannot be understood, with its place.
pub(super) fn import(document: &Document, draft: &mut Draft) -> Result<(), Problems> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_depth: 32 },
    };
    let config: Config =
        serde_saphyr::from_str_with_options(&document.text, options).map_err(|error| {
            let text = error.to_string();
            // The place stands before the words, as everywhere.
            let words = text.split(" at line ").next().unwrap_or(&text).to_owned();
            match error.location() {
                Some(location) => Problem::at(place(&document.path, &location), words),
                None => Problem::new(format!("{}: {words}", document.path.display())),
            }
        })?;
    let mut importer = Importer {
        path: &document.path,
        draft,
        problems: Problems::default(),
    };
    importer.config(config);
    importer.problems.unless_empty(())
}

/// Values in one file: ten times those of a cluster of a hundred machines. Lists of them are compared
/// with themselves.
const MAX_VALUES: usize = 20_000;

fn place(path: &Arc<Path>, location: &Location) -> Position {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    Position {
        file: Arc::clone(path),
        line: number(location.line()),
        column: number(location.column()),
    }
}

struct Importer<'a> {
    path: &'a Arc<Path>,
    draft: &'a mut Draft,
    problems: Problems,
}

impl Importer<'_> {
    fn config(&mut self, config: Config) {
        if let Some(name) = config.metadata.and_then(|metadata| metadata.name) {
            // An agent-config.yaml has the cluster's name too.
            self.draft.name.get_or_insert(name.value);
        }
        if let (Some(base), Some(name)) = (config.base_domain, &self.draft.name) {
            let domain = format!("{name}.{}", base.value.trim_end_matches('.'));
            self.draft.domain.get_or_insert(domain);
        }
        if let Some(networking) = config.networking {
            self.networking(networking);
        }
        for (pool, role) in config
            .control_plane
            .iter()
            .map(|pool| (pool, Role::Master))
            .chain(
                config
                    .compute
                    .iter()
                    .flatten()
                    .map(|pool| (pool, Role::Worker)),
            )
        {
            let count = self.draft.replicas(role);
            *count = count.saturating_add(pool.replicas.unwrap_or(0));
        }
        let platforms = config.platform.unwrap_or_default();
        for platform in [
            platforms.baremetal,
            platforms.vsphere,
            platforms.nutanix,
            platforms.openstack,
        ]
        .into_iter()
        .flatten()
        {
            self.platform(platform);
        }
        self.times(config.additional_ntp_sources);
        for host in config.hosts.into_iter().flatten() {
            self.host(host);
        }
        if let Some(address) = config.rendezvous_ip {
            self.rendezvous(&address);
        }
        let sources = [config.image_content_sources, config.image_digest_sources];
        for source in sources.into_iter().flatten().flatten() {
            for mirror in source.mirrors.into_iter().flatten() {
                self.mirror(&mirror.value);
            }
        }
        if config.additional_trust_bundle.is_some() {
            self.draft.note(
                "additionalTrustBundle: add pki/ca.crt to it, so that the nodes trust the registry",
            );
        }
        if config.proxy.is_some() {
            self.draft
                .note("not carried: proxy; nothing here goes through one");
        }
    }

    fn networking(&mut self, networking: Networking) {
        let machines = networking.machine_network.into_iter().flatten();
        let machines = machines.filter_map(|one| one.cidr);
        for text in machines.chain(networking.machine_cidr) {
            if let Some(network) = self.parsed::<IpNet>(&text, "a network") {
                self.draft.network(network);
            }
        }
        for text in networking.cluster_network.into_iter().flatten() {
            if let Some(text) = text.cidr
                && let Some(network) = self.parsed::<IpNet>(&text, "a network")
            {
                self.draft.clients.push(network.trunc());
            }
        }
    }

    fn platform(&mut self, platform: OnPremises) {
        let api = platform.api_vips.into_iter().flatten();
        let api: Vec<Text> = api.chain(platform.api_vip).collect();
        let ingress = platform.ingress_vips.into_iter().flatten();
        let ingress: Vec<Text> = ingress.chain(platform.ingress_vip).collect();
        let is_ours = platform
            .load_balancer
            .and_then(|balancer| balancer.kind)
            .is_some_and(|kind| kind == "UserManaged");
        if !api.is_empty() && !is_ours {
            self.draft.note("OpenShift's own keepalived holds these virtual IPs too, unless install-config.yaml has loadBalancer: {type: UserManaged} below its platform");
        }
        for text in api {
            if let Some(address) = self.parsed(&text, "an IP address") {
                push_new(&mut self.draft.api_vips, address);
            }
        }
        for text in ingress {
            if let Some(address) = self.parsed(&text, "an IP address") {
                push_new(&mut self.draft.ingress_vips, address);
            }
        }
        self.times(platform.additional_ntp_servers);
        for host in platform.hosts.into_iter().flatten() {
            self.host(host);
        }
    }

    fn times(&mut self, servers: Option<Vec<Text>>) {
        for server in servers.into_iter().flatten() {
            push_new(&mut self.draft.time_servers, server.value);
        }
    }

    fn host(&mut self, host: HostEntry) {
        let Some(name) = host.hostname.or(host.name) else {
            self.draft.note("not carried: a host without a hostname");
            return;
        };
        let role = match host.role.as_ref().map(|role| role.value.as_str()) {
            None | Some("") => None,
            Some("master" | "control-plane") => Some(Role::Master),
            Some("worker") => Some(Role::Worker),
            Some(other) => {
                let known = "master and worker are";
                self.draft.note(&format!(
                    "not carried: the role {other} of {}; {known}",
                    name.value
                ));
                return;
            }
        };
        let network = host.network_config.unwrap_or_default();
        let addresses = self.addresses(network.interfaces.unwrap_or_default());
        let resolver = network.dns_resolver.and_then(|resolver| resolver.config);
        for server in resolver.and_then(|one| one.server).into_iter().flatten() {
            if let Some(address) = self.parsed::<IpAddr>(&server, "an IP address") {
                push_new(&mut self.draft.upstreams, address.to_string());
            }
        }
        let routes = network.routes.and_then(|routes| routes.config);
        for route in routes.into_iter().flatten() {
            let is_default = matches!(route.destination.as_deref(), Some("0.0.0.0/0" | "::/0"));
            if let (true, Some(hop)) = (is_default, &route.next_hop_address)
                && let Some(address) = self.parsed(hop, "an IP address")
            {
                push_new(&mut self.draft.gateways, address);
            }
        }
        self.draft.nodes.push(DraftNode {
            name: name.value,
            role,
            addresses,
        });
    }

    /// The first address of each family: the one in a network of the machines, if there is one.
    fn addresses(&mut self, interfaces: Vec<Interface>) -> Vec<IpAddr> {
        let mut found: Vec<(IpAddr, Option<u8>)> = Vec::new();
        for interface in interfaces {
            for family in [interface.ipv4, interface.ipv6].into_iter().flatten() {
                for address in family.address.into_iter().flatten() {
                    let length = address.prefix_length;
                    let ip = address
                        .ip
                        .and_then(|text| self.parsed::<IpAddr>(&text, "an IP address"));
                    found.extend(ip.map(|ip| (ip, length)));
                }
            }
        }
        let mut chosen = Vec::new();
        for is_v4 in [true, false] {
            let of_family = || found.iter().filter(|(ip, _)| ip.is_ipv4() == is_v4);
            let inside = of_family().find(|(ip, _)| {
                let networks = &self.draft.networks;
                networks.iter().any(|network| network.contains(ip))
            });
            let Some(&(ip, length)) = inside.or_else(|| of_family().next()) else {
                continue;
            };
            chosen.push(ip);
            let network = length.and_then(|length| IpNet::new(ip, length).ok());
            if let (None, Some(network)) = (inside, network) {
                self.draft.network(network);
            }
        }
        chosen
    }

    /// The machine that installs the others: its address is known even if nothing else is.
    fn rendezvous(&mut self, text: &Text) {
        let Some(address) = self.parsed::<IpAddr>(text, "an IP address") else {
            return;
        };
        let nodes = &mut self.draft.nodes;
        if nodes.iter().any(|node| node.addresses.contains(&address)) {
            return;
        }
        let bare = nodes
            .iter_mut()
            .find(|node| node.addresses.is_empty() && node.role != Some(Role::Worker));
        match bare {
            Some(node) => node.addresses.push(address),
            None => self.draft.note(&format!(
                "not carried: rendezvousIP {address}, which no host has"
            )),
        }
    }

    /// `registry.DOMAIN:PORT/PATH` is the site's own registry; others are not.
    fn mirror(&mut self, mirror: &str) {
        let host = mirror.split('/').next().unwrap_or(mirror);
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (host, None),
        };
        let domain = self.draft.domain.clone().unwrap_or_default();
        let name = host
            .strip_suffix(&domain)
            .and_then(|rest| rest.strip_suffix('.'))
            .filter(|_| !domain.is_empty());
        match name {
            Some(name) => {
                push_new(&mut self.draft.registry_names, name.to_owned());
                self.draft.registry_port = port.or(self.draft.registry_port);
            }
            None => self.draft.note(&format!(
                "not carried: the mirror {mirror}, whose name is not below the domain"
            )),
        }
    }

    fn parsed<T: FromStr>(&mut self, text: &Text, wanted: &str) -> Option<T> {
        let value = text.value.parse().ok();
        if value.is_none() {
            let position = place(self.path, &text.referenced);
            let message = format!("`{}` is not {wanted}", text.value);
            self.problems.push(Problem::at(position, message));
        }
        value
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}
