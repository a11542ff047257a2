//! What a registry keeps on its disk, and how it looks after it.
//!
//! ```text
//!   sweep, scrub, space
//!          │
//!        store ──── journal, and the index over it
//!          │           │
//!          └─ trait Disk ── RealDisk, TimedDisk
//! ```
//!
//! Knows no HTTP and no configuration: it is opened with [`Settings`], and asks other nodes through
//! [`Others`](others::Others).

pub mod database;
pub mod disk;
pub mod journal;
pub mod others;
pub mod scrub;
pub mod space;
pub mod store;
pub mod sweep;
pub mod window;

pub use store::{
    BlobReader, IndexKind, NewManifest, Pushed, Recovery, Settings, Store, StoreError, Stored,
    Subject,
};
