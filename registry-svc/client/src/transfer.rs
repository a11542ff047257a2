//! Blobs from and to a registry (distribution-spec, Pulling blobs and Pushing blobs).

use std::io;

use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, RANGE};
use hyper::{Method, Response, StatusCode};
use oci::digest::{Algorithm, Digest};
use oci::reference::RepositoryName;

use crate::connection::{ByteStream, Received, Sent};
use crate::session::{ClientRequest, location_of, with_query};
use crate::{ClientError, MAX_ERROR, Registry, expect, length, text};

/// An upload session at a registry.
#[derive(Clone, Debug)]
pub struct Upload {
    repository: RepositoryName,
    location: String,
}

impl Registry {
    /// The size of a blob that a repository there has.
    ///
    /// # Errors
    ///
    /// When the registry does not say.
    pub async fn blob_size(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<u64>, ClientError> {
        let ask = ClientRequest::new(Method::HEAD, blob_path(repository, digest)).pull(repository);
        let response = self.session.send(ask, Sent::nothing).await?;
        let status = response.status();
        let size = length(&response);
        match status {
            StatusCode::OK => {
                drop(response.into_body().whole(0).await);
                size.map(Some)
                    .ok_or(ClientError::Malformed("a blob of no length"))
            }
            StatusCode::NOT_FOUND => {
                drop(response.into_body().whole(0).await);
                Ok(None)
            }
            _ => expect(response, &[]).await.map(|_| None),
        }
    }

    /// The bytes of a blob from an offset on, and the size of all of it; `Ok(None)` when there is none.
    ///
    /// # Errors
    ///
    /// When they cannot be had.
    pub async fn blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        from: u64,
    ) -> Result<Option<(u64, Received)>, ClientError> {
        let mut ask = ClientRequest::new(Method::GET, blob_path(repository, digest)).pull(repository);
        if from > 0 {
            ask = ask.header(RANGE, format!("bytes={from}-"));
        }
        let response = self.session.send(ask, Sent::nothing).await?;
        if response.status() == StatusCode::NOT_FOUND {
            drop(response.into_body().whole(MAX_ERROR).await);
            return Ok(None);
        }
        // A registry that sends all of it again, or another part, is of no help in going on.
        let wanted = match from {
            0 => StatusCode::OK,
            _ => StatusCode::PARTIAL_CONTENT,
        };
        let response = expect(response, &[wanted]).await?;
        let size = match from {
            0 => length(&response),
            from => text(&response, CONTENT_RANGE).and_then(|range| size_behind(&range, from)),
        };
        let size = size.ok_or(ClientError::Malformed("a blob of no length"))?;
        Ok(Some((size, response.into_body())))
    }

    /// Adds a blob of another repository there, of `from` if that is said, if the registry does that:
    /// `Ok(None)` says that the repository has it; otherwise an upload session has begun.
    ///
    /// # Errors
    ///
    /// When the registry takes none.
    pub async fn begin_upload(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        from: Option<&RepositoryName>,
    ) -> Result<Option<Upload>, ClientError> {
        let mut query = Vec::new();
        let digest_text = digest.to_string();
        // Without `from` some look in all repositories that the client may pull from; others begin a
        // session, as they do when they do not have it.
        query.push(("mount", digest_text.as_str()));
        if let Some(from) = from {
            query.push(("from", from.as_str()));
        }
        if digest.algorithm() != Algorithm::Sha256 {
            query.push(("digest-algorithm", digest.algorithm().name()));
        }
        let path = format!("/v2/{}/blobs/uploads/", repository.as_str());
        let mut ask = ClientRequest::new(Method::POST, with_query(&path, &query)).push(repository);
        if let Some(from) = from {
            ask = ask.pull(from);
        }
        let response = self.session.send(ask, Sent::nothing).await?;
        let response = expect(response, &[StatusCode::ACCEPTED, StatusCode::CREATED]).await?;
        let is_done = response.status() == StatusCode::CREATED;
        let upload = match is_done {
            true => None,
            false => Some(Upload {
                repository: repository.clone(),
                location: location_of(&response)?,
            }),
        };
        drop(response.into_body().whole(MAX_ERROR).await);
        Ok(upload)
    }

