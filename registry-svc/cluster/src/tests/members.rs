//! Nodes that are forgotten, and come back.

use std::sync::atomic::{AtomicU64, Ordering};

use registry_facts::record::FILLING;

use super::sweeping::swept;
use super::*;

/// Three nodes of a site, connected.
async fn started(site: &Site) -> [Node; 3] {
    let (first, second, third) = (
        site.start(0).await,
        site.start(1).await,
        site.start(2).await,
    );
    connected(&[&first, &second, &third]).await;
    [first, second, third]
}

#[test]
fn a_forgotten_node_holds_nothing_up_and_begins_anew() {
    let site = Site::new(3);
    let image = run(async {
        let [first, second, third] = started(&site).await;
        let (image, _) = push(&first.store, "v1", &[octets(1, 5000)]).await;
        same(&[&first, &second, &third]).await;
        for node in [first, second, third] {
            node.store.close().await;
        }
        image
    });
    let layer = sha256(&octets(1, 5000));
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
        first.store.forget(&layer);
        until("the layer waits in the trash", async || {
            swept(&first, Duration::ZERO).await.waiting.n > 0
        })
        .await;
        assert_eq!(first.store.repositories_with(&layer), [repository()]);
        assert!(first.cluster.forget_node(&name(2), false).await.unwrap());
        assert!(!first.cluster.forget_node(&name(2), false).await.unwrap());
        for node in [&first, &second] {
            until("nobody waits for it", async || node.cluster.has_heard_all()).await;
            node.store.forget(&layer);
            until("the layer is deleted", async || {
                swept(node, Duration::ZERO).await;
                let layout = node.store.layout();
                !layout.blob(&layer).exists() && !layout.trashed(&layer).exists()
            })
            .await;
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
        let [first, second, third] = started(&site).await;
        same(&[&first, &second, &third]).await;
        assert_eq!(shown(&third.store, "v1").await, None);
        let member = first.cluster.status().members;
        assert!(member.iter().all(|member| member.is_member), "{member:?}");
    });
}

#[test]
fn most_nodes_forget_one_that_is_away_for_as_long_as_deletions_are_remembered() {
    /// How far all clocks have gone on, in milliseconds.
    static LATER: AtomicU64 = AtomicU64::new(0);
    const DAY: u64 = 24 * 3_600_000;
    let mut site = Site::new(3);
    site.wall = || wall_clock() + LATER.load(Ordering::Relaxed);
    run(async {
        let [first, second, third] = started(&site).await;
        until("all are noted", async || {
            first.store.noted().seen.len() == 2 && second.store.noted().seen.len() == 2
        })
        .await;
        for node in [first, second, third] {
            node.store.close().await;
        }
    });
    let forgotten = |node: &Node| {
        let members = node.cluster.status().members;
        let third = members.into_iter().find(|member| member.name == name(2));
        !third.unwrap().is_member
    };
    LATER.store(29 * DAY, Ordering::Relaxed);
    run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        until("they see each other", async || {
            first.store.noted().seen[&name(1)] > wall_clock() + 28 * DAY
        })
        .await;
        assert!(!forgotten(&first) && !forgotten(&second));
        assert!(!first.cluster.has_heard_all());
        second.store.close().await;
        first.store.close().await;
    });
    LATER.store(31 * DAY, Ordering::Relaxed);
    run(async {
        let first = site.start(0).await;
        until("it looks for the others", async || {
            let status = first.cluster.status();
            status.peers.iter().all(|peer| !peer.error.is_empty())
        })
        .await;
        assert!(!forgotten(&first), "alone it forgets nobody");
        let second = site.start(1).await;
        for node in [&first, &second] {
            until("it is forgotten", async || {
                forgotten(node) && node.cluster.has_heard_all()
            })
            .await;
        }
    });
}

#[test]
fn a_node_that_begins_takes_nothing_of_one_that_was_apart() {
    let site = Site::new(3);
    let image = run(async {
        let [first, second, third] = started(&site).await;
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
