//! The choice of a server, and the case without any.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, haproxy_pair, pair};
use tests::scratch::{at, loopback};
use tests::stream::{
    End, PATIENCE, Server, Silent, connect, connect_from, end, end_within, line, receive, send,
    try_connect, try_line,
};
use tests::wait;

/// Servers that say their names: s0, s1 and so on.
fn servers(number: usize) -> (Vec<Server>, Vec<SocketAddr>) {
    let servers: Vec<Server> = (0..number)
        .map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")))
        .collect();
    let addresses = servers.iter().map(Server::address).collect();
    (servers, addresses)
}

/// An address without a listener.
fn refusing() -> SocketAddr {
    at(loopback(), FRONT)
}

/// The servers of `number` connections, one after the other.
fn ask(front: SocketAddr, number: usize) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for _ in 0..number {
        *seen.entry(line(&connect(front))).or_default() += 1;
    }
    seen
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.map(|(name, n)| (name.to_owned(), n)).into()
}

fn start(place: &Place, back: &str, servers: &[SocketAddr]) -> Daemon {
    place.start(&pair(place, "", back, servers))
}

#[test]
fn a_refused_connection_goes_to_the_next_server_at_once() {
    let (_servers, mut addresses) = servers(2);
    addresses.insert(0, refusing());
    addresses.push(refusing());
    for balance in [
        "round-robin",
        "least-connections",
        "random-of-two",
        "source",
    ] {
        let place = Place::new();
        let _lb = start(&place, &format!("balance = \"{balance}\""), &addresses);
        let mut n_slow = 0;
        for number in 0..24_u8 {
            let start = Instant::now();
            let stream = connect_from(Ipv4Addr::new(127, 90, 0, number + 1), place.front());
            let name = line(&stream);
            assert!(["s0", "s1"].contains(&name.as_str()), "{balance}: {name}");
            // HAProxy waits a second before it tries again.
            n_slow += u32::from(start.elapsed() >= Duration::from_millis(900));
        }
        // Half of them meet one that refuses; a machine that is busy holds up a few.
        assert!(n_slow < 5, "{balance}: {n_slow} waited");
    }
}

