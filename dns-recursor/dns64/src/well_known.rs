//! Constants of the standards: `ipv4only.arpa` (RFC 7050, RFC 8880), and the IPv4 addresses that are not public.

use std::net::Ipv4Addr;

use dns_cache::key;
use dns_cache::message::{Message, Row};
use dns_wire::{Name, Rcode, Section, Type};

use crate::Dns64;

/// The name whose AAAA records show the prefix.
const NAME: &str = "ipv4only.arpa.";
/// Its A records (RFC 7050 §2.2).
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];
/// Their reverse names (RFC 8880 §7.2).
const REVERSE: [&str; 2] = ["170.0.0.192.in-addr.arpa.", "171.0.0.192.in-addr.arpa."];
/// The TTL of all of them, in seconds: that of the zone on the internet.
const TTL: u32 = 86_400;

impl Dns64 {
    /// The answer to a question for `ipv4only.arpa`, a name below it, or the reverse names of its addresses; its name is in
    /// lower case. A server with DNS64 answers them itself and asks no other (RFC 8880 §7.1, §7.2). `None` for other names.
    #[must_use]
    pub fn well_known(&self, question: &[u8]) -> Option<Message> {
        let (name, _) = Name::from_wire(question).ok()?;
        let qtype = key::qtype(question);
        let is = |rtype| qtype == rtype || qtype == Type::ANY;
        let apex = Name::parse(NAME).ok()?;
        if name == apex {
            let mut data: Vec<(Type, Vec<u8>)> = Vec::new();
            if is(Type::A) {
                data.extend(ADDRESSES.map(|it| (Type::A, it.octets().to_vec())));
            }
            if is(Type::AAAA) {
                let prefixes = self.prefixes.iter();
                let made = prefixes.flat_map(|prefix| ADDRESSES.map(|it| prefix.embed(it)));
                data.extend(made.map(|it| (Type::AAAA, it.octets().to_vec())));
            }
            return answer(question, &name, &apex, &data);
        }
        if REVERSE
            .iter()
            .any(|it| Name::parse(it).is_ok_and(|it| it == name))
        {
            let data = [(Type::PTR, apex.as_wire().to_vec())];
            let data = data.get(..usize::from(is(Type::PTR)))?;
            return answer(question, &name, &name, data);
        }
        if name.is_within(&apex) {
            return deny(question, &apex, Rcode::NXDOMAIN);
        }
        None
    }
}

fn answer(question: &[u8], owner: &Name, zone: &Name, data: &[(Type, Vec<u8>)]) -> Option<Message> {
    if data.is_empty() {
        return deny(question, zone, Rcode::NOERROR);
    }
    let rows = data.iter().map(|(rtype, rdata)| Row {
        section: Section::Answer,
        owner,
        rtype: *rtype,
        ttl: TTL,
        rdata,
    });
    Message::compose(question, Rcode::NOERROR, &rows.collect::<Vec<_>>())
}

/// A denial with the SOA record of RFC 6303 §3.
fn deny(question: &[u8], zone: &Name, rcode: Rcode) -> Option<Message> {
    let mut soa = [zone.as_wire(), b"\x06nobody\x07invalid\0"].concat();
    for value in [1_u32, 3600, 1200, 604_800, TTL] {
        soa.extend_from_slice(&value.to_be_bytes());
    }
    let row = Row {
        section: Section::Authority,
        owner: zone,
        rtype: Type::SOA,
        ttl: TTL,
        rdata: &soa,
    };
    Message::compose(question, rcode, &[row])
}

/// Whether an IPv4 address is one of the internet's: the well-known prefix is for no others (RFC 6052 §3.1).
pub(crate) fn is_public(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && second & 0xc0 == 64;
    let is_protocol = (first, second, third) == (192, 0, 0);
    let is_benchmark = first == 198 && second & 0xfe == 18;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || first == 0
        || first >= 224
        || is_shared
        || is_protocol
        || is_benchmark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_prefix_is_for_public_addresses() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("100.63.255.255", true),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("198.17.0.1", true),
            ("198.19.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("192.168.7.1", false),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("0.1.2.3", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
