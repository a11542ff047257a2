//! Crashes, by seed: a store on a disk that forgets, killed and cut from power at any operation,
//! against a model of what was acknowledged. What no manifest needs is swept meanwhile, and a peer
//! sends content and records.
//!
//! `SIM_SEED=17 cargo test -p registry-svc simulation` runs one seed.

mod among;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio_stream::StreamExt as _;

use self::among::Peer;
use super::{IndexKind, NewManifest, Settings, Store, StoreError};
use crate::digest::{Algorithm, Digest};
use crate::disk::faulty::{Chance, End, Faults, FaultyDisk, Lie};
use crate::journal::writer::WallClock;
use crate::manifest;
use crate::reference::{Reference, RepositoryName, Tag, UploadId};

/// Seeds of a run of the suite.
const SEEDS: u64 = 40;

/// Lives of each: all but the last end in a crash.
const LIVES: u64 = 7;

/// Steps of a life, if nothing ends it.
const STEPS: u64 = 60;

/// How long the sweep leaves alone what was written, and what is in the trash: in milliseconds, and a
/// few steps.
const GRACE: u64 = 20_000;

/// How long the process leaves alone what somebody was told is there.
const LEASE: u64 = 3 * GRACE;

/// How long a step takes at most.
const STEP: u64 = 5_000;

/// The time of each test here: a store is given its clock as a function.
static CLOCKS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn wall<const TEST: usize>() -> u64 {
    CLOCKS[TEST].load(Ordering::Relaxed)
}

#[test]
fn nothing_acknowledged_is_lost_in_any_crash() {
    let seeds = match std::env::var("SIM_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..SEEDS,
    };
    let mut totals = Totals::default();
    for seed in seeds.clone() {
        Run::new(seed, &CLOCKS[0], wall::<0>).lives(&mut totals);
    }
    if seeds.end - seeds.start == SEEDS {
        println!("{totals:?}");
        assert!(totals.n_crashes >= 240, "{totals:?}");
        assert!(totals.n_in_the_middle >= 200, "{totals:?}");
        assert!(totals.n_acknowledged >= 2000, "{totals:?}");
        assert!(
            totals.n_refused >= 100 && totals.n_resumed >= 5,
            "{totals:?}"
        );
        assert!(
            totals.n_trashed >= 200 && totals.n_deleted >= 50 && totals.n_back >= 20,
            "{totals:?}"
        );
        assert!(totals.n_applied >= 200, "{totals:?}");
    }
}

#[test]
fn a_disk_that_only_says_it_syncs_is_found_out() {
    for lie in [Lie::Files, Lie::Directories] {
        let is_found_out = (0..20).any(|seed| {
            let mut run = Run::new(seed, &CLOCKS[1], wall::<1>);
            run.lie = Some(lie);
            let lives = || run.lives(&mut Totals::default());
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(lives)).is_err()
        });
        assert!(is_found_out, "{lie:?}");
    }
}

#[derive(Debug, Default)]
struct Totals {
    n_crashes: u64,
    /// Crashes at a chosen operation of the disk.
    n_in_the_middle: u64,
    n_acknowledged: u64,
    n_refused: u64,
    n_resumed: u64,
    /// What sweeps moved to the trash, and what they deleted.
    n_trashed: u64,
    n_deleted: u64,
    /// What was asked for in the trash.
    n_back: u64,
    /// Records of the peer.
    n_applied: u64,
}

/// What a key may be: one value when it is known, several when an operation on it was refused.
type Possible<K, V> = BTreeMap<K, BTreeSet<V>>;

#[derive(Default)]
struct Model {
    blobs: Possible<(RepositoryName, Digest), bool>,
    manifests: Possible<(RepositoryName, Digest), bool>,
    tags: Possible<(RepositoryName, Tag), Option<Digest>>,
    /// Octets of everything that was ever pushed.
    content: BTreeMap<Digest, Bytes>,
    /// What each manifest refers to.
    closures: BTreeMap<Digest, Vec<Digest>>,
    /// Until when what was written or asked for stays, whoever refers to it.
    young_until: BTreeMap<Digest, u64>,
}

/// What an operation makes true when it is acknowledged.
#[derive(Clone, Default)]
struct Effect {
    blobs: Vec<((RepositoryName, Digest), bool)>,
    manifests: Vec<((RepositoryName, Digest), bool)>,
    tags: Vec<((RepositoryName, Tag), Option<Digest>)>,
}

impl Model {
    fn note(&mut self, effect: &Effect, is_acknowledged: bool) {
        note(&mut self.blobs, &effect.blobs, &false, is_acknowledged);
        note(
            &mut self.manifests,
            &effect.manifests,
            &false,
            is_acknowledged,
        );
        note(&mut self.tags, &effect.tags, &None, is_acknowledged);
    }

    /// What manifests that are there for sure refer to.
    fn needed(&self) -> BTreeSet<Digest> {
        let sure = self
            .manifests
            .iter()
            .filter(|(_, values)| is(values, &true));
        sure.flat_map(|((_, digest), _)| &self.closures[digest])
            .copied()
            .collect()
    }

