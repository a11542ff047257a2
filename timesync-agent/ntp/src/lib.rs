//! NTP: packets and their signatures, the polling of servers, and the answers to clients.
//!
//! ```text
//!  Resolved ─► pool ─► association ◄── datagrams        request ─► responder ─► answer
//!                         │ samples                                   ▲
//!                         ▼                                           │ reference
//!                      timekeeper ────────────────────────────────────┘
//! ```
//!
//! Never opens a socket, reads a clock or waits: `engine` and `responder` get datagrams with their timestamps and the time.

pub mod association;
pub mod engine;
pub mod key_file;
pub mod keys;
pub mod pool;
pub mod responder;
pub mod wire;
