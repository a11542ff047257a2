//! RFC 2136 §3 in tables.

use std::path::Path;

use dns_wire::hash::Seed;
use dns_wire::{Class, Composer, Flags, Name, Opcode, Owner, Rcode, Section, Type, rdata};
use dns_zone::incoming::line;
use dns_zone::parse::{Options, parse};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{SoaTimes, Zone};

use crate::{Draft, Entry, Grant, Malformed, Update, apply_all};

const ZONE: &str = "$TTL 60\n@ SOA ns h 7 1 1 1 1\n@ NS ns\n@ NS ns2\n@ A 192.0.2.9\nns A 192.0.2.1\n\
    www A 192.0.2.1\nwww A 192.0.2.2\nwww TXT \"x\"\nalias CNAME www\n\
    live LUA A \"ifportup(443, {'192.0.2.1'})\"\nlive TXT \"y\"\n";

fn zone() -> Zone {
    let apex: Name = "a.test.".parse().unwrap();
    let mut load = |_: &Path| Ok(ZONE.as_bytes().to_vec());
    let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
    Zone::build(&apex, &file.records, Seed(1)).unwrap()
}

/// An entry, written `CLASS OWNER TTL TYPE [DATA]`; names relative to the zone.
fn entry(text: &str) -> Entry {
    let apex: Name = "a.test.".parse().unwrap();
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next().unwrap_or_default();
    let class: Class = word().parse().unwrap();
    let owner = match word() {
        "@" => apex.clone(),
        owner => Name::parse_relative(owner, &apex).unwrap(),
    };
    let ttl = word().parse().unwrap();
    let rtype: Type = word().parse().unwrap();
    let rdata = match word() {
        "" => Vec::new(),
        data => rdata::from_text(rtype, data, &apex).unwrap(),
    };
    Entry {
        owner,
        rtype,
        class,
        ttl,
        rdata,
    }
}

fn update(prerequisites: &[&str], changes: &[&str]) -> Update {
    Update {
        zone: "a.test.".parse().unwrap(),
        prerequisites: prerequisites.iter().map(|text| entry(text)).collect(),
        changes: changes.iter().map(|text| entry(text)).collect(),
    }
}

fn grant(types: &[Type]) -> Grant {
    Grant {
        key: "key.".parse().unwrap(),
        names: Vec::new(),
        types: types.to_vec(),
    }
}

/// Every type that the tests change.
fn all() -> Grant {
    let types = [
        Type::A,
        Type::NS,
        Type::SOA,
        Type::CNAME,
        Type::TXT,
        Type::LUA,
        Type::ANY,
        Type::RRSIG,
    ];
    grant(&types)
}

/// The records of a draft, as lines in order; the SOA record by its serial alone.
fn lines(draft: &Draft<'_>) -> Vec<String> {
    let records = draft.clone().into_records().into_iter();
    let line = |record: ZoneRecord<'_>| match record.rtype {
        Type::SOA => format!("serial {}", SoaTimes::of(&record.rdata).unwrap().serial),
        rtype => {
            let data = rdata::display(rtype, &record.rdata);
            format!("{} {} {rtype} {data}", record.owner, record.ttl)
        }
    };
    let mut lines: Vec<String> = records.map(line).collect();
    lines.sort();
    lines
}

