//! Repositories whose content is an upstream's: pulls may have to wait for it, and nothing is pushed.

use hyper::Method;
use hyper::http::request::Parts as Head;
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_auth::Peer;
use registry_mirror::{MirrorError, Mirrors};

use super::answer::{Answer, Headers, NAMESPACE};
use super::query::Query;
use super::router::Route;
use super::{is_reading, unsupported};
use crate::error::{Code, Refused};

/// The upstream whose content a request is about, if it is about one's.
#[derive(Clone, Debug)]
pub(super) struct Upstream<'a> {
    mirrors: Option<&'a Mirrors>,
    route: Option<registry_mirror::Route>,
}

impl<'a> Upstream<'a> {
    /// Finds the upstream of a request. Other nodes ask for what is here.
    pub(super) fn of(
        mirrors: Option<&'a Mirrors>,
        route: &Route<'_>,
        head: &Head,
        peer: &Peer,
    ) -> Self {
        let found = mirrors.filter(|_| peer.node.is_none());
        let found = found.and_then(|mirrors| find(mirrors, route, head));
        Self {
            mirrors,
            route: found,
        }
    }

    /// No upstream.
    pub(super) fn none() -> Self {
        Self {
            mirrors: None,
            route: None,
        }
    }

    /// The repository here, if it is an upstream's.
    pub(super) fn repository(&self) -> Option<&RepositoryName> {
        self.route.as_ref().map(|route| &route.local)
    }

    /// The response to a push to such a repository.
    pub(super) fn refuse_push(&self, route: &Route<'_>, method: &Method) -> Option<Answer> {
        let is_push = match route {
            Route::Uploads { .. } | Route::Upload { .. } => true,
            _ => *method == Method::PUT,
        };
        let is_refused = self.route.is_some() && is_push;
        is_refused
            .then(|| unsupported("GET, HEAD, DELETE", "the repository is that of an upstream"))
    }

    /// Finds a manifest through the upstream; none when this is no such repository, or when the
    /// upstream does not answer and the other nodes may have it.
    pub(super) async fn manifest(
        &self,
        reference: &Reference,
    ) -> Result<Option<registry_mirror::Found>, Refused> {
        let (Some(mirrors), Some(route)) = (self.mirrors, &self.route) else {
            return Ok(None);
        };
        match mirrors.manifest(route, reference).await {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => Err(Code::ManifestUnknown.into()),
            Err(error) => refused(error).map(|()| None),
        }
    }

    /// A blob that comes from the upstream.
    pub(super) async fn blob(
        &self,
        digest: &Digest,
    ) -> Result<Option<registry_mirror::Blob>, Refused> {
        let (Some(mirrors), Some(route)) = (self.mirrors, &self.route) else {
            return Ok(None);
        };
        match mirrors.blob(route, digest).await {
            Ok(found) => Ok(found),
            Err(error) => refused(error).map(|()| None),
        }
    }

    /// Says whose content an answer has.
    pub(super) fn name(&self, answer: &mut Answer) {
        let namespace = self.route.as_ref().and_then(|route| route.namespace());
        if let Some(namespace) = namespace {
            answer.headers_mut().set(NAMESPACE, namespace);
        }
    }
}

/// The upstream's repository that a request is about.
fn find(mirrors: &Mirrors, route: &Route<'_>, head: &Head) -> Option<registry_mirror::Route> {
    let is_of_content = matches!(
        route,
        Route::Blob { .. } | Route::Manifest { .. } | Route::Uploads { .. } | Route::Upload { .. }
    );
    if !is_of_content {
        return None;
    }
    let name: RepositoryName = route.repository()?.parse().ok()?;
    let namespace = match is_reading(&head.method) {
        true => Query::of(&head.uri).first("ns"),
        false => None,
    };
    let named = namespace.and_then(|namespace| mirrors.route(&name, Some(&namespace)));
    named.or_else(|| mirrors.route(&name, None))
}

/// An upstream that does not answer or refuses is ignored: the content here counts.
fn refused(error: MirrorError) -> Result<(), Refused> {
    match error {
        // Another node may have the content whole.
        MirrorError::Store(error) if error.is_of_content() => Ok(()),
        MirrorError::Store(error) => Err(error.into()),
        MirrorError::Unreachable => Ok(()),
        MirrorError::Upstream(error) => {
            let error = daemon::exit::chain(&error);
            tracing::warn!(error, "An upstream refuses");
            Ok(())
        }
    }
}
