//! Hand-overs between two engines of one process, over a real socket.

mod kept;
mod state;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use balance::table::AcceptProxy;
use l4_core::handover::{Hello, Message, VERSION};

use super::channel::{Channel, HandoverSocket};
use super::{Flows, HandoverSender, Predecessor, ask};
use crate::datagram::OutgoingFlow;
use crate::relay::tests::rig::{
    LIMIT, Rig, accept, named_echo, nobody, patient, pattern, read_exact, read_to_end, reset,
    server, until,
};
use crate::relay::{Engine, Filter, SessionState};

/// An engine that waits for its successor.
struct Old {
    engine: Arc<Engine>,
    giver: Option<HandoverSender>,
    flows: NoFlows,
    /// How often its state was asked for.
    asked: Arc<AtomicUsize>,
    gone: mpsc::Receiver<()>,
}

/// No datagrams; counts how often it was frozen and thawed.
#[derive(Clone, Default)]
struct NoFlows(Arc<[AtomicUsize; 2]>);

impl Flows for NoFlows {
    fn freeze(&self) -> Vec<OutgoingFlow> {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }

    fn thaw(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

fn old(rig: &mut Rig, path: &Path) -> Old {
    let engine = Arc::new(rig.engine.take().unwrap());
    let (sender, gone) = mpsc::channel();
    let flows = NoFlows::default();
    let others = Box::new(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        vec![("dns".to_owned(), socket.into())]
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let state = Box::new(move || {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create("state", flags).unwrap());
        write!(file, "state {number}").unwrap();
        Some(("state".to_owned(), file.into()))
    });
    let giver = HandoverSender::start(
        path,
        Arc::clone(&engine),
        others,
        state,
        Box::new(flows.clone()),
        Box::new(move || sender.send(()).unwrap()),
    )
    .unwrap();
    Old {
        engine,
        giver: Some(giver),
        flows,
        asked,
        gone,
    }
}

/// A successor with the listeners of its predecessor.
fn new(rig: Rig, path: &Path) -> (Rig, Predecessor) {
    let mut predecessor = ask(path).unwrap().unwrap();
    let listeners = predecessor.take_listeners();
    assert_eq!(listeners.len(), 1);
    let rig = rig.start_with(listeners);
    (rig, predecessor)
}

fn sessions(engine: &Engine) -> u64 {
    engine.counters().sessions.load(Ordering::Relaxed)
}

#[test]
fn nothing_is_lost_under_live_traffic_over_several_swaps() {
    let server = named_echo("");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[server]).start();
    let address = rig.address();
    let stop = Arc::new(AtomicBool::new(false));
    // Echoes of hashed data, idle sessions, and new connections all the time.
    let mut threads = Vec::new();
    for number in 0..6 {
        let stop = Arc::clone(&stop);
        threads.push(thread::spawn(move || {
            let mut stream = patient(TcpStream::connect(address).unwrap());
            let mut moved = 0;
            while !stop.load(Ordering::Relaxed) {
                let length = if number % 2 == 0 { 1 << 20 } else { 3000 };
                let bytes = pattern(length, moved as u64 + number);
                let mut writer = stream.try_clone().unwrap();
                let copy = bytes.clone();
                let writing = thread::spawn(move || writer.write_all(&copy).unwrap());
                assert!(read_exact(&mut stream, length) == bytes, "session {number}");
                writing.join().unwrap();
                moved += length;
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert!(read_to_end(&mut stream).unwrap().is_empty());
            moved
        }));
    }
    let connects = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                let mut stream = patient(TcpStream::connect(address).unwrap());
                stream.write_all(b"new").unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read_to_end(&mut stream).unwrap(), b"new");
                n += 1;
            }
            n
        })
    };
    let mut idle: Vec<_> = (0..200).map(|_| rig.connect()).collect();
    // Those that are not accepted yet would not be taken over but accepted by the successor.
    until("sessions", || rig.n_sessions() >= 206);
    for swap in 0..4 {
        thread::sleep(Duration::from_millis(40));
        let was = old(&mut rig, &path);
        let (next, predecessor) = new(Rig::new(&[server]), &path);
        let taken = predecessor.take(next.engine()).unwrap().sessions;
        assert!(taken >= 206, "swap {swap}: {taken}");
        was.gone.recv_timeout(LIMIT).unwrap();
        drop(was);
        rig = next;
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        assert!(thread.join().unwrap() > 0);
    }
    assert!(connects.join().unwrap() > 0);
    for (number, stream) in idle.iter_mut().enumerate() {
        let word = pattern(16, number as u64);
        stream.write_all(&word).unwrap();
        assert_eq!(read_exact(stream, 16), word);
    }
    drop(idle);
    rig.until_sessions(0);
}

