//! Content that the disk changes, cuts, loses or cannot read: never served as whole, and healed.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use config::DurationWithin;
use oci::digest::Algorithm;
use oci::reference::{Reference, RepositoryName};
use tokio_stream::StreamExt as _;

use super::*;
use crate::disk::faulty::{Chance, End, Faults, FaultyDisk};
use crate::heal;
use crate::others::{Fetched, Others};
use crate::store::{IndexKind, NewManifest, Purpose, Settings};
use crate::sweep::{self, Mode, Untagged};

const TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

async fn open(disk: &FaultyDisk) -> Store {
    let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
    settings.index = IndexKind::Memory;
    let opened = Store::open(settings, Arc::new(disk.clone())).await;
    opened.unwrap().0
}

fn octets(length: usize, seed: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    (0..length)
        .map(|_| chance.next().to_le_bytes()[0])
        .collect()
}

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn name(text: &str) -> RepositoryName {
    text.parse().unwrap()
}

async fn push(store: &Store, repository: &str, content: &[u8]) -> Digest {
    let body = tokio_stream::iter([Ok(Bytes::copy_from_slice(content))]);
    let digest = digest(content);
    let pushed = store.push(&name(repository), &digest, None, body).await;
    pushed.unwrap();
    digest
}

async fn put(store: &Store, repository: &str, layers: &[Digest], tag: Option<&str>) -> Digest {
    let describe = |digest: &Digest| serde_json::json!({ "mediaType": TYPE, "digest": digest.to_string(), "size": 1 });
    let layers: Vec<_> = layers.iter().map(|it| (describe(it), *it)).collect();
    let document = serde_json::json!({
        "schemaVersion": 2, "mediaType": TYPE, "config": layers[0].0,
        "layers": layers.iter().map(|it| &it.0).collect::<Vec<_>>(),
    });
    let bytes = Bytes::from(document.to_string());
    let manifest = NewManifest {
        digest: digest(&bytes),
        bytes,
        media_type: TYPE.to_owned(),
        closure: layers.iter().map(|it| it.1).collect(),
        subject: None,
        tags: tag.into_iter().map(|tag| tag.parse().unwrap()).collect(),
    };
    let digest = manifest.digest;
    store
        .put_manifest(&name(repository), manifest)
        .await
        .unwrap();
    digest
}

/// The outcome of a read for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Read {
    /// It ended as it should, with these bytes.
    Ended(Vec<u8>),
    /// It was cut after so many bytes.
    Cut(usize),
    /// It was refused before anything was sent.
    Refused,
}

async fn read(store: &Store, digest: &Digest, part: std::ops::Range<u64>) -> Read {
    let Ok(mut reader) = store.read(digest, part, Purpose::Pull).await else {
        return Read::Refused;
    };
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        match piece {
            Ok(piece) => octets.extend_from_slice(&piece),
            Err(_) => return Read::Cut(octets.len()),
        }
    }
    Read::Ended(octets)
}

/// Another node, whose content is whole.
#[derive(Debug)]
struct Peer {
    store: Store,
    into: Store,
    is_away: AtomicBool,
}

impl Peer {
    fn of(store: &Store, into: &Store) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            into: into.clone(),
            is_away: AtomicBool::new(false),
        })
    }
}

impl Others for Peer {
    fn has_heard_all(&self) -> bool {
        true
    }

    fn fetch<'a>(&'a self, digest: &'a Digest) -> Fetched<'a> {
        Box::pin(async move {
            if self.is_away.load(Ordering::Relaxed) {
                return false;
            }
            let Ok(Some(size)) = self.store.held(digest).await else {
                return false;
            };
            let body = self
                .store
                .read(digest, 0..size, Purpose::Pull)
                .await
                .unwrap();
            self.into.ingest(digest, Some(size), body).await.is_ok()
        })
    }
}

/// A time at which every attempt is due, also those that were put off at the time before.
fn later() -> Instant {
    static HOURS: AtomicU64 = AtomicU64::new(0);
    let hours = 1 + HOURS.fetch_add(1, Ordering::Relaxed);
    clock::now() + Duration::from_hours(hours)
}

async fn heal(store: &Store, peer: &Arc<Peer>) {
    let others: Arc<dyn Others> = Arc::clone(peer) as Arc<dyn Others>;
    heal::round(store, Some(&others), later()).await;
}

//--- The table

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Flipped,
    Short,
    Emptied,
    Longer,
    Missing,
    Unreadable,
}

