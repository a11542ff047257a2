//! The data path without its sockets: what bytes mean, which flow a datagram belongs to, when deadlines are
//! due, how a session is recorded and told to a successor.
//!
//! Never reads a clock or a descriptor, and never trusts a length.

pub mod access_log;
pub mod client_hello;
pub mod flow;
pub mod gather;
pub mod handover;
pub mod proxy_protocol;
pub mod slab;
pub mod timers;
