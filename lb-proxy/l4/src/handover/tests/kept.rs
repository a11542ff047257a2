//! What a successor counts and ends as its predecessor would have.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::limits::{Limits, Rules};
use balance::pool::Eligibility;
use balance::table::{AcceptProxy, OnDown, SendProxy};
use tls_routes::Routes;

use super::{new, old};
use crate::relay::tests::rig::{
    LIMIT, Rig, accept, is_reset, named_echo, read_exact, read_to_end, server, until,
};
use crate::relay::{Filter, SessionState};
use daemon::clock::now;

#[test]
fn a_session_whose_name_is_not_known_yet_counts_against_its_source() {
    let (_listener, address) = server();
    for (accept_proxy, counted) in [(AcceptProxy::No, 1), (AcceptProxy::Required, 0)] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("swap");
        let rules = Rules {
            connections: Some(1),
            rate: None,
        };
        let settings = || {
            let limits = Limits::new(rules, 64, 7, now());
            let mut rig = Rig::new(&[address]);
            rig.frontend.accept_proxy = accept_proxy;
            let any_name = tls_routes::RouteRule {
                names: vec!["*".into()],
                ..tls_routes::RouteRule::default()
            };
            let by_name = tls_routes::RouteRules {
                rules: vec![any_name],
                ..tls_routes::RouteRules::default()
            };
            rig.frontend.route.routes = Routes::new(&by_name, |_| Some(0));
            rig.frontend.route.inspect_timeout = LIMIT;
            rig.frontend.limits = Some(Arc::clone(&limits));
            (rig, limits)
        };
        let (rig, limits) = settings();
        let mut rig = rig.start();
        let _silent = rig.connect();
        rig.until_sessions(1);
        until("admission", || in_all(&limits) == counted);
        let was = old(&mut rig, &path);
        let (next, limits) = settings();
        let (next, predecessor) = new(next, &path);
        assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 1);
        was.gone.recv_timeout(LIMIT).unwrap();
        assert_eq!(in_all(&limits), counted, "{accept_proxy:?}");
    }
}

/// How many connections are counted.
fn in_all(limits: &Limits) -> u32 {
    let sources = limits.busiest(10, now());
    sources.iter().map(|source| source.connections).sum()
}

/// A session of a server that was `before` when it was chosen, taken over by a process to which it is
/// `after`: the client, the server's end, and the successor.
fn swapped(
    on_down: OnDown,
    before: Eligibility,
    after: Eligibility,
) -> (TcpStream, TcpStream, Rig) {
    let (listener, address) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let settings = |eligibility| {
        let mut rig = Rig::new(&[address]);
        rig.pool.servers[0].eligibility = eligibility;
        rig.pool.fail_open = true;
        rig.policy.on_down = on_down;
        rig
    };
    let mut rig = settings(before).start();
    let client = rig.connect();
    let far = accept(&listener);
    until("a session", || {
        let shown = rig.engine().sessions(&Filter::all());
        shown.iter().any(|it| it.state == SessionState::Relaying)
    });
    let was = old(&mut rig, &path);
    let (next, predecessor) = new(settings(after), &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 1);
    was.gone.recv_timeout(LIMIT).unwrap();
    (client, far, next)
}

const UP: Eligibility = Eligibility::Up { since: None };

#[test]
fn a_session_ends_when_its_server_went_down_meanwhile() {
    for after in [Eligibility::Down, Eligibility::Maintenance] {
        let (mut client, mut far, next) = swapped(OnDown::Reset, UP, after);
        assert!(is_reset(&read_to_end(&mut client)), "{after:?}");
        assert!(is_reset(&read_to_end(&mut far)), "{after:?}");
        let counters = next.engine().counters();
        assert_eq!(counters.reset_on_down.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_session_goes_on_where_nothing_has_happened_to_its_server() {
    for (on_down, before, after) in [
        (OnDown::Finish, UP, Eligibility::Down),
        (OnDown::Reset, UP, Eligibility::Drain),
        (OnDown::Reset, UP, UP),
        // It was chosen for want of a better one, and would be again.
        (OnDown::Reset, Eligibility::Down, Eligibility::Down),
    ] {
        let (mut client, mut far, _next) = swapped(on_down, before, after);
        client.write_all(b"still").unwrap();
        assert_eq!(read_exact(&mut far, 5), b"still", "{before:?} {after:?}");
    }
}

/// An address that neither takes a connection nor refuses it, while what comes with it is there.
fn silent() -> (SocketAddr, impl Sized) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let fill: Vec<_> = (0..3)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50)))
        .collect();
    (address, (socket, fill))
}

#[test]
fn an_attempt_at_a_server_that_went_down_meanwhile_goes_elsewhere() {
    let (silent, _full) = silent();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let settings = |servers: &[SocketAddr]| {
        let mut rig = Rig::new(servers);
        rig.policy.connect_timeout = 10 * LIMIT;
        rig.policy.on_down = OnDown::Reset;
        rig
    };
    let mut rig = settings(&[silent]).start();
    let mut client = rig.connect();
    client.write_all(b"patient").unwrap();
    until("an attempt", || {
        let shown = rig.engine().sessions(&Filter::all());
        shown.iter().any(|it| it.state == SessionState::Connecting)
    });
    let was = old(&mut rig, &path);
    let mut next = settings(&[silent, named_echo("")]);
    next.pool.servers[0].eligibility = Eligibility::Down;
    let (next, predecessor) = new(next, &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 1);
    was.gone.recv_timeout(LIMIT).unwrap();
    assert_eq!(read_exact(&mut client, 7), b"patient");
}

#[test]
fn what_a_header_has_told_is_told_by_the_successor() {
    let (listener, address) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let settings = || {
        let mut rig = Rig::new(&[address]);
        rig.frontend.accept_proxy = AcceptProxy::Required;
        rig.policy.send_proxy = SendProxy::V2;
        rig.pool.servers[0].max_connections = Some(1);
        rig
    };
    // From 192.0.2.7:1 to 192.0.2.1:2, for `api`.
    let header =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x12\xc0\0\x02\x07\xc0\0\x02\x01\0\x01\0\x02\x02\0\x03api";
    let mut rig = settings().start();
    let mut first = rig.connect();
    first.write_all(header).unwrap();
    let mut far = accept(&listener);
    assert_eq!(read_exact(&mut far, header.len()), header);
    let mut waiting = rig.connect();
    waiting.write_all(header).unwrap();
    until("queue", || {
        rig.engine().counters().queued.load(Ordering::Relaxed) == 1
    });
    let was = old(&mut rig, &path);
    let (next, predecessor) = new(settings(), &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 2);
    was.gone.recv_timeout(LIMIT).unwrap();
    drop((first, far));
    let mut far = accept(&listener);
    assert_eq!(read_exact(&mut far, header.len()), header);
}
