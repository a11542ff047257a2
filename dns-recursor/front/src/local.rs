//! Names that no upstream gets: special-use names (RFC 6761, RFC 7686, RFC 8375, RFC 9462, RFC 9476, RFC 9665), the reverse
//! zones of private and unusable addresses (RFC 6303, RFC 7793), and the server's own identity (RFC 4892).
//!
//! A zone with a route of its own, not only the root's, is not local: its owner has taken it over.

use dns_cache::key;
use dns_cache::message::{Message, Row};
use dns_resolve::forward::Table;
use dns_resolve::suffixes::Suffixes;
use dns_wire::{Class, Name, Rcode, Section, Type};

pub use config::dns_recursor::Local as LocalOptions;

/// TTL of local answers and of their denials (RFC 6303 §3).
const TTL: u32 = 10_800;

/// The answers of a local zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The name and all names below it are this host.
    Localhost,
    /// The reverse name of the loopback address.
    LocalhostReverse,
    /// The zone is empty.
    Empty,
    /// No name of it has records: this server designates no other resolver (RFC 9462 §6.4).
    Resolver,
}

/// The local zones.
#[derive(Debug, Default)]
pub struct Local {
    zones: Suffixes<(Name, Kind)>,
    texts: Vec<(Name, Option<String>)>,
}

impl Local {
    /// The local zones by these options.
    #[must_use]
    pub fn new(options: &LocalOptions) -> Self {
        let mut local = Self::default();
        if options.special_names {
            local.add("localhost.", Kind::Localhost);
            local.add("1.0.0.127.in-addr.arpa.", Kind::LocalhostReverse);
            local.add(&reverse_of_one(), Kind::LocalhostReverse);
            local.add("resolver.arpa.", Kind::Resolver);
            for zone in ["invalid.", "onion.", "alt.", "home.arpa.", "service.arpa."] {
                local.add(zone, Kind::Empty);
            }
        }
        if options.private_reverse {
            for zone in private_reverse() {
                local.add(&zone, Kind::Empty);
            }
        }
        for (name, text) in [
            ("version.bind.", &options.version),
            ("version.server.", &options.version),
            ("id.server.", &options.id),
            ("hostname.bind.", &options.id),
        ] {
            if let Ok(name) = Name::parse(name) {
                local.texts.push((name, text.clone()));
            }
        }
        local
    }

    fn add(&mut self, zone: &str, kind: Kind) {
        if let Ok(name) = Name::parse(zone) {
            self.zones.insert(&name.clone(), (name, kind));
        }
    }

    /// The apexes of the local zones.
    pub fn zones(&self) -> impl Iterator<Item = &Name> {
        self.zones.values().map(|(zone, _)| zone)
    }

    /// Whether this server itself answers for a name, in wire form and lower case.
    #[must_use]
    pub fn covers(&self, name: &[u8], table: &Table) -> bool {
        self.zones.longest(name).is_some() && !table.is_taken_over(name)
    }

    /// The local zone that has a name, in wire form and lower case.
    #[must_use]
    pub fn zone_of(&self, name: &[u8]) -> Option<&Name> {
        self.zones.longest(name).map(|(zone, _)| zone)
    }

    /// The answer to a question of class IN that [`Local::covers`]; in lower case.
    #[must_use]
    pub fn answer(&self, question: &[u8]) -> Option<Message> {
        let (qname, _) = Name::from_wire(question).ok()?;
        let (zone, kind) = self.zones.longest(qname.as_wire())?;
        let apex = qname == *zone;
        let qtype = key::qtype(question);
        let host = Name::parse("localhost.").ok()?;
        let answer = |rtype, rdata| Row {
            section: Section::Answer,
            owner: &qname,
            rtype,
            ttl: TTL,
            rdata,
        };
        let soa = soa(zone);
        let denial = Row {
            section: Section::Authority,
            owner: zone,
            rtype: Type::SOA,
            ttl: TTL,
            rdata: &soa,
        };
        let is = |rtype| qtype == rtype || qtype == Type::ANY;
        let (rcode, row) = match kind {
            // RFC 6761 §6.3: addresses, and no other records.
            Kind::Localhost if is(Type::A) => (Rcode::NOERROR, answer(Type::A, &[127, 0, 0, 1])),
            Kind::Localhost if qtype == Type::AAAA => {
                (Rcode::NOERROR, answer(Type::AAAA, &LOOPBACK_V6))
            }
            Kind::LocalhostReverse if apex && is(Type::PTR) => {
                (Rcode::NOERROR, answer(Type::PTR, host.as_wire()))
            }
            _ if apex && qtype == Type::SOA => (Rcode::NOERROR, answer(Type::SOA, &soa)),
            // RFC 6303 §3: the zone is its own name server.
            _ if apex && qtype == Type::NS => (Rcode::NOERROR, answer(Type::NS, zone.as_wire())),
            Kind::Localhost | Kind::Resolver => (Rcode::NOERROR, denial),
            _ if apex => (Rcode::NOERROR, denial),
            Kind::LocalhostReverse | Kind::Empty => (Rcode::NXDOMAIN, denial),
        };
        Message::compose(question, rcode, &[row])
    }

