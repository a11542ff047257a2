//! What goes and what stays, alone and among pushes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use config::{ByteSize, DurationWithin};
use oci::reference::{Reference, RepositoryName};
use registry_facts::record::{Fact, NodeId, Record};
use tempfile::TempDir;

use super::*;
use crate::disk::RealDisk;
use crate::disk::faulty::{End, Faults, FaultyDisk};
use crate::store::NewManifest;

const NONE: Duration = Duration::ZERO;

const TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

fn settings(grace: Duration, trash: Duration) -> Settings {
    Settings {
        grace: DurationWithin::clamped(grace),
        trash: DurationWithin::clamped(trash),
        ..Settings::default()
    }
}

async fn open(scratch: &TempDir) -> Store {
    open_with(scratch, registry_facts::lease::TERM).await
}

async fn open_with(scratch: &TempDir, lease: Duration) -> Store {
    let settings =
        crate::store::Settings::new(scratch.path().join("store"), "master-0".parse().unwrap());
    let settings = crate::store::Settings { lease, ..settings };
    Store::open(settings, Arc::new(RealDisk)).await.unwrap().0
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

fn name(text: &str) -> RepositoryName {
    text.parse().unwrap()
}

async fn push(store: &Store, repository: &str, content: &[u8]) -> Digest {
    let digest = Digest::of(Algorithm::Sha256, content);
    let body = tokio_stream::iter([Ok(Bytes::copy_from_slice(content))]);
    store
        .push(&name(repository), &digest, None, body)
        .await
        .unwrap();
    digest
}

fn manifest(layers: &[Digest], tag: Option<&str>, subject: Option<Digest>) -> NewManifest {
    let describe = |digest: &Digest| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest.to_string(), "size": 1,
        })
    };
    let mut document = serde_json::json!({
        "schemaVersion": 2, "mediaType": TYPE, "config": describe(&layers[0]),
        "layers": layers[1..].iter().map(describe).collect::<Vec<_>>(),
    });
    if let Some(subject) = subject {
        document["subject"] = describe(&subject);
    }
    let bytes = Bytes::from(document.to_string());
    NewManifest {
        digest: Digest::of(Algorithm::Sha256, &bytes),
        bytes,
        media_type: TYPE.to_owned(),
        closure: layers.to_vec(),
        subject,
        tags: tag.into_iter().map(|tag| tag.parse().unwrap()).collect(),
    }
}

async fn put(store: &Store, repository: &str, manifest: NewManifest) -> Digest {
    let digest = manifest.digest;
    store
        .put_manifest(&name(repository), manifest)
        .await
        .unwrap();
    digest
}

/// What is told of content is forgotten, as after an hour.
fn forget(store: &Store, digests: &[Digest]) {
    for digest in digests {
        store.forget(digest);
    }
}

fn is_there(store: &Store, digest: &Digest) -> bool {
    store.layout().blob(digest).exists()
}

/// The record of another node that a repository has a blob, stated so long ago that the grace protects nothing.
fn record_of_days_ago(store: &Store, digest: Digest, size: u64) -> Record {
    let stamp = Hlc::at(milliseconds(store.wall() - Duration::from_hours(72)));
    Record {
        origin: NodeId {
            name: "master-1".parse().unwrap(),
            incarnation: 1,
        },
        sequence: 1,
        stamp,
        facts: vec![Fact::Blob {
            repository: name("b"),
            digest,
            size: Some(size),
        }],
    }
}

