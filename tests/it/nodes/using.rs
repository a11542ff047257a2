//! A service in use, and what its users found.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use tests::dns::{A, Question, check, receive_tcp, send_tcp};
use tests::load::{Load, Mix};
use tests::node::Node;
use tests::node::lan::{DOMAIN, Lan};
use tests::node::pulse::{Pulse, Tally};
use tests::stream::{try_connect, try_line};
use tests::time;

/// A service in use.
pub(super) struct Using {
    /// Queries of DNS, at a pace that a socket's queue has to hold over a swap.
    queries: Option<Load>,
    /// Other datagrams.
    datagrams: Option<Pulse>,
    connections: Option<Pulse>,
}

/// The observations of a service's users.
pub(super) struct Found {
    n_sent: u64,
    n_lost: u64,
    mistakes: Vec<String>,
    connections: Tally,
    slowest: Duration,
}

impl Using {
    /// Begins to use a service of a node as its clients do.
    pub(super) fn start(lan: &Lan, node: &Node, service: &str) -> Self {
        let address = |port: u16| SocketAddr::new(node.address(), port);
        let mut using = Self {
            queries: None,
            datagrams: None,
            connections: None,
        };
        match service {
            "healthd" => {
                let socket = node.inside_path("/run/outpost/healthd/healthd.sock");
                using.connections = Some(Pulse::start(CONNECTIONS, move || grpc(&socket)));
            }
            "dns-authd" => {
                let server = "127.0.0.1:5301".parse().expect("an address");
                node.machine.inside(|| using.ask(server));
            }
            "dns-recursor" => lan.client.inside(|| using.ask(address(53))),
            "lb-proxy" => {
                let server = address(9443);
                let pulse = || Pulse::start(CONNECTIONS, move || greeting(server));
                using.connections = Some(lan.client.inside(pulse));
            }
            "registry-svc" => {
                let (https, server, name) = (lan.https(), address(5443), node.name().to_owned());
                let request = move || match https.get_at(server, &name, "/v2/")? {
                    200 => Ok(()),
                    status => Err(io::Error::other(format!("status {status}"))),
                };
                using.connections = Some(lan.client.inside(|| Pulse::start(REQUESTS, request)));
            }
            "timesync-agent" => {
                let server = address(123);
                let pulse = || Pulse::start(TIMES, move || time_of(server));
                using.datagrams = Some(lan.client.inside(pulse));
            }
            other => panic!("there is no service {other}"),
        }
        using
    }

    fn ask(&mut self, server: SocketAddr) {
        let name = format!("helper.{DOMAIN}");
        let question = Question::new(&name, A);
        let mix = Mix {
            questions: vec![question.clone()],
            judge: Box::new(|_, message| {
                let is_right = message.addresses().contains(&HELPER.into());
                is_right
                    .then_some(())
                    .ok_or_else(|| "not the address".to_owned())
            }),
        };
        self.queries = Some(Load::start_patient(server, QUERIES, mix, PATIENCE));
        self.connections = Some(Pulse::start(CONNECTIONS, move || {
            over_tcp(server, &question)
        }));
    }

    /// Stops, when the last answers have come or are given up.
    pub(super) fn stop(self) -> Found {
        let mut found = Found {
            n_sent: 0,
            n_lost: 0,
            mistakes: Vec::new(),
            connections: self.connections.map(Pulse::stop).unwrap_or_default(),
            slowest: Duration::ZERO,
        };
        found.slowest = found.connections.slowest;
        if let Some(report) = self.queries.map(Load::stop) {
            found.n_sent += report.sent;
            found.n_lost += report.lost.len() as u64;
            found.mistakes.extend(report.wrong.into_keys());
            found.slowest = found.slowest.max(report.slowest);
        }
        if let Some(tally) = self.datagrams.map(Pulse::stop) {
            found.n_sent += tally.tried;
            found.n_lost += tally.n_failed();
            found.mistakes.extend(tally.failed.into_keys());
            found.slowest = found.slowest.max(tally.slowest);
        }
        found
    }
}

