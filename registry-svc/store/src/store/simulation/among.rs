//! What goes on at once: a sweep, pushes, deletions and a peer, each in a repository of its own, all
//! with the same content.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use config::DurationWithin;
use oci::digest::Digest;
use oci::reference::RepositoryName;
use registry_facts::hlc::Hlc;
use registry_facts::record::{Fact, Link, NodeId, Record};
use tokio::task::JoinSet;

use super::{Effect, GRACE, Model, Run, Totals, blob, body, is};
use crate::store::{NewManifest, Store, StoreError};
use crate::sweep::{Mode, Settings as Sweep, sweep};

/// Another node, whose records come here.
#[derive(Default)]
pub(super) struct Peer {
    /// How many records are durable here for sure.
    n_acknowledged: u64,
    /// The last of them, which comes again at times.
    last: Option<Record>,
}

impl Peer {
    /// Whether a record was taken.
    fn took(&mut self, result: &Result<bool, StoreError>, record: Option<Record>) -> bool {
        if result.is_err() || record.is_none() {
            return false;
        }
        self.n_acknowledged = record.as_ref().map_or(0, |record| record.sequence);
        self.last = record;
        true
    }
}

/// What one of those at work does.
enum Act {
    Push(RepositoryName, Digest, Bytes),
    Mount(RepositoryName, Digest),
    Ask(RepositoryName, Digest),
    Put(RepositoryName, NewManifest),
    Delete(RepositoryName, Digest),
    Apply(Vec<(Digest, Bytes)>, Record),
}

impl Act {
    fn record(&self) -> Option<Record> {
        match self {
            Self::Apply(_, record) => Some(record.clone()),
            _ => None,
        }
    }

    /// Whether it found what it is about.
    async fn perform(self, store: &Store) -> Result<bool, StoreError> {
        match self {
            Self::Push(repository, digest, octets) => store
                .push(&repository, &digest, None, body(&octets))
                .await
                .map(|_| true),
            Self::Mount(repository, digest) => store.link(&repository, &digest).await.map(|_| true),
            Self::Ask(repository, digest) => {
                let found = store.blob(&repository, &digest).await?;
                match found {
                    // It stands until the next start, and perhaps no longer.
                    Some(_) if store.is_in_doubt() => Err(StoreError::ReadOnly),
                    found => Ok(found.is_some()),
                }
            }
            Self::Put(repository, manifest) => store
                .put_manifest(&repository, manifest)
                .await
                .map(|_| true),
            Self::Delete(repository, digest) => store
                .delete_manifest(&repository, &digest)
                .await
                .map(|_| true),
            Self::Apply(contents, record) => {
                for (digest, octets) in contents {
                    store.ingest(&digest, None, body(&octets)).await?;
                }
                store.apply(vec![record]).await.map(|()| true)
            }
        }
    }
}

impl Model {
    /// Content that no sweep takes now.
    fn solid(&self, time: u64) -> BTreeSet<Digest> {
        let young = self.young_until.iter().filter(|(_, until)| time < **until);
        let mut solid = self.needed();
        solid.extend(young.map(|(digest, _)| *digest));
        solid
    }

    /// What a sweep may have taken is there or not.
    fn swept(&mut self, solid: &BTreeSet<Digest>) {
        for ((_, digest), values) in &mut self.blobs {
            if values.contains(&true) && !solid.contains(digest) {
                values.insert(false);
            }
        }
    }
}

