//! Random zones, answered as compiled and as RFC 1034 says.

use std::collections::BTreeSet;

use dns_wire::header::{self, Flags};
use dns_wire::{Name, Type};
use dns_zone::Record;

use super::reference::Reference;
use crate::client::Transport;
use crate::snapshot::Snapshot;
use crate::testing::{Expected, ask, decode, query, records, snapshot};

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