/// Datagrams that a thread of a server reads at a time at most: a process that is killed between reading
/// and answering takes them with it.
const IN_HANDS: u64 = 64;

impl Found {
    /// Connections that were not accepted.
    fn n_refused(&self) -> u64 {
        let failed = self.connections.failed.iter();
        let refused = failed.filter(|(kind, _)| {
            ["refused", "No such file", "timed out"]
                .iter()
                .any(|word| kind.contains(word))
        });
        refused.map(|(_, (number, _))| number).sum()
    }

    /// Fails unless every query was answered and every connection accepted; and served to its end, but
    /// where a process was killed: what it had in its hands is gone, and its successor may turn away some
    /// of the many that waited, by its limit of connections of one client.
    #[track_caller]
    pub(super) fn assert_served(&self, table: &str, was_killed: bool) {
        let most = if was_killed { IN_HANDS } else { 0 };
        assert!(self.n_lost <= most, "{:?}\n{table}", self.mistakes);
        assert!(self.mistakes.is_empty(), "{:?}\n{table}", self.mistakes);
        assert_eq!(
            self.n_refused(),
            0,
            "{:?}\n{table}",
            self.connections.failed
        );
        if !was_killed {
            assert_eq!(
                self.connections.n_failed(),
                0,
                "{:?}\n{table}",
                self.connections.failed
            );
        }
        assert!(
            self.n_sent + self.connections.tried > 0,
            "nothing was asked"
        );
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "| {} | {} | {} | {} | {} | {:.0?} |",
            self.n_sent,
            self.n_lost,
            self.connections.tried,
            self.n_refused(),
            self.connections.n_failed() - self.n_refused(),
            self.slowest
        )
    }
}

//--- One exchange each

/// The start of a connection of gRPC (RFC 9113 §3.4): our settings against the server's.
fn grpc(socket: &PathBuf) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    match head[3] {
        SETTINGS => Ok(()),
        kind => Err(io::Error::other(format!("a frame of kind {kind}"))),
    }
}

/// A connection through the proxy to whichever server, which says its name.
fn greeting(address: SocketAddr) -> io::Result<()> {
    let stream = try_connect(address)?;
    match try_line(&stream)?.as_str() {
        name if name.starts_with("master-") => Ok(()),
        other => Err(io::Error::other(format!("greeted by {other}"))),
    }
}

/// A question over TCP, on a connection of its own.
fn over_tcp(server: SocketAddr, question: &Question) -> io::Result<()> {
    let mut stream = try_connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let wire = question.to_wire(ID);
    send_tcp(&mut stream, &wire).map_err(io::Error::other)?;
    let answer = receive_tcp(&mut stream).map_err(io::Error::other)?;
    check(ID, question, &answer)
        .map(drop)
        .map_err(io::Error::other)
}

fn time_of(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // An agent that has just started says that it is not synchronised yet: that is an answer.
    time::ask_over(&socket, |_| {}).map(drop)
}

/// Queries of DNS in a second.
const QUERIES: u32 = 500;

/// Connections in a second.
const CONNECTIONS: u32 = 50;

/// Requests of HTTPS in a second: each costs a handshake.
const REQUESTS: u32 = 15;

/// Requests of NTP in a second.
const TIMES: u32 = 100;

/// The address of a name that does not depend on anybody's health.
const HELPER: [u8; 4] = [192, 168, 7, 11];

/// The kind of the frame that opens a connection (RFC 9113 §6.5).
const SETTINGS: u8 = 4;

/// How long an answer may take before it counts as lost. Long, because what waits in a socket is not
/// lost: the table says how long it waited.
const PATIENCE: Duration = Duration::from_secs(20);

/// Questions over TCP: each has a connection of its own.
const ID: u16 = 0x0b1d;
