//! The configuration: the file, and the frontends, backends and virtual IPs in it.

pub mod lint;
mod read;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ::config::lb_proxy::{ADMIN_PORT, LbProxy};
pub use ::config::lb_proxy::{DataPath as Path, Protocol, Role};
use ::config::{Address, Document, Problems};
use api::lb_proxy::Origin;
use balance::limits::Rules;
use balance::pool::Algorithm;
use balance::table::{AcceptProxy, Policy, SideOptions, Sources};
use config_text::counted;
use daemon::config::Common;
use ipnet::IpNet;
use l4_core::flow;
use proto::endpoint::Endpoint;
use proto::health::{AdminState, Deviation, Target, TargetKind, Watched};
use server_names::names::Entry;
use tls_routes::RouteRules;
use vrrp::priority::PrioritySettings;
use vrrp::settings::RouterSettings;
use vrrp_net::notify::Notify;

use read::Parts;
pub(crate) use read::{lease_name, router, server};

/// The address of the admin listener unless the configuration has another.
pub const DEFAULT_ADMIN: SocketAddr = Address::loopback(ADMIN_PORT).0;

/// The most threads of the data path; with more, the kernel's locks are the limit.
const MAX_WORKERS: usize = 256;

/// The configuration of one proxy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: LbProxy,
    /// Addresses that clients connect to, those of services too.
    pub frontends: Vec<Frontend>,
    /// Groups of servers.
    pub backends: Vec<Backend>,
    /// Addresses that one of several nodes holds, those of services too.
    pub vips: Vec<Vip>,
    /// Services that have an address from a pool.
    pub services: Vec<Service>,
    /// Warnings: odd, but understood.
    pub warnings: Vec<String>,
}

/// A place that clients connect to.
#[derive(Clone, Debug)]
pub struct Frontend {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses.
    pub listen: Vec<SocketAddr>,
    /// Streams or datagrams.
    pub protocol: Protocol,
    /// The data path: this process or the kernel.
    pub path: Path,
    /// Its role in OpenShift.
    pub role: Role,
    /// Whether connections begin with a PROXY header.
    pub accept_proxy: AcceptProxy,
    /// Clients that may connect.
    pub sources: Sources,
    /// Rate and concurrency of each source.
    pub limits: Option<SourceLimits>,
    /// Sessions at a time.
    pub max_connections: Option<u32>,
    /// Backends by what a ClientHello asks for.
    pub routes: RouteRules,
    /// The backend for everything else.
    pub backend: Option<Arc<str>>,
    /// The limit of time for a client to send the octets that are inspected.
    pub inspect_timeout: Duration,
    /// How the client's side of a session is kept.
    pub client: SideOptions,
    /// Whether sessions are recorded.
    pub log: bool,
    /// UDP: how a flow ends, and how many there may be.
    pub flows: flow::Settings,
    /// The kernel's settings, if the kernel moves the bytes.
    pub kernel: KernelRules,
}

/// The kernel's settings for a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRules {
    /// These sources alone, if given.
    pub allow: Option<Vec<IpNet>>,
    /// Never these.
    pub deny: Vec<IpNet>,
    /// Servers see this node's address instead of the client's.
    pub masquerade: bool,
}

impl Default for KernelRules {
    fn default() -> Self {
        Self {
            allow: None,
            deny: Vec::new(),
            masquerade: true,
        }
    }
}

/// Rate and concurrency of each source of one frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// The limits of a source.
    pub rules: Rules,
    /// How many sources are kept in mind.
    pub sources: usize,
}

/// A group of servers.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Its name.
    pub name: Arc<str>,
    /// How a server is chosen.
    pub algorithm: Algorithm,
    /// With no server up, choose among those that are down.
    pub fail_open: bool,
    /// Choose among all backup servers, not the first alone.
    pub all_backups: bool,
    /// How many connections may wait for a server with room.
    pub queue: u32,
    /// How its sessions are made and kept.
    pub policy: Policy,
    /// How its servers are probed, if they are.
    pub check: Option<Check>,
    /// Its servers. Those that names stand for join when they are resolved.
    pub servers: Vec<Server>,
    /// Its servers that have DNS names.
    pub named: Vec<Entry>,
}

/// How servers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// By what.
    pub kind: TargetKind,
    /// At which port; the server's own unless given.
    pub port: Option<u16>,
    /// The values that differ from healthd's schedule; none unless the file gives some.
    pub deviation: Deviation,
}

impl Check {
    /// The target that healthd probes for a server at `address`.
    #[must_use]
    pub fn target(&self, address: SocketAddr) -> Watched {
        let port = self.port.unwrap_or_else(|| address.port());
        Watched {
            target: Target {
                kind: self.kind.clone(),
                ..Target::tcp(SocketAddr::new(address.ip(), port))
            },
            deviation: self.deviation,
        }
    }
}

/// One server of a backend.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub address: SocketAddr,
    /// Its share of connections.
    pub weight: u16,
    /// Chosen only when no other server is up.
    pub backup: bool,
    /// Sessions at a time.
    pub max_connections: Option<u32>,
    /// How long it takes to its whole weight once it is back.
    pub slow_start: Duration,
    /// Its target at healthd, if it is probed.
    pub target: Option<Watched>,
    /// Out of service from the start, until an operator says otherwise.
    pub maintenance: bool,
    /// Whether it is written or a node of the cluster, in a backend that follows nodes.
    pub origin: Option<Origin>,
    /// Whether its node takes no new connections, as the cluster says.
    pub is_cordoned: bool,
}

