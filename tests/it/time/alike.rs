//! Answers of chronyd and of ours: the same datagrams to both, and the same lists of who may ask.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use daemon::latest::Latest;
use ntp::keys::{Algorithm, Key, KeyRing};
use ntp::responder::{Acl, Counter, Policy, Tables};
use ntp::wire::{Message, Packet};
use random::Random;
use tests::scratch::{Scratch, at, loopback};
use tests::time::{Chronyd, PATIENCE, now};
use tests::wait;
use time_model::settings::{AccessRule, ClientMatch, ServerSettings};
use time_model::time::{SECOND, UnixTime};
use time_model::view::Leap;
use timekeeper::Reference;
use timesync_agent::server::{AnswerData, Server};

const PORT: u16 = 12_123;

/// One key of each kind: in the form of a key file, and as we have it.
fn keys() -> (String, KeyRing) {
    let mut text = String::new();
    let mut ring = KeyRing::new();
    for (id, algorithm) in (1..).zip(Algorithm::ALL) {
        let length = algorithm.key_length().unwrap_or(20);
        let secret: Vec<u8> = (0..length)
            .map(|index| u8::try_from(index + 65).unwrap())
            .collect();
        // Letters from A on.
        let letters = String::from_utf8_lossy(&secret);
        writeln!(text, "{id} {} ASCII:{letters}", algorithm.name()).unwrap();
        ring.insert(id, Key::new(algorithm, &secret).unwrap())
            .unwrap();
    }
    (text, ring)
}

/// Threads of ours on these addresses, which give their own time as `local stratum 8` does.
fn ours(addresses: &[SocketAddr], keys: KeyRing) -> (Server, AnswerData) {
    let settings = ServerSettings {
        access: vec![AccessRule {
            allow: true,
            all: false,
            clients: ClientMatch::Network("127.0.0.0/8".parse().unwrap()),
        }],
        ..ServerSettings::default()
    };
    let policy = Policy::new(&settings, Arc::new(keys), -24, |_| Vec::new());
    let now = i64::try_from((now() >> 32) - 2_208_988_800).unwrap();
    let reference = Reference {
        leap: Leap::Normal,
        stratum: 8,
        reference_id: 0x7f7f_0101,
        reference_time: UnixTime(now * SECOND),
        at: UnixTime(now * SECOND),
        ..Reference::default()
    };
    let supply = AnswerData {
        policy: Latest::new(policy),
        reference: Latest::new(reference),
        tables: Tables::new(1 << 16, [1, 2]),
        overload: Arc::default(),
    };
    let sockets = addresses
        .iter()
        .map(|address| UdpSocket::bind(address).unwrap());
    let random = &mut Random::new([1; 16]);
    let server = Server::start(sockets.collect(), 1, &supply, random).unwrap();
    (server, supply)
}

/// A client that knows when a server has nothing more to say to a datagram: when it has answered the next one.
struct Asker {
    socket: UdpSocket,
    number: u64,
}

impl Asker {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut asker = Self {
            socket,
            number: 1 << 32,
        };
        wait::for_it("the server answers", PATIENCE, || {
            asker.try_ask(b"").is_some()
        });
        asker.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        asker
    }

    /// Its answer to a datagram.
    fn ask(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.try_ask(datagram).expect("the next one is answered")
    }

    fn try_ask(&mut self, datagram: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.number += 1;
        let next = tests::time::request(self.number);
        // A datagram that is refused because no process listens yet comes back as an error of the next call.
        self.socket.send(datagram).ok()?;
        self.socket.send(&next).ok()?;
        let mut answers = Vec::new();
        let mut buffer = [0; 2000];
        loop {
            let length = wait::uninterrupted(|| self.socket.recv(&mut buffer)).ok()?;
            let answer = &buffer[..length];
            if answer.get(24..32) == Some(&self.number.to_be_bytes()) {
                return Some(answers);
            }
            answers.push(answer.to_vec());
        }
    }
}

