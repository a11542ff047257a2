//! Size: one engine, and its sleep, wake-ups and batches are tested against real sockets in one place.

use super::*;
use crate::listen::tests::has_ipv6;
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

/// Answers with the payload, its letters in capitals and the address it came to.
struct Shout {
    settled: Arc<AtomicUsize>,
    refreshed: Arc<AtomicUsize>,
}

impl Shout {
    fn new() -> Self {
        Self {
            settled: Arc::default(),
            refreshed: Arc::default(),
        }
    }
}

impl Respond for Shout {
    fn refresh(&mut self) {
        self.refreshed.fetch_add(1, Ordering::Relaxed);
    }

    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
        let text = match datagram.payload() {
            b"silent" => return Outcome::Silent,
            b"overflow" => return Outcome::Reply(reply.len() + 1),
            payload => payload.to_ascii_uppercase(),
        };
        reply[..text.len()].copy_from_slice(&text);
        Outcome::Reply(text.len())
    }

    fn settle(&mut self) {
        self.settled.fetch_add(1, Ordering::Relaxed);
    }
}

fn options() -> EngineOptions {
    EngineOptions {
        name: "test",
        reply_capacity: 4096,
        batch: 8,
        ..EngineOptions::default()
    }
}

fn bind(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn client(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = [0; 65_536];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
    (text, from)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come");
}

#[test]
fn a_question_is_answered() {
    let (socket, address) = bind("127.0.0.1:0");
    let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    let asker = client("127.0.0.1:0");
    for question in ["a", "bc", ""] {
        asker.send_to(question.as_bytes(), address).unwrap();
        assert_eq!(receive(&asker), (question.to_uppercase(), address));
    }
    wait_until("the count", || engine.counters().replied() == 3);
    assert_eq!(engine.counters().received(), 3);
    assert!(engine.counters().batches() <= 3);
}

#[test]
fn a_thread_waits_again_when_somebody_else_has_changed_how() {
    let (socket, address) = bind("127.0.0.1:0");
    let shared = socket.try_clone().unwrap();
    let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    shared.set_nonblocking(true).unwrap();
    let asker = client("127.0.0.1:0");
    asker.send_to(b"a", address).unwrap();
    assert_eq!(receive(&asker), ("A".to_owned(), address));
    wait_until("the wait", || {
        let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
        !flags.contains(rustix::fs::OFlags::NONBLOCK)
    });
    engine.stop();
}

#[test]
fn on_a_wildcard_the_reply_leaves_from_the_address_asked() {
    let (sockets, questions) = bind_wildcards();
    let engine = Engine::start(sockets, 2, options(), |_| Shout::new()).unwrap();
    for (asker, target) in questions {
        let asker = client(asker);
        asker.send_to(b"who", target).unwrap();
        assert_eq!(receive(&asker), ("WHO".to_owned(), target));
    }
    engine.stop();
}

/// The wildcards of both families, and who asks which of their addresses. IPv6 is left out on a
/// machine that has none.
fn bind_wildcards() -> (Vec<UdpSocket>, Vec<(&'static str, SocketAddr)>) {
    let (socket, address) = bind("0.0.0.0:0");
    let mut sockets = vec![socket];
    let mut questions: Vec<_> = [
        ("127.0.0.1:0", [127, 0, 0, 2]),
        ("127.0.0.9:0", [127, 3, 2, 1]),
        ("127.0.0.1:0", [127, 0, 0, 1]),
    ]
    .into_iter()
    .map(|(asker, ip)| (asker, SocketAddr::from((ip, address.port()))))
    .collect();
    if has_ipv6() {
        let (socket, address) = bind_v6_wildcard(true);
        sockets.push(socket);
        questions.push(("[::1]:0", (Ipv6Addr::LOCALHOST, address.port()).into()));
    }
    (sockets, questions)
}

/// A wildcard of IPv6, which takes IPv4 too unless it is told not to.
fn bind_v6_wildcard(only_v6: bool) -> (UdpSocket, SocketAddr) {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV6,
        socket2::Type::DGRAM,
        Some(socket2::Protocol::UDP),
    )
    .unwrap();
    socket.set_only_v6(only_v6).unwrap();
    let wildcard: SocketAddr = "[::]:0".parse().unwrap();
    socket.bind(&wildcard.into()).unwrap();
    let socket = UdpSocket::from(socket);
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn an_inherited_socket_of_both_families_answers_ipv4_as_ipv4() {
    struct Peers(mpsc::Sender<(SocketAddr, Option<IpAddr>)>);
    impl Respond for Peers {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            self.0.send((datagram.peer(), datagram.local())).unwrap();
            reply[0] = b'!';
            Outcome::Reply(1)
        }
    }
    if !has_ipv6() {
        return;
    }
    let (socket, address) = bind_v6_wildcard(false);
    let (sender, seen) = mpsc::channel();
    let engine = Engine::start(vec![socket], 1, options(), |_| Peers(sender.clone())).unwrap();
    let asker = client("127.0.0.1:0");
    let target = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), address.port());
    asker.send_to(b"x", target).unwrap();
    assert_eq!(receive(&asker), ("!".to_owned(), target));
    let (peer, local) = seen.recv().unwrap();
    assert_eq!(peer, asker.local_addr().unwrap());
    assert_eq!(local, Some(target.ip()));
    engine.stop();
}

