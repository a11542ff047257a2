//! Ranges of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use config_toml::as_text;
use ipnet::IpNet;

/// Addresses of one family, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

impl AddressRange {
    /// From one address to another of the same family, which is not lower.
    #[must_use]
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// The first address.
    #[must_use]
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    #[must_use]
    pub const fn last(&self) -> IpAddr {
        self.last
    }

    /// Whether its addresses are IPv6.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.first.is_ipv6()
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// The number of addresses; all of IPv6 count one less.
    #[must_use]
    pub fn size(&self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    /// The address at a place, from 0.
    #[must_use]
    pub fn at(&self, place: u128) -> IpAddr {
        let number = number(self.first).saturating_add(place);
        match self.first {
            IpAddr::V4(_) => {
                u32::try_from(number).map_or(self.last, |number| Ipv4Addr::from_bits(number).into())
            }
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A text that is no range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotRange {
    /// It is none of the three forms.
    #[error("expected `FIRST-LAST`, a network or an address")]
    Syntax,
    /// The ends are of two families, or the last is the lower.
    #[error("the last address is before the first, or of another family")]
    Order,
}

/// `192.168.7.200-192.168.7.220`, `192.168.7.200/28` or one address. From an IPv4 network, the network's
/// and the broadcast address are left out.
impl FromStr for AddressRange {
    type Err = NotRange;

    fn from_str(text: &str) -> Result<Self, NotRange> {
        let address = |part: &str| part.trim().parse().map_err(|_| NotRange::Syntax);
        if let Some((first, last)) = text.split_once('-') {
            return Self::new(address(first)?, address(last)?).ok_or(NotRange::Order);
        }
        let Ok(network) = text.trim().parse::<IpNet>() else {
            let only = address(text)?;
            return Ok(Self {
                first: only,
                last: only,
            });
        };
        let all = Self {
            first: network.network(),
            last: network.broadcast(),
        };
        let is_point_to_point = network.prefix_len() + 1 >= network.max_prefix_len();
        if all.first.is_ipv6() || is_point_to_point {
            return Ok(all);
        }
        Ok(Self {
            first: all.at(1),
            last: all.at(all.size() - 2),
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => self.first.fmt(formatter),
            false => write!(formatter, "{}-{}", self.first, self.last),
        }
    }
}

as_text!(AddressRange, "`FIRST-LAST`, a network, or one address");
