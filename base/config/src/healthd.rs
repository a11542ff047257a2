//! The configuration of healthd.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use health::{Endpoint, EndpointError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::as_text;
use crate::{Address, Admin, ByteSize, DurationWithin, HumanDuration, Ip, Log, Positive, Whole};

/// The port of healthd's admin listener.
pub const ADMIN_PORT: u16 = 9401;

/// The default socket for subscribers.
pub const SOCKET: &str = "/run/outpost/healthd.sock";

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

/// The configuration of healthd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Healthd {
    /// How long healthd may take to stop after SIGTERM. It lets subscribers leave, and reserves half of the time, 5s
    /// at most, to write its state once more.
    pub drain: HumanDuration,
    /// The gRPC listeners for subscribers: `unix:/path` (mode 0660, for healthd's group), or `http://ADDRESS:PORT`
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
    /// Bounds of the work.
    pub probes: Probes,
    /// Bounds of the metrics.
    pub metrics: Metrics,
    /// healthd always probes these targets, also without a subscriber. A subscriber that states the same target with
    /// the same settings shares the probe.
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
            probes: Probes::default(),
            metrics: Metrics::default(),
            target: Vec::new(),
        }
    }
}

/// Bounds of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probes {
    /// The largest number of probes at a time. Further probes wait, and those that are due the longest go first; the
    /// metric `healthd_probe_lateness_seconds` shows the wait. Each probe takes a file descriptor.
    pub in_flight: Positive<usize>,
    /// The largest number of targets, of this file and of all subscribers. healthd refuses more.
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

//--- Targets

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Up when the connection is accepted.
    Tcp,
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Dns => "dns",
            Self::Ntp => "ntp",
        })
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
    /// The time from the start of a probe to the start of the next. Default: `5s`.
    pub interval: Option<DurationWithin<MIN_INTERVAL, MAX_TIME>>,
    /// The interval while results contradict the state but do not change it yet. Default: `1s`.
    pub fast_interval: Option<DurationWithin<MIN_INTERVAL, MAX_TIME>>,
    /// The time for one probe. Default: `2s`.
    pub timeout: Option<DurationWithin<1, MAX_TIME>>,
    /// The good results in a row that make a target up. Default: 1.
    pub rise: Option<Positive<u32>>,
    /// The bad results in a row that make a target down. Default: 1.
    pub fall: Option<Positive<u32>>,
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
