//! Addresses as people write them; the errors say which part is missing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use crate::{TextError, as_text, checked_text};

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An IP address without a port.
    #[error("a port is missing in `{0}`; write an IP address and a port, as in \"{1}\"")]
    NoPort(String, SocketAddr),
    /// A port without an address.
    #[error(
        "an IP address is missing in `{0}`; write an IP address and a port, as in \"127.0.0.1:{1}\""
    )]
    NoAddress(String, u16),
    /// A host name.
    #[error("`{0}` is no IP address with a port, as in \"192.0.2.1:53\" or \"[2001:db8::1]:53\"")]
    NotAddress(String),
    /// Not the address of a DNS server.
    #[error(
        "`{0}` is not an address, as in \"192.168.7.1\", \"192.168.7.1:5300\" or \"[fd00::1]:53\""
    )]
    NotServer(String),
    /// Not an IP address.
    #[error("`{0}` is no IP address, as in \"192.0.2.1\" or \"2001:db8::1\"")]
    NotIp(String),
    /// Not an upstream.
    #[error(
        "`{0}` is no upstream, as in \"192.0.2.1\", \"192.0.2.1:5300\" or \"192.0.2.1#dns.example.org\""
    )]
    NotUpstream(String),
    /// An address with a port in a place of an IP address.
    #[error("`{0}` has a port; an IP address alone is needed, as in \"{1}\"")]
    Port(String, IpAddr),
}

/// The example port of errors.
const EXAMPLE_PORT: u16 = 53;

/// Reads an IP address with its port.
///
/// # Errors
///
/// Text that is no address, or lacks a part of one.
pub fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    let trimmed = text.trim();
    if let Ok(address) = trimmed.parse() {
        return Ok(address);
    }
    let bare = trimmed.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let example = SocketAddr::new(ip, EXAMPLE_PORT);
        return Err(AddressError::NoPort(text.to_owned(), example));
    }
    if let Ok(port) = trimmed.trim_start_matches(':').parse() {
        return Err(AddressError::NoAddress(text.to_owned(), port));
    }
    Err(AddressError::NotAddress(text.to_owned()))
}

fn parse_ip(text: &str) -> Result<IpAddr, AddressError> {
    let trimmed = text.trim();
    if let Ok(ip) = trimmed.parse() {
        return Ok(ip);
    }
    match trimmed.parse::<SocketAddr>() {
        Ok(address) => Err(AddressError::Port(text.to_owned(), address.ip())),
        Err(_) => Err(AddressError::NotIp(text.to_owned())),
    }
}

fn parse_server(text: &str) -> Result<SocketAddr, AddressError> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let ip = bare.unwrap_or(text).parse::<IpAddr>();
    ip.map(|ip| SocketAddr::new(ip, DnsAddress::PORT))
        .map_err(|_| AddressError::NotServer(text.to_owned()))
}

/// Makes a newtype of an address that is written as text.
macro_rules! address {
    ($(#[$doc:meta])* $name:ident($inner:ty), $parse:expr, $words:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl Deref for $name {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = AddressError;

            fn from_str(text: &str) -> Result<Self, AddressError> {
                $parse(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self(inner)
            }
        }

        impl From<$name> for $inner {
            fn from(outer: $name) -> Self {
                outer.0
            }
        }

        as_text!($name, $words);
    };
}

address!(
    /// An IP address and a port: `"192.0.2.1:53"`, `"[2001:db8::1]:53"`. Host names are not looked up.
    Address(SocketAddr),
    parse_address,
    "an IP address with its port"
);
address!(
    /// An IP address: `"192.0.2.1"`, `"2001:db8::1"`.
    Ip(IpAddr),
    parse_ip,
    "an IP address"
);

address!(
    /// The address of a DNS server: `"192.0.2.1"`, `"192.0.2.1:5300"`, `"[2001:db8::1]:53"`; without a port it is
    /// [`DnsAddress::PORT`].
    DnsAddress(SocketAddr),
    parse_server,
    "an IP address, with its port unless that is 53"
);

/// An upstream: `"192.0.2.1"`, `"192.0.2.1:5300"`, `"192.0.2.1#dns.example.org"`. The port, if it has none, is that of its
/// transport; the name is that of its certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    /// Its address.
    pub ip: IpAddr,
    /// Its port.
    pub port: Option<u16>,
    /// Its name.
    pub name: Option<Arc<str>>,
}

impl Upstream {
    /// Its address, with this port unless it has one.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Self {
            ip: address.ip(),
            port: Some(address.port()),
            name: None,
        }
    }
}

