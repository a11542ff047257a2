//! The configuration of lb-proxy.

mod backend;
mod frontend;
mod monitor;
mod resolvers;
mod stats_socket;
mod text;
mod vip;

use std::path::{Path, PathBuf};
use std::time::Duration;

use health::HealthdArg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::healthd::{StandInAfter, stand_in_after};
use crate::site::Network;
use crate::{Admin, DurationWithin, HumanDuration, Log, Positive, SizeWithin, Whole};

pub use crate::address_range::{AddressRange, NotRange};
pub use backend::{
    Backend, Balance, Follow, HealthCheck, Kind, MAX_FOUND, MAX_WEIGHT, MIN_INTERVAL, OnDown, OnUp,
    ResolvePrefer, SendProxy, Server,
};
pub use frontend::{
    API_SLOW_START, AcceptProxy, DataPath, Flows, Frontend, INSPECT_TIMEOUT, Keepalive,
    KeepaliveProbes, Limits, Protocol, Role, Route, RouteOrder, SOURCES, Side,
};
pub use monitor::{Monitor, Need};
pub use resolvers::{NAMESERVERS, Resolvers};
pub use stats_socket::{StatsLevel, StatsSocket};
pub use text::{
    LogTarget, MIN_PERIOD, NotRate, NotServerAddress, NotTable, NotVirtualAddress, Rate,
    SWAP_SOCKET, ServerAddress, SwapSocket, TableName, VirtualAddress,
};
pub use vip::{
    Announce, Checksum, Family, Forward, Interval, Pool, Service, ServicePort, Vip, Weigh,
    WhenUnable,
};

/// The port of lb-proxy's admin listener.
pub const ADMIN_PORT: u16 = 9404;

/// A time above zero.
pub type Time = DurationWithin<1>;

/// The number of a port.
pub type Port = Whole<u16, 1, 65_535>;

