//! The nodes of a Kubernetes cluster that LUA records name.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Ip;
use crate::nodes::NodeList;
use crate::site::Network;

/// Lists of nodes, for the manual.
pub(super) const CLUSTER: &str = r#"
[cluster]
networks = ["192.168.7.0/24"]

[[cluster.list]]
name = "api"
nodes = ["masters"]
members = [{ name = "master-0", address = "192.168.7.13" }]
"#;

/// The nodes of a Kubernetes cluster. Every list has the nodes that are written, and the nodes of the cluster that join it, as
/// clusterd reports them.
///
/// In a LUA record, `clusternodes('LIST')` is a table of the addresses of the list: IPv4 addresses for an A record, IPv6
/// addresses for an AAAA record, both for others. Cordoned nodes are left out, unless all of them are. `ifportup(6443,
/// clusternodes('api'))` has healthd probe all of them. `clusternodes('LIST', 3)` has the addresses of node 3 alone, or none. The written
/// nodes have the numbers from 0 in their order; a node that joins gets the lowest free one, which stays its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The Unix socket of clusterd. While clusterd is away, the lists stay as they are. Written nodes never leave.
    pub socket: PathBuf,
    /// The networks of addresses with which nodes may join.
    #[schemars(extend("x-example" = "[\"192.168.7.0/24\"]"))]
    pub networks: Vec<Network>,
    /// Addresses in these networks with which no node may join, such as virtual IPs.
    #[schemars(extend("x-example" = "[\"192.168.7.100\"]"))]
    pub excluded: Vec<Ip>,
    /// The directory in which dns-authd keeps the nodes that have joined, with a checksum. A start while clusterd is away has
    /// them. Default: none, and such a start has the written nodes alone.
    #[schemars(extend("x-example" = "\"/var/lib/outpost/dns-authd/nodes\""))]
    pub state: Option<PathBuf>,
    /// The lists.
    pub list: Vec<NodeList>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            socket: crate::clusterd::SOCKET.into(),
            networks: Vec::new(),
            excluded: Vec::new(),
            state: None,
            list: Vec::new(),
        }
    }
}
