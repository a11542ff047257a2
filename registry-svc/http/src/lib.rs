//! The distribution API: requests in, answers out.
//!
//! ```text
//! request → route (404, 405) → access (401, 403) → names (400) → blob | upload | manifest | …
//!         → answer: headers here, octets as a stream, logged and counted when the last is gone
//! ```
//!
//! Decides what the protocol requires; the store knows the content, access the rights, and the
//! cluster the other nodes.

mod answer;
mod blob;
mod body;
mod catalog;
pub mod counts;
pub mod error;
mod event;
mod failure;
pub mod limits;
mod log;
mod manifest;
mod others;
pub mod query;
mod referrers;
mod room;
pub mod router;
pub mod server;
mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod upload;
mod uploads;
mod upstream;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use daemon::clock;
use daemon::latest::Latest;
use hyper::body::Body as HttpBody;
use hyper::header::{ALLOW, CONNECTION, HeaderName, WWW_AUTHENTICATE};
use hyper::http::request::Parts as Head;
use hyper::{Method, Request, Response, StatusCode, Version};
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_auth::{Access, Action, Identity, Peer, Want};
use registry_cluster::{Caller, Cluster};
use registry_mirror::Mirrors;
use registry_store::Store;
use registry_store::space::Space;
use registry_webhook::Events;
use tokio::sync::Semaphore;

use crate::counts::{Handler, Http};
use crate::error::{Code, Refused};

pub use body::{Body, Octets};
pub use limits::Limits;

use answer::{Answer, Headers, JSON, VERSION};
use body::{BoxError, Received};
use log::Exchange;
use others::Others;
use query::Query;
use room::Room;
use router::Route;
use uploads::Uploads;
use upstream::Upstream;

/// The parts of the API.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The content of this node.
    pub store: Store,
    /// The rights.
    pub access: Access,
    /// The other nodes with their content.
    pub cluster: Option<Cluster>,
    /// The counters of requests.
    pub metrics: Http,
    /// The endpoints of events.
    pub events: Events,
}

/// The API; shared by all connections.
pub struct Api {
    parts: Parts,
    limits: Arc<Latest<Limits>>,
    uploads: Uploads,
    /// Octets of manifests that may be received.
    manifests: Semaphore,
    mirrors: Option<Mirrors>,
    space: Option<Space>,
}

/// One request, on its way to an answer.
struct Call<'a> {
    api: &'a Api,
    head: &'a Head,
    peer: &'a Peer,
    query: Query<'a>,
    limits: &'a Limits,
    identity: Option<Identity>,
    others: Others<'a>,
    room: Room<'a>,
    upstream: Upstream<'a>,
}

impl Api {
    /// An API within `limits`, which may be changed while it serves.
    #[must_use]
    pub fn new(parts: Parts, limits: Arc<Latest<Limits>>) -> Self {
        Self {
            parts,
            limits,
            uploads: Uploads::default(),
            manifests: Semaphore::new(limits::MANIFESTS),
            mirrors: None,
            space: None,
        }
    }

    /// The same, on a disk and in repositories that may not become fuller than they may.
    #[must_use]
    pub fn within(self, space: Space) -> Self {
        Self {
            space: Some(space),
            ..self
        }
    }

    /// The same, with repositories of upstreams.
    #[must_use]
    pub fn mirroring(self, mirrors: Option<Mirrors>) -> Self {
        Self { mirrors, ..self }
    }

