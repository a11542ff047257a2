//! One thread of the data path: waits for events, and does what they allow.

mod accept;
mod commands;
mod deliver;
mod end;

pub(super) use accept::{REST, is_shortage};

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::table::{Frontend, SideOptions, Table};
use daemon::clock;
use daemon::latest::Reader;
use daemon::run::Heartbeat;
use l4_core::gather::FETCH_DELAY;
use l4_core::slab::{Slab, Token};
use l4_core::timers::{TICK, Wheel, ticks};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::command::Mailbox;
use super::connection::{Micros, Session, Stage};
use super::pump::{Readiness, Tools};
use super::{Counters, Shared};

/// The longest sleep of a worker with sessions.
const SLEEP: Duration = Duration::from_millis(250);

/// How often queues are looked at for room that appears by itself: a server in its slow start.
const STIR: Duration = Duration::from_millis(100);

/// Events taken with one call.
const EVENTS: usize = 512;

/// How long one fill may stay in a pipe before it goes to memory. A flow that takes longer for it gains little by
/// the pipe.
const SLOW_PIPE: Duration = Duration::from_millis(250);

/// A session as old as this gets the options that only matter to long ones: short ones, which are most,
/// are spared the calls.
const GROWN_UP: Duration = Duration::from_secs(1);

/// How long a worker that was asked to stop waits for the bytes of its sessions to arrive.
const LAST_DELIVERY: Duration = Duration::from_secs(1);

