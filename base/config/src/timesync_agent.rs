//! The configuration of timesync-agent. Most keys have the names and the meaning of chrony.conf.
//!
//! Spans are in seconds and frequencies in parts per million. Polling intervals are powers of two in seconds. Offsets
//! are positive if the local clock is slow.

mod access;
mod clock;
mod network;
mod refclock;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use health::HealthdArg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nodes::ClusterNodes;
use crate::site::Network;
use crate::{Admin, As, HumanDuration, Ip, Log, Whole};

pub use access::{AccessError, AccessRule, ClientMatch};
pub use clock::{
    AuthSelectMode, Clock, FallbackDrift, Leap, LeapMode, Local, MakeStep, MaxChange, Selection,
    SmoothTime, TemperatureCompensation,
};
pub use network::{
    Client, CommandSocket, Commands, DEFAULT_COMMAND_SOCKET, HardwareStamps, LogFile, Logs,
    OPEN_COMMANDS, RateLimit, ReceiveFilter, Serve,
};
pub use refclock::{
    DEFAULT_PTP_SOCKET, Driver, ExternalPulses, Permissions, PermissionsError, PhcOptions, Ptp,
    PtpDelay, PtpStamps, PtpTransport, Refclock, RefclockDriver, RefclockSettings, ReferenceId,
    ReferenceIdError, default_id, reference_id, reference_id_text,
};
pub use source::{
    Connectivity, DEFAULT_MAX_UNREACH, DEFAULT_POOL_SOURCES, Family, Host, MAX_POLL,
    MAX_POOL_SOURCES, MAX_STRATUM, MAX_SUBSECOND_DELAY, MIN_POLL, SelectOptions, Source,
    SourceSettings,
};

/// The port of timesync-agent's admin listener.
pub const ADMIN_PORT: u16 = 9406;

/// The largest number of threads that answer clients: with more, locks in the kernel are the limit.
const MAX_THREADS: i64 = 256;

/// The largest number of samples that a source may have; more would only take memory.
pub const MAX_SAMPLES: u32 = 1024;

/// A number of samples.
type Samples<const MIN: i64> = Whole<u32, MIN, { MAX_SAMPLES as i64 }>;

/// A polling interval, as a power of two in seconds.
type Poll = Whole<i8, { MIN_POLL as i64 }, { MAX_POLL as i64 }>;

/// Any number of 32 bits.
type Number<const MIN: i64 = 0> = Whole<u32, MIN, { u32::MAX as i64 }>;

/// Servers, for the manual.
const SERVER: &str = r#"
[[server]]
host = "ntp.example.org"
iburst = true
"#;

/// A pool, for the manual.
const POOL: &str = r#"
[[pool]]
host = "pool.example.org"
maxsources = 4
iburst = true
"#;

/// A peer, for the manual.
const PEER: &str = r#"
[[peer]]
host = "192.168.7.12"
key = 7
"#;

/// Reference clocks, for the manual.
const REFCLOCK: &str = r#"
[[refclock]]
driver = "SHM"
segment = 0
refid = "NMEA"
offset = "120ms"
noselect = true

[[refclock]]
driver = "PPS"
device = "/dev/pps0"
lock = "NMEA"
"#;

/// A PTP clock, for the manual.
const PTP: &str = r#"
[[ptp]]
interface = "ens1f0"
transport = "ethernet"
poll = 0
"#;

/// Nodes of a cluster, for the manual.
const CLUSTER: &str = r#"
[cluster]
networks = ["192.168.7.0/24"]
nodes = ["masters"]
"#;

/// An island, for the manual.
const LOCAL: &str = r#"
[local]
stratum = 10
orphan = true
"#;

