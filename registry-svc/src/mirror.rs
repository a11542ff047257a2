//! Mirrors: repositories whose content is an upstream's, fetched when it is asked for and kept.
//!
//! A repository is an upstream's by its name (`prefix/NAME` here is `NAME` there), or because a client
//! says so with `?ns=HOST`, as containerd does. A tag is asked for again when it was last found to be
//! current longer ago than the mirror's time to live; then its digest alone is asked for. When nobody
//! answers, what is here is served, with a warning.
//!
//! **A manifest becomes visible in the store with all that it refers to**, as one that is pushed does:
//! until its blobs are here it is kept in memory, and served from there. So what is served while the
//! upstream is away is whole. An index is stored when one of its images is here: nobody wants all
//! platforms of everything.

mod flight;
mod fresh;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client::connection::{ByteStream, Pool, TrustError};
use crate::client::credentials::{AuthFile, Credentials};
use crate::client::endpoint::{Endpoint, EndpointError, Scheme};
use crate::client::{ClientError, Registry, RemoteManifest};
use crate::config::Mirror;
use crate::digest::Digest;
use crate::manifest::{self, Manifest};
use crate::mirror::flight::{Flight, Flights, Landing};
use crate::mirror::fresh::{Standing, Tags};
use crate::reference::{Reference, RepositoryName, Tag};
use crate::store::{NewManifest, Store, StoreError, Stored};
use crate::transfer::origin::Origin;

/// Manifests that wait for their blobs. One that is dropped is fetched again when it is asked for.
const MAX_WAITING: usize = 512;
/// Their octets.
const MAX_WAITING_OCTETS: usize = 64 << 20;
/// Images that are completed at once, besides what clients ask for themselves.
const COMPLETED_AT_ONCE: usize = 2;

/// What was here when nobody answered (RFC 7234 §5.5.1, which clients still know).
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

/// What was asked of mirrors.
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
    /// What had to come from an upstream.
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
    standing: Mutex<Standing>,
}

/// A repository here that is one of an upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    upstream: usize,
    /// Its name here.
    pub local: RepositoryName,
    /// Its name there.
    remote: RepositoryName,
    /// What the client called the upstream.
    namespace: Option<String>,
}

