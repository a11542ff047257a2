use std::path::Path;

use dns_cache::message::Row;
use dns_cache::testing::{counts, question};
use dns_resolve::forward::{Mode, Route};
use dns_wire::Records;

use super::*;
use crate::{hosts, zone};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn given(text: &str, of: &[&str]) -> Given {
    let is_below = text.starts_with("*.");
    Given {
        name: name(text.trim_start_matches("*.")),
        is_below,
        ttl: 60,
        has_reverse: true,
        data: GivenData::Addresses {
            addresses: of.iter().map(|it| it.parse().unwrap()).collect(),
            port: None,
        },
    }
}

fn alias(text: &str, target: &str) -> Given {
    Given {
        data: GivenData::Alias(name(target)),
        ..given(text, &[])
    }
}

const HOSTS: &str = "10.0.0.1 node1.example node1\n10.0.0.2 node1.example\nfd00::1 node1.example\n10.0.0.9 api.example\n";

fn names(given: &[Given]) -> Names {
    let hosts = hosts::parse(Path::new("hosts"), HOSTS.as_bytes());
    let options = HostsOptions {
        ttl: 30,
        has_reverse: true,
    };
    Names {
        table: Arc::new(NameTable::new(given, [&hosts], options)),
        ..Names::default()
    }
}

fn reply(names: &Names, text: &str, qtype: Type) -> Option<Reply> {
    let replied = names.reply(&question(text, qtype), None, &Table::default());
    replied.map(|(reply, _)| reply)
}

fn answer(names: &Names, text: &str, qtype: Type) -> Option<Message> {
    match reply(names, text, qtype) {
        Some(Reply::Answer(message)) => Some(message),
        None => None,
        other => panic!("{text} {qtype}: {other:?}"),
    }
}

