//! Connections to upstreams: DNS over TCP (RFC 7766), TLS (RFC 7858), HTTPS (RFC 8484) and QUIC (RFC 9250).
//!
//! ```text
//! driver ── ask ──► Pools ── one a server ──► Pool (decides) ── open, send, close ──► a task for each connection
//!    ▲                ▲                                                                       │
//!    └── outcomes ────┴───────────────────────── reports, by a bounded channel ───────────────┘
//! ```
//!
//! Connections are reused, and carry many queries at once. [`pool`] decides about queries and connections; [`connection`] carries the octets. A connection that a server closes while it is idle loses no
//! query: those without a response go over another one.
//!
//! | bound | beyond it |
//! | --- | --- |
//! | connections to a server, queries of a connection | the query waits |
//! | queries that wait | the query is lost |
//! | time of a handshake, of silence, of idleness | the connection is closed |
//!
//! Never chooses an upstream, and reads no configuration.

pub mod connection;
pub mod pool;
mod pools;
mod server;

pub use connection::{Progress, Report};
pub use pools::{Outcome, Pools};
pub use server::{Place, Server, Settings};
