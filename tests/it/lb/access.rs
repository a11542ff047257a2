//! The clients that may connect, and how often.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::{PATIENCE, Server, connect_from, line, try_connect_from, try_line};

fn source(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 92, 0, number)
}

/// Whether a connection from `source` gets to a server.
fn admitted(place: &Place, source: Ipv4Addr) -> bool {
    let stream = try_connect_from(source, place.front());
    stream.and_then(|stream| try_line(&stream)).is_ok()
}

#[test]
fn sources_are_allowed_and_denied() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "allow-from = [\"127.92.0.0/28\", \"127.93.0.1\"]\ndeny-from = [\"127.92.0.8/30\"]",
        "",
        &[server.address()],
    ));
    for (source, may) in [
        (source(1), true),
        (source(15), true),
        (source(8), false),
        (source(11), false),
        (source(12), true),
        (source(16), false),
        (Ipv4Addr::new(127, 93, 0, 1), true),
        (Ipv4Addr::new(127, 93, 0, 2), false),
        (Ipv4Addr::LOCALHOST, false),
    ] {
        assert_eq!(admitted(&place, source), may, "{source}");
    }
    let metrics = place.metrics();
    let denied = metrics.lines().any(|line| {
        line.starts_with("lb_proxy_") && line.contains("denied") && line.ends_with(" 5")
    });
    assert!(denied, "{metrics}");
}

#[test]
fn a_source_has_so_many_connections_at_a_time() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "limits = { connections = 3 }",
        "",
        &[server.address()],
    ));
    let mut held: Vec<_> = (0..3)
        .map(|_| connect_from(source(1), place.front()))
        .collect();
    for stream in &held {
        assert_eq!(line(stream), "s0");
    }
    assert!(!admitted(&place, source(1)));
    assert!(!admitted(&place, source(1)));
    assert!(admitted(&place, source(2)));
    // A place is free again soon after a connection ends.
    drop(held.pop());
    let start = Instant::now();
    while !admitted(&place, source(1)) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_busiest_sources_are_listed() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "limits = { connections = 3, rate = \"100/60s\" }",
        "",
        &[server.address()],
    ));
    let front = place.front();
    let held = [1, 2, 2].map(|number| connect_from(source(number), front));
    for stream in &held {
        assert_eq!(line(stream), "s0");
    }
    let text = place.done(&["sources"]);
    let expected = format!(
        "frontend front: a source may have 3 connections, and begin 100 in 1m\n  \
         {} 2 connections, 2 begun in 1m\n  {} 1 connection, 1 begun in 1m\n",
        source(2),
        source(1),
    );
    assert_eq!(text, expected);
    let json = place.done(&["sources", "--frontend", "front", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["front"]["most_connections"], 3);
    assert_eq!(
        json["front"]["sources"][0]["address"],
        source(2).to_string()
    );
    assert_eq!(place.done(&["sources", "--frontend", "other"]), "");
}

#[test]
fn a_source_has_so_many_connections_in_a_second() {
    let server = Server::named(at(loopback(), FRONT), "s0");
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "limits = { rate = \"10/s\" }",
        "",
        &[server.address()],
    ));
    let start = Instant::now();
    let n_admitted = (0..60).filter(|_| admitted(&place, source(1))).count();
    let took = start.elapsed().as_secs_f64();
    // The burst of one second, the connections added since, and one more of each for rounding.
    let most = 12.0 + 10.0 * took;
    assert!(n_admitted >= 9, "{n_admitted}");
    assert!((n_admitted as f64) < most, "{n_admitted} in {took} s");
    for other in 2..40 {
        assert!(admitted(&place, source(other)), "{other}");
    }
    std::thread::sleep(Duration::from_millis(1300));
    assert!(admitted(&place, source(1)));
}
