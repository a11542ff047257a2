//! One session: a client, a server, and the bytes between them.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use balance::limits::Admission;
use balance::pool::{Server, Slot, Tried};
use balance::queue::Ticket;
use balance::table::{Backend, Frontend, Table};
use daemon::clock;
use l4_core::access_log::Cause;
use l4_core::client_hello::{self, Hello, Peeked};
use l4_core::delivery::Deliveries;
use l4_core::timers::TICK;
use rustix::io::Errno;

use super::pump::{End, Flow, Readiness, Side};
use super::session_info::{Filter, SessionInfo, SessionState};

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) client: Side,
    pub(crate) server: Option<Side>,
    /// Client to server.
    pub(crate) up: Flow,
    /// Server to client.
    pub(crate) down: Flow,
    pub(crate) stage: Stage,
    /// When it was accepted.
    pub(crate) accepted: Micros,
    /// How long it waited for a server with room.
    pub(crate) queued: Duration32,
    /// The generation of the liveness by which its server was chosen; zero for none.
    pub(crate) generation: u64,
    /// From the beginning of the first attempt until a server was connected.
    pub(crate) connected: Duration32,
    /// The tick at which bytes last moved or, as far as it was checked, were acknowledged.
    pub(super) active: u64,
    /// Sessions that waited for a server when this one began to.
    pub(super) ahead: u32,
    /// Attempts to connect that failed.
    pub(crate) retries: u8,
    pub(crate) frontend: Arc<Frontend>,
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) target: Option<Arc<Server>>,
    pub(super) slot: Option<Slot>,
    pub(super) admission: Option<Admission>,
    /// The client's address, as the socket has it.
    pub(crate) peer: SocketAddr,
    /// Gone once bytes move.
    pub(crate) early: Option<Box<Pending>>,
    /// The client's description of itself, if it sent one.
    pub(crate) named: Option<Box<Named>>,
    /// Bytes moved that the counters know of, both ways together.
    pub(super) counted: (u64, u64),
    /// It ends for this cause once its bytes are delivered: nothing is read any more.
    pub(super) parting: Option<Cause>,
    /// The findings of its checks while bytes were not acknowledged.
    pub(super) deliveries: Option<Box<Deliveries>>,
    /// When bytes were last moved up, and down: gathered octets wait from then on.
    pub(super) moved_at: [Micros; 2],
    /// The worker has it among those that are gathered.
    pub(super) is_listed: bool,
    /// The worker has it among those that hold a pipe.
    pub(super) holds_pipe: bool,
    /// Its server was gone already when it was taken out of its worker, and it went on.
    pub(super) has_outlived_server: bool,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client's first octets are inspected.
    Inspecting,
    /// Every server is full.
    Queued,
    /// Every server has refused; one is tried again in a while.
    Pausing,
    /// An attempt is under way.
    Connecting,
    /// Bytes move.
    Relaying,
}

/// The state of a session until bytes move.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The client's first octets.
    pub(crate) bytes: Vec<u8>,
    /// The PROXY header was read, or none is expected.
    pub(crate) header_done: bool,
    /// The other extensions, as they are on the wire.
    pub(crate) extensions: Vec<u8>,
    /// Servers that have refused.
    pub(super) tried: Tried,
    /// The result of the last attempt.
    pub(super) failure: Option<Errno>,
    /// Its place among those that wait for a server.
    pub(super) ticket: Option<Ticket>,
}

/// The client's description of itself.
#[derive(Debug, Default, Clone)]
pub(crate) struct Named {
    /// The source in the PROXY header.
    pub(crate) source: Option<SocketAddr>,
    /// The destination in the PROXY header.
    pub(crate) destination: Option<SocketAddr>,
    /// The name in the ClientHello.
    pub(crate) server_name: Option<Box<str>>,
}

/// A session on its way to another worker or process.
#[derive(Debug)]
pub(crate) struct FrozenSession(pub(crate) Session);