    /// The answer to a question of class CH; in lower case. `None` is refused.
    #[must_use]
    pub fn chaos(&self, question: &[u8]) -> Option<Message> {
        let (qname, _) = Name::from_wire(question).ok()?;
        let (_, text) = self.texts.iter().find(|(name, _)| *name == qname)?;
        let text = text.as_ref()?;
        if !matches!(key::qtype(question), Type::TXT | Type::ANY)
            || key::qclass(question) != Class::CH
        {
            return Message::empty(question, Rcode::NOERROR);
        }
        let text = text.as_bytes();
        let text = text.get(..text.len().min(255))?;
        let rdata = [&[u8::try_from(text.len()).ok()?], text].concat();
        let row = Row {
            section: Section::Answer,
            owner: &qname,
            rtype: Type::TXT,
            ttl: 0,
            rdata: &rdata,
        };
        Message::compose(question, Rcode::NOERROR, &[row])
    }
}

const LOOPBACK_V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// RFC 6303 §3: `@ SOA @ nobody.invalid. 1 3600 1200 604800 10800`.
fn soa(zone: &Name) -> Vec<u8> {
    let mut rdata = [zone.as_wire(), b"\x06nobody\x07invalid\0"].concat();
    for value in [1_u32, 3600, 1200, 604_800, TTL] {
        rdata.extend_from_slice(&value.to_be_bytes());
    }
    rdata
}

/// `::1` under ip6.arpa.
fn reverse_of_one() -> String {
    format!("1.{}ip6.arpa.", "0.".repeat(31))
}

/// RFC 6303 §4 and RFC 7793.
fn private_reverse() -> Vec<String> {
    let mut zones: Vec<String> = (16..32).map(|n| format!("{n}.172.in-addr.arpa.")).collect();
    zones.extend((64..128).map(|n| format!("{n}.100.in-addr.arpa.")));
    zones.push(format!("{}ip6.arpa.", "0.".repeat(32)));
    let others = [
        "10.in-addr.arpa.",
        "168.192.in-addr.arpa.",
        "0.in-addr.arpa.",
        "127.in-addr.arpa.",
        "254.169.in-addr.arpa.",
        "2.0.192.in-addr.arpa.",
        "100.51.198.in-addr.arpa.",
        "113.0.203.in-addr.arpa.",
        "255.255.255.255.in-addr.arpa.",
        "d.f.ip6.arpa.",
        "8.e.f.ip6.arpa.",
        "9.e.f.ip6.arpa.",
        "a.e.f.ip6.arpa.",
        "b.e.f.ip6.arpa.",
        "8.b.d.0.1.0.0.2.ip6.arpa.",
    ];
    zones.extend(others.map(str::to_owned));
    zones
}

#[cfg(test)]
mod tests {
    use dns_cache::testing::question;
    use dns_resolve::forward::{Mode, Route};
    use dns_wire::Records;

    use super::*;

    fn local() -> Local {
        Local::new(&LocalOptions::default())
    }

    fn table(zones: &[&str]) -> Table {
        let upstream = "192.0.2.1:53".parse().unwrap();
        Table::new(
            zones.iter().map(|zone| {
                Route::new(Name::parse(zone).unwrap(), Mode::Recursive, vec![upstream])
            }),
        )
    }

    /// The response code and the first record's type and RDATA.
    fn answer(name: &str, qtype: Type) -> (Rcode, Type, Vec<u8>) {
        let message = local().answer(&question(name, qtype)).unwrap();
        let bytes = message.bytes();
        let record = Records::new(bytes).unwrap().next().unwrap().unwrap();
        (message.rcode(), record.rtype, bytes[record.rdata].to_vec())
    }

