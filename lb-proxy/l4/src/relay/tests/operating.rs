//! What operators do to a running engine.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use balance::table::{Frontend, Route, Table};

use super::rig::{
    Rig, accept, is_reset, named_echo, patient, pattern, read_exact, read_to_end, server, until,
};
use crate::relay::{BindOptions, Filter, Listener, SessionState};

#[test]
fn sessions_are_shown_and_killed() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).with_log().start();
    let mut clients: Vec<_> = (0..3).map(|_| rig.connect()).collect();
    let mut fars: Vec<_> = (0..3).map(|_| accept(&listener)).collect();
    clients[0].write_all(b"12345").unwrap();
    until("bytes", || {
        let sessions = rig.engine().sessions(&Filter::all());
        sessions.len() == 3 && sessions.iter().map(|s| s.bytes_in).sum::<u64>() == 5
    });
    let ours = clients[1].local_addr().unwrap();
    let sessions = rig.engine().sessions(&Filter::all());
    let session = sessions.iter().find(|s| s.client == ours).unwrap();
    assert_eq!(session.local, Some(rig.address()));
    assert_eq!(session.server.as_deref(), Some("s0"));
    assert_eq!(session.server_address, Some(address));
    assert_eq!(session.state, SessionState::Relaying);
    for (filter, expected) in [
        (
            Filter {
                frontend: Some("x".to_owned()),
                ..Filter::all()
            },
            0,
        ),
        (
            Filter {
                client: Some("10.0.0.0/8".parse().unwrap()),
                ..Filter::all()
            },
            0,
        ),
        (
            Filter {
                id: Some(session.id),
                ..Filter::all()
            },
            1,
        ),
        (
            Filter {
                server: Some("s0".to_owned()),
                ..Filter::all()
            },
            2,
        ),
    ] {
        assert_eq!(rig.engine().kill(&filter), expected, "{filter:?}");
    }
    for stream in clients.iter_mut().chain(&mut fars) {
        assert!(read_to_end(stream).is_err());
    }
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["KD", "KD", "KD"]);
}

#[test]
fn sessions_of_an_address_that_leaves_are_reset() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.frontend.listen = vec!["0.0.0.0:0".parse().unwrap()];
    let rig = rig.start();
    let port = rig.address().port();
    let mut first = patient(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let _first_far = accept(&listener);
    let mut second = patient(TcpStream::connect(("127.0.0.2", port)).unwrap());
    let mut second_far = accept(&listener);
    let gone = "127.0.0.1".parse().unwrap();
    assert_eq!(rig.engine().reset_local(&[gone]), 1);
    assert!(is_reset(&read_to_end(&mut first)));
    second.write_all(b"on").unwrap();
    assert_eq!(read_exact(&mut second_far, 2), b"on");
}

#[test]
fn a_full_frontend_leaves_clients_in_the_backlog() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.frontend.max_connections = Some(2);
    let rig = rig.start();
    let mut clients: Vec<_> = (0..6).map(|_| rig.connect()).collect();
    let mut fars: Vec<_> = (0..2).map(|_| accept(&listener)).collect();
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(rig.n_sessions(), 2);
    while !fars.is_empty() {
        drop(fars.remove(0));
        // Whichever client it was: all are closed in the end, and never more than two at a time.
        clients.retain_mut(|client| {
            client.set_nonblocking(true).unwrap();
            let open = !matches!(client.peek(&mut [0]), Ok(0));
            client.set_nonblocking(false).unwrap();
            open
        });
        assert!(rig.n_sessions() <= 2);
        if clients.is_empty() {
            break;
        }
        listener.set_nonblocking(true).unwrap();
        until("progress", || {
            if let Ok((far, _)) = listener.accept() {
                fars.push(far);
            }
            clients.retain_mut(|client| {
                client.set_nonblocking(true).unwrap();
                let open = !matches!(client.peek(&mut [0]), Ok(0));
                client.set_nonblocking(false).unwrap();
                open
            });
            !fars.is_empty() || clients.is_empty()
        });
    }
    rig.until_sessions(0);
    assert!(rig.engine().counters().full.load(Ordering::Relaxed) > 0);
    assert_eq!(rig.frontend.tally.most_sessions.load(Ordering::Relaxed), 2);
}

