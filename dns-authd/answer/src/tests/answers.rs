//! Answers by table: live sets, EDNS, classes, sizes, and octets at random.

use std::collections::BTreeSet;
use std::sync::Arc;

use dns_lua::select::{Member, Select};
use dns_wire::edns::{extended_error, option};
use dns_wire::hash::Seed;
use dns_wire::header::Flags;
use dns_wire::{Class, Name, Rcode, Records, Section, Type};

use crate::live::{Drawn, Failure, LiveAnswer, LiveSets, Part};
use crate::table::{Origin, Served, Table};
use crate::testing::{client, decode, query, records, snapshot};
use crate::*;

const ZONE: &str = "\
example. 3600 SOA ns.example. h.example. 9 2 3 4 60
example. 300 NS ns.example.
example. 300 NS ns.sub.example.
ns.example. 300 A 192.0.2.53
Sub.example. 300 NS ns.Sub.example.
sub.example. 300 NS ns.other.test.
ns.sub.example. 300 A 192.0.2.54
www.example. 300 A 192.0.2.80
www.example. 300 AAAA 2001:db8::80
alias.example. 300 CNAME live.example.
*.wild.example. 300 LUA A ifportup()
live.example. 180 LUA A ifportup()
mixed.example. 300 A 192.0.2.1
mixed.example. 180 LUA A pick()
mail.example. 300 MX 10 live.example.
";

/// The query with an OPT record: UDP size, version, flags, options.
pub(super) fn with_edns(
    name: &str,
    qtype: Type,
    size: u16,
    version: u8,
    options: &[u8],
) -> Vec<u8> {
    let mut message = query(&name.parse().unwrap(), qtype);
    message[11] = 1;
    message.extend([0, 0, 41]);
    message.extend(size.to_be_bytes());
    message.extend([0, version, 0x80, 0]);
    message.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
    message.extend_from_slice(options);
    message
}

pub(super) fn plain(name: &str, qtype: Type) -> Vec<u8> {
    query(&name.parse().unwrap(), qtype)
}

pub(super) fn verdict(snapshot: &Snapshot, message: &[u8], client: &Client) -> (Verdict, Vec<u8>) {
    let mut out = vec![0xee; MAX_MESSAGE];
    let mut responder = Responder::new(NoPrograms, 7);
    let verdict = responder.respond(snapshot, message, client, &mut out);
    if let Verdict::Reply(length) = verdict {
        out.truncate(length);
    }
    (verdict, out)
}

pub(super) fn ask(snapshot: &Snapshot, message: &[u8], transport: Transport) -> Vec<u8> {
    match verdict(snapshot, message, &client(transport)) {
        (Verdict::Reply(_), reply) => reply,
        (other, _) => panic!("{other:?}"),
    }
}

pub(super) fn udp(snapshot: &Snapshot, message: &[u8]) -> Vec<u8> {
    ask(snapshot, message, Transport::Udp)
}

pub(super) fn rcode(reply: &[u8]) -> Rcode {
    let high = opt(reply).map_or(0, |(_, ttl, _)| u16::from(ttl.to_be_bytes()[0]));
    Rcode(high << 4 | Flags::read(reply).unwrap().rcode().0)
}

/// UDP size, TTL field and options of the response's OPT record.
fn opt(reply: &[u8]) -> Option<(u16, u32, Vec<u8>)> {
    let records = Records::new(reply).unwrap();
    let found: Vec<_> = records
        .map(Result::unwrap)
        .filter(|record| record.rtype == Type::OPT)
        .collect();
    assert!(found.len() <= 1);
    let record = found.first()?;
    assert_eq!(record.section, Section::Additional);
    Some((
        record.class.0,
        record.ttl,
        reply[record.rdata.clone()].to_vec(),
    ))
}

fn extended(reply: &[u8]) -> Option<u16> {
    let (_, _, options) = opt(reply)?;
    let edns = dns_wire::Edns::from_record(1232, 0, &options);
    assert!(edns.is_well_formed());
    let data = edns.option(option::EXTENDED_ERROR)?;
    Some(u16::from_be_bytes(data.try_into().unwrap()))
}