/// A clock that jumps past the end of a lease must not part a record from its content, nor let a sweep that has marked
/// before delete it.
#[test]
fn a_record_of_another_node_applies_with_its_content_in_its_place_or_not_at_all() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let blob = push(&store, "a", b"fetched").await;
        forget(&store, &[blob]);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let waits = settings(NONE, Duration::from_hours(1));
        sweep(&store, None, &waits, Mode::Sweep).await.unwrap();
        assert!(!is_there(&store, &blob));

        let record = record_of_days_ago(&store, blob, 7);
        let content = BTreeSet::from([blob]);
        let applied = store.apply_beside(vec![record.clone()], &content).await;
        applied.unwrap();
        assert!(is_there(&store, &blob) && store.is_leased(&blob));
        assert_eq!(store.repositories_with(&blob), [name("a"), name("b")]);

        let gone = Digest::of(Algorithm::Sha256, b"deleted since");
        let record = record_of_days_ago(&store, gone, 13);
        let refused = store
            .apply_beside(vec![record], &BTreeSet::from([blob, gone]))
            .await;
        assert!(
            matches!(&refused, Err(StoreError::MissingBlobs(missing)) if *missing == [gone]),
            "{refused:?}"
        );
        assert_eq!(store.repositories_with(&gone), []);
    });
}

#[test]
fn what_no_manifest_refers_to_goes_to_the_trash_and_then_for_good() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let used = push(&store, "a", b"used").await;
        let loose = push(&store, "a", b"loose").await;
        let kept = put(&store, "a", manifest(&[used], Some("1"), None)).await;
        let untagged = put(&store, "a", manifest(&[used, used], None, None)).await;
        forget(&store, &[used, loose, kept, untagged]);
        // The stamp of a link counts in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;

        let young = settings(Duration::from_hours(2), NONE);
        let report = sweep(&store, None, &young, Mode::Sweep).await.unwrap();
        assert_eq!((report.trashed.n, report.young.n), (0, 1));

        let tried = sweep(&store, None, &settings(NONE, NONE), Mode::DryRun)
            .await
            .unwrap();
        assert_eq!((tried.trashed.n, tried.trashed.octets), (1, 5));
        assert!(is_there(&store, &loose));

        let waits = settings(NONE, Duration::from_hours(1));
        let report = sweep(&store, None, &waits, Mode::Sweep).await.unwrap();
        assert_eq!(
            (report.trashed.n, report.n_manifests, report.n_examined),
            (1, 2, 4)
        );
        assert!(!is_there(&store, &loose) && store.layout().trashed(&loose).exists());
        let report = sweep(&store, None, &waits, Mode::Sweep).await.unwrap();
        assert_eq!((report.in_trash.n, report.deleted.n), (1, 0));

        // Whoever asks for it has it back.
        assert_eq!(store.blob(&name("a"), &loose).await.unwrap(), Some(5));
        assert!(is_there(&store, &loose));
        let report = sweep(&store, None, &settings(NONE, NONE), Mode::Sweep)
            .await
            .unwrap();
        assert_eq!((report.wanted.n, report.trashed.n), (1, 0));
        forget(&store, &[loose]);

        let done = settings(NONE, NONE);
        assert_eq!(
            sweep(&store, None, &done, Mode::Sweep)
                .await
                .unwrap()
                .trashed
                .n,
            1
        );
        assert_eq!(
            sweep(&store, None, &done, Mode::Sweep)
                .await
                .unwrap()
                .deleted
                .n,
            1
        );
        assert!(!store.layout().trashed(&loose).exists());
        assert_eq!(store.blob(&name("a"), &loose).await.unwrap(), None);
        assert!(store.repositories_with(&loose).is_empty());
        assert_eq!(store.blob(&name("a"), &used).await.unwrap(), Some(4));
        for digest in [kept, untagged] {
            let found = store.manifest(&name("a"), &Reference::Digest(digest)).await;
            assert!(found.unwrap().is_some());
        }
    });
}

#[test]
fn what_a_deleted_manifest_alone_referred_to_goes() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let shared = push(&store, "a", b"shared").await;
        let own = push(&store, "a", b"own").await;
        let stays = put(&store, "a", manifest(&[shared], Some("1"), None)).await;
        let goes = put(&store, "a", manifest(&[shared, own], Some("2"), None)).await;
        store.delete_manifest(&name("a"), &goes).await.unwrap();
        forget(&store, &[shared, own, stays, goes]);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let report = sweep(&store, None, &settings(NONE, NONE), Mode::Sweep)
            .await
            .unwrap();
        assert_eq!(report.trashed.n, 2);
        assert!(is_there(&store, &shared) && is_there(&store, &stays));
        assert!(!is_there(&store, &own) && !is_there(&store, &goes));
    });
}

