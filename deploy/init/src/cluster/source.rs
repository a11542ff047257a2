//! Reads the objects: one request for each kind, or the files of a directory.

use std::io;
use std::path::{Path, PathBuf};

use cluster_client::access::{self, Access, AccessError, AccessSettings};
use cluster_client::request::{ApiError, Call, call, escaped};
use daemon::{disk, exit};
use serde_json::Value;

use super::{CONFIG, OPERATOR, Objects};

/// The longest answer.
const MAX_ANSWER: usize = 32 << 20;
/// Objects of one page.
const PAGE: usize = 500;
/// Pages of one list, which is ten times the Services of a large site.
const MAX_PAGES: usize = 100;
/// The files of a directory, and their size in all.
const MAX_FILES: usize = 1000;
/// See [`MAX_FILES`].
const MAX_BYTES: usize = 64 << 20;

/// A request.
struct Asked {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// The name of the objects, for people.
    what: &'static str,
    /// The path below `/api/v1` or `/apis/GROUP/VERSION`.
    path: &'static str,
    /// A query, if it is a list.
    list: Option<&'static str>,
}

/// One object.
const fn one(
    group: &'static str,
    kind: &'static str,
    what: &'static str,
    path: &'static str,
) -> Asked {
    Asked {
        group,
        version: "v1",
        kind,
        what,
        path,
        list: None,
    }
}

/// All objects.
const fn all(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    what: &'static str,
    path: &'static str,
    query: &'static str,
) -> Asked {
    Asked {
        group,
        version,
        kind,
        what,
        path,
        list: Some(query),
    }
}

/// All requests; each reads.
const ASKED: [Asked; 13] = [
    all("", "v1", "Node", "nodes", "nodes", ""),
    one(
        CONFIG,
        "Infrastructure",
        "virtual IPs and networks of OpenShift",
        "infrastructures/cluster",
    ),
    one(
        CONFIG,
        "DNS",
        "the base domain of OpenShift",
        "dnses/cluster",
    ),
    one(
        CONFIG,
        "Network",
        "the networks of OpenShift",
        "networks/cluster",
    ),
    one(
        CONFIG,
        "Ingress",
        "the nodes of OpenShift's routers",
        "ingresses/cluster",
    ),
    one(
        CONFIG,
        "ClusterVersion",
        "the release of OpenShift",
        "clusterversions/version",
    ),
    one(OPERATOR, "DNS", "forwards of OpenShift", "dnses/default"),
    one(
        "",
        "ConfigMap",
        "the settings of OpenShift's installer",
        "namespaces/kube-system/configmaps/cluster-config-v1",
    ),
    one(
        "",
        "ConfigMap",
        "the settings of kubeadm",
        "namespaces/kube-system/configmaps/kubeadm-config",
    ),
    one(
        "",
        "ConfigMap",
        "the settings of CoreDNS",
        "namespaces/kube-system/configmaps/coredns",
    ),
    all(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "API servers",
        "namespaces/default/endpointslices",
        "labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes",
    ),
    all("", "v1", "Service", "addresses of Services", "services", ""),
    all(
        "metallb.io",
        "v1beta1",
        "IPAddressPool",
        "pools of MetalLB",
        "ipaddresspools",
        "",
    ),
];

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("the kubeconfig cannot be used")]
    Access(#[from] AccessError),
    #[error("the kubeconfig names no server")]
    NoServer,
    #[error("the cluster at {server} cannot be asked")]
    Asked {
        server: String,
        #[source]
        source: ApiError,
    },
    #[error("cannot read {path}", path = .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}: {problem}", path = .path.display())]
    Manifest { path: PathBuf, problem: String },
    #[error("more than {MAX_FILES} files or {MAX_BYTES} bytes of manifests")]
    TooMany,
    #[error("no runtime")]
    Runtime(#[source] io::Error),
}

impl SourceError {
    /// The exit code.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Asked { .. } => exit::UNAVAILABLE,
            Self::Runtime(_) => exit::SOFTWARE,
            Self::Access(_)
            | Self::NoServer
            | Self::Read { .. }
            | Self::Manifest { .. }
            | Self::TooMany => exit::DATA,
        }
    }
}

/// The kubeconfig of kubectl: the first of `KUBECONFIG`, else that of the home directory.
pub(crate) fn usual_kubeconfig() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG");
    let first = named
        .iter()
        .flat_map(std::env::split_paths)
        .find(|path| !path.as_os_str().is_empty());
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".kube/config"));
    first.or_else(home).filter(|path| path.is_file())
}