fn addresses(reply: &[u8]) -> Vec<u8> {
    let records = Records::new(reply).unwrap().map(Result::unwrap);
    records
        .filter(|record| record.rtype == Type::A)
        .map(|record| reply[record.rdata.end - 1])
        .collect()
}

pub(super) fn zone() -> Snapshot {
    snapshot("example.", &records(ZONE))
}

//--- Live sets

fn drawn(select: Select, values: &[u8]) -> Part {
    let members = values.iter().map(|last| {
        let member = Member {
            value: String::new(),
            weight: 1,
        };
        (member, vec![192, 0, 2, *last])
    });
    Part::Drawn(Drawn::new(Type::A, 9, select, members.collect()).unwrap())
}

fn live(parts: Vec<Part>) -> LiveAnswer {
    LiveAnswer {
        parts,
        ttl: 9,
        ..LiveAnswer::default()
    }
}

/// The zone with these answers of `*.wild`, `live` and `mixed`.
fn with_live(sets: Vec<LiveAnswer>) -> Snapshot {
    let plain = zone();
    let served = Arc::clone(plain.table.zones().get(0).unwrap());
    let order: Vec<String> = served
        .zone
        .as_ref()
        .unwrap()
        .live_sets()
        .iter()
        .map(|set| set.owner.to_string())
        .collect();
    assert_eq!(
        order,
        ["*.wild.example.", "live.example.", "mixed.example."]
    );
    let served = Arc::new(Served {
        apex: served.apex.clone(),
        zone: served.zone.clone(),
        parts: None,
        live: Arc::new(LiveSets::new(sets, None)),
        origin: Origin::Configured,
        view: None,
        access: None,
    });
    Snapshot {
        table: plain.table.replace([served]),
        views: ViewTables::default(),
        settings: plain.settings,
    }
}

/// Makes one address, whatever the program.
struct OneAddress;

impl Programs for OneAddress {
    fn run(&mut self, _program: &Call<'_>) -> Result<(u32, Vec<Vec<u8>>), Failure> {
        Ok((7, vec![vec![192, 0, 2, 77]]))
    }
}

#[test]
fn any_gets_what_a_program_makes_as_records_of_the_type_it_makes() {
    let set = || live(vec![Part::Program(0)]);
    let snapshot = with_live(vec![set(), set(), set()]);
    let mut responder = Responder::new(OneAddress, 7);
    let mut out = vec![0; MAX_MESSAGE];
    for name in ["live.example.", "x.wild.example."] {
        for qtype in [Type::A, Type::ANY] {
            let message = plain(name, qtype);
            let client = client(Transport::Udp);
            let verdict = responder.respond(&snapshot, &message, &client, &mut out);
            let Verdict::Reply(length) = verdict else {
                panic!("{verdict:?}");
            };
            let line = (name.parse().unwrap(), Type::A, 7, vec![192, 0, 2, 77]);
            let answer = decode(&out[..length]).answer;
            assert_eq!(answer, BTreeSet::from([line]), "{name} {qtype}");
        }
    }
}

fn three(select: &Select) -> Snapshot {
    let set = || live(vec![drawn(select.clone(), &[13, 14, 15])]);
    with_live(vec![set(), set(), set()])
}

#[test]
fn a_live_set_is_drawn_from_for_each_query() {
    let snapshot = three(&Select::Random);
    let mut responder = Responder::new(NoPrograms, 3);
    let mut seen = [0_u32; 3];
    let mut out = [0; 512];
    for name in ["live.example.", "x.y.wild.example."] {
        for _ in 0..3000 {
            let message = plain(name, Type::A);
            let client = client(Transport::Udp);
            let verdict = responder.respond(&snapshot, &message, &client, &mut out);
            let Verdict::Reply(length) = verdict else {
                panic!("{verdict:?}");
            };
            let response = decode(&out[..length]);
            let line = response.answer.first().unwrap();
            assert_eq!((response.answer.len(), line.2), (1, 9));
            assert_eq!(line.0, name.parse().unwrap());
            assert!(response.authoritative);
            seen[usize::from(line.3[3] - 13)] += 1;
        }
    }
    assert!(seen.iter().all(|n| (1800..2200).contains(n)), "{seen:?}");
}

