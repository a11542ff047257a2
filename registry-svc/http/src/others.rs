//! The other nodes of the cluster: their content, and their acknowledgement of writes.
//!
//! A request that a node has forwarded is never forwarded again, and this node asks no other about
//! it.

use std::time::Duration;

use bytes::Bytes;
use daemon::clock;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::Request;
use hyper::body::Frame;
use hyper::header::WARNING;
use hyper::http::request::Parts as Head;
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_auth::Peer;
use registry_cluster::{Cluster, Remote};
use registry_cluster_core::acknowledge::Outcome;
use registry_facts::name::UploadId;
use registry_facts::record::Position;
use registry_store::{NewManifest, Store, StoreError, Subject};
use tokio_stream::StreamExt;

use super::answer::{Answer, value};
use super::body::{Body, Received};
use crate::error::{Code, Refused};

/// Answers about upload sessions have an error's body at most.
const PASSED_BODY: usize = 1 << 20;

/// How long a manifest waits for blobs that were pushed to another node: as long as clients wait
/// for an answer without thinking that there is none.
const ON_THEIR_WAY: Duration = Duration::from_secs(30);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

/// When a site that lacks its majority may have it again.
const NO_MAJORITY_RETRY: Duration = Duration::from_secs(5);

/// The other nodes, as far as a request may ask them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others<'a>(Option<&'a Cluster>);

impl<'a> Others<'a> {
    /// The other nodes for a request of `peer`.
    pub(super) fn of(cluster: Option<&'a Cluster>, peer: &Peer) -> Self {
        Self(cluster.filter(|_| peer.node.is_none()))
    }

    /// A blob that another node shows in the repository.
    pub(super) async fn find_blob(&self, name: &RepositoryName, digest: &Digest) -> Option<Remote> {
        self.0?.find_blob(name, digest).await
    }

    /// A manifest that another node shows in the repository.
    pub(super) async fn find_manifest(
        &self,
        name: &RepositoryName,
        reference: &Reference,
    ) -> Option<Remote> {
        self.0?.find_manifest(name, reference).await
    }

    /// The octets of a manifest that was found.
    pub(super) async fn fetch_manifest(&self, remote: &Remote) -> Result<Bytes, Refused> {
        let others = self.0.ok_or(Code::ManifestUnknown)?;
        Ok(others.manifest(remote).await?)
    }

    /// A part of a blob that was found.
    pub(super) async fn fetch_blob(
        &self,
        remote: &Remote,
        part: std::ops::Range<u64>,
    ) -> Result<Body, StoreError> {
        let others = self.0.ok_or(StoreError::Unknown(Subject::Blob))?;
        let length = part.end.saturating_sub(part.start);
        let octets = others.open(remote, part).await;
        Ok(Body::stream(Box::pin(octets), length))
    }

    /// The answer of the node that has the session, if that is another one.
    pub(super) async fn passed_on(
        &self,
        id: &UploadId,
        head: &Head,
        length: Option<u64>,
        received: &mut Received,
    ) -> Option<Result<Answer, Refused>> {
        let others = self.0.filter(|others| others.is_other(id))?;
        let body = std::mem::replace(received, Received::none());
        let frames = StreamBody::new(body.map(|octets| octets.map(Frame::data)));
        let mut request = Request::from_parts(head.clone(), frames);
        if length == Some(0) {
            let headers = request.headers_mut();
            headers.insert(hyper::header::CONTENT_LENGTH, value(0));
        }
        let answer = match others.forward(id, request).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%id, error = &error as &dyn std::error::Error, "Upload session cannot be reached");
                return Some(Err(Code::BlobUploadUnknown.into()));
            }
        };
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, PASSED_BODY).collect().await;
        Some(match body {
            Ok(body) => Ok(Answer::from_parts(head, Body::from(body.to_bytes()))),
            Err(error) => {
                tracing::debug!(%id, error, "Answer of another node broke off");
                Err(Code::BlobUploadUnknown.into())
            }
        })
    }

    /// Stores a manifest; its content may be on its way from the node that a client pushed it to.
    pub(super) async fn put_manifest(
        &self,
        store: &Store,
        name: &RepositoryName,
        new: NewManifest,
    ) -> Result<Position, StoreError> {
        let begun = clock::now();
        let mut is_on_its_way = false;
        loop {
            let missing = match store.put_manifest(name, new.clone()).await {
                Err(StoreError::MissingBlobs(missing)) => missing,
                outcome => return outcome,
            };
            is_on_its_way = is_on_its_way || self.are_elsewhere(name, &missing).await;
            if !is_on_its_way || begun.elapsed() > ON_THEIR_WAY {
                return Err(StoreError::MissingBlobs(missing));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether other nodes have all of it; it is on its way here then.
    async fn are_elsewhere(&self, name: &RepositoryName, missing: &[Digest]) -> bool {
        for digest in missing {
            let reference = Reference::Digest(*digest);
            let is_found = self.find_blob(name, digest).await.is_some()
                || self.find_manifest(name, &reference).await.is_some();
            if !is_found {
                return false;
            }
        }
        self.0.is_some()
    }

    /// Refuses what could not be acknowledged, before anything is done.
    pub(super) fn admit_write(&self) -> Result<(), Refused> {
        match self.0 {
            Some(others) if !others.admits() => Err(no_majority().closing()),
            _ => Ok(()),
        }
    }

    /// Waits until enough nodes have a write; says so if they are fewer than there should be.
    pub(super) async fn acknowledge(
        &self,
        position: &Position,
        answer: &mut Answer,
    ) -> Result<(), Refused> {
        let Some(others) = self.0 else {
            return Ok(());
        };
        let acknowledgement = others.acknowledge(position).await;
        if acknowledgement.outcome == Outcome::Refused {
            return Err(no_majority());
        }
        if let Some(warning) = acknowledgement.warning() {
            answer.headers_mut().insert(WARNING, value(warning));
        }
        Ok(())
    }
}

/// Too few nodes for a site that wants its majority.
fn no_majority() -> Refused {
    Refused::plain(503).after(NO_MAJORITY_RETRY)
}
