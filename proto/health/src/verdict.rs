//! Why the liveness of a target is what it is, where several nodes probe it.

use serde::{Deserialize, Serialize};

use crate::Liveness;

/// The basis of the liveness of a target.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The probes of this node.
    #[default]
    Own,
    /// More than half of the nodes that probe the target, two of them at least.
    Site,
    /// The nodes are split: the target is up for those that reach it.
    Split,
    /// The last verdict of the site, while the nodes are split or this node is cut off.
    Last,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Own, Self::Site, Self::Split, Self::Last];

    /// The name, for metrics and `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Site => "site",
            Self::Split => "split",
            Self::Last => "last",
        }
    }
}

impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The finding of one node about a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFinding {
    /// The node.
    pub node: String,
    /// The liveness that its own probes make.
    pub liveness: Liveness,
    /// The reason that its last probe gave.
    pub reason: String,
}

/// Why the liveness of a target is what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The basis of the liveness.
    pub basis: Basis,
    /// The findings of the nodes that are heard, this node's first.
    pub findings: Vec<NodeFinding>,
}
