//! What `outpost install` decides: which node of a bundle this machine is, and what has to change on it.
//!
//! Never looks at a machine: what it has is given.

pub mod node_choice;
pub mod plan;
