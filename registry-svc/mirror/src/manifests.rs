//! A manifest of a mirror: from here as long as that is current, else from the upstream.

use oci::digest::Digest;
use oci::manifest;
use oci::reference::{Reference, Tag};
use registry_client::RemoteManifest;
use registry_store::{NewManifest, Stored};
use tokio::time::Instant;

use super::{Answer, Found, MirrorError, Mirrors, Route, STALE, lock};

impl Mirrors {
    /// A manifest: from here as long as that is current, else from the upstream; none when it has none.
    ///
    /// # Errors
    ///
    /// When no upstream answers and nothing is here, the upstream refuses, or the store fails.
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
            tags.current(&route.local, tag, ttl.unwrap_or_default(), Instant::now())
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
        lock(&self.0.tags).note(&route.local, tag, *digest, Instant::now());
        Ok(Some(found(stored)))
    }

    /// The local target of a tag when no upstream answers.
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
        let points = self.stored(route, &Reference::Tag(tag.clone())).await?;
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
        self.stored(route, &Reference::Digest(*digest)).await
    }

    /// A manifest that is in the store; one whose file is damaged is not, so the upstream's replaces it.
    async fn stored(
        &self,
        route: &Route,
        reference: &Reference,
    ) -> Result<Option<Stored>, MirrorError> {
        match self.0.store.manifest(&route.local, reference).await {
            Err(error) if error.is_of_content() => Ok(None),
            stored => Ok(stored?),
        }
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
