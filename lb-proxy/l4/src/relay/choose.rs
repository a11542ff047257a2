//! Finds a server for a session: by route, by choice, in the queue, and the next one when one refuses.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::pool::{Choice, Failure, Hint, Server, Slot, Tried, Wait};
use balance::queue::Wake;
use balance::table::{Backend, Policy, SendProxy};
use daemon::clock;
use l4_core::access_log::Cause;
use l4_core::client_hello::Hello;
use l4_core::proxy_protocol::{Header, Version, write_v1, write_v2};
use l4_core::slab::Token;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::connection::{Session, Stage};
use super::pump::{Readiness, Side};
use super::worker::{REST, Worker, is_shortage};

/// Between two attempts at the same server: with no other server to go to, one that is being restarted is
/// given this long.
const TURNAROUND: Duration = Duration::from_secs(1);

/// The most servers that are tried when each refuses at once.
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const EVERYBODY: u8 = Tried::CAPACITY as u8;

/// A server and its part of the load.
struct Chosen {
    server: Arc<Server>,
    slot: Slot,
}

/// How an attempt to connect began.
enum Attempt {
    /// The kernel will report on it.
    UnderWay,
    /// Another server may do better.
    Failed,
    /// The session is over.
    Over,
}

impl Worker {
    /// Sends a session to the backend of its route.
    pub(super) fn route(&mut self, index: u32, hello: Hello) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        // Indices are those of the newest table, and so must the route be.
        let table = self.table.get();
        let frontend = table
            .frontends
            .iter()
            .find(|frontend| Arc::ptr_eq(frontend, &session.frontend))
            .or_else(|| table.frontend(&session.frontend.name));
        let backend = frontend.and_then(|frontend| {
            let routes = &frontend.route.routes;
            let by_hello = routes.find(hello.name.as_deref(), &hello.protocols);
            table.backends.get(by_hello.or(frontend.route.default)?)
        });
        if let Some(name) = hello.name {
            session.named().server_name = Some(name.into_boxed_str());
        }
        let Some(backend) = backend else {
            let tally = &session.frontend.tally;
            tally.rejected.fetch_add(1, Ordering::Relaxed);
            return self.end(index, Cause::Proxy);
        };
        session.backend = Some(Arc::clone(backend));
        self.choose(index);
    }

    /// Chooses a server and begins to connect; or waits, or gives up.
    pub(super) fn choose(&mut self, index: u32) {
        loop {
            let Some(chosen) = self.pick(index) else {
                return;
            };
            match self.connect(index, chosen) {
                Attempt::Failed => {}
                Attempt::UnderWay | Attempt::Over => return,
            }
        }
    }

    /// The server to connect to; none when the session waits, or has ended.
    fn pick(&mut self, index: u32) -> Option<Chosen> {
        let random = self.random();
        let now = clock::now();
        let token = self.sessions.token(index)?;
        let session = self.sessions.get_mut(index)?;
        let backend = Arc::clone(session.backend.as_ref()?);
        let pool = &backend.pool;
        let hint = Hint {
            source: session.source().ip(),
            random,
        };
        let none_tried = Tried::default();
        let early = session.early.as_deref_mut();
        let choice = match early {
            Some(early) => match &mut early.ticket {
                Some(ticket) => pool.retry(ticket, &hint, &early.tried, now),
                None => pool.choose(&hint, &early.tried, now),
            },
            None => pool.choose(&hint, &none_tried, now),
        };
        let (place, slot) = match choice {
            Choice::Take { index, slot } => (index, slot),
            Choice::Nobody => {
                self.nobody(index);
                return None;
            }
            // It keeps its place in the queue.
            Choice::Full if session.early.as_ref().is_some_and(|e| e.ticket.is_some()) => {
                return None;
            }
            Choice::Full => {
                let ahead = pool.queue.waiting();
                let early = session.early();
                let wake: Arc<dyn Wake> = Arc::clone(&self.mailbox) as Arc<dyn Wake>;
                match pool.wait(&wake, token.to_bits(), &hint, &early.tried, now) {
                    Wait::Take { index, slot } => (index, slot),
                    Wait::Waiting(ticket) => {
                        early.ticket = Some(ticket);
                        session.stage = Stage::Queued;
                        session.ahead = ahead;
                        self.n_queued += 1;
                        self.counters().queued.fetch_add(1, Ordering::Relaxed);
                        self.arm(index, backend.policy.queue_timeout);
                        return None;
                    }
                    Wait::Overflow => {
                        session.stage = Stage::Queued;
                        self.end(index, Cause::Proxy);
                        return None;
                    }
                    Wait::Nobody => {
                        self.nobody(index);
                        return None;
                    }
                }
            }
        };
        let server = Arc::clone(pool.servers.get(place)?);
        self.leave_queue(index);
        let now = self.now;
        let generation = self.table.get().generation;
        let session = self.sessions.get_mut(index)?;
        session.generation = generation;
        if session.target.is_none() {
            session.queued = now.since(session.accepted).into();
        }
        Some(Chosen { server, slot })
    }

    /// No server may be chosen, or all that may have refused.
    fn nobody(&mut self, index: u32) {
        self.leave_queue(index);
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let limit = session.backend.as_ref().map_or(0, |b| b.policy.retries);
        let failure = session.early.as_ref().and_then(|early| early.failure);
        session.stage = Stage::Pausing;
        match failure {
            Some(_) if session.retries <= limit => self.arm(index, TURNAROUND),
            failure => {
                let cause = failure.map_or(Cause::Server, cause_of);
                self.end(index, cause);
            }
        }
    }

    /// Everybody had time to come back.
    pub(super) fn paused_long_enough(&mut self, index: u32) {
        let table = self.table.shared();
        if let Some(session) = self.sessions.get_mut(index) {
            session.early().tried.clear();
            session.renew_backend(&table);
            self.choose(index);
        }
    }

    //--- Queue

    /// A session that waits for a server with room may try again.
    pub(super) fn called(&mut self, token: Token) {
        let waits = self.sessions.is_current(token)
            && self
                .sessions
                .get(token.index)
                .is_some_and(|session| session.stage == Stage::Queued);
        if waits {
            self.choose(token.index);
        }
    }

    /// A session has waited for a server with room as long as it may.
    pub(super) fn queued_too_long(&mut self, index: u32) {
        self.end(index, Cause::ServerTimeout);
    }

    /// Gives up a session's place in the queue, if it has one.
    pub(super) fn leave_queue(&mut self, index: u32) {
        if let Some(session) = self.sessions.get_mut(index)
            && let Some(early) = &mut session.early
            && early.ticket.take().is_some()
        {
            self.n_queued = self.n_queued.saturating_sub(1);
        }
    }

    /// Brings sessions that wait up to the newest table, and calls the first of each queue: there may
    /// be room where there was none.
    pub(super) fn stir_queues(&mut self) {
        if self.n_queued == 0 {
            return;
        }
        let table = self.table.shared();
        let mut backends: Vec<Arc<Backend>> = Vec::new();
        for index in self.indices() {
            let Some(session) = self.sessions.get_mut(index) else {
                continue;
            };
            if !matches!(session.stage, Stage::Queued | Stage::Pausing) {
                continue;
            }
            if let Some(backend) = session.renew_backend(&table)
                && !backends.iter().any(|known| Arc::ptr_eq(known, backend))
            {
                backends.push(Arc::clone(backend));
            }
        }
        for backend in backends {
            backend.pool.queue.stir();
        }
    }

    //--- Connecting

    fn connect(&mut self, index: u32, chosen: Chosen) -> Attempt {
        let Chosen { server, slot } = chosen;
        let Some(token) = self.sessions.token(index) else {
            return Attempt::Over;
        };
        let Some(session) = self.sessions.get_mut(index) else {
            return Attempt::Over;
        };
        let Some(backend) = session.backend.clone() else {
            return Attempt::Over;
        };
        let address = server.address;
        session.stage = Stage::Connecting;
        let socket = match open(address, &backend.policy) {
            Ok(socket) => socket,
            Err(error) if is_shortage(error) => {
                self.wait_for_resources(index, &backend.policy, error);
                return Attempt::Over;
            }
            Err(error) => {
                self.out_of_resources(index, error);
                return Attempt::Over;
            }
        };
        let before = session.target.replace(Arc::clone(&server));
        session.slot = Some(slot);
        self.count_attempt(&server, before.as_deref());
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return self.failed_at_once(index, error),
        }
        if let Err(error) = self.watch_server(token, &socket) {
            self.out_of_resources(index, error);
            return Attempt::Over;
        }
        if let Some(session) = self.sessions.get_mut(index) {
            session.server = Some(Side::new(socket, Readiness::default()));
        }
        self.arm(index, backend.policy.connect_timeout);
        Attempt::UnderWay
    }

    fn count_attempt(&self, server: &Server, before: Option<&Server>) {
        let counters = self.counters();
        counters.connects.fetch_add(1, Ordering::Relaxed);
        let tally = &server.load.tally;
        match before {
            None => {}
            Some(before) if Arc::ptr_eq(&before.load, &server.load) => {
                tally.retries.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) => {
                counters.redispatches.fetch_add(1, Ordering::Relaxed);
                tally.redispatches.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn failed_at_once(&mut self, index: u32, error: Errno) -> Attempt {
        if self.note_failure(index, error) {
            Attempt::Failed
        } else {
            Attempt::Over
        }
    }

    /// The kernel has reported on an attempt, or on the client meanwhile.
    pub(super) fn look_at_attempt(&mut self, index: u32) {
        let Some(session) = self.sessions.get(index) else {
            return;
        };
        let Some(server) = &session.server else {
            return;
        };
        if server.signs.has(Readiness::FAILED | Readiness::HUNG_UP) {
            match rustix::net::sockopt::socket_error(&server.socket) {
                Ok(Ok(())) => {}
                Ok(Err(error)) | Err(error) => return self.attempt_failed(index, error),
            }
        }
        if server.signs.has(Readiness::WRITABLE) {
            if is_itself(session, server) {
                return self.attempt_failed(index, Errno::CONNREFUSED);
            }
            self.connected(index);
        }
    }

    pub(super) fn attempt_timed_out(&mut self, index: u32) {
        self.attempt_failed(index, Errno::TIMEDOUT);
    }

    /// An attempt has failed: on to the next server.
    pub(super) fn attempt_failed(&mut self, index: u32, error: Errno) {
        if self.note_failure(index, error) {
            self.choose(index);
        }
    }

    /// Remembers and reports that a server could not be connected to; false when that was one too many.
    fn note_failure(&mut self, index: u32, error: Errno) -> bool {
        self.wheel.disarm(index);
        self.counters()
            .connect_errors
            .fetch_add(1, Ordering::Relaxed);
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        session.server = None;
        session.slot = None;
        session.retries = session.retries.saturating_add(1);
        let Some(backend) = session.backend.clone() else {
            return false;
        };
        if let Some(server) = session.target.clone() {
            let early = session.early();
            early.tried.add(&server);
            early.failure = Some(error);
            let tally = &server.load.tally;
            tally.connect_errors.fetch_add(1, Ordering::Relaxed);
            // A shortage of our own ports says nothing about the server, nor does that it was taken out meanwhile.
            if !matches!(error, Errno::ADDRNOTAVAIL | Errno::CONNABORTED) {
                let failure = match error {
                    Errno::TIMEDOUT => Failure::Silence,
                    _ => Failure::Refusal,
                };
                if server.load.failed(failure, clock::now()) && !server.is_probed {
                    let (backend, server) = (&*backend.pool.name, &*server.name);
                    tracing::warn!(backend, server, %error, "Server is avoided: a connection to it failed");
                }
            }
            if error != Errno::ADDRNOTAVAIL {
                let report = &self.shared.report;
                report.connect_failed(&backend.pool.name, &server, &error.into());
            }
        }
        let limit = match error {
            // Each that is silent costs the whole timeout.
            Errno::TIMEDOUT => backend.policy.retries,
            // A refusal costs next to nothing: each server is tried once, as far as can be remembered.
            _ => backend.policy.retries.max(EVERYBODY),
        };
        if session.retries <= limit {
            return true;
        }
        self.end(index, cause_of(error));
        false
    }

    /// There is no descriptor or memory for a way to a server. The session tries again in a moment, as
    /// long as it would wait for a server with room.
    fn wait_for_resources(&mut self, index: u32, policy: &Policy, error: Errno) {
        // Until after the next try: others would take what this one waits for.
        self.rest_all(2 * REST);
        let now = self.now;
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        if now.since(session.accepted) >= policy.queue_timeout {
            return self.out_of_resources(index, error);
        }
        session.stage = Stage::Pausing;
        self.arm(index, REST);
    }

    pub(super) fn out_of_resources(&mut self, index: u32, error: Errno) {
        if self.may_warn() {
            tracing::warn!(%error, "Sessions end for want of resources");
        }
        self.end(index, Cause::Resource);
    }

    /// The client has reset the connection before a server was there.
    pub(super) fn client_gone(&mut self, index: u32) {
        self.end(index, Cause::Client);
    }

    fn connected(&mut self, index: u32) {
        self.wheel.disarm(index);
        let now = self.now;
        let Some(token) = self.sessions.token(index) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        session.stage = Stage::Relaying;
        session.active = now.tick();
        let taken = now
            .since(session.accepted)
            .saturating_sub(session.queued.into());
        session.connected = taken.into();
        if let Some(server) = &session.target {
            let tally = &server.load.tally;
            tally.connects.fetch_add(1, Ordering::Relaxed);
            if server.load.connected() && !server.is_probed {
                let (backend, server) = (session.backend_name().map(|name| &**name), &*server.name);
                tracing::info!(
                    backend,
                    server,
                    "Server is not avoided any more: a connection to it was made"
                );
            }
            let micros = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
            tally
                .connect_microseconds
                .fetch_add(micros, Ordering::Relaxed);
        }
        let mut first = header(session);
        if let Some(early) = session.early.take() {
            if first.is_empty() {
                first = early.bytes;
            } else {
                first.extend_from_slice(&early.bytes);
            }
        }
        session.up.hold(first);
        self.grow(token);
        self.relay(index);
    }
}

/// The cause when no server could be connected to.
fn cause_of(error: Errno) -> Cause {
    match error {
        Errno::TIMEDOUT => Cause::ServerTimeout,
        Errno::ADDRNOTAVAIL => Cause::Resource,
        Errno::CONNABORTED => Cause::Down,
        _ => Cause::Server,
    }
}

/// A socket to connect to `address` from.
fn open(address: SocketAddr, policy: &Policy) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = policy.source_address
        && source.is_ipv4() == address.is_ipv4()
    {
        // Without it, ports run out with the number of all connections, not of those to one server.
        if let Err(error) = sys::option::bind_address_no_port(&socket) {
            tracing::debug!(%error, "Ports are taken when the source address is");
        }
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

/// True when a socket has connected to itself, as the kernel allows on a port of its own choice where
/// no process listens.
fn is_itself(session: &Session, server: &Side) -> bool {
    let Some(target) = &session.target else {
        return false;
    };
    let on_this_host = match target.address.ip() {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.is_loopback(),
    };
    on_this_host
        && rustix::net::getsockname(&server.socket)
            .ok()
            .and_then(|own| SocketAddr::try_from(own).ok())
            == Some(target.address)
}

/// The PROXY header the server is to get first.
fn header(session: &Session) -> Vec<u8> {
    let mut out = Vec::new();
    let send = session
        .backend
        .as_ref()
        .map_or(SendProxy::No, |backend| backend.policy.send_proxy);
    let version = match send {
        SendProxy::No => return out,
        SendProxy::V1 => Version::V1,
        SendProxy::V2 => Version::V2,
    };
    let extensions = session.early.as_deref().map(|early| &*early.extensions);
    let header = match session.destination() {
        Some(destination) => Header::relayed(version, session.source(), destination)
            .with_extensions(extensions.unwrap_or_default()),
        None => Header::local(version),
    };
    match version {
        Version::V1 => write_v1(&header, &mut out),
        Version::V2 => write_v2(&header, &mut out),
    }
    out
}