#[test]
fn a_server_that_does_not_answer_is_left_after_the_connect_timeout() {
    let (_servers, addresses) = servers(1);
    let silent = Silent::start(at(loopback(), FRONT));
    let place = Place::new();
    let _lb = start(
        &place,
        "balance = \"round-robin\"\nconnect-timeout = \"300ms\"",
        &[silent.address(), addresses[0]],
    );
    let mut longest = Duration::ZERO;
    for _ in 0..4 {
        let start = Instant::now();
        assert_eq!(line(&connect(place.front())), "s0");
        longest = longest.max(start.elapsed());
    }
    assert!(longest >= Duration::from_millis(250), "{longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

fn refused_soon(front: SocketAddr) {
    // The reset may be there before the connection is.
    if let Ok(stream) = try_connect(front) {
        assert_ne!(end_within(&stream, PATIENCE), End::Open(0));
    }
}

#[test]
fn with_nobody_to_connect_to_the_client_is_told_at_once() {
    let back = [refusing(), refusing()];
    let place = Place::new();
    let _haproxy = place.start_haproxy(&haproxy_pair(&place, "", " retries 0\n", "", &back));
    refused_soon(place.front());

    let place = Place::new();
    let lb = place.start(&format!(
        "{}{}",
        pair(&place, "", "retries = 1", &back),
        place.access_log()
    ));
    refused_soon(place.front());
    let records = place.wait_records(1);
    assert_eq!(records[0]["termination"], "SC", "{}", records[0]);
    // Each has refused once, and no client waited for one of them to come back.
    assert_eq!(records[0]["retries"], 2, "{}", records[0]);
    lb.stop();
}

#[test]
fn round_robin_goes_around_by_weight() {
    let (_servers, addresses) = servers(3);
    let place = Place::new();
    let text = pair(&place, "", "balance = \"round-robin\"", &addresses);
    let lb = place.start(&text);
    let seen = ask(place.front(), 30);
    assert_eq!(seen, counts([("s0", 10), ("s1", 10), ("s2", 10)]));
    drop(lb);

    // The server tables come last, in order: weights 3, 0 and 1.
    let mut text = text.replace("[[backend.server]]", "[[backend.server]]\nweight = 1");
    text = text.replacen("weight = 1", "weight = 3", 1);
    let second = text.find("s1").unwrap();
    let place_of_weight = text[..second].rfind("weight = 1").unwrap();
    text.replace_range(place_of_weight..place_of_weight + 10, "weight = 0");
    let _lb = place.start(&text);
    assert_eq!(ask(place.front(), 40), counts([("s0", 30), ("s2", 10)]));
}

#[test]
fn least_connections_fills_the_emptiest() {
    let (_servers, addresses) = servers(3);
    let place = Place::new();
    let _lb = start(&place, "balance = \"least-connections\"", &addresses);
    let held: Vec<(TcpStream, String)> = (0..30)
        .map(|_| {
            let stream = connect(place.front());
            let name = line(&stream);
            (stream, name)
        })
        .collect();
    let on = |name: &str| held.iter().filter(|(_, n)| n == name).count();
    assert_eq!([on("s0"), on("s1"), on("s2")], [10, 10, 10]);
    // Those of one server end: the next ones go there.
    drop(
        held.into_iter()
            .filter(|(_, name)| name == "s1")
            .collect::<Vec<_>>(),
    );
}

#[test]
fn a_source_keeps_its_server_and_sources_are_spread() {
    let (_servers, addresses) = servers(3);
    let place = Place::new();
    let lb = start(&place, "balance = \"source\"", &addresses);
    let source = |n: u8| Ipv4Addr::new(127, 91, n, 7);
    let first: Vec<String> = (0..60)
        .map(|n| line(&connect_from(source(n), place.front())))
        .collect();
    for _ in 0..3 {
        for (n, name) in (0..60).zip(&first) {
            assert_eq!(&line(&connect_from(source(n), place.front())), name);
        }
    }
    for name in ["s0", "s1", "s2"] {
        let n = first.iter().filter(|found| *found == name).count();
        assert!((8..=34).contains(&n), "{name} has {n} of 60 sources");
    }
    drop(lb);
    // The same sources have the same servers after a restart, and on every other proxy.
    let again = Place::new();
    let _lb = start(&again, "balance = \"source\"", &addresses);
    for (n, name) in (0..60).zip(&first) {
        assert_eq!(&line(&connect_from(source(n), again.front())), name);
    }
}

#[test]
fn a_backup_serves_when_nobody_else_does() {
    let (mut servers, addresses) = servers(2);
    let place = Place::new();
    let mut text = pair(&place, "", "", &addresses);
    text.push_str("backup = true\n");
    let _lb = place.start(&text);
    assert_eq!(ask(place.front(), 10), counts([("s0", 10)]));
    servers[0].close();
    assert_eq!(ask(place.front(), 10), counts([("s1", 10)]));
}

/// One session at a time.
fn narrow(place: &Place, more: &str, address: SocketAddr) -> String {
    let mut text = pair(place, "", more, &[address]);
    text.push_str("max-connections = 1\n");
    text
}

#[test]
fn a_full_server_has_a_queue_that_is_served_in_order() {
    let (_servers, addresses) = servers(1);
    let check = |place: &Place, name: &str, in_order: &dyn Fn(usize)| {
        let first = connect(place.front());
        assert_eq!(line(&first), "s0", "{name}");
        let mut waiting: Vec<TcpStream> = Vec::new();
        for n in 1..=4 {
            waiting.push(connect(place.front()));
            in_order(n);
        }
        let mut before = first;
        while !waiting.is_empty() {
            for (n, stream) in waiting.iter().enumerate() {
                stream.set_nonblocking(true).unwrap();
                let found = stream.peek(&mut [0]).map_err(|error| error.kind());
                let nothing = Err(std::io::ErrorKind::WouldBlock);
                assert_eq!(found, nothing, "{name}: {n} did not wait");
                stream.set_nonblocking(false).unwrap();
            }
            drop(before);
            before = waiting.remove(0);
            assert_eq!(line(&before), "s0", "{name}");
        }
    };
    let place = Place::new();
    let settings = haproxy_pair(&place, "", "", "maxconn 1", &addresses);
    let haproxy = place.start_haproxy(&settings);
    check(&place, "HAProxy", &|_| {
        std::thread::sleep(Duration::from_millis(300))
    });
    drop(haproxy);
    let place = Place::new();
    let _lb = place.start(&narrow(&place, "", addresses[0]));
    check(&place, "lb-proxy", &|n| wait_queued(&place, n));
}

/// Waits until this many clients wait for the server.
fn wait_queued(place: &Place, n: usize) {
    wait::for_it(&format!("{n} wait"), PATIENCE, || {
        let status = place.done(&["status"]);
        match n {
            0 => !status.contains(" wait"),
            n => status.contains(&format!(", {n} wait")),
        }
    });
}

#[test]
fn a_full_queue_refuses_at_once_and_a_long_wait_ends() {
    let (_servers, addresses) = servers(1);
    let place = Place::new();
    let lb = place.start(&format!(
        "{}{}",
        narrow(&place, "queue = 2\nqueue-timeout = \"3s\"", addresses[0]),
        place.access_log()
    ));
    let first = connect(place.front());
    assert_eq!(line(&first), "s0");
    let start = Instant::now();
    let waiting = [connect(place.front()), connect(place.front())];
    wait_queued(&place, 2);
    refused_soon(place.front());
    // The two that wait still do.
    wait_queued(&place, 2);
    for stream in &waiting {
        assert_ne!(end_within(stream, PATIENCE), End::Open(0));
        let waited = start.elapsed();
        assert!(waited > Duration::from_millis(2_500), "{waited:?}");
        assert!(waited < Duration::from_secs(10), "{waited:?}");
    }
    // The one that had a server is as it was.
    send(&first, 20, 5000, 5000).unwrap();
    assert_eq!(receive(&first, 20, 5000), Ok(()));
    let records = place.wait_records(3);
    let terminations: Vec<_> = records.iter().map(|one| &one["termination"]).collect();
    assert_eq!(terminations, ["PQ", "sQ", "sQ"], "{records:?}");
    lb.stop();
}

#[test]
fn a_client_that_leaves_the_queue_frees_its_place() {
    let (_servers, addresses) = servers(1);
    let place = Place::new();
    let _lb = place.start(&narrow(&place, "queue = 1", addresses[0]));
    let first = connect(place.front());
    assert_eq!(line(&first), "s0");
    for _ in 0..5 {
        let waiting = connect(place.front());
        wait_queued(&place, 1);
        tests::stream::reset(waiting);
        wait_queued(&place, 0);
    }
    let waiting = connect(place.front());
    wait_queued(&place, 1);
    drop(first);
    assert_eq!(line(&waiting), "s0");
}

#[test]
fn the_queue_serves_many_that_come_at_once() {
    let (_servers, addresses) = servers(1);
    let check = |place: &Place, name: &str| {
        std::thread::scope(|scope| {
            for seed in 0..60 {
                scope.spawn(move || {
                    let stream = connect(place.front());
                    assert_eq!(try_line(&stream).unwrap(), "s0", "{name}");
                    send(&stream, seed, 2000, 2000).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(receive(&stream, seed, 2000), Ok(()), "{name}");
                    assert_eq!(end(&stream), End::Closed(0), "{name}");
                });
            }
        });
    };
    let place = Place::new();
    let settings = haproxy_pair(&place, "", "", "maxconn 1", &addresses);
    let haproxy = place.start_haproxy(&settings);
    check(&place, "HAProxy");
    drop(haproxy);
    let place = Place::new();
    let _lb = place.start(&narrow(&place, "", addresses[0]));
    check(&place, "lb-proxy");
}

#[test]
fn a_full_frontend_lets_clients_wait_outside() {
    let (_servers, addresses) = servers(1);
    let place = Place::new();
    let text = pair(&place, "max-connections = 2", "", &addresses);
    let _lb = place.start(&text);
    let mut inside: Vec<TcpStream> = (0..2).map(|_| connect(place.front())).collect();
    for stream in &inside {
        assert_eq!(line(stream), "s0");
    }
    // The kernel has accepted it; the proxy has not.
    let mut outside = connect(place.front());
    outside.write_all(b"x").unwrap();
    assert_eq!(
        end_within(&outside, Duration::from_millis(300)),
        End::Open(0)
    );
    drop(inside.pop());
    outside.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(line(&outside), "s0");
}