#[test]
fn prerequisites_are_checked_in_their_order() {
    let served = zone();
    let before = Draft::of(&served);
    let add = "IN new 60 A 192.0.2.7";
    for (prerequisites, expected) in [
        // §3.2.1: of the same data.
        (
            &["IN www 0 A 192.0.2.2", "IN www 0 A 192.0.2.1"][..],
            Rcode::NOERROR,
        ),
        (
            &[
                "IN WWW 0 A 192.0.2.2",
                "IN www 0 A 192.0.2.1",
                "IN www 0 A 192.0.2.1",
            ],
            Rcode::NOERROR,
        ),
        (&["IN www 0 A 192.0.2.1"], Rcode::NXRRSET),
        (&["IN alias 0 CNAME WWW"], Rcode::NOERROR),
        (&["IN none 0 A 192.0.2.1"], Rcode::NXRRSET),
        (&["IN live 0 A 192.0.2.1"], Rcode::NXRRSET),
        (&["IN www 60 A 192.0.2.1"], Rcode::FORMERR),
        // Sets and names that exist.
        (&["ANY www 0 A"], Rcode::NOERROR),
        (&["ANY live 0 A"], Rcode::NOERROR),
        (&["ANY www 0 AAAA"], Rcode::NXRRSET),
        (&["ANY none 0 A"], Rcode::NXRRSET),
        (&["ANY www 0 ANY"], Rcode::NOERROR),
        (&["ANY none 0 ANY"], Rcode::NXDOMAIN),
        (&["ANY www 0 A 192.0.2.1"], Rcode::FORMERR),
        (&["ANY www 0 AXFR"], Rcode::FORMERR),
        // And that do not.
        (&["NONE www 0 AAAA"], Rcode::NOERROR),
        (&["NONE www 0 A"], Rcode::YXRRSET),
        (&["NONE live 0 A"], Rcode::YXRRSET),
        (&["NONE none 0 ANY"], Rcode::NOERROR),
        (&["NONE www 0 ANY"], Rcode::YXDOMAIN),
        (&["NONE www 0 A 192.0.2.1"], Rcode::FORMERR),
        (&["CH www 0 A"], Rcode::FORMERR),
        (&["ANY www.b.test. 0 A"], Rcode::NOTZONE),
        // The first that fails counts; data is compared behind all others.
        (&["NONE www 0 A", "ANY www.b.test. 0 A"], Rcode::YXRRSET),
        (&["ANY www.b.test. 0 A", "NONE www 0 A"], Rcode::NOTZONE),
        (&["IN www 0 A 192.0.2.1", "ANY none 0 ANY"], Rcode::NXDOMAIN),
    ] {
        let mut draft = before.clone();
        let applied = draft.apply(&update(prerequisites, &[add]), &[&all()]);
        let rcode = applied.map_or_else(|refusal| refusal.rcode, |_| Rcode::NOERROR);
        assert_eq!(rcode, expected, "{prerequisites:?}");
        if rcode != Rcode::NOERROR {
            assert_eq!(lines(&draft), lines(&before), "{prerequisites:?}");
        }
    }
}

#[test]
fn a_change_that_makes_no_sense_stops_all() {
    let served = zone();
    let before = Draft::of(&served);
    for (change, expected) in [
        ("IN www.b.test. 60 A 192.0.2.1", Rcode::NOTZONE),
        ("IN www 60 A", Rcode::FORMERR),
        ("IN www 60 ANY", Rcode::FORMERR),
        ("IN www 60 AXFR", Rcode::FORMERR),
        ("ANY www 60 A", Rcode::FORMERR),
        ("ANY www 0 A 192.0.2.1", Rcode::FORMERR),
        ("ANY www 0 AXFR", Rcode::FORMERR),
        ("NONE www 60 A 192.0.2.1", Rcode::FORMERR),
        ("NONE www 0 ANY", Rcode::FORMERR),
        ("CH www 60 A 192.0.2.1", Rcode::FORMERR),
        // Nobody changes what runs here, or what is signed.
        ("IN www 60 LUA A \"'192.0.2.1'\"", Rcode::REFUSED),
        ("ANY live 0 LUA", Rcode::REFUSED),
        ("ANY live 0 A", Rcode::REFUSED),
        ("ANY live 0 ANY", Rcode::REFUSED),
        ("IN live 60 A 192.0.2.1", Rcode::REFUSED),
        ("ANY www 0 RRSIG", Rcode::REFUSED),
    ] {
        let mut draft = before.clone();
        let changes = ["IN new 60 A 192.0.2.7", change];
        let refusal = draft.apply(&update(&[], &changes), &[&all()]).unwrap_err();
        assert_eq!(refusal.rcode, expected, "{change}: {refusal}");
        assert_eq!(lines(&draft), lines(&before), "{change}");
    }
}

