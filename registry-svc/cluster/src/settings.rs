//! Settings of the cluster.

use std::time::Duration;

use config::registry_svc::Cluster;
use config::renewal::Renewal;
use config::{HostPort, TextError};
use registry_cluster_core::acknowledge::Mode;
use registry_facts::name::NodeName;

pub use super::throttle::Rates;
pub use config::registry_svc::NodeFiles;

/// Settings of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The node's name in the site.
    pub node: NodeName,
    /// The other nodes.
    pub peers: Vec<PeerSettings>,
    /// The nodes' certificates. `None`: no authentication, which is for tests and for networks of
    /// the nodes alone.
    pub tls: Option<NodeFiles>,
    /// The certificates for clients that the nodes give each other; only with `tls`.
    pub renewal: Option<Renewal>,
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
    pub rates: Rates,
    /// How far the clocks of two nodes may differ. A node whose clock differs more from the others'
    /// stamps its records by theirs.
    pub clock_bound: Duration,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its name in the site; its certificate has to be for this name.
    pub name: NodeName,
    /// Its address for peers.
    pub address: HostPort,
}

impl Settings {
    /// The settings of a configuration.
    ///
    /// # Errors
    /// When a name or an address is none.
    pub fn of(cluster: &Cluster) -> Result<Self, TextError> {
        let peers = cluster.peers.iter().map(|peer| {
            Ok(PeerSettings {
                name: peer.name.parse()?,
                address: peer.address.parse()?,
            })
        });
        Ok(Self {
            node: cluster.node.parse()?,
            peers: peers.collect::<Result<_, _>>()?,
            tls: Some(cluster.files()),
            renewal: None,
            acknowledge: cluster.acknowledge,
            acknowledge_wait: cluster.acknowledge_timeout.0,
            compare_interval: cluster.compare.get(),
            fetches: cluster.fetches.get(),
            rates: Rates {
                by_hour: cluster
                    .hourly_rates
                    .iter()
                    .map(|rate| (rate.hours.clone(), rate.rate.get()))
                    .collect(),
                otherwise: cluster.rate.map(config::SizeWithin::get),
            },
            clock_bound: cluster.clock_bound.get(),
        })
    }
}
