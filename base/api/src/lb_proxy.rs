//! The answers of lb-proxy: its status, its sessions, the sources of its frontends, and its operators' decisions.

use std::collections::BTreeMap;
use std::fmt;

use config_text::counted;
use health::{AdminState, Liveness};
use serde::{Deserialize, Serialize};

use crate::Terms;

/// The detail of lb-proxy's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Sessions now.
    pub sessions: u64,
    /// The largest number of sessions at a time.
    pub most_sessions: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// The frontends.
    pub frontends: Vec<Frontend>,
    /// The backends.
    pub backends: Vec<Backend>,
    /// The virtual addresses.
    pub vips: Vec<Vip>,
    /// Services that have an address of a pool.
    pub services: Vec<Service>,
    /// The kernel's rules; none when the kernel forwards nothing.
    pub kernel: Option<Kernel>,
    /// The connection to healthd; none when lb-proxy does not use it.
    pub healthd: Option<Healthd>,
    /// The cluster whose nodes join backends; none when lb-proxy follows none.
    #[serde(default)]
    pub cluster: Option<Cluster>,
    /// The names of servers; none when no server has one.
    #[serde(default)]
    pub resolving: Option<Resolving>,
}

/// The protocol of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The protocol in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The path of a frontend's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// Through this process.
    User,
    /// Through the kernel's rules.
    Kernel,
}

impl Path {
    /// The path in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

/// A frontend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frontend {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its path.
    pub path: Path,
    /// Its addresses.
    pub listen: Vec<String>,
    /// Whether a server can take its connections; none while that is unknown.
    pub able: Option<bool>,
    /// Flows now, of a UDP frontend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u64>,
    /// Flows since the start, of a UDP frontend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows_opened: Option<u64>,
    /// Its counters.
    #[serde(flatten)]
    pub tally: Option<FrontendTally>,
}

/// The counters of a frontend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontendTally {
    /// Sessions now.
    pub sessions: u64,
    /// The most sessions that there were at a time.
    pub most_sessions: u64,
    /// Sessions since the start.
    pub total: u64,
    /// Connections from networks that may not connect.
    pub denied: u64,
    /// Connections of sources above their limit.
    pub limited: u64,
    /// Connections that a rule rejected.
    pub rejected: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// How many of its servers can be chosen.
    pub usable: usize,
    /// Sessions that wait for a server.
    pub queued: u32,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// A server of a backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its IP address and port.
    pub address: String,
    /// Its state in a word.
    pub state: Option<String>,
    /// Seconds since the state changed.
    pub since_seconds: Option<u64>,
    /// Whether new sessions go to it.
    pub chosen: bool,
    /// The reason, in words.
    pub why: String,
    /// Whether the configuration, the cluster or a DNS name has it; none for one that is written in a backend that follows no
    /// nodes.
    #[serde(default)]
    pub origin: Option<Origin>,
    /// The decisions of operators about it.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// Seconds until it is tried again, if its last connections failed and healthd says nothing of it.
    #[serde(default)]
    pub avoided_seconds: Option<f64>,
    /// healthd's last result; none for a server that is not probed.
    pub probe: Option<Probe>,
    /// Its weight.
    pub weight: u16,
    /// Whether it takes sessions only when no other server can.
    pub backup: bool,
    /// Sessions now.
    pub sessions: u32,
    /// The largest number of sessions.
    pub limit: Option<u32>,
    /// Sessions since the start.
    pub total: u64,
    /// Connections that failed.
    pub connect_errors: u64,
    /// Connections that the server reset.
    pub resets: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// The origin of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The configuration has it, and the cluster has no such node.
    Written,
    /// The cluster has it alone.
    Learned,
    /// The configuration has it, and it is a node of the cluster.
    Both,
    /// The configuration has a DNS name, which has its address.
    Resolved,
}

/// An operator's decision about a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The decision in words, such as `drain` or `weight 20`.
    pub decided: String,
    /// Its terms.
    #[serde(flatten)]
    pub terms: Terms,
}

/// healthd's last result about a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The target, such as `tcp 192.0.2.13:6443`.
    pub target: String,
    /// Its liveness; none while healthd has said nothing.
    pub liveness: Option<Liveness>,
    /// The operator's decision.
    pub admin: Option<AdminState>,
    /// The result in words.
    pub reason: Option<String>,
    /// The duration of the probe, in milliseconds.
    pub latency_ms: Option<f64>,
}

