//! The content of a registry on its disk: blobs in files, facts in a journal, an index over them; and
//! the sweep, the scrub and the reserve that look after it.
//!
//! ```text
//!   sweep, scrub, heal, recover, space
//!          │
//!        store ──── journal, and the index over it
//!          │           │
//!          └─ trait Disk ── RealDisk, TimedDisk
//! ```
//!
//! Knows no HTTP and no configuration: callers open it with [`Settings`], and it asks other nodes through
//! [`Others`](others::Others).

pub mod database;
pub mod disk;
pub mod heal;
pub mod journal;
pub mod others;
pub mod recent_bytes;
pub mod recover;
pub mod scrub;
pub mod space;
pub mod store;
pub mod sweep;

pub use journal::writer::{SteadyClock, WallClock};
pub use store::batch::{Batch, Received};
pub use store::damage;
pub use store::membership::Noted;
pub use store::{
    BlobReader, IndexKind, NewManifest, Purpose, Pushed, Recovery, Settings, Store, StoreError,
    Stored, Subject, steady_clock, wall_clock,
};
