//! Clocks that are wrong, disks that come back from a copy, and journals that are damaged.

use std::sync::atomic::{AtomicU64, Ordering};

use registry_cluster_core::clocks::Fault;
use registry_facts::record::Key;

use super::*;

const HOUR: u64 = 3_600_000;
const DAYS: u64 = 72 * HOUR;

/// The stamp of a tag, in milliseconds since 1970.
fn stamp_of(store: &Store, tag: &str) -> u64 {
    let key = Key::Tag {
        repository: repository(),
        tag: tag.parse().unwrap(),
    };
    let register = store.register(&key).unwrap().unwrap();
    register.stamp.milliseconds()
}

async fn shown_by(nodes: &[&Node], tag: &str, digest: Digest) {
    for node in nodes {
        until("the image arrives", async || {
            shown(&node.store, tag).await == Some(digest)
        })
        .await;
    }
}

async fn acknowledged(node: &Node, position: &Position) {
    let acknowledgement = node.cluster.acknowledge(position).await;
    assert_eq!(
        acknowledgement.outcome,
        Outcome::Enough,
        "{acknowledgement:?}"
    );
}

#[test]
fn what_a_clock_that_was_ahead_stated_is_taken_and_wins_nothing_later() {
    /// How far the first node's clock is ahead, in milliseconds.
    static AHEAD: AtomicU64 = AtomicU64::new(DAYS);
    let mut site = Site::new(3);
    site.wall = || wall_clock() + AHEAD.load(Ordering::Relaxed);
    // Before the time is synchronised, alone.
    let (digest, origin) = run(async {
        let first = site.start(0).await;
        let (digest, _) = push(&first.store, "v", &[octets(1, 10)]).await;
        assert!(stamp_of(&first.store, "v") > wall_clock() + DAYS - HOUR);
        first.store.close().await;
        (digest, first.store.origin())
    });
    AHEAD.store(0, Ordering::Relaxed);
    run(async {
        let first = site.start(0).await;
        site.wall = wall_clock;
        let (second, third) = (site.start(1).await, site.start(2).await);
        let nodes = [&first, &second, &third];
        connected(&nodes).await;
        shown_by(&nodes, "v", digest).await;
        until("the stamps ahead are left", async || {
            first.store.origin() != origin
        })
        .await;
        // The same tag at another node, and another tag at the node that was ahead.
        let (digest, position) = push(&second.store, "v", &[octets(2, 10)]).await;
        acknowledged(&second, &position).await;
        shown_by(&nodes, "v", digest).await;
        let (digest, position) = push(&first.store, "w", &[octets(3, 10)]).await;
        acknowledged(&first, &position).await;
        assert!(stamp_of(&first.store, "w") < wall_clock() + HOUR);
        shown_by(&nodes, "w", digest).await;
        same(&nodes).await;
        assert!(second.cluster.counters().future.get() > 0);
    });
}

