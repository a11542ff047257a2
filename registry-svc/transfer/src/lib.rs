//! Images in and out: archives to the store and back, and from registry to registry.
//!
//! ```text
//!   archive ──┐                          ┌── store
//!   store ────┼── Origin ── copy ── Sink ┼── registry
//!   registry ─┘                          └── layout, distribution (directory or tar)
//! ```
//!
//! Readers (`layout`, `docker_archive`, `sync_directory`, `oc_directory`, `distribution`)
//! list the images of an archive and the claimed place of each digest's bytes; they see names and
//! small files, and never a disk. [`copy`] takes blobs first and manifests when everything that
//! they refer to is there. Present content is never copied again, so repeating a copy that stopped
//! continues it.

pub mod archive;
pub mod copy;
pub mod items;
pub mod origin;
pub mod progress;
pub mod report;
pub mod sink;
pub mod source;
pub mod tree;

use std::io;
use std::time::Duration;

use daemon::Backoff;
use oci::digest::Digest;
use oci::manifest::ManifestError;
use registry_client::{ClientError, Mismatch};
use registry_store::StoreError;

use crate::tree::TreeError;

/// Why something was not copied.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// An entry of an archive cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// Something else than what its name says.
    #[error(transparent)]
    Digest(Box<Mismatch>),
    /// Not a manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Content that a manifest needs is missing.
    #[error("{0} is needed, and neither comes with it nor is there")]
    Missing(Digest),
    /// Indexes in indexes without an end.
    #[error("indexes are nested more than {} deep", copy::MAX_DEPTH)]
    Nested,
    /// The size of a blob is unknown, and the destination needs it.
    #[error("nothing says how long {0} is")]
    Unsized(Digest),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another registry.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An export.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A directory that has something else.
    #[error("its index.json is not the index of an image layout")]
    OtherIndex,
}

impl TransferError {
    /// Whether nothing else can be copied either.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Store(error) => {
                matches!(
                    error,
                    StoreError::Full | StoreError::ReadOnly | StoreError::Io { .. }
                )
            }
            Self::Tree(error) => matches!(error, TreeError::Write { .. }),
            Self::Client(error) => matches!(
                error,
                ClientError::Unauthorized { .. } | ClientError::Connection(_)
            ),
            _ => false,
        }
    }
}

/// The wait before the next attempt: half a second, then twice as long each time.
fn pause(attempt: usize) -> Duration {
    let failures = u32::try_from(attempt).unwrap_or(u32::MAX).saturating_add(1);
    PAUSES.after(failures, 0.0)
}

const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(32));
