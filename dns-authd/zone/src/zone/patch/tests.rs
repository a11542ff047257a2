//! Copies of random zones answer as zones that are built of the same records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dns_wire::hash::Seed;
use dns_wire::rdata;

use super::*;
use crate::parse::{Options, parse};
use crate::resolution::Pick;
use crate::zone::{Answer, Asked};

const HEAD: &str = "$TTL 60\n";
const LABELS: [&str; 5] = ["a", "b", "C", "sub", "w"];
const TYPES: [Type; 8] = [
    Type::A,
    Type::TXT,
    Type::MX,
    Type::CNAME,
    Type::NS,
    Type::SOA,
    Type::SRV,
    Type::AAAA,
];

/// The records by name; each is written `TYPE DATA`.
type Records = BTreeMap<String, BTreeSet<String>>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let n = self.below(of.len() as u64);
        of[usize::try_from(n).unwrap()]
    }

    /// A name relative to the zone.
    fn name(&mut self) -> String {
        let n = 1 + self.below(3);
        let labels: Vec<&str> = (0..n).map(|_| self.pick(&LABELS)).collect();
        labels.join(".")
    }

    /// The records of one name.
    fn set(&mut self) -> BTreeSet<String> {
        if self.below(4) == 0 {
            return BTreeSet::from([format!("CNAME {}", self.name())]);
        }
        let n = 1 + self.below(3);
        let record = |random: &mut Self| match random.below(5) {
            0 => format!("MX 1 {}", random.name()),
            1 => format!("SRV 1 1 1 {}", random.name()),
            2 => format!("TXT t{}", random.below(4)),
            3 => format!("AAAA 2001:db8::{}", random.below(4)),
            _ => format!("A 192.0.2.{}", random.below(4)),
        };
        (0..n).map(|_| record(self)).collect()
    }

    fn zone(&mut self) -> Records {
        let mut records = Records::new();
        for _ in 0..self.below(14) {
            let name = self.name();
            records.insert(name, self.set());
        }
        if self.below(2) == 0 {
            let name = format!("*.{}", self.pick(&["b", "w", "a.b"]));
            records.insert(name, self.set());
        }
        if self.below(2) == 0 {
            let servers = ["NS ns.sub", "NS a", "NS b.w"].map(str::to_owned);
            records.insert("sub".to_owned(), BTreeSet::from(servers));
            records.insert(
                "ns.sub".to_owned(),
                BTreeSet::from(["A 192.0.2.9".to_owned()]),
            );
        }
        records
    }
}

fn text(serial: u32, apex: &BTreeSet<String>, records: &Records) -> String {
    let mut text = format!("{HEAD}@ SOA ns h {serial} 2 3 4 5\n@ NS a\n");
    let apex = apex.iter().map(|record| ("@", record));
    let named = records
        .iter()
        .flat_map(|(name, set)| set.iter().map(move |it| (name.as_str(), it)));
    for (name, record) in apex.chain(named) {
        text.push_str(&format!("{name} {record}\n"));
    }
    text
}

/// A zone whose records are in the order of a copy.
fn build(text: &str) -> Zone {
    let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
    let apex = "a.test.".parse().unwrap();
    let mut file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
    file.records.sort_by(|a, b| {
        let key = |it: &crate::Record| {
            let data = match &it.data {
                crate::RecordData::Wire { rdata, .. } => rdata.to_vec(),
                crate::RecordData::Lua { .. } => Vec::new(),
            };
            (it.owner.to_lowercase(), it.rtype(), data)
        };
        key(a).cmp(&key(b))
    });
    Zone::build(&file.apex, &file.records, Seed(7)).unwrap()
}

/// The names that are asked: all of up to three labels, and some that no zone has.
fn questions() -> Vec<Name> {
    let apex: Name = "a.test.".parse().unwrap();
    let mut names = vec![apex.clone()];
    let mut last = names.clone();
    for _ in 0..3 {
        let labels = LABELS.iter().chain(&["*", "none"]);
        let below =
            labels.flat_map(|label| last.iter().map(|it| it.prepend(label.as_bytes()).unwrap()));
        last = below.collect();
        names.extend(last.iter().cloned());
    }
    names
}