#[test]
fn all_some_and_hashed_members_are_drawn_as_told() {
    let all = udp(&three(&Select::All), &plain("live.example.", Type::A));
    assert_eq!(addresses(&all), [13, 14, 15]);
    let two = udp(&three(&Select::Sample(2)), &plain("live.example.", Type::A));
    assert_eq!(
        addresses(&two).into_iter().collect::<BTreeSet<_>>().len(),
        2
    );
    let hashed = three(&Select::Hashed);
    let first = udp(&hashed, &plain("live.example.", Type::A));
    for _ in 0..10 {
        assert_eq!(udp(&hashed, &plain("live.example.", Type::A)), first);
    }
}

#[test]
fn records_of_several_parts_come_once_each() {
    let parts = vec![drawn(Select::All, &[1]), drawn(Select::All, &[1, 2])];
    let snapshot = with_live(vec![
        LiveAnswer::default(),
        LiveAnswer::default(),
        live(parts),
    ]);
    let reply = udp(&snapshot, &plain("mixed.example.", Type::A));
    assert_eq!(addresses(&reply), [1, 2]);
}

#[test]
fn a_live_set_without_records_is_nodata() {
    let snapshot = with_live(vec![live(Vec::new()); 3]);
    let response = decode(&udp(&snapshot, &plain("live.example.", Type::A)));
    assert_eq!((response.rcode, response.answer.len()), (0, 0));
    assert_eq!(response.authority.first().unwrap().1, Type::SOA);
    assert!(response.authoritative);
    // The type that is not live is static.
    let other = decode(&udp(&snapshot, &plain("live.example.", Type::AAAA)));
    assert_eq!(other, response);
}

#[test]
fn a_live_set_that_fails_says_why() {
    for (failure, why) in [
        (Failure::Defect, extended_error::INVALID_DATA),
        (Failure::Incomplete, extended_error::NOT_READY),
        (Failure::AllDown, extended_error::NETWORK_ERROR),
    ] {
        let snapshot = with_live(vec![LiveAnswer::failed(failure); 3]);
        for name in ["live.example.", "alias.example."] {
            let reply = udp(&snapshot, &with_edns(name, Type::A, 1232, 0, &[]));
            assert_eq!(rcode(&reply), Rcode::SERVFAIL, "{name}");
            assert_eq!(extended(&reply), Some(why), "{name}");
            assert!(!Flags::read(&reply).unwrap().has(Flags::AA));
        }
    }
}

#[test]
fn an_answer_by_this_servers_own_probes_says_so_where_there_is_room() {
    let note = |reply: &[u8]| {
        let (_, _, options) = opt(reply)?;
        let edns = dns_wire::Edns::from_record(1232, 0, &options);
        let data = edns.option(option::EXTENDED_ERROR)?;
        let (code, text) = data.split_first_chunk::<2>()?;
        Some((
            u16::from_be_bytes(*code),
            String::from_utf8_lossy(text).into_owned(),
        ))
    };
    let set = |count: u8, stands_in| LiveAnswer {
        stands_in,
        ..live(vec![drawn(Select::All, &(1..=count).collect::<Vec<_>>())])
    };
    let edns = |name, rtype| with_edns(name, rtype, 1232, 0, &[]);
    for stands_in in [true, false] {
        let snapshot = with_live(vec![set(2, stands_in); 3]);
        for name in ["live.example.", "alias.example."] {
            let reply = udp(&snapshot, &edns(name, Type::A));
            assert_eq!(addresses(&reply), [1, 2], "{name}");
            let said = note(&reply);
            assert_eq!(said.is_some(), stands_in, "{name}");
            assert!(said.is_none_or(|(code, text)| {
                code == extended_error::OTHER && text.starts_with("healthd is away")
            }));
        }
        let other = udp(&snapshot, &edns("live.example.", Type::AAAA));
        assert_eq!(note(&other), None, "nothing that is static says it");
        let reply = udp(&snapshot, &plain("live.example.", Type::A));
        assert!(opt(&reply).is_none());
    }
    // 29 records leave 7 octets of 512: the note is left out, no record is.
    let snapshot = with_live(vec![set(29, true); 3]);
    let reply = udp(&snapshot, &with_edns("live.example.", Type::A, 512, 0, &[]));
    assert!(!Flags::read(&reply).unwrap().has(Flags::TC));
    assert_eq!((addresses(&reply).len(), note(&reply)), (29, None));
}

