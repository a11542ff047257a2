//! What clients do to the store, each step of it noted as what it may have left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use oci::digest::{Algorithm, Digest};
use oci::manifest;
use oci::reference::{RepositoryName, Tag};

use super::{Effect, Open, Run, Totals};
use crate::store::{NewManifest, Store, StoreError};

impl Run {
    pub(super) async fn push(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        let (digest, octets) = self.content();
        let length = Some(octets.len() as u64);
        let result = store
            .push(&repository, &digest, length, body(&octets))
            .await;
        self.outcome(&blob(repository, digest), &result, totals);
    }

    pub(super) async fn upload(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        let at = self.chance.below(4);
        let mut session = match self.sessions.get(usize::try_from(at).unwrap()) {
            Some(_) => self.sessions.remove(usize::try_from(at).unwrap()),
            None => match store.begin("client", &repository, Algorithm::Sha256).await {
                Ok(id) => Open {
                    repository,
                    id,
                    content: self.content().1,
                    offset: 0,
                },
                Err(_) => return,
            },
        };
        let (owner, id) = (session.repository.clone(), session.id.clone());
        let left = session.content.len() as u64 - session.offset;
        let n_next = self.chance.below(left + 1);
        let from = usize::try_from(session.offset).unwrap();
        let to = usize::try_from(session.offset + n_next).unwrap();
        let piece = session.content.slice(from..to);
        match store
            .append(&owner, &id, Some(session.offset), None, body(&piece))
            .await
        {
            Ok(offset) => {
                assert_eq!(offset, session.offset + n_next, "seed {}", self.seed);
                session.offset = offset;
            }
            Err(_) => return,
        }
        if session.offset < session.content.len() as u64 || self.chance.permille(300) {
            self.sessions.push(session);
            return;
        }
        let digest = Digest::of(Algorithm::Sha256, &session.content);
        let result = store.finish(&owner, &id, &digest).await;
        self.outcome(&blob(owner, digest), &result, totals);
    }

    pub(super) async fn manifest(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        let (manifest, effect) = self.new_manifest(&repository);
        let result = store.put_manifest(&repository, manifest).await;
        self.outcome(&effect, &result, totals);
    }

    pub(super) fn new_manifest(&mut self, repository: &RepositoryName) -> (NewManifest, Effect) {
        let mut closure = self.model.sure(repository);
        closure.truncate(usize::try_from(self.chance.below(5)).unwrap());
        self.manifest_of(repository, closure)
    }

    pub(super) fn manifest_of(
        &mut self,
        repository: &RepositoryName,
        closure: Vec<Digest>,
    ) -> (NewManifest, Effect) {
        let (bytes, media_type) = document(&closure, self.chance.below(3));
        let digest = Digest::of(Algorithm::Sha256, &bytes);
        self.model.content.insert(digest, bytes.clone());
        self.model.closures.insert(digest, closure.clone());
        let tags: BTreeSet<Tag> = (0..self.chance.below(3))
            .map(|_| format!("t{}", self.chance.below(4)).parse().unwrap())
            .collect();
        let effect = Effect {
            // It states its blobs again.
            blobs: links(repository, &closure),
            manifests: vec![((repository.clone(), digest), true)],
            tags: tags
                .iter()
                .map(|tag| ((repository.clone(), tag.clone()), Some(digest)))
                .collect(),
        };
        let manifest = NewManifest {
            bytes,
            media_type: media_type.to_owned(),
            digest,
            closure,
            subject: None,
            tags: tags.into_iter().collect(),
        };
        (manifest, effect)
    }

    pub(super) async fn delete(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        if self.chance.permille(500) {
            let tag: Tag = format!("t{}", self.chance.below(4)).parse().unwrap();
            let result = store.delete_tag(&repository, &tag).await;
            if matches!(result, Err(StoreError::Unknown(_))) {
                return;
            }
            let effect = Effect {
                tags: vec![((repository, tag), None)],
                ..Effect::default()
            };
            return self.outcome(&effect, &result, totals);
        }
        let Some((digest, effect)) = self.deletion(&repository) else {
            return;
        };
        let result = store.delete_manifest(&repository, &digest).await;
        if !matches!(result, Err(StoreError::Unknown(_))) {
            self.outcome(&effect, &result, totals);
        }
    }

