//! The data path of TCP.
//!
//! One thread per core, each with its own listeners, its own edge-triggered epoll, one scratch buffer
//! and a few pipes. A session lives and dies in one thread, as a plain struct of a few hundred bytes;
//! threads share nothing on the way of the bytes. Changes reach them as a new [`Table`] or as a
//! command in their mailbox.
//!
//! ```text
//!  accept ─► inspect ────────► choose ─────► connect ──────► relay ─────► end
//!            PROXY header,     a server,     the next one    copy or      one record,
//!            ClientHello       or the queue  when refused    splice       one code
//! ```
//!
//! No thread of the data path ever waits for anything but its epoll.

mod choose;
mod command;
mod connection;
mod descriptors;
mod inspect;
mod listener;
mod pipes;
mod pump;
mod session_handover;
mod session_info;
mod worker;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use balance::pool::Server;
use balance::table::Table;
use daemon::clock;
use daemon::latest::Latest;
use daemon::run::Heartbeat;
use parking_lot::Mutex;

use crate::access_log::Log;

pub use descriptors::{DescriptorLimit, raise_descriptor_limit};
pub use listener::{BindOptions, Listener, bind};
pub use session_info::{Filter, SessionInfo, SessionState};

pub(crate) use connection::{Epoch, FrozenSession};
pub(crate) use session_handover::Assembler;

use command::{Command, Mailbox};
use descriptors::Budget;
use listener::Open;

/// How long to wait for a worker's answer: one that does not answer by then has
/// stopped permanently, and the watchdog knows.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How often a drain looks whether the last session has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// The last part of a drain, in which nothing is accepted any more: long enough for most short sessions. A client that comes
/// then waits in a socket of the service manager's for the next process, or is refused where there is none.
const DRAIN_END: Duration = Duration::from_millis(250);

/// A worker's findings about a server that it connected to.
pub trait Report: Send + Sync {
    /// A connection could not be made. Called on the data path: must not wait.
    fn connect_failed(&self, backend: &Arc<str>, server: &Arc<Server>, error: &io::Error);
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReport;

impl Report for NoReport {
    fn connect_failed(&self, _: &Arc<str>, _: &Arc<Server>, _: &io::Error) {}
}

/// How an engine is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads; one per core is right.
    pub workers: usize,
    /// Sessions at a time in all; as many as there are descriptors for, unless given.
    pub max_connections: Option<u64>,
    /// The largest receive buffer of a connection, in bytes.
    pub receive_buffer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, usize::from),
            max_connections: None,
            receive_buffer: usize::MAX,
        }
    }
}

/// The workers' counters; they only go up, but for `sessions` and `pipes`.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions that are open.
    pub sessions: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// How often nothing was accepted for a moment, for want of descriptors or memory.
    pub accept_errors: AtomicU64,
    /// Attempts to connect to a server.
    pub connects: AtomicU64,
    /// Those that failed.
    pub connect_errors: AtomicU64,
    /// Attempts that went to another server than the one before.
    pub redispatches: AtomicU64,
    /// Sessions that waited for a server with room.
    pub queued: AtomicU64,
    /// Sessions ended because their server went down or into maintenance.
    pub reset_on_down: AtomicU64,
    /// Bytes that went through pipes, without passing through this process.
    pub spliced_bytes: AtomicU64,
    /// Times a listener rested because its frontend or the process was full.
    pub full: AtomicU64,
    /// Sessions taken over from a predecessor.
    pub adopted: AtomicU64,
    /// Pipes in use, as each worker has had them at its last wake-up.
    pub pipes: AtomicU64,
}

/// The threads of the data path.
pub struct Engine {
    shared: Arc<Shared>,
    open: Mutex<Vec<Open>>,
    threads: Mutex<Vec<Thread>>,
    n_listeners: AtomicU64,
}