#[test]
fn a_set_of_which_nothing_is_known_asks_for_patience() {
    let mut set = live(vec![drawn(Select::All, &[13, 14])]);
    set.hold = true;
    let snapshot = with_live(vec![set; 3]);
    for (name, number) in [
        ("x.wild.example.", 0),
        ("live.example.", 1),
        ("alias.example.", 1),
    ] {
        let message = plain(name, Type::A);
        let patient = client(Transport::Udp);
        let (asked, _) = verdict(&snapshot, &message, &patient);
        let apex = "example.".parse().unwrap();
        assert_eq!(
            asked,
            Verdict::Wait {
                zone: apex,
                set: number
            },
            "{name}"
        );
        let hasty = Client {
            can_wait: false,
            ..patient
        };
        let (answered, reply) = verdict(&snapshot, &message, &hasty);
        assert!(matches!(answered, Verdict::Reply(_)));
        assert_eq!(addresses(&reply), [13, 14], "{name}");
    }
}

#[test]
fn an_alias_to_a_live_set_is_followed() {
    let response = decode(&udp(
        &three(&Select::All),
        &plain("alias.example.", Type::A),
    ));
    assert_eq!(response.answer.len(), 4);
    assert!(response.authoritative);
    let mail = decode(&udp(
        &three(&Select::All),
        &plain("mail.example.", Type::MX),
    ));
    assert_eq!((mail.answer.len(), mail.additional.len()), (1, 0));
}

#[test]
fn a_live_alias_is_followed() {
    let text = format!("{ZONE}moves.example. 180 LUA CNAME pick()\n");
    let plain = snapshot("example.", &records(&text));
    let served = Arc::clone(plain.table.zones().get(0).unwrap());
    let target: Name = "www.example.".parse().unwrap();
    let member = Member {
        value: String::new(),
        weight: 1,
    };
    let members = vec![(member, target.as_wire().to_vec())];
    let part = Part::Drawn(Drawn::new(Type::CNAME, 9, Select::Random, members).unwrap());
    let mut sets = vec![LiveAnswer::default(); 3];
    sets.push(live(vec![part]));
    let served = Arc::new(Served {
        apex: served.apex.clone(),
        zone: served.zone.clone(),
        parts: None,
        live: Arc::new(LiveSets::new(sets, None)),
        origin: Origin::Configured,
        view: None,
        access: None,
    });
    let snapshot = Snapshot {
        table: plain.table.replace([served]),
        views: ViewTables::default(),
        settings: plain.settings,
    };
    let alias = decode(&udp(
        &snapshot,
        &query(&"moves.example.".parse().unwrap(), Type::CNAME),
    ));
    assert_eq!(alias.answer.len(), 1);
    let followed = decode(&udp(
        &snapshot,
        &query(&"moves.example.".parse().unwrap(), Type::A),
    ));
    let types: BTreeSet<Type> = followed.answer.iter().map(|line| line.1).collect();
    assert_eq!(types, BTreeSet::from([Type::A, Type::CNAME]));
}

