use std::collections::BTreeSet;

use dns_wire::{Class, Composer, Flags, Owner, Records};

use super::*;
use crate::message::{Answer, MAX_MESSAGE, Pool, Reader, TtlLimits};
use crate::testing::{Below, Everything, Random, Row, query, question, response};

const ANSWER: Section = Section::Answer;
const AUTHORITY: Section = Section::Authority;
const ADDITIONAL: Section = Section::Additional;

fn read(
    bailiwick: &dyn Bailiwick,
    dnssec_ok: bool,
    question: &[u8],
    response: &[u8],
) -> Result<Answer, Unusable> {
    let reader = Reader {
        question,
        limits: TtlLimits::default(),
        trust_ad: true,
        dnssec_ok,
        zone: &Name::root(),
        bailiwick,
    };
    reader.read(response, &mut vec![0; MAX_MESSAGE])
}

/// Section, owner and type of every record.
fn records(answer: &Answer) -> Vec<(Section, String, Type)> {
    let bytes = answer.message.bytes();
    let all = Records::new(bytes).unwrap().map(Result::unwrap);
    all.map(|record| {
        let (owner, _) = Name::read(bytes, record.name_offset).unwrap();
        (record.section, owner.to_string(), record.rtype)
    })
    .collect()
}

/// The answer of the servers of `evil.test` with these records.
fn of_evil(qtype: Type, rcode: Rcode, rows: &[Row<'_>]) -> Result<Answer, Unusable> {
    let question = question("x.evil.test", qtype);
    let response = response(
        &query(1, &question, Some(false)),
        Flags::AA | Flags::AD,
        rcode,
        rows,
    );
    read(&Below::new("evil.test"), false, &question, &response)
}

#[test]
fn records_of_other_servers_names_are_dropped_from_every_section() {
    let own = (ANSWER, "x.evil.test", Type::A, 60, "192.0.2.1");
    for lie in [
        (ANSWER, "www.bank.test", Type::A, 60, "192.0.2.66"),
        (AUTHORITY, "bank.test", Type::NS, 60, "ns.evil.test"),
        (AUTHORITY, "test", Type::NS, 60, "ns.evil.test"),
        (AUTHORITY, "evil.test", Type::NS, 60, "www.bank.test"),
        (AUTHORITY, "bank.test", Type::SOA, 60, "60"),
        (ADDITIONAL, "www.bank.test", Type::A, 60, "192.0.2.66"),
        (ADDITIONAL, "ns.evil.test", Type::A, 60, "192.0.2.66"),
    ] {
        let answer = of_evil(Type::A, Rcode::NOERROR, &[own, lie]).unwrap();
        let kept = [(ANSWER, "x.evil.test.".to_owned(), Type::A)];
        assert_eq!(records(&answer), kept, "{lie:?}");
        assert!(answer.message.flags().has(Flags::AD));
    }
}

#[test]
fn a_chain_is_cut_where_it_leaves_the_bailiwick() {
    let rows = [
        (ANSWER, "www.bank.test", Type::A, 60, "192.0.2.66"),
        (ANSWER, "y.evil.test", Type::CNAME, 60, "www.bank.test"),
        (ANSWER, "x.evil.test", Type::CNAME, 60, "y.evil.test"),
        (AUTHORITY, "bank.test", Type::SOA, 60, "60"),
        (AUTHORITY, ".", Type::SOA, 60, "60"),
    ];
    for rcode in [Rcode::NOERROR, Rcode::NXDOMAIN] {
        let answer = of_evil(Type::A, rcode, &rows).unwrap();
        assert_eq!(
            records(&answer),
            [
                (ANSWER, "x.evil.test.".to_owned(), Type::CNAME),
                (ANSWER, "y.evil.test.".to_owned(), Type::CNAME),
            ]
        );
        assert_eq!(answer.dangling, Name::parse("www.bank.test").ok());
        assert_eq!(answer.message.rcode(), Rcode::NOERROR);
        assert_eq!(answer.pool, Pool::Positive);
        // The upstream's word on a part of a chain counts for nothing.
        assert!(!answer.message.flags().has(Flags::AD));
    }
}

#[test]
fn a_denial_needs_a_soa_of_its_own_zone() {
    for (apex, is_kept) in [
        ("evil.test", true),
        ("x.evil.test", true),
        ("y.evil.test", false),
        ("bank.test", false),
        ("test", false),
        (".", false),
    ] {
        for rcode in [Rcode::NOERROR, Rcode::NXDOMAIN] {
            let soa = (AUTHORITY, apex, Type::SOA, 60, "60");
            let answer = of_evil(Type::A, rcode, &[soa]).unwrap();
            let lifetime = if is_kept { 60 } else { 0 };
            assert_eq!((answer.pool, answer.lifetime), (Pool::Negative, lifetime));
            assert_eq!(records(&answer).len(), usize::from(is_kept), "{apex}");
            assert_eq!(answer.message.rcode(), rcode);
        }
    }
}

#[test]
fn an_error_brings_no_data() {
    let rows = [
        (ANSWER, "x.evil.test", Type::CNAME, 60, "y.evil.test"),
        (ANSWER, "y.evil.test", Type::A, 60, "192.0.2.66"),
    ];
    let answer = of_evil(Type::A, Rcode::NXDOMAIN, &rows).unwrap();
    let alias = (ANSWER, "x.evil.test.".to_owned(), Type::CNAME);
    assert_eq!(records(&answer), [alias]);
}

#[test]
fn of_duplicates_one_stays_and_a_set_has_one_ttl() {
    let rows = [
        (ANSWER, "x.evil.test", Type::MX, 60, "a.evil.test"),
        (ANSWER, "x.EVIL.test", Type::MX, 20, "A.evil.TEST"),
        (ANSWER, "x.evil.test", Type::MX, 40, "b.evil.test"),
    ];
    let question = question("x.evil.test", Type::MX);
    let mut buffer = vec![0; 600];
    let flags = Flags(Flags::QR | Flags::AA);
    let mut composer = Composer::new(&mut buffer, 600, 1, flags).unwrap();
    composer.question(&question).unwrap();
    for (section, owner, rtype, ttl, host) in rows {
        let owner = Name::parse(owner).unwrap();
        let rdata = [&[0, 10], Name::parse(host).unwrap().as_wire()].concat();
        let fixed = (rtype, Class::IN, ttl);
        composer
            .record(section, Owner::Name(&owner), fixed, &rdata)
            .unwrap();
    }
    let length = composer.finish();
    let answer = read(&Everything, false, &question, &buffer[..length]).unwrap();
    let bytes = answer.message.bytes();
    let ttls: Vec<u32> = Records::new(bytes)
        .unwrap()
        .map(|record| record.unwrap().ttl)
        .collect();
    assert_eq!(ttls, [20, 20]);
}

#[test]
fn a_dname_makes_its_alias_and_one_that_is_too_long_says_so() {
    let dname = (ANSWER, "evil.test", Type::DNAME, 60, "bank.test");
    let wrong = (ANSWER, "x.evil.test", Type::CNAME, 60, "www.bank.test");
    let answer = of_evil(Type::A, Rcode::NOERROR, &[wrong, dname]).unwrap();
    assert_eq!(
        records(&answer),
        [
            (ANSWER, "evil.test.".to_owned(), Type::DNAME),
            (ANSWER, "x.evil.test.".to_owned(), Type::CNAME),
        ]
    );
    assert_eq!(answer.dangling, Name::parse("x.bank.test").ok());
    let label = "l".repeat(63);
    let long = [&*label, &label, &label, &"l".repeat(61)].join(".");
    let dname = (ANSWER, "evil.test", Type::DNAME, 60, &*long);
    let answer = of_evil(Type::A, Rcode::NOERROR, &[dname]).unwrap();
    assert_eq!(answer.message.rcode(), Rcode::YXDOMAIN);
    assert_eq!(answer.dangling, None);
    // One above the servers' zone counts for nothing.
    let above = (ANSWER, "test", Type::DNAME, 60, "bank.test");
    assert_eq!(
        of_evil(Type::A, Rcode::NOERROR, &[above]),
        Err(Unusable::Malformed)
    );
}

/// A signature over a set; the rest of it does not matter.
fn signature(covered: Type) -> Vec<u8> {
    let mut rdata = covered.0.to_be_bytes().to_vec();
    rdata.extend([8, 2]);
    rdata.extend([0; 14]);
    rdata.extend(b"\x04evil\x04test\0s");
    rdata
}

#[test]
fn dnssec_records_are_for_those_that_ask_and_only_beside_what_they_prove() {
    let question = question("x.evil.test", Type::A);
    let mut buffer = vec![0; 900];
    let mut composer = Composer::new(&mut buffer, 900, 1, Flags(Flags::QR)).unwrap();
    composer.question(&question).unwrap();
    let next = [b"\x01z\x04evil\x04test\0".as_slice(), &[0, 1, 0x40]].concat();
    for (section, owner, rtype, rdata) in [
        (ANSWER, "x.evil.test", Type::A, vec![192, 0, 2, 1]),
        (ANSWER, "x.evil.test", Type::RRSIG, signature(Type::A)),
        (ANSWER, "x.evil.test", Type::RRSIG, signature(Type::MX)),
        (ANSWER, "y.evil.test", Type::RRSIG, signature(Type::A)),
        (AUTHORITY, "a.evil.test", Type::NSEC, next.clone()),
        (AUTHORITY, "a.evil.test", Type::RRSIG, signature(Type::NSEC)),
        (AUTHORITY, "a.evil.test", Type::RRSIG, signature(Type::NS)),
        (AUTHORITY, "bank.test", Type::NSEC, next),
    ] {
        let owner = Name::parse(owner).unwrap();
        let fixed = (rtype, Class::IN, 60);
        composer
            .record(section, Owner::Name(&owner), fixed, &rdata)
            .unwrap();
    }
    let length = composer.finish();
    let kept = |dnssec_ok| {
        let bailiwick = Below::new("evil.test");
        let answer = read(&bailiwick, dnssec_ok, &question, &buffer[..length]);
        let all = records(&answer.unwrap()).into_iter();
        all.map(|(_, owner, rtype)| format!("{owner} {rtype}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(false), ["x.evil.test. A"]);
    assert_eq!(
        kept(true),
        [
            "x.evil.test. A",
            "x.evil.test. RRSIG",
            "a.evil.test. NSEC",
            "a.evil.test. RRSIG",
        ]
    );
}

#[test]
fn whatever_the_responder_mixes_nothing_foreign_is_kept() {
    const NAMES: [&str; 8] = [
        "x.evil.test",
        "y.evil.test",
        "z.evil.test",
        "evil.test",
        "www.bank.test",
        "bank.test",
        "test",
        ".",
    ];
    const TYPES: [Type; 6] = [
        Type::A,
        Type::CNAME,
        Type::DNAME,
        Type::NS,
        Type::SOA,
        Type::TXT,
    ];
    let foreign: BTreeSet<&str> = ["www.bank.test.", "bank.test.", "test.", "."].into();
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let mut pick = |n: usize| usize::try_from(random.below(n as u64)).unwrap();
        let n_rows = pick(12);
        let rows: Vec<Row<'_>> = (0..n_rows)
            .map(|_| {
                let rtype = TYPES[pick(TYPES.len())];
                let text = match rtype {
                    Type::A => "192.0.2.66",
                    Type::SOA => "60",
                    _ => NAMES[pick(NAMES.len())],
                };
                let section = [ANSWER, ANSWER, AUTHORITY, ADDITIONAL][pick(4)];
                (section, NAMES[pick(NAMES.len())], rtype, 60, text)
            })
            .collect();
        let mut rows = rows;
        rows.sort_by_key(|row| row.0);
        let rcode = [Rcode::NOERROR, Rcode::NOERROR, Rcode::NXDOMAIN][pick(3)];
        let Ok(answer) = of_evil(Type::A, rcode, &rows) else {
            continue;
        };
        let kept = records(&answer);
        for (section, owner, _) in &kept {
            assert!(!foreign.contains(&**owner), "seed {seed}: {rows:?}");
            assert_ne!(*section, ADDITIONAL, "seed {seed}");
        }
        let distinct: BTreeSet<String> = kept.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(distinct.len(), kept.len(), "seed {seed}: {kept:?}");
        if let Some(target) = answer.dangling {
            assert!(
                answer.message.flags().0 & Flags::AD == 0,
                "seed {seed}: {target}"
            );
        }
    }
}
