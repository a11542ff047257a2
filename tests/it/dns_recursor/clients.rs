//! Whom dns-recursor serves, and what it says to those it does not understand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::daemon::metric;
use tests::dns::{self, A, Message, Question, REFUSED, ask, ask_a, ask_tcp};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::upstream::Upstream;
use tests::wait;

use super::{Forward, addresses, configure, plain, start, with_upstream};

#[test]
fn strangers_are_refused() {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, plain);
    let friend = loopback();
    let (site, _daemon) = start(
        &[Forward {
            zone: "example",
            to: &[to],
            recursive: false,
        }],
        &format!("allow-from = [\"{friend}/32\"]"),
    );
    let ask_from = |from: Ipv4Addr| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(site.resolver()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
            .send(&Question::new("www.example", A).to_wire(1))
            .unwrap();
        let mut buffer = [0; 512];
        let length = wait::uninterrupted(|| socket.recv(&mut buffer)).unwrap();
        Message::read(&buffer[..length]).unwrap()
    };
    assert_eq!(addresses(&ask_from(friend)), ["192.0.2.1"]);
    let before = upstream.n_udp();
    for stranger in [[127, 0, 0, 1].into(), loopback()] {
        let answer = ask_from(stranger);
        assert_eq!(
            (answer.rcode, answer.answers.len()),
            (u16::from(REFUSED), 0),
            "{stranger}"
        );
    }
    assert_eq!(upstream.n_udp(), before);
}

#[test]
fn odd_messages_are_answered_shortly_or_not_at_all() {
    let (site, mut daemon, _upstream) = with_upstream(plain);
    let good = Question::new("www.example", A).to_wire(5);
    for length in 0..good.len() {
        if let Ok(raw) =
            dns::exchange_udp(site.resolver(), &good[..length], Duration::from_millis(20))
        {
            assert!(
                raw.len() <= length + 11,
                "{} octets for {length}",
                raw.len()
            );
        }
    }
    let mut response = good;
    response[2] |= 0x80;
    assert!(dns::exchange_udp(site.resolver(), &response, Duration::from_millis(300)).is_err());
    // 4 is NOTIFY, which flushes a zone for those who may.
    for opcode in [1, 2, 5, 15] {
        let question = Question {
            opcode,
            ..Question::new("www.example", A)
        };
        assert_ne!(
            ask(site.resolver(), &question).unwrap().rcode,
            0,
            "opcode {opcode}"
        );
    }
    let version = dns::Edns {
        version: 1,
        ..Default::default()
    };
    let answer = ask(
        site.resolver(),
        &Question::new("www.example", A).with_edns(version),
    )
    .unwrap();
    assert_eq!((answer.rcode, answer.answers.len()), (16, 0));
    // Zone transfers are not for resolvers.
    for rtype in [dns::AXFR, dns::IXFR] {
        let answer = ask_tcp(site.resolver(), &Question::new("example", rtype)).unwrap();
        assert!(answer.rcode != 0 && answer.answers.is_empty(), "{answer:?}");
    }
    // Without RD only what is known anyway may be answered.
    let question = Question {
        recursion_desired: false,
        ..Question::new("cold.example", A)
    };
    let answer = ask(site.resolver(), &question).unwrap();
    assert!(answer.answers.is_empty(), "{answer:?}");
    assert!(daemon.is_running());
}

#[test]
fn it_answers_from_the_address_that_was_asked() {
    let site = Site::new();
    let to = at(loopback(), 5300);
    let _upstream = Upstream::start(to, plain);
    configure(
        &site,
        &[Forward {
            zone: "example",
            to: &[to],
            recursive: false,
        }],
        "",
    );
    let port = 10_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    let config = std::fs::read_to_string(site.files.join("dns-recursor.toml")).unwrap();
    site.files.write(
        "dns-recursor.toml",
        &config.replace(
            &format!("listen = [\"{}\"]", site.resolver()),
            &format!("listen = [\"0.0.0.0:{port}\", \"[::]:{port}\"]"),
        ),
    );
    let _daemon = site.start("dns-recursor");
    for ip in [
        IpAddr::from(site.ip),
        [127, 0, 0, 1].into(),
        [127, 99, 98, 96].into(),
    ] {
        for name in ["www.example", "www.example", "other.example"] {
            let answer = ask_a(SocketAddr::new(ip, port), name).unwrap();
            assert_eq!(addresses(&answer), ["192.0.2.1"], "{ip}");
        }
    }
    if UdpSocket::bind("[::1]:0").is_ok() {
        let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
        assert_eq!(addresses(&ask_a(v6, "www.example").unwrap()), ["192.0.2.1"]);
    }
}

#[test]
fn a_server_that_stops_answers_on_for_a_while_and_says_so() {
    let to = at(loopback(), 5300);
    let _upstream = Upstream::start(to, plain);
    let (site, mut daemon) = start(
        &[Forward {
            zone: "example",
            to: &[to],
            recursive: false,
        }],
        "lameduck = \"8s\"\ndrain = \"60s\"",
    );
    let server = site.resolver();
    ask_a(server, "www.example").unwrap();
    let begin = Instant::now();
    daemon.signal(Signal::TERM);
    wait::for_it("not ready", Duration::from_secs(5), || {
        site.get("dns-recursor", "/readyz").0 == 503
    });
    // From the cache and from upstreams, new connections too.
    for name in ["www.example", "new.example"] {
        assert_eq!(addresses(&ask_a(server, name).unwrap()), ["192.0.2.1"]);
        let question = Question::new(name, A);
        assert_eq!(
            addresses(&ask_tcp(server, &question).unwrap()),
            ["192.0.2.1"]
        );
    }
    let status = daemon.wait();
    assert!(status.success(), "{status:?}");
    assert!(
        begin.elapsed() >= Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn the_server_asks_itself_as_the_alerts_of_coredns_want_it() {
    let (site, _daemon, _upstream) = with_upstream(plain);
    let server = site.resolver();
    let name =
        format!("coredns_health_request_duration_seconds_count{{server=\"dns://{server}\"}}");
    wait::for_it("two questions", Duration::from_secs(60), || {
        let text = site.get("dns-recursor", "/metrics").1;
        metric(&text, &name).is_some_and(|count| count >= 2.0)
    });
    let text = site.get("dns-recursor", "/metrics").1;
    assert_eq!(
        metric(&text, "coredns_health_request_failures_total"),
        Some(0.0)
    );
    assert!(
        text.contains("coredns_health_request_duration_seconds_bucket{"),
        "{text}"
    );
}
