//! Manifests and tags.
//!
//! A manifest's bytes are content like any other; that a repository has it, and what tags point to
//! it, is one record of the journal. That record restates what the manifest is made of, so it is
//! whole by itself wherever it arrives.

use std::sync::Arc;

use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_facts::index::IndexError;
use registry_facts::index::view::View;
use registry_facts::record::{Fact, Link, Position};

use super::damage::Reason;
use super::layout::read_whole;
use super::{Inner, NewManifest, Store, StoreError, Stored, Subject, blocking};

/// The longest manifest that is read back: longer ones are never taken.
const LONGEST: u64 = 64 << 20;

/// The memory of a resolved name without its manifest.
const NAME_WEIGHT: usize = 512;

/// The memory of a manifest besides its bytes.
const CONTENT_WEIGHT: usize = 128;

impl Store {
    /// Stores a manifest and points tags to it, all or nothing. Nothing of its closure can be
    /// taken away meanwhile.
    ///
    /// # Errors
    ///
    /// Fails with what the repository lacks of its closure; when the bytes have another digest; or
    /// when the disk fails.
    pub async fn put_manifest(
        &self,
        repository: &RepositoryName,
        manifest: NewManifest,
    ) -> Result<Position, StoreError> {
        self.inner.writable()?;
        self.clear_way(&manifest.digest).await;
        let _repository = self.inner.repositories.shared([repository]).await;
        let digests = manifest.closure.iter().chain([&manifest.digest]);
        let _digests = self.inner.digests.shared(digests).await;
        let inner = Arc::clone(&self.inner);
        let owner = repository.clone();
        let facts = blocking(move || {
            let mut facts = inner.closure(&owner, &manifest.closure)?;
            inner.keep(&manifest)?;
            facts.push(Fact::Manifest {
                repository: owner.clone(),
                digest: manifest.digest,
                link: Some(Link {
                    media_type: manifest.media_type.as_str().into(),
                    size: manifest.bytes.len() as u64,
                    subject: manifest.subject,
                }),
            });
            facts.extend(manifest.tags.into_iter().map(|tag| Fact::Tag {
                repository: owner.clone(),
                tag,
                target: Some(manifest.digest),
            }));
            Ok(facts)
        })
        .await?;
        Ok(self.inner.writer.state(facts).await?)
    }

    /// A manifest of a repository.
    ///
    /// # Errors
    ///
    /// Fails when its content is lost or the disk fails.
    pub async fn manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Stored>, StoreError> {
        let Some((digest, media_type)) = self.inner.resolve(repository, reference)? else {
            return Ok(None);
        };
        let bytes = match self.inner.cached(&digest) {
            Some(bytes) => bytes,
            None => {
                let inner = Arc::clone(&self.inner);
                match blocking(move || inner.load(&digest)).await? {
                    Some(bytes) => bytes,
                    None => self.load_from_trash(digest).await?,
                }
            }
        };
        Ok(Some(Stored {
            digest,
            media_type,
            bytes,
        }))
    }

    /// The media type of a manifest of a repository.
    ///
    /// # Errors
    ///
    /// Fails when the index does.
    pub fn media_type(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let found = self.inner.resolve(repository, reference)?;
        Ok(found.map(|(_, media_type)| media_type))
    }

