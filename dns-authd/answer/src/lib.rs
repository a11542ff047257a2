//! From the octets of a query to those of its response, for an authoritative server.
//!
//! ```text
//! dns_zone::Zone ──► Table ─┐
//!                           ├─► Snapshot ─► Responder::respond ─► Verdict
//! dns_lua::Choice ─► live ──┘                   │
//!                                          draft, options, tally
//! ```
//!
//! Opens nothing, reads no clock and logs nothing. The caller sends the octets, asks again for queries
//! that have to wait, and runs programs.

pub mod client;
mod draft;
pub mod live;
mod options;
mod pods;
pub mod programs;
pub mod responder;
pub mod settings;
pub mod shared_list;
pub mod snapshot;
pub mod table;
pub mod tally;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod transfer;
pub mod verdict;

pub use client::{Client, Transport};
pub use dns_zone::MAX_MESSAGE;
pub use programs::{Call, NoPrograms, Programs};
pub use responder::{Responder, respond_with};
pub use settings::{Any, Notifiers, Settings};
pub use snapshot::{Sight, Snapshot, ViewTables};
pub use verdict::{Ixfr, Verdict};
