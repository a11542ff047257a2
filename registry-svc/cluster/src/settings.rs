//! Settings of the cluster.

use std::path::PathBuf;
use std::time::Duration;

use registry_facts::name::NodeName;

use registry_cluster_core::acknowledge::Mode;

/// Settings of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The node's name in the site.
    pub node: NodeName,
    /// The other nodes.
    pub peers: Vec<PeerSettings>,
    /// The nodes' certificates. `None`: no authentication, which is for tests and for networks of
    /// the nodes alone.
    pub tls: Option<TlsFiles>,
    /// How many nodes a write has to be on.
    pub acknowledge: Mode,
    /// How long a write waits for them at most.
    pub acknowledge_wait: Duration,
    /// Between two comparisons with the other nodes.
    pub compare_interval: Duration,
    /// Blobs fetched for replication at a time.
    pub fetches: usize,
    /// The most bytes a second that replication fetches; fetches for a waiting client are not
    /// limited.
    pub bandwidth: Option<u64>,
    /// How far ahead of this node's clock a record's stamp may be. One from a clock that runs years
    /// ahead would win against every later statement.
    pub clock_bound: Duration,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its name in the site; its certificate has to be for this name.
    pub name: NodeName,
    /// Its address for peers: host name or IP address, and port.
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
    /// The defaults of a cluster of one node.
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