impl Run {
    /// A sweep, and something in every repository meanwhile.
    pub(super) async fn among(&mut self, store: &Store, totals: &mut Totals) {
        let at_most = usize::try_from(self.chance.below(4)).unwrap();
        let mut acts = Vec::new();
        let with_peer = self.chance.below(6);
        for number in (0..3).take(at_most) {
            let repository: RepositoryName = format!("r{number}").parse().unwrap();
            let act = if with_peer == number {
                Some(self.record(store, &repository))
            } else {
                self.act(repository)
            };
            acts.extend(act);
        }
        // What is deleted meanwhile keeps nothing.
        let mut solid = self.model.solid(self.time);
        let deleted = acts.iter().flat_map(|(_, effect)| &effect.manifests);
        let deleted: Vec<_> = deleted.filter(|(_, is_there)| !is_there).collect();
        if !deleted.is_empty() {
            let mut model = std::mem::take(&mut self.model.manifests);
            let kept = model.clone();
            for (key, _) in deleted {
                model.remove(key);
            }
            self.model.manifests = model;
            solid = self.model.solid(self.time);
            self.model.manifests = kept;
        }
        self.model.swept(&solid);
        let sweeper = tokio::spawn(sweeping(store.clone()));
        let mut tasks = JoinSet::new();
        for (act, effect) in acts {
            let store = store.clone();
            let record = act.record();
            tasks.spawn(async move { (act.perform(&store).await, effect, record) });
        }
        let mut done = Vec::new();
        while let Some(result) = tasks.join_next().await {
            done.push(result.unwrap());
        }
        if let Ok(report) = sweeper.await.unwrap() {
            totals.n_trashed += report.trashed.n;
            totals.n_deleted += report.deleted.n;
        }
        for (result, effect, record) in done {
            totals.n_applied += u64::from(self.peer.took(&result, record));
            self.came_to(&solid, &result, &effect, totals);
        }
        if !self.disk.is_over() {
            self.verify_in_place(store);
        }
    }

    /// What manifests need is where it belongs, and not in the trash.
    pub(super) fn verify_in_place(&self, store: &Store) {
        for digest in self.model.needed() {
            let is_there = self.disk.has(&store.layout().blob(&digest));
            assert!(is_there, "seed {}: {digest} is not in its place", self.seed);
        }
    }

    fn came_to(
        &mut self,
        solid: &BTreeSet<Digest>,
        result: &Result<bool, StoreError>,
        effect: &Effect,
        totals: &mut Totals,
    ) {
        let seed = self.seed;
        match result {
            // Who comes too late is told so.
            Err(StoreError::MissingBlobs(missing)) => {
                for digest in missing {
                    let ((repository, _), _) = &effect.manifests[0];
                    let key = (repository.clone(), *digest);
                    let is_sure = is(&self.model.blobs[&key], &true) && solid.contains(digest);
                    assert!(!is_sure, "seed {seed}: {digest} was taken");
                }
            }
            Ok(false) | Err(StoreError::Unknown(_)) => {
                for (key, _) in &effect.blobs {
                    let values = self.model.blobs.get(key);
                    let is_sure = values.is_some_and(|values| is(values, &true));
                    assert!(!is_sure, "seed {seed}: {key:?} was taken");
                }
                for (key, _) in &effect.manifests {
                    let is_sure = is(&self.model.manifests[key], &true);
                    assert!(!is_sure, "seed {seed}: {key:?} was lost");
                }
            }
            _ => self.outcome(effect, result, totals),
        }
    }

    /// Something that a client does.
    fn act(&mut self, repository: RepositoryName) -> Option<(Act, Effect)> {
        match self.chance.below(10) {
            0..2 => {
                let (digest, octets) = self.content();
                let effect = blob(repository.clone(), digest);
                Some((Act::Push(repository, digest, octets), effect))
            }
            2..4 => {
                // Of content that some repository has, or had.
                let digest = self.known(|_, _| true)?;
                let effect = blob(repository.clone(), digest);
                Some((Act::Mount(repository, digest), effect))
            }
            4 => {
                let digest = self.known(|owner, _| *owner == repository)?;
                let effect = blob(repository.clone(), digest);
                Some((Act::Ask(repository, digest), effect))
            }
            5..8 => {
                let mut closure = BTreeSet::new();
                for _ in 0..self.chance.below(4) {
                    let may = |owner: &RepositoryName, values: &BTreeSet<bool>| {
                        *owner == repository && values.contains(&true)
                    };
                    closure.extend(self.known(may));
                }
                let closure = closure.into_iter().collect();
                let (manifest, effect) = self.manifest_of(&repository, closure);
                Some((Act::Put(repository, manifest), effect))
            }
            _ => {
                let (digest, effect) = self.deletion(&repository)?;
                Some((Act::Delete(repository, digest), effect))
            }
        }
    }

    /// One of the blobs that were ever linked.
    fn known(
        &mut self,
        wanted: impl Fn(&RepositoryName, &BTreeSet<bool>) -> bool,
    ) -> Option<Digest> {
        let is_wanted =
            |((owner, digest), values): (&(RepositoryName, Digest), &BTreeSet<bool>)| {
                wanted(owner, values).then_some(*digest)
            };
        let digests: Vec<Digest> = self.model.blobs.iter().filter_map(is_wanted).collect();
        let at = self.chance.below(digests.len() as u64);
        digests.get(usize::try_from(at).unwrap()).copied()
    }

