//! Resolves questions by asking upstreams.
//!
//! ```text
//! forward: which upstreams answer for a name ─► resolver ─► exchange: one query and its response
//!        │              upstream_state: which of them work ──┘
//!        └─ bailiwick: which names they may speak for
//! ```
//!
//! [`ports`] picks the UDP port of a query, and finds the query of a datagram.
//!
//! [`resolver::Resolver`] is a state machine. Its caller sends the messages, reads the clock, and asks the
//! cache. This crate never does.

pub mod bailiwick;
pub mod exchange;
pub mod forward;
pub mod origin;
pub mod own_addresses;
pub mod ports;
pub mod resolver;
pub mod suffixes;
pub mod upstream_state;