#[test]
fn batches_answer_every_datagram_to_its_own_peer() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let (socket, bound) = bind(address);
        let target = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port());
        // Filled before the engine starts, so that it meets a full queue.
        let askers: Vec<UdpSocket> = (0..40).map(|_| client("127.0.0.1:0")).collect();
        for (number, asker) in askers.iter().enumerate() {
            for part in 0..3 {
                let question = format!("q{number}-{part}");
                asker.send_to(question.as_bytes(), target).unwrap();
            }
        }
        let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
        for (number, asker) in askers.iter().enumerate() {
            let answers: HashSet<_> = (0..3).map(|_| receive(asker)).collect();
            let expected = (0..3).map(|part| (format!("Q{number}-{part}"), target));
            assert_eq!(answers, expected.collect());
        }
        let counters = engine.counters();
        engine.stop();
        assert_eq!((counters.received(), counters.replied()), (120, 120));
        assert!(counters.batches() < 60, "{} batches", counters.batches());
    }
}

#[test]
fn long_replies_of_a_batch_all_fit() {
    struct Long;
    impl Respond for Long {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            reply.fill(datagram.payload()[0]);
            Outcome::Reply(reply.len())
        }
    }
    let (socket, address) = bind("127.0.0.1:0");
    let asker = client("127.0.0.1:0");
    for letter in b"abcdefghijklmnop" {
        asker.send_to(&[*letter], address).unwrap();
    }
    let engine = Engine::start(vec![socket], 1, options(), |_| Long).unwrap();
    let mut letters = String::new();
    for _ in 0..16 {
        let (text, _) = receive(&asker);
        assert_eq!(text.len(), 4096);
        letters.extend(text.chars().next());
        assert!(text.bytes().all(|letter| letter == text.as_bytes()[0]));
    }
    assert_eq!(letters, "abcdefghijklmnop");
    engine.stop();
}

#[test]
fn what_is_too_large_is_dropped_and_counted() {
    let (socket, address) = bind("127.0.0.1:0");
    let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    let asker = client("127.0.0.1:0");
    asker
        .send_to(&[b'x'; RECEIVE_CAPACITY + 1], address)
        .unwrap();
    asker.send_to(b"overflow", address).unwrap();
    asker.send_to(b"silent", address).unwrap();
    asker.send_to(&[b'y'; RECEIVE_CAPACITY], address).unwrap();
    assert_eq!(receive(&asker).0, "Y".repeat(RECEIVE_CAPACITY));
    let counters = engine.counters();
    engine.stop();
    assert_eq!(counters.dropped(), 2);
    assert_eq!((counters.received(), counters.replied()), (3, 1));
}