/// The state that all workers see.
pub(crate) struct Shared {
    pub(crate) cell: Arc<Latest<Table>>,
    pub(crate) log: Log,
    pub(crate) report: Arc<dyn Report>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) budget: Budget,
    pub(crate) receive_buffer: usize,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    /// A worker has a listener that rests until a session ends.
    pub(crate) resting: AtomicBool,
    pub(crate) next_id: AtomicU64,
    /// Until when nothing is said of shortages, in ticks.
    pub(crate) warn_at: AtomicU64,
    pub(crate) epoch: Epoch,
}

impl Shared {
    /// A number no other session of this process has.
    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Thread {
    name: String,
    handle: Option<JoinHandle<()>>,
    heartbeat: Heartbeat,
}

impl Engine {
    /// Starts the threads; they accept at once.
    ///
    /// # Errors
    ///
    /// When a thread cannot be made or a listener cannot be watched.
    pub fn start(
        listeners: Vec<Listener>,
        cell: Arc<Latest<Table>>,
        log: Log,
        report: Arc<dyn Report>,
        options: Options,
    ) -> io::Result<Self> {
        let n_workers = options.workers.max(1);
        let budget = Budget::new(options.max_connections, n_workers);
        let mailboxes = (0..n_workers)
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<io::Result<Vec<_>>>()?;
        let shared = Arc::new(Shared {
            cell,
            log,
            report,
            counters: Arc::default(),
            budget,
            receive_buffer: options.receive_buffer,
            mailboxes,
            resting: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            warn_at: AtomicU64::new(0),
            epoch: Epoch::new(),
        });
        // Dropped on an error, it stops the threads it has.
        let engine = Self {
            shared: Arc::clone(&shared),
            open: Mutex::default(),
            threads: Mutex::default(),
            n_listeners: AtomicU64::new(0),
        };
        // A worker that sleeps must not keep an old table.
        for mailbox in &shared.mailboxes {
            let mailbox = Arc::clone(mailbox);
            shared.cell.on_publish(move || mailbox.ring());
        }
        for number in 0..n_workers {
            let name = format!("lb-relay-{number}");
            let heartbeat = Heartbeat::default();
            if let Some(mailbox) = shared.mailboxes.get(number).map(Arc::clone) {
                heartbeat.wake_by(move || mailbox.ring());
            }
            let worker = worker::Worker::new(number, Arc::clone(&shared), Arc::clone(&heartbeat))?;
            let handle = thread::Builder::new()
                .name(name.clone())
                .spawn(move || worker.run())?;
            engine.threads.lock().push(Thread {
                name,
                handle: Some(handle),
                heartbeat,
            });
        }
        engine.add_listeners(listeners)?;
        Ok(engine)
    }

    /// A new table was published: workers take it up now instead of at their next event.
    pub fn notice(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.ring();
        }
    }

    /// The workers' counters.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }

    /// Sessions at a time in all.
    #[must_use]
    pub fn most_sessions(&self) -> u64 {
        self.shared.budget.sessions
    }

