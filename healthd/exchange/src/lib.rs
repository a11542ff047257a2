//! The findings of the nodes of a site, and the verdict of the site about each target that follows from them.
//!
//! ```text
//! messages of peers ──► members: who is heard, its findings ──► site: verdicts ──► liveness for subscribers
//! failed connects   ──►    │                                      ▲
//!                          └──► contact: connected, alone, cut off│
//! own probes ──────────────────────────────────────────────────────┘
//! ```
//!
//! [`members`] keeps each peer's findings and when it was last heard, by this node's own steady clock: no wall time and
//! no time of another node enters. The caller proves who a peer is; a message has no name of a node in it, so
//! a peer speaks for itself alone. [`site`] makes the verdict of a target from it.
//!
//! | nodes of the site | the liveness of a target is |
//! | --- | --- |
//! | 1 or 2 | the finding of this node |
//! | 3 or more, a majority is heard, at least two nodes probe the target | the finding of more than half of those; in a split the last verdict for a while, then up |
//! | 3 or more, one node probes the target | the finding of this node |
//! | no majority is heard, but its machines answer: their healthds are away | the finding of this node |
//! | no majority is heard, and its machines are silent: this node is cut off | the last verdict for a while, then the finding of this node |
//!
//! More is proven by *up* than by *down*: a node that reaches a target proves that it serves, one that does not reach it
//! may itself be the cause. So in a lasting split the target is up.
//!
//! Two nodes that hear the same findings come to the same verdict. If the network between the nodes is cut in part, a
//! node does not hear all of them: it may then hold its last verdict while others have another one, and no longer.
//!
//! [`lease`] stands beside `site`: a virtual address belongs to the node that has a majority's lease of it.
//!
//! Pure: never sends, never probes, never reads a clock.

pub mod lease;
pub mod members;
pub mod site;
