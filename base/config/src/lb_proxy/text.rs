//! Values of lb-proxy that a file holds as text.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use crate::HumanDuration;
use config_toml::{Address, AddressError, as_text, parse_address};

//--- Rate

/// The shortest period of a rate.
pub const MIN_PERIOD: Duration = Duration::from_millis(100);

/// The longest period of a rate; its milliseconds fit what the table of sources holds.
const MAX_PERIOD: Duration = Duration::from_hours(24);

/// This many in a time: `50/s`, `600/m`, `100/10s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number.
    pub count: u32,
    /// The time; at least [`MIN_PERIOD`].
    pub period: Duration,
}

/// A text that is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no rate, as in 50/s, 600/m or 100/10s; the period is 100ms at least")]
pub struct NotRate(String);

impl FromStr for Rate {
    type Err = NotRate;

    fn from_str(text: &str) -> Result<Self, NotRate> {
        let parsed = || {
            let (count, period) = text.split_once('/')?;
            let period = period.trim();
            let HumanDuration(period) = match period.starts_with(|c: char| c.is_ascii_digit()) {
                true => period.parse().ok()?,
                false => format!("1{period}").parse().ok()?,
            };
            let count: u32 = count.trim().parse().ok()?;
            let is_good = count > 0 && (MIN_PERIOD..=MAX_PERIOD).contains(&period);
            is_good.then_some(Self { count, period })
        };
        parsed().ok_or_else(|| NotRate(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = HumanDuration(self.period).to_string();
        // "1s" is "s"; "1m30s" is not "m30s".
        let unit = period.strip_prefix('1').unwrap_or(&period);
        let is_unit = unit.bytes().all(|byte| byte.is_ascii_alphabetic());
        let period = if is_unit { unit } else { &period };
        write!(formatter, "{}/{period}", self.count)
    }
}

as_text!(Rate, "a number and a time, as in \"50/s\"");

//--- Addresses of servers

/// The address of a server, or a DNS name for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAddress {
    /// An IP address and a port: `192.0.2.1:80`.
    Ip(SocketAddr),
    /// The addresses of a host, and a port: `web.example:80`.
    Host(String, u16),
    /// The places of a service, from its SRV records (RFC 2782): `_http._tcp.example`.
    Service(String),
}

/// A text that is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotServerAddress {
    /// It looks like an address, and a part is missing.
    #[error("{0}")]
    Address(AddressError),
    /// A name of a host without a port.
    #[error("a port is missing in `{0}`; write a name and a port, as in \"web.example:80\"")]
    NoPort(String),
    /// Neither.
    #[error(
        "`{0}` is no address of a server, as in \"192.0.2.1:80\", \"web.example:80\" or \"_http._tcp.web.example\""
    )]
    Neither(String),
}

impl FromStr for ServerAddress {
    type Err = NotServerAddress;

    fn from_str(text: &str) -> Result<Self, NotServerAddress> {
        let text = text.trim();
        let not_address = match parse_address(text) {
            Ok(address) => return Ok(Self::Ip(address)),
            Err(error) => error,
        };
        let neither = || NotServerAddress::Neither(text.to_owned());
        match text.rsplit_once(':') {
            Some((host, port)) if is_name(host) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                let port: u16 = port.ok_or_else(neither)?;
                Ok(Self::Host(host.to_owned(), port))
            }
            None if is_service(text) => Ok(Self::Service(text.to_owned())),
            None if is_name(text) => Err(NotServerAddress::NoPort(text.to_owned())),
            _ => Err(match not_address {
                AddressError::NotAddress(_) => neither(),
                error => NotServerAddress::Address(error),
            }),
        }
    }
}

/// Whether a text is a host's name: no IP address, and no `_` but at the beginning of labels or within them.
fn is_name(text: &str) -> bool {
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = labels.clone().next_back().unwrap_or_default();
    text.len() <= 254 && !is_number(last) && labels.clone().all(is_label)
}

/// Whether a text names a service: `_service._proto.name`.
fn is_service(text: &str) -> bool {
    let mut labels = text.split('.');
    let mut begins = || labels.next().is_some_and(|label| label.starts_with('_'));
    begins() && begins() && is_name(text)
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Host(name, port) => write!(formatter, "{name}:{port}"),
            Self::Service(name) => formatter.write_str(name),
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<Address> for ServerAddress {
    fn from(address: Address) -> Self {
        Self::Ip(address.0)
    }
}

impl ServerAddress {
    /// The IP address and port; none for a name.
    #[must_use]
    pub const fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Host(..) | Self::Service(_) => None,
        }
    }
}

as_text!(
    ServerAddress,
    "an IP address or a name with its port, or the name of a service"
);

//--- Table of the kernel

/// The name of an nftables table: small letters, digits and `_`, 32 at most, a letter first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName(Box<str>);

/// A text that is no name of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name of a table: small letters, digits and `_`, 32 at most, and a letter first"
)]
pub struct NotTable(String);

impl TableName {
    /// The longest name.
    const LONGEST: usize = 32;
}

impl FromStr for TableName {
    type Err = NotTable;

    fn from_str(name: &str) -> Result<Self, NotTable> {
        let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let fits = name.len() <= Self::LONGEST
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(is_plain);
        match fits {
            true => Ok(Self(name.into())),
            false => Err(NotTable(name.to_owned())),
        }
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self("outpost_lb".into())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

as_text!(TableName, "the name of a table, as in \"outpost_lb\"");

//--- Destinations

/// The destination of the access log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// There is no access log.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl FromStr for LogTarget {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "off" => Self::Off,
            "stdout" => Self::Stdout,
            path => Self::File(path.into()),
        })
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Stdout => formatter.write_str("stdout"),
            Self::File(path) => path.display().fmt(formatter),
        }
    }
}

as_text!(LogTarget, "`\"off\"`, `\"stdout\"`, or a path");

/// The default socket of the handover.
pub const SWAP_SOCKET: &str = "/run/outpost/lb-proxy/lb-proxy.swap";

/// The socket of the handover, unless that is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapSocket(pub Option<PathBuf>);

impl Default for SwapSocket {
    fn default() -> Self {
        Self(Some(SWAP_SOCKET.into()))
    }
}

impl FromStr for SwapSocket {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self((text != "none").then(|| text.into())))
    }
}

impl fmt::Display for SwapSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(path) => path.display().fmt(formatter),
            None => formatter.write_str("none"),
        }
    }
}

as_text!(SwapSocket, "a path, or `\"none\"`");

//--- Addresses of virtual IPs

/// An address of a virtual IP with the length of its prefix: `192.168.7.100/24`; without a length, the address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualAddress(pub IpNet);

/// A text that is no address of a virtual IP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address, as in 192.168.7.100/24")]
pub struct NotVirtualAddress(String);

impl FromStr for VirtualAddress {
    type Err = NotVirtualAddress;

    fn from_str(text: &str) -> Result<Self, NotVirtualAddress> {
        let network = text.parse::<IpNet>();
        let network = network.or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network
            .map(Self)
            .map_err(|_| NotVirtualAddress(text.to_owned()))
    }
}

impl fmt::Display for VirtualAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

as_text!(
    VirtualAddress,
    "an IP address, with or without the length of its prefix"
);
