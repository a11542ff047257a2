//! Zones of an authoritative server: master files, and zones compiled for answering.
//!
//! ```text
//! octets ─► lexer ─► parse ─► record::Record ─► zone::build ─► Zone ─► Answer
//!                      │                                        │ resolve
//!                      └─► check                                ▼
//!                                               resolution ─► store (encoded responses)
//! ```
//!
//! [`load_queue`] decides which zones are loaded when, [`notify`] when to notify which secondary, and [`refresh`]
//! when a secondary asks; [`incoming`] reads a transfer. A zone is built once and never changed. The crate opens nothing,
//! reads no clock, logs nothing and knows no liveness: a set of records that `LUA` programs make is a number here.

pub mod check;
mod generate;
pub mod guard;
pub mod incoming;
mod lexer;
pub mod load_queue;
mod merge;
pub mod name_table;
pub mod notify;
pub mod parse;
pub mod program;
pub mod record;
pub mod refresh;
pub mod resolution;
pub mod store;
pub mod text;
pub mod zone;

pub use guard::{Doubt, Guard};
pub use merge::canonical;
pub use program::Program;
pub use record::{ProgramText, Record, RecordData, SoaTimes};
pub use resolution::{Pick, Resolution, Unresolved};
pub use store::MAX_MESSAGE;
pub use zone::Edit;
pub use zone::cursor::Cursor;
pub use zone::{Answer, Asked, LiveSet, MAX_CHAIN, NamePlace, Soa, Zone};
