//! The UDP engine: threads that answer datagrams at the price of the system calls alone.
//!
//! Each thread serves one socket, and blocks in a single receive while the queue is empty; under load
//! it receives and sends in batches (`recvmmsg`, `sendmmsg`). Buffers are made once: nothing is
//! allocated per datagram. On a wildcard address the reply leaves from the address the query came to
//! (`IP_PKTINFO`, `IPV6_PKTINFO`); elsewhere the kernel knows and is not asked. On request it also
//! tells when a datagram came and when a reply left (`SO_TIMESTAMPING`).
//!
//! Over IPv4 the kernel does not mind what ICMP said of the path's MTU ([`Fragments`]).
//!
//! Sockets may be shared with another process, which continues when this one ends: the engine never
//! shuts a socket down, and answers what is queued before it stops.
//!
//! After about a second without datagrams a thread sleeps without a timeout, until a datagram comes or a
//! [`Waker`] wakes it.
//!
//! ```text
//!           quiet                                     busy
//!   ┌──────────────────────┐  more in the queue  ┌──────────────────────┐
//!   │ receive one, blocking├────────────────────►│ receive many, block  │
//!   │ respond, send        │◄────────────────────┤ for the first only;  │
//!   └──────────────────────┘ one at a time again │ respond, send many   │
//!                                                └──────────────────────┘
//! ```
//!
//! Knows nothing of what the datagrams say: that is [`Respond`]'s.

mod counters;
mod path;
mod worker;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use counters::{Collector, Counters};
pub use path::ReturnPath;

use parking_lot::RwLock;
use sys::address::RawAddress;
use sys::batch::Asked;
use sys::option;
use sys::source::Source;
use sys::wait;
use worker::Worker;

use crate::progress::Heartbeat;

/// The longest payload of a datagram; no longer one can be sent or received.
pub use sys::batch::LONGEST;

/// Enough for requests that a daemon answers itself: no DNS query or NTP packet comes near.
const RECEIVE_CAPACITY: usize = 4096;

/// The timeout of a receive. After several timeouts in a row the thread sleeps without one.
const WAKE: Duration = Duration::from_millis(250);

/// The same once it is alert.
const ALERT_WAKE: Duration = Duration::from_millis(1);

/// A service's handling of datagrams. Each thread has its own.
pub trait Respond: Send + 'static {
    /// Called before each batch, when nothing came for a while and after a wake-up: pick up new
    /// snapshots here.
    fn refresh(&mut self) {}

    /// Answers one datagram into `reply`, whose old content is of no meaning.
    fn respond(&mut self, datagram: &Datagram<'_>, reply: &mut [u8]) -> Outcome;

    /// Called directly before this many replies are handed to the kernel together.
    fn sending(&mut self, replies: usize) {
        let _ = replies;
    }

    /// Called directly after.
    fn sent(&mut self, replies: usize) {
        let _ = replies;
    }

    /// Called after replies are sent of which it was [asked](Outcome::ReplyTold) when they left: with the
    /// frame, which ends with the reply, and the time since 1970 on the wall clock.
    fn departed(&mut self, frame: &[u8], at: Duration) {
        let _ = (frame, at);
    }

    /// Called after each batch is sent, when nothing came for a while and after a wake-up: flush
    /// counters here.
    fn settle(&mut self) {}
}

/// The fate of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Sends the first N bytes of the reply buffer back.
    Reply(usize),
    /// The same, and asks the kernel when it left, for [`Respond::departed`]. It may not know in
    /// time, and only knows if the engine was made [so](EngineOptions::stamps).
    ReplyTold(usize),
    /// Nothing is sent, or later through a [`ReturnPath`].
    Silent,
}

/// The position of a reply among those that are sent together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// The number of replies before it.
    pub before: usize,
    /// The least number of datagrams that are responded to before it is sent, this one included.
    pub to_answer: usize,
}

