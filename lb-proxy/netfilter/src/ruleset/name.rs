//! How rules name things.

use std::fmt;
use std::net::IpAddr;

use balance::pool::mix;

use super::Protocol;

/// The longest name of a server or frontend that is used as it stands.
const MAX_NAME: usize = 48;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A name as it may stand in a rule. One that has to be changed gets a hash of the whole behind it,
/// so that two stay two.
pub(super) fn plain(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    if name.len() <= MAX_NAME && !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let hash = name
        .bytes()
        .fold(0, |hash, octet| mix(hash ^ u64::from(octet)));
    let start: String = name
        .chars()
        .map(|char| if is_plain(char) { char } else { '_' })
        .take(MAX_NAME)
        .collect();
    format!("{start}_{hash:016x}")
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// As rules name its header.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    pub(super) fn version(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    pub(super) fn loopback(self) -> &'static str {
        match self {
            Self::V4 => "127.0.0.0/8",
            Self::V6 => "::1",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}
