//! Machines on one wire: network namespaces joined by a bridge.
//!
//! Needs root (or the capabilities that `ip netns` wants). Names carry the process id, so that
//! what a killed run left behind is found and swept by the next.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::slow_link::Relay;

/// One wire, and the machines on it.
#[derive(Debug)]
pub struct Network {
    /// Start of the names of all namespaces.
    prefix: String,
    hub: String,
    n_machines: u32,
}

impl Network {
    /// A wire without machines.
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    #[must_use]
    pub fn new() -> Self {
        SWEEP.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{PREFIX}{}-{number}-", std::process::id());
        let hub = format!("{prefix}hub");
        ip(["netns", "add", &hub]);
        ip(["-n", &hub, "link", "add", "br0", "type", "bridge"]);
        ip(["-n", &hub, "link", "set", "br0", "up"]);
        Self {
            prefix,
            hub,
            n_machines: 0,
        }
    }

    /// The namespace of the wire itself.
    #[must_use]
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// Gives the wire an address, to which machines may be told to send what is for elsewhere. Nothing
    /// is passed on: there is nowhere to pass it to.
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    pub fn gateway(&self, address: &str) {
        ip(["-n", &self.hub, "addr", "add", address, "dev", "br0"]);
    }

    /// Adds a machine with an address (`192.168.7.13/24`).
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    pub fn machine(&mut self, name: &str, address: &str) -> Machine {
        self.machine_with(name, &[address])
    }

    /// Adds a machine with several addresses. Those of IPv6 can be used at once, and stay when the link
    /// goes down.
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    pub fn machine_with(&mut self, name: &str, addresses: &[&str]) -> Machine {
        let namespace = format!("{}{name}", self.prefix);
        let port = format!("p{}", self.n_machines);
        self.n_machines += 1;
        ip(["netns", "add", &namespace]);
        ip(["-n", &namespace, "link", "set", "lo", "up"]);
        ip([
            "-n", &namespace, "link", "add", "eth0", "type", "veth", "peer", "name", &port,
            "netns", &self.hub,
        ]);
        ip(["-n", &self.hub, "link", "set", &port, "master", "br0"]);
        ip(["-n", &self.hub, "link", "set", &port, "up"]);
        let machine = Machine {
            namespace,
            hub: self.hub.clone(),
            port,
            own: addresses
                .iter()
                .map(|&address| address.to_owned())
                .collect(),
            gateway: OnceLock::new(),
        };
        // A kernel without IPv6 has no such files.
        if addresses.iter().any(|address| address.contains(':')) {
            machine.configure("net/ipv6/conf/eth0/accept_dad", "0");
            machine.configure("net/ipv6/conf/eth0/keep_addr_on_down", "1");
        }
        for address in addresses {
            machine.address("add", address);
        }
        machine.plug();
        machine
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(&self.hub);
    }
}

/// A network namespace with one address on the wire.
#[derive(Debug)]
pub struct Machine {
    namespace: String,
    hub: String,
    port: String,
    /// The addresses that it was made with.
    own: Vec<String>,
    /// Its default gateway, if it has one.
    gateway: OnceLock<String>,
}

