//! Pushing to another registry: mounts blobs that it has elsewhere, continues an upload that broke
//! off, and waits when the registry says so.

use std::collections::BTreeMap;

use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName, Tag};
use parking_lot::Mutex;
use registry_client::{ClientError, Registry, Upload};
use tokio::time::sleep;

use crate::sink::Copied;
use crate::source::Source;
use crate::{TransferError, pause};

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
            // Mounted from a repository that is unknown here.
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

    /// The bytes that an upload that broke off has; none when it has to begin again.
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
        let mut seen = self.seen.lock();
        seen.entry(*digest).or_insert_with(|| repository.clone());
    }

    fn elsewhere(&self, repository: &RepositoryName, digest: &Digest) -> Option<RepositoryName> {
        let seen = self.seen.lock();
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::Frame;
    use hyper::{Method, Request, Response};
    use oci::digest::Algorithm;
    use registry_archive::catalogue::{Catalogue, Place};
    use registry_archive::testing::Scratch;
    use registry_auth::Peer;
    use registry_client::credentials::AuthFile;
    use registry_client::testing::{Answered, Served, answer, whole};
    use registry_http::Limits;
    use registry_http::testing::Registry as Upstream;

    use super::*;
    use crate::archive::Archive;
    use crate::origin::Origin;

    fn name(text: &str) -> RepositoryName {
        text.parse().unwrap()
    }

    /// A source of these octets.
    fn source(scratch: &Scratch, octets: &[u8]) -> Source {
        let digest = Digest::of(Algorithm::Sha256, octets);
        let mut catalogue = Catalogue::default();
        let place = Place::Made(Bytes::copy_from_slice(octets));
        catalogue.places.insert(digest, place);
        let archive = Archive::open(&[scratch.path("")]).unwrap();
        let origin = Origin::Archive(Arc::new(archive), Arc::new(catalogue));
        Source {
            origin,
            repository: name("from"),
            progress: Arc::default(),
            digest,
            size: octets.len() as u64,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_upload_that_broke_off_goes_on_where_it_was() {
        let upstream = Upstream::with(Limits::default()).await;
        let api = upstream.api();
        let store = upstream.store();
        let broke = Arc::new(AtomicBool::new(false));
        let went_on = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&went_on);
        let served = Served::start(move |request| {
            let (api, broke) = (Arc::clone(&api), Arc::clone(&broke));
            let noticed = Arc::clone(&noticed);
            async move {
                let peer = Peer::plain("192.0.2.1:4000".parse().unwrap());
                let (head, body) = request.into_parts();
                let octets = body.collect().await.unwrap().to_bytes();
                let is_last = head.method == Method::PUT;
                if is_last && head.headers.contains_key("content-range") {
                    noticed.store(true, Ordering::Relaxed);
                }
                let breaks = is_last && !broke.swap(true, Ordering::Relaxed);
                let mut frames = vec![Ok(Frame::data(octets.clone()))];
                if breaks {
                    let half = octets.slice(..octets.len() / 2);
                    let lost = io::Error::from(io::ErrorKind::BrokenPipe);
                    frames = vec![Ok(Frame::data(half)), Err(lost)];
                }
                let body = StreamBody::new(tokio_stream::iter(frames));
                let answered = api.handle(Request::from_parts(head, body), &peer).await;
                if breaks {
                    return answer(503, &[], whole(""));
                }
                let (head, body) = answered.into_parts();
                let body: Answered = whole(body.collect().await.unwrap().to_bytes());
                Response::from_parts(head, body)
            }
        })
        .await;
        let scratch = Scratch::new();
        let octets: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 239) as u8).collect();
        let source = source(&scratch, &octets);
        let sink = RegistrySink::new(served.registry(AuthFile::default()));
        let target = name("a/b");
        assert!(!sink.has_blob(&target, &source.digest).await.unwrap());
        sink.put_blob(&target, &source).await.unwrap();
        let size = store.blob(&target, &source.digest).await.unwrap();
        assert_eq!(size, Some(1_000_000));
        assert!(went_on.load(Ordering::Relaxed), "{:?}", served.asked());
        // Another repository there takes it from the first.
        let other = name("c");
        assert!(sink.has_blob(&other, &source.digest).await.unwrap());
        let size = store.blob(&other, &source.digest).await.unwrap();
        assert_eq!(size, Some(1_000_000));
        assert_eq!(served.count("PUT "), 2, "{:?}", served.asked());
    }
}
