//! Name servers that get a zone flattened see that version, and others do not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dns_flatten::{Flat, Flattening, Form, Forms, Pace, Step};
use dns_history::Limits;
use dns_lua::select::{Member, Select};
use dns_views::PeerRule;
use dns_wire::header::Flags;
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Rcode, Records, Type};
use dns_zone::SoaTimes;

use super::answers::{plain, udp};
use crate::live::{Drawn, Failure, LiveAnswer, LiveSets, Part};
use crate::table::{Origin, Served, Table};
use crate::testing::{self, client, decode, records, snapshot, zone_at};
use crate::transfer::{Kind, Transfer};
use crate::*;

const ZONE: &str = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n\
    ns.example. 60 A 192.0.2.53\nlive.example. 60 LUA A f()\n";
const LIMITS: Limits = Limits {
    versions: 9,
    octets: 1 << 20,
};

/// A live set whose members are these.
fn live(members: &[u8]) -> LiveAnswer {
    let members = members.iter().map(|last| {
        let member = Member {
            value: format!("192.0.2.{last}"),
            weight: 1,
        };
        (member, vec![192, 0, 2, *last])
    });
    let drawn = Drawn::new(Type::A, 5, Select::Random, members.collect());
    LiveAnswer {
        parts: vec![Part::Drawn(drawn.unwrap())],
        ttl: 5,
        ..LiveAnswer::default()
    }
}

/// The flattened versions of a zone with these members, one behind the other, with serials from 100 on.
fn flat(zone: &Arc<dns_zone::Zone>, versions: &[&[u8]]) -> Arc<Flat> {
    let (mut now, mut flattening) = (start(), Flattening::default());
    let pace = Pace {
        interval: Duration::ZERO,
        per_minute: 60,
    };
    for (serial, members) in (100..).zip(versions) {
        let given = LiveSets::new([live(members)], None).given();
        match flattening.step(zone, &given, pace, now) {
            Step::Make(draft) => flattening.make(draft, serial, now, (0, LIMITS)).map(drop),
            step => panic!("{step:?}"),
        }
        .unwrap();
        now += Duration::from_secs(60);
    }
    Arc::clone(flattening.flat().unwrap())
}

#[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
fn start() -> Instant {
    Instant::now()
}

