//! The services of a node, kept running as systemd keeps them: their sockets are held while they are away, and a process that ends
//! with an error is started again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

use crate::binaries::SERVICES;
use crate::bundle::{other, text};
use crate::daemon::Daemon;
use crate::installed::{Installed, READY, values};
use crate::netns::Machine;
use crate::wait;

use super::limits::Limits;

/// How long after its end systemd starts a service again: `RestartSec=` of its unit.
const RESTART: Duration = Duration::from_millis(200);

/// How long a service may take to be ready or to end, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A node: its services and their sockets.
pub(super) struct Node {
    pub(super) installed: Installed,
    services: Mutex<BTreeMap<&'static str, Service>>,
}

/// A service of a node.
struct Service {
    slot: &'static str,
    daemon: Option<Daemon>,
    /// Since when it is away, if systemd would start it again.
    ended: Option<Instant>,
    /// Whether it is to run.
    is_wanted: bool,
    sockets: Sockets,
    /// How often it ended although nothing here ended it.
    n_surprises: u32,
    /// How often the kernel ended it for its memory, as far as told.
    n_killed: u64,
    /// The end of its log when that happened last.
    last_words: String,
    /// The limits of each slot. A group goes after its processes.
    limits: BTreeMap<&'static str, Limits>,
}

impl Node {
    pub(super) fn new(installed: Installed) -> Self {
        Self {
            installed,
            services: Mutex::default(),
        }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.installed.machine
    }

    /// Boots: sockets first, then the services.
    pub(super) fn boot(&self) {
        let redirect = text(&self.installed.root.join("etc/outpost/redirect.nft"));
        let mut nft = self.machine().command("nft");
        let status = nft.args(["-f", &redirect]).status();
        assert!(status.is_ok_and(|status| status.success()), "{redirect}");
        let mut services = self.services.lock();
        for name in SERVICES {
            let limits = |slot| {
                let unit = self.installed.unit(&format!("{name}-{slot}.service"));
                (slot, Limits::of(&unit))
            };
            let mut service = Service {
                slot: "a",
                limits: ["a", "b"].map(limits).into(),
                daemon: None,
                ended: None,
                is_wanted: true,
                sockets: Sockets::bind(&self.installed, name),
                n_surprises: 0,
                n_killed: 0,
                last_words: String::new(),
            };
            service.start(&self.installed, name);
            services.insert(name, service);
        }
    }

    /// Waits until every service is ready.
    pub(super) fn wait_ready(&self) {
        for name in SERVICES {
            wait::for_it(&format!("{name} is ready"), LIMIT, || self.is_ready(name));
        }
    }

    fn is_ready(&self, name: &str) -> bool {
        let services = self.services.lock();
        let daemon = services
            .get(name)
            .and_then(|service| service.daemon.as_ref());
        daemon.is_some_and(|daemon| daemon.log().contains(READY))
    }

    /// Starts what has ended, as systemd would.
    pub(super) fn keep(&self) {
        for (name, service) in &mut *self.services.lock() {
            service.keep(&self.installed, name);
        }
    }

    /// Does something to a service.
    fn on(&self, name: &str, act: impl FnOnce(&mut Service)) {
        act(self.services.lock().get_mut(name).expect("a service"));
    }

    /// It crashes.
    pub(super) fn kill(&self, name: &str) {
        self.on(name, |service| {
            if let Some(daemon) = service.daemon.take() {
                daemon.kill();
                service.ended = Some(Instant::now());
            }
        });
    }

    /// It is ended, and stays away.
    pub(super) fn stop(&self, name: &str) {
        self.on(name, |service| service.is_wanted = false);
        self.kill(name);
    }

    /// It may run again.
    pub(super) fn want(&self, name: &str) {
        self.on(name, |service| {
            service.is_wanted = true;
            service.ended = Some(Instant::now());
        });
    }

    /// It gets a signal.
    pub(super) fn signal(&self, name: &str, signal: Signal) {
        self.on(name, |service| {
            if let Some(daemon) = &mut service.daemon
                && daemon.is_running()
            {
                daemon.signal(signal);
            }
        });
    }

    /// `systemctl restart`.
    pub(super) fn restart(&self, name: &'static str) {
        let mut services = self.services.lock();
        let service = services.get_mut(name).expect("a service");
        if let Some(mut daemon) = service.daemon.take() {
            if daemon.is_running() {
                daemon.signal(Signal::TERM);
            }
            // The others are looked after meanwhile.
            service.is_wanted = false;
            drop(services);
            daemon.wait();
            services = self.services.lock();
        }
        let service = services.get_mut(name).expect("a service");
        service.is_wanted = true;
        service.start(&self.installed, name);
    }

    /// The other slot takes over from the one that serves.
    pub(super) fn swap(&self, name: &'static str) {
        let mut services = self.services.lock();
        let service = services.get_mut(name).expect("a service");
        let old = service.daemon.take();
        service.slot = if service.slot == "a" { "b" } else { "a" };
        service.start(&self.installed, name);
        drop(services);
        wait::for_it(&format!("{name} takes over"), LIMIT, || self.is_ready(name));
        let Some(mut old) = old else { return };
        if ["healthd", "lb-proxy", "registry-svc", "timesync-agent"].contains(&name) {
            // One that was taken over from ends by itself.
            old.wait();
        } else {
            old.stop();
        }
    }

    /// The power goes: every process is gone, and with it what was in memory.
    pub(super) fn cut_power(&self) {
        drop(std::mem::take(&mut *self.services.lock()));
        self.machine().reset();
    }