/// The addresses of both families in a message.
fn addresses(message: &[u8]) -> Vec<String> {
    let records = Records::new(message).unwrap().map(Result::unwrap);
    let address = |data: &[u8]| match <[u8; 4]>::try_from(data) {
        Ok(octets) => Some(IpAddr::from(octets)),
        Err(_) => Some(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
    };
    let records = records.filter(|record| matches!(record.rtype, Type::A | Type::AAAA));
    let found = records.filter_map(|record| address(&message[record.rdata]));
    found.map(|address| address.to_string()).collect()
}

/// The addresses of an answer; none for a name that is not here, and an empty list for no data.
fn found(names: &Names, text: &str, qtype: Type) -> Option<Vec<String>> {
    let message = answer(names, text, qtype)?;
    assert_eq!(message.rcode(), Rcode::NOERROR);
    let has_soa = message.has(Type::SOA);
    let addresses = addresses(message.bytes());
    assert_eq!(addresses.is_empty(), has_soa, "{text} {qtype}");
    Some(addresses)
}

#[test]
fn names_have_addresses_by_family_and_no_data_of_other_types() {
    let names = names(&[
        given("api.example", &["192.0.2.1", "192.0.2.2", "2001:db8::1"]),
        given("*.apps.example", &["192.0.2.3"]),
        given("*.deep.apps.example", &["192.0.2.4"]),
        given("own.apps.example", &["192.0.2.5"]),
    ]);
    let (a, aaaa) = (Type::A, Type::AAAA);
    for (text, qtype, expected) in [
        ("api.example", a, Some(&["192.0.2.1", "192.0.2.2"][..])),
        ("api.example", aaaa, Some(&["2001:db8::1"])),
        ("api.example", Type::MX, Some(&[])),
        ("api.example", Type::HTTPS, Some(&[])),
        ("x.api.example", a, None),
        ("apps.example", a, None),
        ("x.apps.example", a, Some(&["192.0.2.3"])),
        ("x.y.apps.example", a, Some(&["192.0.2.3"])),
        ("x.apps.example", aaaa, Some(&[])),
        ("x.deep.apps.example", a, Some(&["192.0.2.4"])),
        ("own.apps.example", a, Some(&["192.0.2.5"])),
        ("xapps.example", a, None),
        ("node1.example", a, Some(&["10.0.0.1", "10.0.0.2"])),
        ("node1.example", aaaa, Some(&["fd00::1"])),
        ("node1", a, Some(&["10.0.0.1"])),
        ("other.example", a, None),
    ] {
        let expected = expected.map(|it| it.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(found(&names, text, qtype), expected, "{text} {qtype}");
    }
    assert_eq!(names.table.counts(), [4, 2]);
}

#[test]
fn every_address_has_its_names_in_the_reverse_zone() {
    let mut quiet = given("quiet.example", &["192.0.2.9"]);
    quiet.has_reverse = false;
    let names = names(&[
        given("api.example", &["192.0.2.1"]),
        given("api2.example", &["192.0.2.1"]),
        given("*.apps.example", &["192.0.2.3"]),
        quiet,
    ]);
    let pointers = |text: &str| {
        let message = answer(&names, text, Type::PTR)?;
        let bytes = message.bytes().to_vec();
        let records = Records::new(&bytes).unwrap();
        let name = |at: usize| Name::read(&bytes, at).unwrap().0.to_string();
        let names: Vec<String> = records.map(|it| name(it.unwrap().rdata.start)).collect();
        Some(names.join(" "))
    };
    for (text, expected) in [
        ("1.2.0.192.in-addr.arpa", Some("api.example. api2.example.")),
        ("1.0.0.10.in-addr.arpa", Some("node1.example.")),
        ("3.2.0.192.in-addr.arpa", None),
        ("9.2.0.192.in-addr.arpa", None),
        ("8.2.0.192.in-addr.arpa", None),
    ] {
        assert_eq!(pointers(text).as_deref(), expected, "{text}");
    }
    // The zone above it may have other records for the name.
    assert_eq!(reply(&names, "1.2.0.192.in-addr.arpa", Type::TXT), None);
}

#[test]
fn an_address_that_is_down_is_left_out_while_another_is_up() {
    let mut api = given("api.example", &["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    let GivenData::Addresses { port, .. } = &mut api.data else {
        panic!("no addresses");
    };
    *port = Some(6443);
    let mut names = names(&[api, given("free.example", &["192.0.2.1"])]);
    assert_eq!(names.table.probed().len(), 3);
    let mut check = |down: &[&str], v4: &[&str], v6: &[&str]| {
        let down = down.iter().map(|it| it.parse().unwrap());
        names.down = Arc::new(down.collect());
        assert_eq!(found(&names, "api.example", Type::A).unwrap(), v4);
        assert_eq!(found(&names, "api.example", Type::AAAA).unwrap(), v6);
        assert_eq!(
            found(&names, "free.example", Type::A).unwrap(),
            ["192.0.2.1"]
        );
    };
    check(&[], &["192.0.2.1", "192.0.2.2"], &["2001:db8::1"]);
    check(&["192.0.2.1:6443"], &["192.0.2.2"], &["2001:db8::1"]);
    check(
        &["192.0.2.1:443"],
        &["192.0.2.1", "192.0.2.2"],
        &["2001:db8::1"],
    );
    check(
        &["192.0.2.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443"],
        &["192.0.2.1", "192.0.2.2"],
        &["2001:db8::1"],
    );
}

#[test]
fn an_alias_is_followed_here_and_left_to_others_beyond() {
    let names = names(&[
        alias("a.example", "b.example"),
        alias("b.example", "node1.example"),
        alias("c.example", "outside.test"),
        alias("d.example", "c.example"),
        alias("loop1.example", "loop2.example"),
        alias("loop2.example", "loop1.example"),
    ]);
    let whole = answer(&names, "a.example", Type::A).unwrap();
    assert_eq!(counts(whole.bytes()), [1, 4, 0, 0]);
    assert_eq!(addresses(whole.bytes()), ["10.0.0.1", "10.0.0.2"]);
    for (text, n) in [("c.example", 1), ("d.example", 2)] {
        let Some(Reply::Alias { first, target }) = reply(&names, text, Type::A) else {
            panic!("{text}");
        };
        assert_eq!(target, name("outside.test"));
        assert_eq!(counts(first.bytes()), [1, n, 0, 0]);
    }
    let own = answer(&names, "c.example", Type::CNAME).unwrap();
    assert_eq!(counts(own.bytes()), [1, 1, 0, 0]);
    let circle = answer(&names, "loop1.example", Type::A).unwrap();
    assert_eq!(circle.rcode(), Rcode::SERVFAIL);
}

#[test]
fn the_first_zone_with_a_rule_decides_and_names_have_none() {
    let mut names = names(&[given("api.example", &["192.0.2.1"])]);
    let mut first = PolicyZone::default();
    first.add(&name("ok.bad.example"), Rule::PassThru);
    first.add(&name("drop.example"), Rule::Drop);
    first.add(&name("tcp.example"), Rule::TcpOnly);
    let mut second = PolicyZone::default();
    second.add_below(&name("example"), Rule::NxDomain);
    second.add(&name("null.test"), Rule::NullAddress);
    second.add(
        &name("walled.test"),
        Rule::Alias {
            ttl: 5,
            target: name("node1.example"),
        },
    );
    names.policies = vec![Arc::new(first), Arc::new(second)];
    assert_eq!(
        found(&names, "api.example", Type::A).unwrap(),
        ["192.0.2.1"]
    );
    assert_eq!(reply(&names, "ok.bad.example", Type::A), None);
    assert_eq!(reply(&names, "drop.example", Type::A), Some(Reply::Drop));
    assert_eq!(
        reply(&names, "tcp.example", Type::A),
        Some(Reply::Truncated)
    );
    let denied = answer(&names, "x.bad.example", Type::A).unwrap();
    assert_eq!(
        (denied.rcode(), denied.info_code()),
        (Rcode::NXDOMAIN, Some(extended_error::BLOCKED))
    );
    assert_eq!(found(&names, "null.test", Type::A).unwrap(), ["0.0.0.0"]);
    assert_eq!(found(&names, "null.test", Type::AAAA).unwrap(), ["::"]);
    let walled = answer(&names, "walled.test", Type::A).unwrap();
    assert_eq!(addresses(walled.bytes()), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(walled.info_code(), Some(extended_error::FORGED_ANSWER));
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a table of rules, and what they decide"
)]
fn rules_for_clients_come_first_and_those_for_addresses_last() {
    let rules = |lines: &str| {
        let text = format!("$TTL 60\n@ SOA l. r. 1 2 3 4 5\n@ NS l.\n{lines}");
        let zone = zone::parse(Path::new("rpz"), &name("rpz"), text.as_bytes(), None);
        Arc::new(zone.unwrap())
    };
    let names = Names {
        policies: vec![
            rules(
                "ok.test CNAME rpz-passthru.\n32.9.2.0.192.rpz-client-ip CNAME .\n24.0.2.0.192.rpz-ip CNAME *.\n",
            ),
            rules(
                "late.test CNAME rpz-passthru.\n32.1.2.0.192.rpz-ip CNAME .\n32.5.100.51.198.rpz-ip CNAME garden.test.\n\
                 24.0.100.51.198.rpz-ip CNAME .\n128.1.zz.db8.2001.rpz-ip CNAME rpz-drop.\n",
            ),
        ],
        ..Names::default()
    };
    assert!(names.has_answer_rules());
    let client = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let denied = names.reply(
        &question("x.test", Type::A),
        client("192.0.2.9"),
        &Table::default(),
    );
    assert!(
        matches!(denied, Some((Reply::Answer(answer), Origin::Policy)) if answer.rcode() == Rcode::NXDOMAIN)
    );
    let other = client("::ffff:192.0.2.8");
    assert_eq!(
        names.reply(&question("x.test", Type::A), other, &Table::default()),
        None
    );

    let reply = |text: &str, addresses: &[&str]| {
        let owner = name(text);
        let data: Vec<(Type, Vec<u8>)> = addresses
            .iter()
            .map(|text| match text.parse().unwrap() {
                IpAddr::V4(address) => (Type::A, address.octets().to_vec()),
                IpAddr::V6(address) => (Type::AAAA, address.octets().to_vec()),
            })
            .collect();
        let rows: Vec<Row<'_>> = data
            .iter()
            .map(|(rtype, rdata)| Row {
                section: Section::Answer,
                owner: &owner,
                rtype: *rtype,
                ttl: 9,
                rdata,
            })
            .collect();
        let question = question(text, Type::A);
        let answer = Message::compose(&question, Rcode::NOERROR, &rows).unwrap();
        names.reply_to_answer(&question, other, &answer)
    };
    let rcode = |reply: Option<Reply>| match reply {
        Some(Reply::Answer(message)) => Some(message.rcode()),
        None => None,
        other => panic!("{other:?}"),
    };
    // The first zone decides, although the second has a longer prefix.
    assert_eq!(rcode(reply("x.test", &["192.0.2.1"])), Some(Rcode::NOERROR));
    assert_eq!(
        rcode(reply("x.test", &["198.51.100.1"])),
        Some(Rcode::NXDOMAIN)
    );
    // Within a zone, the longest prefix of all addresses.
    let walled = reply("x.test", &["198.51.100.1", "198.51.100.5"]);
    assert!(matches!(walled, Some(Reply::Alias { target, .. }) if target == name("garden.test")));
    assert_eq!(reply("x.test", &["2001:db8::1"]), Some(Reply::Drop));
    assert_eq!(reply("x.test", &["203.0.113.1"]), None);
    assert_eq!(reply("x.test", &[]), None);
    // A rule that lets a name pass ends it; a zone before that one counts.
    assert_eq!(reply("ok.test", &["192.0.2.1"]), None);
    assert_eq!(reply("ok.test", &["198.51.100.1"]), None);
    assert_eq!(
        rcode(reply("late.test", &["192.0.2.1"])),
        Some(Rcode::NOERROR)
    );
    assert_eq!(reply("late.test", &["198.51.100.1"]), None);
}

#[test]
fn the_resolver_itself_finds_names_but_no_rules() {
    let mut names = names(&[
        given("api.example", &["192.0.2.1"]),
        alias("www.example", "api.example"),
        alias("out.example", "outside.test"),
    ]);
    let mut zone = PolicyZone::default();
    zone.add(&name("ns.test"), Rule::NxDomain);
    names.policies = vec![Arc::new(zone)];
    for (text, qtype, is_found) in [
        ("api.example", Type::A, true),
        ("www.example", Type::A, true),
        ("out.example", Type::A, false),
        ("api.example", Type::DS, false),
        ("api.example", Type::DNSKEY, false),
        ("ns.test", Type::A, false),
    ] {
        let answer = names.end_of_chain(&question(text, qtype), &Table::default());
        assert_eq!(answer.is_some(), is_found, "{text} {qtype}");
    }
}

#[test]
fn names_of_one_label_have_no_addresses_where_a_domain_is_needed() {
    let mut names = Names::default();
    let route = |zone: &str| {
        let upstreams = vec!["192.0.2.1:53".parse().unwrap()];
        Route::new(name(zone), Mode::Recursive, upstreams)
    };
    let routes = Table::new([route("."), route("lan")]).with_local([name("localhost")]);
    let ask = |names: &Names, text: &str, qtype| names.reply(&question(text, qtype), None, &routes);
    assert_eq!(ask(&names, "printer", Type::A), None);
    names.domain_needed = true;
    for (text, qtype, is_denied) in [
        ("printer", Type::A, true),
        ("printer", Type::AAAA, true),
        ("printer", Type::SOA, false),
        ("lan", Type::A, false),
        ("localhost", Type::A, false),
        ("a.example", Type::A, false),
        (".", Type::A, false),
    ] {
        assert_eq!(
            ask(&names, text, qtype).is_some(),
            is_denied,
            "{text} {qtype}"
        );
    }
}