/// Checks the records that changes take away, and those that they add.
#[track_caller]
fn check_change(changes: &[&str], gone: &[&str], come: &[&str]) {
    let served = zone();
    let before = Draft::of(&served);
    let mut draft = before.clone();
    let is_changed = draft.apply(&update(&[], changes), &[&all()]).unwrap();
    let mut expected = lines(&before);
    expected.retain(|line| !gone.contains(&line.as_str()));
    expected.extend(come.iter().map(|&line| line.to_owned()));
    if !(gone.is_empty() && come.is_empty()) {
        expected.retain(|line| line != "serial 7");
        expected.push("serial 8".to_owned());
    }
    expected.sort();
    assert_eq!(lines(&draft), expected, "{changes:?}");
    assert_eq!(is_changed, expected != lines(&before), "{changes:?}");
}

#[test]
fn a_change_changes_what_it_names() {
    for (changes, gone, come) in [
        (
            &["IN new 30 A 192.0.2.7"][..],
            &[][..],
            &["new.a.test. 30 A 192.0.2.7"][..],
        ),
        // A set has one TTL, and a record is there once.
        (
            &["IN www 30 A 192.0.2.1"],
            &["www.a.test. 60 A 192.0.2.1", "www.a.test. 60 A 192.0.2.2"],
            &["www.a.test. 30 A 192.0.2.1", "www.a.test. 30 A 192.0.2.2"],
        ),
        (&["IN www 60 A 192.0.2.1"], &[], &[]),
        (
            &["ANY www 0 A"],
            &["www.a.test. 60 A 192.0.2.1", "www.a.test. 60 A 192.0.2.2"],
            &[],
        ),
        (
            &["NONE www 0 A 192.0.2.2"],
            &["www.a.test. 60 A 192.0.2.2"],
            &[],
        ),
        (&["NONE www 0 A 192.0.2.3"], &[], &[]),
        (&["ANY none 0 ANY"], &[], &[]),
        (
            &["ANY www 0 ANY"],
            &[
                "www.a.test. 60 A 192.0.2.1",
                "www.a.test. 60 A 192.0.2.2",
                "www.a.test. 60 TXT \"x\"",
            ],
            &[],
        ),
        // Beside a program, other types change as everywhere.
        (&["ANY live 0 TXT"], &["live.a.test. 60 TXT \"y\""], &[]),
        (&["IN live 60 CNAME www"], &[], &[]),
        // §3.4.2.2: an alias and other records do not meet.
        (&["IN alias 60 A 192.0.2.7"], &[], &[]),
        (&["IN www 60 CNAME ns"], &[], &[]),
        (
            &["IN alias 60 CNAME ns"],
            &["alias.a.test. 60 CNAME www.a.test."],
            &["alias.a.test. 60 CNAME ns.a.test."],
        ),
        // §3.4.2.3, §3.4.2.4: the apex keeps its SOA record and a server.
        (&["ANY @ 0 ANY"], &["a.test. 60 A 192.0.2.9"], &[]),
        (&["ANY @ 0 NS"], &[], &[]),
        (&["ANY @ 0 SOA"], &[], &[]),
        (
            &["NONE @ 0 NS ns", "NONE @ 0 NS ns2"],
            &["a.test. 60 NS ns.a.test."],
            &[],
        ),
        (&["IN www 60 SOA ns h 9 1 1 1 1"], &[], &[]),
        // In their order.
        (&["IN new 60 A 192.0.2.7", "ANY new 0 A"], &[], &[]),
        (
            &["ANY new 0 A", "IN new 60 A 192.0.2.7"],
            &[],
            &["new.a.test. 60 A 192.0.2.7"],
        ),
    ] {
        check_change(changes, gone, come);
    }
}

