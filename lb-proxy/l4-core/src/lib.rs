//! The data path without its sockets: the meaning of octets, the flow of a datagram, due deadlines, the
//! record of a session, and its description for a successor.
//!
//! Never reads a clock or a descriptor, and never trusts a length.

pub mod access_log;
pub mod client_hello;
pub mod delivery;
pub mod ending;
pub mod flow;
pub mod gather;
pub mod handover;
pub mod proxy_protocol;
pub mod slab;
pub mod timers;