#[test]
fn a_full_process_leaves_clients_in_the_backlog() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.options.max_connections = Some(1);
    let rig = rig.start();
    let first = rig.connect();
    let far = accept(&listener);
    let mut second = rig.connect();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rig.n_sessions(), 1);
    drop((first, far));
    accept(&listener).write_all(b"you").unwrap();
    assert_eq!(read_exact(&mut second, 3), b"you");
}

#[test]
fn a_source_that_is_denied_is_reset() {
    let mut rig = Rig::new(&[named_echo("a")]);
    rig.frontend.sources.deny = "127.0.0.0/8".parse().unwrap();
    let rig = rig.start();
    assert!(is_reset(&read_to_end(&mut rig.connect())));
    assert_eq!(rig.frontend.tally.denied.load(Ordering::Relaxed), 1);
    rig.until_sessions(0);
}

#[test]
fn a_shared_listener_serves_from_every_worker() {
    let (listener, address) = server();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let given = Listener {
        frontend: "api".into(),
        address: socket.local_addr().unwrap(),
        sockets: vec![socket],
    };
    let rig = Rig::new(&[address]).start_with(vec![given]);
    let clients: Vec<_> = (0..50).map(|_| rig.connect()).collect();
    let fars: Vec<_> = (0..50).map(|_| accept(&listener)).collect();
    rig.until_sessions(50);
    drop((clients, fars));
    rig.until_sessions(0);
}

#[test]
fn listeners_change_in_place() {
    let rig = Rig::new(&[named_echo("a")]).start();
    let options = BindOptions {
        per_address: 2,
        freebind: false,
    };
    let kept = rig.address();
    let mut client = rig.connect();
    assert_eq!(read_exact(&mut client, 1), b"a");
    let added = super::rig::free();
    let api: Arc<str> = "api".into();
    let wanted = [(Arc::clone(&api), kept), (Arc::clone(&api), added)];
    rig.engine().set_listeners(&wanted, options).unwrap();
    for address in [kept, added] {
        let mut client = patient(TcpStream::connect(address).unwrap());
        assert_eq!(read_exact(&mut client, 1), b"a");
    }
    // What cannot be bound changes nothing.
    let (_taken, taken) = server();
    let bad = [(Arc::clone(&api), taken)];
    let error = rig.engine().set_listeners(&bad, options).unwrap_err();
    assert_eq!(error.address, taken);
    assert_eq!(rig.engine().listening().len(), 2);
    rig.engine().set_listeners(&wanted[1..], options).unwrap();
    until("refusal", || TcpStream::connect(kept).is_err());
    // Sessions of the listener that is gone go on.
    client.write_all(b"on").unwrap();
    assert_eq!(read_exact(&mut client, 2), b"on");
}

#[test]
fn a_listener_waits_for_its_frontend() {
    let rig = Rig::new(&[named_echo("a")]).start();
    let before = rig.cell.current();
    rig.cell.publish(Table::default());
    rig.engine().notice();
    std::thread::sleep(Duration::from_millis(10));
    let mut client = rig.connect();
    std::thread::sleep(Duration::from_millis(20));
    rig.cell.publish_shared(before);
    rig.engine().notice();
    assert_eq!(read_exact(&mut client, 1), b"a");
}

#[test]
fn a_route_of_an_old_table_is_not_used_with_a_new_one() {
    let rig = Rig::new(&[named_echo("a")]);
    let mut rig = rig;
    rig.frontend.accept_proxy = balance::table::AcceptProxy::Optional;
    let rig = rig.start();
    let mut client = rig.connect();
    rig.until_sessions(1);
    let old = rig.cell.current();
    let frontend = Frontend::new("api", Vec::new(), Route::to(7));
    rig.cell.publish(Table {
        frontends: vec![Arc::new(frontend)],
        backends: old.backends.clone(),
        generation: 7,
    });
    rig.engine().notice();
    std::thread::sleep(Duration::from_millis(10));
    client.write_all(b"x").unwrap();
    // The newest route leads nowhere.
    assert!(is_reset(&read_to_end(&mut client)));
}

