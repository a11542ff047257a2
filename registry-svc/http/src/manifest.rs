//! Manifests: pull, push and delete (distribution-spec, end-3, end-7 and end-9).

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, WARNING};
use hyper::{Method, StatusCode};
use oci::digest::{Algorithm, Digest};
use oci::manifest;
use oci::manifest::Manifest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_facts::record::Position;
use registry_store::{NewManifest, Stored};
use registry_webhook::EventAction;

use super::answer::{self, Answer, Headers, SUBJECT, TAG};
use super::blob::not_modified;
use super::body::{Body, Received};
use super::event::Done;
use super::limits::{MANIFEST_TIME, MANIFESTS, TAGS};
use super::{Call, digest_of, reference_of};
use crate::error::{Code, Refused};

impl Call<'_> {
    /// `GET`, `HEAD`
    pub(super) async fn pull_manifest(
        &self,
        name: &RepositoryName,
        reference: &str,
    ) -> Result<Answer, Refused> {
        let reference = reference_of(reference)?;
        let (stored, warning) = match self.upstream.manifest(&reference).await? {
            Some(found) => (found.stored, found.warning),
            None => {
                let stored = match self.manifest(name, &reference).await? {
                    Some(stored) => Some(stored),
                    None => self.read_through(name, &reference).await?,
                };
                (stored.ok_or(Code::ManifestUnknown)?, None)
            }
        };
        self.wants_this(&stored.digest)?;
        if self.has_already(&stored.digest) {
            return Ok(not_modified(&stored.digest));
        }
        let is_head = self.head.method == Method::HEAD;
        if !is_head {
            let size = stored.bytes.len() as u64;
            let done = Done::to(EventAction::Pull, name, &stored.digest, &stored.media_type);
            self.tell(&Done {
                tag: reference.tag(),
                ..done.size(size)
            });
        }
        let mut answer = found(stored, is_head);
        if let Some(warning) = warning {
            answer.headers_mut().set(WARNING, warning);
        }
        Ok(answer)
    }

    /// A manifest that the repository has here; that of another node when its file is damaged.
    pub(super) async fn manifest(
        &self,
        name: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Stored>, Refused> {
        match self.store().manifest(name, reference).await {
            Err(error) if error.is_of_content() => {
                match self.read_through(name, reference).await? {
                    Some(stored) => Ok(Some(stored)),
                    None => Err(error.into()),
                }
            }
            stored => Ok(stored?),
        }
    }

    /// A manifest that another node has.
    async fn read_through(
        &self,
        name: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Stored>, Refused> {
        let Some(remote) = self.others.find_manifest(name, reference).await else {
            return Ok(None);
        };
        Ok(Some(Stored {
            digest: remote.digest,
            bytes: self.others.fetch_manifest(&remote).await?,
            media_type: remote.media_type.into(),
        }))
    }

    /// `PUT`
    pub(super) async fn push_manifest(
        &self,
        name: &RepositoryName,
        reference: &str,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        self.others.admit_write()?;
        let target = target(reference)?;
        let asked = self.tags_asked()?;
        let length = self.length(received);
        self.room.admit(name, length.unwrap_or(0))?;
        let bytes = self.receive_manifest(received).await?;
        if length.is_none() {
            self.room.admit(name, bytes.len() as u64)?;
        }
        let parsed = manifest::parse(&bytes, self.header(&CONTENT_TYPE))?;
        let digest = match &target {
            Reference::Tag(_) => Digest::of(Algorithm::Sha256, &bytes),
            Reference::Digest(said) => verified(said, &bytes)?,
        };
        let tags = match target {
            Reference::Tag(tag) => std::iter::once(tag).chain(asked.clone()).collect(),
            Reference::Digest(_) => asked.clone(),
        };
        let subject = parsed.subject.as_ref().map(|subject| subject.digest);
        let position = self
            .store_manifest(name, bytes, parsed, digest, tags)
            .await?;
        let mut answer = answer::empty(StatusCode::CREATED);
        let headers = answer.headers_mut();
        headers.locate(format_args!("/v2/{name}/manifests/{digest}"));
        headers.digest(&digest);
        if let Some(subject) = subject {
            headers.set(SUBJECT, subject);
        }
        if !asked.is_empty() {
            let names: Vec<&str> = asked.iter().map(Tag::as_str).collect();
            headers.set(TAG, names.join(", "));
        }
        self.others.acknowledge(&position, &mut answer).await?;
        Ok(answer)
    }

    async fn store_manifest(
        &self,
        name: &RepositoryName,
        bytes: Bytes,
        parsed: Manifest,
        digest: Digest,
        tags: Vec<Tag>,
    ) -> Result<Position, Refused> {
        let closure = parsed.closure.relaxed(self.limits.sparse);
        let new = NewManifest {
            bytes,
            media_type: parsed.media_type,
            digest,
            closure: closure.required().copied().collect(),
            subject: parsed.subject.map(|subject| subject.digest),
            tags,
        };
        let (size, media_type) = (new.bytes.len() as u64, new.media_type.clone());
        let tags = new.tags.clone();
        let position = self.others.put_manifest(self.store(), name, new).await?;
        // Each tag is a push to those who follow tags.
        let tags = tags.iter().map(Some);
        let untagged = std::iter::repeat_n(None, usize::from(tags.len() == 0));
        for tag in tags.chain(untagged) {
            let done = Done::to(EventAction::Push, name, &digest, &media_type);
            self.tell(&Done {
                tag,
                ..done.size(size)
            });
        }
        Ok(position)
    }

    /// The tags that the query asks for (end-7b).
    fn tags_asked(&self) -> Result<Vec<Tag>, Refused> {
        let mut tags: Vec<Tag> = Vec::new();
        for tag in self.query.all("tag") {
            let tag = tag_of(&tag)?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
            if tags.len() > TAGS {
                return Err(
                    Refused::with(Code::ManifestInvalid, "too many tags at once")
                        .status(414)
                        .closing(),
                );
            }
        }
        Ok(tags)
    }

    /// The body, held in memory within the bound of all that are.
    async fn receive_manifest(&self, received: &mut Received) -> Result<Bytes, Refused> {
        let most = self.limits.manifest;
        let length = self.length(received);
        if length.is_some_and(|length| length > most as u64) {
            return Err(too_large(most));
        }
        let room = length
            .and_then(|length| usize::try_from(length).ok())
            .unwrap_or(most)
            .min(MANIFESTS);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let receiving = async {
            let permit = self.api.manifests.acquire_many(room).await;
            let permit = permit.map_err(|_| Refused::internal())?;
            let whole = received.whole(most).await;
            drop(permit);
            whole
        };
        match tokio::time::timeout(MANIFEST_TIME, receiving).await {
            Ok(Err(refused)) if refused.code() == Some(Code::SizeInvalid) => Err(too_large(most)),
            Ok(received) => received,
            Err(_) => Err(Refused::plain(408).closing()),
        }
    }

    /// `DELETE`: a tag alone, or a manifest with all its tags.
    pub(super) async fn delete_manifest(
        &self,
        name: &RepositoryName,
        reference: &str,
    ) -> Result<Answer, Refused> {
        self.others.admit_write()?;
        let reference = reference_of(reference)?;
        // The type is lost afterwards.
        let media_type = match self.api.parts.events.is_wanted() {
            true => self.store().media_type(name, &reference)?,
            false => None,
        };
        let position = match &reference {
            Reference::Tag(tag) => self.store().delete_tag(name, tag).await?,
            Reference::Digest(digest) => self.store().delete_manifest(name, digest).await?,
        };
        self.tell(&Done {
            action: EventAction::Delete,
            repository: name,
            digest: reference.digest(),
            media_type: media_type.as_deref().unwrap_or(manifest::OCI_IMAGE),
            size: None,
            tag: reference.tag(),
            from: None,
        });
        let mut answer = answer::empty(StatusCode::ACCEPTED);
        self.others.acknowledge(&position, &mut answer).await?;
        Ok(answer)
    }
}

fn found(stored: Stored, is_head: bool) -> Answer {
    let length = stored.bytes.len();
    let mut answer = Answer::new(match is_head {
        true => Body::empty(),
        false => Body::from(stored.bytes),
    });
    let headers = answer.headers_mut();
    let kind = HeaderValue::from_str(&stored.media_type);
    headers.insert(
        CONTENT_TYPE,
        kind.unwrap_or(HeaderValue::from_static(manifest::OCI_IMAGE)),
    );
    headers.set(CONTENT_LENGTH, length);
    headers.set(ETAG, answer::entity_tag(&stored.digest));
    headers.digest(&stored.digest);
    answer
}

/// The reference that a manifest is pushed under.
fn target(reference: &str) -> Result<Reference, Refused> {
    match reference.contains(':') {
        true => digest_of(reference).map(Reference::Digest),
        false => tag_of(reference).map(Reference::Tag),
    }
}

fn tag_of(text: &str) -> Result<Tag, Refused> {
    text.parse()
        .map_err(|_| Refused::with(Code::ManifestInvalid, "the tag is not valid"))
}

fn verified(said: &Digest, bytes: &[u8]) -> Result<Digest, Refused> {
    let actual = Digest::of(said.algorithm(), bytes);
    match actual == *said {
        true => Ok(actual),
        false => Err(Code::DigestInvalid.into()),
    }
}

fn too_large(most: usize) -> Refused {
    Refused::with(
        Code::ManifestInvalid,
        format!("manifests of up to {most} octets are taken"),
    )
    .status(413)
    .closing()
}