#[test]
fn an_engine_receives_as_much_as_it_is_made_for() {
    let options = EngineOptions {
        receive_capacity: LONGEST,
        reply_capacity: LONGEST,
        ..options()
    };
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let (socket, bound) = bind(address);
        let engine = Engine::start(vec![socket], 1, options, |_| Shout::new()).unwrap();
        let asker = client("127.0.0.1:0");
        asker.connect(("127.0.0.1", bound.port())).unwrap();
        for length in [RECEIVE_CAPACITY + 1, 65_507] {
            asker.send(&vec![b'x'; length]).unwrap();
            let mut buffer = vec![0; LONGEST];
            assert_eq!(asker.recv(&mut buffer).unwrap(), length);
            assert!(buffer[..length].iter().all(|byte| *byte == b'X'));
        }
        assert_eq!(engine.counters().dropped(), 0);
    }
}

#[test]
fn every_socket_is_served_and_threads_share_one() {
    let bound: Vec<_> = (0..5).map(|_| bind("127.0.0.1:0")).collect();
    let (sockets, addresses): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
    let engine = Engine::start(sockets, 2, options(), |_| Shout::new()).unwrap();
    assert_eq!(engine.heartbeats().len(), 5);
    let asker = client("127.0.0.1:0");
    for address in addresses {
        asker.send_to(b"you", address).unwrap();
        assert_eq!(receive(&asker), ("YOU".to_owned(), address));
    }
    engine.stop();
    let (socket, address) = bind("127.0.0.1:0");
    let mut numbers = Vec::new();
    let engine = Engine::start(vec![socket], 4, options(), |number| {
        numbers.push(number);
        Shout::new()
    })
    .unwrap();
    assert_eq!(numbers, [0, 1, 2, 3]);
    for _ in 0..100 {
        asker.send_to(b"any", address).unwrap();
        assert_eq!(receive(&asker).0, "ANY");
    }
    let counters = engine.counters();
    engine.stop();
    assert_eq!(counters.replied(), 100);
}

#[test]
fn a_reply_may_come_later_from_another_thread() {
    struct Later(mpsc::Sender<(ReturnPath, Vec<u8>)>);
    impl Respond for Later {
        fn respond(&mut self, datagram: &Datagram<'_>, _: &mut [u8]) -> Outcome {
            let question = datagram.payload().to_vec();
            self.0.send((datagram.return_path(), question)).unwrap();
            Outcome::Silent
        }
    }
    let (sender, questions) = mpsc::channel();
    let (sockets, targets) = bind_wildcards();
    let n_targets = targets.len();
    let engine = Engine::start(sockets, 2, options(), |_| Later(sender.clone())).unwrap();
    let answering = thread::spawn(move || {
        for _ in 0..n_targets {
            let (path, question) = questions.recv().unwrap();
            let path = path.clone();
            path.send(&question.to_ascii_uppercase()).unwrap();
        }
        questions
    });
    let (_, first) = targets[0];
    for (asker, target) in targets {
        let asker = client(asker);
        asker.send_to(b"later", target).unwrap();
        assert_eq!(receive(&asker), ("LATER".to_owned(), target));
    }
    let questions = answering.join().unwrap();
    // A path outlives its engine: an answer that comes late is still sent.
    let asker = client("127.0.0.1:0");
    asker.send_to(b"late", first).unwrap();
    let (path, _) = questions.recv().unwrap();
    assert_eq!(path.peer(), asker.local_addr().unwrap());
    engine.stop();
    path.send(b"still").unwrap();
    assert_eq!(receive(&asker).0, "still");
}