#[test]
fn without_a_tag_manifests_go_only_where_that_is_asked_for_and_what_is_about_them_with_them() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let layer = push(&store, "a", b"layer").await;
        let tagged = put(&store, "a", manifest(&[layer], Some("1"), None)).await;
        let about = put(&store, "a", manifest(&[layer, layer], None, Some(tagged))).await;
        let signature = format!("sha256-{}.sig", tagged.hex());
        let signed = put(
            &store,
            "a",
            manifest(&[layer, layer, layer], Some(&signature), None),
        )
        .await;
        let lost = put(
            &store,
            "a",
            manifest(&[layer, layer, layer, layer], None, None),
        )
        .await;
        let about_lost = put(&store, "a", manifest(&[layer], None, Some(lost))).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let has = async |digest: Digest| {
            let found = store.manifest(&name("a"), &Reference::Digest(digest)).await;
            found.unwrap().is_some()
        };
        let mut delete = settings(NONE, NONE);
        sweep(&store, None, &delete, Mode::Sweep).await.unwrap();
        assert!(has(lost).await);

        delete.untagged = Untagged::Delete;
        let tried = sweep(&store, None, &delete, Mode::DryRun).await.unwrap();
        assert_eq!(tried.n_untagged, 2);
        assert!(has(lost).await && has(about_lost).await);
        sweep(&store, None, &delete, Mode::Sweep).await.unwrap();
        let left = [has(tagged).await, has(about).await, has(signed).await];
        assert_eq!(left, [true; 3]);
        assert!(!has(lost).await && !has(about_lost).await);

        store.delete_manifest(&name("a"), &tagged).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        sweep(&store, None, &delete, Mode::Sweep).await.unwrap();
        assert!(!has(about).await);
    });
}

/// Pushers ask, push what is missing, and put their manifest, as clients do, while sweeps run that
/// leave hardly any time between the two. Who comes too late is told so, and begins again; what was
/// acknowledged is whole in the end.
#[test]
fn a_sweep_among_pushes_takes_nothing_that_was_acknowledged() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let lease = Duration::from_millis(2);
        let store = open_with(&scratch, lease).await;
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let sweeper = {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut n_trashed = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let report = sweep(&store, None, &settings(lease, lease), Mode::Sweep).await;
                    n_trashed += report.unwrap().trashed.n;
                }
                n_trashed
            })
        };
        let pushers: Vec<_> = (0..8)
            .map(|n| tokio::spawn(pusher(store.clone(), n)))
            .collect();
        let mut all = Vec::new();
        for pusher in pushers {
            all.push(pusher.await.unwrap());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(sweeper.await.unwrap() > 0, "the sweeps had nothing to do");
        let mut n_checked = 0;
        for (repository, acknowledged) in all {
            for (digest, layers) in acknowledged {
                let reference = Reference::Digest(digest);
                let found = store
                    .manifest(&name(&repository), &reference)
                    .await
                    .unwrap();
                assert_eq!(found.unwrap().digest, digest);
                for layer in layers {
                    let size = store.blob(&name(&repository), &layer).await.unwrap();
                    assert!(size.is_some(), "{repository} lost {layer}");
                    n_checked += 1;
                }
            }
        }
        assert!(n_checked > 0);
    });
}

