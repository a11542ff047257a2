use std::io;

use tokio_stream::StreamExt as _;

use super::*;
use crate::digest::Algorithm;
use crate::disk::RealDisk;
use crate::disk::suite::Scratch;

/// The content of a body in pieces of some size.
fn body(octets: &[u8]) -> impl tokio_stream::Stream<Item = io::Result<Bytes>> + Send + Unpin {
    let pieces: Vec<_> = octets
        .chunks(7000)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    tokio_stream::iter(pieces)
}

fn digest(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

fn repository(name: &str) -> RepositoryName {
    name.parse().unwrap()
}

fn settings(scratch: &Scratch, index: IndexKind) -> Settings {
    Settings {
        index,
        ..Settings::new(scratch.path().join("store"), "master-0".parse().unwrap())
    }
}

async fn open(settings: &Settings) -> (Store, Recovery) {
    Store::open(settings.clone(), Arc::new(RealDisk))
        .await
        .unwrap()
}

async fn content(store: &Store, digest: &Digest, size: u64) -> Vec<u8> {
    let mut reader = store.read(digest, 0..size).await.unwrap();
    let mut octets = Vec::new();
    while let Some(piece) = reader.next().await {
        octets.extend_from_slice(&piece.unwrap());
    }
    octets
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[test]
fn what_is_pushed_is_read_back_also_after_a_restart() {
    run(async {
        let scratch = Scratch::new("push");
        let settings = settings(&scratch, IndexKind::Sled);
        let name = repository("ocp4/release");
        let layer: Vec<u8> = (0..1_500_000_u32).flat_map(u32::to_le_bytes).collect();
        let layer_digest = digest(&layer);
        let config = b"{}".to_vec();
        let manifest = NewManifest {
            bytes: Bytes::from_static(b"{\"manifest\":1}"),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            digest: digest(b"{\"manifest\":1}"),
            closure: vec![layer_digest, digest(&config)],
            subject: None,
            tags: vec!["b".parse().unwrap(), "a".parse().unwrap()],
        };
        {
            let (store, recovery) = open(&settings).await;
            assert_eq!(recovery.n_records, 0);
            let early = store.put_manifest(&name, manifest.clone()).await;
            assert!(
                matches!(early, Err(StoreError::MissingBlobs(missing)) if missing == manifest.closure)
            );
            let id = store.begin(&name, Algorithm::Sha256).await.unwrap();
            let length = Some(layer.len() as u64);
            let size = store
                .append(&name, &id, Some(0), length, body(&layer))
                .await
                .unwrap();
            assert_eq!(size, layer.len() as u64);
            let pushed = store.finish(&name, &id, &layer_digest).await.unwrap();
            assert_eq!((pushed.size, pushed.position.unwrap().sequence), (size, 1));
            let pushed = store
                .push(&name, &digest(&config), None, body(&config))
                .await
                .unwrap();
            assert_eq!(pushed.size, 2);
            let position = store.put_manifest(&name, manifest.clone()).await.unwrap();
            assert_eq!(position.sequence, 3);
            assert_eq!(store.vector().of(&store.origin()), 3);
            store.close().await;
            let refused = store
                .push(&name, &digest(&config), None, body(&config))
                .await;
            assert!(matches!(refused, Err(StoreError::ReadOnly)));
        }
        for is_orderly in [true, false] {
            let (store, recovery) = open(&settings).await;
            assert_eq!(recovery.rebuilt.is_none(), is_orderly, "{recovery:?}");
            assert_eq!((recovery.n_records, recovery.missing), (3, vec![]));
            assert_eq!(
                content(&store, &layer_digest, layer.len() as u64).await,
                layer
            );
            let found = store
                .manifest(&name, &"a".parse().unwrap())
                .await
                .unwrap()
                .unwrap();
            assert_eq!(found.bytes, manifest.bytes);
            assert_eq!(*found.media_type, *manifest.media_type);
            let tags = store.tags(&name, None, 10).unwrap().unwrap();
            assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(store.repositories(None, 10), [name.clone()]);
            assert_eq!(store.vector().of(&store.origin()), 3);
            // It goes as by SIGKILL: nothing marks an orderly stop.
            store.inner.writer.close();
        }
    });
}
