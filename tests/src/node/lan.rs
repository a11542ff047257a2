//! The example site on three nodes, from its site file alone, and a client that has no other network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Images, LOOK, Node, Outside, Root, tls};
use crate::binaries::{SERVICES, binary, checkout};
use crate::daemon::run;
use crate::netns::{Machine, Network};
use crate::scratch::Scratch;
use crate::stream::Server;
use crate::wait;

/// The domain of the site.
pub const DOMAIN: &str = "ocp4.redhat.ren";

/// The addresses of its masters.
pub const ADDRESSES: [&str; 3] = ["192.168.7.13", "192.168.7.14", "192.168.7.15"];

/// The networks that are the site's.
const SITE: &str = "192.168.7.0/24";

/// A router that leads nowhere: what is sent outside is seen, and counted.
const GATEWAY: &str = "192.168.7.1";

/// A line of the site file for real machines, and the line for ours: their clock is
/// this machine's, and their link is `eth0`.
const HERE: [(&str, &str); 3] = [
    ("#correct-clock = true", "correct-clock = false"),
    ("#interface = \"br-ex\"\n\n#", "interface = \"eth0\"\n\n#"),
    // Clients of these tests push.
    ("#open = false", "open = true"),
];

/// Three nodes and a client.
pub struct Lan {
    /// The nodes, with what stands for their API servers and routers.
    pub nodes: Vec<Node>,
    /// A machine beside them.
    pub client: Machine,
    /// Packets to addresses outside the site.
    pub outside: Outside,
    /// The site file, certificates, and what was rendered.
    pub files: Scratch,
    masters: Vec<Server>,
    network: Network,
}

impl Lan {
    /// Renders Ignition from the example's site file with `more` at its end, applies it to the disks of
    /// three nodes, and gives them the archives and the command that they would get on a stick.
    ///
    /// # Panics
    ///
    /// Panics if any of that fails.
    #[must_use]
    pub fn provision(root: &'static Root, images: &Images, more: &str) -> Self {
        let files = Scratch::new("site");
        let site = files.write("site.toml", &site_file(more));
        let outpost = |arguments: &[&str]| {
            let mut command = Command::new(binary("outpost"));
            command.args(arguments).arg(&site);
            succeed(command);
        };
        outpost(&["check"]);
        outpost(&["pki", "make"]);
        let rendered = files.join("rendered");
        let output = rendered.to_str().expect("a path of ours");
        outpost(&["render", "--target", "ignition", "--output", output]);

        let mut network = Network::new();
        network.gateway(&format!("{GATEWAY}/24"));
        let mut outside = Outside::default();
        outside.watch(network.hub(), SITE);
        let mut machine = |name: &str, address: &str| {
            let machine = network.machine(name, &format!("{address}/24"));
            machine.default_route(GATEWAY);
            outside.watch(machine.namespace(), SITE);
            machine
        };
        let client = machine("client", "192.168.7.20");
        let nodes: Vec<Node> = (0..)
            .zip(ADDRESSES)
            .map(|(number, address)| {
                let name = format!("master-{number}");
                let node = Node::new(root, machine(&format!("m{number}"), address), &name);
                for service in SERVICES {
                    node.put(
                        &images.archive(service),
                        &format!("/var/lib/outpost/images/{service}.tar"),
                    );
                }
                node.put(&images.outpost(), "/usr/local/bin/outpost");
                node.ignite(&ignition_of(&rendered, &name));
                node
            })
            .collect();
        let mut lan = Self {
            nodes,
            client,
            outside,
            files,
            masters: Vec::new(),
            network,
        };
        lan.start_masters();
        lan
    }

    /// The stand-ins on every node for the API server, machine configuration and the router.
    fn start_masters(&mut self) {
        for node in &self.nodes {
            let pki = self.files.join("pki/nodes");
            let [certificate, key] =
                ["crt", "key"].map(|kind| pki.join(format!("{}.{kind}", node.name())));
            let any = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            node.machine.inside(|| {
                self.masters
                    .push(tls::api_server(any(6443), &certificate, &key));
                for port in [22_623, 443, 80] {
                    self.masters.push(Server::named(any(port), node.name()));
                }
            });
        }
    }

    /// Gives every node power, and waits until all have booted and all services are ready.
    ///
    /// # Panics
    ///
    /// Panics if a unit fails, or a service does not get ready.
    pub fn boot(&mut self) {
        for node in &mut self.nodes {
            node.start();
        }
        for node in &self.nodes {
            wait_serving(node);
        }
    }

    /// The name of the wire's namespace, for what a test wants to see there.
    #[must_use]
    pub fn hub(&self) -> &str {
        self.network.hub()
    }

