//! A site that is being described: its known values, and the site file made from them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use config::nodes::ClusterNodes;
use config::site::{self as file, Network, VipRole};
use config::{DnsAddress, Ip, Written, at};
use config_text::Position;
use ipnet::IpNet;

use site::Role;

/// The known values of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) name: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) networks: Vec<IpNet>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) clients: Vec<IpNet>,
    pub(crate) interface: Option<String>,
    pub(crate) nodes: Vec<DraftNode>,
    /// How many masters and workers there are to be, if known.
    pub(crate) masters: u32,
    pub(crate) workers: u32,
    pub(crate) upstreams: Vec<String>,
    pub(crate) time_servers: Vec<String>,
    pub(crate) api_vips: Vec<IpAddr>,
    pub(crate) ingress_vips: Vec<IpAddr>,
    pub(crate) registry_names: Vec<String>,
    pub(crate) registry_port: Option<u16>,
    /// `none` where there is no OpenShift.
    pub(crate) openshift: Option<String>,
    /// The address of the machine that installs the others: a master.
    pub(crate) rendezvous: Option<IpAddr>,
    /// The cluster that the site was learned from.
    pub(crate) cluster: Option<DraftCluster>,
    /// Whether OpenShift runs its routers on masters, though there are workers.
    pub(crate) has_routers_on_masters: bool,
    /// Notes for the reader of the file.
    pub(crate) notes: Vec<String>,
    /// The keys of OpenShift's files that are not carried.
    pub(crate) lost: BTreeSet<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DraftNode {
    pub(crate) name: String,
    pub(crate) role: Option<Role>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// The table `[cluster]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DraftCluster {
    pub(crate) domain: Option<String>,
    pub(crate) reverse: Vec<IpNet>,
    pub(crate) follow: Vec<ClusterNodes>,
    pub(crate) forwards: bool,
    /// Lines of comment: keys that a person has to decide on.
    pub(crate) proposals: Vec<String>,
}

/// The largest number of machines that can be meant.
pub(crate) const MAX_NODES: u32 = 100;

impl Draft {
    /// Adds a note for the reader of the file, once.
    pub(crate) fn note(&mut self, text: &str) {
        // A note is one line of a comment, whatever it quotes from a file.
        let text: String = text
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Notes a key of a file that is not carried, once for all hosts. Never its value, which may be a password.
    pub(crate) fn lost(&mut self, way: &str, position: &Position, reason: Option<&str>) {
        if self.lost.insert(way.to_owned()) {
            let reason = reason.map(|reason| format!(": {reason}"));
            let reason = reason.unwrap_or_default();
            self.note(&format!("not carried: {position}: {way}{reason}"));
        }
    }

    /// Adds a network, unless it is in one that is there.
    pub(crate) fn network(&mut self, network: IpNet) {
        let network = network.trunc();
        if !self.networks.iter().any(|known| known.contains(&network)) {
            self.networks.push(network);
        }
    }

    /// How many nodes of a role there are to be.
    pub(crate) fn replicas(&mut self, role: Role) -> &mut u32 {
        match role {
            Role::Master => &mut self.masters,
            Role::Worker => &mut self.workers,
        }
    }

    /// Gives every node a role and its short name, and makes those that are only counted.
    pub(crate) fn settle(&mut self) {
        let suffix = format!(".{}", self.domain.as_deref().unwrap_or_default());
        for node in &mut self.nodes {
            if let Some(short) = node.name.strip_suffix(&suffix) {
                node.name = short.to_owned();
            }
        }
        let count = |nodes: &[DraftNode], role| {
            let of_role = nodes.iter().filter(|node| node.role == Some(role)).count();
            u32::try_from(of_role).unwrap_or(MAX_NODES)
        };
        // OpenShift's installer gives roles to hosts that have none, masters first.
        let mut lacking = self
            .masters
            .saturating_sub(count(&self.nodes, Role::Master));
        for node in &mut self.nodes {
            if node.role.is_none() {
                let role = if lacking > 0 {
                    Role::Master
                } else {
                    Role::Worker
                };
                lacking = lacking.saturating_sub(1);
                node.role = Some(role);
            }
        }
        for (role, wanted, word) in [
            (Role::Master, self.masters, "master"),
            (Role::Worker, self.workers, "worker"),
        ] {
            for number in count(&self.nodes, role)..wanted.min(MAX_NODES) {
                self.nodes.push(DraftNode {
                    name: format!("{word}-{number}"),
                    role: Some(role),
                    addresses: Vec::new(),
                });
            }
        }
        self.nodes
            .sort_by_key(|node| node.role != Some(Role::Master));
        self.settle_rendezvous();
    }

    /// Gives the address of the machine that installs the others to the first master without an address.
    fn settle_rendezvous(&mut self) {
        let Some(address) = self.rendezvous else {
            return;
        };
        let has_it = |node: &DraftNode| node.addresses.contains(&address);
        if self.nodes.is_empty() || self.nodes.iter().any(has_it) {
            return;
        }
        let is_bare =
            |node: &&mut DraftNode| node.addresses.is_empty() && node.role == Some(Role::Master);
        match self.nodes.iter_mut().find(is_bare) {
            Some(node) => node.addresses.push(address),
            None => self.note(&format!(
                "not carried: rendezvousIP {address}, which no host has"
            )),
        }
    }

    /// The missing values, as the flags that give them.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut lacks = |is_lacking: bool, flag: String| {
            if is_lacking {
                missing.push(flag);
            }
        };
        lacks(self.name.is_none(), "--name NAME".to_owned());
        lacks(self.domain.is_none(), "--domain DOMAIN".to_owned());
        lacks(self.networks.is_empty(), "--network CIDR".to_owned());
        let is_master = |node: &DraftNode| node.role == Some(Role::Master);
        lacks(
            !self.nodes.iter().any(is_master),
            "--master NAME=ADDRESS".to_owned(),
        );
        for node in self.nodes.iter().filter(|node| node.addresses.is_empty()) {
            let flag = if is_master(node) { "master" } else { "worker" };
            lacks(true, format!("--{flag} {}=ADDRESS", node.name));
        }
        missing
    }
}