/// Makes one record that tells what it was called with.
struct Telling;

impl Programs for Telling {
    fn run(&mut self, call: &Call<'_>) -> Result<(u32, Vec<Vec<u8>>), Failure> {
        let program = u8::try_from(call.program).map_err(|_| Failure::Defect)?;
        match call.subnet {
            Some(subnet) => Ok((3, vec![vec![subnet.source_prefix, 0, 0, program]])),
            None if call.query.qname.len() > 20 => Err(Failure::Defect),
            None => Ok((
                3,
                vec![vec![10, 0, 0, program], vec![10, 0, 0, program + 1]],
            )),
        }
    }
}

#[test]
fn programs_that_need_the_query_are_run_for_it() {
    let parts = vec![drawn(Select::All, &[1]), Part::Program(4)];
    let snapshot = with_live(vec![
        live(parts.clone()),
        live(parts),
        LiveAnswer::default(),
    ]);
    let mut responder = Responder::new(Telling, 1);
    let mut out = [0; 512];
    for (name, wanted) in [
        ("live.example.", Some(vec![1, 4, 5])),
        ("alias.example.", Some(vec![1, 4, 5])),
        ("a.wild.example.", Some(vec![1, 4, 5])),
        ("a-long-label.wild.example.", None),
    ] {
        let client = client(Transport::Udp);
        let verdict = responder.respond(&snapshot, &plain(name, Type::A), &client, &mut out);
        let Verdict::Reply(length) = verdict else {
            panic!("{verdict:?}");
        };
        decode(&out[..length]);
        match wanted {
            Some(wanted) => assert_eq!(addresses(&out[..length]), wanted, "{name}"),
            None => assert_eq!(rcode(&out[..length]), Rcode::SERVFAIL, "{name}"),
        }
    }
}

//--- Classes, opcodes, EDNS

#[test]
fn chaos_tells_what_the_operator_lets_it() {
    let mut snapshot = zone();
    let chaos = |name: &str, qtype: Type| {
        let mut message = plain(name, qtype);
        let end = message.len();
        message[end - 1] = 3;
        message
    };
    let reply = udp(&snapshot, &chaos("version.bind.", Type::TXT));
    assert_eq!(rcode(&reply), Rcode::REFUSED);
    snapshot.settings.chaos = vec![("version.bind.".parse().unwrap(), "x".repeat(300))];
    let reply = udp(&snapshot, &chaos("VERSION.bind.", Type::TXT));
    let record = Records::new(&reply).unwrap().next().unwrap().unwrap();
    assert_eq!((record.class, record.ttl), (Class::CH, 0));
    assert_eq!(record.rdata.len(), 302);
    let none = decode(&udp(&snapshot, &chaos("version.bind.", Type::A)));
    assert_eq!((none.rcode, none.answer.len()), (0, 0));
    let reply = udp(&snapshot, &chaos("id.server.", Type::TXT));
    assert_eq!(rcode(&reply), Rcode::REFUSED);
}

#[test]
fn a_question_for_every_class_gets_what_there_is_and_not_as_the_last_word() {
    let every = |qtype| {
        let mut message = plain("www.example.", qtype);
        let end = message.len();
        message[end - 1] = 255;
        message
    };
    let reply = udp(&zone(), &every(Type::A));
    assert_eq!(rcode(&reply), Rcode::NOERROR);
    assert!(!Flags::read(&reply).unwrap().has(Flags::AA));
    let record = Records::new(&reply).unwrap().next().unwrap().unwrap();
    assert_eq!((record.rtype, record.class), (Type::A, Class::IN));
    let transfer = ask(&zone(), &every(Type::AXFR), Transport::Tcp);
    assert_eq!(rcode(&transfer), Rcode::REFUSED);
}

#[test]
fn other_classes_are_refused() {
    for class in [2, 4, 254] {
        let mut message = plain("www.example.", Type::A);
        let end = message.len();
        message[end - 1] = class;
        assert_eq!(rcode(&udp(&zone(), &message)), Rcode::REFUSED, "{class}");
    }
}