    /// Answers a request that another node passes on.
    pub async fn handle_passed_on<B>(&self, request: Request<B>, caller: Caller) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let name = caller.node.as_ref().map_or("", |node| node.as_str());
        let peer = Peer {
            node: Some(name.into()),
            ..Peer::plain(caller.address)
        };
        self.handle(request, &peer).await
    }

    /// Answers a request that `peer` sent.
    pub async fn handle<B>(&self, request: Request<B>, peer: &Peer) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let begun = clock::now();
        let limits = self.limits.current();
        let (head, body) = request.into_parts();
        let mut received = Received::new(body, limits.idle);
        let route = Route::of(head.uri.path(), registry_auth::TOKEN_PATH);
        let handler = route.as_ref().map_or(Handler::Other, Route::handler);
        let underway = self.parts.metrics.begin(handler, &head.method, begun);
        let mut call = Call {
            api: self,
            head: &head,
            peer,
            query: Query::of(&head.uri),
            limits: &limits,
            identity: None,
            others: Others::of(self.parts.cluster.as_ref(), peer),
            room: Room::of(self.space.as_ref()),
            upstream: Upstream::none(),
        };
        let outcome = call.respond(route, &mut received).await;
        let user = call
            .identity
            .as_ref()
            .and_then(Identity::name)
            .map(str::to_owned);
        let (mut answer, error) = match outcome {
            Ok(answer) => (answer, None),
            Err(refused) => (answer::refused(&refused), Some(refused.to_string())),
        };
        let exchange = Exchange {
            status: answer.status(),
            user,
            client: peer.address,
            error,
            received: received.taken(),
            sent: 0,
            begun,
            is_logged: limits.log_requests,
            path: head.uri.path().to_owned(),
            method: head.method.clone(),
            underway: Some(underway),
        };
        received.linger();
        answer.headers_mut().insert(VERSION, REGISTRY_2);
        if head.version == Version::HTTP_2 {
            // Connections are ended by frames there (RFC 9113 §8.2.2).
            answer.headers_mut().remove(CONNECTION);
        }
        if head.method == Method::HEAD {
            answer.body_mut().clear();
        }
        answer.body_mut().told(Box::new(exchange));
        answer
    }
}

