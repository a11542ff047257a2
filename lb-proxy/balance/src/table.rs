//! Frontends and backends as the data path reads them.
//!
//! A table is built whole and swapped whole; workers see the newest at their next wake-up. The parts that
//! outlive a table (counters, loads, limits) are shared between successive tables by name.
//!
//! Says what is wanted and never does it: the data path does.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cidrs::Cidrs;
use config::lb_proxy as file;
use tls_routes::Routes;

pub use config::lb_proxy::{AcceptProxy, OnDown, OnUp, SendProxy};

use crate::limits::Limits;
use crate::pool::Pool;

/// All frontends and backends.
#[derive(Debug, Default)]
pub struct Table {
    /// Every frontend that workers serve.
    pub frontends: Vec<Arc<Frontend>>,
    /// Every backend; routes point here by index.
    pub backends: Vec<Arc<Backend>>,
    /// The generation of healthd's liveness that it was made from; zero without healthd. A change that concerns no
    /// server makes no new table.
    pub generation: u64,
}

impl Table {
    /// The frontend called `name`.
    #[must_use]
    pub fn frontend(&self, name: &str) -> Option<&Arc<Frontend>> {
        self.frontends
            .iter()
            .find(|frontend| &*frontend.name == name)
    }

    /// The backend called `name`.
    #[must_use]
    pub fn backend(&self, name: &str) -> Option<&Arc<Backend>> {
        self.backends
            .iter()
            .find(|backend| &*backend.pool.name == name)
    }
}

//--- Frontend

/// A place that clients connect to, and the backend for them.
#[derive(Debug)]
pub struct Frontend {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses; sockets for them are given to the engine apart.
    pub listen: Vec<SocketAddr>,
    /// Whether connections begin with a PROXY header. With one, `sources` and `limits` look at the
    /// address it names.
    pub accept_proxy: AcceptProxy,
    /// Clients that may connect.
    pub sources: Sources,
    /// Rate and concurrency of each source.
    pub limits: Option<Arc<Limits>>,
    /// Sessions at a time; more wait in the kernel's backlog.
    pub max_connections: Option<u32>,
    /// The backend's index.
    pub route: Route,
    /// How the client's side of a session is kept.
    pub client: SideOptions,
    /// Write a record of each session to the access log.
    pub log: bool,
    /// Counters, shared by successive tables.
    pub tally: Arc<FrontendTally>,
}

impl Frontend {
    /// A frontend with everything at its default.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, listen: Vec<SocketAddr>, route: Route) -> Self {
        Self {
            name: name.into(),
            listen,
            accept_proxy: AcceptProxy::No,
            sources: Sources::default(),
            limits: None,
            max_connections: None,
            route,
            client: SideOptions::default(),
            log: false,
            tally: Arc::default(),
        }
    }
}

/// Clients that may connect.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// These alone, if given.
    pub allow: Option<Cidrs>,
    /// Never these.
    pub deny: Cidrs,
}

impl Sources {
    /// True when `address` may connect.
    #[must_use]
    #[inline]
    pub fn admit(&self, address: IpAddr) -> bool {
        !self.deny.contains(address)
            && self
                .allow
                .as_ref()
                .is_none_or(|allow| allow.contains(address))
    }
}

//--- Route

/// The backend of a connection.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// By the name and the protocols in the TLS ClientHello.
    pub routes: Routes,
    /// The backend for every other connection; without one they are refused.
    pub default: Option<usize>,
    /// How long a client may take to send the bytes that are looked into, the PROXY header and the
    /// ClientHello: then the ClientHello counts as absent and a required header as missing.
    pub inspect_timeout: Duration,
}

impl Route {
    /// Everything to the backend at `index`.
    #[must_use]
    pub fn to(index: usize) -> Self {
        Self {
            routes: Routes::default(),
            default: Some(index),
            inspect_timeout: Self::INSPECT_TIMEOUT,
        }
    }

    /// How long to wait for the bytes that are looked into, unless configured.
    pub const INSPECT_TIMEOUT: Duration = file::INSPECT_TIMEOUT;
}

//--- Backend

/// A pool and how its servers are connected to.
#[derive(Debug)]
pub struct Backend {
    /// Its servers; its name is the backend's.
    pub pool: Arc<Pool>,
    /// How its sessions are made and kept.
    pub policy: Policy,
}

