//! One thread of the data path: waits for events, and does what they allow.

mod commands;
mod end;

pub(super) use end::Ending;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use daemon_base::run::Heartbeat;
use daemon_base::snapshot::Reader;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::time::Timespec;

use super::command::{Command, Mailbox};
use super::connection::{Micros, Session, Stage, canonical, reset_on_close};
use super::pump::{Side, Signs, Tools};
use super::slab::{Slab, Token};
use super::timers::{TICK, Wheel, ticks};
use super::{Counters, Shared};
use crate::table::{AcceptProxy, Frontend, SideOptions, Table};

/// How long a worker sleeps at most, so that its heartbeat shows it is alive.
const SLEEP: Duration = Duration::from_millis(250);

/// How often queues are looked at for room that appears by itself: a server in its slow start.
const STIR: Duration = Duration::from_millis(100);

/// Events taken with one call.
const EVENTS: usize = 512;

/// Connections accepted from one listener before others have their turn.
const ACCEPTS: usize = 64;

/// A listener rests this long when there is no descriptor or memory for what it would accept.
pub(super) const REST: Duration = Duration::from_millis(100);

/// How often a shortage is logged at most.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A session as old as this gets the options that only matter to long ones: short ones, which are most,
/// are spared the calls.
const GROWN_UP: Duration = Duration::from_secs(1);

/// What is watched on both ends of every session.
const WATCHED: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::PRI)
    .union(EventFlags::ET);

/// Events of generation zero are about the worker itself: its mailbox, and its listeners after it.
const MAILBOX: u64 = 0;

/// A worker and all it owns.
pub(super) struct Worker {
    number: usize,
    pub(super) shared: Arc<Shared>,
    heartbeat: Heartbeat,
    pub(super) mailbox: Arc<Mailbox>,
    epoll: OwnedFd,
    pub(super) table: Reader<Table>,
    listeners: Vec<Option<Listening>>,
    pub(super) sessions: Slab<Session>,
    pub(super) wheel: Wheel,
    pub(super) tools: Tools,
    /// Sessions that have more to move, and let others come first.
    pub(super) again: Vec<Token>,
    /// Sessions whose sockets get their options once they are old enough.
    young: VecDeque<(Token, u64)>,
    /// How many wait for a server with room.
    pub(super) n_queued: usize,
    /// When queues are looked at again, for room that appears without a session ending.
    stir_at: u64,
    pub(super) now: Micros,
    random: u64,
    life: Life,
    /// Others are about to be frozen: what is given to them now may be lost.
    keeps_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Serving,
    /// Every session was taken out: nothing happens until some are given back.
    Frozen,
    Stopping,
}

