//! `[[backend]]`.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::frontend::Side;
use super::{Port, ServerAddress, Time};
use crate::healthd::Verify;
use crate::nodes::ClusterNodes;
use crate::{CheckStep, DurationWithin, Every, HumanDuration, Ip, Positive, Whole};

/// The heaviest weight of a server.
pub const MAX_WEIGHT: u16 = 256;

/// The most servers of one DNS name.
pub const MAX_FOUND: u16 = 128;

/// The shortest interval between probes, in milliseconds: a probe costs its target something too.
pub const MIN_INTERVAL: u64 = 100;

/// A group of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backend {
    /// The name in logs, metrics and on the command line: letters, digits and `-` `_` `.` `:` `/`.
    pub name: String,
    /// The choice of a server. Default: that of the frontend's `role`; else `source` for datagrams, and `round-robin`.
    #[serde(default)]
    pub balance: Option<Balance>,
    /// How healthd probes each server, or `"none"`. Equal checks of several backends share one probe. Default: that of
    /// the frontend's `role`; else `tcp`, and none for datagrams. OpenShift: take an API server out within 30 s after
    /// `/readyz` fails.
    #[serde(default, deserialize_with = "check_or_none")]
    #[schemars(schema_with = "check_schema")]
    pub check: Option<HealthCheck>,
    /// Sessions of a server that goes down or into maintenance. Default: that of the frontend's `role`; else `finish`.
    #[serde(default)]
    pub on_down: Option<OnDown>,
    /// Sessions of backup servers when a normal server comes up. Not with `path = "kernel"`.
    #[serde(default)]
    pub on_up: OnUp,
    /// The PROXY header for servers. healthd's probes have none: probe http, https and grpc at a port that does not
    /// require one.
    #[serde(default)]
    pub send_proxy: SendProxy,
    /// Whether lb-proxy chooses among all servers when every server is down.
    #[serde(default)]
    pub fail_open: bool,
    /// Whether lb-proxy uses all backup servers that are up, instead of the first alone.
    #[serde(default)]
    pub all_backups: bool,
    /// How long a server that was down takes to reach its whole weight. Its share of new connections grows meanwhile.
    /// Default: that of the frontend's `role`; else none.
    #[serde(default)]
    pub slow_start: Option<HumanDuration>,
    /// The largest number of sessions of each server, unless the server has its own. Default: no limit.
    #[serde(default)]
    pub max_connections: Option<Positive<u32>>,
    /// The largest number of connections that wait for a server with room.
    #[serde(default = "queue")]
    pub queue: u32,
    /// How long they wait.
    #[serde(default = "queue_timeout")]
    pub queue_timeout: Time,
    /// How long one attempt to connect may take. After a failed attempt lb-proxy tries another server at once.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Time,
    /// Once more than this many attempts have failed, the next timeout is the last; servers that refuse cost no time,
    /// and lb-proxy tries up to 15 of them whatever `retries` is. When every server has failed and `retries` allows
    /// more, lb-proxy tries them again after a second.
    #[serde(default = "retries")]
    pub retries: u8,
    /// The time after which lb-proxy ends a session in which no data moves. Data moves as long as a peer acknowledges
    /// some; one with data still to take has 10 s at least.
    #[serde(default)]
    pub idle_timeout: Every,
    /// The same for a client whose server has closed, once the client has all data; `"0s"`: `idle-timeout` applies.
    #[serde(default)]
    pub client_fin: HumanDuration,
    /// The same for a server whose client has closed, once the server has all data; `"0s"`: `idle-timeout` applies.
    #[serde(default)]
    pub server_fin: HumanDuration,
    /// The source address of connections to servers. Default: the kernel chooses.
    #[serde(default)]
    pub source_address: Option<Ip>,
    /// TCP options of the server's side.
    #[serde(default)]
    pub connection: Side,
    /// The nodes of the cluster that join the servers, and leave them again. They have the defaults of a server. The servers of
    /// this file stay, whatever the cluster says. A node that is cordoned, or whose deletion has begun, takes no new
    /// connections as long as another server does. The loss of more than half of the servers counts after 5 minutes. It needs
    /// `[cluster]`.
    #[serde(default)]
    #[schemars(extend("x-example" = "{ nodes = [\"masters\"], port = 6443 }"))]
    pub follow: Option<Follow>,
    /// The servers.
    #[serde(default)]
    pub server: Vec<Server>,
}

/// The nodes of the cluster that join a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Follow {
    /// The nodes.
    pub nodes: Vec<ClusterNodes>,
    /// The port of the servers that they become.
    pub port: Port,
}

