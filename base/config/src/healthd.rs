//! The configuration of healthd.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use health::{Endpoint, EndpointError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nodes::{NodeFiles, Peer, everywhere};
use crate::renewal::Renewal;
use crate::{
    Address, Admin, AdminListen, ByteSize, CheckStep, DurationWithin, HumanDuration, Ip, Log,
    Positive, Whole,
};
use config_toml::as_text;

/// The port of healthd's admin listener.
pub const ADMIN_PORT: u16 = 9401;

/// The default socket for subscribers.
pub const SOCKET: &str = "/run/outpost/healthd/healthd.sock";

/// The port for the healthds of other nodes.
pub const EXCHANGE_PORT: u16 = 5445;

/// The port on which the site's page is published.
pub const PAGE_PORT: u16 = 5446;

/// The time without healthd after which one of its subscribers probes by itself, as every subscriber has it.
pub type StandInAfter = DurationWithin<1_000, 3_600_000>;

/// Its default. A restart or a swap of healthd takes a second or two, and its subscribers are back within two more.
pub(crate) fn stand_in_after() -> StandInAfter {
    StandInAfter::clamped(Duration::from_secs(10))
}

/// A node beside two others, for the manual.
const EXCHANGE: &str = r#"
[exchange]
node = "master-0"
peers = [
  { name = "master-1", address = "192.168.7.14:5445" },
  { name = "master-2", address = "192.168.7.15:5445" },
]
ca = "/etc/outpost/healthd/pki/ca.crt"
certificate = "/etc/outpost/healthd/pki/node.crt"
key = "/etc/outpost/healthd/pki/node.key"
"#;

/// Certificates for clients that other nodes have ready, for the manual.
const RENEWAL: &str = r#"
[renewal]
days = 30
certificate = "/etc/outpost/healthd/pki/served.crt"
later = "/etc/outpost/healthd/pki/later"
renewed = "/var/lib/outpost/healthd/served.crt"
"#;

/// Targets of every kind, for the manual.
const TARGETS: &str = r#"
[[target]]
kind = "tcp"
address = "192.168.7.13:22623"

[[target]]
kind = "https"
address = "192.168.7.13:6443"
interval = "2s"
fall = 3
path = "/readyz"
host = "api.ocp4.redhat.ren"
verify = "ca"
ca-file = "/etc/outpost/root-ca.crt"

[[target]]
kind = "grpc"
address = "127.0.0.1:50051"

[[target]]
kind = "dns"
address = "127.0.0.1:5301"
name = "ocp4.redhat.ren"
rcode = "NOERROR"

[[target]]
kind = "ntp"
address = "192.168.7.1:123"
"#;

/// A page without one of the services, for the manual.
const PAGE: &str = r#"
[page.services]
registry-svc = "none"
"#;

/// A page with users, for the manual.
const PAGE_TLS: &str = r#"
[page.tls]
certificate = "/etc/outpost/healthd/pki/node.crt"
key = "/etc/outpost/healthd/pki/node.key"
users = "/etc/outpost/healthd/users"
"#;

/// Another schedule for some targets, for the manual.
const OVERRIDES: &str = r#"
[[override]]
kind = "https"
port = 6443
fast-interval = "2s"
timeout = "2s"
rise = 3
"#;

