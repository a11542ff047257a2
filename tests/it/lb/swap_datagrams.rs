//! A new process, or another set of frontends, and no flow of datagrams changes its server.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::PATIENCE;
use tests::wait;

/// How long the slow answer takes: longer than a swap.
const SLOW: Duration = Duration::from_millis(1500);

/// The longest that a client waits for an answer while processes change: many times what it takes,
/// and less than a client of a name server waits before it asks again.
const PAUSE: Duration = Duration::from_secs(4);

/// Answers each datagram with the name, a space and what it was; later, if that begins with `slow`.
fn serve(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind(at(loopback(), FRONT)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let answer = [name.as_bytes(), b" ", &buffer[..length]].concat();
            let socket = socket.try_clone().unwrap();
            if buffer.starts_with(b"slow") {
                std::thread::spawn(move || {
                    std::thread::sleep(SLOW);
                    socket.send_to(&answer, peer).unwrap();
                });
            } else {
                socket.send_to(&answer, peer).unwrap();
            }
        }
    });
    address
}

/// A client with a flow of its own.
struct Client(UdpSocket);

impl Client {
    fn new(front: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(front).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn send(&self, word: &str) {
        self.0.send(word.as_bytes()).unwrap();
    }

    /// The server that answers `word`, and to nothing else.
    fn hear(&self, word: &str) -> Result<String, String> {
        let mut buffer = [0; 2048];
        let length = wait::uninterrupted(|| self.0.recv(&mut buffer));
        let length = length.map_err(|error| format!("{word} was not answered: {error}"))?;
        let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
        match answer.split_once(' ') {
            Some((server, echo)) if echo == word => Ok(server.to_owned()),
            _ => Err(format!("{word} was answered {answer}")),
        }
    }

    fn ask(&self, word: &str) -> Result<String, String> {
        self.send(word);
        self.hear(word)
    }
}

/// Asks on and on; an answer from another server, or none, is a failure.
fn talk(front: SocketAddr, stop: &AtomicBool, slowest: &AtomicU64) -> Result<u64, String> {
    let client = Client::new(front);
    let server = client.ask("first")?;
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let asked = Instant::now();
        let answered = client.ask(&n.to_string())?;
        let micros = u64::try_from(asked.elapsed().as_micros()).unwrap();
        slowest.fetch_max(micros, Ordering::Relaxed);
        if answered != server {
            return Err(format!("{n} went to {answered} instead of {server}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(n)
}

struct Clients {
    stop: Arc<AtomicBool>,
    slowest: Arc<AtomicU64>,
    talking: Vec<std::thread::JoinHandle<Result<u64, String>>>,
    silent: Vec<(Client, String)>,
}

impl Clients {
    fn start(front: SocketAddr) -> Self {
        let (stop, slowest) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let talking = (0..4).map(|_| {
            let (stop, slowest) = (Arc::clone(&stop), Arc::clone(&slowest));
            std::thread::spawn(move || talk(front, &stop, &slowest))
        });
        let talking = talking.collect();
        let silent = (0..600).map(|_| {
            let client = Client::new(front);
            let server = client.ask("who").unwrap();
            (client, server)
        });
        Self {
            stop,
            slowest,
            talking,
            silent: silent.collect(),
        }
    }

    fn n_flows(&self) -> usize {
        self.talking.len() + self.silent.len()
    }

    /// Every flow is where it was, and every request was answered.
    fn assert_served(self) {
        let mut servers: BTreeMap<&str, usize> = BTreeMap::new();
        for (client, server) in &self.silent {
            assert_eq!(client.ask("again").as_ref(), Ok(server));
            *servers.entry(server).or_default() += 1;
        }
        // Chance would not have kept them where they are.
        assert_eq!(servers.len(), 2, "{servers:?}");
        self.stop.store(true, Ordering::Relaxed);
        for talking in self.talking {
            let exchanges = talking.join().unwrap().unwrap();
            assert!(exchanges > 100, "only {exchanges} exchanges");
        }
        let slowest = Duration::from_micros(self.slowest.load(Ordering::Relaxed));
        println!("the slowest answer took {slowest:?}");
        assert!(slowest < PAUSE, "an answer took {slowest:?}");
    }
}

fn config(place: &Place, servers: &[SocketAddr]) -> String {
    pair(
        place,
        "protocol = \"udp\"\nflows = { idle = \"5m\" }",
        "balance = \"round-robin\"",
        servers,
    )
}

fn n_flows(place: &Place) -> usize {
    let text = place.done(&["sessions"]);
    text.lines().filter(|line| line.contains(" flow ")).count()
}

#[test]
fn no_flow_notices_ten_new_processes() {
    let servers = [serve("a"), serve("b")];
    let place = Place::new();
    let mut lb = place.start(&config(&place, &servers));
    let clients = Clients::start(place.front());
    let slow = Client::new(place.front());
    for number in 0..10 {
        // Asked of one process, and answered through the next.
        slow.send(&format!("slow {number}"));
        let new = Daemon::start(&format!("lb-proxy {number}"), place.serve());
        let status = lb.wait();
        assert!(status.success(), "the old process: {status}\n{}", lb.log());
        lb = new;
    }
    let mut answers = Vec::new();
    for _ in 0..10 {
        let mut buffer = [0; 64];
        let length = wait::uninterrupted(|| slow.0.recv(&mut buffer)).expect("each is answered");
        answers.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    answers.sort();
    let server = &answers[0][..1];
    let expected: Vec<String> = (0..10).map(|n| format!("{server} slow {n}")).collect();
    assert_eq!(answers, expected);
    assert_eq!(n_flows(&place), clients.n_flows() + 1);
    clients.assert_served();
    lb.stop();
}

#[test]
fn no_flow_notices_that_frontends_come_and_go() {
    let servers = [serve("a"), serve("b")];
    let place = Place::new();
    let mut lb = place.start(&config(&place, &servers));
    let clients = Clients::start(place.front());
    let _one_more = Client::new(place.front()).ask("more").unwrap();
    for number in 0..6 {
        let mut text = config(&place, &servers);
        if number % 2 == 0 {
            let extra = at(place.ip, 7000);
            text.push_str(&format!(
                "[[frontend]]\nname = \"extra\"\nlisten = [\"{extra}\"]\nbackend = \"back\"\n\
                 protocol = \"udp\"\n"
            ));
        }
        place.configure(&text);
        lb.forget_told();
        lb.hang_up();
        lb.wait_told("READY=1");
    }
    assert_eq!(n_flows(&place), clients.n_flows() + 1);
    clients.assert_served();
    lb.stop();
}

#[test]
fn a_successor_that_fails_leaves_flows_where_they_are() {
    let servers = [serve("a"), serve("b")];
    let place = Place::new();
    let lb = place.start(&config(&place, &servers));
    let clients = Clients::start(place.front());
    let _one_more = Client::new(place.front()).ask("more").unwrap();
    place.configure("nonsense = true\n");
    let mut new = Daemon::spawn("lb-proxy with a mistake", place.serve());
    assert_eq!(new.wait().code(), Some(78), "{}", new.log());
    assert_eq!(n_flows(&place), clients.n_flows() + 1);
    clients.assert_served();
    lb.stop();
}
