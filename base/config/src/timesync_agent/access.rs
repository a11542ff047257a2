//! Lines of access lists: `allow 192.168.7.0/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;

use config_toml::as_text;

/// A line of an access list. The most specific network decides; for the same one, the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// `allow`, not `deny`.
    pub allow: bool,
    /// `all`: removes earlier lines of more specific networks.
    pub all: bool,
    /// The client.
    pub clients: ClientMatch,
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

/// A text that is no line of an access list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Another first word.
    #[error("a line begins with `allow` or `deny`, as in \"allow 192.168.7.0/24\"")]
    Verb,
    /// Words after the network.
    #[error("one network a line")]
    Words,
    /// A prefix length after something that is no address.
    #[error("`{0}` is no network")]
    Network(String),
    /// A prefix length that is no number.
    #[error("`{0}` is no length of a prefix")]
    Length(String),
    /// More bits than the address has.
    #[error("a prefix of {0} bits is too long for {1}")]
    Long(u8, IpAddr),
}

impl FromStr for AccessRule {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (allow, rest) = match words.as_slice() {
            ["allow", rest @ ..] => (true, rest),
            ["deny", rest @ ..] => (false, rest),
            _ => return Err(AccessError::Verb),
        };
        let (all, rest) = match rest {
            ["all", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let clients = match rest {
            [] => ClientMatch::Everybody,
            [clients] => clients.parse()?,
            _ => return Err(AccessError::Words),
        };
        Ok(Self {
            allow,
            all,
            clients,
        })
    }
}

/// An address, a network, the beginning of an IPv4 address (`192.168` is 192.168.0.0/16), or a name.
impl FromStr for ClientMatch {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let Some((address, written)) = address_or_beginning(address) else {
            return match length {
                Some(_) => Err(AccessError::Network(text.to_owned())),
                None => Ok(Self::Name(text.to_owned())),
            };
        };
        let length = match length {
            None => written,
            Some(length) => length
                .parse()
                .map_err(|_| AccessError::Length(length.to_owned()))?,
        };
        match IpNet::new(address, length) {
            Ok(network) => Ok(Self::Network(network.trunc())),
            Err(_) => Err(AccessError::Long(length, address)),
        }
    }
}

/// An address, and how many bits of it were written.
fn address_or_beginning(text: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, if address.is_ipv4() { 32 } else { 128 }));
    }
    let mut octets = [0; 4];
    let mut bits = 0;
    let mut places = octets.iter_mut();
    for part in text.split('.') {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        *places.next()? = part.parse().ok().filter(|_| digits)?;
        bits += 8;
    }
    Some((Ipv4Addr::from(octets).into(), bits))
}

impl fmt::Display for AccessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.allow { "allow" } else { "deny" })?;
        if self.all {
            f.write_str(" all")?;
        }
        match &self.clients {
            ClientMatch::Everybody => Ok(()),
            ClientMatch::Network(network) => write!(f, " {network}"),
            ClientMatch::Name(name) => write!(f, " {name}"),
        }
    }
}

as_text!(
    AccessRule,
    "`allow` or `deny`, and a network, an address or a name"
);