#[test]
fn an_edns_version_to_come_is_told_ours() {
    let reply = udp(&zone(), &with_edns("www.example.", Type::A, 1232, 1, &[]));
    assert_eq!(rcode(&reply), Rcode::BADVERS);
    let (size, ttl, _) = opt(&reply).unwrap();
    assert_eq!((size, ttl), (1232, 0x0100_8000), "version 0, DO copied");
    assert!(!Flags::read(&reply).unwrap().has(Flags::AA));
    assert_eq!(decode(&reply).answer.len(), 0);
}

#[test]
fn the_question_comes_back_letter_for_letter() {
    let message = plain("wWw.ExAmPlE.", Type::AAAA);
    let reply = udp(&zone(), &message);
    assert_eq!(reply[12..message.len()], message[12..]);
    assert_eq!(reply[..2], message[..2]);
    let flags = Flags::read(&reply).unwrap();
    assert!(flags.has(Flags::QR | Flags::AA | Flags::RD) && !flags.has(Flags::RA));
}

#[test]
fn options_are_answered_when_asked_for() {
    let mut snapshot = zone();
    snapshot.settings.nsid = Some((*b"node-1").into());
    let asks = [0, 3, 0, 0, 0, 11, 0, 0];
    let message = with_edns("www.example.", Type::A, 1232, 0, &asks);
    let (_, _, over_udp) = opt(&udp(&snapshot, &message)).unwrap();
    assert_eq!(over_udp, b"\0\x03\0\x06node-1");
    let (_, _, over_tcp) = opt(&ask(&snapshot, &message, Transport::Tcp)).unwrap();
    assert_eq!(over_tcp, b"\0\x03\0\x06node-1\0\x0b\0\x02\0\x64");
    let plain = with_edns("www.example.", Type::A, 1232, 0, &[]);
    assert!(opt(&udp(&snapshot, &plain)).unwrap().2.is_empty());
}

#[test]
fn a_client_subnet_counts_only_where_it_is_let() {
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100];
    let message = with_edns("live.example.", Type::A, 1232, 0, &subnet);
    let mut snapshot = three(&Select::Hashed);
    assert!(opt(&udp(&snapshot, &message)).unwrap().2.is_empty());
    snapshot.settings.client_subnet = true;
    let (_, _, options) = opt(&udp(&snapshot, &message)).unwrap();
    assert_eq!(options, [0, 8, 0, 7, 0, 1, 24, 24, 198, 51, 100]);
    let elsewhere = with_edns("www.example.", Type::A, 1232, 0, &subnet);
    let (_, _, options) = opt(&udp(&snapshot, &elsewhere)).unwrap();
    assert_eq!(options, subnet, "scope 0: the same for everybody");
}

#[test]
fn a_client_subnet_that_breaks_its_format_is_a_format_error_where_it_counts() {
    let mut snapshot = three(&Select::Hashed);
    for subnet in [
        &[0, 8, 0, 7, 0, 1, 48, 0, 10, 0, 0][..],
        &[0, 8, 0, 7, 0, 1, 16, 0, 10, 0, 1],
        &[0, 8, 0, 4, 0, 3, 0, 0],
        &[0, 8, 0, 3, 0, 1, 0],
    ] {
        let message = with_edns("www.example.", Type::A, 1232, 0, subnet);
        snapshot.settings.client_subnet = false;
        assert_eq!(rcode(&udp(&snapshot, &message)), Rcode::NOERROR);
        snapshot.settings.client_subnet = true;
        let reply = udp(&snapshot, &message);
        assert_eq!(rcode(&reply), Rcode::FORMERR, "{subnet:?}");
        assert_eq!(decode(&reply).answer.len(), 0);
    }
}

//--- Who may ask

