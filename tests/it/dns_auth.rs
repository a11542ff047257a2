//! dns-authd, from outside: what it answers, and what it makes of odd messages.

mod access;
mod across;
mod catalogs;
mod change;
mod cookies;
mod differential;
mod encrypted;
mod flattened;
mod history;
mod kubernetes;
mod loading;
mod nodes;
mod peers;
mod powerdns;
mod rate_limit;
mod secondaries;
mod secondary_zones;
mod signed;
mod transfers;
mod updates;
mod views;
mod xot;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, metric, run};
use tests::dns::{
    self, A, AAAA, ANY, AXFR, CNAME, DNAME, Data, Edns, FORMERR, MX, Message, NOERROR, NOTIMP, NS,
    NXDOMAIN, Question, REFUSED, SOA, TXT, ask, ask_a, ask_tcp, exchange_udp,
};
use tests::scratch::loopback;
use tests::site::Site;
use tests::wait;

/// A zone with one of everything.
const ZONE: &str = r#"$TTL 300
@           IN SOA ns1 hostmaster 7 3600 600 86400 60
            IN NS ns1
            IN NS ns2.example.net.
            IN MX 10 mail
ns1         IN A 192.0.2.53
            IN AAAA 2001:db8::53
mail        IN A 192.0.2.25
www         IN CNAME mail
far         IN CNAME www.example.org.
*.wild      IN A 192.0.2.80
here.wild   IN TXT "here"
a.b.c       IN A 192.0.2.90
moved       IN DNAME wild
sub         IN NS ns.sub
ns.sub      IN A 192.0.2.153
big         IN TXT "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
            IN TXT "11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111"
            IN TXT "22222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222222"
            IN TXT "33333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333"
            IN TXT "44444444444444444444444444444444444444444444444444444444444444444444444444444444444444444444444444"
            IN TXT "55555555555555555555555555555555555555555555555555555555555555555555555555555555555555555555555555"
huge        IN TXT "x"
$GENERATE 1-200 huge TXT "a text of some length, so that two hundred of them need more than a datagram: $"
"#;

fn start(zone: &str, more: &str) -> (Site, Daemon) {
    let site = Site::new();
    site.configure_authd(&[("example.com", zone)], more);
    let daemon = site.start("dns-authd");
    (site, daemon)
}

fn addresses(list: &[&str]) -> BTreeSet<IpAddr> {
    list.iter()
        .map(|address| address.parse().unwrap())
        .collect()
}

//--- Answers

