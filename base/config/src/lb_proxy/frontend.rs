//! `[[frontend]]`.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Time;
use super::text::Rate;
use crate::{Address, HumanDuration, Networks, Positive, Whole};

/// An address that clients connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Frontend {
    /// The name in logs, metrics and on the command line: letters, digits and `-` `_` `.` `:` `/`. lb-proxy uses
    /// sockets that systemd hands over under this name instead of `listen`.
    pub name: String,
    /// The addresses with their ports.
    pub listen: Vec<Address>,
    /// The role in OpenShift. It sets defaults of the frontend's backends. `api`: `balance = "least-connections"`, a
    /// check of https `/readyz`, `on-down = "reset"`, `slow-start = "1m"`: a master that was started again says that it is
    /// ready before its network is. `ingress`: `balance = "source"`; a router that stops gracefully
    /// finishes its sessions.
    #[serde(default)]
    pub role: Role,
    /// The backend of every connection that no route matches.
    #[serde(default)]
    pub backend: Option<String>,
    /// Routes by the server name (SNI) and the application protocols (ALPN) in a TLS ClientHello; lb-proxy decrypts
    /// nothing. A connection without one takes `backend`.
    #[serde(default)]
    pub route: Vec<Route>,
    /// The route that a connection takes if several match: the closest (the first with `protocols`; else an exact name,
    /// the longest pattern, the first of `matches`), or the first in the file, as with HAProxy's `use_backend`.
    #[serde(default)]
    pub route_order: RouteOrder,
    /// The transport.
    #[serde(default)]
    pub protocol: Protocol,
    /// The data path.
    #[serde(default)]
    pub path: DataPath,
    /// Whether connections begin with a PROXY header (version 1 or 2). Only behind a proxy that sets it: otherwise a
    /// client can claim any address.
    #[serde(default)]
    pub accept_proxy: AcceptProxy,
    /// Networks that may connect; all when empty. `!` excludes a network; the most specific entry decides.
    #[serde(default)]
    pub allow_from: Networks,
    /// Networks that may not connect, even if `allow-from` has them.
    #[serde(default)]
    pub deny_from: Networks,
    /// Limits for one source. An IPv6 source is a /64. Default: none. `lb-proxy sources` lists the busiest.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// The largest number of sessions; further connections wait in the kernel's backlog. Default: no limit.
    #[serde(default)]
    pub max_connections: Option<Positive<u32>>,
    /// How long a client may take to send its PROXY header and its ClientHello.
    #[serde(default = "inspect_timeout")]
    pub inspect_timeout: Time,
    /// Whether the `[access-log]`, if there is one, records the sessions.
    #[serde(default = "crate::yes")]
    pub log: bool,
    /// TCP options of the client's side.
    #[serde(default)]
    pub client: Side,
    /// With `protocol = "udp"`: the end of a flow, and the number of flows.
    #[serde(default)]
    pub flows: Flows,
    /// With `path = "kernel"`: whether servers see this node's address instead of the client's. Without it, servers
    /// must route their responses through this node. With it, all clients share the ports of one address. A server that
    /// closes connections first keeps each port for a minute: beyond some 1,000 new connections a second to one server,
    /// ports collide and some connections wait a second.
    #[serde(default = "crate::yes")]
    pub masquerade: bool,
}

/// How long a client may take to send the bytes that are inspected, by default.
pub const INSPECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of sources that a frontend with limits remembers, by default: 1.6 MiB.
pub const SOURCES: usize = 65_536;

fn inspect_timeout() -> Time {
    Time::clamped(INSPECT_TIMEOUT)
}

impl Frontend {
    /// A frontend with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, listen: Vec<Address>) -> Self {
        Self {
            name: name.into(),
            listen,
            role: Role::Plain,
            backend: None,
            route: Vec::new(),
            route_order: RouteOrder::Closest,
            protocol: Protocol::Tcp,
            path: DataPath::User,
            accept_proxy: AcceptProxy::No,
            allow_from: Networks::default(),
            deny_from: Networks::default(),
            limits: None,
            max_connections: None,
            inspect_timeout: inspect_timeout(),
            log: true,
            client: Side::default(),
            flows: Flows::default(),
            masquerade: true,
        }
    }
}

/// The slow start of the API's servers: as long as OpenShift's own balancer has it. A master that was started again answers
/// `/readyz` some 30 s before its pods' network works.
pub const API_SLOW_START: Duration = Duration::from_mins(1);

/// The role of a frontend or a virtual IP in OpenShift.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// None.
    #[default]
    Plain,
    /// The API of the cluster.
    Api,
    /// Its ingress.
    Ingress,
}

