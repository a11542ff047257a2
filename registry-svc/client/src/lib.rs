//! Another registry, as a client of the distribution-spec sees it: for the verbs `push` and `pull`, for
//! `import --to`, and for mirrors of upstreams.
//!
//! Nothing is trusted: a manifest that does not have the requested digest is refused here; the
//! store verifies a blob. Names and passwords go to the registry itself and to its token endpoint;
//! never along a redirect.

pub mod challenge;
pub mod connection;
pub mod credentials;
pub mod endpoint;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transfer;

use std::io;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LINK, LOCATION};
use hyper::{Method, Response, StatusCode};
use oci::digest::{Algorithm, Digest};
use oci::manifest;
use oci::manifest::MAX_DOCUMENT;
use oci::reference::{Reference, RepositoryName, Tag};
use serde_json::Value;

use crate::connection::{ConnectionError, Pool, Received, Sent};
use crate::credentials::AuthFile;
use crate::endpoint::Endpoint;
use crate::session::{ClientRequest, Session};

pub use crate::transfer::Upload;

/// Answers that say what went wrong.
const MAX_ERROR: usize = 64 << 10;
/// Tags or repositories of one page. Registries send 100 to 1,000 of 128 or 255 octets.
const MAX_PAGE: usize = 4 << 20;
/// Pages of one list.
const MAX_PAGES: usize = 10_000;
/// The most characters of an error text in a message.
const MAX_MESSAGE: usize = 300;

/// The header with the registry's digest of a manifest.
pub(crate) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Kinds of manifests that are taken; registries turn what is not named here into another kind.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.artifact.manifest.v1+json";

/// A registry. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    session: Session,
}

/// A manifest that another registry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteManifest {
    /// Its digest, verified.
    pub digest: Digest,
    /// As the registry says.
    pub media_type: String,
    /// As they are there.
    pub bytes: Bytes,
}

/// Why a registry did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There was no answer.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The answer broke off.
    #[error("the answer broke off")]
    Body(#[source] io::Error),
    /// It wants a name and a password, and there is none, or not the right one.
    #[error("{endpoint} asks for a name and a password{why}")]
    Unauthorized {
        /// The registry.
        endpoint: String,
        /// Why those that were given are not enough.
        why: &'static str,
    },
    /// It answered with an error.
    #[error("{status}{message}")]
    Status {
        /// The status.
        status: StatusCode,
        /// Its message.
        message: String,
    },
    /// A malformed response.
    #[error("the answer makes no sense: {0}")]
    Malformed(&'static str),
    /// Something else than what was asked for.
    #[error(transparent)]
    Digest(Box<Mismatch>),
}

/// Content is not what it was asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has the digest {got}, and not {wanted}")]
pub struct Mismatch {
    /// The requested digest.
    pub wanted: Digest,
    /// The actual digest.
    pub got: Digest,
}

impl ClientError {
    /// Whether asking again later may help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connection(_) | Self::Body(_) => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                    )
            }
            Self::Unauthorized { .. } | Self::Malformed(_) | Self::Digest(_) => false,
        }
    }
}

impl Registry {
    /// A registry, and who asks it.
    #[must_use]
    pub fn new(pool: Pool, endpoint: Endpoint, known: AuthFile) -> Self {
        Self {
            session: Session::new(pool, endpoint, known),
        }
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.session.endpoint()
    }
}

//--- Manifests

