//! Servers that refuse, are silent, full, or go away.

use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::pool::Eligibility;
use balance::table::{OnDown, OnUp};

use super::rig::{
    Rig, accept, free, is_reset, named_echo, nobody, patient, pattern, read_exact, read_to_end,
    reset, server, until,
};
use crate::relay::Filter;

#[test]
fn a_refused_connection_goes_to_the_next_server_at_once() {
    let rig = Rig::new(&[nobody(), nobody(), named_echo("c")]).start();
    for _ in 0..10 {
        let mut client = rig.connect();
        assert_eq!(read_exact(&mut client, 1), b"c");
    }
    let failures = rig.failures.list();
    assert!(!failures.is_empty());
    for (server, kind) in failures {
        assert!(server == "s0" || server == "s1");
        assert_eq!(kind, io::ErrorKind::ConnectionRefused);
    }
    let counters = rig.engine().counters();
    assert!(counters.redispatches.load(Ordering::Relaxed) >= 1);
}

#[test]
fn what_a_client_sends_first_goes_to_the_server_that_does_not_refuse() {
    let (listener, address) = server();
    let rig = Rig::new(&[nobody(), nobody(), address]).start();
    for length in [1, 2 << 10, (2 << 10) + 1, 9_000] {
        let mut client = rig.connect();
        let sent = pattern(length, 7);
        client.write_all(&sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut far = accept(&listener);
        assert!(read_to_end(&mut far).unwrap() == sent, "{length}");
        far.write_all(b"thanks").unwrap();
        drop(far);
        assert_eq!(read_to_end(&mut client).unwrap(), b"thanks");
    }
}

#[test]
fn everybody_is_asked_before_a_client_is_refused() {
    let mut servers: Vec<_> = (0..9).map(|_| nobody()).collect();
    servers.push(named_echo("last"));
    let rig = Rig::new(&servers).start();
    for _ in 0..4 {
        assert_eq!(read_exact(&mut rig.connect(), 4), b"last");
    }
    // More than can be remembered, and none of them there: an end all the same.
    let servers: Vec<_> = (0..40).map(|_| nobody()).collect();
    let rig = Rig::new(&servers).with_log().start();
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["SC"]);
}

/// A server that answers nobody, for as long as what comes with it lives: a full backlog drops what comes.
fn silent() -> (SocketAddr, impl Sized) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let fill: Vec<_> = (0..3)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50)))
        .collect();
    (address, (socket, fill))
}

#[test]
fn a_silent_server_costs_one_connection_the_timeout() {
    let (address, _server) = silent();
    let mut rig = Rig::new(&[address, named_echo("b")]);
    rig.policy.connect_timeout = Duration::from_millis(100);
    let rig = rig.start();
    for _ in 0..20 {
        assert_eq!(read_exact(&mut rig.connect(), 1), b"b");
    }
    let expected = [("s0".to_owned(), io::ErrorKind::TimedOut)];
    assert_eq!(rig.failures.list(), expected);
}

#[test]
fn what_healthd_says_of_a_server_counts_more_than_its_failures() {
    let (address, _server) = silent();
    let mut rig = Rig::new(&[address, named_echo("b")]);
    rig.policy.connect_timeout = Duration::from_millis(100);
    rig.pool.servers[0].is_probed = true;
    let mut rig = rig.start();
    for _ in 0..6 {
        assert_eq!(read_exact(&mut rig.connect(), 1), b"b");
    }
    assert!(rig.failures.list().len() > 1, "healthd says that it is up");
    // healthd goes: what was learnt meanwhile counts at once.
    rig.pool.servers[0].is_probed = false;
    rig.publish();
    let before = rig.failures.list().len();
    for _ in 0..6 {
        assert_eq!(read_exact(&mut rig.connect(), 1), b"b");
    }
    assert_eq!(rig.failures.list().len(), before);
}

#[test]
fn a_server_that_failed_is_used_when_no_other_is_left() {
    let (address, server) = silent();
    let mut rig = Rig::new(&[address]);
    rig.policy.connect_timeout = Duration::from_millis(100);
    rig.policy.retries = 0;
    let rig = rig.start();
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    drop(server);
    let listener = std::net::TcpListener::bind(address).unwrap();
    let _client = rig.connect();
    accept(&listener);
    assert_eq!(rig.failures.list().len(), 1);
}