    /// Digests that a repository has for sure.
    fn sure(&self, repository: &RepositoryName) -> Vec<Digest> {
        self.blobs
            .iter()
            .filter(|((owner, _), values)| owner == repository && is(values, &true))
            .map(|((_, digest), _)| *digest)
            .collect()
    }
}

fn note<K: Ord + Clone, V: Ord + Clone>(
    possible: &mut Possible<K, V>,
    effect: &[(K, V)],
    before: &V,
    is_acknowledged: bool,
) {
    for (key, value) in effect {
        let values = possible
            .entry(key.clone())
            .or_insert_with(|| BTreeSet::from([before.clone()]));
        if is_acknowledged {
            values.clear();
        }
        values.insert(value.clone());
    }
}

fn is<V: Ord>(values: &BTreeSet<V>, value: &V) -> bool {
    values.len() == 1 && values.contains(value)
}

/// What is found is one of what may be, and from here on nothing else.
fn settle<K: Debug, V: Ord + Debug>(seed: u64, key: &K, values: &mut BTreeSet<V>, found: V) {
    assert!(
        values.contains(&found),
        "seed {seed}: {key:?} is {found:?}, may be {values:?}"
    );
    *values = BTreeSet::from([found]);
}

struct Run {
    seed: u64,
    chance: Chance,
    disk: FaultyDisk,
    model: Model,
    /// Sessions that go on: what they are of, and how much was acknowledged.
    sessions: Vec<Open>,
    /// Whether the power went since the sessions were looked at.
    lost_power: bool,
    settings: Settings,
    lie: Option<Lie>,
    now: u64,
    clock: &'static AtomicU64,
    peer: Peer,
}

#[derive(Clone)]
struct Open {
    repository: RepositoryName,
    id: UploadId,
    content: Bytes,
    offset: u64,
}

impl Run {
    fn new(seed: u64, clock: &'static AtomicU64, wall: WallClock) -> Self {
        let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
        settings.index = IndexKind::Memory;
        // Small, so that segments follow each other and are compacted.
        settings.segment = 3000;
        settings.lease = Duration::from_millis(LEASE);
        settings.wall = wall;
        let now = 1_700_000_000_000;
        clock.store(now, Ordering::Relaxed);
        Self {
            seed,
            chance: Chance::new(seed),
            disk: FaultyDisk::new(seed ^ 0x5eed),
            model: Model::default(),
            sessions: Vec::new(),
            lost_power: false,
            settings,
            lie: None,
            now,
            clock,
            peer: Peer::default(),
        }
    }

    /// Lets some time pass.
    fn pass(&mut self) {
        self.now += 2 + self.chance.below(STEP);
        self.clock.store(self.now, Ordering::Relaxed);
        self.disk.pass(self.now);
    }

    fn lives(&mut self, totals: &mut Totals) {
        for life in 0..LIVES {
            let is_last = life + 1 == LIVES;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(self.life(life, is_last, totals));
            // Threads of this life may be at work still; the disk is deaf to them.
            runtime.shutdown_background();
            let end = if self.chance.permille(300) {
                End::Kill
            } else {
                End::PowerLoss
            };
            self.lost_power |= end == End::PowerLoss;
            totals.n_crashes += u64::from(!is_last);
            totals.n_in_the_middle += u64::from(self.disk.is_over());
            let faults = self.faults(is_last);
            self.disk = self.disk.next_life(end, faults);
        }
    }

    /// What goes wrong while the next life opens its store.
    fn faults(&mut self, is_last: bool) -> Faults {
        let dies_early = !is_last && self.chance.permille(250);
        Faults {
            last_operation: dies_early.then(|| 1 + self.chance.below(60)),
            lie: self.lie,
            ..Faults::default()
        }
    }

