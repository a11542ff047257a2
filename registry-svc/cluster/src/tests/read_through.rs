//! Content that this node does not have yet, and clients ask for.

use super::*;

#[test]
fn what_is_not_applied_here_is_read_through_from_a_peer() {
    run(async {
        let mut site = Site::new(2);
        // What comes from the first node's clock is refused, so its content stays away.
        site.wall = ahead;
        let first = site.start(0).await;
        site.wall = wall_clock;
        let second = site.start(1).await;
        connected(&[&first, &second]).await;
        let layer = octets(7, 9 << 20);
        let (digest, _) = push(&first.store, "v1", std::slice::from_ref(&layer)).await;
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
            "a stamp from the future was taken"
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
        let mut site = Site::new(3);
        site.wall = ahead;
        let first = site.start(0).await;
        site.wall = wall_clock;
        let second = site.start(1).await;
        let layer = octets(9, 2 << 20);
        let blob = push_blob(&first.store, &layer).await;
        let path = first.store.layout().blob(&blob);
        let mut wrong = layer.to_vec();
        wrong[1 << 20] ^= 1;
        // Files of blobs are not writable.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &wrong).unwrap();
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
        push_blob(&third.store, &layer).await;
        until("a good copy is taken", async || {
            second.store.held(&blob).await.unwrap().is_some()
        })
        .await;
    });
}