/// The configuration of lb-proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LbProxy {
    /// The number of threads of the data path, at most 256; 0 is one per core.
    #[schemars(extend("x-reload" = "restart"))]
    pub workers: usize,
    /// The largest number of sessions. Default: as many as the limit of file descriptors allows, two for each session.
    #[schemars(extend("x-example" = "20000", "x-reload" = "restart"))]
    pub max_connections: Option<Positive<u32>>,
    /// The largest receive buffer of a connection that carries much. The kernel lets it grow with the speed, up to
    /// `net.ipv4.tcp_rmem`, and it is full as soon as the receiver on the other side pauses. Raise it for links whose
    /// bandwidth times delay is larger. Without `CAP_NET_ADMIN` it has no effect if `net.core.rmem_max` is below half
    /// of it.
    #[schemars(extend("x-reload" = "restart"))]
    pub receive_buffer: SizeWithin<{ 64 << 10 }>,
    /// Whether lb-proxy binds addresses that the node does not have, such as a virtual IP that another node holds.
    /// Default: `true` with a `[[vip]]`, a `[[service]]`, or a `[[pool]]` for the cluster.
    #[schemars(extend("x-example" = "true"))]
    pub freebind: Option<bool>,
    /// The directory of lb-proxy's state: decisions of operators about servers, and the last answers for their names. lb-proxy continues from it after a restart,
    /// and makes it when there is something to keep.
    #[schemars(extend("x-reload" = "restart"))]
    pub state: PathBuf,
    /// How long lb-proxy may take to stop. It first gives its virtual IPs to other nodes, then waits for connections
    /// to end. A swap does not use this time.
    pub drain: HumanDuration,
    /// The log.
    pub log: Log,
    /// The admin listener. It also answers `/sessions`, `/sources` and `/backends`.
    pub admin: Admin<ADMIN_PORT>,
    /// Liveness of servers.
    pub health: Health,
    /// The Kubernetes cluster whose nodes join backends and leave them; none without this table.
    #[schemars(extend("x-example" = CLUSTER))]
    pub cluster: Option<Cluster>,
    /// The lookups of servers that have DNS names.
    pub resolvers: Resolvers,
    /// The handover to a successor.
    pub swap: Swap,
    /// Unix sockets for HAProxy's runtime commands, as `socat`, `hatop` and exporters send them: `show info`, `show stat`,
    /// `show servers state`, `show sess`, `set server`, `set maxconn server`, `shutdown sessions server` and others;
    /// `help` lists them.
    #[schemars(extend("x-example" = STATS_SOCKETS, "x-reload" = "restart"))]
    pub stats_socket: Vec<StatsSocket>,
    /// Pages that say whether this proxy serves, for probes that ask for HAProxy's `monitor-uri`: OpenShift's ask for
    /// `/haproxy_ready` on port 9444. The answer is 200, or 503 while the process drains or a backend lacks servers.
    #[schemars(extend("x-example" = MONITORS, "x-reload" = "restart"))]
    pub monitor: Vec<Monitor>,
    /// A record of each session.
    pub access_log: AccessLog,
    /// The numbers of virtual routers in OpenShift.
    pub openshift: OpenShift,
    /// The kernel's data path.
    pub kernel: Kernel,
    /// The addresses that clients connect to.
    #[schemars(extend("x-example" = FRONTENDS))]
    pub frontend: Vec<Frontend>,
    /// Groups of servers.
    #[schemars(extend("x-example" = BACKENDS))]
    pub backend: Vec<Backend>,
    /// Virtual IPs: addresses that one of several nodes holds (VRRP, RFC 9568). keepalived and other VRRP routers can
    /// take part. They need `CAP_NET_ADMIN` and `CAP_NET_RAW`. Before lb-proxy removes an address, it resets every
    /// connection to it, also those of the kernel's data path.
    #[schemars(extend("x-example" = VIPS))]
    pub vip: Vec<Vip>,
    /// Addresses for services. Every node computes the same assignment, in the order of this file.
    #[schemars(extend("x-example" = POOLS))]
    pub pool: Vec<Pool>,
    /// Services of type `LoadBalancer`: an address, its virtual router, and a frontend for each port. Without a port
    /// lb-proxy only advertises the address, and other software forwards.
    #[schemars(extend("x-example" = SERVICES))]
    pub service: Vec<Service>,
}

impl LbProxy {
    /// The same, with the slow start that a role brings written out.
    #[must_use]
    pub fn with_roles(&self) -> Self {
        let mut file = self.clone();
        for name in self.backends_of(Role::Api) {
            let mut backends = file.backend.iter_mut();
            if let Some(backend) = backends.find(|backend| backend.name == name) {
                let default = HumanDuration(API_SLOW_START);
                backend.slow_start.get_or_insert(default);
            }
        }
        file
    }

    /// The backends that frontends of a role lead to. One that is routed to has another role, unless its frontend has no
    /// other backend.
    pub fn backends_of(&self, role: Role) -> impl Iterator<Item = &str> {
        let frontends = self.frontend.iter();
        let frontends = frontends.filter(move |frontend| frontend.role == role);
        frontends.flat_map(|frontend| {
            let routes = match frontend.backend {
                Some(_) => &[],
                None => frontend.route.as_slice(),
            };
            let routed = routes.iter().map(|route| &*route.backend);
            frontend.backend.as_deref().into_iter().chain(routed)
        })
    }
}

impl Default for LbProxy {
    fn default() -> Self {
        Self {
            workers: 0,
            max_connections: None,
            receive_buffer: SizeWithin::clamped(6 << 20),
            freebind: None,
            state: "/var/lib/outpost/lb-proxy".into(),
            drain: HumanDuration(Duration::from_secs(10)),
            log: Log::default(),
            admin: Admin::default(),
            health: Health::default(),
            cluster: None,
            resolvers: Resolvers::default(),
            swap: Swap::default(),
            stats_socket: Vec::new(),
            monitor: Vec::new(),
            access_log: AccessLog::default(),
            openshift: OpenShift::default(),
            kernel: Kernel::default(),
            frontend: Vec::new(),
            backend: Vec::new(),
            vip: Vec::new(),
            pool: Vec::new(),
            service: Vec::new(),
        }
    }
}