/// A listening socket as this worker serves it.
struct Listening {
    id: (u64, usize),
    name: Arc<str>,
    /// None while the table has no such frontend: then nothing is accepted.
    frontend: Option<Arc<Frontend>>,
    socket: Arc<TcpListener>,
    shared: bool,
    state: Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// In the epoll.
    Watched,
    /// Out of it until that tick.
    Resting { until: u64 },
    /// Out of it until a session ends.
    Full,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        shared: Arc<Shared>,
        heartbeat: Heartbeat,
    ) -> io::Result<Self> {
        let mailbox = shared
            .mailboxes
            .get(number)
            .map(Arc::clone)
            .ok_or(io::ErrorKind::NotFound)?;
        let table = Reader::new(Arc::clone(&shared.cell));
        let now = shared.epoch.micros(super::now());
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let mut worker = Self {
            number,
            shared,
            heartbeat,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            mailbox,
            table,
            listeners: Vec::new(),
            sessions: Slab::new(),
            wheel: Wheel::new(),
            tools: Tools::new(),
            again: Vec::new(),
            young: VecDeque::new(),
            n_queued: 0,
            stir_at: 0,
            now,
            random: u64::from_ne_bytes(seed) | 1,
            life: Life::Serving,
            keeps_all: false,
        };
        worker.new_epoll()?;
        Ok(worker)
    }

    /// An epoll that knows the mailbox alone.
    fn new_epoll(&mut self) -> io::Result<()> {
        self.epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(MAILBOX);
        epoll::add(&self.epoll, &self.mailbox.event, data, EventFlags::IN)?;
        Ok(())
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// A number nobody can foresee enough to matter (xorshift64).
    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    //--- Loop

    /// Serves until asked to stop.
    pub(super) fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut due = Vec::new();
        while self.life != Life::Stopping {
            self.heartbeat.fetch_add(1, Ordering::Relaxed);
            let timeout = self.timeout();
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            );
            if let Err(error) = waited
                && error != Errno::INTR
            {
                tracing::error!(worker = self.number, %error, "Waiting for events fails");
                std::thread::sleep(SLEEP);
            }
            self.now = self.shared.epoch.micros(super::now());
            self.look_at_table();
            for event in events.drain(..) {
                self.on_event(event.data.u64(), event.flags);
            }
            self.move_on();
            self.wheel.advance(self.now.tick(), &mut due);
            for index in due.drain(..) {
                self.on_deadline(index);
            }
            self.raise_young();
            self.wake_listeners();
            self.stir_now_and_then();
            self.count_spliced();
            let n_sessions = self.sessions.len();
            self.mailbox.sessions.store(n_sessions, Ordering::Relaxed);
        }
        self.end_all();
    }

    fn timeout(&self) -> Timespec {
        let sleep = if self.again.is_empty() {
            let ahead = ticks(SLEEP);
            self.wheel.next(ahead).map_or(SLEEP, |tick| {
                // To the end of that tick, counted from its beginning: never early.
                let away = tick.saturating_sub(self.now.tick());
                TICK * u32::try_from(away).unwrap_or(u32::MAX)
            })
        } else {
            Duration::ZERO
        };
        let most = if self.n_queued > 0 { STIR } else { SLEEP };
        let sleep = sleep.min(most);
        Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(sleep.subsec_nanos()),
        }
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let token = Token::from_bits(data);
        if token.generation == 0 {
            if data == MAILBOX {
                self.obey();
            } else {
                let place = usize::try_from(data - 1).unwrap_or(usize::MAX);
                self.accept(place);
            }
            return;
        }
        if !self.sessions.is_current(token) {
            return;
        }
        let Some(session) = self.sessions.get_mut(token.index) else {
            return;
        };
        if data & SERVER == 0 {
            session.client.signs.note(flags);
        } else if let Some(server) = &mut session.server {
            server.signs.note(flags);
        }
        self.step(token.index);
    }

    /// Does what a session's signs allow.
    pub(super) fn step(&mut self, index: u32) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        match session.stage {
            Stage::Relaying => self.relay(index),
            Stage::Inspecting => self.inspect(index),
            // A client that has closed only its sending side still waits for an answer.
            _ if session.client.signs.has(Signs::FAILED) => self.client_gone(index),
            Stage::Connecting => self.look_at_attempt(index),
            Stage::Queued | Stage::Pausing => {}
        }
    }

    fn move_on(&mut self) {
        for token in std::mem::take(&mut self.again) {
            if self.sessions.is_current(token) {
                self.step(token.index);
            }
        }
    }

    fn count_spliced(&mut self) {
        let bytes = std::mem::take(&mut self.tools.spliced);
        if bytes > 0 {
            self.counters()
                .spliced_bytes
                .fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn stir_now_and_then(&mut self) {
        let now = self.now.tick();
        if self.n_queued > 0 && now >= self.stir_at {
            self.stir_at = now.saturating_add(ticks(STIR));
            self.stir_queues();
        }
    }

    pub(super) fn indices(&self) -> Vec<u32> {
        self.sessions.iter().map(|(index, _)| index).collect()
    }

    fn raise_young(&mut self) {
        let now = self.now.tick();
        while let Some((token, due)) = self.young.front().copied() {
            if due > now {
                break;
            }
            self.young.pop_front();
            if self.sessions.is_current(token)
                && let Some(session) = self.sessions.get(token.index)
            {
                raise(session);
            }
        }
    }

    pub(super) fn grow(&mut self, token: Token) {
        let due = self.now.tick().saturating_add(ticks(GROWN_UP));
        self.young.push_back((token, due));
    }

    //--- Watching

    pub(super) fn watch_client(&self, token: Token, socket: impl AsFd) -> rustix::io::Result<()> {
        let data = EventData::new_u64(token.to_bits());
        epoll::add(&self.epoll, socket, data, WATCHED)
    }

    pub(super) fn watch_server(&self, token: Token, socket: impl AsFd) -> rustix::io::Result<()> {
        let data = EventData::new_u64(token.to_bits() | SERVER);
        epoll::add(&self.epoll, socket, data, WATCHED)
    }

    pub(super) fn arm(&mut self, index: u32, after: Duration) {
        let due = self.now.tick().saturating_add(ticks(after));
        // One more, for the part of this tick that has passed.
        self.wheel.arm(index, due.saturating_add(1));
    }

    //--- Accepting

    /// Takes connections from a listener; true when it may have more at once.
    fn accept(&mut self, place: usize) -> bool {
        if self.life != Life::Serving {
            // The worker was frozen by an event that came together with this one: what is accepted now
            // would belong to nobody. Whoever serves the socket next finds it there.
            return false;
        }
        for _ in 0..ACCEPTS {
            let Some(Some(listening)) = self.listeners.get(place) else {
                return false;
            };
            let Some(frontend) = listening.frontend.clone() else {
                self.rest(place, Watch::Full);
                return false;
            };
            if !self.reserve(&frontend) {
                self.rest(place, Watch::Full);
                return false;
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let accepted = rustix::net::acceptfrom_with(&*listening.socket, flags);
            match accepted {
                Ok((socket, peer)) => {
                    self.counters().accepted.fetch_add(1, Ordering::Relaxed);
                    frontend.tally.total.fetch_add(1, Ordering::Relaxed);
                    match peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
                        Some(peer) => self.begin_somewhere(socket, canonical(peer), frontend),
                        None => self.release(&frontend),
                    }
                    continue;
                }
                Err(_) => self.release(&frontend),
            }
            match accepted {
                Err(Errno::AGAIN) => return false,
                Err(error) if is_shortage(error) => {
                    self.rest_all(REST);
                    return false;
                }
                // The listener itself is of no use, as when somebody it is shared with has shut it down.
                Err(Errno::INVAL | Errno::BADF | Errno::NOTSOCK | Errno::OPNOTSUPP) => {
                    let until = self.now.tick().saturating_add(ticks(REST));
                    self.rest(place, Watch::Resting { until });
                    return false;
                }
                // The connection was gone before it was accepted; the next one may not be.
                _ => {}
            }
        }
        true
    }

    /// Takes every connection a listener has.
    fn accept_all(&mut self, place: usize) {
        // As often as a full backlog of the largest size needs.
        for _ in 0..=(u16::MAX as usize / ACCEPTS) {
            if !self.accept(place) {
                return;
            }
        }
    }

    /// True when neither the frontend nor the process takes another session.
    fn is_full(&self, frontend: &Frontend) -> bool {
        let sessions = self.counters().sessions.load(Ordering::Relaxed);
        sessions >= self.shared.most_sessions
            || frontend.max_connections.is_some_and(|most| {
                frontend.tally.sessions.load(Ordering::Relaxed) >= u64::from(most)
            })
    }

    /// Counts a session in before it is there, so that workers cannot go beyond a bound together.
    fn reserve(&self, frontend: &Frontend) -> bool {
        let all = &self.counters().sessions;
        let of_frontend = &frontend.tally.sessions;
        if all.fetch_add(1, Ordering::Relaxed) >= self.shared.most_sessions {
            all.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let before = of_frontend.fetch_add(1, Ordering::Relaxed);
        if frontend
            .max_connections
            .is_some_and(|most| before >= u64::from(most))
        {
            of_frontend.fetch_sub(1, Ordering::Relaxed);
            all.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Counts a session out, and wakes whoever rests for want of room.
    pub(super) fn release(&self, frontend: &Frontend) {
        frontend.tally.sessions.fetch_sub(1, Ordering::Relaxed);
        self.counters().sessions.fetch_sub(1, Ordering::Relaxed);
        if self.shared.resting.load(Ordering::Acquire)
            && self.shared.resting.swap(false, Ordering::AcqRel)
        {
            for mailbox in &self.shared.mailboxes {
                mailbox.ring();
            }
        }
    }

    /// Begins a session here, or with the worker that has the fewest when that are far fewer: who is
    /// woken first for a shared socket would have all that last.
    fn begin_somewhere(&mut self, socket: OwnedFd, peer: SocketAddr, frontend: Arc<Frontend>) {
        let own = self.sessions.len();
        let sessions = |mailbox: &Arc<Mailbox>| mailbox.sessions.load(Ordering::Relaxed);
        let idlest = self.shared.mailboxes.iter().min_by_key(|it| sessions(it));
        let target = idlest.filter(|it| !self.keeps_all && is_far_below(sessions(it), own));
        match target {
            Some(mailbox) => {
                // Counted at once, or a burst would all go there.
                mailbox.sessions.fetch_add(1, Ordering::Relaxed);
                mailbox.send(Command::Accepted(socket, peer, frontend));
            }
            None => self.begin(socket, peer, frontend),
        }
    }

    fn begin(&mut self, socket: OwnedFd, peer: SocketAddr, frontend: Arc<Frontend>) {
        if frontend.accept_proxy == AcceptProxy::No && !frontend.sources.admit(peer.ip()) {
            frontend.tally.denied.fetch_add(1, Ordering::Relaxed);
            self.release(&frontend);
            return reset_on_close(&socket);
        }
        let mut admission = None;
        if frontend.accept_proxy == AcceptProxy::No
            && let Some(limits) = &frontend.limits
        {
            match limits.admit(peer.ip(), super::now()) {
                Ok(admitted) => admission = Some(admitted),
                Err(_) => {
                    frontend.tally.limited.fetch_add(1, Ordering::Relaxed);
                    self.release(&frontend);
                    return reset_on_close(&socket);
                }
            }
        }
        let id = self.shared.new_id();
        frontend.tally.note_most();
        // Nothing was sent yet, so there is room.
        let client = Side::new(socket, Signs::WRITABLE);
        let looked_into =
            frontend.accept_proxy != AcceptProxy::No || !frontend.route.names.is_empty();
        let wait = frontend.route.inspect_timeout;
        let mut session = Session::new(id, client, peer, frontend, self.now);
        session.admission = admission;
        let token = self.sessions.insert(session);
        if let Some(session) = self.sessions.get(token.index)
            && let Err(error) = self.watch_client(token, &session.client.socket)
        {
            return self.out_of_resources(token.index, error);
        }
        if looked_into {
            self.arm(token.index, wait);
        } else {
            self.route(token.index, None);
        }
    }

    //--- Listeners

    /// Takes a listener out of the epoll for a while.
    fn rest(&mut self, place: usize, state: Watch) {
        let Some(Some(listening)) = self.listeners.get_mut(place) else {
            return;
        };
        if let (Watch::Resting { until }, Watch::Resting { until: later }) =
            (&mut listening.state, state)
        {
            *until = later.max(*until);
        }
        if listening.state != Watch::Watched {
            return;
        }
        listening.state = state;
        epoll::delete(&self.epoll, &*listening.socket).ok();
        if state == Watch::Full {
            self.counters().full.fetch_add(1, Ordering::Relaxed);
            self.shared.resting.store(true, Ordering::Release);
        } else {
            let name = Arc::clone(&listening.name);
            if self.may_warn() {
                tracing::warn!(
                    frontend = &*name,
                    "Connections cannot be accepted for want of descriptors or memory; clients wait"
                );
            }
        }
    }

    /// There is no descriptor or memory for another session: all listeners rest. What one of them
    /// accepts would only be turned away, and may as well wait for its turn.
    pub(super) fn rest_all(&mut self, time: Duration) {
        self.counters()
            .accept_errors
            .fetch_add(1, Ordering::Relaxed);
        let until = self.now.tick().saturating_add(ticks(time));
        for place in 0..self.listeners.len() {
            self.rest(place, Watch::Resting { until });
        }
    }

    /// True when nothing was said of a shortage for a while: it would be said for every connection.
    pub(super) fn may_warn(&self) -> bool {
        let now = self.now.tick();
        let warn_at = self.shared.warn_at.load(Ordering::Relaxed);
        if now < warn_at {
            return false;
        }
        let next = now.saturating_add(ticks(WARN_EVERY));
        // Another worker may say it at this moment.
        self.shared
            .warn_at
            .compare_exchange(warn_at, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Serves listeners again that have rested long enough.
    fn wake_listeners(&mut self) {
        if self.life != Life::Serving {
            return;
        }
        let now = self.now.tick();
        for place in 0..self.listeners.len() {
            let Some(Some(listening)) = self.listeners.get(place) else {
                continue;
            };
            let ready = match listening.state {
                Watch::Watched => false,
                Watch::Resting { until } => now >= until,
                Watch::Full => listening
                    .frontend
                    .as_ref()
                    .is_some_and(|frontend| !self.is_full(frontend)),
            };
            if ready {
                self.watch_listener(place);
            } else if listening.state == Watch::Full {
                self.shared.resting.store(true, Ordering::Release);
            }
        }
    }

    fn watch_listener(&mut self, place: usize) {
        let Some(Some(listening)) = self.listeners.get_mut(place) else {
            return;
        };
        let mut flags = EventFlags::IN;
        if listening.shared {
            // One of the workers is woken for a connection, not all.
            flags |= EventFlags::EXCLUSIVE;
        }
        let data = EventData::new_u64(place as u64 + 1);
        match epoll::add(&self.epoll, &*listening.socket, data, flags) {
            Ok(()) | Err(Errno::EXIST) => listening.state = Watch::Watched,
            Err(error) => {
                let until = self.now.tick().saturating_add(ticks(REST));
                listening.state = Watch::Resting { until };
                tracing::warn!(frontend = &*listening.name, %error, "Listener cannot be watched");
            }
        }
    }
}

/// True when a worker with `theirs` sessions should rather have the next than one with `own`: it costs a
/// wake-up, which a difference by chance is not worth.
fn is_far_below(theirs: usize, own: usize) -> bool {
    own >= theirs + 4 + theirs / 4
}

/// True when a call failed for want of descriptors or memory, of which there may be more in a moment.
pub(super) fn is_shortage(error: Errno) -> bool {
    matches!(
        error,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
    )
}

/// The bit of an event's data that says which side it is about.
const SERVER: u64 = 1;

/// Sets what only matters to sessions that last.
fn raise(session: &Session) {
    set_options(&session.client.socket, session.frontend.client);
    if let (Some(server), Some(backend)) = (&session.server, &session.backend) {
        set_options(&server.socket, backend.policy.server);
    }
}

fn set_options(socket: &OwnedFd, options: SideOptions) {
    use rustix::net::sockopt;
    let set = || -> rustix::io::Result<()> {
        if let Some(keepalive) = options.keepalive {
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, keepalive.idle)?;
            sockopt::set_tcp_keepintvl(socket, keepalive.interval)?;
            sockopt::set_tcp_keepcnt(socket, keepalive.count)?;
        }
        if let Some(timeout) = options.user_timeout {
            let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(socket, millis)?;
        }
        Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "Options of a socket stay as they are");
    }
}