#[test]
fn the_serial_of_an_update_counts_only_if_it_is_higher() {
    for (serial, expected) in [
        (20, "serial 20"),
        (8, "serial 8"),
        (7, "serial 8"),
        (3, "serial 8"),
    ] {
        let served = zone();
        let mut draft = Draft::of(&served);
        let soa = format!("IN @ 60 SOA ns h {serial} 1 1 1 1");
        let changes = [soa.as_str(), "IN new 60 A 192.0.2.7"];
        draft.apply(&update(&[], &changes), &[&all()]).unwrap();
        assert!(lines(&draft).contains(&expected.to_owned()), "{serial}");
    }
}

#[test]
fn a_key_changes_only_what_it_is_granted() {
    let txt = grant(&[Type::TXT]);
    for (changes, is_allowed) in [
        (&["IN www 60 TXT \"z\""][..], true),
        (&["IN www 60 A 192.0.2.7"], false),
        (&["ANY www 0 TXT"], true),
        // It has A records too.
        (&["ANY www 0 ANY"], false),
        (&["IN x 60 TXT \"z\"", "NONE www 0 A 192.0.2.1"], false),
    ] {
        let served = zone();
        let mut draft = Draft::of(&served);
        let applied = draft.apply(&update(&[], changes), &[&txt]);
        match is_allowed {
            true => assert_eq!(applied, Ok(true), "{changes:?}"),
            false => assert_eq!(applied.unwrap_err().rcode, Rcode::REFUSED, "{changes:?}"),
        }
    }
    // A prerequisite that fails says so before the grants do (§3.3).
    let refused = update(&["NONE www 0 ANY"], &["IN www 60 A 192.0.2.7"]);
    let refusal = Draft::of(&zone()).apply(&refused, &[&txt]).unwrap_err();
    assert_eq!(refusal.rcode, Rcode::YXDOMAIN);
}

/// The message of an update.
fn message(update: &Update, question: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 65_535];
    let flags = Flags(u16::from(Opcode::UPDATE.0) << 11);
    let mut message = Composer::new(&mut out, 65_535, 7, flags).unwrap();
    message.question(question).unwrap();
    let sections = [
        (Section::Answer, &update.prerequisites),
        (Section::Authority, &update.changes),
    ];
    for (section, entries) in sections {
        for entry in entries {
            let fixed = (entry.rtype, entry.class, entry.ttl);
            message
                .record(section, Owner::Name(&entry.owner), fixed, &entry.rdata)
                .unwrap();
        }
    }
    let length = message.finish();
    out.truncate(length);
    out
}

#[test]
fn a_message_is_read_as_it_was_written() {
    let written = update(
        &["ANY www 0 A", "NONE x 0 ANY", "IN www 0 A 192.0.2.1"],
        &[
            "IN new 60 NS ns.new",
            "ANY www 0 TXT",
            "NONE www 0 A 192.0.2.1",
        ],
    );
    let octets = message(&written, b"\x01a\x04test\0\0\x06\0\x01");
    assert_eq!(Update::parse(&octets), Ok(written.clone()));
    for cut in 0..octets.len() {
        assert_eq!(Update::parse(&octets[..cut]), Err(Malformed), "{cut}");
    }
    // Another type and another class than the zone section may have.
    for question in [
        b"\x01a\x04test\0\0\x01\0\x01",
        b"\x01a\x04test\0\0\x06\0\x03",
    ] {
        assert_eq!(Update::parse(&message(&written, question)), Err(Malformed));
    }
    let mut query = octets.clone();
    query[2] = 0;
    assert_eq!(Update::parse(&query), Err(Malformed));
}

