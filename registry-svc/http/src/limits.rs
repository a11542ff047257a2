//! Bounds of what clients may ask for; each has its reason.

use std::time::Duration;

use config::registry_svc::RegistrySvc;
use oci::manifest::Sparse;

/// Limits of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest manifest, in octets. The spec wants at least 4 MiB; a little more is for indexes
    /// with many annotations.
    pub manifest: usize,
    /// The largest blob, in octets, if there is a bound.
    pub blob: Option<u64>,
    /// Bodies that are received at once. Each is a file that is written and a digest that is
    /// computed; more at once would only make each slower.
    pub uploads: usize,
    /// Bodies that one user, or one address without a user, sends at once, so that one client cannot have
    /// them all.
    pub uploads_per_client: usize,
    /// How long a body may stand still.
    pub idle: Duration,
    /// The content that manifests may lack.
    pub sparse: Sparse,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether every request is logged as an event worth seeing, not only for debugging.
    pub log_requests: bool,
}

impl Limits {
    /// The limits of a configuration.
    #[must_use]
    pub fn of(file: &RegistrySvc) -> Self {
        let limits = &file.limits;
        Self {
            manifest: usize::try_from(limits.manifest.get()).unwrap_or(usize::MAX),
            blob: limits.blob.map(config::SizeWithin::get),
            uploads: limits.uploads.get(),
            uploads_per_client: UPLOADS_PER_CLIENT,
            idle: limits.body_timeout.get(),
            sparse: limits.sparse,
            read_only: file.read_only,
            log_requests: file.log_requests,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(&RegistrySvc::default())
    }
}

/// Bodies that one client sends at once: a quarter of those of all.
const UPLOADS_PER_CLIENT: usize = 64;

/// Names in one answer, if the client asks for no fewer; the rest is behind `Link`. Clients that
/// read only the first answer see as many as they see of peers.
pub(super) const PAGE: usize = 10_000;

/// Referrers in one answer: an answer has to stay below 4 MiB (distribution-spec, Listing Referrers).
pub(super) const REFERRERS_PAGE: usize = 1_000;

/// Octets of an answer's referrers, as above.
pub(super) const REFERRERS_SIZE: usize = 4 << 20;

/// Tags that a manifest is pushed with at once; the spec wants at least 10.
pub(super) const TAGS: usize = 128;

/// Octets of all manifests that are received at once: they are held in memory.
pub(super) const MANIFESTS: usize = 64 << 20;

/// A whole manifest comes within this time.
pub(super) const MANIFEST_TIME: Duration = Duration::from_secs(120);

/// A body of a token request.
pub(super) const TOKEN_BODY: usize = 64 << 10;

/// When to come again, if too many bodies are received at once.
pub(super) const UPLOADS_RETRY: Duration = Duration::from_secs(2);
