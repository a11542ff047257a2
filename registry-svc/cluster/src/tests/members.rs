//! Nodes that are forgotten, and come back.

use registry_facts::record::FILLING;

use super::*;

#[test]
fn a_forgotten_node_holds_nothing_up_and_begins_anew() {
    let site = Site::new(3);
    let image = run(async {
        let (first, second, third) = (
            site.start(0).await,
            site.start(1).await,
            site.start(2).await,
        );
        connected(&[&first, &second, &third]).await;
        let (image, _) = push(&first.store, "v1", &[octets(1, 5000)]).await;
        same(&[&first, &second, &third]).await;
        for node in [first, second, third] {
            node.store.close().await;
        }
        image
    });
    run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        until("two nodes meet", async || {
            let status = first.cluster.status();
            status.peers.iter().filter(|peer| peer.connected).count() == 1
        })
        .await;
        let deleted = first.store.delete_manifest(&repository(), &image).await;
        deleted.unwrap();
        assert!(!first.cluster.has_heard_all());
        assert!(first.cluster.forget_node(&name(2), false).await.unwrap());
        assert!(!first.cluster.forget_node(&name(2), false).await.unwrap());
        for node in [&first, &second] {
            until("nobody waits for it", async || node.cluster.has_heard_all()).await;
        }
        let third = site.start(2).await;
        assert_eq!(shown(&third.store, "v1").await, Some(image));
        until("it is refused", async || third.cluster.has_to_begin()).await;
        for node in [&first, &second] {
            assert_eq!(shown(&node.store, "v1").await, None);
        }
        for node in [first, second, third] {
            node.store.close().await;
        }
    });
    run(async {
        let (first, second, third) = (
            site.start(0).await,
            site.start(1).await,
            site.start(2).await,
        );
        connected(&[&first, &second, &third]).await;
        same(&[&first, &second, &third]).await;
        assert_eq!(shown(&third.store, "v1").await, None);
        let member = first.cluster.status().members;
        assert!(member.iter().all(|member| member.is_member), "{member:?}");
    });
}

#[test]
fn a_node_that_begins_takes_nothing_of_one_that_was_apart() {
    let site = Site::new(3);
    let image = run(async {
        let (first, second, third) = (
            site.start(0).await,
            site.start(1).await,
            site.start(2).await,
        );
        connected(&[&first, &second, &third]).await;
        let (image, _) = push(&first.store, "v1", &[octets(1, 5000)]).await;
        same(&[&first, &second, &third]).await;
        until("it is noted that it has caught up", async || {
            first.store.noted().together > FILLING
        })
        .await;
        for node in [first, second, third] {
            node.store.close().await;
        }
        image
    });
    // The first one was apart for years, and the third one loses its disk.
    let mark = site.root(0).join("members");
    let text = std::fs::read_to_string(&mark).unwrap();
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some(("together", _)) => format!("together {}\n", FILLING + 1),
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    std::fs::write(&mark, text).unwrap();
    std::fs::remove_dir_all(site.root(2)).unwrap();
    run(async {
        let (first, third) = (site.start(0).await, site.start(2).await);
        until("the one that begins declines", async || {
            let status = third.cluster.status();
            let mut peers = status.peers.iter();
            peers.any(|peer| peer.name == name(0) && peer.error.contains("takes nothing yet"))
        })
        .await;
        assert_eq!(shown(&third.store, "v1").await, None);
        // A majority that has all of it.
        let second = site.start(1).await;
        same(&[&first, &second, &third]).await;
        assert_eq!(shown(&third.store, "v1").await, Some(image));
        for node in [first, second, third] {
            node.store.close().await;
        }
    });
}
