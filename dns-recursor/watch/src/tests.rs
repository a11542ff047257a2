use std::sync::atomic::AtomicU64;

use config::dns_recursor::QueryClass;
use daemon::admin::Request;
use dns_top::{Measure, Ranking, Subject};

use super::*;

fn peer() -> Peer {
    Peer {
        address: "192.0.2.1:4000".parse().unwrap(),
        local: None,
        transport: Transport::Udp,
    }
}

fn seen<'q>(question: &'q [u8], response: Option<&'q [u8]>) -> Seen<'q> {
    Seen {
        peer: peer(),
        question: Some(question),
        flags: QueryFlags {
            header: Flags::default(),
            dnssec_ok: false,
        },
        response,
        answer: "cache",
        is_miss: false,
        upstream: None,
        took: Duration::ZERO,
        second: 1,
    }
}

fn request(query: &str) -> Request {
    Request {
        query: query.to_owned(),
        ..Request::default()
    }
}

/// A watch whose clock stands where the number says.
fn watch() -> (Watch, Arc<AtomicU64>) {
    let second = Arc::new(AtomicU64::new(1));
    let read = Arc::clone(&second);
    let clock = move || read.load(Ordering::Relaxed);
    (
        Watch::start(&DnsRecursor::default(), clock).unwrap(),
        second,
    )
}

const QUESTION: &[u8] = b"\x03WWW\x01a\x07Example\0\0\x01\0\x01";
const SERVFAIL: &[u8] = &[0, 0, 0x80, 2, 0, 1, 0, 0, 0, 0, 0, 0];

#[test]
fn names_are_ranked_whatever_their_letters_and_under_the_zone_that_is_known() {
    let (watch, _) = watch();
    let watcher = watch.watcher();
    watcher.answered(&seen(QUESTION, Some(SERVFAIL)), |name| {
        assert_eq!(name, b"\x03www\x01a\x07example\0");
        None
    });
    watcher.answered(
        &seen(b"\x03www\x01a\x07example\0\0\x1c\0\x01", None),
        |_| Some(b"\x07example\0"),
    );
    let view = watch.0.top(&request("")).unwrap();
    let rows = |of: &str| {
        let ranking = view
            .rankings
            .iter()
            .find(|ranking| ranking.of == of)
            .unwrap();
        let rows = ranking.rows.iter();
        rows.map(|row| (row.item.clone(), row.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("names"), [("www.a.example.".to_owned(), 2)]);
    assert_eq!(rows("clients"), [("192.0.2.1".to_owned(), 2)]);
    assert_eq!(
        rows("zones"),
        [("a.example.".to_owned(), 1), ("example.".to_owned(), 1)]
    );
    let failed = watch.0.top(&request("by=servfail&of=names&n=1")).unwrap();
    assert_eq!(failed.rankings.len(), 1);
    assert_eq!(failed.rankings[0].total, 1);
}

#[test]
fn a_reader_never_makes_a_thread_wait() {
    let (watch, _) = watch();
    let watcher = watch.watcher();
    let held = watcher.top.lock();
    watcher.answered(&seen(QUESTION, None), |_| None);
    drop(held);
    assert_eq!(watch.0.uncounted.load(Ordering::Relaxed), 1);
    let mut top = watcher.top.lock();
    let of = (Measure::Queries, Subject::Names);
    assert_eq!(Ranking::of([&mut *top], of, 1, 1).total, 0);
}

#[test]
fn requests_that_make_no_sense_are_errors() {
    let (watch, _) = watch();
    for query in ["by=x", "of=x", "n=0", "n=257", "n=x"] {
        assert!(watch.0.top(&request(query)).is_err(), "{query}");
    }
    for query in [
        "",
        "turn=x",
        "turn=on&for=x",
        "turn=on&for=0s",
        "turn=on&for=25h",
        "turn=on&class=x",
        "turn=on&class=error,",
        "turn=on&rate=0",
    ] {
        assert!(watch.0.turn(&request(query)).is_err(), "{query}");
        assert!(!watch.report().0.enabled, "{query}");
    }
}

#[test]
fn a_command_ends_by_itself_and_can_be_taken_back() {
    let (watch, second) = watch();
    let told = watch
        .0
        .turn(&request("turn=on&for=30s&class=error,denial&rate=7"));
    assert_eq!(told.as_deref(), Ok("logging queries for 30s"));
    let report = watch.report().0;
    assert_eq!(report.classes, ["error", "denial"]);
    assert_eq!(
        (report.enabled, report.rate, report.seconds_left),
        (true, 7, Some(30))
    );
    second.store(31, Ordering::Relaxed);
    let report = watch.report().0;
    assert_eq!((report.enabled, report.seconds_left), (false, None));
    assert_eq!(report.classes, ["all"]);
    watch.0.turn(&request("turn=on")).unwrap();
    assert_eq!(watch.report().0.seconds_left, Some(600));
    let told = watch.0.turn(&request("turn=back"));
    assert_eq!(told.as_deref(), Ok("logging no queries, as configured"));
    assert!(!watch.report().0.enabled);
}

#[test]
fn lines_are_those_of_the_classes_and_bounded() {
    let (watch, _) = watch();
    let watcher = watch.watcher();
    watch.adopt(&QueryLog {
        enabled: true,
        classes: vec![QueryClass::Error],
        rate: config::Whole::clamped(2),
    });
    let denial = [0, 0, 0x80, 3, 0, 1, 0, 0, 0, 0, 0, 0];
    for response in [Some(SERVFAIL), Some(&denial[..]), None] {
        for _ in 0..5 {
            watcher.answered(&seen(QUESTION, response), |_| None);
        }
    }
    let report = watch.report().0;
    assert_eq!((report.lines, report.left_out), (2, 3));
    watch.stop();
    watch.stop();
    // After its end nothing is logged, and nothing waits.
    watcher.answered(&seen(QUESTION, Some(SERVFAIL)), |_| None);
}

#[test]
fn dnstap_gets_the_messages_that_the_table_names() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tap");
    let mut config = DnsRecursor::default();
    config.dnstap = Some(config::dns_recursor::Dnstap {
        file: Some(path.clone()),
        messages: vec![DnstapMessage::ClientResponse, DnstapMessage::ResolverQuery],
        ..config::dns_recursor::Dnstap::default()
    });
    let watch = Watch::start(&config, || 0).unwrap();
    let watcher = watch.watcher();
    assert!(watcher.wants_upstreams());
    watcher.queried(&peer(), b"unwanted");
    watcher.answered(&seen(QUESTION, Some(b"wanted reply")), |_| None);
    for is_forwarder in [true, false] {
        let exchanged = Exchanged {
            to: "192.0.2.53:53".parse().unwrap(),
            is_forwarder,
            transport: Transport::Udp,
            message: match is_forwarder {
                true => b"unwanted",
                false => b"wanted query",
            },
        };
        watcher.asks(&exchanged);
        watcher.received(&exchanged, Duration::ZERO);
    }
    drop((watch, watcher));
    let octets = std::fs::read(&path).unwrap();
    let has = |text: &[u8]| octets.windows(text.len()).any(|part| part == text);
    assert!(has(b"wanted reply") && has(b"wanted query"));
    assert!(!has(b"unwanted"));
}
