//! lb-proxy on a loopback address of its own, and HAProxy in its place.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::binaries::binary;
use crate::daemon::{Daemon, http_get, run};
use crate::scratch::{Scratch, at, loopback};
use crate::stream::is_listened_on;
use crate::wait;

/// A place for a proxy: an address, files, and what they say.
#[derive(Debug)]
pub struct Place {
    /// The address of everything in it.
    pub ip: Ipv4Addr,
    /// Configuration, sockets, logs.
    pub files: Scratch,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// A new place.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ip: loopback(),
            files: Scratch::new("lb"),
        }
    }

    /// The first frontend's address.
    #[must_use]
    pub fn front(&self) -> SocketAddr {
        at(self.ip, FRONT)
    }

    /// The admin listener of lb-proxy.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        at(self.ip, 9404)
    }

    /// The socket at which the lb-proxy that [`start`](Self::start) starts takes changes.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.files.join("lb-proxy.admin")
    }

    /// healthd's socket, whether or not there is one.
    #[must_use]
    pub fn healthd_socket(&self) -> PathBuf {
        self.files.join("healthd.sock")
    }

    /// Writes lb-proxy.toml: what every test says the same, and `text`.
    pub fn configure(&self, text: &str) -> PathBuf {
        let head = format!(
            "version = \"v1\"\nworkers = 2\nadmin.listen = \"{}\"\nhealth.endpoint = \"unix:{}\"\n\
             swap.socket = \"{}\"\nstate = \"{}\"\n",
            self.admin(),
            self.healthd_socket().display(),
            self.files.join("swap.sock").display(),
            self.files.join("lb-proxy-state").display(),
        );
        // Top-level keys come before every table.
        self.files.write("lb-proxy.toml", &format!("{head}{text}"))
    }

    /// The command that serves what is configured.
    #[must_use]
    pub fn serve(&self) -> Command {
        let mut command = Command::new(binary("lb-proxy"));
        command
            .arg("serve")
            .arg("--config")
            .arg(self.files.join("lb-proxy.toml"));
        command
    }

    /// Starts lb-proxy with `text` as its configuration.
    #[must_use]
    pub fn start(&self, text: &str) -> Daemon {
        self.configure(text);
        let mut serve = self.serve();
        serve.arg("--admin-socket").arg(self.admin_socket());
        Daemon::start("lb-proxy", serve)
    }

    /// Starts healthd at the socket that lb-proxy's configuration names.
    #[must_use]
    pub fn start_healthd(&self, text: &str) -> Daemon {
        let config = self.files.write(
            "healthd.toml",
            &format!(
                "version = \"v1\"\nadmin.listen = \"{}\"\nlisten = [\"unix:{}\"]\nstate = \"{}\"\n\
                 {text}",
                at(self.ip, 9401),
                self.healthd_socket().display(),
                self.files.join("state").display(),
            ),
        );
        let mut command = Command::new(binary("healthd"));
        command.arg("serve").arg("--config").arg(config);
        Daemon::start("healthd", command)
    }

    /// Runs a verb of lb-proxy against the running one.
    #[must_use]
    pub fn verb(&self, arguments: &[&str]) -> (ExitStatus, String, String) {
        let mut command = Command::new(binary("lb-proxy"));
        command
            .args(arguments)
            .arg("--admin")
            .arg(self.admin().to_string());
        run(command)
    }

    /// As [`Self::verb`], for what has to succeed: what it prints.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    #[track_caller]
    pub fn done(&self, arguments: &[&str]) -> String {
        let (status, stdout, stderr) = self.verb(arguments);
        assert!(
            status.success(),
            "lb-proxy {}: {status}\n{stdout}{stderr}",
            arguments.join(" ")
        );
        stdout
    }

    /// The output of `check` for the configuration.
    #[must_use]
    pub fn check(&self) -> (ExitStatus, String, String) {
        let mut command = Command::new(binary("lb-proxy"));
        command
            .arg("check")
            .arg("--config")
            .arg(self.files.join("lb-proxy.toml"));
        run(command)
    }

    /// The text of `/metrics`.
    ///
    /// # Panics
    ///
    /// Panics if lb-proxy does not answer.
    #[must_use]
    pub fn metrics(&self) -> String {
        let (status, text) = http_get(self.admin(), "/metrics").expect("lb-proxy answers");
        assert_eq!(status, 200);
        text
    }

    /// Starts HAProxy with `text` after what every test says the same.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, or does not serve.
    #[must_use]
    pub fn start_haproxy(&self, text: &str) -> Daemon {
        let config = self.files.write(
            "haproxy.cfg",
            &format!("global\n nbthread 2\n maxconn 2000\n{text}"),
        );
        let mut command = Command::new(program("haproxy"));
        command.arg("-db").arg("-f").arg(config);
        let daemon = Daemon::spawn("haproxy", command);
        let start = std::time::Instant::now();
        while !is_listened_on(self.front()) {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "haproxy does not serve:\n{}",
                daemon.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }

    /// The records of the access log that [`access_log`](Self::access_log) configures.
    #[must_use]
    pub fn records(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.files.join("access.log")).unwrap_or_default();
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
            })
            .collect()
    }

    /// Waits until the access log has `number` records.
    #[must_use]
    pub fn wait_records(&self, number: usize) -> Vec<serde_json::Value> {
        let what = format!("{number} records in the access log");
        wait::until(&what, Duration::from_secs(10), || {
            let records = self.records();
            (records.len() >= number).then_some(records)
        })
    }

    /// Configures the access log that [`records`](Self::records) reads.
    #[must_use]
    pub fn access_log(&self) -> String {
        format!(
            "[access-log]\ntarget = \"{}\"\nformat = \"json\"\n",
            self.files.join("access.log").display()
        )
    }
}

