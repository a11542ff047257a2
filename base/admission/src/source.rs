//! The source of a stream: clients that count as one.

use std::net::IpAddr;

/// The origin of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A client of a network.
    Address(IpAddr),
    /// A process at a Unix socket, by its user.
    User(u32),
}

/// A source: an IPv4 address, a /64 of IPv6, or a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    V4(u32),
    V6(u64),
    User(u32),
}

/// A network: a /24 of IPv4, a /48 of IPv6, or all users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Network {
    V4(u32),
    V6(u64),
    Users,
}

impl Source {
    pub(crate) fn key(self) -> Key {
        match self {
            Self::Address(address) => match address.to_canonical() {
                IpAddr::V4(address) => Key::V4(address.to_bits()),
                IpAddr::V6(address) => {
                    let [a, b, c, d, ..] = address.segments();
                    let prefix = [a, b, c, d].map(u64::from);
                    Key::V6(prefix.into_iter().fold(0, |all, one| all << 16 | one))
                }
            },
            Self::User(user) => Key::User(user),
        }
    }
}

impl Key {
    pub(crate) const fn network(self) -> Network {
        match self {
            Self::V4(address) => Network::V4(address >> 8),
            Self::V6(prefix) => Network::V6(prefix >> 16),
            Self::User(_) => Network::Users,
        }
    }
}
