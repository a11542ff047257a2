//! The root's servers: the public ones that are built in, a file of others, and those that one of them names (RFC 9609).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns_wire::{Class, Name, Records, Section, Type};

/// The most servers that count: the root has 13, each with two addresses.
const MAX_ADDRESSES: usize = 26;

/// The servers of the public root, a to m.
const PUBLIC: [(Ipv4Addr, Ipv6Addr); 13] = [
    (
        Ipv4Addr::new(198, 41, 0, 4),
        Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30),
    ),
    (
        Ipv4Addr::new(170, 247, 170, 2),
        Ipv6Addr::new(0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb),
    ),
    (
        Ipv4Addr::new(192, 33, 4, 12),
        Ipv6Addr::new(0x2001, 0x500, 2, 0, 0, 0, 0, 0xc),
    ),
    (
        Ipv4Addr::new(199, 7, 91, 13),
        Ipv6Addr::new(0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd),
    ),
    (
        Ipv4Addr::new(192, 203, 230, 10),
        Ipv6Addr::new(0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe),
    ),
    (
        Ipv4Addr::new(192, 5, 5, 241),
        Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf),
    ),
    (
        Ipv4Addr::new(192, 112, 36, 4),
        Ipv6Addr::new(0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d),
    ),
    (
        Ipv4Addr::new(198, 97, 190, 53),
        Ipv6Addr::new(0x2001, 0x500, 1, 0, 0, 0, 0, 0x53),
    ),
    (
        Ipv4Addr::new(192, 36, 148, 17),
        Ipv6Addr::new(0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53),
    ),
    (
        Ipv4Addr::new(192, 58, 128, 30),
        Ipv6Addr::new(0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30),
    ),
    (
        Ipv4Addr::new(193, 0, 14, 129),
        Ipv6Addr::new(0x2001, 0x7fd, 0, 0, 0, 0, 0, 1),
    ),
    (
        Ipv4Addr::new(199, 7, 83, 42),
        Ipv6Addr::new(0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42),
    ),
    (
        Ipv4Addr::new(202, 12, 27, 33),
        Ipv6Addr::new(0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35),
    ),
];

/// The addresses of the public root's servers.
#[must_use]
pub fn public() -> Vec<IpAddr> {
    let v4 = PUBLIC.iter().map(|(v4, _)| IpAddr::from(*v4));
    let v6 = PUBLIC.iter().map(|(_, v6)| IpAddr::from(*v6));
    v4.chain(v6).collect()
}

/// A line of a file of hints that is wrong, counted from 1; without a line, the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintsError {
    pub line: Option<usize>,
    pub reason: String,
}

impl fmt::Display for HintsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for HintsError {}

/// The addresses of the root's servers in a file such as `named.root`: NS records of the root, and addresses of the names
/// in them. One record a line; comments begin with `;`.
///
/// # Errors
/// The first line that is no such record; a file without addresses of the root's servers.
pub fn parse(text: &str) -> Result<Vec<IpAddr>, HintsError> {
    let (mut servers, mut located) = (BTreeSet::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let wrong = |reason: String| HintsError {
            line: Some(index + 1),
            reason,
        };
        let record = line.split(';').next().unwrap_or_default();
        let words: Vec<&str> = record.split_whitespace().collect();
        let Some((owner, rest)) = words.split_first() else {
            continue;
        };
        let is_number = |word: &str| word.bytes().all(|octet| octet.is_ascii_digit());
        let rest: Vec<&str> = rest
            .iter()
            .copied()
            .filter(|word| !is_number(word) && !word.eq_ignore_ascii_case("IN"))
            .collect();
        let [rtype, data] = rest[..] else {
            return Err(wrong(format!(
                "`{}` is no NS, A or AAAA record",
                record.trim()
            )));
        };
        let name = |text: &str| {
            Name::parse(text).map_err(|_| wrong(format!("`{text}` is not a domain name")))
        };
        let owner = name(owner)?;
        let address: Result<IpAddr, _> = data.parse();
        match (rtype.to_ascii_uppercase().as_str(), address) {
            ("NS", _) if owner.is_root() => {
                servers.insert(name(data)?);
            }
            ("NS", _) => return Err(wrong(format!("`{owner}` is not the root"))),
            ("A", Ok(address @ IpAddr::V4(_))) | ("AAAA", Ok(address @ IpAddr::V6(_))) => {
                located.push((owner, address));
            }
            ("A" | "AAAA", _) => return Err(wrong(format!("`{data}` is not its address"))),
            (other, _) => return Err(wrong(format!("a record of type {other} is no hint"))),
        }
    }
    let found = addresses_of(&servers, located);
    match found.is_empty() {
        true => Err(HintsError {
            line: None,
            reason: "no address of a server of the root is in it".to_owned(),
        }),
        false => Ok(found),
    }
}