/// Liveness of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// The address of healthd, or `"none"`: then every server counts as up.
    #[serde(alias = "socket")]
    #[schemars(with = "String", extend("x-type" = "unix:/path, http://ADDRESS:PORT or none", "x-reload" = "restart"))]
    pub endpoint: HealthdArg,
    /// The time without healthd after which lb-proxy probes the servers itself; until then healthd's last states hold. While
    /// it does, `/readyz` and a metric say so, and healthd's word counts again when it is back.
    pub stand_in_after: StandInAfter,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            endpoint: HealthdArg::default(),
            stand_in_after: stand_in_after(),
        }
    }
}

/// The Kubernetes cluster whose nodes join backends and leave them, and whose Services have addresses of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The Unix socket of clusterd. While clusterd is away, the servers stay as they are; without a first report they are
    /// those of this file.
    #[schemars(extend("x-reload" = "restart"))]
    pub socket: PathBuf,
    /// The networks of addresses with which nodes may join. Virtual IPs of this file in them may not.
    #[schemars(extend("x-example" = "[\"192.168.7.0/24\"]"))]
    pub networks: Vec<Network>,
    /// The name of this node in the cluster, for Services whose traffic stays on its node (`externalTrafficPolicy: Local`).
    /// Default: the name of the host.
    #[schemars(extend("x-example" = "\"master-0\"", "x-reload" = "restart"))]
    pub node: Option<String>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            socket: crate::clusterd::SOCKET.into(),
            networks: Vec::new(),
            node: None,
        }
    }
}

/// The handover to a successor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Swap {
    /// The socket of the handover; `"none"` turns handover off. A process that starts while another one serves this
    /// socket takes over its listeners and connections, and loses none.
    #[schemars(extend("x-reload" = "restart"))]
    pub socket: SwapSocket,
}

impl Swap {
    /// The socket, unless handover is off.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.0.as_deref()
    }

    /// A handover at a socket.
    #[must_use]
    pub const fn at(socket: PathBuf) -> Self {
        Self {
            socket: SwapSocket(Some(socket)),
        }
    }
}

/// A record of each session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AccessLog {
    /// The destination: `"off"`, `"stdout"`, or a file. lb-proxy opens the file again on SIGHUP.
    pub target: LogTarget,
    /// The form of a record.
    pub format: RecordFormat,
}

/// The form of a record in the access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// A line like HAProxy's tcplog.
    #[serde(alias = "tcplog")]
    Text,
}

/// The numbers of virtual routers in OpenShift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OpenShift {
    /// The cluster's name. lb-proxy computes the numbers of its virtual routers from it.
    #[schemars(extend("x-example" = "\"ocp4\""))]
    pub cluster: Option<String>,
    /// Whether OpenShift's own keepalived runs on the same links and uses these numbers itself.
    pub keepalived: bool,
}

/// The kernel's data path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kernel {
    /// The nftables table of `path = "kernel"`. A second proxy on the same node needs another one.
    #[schemars(extend("x-reload" = "restart"))]
    pub table: TableName,
    /// Whether established connections use a flow table, if the kernel has one (`NF_FLOW_TABLE`, as Debian's and Red
    /// Hat's have). They bypass routing and all rules, and cost about as much as plain routing. Other rules of this
    /// node see only the beginning and the end of such a connection: set it to `false` if rules must count or filter
    /// every forwarded packet.
    #[schemars(extend("x-reload" = "restart"))]
    pub flow_table: bool,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            table: TableName::default(),
            flow_table: true,
        }
    }
}

//--- Examples of the manual

/// The nodes of a cluster.
const CLUSTER: &str = r#"
[cluster]
networks = ["192.168.7.0/24"]
"#;

/// A socket for HAProxy's runtime commands.
const STATS_SOCKETS: &str = r#"
[[stats-socket]]
path = "/run/outpost/lb-proxy/haproxy.sock"
level = "admin"
"#;

