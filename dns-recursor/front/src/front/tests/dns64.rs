//! AAAA records made of A records.

use super::*;

const SIX: &str = "2001:db8:64::/96";

/// A server that makes AAAA records, for the clients in `clients`.
fn server_with_dns64(clients: &str) -> Server {
    let mut server = server();
    server.view.dns64 = Some(Arc::new(Dns64 {
        prefixes: vec![SIX.parse().unwrap()],
        clients: Some(clients.parse().unwrap()),
        exclude: vec!["::ffff:0:0/96".parse().unwrap()],
        mapped: None,
        break_dnssec: false,
    }));
    server
}

/// A question for AAAA records, with flags beside RD.
fn ask_six(name: &str, flags: u16) -> Vec<u8> {
    let mut message = testing::query(7, &testing::question(name, Type::AAAA), None);
    let flags = Flags::read(&message).unwrap().with(flags);
    header::set_word(&mut message, 2, flags.0);
    message
}

fn store_six(server: &Server, name: &str, rows: &[testing::Row<'_>]) {
    let answer = answer(name, Type::AAAA, Rcode::NOERROR, rows);
    let keep = Keep {
        pool: answer.pool,
        lifetime: Duration::from_secs(answer.lifetime.into()),
    };
    let key = Key::new(
        Seed(3),
        &testing::question(name, Type::AAAA),
        Variant::default(),
    );
    let now = Instant::from_millis(server.now);
    server.cache.store(&key, answer.message, keep, now);
}

/// The addresses of AAAA records in a response, and its TTLs.
fn six(reply: &[u8]) -> (Vec<String>, Vec<u32>) {
    let records = dns_wire::Records::new(reply).unwrap().map(Result::unwrap);
    let six = records.filter(|record| record.rtype == Type::AAAA);
    six.map(|record| {
        let octets: [u8; 16] = reply[record.rdata].try_into().unwrap();
        (std::net::Ipv6Addr::from(octets).to_string(), record.ttl)
    })
    .unzip()
}

const SOA: testing::Row<'_> = (Section::Authority, "example", Type::SOA, 40, "40");

#[test]
fn aaaa_records_are_made_of_a_records_in_the_cache() {
    let mut server = server_with_dns64("198.51.100.0/24");
    let asked = ask_six("a.example", 0);
    assert_eq!(
        server.judge(&asked),
        (Done::Resolve { has_stale: false }, Source::Resolver)
    );
    store_six(&server, "a.example", &[SOA]);
    // The denial is here: the question is for A records.
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let judged = front.judge(&asked, ALLOWED, Transport::Udp, &mut key, &mut out);
    assert!(matches!(judged.verdict, Verdict::Resolve { .. }));
    assert_eq!(key.qtype(), Type::A);
    let query = Query::parse(&asked).unwrap();
    let prospect = front.foresee(&query, true, &mut key);
    assert!(prospect.is_synthesized, "{prospect:?}");
    assert_eq!(key.qtype(), Type::A);
    server.now = 10_000;
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    let (done, source) = server.judge(&asked);
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Dns64);
    // The denial has 30 seconds left, the address 60.
    assert_eq!(
        six(&reply),
        (vec!["2001:db8:64::c000:207".into()], vec![30])
    );
    assert_eq!(&reply[12..12 + 11], &asked[12..12 + 11]);
}

#[test]
fn others_than_clients_behind_the_nat64_get_what_there_is() {
    for (clients, flags) in [("192.0.2.0/24", 0), ("198.51.100.0/24", Flags::CD)] {
        let server = server_with_dns64(clients);
        let variant = Variant::new(false, flags != 0);
        let message = answer("a.example", Type::AAAA, Rcode::NOERROR, &[SOA]);
        let asked = testing::question("a.example", Type::AAAA);
        let keep = Keep {
            pool: Pool::Negative,
            lifetime: Duration::from_secs(40),
        };
        let key = Key::new(Seed(3), &asked, variant);
        server
            .cache
            .store(&key, message.message, keep, Instant::START);
        server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
        let (done, source) = server.judge(&ask_six("a.example", flags));
        let Done::Reply(reply) = done else {
            panic!("{done:?}");
        };
        assert_eq!((counts(&reply)[1], source), (0, Source::Negative));
    }
}