/// The addresses that belong to these servers.
fn addresses_of(servers: &BTreeSet<Name>, located: Vec<(Name, IpAddr)>) -> Vec<IpAddr> {
    let located = located.into_iter();
    let of_servers = located.filter(|(owner, _)| servers.contains(owner));
    let addresses = of_servers.map(|(_, address)| address);
    addresses.take(MAX_ADDRESSES).collect()
}

/// The addresses of the root's servers in a response to the question for the NS records of the root, and the time for
/// which they count; no address when it names the servers alone, and `None` when it does not. Nothing but the root's servers
/// may say this.
#[must_use]
pub fn of_response(message: &[u8]) -> Option<(Vec<IpAddr>, u32)> {
    let (mut servers, mut located) = (BTreeSet::new(), Vec::new());
    let mut ttl = u32::MAX;
    for record in Records::new(message).ok()?.map_while(Result::ok) {
        let (owner, _) = Name::read(message, record.name_offset).ok()?;
        let data = message.get(record.rdata.clone())?;
        if record.class != Class::IN {
            continue;
        }
        match (record.section, record.rtype) {
            (Section::Answer, Type::NS) if owner.is_root() => {
                servers.insert(Name::read(message, record.rdata.start).ok()?.0);
                ttl = ttl.min(record.ttl);
            }
            (Section::Additional, Type::A) => {
                let octets: Option<[u8; 4]> = data.try_into().ok();
                located.extend(octets.map(|octets| (owner, IpAddr::from(octets))));
            }
            (Section::Additional, Type::AAAA) => {
                let octets: Option<[u8; 16]> = data.try_into().ok();
                located.extend(octets.map(|octets| (owner, IpAddr::from(octets))));
            }
            _ => {}
        }
    }
    let found = addresses_of(&servers, located);
    (!servers.is_empty()).then_some((found, ttl))
}

#[cfg(test)]
mod tests {
    use dns_cache::testing;
    use dns_wire::{Flags, Rcode};

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_public_root_has_thirteen_servers_with_two_addresses_each() {
        let all: BTreeSet<IpAddr> = public().into_iter().collect();
        assert_eq!(all.len(), 26);
        for known in [
            "198.41.0.4",
            "2801:1b8:10::b",
            "202.12.27.33",
            "2001:500:12::d0d",
        ] {
            assert!(all.contains(&known.parse().unwrap()), "{known}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_is_published() {
        let text = "; This file holds the information on root name servers\n\
            .                        3600000      NS    A.ROOT.TEST.\n\
            A.ROOT.TEST.             3600000      A     192.0.2.1\n\
            A.ROOT.TEST.             3600000      AAAA  2001:db8::1 ; formerly another\n\n\
            .  IN NS b.root.test\nb.root.test IN A 192.0.2.2\nc.root.test A 192.0.2.3\n";
        let expected = addresses(&["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_file_that_is_wrong_is_told_with_its_line() {
        for (text, expected) in [
            ("", "no address of a server of the root is in it"),
            (
                ". NS a.test\n",
                "no address of a server of the root is in it",
            ),
            (
                "\n. NS a.test x\n",
                "line 2: `. NS a.test x` is no NS, A or AAAA record",
            ),
            ("test NS a.test\n", "line 1: `test.` is not the root"),
            (
                "a.test A 2001:db8::1\n",
                "line 1: `2001:db8::1` is not its address",
            ),
            (". SOA x\n", "line 1: a record of type SOA is no hint"),
            (". NS a..b\n", "line 1: `a..b` is not a domain name"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn only_the_addresses_of_the_roots_servers_are_taken_from_a_response() {
        let query = testing::query(1, &testing::question(".", Type::NS), None);
        let ns = (Section::Answer, ".", Type::NS, 500, "a.root.test");
        let rows = [
            ns,
            (Section::Additional, "a.root.test", Type::A, 60, "192.0.2.1"),
            (
                Section::Additional,
                "b.evil.test",
                Type::A,
                60,
                "192.0.2.66",
            ),
        ];
        let message = testing::response(&query, Flags::AA, Rcode::NOERROR, &rows);
        assert_eq!(
            of_response(&message),
            Some((addresses(&["192.0.2.1"]), 500))
        );
        let message = testing::response(&query, Flags::AA, Rcode::NOERROR, &[ns]);
        assert_eq!(of_response(&message), Some((Vec::new(), 500)));
        let message = testing::response(&query, Flags::AA, Rcode::NOERROR, &rows[1..]);
        assert_eq!(of_response(&message), None);
        assert_eq!(of_response(&message[..9]), None);
    }
}