/// The configuration of healthd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Healthd {
    /// How long healthd may take to stop after SIGTERM. It lets subscribers leave, and reserves half of the time, 5s
    /// at most, to write its state once more.
    pub drain: HumanDuration,
    /// The gRPC listeners for subscribers: `unix:/path` (mode 0660; its group is the directory's where that has the
    /// set-group-ID bit), or `http://ADDRESS:PORT`
    /// with a loopback address. There is no authentication: every client that connects can take a target out of
    /// service. healthd uses sockets that systemd hands over under the name `healthd` instead of these.
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<Listen>,
    /// The directory of healthd's state. healthd continues from it after a restart.
    #[schemars(extend("x-reload" = "restart"))]
    pub state: PathBuf,
    /// The log.
    pub log: Log,
    /// The admin listener.
    pub admin: Admin<ADMIN_PORT>,
    /// The schedule of probes. It is that of every target, for every subscriber, but for what `[[override]]` and
    /// `[[target]]` say. A subscriber that states a schedule of its own can only tighten the probes; its rise, fall and
    /// timeout make a view of its own, which `healthd status` shows as a deviation.
    pub schedule: Schedule,
    /// Other schedules for some targets. An entry covers the targets that have everything it names: a kind, an address
    /// or a port. The later one wins if two give the same key.
    #[serde(rename = "override")]
    #[schemars(extend("x-example" = OVERRIDES))]
    pub overrides: Vec<Override>,
    /// Bounds of the work.
    pub probes: Probes,
    /// Bounds of the metrics.
    pub metrics: Metrics,
    /// The exchange of findings with the healthds of other nodes. Without it, the probes of this node alone decide.
    ///
    /// With three nodes or more, a target is down for the site when more than half of the nodes that probe it, and two at
    /// least, find it down; every node's subscribers see that. A target that this node alone cannot reach stays up. A
    /// node that reaches no majority of the others is cut off: it says so, and serves the last verdict of the site for
    /// `hold`. With two nodes, healthd shows the findings of the other one, and its own probes decide.
    #[schemars(extend("x-example" = EXCHANGE, "x-reload" = "restart"))]
    pub exchange: Option<Exchange>,
    /// Certificates of the page that the other nodes have ready for this one. The nodes of `[exchange]` give them to each other:
    /// each a short-lived one, when the one before is about to end, and none to a node whose certificate for nodes is revoked.
    #[schemars(extend("x-example" = RENEWAL, "x-reload" = "restart"))]
    pub renewal: Option<Renewal>,
    /// The site's page.
    ///
    /// healthd shows it at `/` of its admin listener. The page follows healthd for as long as a browser shows it.
    #[schemars(extend("x-example" = PAGE))]
    pub page: Page,
    /// healthd always probes these targets, also without a subscriber. A subscriber that states the same target shares
    /// the probe. The schedule that a target gives here is its schedule for every subscriber.
    #[schemars(extend("x-example" = TARGETS))]
    pub target: Vec<Target>,
}

impl Default for Healthd {
    fn default() -> Self {
        Self {
            drain: HumanDuration(Duration::from_secs(10)),
            listen: vec![Listen::Unix(SOCKET.into())],
            state: "/var/lib/outpost/healthd".into(),
            log: Log::default(),
            admin: Admin::default(),
            schedule: Schedule::default(),
            overrides: Vec::new(),
            probes: Probes::default(),
            metrics: Metrics::default(),
            exchange: None,
            renewal: None,
            page: Page::default(),
            target: Vec::new(),
        }
    }
}

//--- Schedules

/// The interval of a schedule.
pub type Interval = DurationWithin<MIN_INTERVAL, MAX_TIME>;

/// The time limit of a schedule.
pub type Timeout = DurationWithin<1, MAX_TIME>;

/// The schedule of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Schedule {
    /// The time from the start of a probe to the start of the next.
    pub interval: Interval,
    /// The interval while results contradict the state but do not change it yet. healthd confirms what a subscriber
    /// reports, such as a failed connection, 100ms apart at the latest.
    pub fast_interval: Interval,
    /// The time for one probe.
    pub timeout: Timeout,
    /// The good results in a row that make a target up.
    pub rise: Positive<u32>,
    /// The bad results in a row that make a target down.
    pub fall: Positive<u32>,
}

impl Default for Schedule {
    fn default() -> Self {
        health::Schedule::default().into()
    }
}

impl From<health::Schedule> for Schedule {
    fn from(schedule: health::Schedule) -> Self {
        Self {
            interval: DurationWithin::clamped(schedule.interval),
            fast_interval: DurationWithin::clamped(schedule.fast_interval),
            timeout: DurationWithin::clamped(schedule.timeout),
            rise: Whole::clamped(i64::from(schedule.rise)),
            fall: Whole::clamped(i64::from(schedule.fall)),
        }
    }
}

