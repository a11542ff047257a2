//! Requests to the object store, over the same kind of connections as to other registries.
//!
//! The store's operations block, on threads that may; requests run on a runtime of their own, so that it
//! does not matter which thread waits.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use http_body_util::{BodyDataStream, StreamBody};
use hyper::body::Frame;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::path::Path as Key;
use object_store::{ClientOptions, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload};
use oci::digest::Digest;
use registry_client::connection::{ConnectionError, Pool, Sent, TrustError};
use registry_client::endpoint::{Endpoint, Scheme};
use registry_store::disk::File;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;

use crate::catalogue::Object;

/// A part of an object that is uploaded in parts, which is in memory as a whole. Smaller objects go in
/// one request.
const PART: u64 = 16 << 20;
/// Parts of one object: 10,000 at most (S3), so those of very large objects are larger.
const MAX_PARTS: u64 = 9_000;
/// Threads that requests run on: they wait for the network, and sign.
const THREADS: usize = 2;

pub use config::registry_svc::S3 as Settings;

/// Why there is no object store.
#[derive(Debug, thiserror::Error)]
pub enum ObjectStoreError {
    /// A secret cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Secret(PathBuf, #[source] io::Error),
    /// The authorities cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The configuration makes no sense to the library.
    #[error("the object store cannot be set up")]
    Setup(#[source] object_store::Error),
    /// The bucket cannot be listed.
    #[error("the bucket cannot be listed")]
    List(#[source] io::Error),
    /// The hidden objects cannot be listed.
    #[error("the marks of hidden objects cannot be read")]
    Marks(#[source] io::Error),
    /// No threads.
    #[error("the runtime for the object store does not start")]
    Runtime(#[source] io::Error),
}

/// The objects under a prefix of a bucket. Cheap to clone.
#[derive(Clone)]
pub(super) struct Objects(Arc<Inner>);

struct Inner {
    bucket: Arc<AmazonS3>,
    prefix: String,
    /// Taken when the last handle goes.
    runtime: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Waiting for it is not allowed on a thread of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Objects")
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) fn open(s3: &Settings) -> Result<Self, ObjectStoreError> {
        let connector = Connector {
            pool: Pool::new(s3.ca.as_deref())?,
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&s3.bucket)
            .with_region(&s3.region)
            .with_access_key_id(super::secret(&s3.access_key_file)?)
            .with_secret_access_key(super::secret(&s3.secret_key_file)?)
            .with_allow_http(s3.allow_http)
            .with_http_connector(connector);
        if let Some(endpoint) = &s3.endpoint {
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        let bucket = builder.build().map_err(ObjectStoreError::Setup)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("objects")
            .enable_all()
            .build()
            .map_err(ObjectStoreError::Runtime)?;
        Ok(Self(Arc::new(Inner {
            bucket: Arc::new(bucket),
            prefix: s3.prefix.trim_matches('/').to_owned(),
            runtime: Some(runtime),
        })))
    }

    /// All objects. Leaves out those that are no blobs.
    pub(super) fn list(&self) -> Result<BTreeMap<Digest, Object>, ObjectStoreError> {
        let prefix = self.top();
        let bucket = Arc::clone(&self.0.bucket);
        let listed = self.wait(async move {
            let mut objects = BTreeMap::new();
            let mut listed = bucket.list(Some(&prefix));
            while let Some(meta) = listed.next().await {
                let meta = meta?;
                if let Some(digest) = digest_of(&prefix, &meta.location) {
                    let object = Object {
                        size: meta.size,
                        modified: meta.last_modified.into(),
                    };
                    objects.insert(digest, object);
                }
            }
            Ok(objects)
        });
        listed.map_err(ObjectStoreError::List)
    }

    /// A part of an object.
    pub(super) fn read(&self, digest: &Digest, part: Range<u64>) -> io::Result<Bytes> {
        let (bucket, key) = (Arc::clone(&self.0.bucket), self.key(digest));
        self.wait(async move { bucket.get_range(&key, part).await })
    }

    /// Writes an object from a file; it is there when all of it is.
    pub(super) fn put(&self, digest: &Digest, file: &dyn File, size: u64) -> io::Result<()> {
        let (bucket, key) = (Arc::clone(&self.0.bucket), self.key(digest));
        if size <= PART {
            let octets = read(file, 0, size)?;
            return self.wait(async move {
                bucket.put(&key, PutPayload::from_bytes(octets)).await?;
                Ok(())
            });
        }
        let upload = self.wait(async move { bucket.put_multipart(&key).await })?;
        self.put_parts(upload, file, size)
    }

    /// One part is read from the disk while the last one is sent.
    fn put_parts(
        &self,
        mut upload: Box<dyn MultipartUpload>,
        file: &dyn File,
        size: u64,
    ) -> io::Result<()> {
        let part = PART.max(size.div_ceil(MAX_PARTS));
        let mut sent = Ok(());
        let mut at = 0;
        while at < size {
            let length = part.min(size - at);
            let octets = match read(file, at, length) {
                Ok(octets) => octets,
                Err(error) => {
                    sent = Err(error);
                    break;
                }
            };
            let sending = upload.put_part(PutPayload::from_bytes(octets));
            if let Err(error) = self.wait(sending) {
                sent = Err(error);
                break;
            }
            at += length;
        }
        match sent {
            Ok(()) => self.wait(async move {
                upload.complete().await?;
                Ok(())
            }),
            Err(error) => {
                // Parts of an upload that is never completed are kept, and paid for.
                drop(self.wait(async move { upload.abort().await }));
                Err(error)
            }
        }
    }

    /// Takes an object away; one that is not there is no error, as everywhere in S3.
    pub(super) fn remove(&self, digest: &Digest) -> io::Result<()> {
        let (bucket, key) = (Arc::clone(&self.0.bucket), self.key(digest));
        let removed = self.wait(async move { bucket.delete(&key).await });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Runs a request, and waits for it on this thread.
    fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let runtime = self.0.runtime.as_ref().ok_or_else(gone)?;
        let (sender, receiver) = sync_channel(1);
        runtime.spawn(async move { drop(sender.send(request.await)) });
        let result = receiver.recv().map_err(|_| gone())?;
        result.map_err(|error| {
            let kind = match &error {
                object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, error)
        })
    }

    fn top(&self) -> Key {
        Key::from_iter(
            self.0
                .prefix
                .split('/')
                .filter(|part| !part.is_empty())
                .chain(["blobs"]),
        )
    }

    fn key(&self, digest: &Digest) -> Key {
        let shard = format!("{:02x}", digest.shard());
        let top = self.top();
        let name = [digest.algorithm().name(), &shard, &digest.hex()];
        name.iter().fold(top, |key, part| key.join(*part))
    }
}

/// The digest of a key `blobs/sha256/HE/HEX`.
fn digest_of(top: &Key, key: &Key) -> Option<Digest> {
    let parts: Vec<_> = key.prefix_match(top)?.collect();
    match parts.as_slice() {
        [algorithm, _, hex] => format!("{}:{}", algorithm.as_ref(), hex.as_ref())
            .parse()
            .ok(),
        _ => None,
    }
}

fn gone() -> io::Error {
    io::Error::other("the object store has been closed")
}

fn read(file: &dyn File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut octets = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while let Some(rest) = octets.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + u64::try_from(filled).unwrap_or(u64::MAX))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => filled += length,
        }
    }
    Ok(octets.into())
}

//--- HTTP

#[derive(Clone, Debug)]
struct Connector {
    pool: Pool,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// A request that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("not the address of an object store")]
struct Unaddressed;

#[async_trait::async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut head, body) = request.into_parts();
        let unaddressed = || HttpError::new(HttpErrorKind::Unknown, Unaddressed);
        let scheme = match head.uri.scheme_str() {
            Some("http") => Scheme::Http,
            _ => Scheme::Https,
        };
        let authority = head.uri.authority().ok_or_else(unaddressed)?;
        let endpoint =
            Endpoint::of_authority(authority.as_str(), scheme).map_err(|_| unaddressed())?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = path.parse().map_err(|_| unaddressed())?;
        let length = u64::try_from(body.content_length()).unwrap_or(u64::MAX);
        let pieces = BodyDataStream::new(body).map(|piece| piece.map_err(io::Error::other));
        let sent = Sent::stream(length, Box::pin(pieces));
        let response = self
            .pool
            .send(&endpoint, hyper::Request::from_parts(head, sent))
            .await
            .map_err(|error| HttpError::new(kind(&error), error))?;
        let (head, body) = response.into_parts();
        let frames = body.map(|piece| {
            piece
                .map(Frame::data)
                .map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))
        });
        let body = HttpResponseBody::new(StreamBody::new(frames));
        Ok(HttpResponse::from_parts(head, body))
    }
}

fn kind(error: &(dyn Error + 'static)) -> HttpErrorKind {
    match error.downcast_ref() {
        Some(ConnectionError::Connect { .. }) => HttpErrorKind::Connect,
        Some(ConnectionError::Silent(_)) => HttpErrorKind::Timeout,
        Some(ConnectionError::Lost { .. }) | None => HttpErrorKind::Request,
    }
}
