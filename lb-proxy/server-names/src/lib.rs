//! Decides which servers DNS names stand for.
//!
//! ```text
//! names of the configuration ─┐
//! responses ─► message ───────┼─► lookup: records that hold ─► names: the servers of each entry
//! time ───────────────────────┘
//! ```
//!
//! `last_answers` writes the records down and begins with them after a restart.
//!
//! Silence of a resolver changes nothing: the last records stay. A denial counts once it has lasted. Reads no clock and no
//! socket; times are given.

mod last_answers;
mod lookup;
pub mod message;
pub mod names;

pub use lookup::{Settings, State};