/// The pages of an on-premises installation of OpenShift.
const MONITORS: &str = r#"
[[monitor]]
listen = ["0.0.0.0:9444", "[::]:9444"]
path = "/haproxy_ready"

[[monitor]]
listen = ["0.0.0.0:9454", "[::]:9454"]
path = "/haproxy_monitor"
needs = [{ backend = "api", servers = 1 }]
"#;

/// Frontends of every kind.
const FRONTENDS: &str = r#"
[[frontend]]
name = "api"
listen = ["0.0.0.0:6443", "[::]:6443"]
role = "api"
backend = "api"
allow-from = ["192.168.7.0/24", "!192.168.7.9"]
limits = { connections = 100, rate = "50/s", sources = 65536 }
max-connections = 10000
client = { keepalive = { idle = "30s", interval = "10s", count = 3 }, user-timeout = "1m" }

[[frontend]]
name = "mcs"
listen = ["0.0.0.0:22623", "[::]:22623"]
backend = "mcs"

[[frontend]]
name = "ingress"
listen = ["0.0.0.0:443", "[::]:443"]
role = "ingress"
backend = "ingress"
accept-proxy = "optional"
inspect-timeout = "5s"
[[frontend.route]]
names = ["*.apps.ocp4.redhat.ren"]
backend = "ingress"

[[frontend]]
name = "syslog"
listen = ["0.0.0.0:514"]
protocol = "udp"
backend = "syslog"
flows = { idle = "30s", most = 65536, requests = 100, responses = 1 }

[[frontend]]
name = "registry"
listen = ["192.168.7.100:5443"]
path = "kernel"
backend = "registry"
masquerade = true
"#;

/// Backends for them.
const BACKENDS: &str = r#"
[[backend]]
name = "api"
on-down = "reset"
check = { kind = "https", path = "/readyz", verify = "none", status = 200, interval = "2s", fall = 3 }
[[backend.server]]
name = "master-0"
address = "192.168.7.13:6443"
[[backend.server]]
name = "master-1"
address = "192.168.7.14:6443"
max-connections = 1000
[[backend.server]]
name = "master-2"
address = "192.168.7.15:6443"
check-port = 6443

[[backend]]
name = "mcs"
[[backend.server]]
name = "master-0"
address = "192.168.7.13:22623"

[[backend]]
name = "ingress"
balance = "source"
source-address = "192.168.7.13"
[[backend.server]]
name = "master-0"
address = "192.168.7.13:443"

[[backend]]
name = "syslog"
check = "none"
[[backend.server]]
name = "master-0"
address = "192.168.7.13:514"

[[backend]]
name = "registry"
[[backend.server]]
name = "master-0"
address = "192.168.7.13:5443"

[[backend]]
name = "web"
[[backend.server]]
name = "web"
address = "_http._tcp.web.ocp4.redhat.ren"
servers = 8
[[backend.server]]
name = "spare"
address = "spare.ocp4.redhat.ren:80"
resolve-prefer = "ipv4"
backup = true
"#;

/// A virtual IP.
const VIPS: &str = r#"
[[vip]]
name = "api"
addresses = ["192.168.7.100/24"]
interface = "eth0"
router-id = 51
peers = ["192.168.7.14", "192.168.7.15"]
source = "192.168.7.13"
track = ["frontend:api"]
weigh = [{ what = "backend:ingress", weight = 10, rise = "10s", fall = "0s" }]
announce = { count = 5, again-after = "5s", refresh = "3s" }
notify = "/usr/local/bin/vip-moved"
"#;

/// Addresses for services.
const POOLS: &str = r#"
[[pool]]
name = "lan"
addresses = ["192.168.7.200-192.168.7.220"]
interface = "eth0"
peers = ["192.168.7.14", "192.168.7.15"]
"#;

/// A service of them.
const SERVICES: &str = r#"
[[service]]
name = "demo/web"
pool = "lan"
address = "192.168.7.200"
[[service.port]]
port = 443
backend = "ingress"
"#;

#[cfg(test)]
mod tests;
