//! Mirrors: repositories that are filled from an upstream registry on demand.
//!
//! A repository is an upstream's by its name (`prefix/NAME` here is `NAME` there), or because a
//! client says so with `?ns=HOST`, as containerd does. The mirror requests a tag's digest again
//! when it last found the tag current longer ago than its time to live. When no upstream answers,
//! it serves the content here, with a warning.
//!
//! **A manifest becomes visible in the store with all that it refers to**, as a pushed one does:
//! until its blobs are here it stays in memory, and is served from there. So the images that are
//! served while the upstream is away are whole. An index is stored when one of its images is here:
//! no site wants all platforms of everything.

mod flight;
mod fresh;
mod manifests;
mod waiting;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oci::digest::Digest;
use oci::reference::RepositoryName;
use parking_lot::{Mutex, MutexGuard};
use registry_client::connection::{ByteStream, Pool, TrustError};
use registry_client::credentials::{AuthFile, Credentials};
use registry_client::endpoint::{Endpoint, EndpointError, Scheme};
use registry_client::{ClientError, Registry};
use registry_store::{Store, StoreError, Stored};
use registry_transfer::origin::Origin;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::flight::{Flight, Flights, TransferOutcome};
use crate::fresh::{Tags, UpstreamState};
use crate::waiting::Waiting;

pub use config::registry_svc::Mirror as Settings;

/// Images that are completed at once, besides what clients ask for themselves.
const COMPLETED_AT_ONCE: usize = 2;

/// The warning with content that was served because no upstream answered (RFC 7234 §5.5.1, which
/// clients still know).
pub const STALE: &str = "110 - \"Response is Stale\"";

/// All mirrors. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mirrors(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    upstreams: Vec<Upstream>,
    flights: Flights,
    tags: Mutex<Tags>,
    waiting: Mutex<Waiting>,
    completing: Arc<Semaphore>,
    manifests: Counter,
    blobs: Counter,
    octets: AtomicU64,
}

/// The requests to mirrors.
#[derive(Debug, Default)]
struct Counter {
    requests: AtomicU64,
    misses: AtomicU64,
}

/// How often something was asked of mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In all. Blobs that are here already are not asked of a mirror.
    pub requests: u64,
    /// Requests that had to go to an upstream.
    pub misses: u64,
}

