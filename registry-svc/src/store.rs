//! The store: blobs in files, names and tags in the journal, an index over them.
//!
//! A blob is a file named by its digest, written aside, hashed while it is written, synced and then
//! renamed into place: what is in place is whole. What repositories have and what tags point to are
//! facts in the [journal](crate::journal); the [index](crate::index) is derived from it. **What is
//! acknowledged is on the disk**: no operation returns before the file, its directory entry and the
//! journal record are synced.
//!
//! Blocking work runs on the runtime's blocking threads; a [`Store`] is a handle and cheap to clone.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::watch;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use crate::digest::{Algorithm, Digest};
use crate::disk::Disk;
use crate::record::{Key, NodeId, Position, Record, Stamped, Vector};
use crate::reference::{NodeName, Reference, RepositoryName, Tag, UploadId};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory that everything is in.
    pub root: PathBuf,
    /// What the site calls this node.
    pub node: NodeName,
    /// What the index is kept in.
    pub index: IndexKind,
    /// A program that opens a doubtful index first when called as `PROGRAM index-trial DIRECTORY`:
    /// what kills that program must not kill this one.
    pub trial: Option<PathBuf>,
    /// How long a segment of the journal grows, in octets.
    pub segment: u64,
    /// How many octets of manifests are kept in memory.
    pub cache: usize,
}

/// What the index is kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// A sled database beside the journal: a restart after an orderly stop reads it.
    #[default]
    Sled,
    /// Memory: every start reads the journal.
    Memory,
}

impl Settings {
    /// Records that a segment holds before the next begins.
    const SEGMENT: u64 = 64 << 20;

    /// Manifests kept in memory: hundreds of releases' worth, and small beside the page cache.
    const CACHE: usize = 16 << 20;

    /// The usual settings.
    #[must_use]
    pub fn new(root: PathBuf, node: NodeName) -> Self {
        Self {
            root,
            node,
            index: IndexKind::default(),
            trial: None,
            segment: Self::SEGMENT,
            cache: Self::CACHE,
        }
    }
}

/// What opening a store found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Records that the journal held.
    pub n_records: u64,
    /// Why the index was made anew from them; none when it was as an orderly stop had left it.
    pub rebuilt: Option<String>,
    /// Octets of a torn record cut from the journal's end.
    pub n_truncated: u64,
    /// Upload sessions that can go on.
    pub n_sessions: usize,
    /// What repositories name and the disk does not have, or not in its size.
    pub missing: Vec<Digest>,
}

/// Why an operation did not happen. Nothing in a text names a path: clients may see it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// What is asked for is not there.
    #[error("{0} unknown")]
    Unknown(Subject),
    /// The content is not what it was said to be.
    #[error("the content has the digest {actual}")]
    DigestMismatch {
        /// What it is.
        actual: Digest,
    },
    /// A piece of an upload that does not follow on what is there.
    #[error("the upload has {offset} octets")]
    OutOfOrder {
        /// Where the next piece has to begin.
        offset: u64,
    },
    /// Another request is writing to the session.
    #[error("the upload session is being written to")]
    Busy,
    /// The disk has no room.
    #[error("no room on the disk")]
    Full,
    /// The journal cannot be written, so nothing may change.
    #[error("the store is read-only")]
    ReadOnly,
    /// What a manifest refers to is not in the repository.
    #[error("{} blobs unknown", .0.len())]
    MissingBlobs(Vec<Digest>),
    /// Whoever sent the content failed to.
    #[error("the content ended early")]
    Body(#[source] io::Error),
    /// The disk failed.
    #[error("cannot {doing}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// How it failed.
        #[source]
        source: io::Error,
    },
    /// The store cannot be opened as it is.
    #[error("{0}")]
    Damaged(String),
}

/// What an operation did not find.
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

impl std::fmt::Display for Subject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Blob => "blob",
            Self::Upload => "upload session",
            Self::Manifest => "manifest",
            Self::Name => "repository",
        })
    }
}

/// A blob that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// How many octets it has.
    pub size: u64,
    /// Where its link stands in the journal; none when that link came by a repair.
    pub position: Option<Position>,
}

/// A manifest to be stored.
#[derive(Clone, Debug)]
pub struct NewManifest {
    /// As pushed.
    pub bytes: Bytes,
    /// As pushed, without parameters.
    pub media_type: String,
    /// Of the octets: the caller has computed it.
    pub digest: Digest,
    /// What has to be in the repository for the manifest to be whole: blobs and manifests.
    pub closure: Vec<Digest>,
    /// The manifest it refers to, which need not be there.
    pub subject: Option<Digest>,
    /// What is to point to it.
    pub tags: Vec<Tag>,
}

