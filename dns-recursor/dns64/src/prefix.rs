//! IPv6 addresses with an IPv4 address in them (RFC 6052 §2.2).
//!
//! ```text
//! octet    0   4   5   6   7   8   9  10  11  12  13 … 15
//! /32      prefix | v4            | u | suffix
//! /40      prefix     | v4        | u | v4| suffix
//! /48      prefix         | v4    | u | v4    | suffix
//! /56      prefix             | v4| u | v4        | suffix
//! /64      prefix                 | u | v4            | suffix
//! /96      prefix                                 | v4
//! ```
//!
//! Octet `u` and the suffix are zero.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::Ipv6Net;

/// The lengths that a prefix may have, in bits.
pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// The octet that is always zero.
const RESERVED: usize = 8;

/// The prefix of a NAT64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix(Ipv6Net);

/// A text that is no prefix of a NAT64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    #[error("`{0}` is no IPv6 prefix; write one such as 64:ff9b::/96")]
    NotANetwork(String),
    #[error("`{0}` has bits behind its length")]
    HostBits(String),
    /// RFC 6052 §2.2.
    #[error("`{0}` has another length than 32, 40, 48, 56, 64 or 96")]
    Length(String),
    /// RFC 6052 §2.2.
    #[error("`{0}` has bits 64 to 71 set, which have to be zero")]
    Reserved(String),
}

impl Prefix {
    /// The well-known prefix, `64:ff9b::/96` (RFC 6052 §2.1).
    pub const WELL_KNOWN: Self = Self(Ipv6Net::new_assert(
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
        96,
    ));

    /// The address of an IPv4 address.
    #[must_use]
    pub fn embed(self, address: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.0.network().octets();
        let places = octets.iter_mut().enumerate().skip(self.n_octets());
        let places = places.filter(|(at, _)| *at != RESERVED);
        for ((_, place), octet) in places.zip(address.octets()) {
            *place = octet;
        }
        octets.into()
    }

    /// The IPv4 address in an address; `None` for one without the prefix, or with bits where there are none.
    #[must_use]
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        if !self.0.contains(&address) {
            return None;
        }
        let octets = address.octets();
        let behind = octets.iter().enumerate().skip(self.n_octets());
        let mut places = behind.filter(|(at, _)| *at != RESERVED);
        let mut embedded = [0; 4];
        for (octet, (_, place)) in embedded.iter_mut().zip(places.by_ref()) {
            *octet = *place;
        }
        let embedded = Ipv4Addr::from(embedded);
        // All other bits are zero.
        (self.embed(embedded) == address).then_some(embedded)
    }

    fn n_octets(self) -> usize {
        usize::from(self.0.prefix_len() / 8)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let network: Ipv6Net = text
            .parse()
            .map_err(|_| PrefixError::NotANetwork(text.to_owned()))?;
        if network.network() != network.addr() {
            return Err(PrefixError::HostBits(text.to_owned()));
        }
        if !LENGTHS.contains(&network.prefix_len()) {
            return Err(PrefixError::Length(text.to_owned()));
        }
        match network.network().octets().get(RESERVED) {
            Some(0) => Ok(Self(network)),
            _ => Err(PrefixError::Reserved(text.to_owned())),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6052 §2.4, tables 2 and 3.
    #[test]
    fn addresses_are_those_of_the_rfc() {
        for (prefix, expected) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            let (v4, v6) = (Ipv4Addr::new(192, 0, 2, 33), expected.parse().unwrap());
            assert_eq!(prefix.embed(v4), v6, "{prefix}");
            assert_eq!(prefix.extract(v6), Some(v4), "{prefix}");
        }
    }

    #[test]
    fn an_address_with_other_bits_has_none_in_it() {
        for (prefix, address) in [
            ("64:ff9b::/96", "64:ff9b:1::192.0.2.33"),
            ("2001:db8::/32", "2001:db8:c000:221:100::"),
            ("2001:db8::/32", "2001:db8:c000:221::1"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100:1"),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(prefix.extract(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn only_prefixes_of_the_rfc_are_prefixes() {
        for (text, expected) in [
            (
                "192.0.2.0/24",
                PrefixError::NotANetwork("192.0.2.0/24".into()),
            ),
            ("64:ff9b::", PrefixError::NotANetwork("64:ff9b::".into())),
            (
                "64:ff9b::1/96",
                PrefixError::HostBits("64:ff9b::1/96".into()),
            ),
            ("64:ff9b::/95", PrefixError::Length("64:ff9b::/95".into())),
            ("64::/128", PrefixError::Length("64::/128".into())),
            (
                "2001:db8:0:0:100::/96",
                PrefixError::Reserved("2001:db8:0:0:100::/96".into()),
            ),
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(expected));
        }
        assert_eq!("64:ff9b::/96".parse(), Ok(Prefix::WELL_KNOWN));
    }

    #[test]
    fn every_address_comes_back_out_of_every_prefix() {
        let mut random = dns_cache::testing::Random(64);
        for length in LENGTHS {
            for _ in 0..500 {
                let bits = u128::from(random.next()) << 64 | u128::from(random.next());
                let bits = bits & !(0xff << 56);
                let network = Ipv6Net::new(bits.into(), length).unwrap().trunc();
                let prefix: Prefix = network.to_string().parse().unwrap();
                let v4 = Ipv4Addr::from(u32::try_from(random.below(1 << 32)).unwrap());
                let v6 = prefix.embed(v4);
                assert!(network.contains(&v6), "{v6} in {network}");
                assert_eq!(v6.octets()[8], 0, "{v6}");
                assert_eq!(prefix.extract(v6), Some(v4), "{v6}");
            }
        }
    }
}