#[test]
fn outsiders_are_refused_with_the_reason_and_noise_of_theirs_is_not_answered() {
    let outsider = Client {
        may_ask: false,
        ..client(Transport::Udp)
    };
    let mut responder = Responder::new(NoPrograms, 7);
    let mut out = vec![0; MAX_MESSAGE];
    let snapshot = zone();
    let message = with_edns("www.example.", Type::A, 1232, 0, &[]);
    let verdict = responder.respond(&snapshot, &message, &outsider, &mut out);
    let Verdict::Reply(length) = verdict else {
        panic!("{verdict:?}");
    };
    let reply = &out[..length];
    assert_eq!(rcode(reply), Rcode::REFUSED);
    assert_eq!(extended(reply), Some(extended_error::PROHIBITED));
    assert_eq!(decode(reply).answer.len(), 0);
    let mut status = plain("www.example.", Type::A);
    status[2] = 0x10;
    for noise in [&message[..20], &status] {
        let verdict = responder.respond(&snapshot, noise, &outsider, &mut out);
        assert_eq!(verdict, Verdict::Silent);
    }
    let transfer = plain("example.", Type::AXFR);
    let over_tcp = Client {
        transport: Transport::Tcp,
        ..outsider
    };
    let verdict = responder.respond(&snapshot, &transfer, &over_tcp, &mut out);
    assert!(matches!(verdict, Verdict::Reply(_)), "{verdict:?}");
    assert_eq!(responder.tally().take().outsiders, 4);
}

//--- Names that are not ours

#[test]
fn what_is_not_ours_is_refused_with_the_reason() {
    let reply = udp(&zone(), &with_edns("example.org.", Type::A, 1232, 0, &[]));
    assert_eq!(rcode(&reply), Rcode::REFUSED);
    assert_eq!(extended(&reply), Some(extended_error::NOT_AUTHORITATIVE));
    assert_eq!(rcode(&udp(&zone(), &plain(".", Type::NS))), Rcode::REFUSED);
    let transfer = ask(&zone(), &plain("example.org.", Type::AXFR), Transport::Tcp);
    assert_eq!(rcode(&transfer), Rcode::NOTAUTH);
}

#[test]
fn a_zone_that_never_was_loaded_fails() {
    let served = Served {
        apex: "example.".parse().unwrap(),
        zone: None,
        parts: None,
        live: Arc::default(),
        origin: Origin::Configured,
        view: None,
        access: None,
    };
    let snapshot = Snapshot {
        table: Table::new(Seed(1), &[Arc::new(served)]),
        views: ViewTables::default(),
        settings: Settings::default(),
    };
    let reply = udp(&snapshot, &with_edns("www.example.", Type::A, 1232, 0, &[]));
    assert_eq!(rcode(&reply), Rcode::SERVFAIL);
    assert_eq!(extended(&reply), Some(extended_error::NOT_READY));
}

//--- ANY, transfers, sizes

#[test]
fn any_gets_one_set_or_all_over_tcp() {
    let mut snapshot = zone();
    let one = decode(&udp(&snapshot, &plain("www.example.", Type::ANY)));
    assert_eq!(one.answer.len(), 1);
    snapshot.settings.any = Any::AllOverTcp;
    let cut = udp(&snapshot, &plain("www.example.", Type::ANY));
    assert!(Flags::read(&cut).unwrap().has(Flags::TC));
    let all = decode(&ask(
        &snapshot,
        &plain("www.example.", Type::ANY),
        Transport::Tcp,
    ));
    assert_eq!(all.answer.len(), 2);
    for any in [Any::One, Any::AllOverTcp] {
        snapshot.settings.any = any;
        for (name, code, authoritative) in [
            ("nothing.example.", Rcode::NXDOMAIN, true),
            ("x.sub.example.", Rcode::NOERROR, false),
            ("wild.example.", Rcode::NOERROR, true),
        ] {
            let message = plain(name, Type::ANY);
            let response = decode(&ask(&snapshot, &message, Transport::Tcp));
            assert_eq!(
                (
                    response.rcode,
                    response.authoritative,
                    response.answer.len()
                ),
                (code.0, authoritative, 0),
                "{name} {any:?}"
            );
        }
    }
}

