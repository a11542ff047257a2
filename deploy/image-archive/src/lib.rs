//! Images as files: OCI layouts in a tar archive (OCI image specification 1.1, image-layout),
//! with one image of one gzip layer.
//!
//! ```text
//! files ── layer ──► gzip blob ─┐
//! labels, user, entrypoint ─────┴─ layout ──► tar: oci-layout, index.json, blobs/sha256/…
//!                                                   │
//!                          facts, every digest checked ◄── archive
//! ```
//!
//! The same input gives the same bytes: names are sorted, times are given, nothing asks a clock.

pub mod archive;
pub mod digest;
pub mod elf;
pub mod layer;
pub mod layout;
pub mod sums;