impl Route {
    /// What the client called the upstream, if it did.
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
    /// Nobody answers, and there is nothing here.
    #[error("the upstream does not answer")]
    Unreachable,
    /// The upstream refuses.
    #[error("the upstream refuses")]
    Upstream(#[source] ClientError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a mirror cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Its address is none.
    #[error("{0} is no address of a registry")]
    Endpoint(String, #[source] EndpointError),
    /// What it trusts cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Its secret cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Secret(PathBuf, #[source] io::Error),
    /// Its secret is none.
    #[error("{path} has no line NAME:PASSWORD", path = .0.display())]
    NoCredentials(PathBuf),
}

/// Manifests that wait for their blobs, oldest first.
#[derive(Debug, Default)]
struct Waiting {
    by_key: BTreeMap<(RepositoryName, Digest), Waits>,
    octets: usize,
    next: u64,
}

#[derive(Clone, Debug)]
struct Waits {
    stored: Stored,
    manifest: Arc<Manifest>,
    tags: Vec<Tag>,
    number: u64,
}

impl Mirrors {
    /// Mirrors as they are configured; none when there are none.
    ///
    /// # Errors
    ///
    /// When one cannot be set up.
    pub fn new(store: Store, mirrors: &[Mirror]) -> Result<Option<Self>, SetupError> {
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

    /// Which upstream a repository belongs to: the one whose prefix says most, or the one that a client
    /// names.
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

fn upstream(mirror: &Mirror) -> Result<Upstream, SetupError> {
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
    let sources = mirror.upstreams.iter().map(|text| {
        let endpoint = Endpoint::parse(text, Scheme::Https);
        let endpoint = endpoint.map_err(|error| SetupError::Endpoint(text.clone(), error))?;
        let known = match &secret {
            Some(secret) => AuthFile::of(&endpoint, secret.clone()),
            None => AuthFile::default(),
        };
        Ok(Source {
            registry: Registry::new(pool.clone(), endpoint, known),
            standing: Mutex::default(),
        })
    });
    Ok(Upstream {
        prefix: mirror.prefix.trim_matches('/').to_owned(),
        namespace: mirror.namespace.clone(),
        ttl: mirror.ttl,
        sources: sources.collect::<Result<_, SetupError>>()?,
    })
}

//--- Asking

/// What came of asking an upstream.
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
            if !lock(&source.standing).is_open(now()) {
                continue;
            }
            match ask(source.registry.clone()).await {
                Ok(found) => {
                    lock(&source.standing).answered();
                    answered = true;
                    if let Some(found) = found {
                        return Ok(Answer::Yes(found));
                    }
                }
                Err(error) if error.is_passing() => {
                    let host = source.registry.endpoint();
                    let shown = daemon_base::exit::chain(&error);
                    tracing::warn!(upstream = %host, error = shown, "An upstream does not answer");
                    lock(&source.standing).failed(now());
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

//--- Manifests

impl Mirrors {
    /// A manifest: from here as long as that is current, else from the upstream; none when it has none.
    ///
    /// # Errors
    ///
    /// When nobody answers and nothing is here, the upstream refuses, or the store fails.
    pub async fn manifest(
        &self,
        route: &Route,
        reference: &Reference,
    ) -> Result<Option<Found>, MirrorError> {
        self.0.manifests.asked();
        match reference {
            Reference::Digest(digest) => self.by_digest(route, digest).await,
            Reference::Tag(tag) => self.by_tag(route, tag).await,
        }
    }

    async fn by_digest(
        &self,
        route: &Route,
        digest: &Digest,
    ) -> Result<Option<Found>, MirrorError> {
        if let Some(stored) = self.here(route, digest).await? {
            return Ok(Some(found(stored)));
        }
        let reference = Reference::Digest(*digest);
        let asked = self.fetch(route, &reference).await?;
        match asked {
            Answer::Yes(manifest) => Ok(Some(found(self.begin(route, manifest, None)))),
            Answer::No => Ok(None),
            Answer::Silence => Err(MirrorError::Unreachable),
        }
    }

    async fn by_tag(&self, route: &Route, tag: &Tag) -> Result<Option<Found>, MirrorError> {
        let ttl = self
            .0
            .upstreams
            .get(route.upstream)
            .map(|upstream| upstream.ttl);
        let seen = {
            let tags = lock(&self.0.tags);
            tags.current(&route.local, tag, ttl.unwrap_or_default(), now())
        };
        if let Some(digest) = seen
            && let Some(stored) = self.here(route, &digest).await?
        {
            return Ok(Some(found(stored)));
        }
        let reference = Reference::Tag(tag.clone());
        let asked = self
            .0
            .ask(route, |registry| {
                let (remote, reference) = (route.remote.clone(), reference.clone());
                async move { registry.resolve(&remote, &reference).await }
            })
            .await?;
        match asked {
            Answer::Yes(digest) => self.at_tag(route, tag, &digest).await,
            Answer::No => Ok(None),
            Answer::Silence => self.stale(route, tag).await,
        }
    }

    /// The upstream says what a tag points to.
    async fn at_tag(
        &self,
        route: &Route,
        tag: &Tag,
        digest: &Digest,
    ) -> Result<Option<Found>, MirrorError> {
        let stored = match self.here(route, digest).await? {
            Some(stored) => {
                self.point(route, tag, &stored).await?;
                stored
            }
            None => match self.fetch(route, &Reference::Digest(*digest)).await? {
                Answer::Yes(manifest) => self.begin(route, manifest, Some(tag)),
                Answer::No => return Ok(None),
                Answer::Silence => return self.stale(route, tag).await,
            },
        };
        lock(&self.0.tags).note(&route.local, tag, *digest, now());
        Ok(Some(found(stored)))
    }

    /// What is here of a tag when nobody answers.
    async fn stale(&self, route: &Route, tag: &Tag) -> Result<Option<Found>, MirrorError> {
        let reference = Reference::Tag(tag.clone());
        let stored = self.0.store.manifest(&route.local, &reference).await?;
        match stored {
            Some(stored) => Ok(Some(Found {
                stored,
                warning: Some(STALE),
            })),
            None => Err(MirrorError::Unreachable),
        }
    }

    /// Points a tag to a manifest that is here, if it does not; one that waits gets the tag with it.
    async fn point(&self, route: &Route, tag: &Tag, stored: &Stored) -> Result<(), MirrorError> {
        let key = (route.local.clone(), stored.digest);
        if let Some(waits) = lock(&self.0.waiting).by_key.get_mut(&key) {
            if !waits.tags.contains(tag) {
                waits.tags.push(tag.clone());
            }
            return Ok(());
        }
        let reference = Reference::Tag(tag.clone());
        let points = self.0.store.manifest(&route.local, &reference).await?;
        if points.is_some_and(|points| points.digest == stored.digest) {
            return Ok(());
        }
        let parsed = manifest::parse(&stored.bytes, Some(&stored.media_type)).ok();
        self.0
            .store
            .put_manifest(
                &route.local,
                NewManifest {
                    bytes: stored.bytes.clone(),
                    media_type: stored.media_type.to_string(),
                    digest: stored.digest,
                    closure: Vec::new(),
                    subject: parsed
                        .and_then(|parsed| parsed.subject)
                        .map(|subject| subject.digest),
                    tags: vec![tag.clone()],
                },
            )
            .await?;
        Ok(())
    }

    /// A manifest that is in the store, or waits to be.
    async fn here(&self, route: &Route, digest: &Digest) -> Result<Option<Stored>, MirrorError> {
        let key = (route.local.clone(), *digest);
        let waits = lock(&self.0.waiting).by_key.get(&key).cloned();
        if let Some(waits) = waits {
            return Ok(Some(waits.stored));
        }
        let reference = Reference::Digest(*digest);
        Ok(self.0.store.manifest(&route.local, &reference).await?)
    }

    async fn fetch(
        &self,
        route: &Route,
        reference: &Reference,
    ) -> Result<Answer<RemoteManifest>, MirrorError> {
        self.0
            .ask(route, |registry| {
                let (remote, reference) = (route.remote.clone(), reference.clone());
                async move { registry.manifest(&remote, &reference).await }
            })
            .await
    }
}

fn found(stored: Stored) -> Found {
    Found {
        stored,
        warning: None,
    }
}

//--- Completing

impl Mirrors {
    /// Keeps a manifest until all that it refers to is here, and has that brought here.
    fn begin(&self, route: &Route, remote: RemoteManifest, tag: Option<&Tag>) -> Stored {
        self.0.manifests.missed();
        let stored = Stored {
            digest: remote.digest,
            media_type: remote.media_type.into(),
            bytes: remote.bytes,
        };
        let parsed = manifest::parse(&stored.bytes, Some(&stored.media_type));
        let Ok(parsed) = parsed else {
            // It can be served, and not be kept.
            return stored;
        };
        let is_new = {
            let mut waiting = lock(&self.0.waiting);
            waiting.add(&route.local, stored.clone(), Arc::new(parsed), tag)
        };
        if is_new {
            let (mirrors, route, digest) = (self.clone(), route.clone(), stored.digest);
            tokio::spawn(async move { mirrors.complete(&route, &digest).await });
        }
        stored
    }

    async fn complete(&self, route: &Route, digest: &Digest) {
        let key = (route.local.clone(), *digest);
        let Ok(_permit) = self.0.completing.acquire().await else {
            return;
        };
        let waits = lock(&self.0.waiting).by_key.get(&key).cloned();
        let Some(waits) = waits else {
            return;
        };
        let done = match waits.manifest.is_index() {
            true => self.complete_index(route, &waits).await,
            false => self.complete_image(route, &waits).await,
        };
        if let Err(error) = done {
            let shown = daemon_base::exit::chain(&error);
            let repository = route.local.as_str();
            tracing::warn!(repository, %digest, error = shown, "An image of an upstream is not whole yet");
            lock(&self.0.waiting).remove(&key);
        }
    }

    async fn complete_image(&self, route: &Route, waits: &Waits) -> Result<(), MirrorError> {
        for blob in &waits.manifest.closure.blobs {
            if self.0.store.blob(&route.local, blob).await?.is_some() {
                continue;
            }
            self.bring(route, blob).await?;
        }
        self.keep(route, waits).await?;
        // An index that lists it can be kept, too.
        let indexes: Vec<Waits> = {
            let waiting = lock(&self.0.waiting);
            let here = waiting.by_key.iter();
            let here = here.filter(|(key, _)| key.0 == route.local);
            let digest = waits.stored.digest;
            let lists = |waits: &&Waits| waits.manifest.closure.manifests.contains(&digest);
            here.map(|(_, waits)| waits)
                .filter(lists)
                .cloned()
                .collect()
        };
        for index in indexes {
            self.keep(route, &index).await?;
        }
        Ok(())
    }

    /// An index is kept when one of its manifests is here; else it goes on waiting for that.
    async fn complete_index(&self, route: &Route, waits: &Waits) -> Result<(), MirrorError> {
        for child in &waits.manifest.closure.manifests {
            let reference = Reference::Digest(*child);
            if self
                .0
                .store
                .manifest(&route.local, &reference)
                .await?
                .is_some()
            {
                return self.keep(route, waits).await;
            }
        }
        Ok(())
    }

    async fn keep(&self, route: &Route, waits: &Waits) -> Result<(), MirrorError> {
        let key = (route.local.clone(), waits.stored.digest);
        // Tags may have come in the meantime.
        let tags = match lock(&self.0.waiting).by_key.get(&key) {
            Some(current) => current.tags.clone(),
            None => waits.tags.clone(),
        };
        let new = NewManifest {
            bytes: waits.stored.bytes.clone(),
            media_type: waits.stored.media_type.to_string(),
            digest: waits.stored.digest,
            closure: match waits.manifest.is_index() {
                true => Vec::new(),
                false => waits.manifest.closure.required().copied().collect(),
            },
            subject: waits
                .manifest
                .subject
                .as_ref()
                .map(|subject| subject.digest),
            tags,
        };
        self.0.store.put_manifest(&route.local, new).await?;
        lock(&self.0.waiting).remove(&key);
        Ok(())
    }
}

//--- Blobs

impl Mirrors {
    /// A blob that is not in the repository here, on its way here; none when the upstream has none.
    ///
    /// # Errors
    ///
    /// When nobody answers, the upstream refuses, or the store fails.
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
            if landing.landed().await == Landing::Held {
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
            Landing::Held => {
                self.0.store.link(&route.local, digest).await?;
                Ok(())
            }
            Landing::Failed => Err(MirrorError::Unreachable),
        }
    }
}

//--- What waits

impl Waiting {
    /// Adds one, or a tag to it; whether it is new.
    fn add(
        &mut self,
        repository: &RepositoryName,
        stored: Stored,
        manifest: Arc<Manifest>,
        tag: Option<&Tag>,
    ) -> bool {
        let key = (repository.clone(), stored.digest);
        if let Some(waits) = self.by_key.get_mut(&key) {
            waits.tags.extend(tag.cloned());
            return false;
        }
        let size = stored.bytes.len();
        while self.by_key.len() >= MAX_WAITING || self.octets + size > MAX_WAITING_OCTETS {
            let oldest = self.by_key.iter().min_by_key(|(_, waits)| waits.number);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.octets += size;
        self.next += 1;
        let waits = Waits {
            stored,
            manifest,
            tags: tag.into_iter().cloned().collect(),
            number: self.next,
        };
        self.by_key.insert(key, waits);
        true
    }

    fn remove(&mut self, key: &(RepositoryName, Digest)) {
        if let Some(waits) = self.by_key.remove(key) {
            self.octets -= waits.stored.bytes.len();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
