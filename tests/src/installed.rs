//! A node of a rendered site that runs: installed as a bundle is, its directories made by systemd's own tools, each
//! service a process with the user, the groups and the capabilities of its unit.
//!
//! There is no systemd: a process has a file system of its own, in which the node's directories lie where they belong. It opens its
//! ports itself, or is given them as systemd would.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::binaries::{SERVICES, binary, checkout};
use crate::bundle::{Site, images, other, text, well};
use crate::daemon::{Daemon, run};
use crate::netns::{Machine, Network};
use crate::scratch::Scratch;

/// A site with everything that has a secret or a capability. It sets no clock, which nodes of a test share.
pub const SITE: &str = r#"version = "v1"
name = "edge"
domain = "edge.example.org"
networks = ["192.168.7.0/24"]
interface = "eth0"

[[node]]
name = "master-0"
role = "master"
address = "192.168.7.13"

[[node]]
name = "master-1"
role = "master"
address = "192.168.7.14"

[[node]]
name = "master-2"
role = "master"
address = "192.168.7.15"

[time]
correct-clock = false

[[vip]]
name = "api"
role = "api"
address = "192.168.7.100"

[[publish]]
name = "api"
role = "api"
port = 6443
proxy-port = 9445

[registry]

[platform]
podman = "none"
"#;

/// The directories of Outpost on a node.
pub const DIRECTORIES: [&str; 5] = [
    "/etc/outpost",
    "/run/outpost",
    "/run/outpost-admin",
    "/run/chrony",
    "/var/lib/outpost",
];

/// The user of a process, with all that the kernel asks for.
#[derive(Clone, Debug)]
pub struct Identity {
    pub user: u32,
    pub groups: Vec<u32>,
    /// As setpriv takes them.
    pub capabilities: Vec<String>,
}

/// A user without any right.
pub fn nobody() -> Identity {
    Identity {
        user: 65_534,
        groups: vec![65_534],
        capabilities: Vec::new(),
    }
}

/// A node with its disk and the services that run on it.
#[derive(Debug)]
pub struct Installed {
    /// Its place on the wire.
    pub machine: Machine,
    /// Its disk.
    pub root: Scratch,
    /// The services that run.
    pub daemons: BTreeMap<&'static str, Daemon>,
    /// The wire, where the node is alone.
    _network: Option<Network>,
}

impl Installed {
    /// Starts the services of the first node of a site.
    #[must_use]
    pub fn start(site: &str) -> Self {
        let mut node = Self::install(site);
        for service in SERVICES {
            node.serve(service);
        }
        node
    }

    /// The first node of a site, before its services start.
    ///
    /// # Panics
    ///
    /// Panics if the site is not installed.
    #[must_use]
    pub fn install(site: &str) -> Self {
        let made = Site::of(site);
        let users = checkout().join("tests/data/deploy/vips/registry.users");
        fs::copy(users, made.files.join("registry.users")).expect("the users are copied");
        made.make_keys();
        let bundle = made.bundle(&images("0.1.0"), "bundle");
        let mut network = Network::new();
        let machine = network.machine("m0", "192.168.7.13/24");
        // systemd opens the ports below 1024 on a node.
        machine.configure("net/ipv4/ip_unprivileged_port_start", "0");
        let mut node = Self::on(machine, Scratch::new("root"), &made, &bundle, "master-0");
        node._network = Some(network);
        node
    }

    /// A node on this machine with this disk, from the bundle of a site.
    #[must_use]
    pub fn on(machine: Machine, root: Scratch, site: &Site, bundle: &str, name: &str) -> Self {
        let (key, at) = (site.path("maker.pub"), text(root.path()));
        well(&[
            "install",
            bundle,
            "--node",
            name,
            "--root",
            &at,
            "--public-key",
            &key,
        ]);
        let below = format!("--root={at}");
        other("systemd-sysusers", &[&below]);
        other("systemd-tmpfiles", &["--create", &below, "outpost.conf"]);
        Self {
            machine,
            root,
            daemons: BTreeMap::new(),
            _network: None,
        }
    }

    /// Installs another bundle. The services that run are told nothing.
    pub fn update(&self, bundle: &str, name: &str) {
        let at = text(self.root.path());
        well(&["install", bundle, "--node", name, "--root", &at]);
    }