/// A virtual address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// The virtual router identifier (RFC 9568 §5.2.3).
    pub router_id: u8,
    /// The addresses.
    pub addresses: Vec<String>,
    /// `active`, `backup`, `initialize` or `fault`.
    pub state: String,
    /// Seconds since the state changed.
    pub since_seconds: Option<u64>,
    /// The priority (RFC 9568 §5.2.4).
    pub priority: u8,
    /// Why the router may not be active.
    pub faults: Vec<String>,
    /// The address of the active router.
    pub active: Option<String>,
    /// The priority of the active router.
    pub active_priority: Option<u8>,
    /// Whether a successor takes the address over.
    pub handing_over: bool,
    /// Advertisements sent.
    pub advertisements_sent: u64,
    /// Advertisements received.
    pub advertisements_received: u64,
    /// How often this router became active.
    pub became_active: u64,
    /// How often another node had the address too.
    pub duplicates: u64,
    /// The lease: `own`, `held by NODE`, `free`, or `none` and why; absent where the address needs none.
    #[serde(default)]
    pub lease: Option<String>,
    /// Advertisements of others that this node's lease overruled.
    #[serde(default)]
    pub overruled: u64,
}

/// A service that has addresses of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The pool.
    pub pool: String,
    /// The addresses.
    pub addresses: Vec<String>,
}

/// The kernel's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Changes that were made.
    pub changes: u64,
    /// Changes that failed.
    pub failures: u64,
    /// Rules that were put back.
    pub repairs: u64,
    /// Connections that were ended because their server is gone.
    pub forgotten: u64,
    /// The last error.
    pub error: Option<String>,
    /// The flow table; none when it is not used.
    pub flow_table: Option<FlowTable>,
    /// Connections by frontend and server.
    pub connections: Vec<Connections>,
    /// Sessions by frontend.
    pub sessions: BTreeMap<String, u64>,
}

/// The kernel's flow table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTable {
    /// Whether established connections use it.
    pub used: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<String>>,
}

/// Connections that the kernel has sent to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// The frontend.
    pub frontend: String,
    /// The server.
    pub server: String,
    /// Their number since the rules were made.
    pub total: u64,
}

/// The connection to healthd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Healthd {
    /// Whether it is connected.
    pub connected: bool,
    /// The last error of the connection.
    pub error: String,
    /// Seconds since the last snapshot.
    pub age_seconds: Option<f64>,
    /// The generation of the snapshot in use; 0 while it is none of healthd's.
    pub generation: u64,
    /// Whether lb-proxy probes the servers itself, because healthd is away.
    #[serde(default)]
    pub stand_in: bool,
}

//--- Names

/// The names of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resolving {
    /// The DNS servers.
    pub nameservers: Vec<String>,
    /// The servers of the configuration that have names.
    pub names: Vec<Named>,
}

/// A server of the configuration that has a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// The backend.
    pub backend: String,
    /// The server, as it is written.
    pub server: String,
    /// The name, with the port if it is one of a host.
    pub name: String,
    /// How many servers it stands for now.
    pub servers: usize,
    /// The most servers that it stands for.
    pub most: usize,
    /// `asking`, `found`, `no such name`, `no addresses` or `failed`.
    pub state: String,
    /// Why the last lookup failed; the servers are those of an earlier one.
    #[serde(default)]
    pub error: Option<String>,
    /// Seconds since the last answer.
    pub age_seconds: Option<f64>,
}

impl fmt::Display for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backend,
            server,
            name,
            servers,
            state,
            ..
        } = self;
        write!(formatter, "{backend}/{server} is {name}: {state}")?;
        if let Some(error) = &self.error {
            write!(formatter, " ({error})")?;
        }
        let servers = counted(*servers, "server");
        write!(formatter, ", {servers} of {} at most", self.most)?;
        match self.age_seconds {
            Some(age) => write!(formatter, ", answered {age:.0} s ago"),
            None => Ok(()),
        }
    }
}

//--- Cluster

/// The cluster whose nodes join backends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Whether clusterd is connected.
    pub connected: bool,
    /// The last error of the connection.
    pub error: String,
    /// Seconds since the last snapshot.
    pub age_seconds: Option<f64>,
    /// The generation of the last snapshot.
    pub generation: u64,
    /// The backends that follow nodes.
    pub backends: Vec<Followed>,
    /// Services of the cluster with an address of a pool, or ports of them, that are not served.
    #[serde(default)]
    pub refused_services: Vec<RefusedService>,
}