/// The events watched on both ends of every session.
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
    /// Places of listeners that have connections: taken once those that are here had their turn.
    knocked: Vec<usize>,
    pub(super) sessions: Slab<Session>,
    pub(super) wheel: Wheel,
    pub(super) tools: Tools,
    /// Sessions that have more to move, and let others come first.
    pub(super) again: Vec<Token>,
    /// Sessions of which the kernel does not report everything, and when they are looked at at the
    /// earliest; each once.
    gathering: VecDeque<(Token, Micros)>,
    /// Sessions that hold a pipe, the fills of both ways, and when those were slow; each session once.
    piped: VecDeque<(Token, [Option<u8>; 2], Micros)>,
    /// Pipes in use, as the counters have them.
    told_pipes: u64,
    /// Sessions whose sockets get their options once they are old enough.
    young: VecDeque<(Token, u64)>,
    /// Sessions in a row that have ended before they were old.
    brief: u32,
    /// How many wait for a server with room.
    pub(super) n_queued: usize,
    /// When queues are looked at again, for room that appears without a session ending.
    stir_at: u64,
    pub(super) now: Micros,
    random: u64,
    life: Life,
    /// When it stops, whatever is not delivered by then.
    stop_at: u64,
    /// Others are about to be frozen: sessions given to them now may be lost.
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
        let tools = Tools::new(shared.receive_buffer);
        let table = Reader::new(Arc::clone(&shared.cell));
        let now = shared.epoch.micros(clock::now());
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
            knocked: Vec::new(),
            sessions: Slab::new(),
            wheel: Wheel::new(),
            tools,
            again: Vec::new(),
            gathering: VecDeque::new(),
            piped: VecDeque::new(),
            told_pipes: 0,
            young: VecDeque::new(),
            brief: 0,
            n_queued: 0,
            stir_at: 0,
            now,
            random: u64::from_ne_bytes(seed) | 1,
            life: Life::Serving,
            stop_at: 0,
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

    /// A number that no client can foresee enough to matter (xorshift64).
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
        while !self.is_done() {
            self.heartbeat.beat();
            let timeout = self.timeout();
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            );
            if let Err(error) = waited
                && error != Errno::INTR
            {
                tracing::error!(worker = self.number, %error, "Waiting for events fails");
                std::thread::sleep(SLEEP);
            }
            self.now = self.shared.epoch.micros(clock::now());
            self.look_at_table();
            for event in events.drain(..) {
                self.on_event(event.data.u64(), event.flags);
            }
            self.accept_knocked();
            self.move_on();
            self.wheel.advance(self.now.tick(), &mut due);
            for index in due.drain(..) {
                self.on_deadline(index);
            }
            self.look_below_marks();
            self.empty_slow_pipes();
            self.budget_pipes();
            self.raise_young();
            self.wake_listeners();
            self.stir_now_and_then();
            self.count_spliced();
            let n_sessions = self.sessions.len();
            self.mailbox.sessions.store(n_sessions, Ordering::Relaxed);
        }
        self.end_all();
    }

    /// True when it was asked to stop, and has delivered what it could.
    fn is_done(&self) -> bool {
        let is_over = || self.sessions.is_empty() || self.now.tick() >= self.stop_at;
        self.life == Life::Stopping && is_over()
    }

    /// True when no timer is pending, so that only events need the worker.
    fn is_still(&self) -> bool {
        let is_watched = |listening: &Listening| listening.state == Watch::Watched;
        self.sessions.is_empty()
            && self.again.is_empty()
            && self.gathering.is_empty()
            && self.young.is_empty()
            && self.n_queued == 0
            && self.listeners.iter().flatten().all(is_watched)
    }

    /// The timeout of a wait for events; `None` waits forever.
    fn timeout(&self) -> Option<Timespec> {
        if self.is_still() {
            return None;
        }
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
        let mut sleep = sleep.min(most);
        let gathered = self.gathering.front().map(|(_, due)| due);
        let piped = self.piped.front().map(|(_, _, due)| due);
        for due in gathered.into_iter().chain(piped) {
            sleep = sleep.min(due.since(self.now));
        }
        Some(Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(sleep.subsec_nanos()),
        })
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let token = Token::from_bits(data);
        if token.generation == 0 {
            if data == MAILBOX {
                self.obey();
            } else {
                let place = usize::try_from(data - 1).unwrap_or(usize::MAX);
                self.knocked.push(place);
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
            _ if session.client.signs.has(Readiness::FAILED) => self.client_gone(index),
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

    /// Fetches what has waited below a mark for [`FETCH_DELAY`], and less than twice that. Each direction
    /// waits for itself: the other one may never be quiet.
    fn look_below_marks(&mut self) {
        while let Some((token, due)) = self.gathering.front().copied() {
            if due > self.now {
                break;
            }
            self.gathering.pop_front();
            if !self.sessions.is_current(token) {
                continue;
            }
            let Some(session) = self.sessions.get_mut(token.index) else {
                continue;
            };
            session.is_listed = false;
            let is_late = session.moved_at.map(|at| self.now.since(at) >= FETCH_DELAY);
            if let Some(server) = &mut session.server {
                let [up, down] = is_late;
                if up {
                    session.up.wait_no_longer(&mut session.client);
                }
                if down {
                    session.down.wait_no_longer(server);
                }
            }
            // Bytes only ever move the moment away: the look at that moment detects it.
            if session.is_gathering() {
                self.gather(token);
            }
            if is_late.contains(&true) {
                self.step(token.index);
            }
        }
    }

    /// Makes sure that the worker looks at a session even if the kernel reports nothing of it.
    pub(super) fn gather(&mut self, token: Token) {
        if let Some(session) = self.sessions.get_mut(token.index)
            && !session.is_listed
        {
            session.is_listed = true;
            self.gathering
                .push_back((token, self.now.after(FETCH_DELAY)));
        }
    }

    /// Makes sure that a session does not keep a pipe from others while its reader is slow.
    pub(super) fn watch_pipes(&mut self, index: u32) {
        let due = self.now.after(SLOW_PIPE);
        if let Some(token) = self.sessions.token(index)
            && let Some(session) = self.sessions.get_mut(index)
            && !session.holds_pipe
            && session.fills() != [None; 2]
        {
            session.holds_pipe = true;
            self.piped.push_back((token, session.fills(), due));
        }
    }

    /// Empties pipes that are still not empty: their bytes go to memory.
    fn empty_slow_pipes(&mut self) {
        while let Some((token, before, due)) = self.piped.front().copied() {
            if due > self.now {
                break;
            }
            self.piped.pop_front();
            if !self.sessions.is_current(token) {
                continue;
            }
            let Some(session) = self.sessions.get_mut(token.index) else {
                continue;
            };
            session.holds_pipe = false;
            let [up, down] = session.fills();
            let [up_before, down_before] = before;
            let pipes = &mut self.tools.pipes;
            if up.is_some() && up == up_before {
                session.up.unload(&session.client, pipes);
            }
            if down.is_some()
                && down == down_before
                && let Some(server) = &session.server
            {
                session.down.unload(server, pipes);
            }
            self.watch_pipes(token.index);
        }
    }

    /// Leaves descriptors to sessions, which need them more than pipes do.
    fn budget_pipes(&mut self) {
        let sessions = self.counters().sessions.load(Ordering::Relaxed);
        let most = self.shared.budget.pipes(sessions);
        self.tools.pipes.set_most(most);
        let taken = u64::try_from(self.tools.pipes.n_taken()).unwrap_or(u64::MAX);
        let told = std::mem::replace(&mut self.told_pipes, taken);
        if taken != told {
            // It wraps where there are fewer now.
            let more = taken.wrapping_sub(told);
            self.counters().pipes.fetch_add(more, Ordering::Relaxed);
        }
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
        Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "Options of a socket stay as they are");
    }
}
