//! `[[vip]]`, and `[[pool]]` and `[[service]]`, which make virtual IPs.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Port;
use super::frontend::{DataPath, Protocol, Role};
use super::text::VirtualAddress;
use crate::address_range::AddressRange;
use crate::{DurationWithin, Every, HumanDuration, Ip, Networks, Whole};

/// The interval of advertisements: a hundredth of a second to 40.95 s in version 3, whole seconds to 255 s in version 2.
pub type Interval = DurationWithin<10, 255_000>;

/// A virtual IP: addresses that one of several nodes holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct Vip {
    /// The name in logs, metrics and on the command line: letters, digits and `-` `_` `.` `:` `/`.
    pub name: String,
    /// The role in OpenShift, for `router-id`.
    #[serde(default)]
    pub role: Role,
    /// Addresses of one family form one virtual router; addresses of both families form two that move together. Without
    /// a prefix length it is the address alone.
    pub addresses: Vec<VirtualAddress>,
    /// The interface that has the addresses and the advertisements.
    pub interface: String,
    /// The number of the virtual router (VRID): the same on every node, and unique on the link. Default: OpenShift's own
    /// number, from `role` and `[openshift]` `cluster`.
    #[serde(default)]
    pub router_id: Option<Whole<u8, 1, 255>>,
    /// The version of VRRP: 3, or 2 for old peers, with IPv4 only and whole seconds. Default: 3.
    #[serde(default)]
    pub version: Option<Whole<u8, 2, 3>>,
    /// The password of version 2; 8 bytes of it count. Default: none.
    #[serde(default)]
    pub password: Option<String>,
    /// The router with the highest priority is active; 255 if the addresses are this node's own. Default: 100.
    #[serde(default)]
    pub priority: Option<Whole<u8, 1, 255>>,
    /// The time between advertisements. Default: `1s`.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// The addresses of the other nodes, for unicast. Default: multicast. If `addresses` has both families, `peers` must
    /// have both too. An empty list means that the peers are unknown, and this node does not become active.
    #[serde(default)]
    pub peers: Option<Vec<Ip>>,
    /// Whether to refuse advertisements of other senders. keepalived accepts them.
    #[serde(default)]
    pub peers_only: bool,
    /// The source address of advertisements. Default: the interface's first.
    #[serde(default)]
    pub source: Option<Ip>,
    /// Whether this node takes over from an active router of lower priority.
    #[serde(default = "crate::yes")]
    pub preempt: bool,
    /// The delay of that.
    #[serde(default)]
    pub preempt_delay: HumanDuration,
    /// The checksum of version 3 over IPv4. lb-proxy accepts both forms, unless `checksum-strict`.
    #[serde(default)]
    pub checksum: Checksum,
    /// Whether only that form is accepted.
    #[serde(default)]
    pub checksum_strict: bool,
    /// Virtual IPs of one group move together: they become active when all of them can, and yield and fail with any of
    /// them. A virtual IP that joins or leaves a group on a reload does not move. Default: none.
    #[serde(default)]
    pub group: Option<String>,
    /// Frontends and backends (`frontend:NAME`, `backend:NAME`) that must have an eligible server for this node to hold
    /// the address. Default: the frontend of the same name, if there is one.
    #[serde(default)]
    pub track: Option<Vec<String>>,
    /// Changes of the priority.
    #[serde(default)]
    pub weigh: Vec<Weigh>,
    /// How long a tracked frontend or backend must be good before it counts as good. Default: `10s`.
    #[serde(default)]
    pub rise: Option<HumanDuration>,
    /// How long it must be bad before it counts as bad. Default: `0s`.
    #[serde(default)]
    pub fall: Option<HumanDuration>,
    /// The time after a move in which only "cannot serve" counts: every move resets the connections to the address.
    /// Default: `30s`.
    #[serde(default)]
    pub hold_down: Option<HumanDuration>,
    /// The reaction when this node cannot serve.
    #[serde(default)]
    pub when_unable: WhenUnable,
    /// Gratuitous ARP and unsolicited neighbour advertisements.
    #[serde(default)]
    pub announce: Announce,
    /// Whether lb-proxy, while it listens for other routers after a start, probes for a host that has the address and
    /// does not advertise it. If there is one, lb-proxy logs it and waits three intervals.
    #[serde(default = "crate::yes")]
    pub probe: bool,
    /// Whether the address belongs to the node that has a lease of it, which the healthds of three and more nodes grant by
    /// majority. A node that is cut off gives the address up before another takes it, and no advertisement moves it.
    /// Advertisements decide where most healthds are away. It must be the same on all nodes, and off if another program than
    /// lb-proxy can have the address.
    #[serde(default)]
    pub lease: bool,
    /// A script to run at each change of state, as keepalived does: `SCRIPT INSTANCE NAME MASTER|BACKUP|FAULT|STOP
    /// PRIORITY`. Default: none.
    #[serde(default)]
    pub notify: Option<PathBuf>,
}