    async fn life(&mut self, life: u64, is_last: bool, totals: &mut Totals) {
        let disk = Arc::new(self.disk.clone());
        let opened = Store::open(self.settings.clone(), disk).await;
        let (store, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let seed = self.seed;
                assert!(self.disk.is_over(), "seed {seed} life {life}: {error:?}");
                return;
            }
        };
        if self.disk.is_over() {
            return;
        }
        self.disk.set_faults(Faults::default());
        let seed = self.seed;
        assert_eq!(recovery.missing, [], "seed {seed} life {life}");
        self.verify(&store, totals).await;
        if is_last {
            return;
        }
        let is_rough = self.chance.permille(300);
        let rate = |chance: &mut Chance| if is_rough { chance.below(30) } else { 0 };
        let faults = Faults {
            last_operation: Some(1 + self.chance.below(600)),
            full: rate(&mut self.chance),
            broken: rate(&mut self.chance) / 4,
            unsynced: rate(&mut self.chance) / 4,
            lie: self.lie,
        };
        self.disk.set_faults(faults);
        for _ in 0..STEPS {
            self.step(&store, totals).await;
            if self.disk.is_over() {
                return;
            }
        }
        if self.chance.permille(300) {
            store.close().await;
        }
    }

    //--- Steps

    async fn step(&mut self, store: &Store, totals: &mut Totals) {
        self.pass();
        let repository = self.repository();
        match self.chance.below(100) {
            0..18 => self.push(store, repository, totals).await,
            18..33 => self.upload(store, repository, totals).await,
            33..55 => self.manifest(store, repository, totals).await,
            55..66 => self.delete(store, repository, totals).await,
            66..71 => self.several(store, repository, totals).await,
            71..75 => self.unlink(store, repository, totals).await,
            75..88 => self.peer(store, repository, totals).await,
            _ => self.among(store, totals).await,
        }
    }

    fn repository(&mut self) -> RepositoryName {
        format!("r{}", self.chance.below(3)).parse().unwrap()
    }

    fn content(&mut self) -> (Digest, Bytes) {
        let number = self.chance.below(200);
        let length = usize::try_from(number * number / 3).unwrap();
        let octets: Bytes = number
            .to_le_bytes()
            .into_iter()
            .cycle()
            .take(length)
            .collect();
        let digest = Digest::of(Algorithm::Sha256, &octets);
        self.model.content.insert(digest, octets.clone());
        (digest, octets)
    }

    async fn push(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
        let (digest, octets) = self.content();
        let length = Some(octets.len() as u64);
        let result = store
            .push(&repository, &digest, length, body(&octets))
            .await;
        self.outcome(&blob(repository, digest), &result, totals);
    }

    async fn upload(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
        let at = self.chance.below(4);
        let mut session = match self.sessions.get(usize::try_from(at).unwrap()) {
            Some(_) => self.sessions.remove(usize::try_from(at).unwrap()),
            None => match store.begin(&repository, Algorithm::Sha256).await {
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

    async fn manifest(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
        let (manifest, effect) = self.new_manifest(&repository);
        let result = store.put_manifest(&repository, manifest).await;
        self.outcome(&effect, &result, totals);
    }

    fn new_manifest(&mut self, repository: &RepositoryName) -> (NewManifest, Effect) {
        let mut closure = self.model.sure(repository);
        closure.truncate(usize::try_from(self.chance.below(5)).unwrap());
        self.manifest_of(repository, closure)
    }

    fn manifest_of(
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

    async fn delete(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
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
    fn deletion(&mut self, repository: &RepositoryName) -> Option<(Digest, Effect)> {
        let here = |key: &&(RepositoryName, Digest)| key.0 == *repository;
        let manifests: Vec<_> = self.model.manifests.keys().filter(here).cloned().collect();
        let at = self.chance.below(manifests.len() as u64);
        let key = manifests.get(usize::try_from(at).unwrap()).cloned()?;
        let pointing =
            self.model.tags.iter().filter(|((owner, _), values)| {
                owner == repository && values.contains(&Some(key.1))
            });
        let effect = Effect {
            tags: pointing.map(|(tag, _)| (tag.clone(), None)).collect(),
            manifests: vec![(key.clone(), false)],
            ..Effect::default()
        };
        Some((key.1, effect))
    }

    async fn unlink(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
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
    async fn several(&mut self, store: &Store, repository: RepositoryName, totals: &mut Totals) {
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

    fn outcome<T: Debug>(
        &mut self,
        effect: &Effect,
        result: &Result<T, StoreError>,
        totals: &mut Totals,
    ) {
        match result {
            Ok(_) => totals.n_acknowledged += 1,
            Err(_) => totals.n_refused += 1,
        }
        if let Err(StoreError::MissingBlobs(_) | StoreError::DigestMismatch { .. }) = result {
            panic!("seed {}: {result:?}", self.seed);
        }
        self.model.note(effect, result.is_ok());
        if result.is_ok() {
            self.touch(effect);
        }
    }

    /// What was just pushed, or is needed by what was, stays for a while.
    fn touch(&mut self, effect: &Effect) {
        let until = self.now + LEASE;
        for ((_, digest), is_there) in effect.blobs.iter().chain(&effect.manifests) {
            if *is_there {
                self.model.young_until.insert(*digest, until);
            }
        }
    }

    //--- Afterwards

    async fn verify(&mut self, store: &Store, totals: &mut Totals) {
        let seed = self.seed;
        self.verify_peer(store);
        self.verify_in_place(store);
        // Leases end with their process: what they kept may be in the trash, for one grace at least.
        for until in self.model.young_until.values_mut() {
            *until = (*until).min(self.now + GRACE);
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
            self.model.young_until.insert(digest, self.now + LEASE);
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

fn blob(repository: RepositoryName, digest: Digest) -> Effect {
    Effect {
        blobs: vec![((repository, digest), true)],
        ..Effect::default()
    }
}

fn links(repository: &RepositoryName, digests: &[Digest]) -> Vec<((RepositoryName, Digest), bool)> {
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

fn body(octets: &Bytes) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + Unpin {
    let pieces: Vec<_> = octets
        .chunks(4000)
        .map(Bytes::copy_from_slice)
        .map(Ok)
        .collect();
    tokio_stream::iter(pieces)
}

async fn read(store: &Store, digest: &Digest, size: u64) -> Bytes {
    let mut reader = store.read(digest, 0..size).await.unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    octets.into()
}
