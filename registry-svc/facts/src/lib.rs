//! Facts that the nodes of a registry state: their records, the stamps that order them, and the
//! registers that any order of the same records gives.
//!
//! Never reads files, sockets or clocks: callers hand it octets and times. It is no `core` package only
//! because `proto`, which has the form of a record, depends on tokio and tonic.

pub mod ages;
pub mod continuity;
pub mod frame;
pub mod hlc;
pub mod index;
pub mod lease;
pub mod name;
pub mod record;
pub mod usage;