impl Registry {
    /// The digest of a manifest without its bytes, where the registry tells; `Ok(None)` when it has none.
    ///
    /// # Errors
    ///
    /// When it does not say.
    pub async fn resolve(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<Digest>, ClientError> {
        let ask = ClientRequest::new(Method::HEAD, manifest_path(repository, reference))
            .pull(repository)
            .header(ACCEPT, MANIFESTS);
        let response = self.session.send(ask, Sent::nothing).await?;
        if response.status() == StatusCode::NOT_FOUND {
            drop(response.into_body().whole(0).await);
            return Ok(None);
        }
        let response = expect(response, &[StatusCode::OK]).await?;
        let digest = content_digest(&response);
        drop(response.into_body().whole(0).await);
        match (digest, reference) {
            (Some(digest), _) => Ok(Some(digest)),
            // Told by the question.
            (None, Reference::Digest(digest)) => Ok(Some(*digest)),
            (None, Reference::Tag(_)) => {
                let manifest = self.manifest(repository, reference).await?;
                Ok(manifest.map(|manifest| manifest.digest))
            }
        }
    }

    /// A manifest; `Ok(None)` when the registry has none.
    ///
    /// # Errors
    ///
    /// When it cannot be had, or is another than the one asked for.
    pub async fn manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Option<RemoteManifest>, ClientError> {
        let ask = ClientRequest::new(Method::GET, manifest_path(repository, reference))
            .pull(repository)
            .header(ACCEPT, MANIFESTS);
        let response = self.session.send(ask, Sent::nothing).await?;
        if response.status() == StatusCode::NOT_FOUND {
            drop(response.into_body().whole(MAX_ERROR).await);
            return Ok(None);
        }
        let response = expect(response, &[StatusCode::OK]).await?;
        let said = content_digest(&response);
        let media_type = text(&response, CONTENT_TYPE)
            .and_then(|value| value.split(';').next().map(|name| name.trim().to_owned()));
        let limit = usize::try_from(MAX_DOCUMENT).unwrap_or(usize::MAX);
        let bytes = whole(response, limit).await?;
        let wanted = match reference {
            Reference::Digest(digest) => Some(*digest),
            Reference::Tag(_) => said,
        };
        let algorithm = wanted.map_or(Algorithm::Sha256, |wanted| wanted.algorithm());
        let got = Digest::of(algorithm, &bytes);
        match wanted {
            Some(wanted) if wanted != got => {
                Err(ClientError::Digest(Box::new(Mismatch { wanted, got })))
            }
            _ => Ok(Some(RemoteManifest {
                digest: got,
                media_type: media_type_of(media_type, &bytes)?,
                bytes,
            })),
        }
    }

    /// Stores a manifest under its digest, or under a tag.
    ///
    /// # Errors
    ///
    /// When the registry refuses it.
    pub async fn put_manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
        media_type: &str,
        bytes: Bytes,
    ) -> Result<(), ClientError> {
        let ask = ClientRequest::new(Method::PUT, manifest_path(repository, reference))
            .push(repository)
            .header(CONTENT_TYPE, media_type);
        let response = self
            .session
            .send(ask, || Sent::bytes(bytes.clone()))
            .await?;
        let response = expect(response, &[StatusCode::CREATED, StatusCode::OK]).await?;
        drop(response.into_body().whole(MAX_ERROR).await);
        Ok(())
    }
}

/// Some registries say `text/plain` or nothing; the manifest itself knows better.
fn media_type_of(said: Option<String>, bytes: &[u8]) -> Result<String, ClientError> {
    match manifest::parse(bytes, None) {
        Ok(parsed) => Ok(parsed.media_type),
        Err(_) => said.ok_or(ClientError::Malformed("a manifest of no type")),
    }
}

//--- Lists

impl Registry {
    /// All tags of a repository; `Ok(None)` when the registry has no such repository.
    ///
    /// # Errors
    ///
    /// When it does not list them.
    pub async fn tags(&self, repository: &RepositoryName) -> Result<Option<Vec<Tag>>, ClientError> {
        let path = format!("/v2/{}/tags/list?n=1000", repository.as_str());
        let ask = |path| ClientRequest::new(Method::GET, path).pull(repository);
        let listed = self.list(path, "tags", ask).await?;
        // Leave out malformed tags: they cannot be requested either.
        Ok(listed.map(|tags| tags.iter().filter_map(|tag| tag.parse().ok()).collect()))
    }

