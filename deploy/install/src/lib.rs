//! Decides for `outpost install`: the node of a bundle that this machine is, and the changes on it.
//!
//! Never inspects a machine: its caller passes the state.

pub mod node_choice;
pub mod plan;