/// The configuration of timesync-agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TimesyncAgent {
    /// A chrony.conf to read first, with all files that it includes. The keys of this file override it: leave out those
    /// that the chrony.conf has. Its servers, clocks and rules come before those of this file.
    #[schemars(extend("x-example" = "\"/etc/chrony.conf\""))]
    pub chrony_conf: Option<PathBuf>,
    /// The node's name at healthd and in metrics. Default: the host name without its domain.
    #[schemars(extend("x-example" = "\"master-0\"", "x-reload" = "restart"))]
    pub node: Option<String>,
    /// Whether timesync-agent corrects the clock of the system. With `false`, as with `--no-clock`, it does not touch the
    /// clock, needs no privilege, and serves its best estimate to clients.
    #[schemars(extend("x-reload" = "restart"))]
    pub correct_clock: bool,
    /// Whether timesync-agent drops the capabilities and system calls that it does not need after its start. In a sandbox,
    /// the first `hwtimestamp` and the first `[[ptp]]` of transport `ethernet` need a restart: the process has dropped their
    /// privilege.
    #[schemars(extend("x-reload" = "restart"))]
    pub sandbox: bool,
    /// Whether separate threads answer clients, many requests at a time. With `false` the thread that polls servers also
    /// answers clients. Both use the sockets that systemd hands over.
    #[schemars(extend("x-reload" = "restart"))]
    pub batch: bool,
    /// The largest number of these threads for each address. An address has one at first, and gets another one when those that
    /// it has cannot keep up. Default: one for each core that the service may use and that is not isolated.
    #[serde(with = "As::<Option<Whole<usize, 1, MAX_THREADS>>>")]
    #[schemars(extend("x-example" = "2", "x-reload" = "restart"))]
    pub threads: Option<usize>,
    /// A file of keys in the format of chrony.keys: ID, TYPE, KEY. Only the service needs to read it.
    #[schemars(extend("x-example" = "\"/etc/chrony.keys\""))]
    pub key_file: Option<PathBuf>,
    /// Directories with `*.sources` files of further servers and pools, as chrony's `sourcedir`. `chronyc reload sources`
    /// reads them again.
    pub source_directories: Vec<PathBuf>,
    /// How long timesync-agent may take to finish its work when it stops.
    pub drain: HumanDuration,
    /// NTP servers.
    #[schemars(extend("x-example" = SERVER))]
    pub server: Vec<Source>,
    /// Pools of NTP servers: timesync-agent polls several addresses of the name, and replaces bad ones. A pool has the keys
    /// of a server.
    #[schemars(extend("x-example" = POOL))]
    pub pool: Vec<Source>,
    /// Peers, in symmetric mode (RFC 5905): each side polls the other and follows the one that has the better time. Both name each other, or
    /// the other side allows this node as a client. A peer has the keys of a server, without `iburst`, `burst`, `presend` and
    /// `xleave`, which do nothing for it. Give it a `key`: without one, anyone who can send from its address can disturb the exchange. To
    /// follow each other without symmetric mode, two nodes may also name each other as servers.
    #[schemars(extend("x-example" = PEER))]
    pub peer: Vec<Source>,
    /// Clocks of this node. When one of them changes, a reload opens all of them again.
    #[schemars(extend("x-example" = REFCLOCK))]
    pub refclock: Vec<Refclock>,
    /// PTP ordinary clocks (IEEE 1588): each follows a grandmaster on an interface.
    #[schemars(extend("x-example" = PTP))]
    pub ptp: Vec<Ptp>,
    /// The nodes of a Kubernetes cluster that timesync-agent asks as servers, beside those of this file; none without this table.
    #[schemars(extend("x-example" = CLUSTER))]
    pub cluster: Option<Cluster>,
    /// Selection of sources.
    pub selection: Selection,
    /// Correction of the clock.
    pub clock: Clock,
    /// Leap seconds.
    pub leap: Leap,
    /// An island: timesync-agent serves the node's own time if there is no other source. Off without this table.
    #[schemars(extend("x-example" = LOCAL))]
    pub local: Option<Local>,
    /// Requests to servers.
    pub client: Client,
    /// Service to clients. Without `access` no client gets a response. timesync-agent uses sockets that systemd hands over
    /// under the name `ntp` instead of addresses and port.
    pub serve: Serve,
    /// chronyc, and other programs with its protocol.
    pub commands: Commands,
    /// Files of measurements, as chrony writes them.
    pub logs: Logs,
    /// Quality of the clock at healthd.
    pub health: Health,
    /// The admin listener; it has a page with plots at `/`, too.
    pub admin: Admin<ADMIN_PORT>,
    /// The log.
    pub log: Log,
}

impl Default for TimesyncAgent {
    fn default() -> Self {
        Self {
            chrony_conf: None,
            node: None,
            correct_clock: true,
            sandbox: true,
            batch: true,
            threads: None,
            key_file: None,
            source_directories: Vec::new(),
            drain: HumanDuration(Duration::from_secs(10)),
            server: Vec::new(),
            pool: Vec::new(),
            peer: Vec::new(),
            refclock: Vec::new(),
            ptp: Vec::new(),
            cluster: None,
            selection: Selection::default(),
            clock: Clock::default(),
            leap: Leap::default(),
            local: None,
            client: Client::default(),
            serve: Serve::default(),
            commands: Commands::default(),
            logs: Logs::default(),
            health: Health::default(),
            admin: Admin::default(),
            log: Log::default(),
        }
    }
}

/// The nodes of a Kubernetes cluster that timesync-agent asks for the time, as clusterd reports them.
///
/// They are always fewer than the servers, pools and peers of this file: a cluster with wrong nodes never has the majority. Without
/// at least two of those, timesync-agent asks none. A node that is cordoned gives time as before. `timesync-agent status` marks the sources
/// that were learned, and has those that are too many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The Unix socket of clusterd. While clusterd is away, the sources stay as they are.
    #[schemars(extend("x-reload" = "restart"))]
    pub socket: PathBuf,
    /// The nodes.
    #[schemars(extend("x-example" = "[\"masters\"]"))]
    pub nodes: Vec<ClusterNodes>,
    /// The networks of the addresses that timesync-agent asks.
    #[schemars(extend("x-example" = "[\"192.168.7.0/24\"]"))]
    pub networks: Vec<Network>,
    /// Addresses in these networks that it does not ask: virtual IPs, and those of this node.
    #[schemars(extend("x-example" = "[\"192.168.7.100\"]"))]
    pub excluded: Vec<Ip>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            socket: crate::clusterd::SOCKET.into(),
            nodes: Vec::new(),
            networks: Vec::new(),
            excluded: Vec::new(),
        }
    }
}

/// Quality of the clock at healthd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// The address of healthd, which gets the quality of the clock; `"none"` sends nothing.
    #[serde(alias = "socket")]
    #[schemars(with = "String", extend("x-type" = "unix:/path, http://ADDRESS:PORT or none", "x-reload" = "restart"))]
    pub endpoint: HealthdArg,
}