impl Call<'_> {
    async fn respond(
        &mut self,
        route: Option<Route<'_>>,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let Some(route) = route else {
            return Ok(answer::empty(StatusCode::NOT_FOUND));
        };
        if !route.has(&self.head.method) {
            return Ok(unsupported(route.allow(), "the method is not allowed"));
        }
        if let Route::Token = route {
            return self.token(received).await;
        }
        if self.limits.read_only && !is_reading(&self.head.method) {
            return Ok(unsupported("GET, HEAD", "the registry is read-only"));
        }
        self.upstream = Upstream::of(self.api.mirrors.as_ref(), &route, self.head, self.peer);
        if let Some(refusal) = self.authorize(&route).await {
            return Ok(refusal);
        }
        if let Some(refusal) = self.upstream.refuse_push(&route, &self.head.method) {
            return Ok(refusal);
        }
        let mut answer = self.serve(&route, received).await?;
        self.upstream.name(&mut answer);
        Ok(answer)
    }

    async fn serve(
        &mut self,
        route: &Route<'_>,
        received: &mut Received,
    ) -> Result<Answer, Refused> {
        let method = &self.head.method;
        match route {
            Route::Base => Ok(self.base()),
            Route::Extensions => Ok(answer::octets(StatusCode::OK, JSON, EXTENSIONS)),
            Route::Catalog => self.catalog(),
            // It has its own answer above.
            Route::Token => Ok(answer::empty(StatusCode::NOT_FOUND)),
            Route::Tags { name } => self.tags(&repository(name)?),
            Route::Referrers { name, digest } => {
                self.referrers(&repository(name)?, &digest_of(digest)?)
                    .await
            }
            Route::Blob { name, digest } => {
                let (name, digest) = (self.local(name)?, digest_of(digest)?);
                match *method {
                    Method::DELETE => self.delete_blob(&name, &digest).await,
                    _ => self.pull_blob(&name, &digest).await,
                }
            }
            Route::Uploads { name } => self.begin_upload(&repository(name)?, received).await,
            Route::Upload { name, id } => self.upload(&repository(name)?, id, received).await,
            Route::Manifest { name, reference } => {
                let name = self.local(name)?;
                match *method {
                    Method::PUT => self.push_manifest(&name, reference, received).await,
                    Method::DELETE => self.delete_manifest(&name, reference).await,
                    _ => self.pull_manifest(&name, reference).await,
                }
            }
        }
    }

    /// `GET /v2/`: the API is there, and who asks may use it.
    fn base(&self) -> Answer {
        let mut answer = answer::octets(StatusCode::OK, JSON, "{}");
        // Clients that learn here how to log in do so before they push.
        let challenge = self
            .api
            .parts
            .access
            .challenge_of_base(self.head, self.peer);
        if let Some(challenge) = challenge {
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        answer
    }

    async fn token(&mut self, received: &mut Received) -> Result<Answer, Refused> {
        received.limit(limits::TOKEN_BODY as u64);
        let body = received.whole(limits::TOKEN_BODY).await?;
        let answer = self
            .api
            .parts
            .access
            .token(self.head, self.peer, &body)
            .await;
        Ok(answer.map(Body::from))
    }

    /// Checks whether the client may; the response, if not.
    async fn authorize(&mut self, route: &Route<'_>) -> Option<Answer> {
        let action = match (route, &self.head.method) {
            (Route::Base | Route::Extensions | Route::Token, _) => None,
            (Route::Catalog, _) => Some(Action::Catalog),
            // A client that pushes may look after its session.
            (Route::Uploads { .. } | Route::Upload { .. }, _) => Some(Action::Push),
            (_, &Method::DELETE) => Some(Action::Delete),
            (_, &Method::PUT) => Some(Action::Push),
            _ => Some(Action::Pull),
        };
        let repository = match self.upstream.repository() {
            Some(name) => name.as_str(),
            None => route.repository().unwrap_or_default(),
        };
        let wants = action.map(|action| Want { repository, action });
        let access = &self.api.parts.access;
        match access.check(self.head, self.peer, wants.as_slice()).await {
            Ok(identity) => {
                self.identity = Some(identity);
                None
            }
            Err(refused) => Some(failure::refusal(refused)),
        }
    }

    /// Whether the client may do something besides.
    fn may(&self, repository: &str, action: Action) -> bool {
        let access = &self.api.parts.access;
        self.identity
            .as_ref()
            .is_some_and(|identity| access.allows(identity, repository, action))
    }

    fn store(&self) -> &Store {
        &self.api.parts.store
    }

    /// Parses a repository's local name.
    fn local(&self, name: &str) -> Result<RepositoryName, Refused> {
        match self.upstream.repository() {
            Some(name) => Ok(name.clone()),
            None => repository(name),
        }
    }

    /// A header, if it is text.
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.head
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    }

    /// How long the body is said to be.
    fn length(&self, received: &Received) -> Option<u64> {
        match received.is_empty() {
            true => Some(0),
            false => self
                .header(&hyper::header::CONTENT_LENGTH)
                .and_then(|length| length.trim().parse().ok()),
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn unsupported(allow: &'static str, message: &'static str) -> Answer {
    let mut answer = answer::refused(&Refused::with(Code::Unsupported, message));
    answer.headers_mut().set(ALLOW, allow);
    answer
}

fn repository(name: &str) -> Result<RepositoryName, Refused> {
    name.parse().map_err(|_| Refused::new(Code::NameInvalid))
}

fn digest_of(text: &str) -> Result<Digest, Refused> {
    text.parse()
        .map_err(|_| Refused::with(Code::DigestInvalid, "not a sha256 or sha512 digest"))
}

/// Parses a reference to look up: a text that cannot be a tag is unknown.
fn reference_of(text: &str) -> Result<Reference, Refused> {
    match text.contains(':') {
        true => digest_of(text).map(Reference::Digest),
        false => text
            .parse()
            .map(Reference::Tag)
            .map_err(|_| Refused::new(Code::ManifestUnknown)),
    }
}

/// The name of this API among Docker's registries.
const REGISTRY_2: hyper::header::HeaderValue =
    hyper::header::HeaderValue::from_static("registry/2.0");

/// The extensions that are there: none but what every registry has.
const EXTENSIONS: &str = "{\"extensions\":[]}";

#[cfg(test)]
pub(crate) mod tests;