#[test]
fn with_nobody_to_go_to_clients_are_reset_with_the_code_for_it() {
    let mut rig = Rig::new(&[nobody()]).with_log();
    rig.policy.retries = 0;
    let rig = rig.start();
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["SC"]);

    let mut rig = Rig::new(&[nobody()]).with_log();
    rig.pool.servers[0].eligibility = Eligibility::Down;
    let rig = rig.start();
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["SC"]);
}

#[test]
fn the_only_server_is_tried_again_when_it_had_time_to_come_back() {
    let address = free();
    let rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    until("failure", || !rig.failures.list().is_empty());
    let listener = std::net::TcpListener::bind(address).unwrap();
    let mut far = accept(&listener);
    far.write_all(b"back").unwrap();
    assert_eq!(read_exact(&mut client, 4), b"back");
}

#[test]
fn clients_wait_for_a_server_with_room_in_their_order() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.pool.servers[0].max_connections = Some(1);
    let rig = rig.start();
    let first = rig.connect();
    let far = accept(&listener);
    let mut waiting: Vec<_> = (0..5)
        .map(|number| {
            let client = rig.connect();
            until("queue", || {
                rig.engine().counters().queued.load(Ordering::Relaxed) == number + 1
            });
            client
        })
        .collect();
    drop((first, far));
    for (number, client) in (0_u8..).zip(&mut waiting) {
        let mut far = accept(&listener);
        far.write_all(&[number]).unwrap();
        assert_eq!(read_exact(client, 1), [number]);
        rig.until_sessions(5 - u64::from(number));
        client.shutdown(std::net::Shutdown::Both).unwrap();
        drop(far);
        rig.until_sessions(4 - u64::from(number));
    }
}

#[test]
fn a_full_queue_and_a_long_wait_have_their_codes() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.pool.servers[0].max_connections = Some(1);
    rig.pool.queue = 2;
    rig.policy.queue_timeout = Duration::from_secs(2);
    let rig = rig.start();
    let first = rig.connect();
    let far = accept(&listener);
    let mut long = rig.connect();
    // Unread bytes would turn the end into a reset.
    long.write_all(b"question").unwrap();
    let gone = rig.connect();
    until("queue", || {
        rig.engine().counters().queued.load(Ordering::Relaxed) == 2
    });
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    reset(gone);
    assert!(read_to_end(&mut long).unwrap().is_empty());
    drop((first, far));
    rig.until_sessions(0);
    let mut codes = rig.terminations();
    codes.sort();
    assert_eq!(codes, ["--", "CQ", "PQ", "sQ"]);
}

#[test]
fn room_that_a_new_table_brings_is_used() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.pool.servers[0].max_connections = Some(1);
    let mut rig = rig.start();
    let clients: Vec<_> = (0..4).map(|_| rig.connect()).collect();
    let _first = accept(&listener);
    until("queue", || {
        rig.engine().counters().queued.load(Ordering::Relaxed) == 3
    });
    rig.pool.servers[0].max_connections = Some(4);
    rig.publish();
    let _rest: Vec<_> = (0..3).map(|_| accept(&listener)).collect();
    drop(clients);
}

#[test]
fn sessions_of_a_server_that_goes_down_end_as_the_policy_has_it() {
    for (on_down, eligibility, ends) in [
        (OnDown::Reset, Eligibility::Down, true),
        (OnDown::Reset, Eligibility::Maintenance, true),
        (OnDown::Reset, Eligibility::Drain, false),
        (OnDown::Finish, Eligibility::Down, false),
    ] {
        let (listener, address) = server();
        let mut rig = Rig::new(&[address]).with_log();
        rig.policy.on_down = on_down;
        let mut rig = rig.start();
        let mut client = rig.connect();
        let mut far = accept(&listener);
        rig.pool.servers[0].eligibility = eligibility;
        rig.publish();
        if ends {
            assert!(is_reset(&read_to_end(&mut client)));
            assert!(is_reset(&read_to_end(&mut far)));
            rig.until_sessions(0);
            assert_eq!(rig.terminations(), ["DD"]);
        } else {
            std::thread::sleep(Duration::from_millis(20));
            client.write_all(b"still").unwrap();
            assert_eq!(read_exact(&mut far, 5), b"still");
            // Nobody new is sent there.
            assert!(is_reset(&read_to_end(&mut rig.connect())));
        }
    }
}