#[test]
fn a_drain_waits_for_sessions_and_takes_what_is_in_the_backlog() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let address = rig.address();
    let client = rig.connect();
    let far = accept(&listener);
    let waiting: Vec<_> = (0..8).map(|_| rig.connect()).collect();
    assert!(!rig.engine().drain(Duration::from_millis(50)));
    assert!(TcpStream::connect(address).is_err());
    let fars: Vec<_> = (0..8).map(|_| accept(&listener)).collect();
    drop((client, far, waiting, fars));
    assert!(rig.engine().drain(Duration::from_secs(5)));
}

#[test]
fn every_worker_shows_that_it_lives() {
    let rig = Rig::new(&[]).start();
    let beats = rig.engine().heartbeats();
    assert_eq!(beats.len(), 2);
    assert_eq!(beats[1].0, "lb-relay-1");
    let before: Vec<u64> = beats.iter().map(|b| b.1.count()).collect();
    beats.iter().for_each(|beat| beat.1.wake());
    until("beat", || {
        beats
            .iter()
            .zip(&before)
            .all(|(beat, before)| beat.1.count() > *before)
    });
}

#[test]
fn a_session_gets_its_options_when_it_has_lived_a_while() {
    let (listener, address) = server();
    let rig = Rig::new(&[address]).start();
    let client = rig.connect();
    let _far = accept(&listener);
    let table = |port: u16| {
        let text = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let local = format!(":{:04X}", rig.address().port());
        let remote = format!(":{port:04X}");
        text.lines()
            .find(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() > 5 && words[1].ends_with(&local) && words[2].ends_with(&remote)
            })
            .map(|line| line.split_whitespace().nth(5).unwrap().to_owned())
    };
    // "02:…" is a keep-alive timer.
    let port = client.local_addr().unwrap().port();
    until("keep-alive", || {
        table(port).is_some_and(|timer| timer.starts_with("02"))
    });
}

#[test]
fn sessions_that_last_are_spread_over_workers_that_share_a_socket() {
    let rig = Rig::new(&[named_echo("")]);
    let mut listener = rig.listener();
    listener.sockets.truncate(1);
    let rig = rig.start_with(vec![listener]);
    let mut clients: Vec<_> = (0..60).map(|_| rig.connect()).collect();
    rig.until_sessions(60);
    // Whoever is woken first would have them all; in a burst, counts lag behind.
    let mailboxes = &rig.engine().shared.mailboxes;
    until("sessions are spread", || {
        let sessions = mailboxes
            .iter()
            .map(|it| it.sessions.load(Ordering::Relaxed));
        let sessions: Vec<usize> = sessions.collect();
        sessions.iter().sum::<usize>() == 60 && sessions.iter().all(|n| *n >= 6)
    });
    for (number, client) in clients.iter_mut().enumerate() {
        let word = pattern(9, number as u64);
        client.write_all(&word).unwrap();
        assert_eq!(read_exact(client, 9), word);
    }
    drop(clients);
    rig.until_sessions(0);
}

#[test]
fn who_is_frozen_accepts_nothing() {
    let rig = Rig::new(&[named_echo("")]).start();
    let address = rig.address();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Its end is the test's own doing, so it may be refused by a full backlog.
                    drop(TcpStream::connect(address));
                }
            });
        }
        for _ in 0..200 {
            let parcels = rig.engine().freeze().unwrap();
            std::thread::sleep(Duration::from_millis(1));
            let counted = rig
                .engine()
                .shared
                .counters
                .sessions
                .load(Ordering::Relaxed);
            let held = parcels.len() as u64;
            rig.engine().adopt(parcels);
            if counted != held {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(counted, held, "sessions that belong to nobody");
        }
        stop.store(true, Ordering::Relaxed);
    });
}