//--- The API

/// Asks the cluster of a kubeconfig.
///
/// # Errors
///
/// When the kubeconfig cannot be used, or no API server answers. A single thing that is refused is in [`Objects::unread`].
pub(crate) fn api(kubeconfig: &Path) -> Result<Objects, SourceError> {
    let access = access::read(&AccessSettings {
        kubeconfig: Some(kubeconfig.to_owned()),
        agent: concat!("outpost/", env!("CARGO_PKG_VERSION")),
        ..AccessSettings::default()
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(SourceError::Runtime)?;
    runtime.block_on(ask(&access))
}

async fn ask(access: &Access) -> Result<Objects, SourceError> {
    let server = access.addresses.first().ok_or(SourceError::NoServer)?;
    let mut objects = Objects {
        server: Some(server.to_string()),
        ..Objects::default()
    };
    for asked in &ASKED {
        match asked.answer(access).await {
            Ok(values) => objects.values.extend(values),
            // The cluster knows no such kind, or has no such object.
            Err(ApiError::Refused(refusal)) if refusal.code == 404 => {}
            Err(ApiError::Refused(refusal)) if refusal.code != 401 => {
                let why = refusal.to_string();
                objects.unread.push((asked.what.to_owned(), why));
            }
            Err(source) => {
                return Err(SourceError::Asked {
                    server: server.to_string(),
                    source,
                });
            }
        }
    }
    Ok(objects)
}

impl Asked {
    fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    fn whole_path(&self) -> String {
        match self.group {
            "" => format!("/api/{}/{}", self.version, self.path),
            group => format!("/apis/{group}/{}/{}", self.version, self.path),
        }
    }

    /// The objects of the answer, each with its kind: items of a list lack it.
    async fn answer(&self, access: &Access) -> Result<Vec<Value>, ApiError> {
        let Some(query) = self.list else {
            let body = call(access, &Call::get(&self.whole_path()), MAX_ANSWER).await?;
            return Ok(vec![self.with_kind(json(&body)?)]);
        };
        let mut values = Vec::new();
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let token = match next.as_str() {
                "" => String::new(),
                token => format!("&continue={}", escaped(token)),
            };
            let path = format!("{}?{query}&limit={PAGE}{token}", self.whole_path());
            let path = path.replace("?&", "?");
            let mut page = json(&call(access, &Call::get(&path), MAX_ANSWER).await?)?;
            let token = page.pointer("/metadata/continue").and_then(Value::as_str);
            next = token.unwrap_or_default().to_owned();
            // An empty list may be written as null.
            match page.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => {
                    values.extend(items.into_iter().map(|item| self.with_kind(item)));
                }
                Some(Value::Null) => {}
                _ => return Err(ApiError::Unreadable(format!("{path} is no list"))),
            }
            if next.is_empty() {
                return Ok(values);
            }
        }
        Err(ApiError::Unreadable(format!(
            "{} are more than {MAX_PAGES} pages",
            self.what
        )))
    }

    fn with_kind(&self, mut value: Value) -> Value {
        if let Some(fields) = value.as_object_mut() {
            fields.insert("kind".to_owned(), self.kind.into());
            fields.insert("apiVersion".to_owned(), self.api_version().into());
        }
        value
    }
}

fn json(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::Unreadable(error.to_string()))
}

//--- Manifests

/// Reads the manifests of a directory, in the order of their names.
///
/// # Errors
///
/// When a file cannot be read, or is neither YAML nor JSON.
pub(crate) fn manifests(directory: &Path) -> Result<Objects, SourceError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SourceError::Read { path, source }
    };
    let mut paths = disk::list(directory).map_err(failed(directory))?;
    paths.retain(|path| {
        let extension = path.extension().and_then(|it| it.to_str());
        matches!(extension, Some("yaml" | "yml" | "json"))
    });
    paths.sort();
    if paths.len() > MAX_FILES {
        return Err(SourceError::TooMany);
    }
    let mut objects = Objects::default();
    let mut n_bytes = 0_usize;
    for path in paths {
        let octets = disk::read(&path).map_err(failed(&path))?;
        n_bytes = n_bytes.saturating_add(octets.len());
        if n_bytes > MAX_BYTES {
            return Err(SourceError::TooMany);
        }
        let text = String::from_utf8_lossy(&octets);
        let values = cluster_objects::manifest::values(&text);
        let values = values.map_err(|problem| SourceError::Manifest { path, problem })?;
        objects.values.extend(values);
    }
    Ok(objects)
}
