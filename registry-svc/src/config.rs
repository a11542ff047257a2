//! The registry's configuration as parsed: every value in it is legal.
//!
//! Fixed for the life of the process are the addresses, the root, the number of workers, the index,
//! the cluster's own name and address, and the object store; everything else is taken up on reload.

pub mod v1;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use config_text::counted;
use daemon::config::Common;
use oci::manifest::Sparse;
use registry_auth::acl::AclParts;
use registry_auth::{Actions, CertificateName};

pub use registry_mirror::Settings as Mirror;
pub use registry_store::space::{Quota, Settings as Space};
pub use registry_store::sweep::{Settings as Sweep, Untagged};
pub use registry_webhook::Settings as Webhook;

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9405);

/// The default root of the store.
pub const DEFAULT_ROOT: &str = "/var/lib/outpost/registry";

/// The configuration of one registry.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The addresses for clients.
    pub listen: Vec<SocketAddr>,
    /// Encryption; without it clients are served in plain text.
    pub tls: Option<Tls>,
    /// The root directory of the store.
    pub root: PathBuf,
    /// Threads of the data path.
    pub workers: usize,
    /// Refuse whatever would change something.
    pub read_only: bool,
    /// Log each request, not only at the debug level.
    pub log_requests: bool,
    /// The rights of users and clients.
    pub access: Access,
    /// Bounds of requests.
    pub limits: Limits,
    /// How full the disk may become.
    pub space: Space,
    /// Garbage collection.
    pub sweep: Sweep,
    /// How what is kept is re-read.
    pub scrub: Scrub,
    /// The index of names and tags.
    pub index: Index,
    /// The other nodes of the site.
    pub cluster: Option<Cluster>,
    /// Repositories that are filled from upstream registries on demand.
    pub mirrors: Vec<Mirror>,
    /// Endpoints that receive events of pushes, pulls and deletions.
    pub webhooks: Vec<Webhook>,
    /// The object store that keeps blobs in place of the disk.
    pub s3: Option<S3>,
    /// Warnings: legal but odd values.
    pub warnings: Vec<String>,
}

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates; the first is shown to clients that name no host, or one that no other has.
    pub certificates: Vec<Certificate>,
    /// The authority that signs certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without one is turned away in the handshake.
    pub client_required: bool,
    /// Offer HTTP/2 beside HTTP/1.1.
    pub http2: bool,
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
    /// Names for which it is shown; those in the certificate unless given.
    pub names: Vec<String>,
}

/// The rights of users and clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The file of users.
    pub htpasswd: Option<PathBuf>,
    /// The name in a client certificate that is the user's name.
    pub certificates: CertificateName,
    /// The rules.
    pub acl: AclParts,
    /// The registry's name in challenges and tokens.
    pub service: String,
    /// Tokens, unless clients always send their password.
    pub token: Option<Token>,
}

impl Access {
    /// Whether there is a way for a client to say who it is.
    #[must_use]
    pub fn knows_somebody(&self) -> bool {
        self.htpasswd.is_some() || self.certificates != CertificateName::None
    }

    /// Whether an anonymous client may change something.
    #[must_use]
    pub fn lets_strangers_push(&self) -> bool {
        let may_push = |actions: Actions| actions.contains(registry_auth::Action::Push);
        may_push(self.acl.anonymous) || self.acl.rules.iter().any(|rule| may_push(rule.anonymous))
    }
}

/// How tokens are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The private key; one in the root, made when it is missing, unless given.
    pub key: Option<PathBuf>,
    /// Public keys of the other nodes.
    pub trusted: Vec<PathBuf>,
    /// How long a token is good.
    pub lifetime: Duration,
    /// How long a refresh token is good.
    pub refresh: Duration,
    /// The address at which clients fetch tokens, if not the one by which they know the registry.
    pub realm: Option<String>,
}