/// Pushes for a while and gives what was acknowledged and not deleted: manifests and their layers.
async fn pusher(store: Store, number: u64) -> (String, BTreeMap<Digest, Vec<Digest>>) {
    let repository = format!("team-{number}");
    let mut acknowledged = BTreeMap::new();
    for round in 0..30_u64 {
        // Contents that pushers share, and that one leaves and another asks for.
        let contents = [round % 4, (round + number) % 5, 7].map(|n| format!("content {n}"));
        loop {
            let mut layers = Vec::new();
            for content in &contents {
                let digest = Digest::of(Algorithm::Sha256, content.as_bytes());
                if store
                    .blob(&name(&repository), &digest)
                    .await
                    .unwrap()
                    .is_none()
                {
                    push(&store, &repository, content.as_bytes()).await;
                }
                layers.push(digest);
            }
            let new = manifest(&layers, Some("latest"), None);
            let digest = new.digest;
            match store.put_manifest(&name(&repository), new).await {
                Ok(_) => {
                    acknowledged.insert(digest, layers);
                    break;
                }
                Err(StoreError::MissingBlobs(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        // Most are deleted again, so that there is something to sweep.
        if round % 5 != 4 {
            let all: Vec<Digest> = acknowledged.keys().copied().collect();
            for digest in all {
                store
                    .delete_manifest(&name(&repository), &digest)
                    .await
                    .unwrap();
                acknowledged.remove(&digest);
            }
        }
    }
    (repository, acknowledged)
}

//--- Crashes

async fn open_on(disk: &FaultyDisk) -> Option<(Store, crate::store::Recovery)> {
    let mut settings = crate::store::Settings::new("/store".into(), "master-0".parse().unwrap());
    settings.index = crate::store::IndexKind::Memory;
    Store::open(settings, Arc::new(disk.clone())).await.ok()
}

/// Sweeps that end in each of their operations, by a kill and by a loss of power, and what the next
/// process finds: repositories have nothing that is gone, and what was moved waits for its grace.
#[test]
fn a_sweep_that_is_cut_off_leaves_nothing_half_done() {
    run(async {
        for (trash, end) in [
            (Duration::from_hours(1), End::Kill),
            (Duration::from_hours(1), End::PowerLoss),
            (NONE, End::Kill),
            (NONE, End::PowerLoss),
        ] {
            let mut n_operations = 1;
            while cut_off(trash, end, n_operations).await {
                n_operations += 1;
            }
            assert!(n_operations > 5, "{trash:?} {end:?}: {n_operations}");
        }
    });
}

/// Whether the sweep was cut off.
async fn cut_off(trash: Duration, end: End, n_operations: u64) -> bool {
    let disk = FaultyDisk::new(n_operations);
    let (store, _) = open_on(&disk).await.unwrap();
    let used = push(&store, "a", b"used").await;
    let loose = push(&store, "a", b"loose").await;
    put(&store, "a", manifest(&[used], Some("1"), None)).await;
    forget(&store, &[used, loose]);
    // The stamp of a link counts in milliseconds.
    tokio::time::sleep(Duration::from_millis(5)).await;
    // What is moved from here on is moved just now, and what was pushed is older than any grace.
    let just_now = store.wall() - Duration::from_secs(1);
    disk.pass(milliseconds(just_now));
    let settings = settings(NONE, trash);
    if trash == NONE {
        // The next finds it in the trash.
        sweep(&store, None, &settings, Mode::Sweep).await.unwrap();
    }
    disk.set_faults(Faults {
        last_operation: Some(n_operations),
        ..Faults::default()
    });
    drop(sweep(&store, None, &settings, Mode::Sweep).await);
    let is_over = disk.is_over();
    drop(store);

    let disk = disk.next_life(end, Faults::default());
    let (store, recovery) = open_on(&disk).await.unwrap();
    assert_eq!(recovery.missing, [], "{trash:?} {end:?} {n_operations}");
    assert_eq!(store.blob(&name("a"), &used).await.unwrap(), Some(4));
    if trash != NONE {
        forget(&store, &[used, loose]);
        sweep(&store, None, &settings, Mode::Sweep).await.unwrap();
        let size = store.blob(&name("a"), &loose).await.unwrap();
        assert_eq!(
            size,
            Some(5),
            "{end:?} {n_operations}: the second grace is gone"
        );
    }
    is_over
}

#[test]
fn a_manifest_that_was_refused_in_doubt_is_whole_when_it_turns_up() {
    run(async {
        let disk = FaultyDisk::new(3);
        let (store, _) = open_on(&disk).await.unwrap();
        let layer = push(&store, "a", b"layer").await;
        // Its content is there before, so that of all syncs only the journal's can fail.
        let document = manifest(&[layer], Some("1"), None);
        let content = tokio_stream::iter([Ok(document.bytes.clone())]);
        store.ingest(&document.digest, None, content).await.unwrap();
        disk.set_faults(Faults {
            unsynced: 1000,
            ..Faults::default()
        });
        let refused = store.put_manifest(&name("a"), document.clone()).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
        disk.set_faults(Faults::default());
        forget(&store, &[layer, document.digest]);
        disk.pass(milliseconds(store.wall()));
        tokio::time::sleep(Duration::from_millis(5)).await;
        for _ in 0..2 {
            let swept = sweep(&store, None, &settings(NONE, NONE), Mode::Sweep).await;
            assert!(matches!(swept, Err(StoreError::ReadOnly)), "{swept:?}");
        }
        drop(store);

        let disk = disk.next_life(End::Kill, Faults::default());
        let (store, recovery) = open_on(&disk).await.unwrap();
        assert_eq!(recovery.missing, []);
        let reference = Reference::Tag("1".parse().unwrap());
        let found = store.manifest(&name("a"), &reference).await.unwrap();
        assert_eq!(found.unwrap().bytes, document.bytes);
    });
}

#[test]
fn a_manifest_is_taken_back_from_the_trash_when_it_is_asked_for() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let layer = push(&store, "a", b"layer").await;
        let digest = put(&store, "a", manifest(&[layer], Some("1"), None)).await;
        // As a sweep leaves what it moved before a repository had it.
        let (from, to) = (
            store.layout().blob(&digest),
            store.layout().trashed(&digest),
        );
        std::fs::rename(from, to).unwrap();
        forget(&store, &[digest]);
        let reference = Reference::Tag("1".parse().unwrap());
        let found = store.manifest(&name("a"), &reference).await.unwrap();
        assert_eq!(found.unwrap().digest, digest);
        assert!(store.layout().blob(&digest).exists());
    });
}

/// A push holds its repository and waits for the content that the sweep deletes.
#[test]
fn a_sweep_waits_for_nobody_who_waits_for_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let layer = push(&store, "a", b"layer").await;
        let alone = store.alone(&layer).await;
        let pushing = {
            let (store, new) = (store.clone(), manifest(&[layer], Some("1"), None));
            tokio::spawn(async move { store.put_manifest(&name("a"), new).await })
        };
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let unlinking = store.unlink_everywhere(&layer, Hlc::at(u64::MAX >> 16));
        let unlinked = tokio::time::timeout(Duration::from_secs(60), unlinking).await;
        unlinked.expect("it waits for the push").unwrap();
        drop(alone);
        let refused = pushing.await.unwrap();
        assert!(
            matches!(refused, Err(StoreError::MissingBlobs(_))),
            "{refused:?}"
        );
    });
}