/// A server of the zone and of this flattened version, which those get who sign with `k.`.
fn server(flat: impl Fn(&Arc<dns_zone::Zone>) -> Option<Arc<Flat>>) -> (Snapshot, Key) {
    let mut server = snapshot("example.", &records(ZONE));
    let zone = zone_at(&server, 0);
    let sets = LiveSets::new([live(&[1])], None).with_flat(flat(&zone));
    let served = Served {
        apex: zone.apex().clone(),
        zone: Some(Arc::clone(&zone)),
        parts: None,
        live: Arc::new(sets),
        origin: Origin::Configured,
        view: None,
        access: None,
    };
    server.table = Table::new(server.table.seed(), &[Arc::new(served)]);
    let key = Key::new(&"k.".parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap();
    server.settings.keys = Keys::new([key.clone()]);
    server.settings.forms = Arc::new(Forms {
        rules: vec![PeerRule {
            networks: None,
            keys: vec![key.name().clone()],
            zones: Vec::new(),
            value: Form::Flatten,
        }],
        others: Form::Raw,
    });
    (server, key)
}

fn soa_serial(reply: &[u8]) -> u32 {
    let response = decode(reply);
    let soa = response.answer.iter().find(|line| line.1 == Type::SOA);
    SoaTimes::of(&soa.unwrap().3).unwrap().serial
}

/// A signed query's response.
fn signed(server: &Snapshot, key: &Key, mut message: Vec<u8>) -> Vec<u8> {
    let mut responses = key.sign(&mut message, testing::NOW).unwrap();
    let reply = testing::ask(server, &message, Transport::Udp);
    responses.check(&reply, testing::NOW).unwrap();
    reply
}

#[test]
fn the_soa_record_is_that_of_the_version_that_the_server_gets() {
    let (server, key) = server(|zone| Some(flat(zone, &[&[1]])));
    let asked = || plain("example.", Type::SOA);
    let serial = |reply: &[u8]| {
        assert!(Flags::read(reply).unwrap().has(Flags::AA));
        let records = Records::new(reply).unwrap().map(Result::unwrap);
        let soa = records.into_iter().find(|record| record.rtype == Type::SOA);
        let data = dns_wire::records::uncompressed_rdata(reply, &soa.unwrap()).unwrap();
        SoaTimes::of(&data).unwrap().serial
    };
    assert_eq!(soa_serial(&udp(&server, &asked())), 7);
    assert_eq!(serial(&signed(&server, &key, asked())), 100);
    // All other names are as for everybody.
    for name in ["ns.example.", "none.example."] {
        let reply = signed(&server, &key, plain(name, Type::SOA));
        assert_eq!(Records::new(&reply).unwrap().count(), 2, "SOA and TSIG");
    }
}

#[test]
fn a_server_gets_no_version_before_it_is_there() {
    let (server, key) = server(|_| None);
    let reply = signed(&server, &key, plain("example.", Type::SOA));
    assert_eq!(Flags::read(&reply).unwrap().rcode(), Rcode::SERVFAIL);
    assert_eq!(soa_serial(&udp(&server, &plain("example.", Type::SOA))), 7);
}

/// A query for the differences from the version of this serial.
fn ixfr(serial: u32) -> Vec<u8> {
    let mut asked = plain("example.", Type::IXFR);
    asked[9] = 1;
    asked.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0");
    for number in [serial, 0, 0, 0, 0_u32] {
        asked.extend(number.to_be_bytes());
    }
    asked
}

#[test]
fn transfers_send_the_version_and_its_differences() {
    let zone = zone_at(&snapshot("example.", &records(ZONE)), 0);
    let flat = flat(&zone, &[&[1, 2], &[2], &[2, 3]]);
    let transfer = |message: &[u8], history: bool| {
        let history = history.then(|| flat.history());
        let (mut transfer, kind) = Transfer::new(&flat, history, message, None);
        let mut out = vec![0; MAX_MESSAGE];
        let mut lines = Vec::new();
        while let Some(length) = transfer.next_message(&mut out, 0) {
            let message = &out[..length];
            for record in Records::new(message).unwrap() {
                let record = record.unwrap();
                let data = dns_wire::records::uncompressed_rdata(message, &record).unwrap();
                lines.push((record.rtype, data));
            }
        }
        (kind, lines)
    };
    let (kind, lines) = transfer(&plain("example.", Type::AXFR), true);
    assert_eq!(kind, Kind::Whole);
    let types: Vec<Type> = lines.iter().map(|(rtype, _)| *rtype).collect();
    let expected = [Type::SOA, Type::NS, Type::A, Type::A, Type::A, Type::SOA];
    assert_eq!(types, expected, "no program");
    assert_eq!(SoaTimes::of(&lines[0].1).unwrap().serial, 102);
    let (kind, lines) = transfer(&ixfr(101), true);
    assert_eq!(kind, Kind::Differences);
    let data: Vec<&[u8]> = lines.iter().map(|(_, data)| &**data).collect();
    assert_eq!(data.len(), 5);
    assert_eq!(data[3], [192, 0, 2, 3], "the address that comes, alone");
    assert_eq!(transfer(&ixfr(102), true).0, Kind::Current);
    assert_eq!(transfer(&ixfr(7), true).0, Kind::Whole);
    assert_eq!(transfer(&ixfr(101), false).0, Kind::Whole);
}

#[test]
fn an_incremental_transfer_over_udp_is_of_the_flattened_version() {
    let (server, key) = server(|zone| Some(flat(zone, &[&[1, 2], &[2]])));
    let mut asked = ixfr(100);
    key.sign(&mut asked, testing::NOW).unwrap();
    let mut responder = Responder::new(NoPrograms, 1);
    let mut out = vec![0; 4096];
    let client = client(Transport::Udp);
    let verdict = responder.respond_signed(&server, (&asked, testing::NOW), &client, &mut out);
    assert!(
        matches!(verdict, Verdict::Incremental { .. }),
        "{verdict:?}"
    );
    responder.set_ixfr(Ixfr::Differences(dns_history::History::default()));
    let verdict = responder.respond_signed(&server, (&asked, testing::NOW), &client, &mut out);
    let Verdict::Reply(length) = verdict else {
        panic!("{verdict:?}");
    };
    let n = Records::new(&out[..length]).unwrap().count();
    // Four SOA records, the address that goes, and the signature.
    assert_eq!(n, 6);
}

#[test]
fn what_a_set_gives_is_every_member_or_nothing_if_it_fails() {
    use dns_flatten::Given;
    let given = |answer: LiveAnswer| LiveSets::new([answer], None).given().remove(0);
    let records = |members: &[u8], is_whole, is_undecided| Given::Records {
        ttl: 5,
        rdata: members.iter().map(|last| vec![192, 0, 2, *last]).collect(),
        is_whole,
        is_undecided,
    };
    assert_eq!(given(live(&[2, 1])), records(&[2, 1], true, false));
    let mut waiting = live(&[1]);
    waiting.hold = true;
    assert_eq!(given(waiting), records(&[1], true, true));
    let mut partial = live(&[1]);
    partial.parts.push(Part::Program(0));
    assert_eq!(given(partial), records(&[1], false, false));
    for (failure, expected) in [
        (Failure::Defect, Given::Nothing),
        (Failure::Incomplete, Given::Nothing),
    ] {
        assert_eq!(given(LiveAnswer::failed(failure)), expected);
    }
    let down = LiveAnswer {
        ttl: 5,
        ..LiveAnswer::failed(Failure::AllDown)
    };
    assert_eq!(given(down), records(&[], true, false));
}
