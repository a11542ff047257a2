use cluster::{Meta, Node, NodeAddress, Object, Snapshot};
use cluster_members::MASTER_LABELS;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 168, 7, last])
}

/// A list `api` of m13 and m14, which masters of 192.168.7.0/24 join.
fn settings(state: Option<&Path>) -> Settings {
    let written = [13, 14].map(|last| Written {
        name: format!("m{last}"),
        address: ip(last),
    });
    Settings {
        // There is no clusterd.
        socket: "/nonexistent/clusterd.sock".into(),
        networks: vec!["192.168.7.0/24".parse().unwrap()],
        excluded: [ip(100)].into(),
        state: state.map(Path::to_owned),
        lists: vec![ListSettings {
            name: "api".to_owned(),
            nodes: vec![ClusterNodes::Masters],
            written: written.into(),
        }],
    }
}

fn snapshot(lasts: &[u8]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for last in lasts {
        snapshot.put(Object::Node(Node {
            meta: Meta {
                name: format!("m{last}"),
                labels: [(MASTER_LABELS[0].to_owned(), String::new())].into(),
                ..Meta::default()
            },
            addresses: vec![NodeAddress {
                kind: "InternalIP".to_owned(),
                address: ip(*last).to_string(),
            }],
            ..Node::default()
        }));
    }
    snapshot.set_freshness(Kind::Node, Freshness::Current);
    snapshot
}

fn observe(follower: &Follower, lasts: &[u8]) {
    let snapshot = snapshot(lasts);
    follower.shared.change(|state| {
        state.is_read = true;
        for list in state.lists.values_mut() {
            list.observe(&snapshot, clock::now());
        }
    });
}

fn addresses(follower: &Follower) -> Vec<IpAddr> {
    let lists = follower.lists().current();
    let members = lists.members("api").unwrap_or_default().iter();
    members.map(|listed| listed.member.address).collect()
}

#[tokio::test]
async fn the_lists_are_there_at_once_and_follow_the_configuration() {
    let follower = Follower::start("test", Some(settings(None)));
    assert_eq!(addresses(&follower), [ip(13), ip(14)]);
    observe(&follower, &[13, 16]);
    assert_eq!(addresses(&follower), [ip(13), ip(14), ip(16)]);
    let mut narrow = settings(None);
    narrow.lists[0].written.pop();
    follower.configure(Some(narrow.clone()));
    assert_eq!(addresses(&follower), [ip(13), ip(16)]);
    narrow.networks.clear();
    follower.configure(Some(narrow));
    assert_eq!(addresses(&follower), [ip(13)]);
    follower.configure(None);
    assert_eq!(follower.lists().current().members("api"), None);
}

#[tokio::test]
async fn nodes_that_had_joined_outlive_a_start_without_clusterd() {
    let place = tempfile::tempdir().unwrap();
    let follower = Follower::start("test", Some(settings(Some(place.path()))));
    observe(&follower, &[13, 16]);
    follower.configure(Some(settings(Some(place.path()))));
    let file = place.path().join("state");
    for _ in 0..2000 {
        let written = std::fs::read(&file).unwrap_or_default();
        if written.windows(4).any(|part| part == b".16\"") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    drop(follower);
    let again = Follower::start("test", Some(settings(Some(place.path()))));
    assert_eq!(addresses(&again), [ip(13), ip(14), ip(16)]);
    let mut text = String::new();
    let nodes = api::cluster_nodes::Nodes {
        connected: false,
        error: String::new(),
        age_seconds: None,
        generation: 0,
        saved: again.lists().current().is_saved,
        lists: view::lists(&again.lists().current(), clock::now()),
    };
    view::write(&mut text, &nodes, "").unwrap();
    assert!(
        text.contains("    m16 192.168.7.16  learned, from the disk\n"),
        "{text}"
    );
    assert!(text.contains("    m13 192.168.7.13  written\n"), "{text}");
    drop(again);
    // A file that was damaged takes nothing that is written.
    std::fs::write(&file, b"outpost").unwrap();
    let third = Follower::start("test", Some(settings(Some(place.path()))));
    assert_eq!(addresses(&third), [ip(13), ip(14)]);
}
