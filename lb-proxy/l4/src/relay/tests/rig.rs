//! An engine with one frontend and one backend, and clients and servers that behave as told.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use balance::pool::{Registry, Server, ServerSettings, Settings};
use balance::table::{Backend, Frontend, Policy, Route, Table};
use daemon::latest::Latest;
use l4_core::access_log::{Format, Settings as LogSettings, Target};
use tempfile::TempDir;

use crate::access_log::{Log, Writer};
use crate::relay::{BindOptions, Engine, Listener, Options, Report, bind};

/// Longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// What an engine is given.
pub(crate) struct Rig {
    pub(crate) engine: Option<Engine>,
    pub(crate) cell: Arc<Latest<Table>>,
    pub(crate) registry: Registry,
    pub(crate) frontend: Frontend,
    pub(crate) policy: Policy,
    pub(crate) pool: Settings,
    pub(crate) failures: Arc<Failures>,
    pub(crate) options: Options,
    log: Option<(Writer, TempDir)>,
}

/// Failed connects that were reported.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Vec<(String, io::ErrorKind)>>);

impl Report for Failures {
    fn connect_failed(&self, _: &Arc<str>, server: &Arc<Server>, error: &io::Error) {
        let mut failures = self.0.lock().unwrap();
        failures.push((server.name.to_string(), error.kind()));
    }
}

impl Failures {
    pub(crate) fn list(&self) -> Vec<(String, io::ErrorKind)> {
        self.0.lock().unwrap().clone()
    }
}

impl Rig {
    /// One frontend, and servers at these addresses, named `s0`, `s1` and so on.
    pub(crate) fn new(servers: &[SocketAddr]) -> Self {
        let mut pool = Settings::new("masters");
        for (number, address) in servers.iter().enumerate() {
            let name = format!("s{number}");
            pool.servers
                .push(ServerSettings::new(name.as_str(), *address));
        }
        let address = "127.0.0.1:0".parse().unwrap();
        Self {
            engine: None,
            cell: Latest::new(Table::default()),
            registry: Registry::new(),
            frontend: Frontend::new("api", vec![address], Route::to(0)),
            policy: Policy::default(),
            pool,
            failures: Arc::default(),
            options: Options {
                workers: 2,
                max_connections: None,
                ..Options::default()
            },
            log: None,
        }
    }

    /// Writes an access log as text.
    pub(crate) fn with_log(mut self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = LogSettings {
            target: Target::File(directory.path().join(LOG)),
            format: Format::Text,
        };
        self.frontend.log = true;
        self.log = Some((Writer::start(&settings).unwrap(), directory));
        self
    }

    pub(crate) fn table(&mut self) -> Table {
        let pool = self.registry.pool(self.pool.clone());
        let backend = Backend {
            pool,
            policy: self.policy.clone(),
        };
        let frontend = Frontend {
            name: Arc::clone(&self.frontend.name),
            listen: self.frontend.listen.clone(),
            accept_proxy: self.frontend.accept_proxy,
            sources: self.frontend.sources.clone(),
            limits: self.frontend.limits.clone(),
            max_connections: self.frontend.max_connections,
            route: self.frontend.route.clone(),
            client: self.frontend.client,
            log: self.frontend.log,
            tally: Arc::clone(&self.frontend.tally),
        };
        Table {
            generation: 7,
            frontends: vec![Arc::new(frontend)],
            backends: vec![Arc::new(backend)],
        }
    }

    pub(crate) fn listener(&self) -> Listener {
        let options = BindOptions {
            per_address: self.options.workers,
            freebind: false,
        };
        bind(&self.frontend.name, self.frontend.listen[0], options).unwrap()
    }

    pub(crate) fn start(self) -> Self {
        let listener = self.listener();
        self.start_with(vec![listener])
    }

    pub(crate) fn start_with(mut self, listeners: Vec<Listener>) -> Self {
        let table = self.table();
        self.cell.publish(table);
        let log = self
            .log
            .as_ref()
            .map_or_else(no_log, |(writer, _)| writer.log());
        let report = Arc::clone(&self.failures) as Arc<dyn Report>;
        let cell = Arc::clone(&self.cell);
        let engine = Engine::start(listeners, cell, log, report, self.options).unwrap();
        self.engine = Some(engine);
        self
    }

    /// Publishes what was changed since.
    pub(crate) fn publish(&mut self) {
        let table = self.table();
        self.cell.publish(table);
        self.engine().notice();
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.engine().listening()[0].1
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        patient(stream)
    }

    pub(crate) fn n_sessions(&self) -> u64 {
        self.engine().counters().sessions.load(Ordering::Relaxed)
    }

    /// Waits until there are so many sessions.
    pub(crate) fn until_sessions(&self, n: u64) {
        until("sessions", || self.n_sessions() == n);
    }

    /// Ends the engine and returns the two letters of each session's record.
    pub(crate) fn terminations(mut self) -> Vec<String> {
        drop(self.engine.take());
        let (writer, directory) = self.log.take().unwrap();
        writer.close();
        let text = std::fs::read_to_string(directory.path().join(LOG)).unwrap();
        text.lines()
            .map(|line| termination(line).to_owned())
            .collect()
    }
}

/// The file of the access log.
const LOG: &str = "access.log";

fn no_log() -> Log {
    Writer::start(&LogSettings::default()).unwrap().log()
}

/// The termination code in a line of tcplog: the fifth word from the end of the fixed part.
fn termination(line: &str) -> &str {
    line.split_whitespace()
        .find(|word| {
            word.len() == 2
                && word
                    .bytes()
                    .all(|octet| b"-CSPRIDUKcsQLHTR".contains(&octet))
        })
        .unwrap_or(line)
}

/// A listener whose connections a test handles itself.
pub(crate) fn server() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut stream = None;
    until("a connection", || {
        stream = listener.accept().ok().map(|(stream, _)| stream);
        stream.is_some()
    });
    let stream = stream.unwrap();
    stream.set_nonblocking(false).unwrap();
    patient(stream)
}

/// A server that answers each connection with its name, then echoes.
pub(crate) fn named_echo(name: &'static str) -> SocketAddr {
    let (listener, address) = server();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                stream.write_all(name.as_bytes()).ok();
                let mut copy = stream.try_clone().unwrap();
                io::copy(&mut stream, &mut copy).ok();
                copy.shutdown(std::net::Shutdown::Write).ok();
            });
        }
    });
    address
}

/// An address where nobody listens, nor will: what is bound but does not listen refuses.
pub(crate) fn nobody() -> SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _kept: &mut socket2::Socket = Box::leak(Box::new(socket));
    address
}

/// An address that is free.
pub(crate) fn free() -> SocketAddr {
    server().1
}

pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

pub(crate) fn read_exact(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

pub(crate) fn read_to_end(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(|_| bytes)
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

pub(crate) fn is_reset(result: &io::Result<Vec<u8>>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::ConnectionReset)
}

#[expect(clippy::disallowed_methods, reason = "a test waits for other threads")]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "no {what} in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Octets that differ at every place, the same each time.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    bytes.truncate(length);
    bytes
}