#[test]
fn who_waits_for_a_server_to_come_back_goes_to_the_one_that_has() {
    let mut rig = Rig::new(&[nobody(), named_echo("b")]);
    rig.policy.on_down = OnDown::Reset;
    rig.policy.retries = 100;
    rig.pool.servers[1].eligibility = Eligibility::Down;
    let mut rig = rig.start();
    let mut client = rig.connect();
    until("failure", || !rig.failures.list().is_empty());
    rig.pool.servers[0].eligibility = Eligibility::Down;
    rig.pool.servers[1].eligibility = Eligibility::Up { since: None };
    rig.publish();
    assert_eq!(read_exact(&mut client, 1), b"b");
}

#[test]
fn sessions_of_a_backup_end_when_the_first_choice_is_back_if_they_are_to() {
    for (on_up, ends) in [(OnUp::Reset, true), (OnUp::Finish, false)] {
        let (_first, first) = server();
        let (backup, second) = server();
        let mut rig = Rig::new(&[first, second]).with_log();
        rig.policy.on_up = on_up;
        rig.pool.servers[1].backup = true;
        rig.pool.servers[0].eligibility = Eligibility::Down;
        let mut rig = rig.start();
        let mut client = rig.connect();
        let mut far = accept(&backup);
        // Nothing changes for who is needed.
        rig.publish();
        std::thread::sleep(Duration::from_millis(20));
        client.write_all(b"still").unwrap();
        assert_eq!(read_exact(&mut far, 5), b"still");
        rig.pool.servers[0].eligibility = Eligibility::Up { since: None };
        rig.publish();
        if ends {
            assert!(is_reset(&read_to_end(&mut client)));
            assert!(is_reset(&read_to_end(&mut far)));
            rig.until_sessions(0);
            assert_eq!(rig.terminations(), ["UD"]);
        } else {
            std::thread::sleep(Duration::from_millis(20));
            client.write_all(b"still").unwrap();
            assert_eq!(read_exact(&mut far, 5), b"still");
        }
    }
}

#[test]
fn a_server_that_stays_down_is_no_reason_to_end_what_runs() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.policy.on_down = OnDown::Reset;
    rig.pool.fail_open = true;
    rig.pool.servers[0].eligibility = Eligibility::Down;
    let mut rig = rig.start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    rig.publish();
    std::thread::sleep(Duration::from_millis(20));
    client.write_all(b"still").unwrap();
    assert_eq!(read_exact(&mut far, 5), b"still");
}

#[test]
fn sessions_that_come_back_go_on_as_they_did_unless_their_server_went_meanwhile() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address, address]).start();
    // Asking every worker, so that each has the table.
    let publish = |rig: &mut Rig| {
        rig.publish();
        rig.engine().sessions(&Filter::all())
    };
    let mut pairs = HashMap::new();
    for _ in 0..2 {
        let client = rig.connect();
        let far = accept(&listener);
        let own = client.local_addr().unwrap();
        let sessions = rig.engine().sessions(&Filter::all());
        let session = sessions.iter().find(|session| session.client == own);
        pairs.insert(session.unwrap().server.clone().unwrap(), (client, far));
    }
    // The policy of the moment was to let it go on; the next one is for servers that go from now on.
    rig.pool.servers[0].eligibility = Eligibility::Down;
    publish(&mut rig);
    rig.policy.on_down = OnDown::Reset;
    assert_eq!(publish(&mut rig).len(), 2);

    let parcels = rig.engine().freeze().unwrap();
    rig.pool.servers[1].eligibility = Eligibility::Down;
    publish(&mut rig);
    rig.engine().adopt(parcels);
    let (client, far) = pairs.get_mut("s1").unwrap();
    assert!(is_reset(&read_to_end(client)));
    assert!(is_reset(&read_to_end(far)));
    let (client, far) = pairs.get_mut("s0").unwrap();
    client.write_all(b"still").unwrap();
    assert_eq!(read_exact(far, 5), b"still");
}

#[test]
fn a_client_that_goes_while_servers_are_tried_ends_its_session() {
    let mut rig = Rig::new(&[nobody()]).with_log();
    rig.policy.retries = 3;
    let rig = rig.start();
    let client = rig.connect();
    until("failure", || !rig.failures.list().is_empty());
    reset(client);
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["CC"]);
}

#[test]
fn a_connection_leaves_from_the_address_it_is_told() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.policy.source_address = Some("127.0.0.9".parse().unwrap());
    let rig = rig.start();
    let _client = rig.connect();
    let far = accept(&listener);
    assert_eq!(far.peer_addr().unwrap().ip().to_string(), "127.0.0.9");
    drop(patient(far));
}
