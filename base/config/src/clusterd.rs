//! The configuration of clusterd.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// than Node, Namespace, Service, `EndpointSlice` and Endpoints.
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
            page: Whole::clamped(500),
            watch: DurationWithin::clamped(Duration::from_secs(30)),
        }
    }
}