#[test]
fn bytes_on_their_way_are_part_of_a_connection() {
    let (listener, server) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[server]).start();
    let sessions: Vec<_> = (0..3).map(|_| (rig.connect(), accept(&listener))).collect();
    let length = 12 << 20;
    // Nobody reads: buffers, pipes and what was held fill up both ways.
    let writers: Vec<_> = sessions
        .iter()
        .enumerate()
        .flat_map(|(number, (client, far))| {
            [(client, 2 * number), (far, 2 * number + 1)].map(|(stream, seed)| {
                let mut stream = stream.try_clone().unwrap();
                thread::spawn(move || {
                    stream.write_all(&pattern(length, seed as u64)).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                })
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(150));
    let was = old(&mut rig, &path);
    let (rig, predecessor) = new(Rig::new(&[server]), &path);
    assert_eq!(predecessor.take(rig.engine()).unwrap().sessions, 3);
    was.gone.recv_timeout(LIMIT).unwrap();
    let readers: Vec<_> = sessions
        .into_iter()
        .enumerate()
        .flat_map(|(number, (client, far))| {
            [(far, 2 * number), (client, 2 * number + 1)].map(|(mut stream, seed)| {
                thread::spawn(move || {
                    let bytes = read_to_end(&mut stream).unwrap();
                    assert!(bytes == pattern(length, seed as u64), "{seed}");
                })
            })
        })
        .collect();
    for thread in writers.into_iter().chain(readers) {
        thread.join().unwrap();
    }
    rig.until_sessions(0);
}

#[test]
fn a_connection_keeps_its_ends_and_its_story() {
    let (listener, server) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[server]).start();
    let mut client_done = rig.connect();
    let mut far_of_it = accept(&listener);
    client_done.write_all(b"all").unwrap();
    client_done.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut far_of_it).unwrap(), b"all");
    let mut server_done = rig.connect();
    let mut far_done = accept(&listener);
    far_done.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server_done.read(&mut [0; 4]).unwrap(), 0);
    thread::sleep(Duration::from_millis(30));

    let was = old(&mut rig, &path);
    let (next, predecessor) = new(Rig::new(&[server]).with_log(), &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 2);
    was.gone.recv_timeout(LIMIT).unwrap();
    let shown = next.engine().sessions(&Filter::all());
    for state in [SessionState::ClientClosed, SessionState::ServerClosed] {
        let session = shown.iter().find(|it| it.state == state).unwrap();
        assert!(session.age >= Duration::from_millis(30));
        assert_eq!(session.server.as_deref(), Some("s0"));
    }
    let first = shown
        .iter()
        .find(|it| it.client == client_done.local_addr().unwrap());
    assert_eq!(first.unwrap().bytes_in, 3);
    far_of_it.write_all(b"answer").unwrap();
    drop(far_of_it);
    assert_eq!(read_to_end(&mut client_done).unwrap(), b"answer");
    server_done.write_all(b"late").unwrap();
    drop(server_done);
    assert_eq!(read_to_end(&mut far_done).unwrap(), b"late");
    next.until_sessions(0);
    assert_eq!(next.terminations(), ["--", "--"]);
}