#[test]
fn every_kind_of_name_is_answered_as_the_rfcs_say() {
    let (site, _daemon) = start(ZONE, "");
    let server = site.authority();
    // Name, type, rcode, AA, records in answer, authority, additional.
    let table: &[(&str, u16, u8, bool, [usize; 3])] = &[
        ("mail.example.com", A, NOERROR, true, [1, 0, 0]),
        ("MAIL.example.COM", A, NOERROR, true, [1, 0, 0]),
        // NODATA has the SOA record (RFC 2308 §2.2), at an empty non-terminal too.
        ("mail.example.com", AAAA, NOERROR, true, [0, 1, 0]),
        ("b.c.example.com", A, NOERROR, true, [0, 1, 0]),
        ("c.example.com", TXT, NOERROR, true, [0, 1, 0]),
        ("none.example.com", A, NXDOMAIN, true, [0, 1, 0]),
        ("x.a.b.c.example.com", A, NXDOMAIN, true, [0, 1, 0]),
        // Wildcards (RFC 4592): below, not beside what exists, and not for the encloser itself.
        ("x.wild.example.com", A, NOERROR, true, [1, 0, 0]),
        ("x.y.wild.example.com", A, NOERROR, true, [1, 0, 0]),
        ("x.wild.example.com", TXT, NOERROR, true, [0, 1, 0]),
        ("here.wild.example.com", A, NOERROR, true, [0, 1, 0]),
        ("x.here.wild.example.com", A, NXDOMAIN, true, [0, 1, 0]),
        ("wild.example.com", A, NOERROR, true, [0, 1, 0]),
        ("*.wild.example.com", A, NOERROR, true, [1, 0, 0]),
        // Aliases, within the zone and out of it.
        ("www.example.com", A, NOERROR, true, [2, 0, 0]),
        ("www.example.com", CNAME, NOERROR, true, [1, 0, 0]),
        ("far.example.com", A, NOERROR, true, [1, 0, 0]),
        ("x.moved.example.com", A, NOERROR, true, [3, 0, 0]),
        // A delegation: no AA, the NS set in authority, glue (RFC 1034 §4.3.2 3b).
        ("www.sub.example.com", A, NOERROR, false, [0, 1, 1]),
        ("ns.sub.example.com", A, NOERROR, false, [0, 1, 1]),
        ("sub.example.com", NS, NOERROR, false, [0, 1, 1]),
        ("example.com", SOA, NOERROR, true, [1, 0, 0]),
    ];
    for (name, rtype, rcode, authoritative, counts) in table {
        for over_tcp in [false, true] {
            let question = Question::new(name, *rtype);
            let answer = if over_tcp {
                ask_tcp(server, &question)
            } else {
                ask(server, &question)
            };
            let answer = answer.unwrap_or_else(|error| panic!("{name} {rtype}: {error}"));
            assert_eq!(
                answer.rcode,
                u16::from(*rcode),
                "{name} {rtype}: {answer:?}"
            );
            assert_eq!(
                answer.authoritative, *authoritative,
                "{name} {rtype}: {answer:?}"
            );
            let got = [
                answer.answers.len(),
                answer.authority.len(),
                answer.additional.len(),
            ];
            assert_eq!(got, *counts, "{name} {rtype}: {answer:?}");
            assert!(
                !answer.recursion_available && !answer.truncated,
                "{name} {rtype}: {answer:?}"
            );
            if *rcode == NXDOMAIN || counts == &[0, 1, 0] {
                let soa = &answer.authority[0];
                assert_eq!(
                    (soa.rtype, soa.ttl),
                    (SOA, 60),
                    "RFC 2308 §5: the minimum, if less"
                );
            }
        }
    }
    let referred = ask(server, &Question::new("example.com", MX)).unwrap();
    assert_eq!(
        referred.additional.len(),
        1,
        "the exchange's address comes along: {referred:?}"
    );
    let redirected = ask_a(server, "x.moved.example.com").unwrap();
    assert_eq!(redirected.answers[0].rtype, DNAME);
    assert_eq!(
        redirected.answers[1].data,
        Data::Name("x.wild.example.com.".to_owned())
    );
}

#[test]
fn what_is_not_its_own_is_refused() {
    let (site, _daemon) = start(ZONE, "");
    let server = site.authority();
    for name in ["example.org", "com", ".", "xexample.com", "example.com.org"] {
        let answer = ask_a(server, name).unwrap();
        assert_eq!(answer.rcode, u16::from(REFUSED), "{name}");
        assert!(
            !answer.authoritative && answer.authority.is_empty(),
            "{name}: {answer:?}"
        );
    }
    let transfer = ask_tcp(server, &Question::new("example.com", AXFR)).unwrap();
    assert_eq!(
        transfer.rcode,
        u16::from(REFUSED),
        "zones are not given away"
    );
    assert!(transfer.answers.is_empty());
}

#[test]
fn any_is_answered_with_little() {
    let (site, _daemon) = start(ZONE, "");
    let answer = ask(site.authority(), &Question::new("example.com", ANY)).unwrap();
    let types: BTreeSet<u16> = answer.answers.iter().map(|record| record.rtype).collect();
    assert_eq!(types.len(), 1, "RFC 8482 §4.1: one RRset: {answer:?}");
}

#[test]
fn what_does_not_fit_is_truncated_and_whole_over_tcp() {
    let (site, _daemon) = start(ZONE, "");
    let server = site.authority();
    let big = Question::new("big.example.com", TXT);
    let small = ask(server, &big.clone().without_edns()).unwrap();
    assert!(small.truncated, "{small:?}");
    let whole = ask(server, &big).unwrap();
    assert!(!whole.truncated && whole.answers.len() == 6, "{whole:?}");

    for edns in [Some(512), Some(1232), Some(65_535), None] {
        let mut huge = Question::new("huge.example.com", TXT).without_edns();
        if let Some(udp_size) = edns {
            huge = huge.with_edns(Edns {
                udp_size,
                ..Edns::default()
            });
        }
        let wire = huge.to_wire(9);
        let raw = exchange_udp(server, &wire, Duration::from_secs(10)).unwrap();
        let limit = usize::from(edns.unwrap_or(512)).min(4096);
        assert!(raw.len() <= limit, "{} octets for {edns:?}", raw.len());
        let answer = dns::check(9, &huge, &raw).unwrap();
        assert!(answer.truncated, "{edns:?}: {answer:?}");
        let whole = ask_tcp(server, &huge).unwrap();
        assert_eq!((whole.truncated, whole.answers.len()), (false, 201));
    }
    // A size below 512 is taken as 512 (RFC 6891 §6.2.3).
    let tiny = Edns {
        udp_size: 100,
        ..Edns::default()
    };
    let answer = ask(
        server,
        &Question::new("mail.example.com", A).with_edns(tiny),
    )
    .unwrap();
    assert!(!answer.truncated);
}

