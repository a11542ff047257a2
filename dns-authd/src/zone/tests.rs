//! Random zones, answered as compiled and as RFC 1034 says.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config_text::Position;
use dns_wire::hash::Seed;
use dns_wire::header::{self, Flags};
use dns_wire::records::uncompressed_rdata;
use dns_wire::{Class, Name, Records, Section, Type, rdata};

use super::Zone;
use super::record::{Record, RecordData};
use super::reference::{Expected, Line, Reference, canonical};
use crate::answer::{Client, NoPrograms, Responder, Settings, Snapshot, Transport, Verdict};
use crate::table::{Served, Table};

/// Records written `OWNER TTL TYPE DATA`, one on a line, all names absolute.
pub(crate) fn records(text: &str) -> Vec<Record> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(number, line)| record(number + 1, line))
        .collect()
}

fn record(line: usize, text: &str) -> Record {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("{text}"));
    let (owner, ttl, rtype, data) = (word(), word(), word(), word());
    let data = match rtype {
        "LUA" => {
            let (rtype, code) = data.split_once(' ').unwrap();
            RecordData::Lua {
                rtype: rtype.parse().unwrap(),
                code: code.to_owned(),
                parts: Arc::from([Box::from(code)]),
            }
        }
        _ => {
            let rtype: Type = rtype.parse().unwrap();
            RecordData::Wire {
                rtype,
                rdata: rdata::from_text(rtype, data, &Name::root())
                    .unwrap_or_else(|error| panic!("{text}: {error}"))
                    .into(),
            }
        }
    };
    Record {
        owner: owner.parse().unwrap(),
        ttl: ttl.parse().unwrap(),
        class: Class::IN,
        data,
        position: Position {
            file: std::path::Path::new("test.zone").into(),
            line,
            column: 1,
        },
    }
}

/// A server of one zone.
pub(crate) fn snapshot(apex: &str, records: &[Record]) -> Snapshot {
    let apex: Name = apex.parse().unwrap();
    let seed = Seed(0x5eed);
    let zone = Zone::build(&apex, records, seed).unwrap();
    let served = Served {
        apex,
        zone: Some(Arc::new(zone)),
        live: Arc::default(),
    };
    Snapshot {
        table: Table::new(seed, vec![Arc::new(served)]),
        settings: Settings::default(),
    }
}

pub(crate) fn client(transport: Transport) -> Client {
    Client {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 5353)),
        local: None,
        local_port: 53,
        transport,
        can_wait: true,
        may_ask: true,
    }
}

pub(crate) fn query(name: &Name, qtype: Type) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.as_wire());
    message.extend(qtype.0.to_be_bytes());
    message.extend(Class::IN.0.to_be_bytes());
    message
}

pub(crate) fn ask(snapshot: &Snapshot, message: &[u8], transport: Transport) -> Vec<u8> {
    let mut responder = Responder::new(NoPrograms, 1);
    let mut out = vec![0xee; 65_535];
    match responder.respond(snapshot, message, &client(transport), &mut out) {
        Verdict::Reply(length) => out[..length].to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Reads a response back, with this server's decoder and with Hickory's.
pub(crate) fn decode(message: &[u8]) -> Expected {
    let hickory = hickory_server::proto::op::Message::from_vec(message);
    assert!(hickory.is_ok(), "{hickory:?}: {message:02x?}");
    let flags = Flags::read(message).unwrap();
    let mut response = Expected {
        rcode: flags.rcode().0,
        authoritative: flags.has(Flags::AA),
        ..Expected::default()
    };
    let mut reader = Records::new(message).unwrap();
    for record in reader.by_ref() {
        let record = record.unwrap();
        let owner = Name::read(message, record.name_offset).unwrap().0;
        let data = uncompressed_rdata(message, &record).unwrap();
        let data = canonical(record.rtype, &data);
        let line: Line = (owner.to_lowercase(), record.rtype, record.ttl, data);
        let section = match record.section {
            Section::Answer => &mut response.answer,
            Section::Authority => &mut response.authority,
            Section::Additional => &mut response.additional,
        };
        let text = format!("{line:?}");
        assert!(section.insert(line), "repeated: {text}");
    }
    assert_eq!(reader.offset(), message.len(), "trailing octets");
    response
}

//--- Random zones

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.roll(words.len())]
    }

    fn name(&mut self, apex: &str, deepest: usize) -> String {
        let mut name = match self.roll(20) {
            0 => "other.test.".to_owned(),
            _ => apex.to_owned(),
        };
        for _ in 0..self.roll(deepest + 1) {
            let label = self.pick(&["a", "b", "c", "A", "*", "xy"]);
            name = match name.as_str() {
                "." => format!("{label}."),
                _ => format!("{label}.{name}"),
            };
        }
        name
    }

    fn record(&mut self, apex: &str) -> String {
        let owner = self.name(apex, 4);
        let target = self.name(apex, 4);
        let ttl = self.pick(&["60", "300"]);
        let data = match self.roll(12) {
            0 | 1 => format!("A 192.0.2.{}", self.roll(4)),
            2 => format!("AAAA 2001:db8::{}", self.roll(4)),
            3 | 4 => format!("NS {target}"),
            5 | 6 => format!("CNAME {target}"),
            7 => format!("DNAME {target}"),
            // Octets of these numbers are letters of either case.
            8 => format!("MX {} {target}", self.pick(&["10", "70", "102"])),
            9 => {
                let numbers = ["2 3", "65 3", "97 3", "2 8001", "2 8033"];
                let (one, other) = (self.pick(&numbers), self.pick(&numbers));
                format!("SRV 1 {one} {target}\n{owner} {ttl} SRV 1 {other} {target}")
            }
            10 => "DS 1 8 2 00".to_owned(),
            _ => "TXT \"x\"".to_owned(),
        };
        format!("{owner} {ttl} {data}")
    }
}

