//! Finds the content that a record needs before it becomes visible here, and applies the record
//! with it.

use std::collections::BTreeSet;

use oci::digest::Digest;
use oci::manifest;
use oci::reference::{Reference, RepositoryName};
use registry_facts::name::NodeName;
use registry_facts::record::{Fact, Key, Record, Stamped};
use registry_store::{Purpose, StoreError};
use tokio_stream::StreamExt as _;

use super::Feed;
use super::LARGEST_MANIFEST;
use crate::fetch::TransferOutcome;
use crate::read_through::ask;
use registry_cluster_core::intake::{Class, Kind, Outcome};
use registry_cluster_core::wire as form;
use registry_cluster_core::wire::{Search, SearchKey};

impl Feed {
    /// Sees to it that content is here, and says what it refers to.
    pub(super) async fn ensure(
        &self,
        digest: &Digest,
        kind: Kind,
        class: Class,
        from: &NodeName,
    ) -> Outcome {
        let held = self.0.store.held(digest).await;
        match held {
            Ok(Some(_)) => {}
            Ok(None) => match self.0.fetcher.fetch(digest, class, Some(from)).await {
                TransferOutcome::Held => {}
                TransferOutcome::Denied => return Outcome::Denied,
                TransferOutcome::Unreachable | TransferOutcome::Corrupt => {
                    return Outcome::Unreachable;
                }
                TransferOutcome::NoRoom => return Outcome::NoRoom,
            },
            Err(_) => return Outcome::NoRoom,
        }
        match kind {
            Kind::Blob => Outcome::Held(Vec::new()),
            Kind::Manifest => match self.refers(digest).await {
                Ok(refers) => Outcome::Held(refers),
                Err(error) => {
                    tracing::warn!(%digest, %error, "A manifest cannot be read");
                    Outcome::NoRoom
                }
            },
        }
    }

    /// Applies records whose content is here, and with them what their manifests' repository has to
    /// have beside them.
    ///
    /// Content that has gone since it was brought is wanted again, and the records with it.
    pub(super) async fn apply(&self, records: Vec<Record>) -> Result<(), StoreError> {
        let mut whole = Vec::with_capacity(records.len());
        let mut content = BTreeSet::new();
        for record in records {
            content.extend(record.facts.iter().filter_map(Fact::present_content));
            whole.extend(self.links(&record, &mut content).await?);
            whole.push(record);
        }
        loop {
            let applied = self.0.store.apply_beside(whole.clone(), &content).await;
            let Err(StoreError::MissingBlobs(missing)) = &applied else {
                return applied;
            };
            let mut is_wanted = false;
            for digest in missing {
                self.step(|intake, _| is_wanted |= intake.lost(digest));
                // The records do without content that no node has.
                content.remove(digest);
            }
            if is_wanted {
                return applied;
            }
        }
    }

    /// The links to what a record's manifests refer to, as far as neither the record nor this node
    /// states them. A record states them when it is made; but a journal leaves out what a later record
    /// has stated again, and that one may come later, from a peer that is gone by then.
    ///
    /// Adds what the manifests refer to to `content`.
    async fn links(
        &self,
        record: &Record,
        content: &mut BTreeSet<Digest>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut stated: BTreeSet<Key> = record.facts.iter().map(Fact::key).collect();
        let mut manifests: Vec<(RepositoryName, Digest)> = Vec::new();
        for fact in &record.facts {
            if let Fact::Manifest {
                repository,
                digest,
                link: Some(_),
            } = fact
            {
                manifests.push((repository.clone(), *digest));
            }
        }
        let mut links = Vec::new();
        while let Some((repository, digest)) = manifests.pop() {
            for (digest, kind) in self.refers(&digest).await? {
                content.insert(digest);
                let wanted = Search {
                    repository: repository.clone(),
                    what: match kind {
                        Kind::Blob => SearchKey::Blob(digest),
                        Kind::Manifest => SearchKey::Manifest(Reference::Digest(digest)),
                    },
                };
                let key = wanted.key();
                if !stated.insert(key.clone()) || self.0.store.register(&key)?.is_some() {
                    continue;
                }
                // No node has it: the manifest was pushed without it.
                if let Some(link) = self.link(&wanted).await {
                    manifests
                        .extend((kind == Kind::Manifest).then(|| (repository.clone(), digest)));
                    links.push(link);
                }
            }
        }
        Ok(form::repairs(links))
    }

    async fn link(&self, wanted: &Search) -> Option<Stamped> {
        let mut asked = ask(&self.0.fetcher.peers(), wanted);
        while let Some(answer) = asked.join_next().await {
            if let Some((_, found)) = answer.ok().flatten()
                && found.link.fact.key() == wanted.key()
            {
                return Some(found.link);
            }
        }
        None
    }

    /// The content that a local manifest refers to.
    async fn refers(&self, digest: &Digest) -> Result<Vec<(Digest, Kind)>, StoreError> {
        let Some(size) = self.0.store.held(digest).await? else {
            return Ok(Vec::new());
        };
        let mut pieces = self
            .0
            .store
            .read(digest, 0..size.min(LARGEST_MANIFEST), Purpose::Copy)
            .await?;
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece.map_err(StoreError::Body)?);
        }
        // A document need not say what it is when it is pushed; its shape tells.
        let types = [None, Some(manifest::OCI_IMAGE), Some(manifest::OCI_INDEX)];
        let mut read = types
            .iter()
            .map(|as_type| manifest::parse(&bytes, *as_type));
        // The origin accepted it; a manifest that cannot be read here refers to nothing known.
        let Some(manifest) = read.find_map(Result::ok) else {
            return Ok(Vec::new());
        };
        let blobs = manifest
            .closure
            .blobs
            .iter()
            .map(|blob| (*blob, Kind::Blob));
        let children = manifest.closure.manifests.iter();
        let children = children.map(|child| (*child, Kind::Manifest));
        Ok(blobs.chain(children).collect())
    }
}
