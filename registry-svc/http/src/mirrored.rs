//! Repositories whose content is an upstream's: pulls may have to wait for it, and nothing is pushed.

use hyper::Method;
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_mirror::MirrorError;

use super::answer::{Answer, Headers, NAMESPACE};
use super::router::Route;
use super::{Call, is_reading, unsupported};
use crate::error::{Code, Refused};

impl Call<'_> {
    /// Which upstream a request is about. Other nodes ask for what is here.
    pub(super) fn mirror_of(&self, route: &Route<'_>) -> Option<registry_mirror::Route> {
        let mirrors = self.api.mirrors.as_ref()?;
        let is_of_content = matches!(
            route,
            Route::Blob { .. }
                | Route::Manifest { .. }
                | Route::Uploads { .. }
                | Route::Upload { .. }
        );
        if !is_of_content || self.peer.node.is_some() {
            return None;
        }
        let name: RepositoryName = route.repository()?.parse().ok()?;
        let namespace = match is_reading(&self.head.method) {
            true => self.query.first("ns"),
            false => None,
        };
        let named = namespace.and_then(|namespace| mirrors.route(&name, Some(&namespace)));
        named.or_else(|| mirrors.route(&name, None))
    }

    /// What a push to such a repository is told.
    pub(super) fn not_pushed_here(&self, route: &Route<'_>) -> Option<Answer> {
        let is_push = match route {
            Route::Uploads { .. } | Route::Upload { .. } => true,
            _ => self.head.method == Method::PUT,
        };
        let is_refused = self.mirrored.is_some() && is_push;
        is_refused
            .then(|| unsupported("GET, HEAD, DELETE", "the repository is that of an upstream"))
    }

    /// A manifest by way of the upstream; none when this is no such repository, or nobody answers and
    /// the other nodes may have it.
    pub(super) async fn mirrored_manifest(
        &self,
        reference: &Reference,
    ) -> Result<Option<registry_mirror::Found>, Refused> {
        let (Some(mirrors), Some(route)) = (&self.api.mirrors, &self.mirrored) else {
            return Ok(None);
        };
        match mirrors.manifest(route, reference).await {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => Err(Code::ManifestUnknown.into()),
            Err(error) => refused(error).map(|()| None),
        }
    }

    /// A blob that comes from the upstream.
    pub(super) async fn mirrored_blob(
        &self,
        digest: &Digest,
    ) -> Result<Option<registry_mirror::Blob>, Refused> {
        let (Some(mirrors), Some(route)) = (&self.api.mirrors, &self.mirrored) else {
            return Ok(None);
        };
        match mirrors.blob(route, digest).await {
            Ok(found) => Ok(found),
            Err(error) => refused(error).map(|()| None),
        }
    }

    /// Says whose content an answer has.
    pub(super) fn name_upstream(&self, answer: &mut Answer) {
        let namespace = self.mirrored.as_ref().and_then(|route| route.namespace());
        if let Some(namespace) = namespace {
            answer.headers_mut().set(NAMESPACE, namespace);
        }
    }
}

/// An upstream that does not answer or refuses has nothing to say: what is here counts.
fn refused(error: MirrorError) -> Result<(), Refused> {
    match error {
        MirrorError::Store(error) => Err(error.into()),
        MirrorError::Unreachable => Ok(()),
        MirrorError::Upstream(error) => {
            let error = daemon::exit::chain(&error);
            tracing::warn!(error, "An upstream refuses");
            Ok(())
        }
    }
}
