//! What the nodes of a registry state and agree on: records of facts, the clock that orders them, and
//! the registers that any order of the same records gives.
//!
//! Never reads files, sockets or clocks: it is handed octets and moments.

pub mod frame;
pub mod hlc;
pub mod index;
pub mod lease;
pub mod name;
pub mod record;
pub mod survey;