    #[test]
    fn localhost_is_this_host_at_every_depth() {
        for name in ["localhost", "x.localhost", "a.b.localhost"] {
            assert_eq!(
                answer(name, Type::A),
                (Rcode::NOERROR, Type::A, vec![127, 0, 0, 1])
            );
            assert_eq!(
                answer(name, Type::AAAA),
                (Rcode::NOERROR, Type::AAAA, LOOPBACK_V6.into())
            );
            let (rcode, rtype, _) = answer(name, Type::MX);
            assert_eq!((rcode, rtype), (Rcode::NOERROR, Type::SOA));
        }
        let (rcode, rtype, _) = answer("1.0.0.127.in-addr.arpa", Type::PTR);
        assert_eq!((rcode, rtype), (Rcode::NOERROR, Type::PTR));
        let (rcode, rtype, _) = answer(&reverse_of_one(), Type::PTR);
        assert_eq!((rcode, rtype), (Rcode::NOERROR, Type::PTR));
    }

    #[test]
    fn private_reverse_names_and_special_names_do_not_exist() {
        for name in [
            "13.7.168.192.in-addr.arpa",
            "1.0.0.10.in-addr.arpa",
            "5.4.31.172.in-addr.arpa",
            "2.0.0.127.in-addr.arpa",
            "1.127.100.in-addr.arpa",
            "1.0.d.f.ip6.arpa",
            "x.invalid",
            "x.onion",
            "x.home.arpa",
        ] {
            let (rcode, rtype, _) = answer(name, Type::PTR);
            assert_eq!((rcode, rtype), (Rcode::NXDOMAIN, Type::SOA), "{name}");
        }
        for (name, qtype) in [
            ("10.in-addr.arpa", Type::NS),
            ("10.in-addr.arpa", Type::SOA),
        ] {
            assert_eq!(answer(name, qtype).0, Rcode::NOERROR);
            assert_eq!(answer(name, qtype).1, qtype);
        }
        assert_eq!(answer("10.in-addr.arpa", Type::PTR).0, Rcode::NOERROR);
    }

    #[test]
    fn other_names_are_not_local() {
        let table = Table::default();
        for name in [
            "example",
            "localhost.example",
            "1.32.172.in-addr.arpa",
            "1.15.172.in-addr.arpa",
            "8.8.8.8.in-addr.arpa",
            "in-addr.arpa",
            "arpa",
            "test",
            ".",
        ] {
            let name = Name::parse(name).unwrap();
            assert!(!local().covers(name.as_wire(), &table), "{name}");
        }
    }

    #[test]
    fn a_zone_with_a_route_of_its_own_is_not_local() {
        let name = Name::parse("13.7.168.192.in-addr.arpa").unwrap();
        for (zones, local_to_us) in [
            (&[][..], true),
            (&["."], true),
            (&[".", "7.168.192.in-addr.arpa"], false),
            (&["in-addr.arpa"], false),
            (&["8.168.192.in-addr.arpa"], true),
        ] {
            assert_eq!(
                local().covers(name.as_wire(), &table(zones)),
                local_to_us,
                "{zones:?}"
            );
        }
    }

    #[test]
    fn options_turn_each_part_off() {
        let none = Local::new(&LocalOptions {
            special_names: false,
            private_reverse: false,
            ..LocalOptions::default()
        });
        for name in ["localhost", "1.0.0.10.in-addr.arpa"] {
            let name = Name::parse(name).unwrap();
            assert!(!none.covers(name.as_wire(), &Table::default()));
        }
    }

    #[test]
    fn the_server_says_of_itself_only_what_it_is_told_to() {
        let told = Local::new(&LocalOptions {
            version: Some("one".to_owned()),
            ..LocalOptions::default()
        });
        let ask = |name: &str, qtype| {
            let mut question = question(name, qtype);
            let at = question.len() - 1;
            question[at] = 3;
            told.chaos(&question)
        };
        let message = ask("version.bind", Type::TXT).unwrap();
        assert!(message.bytes().ends_with(b"\x03one"));
        assert!(ask("version.server", Type::ANY).is_some());
        assert_eq!(
            ask("version.bind", Type::A).unwrap().ttl_offsets().count(),
            0
        );
        assert_eq!(ask("id.server", Type::TXT), None);
        assert_eq!(ask("authors.bind", Type::TXT), None);
    }
}
