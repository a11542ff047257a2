//! The decisions of replication between a registry's nodes.
//!
//! [`intake`] decides which records a node fetches content for and when it applies them;
//! [`acknowledge`] counts the nodes that have a write on disk; [`buckets`] compares the content of two
//! nodes; [`clocks`] finds the clock that is wrong; [`wire`] reads and writes their messages.
//!
//! Never opens a socket or a file, never sleeps, and never reads a clock: the caller passes the time in.

pub mod acknowledge;
pub mod ahead;
pub mod buckets;
pub mod clocks;
pub mod intake;
pub mod members;
#[cfg(test)]
mod simulation;
pub mod wire;
