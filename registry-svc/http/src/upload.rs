//! Upload sessions (distribution-spec, end-4, end-5, end-6, end-11, end-13 and end-14).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::header::{CONTENT_RANGE, RANGE};
use hyper::{Method, StatusCode};
use oci::digest::{Algorithm, Digest};
use oci::range;
use oci::reference::RepositoryName;
use oci::upload::{Part, PartError};
use registry_auth::{Action, Identity};
use registry_facts::name::UploadId;
use registry_webhook::EventAction;
use tokio_stream::Stream;

use super::answer::{self, Answer, Headers, UPLOAD};
use super::body::Received;
use super::event::{BLOB, Done};
use super::uploads::{Client, Permit};
use super::{Call, digest_of};
use crate::error::{Code, Refused};

/// The bytes of a body between two checks for room.
const STEP: u64 = 16 << 20;

impl Call<'_> {
    /// `POST`: mounts, takes a whole blob at once, or opens a session.
    pub(super) async fn begin_upload(
        &self,
        name: &RepositoryName,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        // A blob that cannot be mounted, for whatever reason, is uploaded (end-11).
        if let Some(digest) = self.query.first("mount")
            && let Ok(digest) = digest.parse()
            && self.mount(name, &digest).await?
        {
            return Ok(created(name, &digest));
        }
        if let Some(digest) = self.query.first("digest") {
            let digest = digest_of(&digest)?;
            return self.push_whole(name, &digest, received).await;
        }
        let algorithm = match self.query.first("digest-algorithm") {
            Some(algorithm) => algorithm.parse().map_err(|_| {
                Refused::with(Code::DigestInvalid, "digest-algorithm is sha256 or sha512")
            })?,
            None => Algorithm::Sha256,
        };
        let owner = self.client().to_string();
        let id = self.store().begin(&owner, name, algorithm).await?;
        Ok(progress(StatusCode::ACCEPTED, name, &id, 0))
    }

    /// Whether the repository has the blob, or has it from another that the client may pull from.
    async fn mount(&self, name: &RepositoryName, digest: &Digest) -> Result<bool, Refused> {
        let store = self.store();
        if store.blob(name, digest).await?.is_some() {
            // Here it stays while it is leased, and on other nodes for as long as its link is young.
            store.link(name, digest).await?;
            return Ok(true);
        }
        let sources = match self.query.first("from") {
            Some(from) => from.parse().into_iter().collect(),
            None => store.repositories_with(digest),
        };
        for source in sources {
            if self.may(source.as_str(), Action::Pull)
                && let Some(size) = store.blob(&source, digest).await?
            {
                self.room.admit_quota(name, size)?;
                let linked = store.link(name, digest).await?;
                let done = Done::to(EventAction::Mount, name, digest, BLOB).size(linked.size);
                self.tell(&Done {
                    from: Some(&source),
                    ..done
                });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `POST ?digest=`: a blob in one request.
    async fn push_whole(
        &self,
        name: &RepositoryName,
        digest: &Digest,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let length = self.length(received);
        let permit = self.admit_body(name, length)?;
        self.limit(received, length)?;
        let mut metered = Metered::new(self, name, 0, received);
        let pushed = self.store().push(name, digest, length, &mut metered).await;
        let refused = metered.refused;
        drop(permit);
        refused?;
        self.failure(received)?;
        let pushed = pushed?;
        self.tell(&Done::to(EventAction::Push, name, digest, BLOB).size(pushed.size));
        Ok(created(name, digest))
    }

    /// Everything that is done to a session.
    pub(super) async fn upload(
        &self,
        name: &RepositoryName,
        id: &str,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let Ok(id) = id.parse::<UploadId>() else {
            return Err(Code::BlobUploadUnknown.into());
        };
        if let Some(answer) = self
            .others
            .passed_on(&id, self.head, self.length(received), received)
            .await
        {
            return answer;
        }
        match self.head.method {
            Method::PATCH => self.push_part(name, &id, received).await,
            Method::PUT => self.finish_upload(name, &id, received).await,
            Method::DELETE => {
                self.store().cancel(name, &id).await?;
                Ok(answer::empty(StatusCode::NO_CONTENT))
            }
            _ => {
                let offset = self.store().offset(name, &id).await?;
                Ok(progress(StatusCode::NO_CONTENT, name, &id, offset))
            }
        }
    }

    /// `PATCH`
    async fn push_part(
        &self,
        name: &RepositoryName,
        id: &UploadId,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let permit = self.admit_body(name, self.length(received))?;
        let part = match self.part(received) {
            Ok(part) => part,
            Err(error) => return self.misplaced(name, id, error).await,
        };
        let appended = self.append(name, id, part, received).await;
        drop(permit);
        match appended {
            Ok(offset) => Ok(progress(StatusCode::ACCEPTED, name, id, offset)),
            Err(refused) if refused.code() == Some(Code::BlobUploadInvalid) => {
                self.out_of_order(name, id, &refused).await
            }
            Err(refused) => Err(refused),
        }
    }

    /// `PUT ?digest=`: perhaps a last part, and the end.
    async fn finish_upload(
        &self,
        name: &RepositoryName,
        id: &UploadId,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let Some(digest) = self.query.first("digest") else {
            return Err(Refused::with(
                Code::DigestInvalid,
                "the digest parameter is missing",
            ));
        };
        let digest = digest_of(&digest)?;
        let part = match self.part(received) {
            Ok(part) => part,
            Err(error) => return self.misplaced(name, id, error).await,
        };
        let permit = match part.is_nothing() {
            true => None,
            false => Some(self.admit_body(name, part.length())?),
        };
        if !part.is_nothing() {
            match self.append(name, id, part, received).await {
                Ok(_) => {}
                Err(refused) if refused.code() == Some(Code::BlobUploadInvalid) => {
                    return self.out_of_order(name, id, &refused).await;
                }
                Err(refused) => return Err(refused),
            }
        }
        drop(permit);
        // The parts of a session were counted one by one, or not at all.
        if self.store().blob(name, &digest).await?.is_none() {
            let size = self.store().offset(name, id).await?;
            if let Err(refused) = self.room.admit_quota(name, size) {
                self.store().cancel(name, id).await?;
                return Err(refused);
            }
        }
        let pushed = self.store().finish(name, id, &digest).await?;
        self.tell(&Done::to(EventAction::Push, name, &digest, BLOB).size(pushed.size));
        Ok(created(name, &digest))
    }

    fn part(&self, received: &Received) -> Result<Part, PartError> {
        Part::of(self.header(&CONTENT_RANGE), self.length(received))
    }

    /// Appends the body; the session's offset after it.
    async fn append(
        &self,
        name: &RepositoryName,
        id: &UploadId,
        part: Part,
        received: &mut Received,
    ) -> Result<u64, Refused> {
        self.limit(received, part.length())?;
        let before = self.store().offset(name, id).await?;
        let mut metered = Metered::new(self, name, before, received);
        let appended = self
            .store()
            .append(name, id, part.at(), part.length(), &mut metered)
            .await;
        if let Err(refused) = metered.refused {
            if refused.code() != Some(Code::TooManyRequests) {
                // Nor will there be room for what has come of it.
                self.store().cancel(name, id).await?;
            }
            return Err(refused);
        }
        // A failure of the body goes before the store's.
        self.failure(received)?;
        let offset = appended?;
        if let Some(most) = self.limits.blob.filter(|most| offset > *most) {
            // It can become no blob, whatever else comes.
            self.store().cancel(name, id).await?;
            return Err(too_large(most));
        }
        if part
            .length()
            .is_some_and(|length| received.taken() < length)
        {
            return Err(Code::SizeInvalid.into());
        }
        Ok(offset)
    }

    /// Bounds a body by what is said of it and by what is taken at all.
    fn limit(&self, received: &mut Received, length: Option<u64>) -> Result<(), Refused> {
        match (self.limits.blob, length) {
            (Some(most), Some(length)) if length > most => return Err(too_large(most)),
            (_, Some(length)) => received.limit(length),
            (Some(most), None) => received.limit(most),
            (None, None) => {}
        }
        Ok(())
    }

    /// The failure of a bounded body.
    fn failure(&self, received: &Received) -> Result<(), Refused> {
        match (received.failure(), self.limits.blob) {
            (Err(_), Some(most)) if received.taken() > most => Err(too_large(most)),
            (failure, _) => failure,
        }
    }

    /// A malformed `Content-Range`, or not the body's.
    async fn misplaced(
        &self,
        name: &RepositoryName,
        id: &UploadId,
        error: PartError,
    ) -> Result<Answer, Refused> {
        match error {
            PartError::Range => {
                let refused =
                    Refused::with(Code::BlobUploadInvalid, "Content-Range is not FIRST-LAST");
                self.out_of_order(name, id, &refused).await
            }
            PartError::Length { .. } => Err(Refused::with(
                Code::SizeInvalid,
                "Content-Range and Content-Length do not agree",
            )),
        }
    }

    /// 416 with the present range, so that the client can continue.
    async fn out_of_order(
        &self,
        name: &RepositoryName,
        id: &UploadId,
        refused: &Refused,
    ) -> Result<Answer, Refused> {
        let offset = self.store().offset(name, id).await?;
        let mut answer = answer::refused(refused);
        stand(&mut answer, name, id, offset);
        Ok(answer)
    }

    /// Room for a body, before any of it is read.
    fn admit_body(&self, name: &RepositoryName, length: Option<u64>) -> Result<Permit, Refused> {
        self.room.admit(name, length.unwrap_or(0))?;
        self.api.uploads.admit(self.client(), self.limits)
    }

    /// The one whose share an upload takes.
    fn client(&self) -> Client {
        let user = self.identity.as_ref().and_then(Identity::name);
        Client::of(user, self.peer.address.ip())
    }
}

/// A body that checks for room repeatedly as it comes: its length may be unknown, and others come
/// at the same time.
struct Metered<'a> {
    call: &'a Call<'a>,
    name: &'a RepositoryName,
    /// The bytes that the session had before.
    before: u64,
    /// The number of bytes at the next check.
    next: u64,
    received: &'a mut Received,
    /// The answer, once it is no.
    refused: Result<(), Refused>,
}

impl<'a> Metered<'a> {
    fn new(
        call: &'a Call<'a>,
        name: &'a RepositoryName,
        before: u64,
        received: &'a mut Received,
    ) -> Self {
        Self {
            call,
            name,
            before,
            next: STEP,
            received,
            refused: Ok(()),
        }
    }
}

impl Stream for Metered<'_> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let piece = ready!(Pin::new(&mut *this.received).poll_next(cx));
        let came = this.received.taken();
        let is_due = came >= this.next;
        if piece.is_none() || is_due {
            this.next = came + STEP;
            let room = match is_due {
                true => this.call.room.admit_more(),
                false => Ok(()),
            };
            let quota = || this.call.room.admit_quota(this.name, this.before + came);
            this.refused = room.and_then(|()| quota());
            if this.refused.is_err() {
                return Poll::Ready(Some(Err(io::ErrorKind::StorageFull.into())));
            }
        }
        Poll::Ready(piece)
    }
}

/// The progress of a session.
fn progress(status: StatusCode, name: &RepositoryName, id: &UploadId, offset: u64) -> Answer {
    let mut answer = answer::empty(status);
    stand(&mut answer, name, id, offset);
    answer
}

fn stand(answer: &mut Answer, name: &RepositoryName, id: &UploadId, offset: u64) {
    let headers = answer.headers_mut();
    // Without a host, so that it holds through any node and any name of the registry.
    headers.locate(format_args!("/v2/{name}/blobs/uploads/{id}"));
    headers.set(RANGE, range::received(offset));
    headers.set(UPLOAD, id);
}

fn too_large(most: u64) -> Refused {
    let message = format!("blobs of up to {most} octets are taken");
    Refused::with(Code::SizeInvalid, message)
        .status(413)
        .closing()
}

/// A blob that the repository has.
fn created(name: &RepositoryName, digest: &Digest) -> Answer {
    let mut answer = answer::empty(StatusCode::CREATED);
    let headers = answer.headers_mut();
    headers.locate(format_args!("/v2/{name}/blobs/{digest}"));
    headers.digest(digest);
    answer
}