    /// Starts a service.
    pub fn serve(&mut self, service: &'static str) {
        // The notify socket of a test is for root alone: the log says when it is ready.
        let daemon = Daemon::spawn(service, self.command_of(service, "a"));
        daemon.wait_log(READY);
        self.daemons.insert(service, daemon);
    }

    /// The process that the unit of a slot of a service starts.
    ///
    /// # Panics
    ///
    /// Panics if there is no such unit.
    #[must_use]
    pub fn command_of(&self, service: &str, slot: &str) -> Command {
        let unit = self.unit(&format!("{service}-{slot}.service"));
        let start = values(&unit, "ExecStart");
        let (_, arguments) = start[0].split_once(' ').expect("it has arguments");
        let mut command = self.command(&self.identity(service), text(&binary(service)));
        command.args(arguments.split(' '));
        command
    }

    /// The text of a unit of Outpost.
    ///
    /// # Panics
    ///
    /// Panics if the node has no such unit.
    #[must_use]
    pub fn unit(&self, name: &str) -> String {
        let path = format!("etc/systemd/system/outpost-{name}");
        let text = fs::read_to_string(self.root.join(&path));
        text.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The identity that the unit of a service gives to its process.
    ///
    /// # Panics
    ///
    /// Panics if the unit names a user that there is not.
    #[must_use]
    pub fn identity(&self, service: &str) -> Identity {
        let unit = self.unit(&format!("{service}-a.service"));
        let user = self.number("passwd", values(&unit, "User")[0]);
        let own = self.number("group", values(&unit, "Group")[0]);
        let more = values(&unit, "SupplementaryGroups");
        let more = more.iter().flat_map(|names| names.split(' '));
        let groups = [own]
            .into_iter()
            .chain(more.map(|name| self.number("group", name)));
        let capabilities = values(&unit, "CapabilityBoundingSet");
        let capabilities = capabilities.iter().flat_map(|names| names.split(' '));
        let word = |name: &str| name.strip_prefix("CAP_").map(str::to_lowercase);
        Identity {
            user,
            groups: groups.collect(),
            capabilities: capabilities.filter_map(word).collect(),
        }
    }

    /// The number of a user or a group, as sysusers.d(5) has made it.
    fn number(&self, file: &str, name: &str) -> u32 {
        let text = fs::read_to_string(self.root.join("etc").join(file)).expect("sysusers made it");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        let number = line
            .split(':')
            .nth(2)
            .and_then(|number| number.parse().ok());
        number.expect("the third field is a number")
    }

    /// A program of this machine as this user, on the node: with its addresses and its directories.
    pub fn command(&self, identity: &Identity, program: String) -> Command {
        let list = |names: &[String]| -> String {
            let each = names.iter().map(|name| format!(",+{name}"));
            ["-all".to_owned()].into_iter().chain(each).collect()
        };
        let groups: Vec<String> = identity.groups.iter().map(u32::to_string).collect();
        let mut command = self.machine.command("unshare");
        command.args(["--mount", "sh", "-c", MOUNTED]);
        command.arg(self.root.path());
        command.arg("setpriv");
        command.arg(format!("--reuid={}", identity.user));
        command.arg(format!("--regid={}", identity.groups[0]));
        command.arg(format!("--groups={}", groups.join(",")));
        command.arg("--no-new-privs");
        let capabilities = list(&identity.capabilities);
        command.arg(format!("--bounding-set={capabilities}"));
        command.arg(format!("--inh-caps={capabilities}"));
        command.arg(format!("--ambient-caps={capabilities}"));
        command.arg(program);
        command
    }

    /// The lines that a program prints, whatever it is refused.
    pub fn lines(&self, identity: &Identity, program: &str, arguments: &[&str]) -> Vec<String> {
        let mut command = self.command(identity, program.to_owned());
        command.args(arguments);
        let (_, stdout, _) = run(command);
        stdout.lines().map(str::to_owned).collect()
    }
}

/// Puts the node's directories where they belong, for this process alone.
const MOUNTED: &str = r#"set -e
mount --make-rprivate /
for directory in /etc /run /var/lib; do mount --bind "$0$directory" "$directory"; done
exec "$@""#;

/// The values of a key.
pub fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

/// The end of a service's start in its log.
pub const READY: &str = " INFO  Ready";