//--- Odd messages

/// The tests of RFC 8906 §8, as far as they are about one server.
#[test]
fn no_common_query_goes_wrong() {
    let (site, _daemon) = start(ZONE, "");
    let server = site.authority();
    let plain = Question::new("example.com", SOA);
    let is_soa = |answer: &Message| {
        assert_eq!((answer.rcode, answer.answers.len()), (0, 1), "{answer:?}");
        assert_eq!(answer.answers[0].rtype, SOA);
        assert!(answer.authoritative);
    };

    // §8.1.1-8.1.2: known and unknown types.
    is_soa(&ask(server, &plain.clone().without_edns()).unwrap());
    for rtype in [1000, 32_769, 65_280, 65_402] {
        let answer = ask(server, &Question::new("example.com", rtype).without_edns()).unwrap();
        assert_eq!(
            (answer.rcode, answer.answers.len()),
            (0, 0),
            "type {rtype}: {answer:?}"
        );
    }
    // §8.1.3: header bits, one by one. AD and CD and the last reserved bit are no errors.
    for (byte, bit) in [
        (2, 0x01),
        (3, 0x20),
        (3, 0x10),
        (3, 0x40),
        (2, 0x04),
        (3, 0x80),
        (2, 0x02),
    ] {
        let question = Question {
            recursion_desired: false,
            ..plain.clone()
        }
        .without_edns();
        let mut wire = question.to_wire(77);
        wire[byte] |= bit;
        let raw = exchange_udp(server, &wire, Duration::from_secs(10)).unwrap();
        let answer = dns::check(77, &question, &raw).unwrap();
        is_soa(&answer);
        assert!(
            raw[3] & 0x40 == 0,
            "the reserved bit is never set: {byte} {bit:#x}"
        );
        assert!(
            !answer.truncated && !answer.recursion_available,
            "{byte} {bit:#x}"
        );
        assert_eq!(
            answer.recursion_desired,
            (byte, bit) == (2, 1),
            "RD is copied"
        );
    }
    // §8.1.4: unknown opcodes.
    for opcode in [1, 2, 3, 6, 15] {
        let question = Question {
            opcode,
            ..plain.clone()
        }
        .without_edns();
        let answer = ask(server, &question).unwrap();
        assert_eq!(
            answer.rcode,
            u16::from(NOTIMP),
            "opcode {opcode}: {answer:?}"
        );
        assert!(!answer.authoritative, "opcode {opcode}");
        assert!(answer.answers.is_empty(), "opcode {opcode}");
    }
    // §8.1.5.
    is_soa(&ask_tcp(server, &plain.clone().without_edns()).unwrap());
}

/// The tests of RFC 8906 §8.2: EDNS.
#[test]
fn no_edns_query_goes_wrong() {
    let (site, _daemon) = start(ZONE, "");
    let server = site.authority();
    let with = |edns| ask(server, &Question::new("example.com", SOA).with_edns(edns)).unwrap();
    let opt = |answer: &Message| answer.edns.clone().expect("EDNS is answered with EDNS");

    let plain = with(Edns::default());
    assert_eq!(
        (plain.rcode, plain.answers.len(), opt(&plain).version),
        (0, 1, 0)
    );
    assert!(opt(&plain).udp_size >= 512);
    // A version to come: BADVERS, no answer, no AA, version 0 (RFC 6891 §6.1.3).
    for version in [1, 255] {
        let answer = with(Edns {
            version,
            ..Edns::default()
        });
        assert_eq!((answer.rcode, opt(&answer).version), (16, 0), "{answer:?}");
        assert!(
            answer.answers.is_empty() && !answer.authoritative,
            "{answer:?}"
        );
    }
    // An option and flags to come are ignored, and not echoed.
    let strange = Edns {
        options: vec![(100, vec![1, 2, 3])],
        flags: 0x0040,
        ..Edns::default()
    };
    let answer = with(strange.clone());
    assert_eq!((answer.rcode, answer.answers.len()), (0, 1), "{answer:?}");
    assert!(
        opt(&answer).options.iter().all(|(code, _)| *code != 100),
        "{answer:?}"
    );
    assert_eq!(opt(&answer).flags, 0, "{answer:?}");
    assert_eq!(
        with(Edns {
            version: 1,
            ..strange
        })
        .rcode,
        16
    );
    // DO is copied (RFC 3225 §3).
    let answer = with(Edns {
        dnssec_ok: true,
        ..Edns::default()
    });
    assert!(
        opt(&answer).dnssec_ok && answer.answers.len() == 1,
        "{answer:?}"
    );
    // A client subnet is understood or ignored, and never an error.
    let subnet = Edns {
        options: vec![(8, vec![0, 1, 24, 0, 192, 0, 2])],
        ..Edns::default()
    };
    assert_eq!(with(subnet).rcode, 0);
    // Without EDNS there is none in the answer.
    let answer = ask(server, &Question::new("example.com", SOA).without_edns()).unwrap();
    assert!(answer.edns.is_none());
}