#[test]
fn connections_without_a_server_are_handed_over_too() {
    let (listener, address) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let settings = |servers: &[_]| {
        let mut rig = Rig::new(servers);
        rig.frontend.accept_proxy = AcceptProxy::Optional;
        rig.pool.servers[0].max_connections = Some(1);
        rig
    };
    let mut rig = settings(&[address]).start();
    // One holds the only place, one waits for it, one is in the middle of its header.
    let mut first = rig.connect();
    first.write_all(b"first").unwrap();
    let mut far = accept(&listener);
    assert_eq!(read_exact(&mut far, 5), b"first");
    let mut waiting = rig.connect();
    waiting.write_all(b"waiting").unwrap();
    until("queue", || {
        rig.engine().counters().queued.load(Ordering::Relaxed) == 1
    });
    let mut inspected = rig.connect();
    inspected.write_all(b"PROXY TCP4 192.0.2.7 192.0").unwrap();
    rig.until_sessions(3);
    thread::sleep(Duration::from_millis(20));

    let was = old(&mut rig, &path);
    let (next, predecessor) = new(settings(&[address]), &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 3);
    was.gone.recv_timeout(LIMIT).unwrap();
    inspected.write_all(b".2.1 1 2\r\nafter").unwrap();
    drop((first, far));
    let mut words = Vec::new();
    for _ in 0..2 {
        let mut far = accept(&listener);
        let mut word = [0; 16];
        let length = far.read(&mut word).unwrap();
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
        reset(far);
    }
    words.sort();
    assert_eq!(words, ["after", "waiting"]);
    drop((waiting, inspected));
    next.until_sessions(0);
}

#[test]
fn an_attempt_under_way_is_finished_by_the_successor() {
    // A full backlog: the attempt neither succeeds nor fails.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let silent = socket.local_addr().unwrap().as_socket().unwrap();
    let _fill: Vec<_> = (0..3)
        .map(|_| TcpStream::connect_timeout(&silent, Duration::from_millis(50)))
        .collect();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[silent]);
    rig.policy.connect_timeout = Duration::from_secs(30);
    let mut rig = rig.start();
    let mut client = rig.connect();
    client.write_all(b"patient").unwrap();
    until("attempt", || {
        let shown = rig.engine().sessions(&Filter::all());
        shown.iter().any(|it| it.state == SessionState::Connecting)
    });
    let was = old(&mut rig, &path);
    let mut next = Rig::new(&[silent, named_echo("")]);
    next.policy.connect_timeout = Duration::from_millis(50);
    let (next, predecessor) = new(next, &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 1);
    was.gone.recv_timeout(LIMIT).unwrap();
    assert!(path.exists(), "the path is the successor's from here on");
    assert_eq!(read_exact(&mut client, 7), b"patient");
    drop(client);
    next.until_sessions(0);
}

#[test]
fn what_the_new_table_does_not_have_goes_on() {
    let (listener, address) = server();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[address]).start();
    let mut client = rig.connect();
    let mut far = accept(&listener);
    let was = old(&mut rig, &path);
    let mut next = Rig::new(&[nobody()]);
    next.frontend.name = "other".into();
    next.pool.name = "others".into();
    let (next, predecessor) = new(next, &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 1);
    was.gone.recv_timeout(LIMIT).unwrap();
    client.write_all(b"still").unwrap();
    assert_eq!(read_exact(&mut far, 5), b"still");
    let shown = next.engine().sessions(&Filter::all());
    assert_eq!(shown[0].backend.as_deref(), Some("masters"));
    assert_eq!(shown[0].server_address, Some(address));
}