impl Session {
    pub(super) fn new(
        id: u64,
        client: Side,
        peer: SocketAddr,
        frontend: Arc<Frontend>,
        accepted: Micros,
    ) -> Self {
        Self {
            id,
            client,
            server: None,
            up: Flow::default(),
            down: Flow::default(),
            stage: Stage::Inspecting,
            accepted,
            queued: Duration32::default(),
            generation: 0,
            connected: Duration32::default(),
            active: 0,
            ahead: 0,
            retries: 0,
            frontend,
            backend: None,
            target: None,
            slot: None,
            admission: None,
            peer,
            early: None,
            named: None,
            counted: (0, 0),
            parting: None,
            deliveries: None,
            moved_at: [Micros::default(); 2],
            is_listed: false,
            holds_pipe: false,
            has_outlived_server: false,
        }
    }

    /// True when the kernel may have bytes of this session that it does not report.
    pub(super) fn is_gathering(&self) -> bool {
        self.up.is_gathering() || self.down.is_gathering()
    }

    /// The fills of its pipes that are not sent yet, up and down.
    pub(super) fn fills(&self) -> [Option<u8>; 2] {
        [self.up.fill(), self.down.fill()]
    }

    /// The client's address, by the PROXY header if there was one.
    pub(super) fn source(&self) -> SocketAddr {
        self.named
            .as_ref()
            .and_then(|named| named.source)
            .unwrap_or(self.peer)
    }

    /// The address the client has connected to, by the PROXY header if there was one.
    pub(super) fn destination(&self) -> Option<SocketAddr> {
        self.named
            .as_ref()
            .and_then(|named| named.destination)
            .or_else(|| self.local())
    }

    /// The address of this node the client has connected to.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        let address = rustix::net::getsockname(&self.client.socket).ok()?;
        SocketAddr::try_from(address).ok().map(canonical)
    }

    pub(super) fn early(&mut self) -> &mut Pending {
        self.early.get_or_insert_default()
    }

    /// The ClientHello of a session that has come from elsewhere: it waits for the server.
    pub(super) fn client_hello(&self) -> Hello {
        let early = self.early.as_ref();
        match early.map(|early| client_hello::peek(&early.bytes)) {
            Some(Peeked::Hello(hello)) => hello,
            _ => Hello {
                name: self
                    .named
                    .as_ref()
                    .and_then(|named| named.server_name.as_deref().map(str::to_owned)),
                protocols: Vec::new(),
            },
        }
    }

    pub(super) fn named(&mut self) -> &mut Named {
        self.named.get_or_insert_default()
    }

    /// True when the kernel has taken every byte that was read.
    pub(super) fn is_whole(&self) -> bool {
        self.up.is_empty() && self.down.is_empty()
    }

    /// True when one of the sides has failed, so that the other is not waited for without end.
    pub(super) fn is_failing(&self) -> bool {
        let failed = Readiness::FAILED | Readiness::RESET;
        self.client.signs.has(failed)
            || self
                .server
                .as_ref()
                .is_some_and(|server| server.signs.has(failed))
    }

    pub(super) fn fits(&self, filter: &Filter) -> bool {
        let is = |wanted: &Option<String>, name: Option<&Arc<str>>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| name.is_some_and(|name| **name == *wanted))
        };
        filter.id.is_none_or(|id| id == self.id)
            && is(&filter.frontend, Some(&self.frontend.name))
            && is(&filter.backend, self.backend_name())
            && is(
                &filter.server,
                self.target.as_ref().map(|server| &server.name),
            )
            && filter
                .client
                .is_none_or(|network| network.contains(&self.source().ip().to_canonical()))
    }

    /// Takes the backend of this table instead of an earlier one's, if it has it still.
    pub(super) fn renew_backend<'a>(&mut self, table: &'a Table) -> Option<&'a Arc<Backend>> {
        let newest = table.backend(self.backend_name()?)?;
        self.backend = Some(Arc::clone(newest));
        Some(newest)
    }

    pub(super) fn backend_name(&self) -> Option<&Arc<str>> {
        self.backend.as_ref().map(|backend| &backend.pool.name)
    }

    /// How long it has lasted.
    pub(super) fn age(&self, now: Micros) -> Duration {
        now.since(self.accepted)
    }

    pub(super) fn info(&self, now: Micros) -> SessionInfo {
        SessionInfo {
            id: self.id,
            frontend: Arc::clone(&self.frontend.name),
            backend: self.backend_name().cloned(),
            server: self.target.as_ref().map(|server| Arc::clone(&server.name)),
            server_address: self.target.as_ref().map(|server| server.address),
            client: self.source(),
            local: self.destination(),
            state: self.state(),
            age: self.age(now),
            bytes_in: self.up.moved,
            bytes_out: self.down.moved,
        }
    }

    fn state(&self) -> SessionState {
        match self.stage {
            Stage::Inspecting => SessionState::Inspecting,
            Stage::Queued => SessionState::Queued,
            Stage::Connecting | Stage::Pausing => SessionState::Connecting,
            Stage::Relaying if self.up.end != End::Open => SessionState::ClientClosed,
            Stage::Relaying if self.down.end != End::Open => SessionState::ServerClosed,
            Stage::Relaying => SessionState::Relaying,
        }
    }
}