const fn queue() -> u32 {
    1024
}

fn queue_timeout() -> Time {
    Time::clamped(Duration::from_mins(1))
}

fn connect_timeout() -> Time {
    Time::clamped(Duration::from_secs(5))
}

const fn retries() -> u8 {
    3
}

impl Backend {
    /// The most servers that it can have by what is written.
    #[must_use]
    pub fn most_servers(&self) -> usize {
        let servers = self.server.iter();
        servers
            .map(|server| usize::from(server.servers.map_or(1, Whole::get)))
            .sum()
    }

    /// A backend without servers, with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            balance: None,
            check: None,
            on_down: None,
            on_up: OnUp::default(),
            send_proxy: SendProxy::default(),
            fail_open: false,
            all_backups: false,
            slow_start: None,
            max_connections: None,
            queue: queue(),
            queue_timeout: queue_timeout(),
            connect_timeout: connect_timeout(),
            retries: retries(),
            idle_timeout: Every(None),
            client_fin: HumanDuration::default(),
            server_fin: HumanDuration::default(),
            source_address: None,
            connection: Side::default(),
            follow: None,
            server: Vec::new(),
        }
    }
}

/// The choice of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// One after the other, by weight.
    // One look-up while servers have room.
    #[default]
    RoundRobin,
    /// The server with the fewest sessions for its weight; between equals, the one that was chosen the longest ago.
    // Looks at every server.
    LeastConnections,
    /// The less busy of two servers that are drawn by weight.
    // Two look-ups.
    RandomOfTwo,
    /// The same server for a source as long as that server is up and has room, on every node (Maglev).
    // One look-up, one more for each server met that is not there.
    Source,
}

/// Sessions of a server that goes away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnDown {
    /// lb-proxy resets both sides at once, so that clients connect again instead of waiting.
    Reset,
    /// They continue as long as they can.
    #[default]
    Finish,
}

/// Sessions of backup servers that are not needed any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnUp {
    /// lb-proxy resets both sides at once, so that clients connect again.
    Reset,
    /// They continue as long as they can.
    #[default]
    Finish,
}

/// The PROXY header for servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SendProxy {
    /// None.
    #[default]
    No,
    /// Version 1, text.
    V1,
    /// Version 2, binary. It also passes on the TLVs of the client's own header.
    V2,
}

/// A server of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// The name in logs, metrics and on the command line: letters, digits and `-` `_` `.` `:` `/`.
    pub name: String,
    /// The IP address and port, or a DNS name: `"web.example:80"`, or `"_http._tcp.web.example"` for SRV records. `[resolvers]`
    /// says who resolves it. lb-proxy follows the answers: when the address changes, new connections go to the new one, and
    /// sessions with the old one continue.
    pub address: ServerAddress,
    /// The most servers that a DNS name stands for. With it, each address of the name is a server, `NAME-ADDRESS`; with
    /// SRV records, whose ports count, `NAME-ADDRESS:PORT`. `weight` is that of the heaviest record, the others are in proportion,
    /// and records of a worse priority are backup servers. Default: one server, `NAME`, with one of the addresses.
    #[serde(default)]
    pub servers: Option<Whole<u16, 1, { MAX_FOUND as i64 }>>,
    /// The addresses that a DNS name with both kinds stands for.
    #[serde(default)]
    pub resolve_prefer: ResolvePrefer,
    /// The share of connections; a server with 0 gets none.
    #[serde(default = "weight")]
    pub weight: Whole<u16, 0, { MAX_WEIGHT as i64 }>,
    /// Whether it gets connections only while no other server is up.
    #[serde(default)]
    pub backup: bool,
    /// The largest number of sessions. Default: the backend's. `lb-proxy backend max-connections` changes it for a while.
    #[serde(default)]
    pub max_connections: Option<Positive<u32>>,
    /// How long it takes to reach its whole weight after it was down. Default: the backend's.
    #[serde(default)]
    pub slow_start: Option<HumanDuration>,
    /// Whether healthd probes it.
    #[serde(default = "crate::yes")]
    pub check: bool,
    /// The port to probe. Default: the check's; else the server's own.
    #[serde(default)]
    pub check_port: Option<Port>,
    /// Whether it is out of service until `lb-proxy backend ready BACKEND/SERVER`.
    #[serde(default)]
    pub maintenance: bool,
}

fn weight() -> Whole<u16, 0, { MAX_WEIGHT as i64 }> {
    Whole::clamped(100)
}

