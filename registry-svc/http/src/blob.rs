//! Blobs: pull, in whole or in part, and delete (distribution-spec, end-2 and end-10).

use std::ops::Range;

use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue,
    IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use hyper::{Method, StatusCode};
use oci::digest::Digest;
use oci::range;
use oci::range::Asked;
use oci::reference::RepositoryName;
use registry_cluster::Remote;
use registry_store::{Purpose, StoreError};
use registry_webhook::EventAction;

use super::Call;
use super::answer::{self, Answer, Headers};
use super::body::Body;
use super::event::{BLOB, Done};
use crate::error::{Code, Refused};

/// Content never changes under its digest.
const FOR_EVER: HeaderValue = HeaderValue::from_static("max-age=31536000");

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

const BYTES: HeaderValue = HeaderValue::from_static("bytes");

/// The reason why a blob is not answered.
enum Failed {
    Store(StoreError),
    Refused(Refused),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Store(error) => error.into(),
            Failed::Refused(refused) => refused,
        }
    }
}

/// The source of a blob.
enum Place {
    Here,
    Node(Remote),
    Upstream(registry_mirror::Blob),
}

impl Call<'_> {
    /// `GET`, `HEAD`
    ///
    /// A blob whose file is damaged, missing or unreadable is taken from another node within the same
    /// request: clients choose a registry by its manifest and take all blobs from there.
    pub(super) async fn pull_blob(
        &self,
        name: &RepositoryName,
        digest: &Digest,
    ) -> Result<Answer, Refused> {
        let failure = match self.store().blob(name, digest).await {
            Ok(Some(size)) => match self.blob_of(name, digest, size, Place::Here).await {
                Err(Failed::Store(error)) if error.is_of_content() => Some(error),
                answer => return Ok(answer?),
            },
            Ok(None) => None,
            Err(error) => Some(error),
        };
        match self.elsewhere(name, digest).await {
            Ok((size, place)) => Ok(self.blob_of(name, digest, size, place).await?),
            Err(refused) => Err(failure.map_or(refused, Refused::from)),
        }
    }

    /// The answer with a blob of this size.
    async fn blob_of(
        &self,
        name: &RepositoryName,
        digest: &Digest,
        size: u64,
        place: Place,
    ) -> Result<Answer, Failed> {
        self.wants_this(digest)?;
        if self.has_already(digest) {
            let mut answer = not_modified(digest);
            answer.headers_mut().insert(CACHE_CONTROL, FOR_EVER);
            return Ok(answer);
        }
        let part = match range::asked(self.range(digest), size) {
            Asked::Whole => None,
            Asked::Part(part) => Some(part),
            Asked::Unsatisfiable => return Ok(unsatisfiable(digest, size)),
        };
        let octets = part.clone().unwrap_or(0..size);
        let body = match self.head.method == Method::HEAD || octets.is_empty() {
            true => Body::empty(),
            false => {
                let body = match place {
                    Place::Here => self.read_blob(digest, octets).await?,
                    Place::Node(remote) => self.others.fetch_blob(&remote, octets).await?,
                    Place::Upstream(blob) => {
                        let length = octets.end.saturating_sub(octets.start);
                        Body::stream(blob.open(octets), length)
                    }
                };
                self.tell(&Done::to(EventAction::Pull, name, digest, BLOB).size(size));
                body
            }
        };
        Ok(found(digest, size, part.as_ref(), body))
    }

    /// A blob that is not here: on another node, or at the upstream whose repository this is.
    async fn elsewhere(
        &self,
        name: &RepositoryName,
        digest: &Digest,
    ) -> Result<(u64, Place), Refused> {
        if let Some(remote) = self.others.find_blob(name, digest).await {
            return Ok((remote.size, Place::Node(remote)));
        }
        match self.upstream.blob(digest).await? {
            Some(blob) => Ok((blob.size(), Place::Upstream(blob))),
            None => Err(Code::BlobUnknown.into()),
        }
    }

    async fn read_blob(&self, digest: &Digest, part: Range<u64>) -> Result<Body, StoreError> {
        let length = part.end.saturating_sub(part.start);
        let reader = self.store().read(digest, part, Purpose::Pull).await?;
        Ok(Body::stream(Box::pin(reader), length))
    }

    /// `DELETE`: the repository has it no more; others may.
    pub(super) async fn delete_blob(
        &self,
        name: &RepositoryName,
        digest: &Digest,
    ) -> Result<Answer, Refused> {
        self.others.admit_write()?;
        let position = self.store().unlink(name, digest).await?;
        self.tell(&Done::to(EventAction::Delete, name, digest, BLOB));
        let mut answer = answer::empty(StatusCode::ACCEPTED);
        self.others.acknowledge(&position, &mut answer).await?;
        Ok(answer)
    }

    /// Whether the client says that it has the content.
    pub(super) fn has_already(&self, digest: &Digest) -> bool {
        self.header(&IF_NONE_MATCH)
            .is_some_and(|header| answer::lists(header, digest))
    }

    /// Refuses who wants other content than there is, or none (RFC 9110 §13.1.1).
    pub(super) fn wants_this(&self, digest: &Digest) -> Result<(), Refused> {
        match self.header(&IF_MATCH) {
            Some(header) if !answer::lists_strongly(header, digest) => Err(Refused::plain(412)),
            _ => Ok(()),
        }
    }

    /// The requested part, unless the condition names other content (RFC 9110 §13.1.5).
    fn range(&self, digest: &Digest) -> Option<&str> {
        // Parts are of GET alone (RFC 9110 §14.2).
        if self.head.method != Method::GET {
            return None;
        }
        let is_of_this = self
            .header(&IF_RANGE)
            .is_none_or(|header| header.trim() == answer::entity_tag(digest));
        self.header(&RANGE).filter(|_| is_of_this)
    }
}

fn found(digest: &Digest, size: u64, part: Option<&Range<u64>>, body: Body) -> Answer {
    let mut answer = Answer::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, OCTETS);
    headers.insert(ACCEPT_RANGES, BYTES);
    headers.insert(CACHE_CONTROL, FOR_EVER);
    headers.set(ETAG, answer::entity_tag(digest));
    headers.digest(digest);
    let length = match part {
        Some(part) => {
            headers.set(CONTENT_RANGE, range::content_range(part, size));
            part.end - part.start
        }
        None => size,
    };
    headers.set(CONTENT_LENGTH, length);
    if part.is_some() {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    answer
}

/// 304 for content that never changes.
pub(super) fn not_modified(digest: &Digest) -> Answer {
    let mut answer = answer::empty(StatusCode::NOT_MODIFIED);
    let headers = answer.headers_mut();
    headers.set(ETAG, answer::entity_tag(digest));
    headers.digest(digest);
    answer
}

fn unsatisfiable(digest: &Digest, size: u64) -> Answer {
    let mut answer = answer::empty(StatusCode::RANGE_NOT_SATISFIABLE);
    let headers = answer.headers_mut();
    headers.set(CONTENT_RANGE, range::unsatisfied(size));
    headers.digest(digest);
    answer
}
