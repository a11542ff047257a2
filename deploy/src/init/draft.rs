//! A site that is being described: its known values, and the site file made from them.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use config_text::toml::{line, list, quoted};
use ipnet::IpNet;

use site::Role;

/// The known values of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) name: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) networks: Vec<IpNet>,
    pub(super) gateways: Vec<IpAddr>,
    pub(super) clients: Vec<IpNet>,
    pub(super) interface: Option<String>,
    pub(super) nodes: Vec<DraftNode>,
    /// How many masters and workers there are to be, if known.
    pub(super) masters: u32,
    pub(super) workers: u32,
    pub(super) upstreams: Vec<String>,
    pub(super) time_servers: Vec<String>,
    pub(super) api_vips: Vec<IpAddr>,
    pub(super) ingress_vips: Vec<IpAddr>,
    pub(super) registry_names: Vec<String>,
    pub(super) registry_port: Option<u16>,
    /// `none` where there is no OpenShift.
    pub(super) openshift: Option<String>,
    /// Notes for the reader of the file.
    pub(super) notes: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftNode {
    pub(super) name: String,
    pub(super) role: Option<Role>,
    pub(super) addresses: Vec<IpAddr>,
}

/// The largest number of machines that can be meant.
pub(super) const MAX_NODES: u32 = 100;

impl Draft {
    /// Adds a note for the reader of the file, once.
    pub(super) fn note(&mut self, text: &str) {
        // A note is one line of a comment, whatever it quotes from a file.
        let text: String = text
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Adds a network, unless it is in one that is there.
    pub(super) fn network(&mut self, network: IpNet) {
        let network = network.trunc();
        if !self.networks.iter().any(|known| known.contains(&network)) {
            self.networks.push(network);
        }
    }

    /// How many nodes of a role there are to be.
    pub(super) fn replicas(&mut self, role: Role) -> &mut u32 {
        match role {
            Role::Master => &mut self.masters,
            Role::Worker => &mut self.workers,
        }
    }

    /// Gives every node a role and its short name, and makes those that are only counted.
    pub(super) fn settle(&mut self) {
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
    }

    /// The missing values, as the flags that give them.
    pub(super) fn missing(&self) -> Vec<String> {
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.head(&mut text);
        self.write_nodes(&mut text);
        self.write_names(&mut text);
        self.write_vips(&mut text);
        self.write_rest(&mut text);
        f.write_str(&text)
    }
}

impl Draft {
    fn head(&self, text: &mut String) {
        text.push_str(HEAD);
        for note in &self.notes {
            line(text, format_args!("# {note}"));
        }
        text.push_str("\nversion = \"v1\"\n");
        text.push_str("\n# The cluster: metadata.name of install-config.yaml.\n");
        let or_nothing = |value: &Option<String>| quoted(value.as_deref().unwrap_or_default());
        line(text, format_args!("name = {}", or_nothing(&self.name)));
        text.push_str("# The domain that the site answers for.\n");
        line(text, format_args!("domain = {}", or_nothing(&self.domain)));
        text.push_str("# Where the nodes and virtual IPs are.\n");
        line(text, format_args!("networks = {}", list(&self.networks)));
        if !self.gateways.is_empty() {
            text.push_str("# Routers in them: do not give their addresses to anything else.\n");
            line(text, format_args!("gateways = {}", list(&self.gateways)));
        }
        if !self.clients.is_empty() {
            text.push_str(
                "# Other networks whose hosts may ask for names and for the time: pods.\n",
            );
            line(text, format_args!("clients = {}", list(&self.clients)));
        }
        if let Some(interface) = &self.interface {
            text.push_str("# The interface of virtual IPs.\n");
            line(text, format_args!("interface = {}", quoted(interface)));
        }
    }

    fn write_nodes(&self, text: &mut String) {
        text.push_str("\n# Nodes. Masters run the services of the site, workers keep its time.\n");
        for (index, node) in self.nodes.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            text.push_str("[[node]]\n");
            line(text, format_args!("name = {}", quoted(&node.name)));
            let role = match node.role {
                Some(Role::Worker) => "worker",
                Some(Role::Master) | None => "master",
            };
            line(text, format_args!("role = \"{role}\""));
            write_addresses(text, &node.addresses);
        }
    }

    fn write_names(&self, text: &mut String) {
        text.push_str(
            "\n[dns]\n# Who resolves names outside the site. None: such names fail at once.\n",
        );
        write_or_example(text, "upstreams", &self.upstreams, "192.0.2.53");
        text.push_str("\n# Further names; also `type` and `value`, as in a master file.\n");
        text.push_str("#[[record]]\n#name = \"helper\"\n#address = \"192.0.2.11\"\n");
        text.push_str(
            "\n[time]\n# NTP servers outside the site. None: the nodes agree on a time.\n",
        );
        write_or_example(text, "servers", &self.time_servers, "ntp.example.com");
    }

    fn write_vips(&self, text: &mut String) {
        if self.api_vips.is_empty() && self.ingress_vips.is_empty() {
            text.push_str(
                "\n# Virtual IPs. None: names stand for the nodes on which the port is up.\n",
            );
            text.push_str(
                "#[[vip]]\n#name = \"api\"\n#role = \"api\"\n#address = \"192.0.2.100\"\n",
            );
            return;
        }
        text.push_str("\n# Virtual IPs: a node that works holds them, and names stand for them.\n");
        // One address of both is one virtual router.
        for (name, addresses) in [("api", &self.api_vips), ("ingress", &self.ingress_vips)] {
            if !addresses.is_empty() {
                line(
                    text,
                    format_args!("[[vip]]\nname = \"{name}\"\nrole = \"{name}\""),
                );
                write_addresses(text, addresses);
                text.push('\n');
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }

    fn write_rest(&self, text: &mut String) {
        text.push_str("\n[registry]\n# Its names below the domain.\n");
        let usual = ["registry".to_owned()];
        let names = match self.registry_names.as_slice() {
            [] => &usual,
            names => names,
        };
        line(text, format_args!("names = {}", list(names)));
        if let Some(port) = self.registry_port.filter(|port| *port != 5443) {
            line(text, format_args!("port = {port}"));
        }
        text.push_str("# Who may push, as `htpasswd -B` writes it. Without it everybody may.\n");
        text.push_str("#users = \"registry.users\"\n");
        text.push_str("\n[platform]\n");
        match self.openshift.as_deref() {
            Some("none") | None => {
                text.push_str(
                    "# No OpenShift. The release of podman on the nodes; without it, 4.4 or later.\n",
                );
                text.push_str("#podman = \"5.4\"\n");
            }
            Some(release) => {
                text.push_str(
                    "# The release of OpenShift, which says what podman the nodes have.\n",
                );
                line(text, format_args!("openshift = {}", quoted(release)));
            }
        }
    }
}

fn write_addresses(text: &mut String, addresses: &[IpAddr]) {
    match addresses {
        [one] => line(text, format_args!("address = \"{one}\"")),
        several => line(text, format_args!("addresses = {}", list(several))),
    }
}

fn write_or_example(text: &mut String, key: &str, values: &[String], example: &str) {
    // Writing to a string does not fail.
    let _written = match values {
        [] => writeln!(text, "#{key} = [\"{example}\"]"),
        values => writeln!(text, "{key} = {}", list(values)),
    };
}

const HEAD: &str = "\
# site.toml: everything that Outpost has to know about this site. docs/deploy/site-file.md tells what
# more can be said; `outpost check` says what would not work.
";