/// The answer, octets if it was rendered.
fn answer(zone: &Zone, name: &Name, qtype: Type) -> String {
    let mut read = Suffixes::default();
    read.read(zone.seed, name.as_wire());
    match zone.find(&read, qtype) {
        Answer::Rendered(number) | Answer::Onward(number) => {
            let mut out = vec![0; 4096];
            let at = 12 + name.as_wire().len() + 4;
            let rendered = zone.rendered(number).unwrap();
            let written = rendered
                .write(name.as_wire().len(), &mut out, at, 4096)
                .unwrap();
            format!(
                "{written:?} {:?} {:?}",
                &out[at..written.end],
                zone.onward(number)
            )
        }
        Answer::Live(number) => format!("live {number}"),
        Answer::Resolve => {
            let asked = Asked::new(name.as_wire(), &read, qtype);
            let resolved = zone.resolve(asked, &mut |_| Pick::PerQuery, &|_| false);
            format!(
                "{:?}",
                resolved.map(|it| (it.rcode, format!("{:?}", it.entries)))
            )
        }
    }
}

fn edit(owner: &str, set: &BTreeSet<String>) -> Edit {
    let apex: Name = "a.test.".parse().unwrap();
    let owner = match owner {
        "@" => apex.clone(),
        _ => Name::parse_relative(owner, &apex).unwrap(),
    };
    let record = |text: &String| {
        let (rtype, data) = text.split_once(' ').unwrap();
        let rtype: Type = rtype.parse().unwrap();
        ZoneRecord {
            owner: owner.clone(),
            rtype,
            ttl: 60,
            rdata: rdata::from_text(rtype, data, &apex).unwrap().into(),
        }
    };
    (owner.clone(), set.iter().map(record).collect())
}

/// The edit of the apex.
fn apex_edit(serial: u32, others: &BTreeSet<String>) -> Edit {
    let fixed = [format!("SOA ns h {serial} 2 3 4 5"), "NS a".to_owned()];
    let all = fixed.into_iter().chain(others.iter().cloned());
    edit("@", &all.collect())
}

/// Other records for some names, and the names with them.
fn change(random: &mut Random, records: &mut Records) -> Vec<(String, BTreeSet<String>)> {
    let mut edits: Vec<(String, BTreeSet<String>)> = Vec::new();
    for _ in 0..=random.below(3) {
        let nth = usize::try_from(random.below(9)).unwrap();
        let name = match records.keys().nth(nth) {
            Some(name) if random.below(3) > 0 => name.clone(),
            _ => random.name(),
        };
        if edits
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(&name))
        {
            continue;
        }
        let set = match random.below(3) {
            0 => BTreeSet::new(),
            _ => random.set(),
        };
        records.remove(&name);
        if !set.is_empty() {
            records.insert(name.clone(), set.clone());
        }
        edits.push((name, set));
    }
    edits
}

fn compare(copy: &Zone, whole: &Zone, asked: &[Name], what: &str) {
    assert_eq!(copy.n_records(), whole.n_records(), "{what}");
    assert_eq!(copy.soa(), whole.soa(), "{what}");
    assert_eq!(copy.fingerprint(), whole.fingerprint(), "{what}");
    for name in asked {
        for qtype in TYPES {
            let answers = [copy, whole].map(|zone| answer(zone, name, qtype));
            assert_eq!(answers[0], answers[1], "{name} {qtype}, {what}");
        }
        let [one, other] = [copy, whole].map(|zone| {
            let mut records = zone.records_at(name);
            records.sort_by(|a, b| (a.rtype, &a.rdata).cmp(&(b.rtype, &b.rdata)));
            records
        });
        assert_eq!(one, other, "{name}, {what}");
    }
}

#[test]
fn a_copy_answers_as_a_zone_that_is_built_of_the_same_records() {
    let asked = questions();
    let (mut n_copies, mut n_whole) = (0, 0);
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut records = random.zone();
        let mut apex = BTreeSet::new();
        let mut zone = build(&text(1, &apex, &records));
        for serial in 2..14 {
            let edits = change(&mut random, &mut records);
            if random.below(5) == 0 {
                apex = BTreeSet::from([format!("MX 1 {}", random.name())]);
            }
            let whole = build(&text(serial, &apex, &records));
            let named = edits.iter().map(|(name, set)| edit(name, set));
            let edits: Vec<Edit> = named.chain([apex_edit(serial, &apex)]).collect();
            zone = match zone.patched(&edits) {
                Some(copy) => {
                    let what = format!("seed {seed}, serial {serial}: {edits:?}");
                    compare(&copy, &whole, &asked, &what);
                    n_copies += 1;
                    copy
                }
                None => {
                    n_whole += 1;
                    whole
                }
            };
        }
    }
    assert!(
        n_copies > 100 && n_whole > 5,
        "{n_copies} copies, {n_whole} built"
    );
}