/// Another schedule for some targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Override {
    /// The kind of the targets. Default: any.
    pub kind: Option<Kind>,
    /// The IP address of the targets. Default: any.
    pub address: Option<Ip>,
    /// The port of the targets. Default: any.
    pub port: Option<Whole<u16, 1, 65_535>>,
    /// The time from the start of a probe to the start of the next. Default: as `[schedule]`.
    pub interval: Option<Interval>,
    /// The interval while results contradict the state but do not change it yet. Default: as `[schedule]`.
    pub fast_interval: Option<Interval>,
    /// The time for one probe. Default: as `[schedule]`.
    pub timeout: Option<Timeout>,
    /// The good results in a row that make a target up. Default: as `[schedule]`.
    pub rise: Option<Positive<u32>>,
    /// The bad results in a row that make a target down. Default: as `[schedule]`.
    pub fall: Option<Positive<u32>>,
}

/// Bounds of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probes {
    /// The largest number of probes at a time. Further probes wait, and those that are due the longest go first; the
    /// metric `healthd_probe_lateness_seconds` shows the wait. Each probe takes a file descriptor.
    pub in_flight: Positive<usize>,
    /// The largest number of targets, of this file and of all subscribers; a deviation counts as one more. healthd serves
    /// those that fit. It shows further ones as unknown, names them in `healthd status` and in its log, and takes them in
    /// when there is room. The services of one user that have more than half get no new one in the last quarter.
    pub targets: Positive<usize>,
    /// How long healthd still probes a target after its last subscriber has left. A subscriber that restarts within
    /// this time finds its state.
    pub grace: HumanDuration,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            in_flight: Whole::clamped(1024),
            targets: Whole::clamped(16_384),
            grace: HumanDuration(Duration::from_mins(1)),
        }
    }
}

/// Bounds of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metrics {
    /// The largest number of targets with metrics of their own. Sums cover all targets.
    pub targets: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { targets: 1000 }
    }
}

//--- Other nodes

/// The exchange of findings with the healthds of other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exchange {
    /// The name of this node; its certificate has to be for this name.
    pub node: String,
    /// Addresses to listen on for other nodes. healthd uses sockets that systemd hands over under the name `exchange`
    /// instead.
    #[serde(default = "Exchange::default_listen")]
    pub listen: Vec<Address>,
    /// The other nodes, at most 15.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// The authority that signs the nodes' certificates, in PEM. healthd reads this file, the certificate and the key
    /// again when they change.
    pub ca: PathBuf,
    /// The certificate of this node, with its name, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// How long the findings of a node count after it was last heard. Each node says twice a second that its findings
    /// still hold.
    #[serde(default = "Exchange::default_silence")]
    pub silence: DurationWithin<1000, 60_000>,
    /// How long the last verdict of the site holds when nothing newer can be said: while this node is cut off, or the nodes
    /// are split.
    #[serde(default = "Exchange::default_hold")]
    pub hold: DurationWithin<0, 3_600_000>,
}

impl Exchange {
    /// A node with the defaults.
    #[must_use]
    pub fn new(node: impl Into<String>, files: NodeFiles) -> Self {
        Self {
            node: node.into(),
            listen: Self::default_listen(),
            peers: Vec::new(),
            ca: files.ca,
            certificate: files.certificate,
            key: files.key,
            silence: Self::default_silence(),
            hold: Self::default_hold(),
        }
    }

    /// The files with which it proves its name.
    #[must_use]
    pub fn files(&self) -> NodeFiles {
        NodeFiles {
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }

    fn default_listen() -> Vec<Address> {
        everywhere(EXCHANGE_PORT).map(Address).to_vec()
    }

    fn default_silence() -> DurationWithin<1000, 60_000> {
        DurationWithin::clamped(Duration::from_secs(2))
    }

    fn default_hold() -> DurationWithin<0, 3_600_000> {
        DurationWithin::clamped(Duration::from_mins(1))
    }
}

//--- The page

/// The site's page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Page {
    /// The admin listeners of the other services of this node: an address, or `none` for a service that the page leaves
    /// out. Default: at the address of healthd's own admin listener, and as far from its port as the default port
    /// of the service is from 9401. healthd asks them only while a browser shows the page.
    #[schemars(extend("x-reload" = "restart"))]
    pub services: PageServices,
    /// A listener of its own that publishes the page over TLS, with a login. It only shows: it changes nothing, and has no
    /// metrics. Without this table the page is on the admin listener alone.
    #[schemars(extend("x-example" = PAGE_TLS, "x-reload" = "restart"))]
    pub tls: Option<PageTls>,
}

