//! The figures that commands show.

use std::time::Duration;

/// The proxy as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The process.
    pub process: Process,
    /// Frontends and backends, each once; a frontend and a backend of one name are one, as in a `listen` section.
    pub proxies: Vec<Proxy>,
    /// Open sessions; empty unless the command [lists sessions](crate::Command::lists_sessions).
    pub sessions: Vec<Session>,
    /// Stats sockets: path and level.
    pub sockets: Vec<(String, String)>,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The product's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The day of the build, as in `2026/11/28`.
    pub release_date: String,
    /// Threads of the data path.
    pub threads: u64,
    /// The process's number.
    pub pid: u64,
    /// Since its start.
    pub uptime: Duration,
    /// Its start, in seconds since 1970.
    pub started: u64,
    /// The limit of file descriptors.
    pub descriptors: u64,
    /// The limit of sessions.
    pub most_sessions: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Pipes that there may be.
    pub most_pipes: u64,
    /// Pipes in use.
    pub pipes: u64,
    /// The node's name.
    pub node: String,
    /// Whether it drains.
    pub is_stopping: bool,
    /// Listeners.
    pub listeners: u64,
    /// Records of the access log that were dropped.
    pub dropped_logs: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Bytes that went through pipes.
    pub spliced_bytes: u64,
}

/// A frontend, a backend, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its number, as HAProxy gives it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// `tcp` or `udp`.
    pub mode: &'static str,
    /// The frontend.
    pub frontend: Option<Frontend>,
    /// The backend.
    pub backend: Option<Backend>,
}

/// A frontend's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontend {
    /// Open sessions.
    pub sessions: u64,
    /// The most there were.
    pub most_sessions: u64,
    /// The limit of sessions.
    pub limit: Option<u64>,
    /// Connections accepted.
    pub total: u64,
    /// Connections refused for their source.
    pub denied: u64,
    /// Connections closed before a backend was known.
    pub rejected: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// A backend's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    /// HAProxy's name for how a server is chosen.
    pub algorithm: &'static str,
    /// Whether a server may be chosen.
    pub is_up: bool,
    /// Since it is what it is.
    pub changed: Duration,
    /// How often no server could be chosen.
    pub downs: u64,
    /// How long, in all.
    pub downtime: Duration,
    /// Connections that wait for a server.
    pub queued: u64,
    /// The most that waited.
    pub most_queued: u64,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// A server's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number in its backend, from 1.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// Its state.
    pub state: ServerState,
    /// Whether that state is configured.
    pub is_configured: bool,
    /// Its weight now.
    pub weight: u16,
    /// Its configured weight.
    pub initial_weight: u16,
    /// Its share of its weight during a slow start, in percent.
    pub throttle: Option<u8>,
    /// Whether it is a backup.
    pub is_backup: bool,
    /// The limit of sessions.
    pub limit: Option<u32>,
    /// Open sessions.
    pub sessions: u64,
    /// The most there were.
    pub most_sessions: u64,
    /// Sessions that it got.
    pub total: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Connections made.
    pub connects: u64,
    /// The time that took in all.
    pub connect_time: Duration,
    /// Connections not made.
    pub connect_errors: u64,
    /// Attempts after a failed one.
    pub retries: u64,
    /// Sessions that it got after another server had failed.
    pub redispatches: u64,
    /// Sessions that the client broke off.
    pub client_aborts: u64,
    /// Sessions that the server broke off.
    pub server_aborts: u64,
    /// Since it is what it is.
    pub changed: Duration,
    /// Its probes, if it has any.
    pub check: Option<Check>,
}

/// healthd's probes of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether a probe is a connect and nothing more.
    pub connects_only: bool,
    /// The last finding.
    pub finding: Finding,
    /// The reason that it gave.
    pub reason: String,
    /// How long the last probe took.
    pub latency: Duration,
    /// How often probes brought the server down.
    pub downs: u64,
    /// How long, in all.
    pub downtime: Duration,
}

/// The finding of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// None yet.
    Unknown,
    /// The server is up.
    Up,
    /// The server is down.
    Down,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The client.
    pub client: std::net::SocketAddr,
    /// The address that it connected to.
    pub local: Option<std::net::SocketAddr>,
    /// The frontend.
    pub frontend: String,
    /// The backend, once it is known.
    pub backend: Option<String>,
    /// The server, once there is one.
    pub server: Option<String>,
    /// The server's address.
    pub server_address: Option<std::net::SocketAddr>,
    /// How far it has come, in a word.
    pub state: &'static str,
    /// Since it was accepted.
    pub age: Duration,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
}

impl Figures {
    /// The backend of this name, or of this number after a `#`.
    pub(crate) fn backend(&self, name: &str) -> Option<(&Proxy, &Backend)> {
        let is_meant = |proxy: &&Proxy| is_meant(name, &proxy.name, proxy.id);
        let mut backends = self.proxies.iter().filter(|proxy| proxy.backend.is_some());
        let proxy = backends.find(is_meant)?;
        proxy.backend.as_ref().map(|backend| (proxy, backend))
    }

    /// The server of a `backend/server`, both by name or by number after a `#`; else HAProxy's sentence. A name of lb-proxy
    /// may contain a `/`.
    pub(crate) fn server(&self, place: &str) -> Result<(&Proxy, &Server), &'static str> {
        let mut error = "Require 'backend/server'.\n";
        for (at, _) in place.match_indices('/') {
            let (backend, server) = place.split_at(at);
            let server = server.get(1..).unwrap_or_default();
            if backend.is_empty() || server.is_empty() {
                continue;
            }
            match self.backend(backend) {
                None if error.starts_with("Require") => error = "No such backend.\n",
                None => {}
                Some((proxy, known)) => {
                    let mut servers = known.servers.iter();
                    match servers.find(|known| is_meant(server, &known.name, known.id)) {
                        Some(server) => return Ok((proxy, server)),
                        None => error = "No such server.\n",
                    }
                }
            }
        }
        Err(error)
    }
}

fn is_meant(text: &str, name: &str, id: u32) -> bool {
    let number = text.strip_prefix('#').and_then(|text| text.parse().ok());
    text == name || number == Some(id)
}

impl Server {
    /// HAProxy's word for its state.
    pub(crate) const fn status(&self) -> &'static str {
        use ServerState::{Down, Drain, Maintenance, Up};
        match (self.state, self.weight, &self.check) {
            (Maintenance, _, _) => "MAINT",
            (Down, _, _) => "DOWN",
            (Drain, _, _) | (Up, 0, _) => "DRAIN",
            (Up, _, None) => "no check",
            (Up, _, Some(_)) => "UP",
        }
    }

    /// Attempts to connect.
    pub(crate) const fn attempts(&self) -> u64 {
        self.connects.saturating_add(self.connect_errors)
    }
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It may be chosen.
    Up,
    /// Its probes fail.
    Down,
    /// It keeps the sessions that it has.
    Drain,
    /// An operator or the configuration has taken it out.
    Maintenance,
}