impl Server {
    /// Its state unless an operator says otherwise.
    #[must_use]
    pub const fn admin_state(&self) -> AdminState {
        match (self.maintenance, self.is_cordoned) {
            (true, _) => AdminState::Maintenance,
            (false, true) => AdminState::Drain,
            (false, false) => AdminState::Ready,
        }
    }
}

/// Addresses that one of several nodes holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// The virtual router.
    pub router: RouterSettings,
    /// The things that decide its priority; names are those of [`Tracked`].
    pub priority: PrioritySettings,
    /// Run at each change of state, as keepalived does.
    pub notify: Option<Notify>,
    /// The name of its lease, if it needs one.
    pub lease: Option<Arc<str>>,
}

/// Something whose health decides a priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// A frontend: any backend that it leads to has a server to choose.
    Frontend(Arc<str>),
    /// A backend: it has a server to choose.
    Backend(Arc<str>),
}

impl Tracked {
    /// From `frontend:NAME` or `backend:NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("frontend", name) => Some(Self::Frontend(name.into())),
            ("backend", name) => Some(Self::Backend(name.into())),
            _ => None,
        }
    }
}

/// A service with an address from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The range they are from.
    pub pool: Arc<str>,
    /// The frontends that serve it; none when others forward what comes for it.
    pub frontends: Vec<Arc<str>>,
}

impl Config {
    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it, each problem with its place.
    pub fn from_document(document: &Document) -> Result<Self, Problems> {
        let mut parts = Parts::default();
        let file = document.parse_with(|file: &LbProxy, check| {
            parts = read::parts(&file.with_roles(), check);
        })?;
        let mut config = Self {
            common: Common::of(file.log, file.admin, file.drain),
            frontends: parts.frontends,
            backends: parts.backends,
            vips: parts.vips,
            services: parts.services,
            warnings: parts.warnings,
            file: file.with_roles(),
        };
        let odd = lint::config(&config);
        config.warnings.extend(odd);
        Ok(config)
    }

    /// The number of threads of the data path.
    #[must_use]
    pub fn workers(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        match self.file.workers {
            0 => cores,
            workers => workers,
        }
        .min(MAX_WORKERS)
    }

    /// The largest number of sessions; none when the file descriptors decide.
    #[must_use]
    pub fn max_connections(&self) -> Option<u64> {
        let limit = self.file.max_connections;
        limit.map(|limit| u64::from(limit.get()))
    }

    /// The largest receive buffer of a connection, in bytes.
    #[must_use]
    pub fn receive_buffer(&self) -> usize {
        usize::try_from(self.file.receive_buffer.get()).unwrap_or(usize::MAX)
    }

    /// Whether addresses are bound that the node does not have, as it does not while another holds a virtual IP.
    #[must_use]
    pub fn freebind(&self) -> bool {
        let may_hold = !self.vips.is_empty() || self.serves_cluster();
        self.file.freebind.unwrap_or(may_hold)
    }

    /// Whether Services of the cluster may have addresses here.
    #[must_use]
    pub fn serves_cluster(&self) -> bool {
        self.file.pool.iter().any(|pool| pool.cluster.is_some())
    }

    /// The endpoint of healthd, if it is used.
    #[must_use]
    pub fn health(&self) -> Option<Endpoint> {
        self.file.health.endpoint.0.clone()
    }

    /// The cluster whose keepalived runs on the same links.
    #[must_use]
    pub fn foreign_cluster(&self) -> Option<&str> {
        let openshift = &self.file.openshift;
        let cluster = openshift.cluster.as_deref();
        cluster.filter(|_| openshift.keepalived)
    }

    /// A server by name.
    #[must_use]
    pub fn server(&self, backend: &str, server: &str) -> Option<&Server> {
        let backend = self.backends.iter().find(|known| *known.name == *backend)?;
        backend.servers.iter().find(|known| *known.name == *server)
    }

    /// Every target that healthd is to probe, once.
    #[must_use]
    pub fn targets(&self) -> Vec<Watched> {
        let servers = self.backends.iter().flat_map(|backend| &backend.servers);
        let mut targets: Vec<Watched> =
            servers.filter_map(|server| server.target.clone()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// The frontends that this process moves the bytes of.
    pub fn user_frontends(&self, protocol: Protocol) -> impl Iterator<Item = &Frontend> {
        self.frontends
            .iter()
            .filter(move |frontend| frontend.path == Path::User && frontend.protocol == protocol)
    }

    /// One line that says what is configured.
    #[must_use]
    pub fn summary(&self) -> String {
        let n_servers: usize = self.backends.iter().map(|b| b.servers.len()).sum();
        let names: Vec<&str> = self.frontends.iter().map(|f| &*f.name).collect();
        let mut text = match names.as_slice() {
            [] => "no frontend".to_owned(),
            names => format!(
                "{} for {}, {} in {}",
                counted(names.len(), "frontend"),
                names.join(" "),
                counted(n_servers, "server"),
                counted(self.backends.len(), "backend"),
            ),
        };
        if !self.vips.is_empty() {
            let names: Vec<&str> = self.vips.iter().map(|vip| &*vip.router.name).collect();
            let vips = counted(names.len(), "virtual IP");
            text.push_str(&format!(", {vips}: {}", names.join(" ")));
        }
        text
    }
}

impl Frontend {
    /// The backends that it leads to.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<str>> {
        self.backend.iter().chain(self.routes.backends())
    }
}

#[cfg(test)]
mod tests;