impl Counter {
    fn asked(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> Asked {
        Asked {
            requests: self.requests.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
struct Upstream {
    prefix: String,
    namespace: Option<String>,
    ttl: Duration,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    registry: Registry,
    state: Mutex<UpstreamState>,
}

/// A repository here that is one of an upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    upstream: usize,
    /// Its name here.
    pub local: RepositoryName,
    /// Its name there.
    remote: RepositoryName,
    /// The client's name for the upstream.
    namespace: Option<String>,
}

impl Route {
    /// The client's name for the upstream, if it gave one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// A manifest, and what is to be said of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The manifest.
    pub stored: Stored,
    /// A `Warning` for the client.
    pub warning: Option<&'static str>,
}

/// A blob that is on its way here.
#[derive(Debug)]
pub struct Blob {
    flights: Flights,
    flight: Arc<Flight>,
}

impl Blob {
    /// How many octets it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.flight.size()
    }

    /// A part of it.
    #[must_use]
    pub fn open(self, part: Range<u64>) -> ByteStream {
        self.flights.follow(self.flight, part)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// No upstream answers, and the content is not here.
    #[error("the upstream does not answer")]
    Unreachable,
    /// The upstream refuses.
    #[error("the upstream refuses")]
    Upstream(#[source] ClientError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether mirrors can be set up, with the files that they name.
///
/// # Errors
///
/// The problem of the first mirror that cannot be used.
pub fn check(mirrors: &[Settings]) -> Result<(), SetupError> {
    mirrors
        .iter()
        .try_for_each(|mirror| upstream(mirror).map(drop))
}

/// Why a mirror cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Its address is none.
    #[error("{0} is no address of a registry")]
    Endpoint(String, #[source] EndpointError),
    /// Its authorities cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Its secret cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Secret(PathBuf, #[source] io::Error),
    /// Its secret is none.
    #[error("{path} has no line NAME:PASSWORD", path = .0.display())]
    NoCredentials(PathBuf),
}

impl Mirrors {
    /// Mirrors as they are configured; none when there are none.
    ///
    /// # Errors
    ///
    /// When one cannot be set up.
    pub fn new(store: Store, mirrors: &[Settings]) -> Result<Option<Self>, SetupError> {
        if mirrors.is_empty() {
            return Ok(None);
        }
        let upstreams = mirrors.iter().map(upstream).collect::<Result<_, _>>()?;
        Ok(Some(Self(Arc::new(Inner {
            flights: Flights::new(store.clone()),
            store,
            upstreams,
            tags: Mutex::default(),
            waiting: Mutex::default(),
            completing: Arc::new(Semaphore::new(COMPLETED_AT_ONCE)),
            manifests: Counter::default(),
            blobs: Counter::default(),
            octets: AtomicU64::new(0),
        }))))
    }

    /// The upstream of a repository: the one with the longest matching prefix, or the one that a
    /// client names.
    #[must_use]
    pub fn route(&self, name: &RepositoryName, namespace: Option<&str>) -> Option<Route> {
        let upstreams = || self.0.upstreams.iter().enumerate();
        if let Some(namespace) = namespace {
            let named = |upstream: &Upstream| upstream.namespace.as_deref() == Some(namespace);
            let (number, upstream) = upstreams().find(|(_, upstream)| named(upstream))?;
            let local = match upstream.prefix.as_str() {
                "" => name.clone(),
                prefix => format!("{prefix}/{}", name.as_str()).parse().ok()?,
            };
            return Some(Route {
                upstream: number,
                local,
                remote: name.clone(),
                namespace: Some(namespace.to_owned()),
            });
        }
        let rest = |upstream: &Upstream| match upstream.prefix.as_str() {
            "" => Some(name.clone()),
            prefix => {
                let rest = name.as_str().strip_prefix(prefix)?.strip_prefix('/')?;
                rest.parse().ok()
            }
        };
        let found = upstreams().filter_map(|(number, upstream)| {
            let remote = rest(upstream)?;
            Some((upstream.prefix.len(), number, remote))
        });
        let (_, upstream, remote) = found.max_by_key(|(length, ..)| *length)?;
        Some(Route {
            upstream,
            local: name.clone(),
            remote,
            namespace: None,
        })
    }

    /// How often manifests were asked of mirrors.
    #[must_use]
    pub fn manifests(&self) -> Asked {
        self.0.manifests.now()
    }

    /// How often blobs were.
    #[must_use]
    pub fn blobs(&self) -> Asked {
        self.0.blobs.now()
    }

    /// Octets of blobs that came from upstreams.
    #[must_use]
    pub fn octets(&self) -> u64 {
        self.0.octets.load(Ordering::Relaxed)
    }

    /// How many blobs are on their way here.
    #[must_use]
    pub fn n_flights(&self) -> usize {
        self.0.flights.count()
    }
}

fn upstream(mirror: &Settings) -> Result<Upstream, SetupError> {
    let pool = Pool::new(mirror.ca.as_deref())?;
    let secret = match &mirror.credentials {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| SetupError::Secret(path.clone(), error))?;
            let secret = Credentials::parse(text.trim_end_matches(['\r', '\n']));
            Some(secret.ok_or_else(|| SetupError::NoCredentials(path.clone()))?)
        }
        None => None,
    };
    let sources = mirror.upstream.iter().map(|url| {
        let text = url.as_str().trim_end_matches('/');
        let endpoint = Endpoint::parse(text, Scheme::Https);
        let endpoint = endpoint.map_err(|error| SetupError::Endpoint(text.to_owned(), error))?;
        let known = match &secret {
            Some(secret) => AuthFile::of(&endpoint, secret.clone()),
            None => AuthFile::default(),
        };
        Ok(Source {
            registry: Registry::new(pool.clone(), endpoint, known),
            state: Mutex::default(),
        })
    });
    Ok(Upstream {
        prefix: mirror.prefix.to_string(),
        namespace: mirror.namespace.clone(),
        ttl: mirror.ttl.0,
        sources: sources.collect::<Result<_, SetupError>>()?,
    })
}

//--- Asking

/// The response of an upstream.
enum Answer<T> {
    Yes(T),
    No,
    Silence,
}

impl Inner {
    /// Asks the sources of an upstream one after the other, until one answers.
    async fn ask<T, F>(
        &self,
        route: &Route,
        ask: impl Fn(Registry) -> F,
    ) -> Result<Answer<T>, MirrorError>
    where
        F: Future<Output = Result<Option<T>, ClientError>>,
    {
        let Some(upstream) = self.upstreams.get(route.upstream) else {
            return Ok(Answer::No);
        };
        let mut refused = None;
        let mut answered = false;
        for source in &upstream.sources {
            if !lock(&source.state).is_open(Instant::now()) {
                continue;
            }
            match ask(source.registry.clone()).await {
                Ok(found) => {
                    lock(&source.state).answered();
                    answered = true;
                    if let Some(found) = found {
                        return Ok(Answer::Yes(found));
                    }
                }
                Err(error) if error.is_passing() => {
                    let host = source.registry.endpoint();
                    let shown = daemon::exit::chain(&error);
                    tracing::warn!(upstream = %host, error = shown, "An upstream does not answer");
                    lock(&source.state).failed(Instant::now());
                }
                Err(error) => refused = Some(error),
            }
        }
        match (answered, refused) {
            (true, _) => Ok(Answer::No),
            (false, Some(error)) => Err(MirrorError::Upstream(error)),
            (false, None) => Ok(Answer::Silence),
        }
    }
}

//--- Blobs

impl Mirrors {
    /// A blob that is not in the repository here, on its way here; none when the upstream has none.
    ///
    /// # Errors
    ///
    /// When no upstream answers, the upstream refuses, or the store fails.
    pub async fn blob(&self, route: &Route, digest: &Digest) -> Result<Option<Blob>, MirrorError> {
        self.0.blobs.asked();
        let asked = self
            .0
            .ask(route, |registry| {
                let (remote, digest) = (route.remote.clone(), *digest);
                async move {
                    let size = registry.blob_size(&remote, &digest).await?;
                    Ok(size.map(|size| (registry, size)))
                }
            })
            .await?;
        let (registry, size) = match asked {
            Answer::Yes(found) => found,
            Answer::No => return Ok(None),
            Answer::Silence => return Err(MirrorError::Unreachable),
        };
        let (remote, wanted) = (route.remote.clone(), *digest);
        let counting = self.clone();
        let open = async move {
            counting.0.blobs.missed();
            counting.0.octets.fetch_add(size, Ordering::Relaxed);
            let origin = Origin::Registry(registry);
            let body = origin.blob(&remote, &wanted, 0).await;
            body.map_err(io::Error::other)?
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        let flight = self.0.flights.begin(*digest, size, open);
        let flight = flight.ok_or(MirrorError::Unreachable)?;
        let (mirrors, local, landing) = (self.clone(), route.local.clone(), Arc::clone(&flight));
        let digest = *digest;
        tokio::spawn(async move {
            if landing.landed().await == TransferOutcome::Held {
                // The next one who asks finds it in the repository.
                drop(mirrors.0.store.link(&local, &digest).await);
            }
        });
        Ok(Some(Blob {
            flights: self.0.flights.clone(),
            flight,
        }))
    }

    /// Has a blob brought here, and waits for it.
    async fn bring(&self, route: &Route, digest: &Digest) -> Result<(), MirrorError> {
        let blob = self.blob(route, digest).await?;
        let blob = blob.ok_or(MirrorError::Unreachable)?;
        match blob.flight.landed().await {
            TransferOutcome::Held => {
                self.0.store.link(&route.local, digest).await?;
                Ok(())
            }
            TransferOutcome::Failed => Err(MirrorError::Unreachable),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests;
