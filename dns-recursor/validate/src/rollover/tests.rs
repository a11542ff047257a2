//! The keys of a zone in a rollover, signed by BIND 9.18: two that sign, one that is revoked, and one that stands by.

use std::slice;

use dns_cache::message::{Message, Row};
use dns_wire::{Rcode, Section, rdata};

use super::*;
use crate::{Anchor, Anchors};

/// The output of `dnssec-signzone`.
const KEYS: &str = include_str!("keys.zone");
/// Within the validity of its signatures.
const NOW: u64 = 1_790_000_000;

fn zone() -> Name {
    Name::parse("roll.test").unwrap()
}

/// The response with these lines.
fn response(lines: impl Iterator<Item = &'static str>) -> Response {
    let records = lines.map(|line| {
        let mut words = line.splitn(5, ' ');
        let rtype: Type = words.by_ref().nth(3).unwrap().parse().unwrap();
        let data = words.next().unwrap();
        (rtype, rdata::from_text(rtype, data, &Name::root()).unwrap())
    });
    let records: Vec<(Type, Vec<u8>)> = records.collect();
    let owner = zone();
    let row = |(rtype, rdata): &'static (Type, Vec<u8>)| Row {
        section: Section::Answer,
        owner: Box::leak(Box::new(owner.clone())),
        rtype: *rtype,
        ttl: 17,
        rdata,
    };
    let rows: Vec<Row<'_>> = Vec::leak(records).iter().map(row).collect();
    let question = [zone().as_wire(), &[0, 48, 0, 1]].concat();
    Response::read(&Message::compose(&question, Rcode::NOERROR, &rows).unwrap()).unwrap()
}

#[test]
fn the_keys_that_have_signed_are_found_and_a_revoked_one_is_among_them() {
    let set = key_set(&response(KEYS.lines()), &zone(), NOW).unwrap();
    assert_eq!((set.rdatas.len(), set.ttl), (4, 300));
    let of = |place: &usize| set.rdatas.get(*place).and_then(|it| tag_and_algorithm(it));
    let mut signers: Vec<(u16, u8)> = set.signers.iter().filter_map(of).collect();
    signers.sort_unstable();
    assert_eq!(signers, [(1258, 15), (20784, 15), (60875, 13)]);
    let end = 2_713_910_400_u64;
    assert_eq!(u64::from(set.signed_for), end - NOW);
}

#[test]
fn a_set_that_no_key_in_it_has_signed_has_a_reason() {
    let lines = || KEYS.lines();
    for (kept, now, expected) in [
        (
            response(lines().filter(|line| !line.contains("RRSIG"))),
            NOW,
            Why::NoSignature,
        ),
        (
            response(lines().filter(|line| line.contains("RRSIG"))),
            NOW,
            Why::NoKey,
        ),
        // One key less than was signed.
        (
            response(lines().filter(|line| !line.contains(" 385 "))),
            NOW,
            Why::Signature,
        ),
        (response(lines()), 1_700_000_000, Why::NotYet),
        (response(lines()), 2_800_000_000, Why::Expired),
    ] {
        assert_eq!(key_set(&kept, &zone(), now), Err(expected));
    }
    let other = Name::parse("test").unwrap();
    assert_eq!(
        key_set(&response(lines()), &other, NOW),
        Err(Why::NoKey),
        "another zone's"
    );
}

#[test]
fn anchors_of_keys_and_digests_judge_alike_if_none_is_lost() {
    let set = key_set(&response(KEYS.lines()), &zone(), NOW).unwrap();
    let keys: Vec<Anchor> = set
        .rdatas
        .iter()
        .filter_map(|rdata| Anchor::of_key(&zone(), rdata))
        .collect();
    assert_eq!(keys.len(), 3, "a revoked key is no anchor");
    let first = keys.first().unwrap().clone();
    let place = set.rdatas.iter().position(|it| first.names(it)).unwrap();
    let key = Key::read(&set.rdatas[place]).unwrap();
    let digest = crate::crypto::digest(2, zone().as_wire(), &key.rdata).unwrap();
    let ds = [
        &key.tag.to_be_bytes()[..],
        &[key.algorithm, 2],
        digest.as_ref(),
    ]
    .concat();
    let ds = rdata::display(Type::DS, &ds);
    let ds = Anchor::parse(&format!("roll.test DS {ds}")).unwrap();
    assert_eq!((ds.tag(), ds.algorithm()), (first.tag(), first.algorithm()));
    let with = |anchors: &[Anchor]| Anchors::default().with_zone(&zone(), anchors.to_vec());
    let name = Name::parse("www.roll.test").unwrap();
    for (after, before, expected) in [
        (with(&keys), with(slice::from_ref(&ds)), true),
        (with(slice::from_ref(&ds)), with(&keys), false),
        (with(&keys), with(&keys[..1]), true),
        (with(&keys[1..]), with(&keys), false),
        (with(&keys[1..]), with(&[ds]), false),
        (with(&[]), with(&keys), false),
    ] {
        assert_eq!(
            after.judges_as(&before, &name),
            expected,
            "{after:?} {before:?}"
        );
    }
}
