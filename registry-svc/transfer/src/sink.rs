//! The destination of images: the store, another registry, an OCI layout, or a data directory of
//! distribution.
//!
//! All of them take blobs first and a manifest when all that it refers to is there, so that what can be
//! seen is whole, and say what they have, so that nothing is copied twice.

mod registry;
mod tree;

use oci::digest::Digest;
use oci::manifest::Manifest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_store::{Batch, NewManifest, Store};

use crate::TransferError;
use crate::origin::Document;
use crate::source::Source;
use crate::tree::Tree;

pub use crate::sink::registry::RegistrySink;
pub use crate::sink::tree::{Layout, TreeSink};

/// The destination of images.
#[derive(Debug)]
pub enum Sink {
    /// The store of this node.
    Store(Store),
    /// Another registry.
    Registry(RegistrySink),
    /// A directory or a tar archive.
    Tree(TreeSink),
}

/// A manifest that is copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Its digest.
    pub digest: Digest,
    /// Its bytes.
    pub document: Document,
    /// The parsed manifest.
    pub manifest: Manifest,
}

impl Sink {
    /// Another registry.
    #[must_use]
    pub fn registry(registry: registry_client::Registry) -> Self {
        Self::Registry(RegistrySink::new(registry))
    }

    /// A directory or a tar archive.
    ///
    /// # Errors
    ///
    /// When what is there cannot be gone on with.
    pub fn tree(tree: Tree, layout: Layout) -> Result<Self, TransferError> {
        TreeSink::new(tree, layout).map(Self::Tree)
    }

    /// Whether a manifest is there with all that it refers to, and the tag points to it.
    ///
    /// # Errors
    ///
    /// When that cannot be found out.
    pub async fn has_image(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        tag: Option<&Tag>,
    ) -> Result<bool, TransferError> {
        match self {
            Self::Store(store) => {
                let reference = match tag {
                    Some(tag) => Reference::Tag(tag.clone()),
                    None => Reference::Digest(*digest),
                };
                let stored = store.manifest(repository, &reference).await?;
                Ok(stored.is_some_and(|stored| stored.digest == *digest))
            }
            Self::Registry(sink) => sink.has_image(repository, digest, tag).await,
            Self::Tree(sink) => Ok(sink.has_image(repository, digest, tag)),
        }
    }

    /// Whether a repository has a blob. One that is there for another is added to it.
    ///
    /// # Errors
    ///
    /// When that cannot be found out.
    pub async fn has_blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<bool, TransferError> {
        match self {
            Self::Store(store) => {
                if store.blob(repository, digest).await?.is_some() {
                    return Ok(true);
                }
                if store.held(digest).await?.is_none() {
                    return Ok(false);
                }
                store.link(repository, digest).await?;
                Ok(true)
            }
            Self::Registry(sink) => sink.has_blob(repository, digest).await,
            Self::Tree(sink) => Ok(sink.has_blob(repository, digest)),
        }
    }

    /// Whether a repository has a blob. One that is there for another is left as it is.
    ///
    /// # Errors
    ///
    /// When that cannot be found out.
    pub async fn has_linked(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<bool, TransferError> {
        match self {
            Self::Store(store) => Ok(store.blob(repository, digest).await?.is_some()),
            Self::Registry(_) | Self::Tree(_) => self.has_blob(repository, digest).await,
        }
    }

    /// Takes a blob.
    ///
    /// # Errors
    ///
    /// When it cannot be read or written, or is another.
    pub async fn put_blob(
        &self,
        repository: &RepositoryName,
        source: &Source,
    ) -> Result<(), TransferError> {
        match self {
            Self::Store(store) => {
                let body = source.open(0).await?;
                store
                    .push(repository, &source.digest, Some(source.size), body)
                    .await?;
                Ok(())
            }
            Self::Registry(sink) => sink.put_blob(repository, source).await,
            Self::Tree(sink) => sink.put_blob(source).await,
        }
    }

    /// Begins a batch of small blobs; none where each is taken by itself.
    ///
    /// # Errors
    ///
    /// When nothing can be written.
    pub async fn batch(&self) -> Result<Option<Batch>, TransferError> {
        match self {
            Self::Store(store) => Ok(store.batch().await?),
            Self::Registry(_) | Self::Tree(_) => Ok(None),
        }
    }

    /// Takes a manifest whose blobs and manifests it has.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is refused.
    pub async fn put_manifest(
        &self,
        repository: &RepositoryName,
        copied: &Copied,
        tag: Option<&Tag>,
    ) -> Result<(), TransferError> {
        match self {
            Self::Store(store) => {
                let manifest = &copied.manifest;
                let new = NewManifest {
                    bytes: copied.document.bytes.clone(),
                    media_type: manifest.media_type.clone(),
                    digest: copied.digest,
                    closure: manifest.closure.required().copied().collect(),
                    subject: manifest.subject.as_ref().map(|subject| subject.digest),
                    tags: tag.into_iter().cloned().collect(),
                };
                store.put_manifest(repository, new).await?;
                Ok(())
            }
            Self::Registry(sink) => sink.put_manifest(repository, copied, tag).await,
            Self::Tree(sink) => sink.put_manifest(repository, copied),
        }
    }

    /// Says that a manifest is an image of its own and not only part of one.
    ///
    /// # Errors
    ///
    /// When that cannot be written.
    pub fn name_image(
        &self,
        repository: &RepositoryName,
        copied: &Copied,
        tag: Option<&Tag>,
    ) -> Result<(), TransferError> {
        match self {
            Self::Store(_) | Self::Registry(_) => Ok(()),
            Self::Tree(sink) => sink.name_image(repository, copied, tag),
        }
    }

    /// Whether blobs have to come one after the other.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        match self {
            Self::Store(_) | Self::Registry(_) => false,
            Self::Tree(sink) => sink.is_sequential(),
        }
    }

    /// Writes what is written last.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub fn finish(&self) -> Result<(), TransferError> {
        match self {
            Self::Store(_) | Self::Registry(_) => Ok(()),
            Self::Tree(sink) => sink.finish(),
        }
    }
}
