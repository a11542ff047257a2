//! `[client]`, `[serve]`, `[commands]` and `[logs]`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessRule, Number, Samples};
use crate::{As, Ip, Seconds, Whole};
use config_toml::as_text;

//--- Requests to servers

/// Requests to servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Client {
    /// The source port of all requests; 0 is one that the system chooses. Default: a new one for each request.
    pub port: Option<u16>,
    /// Source addresses, one of each family.
    #[serde(rename = "addresses", with = "As::<Vec<Ip>>")]
    pub bind_addresses: Vec<IpAddr>,
    /// The network interface of requests.
    #[serde(rename = "device")]
    #[schemars(extend("x-example" = "\"eth0\""))]
    pub bind_device: Option<String>,
    /// The class of service of requests and responses (DSCP).
    #[serde(with = "As::<Whole<u8, 0, 63>>")]
    pub dscp: u8,
    /// Accepted, and does nothing: a sample counts less as it ages, and none is dropped because others do not fit.
    #[serde(rename = "minsamples", with = "As::<Samples<0>>")]
    pub min_samples: u32,
    /// The largest number of samples to remember of each server. Default: as many as there is room for.
    #[serde(rename = "maxsamples", with = "As::<Option<Samples<1>>>")]
    #[schemars(extend("x-example" = "64"))]
    pub max_samples: Option<u32>,
    /// Interfaces with hardware timestamps of requests and responses. Both timestamps of an exchange come from the NIC, or
    /// both from the kernel. For a NIC without hardware timestamps timesync-agent logs one line and uses the kernel's. It
    /// needs `CAP_NET_ADMIN` to enable them, and read access to the NIC's `/dev/ptpN`. Responses to clients have the kernel's
    /// timestamps.
    #[serde(rename = "hwtimestamp")]
    #[schemars(extend("x-example" = "[[client.hwtimestamp]]\ninterface = \"eth0\"\nrxfilter = \"ntp\""))]
    pub hardware_stamps: Vec<HardwareStamps>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            port: None,
            bind_addresses: Vec::new(),
            bind_device: None,
            dscp: 0,
            min_samples: 6,
            max_samples: None,
            hardware_stamps: Vec::new(),
        }
    }
}

/// How often a NIC's clock is read, as a power of two in seconds.
type NicPoll = Whole<i8, -6, 20>;

/// A compensation of at most a second.
type Compensation = Seconds<-1_000_000_000, 1_000_000_000>;

/// Hardware timestamps of one interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("required" = ["interface"]))]
pub struct HardwareStamps {
    /// The network interface; `*` means all NICs that have hardware timestamps.
    pub interface: String,
    /// timesync-agent reads the NIC's clock every 2^minpoll seconds while there are timestamps.
    #[serde(with = "As::<NicPoll>")]
    pub minpoll: i8,
    /// It reads the clock every 2^maxpoll seconds (4 s at most) otherwise.
    #[serde(with = "As::<Option<NicPoll>>")]
    pub maxpoll: Option<i8>,
    /// The smallest number of readings of the clock that is used.
    #[serde(rename = "minsamples", with = "As::<Samples<1>>")]
    pub min_samples: u32,
    /// The largest number of readings to remember.
    #[serde(rename = "maxsamples", with = "As::<Samples<1>>")]
    pub max_samples: u32,
    /// The precision of a reading.
    #[serde(with = "As::<Seconds<1, 1_000_000_000>>")]
    pub precision: f64,
    /// A correction that timesync-agent adds to transmit timestamps.
    #[serde(rename = "txcomp", with = "As::<Compensation>")]
    pub transmit_compensation: f64,
    /// A correction that timesync-agent subtracts from receive timestamps.
    #[serde(rename = "rxcomp", with = "As::<Compensation>")]
    pub receive_compensation: f64,
    /// Whether timesync-agent reads the NIC's clock and the system's one after the other, without cross timestamps.
    #[serde(rename = "nocrossts")]
    pub no_cross: bool,
    /// The packets that the NIC timestamps.
    #[serde(rename = "rxfilter")]
    pub filter: ReceiveFilter,
}

impl Default for HardwareStamps {
    fn default() -> Self {
        Self {
            interface: String::new(),
            minpoll: 0,
            maxpoll: None,
            min_samples: 2,
            max_samples: 16,
            precision: 100e-9,
            transmit_compensation: 0.0,
            receive_compensation: 0.0,
            no_cross: false,
            filter: ReceiveFilter::Any,
        }
    }
}

impl HardwareStamps {
    /// Those of an interface, with the defaults.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            ..Self::default()
        }
    }
}

/// The packets that a NIC timestamps on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveFilter {
    /// NTP where the NIC can tell it, else all packets.
    #[default]
    Any,
    /// No packets.
    None,
    /// NTP.
    Ntp,
    /// PTP.
    Ptp,
    /// All packets.
    All,
}