/// The listener that publishes the page. It needs `users`, `client-ca` or `open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PageTls {
    /// The addresses of the listener. healthd uses sockets that systemd hands over under the name `page` instead.
    #[serde(default = "PageTls::default_listen")]
    pub listen: Vec<Address>,
    /// The certificate chain in PEM, the server's own certificate first. healthd reads this file, the key, the users and
    /// the authority again when they change.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The users who may look: a file of `htpasswd -B` or `registry-svc password`. They log in by HTTP Basic. After ten wrong
    /// passwords a source address may try one every 2s; a password that was right before is not held up.
    #[serde(default)]
    pub users: Option<PathBuf>,
    /// The authority whose clients may look, by their certificates (PEM). With `users` too, either is enough.
    #[serde(default)]
    #[schemars(extend("x-example" = "\"/etc/outpost/healthd/clients.pem\""))]
    pub client_ca: Option<PathBuf>,
    /// Whether every client may look, without a login.
    #[serde(default)]
    pub open: bool,
}

impl PageTls {
    /// A listener with the defaults, and a login of neither kind.
    #[must_use]
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            listen: Self::default_listen(),
            certificate,
            key,
            users: None,
            client_ca: None,
            open: false,
        }
    }

    fn default_listen() -> Vec<Address> {
        everywhere(PAGE_PORT).map(Address).to_vec()
    }
}

/// The admin listeners of the other services of this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PageServices {
    /// That of dns-authd.
    pub dns_authd: Option<AdminListen>,
    /// That of dns-recursor.
    pub dns_recursor: Option<AdminListen>,
    /// That of lb-proxy.
    pub lb_proxy: Option<AdminListen>,
    /// That of registry-svc.
    pub registry_svc: Option<AdminListen>,
    /// That of timesync-agent.
    pub timesync_agent: Option<AdminListen>,
    /// That of clusterd.
    pub clusterd: Option<AdminListen>,
}

//--- Targets

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Up when the connection is accepted.
    Tcp,
    /// Up when what is sent over TCP gets the answers that are expected.
    #[serde(rename = "tcp-check")]
    TcpCheck,
    /// Up when the response has the status, and the text if one is given. Redirects are not followed.
    Http,
    /// As `http`, over TLS.
    Https,
    /// Up when `grpc.health.v1.Health/Check` says SERVING; without TLS.
    Grpc,
    /// Up when the server answers over UDP.
    Dns,
    /// Up when the server answers that its clock is synchronised.
    Ntp,
}

impl Kind {
    /// The name, as in files and in the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpCheck => "tcp-check",
            Self::Http => "http",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Dns => "dns",
            Self::Ntp => "ntp",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The authorities that a server's certificate is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Those of the system.
    System,
    /// Those of `ca-file`.
    Ca,
    /// None: every certificate is accepted.
    #[serde(alias = "off")]
    None,
}

/// The shortest interval between probes, in milliseconds.
pub const MIN_INTERVAL: u64 = 100;

/// The longest time of a schedule, in milliseconds: the contract carries 32 bits.
pub const MAX_TIME: u64 = u32::MAX as u64;

