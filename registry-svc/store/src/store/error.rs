//! Why the store could not do something.

use std::fmt;
use std::io;

use config_text::counted;
use oci::digest::Digest;
use registry_facts::index::IndexError;
use thiserror::Error;

use crate::journal::JournalError;

/// Why an operation did not happen. Nothing in a text names a path: clients may see it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The requested item is not there.
    #[error("{0} unknown")]
    Unknown(Subject),
    /// The content is not what it was said to be.
    #[error("the content has the digest {actual}")]
    DigestMismatch {
        /// The actual digest.
        actual: Digest,
    },
    /// A piece of an upload that does not follow on what is there.
    #[error("the upload has {offset} octets")]
    OutOfOrder {
        /// The offset at which the next piece has to begin.
        offset: u64,
    },
    /// There are too many upload sessions.
    #[error("too many upload sessions")]
    TooMany,
    /// Another request is writing to the session.
    #[error("the upload session is being written to")]
    Busy,
    /// The disk has no room.
    #[error("no room on the disk")]
    Full,
    /// The journal or the file system cannot be written, so nothing may change.
    #[error("the store is read-only")]
    ReadOnly,
    /// Content that a manifest refers to is not in the repository.
    #[error("{} unknown", counted(.0.len(), "blob"))]
    MissingBlobs(Vec<Digest>),
    /// The sender of the content failed.
    #[error("the content ended early")]
    Body(#[source] io::Error),
    /// The disk failed.
    #[error("cannot {doing}")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// How it failed.
        #[source]
        source: io::Error,
    },
    /// The store cannot be opened as it is.
    #[error("{0}")]
    Damaged(String),
    /// Acknowledged records in the journal are damaged.
    #[error("{0}")]
    DamagedJournal(String),
}

/// The item that an operation did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A blob.
    Blob,
    /// An upload session.
    Upload,
    /// A manifest or a tag.
    Manifest,
    /// A repository.
    Name,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Blob => "blob",
            Self::Upload => "upload session",
            Self::Manifest => "manifest",
            Self::Name => "repository",
        })
    }
}

impl StoreError {
    /// Whether it is of the files of some content alone, so that another node may have that whole.
    #[must_use]
    pub fn is_of_content(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Io { .. })
    }

    /// The error of a disk operation.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io { doing, source },
        }
    }
}

impl From<JournalError> for StoreError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Full => Self::Full,
            JournalError::ReadOnly => Self::ReadOnly,
            JournalError::Io { doing, source } => Self::Io { doing, source },
            JournalError::Damaged { .. } => Self::DamagedJournal(error.to_string()),
            JournalError::Newer { .. } => Self::Damaged(error.to_string()),
        }
    }
}

impl From<IndexError> for StoreError {
    fn from(error: IndexError) -> Self {
        Self::Io {
            doing: "read the index",
            source: io::Error::other(error),
        }
    }
}
