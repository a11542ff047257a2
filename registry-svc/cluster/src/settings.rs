//! What the cluster is told by the configuration.

use std::path::PathBuf;
use std::time::Duration;

use registry_facts::name::NodeName;

use registry_cluster_core::acknowledge::Mode;

/// What the cluster is told by the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the site calls this node.
    pub node: NodeName,
    /// The other nodes.
    pub peers: Vec<PeerSettings>,
    /// How nodes prove who they are. `None`: not at all, which is for tests and for networks that
    /// nobody else can reach.
    pub tls: Option<TlsFiles>,
    /// How many nodes a write has to be on.
    pub acknowledge: Mode,
    /// How long a write waits for them at most.
    pub acknowledge_wait: Duration,
    /// Between two comparisons with the other nodes.
    pub compare_interval: Duration,
    /// Blobs fetched for replication at a time.
    pub fetches: usize,
    /// Octets a second that replication fetches at most; what a client waits for is not held up.
    pub bandwidth: Option<u64>,
    /// How far ahead of this node's clock a record's stamp may be. One from a clock that runs years
    /// ahead would win against every later statement.
    pub clock_bound: Duration,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// What the site calls it; its certificate has to be for this name.
    pub name: NodeName,
    /// Where it listens for its peers: host or address, and port.
    pub address: String,
}

/// PEM files with which nodes prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that signs the certificates of the nodes.
    pub ca: PathBuf,
    /// This node's certificate, for its name, and what leads from it to the authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

impl Settings {
    /// The defaults, with nobody else in the cluster.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            peers: Vec::new(),
            tls: None,
            acknowledge: Mode::default(),
            acknowledge_wait: Duration::from_secs(10),
            compare_interval: Duration::from_secs(600),
            fetches: 4,
            bandwidth: None,
            clock_bound: Duration::from_secs(3600),
        }
    }
}
