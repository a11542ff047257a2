//! Content that this node does not have yet, and clients ask for.

use registry_store::disk::faulty::{End, Faults, FaultyDisk};

use super::*;

#[test]
fn what_is_not_applied_here_is_read_through_from_a_peer() {
    run(async {
        let site = Site::new(2);
        let first = site.start(0).await;
        let (layer, lost) = (octets(7, 9 << 20), octets(8, 100));
        let (digest, _) = push(&first.store, "v1", &[layer.clone(), lost.clone()]).await;
        // The image waits at the second node for a layer that no node has.
        let lost = sha256(&lost);
        std::fs::remove_file(first.store.layout().blob(&lost)).unwrap();
        first.store.forget(&lost);
        let second = site.start(1).await;
        connected(&[&first, &second]).await;
        let tag: Tag = "v1".parse().unwrap();

        let reference = Reference::Tag(tag.clone());
        until("the tag is found", async || {
            second
                .cluster
                .find_manifest(&repository(), &reference)
                .await
                .is_some()
        })
        .await;
        assert_eq!(
            shown(&second.store, "v1").await,
            None,
            "an image was taken without a layer"
        );
        let remote = second
            .cluster
            .find_manifest(&repository(), &reference)
            .await
            .unwrap();
        assert_eq!(
            (remote.digest, remote.media_type.as_str()),
            (digest, manifest::OCI_IMAGE)
        );
        let bytes = second.cluster.manifest(&remote).await.unwrap();
        assert_eq!(sha256(&bytes), digest);

        let blob = sha256(&layer);
        let remote = Remote {
            digest: blob,
            size: layer.len() as u64,
            media_type: String::new(),
            node: name(0),
        };
        // Several clients at once, whole and in part.
        let size = remote.size;
        let (whole, again, tail) = tokio::join!(
            read(&second.cluster, &remote, 0..size),
            read(&second.cluster, &remote, 0..size),
            read(&second.cluster, &remote, size - 1000..size),
        );
        assert_eq!(whole.unwrap(), layer);
        assert_eq!(again.unwrap(), layer);
        assert_eq!(tail.unwrap(), layer.slice(layer.len() - 1000..));
        assert_eq!(second.store.held(&blob).await.unwrap(), Some(size));
        let nothing = "nothing".parse().unwrap();
        assert_eq!(
            second.cluster.find_blob(&nothing, &blob).await,
            None,
            "of another repository"
        );

        let differences = second.cluster.diff("node-0").await.unwrap();
        let lines = compare::lines(&differences);
        assert!(
            lines.contains(&format!("+ tag ocp4/release:v1 {digest}\n")),
            "{lines}"
        );
        assert!(matches!(
            second.cluster.diff("node-9").await,
            Err(compare::CompareError::NoPeer(_))
        ));
    });
}

#[test]
fn a_copy_that_is_wrong_is_never_served_whole_and_never_stored() {
    run(async {
        let site = Site::new(3);
        let first = site.start(0).await;
        let layer = octets(9, 2 << 20);
        let blob = push_blob(&first.store, &repository(), &layer).await;
        let path = first.store.layout().blob(&blob);
        let mut wrong = layer.to_vec();
        wrong[1 << 20] ^= 1;
        // Files of blobs are not writable.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &wrong).unwrap();
        let second = site.start(1).await;
        until("the peer is followed", async || {
            second
                .cluster
                .status()
                .peers
                .iter()
                .any(|peer| peer.connected)
        })
        .await;
        let remote = Remote {
            digest: blob,
            size: layer.len() as u64,
            media_type: String::new(),
            node: name(0),
        };
        let mut body = second.cluster.open(&remote, 0..remote.size).await;
        let mut n_octets = 0;
        let mut failed = false;
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => n_octets += piece.len(),
                Err(_) => failed = true,
            }
        }
        assert!(failed && n_octets < layer.len(), "{n_octets} octets");
        assert_eq!(second.store.held(&blob).await.unwrap(), None);
        // A good copy elsewhere repairs it.
        let third = site.start(2).await;
        push_blob(&third.store, &repository(), &layer).await;
        until("a good copy is taken", async || {
            second.store.held(&blob).await.unwrap().is_some()
        })
        .await;
    });
}

#[test]
fn a_node_that_can_store_nothing_passes_on_what_a_peer_has() {
    run(async {
        let site = Site::new(2);
        let first = site.start(0).await;
        let layer = octets(3, 3 << 20);
        let blob = push_blob(&first.store, &repository(), &layer).await;
        let open = async |disk: &FaultyDisk| {
            let mut settings = StoreSettings::new("/store".into(), name(1));
            settings.index = IndexKind::Memory;
            let opened = Store::open(settings, Arc::new(disk.clone())).await;
            opened.unwrap().0
        };
        let disk = FaultyDisk::new(1);
        open(&disk).await.close().await;
        let read_only = Faults {
            read_only: true,
            ..Faults::default()
        };
        let store = open(&disk.next_life(End::Kill, read_only)).await;
        let mut settings = alone(&name(1));
        settings.peers.push(PeerSettings {
            name: name(0),
            address: site.addresses[0].to_string().parse().unwrap(),
        });
        let cluster = Cluster::start(settings, store.clone()).unwrap();
        let remote = cluster.find_blob(&repository(), &blob).await.unwrap();
        let size = remote.size;
        for part in [0..size, size - 1000..size, 5..1_000_000] {
            let wanted = usize::try_from(part.start).unwrap()..usize::try_from(part.end).unwrap();
            let content = read(&cluster, &remote, part.clone()).await.unwrap();
            assert!(content == layer[wanted], "{part:?}");
        }
        assert_eq!(store.held(&blob).await.unwrap(), None);
        // The peer's disk changes it: the client gets no whole blob.
        let path = first.store.layout().blob(&blob);
        let mut wrong = layer.to_vec();
        wrong[1 << 20] ^= 1;
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &wrong).unwrap();
        assert!(read(&cluster, &remote, 0..size).await.is_err());
    });
}