    /// Reads a manifest's content that is not in its place, and takes it back from the trash: it was
    /// moved there when no repository had the manifest yet.
    async fn load_from_trash(&self, digest: Digest) -> Result<bytes::Bytes, StoreError> {
        let _lock = self.inner.digests.shared([&digest]).await;
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            if inner.present(&digest)?.is_none() {
                inner.lose(&digest);
            }
            let bytes = inner.load(&digest)?;
            bytes.ok_or(StoreError::Unknown(Subject::Manifest))
        })
        .await
    }

    /// Deletes a manifest and every tag that points to it.
    ///
    /// # Errors
    ///
    /// Fails when the repository does not have it or the journal fails.
    pub async fn delete_manifest(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Position, StoreError> {
        let _repository = self.inner.repositories.alone(repository).await;
        if self
            .inner
            .read(|view| view.manifest(repository, digest))?
            .is_none()
        {
            return Err(StoreError::Unknown(Subject::Manifest));
        }
        let mut facts = vec![Fact::Manifest {
            repository: repository.clone(),
            digest: *digest,
            link: None,
        }];
        let tags = self.inner.read(|view| view.tags_of(repository, digest))?;
        facts.extend(tags.into_iter().map(|tag| Fact::Tag {
            repository: repository.clone(),
            tag,
            target: None,
        }));
        Ok(self.inner.writer.state(facts).await?)
    }

    /// Deletes a tag; its manifest stays.
    ///
    /// # Errors
    ///
    /// Fails when there is no such tag or the journal fails.
    pub async fn delete_tag(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
    ) -> Result<Position, StoreError> {
        let _repository = self.inner.repositories.alone(repository).await;
        if self.inner.read(|view| view.tag(repository, tag))?.is_none() {
            return Err(StoreError::Unknown(Subject::Manifest));
        }
        let fact = Fact::Tag {
            repository: repository.clone(),
            tag: tag.clone(),
            target: None,
        };
        Ok(self.inner.writer.state(vec![fact]).await?)
    }

    /// Tags of a repository in the order of ASCII, after one that need not be there; none when
    /// there is no such repository.
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn tags(
        &self,
        repository: &RepositoryName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<Vec<Tag>>, StoreError> {
        self.inner.read(|view| {
            if view.has(repository)? {
                view.tags(repository, after, limit).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    /// Repositories in the order of ASCII, after one that need not be there.
    #[must_use]
    pub fn repositories(&self, after: Option<&str>, limit: usize) -> Vec<RepositoryName> {
        let names = self.inner.read(|view| view.repositories(after, limit));
        names.unwrap_or_default()
    }

    /// Manifests of a repository whose subject is `digest`, whether that is there or not, in the
    /// order of their digests, after one that need not be there. The caller adds those under the
    /// fallback tag.
    ///
    /// # Errors
    ///
    /// Fails when neither the index nor the journal can be read.
    pub fn referrers(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        after: Option<&Digest>,
        limit: usize,
    ) -> Result<Vec<Digest>, StoreError> {
        self.inner
            .read(|view| view.referrers(repository, digest, after, limit))
    }
}

impl Inner {
    /// The digest that a reference names, and its media type.
    fn resolve(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<(Digest, Arc<str>)>, StoreError> {
        let name = (repository.clone(), reference.clone());
        let n_taken = *self.changes.borrow();
        {
            let mut names = self.names.lock();
            if names.n_taken != n_taken {
                names.n_taken = n_taken;
                names.cache.clear();
            } else if let Some(found) = names.cache.find(&name) {
                return Ok(Some(found));
            }
        }
        let found = self.read(|view| resolve(view, repository, reference))?;
        if let Some(found) = &found {
            let mut names = self.names.lock();
            // Records accepted meanwhile may have changed the answer.
            if names.n_taken == n_taken && *self.changes.borrow() == n_taken {
                names.cache.insert(name, found.clone(), NAME_WEIGHT);
            }
        }
        Ok(found)
    }

    fn cached(&self, digest: &Digest) -> Option<bytes::Bytes> {
        let mut manifests = self.manifests.lock();
        manifests.find(digest)
    }

    fn remember(&self, digest: &Digest, bytes: &bytes::Bytes) {
        let mut manifests = self.manifests.lock();
        let weight = bytes.len() + CONTENT_WEIGHT;
        manifests.insert(*digest, bytes.clone(), weight);
    }

    /// Reads a manifest's content if it is in its place and whole; blocks.
    fn load(&self, digest: &Digest) -> Result<Option<bytes::Bytes>, StoreError> {
        let path = self.layout.blob(digest);
        let failed = StoreError::io("read a manifest");
        let Some(file) = self.disk.status(&path).map_err(failed)? else {
            self.end_lease(digest);
            return Ok(None);
        };
        if !self.is_fit(digest, &file) {
            return Ok(None);
        }
        let octets = match read_whole(&*self.disk, &path, LONGEST) {
            Ok(Some(octets)) => octets,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.refuse(digest, Reason::Unreadable, Some(file));
                return Err(StoreError::io("read a manifest")(error));
            }
        };
        if Digest::of(digest.algorithm(), &octets) != *digest {
            self.refuse(digest, Reason::Digest, Some(file));
            return Ok(None);
        }
        self.verify(digest, file);
        let bytes = bytes::Bytes::from(octets);
        self.remember(digest, &bytes);
        Ok(Some(bytes))
    }

    /// The facts of a closure that is whole: everything is linked in the repository, and there.
    /// Blocks.
    fn closure(
        &self,
        repository: &RepositoryName,
        closure: &[Digest],
    ) -> Result<Vec<Fact>, StoreError> {
        let mut facts = Vec::with_capacity(closure.len() + 2);
        let mut missing = Vec::new();
        for digest in closure {
            let fact = self.read(|view| standing(view, repository, digest))?;
            let is_there = self.renew(digest).is_some() || self.present(digest)?.is_some();
            match fact {
                Some(fact) if is_there => facts.push(fact),
                _ => missing.push(*digest),
            }
        }
        if missing.is_empty() {
            Ok(facts)
        } else {
            Err(StoreError::MissingBlobs(missing))
        }
    }

    /// Makes the content of a manifest durable; blocks.
    fn keep(&self, manifest: &NewManifest) -> Result<(), StoreError> {
        if self.present(&manifest.digest)?.is_none() {
            let mut incoming = self.part(&manifest.digest)?;
            if let Err(error) = incoming.write(std::slice::from_ref(&manifest.bytes)) {
                incoming.remove();
                return Err(StoreError::io("store a manifest")(error));
            }
            let place = || incoming.publish(&self.layout, &manifest.digest);
            let size = self.naming.name(&manifest.digest, place)?;
            self.arrived(&manifest.digest, size);
        }
        self.remember(&manifest.digest, &manifest.bytes);
        Ok(())
    }
}

fn resolve(
    view: &View,
    repository: &RepositoryName,
    reference: &Reference,
) -> Result<Option<(Digest, Arc<str>)>, IndexError> {
    let found = match reference {
        Reference::Tag(tag) => view.tag(repository, tag)?,
        Reference::Digest(digest) => {
            let link = view.manifest(repository, digest)?;
            link.map(|link| (*digest, link))
        }
    };
    Ok(found.map(|(digest, link)| (digest, link.media_type)))
}

/// The fact by which a repository has a digest.
fn standing(
    view: &View,
    repository: &RepositoryName,
    digest: &Digest,
) -> Result<Option<Fact>, IndexError> {
    if let Some(size) = view.blob(repository, digest)? {
        return Ok(Some(Fact::Blob {
            repository: repository.clone(),
            digest: *digest,
            size: Some(size),
        }));
    }
    let link = view.manifest(repository, digest)?;
    Ok(link.map(|link| Fact::Manifest {
        repository: repository.clone(),
        digest: *digest,
        link: Some(link),
    }))
}