/// A Service that is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedService {
    /// Its namespace and name, or what of it.
    pub service: String,
    /// Why.
    pub why: String,
}

/// A backend that follows nodes of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Its name.
    pub backend: String,
    /// The nodes: `masters`, `workers`, `ingress`.
    pub nodes: Vec<String>,
    /// Nodes that may not join.
    pub refused: Vec<RefusedNode>,
    /// A loss of servers that does not count yet.
    pub held: Option<HeldLoss>,
}

/// A node that may not join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedNode {
    /// The name of the node.
    pub node: String,
    /// The reason.
    pub why: String,
}

/// A loss of more than half of the servers, which counts once it has lasted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLoss {
    /// The addresses of the servers that would take no new connections.
    pub servers: Vec<String>,
    /// How many servers take new connections now.
    pub of: usize,
    /// Seconds until the loss counts, if it lasts.
    pub seconds: u64,
}

//--- Sessions

/// An entry of the answer of `GET /sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Session {
    /// A session that the kernel forwards.
    Forwarded(Forwarded),
    /// A flow of a UDP frontend.
    Flow(Flow),
    /// A session through this process.
    Relayed(Relayed),
}

/// A session through this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relayed {
    /// Its number.
    pub id: u64,
    /// The frontend.
    pub frontend: String,
    /// The backend.
    pub backend: Option<String>,
    /// The server.
    pub server: Option<String>,
    /// The server's address.
    pub server_address: Option<String>,
    /// The client's address.
    pub client: String,
    /// The proxy's own address towards the server.
    pub local: Option<String>,
    /// The state in a word.
    pub state: String,
    /// Seconds since the client connected.
    pub age_seconds: f64,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
}

/// A flow of a UDP frontend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The frontend.
    pub frontend: String,
    /// The server.
    pub server: String,
    /// The server's address.
    pub server_address: String,
    /// The client's address.
    pub client: String,
    /// The proxy's own address towards the server.
    pub local: Option<String>,
    /// `flow`.
    pub state: String,
    /// Seconds since the last datagram.
    pub idle_seconds: f64,
    /// Datagrams from the client.
    pub requests: u64,
    /// Datagrams to the client.
    pub responses: u64,
}

/// A session that the kernel forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// `kernel`.
    pub path: Path,
    /// The frontend.
    pub frontend: String,
    /// The backend.
    pub backend: Option<String>,
    /// The server.
    pub server: Option<String>,
    /// The server's address.
    pub server_address: String,
    /// The client's address.
    pub client: String,
    /// The address that the client connected to.
    pub local: String,
    /// The state of the connection in a word.
    pub state: String,
}

/// The answer of `POST /sessions/kill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// How many sessions were reset.
    pub killed: u64,
}

//--- Sources and overrides

/// The sources of a frontend with limits, in the answer of `GET /sources`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// The most connections of a source at a time.
    pub most_connections: Option<u32>,
    /// The most connections that a source may begin in a period.
    pub most_rate: Option<u32>,
    /// The period, in seconds.
    pub period_seconds: Option<f64>,
    /// How many sources the table can hold.
    pub room: usize,
    /// The busiest sources.
    pub sources: Vec<Source>,
}

/// A source of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its address or network.
    pub address: String,
    /// Its connections now.
    pub connections: u32,
    /// The connections that it began in the period.
    pub rate: u32,
}

/// An operator's decision about a server, in the answer of `GET /backends/overrides`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The backend.
    pub backend: String,
    /// The server.
    pub server: String,
    /// The state that an operator gave it.
    #[serde(default)]
    pub state: Option<AdminState>,
    /// The terms of the state.
    #[serde(default)]
    pub state_terms: Terms,
    /// The weight that an operator gave it.
    #[serde(default)]
    pub weight: Option<u16>,
    /// The terms of the weight.
    #[serde(default)]
    pub weight_terms: Terms,
    /// The limit of sessions that an operator gave it.
    #[serde(default)]
    pub max_connections: Option<u32>,
    /// The terms of the limit.
    #[serde(default)]
    pub max_connections_terms: Terms,
}
