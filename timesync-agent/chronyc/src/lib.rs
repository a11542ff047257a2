//! chronyc's protocol, version 6, both ways.
//!
//! ```text
//! chronyc ── request ──► socket (shell) ──► answer (core): a report from a View, or a command for the engine
//!         ◄── reply ───
//! ```
//!
//! A request is 20 octets of heading and its arguments, padded to the length of its reply at least, so that a forged request
//! gains no amplification. A reply is 28 octets of heading and the report. Everything is big endian; numbers with fractions
//! have chrony's own [form](float).
//!
//! UDP carries reports alone, and not all of them; a user who may open the socket in the file system may send every command.

pub mod answer;
pub mod calendar;
mod control_requests;
pub mod float;
pub mod json;
pub mod render;
pub mod reply;
mod report;
pub mod request;
pub mod source;
mod status;
mod wire;

/// Version of the protocol.
pub const VERSION: u8 = 6;
/// The port.
pub const PORT: u16 = 323;
/// No request and no reply is longer: the largest report is that of eight clients.
pub const MAX_LENGTH: usize = 520;
/// Octets of the heading of a reply. No request is shorter.
pub const REPLY_HEADING: usize = 28;

#[cfg(test)]
mod tests;