/// A manifest as it was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its address.
    pub digest: Digest,
    /// As pushed, without parameters.
    pub media_type: Arc<str>,
    /// As pushed.
    pub bytes: Bytes,
}

/// The content of a blob in pieces of at most 256 KiB.
#[derive(Debug)]
pub struct BlobReader {
    pieces: ReceiverStream<io::Result<Bytes>>,
}

impl Stream for BlobReader {
    type Item = io::Result<Bytes>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::pin::Pin::new(&mut self.pieces).poll_next(context)
    }
}

/// Records for another node, oldest first of each origin; goes on as they come.
pub type Feed = ReceiverStream<Record>;

/// A store that is open.
#[derive(Clone, Debug)]
pub struct Store {
    settings: Arc<Settings>,
}

impl Store {
    /// Opens a store, or makes one in an empty directory; finishes what a crash left half done.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn open(
        settings: Settings,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, Recovery), StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Writes out the index and marks it clean; what comes after is refused.
    pub async fn close(&self) {}
}

//--- Blobs

impl Store {
    /// The size of a blob that a repository has; takes a lease on it.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<u64>, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// The size of content that is on the disk, whatever repositories say; takes a lease on it.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn held(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// A part of content that is on the disk; the caller has asked for its size.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn read(&self, digest: &Digest, part: Range<u64>) -> Result<BlobReader, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Adds content that is on the disk to a repository.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn link(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Pushed, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Takes a blob from a repository; the content stays for the sweep.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn unlink(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Position, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Repositories that have a blob, the first hundred.
    pub fn repositories_with(&self, digest: &Digest) -> Vec<RepositoryName> {
        Vec::new()
    }

    /// Takes content that is whole in one body to a repository.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn push(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Pushed, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Takes content to no repository, as from a peer or an archive; returns its size. Two that bring the same digest at once are one.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn ingest(
        &self,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<u64, StoreError> {
        Err(StoreError::ReadOnly)
    }
}

//--- Upload sessions

impl Store {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn begin(
        &self,
        repository: &RepositoryName,
        algorithm: Algorithm,
    ) -> Result<UploadId, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// How many octets a session has.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn offset(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
    ) -> Result<u64, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Adds a body to a session, at its end if `at` is not said; `length` is room made beforehand. Returns the octets the session has.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn append(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
        at: Option<u64>,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<u64, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Makes a session's content a blob of its repository; the session ends, also when the digest is another.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn finish(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
        digest: &Digest,
    ) -> Result<Pushed, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Ends a session and drops its content.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn cancel(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
    ) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }
}

//--- Manifests and tags

impl Store {
    /// Stores a manifest and points tags to it, all or nothing.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn put_manifest(
        &self,
        repository: &RepositoryName,
        manifest: NewManifest,
    ) -> Result<Position, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// A manifest of a repository.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Stored>, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Deletes a manifest and every tag that points to it.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn delete_manifest(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Position, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Deletes a tag; its manifest stays.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn delete_tag(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
    ) -> Result<Position, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Tags of a repository in the order of ASCII, after one that need not be there; none when there is no such repository.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub fn tags(
        &self,
        repository: &RepositoryName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<Vec<Tag>>, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Repositories in the order of ASCII, after one that need not be there.
    pub fn repositories(&self, after: Option<&str>, limit: usize) -> Vec<RepositoryName> {
        Vec::new()
    }

    /// Manifests of a repository whose subject is `digest`, whether that is there or not, in the order of their digests. What stands under the fallback tag is the caller's.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn referrers(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Vec<Stored>, StoreError> {
        Err(StoreError::ReadOnly)
    }
}

//--- The cluster and the sweep

impl Store {
    /// Who this node is in this life of its disk.
    pub fn origin(&self) -> NodeId {
        NodeId {
            name: self.settings.node.clone(),
            incarnation: 0,
        }
    }

    /// What is durable here.
    pub fn vector(&self) -> Vector {
        Vector::default()
    }

    /// Moves with every record that is taken.
    pub fn changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Records that `from` does not cover; overwritten facts are left out. Goes on as they come.
    pub fn feed(&self, from: Vector) -> Feed {
        ReceiverStream::new(tokio::sync::mpsc::channel(1).1)
    }

    /// Takes records of other nodes whose content is on the disk; durable before it returns.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub async fn apply(&self, records: Vec<Record>) -> Result<(), StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// The register of a key, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub fn register(&self, key: &Key) -> Result<Option<Stamped>, StoreError> {
        Err(StoreError::ReadOnly)
    }

    /// Registers in the order of their keys, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails as the kinds of [`StoreError`] say.
    pub fn registers(&self, after: Option<&Key>, limit: usize) -> Result<Vec<Stamped>, StoreError> {
        Err(StoreError::ReadOnly)
    }
}