impl Harm {
    const ALL: [Self; 6] = [
        Self::Flipped,
        Self::Short,
        Self::Emptied,
        Self::Longer,
        Self::Missing,
        Self::Unreadable,
    ];

    fn happen(self, disk: &FaultyDisk, path: &std::path::Path, chance: &mut Chance) {
        let length = disk.octets(path).unwrap().len() as u64;
        match self {
            Self::Flipped => disk.damage(path, chance.below(8 * length)),
            Self::Short => disk.resize(path, chance.below(length)),
            Self::Emptied => disk.resize(path, 0),
            Self::Longer => disk.resize(path, length + 1 + chance.below(9000)),
            Self::Missing => disk.lose(path),
            Self::Unreadable => disk.set_unreadable(path, true),
        }
    }
}

/// Damages one blob of a node and looks at each way to read it, and at its healing.
async fn check(harm: Harm, length: usize, is_restarted: bool) {
    let case = format!("{harm:?} of {length}, restarted: {is_restarted}");
    let (disk, other) = (FaultyDisk::new(1), FaultyDisk::new(2));
    let mut store = open(&disk).await;
    let whole = octets(length, 7);
    let digest = push(&store, "a", &whole).await;
    let peer_store = open(&other).await;
    push(&peer_store, "a", &whole).await;
    let path = store.layout().blob(&digest);
    let size = whole.len() as u64;
    assert_eq!(
        read(&store, &digest, 0..size).await,
        Read::Ended(whole.clone())
    );

    let mut on = disk.clone();
    if is_restarted {
        store.close().await;
        on = disk.next_life(End::Kill, Faults::default());
    }
    harm.happen(&on, &path, &mut Chance::new(length as u64));
    if is_restarted {
        store = open(&on).await;
    }
    // HEAD: a node says no size but the right one.
    let held = store.blob(&name("a"), &digest).await.unwrap();
    assert!(held.is_none_or(|held| held == size), "{case}: {held:?}");
    // A part of it, and the whole, twice: no wrong byte in an answer that ends.
    let parts = [size / 2..size, 0..size, 0..size];
    for part in parts {
        let right = whole[usize::try_from(part.start).unwrap()..].to_vec();
        match read(&store, &digest, part.clone()).await {
            Read::Ended(octets) => assert!(
                octets == right && harm == Harm::Flipped && !is_restarted,
                "{case}: {part:?}"
            ),
            Read::Cut(n) => assert!(n < right.len(), "{case}: {part:?}"),
            Read::Refused => {}
        }
    }
    let damaged = store.damaged();
    assert_eq!(
        (damaged.n_found, damaged.n_waiting),
        (1, 1),
        "{case}: {damaged:?}"
    );
    assert_eq!(
        store.blob(&name("a"), &digest).await.unwrap(),
        None,
        "{case}"
    );
    assert_eq!(
        store.lie_here(vec![digest]).await.unwrap(),
        [false],
        "{case}"
    );
    let peer = Peer::of(&peer_store, &store);
    is_healed(&store, &peer, harm, &digest, &case).await;
    assert_eq!(on.octets(&path).unwrap(), whole, "{case}");
    let again = read(&store, &digest, 0..size).await;
    assert_eq!(again, Read::Ended(whole), "{case}");
}

/// How many files are in the quarantine.
fn in_quarantine(store: &Store) -> usize {
    store.quarantined().unwrap().n
}

/// Without its peer content waits; with it, it is whole.
async fn is_healed(store: &Store, peer: &Arc<Peer>, harm: Harm, digest: &Digest, case: &str) {
    assert_eq!(store.damaged().waiting[0].0, *digest, "{case}");
    peer.is_away.store(true, Ordering::Relaxed);
    heal(store, peer).await;
    assert_eq!(store.damaged().n_waiting, 1, "{case}");
    peer.is_away.store(false, Ordering::Relaxed);
    heal(store, peer).await;
    let damaged = store.damaged();
    assert_eq!(
        (damaged.n_healed, damaged.n_waiting),
        (1, 0),
        "{case}: {damaged:?}"
    );
    let n_quarantined = usize::from(harm != Harm::Missing);
    assert_eq!(damaged.n_quarantined, n_quarantined as u64, "{case}");
    assert_eq!(in_quarantine(store), n_quarantined, "{case}");
}

#[test]
fn damaged_content_is_never_served_as_whole_and_is_healed_from_a_peer() {
    run(async {
        // One piece; some; one that a part of is not hashed first.
        for length in [1000, 700_000, 5 << 20] {
            for harm in Harm::ALL {
                check(harm, length, true).await;
                // A flip under a file that does not change is found at the next start, or by the scrub.
                if harm != Harm::Flipped {
                    check(harm, length, false).await;
                }
            }
        }
    });
}