#[test]
fn the_node_whose_clock_is_wrong_says_so_and_stamps_by_the_others() {
    for wrong in [
        || wall_clock() + DAYS,
        || wall_clock() - DAYS,
        || 86_400_000,
    ] {
        run(async {
            let mut site = Site::new(3);
            site.wall = wrong;
            let first = site.start(0).await;
            site.wall = wall_clock;
            let (second, third) = (site.start(1).await, site.start(2).await);
            let nodes = [&first, &second, &third];
            connected(&nodes).await;
            let is_ahead = wrong() > wall_clock();
            until("the clock is found out", async || {
                match first.cluster.clock_fault() {
                    Some(Fault::Ahead(_)) => is_ahead,
                    Some(Fault::Behind(_)) => !is_ahead,
                    Some(Fault::Apart(_)) | None => false,
                }
            })
            .await;
            for other in [&second, &third] {
                until("the others agree", async || {
                    other.cluster.clock_fault().is_none()
                })
                .await;
                let status = other.cluster.status();
                let first = status.peers.iter().find(|peer| peer.name == name(0));
                assert_eq!(first.unwrap().clock.map(|ahead| ahead > 0), Some(is_ahead));
            }
            let (digest, position) = push(&first.store, "v", &[octets(1, 10)]).await;
            acknowledged(&first, &position).await;
            let stamp = stamp_of(&first.store, "v");
            assert!(stamp.abs_diff(wall_clock()) < 2 * HOUR, "{stamp}");
            shown_by(&nodes, "v", digest).await;
            let (digest, position) = push(&second.store, "v", &[octets(2, 10)]).await;
            acknowledged(&second, &position).await;
            shown_by(&nodes, "v", digest).await;
            let (digest, position) = push(&first.store, "v", &[octets(3, 10)]).await;
            acknowledged(&first, &position).await;
            shown_by(&nodes, "v", digest).await;
            same(&nodes).await;
        });
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A node states, its disk is copied, it states more, and the copy is put back. Then it states again,
/// before or after it has met the other node.
#[test]
fn a_disk_that_comes_back_from_a_copy_loses_nothing_and_no_position_names_two_records() {
    for alone in [false, true] {
        let site = Site::new(2);
        let (root, old) = (site.root(0), site.directory.path().join("copy"));
        run(async {
            let first = site.start(0).await;
            push(&first.store, "a", &[octets(1, 10)]).await;
            first.store.close().await;
        });
        copy(&root, &old);
        let (b, position) = run(async {
            let (first, second) = (site.start(0).await, site.start(1).await);
            connected(&[&first, &second]).await;
            let (b, position) = push(&first.store, "b", &[octets(2, 10)]).await;
            acknowledged(&first, &position).await;
            for node in [first, second] {
                node.store.close().await;
            }
            (b, position)
        });
        std::fs::remove_dir_all(&root).unwrap();
        copy(&old, &root);
        let c = alone.then(|| {
            run(async {
                let first = site.start(0).await;
                let (c, restated) = push(&first.store, "c", &[octets(3, 10)]).await;
                assert_ne!(restated.origin, position.origin);
                first.store.close().await;
                c
            })
        });
        run(async {
            let (first, second) = (site.start(0).await, site.start(1).await);
            let nodes = [&first, &second];
            connected(&nodes).await;
            let c = match c {
                Some(c) => c,
                None => {
                    shown_by(&nodes, "b", b).await;
                    let (c, restated) = push(&first.store, "c", &[octets(3, 10)]).await;
                    assert_ne!(restated.origin, position.origin);
                    acknowledged(&first, &restated).await;
                    c
                }
            };
            shown_by(&nodes, "b", b).await;
            shown_by(&nodes, "c", c).await;
            same(&nodes).await;
        });
    }
}

#[test]
fn a_node_whose_journal_is_damaged_serves_at_once_and_keeps_its_content() {
    let site = Site::new(2);
    let layer = octets(1, 5000);
    let (digest, origin) = run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let (digest, position) = push(&first.store, "v", std::slice::from_ref(&layer)).await;
        acknowledged(&first, &position).await;
        for node in [&first, &second] {
            node.store.close().await;
        }
        (digest, first.store.origin())
    });
    // Every record is damaged.
    for directory in ["journal", "journal-copy"] {
        let segment = site.root(0).join(directory).join("00000001.log");
        let mut octets = std::fs::read(&segment).unwrap();
        octets.iter_mut().step_by(20).for_each(|octet| *octet ^= 1);
        std::fs::write(&segment, octets).unwrap();
    }
    run(async {
        let second = site.start(1).await;
        let first = site.start(0).await;
        assert_ne!(first.store.origin(), origin);
        // The content has kept its files.
        let blob = sha256(&layer);
        assert!(first.store.layout().blob(&blob).exists());
        assert_eq!(first.store.repositories_with(&blob), []);
        let reference = Reference::Tag("v".parse().unwrap());
        until("the tag is found", async || {
            let repository = repository();
            let found = first.cluster.find_manifest(&repository, &reference).await;
            found.is_some_and(|found| found.digest == digest)
        })
        .await;
        shown_by(&[&first], "v", digest).await;
        connected(&[&first, &second]).await;
        let (digest, position) = push(&first.store, "w", &[]).await;
        acknowledged(&first, &position).await;
        shown_by(&[&second], "w", digest).await;
        same(&[&first, &second]).await;
    });
}
