//! What a worker is asked from outside, and how it is woken.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use balance::queue::Wake;
use balance::table::Frontend;
use ipnet::IpNet;
use rustix::event::EventfdFlags;

use super::connection::Parcel;
use super::listener::Share;

/// Something for a worker to do.
pub(super) enum Command {
    /// Serve exactly these listeners.
    Listeners(Vec<Share>),
    /// Tell which sessions there are.
    Sessions(Filter, mpsc::Sender<Vec<SessionInfo>>),
    /// Reset sessions and tell how many.
    Kill(Filter, mpsc::Sender<usize>),
    /// Reset sessions accepted on these addresses and tell how many.
    ResetLocal(Vec<IpAddr>, mpsc::Sender<usize>),
    /// Begin a session with a connection that another worker has accepted and counted.
    Accepted(OwnedFd, SocketAddr, Arc<Frontend>),
    /// Begin what is accepted here alone, until sessions are given back.
    KeepAll(mpsc::Sender<()>),
    /// Stop moving and hand out every session.
    Freeze(mpsc::Sender<Vec<Parcel>>),
    /// Go on with these sessions.
    Adopt(Vec<Parcel>),
    /// Accept no more.
    StopAccepting,
    /// End.
    Stop,
}

/// A worker's commands, and the descriptor that wakes it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    commands: Mutex<Vec<Command>>,
    /// Tokens of sessions that wait for a server with room, and may try again.
    called: Mutex<Vec<u64>>,
    /// How many sessions the worker has, about.
    pub(super) sessions: AtomicUsize,
    pub(super) event: OwnedFd,
}

impl Wake for Mailbox {
    fn wake(&self, token: u64) {
        lock(&self.called).push(token);
        self.ring();
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Command")
    }
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            commands: Mutex::default(),
            called: Mutex::default(),
            sessions: AtomicUsize::new(0),
            event: rustix::event::eventfd(0, flags)?,
        })
    }

    /// Makes the worker look at its table, its listeners and its commands.
    pub(super) fn ring(&self) {
        // The one way this fails is a counter so full that the worker is awake already.
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).ok();
    }

    pub(super) fn send(&self, command: Command) {
        lock(&self.commands).push(command);
        self.ring();
    }

    /// Everything that is in it: commands, and tokens that were called.
    pub(super) fn take(&self) -> (Vec<Command>, Vec<u64>) {
        // Emptied first: what comes after rings again.
        rustix::io::read(&self.event, &mut [0; 8]).ok();
        let commands = std::mem::take(&mut *lock(&self.commands));
        let called = std::mem::take(&mut *lock(&self.called));
        (commands, called)
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    // A list is whole after every change of it.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

//--- Sessions

/// Which sessions: those that fit everything that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The number `sessions` shows.
    pub id: Option<u64>,
    /// Accepted by this frontend.
    pub frontend: Option<String>,
    /// Sent to this backend.
    pub backend: Option<String>,
    /// On this server.
    pub server: Option<String>,
    /// From an address in this network.
    pub client: Option<IpNet>,
}

impl Filter {
    /// Fits every session.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Fits none: numbers begin at one.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            id: Some(0),
            ..Self::default()
        }
    }
}

/// One session as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its number, unique in this process.
    pub id: u64,
    /// The frontend that accepted it.
    pub frontend: Arc<str>,
    /// The backend, once it is known.
    pub backend: Option<Arc<str>>,
    /// The server, once there is one.
    pub server: Option<Arc<str>>,
    /// The server's address.
    pub server_address: Option<SocketAddr>,
    /// Where the client comes from, by the PROXY header if there was one.
    pub client: SocketAddr,
    /// Where it connected to.
    pub local: Option<SocketAddr>,
    /// How far it has come.
    pub state: SessionState,
    /// Since it was accepted.
    pub age: Duration,
    /// Bytes from the client that the server has taken.
    pub bytes_in: u64,
    /// Bytes from the server that the client has taken.
    pub bytes_out: u64,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// What the client has sent is looked into.
    Inspecting,
    /// It waits for a server with room.
    Queued,
    /// An attempt to connect is under way.
    Connecting,
    /// Bytes move both ways.
    Relaying,
    /// The client has closed its side.
    ClientClosed,
    /// The server has closed its side.
    ServerClosed,
}

impl SessionState {
    /// The state in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inspecting => "inspecting",
            Self::Queued => "queued",
            Self::Connecting => "connecting",
            Self::Relaying => "relaying",
            Self::ClientClosed => "client-closed",
            Self::ServerClosed => "server-closed",
        }
    }
}
