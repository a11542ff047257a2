//! The versions of a zone that were published, newest last, as the differences between them.
//!
//! ```text
//! Zone ─┐
//!       ├─► Change::between ─► History ─► since ─► an incremental transfer
//! Zone ─┘                       │  ▲      replay ─► an older version
//!                               ▼  │
//!                              octets
//! ```
//!
//! A history is bounded: the oldest versions leave it. Opens nothing and reads no clock: the caller keeps the octets.

mod change;
mod encoding;
mod history;
mod layers;
mod making;
#[cfg(test)]
mod tests;
mod version;

pub use change::{Change, Difference, TooLarge};
pub use encoding::{Malformed, file_name};
pub use history::{History, Limits, NoSuchVersion, Rollback};
pub use making::Making;
pub use version::{Content, Version};
