use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oci::digest::Algorithm;
use oci::manifest::{OCI_IMAGE, OCI_INDEX, Sparse};
use oci::reference::Reference;
use registry_archive::testing::Scratch;
use registry_store::disk::RealDisk;
use registry_store::disk::faulty::{End, Faults, FaultyDisk};
use registry_store::{IndexKind, Settings, Store, StoreError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::copy::tests::origin;
use crate::progress::Progress;
use crate::report::Report;
use crate::sink::Sink;

/// An OCI layout of images with this many blobs each, one of them the configuration.
fn layout(n_images: usize, n_blobs: usize, length: usize) -> Scratch {
    let scratch = Scratch::new();
    let blob = |kind: &str, octets: Vec<u8>| -> Value {
        let digest = Digest::of(Algorithm::Sha256, &octets);
        let path = format!("blobs/sha256/{}", digest.hex());
        let size = octets.len();
        scratch.write(&path, &octets);
        json!({ "mediaType": kind, "digest": digest.to_string(), "size": size })
    };
    let mut manifests = Vec::new();
    for image in 0..n_images {
        let mut blobs: Vec<Value> = (0..n_blobs)
            .map(|number| {
                let mut octets = format!("{{\"image\":{image},\"blob\":{number}}}").into_bytes();
                octets.resize(length.max(octets.len()), b' ');
                blob("application/octet-stream", octets)
            })
            .collect();
        let config = blobs.pop().unwrap();
        let manifest = json!({ "schemaVersion": 2, "mediaType": OCI_IMAGE, "config": config, "layers": blobs });
        let mut entry = blob(OCI_IMAGE, manifest.to_string().into_bytes());
        let name = format!("group-{}/app:v{image}", image % 7);
        entry["annotations"] = json!({ "io.containerd.image.name": name });
        manifests.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests });
    scratch.write("index.json", index.to_string().as_bytes());
    scratch.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    scratch
}

async fn open(disk: &FaultyDisk) -> Result<Store, StoreError> {
    let settings = Settings {
        index: IndexKind::Memory,
        ..Settings::new("/store".into(), "node-0".parse().unwrap())
    };
    Ok(Store::open(settings, Arc::new(disk.clone())).await?.0)
}

async fn import(
    from: &Path,
    store: &Store,
    progress: &Arc<Progress>,
) -> Result<Report, TransferError> {
    let (origin, items) = origin(from);
    let sink = Sink::Store(store.clone());
    let copy = Copy::new(origin, sink, Sparse::Refused, Arc::clone(progress));
    copy.run(items).await
}

/// How many of the images and of their blobs a store has.
async fn count(from: &Path, store: &Store) -> (usize, u64) {
    let (origin, items) = origin(from);
    let sink = Sink::Store(store.clone());
    let copy = Copy::new(origin, sink, Sparse::Refused, Arc::default());
    let (mut n_images, mut n_blobs) = (0, 0);
    for item in items {
        for blob in copy.whole(&item).await.unwrap().blobs.keys() {
            let size = store.blob(&item.to, blob).await.unwrap();
            n_blobs += u64::from(size.is_some());
        }
        let reference = Reference::Tag(item.tag.clone().unwrap());
        let found = store.manifest(&item.to, &reference).await.unwrap();
        n_images += usize::from(found.is_some_and(|found| found.digest == item.digest));
    }
    (n_images, n_blobs)
}

#[tokio::test]
async fn a_thousand_blobs_share_their_syncs() {
    let scratch = layout(100, 10, 0);
    let disk = FaultyDisk::new(1);
    let store = open(&disk).await.unwrap();
    let before = disk.n_syncs();
    let progress = Arc::default();
    let report = import(&scratch.path(""), &store, &progress).await.unwrap();
    let n_syncs = disk.n_syncs() - before;
    assert!(report.is_whole() && report.n_copied == 100, "{report}");
    assert_eq!(report.n_blobs, 1000);
    assert_eq!(count(&scratch.path(""), &store).await, (100, 1000));
    // By itself each blob has three: of its file, its directory and the journal. Here an image has one at most, for
    // its record, and each of the two batches has three.
    println!("{n_syncs} syncs of 1,000 blobs in 100 images");
    assert!(n_syncs <= 100 + 2 * 3, "{n_syncs}");
    // A second import has nothing to do.
    let before = disk.n_syncs();
    let report = import(&scratch.path(""), &store, &Arc::default())
        .await
        .unwrap();
    assert_eq!((report.n_held, report.n_blobs), (100, 0));
    assert_eq!(disk.n_syncs(), before);
}