#[test]
fn a_referral_whose_glue_does_not_fit_is_truncated() {
    let mut text = ZONE.to_owned();
    for number in 0..30 {
        text.push_str(&format!("sub.example. 300 NS n{number}.sub.example.\n"));
        text.push_str(&format!(
            "n{number}.sub.example. 300 AAAA 2001:db8::{number}\n"
        ));
    }
    let snapshot = snapshot("example.", &records(&text));
    let reply = udp(&snapshot, &plain("x.sub.example.", Type::A));
    let flags = Flags::read(&reply).unwrap();
    assert!(flags.has(Flags::TC) && !flags.has(Flags::AA));
    assert!(reply.len() <= 512);
    decode(&reply);
    let whole = decode(&ask(
        &snapshot,
        &plain("x.sub.example.", Type::A),
        Transport::Tcp,
    ));
    assert_eq!((whole.authority.len(), whole.additional.len()), (32, 31));
    // Over a name in another letter case, the servers are the same.
    let other = plain("X.sUB.eXAMPLE.", Type::A);
    assert_eq!(decode(&ask(&snapshot, &other, Transport::Tcp)), whole);
}

#[test]
fn a_response_is_never_longer_than_the_client_takes() {
    let mut text = ZONE.to_owned();
    for number in 0..40 {
        text.push_str(&format!(
            "big.example. 300 TXT \"{}\"\n",
            "y".repeat(number + 20)
        ));
    }
    let mut snapshot = snapshot("example.", &records(&text));
    snapshot.settings.nsid = Some(vec![b'n'; 100].into());
    for size in [0, 512, 600, 1000, 1232, 1400, 4096, 65_535] {
        for name in [
            "big.example.",
            "www.example.",
            "none.example.",
            "x.sub.example.",
        ] {
            for rtype in [Type::TXT, Type::A] {
                let message = with_edns(name, rtype, size, 0, &[0, 3, 0, 0]);
                let reply = udp(&snapshot, &message);
                assert!(
                    reply.len() <= usize::from(size.clamp(512, 1232)),
                    "{name} {size}"
                );
                decode(&reply);
                assert!(opt(&reply).is_some(), "a truncated response keeps its OPT");
            }
        }
    }
    let whole = decode(&ask(
        &snapshot,
        &plain("big.example.", Type::TXT),
        Transport::Tcp,
    ));
    assert_eq!(whole.answer.len(), 40);
}

//--- Anything

#[test]
fn any_octets_get_a_readable_response_or_silence() {
    let mut settings_any = three(&Select::Random);
    settings_any.settings.client_subnet = true;
    settings_any.settings.nsid = Some((*b"n").into());
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100, 0, 3, 0, 0];
    let seeds = [
        with_edns("x.wild.example.", Type::A, 600, 0, &subnet),
        plain("alias.example.", Type::ANY),
        plain("x.sub.example.", Type::DS),
    ];
    let mut state = 1_u64;
    let mut roll = |sides: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % sides
    };
    for _ in 0..30_000 {
        let mut message = seeds[roll(seeds.len())].clone();
        for _ in 0..roll(4) {
            let place = roll(message.len());
            message[place] = [0, 1, 0xc0, 0x3f, 0x41, 0xff, 3, 41][roll(8)];
        }
        message.truncate(message.len().saturating_sub(roll(3) * roll(20)));
        for transport in [Transport::Udp, Transport::Tcp] {
            if let (Verdict::Reply(_), reply) = verdict(&settings_any, &message, &client(transport))
            {
                assert_eq!(reply[..2], message[..2]);
                assert!(Flags::read(&reply).unwrap().has(Flags::QR));
                let records = Records::new(&reply).unwrap();
                assert!(
                    records.into_iter().all(|record| record.is_ok()),
                    "{message:02x?}"
                );
            }
        }
    }
}
