//! The origin of images: an archive, the store, or another registry.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use oci::digest::Digest;
use oci::manifest::MAX_DOCUMENT;
use oci::reference::{Reference, RepositoryName};
use registry_archive::catalogue::{Catalogue, Files as _, Place};
use registry_client::connection::ByteStream;
use registry_client::{Mismatch, Registry};
use registry_store::{Purpose, Store};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};

use crate::TransferError;
use crate::archive::Archive;

/// The size of one read from an archive.
const PIECE: usize = 256 << 10;
/// Pieces read ahead of what is written.
const AHEAD: usize = 4;
/// Times that a blob of another registry is gone on with, each time from where it broke off.
const ATTEMPTS: usize = 5;

/// The origin of images. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An archive on the disk, and what was found in it.
    Archive(Arc<Archive>, Arc<Catalogue>),
    /// The store of this node.
    Store(Store),
    /// Another registry.
    Registry(Registry),
}

/// A manifest and what kind it is, where that is known.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its bytes, verified.
    pub bytes: Bytes,
    /// Its media type; none where only the bytes say.
    pub media_type: Option<String>,
}

impl Origin {
    /// A manifest; none when it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is another.
    pub async fn document(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<Document>, TransferError> {
        let reference = Reference::Digest(*digest);
        let found = match self {
            Self::Archive(archive, catalogue) => match catalogue.places.get(digest) {
                None => None,
                Some(Place::Made(bytes)) => Some((bytes.clone(), None)),
                Some(Place::Entry(name)) => {
                    let (archive, name) = (Arc::clone(archive), name.clone());
                    let read = spawn_blocking(move || archive.read(&name, MAX_DOCUMENT));
                    let bytes = joined(read.await).map_err(TransferError::Read)?;
                    Some((Bytes::from(bytes), None))
                }
            },
            Self::Store(store) => store
                .manifest(repository, &reference)
                .await?
                .map(|stored| (stored.bytes, Some(stored.media_type.to_string()))),
            Self::Registry(registry) => registry
                .manifest(repository, &reference)
                .await?
                .map(|manifest| (manifest.bytes, Some(manifest.media_type))),
        };
        let Some((bytes, media_type)) = found else {
            return Ok(None);
        };
        let got = Digest::of(digest.algorithm(), &bytes);
        match got == *digest {
            true => Ok(Some(Document { bytes, media_type })),
            false => {
                let wanted = *digest;
                Err(TransferError::Digest(Box::new(Mismatch { wanted, got })))
            }
        }
    }

    /// The size of a blob, where it is known without asking for it.
    ///
    /// # Errors
    ///
    /// When the store does not say.
    pub async fn size(&self, digest: &Digest) -> Result<Option<u64>, TransferError> {
        match self {
            Self::Archive(archive, catalogue) => Ok(match catalogue.places.get(digest) {
                None => None,
                Some(Place::Made(bytes)) => u64::try_from(bytes.len()).ok(),
                Some(Place::Entry(name)) => archive.entries().file(name).map(|(_, file)| file.size),
            }),
            Self::Store(store) => Ok(store.held(digest).await?),
            Self::Registry(_) => Ok(None),
        }
    }

    /// The place of a blob, for copying many in the cheapest order.
    #[must_use]
    pub fn order(&self, digest: &Digest) -> (u32, u64) {
        match self {
            Self::Archive(archive, catalogue) => match catalogue.places.get(digest) {
                Some(Place::Entry(name)) => archive.order(name),
                Some(Place::Made(_)) => (0, 0),
                None => (u32::MAX, 0),
            },
            Self::Store(_) | Self::Registry(_) => (0, 0),
        }
    }

    /// Whether blobs are best read one after the other in their order.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        match self {
            Self::Archive(archive, _) => archive.is_sequential(),
            Self::Store(_) | Self::Registry(_) => false,
        }
    }

    /// The name of a blob's entry, for a report.
    #[must_use]
    pub fn entry(&self, digest: &Digest) -> Option<&str> {
        match self {
            Self::Archive(_, catalogue) => match catalogue.places.get(digest) {
                Some(Place::Entry(name)) => Some(name),
                Some(Place::Made(_)) | None => None,
            },
            Self::Store(_) | Self::Registry(_) => None,
        }
    }

    /// The bytes of a blob from an offset on; none when it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be opened. Later failures are in the stream.
    pub async fn blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        from: u64,
    ) -> Result<Option<ByteStream>, TransferError> {
        match self {
            Self::Archive(archive, catalogue) => match catalogue.places.get(digest) {
                None => Ok(None),
                Some(Place::Made(bytes)) => {
                    let from = usize::try_from(from).unwrap_or(usize::MAX);
                    let rest = bytes.slice(from.min(bytes.len())..);
                    Ok(Some(Box::pin(tokio_stream::once(Ok(rest)))))
                }
                Some(Place::Entry(name)) => {
                    Ok(Some(entry(Arc::clone(archive), name.to_string(), from)))
                }
            },
            Self::Store(store) => {
                let Some(size) = store.held(digest).await? else {
                    return Ok(None);
                };
                let reader = store.read(digest, from..size, Purpose::Copy).await?;
                Ok(Some(Box::pin(reader)))
            }
            Self::Registry(registry) => {
                let first = registry.blob(repository, digest, from).await?;
                Ok(first.map(|(size, body)| {
                    let fetch = Fetch {
                        registry: registry.clone(),
                        repository: repository.clone(),
                        digest: *digest,
                        at: from,
                        size,
                    };
                    let (sender, receiver) = mpsc::channel(AHEAD);
                    tokio::spawn(fetch.run(body, sender));
                    let stream: ByteStream = Box::pin(ReceiverStream::new(receiver));
                    stream
                }))
            }
        }
    }
}