#[test]
fn nothing_that_is_sent_makes_it_fall_or_shout() {
    let (site, mut daemon) = start(ZONE, "");
    let server = site.authority();
    let good = Question::new("mail.example.com", A).to_wire(5);
    let mut hostile: Vec<Vec<u8>> = (0..good.len())
        .map(|length| good[..length].to_vec())
        .collect();
    hostile.push(vec![0; 12]);
    hostile.push(vec![0xff; 600]);
    // Two questions; a question that is a pointer to itself; a label of a reserved type.
    hostile.push(
        [
            &[0, 1, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0],
            &good[12..34],
            &good[12..34],
        ]
        .concat(),
    );
    hostile.push(vec![
        0, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1,
    ]);
    hostile.push(vec![
        0, 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x41, 8, 255, 0, 0, 1, 0, 1,
    ]);
    // Two OPT records (RFC 6891 §6.1.1: FORMERR).
    let mut two_opts = [&good[..], &good[good.len() - 11..]].concat();
    two_opts[11] = 2;
    hostile.push(two_opts.clone());
    for wire in &hostile {
        if let Ok(raw) = exchange_udp(server, wire, Duration::from_millis(30)) {
            let answer = Message::read(&raw).unwrap_or_else(|error| panic!("{wire:02x?}: {error}"));
            assert!(answer.response, "{wire:02x?}");
            assert!(
                raw.len() <= wire.len() + 11,
                "{} octets for {wire:02x?}",
                raw.len()
            );
        }
    }
    let raw = exchange_udp(server, &two_opts, Duration::from_secs(10)).unwrap();
    assert_eq!(Message::read(&raw).unwrap().rcode, u16::from(FORMERR));
    // A response is never answered: two servers could talk to each other for ever.
    let mut response = good;
    response[2] |= 0x80;
    assert!(exchange_udp(server, &response, Duration::from_millis(300)).is_err());

    assert!(daemon.is_running());
    assert_eq!(
        ask_a(server, "mail.example.com").unwrap().addresses(),
        addresses(&["192.0.2.25"])
    );
}

