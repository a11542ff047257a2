//! Commands to a worker from outside, and its wake-up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use balance::queue::Wake;
use balance::table::Frontend;
use parking_lot::Mutex;
use rustix::event::EventfdFlags;

use super::connection::FrozenSession;
use super::listener::Share;
use super::session_info::{Filter, SessionInfo};

/// Something for a worker to do.
pub(super) enum Command {
    /// Serve exactly these listeners.
    Listeners(Vec<Share>),
    /// Tell which sessions there are.
    Sessions(Filter, mpsc::Sender<Vec<SessionInfo>>),
    /// Tell how many sessions have lasted longer than this.
    CountOlder(Duration, mpsc::Sender<usize>),
    /// Reset sessions and tell how many.
    Kill(Filter, mpsc::Sender<usize>),
    /// Reset sessions accepted on these addresses and tell how many.
    ResetLocal(Vec<IpAddr>, mpsc::Sender<usize>),
    /// Begin a session with a connection that another worker has accepted and counted.
    Accepted(OwnedFd, SocketAddr, Arc<Frontend>),
    /// Begin what is accepted here alone, until sessions are given back.
    KeepAll(mpsc::Sender<()>),
    /// Stop moving and hand out every session.
    Freeze(mpsc::Sender<Vec<FrozenSession>>),
    /// Continue these sessions.
    Adopt(Vec<FrozenSession>),
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
        self.called.lock().push(token);
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
        self.commands.lock().push(command);
        self.ring();
    }

    /// Everything that is in it: commands, and tokens that were called.
    pub(super) fn take(&self) -> (Vec<Command>, Vec<u64>) {
        // Emptied first: commands that come after ring again.
        rustix::io::read(&self.event, &mut [0; 8]).ok();
        let commands = std::mem::take(&mut *self.commands.lock());
        let called = std::mem::take(&mut *self.called.lock());
        (commands, called)
    }
}