    /// A command of the client, which resolves names as the site's own machines do.
    #[must_use]
    pub fn client_command(&self, program: &str) -> Command {
        let servers = ADDRESSES.map(|address| format!("nameserver {address}\n"));
        let resolver = format!("{}search {DOMAIN}\noptions timeout:1\n", servers.concat());
        let path = self.files.write("resolv.conf", &resolver);
        let mut command = self.client.command("sh");
        // `ip netns exec` has made a mount namespace of its own.
        command
            .args(["-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
            .arg(path)
            .arg(program);
        command
    }

    /// Asks a server with `dig +short`: the lines that it prints, in order of the alphabet.
    ///
    /// # Panics
    ///
    /// Panics if no server answers.
    #[must_use]
    pub fn dig(&self, server: &str, arguments: &[&str]) -> Vec<String> {
        let mut command = self.client.command("dig");
        command.arg(format!("@{server}"));
        command
            .args(["+short", "+time=2", "+tries=2"])
            .args(arguments);
        let text = succeed(command);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// A client of HTTPS that trusts the site's authority.
    #[must_use]
    pub fn https(&self) -> tls::Client {
        tls::Client::trusting(&self.files.join("pki/ca.crt"))
    }

    /// The node that holds an address, if exactly one does.
    #[must_use]
    pub fn holder(&self, address: IpAddr) -> Option<usize> {
        let holds =
            |(_, node): &(usize, &Node)| node.is_running() && node.machine.has_address(address);
        let holders: Vec<usize> = self
            .nodes
            .iter()
            .enumerate()
            .filter(holds)
            .map(|(n, _)| n)
            .collect();
        match holders[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Fails if anything was sent to an address outside the site; then proves that it would have been
    /// seen, by sending something.
    ///
    /// # Panics
    ///
    /// Panics if there was, or would not have been.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        assert_eq!(
            self.outside.n_packets(),
            0,
            "packets for addresses outside the site"
        );
        let mut ping = self.client.command("ping");
        ping.args(["-c", "1", "-W", "1", "192.0.2.1"]);
        drop(run(ping));
        assert!(
            self.outside.n_packets() >= 2,
            "the client and the wire both count"
        );
    }
}

/// Waits until a node has booted and every service on it is ready.
///
/// # Panics
///
/// Panics if a unit failed, or a service does not get ready.
#[track_caller]
pub fn wait_serving(node: &Node) {
    let state = node.wait_booted();
    assert_eq!(state, "running", "{}", node.failures());
    wait::until_at(LOOK, &format!("{} is ready", node.name()), READY, || {
        let live = live_units(node, &SERVICES);
        live.iter().all(Option::is_some).then_some(())
    });
}

/// The unit of the slot of a service that is active, if exactly one is.
#[must_use]
pub fn live_unit(node: &Node, service: &str) -> Option<String> {
    live_units(node, &[service]).remove(0)
}

/// As [`live_unit`], for several services with one question.
fn live_units(node: &Node, services: &[&str]) -> Vec<Option<String>> {
    let units: Vec<String> = services
        .iter()
        .flat_map(|service| ["a", "b"].map(|slot| format!("outpost-{service}-{slot}.service")))
        .collect();
    let ask = ["systemctl", "is-active"].into_iter();
    let ask: Vec<&str> = ask.chain(units.iter().map(String::as_str)).collect();
    let (_, states, _) = node.try_run(&ask);
    let mut states = states.lines();
    let of_service = |pair: &[String]| {
        let is_active = |_: &&String| states.next() == Some("active");
        let active: Vec<&String> = pair.iter().filter(is_active).collect();
        match active[..] {
            [one] => Some(one.clone()),
            _ => None,
        }
    };
    units.chunks(2).map(of_service).collect()
}

/// The example's site file as this machine can have it, with `more` at its end.
///
/// # Panics
///
/// Panics if the template does not have what is to be changed.
#[must_use]
pub fn site_file(more: &str) -> String {
    let path = checkout().join("deploy/config/site.toml");
    let mut text = std::fs::read_to_string(path).expect("the template is there");
    for (real, here) in HERE {
        assert!(text.contains(real), "the template has {real:?}");
        text = text.replacen(real, here, 1);
    }
    text + more
}

/// The Ignition configuration of a node.
fn ignition_of(rendered: &std::path::Path, name: &str) -> PathBuf {
    let path = rendered.join("ignition").join(format!("{name}.ign"));
    assert!(path.exists(), "there is no {}", path.display());
    path
}

#[track_caller]
fn succeed(command: Command) -> String {
    let shown = format!("{command:?}");
    let (status, out, complaint) = run(command);
    assert!(status.success(), "{shown}: {status}\n{out}{complaint}");
    out
}

/// How long all services of a node may take after its boot.
const READY: Duration = Duration::from_secs(120);