    /// All repositories that may be seen.
    ///
    /// # Errors
    ///
    /// When the registry does not list them; many refuse.
    pub async fn repositories(&self) -> Result<Vec<RepositoryName>, ClientError> {
        let path = "/v2/_catalog?n=1000".to_owned();
        let ask = |path| ClientRequest::new(Method::GET, path).catalog();
        let listed = self.list(path, "repositories", ask).await?;
        let names = listed.unwrap_or_default();
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Goes through the pages of a list (distribution-spec, `Link` with `rel="next"`).
    async fn list(
        &self,
        first: String,
        key: &str,
        ask: impl Fn(String) -> ClientRequest,
    ) -> Result<Option<Vec<String>>, ClientError> {
        let mut all = Vec::new();
        let mut path = first;
        for _ in 0..MAX_PAGES {
            let response = self.session.send(ask(path.clone()), Sent::nothing).await?;
            if response.status() == StatusCode::NOT_FOUND {
                drop(response.into_body().whole(MAX_ERROR).await);
                return Ok(None);
            }
            let response = expect(response, &[StatusCode::OK]).await?;
            let next = text(&response, LINK).as_deref().and_then(next_page);
            let octets = whole(response, MAX_PAGE).await?;
            let page: Value = serde_json::from_slice(&octets)
                .map_err(|_| ClientError::Malformed("a list that is not JSON"))?;
            // `null` stands for an empty list in some.
            let names = page.get(key).and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            all.extend(names.map(str::to_owned));
            match next.filter(|next| *next != path) {
                Some(next) => path = next,
                None => return Ok(Some(all)),
            }
        }
        Err(ClientError::Malformed("a list without an end"))
    }
}

/// The path of `<…>; rel="next"`; of a whole URL only the part behind the host.
fn next_page(link: &str) -> Option<String> {
    let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.contains("rel=\"next\"") || parameters.contains("rel=next");
    let path = match target.find("://") {
        Some(at) => {
            let rest = target.get(at + 3..)?;
            rest.get(rest.find('/')?..)?
        }
        None => target,
    };
    (is_next && path.starts_with('/')).then(|| path.to_owned())
}

//--- Answers

fn manifest_path(repository: &RepositoryName, reference: &Reference) -> String {
    let repository = repository.as_str();
    match reference {
        Reference::Tag(tag) => format!("/v2/{repository}/manifests/{}", tag.as_str()),
        Reference::Digest(digest) => format!("/v2/{repository}/manifests/{digest}"),
    }
}

fn content_digest(response: &Response<Received>) -> Option<Digest> {
    text(response, CONTENT_DIGEST)?.parse().ok()
}

fn text(response: &Response<Received>, name: HeaderName) -> Option<String> {
    let value = response.headers().get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// Any other answer is an error, which says what the registry says.
async fn expect(
    response: Response<Received>,
    expected: &[StatusCode],
) -> Result<Response<Received>, ClientError> {
    let status = response.status();
    if expected.contains(&status) {
        return Ok(response);
    }
    let body = response.into_body().whole(MAX_ERROR).await;
    let message = body.ok().flatten().and_then(|body| message(&body));
    Err(ClientError::Status {
        status,
        message: message.map_or_else(String::new, |message| format!(": {message}")),
    })
}

/// The first error of a registry's answer (distribution-spec, Error Codes), fit for a line.
fn message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let first = body.get("errors")?.as_array()?.first()?;
    let said = |key: &str| first.get(key).and_then(Value::as_str).unwrap_or_default();
    let text = format!("{} {}", said("code"), said("message"));
    let shown = text.trim().chars().filter(|c| !c.is_control());
    Some(shown.take(MAX_MESSAGE).collect())
}

async fn whole(response: Response<Received>, limit: usize) -> Result<Bytes, ClientError> {
    let whole = response.into_body().whole(limit).await;
    whole
        .map_err(ClientError::Body)?
        .ok_or(ClientError::Malformed("it is too long"))
}

/// The target of a response's `Location`.
fn location(response: &Response<Received>) -> Result<String, ClientError> {
    text(response, LOCATION).ok_or(ClientError::Malformed("no Location"))
}

fn length(response: &Response<Received>) -> Option<u64> {
    text(response, CONTENT_LENGTH)?.parse().ok()
}

#[cfg(test)]
mod tests;
