//! What has to be true of what a crash left behind.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use bytes::Bytes;
use oci::digest::{Algorithm, Digest};
use oci::reference::Reference;
use oci::reference::{RepositoryName, Tag};
use tokio_stream::StreamExt as _;

use super::clients::{blob, body};
use super::{GRACE, LEASE};
use super::{Run, Totals, settle};
use crate::store::{Purpose, Store, StoreError};

impl Run {
    pub(super) async fn verify(&mut self, store: &Store, totals: &mut Totals) {
        let seed = self.seed;
        self.verify_peer(store);
        self.verify_in_place(store);
        // Leases end with their process: what they kept may be in the trash, for one grace at least.
        for until in self.model.young_until.values_mut() {
            *until = (*until).min(self.time + GRACE);
        }
        let needed = self.model.needed();
        let mut asked = BTreeSet::new();
        for ((repository, digest), values) in &mut self.model.blobs {
            // Who asks for it has it back from the trash; what no manifest needs is left there at
            // times.
            if !needed.contains(digest) && self.chance.permille(500) {
                continue;
            }
            let was_trash = self.disk.has(&store.layout().trashed(digest));
            let found = store.blob(repository, digest).await.unwrap();
            settle(seed, &(repository, digest), values, found.is_some());
            if let Some(size) = found {
                totals.n_back += u64::from(was_trash);
                asked.insert(*digest);
                let expected = &self.model.content[digest];
                assert_eq!(size, expected.len() as u64, "seed {seed} {digest}");
                assert_eq!(
                    read(store, digest, size).await,
                    expected,
                    "seed {seed} {digest}"
                );
            }
        }
        for digest in asked {
            self.model.young_until.insert(digest, self.time + LEASE);
        }
        for ((repository, digest), values) in &mut self.model.manifests {
            let reference = Reference::Digest(*digest);
            let found = store.manifest(repository, &reference).await.unwrap();
            settle(seed, &(repository, digest), values, found.is_some());
            if let Some(found) = found {
                assert_eq!(found.bytes, self.model.content[digest], "seed {seed}");
                for needed in &self.model.closures[digest] {
                    let size = store.blob(repository, needed).await.unwrap();
                    assert!(size.is_some(), "seed {seed}: {digest} lacks {needed}");
                }
            }
        }
        let mut tags: BTreeMap<RepositoryName, Vec<Tag>> = BTreeMap::new();
        for ((repository, tag), values) in &mut self.model.tags {
            let reference = Reference::Tag(tag.clone());
            let found = store.manifest(repository, &reference).await.unwrap();
            let found = found.map(|found| found.digest);
            settle(seed, &(repository, tag), values, found);
            if found.is_some() {
                tags.entry(repository.clone())
                    .or_default()
                    .push(tag.clone());
            }
        }
        for (repository, expected) in tags {
            let listed = store.tags(&repository, None, 1000).unwrap();
            assert_eq!(listed, Some(expected), "seed {seed}");
        }
        self.verify_sessions(store, totals).await;
    }

    /// Sessions that can go on do; those of a killed process have every octet.
    async fn verify_sessions(&mut self, store: &Store, totals: &mut Totals) {
        let seed = self.seed;
        let mut going_on = Vec::new();
        for mut session in std::mem::take(&mut self.sessions) {
            let offset = store.offset(&session.repository, &session.id).await;
            if !self.lost_power {
                let offset = offset.unwrap();
                assert_eq!(offset, session.offset, "seed {seed}");
                totals.n_resumed += 1;
                going_on.push(session);
            } else if let Ok(offset) = offset {
                // What was not synced may be torn; the digest tells.
                let length = session.content.len() as u64;
                assert!(offset <= length, "seed {seed}");
                session.offset = offset;
                let rest = session.content.slice(usize::try_from(offset).unwrap()..);
                let (owner, id) = (&session.repository, &session.id);
                store
                    .append(owner, id, Some(offset), None, body(&rest))
                    .await
                    .unwrap();
                let digest = Digest::of(Algorithm::Sha256, &session.content);
                match store.finish(owner, id, &digest).await {
                    Ok(_) => {
                        totals.n_resumed += 1;
                        self.model.note(&blob(owner.clone(), digest), true);
                    }
                    Err(error) => assert!(
                        matches!(error, StoreError::DigestMismatch { .. }),
                        "seed {seed}: {error:?}"
                    ),
                }
            }
        }
        self.sessions = going_on;
        self.lost_power = false;
    }
}

async fn read(store: &Store, digest: &Digest, size: u64) -> Bytes {
    let mut reader = store.read(digest, 0..size, Purpose::Pull).await.unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    octets.into()
}