#[test]
fn an_update_that_spoils_the_zone_takes_no_other_with_it() {
    let served = zone();
    let grant = all();
    let updates = [
        update(&[], &["IN x 60 A 192.0.2.7"]),
        update(&[], &["IN spoils 60 A 192.0.2.7"]),
        update(&["NONE www 0 ANY"], &["IN y 60 A 192.0.2.7"]),
        update(&["ANY x 0 A"], &["IN z 60 A 192.0.2.7"]),
    ];
    let mut make = |soa: ZoneRecord<'static>, records: Vec<ZoneRecord<'static>>| {
        let spoils: Name = "spoils.a.test.".parse().unwrap();
        if records.iter().any(|record| record.owner == spoils) {
            return Err("it spoils the zone".to_owned());
        }
        Ok(built(&soa, &records))
    };
    let asked: Vec<_> = updates
        .iter()
        .map(|update| (update, vec![&grant]))
        .collect();
    let (results, next) = apply_all(&served, &asked, &mut make);
    let rcodes = results.iter().map(|result| match result {
        Ok(()) => Rcode::NOERROR,
        Err(refusal) => refusal.rcode,
    });
    let rcodes: Vec<Rcode> = rcodes.collect();
    let expected = [
        Rcode::NOERROR,
        Rcode::SERVFAIL,
        Rcode::YXDOMAIN,
        Rcode::NOERROR,
    ];
    assert_eq!(rcodes, expected);
    let next = next.unwrap().zone;
    assert_eq!(next.soa().serial, 9);
    let has = |name: &str| !next.data(&name.parse().unwrap(), Type::A).is_empty();
    assert!(has("x.a.test.") && has("z.a.test.") && !has("y.a.test."));
    // Alone, and with nothing to change.
    let (results, next) = apply_all(&served, &asked[1..2], &mut make);
    assert!(results[0].is_err() && next.is_none());
    let (results, next) = apply_all(&served, &[], &mut make);
    assert!(results.is_empty() && next.is_none());
}

/// The zone of these records, read from their text.
fn built(soa: &ZoneRecord<'_>, records: &[ZoneRecord<'_>]) -> Zone {
    let lines = std::iter::once(soa).chain(records);
    let lines = lines.map(|it| line(&it.owner, it.rtype, it.ttl, &it.rdata) + "\n");
    let text: String = lines.collect();
    let mut load = |_: &Path| Ok(text.clone().into_bytes());
    let file = parse(Path::new("z"), &soa.owner, &mut load, &Options::default()).unwrap();
    Zone::build(&soa.owner, &file.records, Seed(1)).unwrap()
}

#[test]
fn a_version_says_in_what_it_differs_and_a_large_zone_is_not_read_for_it() {
    let grant = all();
    let served = zone();
    let mut n_made = Vec::new();
    let mut make = |soa: ZoneRecord<'static>, records: Vec<ZoneRecord<'static>>| {
        n_made.push(records.len());
        Ok(built(&soa, &records))
    };
    let named = |records: &[ZoneRecord<'_>]| {
        let names = records
            .iter()
            .map(|it| format!("{} {} {}", it.owner, it.ttl, it.rtype));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    for (changes, removed, added, is_whole) in [
        (
            &["IN new 60 A 192.0.2.7"][..],
            &[][..],
            &["new.a.test. 60 A"][..],
            false,
        ),
        (&["ANY www 0 TXT"], &["www.a.test. 60 TXT"], &[], false),
        (
            &["IN www 9 TXT \"x\""],
            &["www.a.test. 60 TXT"],
            &["www.a.test. 9 TXT"],
            false,
        ),
        (
            &["IN live 60 A 192.0.2.1", "IN *.w 60 A 192.0.2.7"],
            &[],
            &[],
            true,
        ),
        (&["IN *.w 60 A 192.0.2.7"], &[], &[], true),
    ] {
        let update = update(&[], changes);
        let (results, next) = apply_all(&served, &[(&update, vec![&grant])], &mut make);
        let Some(next) = next else {
            // A program makes those.
            assert!(results[0].is_err(), "{changes:?}");
            continue;
        };
        let step = next.step.as_ref();
        assert_eq!(step.is_none(), is_whole, "{changes:?}");
        if let Some(step) = step {
            assert_eq!(named(&step.removed), removed, "{changes:?}");
            assert_eq!(named(&step.added), added, "{changes:?}");
            assert_eq!(SoaTimes::of(&step.soa.rdata).unwrap().serial, 8);
        }
        assert_eq!(next.zone.soa().serial, 8);
    }
    // The new records with the two servers, and all of them for the wildcard.
    assert_eq!(n_made, [3, 3, 3, served.n_records()]);
}
