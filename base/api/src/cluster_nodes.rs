//! The nodes of a cluster in lists of a service: those that people wrote, and those that have joined.

use serde::{Deserialize, Serialize};

use crate::lb_proxy::{HeldLoss, Origin, RefusedNode};

/// The lists of a service, and clusterd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nodes {
    /// Whether clusterd is connected; otherwise the lists stay.
    pub connected: bool,
    /// The last error of the connection; empty while connected.
    pub error: String,
    /// Seconds since clusterd was last heard of.
    pub age_seconds: Option<f64>,
    /// The generation of the last snapshot; 0 before the first.
    pub generation: u64,
    /// Whether nodes that have joined are those that the process before kept on disk.
    pub saved: bool,
    /// The lists.
    pub lists: Vec<NodeList>,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeList {
    /// Its name.
    pub name: String,
    /// The nodes that join: `masters`, `workers`, `ingress`.
    pub nodes: Vec<String>,
    /// The members.
    pub members: Vec<NodeMember>,
    /// Nodes that may not join.
    pub refused: Vec<RefusedNode>,
    /// A loss of members that does not count yet.
    pub held: Option<HeldLoss>,
}

/// A member of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMember {
    /// The name of the node.
    pub name: String,
    /// Its address.
    pub address: String,
    /// The number of the node.
    pub number: u32,
    /// Whether it is written, learned, or both.
    pub origin: Origin,
    /// Whether it is cordoned, so that it gets no new connections.
    pub drains: bool,
}