#[test]
fn streams_are_served_whatever_their_pieces() {
    let (site, mut daemon) = start(ZONE, "");
    let server = site.authority();
    let names = [
        "mail.example.com",
        "www.example.com",
        "none.example.com",
        "huge.example.com",
        "x.wild.example.com",
    ];
    let framed = |id: u16| {
        let name = names[usize::from(id) % names.len()];
        let rtype = if name.starts_with("huge") { TXT } else { A };
        let wire = Question::new(name, rtype).to_wire(id);
        [&u16::try_from(wire.len()).unwrap().to_be_bytes()[..], &wire].concat()
    };

    // Many queries in one segment; answers in any order (RFC 7766 §7).
    let mut stream = dns::connect(server).unwrap();
    let all: Vec<u8> = (0..60).flat_map(framed).collect();
    stream.write_all(&all).unwrap();
    let ids: BTreeSet<u16> = (0..60)
        .map(|_| {
            Message::read(&dns::receive_tcp(&mut stream).unwrap())
                .unwrap()
                .id
        })
        .collect();
    assert_eq!(ids.len(), 60);

    // One query octet by octet.
    for octet in framed(3) {
        stream.write_all(&[octet]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        Message::read(&dns::receive_tcp(&mut stream).unwrap())
            .unwrap()
            .id,
        3
    );

    // The client says that it has no more to ask, and still gets its answer (RFC 7766 §6.2.1).
    stream.write_all(&framed(4)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(
        Message::read(&dns::receive_tcp(&mut stream).unwrap())
            .unwrap()
            .id,
        4
    );
    let read = wait::uninterrupted(|| stream.read(&mut [0]));
    assert_eq!(read.unwrap(), 0, "then it is closed");

    // A length of nothing, a length and no message, noise: that connection may end, others not.
    let mut other = dns::connect(server).unwrap();
    for noise in [
        &[0_u8, 0][..],
        &[255, 255, 1, 2, 3],
        &[0, 5, 1, 2, 3, 4, 5],
        &[0xff; 3000],
    ] {
        let mut stream = dns::connect(server).unwrap();
        stream.write_all(noise).unwrap();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
        assert!(rest.len() < 100, "{} octets for {noise:?}", rest.len());
    }
    other.write_all(&framed(0)).unwrap();
    assert_eq!(
        Message::read(&dns::receive_tcp(&mut other).unwrap())
            .unwrap()
            .id,
        0
    );
    assert!(daemon.is_running());
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let site = Site::new();
    site.configure_authd(&[("example.com", ZONE)], "");
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    // A port that no other test has on every address.
    let port = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let wildcard = config.replace(
        &format!("listen = [\"{}\"]", site.authority()),
        &format!("listen = [\"0.0.0.0:{port}\", \"[::]:{port}\"]"),
    );
    site.files.write("dns-authd.toml", &wildcard);
    let _daemon = site.start("dns-authd");
    // The client's socket is connected: an answer from another address does not reach it.
    for ip in [
        IpAddr::from(site.ip),
        [127, 0, 0, 1].into(),
        [127, 99, 98, 97].into(),
    ] {
        let server = SocketAddr::new(ip, port);
        assert_eq!(
            ask_a(server, "mail.example.com").unwrap().answers.len(),
            1,
            "{server}"
        );
        assert_eq!(
            ask_tcp(server, &Question::new("mail.example.com", A))
                .unwrap()
                .answers
                .len(),
            1
        );
    }
    let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        assert_eq!(ask_a(v6, "mail.example.com").unwrap().answers.len(), 1);
    }
}

#[test]
fn greedy_clients_do_not_keep_others_out() {
    let (site, _daemon) = start(
        ZONE,
        "tcp.connections = 40\ntcp.per-client = 8\ntcp.idle = \"5s\"",
    );
    let server = site.authority();
    // One client opens what it can and says nothing, or begins to say something and stops.
    let mut greedy: Vec<_> = (0..60).filter_map(|_| dns::connect(server).ok()).collect();
    for stream in &mut greedy {
        drop(stream.write_all(&[0, 40, 1]));
    }
    // It has eight places, and each more takes one of its own. All have come before another client does.
    let over = u32::try_from(greedy.len() - 8).unwrap();
    let displaced = "outpost_streams_ended_total{listener=\"dns-tcp\",reason=\"displaced\"}";
    wait::for_it("places are taken again", Duration::from_secs(10), || {
        let metrics = site.get("dns-authd", "/metrics").1;
        metric(&metrics, displaced) >= Some(over.into())
    });
    let other = loopback();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((other, 0)).into()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = std::net::TcpStream::from(socket);
    dns::send_tcp(
        &mut stream,
        &Question::new("mail.example.com", A).to_wire(8),
    )
    .unwrap();
    assert_eq!(
        Message::read(&dns::receive_tcp(&mut stream).unwrap())
            .unwrap()
            .answers
            .len(),
        1
    );
    // The greedy one's connections end by themselves, and it is served again.
    wait::for_it(
        "idle connections are closed",
        Duration::from_secs(20),
        || ask_tcp(server, &Question::new("mail.example.com", A)).is_ok(),
    );
}

#[test]
fn a_whole_zone_goes_to_those_who_may_have_it() {
    let (site, _daemon) = start(ZONE, "transfers.allow = [\"127.0.0.0/8\"]");
    let server = site.authority();
    let mut command = Command::new("dig");
    command.args([
        &format!("@{}", server.ip()),
        "-p",
        &server.port().to_string(),
    ]);
    command.args(["+noall", "+answer", "+onesoa", "example.com", "AXFR"]);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{stderr}");
    let n_records = stdout
        .lines()
        .filter(|line| line.contains("\tIN\t"))
        .count();
    // Every record of the zone, the SOA record once as dig was asked to print it.
    let n_written = 1 + 3 + 2 + 4 + 1 + 1 + 1 + 1 + 1 + 6 + 1 + 200;
    assert_eq!(n_records, n_written, "{stdout}");
    let over_udp = ask(server, &Question::new("example.com", AXFR)).unwrap();
    assert!(
        over_udp.answers.is_empty(),
        "not over UDP (RFC 5936 §4.2): {over_udp:?}"
    );
}