#[test]
fn a_way_back_can_be_made_again_from_what_is_known_of_it() {
    struct Tell(mpsc::Sender<(SocketAddr, Option<IpAddr>)>);
    impl Respond for Tell {
        fn respond(&mut self, datagram: &Datagram<'_>, _: &mut [u8]) -> Outcome {
            self.0.send((datagram.peer(), datagram.local())).unwrap();
            Outcome::Silent
        }
    }
    let (mut sockets, mut targets) = bind_wildcards();
    if has_ipv6() {
        let (both, address) = bind_v6_wildcard(false);
        sockets.push(both);
        targets.push(("127.0.0.1:0", ([127, 0, 0, 5], address.port()).into()));
    }
    for (asker, target) in targets {
        let own = |socket: &&UdpSocket| socket.local_addr().unwrap().port() == target.port();
        let socket = sockets.iter().find(own).unwrap();
        let (sender, told) = mpsc::channel();
        let served = vec![socket.try_clone().unwrap()];
        let engine = Engine::start(served, 1, options(), |_| Tell(sender.clone())).unwrap();
        let asker = client(asker);
        asker.send_to(b"who", target).unwrap();
        let (peer, local) = told.recv().unwrap();
        engine.stop();
        let socket = Arc::new(socket.try_clone().unwrap());
        let path = ReturnPath::restored(socket, peer, local).unwrap();
        path.send(b"you").unwrap();
        assert_eq!(receive(&asker), ("you".to_owned(), target));
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test measures how long it takes"
)]
fn an_alert_engine_stops_at_once_and_serves_until_then() {
    let stop_takes = |_| {
        let (socket, address) = bind("127.0.0.1:0");
        let engine = Engine::start(vec![socket], 2, options(), |_| Shout::new()).unwrap();
        engine.alert();
        wait_until("its attention", || engine.is_alert());
        let asker = client("127.0.0.1:0");
        asker.send_to(b"still", address).unwrap();
        assert_eq!(receive(&asker).0, "STILL");
        let asked = Instant::now();
        engine.stop();
        asked.elapsed()
    };
    // One that sleeps soundly takes all of it each time, as it has just begun to.
    let least = (0..5).map(stop_takes).min();
    assert!(least < Some(WAKE * 3 / 4), "{least:?}");
}

#[test]
fn what_is_queued_when_it_stops_is_answered() {
    /// Slow enough that most of the queue is unread when the stop is asked for.
    struct Slow;
    impl Respond for Slow {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            thread::sleep(Duration::from_millis(2));
            reply[..2].copy_from_slice(datagram.payload());
            Outcome::Reply(2)
        }
    }
    let (socket, address) = bind("127.0.0.1:0");
    let engine = Engine::start(vec![socket], 1, options(), |_| Slow).unwrap();
    let asker = client("127.0.0.1:0");
    for number in 0..100_u16 {
        asker.send_to(&number.to_be_bytes(), address).unwrap();
    }
    engine.stop();
    let mut buffer = [0; 8];
    let answered: HashSet<u16> = (0..100)
        .map(|_| {
            let length = asker.recv(&mut buffer).unwrap();
            u16::from_be_bytes(buffer[..length].try_into().unwrap())
        })
        .collect();
    assert_eq!(answered.len(), 100);
}

#[test]
fn another_process_goes_on_with_a_shared_socket() {
    let (socket, address) = bind("127.0.0.1:0");
    let shared = socket.try_clone().unwrap();
    let first = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    let second = Engine::start(vec![shared], 1, options(), |_| Shout::new()).unwrap();
    let asker = client("127.0.0.1:0");
    asker.send_to(b"both", address).unwrap();
    assert_eq!(receive(&asker).0, "BOTH");
    first.stop();
    for _ in 0..20 {
        asker.send_to(b"second", address).unwrap();
        assert_eq!(receive(&asker).0, "SECOND");
    }
    second.stop();
}

