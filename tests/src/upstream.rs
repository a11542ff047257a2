//! A DNS server that answers as a test tells it to, for the resolver to forward to.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::dns::Message;

/// The server's reaction to a query.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes after a while; other queries do not wait.
    SendLater(Duration, Vec<u8>),
    /// Says nothing.
    Silence,
}

/// A query, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub wire: Vec<u8>,
    pub message: Message,
    pub over_tcp: bool,
    pub from: SocketAddr,
}

impl Asked {
    /// The name of the question, in lower case.
    #[must_use]
    pub fn name(&self) -> String {
        self.message
            .questions
            .first()
            .map_or(String::new(), |(name, ..)| name.to_ascii_lowercase())
    }

    /// An answer with flags and records: `(type, ttl, data)`, all owned by the query's name.
    ///
    /// # Panics
    ///
    /// Panics if the query has no question, or there are very many records.
    #[must_use]
    pub fn answer(&self, rcode: u8, records: &[(u16, u32, Vec<u8>)]) -> Vec<u8> {
        let mut wire = self.head(rcode, records.len(), 0);
        for record in records {
            push_record(&mut wire, &[0xc0, 12], record);
        }
        wire
    }

    /// A negative answer with the SOA record of `apex`, minimum `minimum`.
    ///
    /// # Panics
    ///
    /// As [`Self::answer`].
    #[must_use]
    pub fn negative(&self, rcode: u8, apex: &str, minimum: u32) -> Vec<u8> {
        let mut wire = self.head(rcode, 0, 1);
        let mut soa = vec![0, 0];
        for number in [1, 3600, 600, 86_400, minimum] {
            soa.extend(number.to_be_bytes());
        }
        let owner = crate::dns::name_to_wire(apex);
        push_record(&mut wire, &owner, &(crate::dns::SOA, minimum, soa));
        wire
    }

    fn head(&self, rcode: u8, n_answers: usize, n_authority: u8) -> Vec<u8> {
        let (name, ..) = self.message.questions.first().expect("a question");
        let question_end = 12 + crate::dns::name_to_wire(name).len() + 4;
        let n_answers = u8::try_from(n_answers).expect("few records");
        let mut wire = self.wire[..question_end].to_vec();
        // QR, AA, the query's RD, RA.
        wire[2] = 0x84 | wire[2] & 1;
        wire[3] = 0x80 | rcode;
        wire[4..12].copy_from_slice(&[0, 1, 0, n_answers, 0, n_authority, 0, 0]);
        wire
    }
}

fn push_record(wire: &mut Vec<u8>, owner: &[u8], (rtype, ttl, data): &(u16, u32, Vec<u8>)) {
    wire.extend(owner);
    wire.extend(rtype.to_be_bytes());
    wire.extend([0, 1]);
    wire.extend(ttl.to_be_bytes());
    wire.extend(u16::try_from(data.len()).expect("short data").to_be_bytes());
    wire.extend(data);
}

/// The server, on UDP and TCP. Dropped, its port is closed.
pub struct Upstream {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    n_udp: AtomicU64,
    n_tcp: AtomicU64,
    act: Mutex<Act>,
}

type Act = Box<dyn FnMut(&Asked) -> Action + Send>;

impl Upstream {
    /// Listens on `address` and does what `act` says.
    ///
    /// # Panics
    ///
    /// Panics if the address is taken.
    #[must_use]
    pub fn start(address: SocketAddr, act: impl FnMut(&Asked) -> Action + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            n_udp: AtomicU64::new(0),
            n_tcp: AtomicU64::new(0),
            act: Mutex::new(Box::new(act)),
        });
        let udp = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        udp.set_read_timeout(Some(TICK)).expect("a positive time");
        let tcp = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        tcp.set_nonblocking(true)
            .expect("a listener can be made non-blocking");
        let threads = vec![
            std::thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.serve_udp(&udp)
            }),
            std::thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.serve_tcp(&tcp)
            }),
        ];
        Self { shared, threads }
    }

    /// Does something else from here on.
    pub fn act(&self, act: impl FnMut(&Asked) -> Action + Send + 'static) {
        *self
            .shared
            .act
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Box::new(act);
    }

    /// Queries it has had over UDP.
    #[must_use]
    pub fn n_udp(&self) -> u64 {
        self.shared.n_udp.load(Ordering::Relaxed)
    }

    /// Queries it has had over TCP.
    #[must_use]
    pub fn n_tcp(&self) -> u64 {
        self.shared.n_tcp.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn decide(&self, wire: &[u8], over_tcp: bool, from: SocketAddr) -> Action {
        let counter = if over_tcp { &self.n_tcp } else { &self.n_udp };
        counter.fetch_add(1, Ordering::Relaxed);
        let Ok(message) = Message::read(wire) else {
            return Action::Silence;
        };
        let asked = Asked {
            wire: wire.to_vec(),
            message,
            over_tcp,
            from,
        };
        (self.act.lock().unwrap_or_else(PoisonError::into_inner))(&asked)
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; 65_535];
        while !self.stopped() {
            let (length, from) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(_) => continue,
            };
            match self.decide(&buffer[..length], false, from) {
                Action::Send(wire) => drop(socket.send_to(&wire, from)),
                Action::SendLater(time, wire) => {
                    let socket = socket.try_clone().expect("a descriptor is free");
                    std::thread::spawn(move || {
                        std::thread::sleep(time);
                        drop(socket.send_to(&wire, from));
                    });
                }
                Action::Silence => {}
            }
        }
    }

    fn serve_tcp(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopped() {
            match listener.accept() {
                Ok((stream, from)) => {
                    let shared = Arc::clone(self);
                    std::thread::spawn(move || shared.serve_stream(stream, from));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(TICK / 4),
                Err(error) => panic!("accept: {error}"),
            }
        }
    }

    fn serve_stream(&self, mut stream: TcpStream, from: SocketAddr) {
        drop(stream.set_nonblocking(false));
        drop(stream.set_read_timeout(Some(Duration::from_secs(10))));
        let mut length = [0; 2];
        while !self.stopped() && stream.read_exact(&mut length).is_ok() {
            let mut wire = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut wire).is_err() {
                return;
            }
            let answer = match self.decide(&wire, true, from) {
                Action::Send(wire) => wire,
                Action::SendLater(time, wire) => {
                    std::thread::sleep(time);
                    wire
                }
                Action::Silence => continue,
            };
            let length = u16::try_from(answer.len())
                .expect("a message")
                .to_be_bytes();
            if stream.write_all(&[&length[..], &answer].concat()).is_err() {
                return;
            }
        }
    }
}

/// How often a waiting thread looks whether it has to stop.
const TICK: Duration = Duration::from_millis(20);