/// The part of an answer that does not depend on its time and its server.
fn essence(answer: &[u8], keys: &KeyRing) -> (Packet, usize, Option<(u32, bool)>) {
    let message = Message::parse(answer).expect("an answer is a packet");
    let mut packet = message.packet;
    packet.precision = 0;
    packet.reference_time = Default::default();
    packet.root_dispersion = Default::default();
    packet.receive.0 &= 1;
    packet.transmit.0 &= 1;
    let mac = message.mac().map(|mac| (mac.key, keys.verify(mac)));
    (packet, answer.len(), mac)
}

/// Requests that are good, odd and bad.
fn datagrams(keys: &KeyRing) -> Vec<Vec<u8>> {
    let header = |version: u8, mode: u8| {
        let mut octets = tests::time::request(0x0102_0304_0506_0708).to_vec();
        octets[0] = version << 3 | mode;
        octets[2] = 7;
        octets[32..40].fill(0x55);
        octets
    };
    let mut all = Vec::new();
    for version in 0..8 {
        for mode in 0..8 {
            all.push(header(version, mode));
        }
        for fill in [0, 1, 0xff] {
            for length in (0..=140).step_by(2) {
                let mut octets = header(version, 3);
                octets.resize(length, fill);
                all.push(octets);
            }
        }
    }
    let field = |kind: u16, length: u16| {
        let mut octets = [kind.to_be_bytes(), length.to_be_bytes()].concat();
        octets.resize(usize::from(length).max(4), 1);
        octets
    };
    let signed = |mut octets: Vec<u8>, key: u32, cut: usize, flip: bool| {
        let mut digest = [0; 64];
        let version = octets[0] >> 3 & 7;
        let length = keys.sign(key, version, &octets, &mut digest).unwrap();
        octets.extend(key.to_be_bytes());
        octets.extend(&digest[..length - cut]);
        if flip {
            *octets.last_mut().unwrap() ^= 1;
        }
        octets
    };
    for version in 1..=4 {
        for key in 1..=11 {
            all.push(signed(header(version, 1), key, 0, false));
            all.push(signed(header(version, 1), key, 0, true));
            all.push(signed(header(version, 3), key, 0, false));
            all.push(signed(header(version, 3), key, 0, true));
            all.push(signed(header(version, 3), key, 4, false));
        }
    }
    for first in [12, 16, 20, 24, 28, 32, 40, 64] {
        let octets = [header(4, 3), field(0xbeef, first)].concat();
        all.push(octets.clone());
        all.push(signed(octets.clone(), 1, 0, false));
        all.push(signed(octets.clone(), 5, 0, false));
        for second in [16, 20, 28, 48] {
            let octets = [&octets[..], &field(2, second)].concat();
            all.push(octets.clone());
            all.push(signed(octets, 10, 0, false));
        }
    }
    all
}

#[test]
fn chronyd_and_we_answer_alike() {
    let (text, keys) = keys();
    let files = Scratch::new("alike");
    let file = files.write("keys", &text);
    let theirs = at(loopback(), PORT);
    let ours_at = at(loopback(), PORT);
    let _chronyd = Chronyd::on_loopback(&format!(
        "port {PORT}\nbindaddress {}\ncmdport 0\nallow 127.0.0.0/8\nlocal stratum 8\nkeyfile {}",
        theirs.ip(),
        file.display()
    ));
    let (_server, _supply) = ours(&[ours_at], keys.clone());
    let (mut chronyd, mut we) = (Asker::new(theirs), Asker::new(ours_at));
    let datagrams = datagrams(&keys);
    let mut n_answered = 0;
    for datagram in &datagrams {
        let essences = |answers: Vec<Vec<u8>>| {
            let essences = answers.iter().map(|answer| essence(answer, &keys));
            essences.collect::<Vec<_>>()
        };
        let wanted = essences(chronyd.ask(datagram));
        assert_eq!(essences(we.ask(datagram)), wanted, "{datagram:02x?}");
        n_answered += wanted.len();
    }
    assert!(n_answered > 100, "{n_answered} of {}", datagrams.len());
    assert!(
        n_answered < datagrams.len() - 100,
        "{n_answered} of {}",
        datagrams.len()
    );
}

