use cluster::{Freshness, Kind, Meta, Node, NodeAddress, Object};
use config::nodes::ClusterNodes;
use random::Random;

use super::*;
use crate::{MASTER_LABELS, Why};

#[expect(clippy::disallowed_methods, reason = "any moment will do")]
fn moment() -> Instant {
    Instant::now()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A master with these addresses.
fn node(name: &str, addresses: &[&str]) -> Node {
    let address = |address: &&str| NodeAddress {
        kind: "InternalIP".to_owned(),
        address: (*address).to_owned(),
    };
    Node {
        meta: Meta {
            name: name.to_owned(),
            labels: [(MASTER_LABELS[0].to_owned(), String::new())].into(),
            ..Meta::default()
        },
        addresses: addresses.iter().map(address).collect(),
        ..Node::default()
    }
}

fn current(nodes: impl IntoIterator<Item = Node>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for node in nodes {
        snapshot.put(Object::Node(node));
    }
    snapshot.set_freshness(Kind::Node, Freshness::Current);
    snapshot
}

fn bounds(networks: &[&str]) -> Bounds {
    Bounds {
        nodes: vec![ClusterNodes::Masters],
        networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
        excluded: BTreeSet::new(),
    }
}

const NETWORKS: [&str; 2] = ["192.168.7.0/24", "2001:db8::/64"];

/// m0 in both families, m1 in IPv4 alone.
fn written() -> Vec<Written> {
    let one = |(name, address): (&str, &str)| Written {
        name: name.to_owned(),
        address: ip(address),
    };
    [
        ("m0", "192.168.7.13"),
        ("m0", "2001:db8::13"),
        ("m1", "192.168.7.14"),
    ]
    .map(one)
    .into()
}

fn words(list: &NodeList) -> String {
    let word = |listed: Listed| format!("{}={}", listed.number, listed.member.address);
    let words: Vec<String> = list.members().into_iter().map(word).collect();
    words.join(" ")
}

#[test]
fn a_node_joins_with_an_address_of_each_family_and_one_number() {
    let mut list = NodeList::new(written(), &bounds(&NETWORKS));
    assert_eq!(words(&list), "0=192.168.7.13 0=2001:db8::13 1=192.168.7.14");
    let joined = [
        node("m7", &["192.168.7.20", "2001:db8::20"]),
        node("m5", &["192.168.7.18"]),
    ];
    list.observe(&current(joined), moment());
    let all =
        "0=192.168.7.13 0=2001:db8::13 1=192.168.7.14 2=192.168.7.18 3=192.168.7.20 3=2001:db8::20";
    assert_eq!(words(&list), all);
    assert_eq!(list.refused(), [], "m5 has joined, if only in IPv4");
}

#[test]
fn a_number_stays_when_others_join_and_leave_and_is_given_again() {
    let now = moment();
    let mut list = NodeList::new(written(), &bounds(&NETWORKS[..1]));
    let (five, six, seven) = (
        node("m5", &["192.168.7.18"]),
        node("m6", &["192.168.7.19"]),
        node("m7", &["192.168.7.20"]),
    );
    list.observe(&current([seven.clone()]), now);
    assert!(
        words(&list).ends_with(" 2=192.168.7.20"),
        "{}",
        words(&list)
    );
    list.observe(&current([five.clone(), seven.clone()]), now);
    assert!(words(&list).ends_with(" 2=192.168.7.20 3=192.168.7.18"));
    list.observe(&current([five.clone()]), now);
    assert!(words(&list).ends_with(" 1=192.168.7.14 3=192.168.7.18"));
    list.observe(&current([five, six]), now);
    assert!(words(&list).ends_with(" 2=192.168.7.19 3=192.168.7.18"));
}

#[test]
fn what_was_kept_joins_again_before_clusterd_is_there() {
    let mut before = NodeList::new(written(), &bounds(&NETWORKS));
    let nodes = [
        node("m7", &["192.168.7.20", "2001:db8::20"]),
        node("m5", &["192.168.7.18"]),
    ];
    before.observe(&current([nodes[0].clone()]), moment());
    before.observe(&current(nodes), moment());
    let mut after = NodeList::new(written(), &bounds(&NETWORKS));
    after.restore(before.kept());
    assert_eq!(words(&after), words(&before));
    // Neither a clusterd that has read nothing nor one that is away takes them.
    after.observe(&Snapshot::default(), moment());
    after.lose_sight();
    assert_eq!(words(&after), words(&before));
    // What the site does not allow any more does not come back.
    let mut narrow = NodeList::new(written(), &bounds(&["10.0.0.0/8"]));
    narrow.restore(before.kept());
    assert_eq!(
        words(&narrow),
        "0=192.168.7.13 0=2001:db8::13 1=192.168.7.14"
    );
}

#[test]
fn a_node_with_no_address_that_may_join_is_refused_once() {
    let mut list = NodeList::new(written(), &bounds(&NETWORKS));
    list.observe(&current([node("m9", &["10.0.0.9"])]), moment());
    let refused = list.refused();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].why, Why::Outside);
}

#[test]
fn whatever_the_cluster_says_no_written_member_leaves_and_no_number_is_held_twice() {
    for seed in 0..256_u64 {
        let mut random = Random::new(u128::from(seed).to_be_bytes());
        let mut below = |n: u64| random.bits() % n;
        let mut list = NodeList::new(written(), &bounds(&NETWORKS));
        let mut now = moment();
        for step in 0..40 {
            let nodes = (0..below(9)).map(|_| {
                let last = 13 + below(12);
                let mut one = node(
                    &format!("m{}", below(12)),
                    &[&format!("192.168.7.{last}"), &format!("2001:db8::{last}")],
                );
                one.unschedulable = below(3) == 0;
                one
            });
            let nodes: Vec<Node> = nodes.collect();
            list.observe(&current(nodes), now);
            now += std::time::Duration::from_secs(below(400));
            list.tick(now);
            if below(5) == 0 {
                let kept = list.kept();
                list = NodeList::new(written(), &bounds(&NETWORKS));
                list.restore(kept);
            }
            let members = list.members();
            for one in written() {
                let mut addresses = members.iter().map(|it| it.member.address);
                assert!(
                    addresses.any(|it| it == one.address),
                    "seed {seed}, step {step}"
                );
            }
            let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
            for one in &members {
                let owner = owners.entry(one.number).or_insert(&one.member.name);
                assert_eq!(*owner, one.member.name, "seed {seed}, step {step}");
            }
            for is_ipv4 in [true, false] {
                let mut of_family = members
                    .iter()
                    .filter(|it| it.member.address.is_ipv4() == is_ipv4);
                assert!(
                    of_family.any(|it| !it.member.drains),
                    "seed {seed}, step {step}"
                );
            }
        }
    }
}