/// Bounds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest manifest.
    pub manifest: u64,
    /// The largest blob, if there is a bound.
    pub blob: Option<u64>,
    /// Upload sessions at a time.
    pub uploads: usize,
    /// Connections at a time.
    pub connections: usize,
    /// How long a client may take to finish a TLS handshake.
    pub head: Duration,
    /// How long a client may send, or take, nothing of a body.
    pub body: Duration,
    /// How long a connection of HTTP/1.1 may be idle between requests, and the head of one may take.
    pub idle: Duration,
    /// The content that manifests may lack.
    pub sparse: Sparse,
}

/// How what is kept is re-read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// How long a round takes at least; never unless given.
    pub interval: Option<Duration>,
    /// Bytes a second.
    pub rate: u64,
}

/// The index of names and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub kind: IndexKind,
    /// Memory for what is on disk.
    pub cache: u64,
}

/// The kind of index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// On disk, made from the journal.
    #[default]
    Sled,
    /// In memory, read from the journal at each start.
    Memory,
}

/// The other nodes of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The name of this node.
    pub node: String,
    /// The addresses for other nodes.
    pub listen: Vec<SocketAddr>,
    /// The others.
    pub peers: Vec<ClusterPeer>,
    /// The authority that signs the certificates of nodes.
    pub ca: PathBuf,
    /// This node's certificate, as server and as client.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// When a push is acknowledged.
    pub acknowledge: Acknowledge,
    /// How long a push waits for other nodes.
    pub acknowledge_timeout: Duration,
    /// How often contents are compared.
    pub compare: Duration,
    /// Bytes a second that are fetched from other nodes in the background, if there is a bound.
    pub rate: Option<u64>,
    /// Blobs that are fetched in the background at a time.
    pub fetches: usize,
    /// How far ahead of this node's clock the statements of others may be.
    pub clock_bound: Duration,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPeer {
    /// Its name.
    pub name: String,
    /// Its address for nodes: a host name or an IP address, and a port.
    pub address: String,
}

/// When a push is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// When most of the nodes that can be reached hold it.
    #[default]
    MajorityOfReachable,
    /// When most of all nodes hold it, else never.
    Strict,
}

/// The object store that keeps blobs in place of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3 {
    /// The bucket.
    pub bucket: String,
    /// The address of the object store, if not the provider's own.
    pub endpoint: Option<String>,
    /// The region.
    pub region: String,
    /// The prefix of every key.
    pub prefix: String,
    /// A file with the access key.
    pub access_key: PathBuf,
    /// A file with the secret key.
    pub secret_key: PathBuf,
    /// The authority that signs its certificate, if not a public one.
    pub ca: Option<PathBuf>,
    /// Whether plain HTTP will do.
    pub allow_http: bool,
}

impl Config {
    /// One line that says what is configured.
    #[must_use]
    pub fn summary(&self) -> String {
        let listen: Vec<String> = self.listen.iter().map(ToString::to_string).collect();
        let how = match &self.tls {
            None => "plain text".to_owned(),
            Some(tls) => format!("TLS, {}", counted(tls.certificates.len(), "certificate")),
        };
        let who = match (&self.access.htpasswd, self.access.knows_somebody()) {
            (Some(_), _) => "users by password",
            (None, true) => "users by certificate",
            (None, false) => "everybody",
        };
        let mut text = format!(
            "{} on {} ({how}), for {who}",
            self.root.display(),
            listen.join(" ")
        );
        if let Some(cluster) = &self.cluster {
            let n = cluster.peers.len();
            text.push_str(&format!(", node {} beside {n}", cluster.node));
        }
        for (n, what) in [
            (self.mirrors.len(), "mirror"),
            (self.webhooks.len(), "webhook"),
        ] {
            if n > 0 {
                text.push_str(&format!(", {}", counted(n, what)));
            }
        }
        if self.read_only {
            text.push_str(", read-only");
        }
        text
    }
}

#[cfg(test)]
mod tests;
