use cluster_members::CONFIRM;
use daemon::config::Document;
use proto::cluster::{Freshness, Kind, Meta, Node, NodeAddress, Object};
use proto::health::AdminState;

use super::*;

const FOLLOWS: &str = r#"
[cluster]
networks = ["192.0.2.0/24"]
[[vip]]
name = "api"
addresses = ["192.0.2.100/24"]
interface = "eth0"
router-id = 7
[[frontend]]
name = "api"
listen = ["127.0.0.1:1"]
backend = "api"
[[backend]]
name = "api"
slow-start = "10s"
max-connections = 9
check = { kind = "tcp", port = 6444 }
follow = { nodes = ["masters"], port = 6443 }
[[backend.server]]
name = "a"
address = "192.0.2.1:6443"
[[backend.server]]
name = "b"
address = "192.0.2.2:6443"
[[backend]]
name = "other"
[[backend.server]]
name = "a"
address = "192.0.2.1:80"
"#;

fn config(text: &str) -> Config {
    let document = Document::inline("x", format!("version = \"v1\"\n{text}"));
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problem(text: &str) -> String {
    let document = Document::inline("x", format!("version = \"v1\"\n{text}"));
    Config::from_document(&document).unwrap_err().to_string()
}

/// Masters at 192.0.2.LAST; those in the second list are cordoned.
fn snapshot(ready: &[u8], cordoned: &[u8]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let all = ready.iter().map(|last| (last, false));
    for (last, unschedulable) in all.chain(cordoned.iter().map(|last| (last, true))) {
        let labels = [("node-role.kubernetes.io/master".to_owned(), String::new())];
        snapshot.put(Object::Node(Node {
            meta: Meta {
                name: format!("n{last}"),
                labels: labels.into(),
                ..Meta::default()
            },
            addresses: vec![NodeAddress {
                kind: "InternalIP".to_owned(),
                address: format!("192.0.2.{last}"),
            }],
            unschedulable,
            ..Node::default()
        }));
    }
    snapshot.set_freshness(Kind::Node, Freshness::Current);
    snapshot
}

/// The servers of the first backend, with their origins and states.
fn servers(members: &Members) -> Vec<String> {
    let config = members.config();
    let servers = config.backends[0].servers.iter();
    servers
        .map(|server| {
            let origin = match server.origin {
                None => "-",
                Some(Origin::Written) => "written",
                Some(Origin::Learned) => "learned",
                Some(Origin::Both) => "both",
                Some(Origin::Resolved) => "resolved",
            };
            let drains = match server.admin_state() {
                AdminState::Drain => " drains",
                AdminState::Ready | AdminState::Maintenance => "",
            };
            format!("{} {} {origin}{drains}", server.name, server.address)
        })
        .collect()
}

#[test]
fn a_node_that_joins_is_a_server_as_the_others_are() {
    let now = clock::now();
    let mut members = Members::new(config(FOLLOWS));
    members.observe(&snapshot(&[1, 3], &[]), now);
    assert_eq!(
        servers(&members),
        [
            "a 192.0.2.1:6443 both",
            "b 192.0.2.2:6443 written",
            "n3 192.0.2.3:6443 learned"
        ]
    );
    let config = members.config();
    let [written, _, joined] = config.backends[0].servers.as_slice() else {
        panic!("{:?}", config.backends[0]);
    };
    assert_eq!(joined.weight, written.weight);
    assert_eq!(
        (joined.max_connections, joined.slow_start),
        (Some(9), Duration::from_secs(10))
    );
    let target = joined.target.as_ref().unwrap().target.address;
    assert_eq!(target, ([192, 0, 2, 3], 6444).into());
    assert_eq!(config.targets().len(), 4, "{:?}", config.targets());
    // A backend that follows nothing has what is written.
    assert_eq!(config.backends[1].servers.len(), 1);
    assert_eq!(config.backends[1].servers[0].origin, None);
    members.observe(&snapshot(&[1], &[]), now);
    assert_eq!(servers(&members).len(), 2);
}

#[test]
fn a_cordoned_node_takes_no_new_connections_unless_it_is_the_last() {
    let now = clock::now();
    let mut members = Members::new(config(FOLLOWS));
    members.observe(&snapshot(&[1, 3], &[2]), now);
    assert_eq!(
        servers(&members),
        [
            "a 192.0.2.1:6443 both",
            "b 192.0.2.2:6443 both drains",
            "n3 192.0.2.3:6443 learned"
        ]
    );
    let mut all = Members::new(config(FOLLOWS));
    all.observe(&snapshot(&[], &[1, 2]), now);
    assert!(servers(&all).iter().all(|one| !one.ends_with("drains")));
}

#[test]
fn a_loss_that_waits_does_not_count_while_clusterd_is_away() {
    let now = clock::now();
    let mut members = Members::new(config(FOLLOWS));
    members.observe(&snapshot(&[1, 3, 4, 5, 6, 7], &[]), now);
    members.observe(&snapshot(&[1], &[]), now);
    assert_eq!(
        servers(&members).len(),
        7,
        "five of seven are a loss that waits"
    );
    assert_eq!(members.deadline(), Some(now + CONFIRM));
    assert_eq!(members.followed(now)[0].held.as_ref().unwrap().of, 7);
    members.lose_sight();
    assert_eq!(members.deadline(), None);
    members.tick(now + CONFIRM * 2);
    assert_eq!(servers(&members).len(), 7);
    // clusterd is back, and says the same: it has to last again.
    let back = now + CONFIRM * 2;
    members.observe(&snapshot(&[1], &[]), back);
    members.tick(back + CONFIRM / 2);
    assert_eq!(servers(&members).len(), 7);
    members.tick(back + CONFIRM);
    assert_eq!(servers(&members).len(), 2);
}

#[test]
fn a_reload_keeps_the_nodes_that_it_allows() {
    let now = clock::now();
    let mut members = Members::new(config(FOLLOWS));
    members.observe(&snapshot(&[3, 4, 100], &[]), now);
    assert_eq!(servers(&members).len(), 4);
    let refused = &members.followed(now)[0].refused;
    assert_eq!(
        (refused.len(), refused[0].why.as_str()),
        (1, "192.0.2.100 is a virtual IP")
    );
    let other = FOLLOWS.replace("\"192.0.2.2:6443\"", "\"192.0.2.3:6443\"");
    members.adopt(config(&other));
    assert_eq!(
        servers(&members),
        [
            "a 192.0.2.1:6443 written",
            "b 192.0.2.3:6443 both",
            "n4 192.0.2.4:6443 learned"
        ]
    );
    let none = FOLLOWS.replace("follow = { nodes = [\"masters\"], port = 6443 }\n", "");
    members.adopt(config(&none));
    assert_eq!(servers(&members).len(), 2);
    assert!(members.followed(now).is_empty());
}

#[test]
fn connections_from_an_address_lead_to_its_family_alone() {
    let text = FOLLOWS
        .replace("[\"192.0.2.0/24\"]", "[\"2001:db8::/64\"]")
        .replace("slow-start", "source-address = \"192.0.2.13\"\nslow-start");
    let config = config(&text);
    let follow = config.file.backend[0].follow.as_ref().unwrap();
    assert_eq!(bounds(&config, &config.backends[0], follow).networks, []);
}

#[test]
fn a_backend_that_no_node_can_join_is_refused() {
    let no_cluster = FOLLOWS.replace("[cluster]\nnetworks = [\"192.0.2.0/24\"]\n", "");
    for (text, said) in [
        (no_cluster, "it needs the table `[cluster]`"),
        (
            FOLLOWS.replace("[\"192.0.2.0/24\"]", "[]"),
            "no node may join: `networks` of `[cluster]` is empty",
        ),
        (
            FOLLOWS.replace("[\"masters\"]", "[]"),
            "no nodes are followed",
        ),
    ] {
        let problem = problem(&text);
        assert!(problem.contains(said), "{problem}");
    }
}