impl Machine {
    /// The name of its network namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A command that runs on this machine; its process id is that of the program itself.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program);
        command
    }

    /// The link of the machine goes down, as when its cable is pulled.
    pub fn unplug(&self) {
        ip(["-n", &self.namespace, "link", "set", "eth0", "down"]);
    }

    /// The link comes back.
    pub fn plug(&self) {
        ip(["-n", &self.namespace, "link", "set", "eth0", "up"]);
        // The kernel forgets routes over a link that goes down.
        if let Some(gateway) = self.gateway.get() {
            ip([
                "-n",
                &self.namespace,
                "route",
                "replace",
                "default",
                "via",
                gateway,
            ]);
        }
    }

    /// Nothing gets from this machine to the others any longer, nor back, though its link stays up: as
    /// when a cable between two switches is pulled.
    pub fn cut_off(&self) {
        ip(["-n", &self.hub, "link", "set", &self.port, "nomaster"]);
    }

    /// It is on the wire with the others again.
    pub fn join(&self) {
        ip(["-n", &self.hub, "link", "set", &self.port, "master", "br0"]);
    }

    /// Does something as a process of this machine would: what it opens, and the threads that it
    /// starts, are on this machine.
    ///
    /// # Panics
    ///
    /// Panics if `task` does, or this process may not be there.
    pub fn inside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        inside(&self.namespace, task)
    }

    /// Holds back what this machine sends and gets for so long each, until what this returns is dropped.
    ///
    /// # Panics
    ///
    /// Panics if this machine does not allow it.
    #[must_use]
    pub fn slow_down(&self, delay: Duration) -> SlowLink<'_> {
        let [bridge, near, far] =
            ["slow", "near", "far"].map(|word| format!("{word}-{}", self.port));
        let hub = self.hub.as_str();
        let relay = inside(hub, || Relay::start([&near, &far], delay));
        let relay = relay.expect("the kernel has TAP interfaces");
        ip(["-n", hub, "link", "add", &bridge, "type", "bridge"]);
        for (link, master) in [
            (&near, bridge.as_str()),
            (&far, "br0"),
            (&self.port, &bridge),
        ] {
            ip(["-n", hub, "link", "set", link, "master", master]);
        }
        for link in [&near, &far, &bridge] {
            ip(["-n", hub, "link", "set", link, "up"]);
        }
        SlowLink {
            machine: self,
            bridge,
            relay: Some(relay),
        }
    }

    /// Sets a parameter of its kernel, as `sysctl`.
    ///
    /// # Panics
    ///
    /// Panics if there is none of that name.
    pub fn configure(&self, parameter: &str, value: &str) {
        let path = format!("/proc/sys/{parameter}");
        let written = self.inside(|| std::fs::write(&path, value));
        written.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Does with an address of its link what `ip addr` would.
    pub fn address(&self, what: &str, address: &str) {
        let namespace = self.namespace.as_str();
        ip(["-n", namespace, "addr", what, address, "dev", "eth0"]);
    }

    /// Sends what is for elsewhere to this address.
    pub fn default_route(&self, gateway: &str) {
        ip([
            "-n",
            &self.namespace,
            "route",
            "add",
            "default",
            "via",
            gateway,
        ]);
    }

    /// Leaves the network as a machine does that has lost its power: the link is down, and addresses and
    /// filters that its processes have set are forgotten. [`plug`](Self::plug) brings it back as it was
    /// when it was made.
    pub fn reset(&self) {
        self.unplug();
        for address in self.addresses() {
            if !self.own.contains(&address) && !address.starts_with("fe80:") {
                self.address("del", &address);
            }
        }
        // A set, a redirect: everything but what the tests count with.
        let script = "nft list tables | grep -v outpost_test | while read -r table; do nft delete $table; done";
        let status = self.command("sh").args(["-c", script]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "nft is installed"
        );
    }

    /// Whether an address is on its link.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        let prefix = format!("{address}/");
        let mut addresses = self.addresses().into_iter();
        addresses.any(|known| known.starts_with(&prefix))
    }

    /// The link-layer address that it knows a neighbour by.
    #[must_use]
    pub fn neighbour(&self, address: IpAddr) -> Option<String> {
        let address = address.to_string();
        let text = ip(["-n", &self.namespace, "neigh", "show", &address]);
        let (_, hardware) = text.split_once("lladdr ")?;
        hardware.split_whitespace().next().map(str::to_owned)
    }

    /// The link-layer address of its link.
    ///
    /// # Panics
    ///
    /// Panics if its link has none.
    #[must_use]
    pub fn hardware(&self) -> String {
        let namespace = self.namespace.as_str();
        let text = ip(["-n", namespace, "-o", "link", "show", "dev", "eth0"]);
        let (_, hardware) = text.split_once("link/ether ").expect("it is Ethernet");
        let hardware = hardware.split_whitespace().next();
        hardware.expect("an address follows").to_owned()
    }

    /// Gives its link another link-layer address.
    pub fn set_hardware(&self, hardware: &str) {
        let namespace = self.namespace.as_str();
        ip(["-n", namespace, "link", "set", "eth0", "address", hardware]);
    }

    /// The link loses its carrier, as when the other end of its cable is pulled.
    pub fn lose_carrier(&self) {
        ip(["-n", &self.hub, "link", "set", &self.port, "down"]);
    }

    /// The carrier is there again.
    pub fn regain_carrier(&self) {
        ip(["-n", &self.hub, "link", "set", &self.port, "up"]);
    }

    /// The addresses that it was made with.
    #[must_use]
    pub fn own_addresses(&self) -> &[String] {
        &self.own
    }

    /// The addresses of its link.
    ///
    /// # Panics
    ///
    /// Panics if the machine cannot be asked.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let output = Command::new("ip")
            .args(["-n", &self.namespace, "-o", "addr", "show", "dev", "eth0"])
            .output()
            .expect("iproute2 is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .filter_map(|line| {
                let mut words = line
                    .split_whitespace()
                    .skip_while(|word| !word.starts_with("inet"));
                words.nth(1).map(str::to_owned)
            })
            .collect()
    }
}

/// A machine whose link is slow; as before when it is dropped.
#[derive(Debug)]
pub struct SlowLink<'a> {
    machine: &'a Machine,
    bridge: String,
    relay: Option<Relay>,
}

impl Drop for SlowLink<'_> {
    fn drop(&mut self) {
        self.machine.join();
        drop(self.relay.take());
        ip(["-n", &self.machine.hub, "link", "del", &self.bridge]);
    }
}

/// Does something as a process in this network namespace would.
fn inside<T: Send>(namespace: &str, task: impl FnOnce() -> T + Send) -> T {
    let path = format!("/run/netns/{namespace}");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = std::fs::File::open(&path).expect("the namespace is there");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            task()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Drop for Machine {
    fn drop(&mut self) {
        remove(&self.namespace);
    }
}

/// Runs `ip`, and returns what it printed.
fn ip<const N: usize>(arguments: [&str; N]) -> String {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .expect("iproute2 is installed");
    assert!(
        output.status.success(),
        "ip {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Removes a namespace, whatever state it is in: this runs while a test may be failing.
fn remove(namespace: &str) {
    let status = Command::new("ip")
        .args(["netns", "del", namespace])
        .stderr(Stdio::null())
        .status();
    drop(status);
}

/// Removes what runs of the tests that were killed left behind.
fn sweep() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{owner}")).exists() {
            remove(name);
        }
    }
}

/// Start of the name of every namespace of the tests.
const PREFIX: &str = "outpost-test-";

static NEXT: AtomicU32 = AtomicU32::new(0);
static SWEEP: Once = Once::new();
