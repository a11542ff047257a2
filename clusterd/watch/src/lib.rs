//! How clusterd lists and watches one kind of object at the Kubernetes API: the decisions, without a socket or a clock.
//!
//! ```text
//!              ┌─────────┐ last page, or end mark  ┌──────────┐
//!  start ─────►│ listing ├────────────────────────►│ watching │◄─┐ ended by its own time limit
//!              └─▲────▲──┘                         └─┬──┬──┬──┘──┘
//!                │    └── 410, audit, restored etcd ─┘  │  │
//!                │                                      │  │ refused, torn, silent
//!                └──────── waiting ◄────────────────────┴──┘
//!                     next address at once, else back-off
//! ```
//!
//! The [`machine`] is given what the API says and the time, and returns requests to send and changes to make. A list counts
//! when its last page has come: half a list is never published. It never forgets an object because the API is away.

#![warn(missing_docs)]

mod addresses;
pub mod machine;
mod state;

pub use machine::{Action, Failure, Input, Machine, Note, Request, RequestKind, Settings};

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