#[test]
fn a_change_that_reaches_further_than_its_names_has_the_zone_built_as_a_whole() {
    let zone = |more: &str| {
        build(&format!(
            "{HEAD}@ SOA ns h 1 2 3 4 5\n@ NS a\na A 192.0.2.1\n{more}"
        ))
    };
    let one = |owner: &str, record: &str| [edit(owner, &BTreeSet::from([record.to_owned()]))];
    let plain = zone("c A 192.0.2.3\nd A 192.0.2.4\ne A 192.0.2.5\n");
    assert!(plain.patched(&one("b", "A 192.0.2.2")).is_some());
    for (owner, record) in [
        ("*", "A 192.0.2.2"),
        ("x.*.b", "A 192.0.2.2"),
        ("b", "NS a"),
        ("b", "DNAME c"),
        ("@", "SOA ns other 2 2 3 4 5"),
        ("@", "SOA ns h 2 2 3 4 9"),
        ("@", "TXT without-a-soa-record"),
    ] {
        assert!(
            plain.patched(&one(owner, record)).is_none(),
            "{owner} {record}"
        );
    }
    for more in [
        "c DNAME d.test.\n",
        "b LUA A \"f()\"\n",
        "b NS a\n",
        "b LUA LUA \"x = 1\"\n",
    ] {
        assert!(
            zone(more).patched(&one("b", "A 192.0.2.2")).is_none(),
            "{more}"
        );
    }
    // A program at the apex does not reach as far as its serial.
    let with_program = zone("@ LUA A \"f()\"\nc A 192.0.2.3\nd A 192.0.2.4\ne A 192.0.2.5\n");
    let (apex, mut records) = (
        with_program.apex().clone(),
        with_program.records_at(with_program.apex()),
    );
    for record in &mut records {
        if record.rtype == Type::SOA {
            *record = record.with_serial(2).unwrap();
        }
    }
    let new = edit("b", &BTreeSet::from(["A 192.0.2.2".to_owned()]));
    let copy = with_program
        .patched(&[(apex.clone(), records.clone()), new])
        .unwrap();
    assert_eq!(
        (copy.soa().serial, copy.n_records()),
        (2, with_program.n_records() + 1)
    );
    records.pop();
    assert!(with_program.patched(&[(apex, records)]).is_none());
    let below_a_cut = zone("sub NS ns.sub\nns.sub A 192.0.2.3\n");
    assert!(below_a_cut.patched(&one("ns.sub", "A 192.0.2.2")).is_none());
    assert!(
        below_a_cut
            .patched(&[edit("ns.sub", &BTreeSet::new())])
            .is_none()
    );
    let signed = include_str!("../../../../../tests/data/signed/nsec.zone");
    let mut load = |_: &Path| Ok(signed.as_bytes().to_vec());
    let apex = "s.test.".parse().unwrap();
    let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
    let signed = Zone::build(&apex, &file.records, Seed(1)).unwrap();
    assert!(signed.patched(&[]).is_none());
}

#[test]
fn what_copies_leave_behind_does_not_add_up() {
    // Four slots for two names have no room for a third.
    let small = build(&format!(
        "{HEAD}@ SOA ns h 1 2 3 4 5\n@ NS a\na A 192.0.2.1\n"
    ));
    let set = BTreeSet::from(["A 192.0.2.2".to_owned()]);
    assert!(small.patched(&[edit("b", &set)]).is_none());
    let text = |n: usize| {
        (0..n)
            .map(|it| format!("n{it} A 192.0.2.2\n"))
            .collect::<String>()
    };
    let mut zone = build(&format!("{HEAD}@ SOA ns h 1 2 3 4 5\n@ NS a\n{}", text(9)));
    let before = zone.memory();
    let mut n_copies = 0;
    while let Some(copy) = zone.patched(&[edit("n1", &set)]) {
        n_copies += 1;
        zone = copy;
    }
    assert_eq!(n_copies, FEW);
    assert!(
        zone.memory() < before + FEW * 200,
        "{} {before}",
        zone.memory()
    );
}