impl Vip {
    /// A virtual IP with the defaults.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        addresses: Vec<VirtualAddress>,
        interface: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            role: Role::Plain,
            addresses,
            interface: interface.into(),
            router_id: None,
            version: None,
            password: None,
            priority: None,
            interval: None,
            peers: None,
            peers_only: false,
            source: None,
            preempt: true,
            preempt_delay: HumanDuration::default(),
            checksum: Checksum::default(),
            checksum_strict: false,
            group: None,
            track: None,
            weigh: Vec::new(),
            rise: None,
            fall: None,
            hold_down: None,
            when_unable: WhenUnable::default(),
            announce: Announce::default(),
            probe: true,
            lease: false,
            notify: None,
        }
    }
}

/// The checksum of version 3 over IPv4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// It includes a pseudo-header, as keepalived's does.
    #[default]
    PseudoHeader,
    /// It does not (RFC 9568 §5.2.8).
    Rfc,
}

/// A change of the priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Weigh {
    /// `frontend:NAME` or `backend:NAME`.
    pub what: String,
    /// The change, not 0: above zero it counts while the frontend or backend has an eligible server, below zero while it
    /// has none.
    pub weight: Whole<i16, -253, 253>,
    /// As `rise` of the virtual IP, which is the default.
    #[serde(default)]
    pub rise: Option<HumanDuration>,
    /// As `fall` of the virtual IP, which is the default.
    #[serde(default)]
    pub fall: Option<HumanDuration>,
}

/// The reaction when a node cannot serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenUnable {
    /// It asks the others to take over and keeps the address if no other node does.
    #[default]
    Yield,
    /// It gives the address up.
    Release,
}

/// Gratuitous ARP and unsolicited neighbour advertisements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Announce {
    /// The number at a time. Default: 5.
    pub count: Option<u8>,
    /// The time after which lb-proxy repeats them once. Default: `5s`.
    pub again_after: Option<Every>,
    /// The interval between single ones while active. Default: three intervals of advertisements, 1 s at least.
    pub refresh: Option<Every>,
}

//--- Services

/// Addresses for services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// The name that services use.
    pub name: String,
    /// The addresses: `FIRST-LAST`, a network, or one address.
    pub addresses: Vec<AddressRange>,
    /// Whether services that name no pool get addresses from this one.
    #[serde(default = "crate::yes")]
    pub automatic: bool,
    /// With this key the addresses are those of Services of type `LoadBalancer` of the cluster, and of no `[[service]]`:
    /// clusterd gives them, lb-proxy holds and serves those that Services have, and this is where it sends their traffic. It
    /// needs `[cluster]`. Default: the pool is for `[[service]]`.
    #[serde(default)]
    pub cluster: Option<Forward>,
    /// As of `[[vip]]`, for addresses of the cluster.
    #[serde(default)]
    pub lease: bool,
    /// As of `[[vip]]`.
    pub interface: String,
    /// As of `[[vip]]`.
    #[serde(default)]
    pub priority: Option<Whole<u8, 1, 255>>,
    /// As of `[[vip]]`.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// As of `[[vip]]`.
    #[serde(default)]
    pub peers: Option<Vec<Ip>>,
    /// As of `[[vip]]`.
    #[serde(default)]
    pub notify: Option<PathBuf>,
}

/// The destination of the traffic to a Service of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Forward {
    /// lb-proxy connects to the endpoints. The node needs a route to the pods.
    Endpoints,
    /// lb-proxy connects to the port that the Service has on the nodes.
    NodePorts,
    /// lb-proxy holds the address alone. kube-proxy, or what stands for it, forwards what comes for it; servers see the
    /// addresses of the clients with `externalTrafficPolicy: Local`.
    KubeProxy,
}

/// A service of type `LoadBalancer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Service {
    /// The name: letters, digits and `-` `_` `.` `:` `/`.
    pub name: String,
    /// The pool. Default: any automatic one.
    #[serde(default)]
    pub pool: Option<String>,
    /// The address, if it must stay the same. Default: computed from the name.
    #[serde(default)]
    pub address: Option<Ip>,
    /// The family of its address; with `address`, that address's.
    #[serde(default)]
    pub family: Family,
    /// The number of its virtual router. Default: computed from the name.
    #[serde(default)]
    pub router_id: Option<Whole<u8, 1, 255>>,
    /// Its ports.
    #[serde(default)]
    pub port: Vec<ServicePort>,
}

/// The family of a service's address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// An IPv4 address.
    #[default]
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// One of each.
    Both,
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServicePort {
    /// The number.
    pub port: Port,
    /// The backend.
    pub backend: String,
    /// As of `[[frontend]]`.
    #[serde(default)]
    pub protocol: Protocol,
    /// As of `[[frontend]]`.
    #[serde(default)]
    pub path: DataPath,
    /// As of `[[frontend]]`.
    #[serde(default)]
    pub allow_from: Networks,
}
