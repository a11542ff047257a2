//! What sweeps take away among nodes, and what they must not.

use config::DurationWithin;
use registry_store::sweep::{Mode as SweepMode, Report, Settings as Sweep, sweep};

use super::*;

/// What nobody needs goes to the trash at once, and stays there for so long.
pub(super) async fn swept(node: &Node, trash: Duration) -> Report {
    let settings = Sweep {
        grace: DurationWithin::clamped(Duration::ZERO),
        trash: DurationWithin::clamped(trash),
        ..Sweep::default()
    };
    let swept = sweep(
        &node.store,
        Some(&node.cluster),
        &settings,
        SweepMode::Sweep,
    )
    .await;
    swept.unwrap()
}

/// Pushes an image, takes it to the other node and deletes it there; returns its layer, which both
/// hold and nobody refers to.
async fn garbage(nodes: [&Node; 2]) -> Digest {
    let layer = octets(1, 5000);
    let (digest, _) = push(&nodes[0].store, "v1", std::slice::from_ref(&layer)).await;
    until("the image arrives", async || {
        shown(&nodes[1].store, "v1").await == Some(digest)
    })
    .await;
    let deleted = nodes[1].store.delete_manifest(&repository(), &digest).await;
    deleted.unwrap();
    same(&nodes).await;
    let layer = sha256(&layer);
    for node in nodes {
        // As hours later.
        node.store.forget(&layer);
    }
    layer
}

#[test]
fn what_nobody_refers_to_goes_although_the_nodes_compare_what_they_have() {
    const HOUR: Duration = Duration::from_hours(1);
    run(async {
        let site = Site::new(2);
        let (first, second) = (site.start(0).await, site.start(1).await);
        let nodes = [&first, &second];
        connected(&nodes).await;
        let layer = garbage(nodes).await;
        same(&nodes).await;
        for node in nodes {
            let trashed = node.store.layout().trashed(&layer);
            let report = swept(node, HOUR).await;
            assert!(trashed.exists(), "{report}");
        }
        same(&nodes).await;
        for node in nodes {
            let layout = node.store.layout();
            assert!(!layout.blob(&layer).exists());
            assert!(layout.trashed(&layer).exists());
        }
        for node in nodes {
            until("the trash is emptied", async || {
                swept(node, Duration::ZERO).await;
                !node.store.layout().trashed(&layer).exists()
            })
            .await;
        }
        same(&nodes).await;
        for node in nodes {
            assert!(!node.store.layout().blob(&layer).exists());
            assert_eq!(node.store.repositories_with(&layer), []);
        }
    });
}

/// Two nodes leave garbage and end; then the second one, alone, takes an image of its layer. Gives the
/// layer, the image, and a moment between the two. Each time in a runtime of its own, which ends with
/// all that had the stores open.
fn referred_to_apart(site: &Site) -> (Digest, Digest, Hlc) {
    let layer = run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let layer = garbage([&first, &second]).await;
        until("all is heard", async || first.cluster.has_heard_all()).await;
        for node in [first, second] {
            node.store.close().await;
        }
        layer
    });
    std::thread::sleep(Duration::from_millis(5));
    let between = Hlc::at(wall_clock());
    std::thread::sleep(Duration::from_millis(5));
    let digest = run(async {
        let second = site.start(1).await;
        let (digest, _) = push(&second.store, "v2", &[octets(1, 5000)]).await;
        second.store.close().await;
        digest
    });
    (layer, digest, between)
}

async fn both_show(site: &Site, first: Node, digest: Digest) {
    let second = site.start(1).await;
    same(&[&first, &second]).await;
    for node in [&first, &second] {
        assert_eq!(shown(&node.store, "v2").await, Some(digest));
    }
}

#[test]
fn nothing_is_taken_from_repositories_while_another_node_is_not_heard() {
    let site = Site::new(2);
    let (layer, digest, _) = referred_to_apart(&site);
    run(async {
        let first = site.start(0).await;
        assert!(!first.cluster.has_heard_all());
        until("the layer goes to the trash", async || {
            swept(&first, Duration::ZERO).await;
            first.store.layout().trashed(&layer).exists()
        })
        .await;
        let report = swept(&first, Duration::ZERO).await;
        assert!(report.waiting.n >= 1, "{report}");
        assert!(report.to_string().contains("kept until all other nodes"));
        assert_eq!(first.store.repositories_with(&layer), [repository()]);
        both_show(&site, first, digest).await;
    });
}

#[test]
fn a_manifest_that_the_sweep_had_not_heard_of_stays_whole_on_all_nodes() {
    let site = Site::new(2);
    let (layer, digest, between) = referred_to_apart(&site);
    run(async {
        // What a sweep does that has heard everything but this, which is on its way.
        let first = site.start(0).await;
        let unlinked = first.store.unlink_everywhere(&layer, between).await;
        assert!(unlinked.unwrap());
        std::fs::remove_file(first.store.layout().blob(&layer)).unwrap();
        assert_eq!(first.store.repositories_with(&layer), []);
        both_show(&site, first, digest).await;
    });
}

#[test]
fn a_link_that_a_manifest_needs_is_stated_anew_by_the_sweep() {
    run(async {
        let site = Site::new(2);
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let layer = octets(1, 5000);
        let (digest, _) = push(&first.store, "v1", std::slice::from_ref(&layer)).await;
        same(&[&first, &second]).await;
        let layer = sha256(&layer);
        // As by the sweep of a node that comes back after weeks.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let as_of = Hlc::last_before(wall_clock());
        let unlinked = first.store.unlink_everywhere(&layer, as_of).await;
        assert!(unlinked.unwrap());
        same(&[&first, &second]).await;
        assert_eq!(second.store.repositories_with(&layer), []);
        let report = swept(&second, Duration::ZERO).await;
        assert_eq!(report.n_restated, 1, "{report}");
        same(&[&first, &second]).await;
        for node in [&first, &second] {
            assert_eq!(shown(&node.store, "v1").await, Some(digest));
        }
        assert_eq!(swept(&second, Duration::ZERO).await.n_restated, 0);
    });
}

#[test]
fn a_blob_that_was_deleted_of_a_repository_stays_deleted_although_a_manifest_names_it() {
    run(async {
        let site = Site::new(2);
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let layer = octets(1, 5000);
        push(&first.store, "v1", std::slice::from_ref(&layer)).await;
        same(&[&first, &second]).await;
        let layer = sha256(&layer);
        first.store.unlink(&repository(), &layer).await.unwrap();
        same(&[&first, &second]).await;
        for node in [&first, &second] {
            let report = swept(node, Duration::ZERO).await;
            assert_eq!(report.n_restated, 0, "{report}");
        }
        same(&[&first, &second]).await;
        for node in [&first, &second] {
            assert_eq!(node.store.repositories_with(&layer), []);
        }
    });
}
