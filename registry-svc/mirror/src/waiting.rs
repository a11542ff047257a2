//! Manifests that wait for their blobs, which are brought here until the store can have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use oci::digest::Digest;
use oci::manifest;
use oci::manifest::Manifest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_client::RemoteManifest;
use registry_store::{NewManifest, Stored};

use super::{MirrorError, Mirrors, Route, lock};

/// Manifests that wait for their blobs. A dropped one is fetched again on demand.
const MAX_WAITING: usize = 512;
/// Their octets.
const MAX_WAITING_OCTETS: usize = 64 << 20;

/// Manifests that wait for their blobs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) by_key: BTreeMap<(RepositoryName, Digest), Waits>,
    octets: usize,
    next: u64,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    pub(super) stored: Stored,
    manifest: Arc<Manifest>,
    pub(super) tags: Vec<Tag>,
    number: u64,
}

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

//--- Completing

impl Mirrors {
    /// Keeps a manifest until all that it refers to is here, and has that brought here.
    pub(super) fn begin(&self, route: &Route, remote: RemoteManifest, tag: Option<&Tag>) -> Stored {
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
            let shown = daemon::exit::chain(&error);
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

    /// An index is kept when one of its manifests is here; else it continues to wait for that.
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