    /// Sends the rest of a blob, from an offset on, and ends the session.
    ///
    /// # Errors
    ///
    /// When the registry refuses it, or the connection fails; [`Self::upload_offset`] may give the
    /// offset to continue from then.
    pub async fn upload(
        &self,
        upload: &Upload,
        digest: &Digest,
        from: u64,
        rest: u64,
        body: ByteStream,
    ) -> Result<(), ClientError> {
        let digest = digest.to_string();
        let path = with_query(&upload.location, &[("digest", &digest)]);
        let mut ask = ClientRequest::new(Method::PUT, path)
            .push(&upload.repository)
            .header(CONTENT_TYPE, "application/octet-stream");
        if from > 0 && rest > 0 {
            let last = from + rest - 1;
            ask = ask.header(CONTENT_RANGE, format!("{from}-{last}"));
        }
        // A stream can be sent once: a token that ended in the meantime fails the upload, and the next
        // attempt gets a new one.
        let mut body = Some(body);
        let once = || match body.take() {
            Some(body) => Sent::stream(rest, body),
            None => Sent::stream(1, Box::pin(tokio_stream::once(Err(spent())))),
        };
        let response = self.session.send(ask, once).await?;
        let response = expect(response, &[StatusCode::CREATED]).await?;
        drop(response.into_body().whole(MAX_ERROR).await);
        Ok(())
    }

    /// The number of bytes in a session, and the address at which it continues; `Ok(None)` when
    /// there is no such session.
    ///
    /// # Errors
    ///
    /// When the registry does not say.
    pub async fn upload_offset(
        &self,
        upload: &Upload,
    ) -> Result<Option<(Upload, u64)>, ClientError> {
        let ask = ClientRequest::new(Method::GET, upload.location.clone()).push(&upload.repository);
        let response = self.session.send(ask, Sent::nothing).await?;
        if response.status() == StatusCode::NOT_FOUND {
            drop(response.into_body().whole(MAX_ERROR).await);
            return Ok(None);
        }
        let response = expect(response, &[StatusCode::NO_CONTENT, StatusCode::ACCEPTED]).await?;
        let location = location_of(&response).unwrap_or_else(|_| upload.location.clone());
        let offset = offset(&response);
        drop(response.into_body().whole(MAX_ERROR).await);
        let upload = Upload {
            repository: upload.repository.clone(),
            location,
        };
        Ok(Some((upload, offset)))
    }

    /// Ends a session that is not wanted any more. Whether that works does not matter.
    pub async fn cancel_upload(&self, upload: Upload) {
        let ask = ClientRequest::new(Method::DELETE, upload.location).push(&upload.repository);
        if let Ok(response) = self.session.send(ask, Sent::nothing).await {
            drop(response.into_body().whole(MAX_ERROR).await);
        }
    }
}

fn spent() -> io::Error {
    io::Error::other("the body has been sent")
}

fn blob_path(repository: &RepositoryName, digest: &Digest) -> String {
    format!("/v2/{}/blobs/{digest}", repository.as_str())
}

/// `Range: 0-<end>`, inclusive; `0-0` stands for nothing in an upload's answers, and for one octet too:
/// then one octet less is believed, and the registry says no.
fn offset(response: &Response<Received>) -> u64 {
    let end = text(response, RANGE)
        .and_then(|range| range.rsplit('-').next().and_then(|end| end.parse().ok()));
    match end {
        None | Some(0) => 0,
        Some(end) => end + 1,
    }
}

/// The size behind the slash of `bytes 7-9/10`, if it begins where it is to.
fn size_behind(range: &str, from: u64) -> Option<u64> {
    let (part, size) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    let size: u64 = size.parse().ok()?;
    let is_rest = first.parse() == Ok(from) && last.parse().ok() == size.checked_sub(1);
    is_rest.then_some(size)
}
