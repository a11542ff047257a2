//! The data path: TCP ([`relay`]) and UDP ([`datagram`]), their [`handover`] to a successor, and the
//! [`access_log`].
//!
//! `balance` and `l4_core` decide; here are sockets, threads and clocks. Never reads a
//! configuration and never asks healthd: it is given tables.

pub mod access_log;
pub mod datagram;
pub mod handover;
pub mod relay;