/// A join error is a panic, which continues here.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Reads an entry on a thread that may block.
fn entry(archive: Arc<Archive>, name: String, from: u64) -> ByteStream {
    let (sender, receiver) = mpsc::channel(AHEAD);
    spawn_blocking(move || {
        let read = || -> io::Result<()> {
            let mut file = archive.open(&name)?;
            io::copy(&mut (&mut file).take(from), &mut io::sink())?;
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
                (&mut file).take(limit).read_to_end(&mut piece)?;
                // The reader has gone: that is no error here.
                if piece.is_empty() || sender.blocking_send(Ok(piece.into())).is_err() {
                    return Ok(());
                }
            }
        };
        if let Err(error) = read() {
            drop(sender.blocking_send(Err(error)));
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

/// A blob of another registry on its way, which is gone on with when it breaks off.
struct Fetch {
    registry: Registry,
    repository: RepositoryName,
    digest: Digest,
    at: u64,
    size: u64,
}

impl Fetch {
    async fn run(
        mut self,
        first: impl Stream<Item = io::Result<Bytes>> + Unpin,
        to: mpsc::Sender<io::Result<Bytes>>,
    ) {
        let mut failed = match self.pass(first, &to).await {
            Ok(()) => return,
            Err(error) => error,
        };
        for attempt in 0..ATTEMPTS {
            if to.is_closed() {
                return;
            }
            tokio::time::sleep(super::pause(attempt)).await;
            let again = self
                .registry
                .blob(&self.repository, &self.digest, self.at)
                .await;
            failed = match again {
                Ok(Some((size, body))) if size == self.size => match self.pass(body, &to).await {
                    Ok(()) => return,
                    Err(error) => error,
                },
                Ok(_) => io::Error::other("the registry has another blob of this digest"),
                Err(error) if error.is_passing() => io::Error::other(error),
                Err(error) => {
                    failed = io::Error::other(error);
                    break;
                }
            };
        }
        drop(to.send(Err(failed)).await);
    }

    /// Forwards pieces until all are sent, or the stream breaks off. It also ends when the reader
    /// has gone.
    async fn pass(
        &mut self,
        mut body: impl Stream<Item = io::Result<Bytes>> + Unpin,
        to: &mpsc::Sender<io::Result<Bytes>>,
    ) -> io::Result<()> {
        while let Some(piece) = body.next().await {
            let piece = piece?;
            self.at += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if to.send(Ok(piece)).await.is_err() {
                return Ok(());
            }
        }
        match self.at == self.size {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use oci::digest::Algorithm;
    use registry_client::credentials::AuthFile;
    use registry_client::testing::{Served, answer, broken, whole as body};

    use super::*;

    #[tokio::test]
    async fn a_blob_that_breaks_off_is_gone_on_with() {
        let count = Arc::new(AtomicUsize::new(0));
        let served = Served::start(move |request: hyper::Request<_>| {
            let count = Arc::clone(&count);
            async move {
                let range = request.headers().get("range").cloned();
                let range = range.as_ref().map(|range| range.to_str().unwrap());
                match (count.fetch_add(1, Ordering::Relaxed), range) {
                    (0, None) => answer(200, &[("content-length", "10")], broken("0123")),
                    // One that failed altogether, and one that goes on.
                    (1, Some("bytes=4-")) => answer(503, &[], body("")),
                    (2, Some("bytes=4-")) => {
                        let headers = [("content-range", "bytes 4-9/10"), ("content-length", "6")];
                        answer(206, &headers, broken("45"))
                    }
                    (3, Some("bytes=6-")) => {
                        answer(206, &[("content-range", "bytes 6-9/10")], body("6789"))
                    }
                    _ => answer(400, &[], body("")),
                }
            }
        })
        .await;
        let origin = Origin::Registry(served.registry(AuthFile::default()));
        let mut content = origin
            .blob(
                &"a".parse().unwrap(),
                &Digest::of(Algorithm::Sha256, b"x"),
                0,
            )
            .await
            .unwrap()
            .unwrap();
        let mut octets = Vec::new();
        while let Some(piece) = content.next().await {
            octets.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(octets, b"0123456789", "{:?}", served.asked());
    }
}
