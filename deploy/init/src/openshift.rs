//! Reads a site from OpenShift's install-config.yaml and agent-config.yaml.
//!
//! The content tells the two apart. The reader takes over every description of machines, addresses and names. Every other key
//! becomes a note, without its value, which may be a password; only keys that say nothing about a site are left out.
//! Pure: reads no file.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use config_text::{Position, Problem};
use daemon::config::{Document, Problems};
use ipnet::IpNet;

use super::draft::{Draft, DraftNode};
use super::yaml::{self, Content, Table, Yaml};
use site::Role;

/// Adds the values of a file to a draft; values of the draft stay.
///
/// # Errors
///
/// Everything that cannot be understood, with its place.
pub(crate) fn import(document: &Document, draft: &mut Draft) -> Result<(), Problems> {
    let file = yaml::parse(document)?;
    let mut importer = Importer {
        path: &document.path,
        draft,
        problems: Problems::default(),
    };
    if let Some(table) = importer.table(Some(file), "") {
        importer.config(table);
    }
    importer.problems.unless_empty(())
}

/// A text and its place.
struct Text {
    value: String,
    position: Position,
}

struct Importer<'a> {
    path: &'a Arc<Path>,
    draft: &'a mut Draft,
    problems: Problems,
}

/// Keys whose loss has a consequence that the reader should know, by the end of the way to them.
const REASONS: &[(&str, &str)] = &[
    ("fencing", "OpenShift itself fences its nodes"),
    (
        "dnsVIP",
        "the nodes answer DNS queries at their own addresses",
    ),
    ("proxy", "nothing here goes through one"),
    ("bmc", "Outpost does not power nodes on and off"),
];