/// A datagram that was received.
pub struct Datagram<'a> {
    payload: &'a [u8],
    peer: RawAddress,
    source: Source,
    arrived: Option<Duration>,
    merged: Option<u16>,
    turn: Turn,
    socket: Option<&'a Arc<UdpSocket>>,
    bound: Option<IpAddr>,
}

impl<'a> Datagram<'a> {
    /// A datagram that came from nowhere, to run a [`Respond`] without an engine. Its return path
    /// leads nowhere.
    #[must_use]
    pub fn detached(payload: &'a [u8], peer: SocketAddr, local: Option<IpAddr>) -> Self {
        Self {
            payload,
            peer: RawAddress::new(peer),
            source: Source::Bound,
            arrived: None,
            merged: None,
            turn: Turn {
                before: 0,
                to_answer: 1,
            },
            socket: None,
            bound: local,
        }
    }

    /// Its content.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Its sender; an IPv4 address mapped into IPv6 is given as IPv4.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer.address()
    }

    /// The address it was sent to, if it is known.
    #[must_use]
    pub fn local(&self) -> Option<IpAddr> {
        self.source.address().or(self.bound)
    }

    /// When the kernel got it, since 1970 on the wall clock; none unless
    /// [asked for](EngineOptions::stamps).
    #[must_use]
    pub fn arrived(&self) -> Option<Duration> {
        self.arrived
    }

    /// The length of each datagram in the content, the last of which may be shorter, if the kernel merged several of
    /// this sender; only if the engine was made [so](EngineOptions::merged).
    #[must_use]
    pub fn merged(&self) -> Option<u16> {
        self.merged
    }

    /// The position of its reply among those that are sent together.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// The way back, for a reply that another thread sends later.
    #[must_use]
    pub fn return_path(&self) -> ReturnPath {
        ReturnPath::new(self.socket.map(Arc::clone), self.peer, self.source)
    }
}

impl fmt::Debug for Datagram<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Datagram")
            .field("peer", &self.peer())
            .field("local", &self.local())
            .field("length", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// The handling of a reply over IPv4 that is longer than a link on its way takes. The engine ignores what ICMP says of
/// the path: anyone can forge it, and have replies cut into fragments into which forged ones fit
/// (RFC 9715 §1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fragments {
    /// It is cut there.
    #[default]
    Allowed,
    /// It is lost there: for replies that fit every link. The kernel has less to do: a datagram that is never cut
    /// needs no number of its own (RFC 6864 §4.1).
    Never,
}

/// How an engine is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads are called `name-udp-0` and so on.
    pub name: &'static str,
    /// The longest datagram that is received whole, at most [`LONGEST`]; longer ones are dropped and counted.
    pub receive_capacity: usize,
    /// The longest reply, at most [`LONGEST`].
    pub reply_capacity: usize,
    /// Datagrams received with one system call at most.
    pub batch: usize,
    /// Replies sent with one system call at most; no more than a batch. Fewer leave sooner after they
    /// were made, which matters to those that hold the time.
    pub send_batch: usize,
    /// Whether the engine asks the kernel when each datagram came, and may ask when a reply left
    /// (`SO_TIMESTAMPING`).
    pub stamps: bool,
    /// Whether replies may be cut on the way.
    pub fragments: Fragments,
    /// Whether the kernel may merge datagrams of one sender into one that is received (`UDP_GRO`); a kernel without it
    /// does not. For services that pass datagrams on: a reply answers all of them. When the engine stops, it has the
    /// kernel merge no more, as another program may have the socket next.
    pub merged: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            name: "engine",
            receive_capacity: RECEIVE_CAPACITY,
            reply_capacity: 4096,
            batch: 64,
            send_batch: 64,
            stamps: false,
            fragments: Fragments::Allowed,
            merged: false,
        }
    }
}

/// Threads that serve a set of sockets. Dropping it stops them.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    stop: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    threads: Vec<Thread>,
    waker: Waker,
    counters: Counters,
}

