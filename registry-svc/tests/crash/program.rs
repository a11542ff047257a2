//! The program: its configuration, its life.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::connection::Connection;
use crate::{LIMIT, clock, now};

/// The variables that tell a process what it serves.
const CONFIG: &str = "OUTPOST_CRASH_CONFIG";
const CLOCK: &str = "OUTPOST_CRASH_CLOCK";
const ADMIN: &str = "OUTPOST_CRASH_ADMIN";

/// Serves what the variables say; false where they say nothing, for then it was not asked to.
pub(super) fn serve() -> bool {
    let variable = |name| std::env::var(name).ok();
    let (Some(config), Some(clock), Some(admin)) =
        (variable(CONFIG), variable(CLOCK), variable(ADMIN))
    else {
        return false;
    };
    let arguments = ["registry-svc", "serve", "--log-level", "error", "--config"];
    let arguments = arguments.map(str::to_owned).into_iter();
    let arguments = arguments.chain([config, "--admin-socket".to_owned(), admin]);
    let code = registry_svc::commands::run_on(&clock::machine(clock.into()), arguments.collect());
    assert_eq!(code, std::process::ExitCode::SUCCESS);
    true
}

/// A port that was free a moment ago, the same for every process that follows.
pub(super) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Settings of one that sweeps whatever nobody asked for a moment ago.
pub(super) fn sweeping() -> String {
    "[sweep]\ngrace = \"300ms\"\ntrash = \"100ms\"\n".to_owned()
}

/// Settings of one of several nodes.
pub(super) fn following(directory: &TempDir, at: usize, addresses: &[SocketAddr]) -> String {
    let files = directory.path().display();
    let own = addresses[at];
    let others = addresses
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != at);
    let peers: Vec<String> = others
        .map(|(other, address)| format!("{{ name = \"node-{other}\", address = \"{address}\" }}"))
        .collect();
    let peers = peers.join(", ");
    format!(
        "[cluster]\nnode = \"node-{at}\"\nlisten = [\"{own}\"]\npeers = [{peers}]\n\
         ca = \"{files}/ca.pem\"\ncertificate = \"{files}/{at}.pem\"\nkey = \"{files}/{at}.key\"\n\
         compare = \"1s\"\n"
    )
}

/// An authority, and a certificate for each of three nodes.
pub(super) fn certificates(directory: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for at in 0..3 {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![format!("node-{at}")]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(directory.join(format!("{at}.pem")), certificate.pem()).unwrap();
        std::fs::write(directory.join(format!("{at}.key")), key.serialize_pem()).unwrap();
    }
}

/// A registry and its data.
pub(super) struct Registry {
    config: PathBuf,
    /// The offsets of its clock.
    clock: PathBuf,
    pub(super) address: SocketAddr,
    /// The socket at which it takes changes.
    pub(super) admin: PathBuf,
    child: Option<Child>,
}

impl Registry {
    pub(super) fn new(directory: &TempDir, name: &str, more: &str) -> Self {
        let address = free();
        let admin = directory.path().join(format!("{name}.admin"));
        let text = format!(
            "version = \"v1\"\nlisten = [\"{address}\"]\nplain = true\naccess.anonymous = \"all\"\nroot = \"{}\"\n\
             workers = 2\n[admin]\nlisten = \"none\"\n[space]\nfree = \"16MiB\"\nreserve = \"1MiB\"\nwarn = 99\nstop = 100\n{more}",
            directory.path().join(format!("root-{name}")).display()
        );
        let config = directory.path().join(format!("{name}.toml"));
        std::fs::write(&config, text).unwrap();
        Self {
            config,
            clock: directory.path().join(format!("{name}.clock")),
            address,
            admin,
            child: None,
        }
    }

    pub(super) fn start(&mut self) {
        // This program serves too, by a clock that can be set.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serve_by_a_clock_that_can_be_set", "--ignored"]);
        command.args(["--nocapture", "--test-threads=1"]);
        command.env(CONFIG, &self.config).env(CLOCK, &self.clock);
        command.env(ADMIN, &self.admin);
        command.stdout(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let begun = now();
        while TcpStream::connect(self.address).is_err() {
            let child = self.child.as_mut().expect("it was started");
            assert_eq!(child.try_wait().unwrap(), None, "the registry ended");
            assert!(begun.elapsed() < LIMIT, "the registry does not listen");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it answers: it listens before its store is open.
    pub(super) fn wait_answers(&self) {
        let mut connection = Connection::open(self.address).unwrap();
        let answer = connection.ask("GET", "/v2/", "", b"").unwrap();
        assert_eq!(answer.status, 200);
    }

    /// Sets its clock ahead, or back, by a number of milliseconds, whether it runs or not.
    pub(super) fn set_clock(&self, by: i64) {
        clock::set(&self.clock, by);
    }

    pub(super) fn kill(&mut self) {
        let mut child = self.child.take().expect("it was started");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to end.
    pub(super) fn stop(&mut self) {
        let mut child = self.child.take().expect("it was started");
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