//--- Service to clients

/// Service to clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Serve {
    /// The UDP port; 0 serves no client.
    #[schemars(extend("x-reload" = "restart"))]
    pub port: u16,
    /// Addresses to listen on. Default: all of the node. With addresses of one family only, timesync-agent does not serve the
    /// other family. (`bindaddress` of a chrony.conf leaves the other one open if `allow` permits clients of it, as in
    /// chronyd.)
    #[serde(rename = "addresses", with = "As::<Vec<Ip>>")]
    #[schemars(extend("x-reload" = "restart"))]
    pub bind_addresses: Vec<IpAddr>,
    /// The network interface to listen on.
    #[serde(rename = "device")]
    #[schemars(extend("x-example" = "\"eth0\"", "x-reload" = "restart"))]
    pub bind_device: Option<String>,
    /// Rules as chrony's, such as `["allow 192.168.7.0/24", "deny 192.168.7.66"]`. The most specific network decides;
    /// `allow all 192.168` also removes the rules within.
    pub access: Vec<AccessRule>,
    /// The largest rate of requests of one client. One request in 2^leak above it gets a response, and one in 2^kod of the
    /// others a Kiss-o'-Death.
    #[serde(rename = "ratelimit")]
    #[schemars(extend("x-example" = "[serve.ratelimit]\ninterval = 3\nburst = 8"))]
    pub rate_limit: Option<RateLimit>,
    /// The memory for records of clients, in bytes.
    #[serde(
        rename = "clientloglimit",
        with = "As::<Whole<u64, 0, { u32::MAX as i64 }>>"
    )]
    #[schemars(extend("x-reload" = "restart"))]
    pub client_log_limit: u64,
    /// Whether timesync-agent keeps no records of clients: no rate limit, no interleaved mode.
    #[serde(rename = "noclientlog")]
    pub no_client_log: bool,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            port: 123,
            bind_addresses: Vec::new(),
            bind_device: None,
            access: Vec::new(),
            rate_limit: None,
            client_log_limit: 524_288,
            no_client_log: false,
        }
    }
}

impl Serve {
    /// Whether any client may get a response: without `allow` no port is opened, as chrony has it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.port != 0 && self.access.iter().any(|rule| rule.allow)
    }

    /// The addresses to bind: those that are given, and without any each one of the machine. On a machine without IPv6, its
    /// wildcard is not missed beside others.
    #[must_use]
    pub fn addresses(&self, has_ipv6: bool) -> Vec<SocketAddr> {
        let every = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let mut addresses = self.bind_addresses.clone();
        if addresses.is_empty() {
            addresses = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), every];
        }
        if !has_ipv6 && addresses.iter().any(|address| *address != every) {
            addresses.retain(|address| *address != every);
        }
        addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, self.port))
            .collect()
    }
}

/// The rate of requests, or of commands, of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RateLimit {
    /// The interval between responses, as a power of two in seconds. Default: 3 for requests, -4 for commands.
    #[serde(with = "As::<Option<Whole<i8, -19, 12>>>")]
    pub interval: Option<i8>,
    /// The number of responses at once.
    #[serde(with = "As::<Whole<u32, 1, 255>>")]
    pub burst: u32,
    /// Above the limit, one request in 2^leak gets a response.
    #[serde(with = "As::<Whole<u32, 1, 4>>")]
    pub leak: u32,
    /// One in 2^kod of the others gets a Kiss-o'-Death (RFC 5905 §7.4); 0 is none.
    #[serde(with = "As::<Whole<u32, 0, 4>>")]
    pub kod: u32,
}

impl RateLimit {
    /// The interval of requests unless given.
    pub const REQUESTS: i8 = 3;
    /// The interval of commands unless given.
    pub const COMMANDS: i8 = -4;
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            interval: None,
            burst: 8,
            leak: 2,
            kod: 0,
        }
    }
}

//--- chronyc

/// chronyc, and other programs with its protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Commands {
    /// The UDP port for commands that only read; 0 turns it off.
    #[schemars(extend("x-reload" = "restart"))]
    pub port: u16,
    /// Addresses to listen on. Default, for each family: loopback.
    #[serde(rename = "addresses", with = "As::<Vec<Ip>>")]
    #[schemars(extend("x-reload" = "restart"))]
    pub bind_addresses: Vec<IpAddr>,
    /// The network interface to listen on.
    #[serde(rename = "device")]
    #[schemars(extend("x-example" = "\"lo\"", "x-reload" = "restart"))]
    pub bind_device: Option<String>,
    /// The Unix socket for all commands, or `"none"`.
    #[schemars(extend("x-reload" = "restart"))]
    pub socket: CommandSocket,
    /// Other hosts that may send commands that only read, such as `["allow 192.168.7.0/24"]`.
    pub access: Vec<AccessRule>,
    /// The largest rate of commands of one host. Default: none.
    #[serde(rename = "ratelimit")]
    #[schemars(extend("x-example" = "[commands.ratelimit]\ninterval = -4\nburst = 8"))]
    pub rate_limit: Option<RateLimit>,
    /// Reports that are available over UDP, by chronyc's names. All other reports, and commands that change something, need
    /// the Unix socket.
    pub open: Vec<String>,
}

