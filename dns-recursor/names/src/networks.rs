//! Rules for addresses: the longest prefix decides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The bits of an IPv4 address that is written as one of IPv6.
const MAPPED: u8 = 96;

/// Rules for networks.
#[derive(Clone, Debug)]
pub struct Networks<R> {
    /// By prefix length, the longest first; networks by their first address. IPv4 addresses are written as those of IPv6.
    by_length: BTreeMap<Reverse<u8>, HashMap<u128, R>>,
}

impl<R> Default for Networks<R> {
    fn default() -> Self {
        Self {
            by_length: BTreeMap::new(),
        }
    }
}

impl<R> Networks<R> {
    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_length.is_empty()
    }

    /// Adds the rule of a network; false when it has one.
    pub(crate) fn add(&mut self, network: IpNet, rule: R) -> bool {
        let (length, first) = place(network);
        let rules = self.by_length.entry(Reverse(length)).or_default();
        rules.insert(first, rule).is_none()
    }

    /// The rule of a network, for adding records to it.
    pub(crate) fn rule_mut(&mut self, network: IpNet) -> Option<&mut R> {
        let (length, first) = place(network);
        self.by_length.get_mut(&Reverse(length))?.get_mut(&first)
    }

    /// The rule for an address, with the length of its network's prefix.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<(u8, &R)> {
        let bits = bits(address);
        let found = self.by_length.iter().map(|(Reverse(length), rules)| {
            let rule = rules.get(&(bits & mask(*length)))?;
            Some((*length, rule))
        });
        found.flatten().next()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

const fn mask(length: u8) -> u128 {
    match length {
        0 => 0,
        length => u128::MAX << (128 - length),
    }
}

fn place(network: IpNet) -> (u8, u128) {
    let length = match network {
        IpNet::V4(network) => network.prefix_len() + MAPPED,
        IpNet::V6(network) => network.prefix_len(),
    };
    (length, bits(network.network()))
}

/// The network that the labels of a trigger write: the length of its prefix, and the parts of its first address from the last to the
/// first, with `zz` for `::` (draft-vixie-dnsop-dns-rpz §4.1.1). None of anything else, also when bits behind the prefix are set.
#[must_use]
pub(crate) fn network(labels: &[&[u8]]) -> Option<IpNet> {
    let (length, parts) = labels.split_first()?;
    let length = decimal(length)?;
    let parts: Vec<&[u8]> = parts.iter().rev().copied().collect();
    let is_v4 = parts.len() == 4 && parts.iter().all(|part| decimal(part).is_some());
    let network = match is_v4 {
        true => {
            let octets: Option<Vec<u8>> = parts.iter().map(|part| decimal(part)).collect();
            let octets: [u8; 4] = octets?.try_into().ok()?;
            IpNet::V4(Ipv4Net::new(Ipv4Addr::from(octets), length).ok()?)
        }
        false => IpNet::V6(Ipv6Net::new(words(&parts)?, length).ok()?),
    };
    (network.trunc() == network).then_some(network)
}

/// A number below 256 in digits, without zeros before it.
fn decimal(text: &[u8]) -> Option<u8> {
    let is_plain =
        text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || !text.starts_with(b"0"));
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|_| is_plain)
}

/// An IPv6 address of these words, one of which may be `zz`.
fn words(parts: &[&[u8]]) -> Option<Ipv6Addr> {
    let zeros = parts.iter().filter(|part| part.eq_ignore_ascii_case(b"zz"));
    let written = match zeros.count() {
        0 => parts.len(),
        1 => parts.len() - 1,
        _ => return None,
    };
    let is_whole = written == 8 && parts.len() == 8;
    if !is_whole && (written >= 8 || parts.len() == written) {
        return None;
    }
    let mut words = Vec::with_capacity(8);
    for part in parts {
        if part.eq_ignore_ascii_case(b"zz") {
            words.extend(std::iter::repeat_n(0, 8 - written));
            continue;
        }
        let text = std::str::from_utf8(part).ok()?;
        let is_word =
            (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
        words.push(u16::from_str_radix(text, 16).ok().filter(|_| is_word)?);
    }
    let words: [u16; 8] = words.try_into().ok()?;
    Some(Ipv6Addr::from(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;

    #[test]
    fn triggers_are_read_as_the_draft_writes_them() {
        for (text, expected) in [
            ("32.1.2.0.192", Some("192.0.2.1/32")),
            ("24.0.2.0.192", Some("192.0.2.0/24")),
            ("0.0.0.0.0", Some("0.0.0.0/0")),
            ("128.57.zz.1.0.db8.2001", Some("2001:db8:0:1::57/128")),
            ("128.1.zz", Some("::1/128")),
            ("48.zz.1.db8.2001", Some("2001:db8:1::/48")),
            ("128.8.7.6.5.4.3.2.1", Some("1:2:3:4:5:6:7:8/128")),
            // Bits behind the prefix, and forms that are wrong.
            ("24.1.2.0.192", None),
            ("33.1.2.0.192", None),
            ("129.zz", None),
            ("32.1.2.0", None),
            ("32.256.2.0.192", None),
            ("032.1.2.0.192", None),
            ("128.zz.1.zz", None),
            ("128.zz.8.7.6.5.4.3.2.1", None),
            ("128.7.6.5.4.3.2.1", None),
            ("128.12345.zz", None),
            ("x.1.2.0.192", None),
            ("32", None),
        ] {
            let labels: Vec<&[u8]> = text.split('.').map(str::as_bytes).collect();
            let expected: Option<IpNet> = expected.map(|text| text.parse().unwrap());
            assert_eq!(network(&labels), expected, "{text}");
        }
        assert_eq!(network(&[]), None);
    }

    #[test]
    fn the_longest_prefix_decides() {
        let mut networks = Networks::default();
        assert!(networks.is_empty());
        for (network, rule) in [
            ("192.0.2.0/24", Rule::NoData),
            ("192.0.2.128/25", Rule::PassThru),
            ("0.0.0.0/0", Rule::Drop),
            ("2001:db8::/32", Rule::NxDomain),
        ] {
            assert!(networks.add(network.parse().unwrap(), rule));
        }
        for (address, expected) in [
            ("192.0.2.1", Some((120, Rule::NoData))),
            ("192.0.2.129", Some((121, Rule::PassThru))),
            ("198.51.100.1", Some((96, Rule::Drop))),
            ("2001:db8::1", Some((32, Rule::NxDomain))),
            ("2001:db9::1", None),
        ] {
            let found = networks.find(address.parse().unwrap());
            let found = found.map(|(length, rule)| (length, rule.clone()));
            assert_eq!(found, expected, "{address}");
        }
        let network = "192.0.2.0/24".parse().unwrap();
        *networks.rule_mut(network).unwrap() = Rule::TcpOnly;
        assert!(!networks.add(network, Rule::Drop), "it has one");
    }
}
