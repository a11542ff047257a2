//! Answers of upstreams: read, kept, and written for clients.
//!
//! ```text
//! response ─► message::Reader ─► Message ─► cache::Cache ─► answer::send ─► client
//!                                  key::Key ──┘
//! ```
//!
//! Never opens a socket, reads a clock, or draws a random number. The time is an argument of every call.

pub mod answer;
pub mod archive;
pub mod cache;
pub mod instant;
pub mod key;
pub mod message;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
