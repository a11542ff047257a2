//! Pushing to another registry: mounts where it has a blob elsewhere, goes on with an upload that broke
//! off, and waits when it is told to.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::sleep;

use crate::client::{ClientError, Registry, Upload};
use crate::digest::Digest;
use crate::reference::{Reference, RepositoryName, Tag};
use crate::transfer::copy::Source;
use crate::transfer::sink::Copied;
use crate::transfer::{TransferError, pause};

/// Times that a blob or a manifest is tried.
const ATTEMPTS: usize = 5;

/// Another registry that is pushed to.
#[derive(Debug)]
pub struct RegistrySink {
    registry: Registry,
    /// A repository there that has a blob, as far as it was seen here.
    seen: Mutex<BTreeMap<Digest, RepositoryName>>,
}

impl RegistrySink {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            seen: Mutex::default(),
        }
    }

    pub(super) async fn has_image(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        tag: Option<&Tag>,
    ) -> Result<bool, TransferError> {
        let reference = match tag {
            Some(tag) => Reference::Tag(tag.clone()),
            None => Reference::Digest(*digest),
        };
        let resolved = again(|| self.registry.resolve(repository, &reference)).await?;
        Ok(resolved == Some(*digest))
    }

    pub(super) async fn has_blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<bool, TransferError> {
        let size = again(|| self.registry.blob_size(repository, digest)).await?;
        if size.is_some() {
            self.saw(repository, digest);
            return Ok(true);
        }
        let Some(from) = self.elsewhere(repository, digest) else {
            return Ok(false);
        };
        match again(|| self.registry.begin_upload(repository, digest, Some(&from))).await? {
            None => Ok(true),
            Some(upload) => {
                self.registry.cancel_upload(upload).await;
                Ok(false)
            }
        }
    }

    pub(super) async fn put_blob(
        &self,
        repository: &RepositoryName,
        source: &Source,
    ) -> Result<(), TransferError> {
        let digest = &source.digest;
        let mut session: Option<(Upload, u64)> = None;
        for attempt in 0.. {
            match self.send(repository, source, &mut session).await {
                Ok(()) => {
                    self.saw(repository, digest);
                    return Ok(());
                }
                Err(TransferError::Client(error))
                    if error.is_passing() && attempt + 1 < ATTEMPTS =>
                {
                    sleep(pause(attempt)).await;
                    session = self.stands(session, source.size).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        repository: &RepositoryName,
        source: &Source,
        session: &mut Option<(Upload, u64)>,
    ) -> Result<(), TransferError> {
        if session.is_none() {
            let begun = self.registry.begin_upload(repository, &source.digest, None);
            // Mounted from a repository that is not known here.
            let Some(upload) = begun.await? else {
                return Ok(());
            };
            *session = Some((upload, 0));
        }
        let Some((upload, from)) = session else {
            return Ok(());
        };
        let from = *from;
        let body = source.open(from).await?;
        let rest = source.size.saturating_sub(from);
        self.registry
            .upload(upload, &source.digest, from, rest, body)
            .await?;
        Ok(())
    }

    /// How far an upload that broke off has come; none when it has to begin anew.
    async fn stands(&self, session: Option<(Upload, u64)>, size: u64) -> Option<(Upload, u64)> {
        let (upload, _) = session?;
        let found = self.registry.upload_offset(&upload).await.ok().flatten();
        found.filter(|(_, offset)| *offset <= size)
    }

    pub(super) async fn put_manifest(
        &self,
        repository: &RepositoryName,
        copied: &Copied,
        tag: Option<&Tag>,
    ) -> Result<(), TransferError> {
        let reference = match tag {
            Some(tag) => Reference::Tag(tag.clone()),
            None => Reference::Digest(copied.digest),
        };
        let bytes = &copied.document.bytes;
        let media_type = &copied.manifest.media_type;
        let put = || {
            self.registry
                .put_manifest(repository, &reference, media_type, bytes.clone())
        };
        Ok(again(put).await?)
    }

    fn saw(&self, repository: &RepositoryName, digest: &Digest) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(*digest).or_insert_with(|| repository.clone());
    }

    fn elsewhere(&self, repository: &RepositoryName, digest: &Digest) -> Option<RepositoryName> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = seen.get(digest)?;
        (found != repository).then(|| found.clone())
    }
}

/// Asks again for a while when that may help.
async fn again<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    for attempt in 1..ATTEMPTS {
        match ask().await {
            Err(error) if error.is_passing() => sleep(pause(attempt - 1)).await,
            result => return result,
        }
    }
    ask().await
}