//--- The file

impl fmt::Display for Draft {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names, addresses and small numbers all have a form in TOML.
        let written = Written::new(&self.file()).map_err(|_| fmt::Error)?;
        let mut written = written.head(HEAD);
        for note in &self.notes {
            written = written.head(note);
        }
        let written = match &self.cluster {
            Some(cluster) => {
                let first = match &cluster.domain {
                    Some(_) => "domain",
                    None => "follow",
                };
                written.comment(&at!["cluster", first], &cluster.proposals.join("\n"))
            }
            None => written,
        };
        let written = written.documented();
        EXAMPLES
            .iter()
            .fold(written, |written, way| written.example(way))
            .fmt(formatter)
    }
}

impl Draft {
    /// The site file, as far as it is known.
    fn file(&self) -> file::Site {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut site = file::Site::new(text(&self.name), text(&self.domain));
        site.networks = self.networks.iter().copied().map(Network::from).collect();
        site.gateways = self.gateways.iter().copied().map(Ip).collect();
        let clients: Vec<Network> = self.clients.iter().copied().map(Network::from).collect();
        site.clients = (!clients.is_empty()).then_some(clients);
        site.interface.clone_from(&self.interface);
        site.node = self.nodes.iter().map(DraftNode::file).collect();
        let upstreams = self.upstreams.iter();
        site.dns.upstreams = upstreams
            .filter_map(|text| text.parse::<DnsAddress>().ok())
            .collect();
        site.time.servers.clone_from(&self.time_servers);
        // One address of both is one virtual router.
        let vips = [
            ("api", VipRole::Api, &self.api_vips),
            ("ingress", VipRole::Ingress, &self.ingress_vips),
        ];
        let vips = vips
            .into_iter()
            .filter(|(_, _, addresses)| !addresses.is_empty());
        site.vip = vips
            .map(|(name, role, addresses)| {
                let (address, addresses) = one_or_several(addresses);
                file::Vip {
                    name: name.to_owned(),
                    role,
                    address,
                    addresses,
                    router_id: None,
                }
            })
            .collect();
        if !self.registry_names.is_empty() {
            site.registry.names.clone_from(&self.registry_names);
        }
        if let Some(port) = self.registry_port.and_then(file::Port::new) {
            site.registry.port = port;
        }
        let openshift = self.openshift.as_deref();
        site.platform.openshift = openshift.and_then(|release| release.parse().ok());
        site.cluster = self.cluster.as_ref().map(DraftCluster::file);
        site.publish = self.published(site.platform.openshift.is_some());
        site
    }

    /// The ports that the site has beside its defaults, or otherwise.
    fn published(&self, is_openshift: bool) -> Vec<file::Publish> {
        let named = |name: &str| file::Publish {
            name: name.to_owned(),
            port: None,
            proxy_port: None,
            names: None,
            role: None,
            vip: None,
            offered_by: None,
        };
        match (is_openshift, &self.cluster) {
            (true, _) if self.has_routers_on_masters => {
                let on_masters = |name| file::Publish {
                    offered_by: Some(vec![Role::Master]),
                    ..named(name)
                };
                vec![on_masters("ingress"), on_masters("ingress-http")]
            }
            // The API is a default of OpenShift's sites alone.
            (false, Some(_)) => vec![file::Publish {
                port: file::Port::new(API_PORT),
                proxy_port: file::Port::new(API_PROXY_PORT),
                names: Some(vec!["api".to_owned()]),
                role: Some(VipRole::Api),
                ..named("api")
            }],
            _ => Vec::new(),
        }
    }
}

/// The port of API servers.
const API_PORT: u16 = 6443;
/// The port on which lb-proxy listens for it on the masters, as in a site of OpenShift.
const API_PROXY_PORT: u16 = 9445;

impl DraftCluster {
    fn file(&self) -> file::Cluster {
        file::Cluster {
            domain: self.domain.clone(),
            reverse: self.reverse.iter().copied().map(Network::from).collect(),
            follow: self.follow.clone(),
            forwards: self.forwards,
            ..file::Cluster::default()
        }
    }
}

impl DraftNode {
    fn file(&self) -> file::Node {
        let (address, addresses) = one_or_several(&self.addresses);
        file::Node {
            name: self.name.clone(),
            role: self.role.unwrap_or(Role::Master),
            address,
            addresses,
            interface: None,
            services: None,
        }
    }
}

/// The values of `address` and `addresses`.
fn one_or_several(addresses: &[IpAddr]) -> (Option<Ip>, Vec<Ip>) {
    match addresses {
        [one] => (Some(Ip(*one)), Vec::new()),
        several => (None, several.iter().copied().map(Ip).collect()),
    }
}

const HEAD: &str = "\
site.toml: everything that Outpost has to know about this site. docs/reference/site.md has all keys;
`outpost check` lists what would not work.";

/// Keys that many sites add later: the file shows their examples as comments.
const EXAMPLES: &[&[&str]] = &[
    &["registry", "users"],
    &["dns", "upstreams"],
    &["time", "servers"],
    &["record"],
    &["vip"],
    &["platform", "podman"],
];
