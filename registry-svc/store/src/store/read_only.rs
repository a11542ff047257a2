//! A store on a file system that takes no change.

use oci::digest::Algorithm;
use tokio_stream::StreamExt as _;

use super::*;
use crate::disk::faulty::{End, Faults, FaultyDisk};
use crate::scrub::{self, Pace};
use crate::sweep::{self, Mode};

const READ_ONLY: Faults = Faults {
    last_operation: None,
    full: 0,
    broken: 0,
    unsynced: 0,
    read_only: true,
    lie: None,
};

async fn open(disk: &FaultyDisk) -> Result<(Store, Recovery), StoreError> {
    let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
    // An index on disk cannot be had there.
    settings.index = IndexKind::Sled;
    if !disk.has(&settings.root.join("VERSION")) {
        settings.index = IndexKind::Memory;
    }
    Store::open(settings, Arc::new(disk.clone())).await
}

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn body(
    octets: &'static [u8],
) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + Unpin {
    tokio_stream::iter([Ok(Bytes::from_static(octets))])
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn manifest(bytes: &'static [u8], closure: Vec<Digest>) -> NewManifest {
    NewManifest {
        bytes: Bytes::from_static(bytes),
        media_type: "application/json".to_owned(),
        digest: digest(bytes),
        closure,
        subject: None,
        tags: vec!["v1".parse().unwrap()],
    }
}

const LAYER: &[u8] = b"layer";
const DAMAGED: &[u8] = b"damaged";
const NEW: &[u8] = b"new";

fn name() -> RepositoryName {
    "a/b".parse().unwrap()
}

fn tag() -> Reference {
    "v1".parse().unwrap()
}

/// A disk with a store, whose file system is read-only from here on, and has damaged a blob.
async fn prepared(is_orderly: bool) -> FaultyDisk {
    let disk = FaultyDisk::new(11);
    let store = open(&disk).await.unwrap().0;
    let closure = vec![digest(LAYER), digest(DAMAGED)];
    for octets in [LAYER, DAMAGED] {
        let pushed = store
            .push(&name(), &digest(octets), None, body(octets))
            .await;
        pushed.unwrap();
    }
    let put = store.put_manifest(&name(), manifest(b"{}", closure)).await;
    put.unwrap();
    // A session that a process which may write continues.
    let id = store
        .begin("client", &name(), Algorithm::Sha256)
        .await
        .unwrap();
    let half = store.append(&name(), &id, None, None, body(b"half")).await;
    half.unwrap();
    if is_orderly {
        store.close().await;
    }
    let disk = disk.next_life(End::Kill, READ_ONLY);
    disk.damage(&store.layout().blob(&digest(DAMAGED)), 3);
    disk
}

/// Everything that would change the store is refused.
async fn refuses(store: &Store) {
    let settings = sweep::Settings::default();
    let other = "c".parse().unwrap();
    let refusals = [
        store
            .push(&name(), &digest(NEW), None, body(NEW))
            .await
            .map(drop),
        store.ingest(&digest(NEW), None, body(NEW)).await.map(drop),
        store
            .put_manifest(&name(), manifest(b"[]", Vec::new()))
            .await
            .map(drop),
        store
            .begin("client", &name(), Algorithm::Sha256)
            .await
            .map(drop),
        store.link(&other, &digest(LAYER)).await.map(drop),
        store
            .delete_tag(&name(), &"v1".parse().unwrap())
            .await
            .map(drop),
        store.unlink(&name(), &digest(LAYER)).await.map(drop),
        store.apply(Vec::new()).await,
        sweep::sweep(store, None, &settings, Mode::Sweep)
            .await
            .map(drop),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        let is_refused = matches!(refusal, Err(StoreError::ReadOnly));
        assert!(is_refused, "{n}: {refusal:?}");
    }
    let tried = sweep::sweep(store, None, &settings, Mode::DryRun).await;
    assert_eq!(tried.unwrap().n_manifests, 1);
}

#[test]
fn a_store_on_a_read_only_disk_is_pulled_from_and_refuses_pushes() {
    for is_orderly in [true, false] {
        run(async {
            let disk = prepared(is_orderly).await;
            let before = disk.names();
            let (store, recovery) = open(&disk).await.unwrap();
            assert!(store.is_on_read_only_disk());
            assert!(recovery.n_records >= 3, "{recovery:?}");
            let found = store.manifest(&name(), &tag()).await.unwrap();
            assert_eq!(&found.unwrap().bytes[..], b"{}");
            let held = store.blob(&name(), &digest(LAYER)).await.unwrap();
            assert_eq!(held, Some(5));
            let mut reader = store
                .read(&digest(LAYER), 0..5, Purpose::Pull)
                .await
                .unwrap();
            assert_eq!(&reader.next().await.unwrap().unwrap()[..], LAYER);
            // Damage is refused here too, and stays where it is.
            let refused = store
                .read(&digest(DAMAGED), 0..7, Purpose::Pull)
                .await
                .map(drop);
            let is_refused = matches!(refused, Err(StoreError::Unknown(_)));
            assert!(is_refused, "{refused:?}");
            assert_eq!(store.damaged().n_waiting, 1);
            crate::heal::round(&store, None, clock::now()).await;
            refuses(&store).await;
            let scrubbed = scrub::scrub(&store, None, &Pace::default()).await.unwrap();
            assert_eq!(scrubbed.damaged, [digest(DAMAGED)]);
            store.close().await;
            assert_eq!(disk.names(), before);

            // On a disk that takes changes again, everything continues.
            let disk = disk.next_life(End::Kill, Faults::default());
            let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
            settings.index = IndexKind::Memory;
            let (store, recovery) = Store::open(settings, Arc::new(disk)).await.unwrap();
            assert_eq!(recovery.n_sessions, 1);
            let pushed = store.push(&name(), &digest(NEW), None, body(NEW)).await;
            pushed.unwrap();
        });
    }
}

#[test]
fn an_empty_directory_on_a_read_only_disk_is_no_store() {
    run(async {
        let disk = FaultyDisk::new(12).next_life(End::Kill, READ_ONLY);
        let text = open(&disk).await.unwrap_err().to_string();
        let wanted = "the directory holds no store, and its file system is read-only";
        assert_eq!(text, wanted);
    });
}

#[test]
fn names_that_a_read_only_disk_has_lost_are_read_from_the_copy() {
    run(async {
        for is_orderly in [false, true] {
            let disk = prepared(is_orderly).await;
            let journal = std::path::Path::new("/store/journal/00000001.log");
            let size = disk.octets(journal).unwrap().len() as u64;
            // In the first record, and in the last.
            for bit in [8 * 20, 8 * (size - 1)] {
                let disk = disk.next_life(End::Kill, READ_ONLY);
                disk.damage(journal, bit);
                let (store, _) = open(&disk).await.unwrap();
                let found = store.manifest(&name(), &tag()).await.unwrap();
                assert_eq!(found.unwrap().bytes, Bytes::from_static(b"{}"));
                let size = store.blob(&name(), &digest(LAYER)).await.unwrap();
                assert_eq!(size, Some(LAYER.len() as u64));
                disk.damage(journal, bit);
            }
        }
    });
}