impl Server {
    /// A server with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, address: impl Into<ServerAddress>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            servers: None,
            resolve_prefer: ResolvePrefer::default(),
            weight: weight(),
            backup: false,
            max_connections: None,
            slow_start: None,
            check: true,
            check_port: None,
            maintenance: false,
        }
    }
}

/// The addresses of a DNS name with both kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResolvePrefer {
    /// The IPv4 addresses.
    Ipv4,
    /// The IPv6 addresses.
    #[default]
    Ipv6,
}

//--- Checks

/// How healthd probes servers. The kind decides which of the later keys are allowed. The schedule is healthd's; one that is
/// given here only tightens it, and makes a view for lb-proxy, a deviation in `healthd status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HealthCheck {
    /// The kind of the probe. Default: `https` with `role = "api"`; else `tcp`, and `none` for datagrams.
    pub kind: Option<Kind>,
    /// The port to probe. Default: the server's.
    pub port: Option<Port>,
    /// The time from the start of a probe to the start of the next. Default: healthd's.
    pub interval: Option<DurationWithin<MIN_INTERVAL>>,
    /// The interval while results contradict the state but do not change it yet. Default: healthd's.
    pub fast_interval: Option<Time>,
    /// The time for one probe. Default: healthd's.
    pub timeout: Option<Time>,
    /// The good results in a row that make a server up. Default: healthd's.
    pub rise: Option<Positive<u32>>,
    /// The bad results in a row that make a server down. Default: healthd's.
    pub fall: Option<Positive<u32>>,
    /// `tcp-check`: the steps of the conversation, at most 64 of 4096 bytes each. Default: none, so that it is as `tcp`.
    #[schemars(extend("x-example" = "[{ send = \"PING\\r\\n\" }, { expect = \"+PONG\" }]"))]
    pub steps: Option<Vec<CheckStep>>,
    /// `http`, `https`: the method. Default: `GET`.
    pub method: Option<String>,
    /// `http`, `https`: the path with its query. Default: `/readyz` with `role = "api"`; else `/`.
    pub path: Option<String>,
    /// `http`, `https`: the Host header, and over TLS the server's name. Default: the address.
    pub host: Option<String>,
    /// `http`, `https`: the status that means up. Default: 200.
    pub status: Option<Whole<u16, 100, 999>>,
    /// `http`, `https`: a text that the body must contain. Default: none.
    pub body: Option<String>,
    /// `https`: the authorities: `system`, those of a `ca` file, or `none`. Default: `none` with `role = "api"`, whose
    /// certificates are the cluster's own; else `system`.
    pub verify: Option<Verify>,
    /// `https`: a PEM file of authorities on healthd's node.
    pub ca_file: Option<String>,
    /// `grpc`: the name of the service. Default: the server as a whole.
    pub service: Option<String>,
    /// `dns`: the name to query. Default: the root.
    pub name: Option<String>,
}

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No probe: the server counts as up.
    None,
    /// Up when the connection is accepted.
    Tcp,
    /// Up when what is sent over TCP gets the answers that are expected.
    #[serde(rename = "tcp-check")]
    TcpCheck,
    /// Up when the response has the status, and the text if one is given.
    Http,
    /// As `http`, over TLS.
    Https,
    /// Up when `grpc.health.v1.Health/Check` says SERVING.
    Grpc,
    /// Up when the server answers over UDP.
    Dns,
    /// Up when the server answers that its clock is synchronised.
    Ntp,
}

impl Kind {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Tcp => "tcp",
            Self::TcpCheck => "tcp-check",
            Self::Http => "http",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Dns => "dns",
            Self::Ntp => "ntp",
        }
    }
}

/// Reads a check that may be written as `"none"`.
fn check_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<HealthCheck>, D::Error> {
    deserializer.deserialize_any(CheckVisitor).map(Some)
}

fn check_schema(generator: &mut SchemaGenerator) -> Schema {
    let table = generator.subschema_for::<HealthCheck>();
    json_schema!({ "anyOf": [table, { "const": "none" }, { "type": "null" }] })
}

struct CheckVisitor;

impl<'de> Visitor<'de> for CheckVisitor {
    type Value = HealthCheck;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a table, or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<HealthCheck, E> {
        match text {
            "none" => Ok(HealthCheck {
                kind: Some(Kind::None),
                ..HealthCheck::default()
            }),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HealthCheck, A::Error> {
        HealthCheck::deserialize(MapAccessDeserializer::new(map))
    }
}
