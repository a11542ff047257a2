use bytes::Bytes;
use oci::reference::RepositoryName;
use serde_json::json;

use super::*;
use crate::disk::RealDisk;
use crate::store::{NewManifest, Settings};

#[test]
fn what_the_disk_changed_is_put_away_and_what_a_manifest_lacks_is_named() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = Settings::new(scratch.path().join("store"), "master-0".parse().unwrap());
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let repository: RepositoryName = "a/b".parse().unwrap();
        let mut digests = Vec::new();
        for content in [&b"one"[..], b"two"] {
            let digest = Digest::of(Algorithm::Sha256, content);
            let body = tokio_stream::iter([Ok(Bytes::from_static(content))]);
            store.push(&repository, &digest, None, body).await.unwrap();
            digests.push(digest);
        }
        let descriptor = |digest: &Digest| {
            json!({ "mediaType": "application/octet-stream", "digest": digest.to_string(), "size": 3 })
        };
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let document = json!({
            "schemaVersion": 2, "mediaType": media_type,
            "config": descriptor(&digests[0]), "layers": [descriptor(&digests[1])],
        });
        let bytes = Bytes::from(document.to_string());
        let manifest = Digest::of(Algorithm::Sha256, &bytes);
        let new = NewManifest {
            digest: manifest,
            bytes,
            media_type: media_type.to_owned(),
            closure: digests.clone(),
            subject: None,
            tags: Vec::new(),
        };
        store.put_manifest(&repository, new).await.unwrap();

        let pace = Pace::default();
        let report = scrub(&store, None, &pace).await.unwrap();
        assert!(report.is_whole(), "{report}");
        assert_eq!((report.n_blobs, report.n_manifests), (3, 1));
        assert_eq!(pace.read.load(Ordering::Relaxed), report.octets);

        // One bit, as a disk loses it.
        let path = store.layout().blob(&digests[1]);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"twn").unwrap();
        let report = scrub(&store, None, &pace).await.unwrap();
        assert!(!report.is_whole());
        assert_eq!(report.damaged, [digests[1]]);
        assert_eq!(report.missing, [(manifest, digests[1])]);
        assert!(!path.exists());
        let away = std::fs::read(store.layout().quarantined(&digests[1])).unwrap();
        assert_eq!(away, b"twn");
        assert_eq!(store.held(&digests[1]).await.unwrap(), None);

        // Pushed again, it is whole again.
        let body = tokio_stream::iter([Ok(Bytes::from_static(b"two"))]);
        store.push(&repository, &digests[1], None, body).await.unwrap();
        assert!(scrub(&store, None, &pace).await.unwrap().is_whole());
    });
}

#[test]
fn what_the_sweep_has_moved_or_deleted_meanwhile_is_put_away_from_the_trash_or_left() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let scratch = tempfile::tempdir().unwrap();
        let settings = Settings::new(scratch.path().join("store"), "master-0".parse().unwrap());
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let digest = Digest::of(Algorithm::Sha256, b"one");
        let layout = store.layout();
        std::fs::write(layout.trashed(&digest), b"oen").unwrap();
        assert!(store.quarantine(&digest, None).await.unwrap());
        assert!(layout.quarantined(&digest).exists());
        // Nobody takes it back from there.
        assert_eq!(store.held(&digest).await.unwrap(), None);
        assert!(!store.quarantine(&digest, None).await.unwrap());
    });
}