    //--- A peer

    /// Content and a record that come from the peer; at times the last comes again, to no effect.
    pub(super) async fn peer(
        &mut self,
        store: &Store,
        repository: RepositoryName,
        totals: &mut Totals,
    ) {
        if self.chance.permille(200)
            && let Some(record) = self.peer.last.clone()
        {
            drop(store.apply(vec![record]).await);
            return;
        }
        let (act, effect) = self.record(store, &repository);
        let record = act.record();
        let result = act.perform(store).await;
        totals.n_applied += u64::from(self.peer.took(&result, record));
        self.outcome(&effect, &result, totals);
    }

    fn record(&mut self, store: &Store, repository: &RepositoryName) -> (Act, Effect) {
        let origin = NodeId {
            name: "master-1".parse().unwrap(),
            incarnation: 1,
        };
        let mut contents = Vec::new();
        let (facts, effect) = match self.chance.permille(250).then(|| self.deletion(repository)) {
            Some(Some((_, effect))) => (Vec::new(), effect),
            _ => {
                for _ in 0..self.chance.below(3) {
                    let content = self.content();
                    if !contents.contains(&content) {
                        contents.push(content);
                    }
                }
                let closure = contents.iter().map(|(digest, _)| *digest).collect();
                let (manifest, effect) = self.manifest_of(repository, closure);
                contents.push((manifest.digest, manifest.bytes.clone()));
                (vec![manifest], effect)
            }
        };
        let facts = self.facts(&effect, facts.first());
        let record = Record {
            sequence: store.vector().of(&origin) + 1,
            origin,
            stamp: self.stamp(store, &facts),
            facts,
        };
        (Act::Apply(contents, record), effect)
    }

    /// The stamp of a peer that has heard everything that was stated here: greater than what its record overwrites,
    /// whatever the clocks said then, and after everything else.
    fn stamp(&self, store: &Store, facts: &[Fact]) -> Hlc {
        let overwritten = facts
            .iter()
            .filter_map(|fact| store.register(&fact.key()).unwrap());
        let stamps = overwritten.map(|register| register.stamp.next());
        stamps.fold(Hlc::at(self.now + 1), Hlc::max)
    }

    /// An effect as a peer states it.
    fn facts(&self, effect: &Effect, manifest: Option<&NewManifest>) -> Vec<Fact> {
        let blobs = effect
            .blobs
            .iter()
            .map(|((repository, digest), _)| Fact::Blob {
                repository: repository.clone(),
                digest: *digest,
                size: Some(self.model.content[digest].len() as u64),
            });
        let manifests = effect
            .manifests
            .iter()
            .map(|((repository, digest), _)| Fact::Manifest {
                repository: repository.clone(),
                digest: *digest,
                link: manifest.map(|manifest| Link {
                    media_type: manifest.media_type.as_str().into(),
                    size: manifest.bytes.len() as u64,
                    subject: None,
                }),
            });
        let tags = effect
            .tags
            .iter()
            .map(|((repository, tag), target)| Fact::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
                target: *target,
            });
        blobs.chain(manifests).chain(tags).collect()
    }

    /// What the peer was told is taken stays so.
    pub(super) fn verify_peer(&self, store: &Store) {
        let vector = store.vector();
        let n_taken: u64 = vector
            .iter()
            .filter(|(origin, _)| origin.name.as_str() == "master-1")
            .map(|(_, sequence)| sequence)
            .sum();
        let n_acknowledged = self.peer.n_acknowledged;
        assert!(
            n_taken >= n_acknowledged,
            "seed {}: {n_taken} of {n_acknowledged}",
            self.seed
        );
    }
}

async fn sweeping(store: Store) -> Result<crate::sweep::Report, StoreError> {
    let settings = Sweep {
        grace: DurationWithin::clamped(Duration::from_millis(GRACE)),
        trash: DurationWithin::clamped(Duration::from_millis(GRACE)),
        ..Sweep::default()
    };
    sweep(&store, None, &settings, Mode::Sweep).await
}