/// The transport of a frontend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// The data path of a frontend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// lb-proxy itself forwards the bytes.
    #[default]
    User,
    /// The kernel does, by address translation at the cost of routing; it has no routes, PROXY headers, limits or queues,
    /// and its servers cannot be on loopback. It needs `CAP_NET_ADMIN`, `CAP_NET_RAW` (to reset clients that wait for
    /// data of a server that goes down) and the nft command.
    Kernel,
    /// As `kernel`, or `user` where these are missing.
    KernelPreferred,
}

/// Whether connections begin with a PROXY header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptProxy {
    /// They do not: bytes that look like one are data.
    #[default]
    No,
    /// A connection without one is accepted as it is.
    Optional,
    /// A connection without one is refused.
    Required,
}

/// The route that a connection takes if several match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteOrder {
    /// The first with `protocols`; else the one with the exact name, the longest pattern, or the first of `matches`.
    #[default]
    Closest,
    /// The first in the file, as HAProxy's `use_backend`.
    First,
}

/// A route by server name and application protocol. It matches if the name is one of `names` or `matches`, if there are
/// any, and the client offers one of `protocols`, if there are any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    /// The names. An exact name comes before a pattern, a longer pattern before a shorter one; `*.example.org` matches
    /// every name below `example.org`, `*` every name.
    #[serde(default)]
    pub names: Vec<String>,
    /// Regular expressions of names, without regard to case, such as `^shop-[0-9]+\\.`. They match anywhere in a name
    /// unless `^` and `$` say otherwise. A frontend has 256 at most, each of 256 KiB when compiled.
    #[serde(default)]
    pub matches: Vec<String>,
    /// Application protocols (ALPN), such as `h2` or `acme-tls/1`.
    #[serde(default)]
    pub protocols: Vec<String>,
    /// The backend.
    pub backend: String,
}

/// Limits for one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// The largest number of its connections. Default: no limit.
    pub connections: Option<Positive<u32>>,
    /// The largest rate of new ones. Default: no limit.
    pub rate: Option<Rate>,
    /// The number of sources that lb-proxy remembers, at most 16777216.
    pub sources: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: None,
            rate: None,
            sources: SOURCES,
        }
    }
}

/// The flows of a frontend for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flows {
    /// The time without a datagram after which a flow ends.
    pub idle: Time,
    /// The largest number of flows; a new flow beyond it replaces the oldest.
    pub most: Positive<usize>,
    /// The datagrams of the client after which a flow ends. Default: no limit.
    pub requests: Option<Positive<u32>>,
    /// The responses to each datagram after which a flow ends. Default: no limit.
    pub responses: Option<Positive<u32>>,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            idle: Time::clamped(Duration::from_secs(30)),
            most: Whole::clamped(65_536),
            requests: None,
            responses: None,
        }
    }
}

//--- TCP options

/// TCP options of one side of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Side {
    /// Keepalive probes of an idle connection; `false`: none.
    pub keepalive: Keepalive,
    /// How long a peer may leave data or probes of its window without an answer: then it is dead. lb-proxy ends the
    /// session at most a quarter of this time later. A peer that reads nothing and answers is slow, and its session
    /// stays. `"0s"`: the system's default.
    pub user_timeout: HumanDuration,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            keepalive: Keepalive::default(),
            user_timeout: HumanDuration(Duration::from_mins(1)),
        }
    }
}

/// Keepalive probes, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keepalive {
    /// None.
    Off,
    /// These.
    Probes(KeepaliveProbes),
}

impl Default for Keepalive {
    fn default() -> Self {
        Self::Probes(KeepaliveProbes::default())
    }
}

/// Keepalive probes of an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeepaliveProbes {
    /// The silence before the first probe.
    pub idle: HumanDuration,
    /// The time between probes.
    pub interval: HumanDuration,
    /// The number of unanswered probes that end the connection.
    pub count: u32,
}

impl Default for KeepaliveProbes {
    fn default() -> Self {
        Self {
            idle: HumanDuration(Duration::from_secs(30)),
            interval: HumanDuration(Duration::from_secs(10)),
            count: 3,
        }
    }
}

impl Serialize for Keepalive {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Probes(probes) => probes.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Keepalive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Written manually: an untagged enum would lose the places of errors inside.
        deserializer.deserialize_any(KeepaliveVisitor)
    }
}

struct KeepaliveVisitor;

impl<'de> Visitor<'de> for KeepaliveVisitor {
    type Value = Keepalive;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("true, false, or a table of `idle`, `interval` and `count`")
    }

    fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Keepalive, E> {
        Ok(match is_on {
            true => Keepalive::default(),
            false => Keepalive::Off,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Keepalive, A::Error> {
        let probes = KeepaliveProbes::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Keepalive::Probes(probes))
    }
}

impl JsonSchema for Keepalive {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Keepalive".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let probes = generator.subschema_for::<KeepaliveProbes>();
        json_schema!({ "anyOf": [probes, { "type": "boolean" }] })
    }
}