    /// Pipes in use in all, where descriptors are not scarce.
    #[must_use]
    pub fn most_pipes(&self) -> u64 {
        let all = self.shared.mailboxes.len().saturating_mul(pipes::MOST);
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Every thread's name and heartbeat, for [`daemon::run::Progress::register_all`].
    #[must_use]
    pub fn heartbeats(&self) -> Vec<(String, Heartbeat)> {
        self.threads
            .lock()
            .iter()
            .map(|thread| (thread.name.clone(), Arc::clone(&thread.heartbeat)))
            .collect()
    }

    //--- Listeners

    /// Accepts on more sockets.
    ///
    /// # Errors
    ///
    /// When an option of a socket cannot be set.
    pub fn add_listeners(&self, listeners: Vec<Listener>) -> io::Result<()> {
        let mut open = self.open.lock();
        for listener in listeners {
            let id = self.n_listeners.fetch_add(1, Ordering::Relaxed);
            open.push(Open::new(id, listener)?);
        }
        self.assign(&open);
        Ok(())
    }

    /// Listens on exactly these addresses of these frontends, in place: a socket that is wanted and there stays
    /// untouched, a missing one is bound first, and one that is not wanted is closed last.
    ///
    /// # Errors
    ///
    /// The first address that cannot be bound; nothing is changed then.
    pub fn set_listeners(
        &self,
        wanted: &[(Arc<str>, SocketAddr)],
        options: BindOptions,
    ) -> Result<(), daemon::listen::ListenError> {
        let mut open = self.open.lock();
        let mut missing = Vec::new();
        for (frontend, address) in wanted {
            if !open.iter().any(|open| open.serves(*address)) {
                let id = self.n_listeners.fetch_add(1, Ordering::Relaxed);
                let listener = bind(frontend, *address, options)?;
                let opened = Open::new(id, listener);
                missing.push(opened.map_err(|error| listener::refused(*address, error))?);
            }
        }
        open.retain_mut(|open| {
            let place = wanted.iter().find(|(_, address)| open.serves(*address));
            if let Some((frontend, _)) = place {
                open.frontend = Arc::clone(frontend);
            }
            place.is_some()
        });
        open.extend(missing);
        self.assign(&open);
        Ok(())
    }

    /// The addresses with their frontends. A socket bound to port 0 is given with the
    /// port it got.
    #[must_use]
    pub fn listening(&self) -> Vec<(Arc<str>, SocketAddr)> {
        self.open
            .lock()
            .iter()
            .map(|open| (Arc::clone(&open.frontend), open.address))
            .collect()
    }

    /// The listening sockets, to share with a successor.
    pub(crate) fn listening_sockets(&self) -> io::Result<Vec<(Arc<str>, SocketAddr, OwnedFd)>> {
        let mut sockets = Vec::new();
        for open in self.open.lock().iter() {
            for socket in &open.sockets {
                let copy = TcpListener::try_clone(socket)?;
                sockets.push((Arc::clone(&open.frontend), open.address, copy.into()));
            }
        }
        Ok(sockets)
    }

    fn assign(&self, open: &[Open]) {
        let n_workers = self.shared.mailboxes.len();
        for (number, mailbox) in self.shared.mailboxes.iter().enumerate() {
            mailbox.send(Command::Listeners(listener::share(open, number, n_workers)));
        }
    }

    //--- Sessions

    /// The sessions a filter fits, in no order. Waits for the workers, some milliseconds at most.
    #[must_use]
    pub fn sessions(&self, filter: &Filter) -> Vec<SessionInfo> {
        let answers = self.ask(|answer| Command::Sessions(filter.clone(), answer));
        answers.into_iter().flatten().collect()
    }

    fn count_older(&self, age: Duration) -> usize {
        let answers = self.ask(|answer| Command::CountOlder(age, answer));
        answers.into_iter().sum()
    }

    /// Resets every session a filter fits; how many there were.
    pub fn kill(&self, filter: &Filter) -> usize {
        let answers = self.ask(|answer| Command::Kill(filter.clone(), answer));
        answers.into_iter().sum()
    }

    /// Resets every session that was accepted on one of these addresses; how many there were. Called
    /// before an address leaves the node, so that clients learn of it while the node can still tell.
    pub fn reset_local(&self, addresses: &[IpAddr]) -> usize {
        let answers = self.ask(|answer| Command::ResetLocal(addresses.to_vec(), answer));
        answers.into_iter().sum()
    }

    fn ask<T>(&self, command: impl Fn(mpsc::Sender<T>) -> Command) -> Vec<T> {
        // A channel for each worker holds one answer, and its sender dies with the command.
        let answers: Vec<_> = self
            .shared
            .mailboxes
            .iter()
            .map(|mailbox| {
                let (sender, receiver) = mpsc::channel();
                mailbox.send(command(sender));
                receiver
            })
            .collect();
        answers
            .into_iter()
            .filter_map(|receiver| receiver.recv_timeout(ANSWER_LIMIT).ok())
            .collect()
    }

    //--- Handover

    /// Stops every worker in its tracks and takes its sessions out. Nothing is accepted, read or
    /// written until [`Engine::adopt`] gives sessions back, if only an empty list.
    ///
    /// # Errors
    ///
    /// When a worker does not answer; then all continue.
    pub(crate) fn freeze(&self) -> io::Result<Vec<FrozenSession>> {
        // Sessions that one gives to another are on their way in the other's mailbox then, before the next command.
        let n_workers = self.shared.mailboxes.len();
        let mut parcels = Vec::new();
        if self.ask(Command::KeepAll).len() == n_workers {
            let answers = self.ask(Command::Freeze);
            let is_whole = answers.len() == n_workers;
            parcels = answers.into_iter().flatten().collect();
            if is_whole {
                return Ok(parcels);
            }
        }
        self.adopt(parcels);
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Spreads sessions over the workers, which continue them.
    pub(crate) fn adopt(&self, parcels: Vec<FrozenSession>) {
        let n_workers = self.shared.mailboxes.len();
        let mut shares: Vec<Vec<FrozenSession>> = (0..n_workers).map(|_| Vec::new()).collect();
        for (number, parcel) in parcels.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(number % n_workers) {
                share.push(parcel);
            }
        }
        for (mailbox, share) in self.shared.mailboxes.iter().zip(shares) {
            mailbox.send(Command::Adopt(share));
        }
    }

    /// Takes sessions over from another process.
    pub(crate) fn take_over(&self, parcels: Vec<FrozenSession>) {
        let counters = &self.shared.counters;
        let n_parcels = parcels.len() as u64;
        counters.adopted.fetch_add(n_parcels, Ordering::Relaxed);
        counters.sessions.fetch_add(n_parcels, Ordering::Relaxed);
        for FrozenSession(session) in &parcels {
            let tally = &session.frontend.tally;
            tally.sessions.fetch_add(1, Ordering::Relaxed);
            tally.note_most();
        }
        self.adopt(parcels);
    }

    /// Makes sessions of another process's words.
    pub(crate) fn assembler(&self) -> Assembler {
        Assembler::new(Arc::clone(&self.shared))
    }

    /// The clocks' readings when the engine began.
    pub(crate) fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    //--- End

    /// Accepts no more: connections in the backlog of an own socket are taken first, and those of a shared one are
    /// left to the process that shares it.
    pub fn stop_accepting(&self) {
        self.open.lock().clear();
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Command::StopAccepting);
        }
    }

    /// Waits for the sessions to end, and accepts no more at last; true when they all did within `limit`. Blocks.
    ///
    /// New clients are served while the sessions of before end. A process that is restarted has no successor before it
    /// has ended, so no other one would serve them meanwhile.
    pub fn drain(&self, limit: Duration) -> bool {
        let begun = clock::now();
        let deadline = begun.checked_add(limit);
        let serving = limit.saturating_sub(DRAIN_END);
        while begun.elapsed() < serving && self.count_older(begun.elapsed()) > 0 {
            thread::sleep(DRAIN_LOOK);
        }
        self.stop_accepting();
        // An answer from each worker means that it has emptied its backlog.
        self.ask(|answer| Command::Sessions(Filter::nothing(), answer));
        while self.shared.counters.sessions.load(Ordering::Relaxed) > 0 {
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return false;
            }
            thread::sleep(DRAIN_LOOK);
        }
        true
    }

    /// Asks the threads to end their sessions and themselves, without waiting for them.
    pub fn ask_to_stop(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Command::Stop);
        }
    }

    /// Ends every session with a reset, and the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.ask_to_stop();
        for thread in self.threads.lock().iter_mut() {
            if thread
                .handle
                .take()
                .is_some_and(|handle| handle.join().is_err())
            {
                tracing::error!(
                    thread = thread.name,
                    "A thread of the data path has panicked"
                );
            }
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("workers", &self.shared.mailboxes.len())
            .field("counters", &self.shared.counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