/// What a manifest refers to after all, as when a journal that had failed turns out to have kept it.
#[test]
fn what_is_needed_comes_back_from_the_trash() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let layer = push(&store, "a", b"layer").await;
        put(&store, "a", manifest(&[layer], Some("1"), None)).await;
        let (path, trashed) = (store.layout().blob(&layer), store.layout().trashed(&layer));
        std::fs::rename(&path, &trashed).unwrap();
        forget(&store, &[layer]);
        let report = sweep(&store, None, &settings(NONE, NONE), Mode::Sweep)
            .await
            .unwrap();
        assert_eq!((report.wanted.n, report.deleted.n), (1, 0));
        assert!(path.exists() && !trashed.exists());
    });
}

/// As when the scrub has found it damaged, and put it away.
#[test]
fn a_blob_that_goes_before_it_is_moved_ends_no_sweep() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let mut shards: BTreeMap<u8, Vec<Digest>> = BTreeMap::new();
        let mut pair = Vec::new();
        for number in 0_u32.. {
            let digest = push(&store, "a", &number.to_le_bytes()).await;
            forget(&store, &[digest]);
            let shard = shards.entry(digest.shard()).or_default();
            shard.push(digest);
            if shard.len() == 2 {
                pair.clone_from(shard);
                break;
            }
        }
        // As they are listed, and so moved.
        pair.sort_by_key(Digest::hex);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let held = store.alone(&pair[1]).await;
        let sweeping = {
            let store = store.clone();
            let settings = settings(NONE, Duration::from_hours(1));
            tokio::spawn(async move { sweep(&store, None, &settings, Mode::Sweep).await })
        };
        let trashed = store.layout().trashed(&pair[0]);
        let moves = async {
            while !trashed.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let moved = tokio::time::timeout(Duration::from_secs(60), moves).await;
        moved.expect("the first of the two is moved");
        std::fs::remove_file(store.layout().blob(&pair[1])).unwrap();
        drop(held);
        let report = sweeping.await.unwrap().unwrap();
        let n_pushed: usize = shards.values().map(Vec::len).sum();
        assert_eq!(report.trashed.n, n_pushed as u64 - 1, "{report}");
    });
}