fn random_zone(dice: &mut Dice, apex: &str) -> Vec<Record> {
    let below = |label: &str| match apex {
        "." => format!("{label}."),
        _ => format!("{label}.{apex}"),
    };
    let mut text = format!(
        "{apex} 3600 SOA {} {} 1 2 3 4 {}\n{apex} 300 NS {}\n{apex} 300 NS {}\n",
        below("ns"),
        below("hostmaster"),
        dice.pick(&["60", "7200"]),
        below("a"),
        below("b.c"),
    );
    let mut seen = BTreeSet::new();
    for _ in 0..dice.roll(24) {
        let line = dice.record(apex);
        let lower = line.to_lowercase().replace(" 300 ", " 60 ");
        if seen.insert(lower) && line.split(' ').next() != Some("other.test.") {
            text.push_str(&line);
            text.push('\n');
        }
    }
    records(&text)
}

const TYPES: [Type; 10] = [
    Type::A,
    Type::AAAA,
    Type::NS,
    Type::CNAME,
    Type::DNAME,
    Type::MX,
    Type::SRV,
    Type::DS,
    Type::TXT,
    Type::SOA,
];

/// `SIM_SEEDS=3000 cargo test` sweeps more zones, `SIM_SEED=17 cargo test` repeats one.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(300),
    }
}

#[test]
fn compiled_zones_answer_as_the_rfc_says() {
    for seed in seeds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let apex = dice.pick(&["example.", "example.", "b.a.example.", "."]);
        let records = random_zone(&mut dice, apex);
        let own: Vec<Record> = records
            .into_iter()
            .filter(|record| record.owner.is_within(&apex.parse().unwrap()))
            .collect();
        let reference = Reference::new(&apex.parse().unwrap(), &own);
        let snapshot = snapshot(apex, &own);
        for step in 0..60 {
            let qname: Name = dice.name(apex, 6).parse().unwrap();
            if !qname.is_within(&apex.parse().unwrap()) {
                continue;
            }
            let qtype = TYPES[dice.roll(TYPES.len())];
            let message = query(&qname, qtype);
            let whole = ask(&snapshot, &message, Transport::Tcp);
            let expected = reference.answer(&qname, qtype);
            let zone: Vec<String> = own.iter().map(|record| format!("{record:?}")).collect();
            assert_eq!(
                decode(&whole),
                expected,
                "seed {seed} step {step}: {qname} {qtype}\n{}",
                zone.join("\n")
            );
            check_cut(&snapshot, &message, &expected);
        }
    }
}

#[test]
fn records_that_differ_in_a_number_are_all_served() {
    let own = records(
        "example. 60 SOA ns.example. h.example. 1 2 3 4 5\n\
         s.example. 60 SRV 0 0 8001 h.example.\n\
         s.example. 60 SRV 0 0 8033 h.example.\n\
         s.example. 60 SRV 0 0 8033 H.example.\n\
         m.example. 60 MX 70 h.example.\n\
         m.example. 60 MX 102 h.example.\n\
         n.example. 60 NAPTR 1 1 \"s\" \"\" \"!^A$!a!\" .\n\
         n.example. 60 NAPTR 1 1 \"s\" \"\" \"!^a$!A!\" .\n",
    );
    let snapshot = snapshot("example.", &own);
    for (name, rtype) in [("s", Type::SRV), ("m", Type::MX), ("n", Type::NAPTR)] {
        let name = format!("{name}.example.").parse().unwrap();
        let reply = ask(&snapshot, &query(&name, rtype), Transport::Tcp);
        assert_eq!(decode(&reply).answer.len(), 2, "{rtype}");
    }
}

/// A datagram holds what is needed, or says that it does not.
fn check_cut(snapshot: &Snapshot, message: &[u8], whole: &Expected) {
    let cut = ask(snapshot, message, Transport::Udp);
    assert!(cut.len() <= 512);
    let response = decode(&cut);
    assert_eq!(
        (response.rcode, response.authoritative),
        (whole.rcode, whole.authoritative)
    );
    assert!(response.additional.is_subset(&whole.additional));
    if !Flags::read(&cut).unwrap().has(Flags::TC) {
        assert_eq!(response.answer, whole.answer);
        assert_eq!(response.authority, whole.authority);
    }
    assert_eq!(header::counts(&cut).unwrap()[0], 1);
}