#[test]
fn a_successor_that_fails_leaves_everything_as_it_was() {
    let server = named_echo("");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[server]).start();
    let address = rig.address();
    let mut clients: Vec<_> = (0..300).map(|_| rig.connect()).collect();
    rig.until_sessions(300);
    let was = old(&mut rig, &path);
    // It dies at every step of the conversation in turn; `n` counts messages it still receives.
    for n in 0..10 {
        let mut channel = Channel::open(&path).unwrap().unwrap();
        channel.send(&hello_of(VERSION), &[]).unwrap();
        let mut taken = false;
        for _ in 0..n {
            let (message, _fds) = channel.receive().unwrap();
            let answer = match message {
                Message::Sockets(_) | Message::Connections(_) => Some(Message::Acknowledged),
                Message::SocketsEnd => {
                    taken = true;
                    Some(Message::Take)
                }
                // A lie, told at the last moment.
                Message::End { .. } => Some(Message::Received { connections: 1 }),
                _ => None,
            };
            if let Some(answer) = answer {
                channel.send(&answer, &[]).ok();
            }
        }
        if taken && n % 2 == 0 {
            let reason = "out of memory".to_owned();
            channel.send(&Message::Abort { reason }, &[]).ok();
        }
        drop(channel);
        for (number, client) in clients.iter_mut().enumerate().step_by(50) {
            let word = pattern(8, number as u64);
            client.write_all(&word).unwrap();
            assert_eq!(read_exact(client, 8), word, "after {n} messages");
        }
        let mut fresh = patient(TcpStream::connect(address).unwrap());
        fresh.write_all(b"new").unwrap();
        assert_eq!(read_exact(&mut fresh, 3), b"new");
    }
    assert!(was.gone.try_recv().is_err());
    until("sessions", || sessions(&was.engine) == 300);
    // And the next one gets them all.
    let (next, predecessor) = new(Rig::new(&[server]), &path);
    assert_eq!(predecessor.take(next.engine()).unwrap().sessions, 300);
    was.gone.recv_timeout(LIMIT).unwrap();
    // Datagrams went on too, whenever they had stopped.
    let [frozen, thawed] = [0, 1].map(|n| was.flows.0[n].load(Ordering::Relaxed));
    assert!(frozen > 3, "{frozen}");
    assert_eq!(thawed, frozen - 1);
}

#[test]
fn strangers_of_another_version_are_turned_away() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[]).start();
    let was = old(&mut rig, &path);
    let mut channel = Channel::open(&path).unwrap().unwrap();
    let hello = Hello {
        lowest: 900,
        highest: 901,
        build: "of the future".to_owned(),
    };
    channel.send(&Message::Hello(hello), &[]).unwrap();
    let (message, _) = channel.receive().unwrap();
    assert!(matches!(message, Message::Abort { .. }), "{message:?}");
    drop(channel);
    // It is still there for the next.
    let mut predecessor = ask(&path).unwrap().unwrap();
    let others = predecessor.take_others();
    let names: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["dns", "state"]);
    drop((predecessor, was));
}

fn hello_of(highest: u16) -> Message {
    Message::Hello(Hello {
        lowest: 1,
        highest,
        build: String::new(),
    })
}

#[test]
fn a_path_is_removed_by_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    assert!(ask(&path).unwrap().is_none());
    let first = HandoverSocket::open(&path).unwrap();
    let second = HandoverSocket::open(&path).unwrap();
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
    // A path that was left behind by a crash leads to nobody, and is taken over.
    let left = HandoverSocket::open(&path).unwrap();
    let copy = path.with_extension("copy");
    std::fs::hard_link(&path, &copy).unwrap();
    drop(left);
    std::fs::rename(&copy, &path).unwrap();
    assert!(ask(&path).unwrap().is_none());
    drop(HandoverSocket::open(&path).unwrap());
    assert!(!path.exists());
}

#[test]
fn a_giver_stops_when_it_is_dropped() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("swap");
    let mut rig = Rig::new(&[]).start();
    let mut was = old(&mut rig, &path);
    assert!(path.exists());
    drop(was.giver.take());
    assert!(!path.exists());
    assert!(was.gone.try_recv().is_err());
}