#[test]
fn an_idle_engine_has_a_heartbeat_and_refreshes() {
    let (socket, _) = bind("127.0.0.1:0");
    let shout = Shout::new();
    let (refreshed, settled) = (Arc::clone(&shout.refreshed), Arc::clone(&shout.settled));
    let mut shout = Some(shout);
    let engine = Engine::start(vec![socket], 1, options(), |_| shout.take().unwrap()).unwrap();
    let (name, beat) = engine.heartbeats().remove(0);
    assert_eq!(name, "test-udp-0");
    wait_until("the heartbeat", || beat.count() >= 3);
    assert!(beat.count() < 1_000, "it spins");
    wait_until("the refresh", || {
        refreshed.load(Ordering::Relaxed) >= 2 && settled.load(Ordering::Relaxed) >= 2
    });
    engine.stop();
    assert_eq!(Arc::strong_count(&beat), 1);
}

/// An engine of one thread that sleeps, its heartbeat, and how often it has refreshed.
#[expect(clippy::disallowed_methods, reason = "a deadline for threads that run")]
fn sleeper(socket: UdpSocket) -> (Engine, Heartbeat, Arc<AtomicUsize>) {
    let shout = Shout::new();
    let refreshed = Arc::clone(&shout.refreshed);
    let mut shout = Some(shout);
    let engine = Engine::start(vec![socket], 1, options(), |_| shout.take().unwrap()).unwrap();
    let (_, beat) = engine.heartbeats().remove(0);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let before = beat.count();
        thread::sleep(3 * WAKE);
        if before > 0 && beat.count() == before {
            return (engine, beat, refreshed);
        }
        assert!(Instant::now() < deadline, "it does not sleep");
    }
}

#[test]
fn a_datagram_wakes_a_thread_that_sleeps() {
    let (socket, address) = bind("127.0.0.1:0");
    let (engine, ..) = sleeper(socket);
    let asker = client("127.0.0.1:0");
    for question in [&b"one"[..], b"two", b"three"] {
        asker.send_to(question, address).unwrap();
    }
    for expected in ["ONE", "TWO", "THREE"] {
        assert_eq!(receive(&asker).0, expected);
    }
    engine.stop();
}

#[test]
fn a_thread_that_sleeps_stops_and_becomes_alert() {
    let (socket, address) = bind("127.0.0.1:0");
    let (engine, ..) = sleeper(socket);
    engine.alert();
    wait_until("the alarm", || engine.is_alert());
    let asker = client("127.0.0.1:0");
    asker.send_to(b"still", address).unwrap();
    assert_eq!(receive(&asker).0, "STILL");
    engine.stop();
    let (socket, address) = bind("127.0.0.1:0");
    let shared = socket.try_clone().unwrap();
    let (engine, ..) = sleeper(socket);
    engine.stop();
    let second = Engine::start(vec![shared], 1, options(), |_| Shout::new()).unwrap();
    asker.send_to(b"next", address).unwrap();
    assert_eq!(receive(&asker).0, "NEXT");
    second.stop();
}

#[test]
fn a_publication_wakes_a_thread_that_sleeps() {
    let (socket, _) = bind("127.0.0.1:0");
    let (engine, _, refreshed) = sleeper(socket);
    let latest = crate::latest::Latest::new(1);
    let waker = engine.waker();
    latest.on_publish(move || waker.wake());
    for value in 2..5 {
        let before = refreshed.load(Ordering::Relaxed);
        latest.publish(value);
        wait_until("the refresh", || refreshed.load(Ordering::Relaxed) > before);
    }
    engine.stop();
}

#[test]
fn a_look_at_its_heartbeat_lets_a_thread_sleep() {
    let (socket, address) = bind("127.0.0.1:0");
    let (engine, beat, _) = sleeper(socket);
    let progress = crate::run::Progress::new();
    progress.register_all(engine.heartbeats());
    let before = beat.count();
    for _ in 0..3 {
        assert!(progress.look());
    }
    assert_eq!(beat.count(), before);
    beat.wake();
    wait_until("the beat", || beat.count() > before);
    let asker = client("127.0.0.1:0");
    asker.send_to(b"still", address).unwrap();
    assert_eq!(receive(&asker).0, "STILL");
    engine.stop();
}

