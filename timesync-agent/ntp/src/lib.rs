//! NTP: packets and their signatures, the servers that are asked, and what clients are answered.
//!
//! ```text
//!  Resolved ─► pool ─► association ◄── datagrams        request ─► responder ─► answer
//!                         │ samples                                   ▲
//!                         ▼                                           │ reference
//!                      timekeeper ────────────────────────────────────┘
//! ```
//!
//! Never opens a socket, reads a clock or waits: `engine` and `responder` are told datagrams with their stamps and the time.

pub mod association;
pub mod engine;
pub mod key_file;
pub mod keys;
pub mod pool;
pub mod responder;
pub mod wire;
