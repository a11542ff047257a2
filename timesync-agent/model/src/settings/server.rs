//! How clients are answered, and which of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

/// How clients are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// `port`; 0 is none.
    pub port: u16,
    /// `bindaddress`, one of each family in chrony; every address of the node if there is none. A family without is closed where the
    /// other one has some, but chrony.conf means its wildcard by that.
    pub bind_addresses: Vec<IpAddr>,
    /// `binddevice`.
    pub bind_device: Option<String>,
    /// `allow` and `deny`, in order; without any, no client is answered.
    pub access: Vec<AccessRule>,
    /// `ratelimit`.
    pub rate_limit: Option<RateLimit>,
    /// `clientloglimit`: octets for what is remembered of clients.
    pub client_log_limit: u64,
    /// `noclientlog`: nothing is remembered of clients.
    pub no_client_log: bool,
}

impl Default for ServerSettings {
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

impl ServerSettings {
    /// Whether anybody may be answered at all: without `allow` no port is opened, as chrony has it.
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

/// A line of an access list. The most specific network decides; for the same one, the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// `allow`, not `deny`.
    pub allow: bool,
    /// `all`: removes earlier lines of more specific networks.
    pub all: bool,
    /// The client.
    pub whom: ClientMatch,
}

/// The clients of a line of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMatch {
    /// Everybody, over IPv4 and IPv6.
    Everybody,
    /// A network or an address.
    Network(IpNet),
    /// The addresses of a name, resolved at start.
    Name(String),
}

/// How often one address is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `interval` between answers, as a power of two in seconds.
    pub interval: i8,
    /// `burst`: answers at once.
    pub burst: u32,
    /// `leak`: above the limit, one request in two to the power of this is answered.
    pub leak: u32,
    /// `kod`: above the limit, one request in two to the power of this gets a kiss-o'-death (RFC 5905 §7.4); 0 is never.
    pub kod: u32,
}

impl Default for RateLimit {
    /// NTP.
    fn default() -> Self {
        Self {
            interval: 3,
            burst: 8,
            leak: 2,
            kod: 0,
        }
    }
}

impl RateLimit {
    /// `cmdratelimit`'s.
    pub const COMMANDS: Self = Self {
        interval: -4,
        burst: 8,
        leak: 2,
        kod: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_address_it_is_every_one() {
        let written = |bind: &[&str], has_ipv6| -> Vec<String> {
            let settings = ServerSettings {
                port: 1123,
                bind_addresses: bind.iter().map(|it| it.parse().unwrap()).collect(),
                ..ServerSettings::default()
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
