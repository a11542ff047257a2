//! Ends of TCP connections: servers that do what a test says, and data that tells where it was hurt.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use crate::wait;

/// A server: each connection has a thread of its own. Dropped, it is gone, and its connections too.
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    n_accepted: AtomicUsize,
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Server {
    /// Accepts connections on `address` and gives each to `serve`.
    ///
    /// # Panics
    ///
    /// Panics if the address is taken.
    #[must_use]
    pub fn start<F>(address: SocketAddr, serve: F) -> Self
    where
        F: Fn(&TcpStream) + Send + Sync + 'static,
    {
        let listener =
            TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let accepting = listener.try_clone().expect("a descriptor is free");
        let shared = Arc::<Shared>::default();
        let state = Arc::clone(&shared);
        let serve = Arc::new(serve);
        let thread = std::thread::spawn(move || {
            // Ends when the listener is shut down.
            while let Ok((stream, _)) = accepting.accept() {
                state.n_accepted.fetch_add(1, Ordering::Relaxed);
                stream.set_nodelay(true).expect("an option of every stream");
                // Nothing ends a connection that its client lets rest.
                stream
                    .set_read_timeout(Some(30 * PATIENCE))
                    .expect("a positive time");
                let stream = Arc::new(stream);
                let mut open = state.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.retain(|stream| stream.strong_count() > 0);
                open.push(Arc::downgrade(&stream));
                drop(open);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(&stream));
            }
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            listener,
            thread: Some(thread),
            shared,
        }
    }

    /// Says its name and a line feed, then sends back what it is sent; closes when the client does.
    #[must_use]
    pub fn named(address: SocketAddr, name: &str) -> Self {
        let greeting = format!("{name}\n");
        Self::start(address, move |mut stream| {
            if stream.write_all(greeting.as_bytes()).is_ok() {
                echo(stream);
            }
        })
    }

    /// Sends back what it is sent; closes when the client does.
    #[must_use]
    pub fn echo(address: SocketAddr) -> Self {
        Self::start(address, echo)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that it accepted so far.
    #[must_use]
    pub fn n_accepted(&self) -> usize {
        self.shared.n_accepted.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    #[must_use]
    pub fn n_open(&self) -> usize {
        let open = self.shared.open.lock();
        let open = open.unwrap_or_else(PoisonError::into_inner);
        open.iter()
            .filter(|stream| stream.strong_count() > 0)
            .count()
    }

    /// Connections are refused from here on; those that there are stay.
    pub fn close(&mut self) {
        drop(SockRef::from(&self.listener).shutdown(Shutdown::Both));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        // A listener that is shut down refuses, as one that is gone does.
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        let open = self.shared.open.lock();
        for stream in open.unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(stream) = stream.upgrade() {
                drop(stream.shutdown(Shutdown::Both));
            }
        }
    }
}

/// Sends back everything, and closes its side when the peer does.
pub fn echo(mut stream: &TcpStream) {
    let mut buffer = [0; 16384];
    loop {
        match wait::uninterrupted(|| stream.read(&mut buffer)) {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                if stream.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        }
    }
    drop(stream.shutdown(Shutdown::Write));
}

/// A connection to `address`, which gives up after a while whatever it does.
///
/// # Errors
///
/// Fails if it is refused, or not accepted in time.
pub fn try_connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// As [`try_connect`].
///
/// # Panics
///
/// Panics if there is no connection.
#[track_caller]
#[must_use]
pub fn connect(address: SocketAddr) -> TcpStream {
    try_connect(address).unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// A connection from an address of choice.
///
/// # Errors
///
/// Fails if it is refused, or reset before it is known to have come about.
pub fn try_connect_from(source: Ipv4Addr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// As [`try_connect_from`].
///
/// # Panics
///
/// Panics if there is no connection.
#[track_caller]
#[must_use]
pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> TcpStream {
    try_connect_from(source, address)
        .unwrap_or_else(|error| panic!("{source} to {address}: {error}"))
}

/// Reads until the line feed: what [`Server::named`] says.
///
/// # Errors
///
/// Fails if the connection ends before, or is reset.
pub fn try_line(mut stream: &TcpStream) -> std::io::Result<String> {
    let mut line = Vec::new();
    let mut octet = [0];
    loop {
        if wait::uninterrupted(|| stream.read(&mut octet))? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if octet[0] == b'\n' {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        line.push(octet[0]);
    }
}

/// As [`try_line`].
///
/// # Panics
///
/// Panics if there is no line.
#[track_caller]
pub fn line(stream: &TcpStream) -> String {
    try_line(stream).unwrap_or_else(|error| panic!("no line: {error}"))
}

/// Ends a connection with RST.
pub fn reset(stream: TcpStream) {
    let zero = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    zero.expect("an option of every stream");
    drop(stream);
}

/// How a connection ended, from the reader's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With FIN, after this many octets.
    Closed(u64),
    /// With RST, after this many octets.
    Reset(u64),
    /// Not, in the time that a reader waits.
    Open(u64),
}

/// Reads to the end.
///
/// # Panics
///
/// Panics if reading fails in a way that is no end.
pub fn end(mut stream: &TcpStream) -> End {
    let mut buffer = [0; 16384];
    let mut n_octets = 0;
    loop {
        match wait::uninterrupted(|| stream.read(&mut buffer)) {
            Ok(0) => return End::Closed(n_octets),
            Ok(length) => n_octets += length as u64,
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return End::Reset(n_octets),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return End::Open(n_octets),
                _ => panic!("{error}"),
            },
        }
    }
}

/// How the connection ends within `limit`.
///
/// # Panics
///
/// As [`end`].
#[must_use]
pub fn end_within(stream: &TcpStream, limit: Duration) -> End {
    stream
        .set_read_timeout(Some(limit))
        .expect("a positive time");
    end(stream)
}

/// An endless stream of octets that no piece of can be lost, doubled or moved unnoticed.
#[derive(Clone, Debug)]
pub struct Pattern {
    state: u64,
    word: [u8; 8],
    used: usize,
    position: u64,
}

impl Pattern {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            word: [0; 8],
            used: 8,
            position: 0,
        }
    }

    /// The octets that come next.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for octet in &mut *buffer {
            if self.used == 8 {
                self.word = self.next().to_le_bytes();
                self.used = 0;
            }
            *octet = self.word[self.used];
            self.used += 1;
        }
        self.position += buffer.len() as u64;
    }

    /// Compares with what comes next.
    ///
    /// # Errors
    ///
    /// Says between which octets the first wrong one is.
    pub fn check(&mut self, received: &[u8]) -> Result<(), String> {
        let mut expected = vec![0; received.len()];
        let start = self.position;
        self.fill(&mut expected);
        if expected == received {
            return Ok(());
        }
        let wrong = expected.iter().zip(received).position(|(a, b)| a != b);
        Err(format!(
            "octet {} is wrong",
            start + wrong.unwrap_or(0) as u64
        ))
    }

    /// A number from the stream's generator, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Sends the first `length` octets of the pattern of `seed`, in pieces of `piece`.
