use std::path::Path;
use std::sync::Arc;

use oci::reference::Reference;

use super::*;
use crate::disk::faulty::{End, Faults, FaultyDisk};
use crate::store::{IndexKind, Recovery, Settings};
use crate::sweep::{self, Mode};

const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

async fn open(disk: &FaultyDisk) -> (Store, Recovery) {
    let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
    settings.index = IndexKind::Memory;
    Store::open(settings, Arc::new(disk.clone())).await.unwrap()
}

fn repository() -> RepositoryName {
    "ocp4/release".parse().unwrap()
}

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn described(kind: &str, octets: &[u8]) -> String {
    let (digest, size) = (digest(octets), octets.len());
    format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
}

async fn push(store: &Store, bytes: String, tag: Option<&str>) -> Digest {
    let parsed = manifest::parse(bytes.as_bytes(), None).unwrap();
    let digest = digest(bytes.as_bytes());
    let manifest = NewManifest {
        digest,
        bytes: bytes.into(),
        media_type: parsed.media_type,
        closure: parsed.closure.required().copied().collect(),
        subject: None,
        tags: tag.map(|tag| tag.parse().unwrap()).into_iter().collect(),
    };
    store.put_manifest(&repository(), manifest).await.unwrap();
    digest
}

/// Pushes an index with one image of one layer, each in a record of its own; returns the digests of index,
/// image and layer.
async fn push_index(store: &Store, tag: &str) -> [Digest; 3] {
    let layer = format!("layer of {tag}").into_bytes();
    let config = described("application/vnd.oci.image.config.v1+json", &layer);
    let image =
        format!(r#"{{"schemaVersion":2,"mediaType":"{IMAGE}","config":{config},"layers":[]}}"#);
    let listed = described(IMAGE, image.as_bytes());
    let index = format!(r#"{{"schemaVersion":2,"mediaType":"{INDEX}","manifests":[{listed}]}}"#);
    let body = tokio_stream::iter([Ok(Bytes::from(layer.clone()))]);
    let pushed = store.push(&repository(), &digest(&layer), None, body).await;
    pushed.unwrap();
    let image = push(store, image, None).await;
    let index = push(store, index, Some(tag)).await;
    [index, image, digest(&layer)]
}

async fn find_tag(store: &Store, tag: &str) -> Option<Digest> {
    let reference: Reference = tag.parse().unwrap();
    let found = store.manifest(&repository(), &reference).await.unwrap();
    found.map(|found| found.digest)
}

#[tokio::test]
async fn an_image_that_lost_its_name_is_listed_and_gets_it_again() {
    let disk = FaultyDisk::new(21);
    let (store, _) = open(&disk).await;
    let segment = |it: &str| Path::new("/store").join(it).join("00000001.log");
    let size = || disk.octets(&segment("journal")).unwrap().len() as u64;
    push_index(&store, "v1").await;
    let begin = size();
    let lost = push_index(&store, "v2").await;
    let end = size();
    push_index(&store, "v3").await;
    store.close().await;
    drop(store);
    let disk = disk.next_life(End::Kill, Faults::default());
    // Every record of v2 has a wrong checksum, in both copies.
    let octets = disk.octets(&segment("journal")).unwrap();
    let mut at = begin;
    while at < end {
        for copy in ["journal", "journal-copy"] {
            disk.damage(&segment(copy), 8 * (at + 4));
        }
        let head = usize::try_from(at).unwrap();
        let length = u32::from_le_bytes(octets[head..head + 4].try_into().unwrap());
        at += frame::HEAD as u64 + u64::from(length);
    }

    let (store, recovery) = open(&disk).await;
    assert!(recovery.damaged_journal.is_some());
    assert_eq!(find_tag(&store, "v2").await, None);
    assert!(find_tag(&store, "v1").await.is_some() && find_tag(&store, "v3").await.is_some());
    let settings = sweep::Settings::default();
    let report = sweep::sweep(&store, None, &settings, Mode::Sweep).await;
    assert!(report.unwrap().is_held);

    let found = find(&store).await.unwrap();
    assert!(found.is_damaged && found.n_more == 0);
    // The image is the index's, and is no line of its own.
    let [one] = found.manifests.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((one.digest, one.media_type.as_str()), (lost[0], INDEX));
    assert_eq!(one.missing, []);
    let tag: Tag = "v2".parse().unwrap();
    assert_eq!(one.proposals[0], (repository(), Some(tag.clone())));

    name(&store, &lost[0], &repository(), Some(tag))
        .await
        .unwrap();
    assert_eq!(find_tag(&store, "v2").await, Some(lost[0]));
    let image = Reference::Digest(lost[1]);
    let image = store.manifest(&repository(), &image).await.unwrap();
    assert!(image.is_some());
    let layer = store.blob(&repository(), &lost[2]).await.unwrap();
    assert!(layer.is_some());
    assert_eq!(find(&store).await.unwrap().manifests, []);

    finish(&store).await.unwrap();
    assert!(!find(&store).await.unwrap().is_damaged);
    let report = sweep::sweep(&store, None, &settings, Mode::Sweep).await;
    assert!(!report.unwrap().is_held);
    store.close().await;
    drop(store);
    let disk = disk.next_life(End::Kill, Faults::default());
    assert_eq!(find_tag(&open(&disk).await.0, "v2").await, Some(lost[0]));
}

#[tokio::test]
async fn an_image_without_its_layer_gets_no_name() {
    let disk = FaultyDisk::new(22);
    let (store, _) = open(&disk).await;
    let [index, image, layer] = push_index(&store, "v1").await;
    for digest in [&index, &image] {
        let deleted = store.delete_manifest(&repository(), digest).await;
        deleted.unwrap();
    }
    store.unlink(&repository(), &layer).await.unwrap();
    disk.lose(&store.layout().blob(&layer));
    store.forget(&layer);
    let found = find(&store).await.unwrap();
    assert_eq!(found.manifests.len(), 1);
    assert!(!found.is_damaged && found.manifests[0].proposals.is_empty());
    let named = name(&store, &index, &repository(), None).await;
    match named {
        Err(StoreError::MissingBlobs(missing)) => assert_eq!(missing, [layer]),
        other => panic!("{other:?}"),
    }
    let nothing = name(&store, &layer, &repository(), None).await;
    assert!(
        matches!(nothing, Err(StoreError::Unknown(_))),
        "{nothing:?}"
    );
}
