//! The keys of the file.

use std::path::PathBuf;

use daemon::config::{AdminSpec, HumanDuration, LogSpec};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::config::{Path, Protocol, Role};

type Text = Spanned<String>;
type Time = Spanned<HumanDuration>;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Spec {
    pub(super) log: LogSpec,
    pub(super) admin: AdminSpec,
    pub(super) drain: Option<HumanDuration>,
    pub(super) workers: usize,
    pub(super) max_connections: Option<u32>,
    pub(super) freebind: Option<bool>,
    pub(super) health: HealthSpec,
    pub(super) swap: SwapSpec,
    pub(super) access_log: AccessLogSpec,
    pub(super) openshift: OpenShiftSpec,
    pub(super) kernel: KernelSpec,
    pub(super) frontend: Vec<FrontendSpec>,
    pub(super) backend: Vec<BackendSpec>,
    pub(super) vip: Vec<VipSpec>,
    pub(super) pool: Vec<PoolSpec>,
    pub(super) service: Vec<ServiceSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HealthSpec {
    #[serde(alias = "socket")]
    pub(super) endpoint: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SwapSpec {
    pub(super) socket: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AccessLogSpec {
    pub(super) target: Option<PathBuf>,
    pub(super) format: FormatSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FormatSpec {
    #[default]
    Json,
    #[serde(alias = "tcplog")]
    Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct OpenShiftSpec {
    pub(super) cluster: Option<String>,
    pub(super) keepalived: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct KernelSpec {
    pub(super) table: Option<Text>,
    pub(super) flow_table: Option<bool>,
}

//--- Frontend

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FrontendSpec {
    pub(super) name: Text,
    pub(super) listen: Spanned<Vec<Text>>,
    #[serde(default)]
    pub(super) role: RoleSpec,
    #[serde(default)]
    pub(super) protocol: ProtocolSpec,
    #[serde(default)]
    pub(super) path: Option<Spanned<PathSpec>>,
    #[serde(default)]
    pub(super) backend: Option<Text>,
    #[serde(default)]
    pub(super) route: Vec<RouteSpec>,
    #[serde(default)]
    pub(super) accept_proxy: Option<Spanned<AcceptProxySpec>>,
    #[serde(default)]
    pub(super) allow_from: Vec<Text>,
    #[serde(default)]
    pub(super) deny_from: Vec<Text>,
    #[serde(default)]
    pub(super) limits: Option<Spanned<LimitsSpec>>,
    #[serde(default)]
    pub(super) max_connections: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) inspect_timeout: Option<Time>,
    #[serde(default)]
    pub(super) log: Option<bool>,
    #[serde(default)]
    pub(super) client: SideSpec,
    #[serde(default)]
    pub(super) flows: Option<Spanned<FlowsSpec>>,
    #[serde(default)]
    pub(super) masquerade: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoleSpec {
    #[default]
    Plain,
    Api,
    Ingress,
}

impl From<RoleSpec> for Role {
    fn from(role: RoleSpec) -> Self {
        match role {
            RoleSpec::Plain => Self::Plain,
            RoleSpec::Api => Self::Api,
            RoleSpec::Ingress => Self::Ingress,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProtocolSpec {
    #[default]
    Tcp,
    Udp,
}

impl From<ProtocolSpec> for Protocol {
    fn from(protocol: ProtocolSpec) -> Self {
        match protocol {
            ProtocolSpec::Tcp => Self::Tcp,
            ProtocolSpec::Udp => Self::Udp,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PathSpec {
    User,
    Kernel,
    KernelPreferred,
}

impl From<PathSpec> for Path {
    fn from(path: PathSpec) -> Self {
        match path {
            PathSpec::User => Self::User,
            PathSpec::Kernel => Self::Kernel,
            PathSpec::KernelPreferred => Self::KernelPreferred,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RouteSpec {
    pub(super) names: Spanned<Vec<Text>>,
    pub(super) backend: Text,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AcceptProxySpec {
    No,
    Optional,
    Required,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LimitsSpec {
    pub(super) connections: Option<Spanned<u32>>,
    pub(super) rate: Option<Text>,
    pub(super) sources: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SideSpec {
    pub(super) keepalive: Option<KeepaliveSpec>,
    pub(super) user_timeout: Option<HumanDuration>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "true, false, or a table of `idle`, `interval` and `count`"
)]
pub(super) enum KeepaliveSpec {
    Switch(bool),
    Times(KeepaliveTimes),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct KeepaliveTimes {
    pub(super) idle: Option<HumanDuration>,
    pub(super) interval: Option<HumanDuration>,
    pub(super) count: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FlowsSpec {
    pub(super) idle: Option<Time>,
    pub(super) most: Option<Spanned<usize>>,
    pub(super) requests: Option<Spanned<u32>>,
    pub(super) responses: Option<Spanned<u32>>,
}

//--- Backend

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BackendSpec {
    pub(super) name: Text,
    #[serde(default)]
    pub(super) balance: Option<BalanceSpec>,
    #[serde(default)]
    pub(super) check: Option<CheckField>,
    #[serde(default)]
    pub(super) send_proxy: SendProxySpec,
    #[serde(default)]
    pub(super) on_down: Option<OnDownSpec>,
    #[serde(default)]
    pub(super) on_up: OnUpSpec,
    #[serde(default)]
    pub(super) fail_open: bool,
    #[serde(default)]
    pub(super) all_backups: bool,
    #[serde(default)]
    pub(super) slow_start: Option<HumanDuration>,
    #[serde(default)]
    pub(super) queue: Option<u32>,
    #[serde(default)]
    pub(super) queue_timeout: Option<Time>,
    #[serde(default)]
    pub(super) connect_timeout: Option<Time>,
    #[serde(default)]
    pub(super) retries: Option<u8>,
    #[serde(default)]
    pub(super) idle_timeout: Option<HumanDuration>,
    #[serde(default)]
    pub(super) client_fin: Option<HumanDuration>,
    #[serde(default)]
    pub(super) server_fin: Option<HumanDuration>,
    #[serde(default)]
    pub(super) source_address: Option<std::net::IpAddr>,
    #[serde(default)]
    pub(super) max_connections: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) connection: SideSpec,
    #[serde(default)]
    pub(super) server: Vec<ServerSpec>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BalanceSpec {
    RoundRobin,
    LeastConnections,
    RandomOfTwo,
    Source,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SendProxySpec {
    #[default]
    No,
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnDownSpec {
    Reset,
    Finish,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnUpSpec {
    Reset,
    #[default]
    Finish,
}

/// `check = "none"`, or how servers are probed.
#[derive(Debug)]
pub(super) enum CheckField {
    /// Not at all.
    None,
    /// As this says.
    As(Box<CheckSpec>),
}

impl<'de> Deserialize<'de> for CheckField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Written manually: an untagged enum would lose the places of errors inside.
        deserializer.deserialize_any(CheckVisitor)
    }
}

struct CheckVisitor;

impl<'de> Visitor<'de> for CheckVisitor {
    type Value = CheckField;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a table, or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<CheckField, E> {
        match text {
            "none" => Ok(CheckField::None),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CheckField, A::Error> {
        let spec = CheckSpec::deserialize(MapAccessDeserializer::new(map))?;
        Ok(CheckField::As(Box::new(spec)))
    }
}

/// The probes of servers; their kind decides which of the later keys are allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CheckSpec {
    pub(super) kind: Option<Text>,
    pub(super) port: Option<Spanned<u16>>,
    pub(super) interval: Option<Time>,
    pub(super) fast_interval: Option<Time>,
    pub(super) timeout: Option<Time>,
    pub(super) rise: Option<Spanned<u32>>,
    pub(super) fall: Option<Spanned<u32>>,
    // http and https
    pub(super) method: Option<Text>,
    pub(super) path: Option<Text>,
    pub(super) host: Option<Text>,
    pub(super) status: Option<Spanned<u16>>,
    pub(super) body: Option<Text>,
    // https
    pub(super) verify: Option<Text>,
    pub(super) ca_file: Option<Text>,
    // grpc
    pub(super) service: Option<Text>,
    // dns: the name asked for
    pub(super) name: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerSpec {
    pub(super) name: Text,
    pub(super) address: Text,
    #[serde(default)]
    pub(super) weight: Option<Spanned<u16>>,
    #[serde(default)]
    pub(super) backup: bool,
    #[serde(default)]
    pub(super) max_connections: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) slow_start: Option<HumanDuration>,
    #[serde(default = "yes")]
    pub(super) check: bool,
    #[serde(default)]
    pub(super) check_port: Option<Spanned<u16>>,
    #[serde(default)]
    pub(super) maintenance: bool,
}

const fn yes() -> bool {
    true
}

//--- Virtual IPs

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub(super) struct VipSpec {
    pub(super) name: Text,
    pub(super) addresses: Spanned<Vec<Text>>,
    pub(super) interface: Text,
    #[serde(default)]
    pub(super) role: RoleSpec,
    #[serde(default)]
    pub(super) router_id: Option<Spanned<u8>>,
    #[serde(default)]
    pub(super) track: Option<Vec<Text>>,
    #[serde(default)]
    pub(super) weigh: Vec<WeighSpec>,
    #[serde(default)]
    pub(super) when_unable: WhenUnableSpec,
    #[serde(default)]
    pub(super) group: Option<Text>,
    #[serde(default)]
    pub(super) version: Option<u8>,
    #[serde(default)]
    pub(super) priority: Option<u8>,
    #[serde(default)]
    pub(super) interval: Option<HumanDuration>,
    #[serde(default)]
    pub(super) peers: Option<Vec<Text>>,
    #[serde(default)]
    pub(super) peers_only: bool,
    #[serde(default)]
    pub(super) source: Option<std::net::IpAddr>,
    #[serde(default = "yes")]
    pub(super) preempt: bool,
    #[serde(default)]
    pub(super) preempt_delay: Option<HumanDuration>,
    #[serde(default = "yes")]
    pub(super) probe: bool,
    #[serde(default)]
    pub(super) password: Option<String>,
    #[serde(default)]
    pub(super) checksum: ChecksumSpec,
    #[serde(default)]
    pub(super) checksum_strict: bool,
    #[serde(default)]
    pub(super) hold_down: Option<HumanDuration>,
    #[serde(default)]
    pub(super) rise: Option<HumanDuration>,
    #[serde(default)]
    pub(super) fall: Option<HumanDuration>,
    #[serde(default)]
    pub(super) announce: AnnounceSpec,
    #[serde(default)]
    pub(super) notify: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WeighSpec {
    pub(super) what: Text,
    pub(super) weight: Spanned<i16>,
    #[serde(default)]
    pub(super) rise: Option<HumanDuration>,
    #[serde(default)]
    pub(super) fall: Option<HumanDuration>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WhenUnableSpec {
    #[default]
    Yield,
    Release,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChecksumSpec {
    #[default]
    PseudoHeader,
    Rfc,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AnnounceSpec {
    pub(super) count: Option<u8>,
    pub(super) again_after: Option<HumanDuration>,
    pub(super) refresh: Option<HumanDuration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PoolSpec {
    pub(super) name: Text,
    pub(super) addresses: Vec<Text>,
    #[serde(default = "yes")]
    pub(super) automatic: bool,
    pub(super) interface: Text,
    #[serde(default)]
    pub(super) priority: Option<u8>,
    #[serde(default)]
    pub(super) interval: Option<HumanDuration>,
    #[serde(default)]
    pub(super) peers: Option<Vec<Text>>,
    #[serde(default)]
    pub(super) notify: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServiceSpec {
    pub(super) name: Text,
    #[serde(default)]
    pub(super) pool: Option<Text>,
    #[serde(default)]
    pub(super) address: Option<Spanned<std::net::IpAddr>>,
    #[serde(default)]
    pub(super) family: FamilySpec,
    #[serde(default)]
    pub(super) router_id: Option<Spanned<u8>>,
    #[serde(default)]
    pub(super) port: Vec<PortSpec>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FamilySpec {
    #[default]
    Ipv4,
    Ipv6,
    Both,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PortSpec {
    pub(super) port: Spanned<u16>,
    pub(super) backend: Text,
    #[serde(default)]
    pub(super) protocol: ProtocolSpec,
    #[serde(default)]
    pub(super) path: Option<PathSpec>,
    #[serde(default)]
    pub(super) allow_from: Vec<Text>,
}