///
/// # Errors
///
/// Fails if the peer does not take them.
pub fn send(mut stream: &TcpStream, seed: u64, length: u64, piece: usize) -> std::io::Result<()> {
    let mut pattern = Pattern::new(seed);
    let mut buffer = vec![0; piece];
    let mut left = length;
    while left > 0 {
        let now = piece.min(usize::try_from(left).unwrap_or(usize::MAX));
        pattern.fill(&mut buffer[..now]);
        stream.write_all(&buffer[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Receives the first `length` octets of the pattern of `seed`, all of them right.
///
/// # Errors
///
/// Says what was wrong, and where.
pub fn receive(mut stream: &TcpStream, seed: u64, length: u64) -> Result<(), String> {
    let mut pattern = Pattern::new(seed);
    let mut buffer = vec![0; 65536];
    let mut left = length;
    while left > 0 {
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        match wait::uninterrupted(|| stream.read(&mut buffer[..most])) {
            Ok(0) => return Err(format!("closed {left} octets of {length} too early")),
            Ok(n) => {
                pattern.check(&buffer[..n])?;
                left -= n as u64;
            }
            Err(error) => return Err(format!("{error} with {left} octets of {length} to come")),
        }
    }
    Ok(())
}

/// Whether a process listens on `address`; nothing is connected to find out.
///
/// # Panics
///
/// Panics if the operating system does not say.
#[must_use]
pub fn is_listened_on(address: SocketAddr) -> bool {
    let SocketAddr::V4(address) = address else {
        panic!("{address} is not IPv4");
    };
    let wanted = format!(
        " {:08X}:{:04X} 00000000:0000 0A ",
        u32::from_ne_bytes(address.ip().octets()),
        address.port()
    );
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has the table");
    table.contains(&wanted)
}

/// An address on which connections are neither accepted nor refused: its queue is full.
#[derive(Debug)]
pub struct Silent {
    address: SocketAddr,
    _listener: Socket,
    _queued: Vec<Socket>,
}

impl Silent {
    /// Makes one.
    ///
    /// # Panics
    ///
    /// Panics if the address is taken.
    #[must_use]
    pub fn start(address: SocketAddr) -> Self {
        let listener = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let listener = listener.expect("a socket is free");
        listener.bind(&address.into()).expect("the address is free");
        listener.listen(0).expect("it is bound");
        let mut queued = Vec::new();
        let start = Instant::now();
        // The queue is full once a connection does not come about.
        loop {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
            let socket = socket.expect("a socket is free");
            let connected = socket.connect_timeout(&address.into(), Duration::from_millis(200));
            queued.push(socket);
            if connected.is_err() {
                break;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "the queue of {address} has no end"
            );
        }
        Self {
            address,
            _listener: listener,
            _queued: queued,
        }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// How long either end waits for the other. Wide: the machine may be building at the same time.
pub const PATIENCE: Duration = Duration::from_secs(20);