/// How sessions with the servers of one pool are made and kept.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Begin each connection with a PROXY header.
    pub send_proxy: SendProxy,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// After more failures than this, an attempt that times out is the last, and no server is tried twice.
    /// Up to it, and past servers that refuse at once, the next one is tried at once.
    pub retries: u8,
    /// How long a connection may wait for a server with room.
    pub queue_timeout: Duration,
    /// Sessions in which nothing moves are ended after this long; never, unless given.
    pub idle_timeout: Option<Duration>,
    /// As `idle_timeout`, once the server has closed its side.
    pub client_fin: Option<Duration>,
    /// As `idle_timeout`, once the client has closed its side.
    pub server_fin: Option<Duration>,
    /// How the server's side of a session is kept.
    pub server: SideOptions,
    /// The fate of sessions when their server goes down or into maintenance.
    pub on_down: OnDown,
    /// The fate of sessions with backup servers when a server of the first choice comes up.
    pub on_up: OnUp,
    /// The address connections are made from.
    pub source_address: Option<IpAddr>,
}

impl Policy {
    /// The policy of a backend.
    #[must_use]
    pub fn of(backend: &file::Backend) -> Self {
        let above_zero = |time: config::HumanDuration| (!time.0.is_zero()).then_some(time.0);
        Self {
            send_proxy: backend.send_proxy,
            connect_timeout: backend.connect_timeout.get(),
            retries: backend.retries,
            queue_timeout: backend.queue_timeout.get(),
            idle_timeout: backend.idle_timeout.0,
            client_fin: above_zero(backend.client_fin),
            server_fin: above_zero(backend.server_fin),
            server: SideOptions::of(&backend.connection),
            on_down: backend.on_down.unwrap_or_default(),
            on_up: backend.on_up,
            source_address: backend.source_address.map(|address| address.0),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(&file::Backend::new(""))
    }
}

/// How one side of a session finds out that its peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideOptions {
    /// Probes of an idle connection.
    pub keepalive: Option<Keepalive>,
    /// How long a peer may owe an answer, to data or to a probe of its window.
    pub user_timeout: Option<Duration>,
}

impl SideOptions {
    /// The options of a configuration.
    #[must_use]
    pub fn of(side: &file::Side) -> Self {
        let user_timeout = side.user_timeout.0;
        Self {
            keepalive: match &side.keepalive {
                file::Keepalive::Off => None,
                file::Keepalive::Probes(probes) => Some(Keepalive::of(probes)),
            },
            user_timeout: (!user_timeout.is_zero()).then_some(user_timeout),
        }
    }
}

impl Default for SideOptions {
    fn default() -> Self {
        Self::of(&file::Side::default())
    }
}

/// TCP keep-alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Quiet for this long, a connection is probed (`TCP_KEEPIDLE`).
    pub idle: Duration,
    /// Time between probes (`TCP_KEEPINTVL`).
    pub interval: Duration,
    /// Unanswered probes that end the connection (`TCP_KEEPCNT`).
    pub count: u32,
}

impl Keepalive {
    const fn of(probes: &file::KeepaliveProbes) -> Self {
        Self {
            idle: probes.idle.0,
            interval: probes.interval.0,
            count: probes.count,
        }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self::of(&file::KeepaliveProbes::default())
    }
}

//--- Counters

/// The counters of a frontend; they only go up, but for `sessions`.
#[derive(Debug, Default)]
pub struct FrontendTally {
    /// Sessions that are open.
    pub sessions: AtomicU64,
    /// Connections accepted.
    pub total: AtomicU64,
    /// Connections refused for their source address.
    pub denied: AtomicU64,
    /// Connections refused for the rate or number of their source.
    pub limited: AtomicU64,
    /// Connections closed before a backend was known: a bad header, no route.
    pub rejected: AtomicU64,
    /// Bytes from clients.
    pub bytes_in: AtomicU64,
    /// Bytes to clients.
    pub bytes_out: AtomicU64,
    /// The most sessions there were at a time.
    pub most_sessions: AtomicU64,
}

impl FrontendTally {
    /// Remembers how many sessions there are, if there were never more.
    #[inline]
    pub fn note_most(&self) {
        let sessions = self.sessions.load(Ordering::Relaxed);
        if sessions > self.most_sessions.load(Ordering::Relaxed) {
            self.most_sessions.fetch_max(sessions, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_source_stays_denied_within_what_is_allowed() {
        let sources = Sources {
            allow: Some("10.0.0.0/8".parse().unwrap()),
            deny: "10.1.0.0/16".parse().unwrap(),
        };
        for (address, expected) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("192.0.2.1", false),
            ("::ffff:10.2.0.1", true),
        ] {
            assert_eq!(
                sources.admit(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
        assert!(Sources::default().admit("192.0.2.1".parse().unwrap()));
    }
}