#[test]
fn stamps_that_come_late_do_not_keep_a_thread_awake() {
    /// Asks when each reply left.
    struct Told;
    impl Respond for Told {
        fn respond(&mut self, _: &Datagram<'_>, _: &mut [u8]) -> Outcome {
            Outcome::ReplyTold(4)
        }
    }
    let (socket, address) = bind("127.0.0.1:0");
    let options = EngineOptions {
        stamps: true,
        ..options()
    };
    let engine = Engine::start(vec![socket], 1, options, |_| Told).unwrap();
    let asker = client("127.0.0.1:0");
    for _ in 0..20 {
        asker.send_to(b"when", address).unwrap();
    }
    receive(&asker);
    let (_, beat) = engine.heartbeats().remove(0);
    wait_until("the sleep", || {
        let before = beat.count();
        thread::sleep(3 * WAKE);
        beat.count() == before
    });
    engine.stop();
}

#[test]
fn icmp_errors_of_a_connected_socket_are_survived() {
    // A connected socket is told that nobody listens at the other end.
    let (socket, address) = bind("127.0.0.1:0");
    let (gone, gone_address) = bind("127.0.0.1:0");
    drop(gone);
    socket.connect(gone_address).unwrap();
    let trigger = socket.try_clone().unwrap();
    let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    for _ in 0..3 {
        drop(trigger.send(b"anyone?"));
        thread::sleep(Duration::from_millis(20));
    }
    wait_until("the error", || engine.counters().receive_errors() > 0);
    let asker = UdpSocket::bind(gone_address).unwrap();
    asker
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    asker.send_to(b"still", address).unwrap();
    assert_eq!(receive(&asker).0, "STILL");
    engine.stop();
}

#[test]
fn a_refused_reply_does_not_hold_up_the_others() {
    /// Sends the second datagram of a batch where nothing can be sent.
    struct Huge;
    impl Respond for Huge {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            match datagram.payload() {
                b"huge" => Outcome::Reply(reply.len()),
                payload => {
                    reply[..payload.len()].copy_from_slice(payload);
                    Outcome::Reply(payload.len())
                }
            }
        }
    }
    let (socket, address) = bind("127.0.0.1:0");
    let asker = client("127.0.0.1:0");
    for question in ["one", "huge", "two", "huge", "three"] {
        asker.send_to(question.as_bytes(), address).unwrap();
    }
    let options = EngineOptions {
        // 65535 bytes are more than fit with the headers of IP and UDP.
        reply_capacity: 65_535,
        ..options()
    };
    let engine = Engine::start(vec![socket], 1, options, |_| Huge).unwrap();
    for expected in ["one", "two", "three"] {
        assert_eq!(receive(&asker).0, expected);
    }
    let counters = engine.counters();
    engine.stop();
    assert_eq!((counters.replied(), counters.send_errors()), (3, 2));
}