/// A small generator of numbers, the same ones in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    /// An address of few, so that networks meet.
    fn address(&mut self) -> IpAddr {
        if self.below(3) == 0 {
            let low = u128::from(self.below(4)) << 120 | u128::from(self.below(256));
            IpAddr::V6((0x2001_0db8 << 96 | low >> 96 << 90 | low).into())
        } else {
            let [b, c] = [0, 0].map(|_| u8::try_from(self.below(3)).unwrap());
            let d = u8::try_from(self.below(256)).unwrap();
            IpAddr::V4(Ipv4Addr::new(10, b, c, d))
        }
    }
}

#[test]
fn lists_of_who_may_ask_mean_the_same() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..4 {
        let mut lines = String::new();
        let mut acl = Acl::new();
        for _ in 0..40 {
            let allow = numbers.below(2) == 0;
            let all = numbers.below(6) == 0;
            let address = numbers.address();
            let width = if address.is_ipv4() { 32 } else { 128 };
            let bits = if numbers.below(8) == 0 {
                numbers.below(width + 1)
            } else {
                width - numbers.below(12)
            };
            let network = format!("{address}/{bits}");
            let word = if allow { "allow" } else { "deny" };
            let every = if all { " all" } else { "" };
            writeln!(lines, "{word}{every} {network}").unwrap();
            acl.set(allow, all, Some(network.parse().unwrap()));
        }
        let ip = loopback();
        let chronyd = Chronyd::on_loopback(&format!(
            "port {PORT}\nbindaddress {ip}\ncmdport 0\n{lines}"
        ));
        let addresses: Vec<IpAddr> = (0..400).map(|_| numbers.address()).collect();
        let commands: String = addresses
            .iter()
            .map(|address| format!("accheck {address}\n"))
            .collect();
        let answers = chronyc_of(&chronyd, &commands);
        assert_eq!(answers.len(), addresses.len());
        for (address, is_allowed) in addresses.iter().zip(answers) {
            assert_eq!(
                acl.is_allowed(*address),
                is_allowed,
                "{address} of\n{lines}"
            );
        }
    }
}

/// chronyc's answers to `accheck`s: one process for all of them.
fn chronyc_of(chronyd: &Chronyd, commands: &str) -> Vec<bool> {
    let mut command = Command::new("chronyc");
    command.arg("-h").arg(chronyd.command_socket());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("chronyc is installed");
    // All of it fits into the pipe.
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(commands.as_bytes()).expect("chronyc reads");
    drop(stdin);
    let output = child.wait_with_output().expect("chronyc ends");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| match line {
            line if line.contains("208 Access allowed") => Some(true),
            line if line.contains("209 Access denied") => Some(false),
            _ => None,
        })
        .collect()
}

#[test]
fn chronyd_believes_us_with_every_key_and_interleaved() {
    let (text, keys) = keys();
    let files = Scratch::new("keys");
    let file = files.write("keys", &text);
    let addresses: Vec<SocketAddr> = Algorithm::ALL.map(|_| at(loopback(), PORT)).to_vec();
    let (_server, supply) = ours(&addresses, keys);
    let servers: String = (1..)
        .zip(&addresses)
        .map(|(key, address)| {
            format!(
                "server {} port {PORT} key {key} minpoll -4 maxpoll -4 xleave\n",
                address.ip()
            )
        })
        .collect();
    let chronyd = Chronyd::on_loopback(&format!(
        "port 0\ncmdport 0\nkeyfile {}\n{servers}",
        file.display()
    ));
    for address in &addresses {
        let ip = address.ip().to_string();
        wait::for_it("interleaved and authenticated", PATIENCE, || {
            let (code, text) = chronyd.chronyc(&["-c", "ntpdata", &ip]);
            let fields: Vec<&str> = text.trim().split(',').collect();
            // The fields from the tests on: three groups of tests, interleaved, authenticated.
            code == Some(0) && text.contains(",111,111,1111,Yes,Yes,") && fields.len() > 30
        });
    }
    let statistics = supply.tables.statistics();
    assert!(statistics.get(Counter::Interleaved) >= 11);
    assert_eq!(statistics.get(Counter::Unauthenticated), 0);
}