    /// The power comes back.
    pub(super) fn start(&self) {
        let root = &self.installed.root;
        fs::remove_dir_all(root.join("run")).expect("the scratch directory is writable");
        fs::create_dir(root.join("run")).expect("the scratch directory is writable");
        let below = format!("--root={}", root.path().display());
        other("systemd-tmpfiles", &["--create", &below, "outpost.conf"]);
        self.machine().plug();
        self.boot();
    }

    /// The services that ended although nothing ended them, and the last lines of their logs.
    pub(super) fn surprises(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, service) in &mut *self.services.lock() {
            if std::mem::take(&mut service.n_surprises) > 0 {
                let words = std::mem::take(&mut service.last_words);
                found.push(format!("{name} ended by itself:\n{words}"));
            }
            let n_killed = service.limits.values().map(Limits::n_killed).sum();
            if n_killed > std::mem::replace(&mut service.n_killed, n_killed) {
                found.push(format!("{name} wanted more memory than its unit allows"));
            }
        }
        found
    }

    /// A number of the process of a service, by its key in `/proc/PID/status`: proc(5).
    pub(super) fn status(&self, name: &str, key: &str) -> Option<u64> {
        let services = self.services.lock();
        let id = services.get(name)?.daemon.as_ref()?.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find_map(|(name, value)| (name == key).then_some(value))?;
        value.split_whitespace().next()?.parse().ok()
    }

    /// The log of a service.
    pub(super) fn log(&self, name: &str) -> String {
        let services = self.services.lock();
        let daemon = services
            .get(name)
            .and_then(|service| service.daemon.as_ref());
        daemon.map(Daemon::log).unwrap_or_default()
    }
}

impl Service {
    fn start(&mut self, node: &Installed, name: &str) {
        let command = node.command_of(name, self.slot);
        let limits = &self.limits[self.slot];
        self.daemon = Some(self.sockets.spawn(name, limits, &command));
        self.ended = None;
    }

    fn keep(&mut self, node: &Installed, name: &str) {
        if let Some(daemon) = &mut self.daemon
            && !daemon.is_running()
        {
            self.n_surprises += 1;
            let log = daemon.log();
            let lines: Vec<&str> = log.lines().rev().take(5).collect();
            self.last_words = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
            self.daemon = None;
            self.ended = Some(Instant::now());
        }
        if self.is_wanted && self.ended.is_some_and(|ended| ended.elapsed() >= RESTART) {
            self.start(node, name);
        }
    }
}

//--- Sockets

/// The sockets that the socket units of a service open, with the names that its process knows them by.
#[derive(Default)]
struct Sockets {
    held: Vec<(OwnedFd, String)>,
}

impl Sockets {
    fn bind(node: &Installed, service: &str) -> Self {
        let unit = node.unit(&format!("{service}-a.service"));
        let names = values(&unit, "Sockets");
        let mut sockets = Self::default();
        for name in names.iter().flat_map(|names| names.split(' ')) {
            let name = name.strip_prefix("outpost-").expect("a unit of ours");
            let unit = node.unit(name);
            let label = values(&unit, "FileDescriptorName")[0];
            for (key, kind) in [
                ("ListenDatagram", Type::DGRAM),
                ("ListenStream", Type::STREAM),
            ] {
                for address in values(&unit, key) {
                    let address: SocketAddr = address.parse().expect("an address and a port");
                    let socket = node.machine.inside(|| bind(address, kind));
                    sockets.held.push((socket.into(), label.to_owned()));
                }
            }
        }
        sockets
    }

    /// Starts a process within limits that is given these sockets, as by systemd.
    fn spawn(&self, name: &str, limits: &Limits, command: &Command) -> Daemon {
        // Only one child at a time may inherit descriptors.
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock();
        let mut script = limits.script();
        let mut names = Vec::new();
        let mut inherited = Vec::new();
        for (to, (socket, label)) in (3..).zip(&self.held) {
            // Far above what the shell gives to the process.
            let from = fcntl_dupfd_cloexec(socket, 100).expect("a descriptor is free");
            fcntl_setfd(&from, FdFlags::empty()).expect("it may be inherited");
            let number = from.as_raw_fd();
            write!(script, "exec {to}<&{number} {number}<&-; ").expect("strings take everything");
            names.push(label.as_str());
            inherited.push(from);
        }
        if !names.is_empty() {
            let (number, names) = (names.len(), names.join(":"));
            write!(
                script,
                "export LISTEN_FDS={number} LISTEN_FDNAMES={names} LISTEN_PID=$$; "
            )
            .expect("strings take everything");
        }
        script.push_str("exec \"$@\"");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, "bash"]);
        shell.arg(command.get_program()).args(command.get_args());
        let daemon = Daemon::spawn(name, shell);
        drop(inherited);
        drop(one);
        daemon
    }
}

/// A socket as a socket unit of Outpost opens it.
fn bind(address: SocketAddr, kind: Type) -> Socket {
    let socket = Socket::new(Domain::for_address(address), kind, None).expect("sockets are free");
    if kind == Type::DGRAM {
        socket
            .set_reuse_port(true)
            .expect("an option of every socket");
    } else {
        socket
            .set_reuse_address(true)
            .expect("an option of every socket");
    }
    if address.is_ipv6() {
        socket.set_only_v6(true).expect("an option of IPv6");
    }
    let bound = socket.bind(&address.into());
    bound.unwrap_or_else(|error| panic!("{address}: {error}"));
    if kind == Type::STREAM {
        socket.listen(4096).expect("it is bound");
    }
    socket
        .set_nonblocking(true)
        .expect("an option of every socket");
    socket
}