#[test]
fn a_flip_is_found_before_the_last_piece_leaves() {
    run(async {
        for (length, wanted) in [(1000, Read::Refused), (700_000, Read::Cut(2 * (256 << 10)))] {
            let disk = FaultyDisk::new(3);
            let whole = octets(length, 8);
            let digest = push(&open(&disk).await, "a", &whole).await;
            let disk = disk.next_life(End::Kill, Faults::default());
            let store = open(&disk).await;
            disk.damage(&store.layout().blob(&digest), 11);
            let size = whole.len() as u64;
            assert_eq!(store.held(&digest).await.unwrap(), Some(size));
            assert_eq!(read(&store, &digest, 0..size).await, wanted);
            assert_eq!(store.held(&digest).await.unwrap(), None);
            // A push of the client makes it whole, and the damaged file is kept for the operator.
            push(&store, "a", &whole).await;
            assert_eq!(read(&store, &digest, 0..size).await, Read::Ended(whole));
            assert_eq!(in_quarantine(&store), 1);
            assert_eq!(store.damaged().n_healed, 1);
        }
    });
}

#[test]
fn a_file_is_hashed_once_and_again_when_it_changes() {
    run(async {
        let disk = FaultyDisk::new(4);
        let whole = octets(1_500_000, 9);
        let digest = push(&open(&disk).await, "a", &whole).await;
        let disk = disk.next_life(End::Kill, Faults::default());
        let store = open(&disk).await;
        let file = |store: &Store| store.disk().status(&store.layout().blob(&digest)).unwrap();
        let first = file(&store).unwrap();
        assert!(!store.inner.damage.is_verified(&digest, &first));
        let size = whole.len() as u64;
        // A read that ends early has hashed nothing.
        let mut reader = store.read(&digest, 0..size, Purpose::Pull).await.unwrap();
        reader.next().await.unwrap().unwrap();
        drop(reader);
        assert!(!store.inner.damage.is_verified(&digest, &first));
        assert_eq!(read(&store, &digest, 0..size).await, Read::Ended(whole));
        assert!(store.inner.damage.is_verified(&digest, &first));
        store.disk().touch(&store.layout().blob(&digest)).unwrap();
        assert!(
            !store
                .inner
                .damage
                .is_verified(&digest, &file(&store).unwrap())
        );
    });
}

#[test]
fn a_size_that_the_journal_has_wrong_makes_no_whole_file_damaged() {
    run(async {
        let disk = FaultyDisk::new(5);
        let whole = octets(1000, 10);
        let store = open(&disk).await;
        let digest = push(&store, "a", &whole).await;
        // Another repository linked it while it was short, as versions before this one did.
        let fact = registry_facts::record::Fact::Blob {
            repository: name("a"),
            digest,
            size: Some(3),
        };
        store.inner.writer.state(vec![fact]).await.unwrap();
        let disk = disk.next_life(End::Kill, Faults::default());
        let store = open(&disk).await;
        assert_eq!(store.held(&digest).await.unwrap(), None);
        heal::round(&store, None, later()).await;
        assert_eq!(store.held(&digest).await.unwrap(), Some(1000));
        assert_eq!(in_quarantine(&store), 0);
    });
}

#[test]
fn a_file_that_could_not_be_read_once_stays_and_is_served_again() {
    run(async {
        let disk = FaultyDisk::new(6);
        let store = open(&disk).await;
        let whole = octets(1000, 11);
        let digest = push(&store, "a", &whole).await;
        let path = store.layout().blob(&digest);
        disk.set_unreadable(&path, true);
        let failed = store.read(&digest, 0..1000, Purpose::Pull).await.map(drop);
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
        heal::round(&store, None, later()).await;
        assert_eq!(store.held(&digest).await.unwrap(), None);
        assert!(disk.has(&path));
        disk.set_unreadable(&path, false);
        heal::round(&store, None, later()).await;
        assert_eq!(read(&store, &digest, 0..1000).await, Read::Ended(whole));
    });
}

