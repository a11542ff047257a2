//! A zone that BIND 9.18 has signed, with every algorithm and types with names in their data, written in mixed case.

use std::collections::BTreeMap;

use dns_cache::message::{Message, Row};
use dns_wire::{Name, Rcode, Section, Type, rdata};

use super::*;
use crate::response::Response;

/// The output of `dnssec-signzone -z -O full`, with keys of five algorithms.
const ZONE: &str = include_str!("bind.zone");
/// Within the validity of its signatures.
const NOW: u32 = 1_790_000_000;

/// The sets of the zone, each with all its signatures.
fn sets() -> Vec<Set> {
    let mut by_name: BTreeMap<Name, Vec<(Name, Type, Vec<u8>)>> = BTreeMap::new();
    for line in ZONE.lines() {
        let mut words = line.splitn(5, ' ');
        let owner = Name::parse(words.next().unwrap()).unwrap();
        let rtype: Type = words.nth(2).unwrap().parse().unwrap();
        let data = words.next().unwrap();
        let data = rdata::from_text(rtype, data, &Name::root()).unwrap();
        let at = by_name.entry(owner.clone()).or_default();
        at.push((owner, rtype, data));
    }
    let read = |records: &Vec<(Name, Type, Vec<u8>)>| {
        let rows: Vec<Row<'_>> = records
            .iter()
            .map(|(owner, rtype, rdata)| Row {
                section: Section::Answer,
                owner,
                rtype: *rtype,
                ttl: 3600,
                rdata,
            })
            .collect();
        let question = [records[0].0.as_wire(), &[0, 255, 0, 1]].concat();
        let message = Message::compose(&question, Rcode::NOERROR, &rows).unwrap();
        Response::read(&message).unwrap().sets
    };
    by_name.values().flat_map(read).collect()
}

#[test]
fn signatures_of_another_implementation_fit_in_each_algorithm() {
    let zone = Name::parse("example").unwrap();
    let sets = sets();
    let is_keys = |set: &&Set| set.rtype == Type::DNSKEY;
    let keys = Key::read_all(&sets.iter().find(is_keys).unwrap().rdatas);
    let mut algorithms = BTreeMap::<u8, usize>::new();
    for set in &sets {
        for signature in &set.signatures {
            let mut alone = Set {
                signatures: vec![signature.clone()],
                ..set.clone()
            };
            let check = |set: &Set| check(set, &zone, &keys, NOW, &mut Budget::default());
            let (owner, rtype) = (&set.owner, set.rtype);
            let algorithm = signature.algorithm;
            let signed = check(&alone);
            assert!(signed.is_ok(), "{owner} {rtype} {algorithm}: {signed:?}");
            *algorithms.entry(algorithm).or_default() += 1;
            // Any change of the data or the signature shows.
            if let Some(last) = alone.rdatas[0].last_mut() {
                *last ^= 1;
            }
            let changed = check(&alone);
            assert_eq!(changed, Err(Why::Signature), "{owner} {rtype} {algorithm}");
            alone.rdatas.clone_from(&set.rdatas);
            *alone.signatures[0].signature.last_mut().unwrap() ^= 1;
            let changed = check(&alone);
            assert_eq!(changed, Err(Why::Signature), "{owner} {rtype} {algorithm}");
        }
    }
    let expected = [8, 10, 13, 14, 15].map(|algorithm| (algorithm, 42));
    assert_eq!(algorithms.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn the_signature_of_a_wildcard_fits_the_names_that_it_makes() {
    let zone = Name::parse("example").unwrap();
    let sets = sets();
    let keys = sets.iter().find(|set| set.rtype == Type::DNSKEY).unwrap();
    let keys = Key::read_all(&keys.rdatas);
    let mut set = sets.into_iter().find(|set| set.rtype == Type::TXT).unwrap();
    set.signatures.truncate(1);
    let mut at = |owner: &str| {
        set.owner = Name::parse(owner).unwrap();
        check(&set, &zone, &keys, NOW, &mut Budget::default()).map(|signed| signed.wildcard)
    };
    assert_eq!(at("*.wild.example"), Ok(None));
    assert_eq!(at("a.b.wild.example"), Ok(Some(2)));
    assert_eq!(at("wild.example"), Err(Why::Signature));
    assert_eq!(at("a.other.example"), Err(Why::Signature));
    assert_eq!(at("a.wild.test"), Err(Why::Signature));
}

#[test]
fn times_wrap_and_clocks_may_differ_a_little() {
    let sets = sets();
    let mut signature = sets[0].signatures[0].clone();
    let mut at = |inception: u32, expiration: u32, now: u32| {
        (signature.inception, signature.expiration) = (inception, expiration);
        lifetime(&signature, now)
    };
    let hour = 3_600;
    assert_eq!(at(100_000, 200_000, 150_000), Ok(3_600));
    assert_eq!(at(100_000, 200_000, 199_000), Ok(1_000));
    assert_eq!(at(100_000, 200_000, 200_000 + hour), Ok(0));
    assert_eq!(at(100_000, 130_000, 130_001 + hour), Err(Why::Expired));
    assert_eq!(at(100_000, 130_000, 99_999 - hour), Err(Why::NotYet));
    assert_eq!(at(200_000, 100_000, 150_000), Err(Why::Expired));
    assert_eq!(at(u32::MAX - 10, 1_000, 0), Ok(1_000));
}