/// A frontend and a backend of lb-proxy, with servers named `s0`, `s1` and so on.
#[must_use]
pub fn pair(
    place: &Place,
    front_settings: &str,
    back_settings: &str,
    servers: &[SocketAddr],
) -> String {
    let mut text = format!(
        "[[frontend]]\nname = \"front\"\nlisten = [\"{}\"]\nbackend = \"back\"\n{front_settings}\n\
         [[backend]]\nname = \"back\"\n{back_settings}\n",
        place.front(),
    );
    for (number, server) in servers.iter().enumerate() {
        writeln!(
            text,
            "[[backend.server]]\nname = \"s{number}\"\naddress = \"{server}\""
        )
        .expect("strings take everything");
    }
    text
}

/// The same for HAProxy.
#[must_use]
pub fn haproxy_pair(
    place: &Place,
    front_settings: &str,
    back_settings: &str,
    server_settings: &str,
    servers: &[SocketAddr],
) -> String {
    let mut text = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n\
         frontend front\n bind {}{front_settings}\n default_backend back\nbackend back\n{back_settings}\n",
        place.front(),
    );
    for (number, server) in servers.iter().enumerate() {
        writeln!(text, " server s{number} {server} {server_settings}")
            .expect("strings take everything");
    }
    text
}

/// Runs `check` on a frontend of HAProxy, and then on one of lb-proxy: what it demands of the one is
/// what the other does. It is given where to connect, which proxy that is, and its process.
///
/// # Panics
///
/// Panics if either does not start.
pub fn side_by_side(servers: &[SocketAddr], check: impl Fn(SocketAddr, &str, &mut Daemon)) {
    let place = Place::new();
    let mut daemon = place.start_haproxy(&haproxy_pair(&place, "", "", "", servers));
    check(place.front(), "HAProxy", &mut daemon);
    drop(daemon);
    alone(servers, check);
}

/// Runs `check` on a frontend of lb-proxy.
///
/// # Panics
///
/// Panics if it does not start.
pub fn alone(servers: &[SocketAddr], check: impl Fn(SocketAddr, &str, &mut Daemon)) {
    let place = Place::new();
    let mut daemon = place.start(&pair(&place, "", "", servers));
    check(place.front(), "lb-proxy", &mut daemon);
    daemon.stop();
}

/// A program that may be where only root's path leads.
///
/// # Panics
///
/// Panics if it is not installed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed: tests/run installs it"))
}

/// How many descriptors a process has open.
#[must_use]
pub fn n_descriptors(process: u32) -> usize {
    let directory = format!("/proc/{process}/fd");
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// The memory that is a process's own, in bytes: not its share of the program's file, which grows when
/// other processes of the same program end.
///
/// # Panics
///
/// Panics if the process is gone.
#[must_use]
pub fn memory(process: u32) -> u64 {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = std::fs::read_to_string(Path::new(&path)).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("Linux says it so")
        * 1024
}

/// The port of the first frontend, and of the servers on addresses of their own.
pub const FRONT: u16 = 6443;