#[test]
fn no_sockets_are_no_engine() {
    let error = Engine::start(Vec::new(), 1, options(), |_| Shout::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_detached_datagram_is_what_it_was_given() {
    let peer = "[2001:db8::1]:99".parse().unwrap();
    let local = Some("10.0.0.1".parse().unwrap());
    let datagram = Datagram::detached(b"q", peer, local);
    assert_eq!(
        (datagram.payload(), datagram.peer(), datagram.local()),
        (&b"q"[..], peer, local)
    );
    assert!(datagram.return_path().send(b"a").is_err());
}

#[test]
fn counts_are_shown_to_a_scraper() {
    let (socket, address) = bind("127.0.0.1:0");
    let engine = Engine::start(vec![socket], 1, options(), |_| Shout::new()).unwrap();
    let asker = client("127.0.0.1:0");
    asker.send_to(b"a", address).unwrap();
    receive(&asker);
    let metrics = crate::metrics::Metrics::new("x");
    metrics.register_collector(Collector::new("dns_authd", engine.counters()));
    engine.stop();
    let text = metrics.encode(crate::metrics::Exposition::Prometheus);
    assert!(
        text.contains("\ndns_authd_udp_received_datagrams_total 1\n"),
        "{text}"
    );
    assert!(
        text.contains("\ndns_authd_udp_sent_datagrams_total 1\n"),
        "{text}"
    );
}

/// The kernel begins to stamp a moment after it was first asked to.
fn until_stamped(target: SocketAddr, arrivals: &mpsc::Receiver<Option<Duration>>) {
    let asker = client("127.0.0.1:0");
    let begins = |_: &u32| {
        thread::sleep(Duration::from_millis(1));
        asker.send_to(b"first", target).unwrap();
        assert_eq!(receive(&asker).0, "first");
        arrivals.recv().unwrap().is_some()
    };
    (0..1000).find(begins).expect("a stamp");
}

#[test]
fn every_datagram_tells_when_it_came_if_asked() {
    struct Arrivals {
        told: mpsc::Sender<Option<Duration>>,
        gate: Arc<Mutex<()>>,
    }
    impl Respond for Arrivals {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            drop(self.gate.lock().unwrap());
            self.told.send(datagram.arrived()).unwrap();
            let length = datagram.payload().len();
            reply[..length].copy_from_slice(datagram.payload());
            Outcome::Reply(length)
        }
    }
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let (plain, address) = bind("127.0.0.1:0");
    let (mut sockets, mut targets) = bind_wildcards();
    sockets.push(plain);
    targets.push(("127.0.0.1:0", address));
    let questions: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for stamps in [false, true] {
        let (told, arrivals) = mpsc::channel();
        let gate = Arc::default();
        let stamping = EngineOptions {
            send_batch: 3,
            stamps,
            ..options()
        };
        let served = sockets
            .iter()
            .map(|socket| socket.try_clone().unwrap())
            .collect();
        let engine = Engine::start(served, 1, stamping, |_| Arrivals {
            told: told.clone(),
            gate: Arc::clone(&gate),
        })
        .unwrap();
        if stamps {
            until_stamped(address, &arrivals);
        }
        let n_batches = engine.counters().batches();
        let before = now();
        // Nothing is answered until all are there, so that there are batches too.
        let closed = gate.lock().unwrap();
        let askers = targets.iter().map(|(from, target)| {
            let asker = client(from);
            for question in &questions {
                asker.send_to(question.as_bytes(), target).unwrap();
            }
            asker
        });
        let askers: Vec<UdpSocket> = askers.collect();
        drop(closed);
        for (asker, (_, target)) in askers.iter().zip(&targets) {
            for question in &questions {
                assert_eq!(receive(asker), (question.clone(), *target));
            }
        }
        assert!(engine.counters().batches() - n_batches < 20 * 2);
        engine.stop();
        let after = now();
        for _ in 0..questions.len() * targets.len() {
            let arrived = arrivals.recv().unwrap();
            assert_eq!(arrived.is_some(), stamps);
            if let Some(arrived) = arrived {
                assert!(before <= arrived && arrived <= after, "{arrived:?}");
            }
        }
    }
}

#[test]
fn a_reply_tells_when_it_left_if_asked() {
    struct Departures(mpsc::Sender<(Vec<u8>, Duration)>);
    impl Respond for Departures {
        fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome {
            let length = datagram.payload().len();
            reply[..length].copy_from_slice(datagram.payload());
            if datagram.payload().starts_with(b"when") {
                Outcome::ReplyTold(length)
            } else {
                Outcome::Reply(length)
            }
        }

        fn departed(&mut self, frame: &[u8], at: Duration) {
            self.0.send((frame.to_vec(), at)).unwrap();
        }
    }
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let (plain, address) = bind("127.0.0.1:0");
    let (mut sockets, mut targets) = bind_wildcards();
    sockets.push(plain);
    targets.push(("127.0.0.1:0", address));
    for stamps in [false, true] {
        let (sender, departures) = mpsc::channel();
        let stamping = EngineOptions {
            stamps,
            ..options()
        };
        let served = sockets.iter().map(|socket| socket.try_clone().unwrap());
        let make = |_| Departures(sender.clone());
        let engine = Engine::start(served.collect(), 1, stamping, make).unwrap();
        for (from, target) in &targets {
            let asker = client(from);
            for round in 0..5 {
                let before = now();
                for question in ["never mind".to_owned(), format!("when {round}")] {
                    asker.send_to(question.as_bytes(), target).unwrap();
                    assert_eq!(receive(&asker), (question, *target));
                }
                if !stamps {
                    continue;
                }
                // Loopback tells at once.
                let (frame, at) = departures.recv_timeout(Duration::from_secs(10)).unwrap();
                assert!(frame.ends_with(format!("when {round}").as_bytes()));
                assert!(before <= at && at <= now(), "{at:?}");
            }
        }
        engine.stop();
        assert_eq!(departures.try_recv().ok(), None);
    }
}

/// Writes down where replies stand and what is sent together.
struct Turns(Arc<Mutex<Vec<Step>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Responds(Turn),
    Sending(usize),
    Sent(usize),
}

impl Respond for Turns {
    fn respond(&mut self, datagram: &Datagram<'_>, _: &mut [u8]) -> Outcome {
        self.0.lock().unwrap().push(Step::Responds(datagram.turn()));
        Outcome::Reply(1)
    }

    fn sending(&mut self, replies: usize) {
        self.0.lock().unwrap().push(Step::Sending(replies));
    }

    fn sent(&mut self, replies: usize) {
        self.0.lock().unwrap().push(Step::Sent(replies));
    }
}

#[test]
fn a_reply_knows_how_many_go_before_it() {
    let (socket, address) = bind("127.0.0.1:0");
    let asker = client("127.0.0.1:0");
    // Quiet as it begins, it takes some one by one, and then all there are.
    for _ in 0..24 {
        asker.send_to(b"x", address).unwrap();
    }
    let steps = Arc::new(Mutex::new(Vec::new()));
    let options = EngineOptions {
        send_batch: 3,
        ..options()
    };
    let make = |_| Turns(Arc::clone(&steps));
    let engine = Engine::start(vec![socket], 1, options, make).unwrap();
    let mut buffer = [0; 10];
    for _ in 0..24 {
        asker.recv_from(&mut buffer).unwrap();
    }
    engine.stop();
    let mut turns = Vec::new();
    let mut largest = 0;
    for step in steps.lock().unwrap().iter() {
        match *step {
            Step::Responds(turn) => turns.push(turn),
            Step::Sending(n) => {
                let expected = (0..n).map(|before| Turn {
                    before,
                    to_answer: n - before,
                });
                assert_eq!(turns, expected.collect::<Vec<_>>());
                largest = largest.max(n);
            }
            Step::Sent(n) => assert_eq!(turns.drain(..).count(), n),
        }
    }
    assert_eq!((largest, turns.len()), (3, 0));
}

fn mode_of(socket: &UdpSocket) -> libc::c_int {
    option::get(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER).unwrap()
}

#[test]
fn what_icmp_says_of_a_path_is_ignored_on_either_family() {
    let mut addresses = vec!["127.0.0.1:0"];
    if has_ipv6() {
        addresses.extend(["[::1]:0", "[::]:0"]);
    }
    for address in addresses {
        for fragments in [Fragments::Allowed, Fragments::Never] {
            let socket = UdpSocket::bind(address).unwrap();
            let mode = path_mtu_mode(fragments);
            assert_ne!(mode_of(&socket), mode, "{address}");
            ignore_path_mtu(&socket, fragments).unwrap();
            assert_eq!(mode_of(&socket), mode, "{address}");
        }
    }
}