/// Wakes the threads of an engine, each of which then refreshes and settles; clones wake the same.
#[derive(Debug, Clone, Default)]
pub struct Waker {
    /// One for each thread, which alone reads it.
    events: Arc<RwLock<Vec<Arc<OwnedFd>>>>,
}

impl Waker {
    /// Wakes every thread that sleeps, or is about to.
    pub fn wake(&self) {
        for event in self.events.read().iter() {
            wait::count(event);
        }
    }
}

/// Makes threads sleep lightly.
#[derive(Debug, Default)]
struct Alarm {
    rings: AtomicBool,
    /// Threads that have heard it.
    heard: AtomicUsize,
}

#[derive(Debug)]
struct Thread {
    name: String,
    handle: JoinHandle<()>,
    heartbeat: Heartbeat,
}

impl Engine {
    /// Starts `threads` threads, at least one for each socket; several may share one: thread `n`
    /// serves socket `n` modulo the number of sockets. `make` is given the number of a thread and
    /// makes what answers on it.
    ///
    /// # Errors
    ///
    /// When there is no socket, an option of a socket cannot be set or a thread cannot be made.
    pub fn start<R: Respond>(
        sockets: Vec<UdpSocket>,
        threads: usize,
        options: EngineOptions,
        make: impl FnMut(usize) -> R,
    ) -> io::Result<Self> {
        // Dropped on an error, it stops the threads it has.
        let mut engine = Self {
            options,
            stop: Arc::new(AtomicBool::new(false)),
            alarm: Arc::default(),
            threads: Vec::new(),
            waker: Waker::default(),
            counters: Counters::default(),
        };
        engine.grow(sockets, threads, make)?;
        Ok(engine)
    }

    /// Adds sockets, and `threads` threads for them as in [`Engine::start`]. Returns the names and heartbeats of the threads.
    ///
    /// # Errors
    ///
    /// As in [`Engine::start`]; threads that were made before that serve.
    pub fn grow<R: Respond>(
        &mut self,
        sockets: Vec<UdpSocket>,
        threads: usize,
        mut make: impl FnMut(usize) -> R,
    ) -> io::Result<Vec<(String, Heartbeat)>> {
        if sockets.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an engine needs a socket",
            ));
        }
        let sockets = sockets
            .into_iter()
            .map(|socket| Socket::prepare(socket, &self.options))
            .collect::<io::Result<Vec<_>>>()?;
        for socket in &sockets {
            self.counters.add_socket(socket.inode);
        }
        let n_threads = threads.max(sockets.len());
        let first = self.threads.len();
        for socket in sockets.iter().cycle().take(n_threads) {
            let number = self.threads.len();
            self.add_thread(socket.clone(), make(number))?;
        }
        Ok(self.heartbeats().split_off(first))
    }

    fn add_thread<R: Respond>(&mut self, socket: Socket, responder: R) -> io::Result<()> {
        let name = format!("{}-udp-{}", self.options.name, self.threads.len());
        let heartbeat = Heartbeat::default();
        let event = Arc::new(wait::counter()?);
        let woken = Arc::clone(&event);
        heartbeat.wake_by(move || wait::count(&woken));
        let worker = Worker {
            socket,
            options: self.options,
            responder,
            counts: self.counters.add_thread(),
            heartbeat: Arc::clone(&heartbeat),
            stop: Arc::clone(&self.stop),
            alarm: Arc::clone(&self.alarm),
            event: Arc::clone(&event),
        };
        let handle = thread::Builder::new()
            .name(name.clone())
            .spawn(move || worker.run())?;
        self.waker.events.write().push(event);
        self.threads.push(Thread {
            name,
            handle,
            heartbeat,
        });
        Ok(())
    }

    /// The number of threads.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.threads.len()
    }

    /// The counts of the threads so far; the handle outlives the engine.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Wakes the threads; for use after a publication that they must pick up.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Every thread's name and heartbeat, for [`crate::run::Progress::register_all`].
    #[must_use]
    pub fn heartbeats(&self) -> Vec<(String, Heartbeat)> {
        self.threads
            .iter()
            .map(|thread| (thread.name.clone(), Arc::clone(&thread.heartbeat)))
            .collect()
    }

    /// Makes the threads stop within about a millisecond of being asked to, once they are
    /// [alert](Self::is_alert): within about 250 ms, at once if they sleep. They serve on until then.
    ///
    /// For a caller that takes the sockets away from here and wants no client to wait: without it, datagrams queue
    /// on the socket of a thread that has stopped until the last of the others wakes up.
    pub fn alert(&self) {
        self.alarm.rings.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// True when every thread has heard [`Engine::alert`].
    #[must_use]
    pub fn is_alert(&self) -> bool {
        self.alarm.heard.load(Ordering::Acquire) >= self.threads.len()
    }

    /// Asks the threads to stop, without waiting for them.
    pub fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Answers what is queued and ends the threads: within about 250 ms when it is quiet. Blocks; a
    /// caller that has more to drain meanwhile calls [`Engine::ask_to_stop`] first.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ask_to_stop();
        for thread in self.threads.drain(..) {
            if thread.handle.join().is_err() {
                tracing::error!(
                    thread = thread.name,
                    "A thread of the UDP engine has panicked"
                );
            }
        }
    }
}

