//! A node of a rendered site that runs: installed as a bundle is, its directories made by systemd's own tools, each
//! service a process with the user, the groups and the capabilities of its unit.
//!
//! There is no systemd: a process has a file system of its own, in which the node's directories lie where they belong, and
//! opens its ports itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use tests::binaries::{SERVICES, binary, checkout};
use tests::daemon::{Daemon, run};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;

use super::fixture::{Site, images, other, text, well};

/// A site with everything that has a secret or a capability. It sets no clock, which nodes of a test share.
pub(super) const SITE: &str = r#"version = "v1"
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
pub(super) const DIRECTORIES: [&str; 5] = [
    "/etc/outpost",
    "/run/outpost",
    "/run/outpost-admin",
    "/run/chrony",
    "/var/lib/outpost",
];

/// The user of a process, with all that the kernel asks for.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) user: u32,
    pub(super) groups: Vec<u32>,
    /// As setpriv takes them.
    pub(super) capabilities: Vec<String>,
}

/// A user without any right.
pub(super) fn nobody() -> Identity {
    Identity {
        user: 65_534,
        groups: vec![65_534],
        capabilities: Vec::new(),
    }
}

pub(super) struct Running {
    pub(super) machine: Machine,
    pub(super) root: Scratch,
    pub(super) daemons: BTreeMap<&'static str, Daemon>,
    _network: Network,
}

impl Running {
    /// Starts the services of the first node of a site.
    pub(super) fn start(site: &str) -> Self {
        let mut running = Self::install(site);
        for service in SERVICES {
            running.serve(service);
        }
        running
    }

    /// The first node of a site, before its services start.
    pub(super) fn install(site: &str) -> Self {
        let root = Scratch::new("root");
        let made = Site::of(site);
        let users = checkout().join("tests/data/deploy/vips/registry.users");
        fs::copy(users, made.files.join("registry.users")).unwrap();
        made.make_keys();
        let bundle = made.bundle(&images("0.1.0"), "bundle");
        let (key, at) = (made.path("maker.pub"), text(root.path()));
        well(&[
            "install",
            &bundle,
            "--node",
            "master-0",
            "--root",
            &at,
            "--public-key",
            &key,
        ]);
        let below = format!("--root={at}");
        other("systemd-sysusers", &[&below]);
        other("systemd-tmpfiles", &["--create", &below, "outpost.conf"]);
        let mut network = Network::new();
        let machine = network.machine("m0", "192.168.7.13/24");
        // systemd opens the ports below 1024 on a node.
        machine.configure("net/ipv4/ip_unprivileged_port_start", "0");
        Self {
            machine,
            root,
            daemons: BTreeMap::new(),
            _network: network,
        }
    }

    /// Starts a service.
    pub(super) fn serve(&mut self, service: &'static str) {
        let unit = self.unit(service);
        let start = values(&unit, "ExecStart");
        let (_, arguments) = start[0].split_once(' ').unwrap();
        let mut command = self.command(&self.identity(service), text(&binary(service)));
        command.args(arguments.split(' '));
        // The notify socket of a test is for root alone: the log says when it is ready.
        let daemon = Daemon::spawn(service, command);
        daemon.wait_log(" Ready ");
        self.daemons.insert(service, daemon);
    }

    /// The unit of a service.
    pub(super) fn unit(&self, service: &str) -> String {
        let name = format!("etc/systemd/system/outpost-{service}-a.service");
        fs::read_to_string(self.root.join(&name)).unwrap()
    }

    /// The identity that a unit gives to its process.
    pub(super) fn identity(&self, service: &str) -> Identity {
        let unit = self.unit(service);
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
        let text = fs::read_to_string(self.root.join("etc").join(file)).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.split(':').nth(2).unwrap().parse().unwrap()
    }

    /// A program of this machine as this user, on the node: with its addresses and its directories.
    pub(super) fn command(&self, identity: &Identity, program: String) -> Command {
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
    pub(super) fn lines(
        &self,
        identity: &Identity,
        program: &str,
        arguments: &[&str],
    ) -> Vec<String> {
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
pub(super) fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}