#[test]
fn a_native_address_and_a_name_that_does_not_exist_stay() {
    let server = server_with_dns64("0.0.0.0/0");
    let native = (Section::Answer, "a.example", Type::AAAA, 60, "2001:db8::1");
    let excluded = (
        Section::Answer,
        "a.example",
        Type::AAAA,
        60,
        "::ffff:1.2.3.4",
    );
    store_six(&server, "a.example", &[excluded, native]);
    let (done, source) = server.judge(&ask_six("a.example", 0));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Positive);
    assert_eq!(six(&reply).0, ["2001:db8::1"]);
}

#[test]
fn stale_records_are_made_of_stale_ones() {
    let mut server = server_with_dns64("0.0.0.0/0");
    store_six(&server, "a.example", &[SOA]);
    server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
    server.now = 1_000_000;
    let asked = ask_six("a.example", 0);
    assert_eq!(server.judge(&asked).0, Done::Resolve { has_stale: true });
    for route in server.view.table.routes() {
        route.set_down(true);
    }
    let (done, source) = server.judge(&asked);
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Stale);
    assert_eq!(
        six(&reply),
        (vec!["2001:db8:64::c000:207".into()], vec![30])
    );
}

#[test]
fn a_failure_for_aaaa_records_leads_to_a_records_but_a_bogus_answer_does_not() {
    for (info_code, leads) in [(None, true), (Some(6), false)] {
        let server = server_with_dns64("0.0.0.0/0");
        server.store("a.example", Rcode::NOERROR, &[ADDRESS]);
        let question = testing::question("a.example", Type::AAAA);
        let key = Key::new(Seed(3), &question, Variant::default());
        let failure = Message::empty(&question, Rcode::SERVFAIL);
        let failure = failure.map(|failure| failure.with_info_code(info_code));
        let recheck = Duration::from_secs(1);
        server
            .cache
            .note_failure(&key, failure, recheck, Instant::START);
        let (done, source) = server.judge(&ask_six("a.example", 0));
        let Done::Reply(reply) = done else {
            panic!("{done:?}");
        };
        let expected = match leads {
            true => (1, Source::Dns64),
            false => (0, Source::Failure),
        };
        assert_eq!((six(&reply).0.len(), source), expected);
    }
}

#[test]
fn names_of_the_configuration_have_aaaa_records_too() {
    let mut server = server_with_dns64("0.0.0.0/0");
    let name = Name::parse("node.example").unwrap();
    let given = dns_names::names::Given {
        name,
        is_below: false,
        ttl: 60,
        has_reverse: true,
        data: dns_names::names::GivenData::Addresses {
            addresses: vec!["192.0.2.9".parse().unwrap()],
            port: None,
        },
    };
    let options = dns_names::names::HostsOptions {
        ttl: 60,
        has_reverse: true,
    };
    server.names.table = Arc::new(dns_names::names::NameTable::new(&[given], [], options));
    let (done, source) = server.judge(&ask_six("node.example", 0));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Dns64);
    assert_eq!(six(&reply).0, ["2001:db8:64::c000:209"]);
}

#[test]
fn reverse_names_of_the_prefix_are_aliases_and_the_well_known_name_is_answered() {
    let server = server_with_dns64("0.0.0.0/0");
    let name = dns_names::reverse::name("2001:db8:64::c000:209".parse().unwrap());
    let message = testing::query(7, &testing::question(&name.to_string(), Type::PTR), None);
    let front = server.front(0);
    let (mut key, mut out) = (Key::default(), [0; 512]);
    let judged = front.judge(&message, ALLOWED, Transport::Udp, &mut key, &mut out);
    assert!(!matches!(
        judged.verdict,
        Verdict::Resolve { derived: None, .. }
    ));
    assert_eq!(
        key.name(),
        b"\x019\x012\x010\x03192\x07in-addr\x04arpa\0".as_slice()
    );
    let prospect = front.foresee(&Query::parse(&message).unwrap(), true, &mut key);
    let target = Name::parse("9.2.0.192.in-addr.arpa").unwrap();
    assert_eq!(prospect.alias, Some(target));
    let (done, source) = server.judge(&ask_six("ipv4only.arpa", 0));
    let Done::Reply(reply) = done else {
        panic!("{done:?}");
    };
    assert_eq!(source, Source::Local);
    assert_eq!(six(&reply).0.len(), 2);
}