/// The reports that are available over UDP unless the configuration has others: those of chrony 4.3.
pub const OPEN_COMMANDS: [&str; 8] = [
    "activity",
    "manual",
    "rtcdata",
    "smoothing",
    "sourcename",
    "sources",
    "sourcestats",
    "tracking",
];

/// The path at which chronyc looks for the socket.
pub const DEFAULT_COMMAND_SOCKET: &str = "/run/chrony/chronyd.sock";

impl Default for Commands {
    fn default() -> Self {
        Self {
            port: 323,
            bind_addresses: Vec::new(),
            bind_device: None,
            socket: CommandSocket(Some(DEFAULT_COMMAND_SOCKET.into())),
            access: Vec::new(),
            rate_limit: None,
            open: OPEN_COMMANDS.map(str::to_owned).to_vec(),
        }
    }
}

impl Commands {
    /// The addresses of the datagram sockets.
    #[must_use]
    pub fn listen(&self) -> Vec<SocketAddr> {
        if self.port == 0 {
            return Vec::new();
        }
        let of_family = |is_v4: bool, default: IpAddr| {
            let given = self.bind_addresses.iter().copied();
            let given: Vec<IpAddr> = given.filter(|a| a.is_ipv4() == is_v4).collect();
            if given.is_empty() {
                vec![default]
            } else {
                given
            }
        };
        let v4 = of_family(true, Ipv4Addr::LOCALHOST.into());
        let v6 = of_family(false, Ipv6Addr::LOCALHOST.into());
        v4.into_iter()
            .chain(v6)
            .map(|address| SocketAddr::new(address, self.port))
            .collect()
    }
}

/// The path of the socket for all commands, or `"none"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSocket(pub Option<PathBuf>);

impl CommandSocket {
    /// The path, if there is a socket.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

impl FromStr for CommandSocket {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self((text != "none").then(|| text.into())))
    }
}

impl fmt::Display for CommandSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(path) => path.display().fmt(f),
            None => f.write_str("none"),
        }
    }
}

as_text!(CommandSocket, "a path, or \"none\"");

//--- Files of measurements

/// Files of measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Logs {
    /// The directory; without it timesync-agent writes no file.
    #[schemars(extend("x-example" = "\"/var/log/chrony\""))]
    pub directory: Option<PathBuf>,
    /// The files to write, such as `["measurements", "statistics", "tracking"]`.
    pub write: BTreeSet<LogFile>,
    /// The number of lines between two headings; 0 means no heading.
    #[serde(with = "As::<Number>")]
    pub banner: u32,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            directory: None,
            write: BTreeSet::new(),
            banner: 32,
        }
    }
}

impl Logs {
    /// Whether a file is written.
    #[must_use]
    pub fn has(&self, file: LogFile) -> bool {
        self.write.contains(&file)
    }
}

/// A file of measurements.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFile {
    /// Every sample.
    Measurements,
    /// Every response.
    RawMeasurements,
    /// Every reading of a reference clock.
    Refclocks,
    /// Every selection.
    Selection,
    /// Every update of a source's estimate.
    Statistics,
    /// Every reading of the temperature.
    Tempcomp,
    /// Every update of the clock.
    Tracking,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_address_it_is_every_one() {
        let written = |bind: &[&str], has_ipv6| -> Vec<String> {
            let settings = Serve {
                port: 1123,
                bind_addresses: bind.iter().map(|it| it.parse().unwrap()).collect(),
                ..Serve::default()
            };
            let addresses = settings.addresses(has_ipv6);
            addresses.iter().map(ToString::to_string).collect()
        };
        assert_eq!(written(&[], true), ["0.0.0.0:1123", "[::]:1123"]);
        assert_eq!(written(&[], false), ["0.0.0.0:1123"]);
        assert_eq!(written(&["192.0.2.7"], true), ["192.0.2.7:1123"]);
        assert_eq!(
            written(&["192.0.2.7", "::"], true),
            ["192.0.2.7:1123", "[::]:1123"]
        );
        assert_eq!(written(&["192.0.2.7", "::"], false), ["192.0.2.7:1123"]);
        assert_eq!(written(&["::"], false), ["[::]:1123"], "which fails");
        assert_eq!(
            written(&["192.0.2.7", "::1"], false),
            ["192.0.2.7:1123", "[::1]:1123"]
        );
    }
}