impl Importer<'_> {
    /// Both files: neither has a key that means something else in the other.
    fn config(&mut self, mut file: Table) {
        if let Some(mut metadata) = self.inner(&mut file, "metadata") {
            // An agent-config.yaml has the cluster's name too.
            if let Some(name) = self.text(metadata.take("name")) {
                self.draft.name.get_or_insert(name.value);
            }
            self.not_carried(metadata);
        }
        let base = self.text(file.take("baseDomain"));
        if let (Some(base), Some(name)) = (base, &self.draft.name) {
            let domain = format!("{name}.{}", base.value.trim_end_matches('.'));
            self.draft.domain.get_or_insert(domain);
        }
        if let Some(networking) = self.inner(&mut file, "networking") {
            self.networking(networking);
        }
        if let Some(pool) = self.inner(&mut file, "controlPlane") {
            self.pool(pool, Role::Master);
        }
        for pool in self.tables(&mut file, "compute") {
            self.pool(pool, Role::Worker);
        }
        if let Some(mut platforms) = self.inner(&mut file, "platform") {
            for name in ["baremetal", "vsphere", "nutanix", "openstack"] {
                if let Some(platform) = self.inner(&mut platforms, name) {
                    self.platform(platform);
                }
            }
            self.not_carried(platforms);
        }
        self.times(&mut file, "additionalNTPSources");
        for host in self.tables(&mut file, "hosts") {
            self.host(host);
        }
        if let Some(text) = self.text(file.take("rendezvousIP")) {
            let address = self.parsed(&text, "an IP address");
            self.draft.rendezvous = address.or(self.draft.rendezvous);
        }
        for key in ["imageContentSources", "imageDigestSources"] {
            for mut source in self.tables(&mut file, key) {
                for mirror in self.texts(&mut source, "mirrors") {
                    self.mirror(&mirror.value);
                }
                source.skip(&["source"]);
                self.not_carried(source);
            }
        }
        if self.text(file.take("additionalTrustBundle")).is_some() {
            self.draft.note(
                "additionalTrustBundle: add pki/ca.crt to it, so that the nodes trust the registry",
            );
        }
        file.skip(&["apiVersion", "kind", "pullSecret", "sshKey"]);
        self.not_carried(file);
    }

    fn networking(&mut self, mut networking: Table) {
        let mut machines = self.networks(&mut networking, "machineNetwork");
        if let Some(text) = self.text(networking.take("machineCIDR")) {
            machines.extend(self.parsed::<IpNet>(&text, "a network"));
        }
        for network in machines {
            self.draft.network(network);
        }
        // The second name is that of the first releases.
        for key in ["clusterNetwork", "clusterNetworks"] {
            for network in self.networks(&mut networking, key) {
                push_new(&mut self.draft.clients, network.trunc());
            }
        }
        networking.skip(&["networkType", "serviceNetwork"]);
        self.not_carried(networking);
    }

    /// The networks of a list: `- cidr: 192.0.2.0/24`.
    fn networks(&mut self, table: &mut Table, key: &str) -> Vec<IpNet> {
        let mut networks = Vec::new();
        for mut entry in self.tables(table, key) {
            if let Some(text) = self.text(entry.take("cidr")) {
                networks.extend(self.parsed::<IpNet>(&text, "a network"));
            }
            entry.skip(&["hostPrefix", "hostSubnetLength"]);
            self.not_carried(entry);
        }
        networks
    }

    fn pool(&mut self, mut pool: Table, role: Role) {
        if let Some(text) = self.text(pool.take("replicas"))
            && let Some(replicas) = self.parsed::<u32>(&text, "a number of machines")
        {
            let count = self.draft.replicas(role);
            *count = count.saturating_add(replicas);
        }
        pool.skip(&["name", "architecture", "hyperthreading"]);
        self.not_carried(pool);
    }

    fn platform(&mut self, mut platform: Table) {
        let api = self.several(&mut platform, "apiVIPs", "apiVIP");
        let ingress = self.several(&mut platform, "ingressVIPs", "ingressVIP");
        let mut is_ours = false;
        if let Some(mut balancer) = self.inner(&mut platform, "loadBalancer") {
            let kind = self.text(balancer.take("type"));
            is_ours = kind.is_some_and(|kind| kind.value == "UserManaged");
            self.not_carried(balancer);
        }
        if !api.is_empty() && !is_ours {
            self.draft.note("OpenShift's own keepalived holds these virtual IPs too, unless install-config.yaml has loadBalancer: {type: UserManaged} below its platform");
        }
        for address in api {
            push_new(&mut self.draft.api_vips, address);
        }
        for address in ingress {
            push_new(&mut self.draft.ingress_vips, address);
        }
        self.times(&mut platform, "additionalNTPServers");
        for host in self.tables(&mut platform, "hosts") {
            self.host(host);
        }
        self.not_carried(platform);
    }

    /// Addresses under the key of the list, and under the old key of one.
    fn several(&mut self, table: &mut Table, list: &str, one: &str) -> Vec<IpAddr> {
        let mut texts = self.texts(table, list);
        texts.extend(self.text(table.take(one)));
        let addresses = texts.iter();
        addresses
            .filter_map(|text| self.parsed(text, "an IP address"))
            .collect()
    }

    fn times(&mut self, table: &mut Table, key: &str) {
        for server in self.texts(table, key) {
            push_new(&mut self.draft.time_servers, server.value);
        }
    }

    //--- Hosts

    fn host(&mut self, mut host: Table) {
        let (hostname, name) = (host.take("hostname"), host.take("name"));
        let hostname = self.text(hostname);
        let Some(name) = hostname.or_else(|| self.text(name)) else {
            self.draft.note("not carried: a host without a hostname");
            return;
        };
        let role = match self
            .text(host.take("role"))
            .map(|role| role.value)
            .as_deref()
        {
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
        let config = host.take("networkConfig");
        let way = host.way("networkConfig");
        let config = config.and_then(|config| self.nested(config, &way));
        let network = self.table(config, &way);
        let addresses = network.map_or_else(Vec::new, |network| self.nmstate(network));
        self.not_carried(host);
        let of_name = |node: &&mut DraftNode| node.name == name.value;
        // Both files may describe a host.
        match self.draft.nodes.iter_mut().find(of_name) {
            Some(node) => {
                node.role = node.role.or(role);
                for address in addresses {
                    push_new(&mut node.addresses, address);
                }
            }
            None => self.draft.nodes.push(DraftNode {
                name: name.value,
                role,
                addresses,
            }),
        }
    }

    /// A value that may be written as a text of its own: `networkConfig: |`.
    fn nested(&mut self, value: Yaml, way: &str) -> Option<Yaml> {
        let Content::Text(text) = &value.content else {
            return Some(value);
        };
        match yaml::parse(&Document::inline(self.path.as_ref(), text.as_str())) {
            Ok(inner) => Some(inner.moved_to(&value.position)),
            Err(problem) => {
                let words = format!("{way} is no YAML: {}", problem.message);
                self.problems.push(Problem::at(value.position, words));
                None
            }
        }
    }

    /// The addresses of a host, by nmstate's description of its interfaces; routers and name servers go to the draft.
    fn nmstate(&mut self, mut network: Table) -> Vec<IpAddr> {
        let interfaces = self.tables(&mut network, "interfaces");
        let addresses = self.addresses(interfaces);
        if let Some(mut resolver) = self.inner(&mut network, "dns-resolver") {
            if let Some(mut config) = self.inner(&mut resolver, "config") {
                for server in self.texts(&mut config, "server") {
                    if let Some(address) = self.parsed::<IpAddr>(&server, "an IP address") {
                        push_new(&mut self.draft.upstreams, address.to_string());
                    }
                }
                self.not_carried(config);
            }
            self.not_carried(resolver);
        }
        if let Some(mut routes) = self.inner(&mut network, "routes") {
            for mut route in self.tables(&mut routes, "config") {
                self.route(&mut route);
            }
            self.not_carried(routes);
        }
        self.not_carried(network);
        addresses
    }

    fn route(&mut self, route: &mut Table) {
        let destination = self.text(route.take("destination"));
        let hop = self.text(route.take("next-hop-address"));
        let destination = destination.as_ref().map(|text| text.value.as_str());
        if let (Some("0.0.0.0/0" | "::/0"), Some(hop)) = (destination, hop)
            && let Some(address) = self.parsed(&hop, "an IP address")
        {
            push_new(&mut self.draft.gateways, address);
        }
    }

    /// The first address of each family: the one in a network of the machines, if there is one.
    fn addresses(&mut self, interfaces: Vec<Table>) -> Vec<IpAddr> {
        let mut found: Vec<(IpAddr, Option<u8>)> = Vec::new();
        for mut interface in interfaces {
            // The rest of an interface is for nmstate, which configures the NIC.
            for family in ["ipv4", "ipv6"] {
                let Some(mut family) = self.inner(&mut interface, family) else {
                    continue;
                };
                for mut address in self.tables(&mut family, "address") {
                    let length = self.text(address.take("prefix-length"));
                    let length = length.and_then(|text| self.parsed(&text, "a prefix length"));
                    let ip = self.text(address.take("ip"));
                    let ip = ip.and_then(|text| self.parsed::<IpAddr>(&text, "an IP address"));
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

    //--- Mirrors

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

    //--- Values

    /// Notes the keys that are left in a table.
    fn not_carried(&mut self, table: Table) {
        for (way, position) in table.rest() {
            let mut reasons = REASONS.iter();
            let key = way.rsplit('.').next().unwrap_or(&way);
            let reason = reasons.find(|(name, _)| name.eq_ignore_ascii_case(key));
            let reason = reason.map(|(_, reason)| *reason);
            self.draft.lost(&way, &position, reason);
        }
    }

    fn wrong(&mut self, position: &Position, message: String) {
        self.problems.push(Problem::at(position.clone(), message));
    }

    fn table(&mut self, value: Option<Yaml>, way: &str) -> Option<Table> {
        let value = value?;
        match value.content {
            Content::Table(entries) => Some(Table::new(way, entries)),
            Content::Nothing => None,
            Content::Text(_) | Content::List(_) => {
                self.wrong(&value.position, format!("{} is no table", named(way)));
                None
            }
        }
    }

    fn inner(&mut self, table: &mut Table, key: &str) -> Option<Table> {
        let value = table.take(key);
        self.table(value, &table.way(key))
    }

    fn items(&mut self, table: &mut Table, key: &str) -> Vec<Yaml> {
        let Some(value) = table.take(key) else {
            return Vec::new();
        };
        match value.content {
            Content::List(items) => items,
            Content::Nothing => Vec::new(),
            Content::Text(_) | Content::Table(_) => {
                let way = table.way(key);
                self.wrong(&value.position, format!("{} is no list", named(&way)));
                Vec::new()
            }
        }
    }

    fn tables(&mut self, table: &mut Table, key: &str) -> Vec<Table> {
        let items = self.items(table, key);
        let way = table.way(key);
        let tables = items.into_iter();
        tables
            .filter_map(|item| self.table(Some(item), &way))
            .collect()
    }

    fn texts(&mut self, table: &mut Table, key: &str) -> Vec<Text> {
        let items = self.items(table, key);
        let texts = items.into_iter();
        texts.filter_map(|item| self.text(Some(item))).collect()
    }

    fn text(&mut self, value: Option<Yaml>) -> Option<Text> {
        let Yaml { content, position } = value?;
        match content {
            Content::Text(value) => Some(Text { value, position }),
            Content::Nothing => None,
            Content::List(_) | Content::Table(_) => {
                self.wrong(&position, "a single value is needed here".to_owned());
                None
            }
        }
    }

    fn parsed<T: FromStr>(&mut self, text: &Text, wanted: &str) -> Option<T> {
        let value = text.value.parse().ok();
        if value.is_none() {
            let message = format!("`{}` is not {wanted}", text.value);
            self.wrong(&text.position, message);
        }
        value
    }
}

/// A way for people; none is the file itself.
fn named(way: &str) -> &str {
    match way {
        "" => "the file",
        way => way,
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}