/// A socket as its threads use it.
#[derive(Debug, Clone)]
struct Socket {
    socket: Arc<UdpSocket>,
    /// The address it is bound to, unless that is a wildcard.
    bound: Option<IpAddr>,
    /// The information that each datagram carries.
    asked: Asked,
    inode: u64,
}

impl Socket {
    fn prepare(socket: UdpSocket, options: &EngineOptions) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(WAKE))?;
        socket.set_write_timeout(Some(WAKE))?;
        ignore_path_mtu(&socket, options.fragments)?;
        let address = socket.local_addr()?.ip();
        let bound = (!address.is_unspecified()).then_some(address);
        let asked = Asked {
            destination: bound.is_none(),
            stamps: options.stamps,
            merged: options.merged && merge(&socket, true),
        };
        if asked.destination {
            receive_destination(&socket, address)?;
        }
        if asked.stamps {
            receive_stamps(&socket)?;
        }
        Ok(Self {
            inode: rustix::fs::fstat(&socket)?.st_ino,
            socket: Arc::new(socket),
            bound,
            asked,
        })
    }
}

/// Makes every datagram tell which address it was sent to.
fn receive_destination(socket: &UdpSocket, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(_) => option::set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        IpAddr::V6(_) => option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Lets the kernel merge datagrams of one sender, or lets it not; true if the kernel can.
pub fn merge(socket: impl AsFd, is_merged: bool) -> bool {
    let set = option::set(socket, libc::SOL_UDP, libc::UDP_GRO, is_merged.into());
    if let Err(error) = &set {
        tracing::debug!(%error, "The kernel does not merge datagrams");
    }
    set.is_ok()
}

/// Makes replies over IPv4 as long as the link takes, whatever ICMP says of the path. A datagram that is too
/// long for a link further on is cut there or lost. IPv6 has no such cutting, and DNS answers fit its least.
fn ignore_path_mtu(socket: &UdpSocket, fragments: Fragments) -> io::Result<()> {
    let option = libc::IP_MTU_DISCOVER;
    option::set(socket, libc::IPPROTO_IP, option, path_mtu_mode(fragments))
}

fn path_mtu_mode(fragments: Fragments) -> libc::c_int {
    match fragments {
        Fragments::Allowed => libc::IP_PMTUDISC_OMIT,
        Fragments::Never => libc::IP_PMTUDISC_PROBE,
    }
}

/// Makes every datagram tell when the kernel got it, and lets replies ask when they leave.
fn receive_stamps(socket: &UdpSocket) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    option::ask_for_stamps(socket, flags)
}

#[cfg(test)]
mod tests;