#[tokio::test]
async fn an_import_that_is_killed_in_the_middle_loses_nothing_reported_and_continues() {
    // More images than a batch has.
    const N: usize = 300;
    let scratch = layout(N, 1, 0);
    let mut n_partial = 0;
    for seed in 0..12 {
        let disk = FaultyDisk::new(seed);
        let store = open(&disk).await.unwrap();
        disk.set_faults(Faults {
            last_operation: Some(500 + seed * 400),
            ..Faults::default()
        });
        let progress: Arc<Progress> = Arc::default();
        let imported = import(&scratch.path(""), &store, &progress).await;
        let n_reported = imported.map_or(0, |report| report.n_copied);
        let n_blobs_reported = progress.blobs_copied();
        drop(store);
        let end = match seed % 2 {
            0 => End::PowerLoss,
            _ => End::Kill,
        };
        let disk = disk.next_life(end, Faults::default());
        let store = open(&disk).await.unwrap();
        let (n_images, n_blobs) = count(&scratch.path(""), &store).await;
        assert!(n_images as u64 >= n_reported, "{seed}: {n_images}");
        assert!(n_blobs >= n_blobs_reported, "{seed}: {n_blobs}");
        n_partial += u32::from(n_blobs > 0 && n_images < N);

        let report = import(&scratch.path(""), &store, &Arc::default())
            .await
            .unwrap();
        assert!(report.is_whole(), "{seed}: {report}");
        assert_eq!(report.n_held, n_images as u64, "{seed}");
        assert!(report.n_blobs <= N as u64 - n_blobs, "{seed}: {report}");
        assert_eq!(
            count(&scratch.path(""), &store).await,
            (N, N as u64),
            "{seed}"
        );
    }
    assert!(n_partial > 1, "{n_partial}");
}

#[tokio::test]
async fn an_image_whose_blob_is_not_there_keeps_no_other_image_away() {
    let scratch = layout(3, 2, 0);
    let lost = Digest::of(Algorithm::Sha256, br#"{"image":1,"blob":0}"#);
    std::fs::remove_file(scratch.path(&format!("blobs/sha256/{}", lost.hex()))).unwrap();
    let store = open(&FaultyDisk::new(1)).await.unwrap();
    let report = import(&scratch.path(""), &store, &Arc::default())
        .await
        .unwrap();
    assert_eq!((report.n_copied, report.n_failed), (2, 1), "{report}");
    assert_eq!(count(&scratch.path(""), &store).await.0, 2);
}

/// Prints how long it takes; judges nothing.
#[tokio::test]
#[ignore = "measures"]
async fn time_of_many_small_blobs() {
    let scratch = layout(1000, 20, 4096);
    for in_batches in [false, true] {
        let root = Scratch::new();
        let settings = Settings::new(root.path("store"), "node-0".parse().unwrap());
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let (origin, items) = origin(&scratch.path(""));
        let sink = Sink::Store(store.clone());
        let copy = Copy::new(origin, sink, Sparse::Refused, Arc::default());
        let begun = Instant::now();
        match in_batches {
            true => drop(copy.run(items).await.unwrap()),
            false => {
                for item in items {
                    let whole = copy.whole(&item).await.unwrap();
                    copy.image(&item, &whole).await.unwrap();
                }
            }
        }
        // Past what the test's runner captures: a measurement that passes says its figure too.
        let figure = format!("batches {in_batches}: {:?}\n", begun.elapsed());
        std::io::stderr().write_all(figure.as_bytes()).unwrap();
        store.close().await;
    }
}

/// Between two attempts to open a store that another has open.
const PAUSE: Duration = Duration::from_millis(50);

/// The CPU that this process has used, in seconds.
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
    // Behind the name and a space: user and system time, in hundredths.
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(12) + ticks(13)) / 100.0
}

/// Prints what an import of 100,000 blobs costs, and a start after a kill; judges nothing.
#[tokio::test]
#[ignore = "measures"]
async fn cost_of_a_hundred_thousand_blobs() {
    let scratch = layout(5000, 20, 140);
    let root = Scratch::new();
    let open = || async {
        let settings = Settings::new(root.path("store"), "node-0".parse().unwrap());
        Store::open(settings, Arc::new(RealDisk)).await
    };
    let say = |what: &str, begun: Instant, before: f64| {
        let cpu = used() - before;
        let figure = format!("{what}: {cpu:.2} s of CPU, {:?}\n", begun.elapsed());
        std::io::stderr().write_all(figure.as_bytes()).unwrap();
    };
    let (store, _) = open().await.unwrap();
    let (begun, before) = (Instant::now(), used());
    let report = import(&scratch.path(""), &store, &Arc::default()).await;
    say("import", begun, before);
    assert_eq!(report.unwrap().n_copied, 5000);
    // Without an orderly stop, as a kill leaves it.
    drop(store);
    for _ in 0..3 {
        let recovery = loop {
            let (begun, before) = (Instant::now(), used());
            match open().await {
                Ok((_, recovery)) => {
                    say("start after a kill", begun, before);
                    break recovery;
                }
                // The one before has not let go yet.
                Err(StoreError::Damaged(_)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(recovery.missing, []);
    }
}