/// A target that is always probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// The kind of the probe.
    pub kind: Kind,
    /// The IP address and port; host names are not looked up.
    pub address: Address,
    /// The address to probe from. Default: any.
    pub source: Option<Ip>,
    /// The time from the start of a probe to the start of the next. Default: as `[schedule]`.
    pub interval: Option<Interval>,
    /// The interval while results contradict the state but do not change it yet. Default: as `[schedule]`.
    pub fast_interval: Option<Interval>,
    /// The time for one probe. Default: as `[schedule]`.
    pub timeout: Option<Timeout>,
    /// The good results in a row that make a target up. Default: as `[schedule]`.
    pub rise: Option<Positive<u32>>,
    /// The bad results in a row that make a target down. Default: as `[schedule]`.
    pub fall: Option<Positive<u32>>,
    /// `tcp-check`: the steps of the conversation, at most 64 of 4096 bytes each. Default: none, so that it is as `tcp`.
    #[schemars(extend("x-example" = "[{ send = \"PING\\r\\n\" }, { expect = \"+PONG\" }]"))]
    pub steps: Option<Vec<CheckStep>>,
    /// `http`, `https`: the method. Default: `GET`.
    pub method: Option<String>,
    /// `http`, `https`: the path with its query. Default: `/`.
    pub path: Option<String>,
    /// `http`, `https`: the Host header, and over TLS the server's name. Default: the address.
    pub host: Option<String>,
    /// `http`, `https`: the status that means up. Default: 200.
    pub status: Option<Whole<u16, 100, 999>>,
    /// `http`, `https`: a text that the body must contain. Default: none.
    pub body: Option<String>,
    /// `http`, `https`: the User-Agent header. Default: `outpost-healthd` and its version.
    pub user_agent: Option<String>,
    /// `http`, `https`: further headers, as `[["Name", "value"]]`. Default: none.
    pub headers: Option<Vec<[String; 2]>>,
    /// `http`, `https`: how much of the body healthd searches for the text. Default: `1MiB`, and at most that.
    pub byte_limit: Option<ByteSize>,
    /// `https`: the authorities: `system`, those of a `ca` file, or `none`. Default: `system`.
    pub verify: Option<Verify>,
    /// `https`: a PEM file of authorities; healthd reads it again when it changes.
    pub ca_file: Option<String>,
    /// `grpc`: the name of the service. Default: the server as a whole.
    pub service: Option<String>,
    /// `dns`: the name to query. Default: the root.
    pub name: Option<String>,
    /// `dns`: the type to query. Default: `SOA`.
    #[serde(rename = "type")]
    pub rtype: Option<String>,
    /// `dns`: the response code that means up. Default: any response.
    pub rcode: Option<String>,
}

impl Target {
    /// A target with the defaults of its kind.
    #[must_use]
    pub const fn new(kind: Kind, address: SocketAddr) -> Self {
        Self {
            kind,
            address: Address(address),
            source: None,
            interval: None,
            fast_interval: None,
            timeout: None,
            rise: None,
            fall: None,
            steps: None,
            method: None,
            path: None,
            host: None,
            status: None,
            body: None,
            user_agent: None,
            headers: None,
            byte_limit: None,
            verify: None,
            ca_file: None,
            service: None,
            name: None,
            rtype: None,
            rcode: None,
        }
    }
}

//--- Listeners

/// A listener for subscribers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A loopback address: the contract has no authentication, so it does not leave the node.
    Tcp(SocketAddr),
}

/// A text that is no listener for subscribers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Neither form.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A host name.
    #[error("`{0}` names no IP address and port")]
    NoAddress(String),
    /// An address that other nodes reach.
    #[error(
        "{0} can be reached from other nodes, and every client there could take targets out of service: only \
         loopback addresses are listened on"
    )]
    Exposed(SocketAddr),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        match text.parse()? {
            Endpoint::Unix(path) => Ok(Self::Unix(path)),
            Endpoint::Http(uri) => {
                let address: Option<SocketAddr> = uri
                    .strip_prefix("http://")
                    .and_then(|rest| rest.trim_end_matches('/').parse().ok());
                match address {
                    Some(address) if address.ip().is_loopback() => Ok(Self::Tcp(address)),
                    Some(address) => Err(ListenError::Exposed(address)),
                    None => Err(ListenError::NoAddress(uri)),
                }
            }
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

as_text!(Listen, "unix:/path or http://ADDRESS:PORT");