    /// A manifest that a repository may have, and what is true when it is deleted.
    pub(super) fn deletion(&mut self, repository: &RepositoryName) -> Option<(Digest, Effect)> {
        let here = |key: &&(RepositoryName, Digest)| key.0 == *repository;
        let manifests: Vec<_> = self.model.manifests.keys().filter(here).cloned().collect();
        let at = self.chance.below(manifests.len() as u64);
        let key = manifests.get(usize::try_from(at).unwrap()).cloned()?;
        let pointing: Vec<_> = self
            .model
            .tags
            .iter()
            .filter(|((owner, _), values)| owner == repository && values.contains(&Some(key.1)))
            .collect();
        // After a refused push a tag may point elsewhere, and then stays there.
        if pointing.iter().any(|(_, values)| values.len() > 1) {
            return None;
        }
        let effect = Effect {
            tags: pointing
                .into_iter()
                .map(|(tag, _)| (tag.clone(), None))
                .collect(),
            manifests: vec![(key.clone(), false)],
            ..Effect::default()
        };
        Some((key.1, effect))
    }

    pub(super) async fn unlink(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        // Of what no manifest needs: what a repository lacks of a manifest is another's test.
        let needed: BTreeSet<Digest> = self.model.closures.values().flatten().copied().collect();
        let sure = self.model.sure(&repository);
        let Some(digest) = sure.into_iter().find(|digest| !needed.contains(digest)) else {
            return;
        };
        let result = store.unlink(&repository, &digest).await;
        let mut effect = blob(repository, digest);
        for (_, is_there) in &mut effect.blobs {
            *is_there = false;
        }
        self.outcome(&effect, &result, totals);
    }

    /// Several at once, which share syncs of the journal.
    pub(super) async fn several(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        let mut tasks = tokio::task::JoinSet::new();
        let mut effects = BTreeMap::new();
        for number in 0..4 {
            let (digest, octets) = self.content();
            // Two that push the same at once make one effect.
            effects.insert(number, blob(repository.clone(), digest));
            let (store, repository) = (store.clone(), repository.clone());
            tasks.spawn(async move {
                (
                    number,
                    store.push(&repository, &digest, None, body(&octets)).await,
                )
            });
        }
        // Those that were acknowledged hold, whichever came last.
        let mut results = Vec::new();
        while let Some(result) = tasks.join_next().await {
            results.push(result.unwrap());
        }
        results.sort_by_key(|(_, result)| result.is_ok());
        for (number, result) in results {
            let effect = effects.remove(&number).unwrap();
            self.outcome(&effect, &result, totals);
        }
    }
}

pub(super) fn blob(repository: RepositoryName, digest: Digest) -> Effect {
    Effect {
        blobs: vec![((repository, digest), true)],
        ..Effect::default()
    }
}

pub(super) fn links(
    repository: &RepositoryName,
    digests: &[Digest],
) -> Vec<((RepositoryName, Digest), bool)> {
    let link = |digest: &Digest| ((repository.clone(), *digest), true);
    digests.iter().map(link).collect()
}

/// A manifest of some blobs, and its media type.
fn document(closure: &[Digest], number: u64) -> (Bytes, &'static str) {
    let describe = |digest: &Digest| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest.to_string(), "size": 1,
        })
    };
    let mut document =
        serde_json::json!({ "schemaVersion": 2, "annotations": { "n": number.to_string() } });
    let media_type = match closure {
        [] => {
            document["manifests"] = serde_json::json!([]);
            manifest::OCI_INDEX
        }
        [config, layers @ ..] => {
            document["config"] = describe(config);
            document["layers"] = layers.iter().map(describe).collect();
            manifest::OCI_IMAGE
        }
    };
    document["mediaType"] = media_type.into();
    (document.to_string().into(), media_type)
}

pub(super) fn body(
    octets: &Bytes,
) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + Unpin {
    let pieces: Vec<_> = octets
        .chunks(4000)
        .map(Bytes::copy_from_slice)
        .map(Ok)
        .collect();
    tokio_stream::iter(pieces)
}
