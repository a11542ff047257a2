//! The configuration of clusterd.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address_range::AddressRange;
use crate::{Admin, DurationWithin, HumanDuration, Log, Positive, Whole};

/// The port of clusterd's admin listener.
pub const ADMIN_PORT: u16 = 9407;

/// The default socket for subscribers.
pub const SOCKET: &str = "/run/outpost/clusterd/clusterd.sock";

/// The API of three masters, for the manual.
const API: &str = r#"
[api]
kubeconfig = "/etc/outpost/clusterd/kubeconfig"
addresses = ["https://192.168.7.13:6443", "https://192.168.7.14:6443", "https://192.168.7.15:6443"]
server-name = "kubernetes.default.svc"
"#;

/// Addresses for Services, for the manual.
const POOLS: &str = r#"
[[pool]]
name = "lan"
addresses = ["192.168.7.200-192.168.7.220"]
"#;

/// The configuration of clusterd. It has a source: `[api]` or `manifests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Clusterd {
    /// How long clusterd may take to stop after SIGTERM. It lets subscribers leave, and writes its snapshot once more.
    pub drain: HumanDuration,
    /// The Unix socket for subscribers (mode 0660; its group is the directory's where that has the set-group-ID bit). clusterd uses a socket that systemd hands over under
    /// the name `clusterd` instead of this.
    #[schemars(extend("x-reload" = "restart"))]
    pub socket: PathBuf,
    /// The directory of the last snapshot. clusterd serves it after a restart, marked as old, until the source has been read.
    #[schemars(extend("x-reload" = "restart"))]
    pub state: PathBuf,
    /// A directory of manifests in YAML or JSON (`*.yaml`, `*.yml`, `*.json`), in place of the API. clusterd follows the files:
    /// it takes a file when its writer has closed it, or when it has been the same for 2s. It passes over objects of other kinds
    /// than Node, Namespace, Service, `EndpointSlice`, Endpoints, and the DNS object `default` of OpenShift.
    #[schemars(extend("x-reload" = "restart"))]
    pub manifests: Option<PathBuf>,
    /// The most objects of one kind that clusterd keeps. It leaves out further ones, and `/readyz` says how many.
    #[schemars(extend("x-reload" = "restart"))]
    pub objects: Positive<usize>,
    /// The log.
    pub log: Log,
    /// The admin listener.
    pub admin: Admin<ADMIN_PORT>,
    /// The Kubernetes API.
    #[schemars(extend("x-example" = API))]
    pub api: Option<Api>,
    /// How Services of type `LoadBalancer` get their addresses.
    pub addresses: Addresses,
    /// Addresses for Services of type `LoadBalancer`; without a pool clusterd gives none, and only reads. A Service keeps its
    /// address while it is in a pool that the Service may use. With the API as source, one of several clusterds writes
    /// `status.loadBalancer.ingress`, the holder of the Lease `outpost-clusterd`, and an Event says why a Service gets none. From
    /// manifests, every clusterd computes the same addresses.
    #[schemars(extend("x-example" = POOLS))]
    pub pool: Vec<Pool>,
}

impl Default for Clusterd {
    fn default() -> Self {
        Self {
            drain: HumanDuration(Duration::from_secs(10)),
            socket: SOCKET.into(),
            state: "/var/lib/outpost/clusterd".into(),
            manifests: None,
            objects: Whole::clamped(20_000),
            log: Log::default(),
            admin: Admin::default(),
            api: None,
            addresses: Addresses::default(),
            pool: Vec::new(),
        }
    }
}

/// The Kubernetes API. clusterd reads the files again when they change, and when the API refuses the credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Api {
    /// A kubeconfig: its current context has the server, the authorities and the credentials. clusterd refuses one that runs
    /// commands (`exec`), or that does not verify the server.
    pub kubeconfig: Option<PathBuf>,
    /// The addresses of API servers, `https://HOST:PORT`, the own node's first. clusterd uses the first one that answers, and
    /// returns to an earlier one when it answers again. The server of the kubeconfig comes last. `http://` is for loopback
    /// addresses only.
    pub addresses: Vec<String>,
    /// The name that the certificates of the servers are verified for. Default: as in the kubeconfig, else the host of each
    /// address.
    pub server_name: Option<String>,
    /// The PEM file of the authorities of the servers. Default: as in the kubeconfig, else the one that Kubernetes mounts into a
    /// pod.
    pub ca_file: Option<PathBuf>,
    /// The file of the bearer token. Default: as in the kubeconfig, else the one that Kubernetes mounts into a pod.
    pub token_file: Option<PathBuf>,
    /// Whether clusterd follows the object `default` of OpenShift's DNS operator (`dnses.operator.openshift.io`), whose forwards
    /// dns-recursor can take. Its account needs a rule for that, which `outpost` renders. A cluster without the kind has none.
    #[schemars(extend("x-reload" = "restart"))]
    pub dnses: bool,
    /// The most objects in one answer to a list.
    #[schemars(extend("x-reload" = "restart"))]
    pub page: Whole<usize, 1, 5000>,
    /// The longest time that the API server keeps a watch open. clusterd notices a watch that is dead 5s after that.
    #[schemars(extend("x-reload" = "restart"))]
    pub watch: DurationWithin<10_000, 600_000>,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            addresses: Vec::new(),
            server_name: None,
            ca_file: None,
            token_file: None,
            dnses: false,
            page: Whole::clamped(500),
            watch: DurationWithin::clamped(Duration::from_secs(30)),
        }
    }
}

//--- Addresses

/// How Services of type `LoadBalancer` get their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Addresses {
    /// The class (`spec.loadBalancerClass`) of the Services that get an address. Default: those without a class.
    #[schemars(extend("x-example" = "\"outpost\""))]
    pub class: Option<String>,
    /// The `ipMode` of the addresses in the status: whether nodes forward what their own pods send to an address to the
    /// endpoints at once (`vip`), or to the load balancer (`proxy`). API servers before 1.29 do not know it.
    pub mode: IpMode,
    /// The name of this clusterd in the Lease, which no other one may have. Default: the name of the host.
    #[schemars(extend("x-reload" = "restart", "x-example" = "\"master-0\""))]
    pub identity: Option<String>,
    /// The namespace of the Lease.
    #[schemars(extend("x-reload" = "restart"))]
    pub lease_namespace: String,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            class: None,
            mode: IpMode::default(),
            identity: None,
            lease_namespace: LEASE_NAMESPACE.to_owned(),
        }
    }
}

/// The default namespace of the Lease.
pub const LEASE_NAMESPACE: &str = "kube-system";

/// The `ipMode` of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IpMode {
    /// Nodes forward to the endpoints.
    #[default]
    Vip,
    /// Nodes leave the traffic to the load balancer.
    Proxy,
}

impl IpMode {
    /// The value in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }
}

/// Addresses for Services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// The name that Services use (`metallb.io/address-pool`).
    pub name: String,
    /// The addresses: `FIRST-LAST`, a network, or one address.
    pub addresses: Vec<AddressRange>,
    /// Whether a Service that asks for no pool and no address may have one of these.
    #[serde(default = "crate::yes")]
    pub automatic: bool,
    /// The namespaces whose Services may have them. They precede pools for all namespaces. Default: all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Whether IPv4 addresses that end in 0 or 255 are left out, for old clients that take them for networks.
    #[serde(default)]
    pub avoid_buggy: bool,
}