impl FromStr for Upstream {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::NotUpstream(text.to_owned());
        let (address, name) = match text.split_once('#') {
            None => (text, None),
            Some((address, name)) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                let is_name = !name.is_empty() && name.chars().all(fits);
                (address, Some(is_name.then_some(name).ok_or_else(wrong)?))
            }
        };
        let bare = address
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let parsed = match bare.unwrap_or(address).parse::<IpAddr>() {
            Ok(ip) => Ok((ip, None)),
            Err(_) => address
                .parse::<SocketAddr>()
                .map(|address| (address.ip(), Some(address.port()))),
        };
        let (ip, port) = parsed.map_err(|_| wrong())?;
        Ok(Self {
            ip,
            port,
            name: name.map(Arc::from),
        })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            None => self.ip.fmt(formatter)?,
            Some(port) => SocketAddr::new(self.ip, port).fmt(formatter)?,
        }
        match &self.name {
            None => Ok(()),
            Some(name) => write!(formatter, "#{name}"),
        }
    }
}

as_text!(
    Upstream,
    "an IP address, with its port unless that is its transport's, and `#` and its name if it has one"
);

checked_text!(
    /// A host name or an IP address, and a port: `master-1:5444`.
    HostPort,
    parse_host_port,
    "a host name or an IP address, with its port"
);

fn parse_host_port(text: &str) -> Result<Arc<str>, TextError> {
    let fits = text.parse::<SocketAddr>().is_ok()
        || text.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains([':', '/']) && port.parse::<u16>().is_ok()
        });
    fits.then(|| text.into()).ok_or(TextError(
        "an address with its port is wanted, as in \"192.168.7.14:5444\"",
    ))
}

checked_text!(
    /// A URL that begins with `https://` or `http://` and holds no credentials.
    HttpUrl,
    parse_url,
    "a URL"
);

/// The error does not repeat the text: a URL that was refused may hold a password.
fn parse_url(text: &str) -> Result<Arc<str>, TextError> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let has_host = rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !host.contains('@')
    });
    let fits = has_host && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    fits.then(|| text.into()).ok_or(TextError(
        "a URL is wanted that begins with https:// or http:// and holds no credentials",
    ))
}

impl HttpUrl {
    /// Whether requests to it are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.as_str().starts_with("https://")
    }
}

impl DnsAddress {
    /// The port of DNS.
    pub const PORT: u16 = 53;
}

impl Address {
    /// The port of the loopback address (IPv4).
    #[must_use]
    pub const fn loopback(port: u16) -> Self {
        Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_part_that_is_missing() {
        for (text, expected) in [
            (
                "127.0.0.1",
                "a port is missing in `127.0.0.1`; write an IP address and a port, as in \"127.0.0.1:53\"",
            ),
            (
                "2001:db8::1",
                "a port is missing in `2001:db8::1`; write an IP address and a port, as in \"[2001:db8::1]:53\"",
            ),
            (
                "9402",
                "an IP address is missing in `9402`; write an IP address and a port, as in \"127.0.0.1:9402\"",
            ),
            (
                "master-0:6443",
                "`master-0:6443` is no IP address with a port, as in \"192.0.2.1:53\" or \"[2001:db8::1]:53\"",
            ),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let error = "192.0.2.1:53".parse::<Ip>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`192.0.2.1:53` has a port; an IP address alone is needed, as in \"192.0.2.1\""
        );
        assert_eq!(
            "[::1]:53".parse::<Address>().unwrap().to_string(),
            "[::1]:53"
        );
    }

    #[test]
    fn an_upstream_has_a_port_and_a_name_or_not() {
        for (text, port, name) in [
            ("192.0.2.1", None, None),
            ("192.0.2.1:5300", Some(5300), None),
            ("192.0.2.1#dns.example", None, Some("dns.example")),
            ("192.0.2.1:853#dns.example", Some(853), Some("dns.example")),
            ("2001:db8::1#a", None, Some("a")),
            ("[2001:db8::1]:853#a", Some(853), Some("a")),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!((upstream.port, upstream.name.as_deref()), (port, name));
            assert_eq!(upstream.to_string(), text);
        }
        assert_eq!("[::1]".parse::<Upstream>().unwrap().to_string(), "::1");
        for bad in [
            "",
            "#a",
            "192.0.2.1#",
            "192.0.2.1#a b",
            "dns.example",
            "192.0.2.1:",
        ] {
            assert!(bad.parse::<Upstream>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_has_a_host_and_no_credentials() {
        for good in ["https://a", "http://a:5000/b", "https://[::1]:5443/v2/"] {
            let url: HttpUrl = good.parse().unwrap();
            assert_eq!(url.to_string(), good);
            assert_eq!(url.is_encrypted(), good.starts_with("https"));
        }
        for bad in [
            "",
            "a.example",
            "ftp://a",
            "https://",
            "https:///a",
            "https://u:secret@a",
            "https://a b",
        ] {
            let error = bad.parse::<HttpUrl>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_host_has_its_port() {
        for good in ["192.0.2.1:1", "[::1]:5444", "master-1:5444"] {
            assert!(good.parse::<HostPort>().is_ok(), "{good}");
        }
        for bad in ["", "a", "a:", ":1", "::1:5444:", "a/b:1", "a:65536"] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
    }
}