#[test]
fn attempts_become_rarer_and_content_without_a_name_is_forgotten() {
    run(async {
        let disk = FaultyDisk::new(7);
        let store = open(&disk).await;
        let digest = push(&store, "a", b"content").await;
        disk.lose(&store.layout().blob(&digest));
        store.forget(&digest);
        assert_eq!(store.blob(&name("a"), &digest).await.unwrap(), None);
        assert_eq!(store.damaged().waiting, [(digest, Reason::Missing)]);
        let mut now = later();
        let mut waits = Vec::new();
        for _ in 0..12 {
            heal::round(&store, None, now).await;
            let due = store.next_due().unwrap();
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        store.unlink(&name("a"), &digest).await.unwrap();
        heal::round(&store, None, now).await;
        let damaged = store.damaged();
        assert_eq!((damaged.n_waiting, damaged.n_healed), (0, 0));
    });
}

//--- The sweep

fn sweeping(untagged: Untagged) -> sweep::Settings {
    sweep::Settings {
        grace: DurationWithin::clamped(Duration::ZERO),
        trash: DurationWithin::clamped(Duration::ZERO),
        untagged,
        ..sweep::Settings::default()
    }
}

#[test]
fn the_sweep_skips_a_manifest_that_cannot_be_read_and_keeps_what_it_may_refer_to() {
    for harm in Harm::ALL {
        run(async {
            let disk = FaultyDisk::new(8);
            let store = open(&disk).await;
            let mut used = Vec::new();
            let mut loose = Vec::new();
            for repository in ["bad", "good"] {
                used.push(push(&store, repository, repository.as_bytes()).await);
                loose
                    .push(push(&store, repository, format!("loose {repository}").as_bytes()).await);
            }
            let bad = put(&store, "bad", &used[..1], Some("1")).await;
            // Nothing leads to these two; that of the bad repository may be one of an index.
            let kept = put(&store, "bad", &[used[0], used[0]], None).await;
            put(&store, "good", &used[1..], Some("1")).await;
            let gone = put(&store, "good", &[used[1], used[1]], None).await;
            store.close().await;
            let disk = disk.next_life(End::Kill, Faults::default());
            harm.happen(&disk, &store.layout().blob(&bad), &mut Chance::new(1));
            let store = open(&disk).await;
            // The stamp of a link counts in milliseconds.
            tokio::time::sleep(Duration::from_millis(5)).await;

            let settings = sweeping(Untagged::Delete);
            let report = sweep::sweep(&store, None, &settings, Mode::Sweep)
                .await
                .unwrap();
            assert_eq!(report.unreadable, [bad], "{harm:?}");
            assert!(report.to_string().contains(&bad.to_string()), "{report}");
            assert_eq!(report.n_untagged, 1, "{harm:?}");
            sweep::sweep(&store, None, &settings, Mode::Sweep)
                .await
                .unwrap();
            let is_there = |digest: &Digest| disk.has(&store.layout().blob(digest));
            for digest in [used[0], used[1], loose[0], kept] {
                assert!(is_there(&digest), "{harm:?}");
            }
            for digest in [loose[1], gone] {
                assert!(!is_there(&digest), "{harm:?}");
            }
            assert_eq!(store.damaged().waiting.len(), 1, "{harm:?}");

            // When it is whole again, everything is judged.
            let other = FaultyDisk::new(9);
            let peer = open(&other).await;
            push(&peer, "bad", b"bad").await;
            put(&peer, "bad", &used[..1], Some("1")).await;
            heal(&store, &Peer::of(&peer, &store)).await;
            let report = sweep::sweep(&store, None, &settings, Mode::Sweep)
                .await
                .unwrap();
            assert_eq!(report.unreadable, [], "{harm:?}");
            assert!(
                is_there(&bad) && is_there(&used[0]) && !is_there(&loose[0]),
                "{harm:?}"
            );
        });
    }
}

//--- By chance

/// How many damages there are.
const DAMAGES: u64 = 200;

/// A client's pull from this node, which asks its peer where it has not the content whole itself.
async fn pull(store: &Store, peer: &Store, digest: &Digest, size: u64) -> Read {
    let held = store.blob(&name("a"), digest).await;
    if let Ok(Some(held)) = held {
        assert_eq!(held, size, "a HEAD with a wrong size");
        match read(store, digest, 0..size).await {
            Read::Refused => {}
            other => return other,
        }
    }
    read(peer, digest, 0..size).await
}

async fn pull_manifest(store: &Store, digest: &Digest) -> Option<Bytes> {
    let reference = Reference::Digest(*digest);
    let stored = store.manifest(&name("a"), &reference).await;
    stored.ok().flatten().map(|stored| stored.bytes)
}

/// A node and its peer, which have the same content.
struct Run {
    seed: u64,
    chance: Chance,
    disk: FaultyDisk,
    store: Store,
    peer: Store,
    blobs: Vec<Digest>,
    manifests: Vec<Digest>,
    n_cut: u64,
    n_ended: u64,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let (disk, other) = (FaultyDisk::new(seed), FaultyDisk::new(seed + 1));
        let (store, peer) = (open(&disk).await, open(&other).await);
        let lengths = [1, 100, 4096, 70_000, 262_144, 262_145, 800_000, 4_500_000];
        let mut blobs = Vec::new();
        for (length, seed) in lengths.into_iter().zip(seed..) {
            let content = octets(length, seed);
            push(&peer, "a", &content).await;
            blobs.push(push(&store, "a", &content).await);
        }
        let mut manifests = Vec::new();
        for at in [0, 3, 5] {
            let tag = format!("v{at}");
            put(&peer, "a", &blobs[at..at + 3], Some(&tag)).await;
            manifests.push(put(&store, "a", &blobs[at..at + 3], Some(&tag)).await);
        }
        Self {
            seed,
            chance: Chance::new(seed),
            disk,
            store,
            peer,
            blobs,
            manifests,
            n_cut: 0,
            n_ended: 0,
        }
    }

    /// Damages something, perhaps while the node is off; pulls it; and heals it.
    async fn damage(&mut self, n: u64) {
        let harm = Harm::ALL[usize::try_from(self.chance.below(6)).unwrap()];
        let n_contents = (self.blobs.len() + self.manifests.len()) as u64;
        let at = usize::try_from(self.chance.below(n_contents)).unwrap();
        let manifest = at.checked_sub(self.blobs.len());
        let digest = manifest.map_or_else(|| self.blobs[at], |at| self.manifests[at]);
        let path = self.store.layout().blob(&digest);
        let whole = self.disk.octets(&path).unwrap();
        let (seed, length) = (self.seed, whole.len());
        let case = format!("SIM_SEED={seed}, damage {n}: {harm:?} of {length} bytes");
        // A manifest in memory, and a flip under a file that does not change, are found later.
        if manifest.is_some() || harm == Harm::Flipped || self.chance.permille(500) {
            self.store.close().await;
            self.disk = self.disk.next_life(End::Kill, Faults::default());
            harm.happen(&self.disk, &path, &mut self.chance);
            self.store = open(&self.disk).await;
        } else {
            harm.happen(&self.disk, &path, &mut self.chance);
        }
        if self.chance.permille(300) {
            let settings = sweeping(Untagged::Keep);
            let swept = sweep::sweep(&self.store, None, &settings, Mode::Sweep).await;
            swept.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        match manifest {
            Some(_) => {
                let bytes = pull_manifest(&self.store, &digest).await;
                assert!(bytes.is_none(), "{case}: served {bytes:?}");
                let right = pull_manifest(&self.peer, &digest).await;
                assert!(right.is_some(), "{case}: nowhere");
            }
            None => self.pulls(&digest, &whole, &case).await,
        }
        heal(&self.store, &Peer::of(&self.peer, &self.store)).await;
        let healed = self.disk.octets(&path);
        assert!(healed.is_some_and(|it| it == whole), "{case}: not healed");
        assert_eq!(self.store.damaged().n_waiting, 0, "{case}");
    }

    async fn pulls(&mut self, digest: &Digest, whole: &[u8], case: &str) {
        let size = whole.len() as u64;
        match pull(&self.store, &self.peer, digest, size).await {
            Read::Ended(octets) => {
                self.n_ended += 1;
                assert!(octets == whole, "{case}: wrong bytes");
            }
            Read::Cut(n) => {
                self.n_cut += 1;
                assert!(n < whole.len(), "{case}");
                let again = pull(&self.store, &self.peer, digest, size).await;
                assert!(again == Read::Ended(whole.to_vec()), "{case}: again");
            }
            Read::Refused => panic!("{case}: refused although the peer has it"),
        }
    }
}

#[test]
fn two_hundred_damages_by_chance_are_never_served_and_all_healed() {
    let seed = std::env::var("SIM_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("SIM_SEED={seed}");
    run(async {
        let mut node = Run::new(seed).await;
        for n in 0..DAMAGES {
            node.damage(n).await;
        }
        let (n_cut, n_ended) = (node.n_cut, node.n_ended);
        assert!(n_cut > 5 && n_ended > 50, "{n_cut} cut, {n_ended} ended");
        // In the end everything is whole.
        let pace = crate::scrub::Pace::default();
        let report = crate::scrub::scrub(&node.store, None, &pace).await;
        assert!(report.unwrap().is_whole());
    });
}