/// Puts a damaged file into the quarantine, as if it had lain there for so long.
fn damaged_file(store: &Store, digest: &Digest, size: u64, age: Duration) {
    let file = std::fs::File::create(store.layout().quarantined(digest)).unwrap();
    file.set_len(size).unwrap();
    file.set_modified(store.wall() - age).unwrap();
}

#[test]
fn the_quarantine_is_emptied_of_what_is_of_no_use() {
    const DAY: Duration = Duration::from_hours(24);
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let healed = push(&store, "a", b"healed").await;
        let waits = push(&store, "a", b"waits").await;
        let [of_none, large, larger] =
            [b"1", b"2", b"3"].map(|octets| Digest::of(Algorithm::Sha256, octets));
        std::fs::remove_file(store.layout().blob(&waits)).unwrap();
        store.report(&waits, crate::store::damage::Reason::Missing);
        let is_there = |digest: &Digest| store.layout().quarantined(digest).exists();

        damaged_file(&store, &healed, 10, DAY / 2);
        damaged_file(&store, &of_none, 20, 2 * DAY);
        damaged_file(&store, &waits, 30, 20 * DAY);
        let settings = settings(NONE, NONE);
        let report = sweep(&store, None, &settings, Mode::DryRun).await.unwrap();
        assert_eq!((report.quarantine.n, report.quarantine.octets), (1, 20));
        assert!(is_there(&of_none));
        let report = sweep(&store, None, &settings, Mode::Sweep).await.unwrap();
        assert_eq!((report.quarantine.n, report.quarantine.octets), (1, 20));
        assert!(is_there(&healed) && is_there(&waits) && !is_there(&of_none));

        damaged_file(&store, &healed, 10, 2 * DAY);
        damaged_file(&store, &waits, 30, 31 * DAY);
        sweep(&store, None, &settings, Mode::Sweep).await.unwrap();
        assert!(!is_there(&healed) && !is_there(&waits));

        // The oldest of too many goes, however young it is.
        damaged_file(&store, &large, 2 << 30, DAY / 3);
        damaged_file(&store, &larger, 3 << 30, DAY / 4);
        let quarantined = store.quarantined().unwrap();
        assert_eq!((quarantined.n, quarantined.octets), (2, 5 << 30));
        sweep(&store, None, &settings, Mode::Sweep).await.unwrap();
        assert!(!is_there(&large) && is_there(&larger));

        // Both bounds are an operator's.
        let short = Settings {
            quarantine: DurationWithin::clamped(DAY / 2),
            ..settings
        };
        store.report(&waits, crate::store::damage::Reason::Missing);
        damaged_file(&store, &waits, 30, DAY);
        damaged_file(&store, &healed, 10, DAY / 3);
        sweep(&store, None, &short, Mode::Sweep).await.unwrap();
        assert!(!is_there(&waits) && is_there(&healed) && is_there(&larger));
        let small = Settings {
            quarantine_size: ByteSize(2 << 30),
            ..settings
        };
        sweep(&store, None, &small, Mode::Sweep).await.unwrap();
        assert!(is_there(&healed) && !is_there(&larger));
    });
}