/// An IPv4 address that a socket of both families gives as IPv6 is the IPv4 address.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// Makes the kernel end a connection with a reset as soon as it is closed.
pub(super) fn reset_on_close(socket: impl AsFd) {
    // An error means that there is no connection left to reset.
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).ok();
}

//--- Time

/// The clocks' readings when the engine began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    instant: Instant,
    wall: SystemTime,
}

/// Microseconds since the engine began; below zero for what an earlier process accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Micros(pub(crate) i64);

/// A duration in microseconds, up to 71 minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Duration32(u32);

impl Epoch {
    pub(super) fn new() -> Self {
        Self {
            instant: clock::now(),
            wall: clock::wall(),
        }
    }

    pub(super) fn micros(self, now: Instant) -> Micros {
        let elapsed = now.saturating_duration_since(self.instant).as_micros();
        Micros(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }

    pub(crate) fn wall(self, at: Micros) -> SystemTime {
        let distance = Duration::from_micros(at.0.unsigned_abs());
        let moment = if at.0 < 0 {
            self.wall.checked_sub(distance)
        } else {
            self.wall.checked_add(distance)
        };
        moment.unwrap_or(self.wall)
    }

    /// The moment that is so long after 1970.
    pub(crate) fn at_unix(self, since: Duration) -> Micros {
        let began = self.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Micros(micros(since).saturating_sub(micros(began)))
    }

    pub(crate) fn unix(self, at: Micros) -> Duration {
        self.wall(at).duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Micros {
    pub(super) fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    pub(super) fn after(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The tick of the timers in which it falls.
    pub(super) fn tick(self) -> u64 {
        let length = i64::try_from(TICK.as_micros()).unwrap_or(i64::MAX);
        u64::try_from(self.0 / length).unwrap_or(0)
    }
}

impl From<Duration> for Duration32 {
    fn from(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX))
    }
}

impl From<Duration32> for Duration {
    fn from(duration: Duration32) -> Self {
        Self::from_micros(u64::from(duration.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_a_few_hundred_bytes() {
        let size = size_of::<Session>();
        assert!(size <= 320, "{size}");
    }

    #[test]
    fn moments_before_the_start_survive_the_way_through_another_process() {
        let epoch = Epoch::new();
        for at in [Micros(-90_000_000), Micros(0), Micros(1_234_567)] {
            assert_eq!(epoch.at_unix(epoch.unix(at)), at);
        }
        assert_eq!(Micros(5).since(Micros(9)), Duration::ZERO);
        assert_eq!(Micros(16_000).tick(), 2);
        assert_eq!(Micros(-1).tick(), 0);
        let long = Duration::from_secs(1 << 20);
        assert_eq!(
            Duration::from(Duration32::from(long)).as_micros(),
            u128::from(u32::MAX)
        );
    }
}
