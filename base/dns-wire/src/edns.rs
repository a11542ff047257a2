//! EDNS(0): the OPT record (RFC 6891), client subnet (RFC 7871), extended errors (RFC 8914).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The range of a server's limit for responses over UDP: at least that of DNS without EDNS, at most the
/// payload that IPv6 carries whole on any link (RFC 9715 advises less).
pub const UDP_PAYLOADS: std::ops::RangeInclusive<u16> = 512..=4096;

/// Option codes of the IANA registry.
pub mod option {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Client subnet (RFC 7871).
    pub const CLIENT_SUBNET: u16 = 8;
    /// Cookies (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// TCP keep-alive (RFC 7828).
    pub const TCP_KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended DNS error (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
}

/// Info-codes of extended DNS errors (RFC 8914 §4).
pub mod extended_error {
    /// Something else, which a text says.
    pub const OTHER: u16 = 0;
    /// A stale answer.
    pub const STALE_ANSWER: u16 = 3;
    /// The answer is not that of the domain's owner.
    pub const FORGED_ANSWER: u16 = 4;
    /// A cached failure.
    pub const CACHED_ERROR: u16 = 13;
    /// The server is not ready.
    pub const NOT_READY: u16 = 14;
    /// Blocked by the server's own policy.
    pub const BLOCKED: u16 = 15;
    /// The client has no access to this server.
    pub const PROHIBITED: u16 = 18;
    /// A stale "no such name".
    pub const STALE_NXDOMAIN: u16 = 19;
    /// The server has no authority for the name and does not recurse.
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// No authority could be reached.
    pub const NO_REACHABLE_AUTHORITY: u16 = 22;
    /// An upstream could not be reached.
    pub const NETWORK_ERROR: u16 = 23;
    /// The server's own data is invalid.
    pub const INVALID_DATA: u16 = 24;
}

/// Octets of an OPT record that carries no options: root owner, type, class, TTL, length.
pub const OPT_LENGTH: usize = 11;

/// The OPT record of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns<'a> {
    /// The largest UDP payload its sender can take; below 512 counts as 512 (RFC 6891 §6.2.3).
    pub udp_size: u16,
    /// The high octet of the response code.
    pub rcode_high: u8,
    /// The EDNS version; only 0 exists.
    pub version: u8,
    /// Whether the client wants DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// The options as in the record.
    pub options: &'a [u8],
}

impl<'a> Edns<'a> {
    /// Reads an OPT record from its class, TTL and RDATA.
    #[must_use]
    pub fn from_record(class: u16, ttl: u32, rdata: &'a [u8]) -> Self {
        let [rcode_high, version, flags, _] = ttl.to_be_bytes();
        Self {
            udp_size: class,
            rcode_high,
            version,
            dnssec_ok: flags & 0x80 != 0,
            options: rdata,
        }
    }

    /// The options one by one; ends at the first that does not fit its record.
    #[must_use]
    pub const fn options(&self) -> Options<'a> {
        Options { rest: self.options }
    }

    /// The data of the first option with this code.
    #[must_use]
    pub fn option(&self, code: u16) -> Option<&'a [u8]> {
        self.options()
            .find(|(candidate, _)| *candidate == code)
            .map(|(_, data)| data)
    }

    /// Whether the options fill the record exactly, as they must.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let mut options = self.options();
        options.by_ref().for_each(drop);
        options.rest.is_empty()
    }
}

/// Options of an OPT record; made by [`Edns::options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, rest) = self.rest.split_first_chunk::<2>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest;
        Some((u16::from_be_bytes(*code), data))
    }
}

/// The OPT record of a response with no options, ready to append.
#[must_use]
pub const fn opt_record(udp_size: u16, rcode_high: u8, dnssec_ok: bool) -> [u8; OPT_LENGTH] {
    let [high, low] = udp_size.to_be_bytes();
    [
        0,
        0,
        41,
        high,
        low,
        rcode_high,
        0,
        if dnssec_ok { 0x80 } else { 0 },
        0,
        0,
        0,
    ]
}

/// The network of a client, as a resolver gives it (RFC 7871 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// The address, zero beyond the prefix.
    pub address: IpAddr,
    /// The number of bits that the resolver gave.
    pub source_prefix: u8,
    /// The number of bits that the answer holds for; 0 in queries.
    pub scope_prefix: u8,
}

impl ClientSubnet {
    /// Reads the option's data; `None` when it breaks RFC 7871 §6.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (&[family_high, family_low, source_prefix, scope_prefix], given) =
            data.split_first_chunk::<4>()?;
        let width: u8 = match (family_high, family_low) {
            (0, 1) => 32,
            (0, 2) => 128,
            _ => return None,
        };
        if source_prefix > width || given.len() != usize::from(source_prefix).div_ceil(8) {
            return None;
        }
        let mut octets = [0_u8; 16];
        octets.get_mut(..given.len())?.copy_from_slice(given);
        // Bits beyond the prefix must be zero.
        let spare = source_prefix % 8;
        if spare != 0 && given.last().is_some_and(|last| last << spare != 0) {
            return None;
        }
        let [a, b, c, d, ..] = octets;
        let address = match width {
            32 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(octets)),
        };
        Some(Self {
            address,
            source_prefix,
            scope_prefix,
        })
    }

    /// The option's data.
    #[must_use]
    pub fn compose(&self) -> Vec<u8> {
        let (family, octets) = match self.address {
            IpAddr::V4(address) => (1_u8, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let given = usize::from(self.source_prefix).div_ceil(8);
        let mut data = vec![0, family, self.source_prefix, self.scope_prefix];
        data.extend(octets.iter().take(given));
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_reads_back() {
        for data in [
            &[0, 1, 24, 0, 192, 168, 7][..],
            &[0, 1, 0, 0],
            &[0, 1, 32, 24, 10, 0, 0, 1],
            &[0, 2, 33, 0, 0x20, 1, 0x0d, 0xb8, 0x80],
        ] {
            assert_eq!(ClientSubnet::parse(data).unwrap().compose(), data);
        }
    }

    #[test]
    fn a_bad_subnet_is_refused() {
        for data in [
            &[][..],
            &[0, 1, 24],
            &[0, 3, 0, 0],
            &[0, 1, 33, 0, 1, 2, 3, 4, 5],
            &[0, 1, 24, 0, 1, 2],
            &[0, 1, 24, 0, 1, 2, 3, 4],
            &[0, 1, 23, 0, 1, 2, 3],
        ] {
            assert_eq!(ClientSubnet::parse(data), None, "{data:?}");
        }
    }

    #[test]
    fn options_end_where_they_break() {
        let edns = |options| Edns::from_record(1232, 0x0100_8000, options);
        let good = edns(&[0, 3, 0, 0, 0, 10, 0, 2, 7, 8]);
        assert_eq!(good.option(option::COOKIE), Some(&[7, 8][..]));
        assert_eq!(good.option(option::NSID), Some(&[][..]));
        assert!(good.is_well_formed() && good.dnssec_ok && good.rcode_high == 1);
        let bad = edns(&[0, 3, 0, 9, 1]);
        assert_eq!(bad.options().count(), 0);
        assert!(!bad.is_well_formed());
    }
}
