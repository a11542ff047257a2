//! The members, told stories of a cluster.

use cluster::{AddressType, Endpoint, EndpointSlice, Meta, NodeAddress};
use random::Random;

use super::*;

#[expect(clippy::disallowed_methods, reason = "any moment will do")]
fn moment() -> Instant {
    Instant::now()
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 168, 7, last])
}

/// A master at 192.168.7.LAST.
fn node(last: u8) -> Node {
    Node {
        meta: Meta {
            name: format!("n{last}"),
            labels: [(MASTER_LABELS[0].to_owned(), String::new())].into(),
            ..Meta::default()
        },
        addresses: vec![
            NodeAddress {
                kind: "Hostname".to_owned(),
                address: format!("n{last}"),
            },
            NodeAddress {
                kind: "InternalIP".to_owned(),
                address: ip(last).to_string(),
            },
        ],
        ..Node::default()
    }
}

fn cordoned(last: u8) -> Node {
    Node {
        unschedulable: true,
        ..node(last)
    }
}

fn snapshot(freshness: Freshness, nodes: impl IntoIterator<Item = Node>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for node in nodes {
        snapshot.put(Object::Node(node));
    }
    snapshot.set_freshness(Kind::Node, freshness);
    snapshot
}

fn current(nodes: impl IntoIterator<Item = Node>) -> Snapshot {
    snapshot(Freshness::Current, nodes)
}

/// Written: m13, m14, m15 at .13, .14, .15; the site has 192.168.7.0/24, and .100 is a virtual IP.
fn membership() -> Membership {
    let written = [13, 14, 15].map(|last| Written {
        name: format!("m{last}"),
        address: ip(last),
    });
    Membership::new(written.into(), bounds())
}

fn bounds() -> Bounds {
    Bounds {
        nodes: vec![ClusterNodes::Masters],
        networks: vec!["192.168.7.0/24".parse().unwrap()],
        excluded: [ip(100)].into(),
    }
}

/// `13+` is written and a node, `13` written alone, `+16` learned; `!` drains.
fn words(membership: &Membership) -> String {
    let members = membership.members().into_iter();
    let word = |member: Member| {
        let text = member.address.to_string();
        let last = text.rsplit('.').next().unwrap();
        let drains = if member.drains { "!" } else { "" };
        match member.origin {
            Origin::Written => format!("{last}{drains}"),
            Origin::Learned => format!("+{last}{drains}"),
            Origin::Both => format!("{last}+{drains}"),
        }
    };
    members.map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn nodes_join_and_leave_beside_what_is_written() {
    let now = moment();
    let mut membership = membership();
    assert_eq!(words(&membership), "13 14 15");
    membership.observe(&current([node(13), node(14), node(16)]), now);
    assert_eq!(words(&membership), "13+ 14+ 15 +16");
    membership.observe(&current([node(13), cordoned(14), node(16)]), now);
    assert_eq!(words(&membership), "13+ 14+! 15 +16");
    membership.observe(&current([node(13), node(14)]), now);
    assert_eq!(words(&membership), "13+ 14+ 15");
    // A cluster without nodes takes no written one away.
    membership.observe(&current([]), now);
    assert_eq!(words(&membership), "13 14 15");
}

#[test]
fn workers_and_nodes_that_turn_unready_change_nothing() {
    let now = moment();
    let mut membership = membership();
    let mut worker = node(20);
    worker.meta.labels.clear();
    let mut unready = node(16);
    unready.ready = cluster::Ready::Unknown;
    membership.observe(&current([worker, unready]), now);
    assert_eq!(words(&membership), "13 14 15 +16");
    assert_eq!(membership.refused(), []);
    for label in MASTER_LABELS {
        let mut old = node(17);
        old.meta.labels = [(label.to_owned(), "true".to_owned())].into();
        membership.observe(&current([old]), now);
        assert_eq!(words(&membership), "13 14 15 +17", "{label}");
    }
}

/// A node with these labels at 192.168.7.LAST.
fn labelled(last: u8, labels: &[&str]) -> Node {
    let mut node = node(last);
    let labels = labels
        .iter()
        .map(|label| ((*label).to_owned(), String::new()));
    node.meta.labels = labels.collect();
    node
}

fn following(nodes: &[ClusterNodes]) -> Membership {
    let bounds = Bounds {
        nodes: nodes.to_vec(),
        ..bounds()
    };
    Membership::new(Vec::new(), bounds)
}

#[test]
fn workers_have_their_label_or_no_role() {
    let now = moment();
    let nodes = || {
        current([
            node(13),
            labelled(14, &[MASTER_LABELS[1], WORKER_LABEL]),
            labelled(20, &[WORKER_LABEL]),
            labelled(21, &["kubernetes.io/os"]),
            labelled(22, &["node-role.kubernetes.io/infra"]),
            labelled(23, &[WORKER_LABEL, REMOTE_LABEL]),
        ])
    };
    let mut workers = following(&[ClusterNodes::Workers]);
    workers.observe(&nodes(), now);
    assert_eq!(words(&workers), "+14 +20 +21");
    let mut both = following(&[ClusterNodes::Masters, ClusterNodes::Workers]);
    both.observe(&nodes(), now);
    assert_eq!(words(&both), "+13 +14 +20 +21");
}

#[test]
fn the_ingress_has_the_nodes_on_which_a_router_is_ready() {
    let now = moment();
    let router = |last: u8, ready| Endpoint {
        addresses: vec![ip(last)],
        ready,
        node: format!("n{last}"),
        ..Endpoint::default()
    };
    let slice = |namespace: &str, service: &str, endpoints| EndpointSlice {
        meta: Meta {
            namespace: namespace.to_owned(),
            name: format!("{service}-abc"),
            ..Meta::default()
        },
        service: service.to_owned(),
        address_type: AddressType::IPv4,
        endpoints,
        ports: Vec::new(),
    };
    let with = |freshness, endpoints: Vec<Endpoint>| {
        let mut snapshot = current([20, 21, 22].map(|last| labelled(last, &[WORKER_LABEL])));
        let routers = slice("openshift-ingress", "router-internal-default", endpoints);
        snapshot.put(Object::EndpointSlice(routers));
        let other = slice("shop", "router-internal-default", vec![router(22, true)]);
        snapshot.put(Object::EndpointSlice(other));
        snapshot.set_freshness(Kind::EndpointSlice, freshness);
        snapshot
    };
    let mut ingress = following(&[ClusterNodes::Ingress]);
    let both = vec![router(20, true), router(21, true)];
    ingress.observe(&with(Freshness::Current, both), now);
    assert_eq!(words(&ingress), "+20 +21");
    // Endpoints from before the start of clusterd take none away.
    ingress.observe(&with(Freshness::Old, vec![router(22, true)]), now);
    assert_eq!(words(&ingress), "+20 +21 +22");
    let one = vec![router(20, true), router(21, false), router(22, true)];
    ingress.observe(&with(Freshness::Current, one), now);
    assert_eq!(words(&ingress), "+20 +22");
}

#[test]
fn a_loss_does_not_count_while_clusterd_is_away() {
    let now = moment();
    let mut membership = following(&[ClusterNodes::Masters]);
    membership.observe(&current([13, 14, 15].map(node)), now);
    membership.observe(&current([node(13)]), now);
    membership.lose_sight();
    assert_eq!(membership.deadline(), None);
    membership.tick(now + CONFIRM);
    assert_eq!(words(&membership), "+13 +14 +15");
    membership.observe(&current([node(13)]), now + CONFIRM);
    assert_eq!(membership.deadline(), Some(now + CONFIRM + CONFIRM));
}

#[test]
fn only_what_the_site_allows_joins() {
    let now = moment();
    let mut membership = membership();
    let at = |last: u8, address: &str| {
        let mut node = node(last);
        node.addresses[1].address = address.to_owned();
        node
    };
    let mut nameless = node(21);
    nameless.addresses.truncate(1);
    let mut thief = node(22);
    thief.meta.name = "m13".to_owned();
    let nodes = [
        at(16, "192.168.8.16"),
        at(17, "192.168.7.100"),
        at(18, "192.168.7.14"),
        at(19, "192.168.7.14"),
        at(20, "no address"),
        nameless,
        thief,
    ];
    membership.observe(&current(nodes), now);
    assert_eq!(words(&membership), "13 14+ 15");
    let refused: Vec<String> = membership
        .refused()
        .iter()
        .map(|one| format!("{}: {}", one.node, one.why))
        .collect();
    assert_eq!(
        refused,
        [
            "m13: the configuration has 192.168.7.13 under its name",
            "n16: none of its addresses is in a network of the site",
            "n17: 192.168.7.100 is a virtual IP",
            "n19: 192.168.7.14 is the address of another node",
            "n20: it has no internal address",
            "n21: it has no internal address",
        ]
    );
    let many = (0..u8::try_from(MOST_LEARNED).unwrap() + 3).map(|n| node(150 + n));
    membership.observe(&current(many), now);
    assert_eq!(membership.members().len(), 3 + MOST_LEARNED);
    assert_eq!(membership.refused().len(), 3);
    assert_eq!(membership.refused()[0].why, Why::TooMany);
}

#[test]
fn the_last_member_keeps_its_connections() {
    let now = moment();
    let mut membership = membership();
    let all = |n_cordoned: usize| {
        let nodes = [13, 14, 15].into_iter().enumerate();
        current(nodes.map(|(index, last)| match index < n_cordoned {
            true => cordoned(last),
            false => node(last),
        }))
    };
    for (n, expected) in [
        (1, "13+! 14+ 15+"),
        (2, "13+! 14+! 15+"),
        (3, "13+ 14+ 15+"),
        (2, "13+! 14+! 15+"),
    ] {
        membership.observe(&all(n), now);
        // From three that serve to one of them is a loss that waits.
        if membership.held().is_some() {
            assert_eq!(n, 2);
            membership.tick(now + CONFIRM);
        }
        assert_eq!(words(&membership), expected, "{n} cordoned");
    }
}

#[test]
fn the_loss_of_more_than_half_waits_until_it_has_lasted() {
    let now = moment();
    let mut membership = Membership::new(Vec::new(), bounds());
    let nodes = || [13, 14, 15, 16].map(node);
    membership.observe(&current(nodes()), now);
    let later = |seconds| now + Duration::from_secs(seconds);
    membership.observe(&current([node(13)]), later(10));
    assert_eq!(words(&membership), "+13 +14 +15 +16");
    let held = membership.held().unwrap();
    assert_eq!((held.losses.len(), held.of), (3, 4));
    assert_eq!(membership.deadline(), Some(later(10) + CONFIRM));
    // One that joins meanwhile is there at once, and the wait does not begin again.
    membership.observe(&current([node(13), node(17)]), later(20));
    assert_eq!(words(&membership), "+13 +14 +15 +16 +17");
    assert_eq!(membership.deadline(), Some(later(10) + CONFIRM));
    // They are back: it was no loss.
    membership.observe(&current(nodes()), later(30));
    assert_eq!(
        (words(&membership).as_str(), membership.held()),
        ("+13 +14 +15 +16", None)
    );
    membership.observe(&current([]), later(40));
    membership.tick(later(39) + CONFIRM);
    assert_eq!(words(&membership), "+13 +14 +15 +16");
    membership.tick(later(40) + CONFIRM);
    assert_eq!(
        (words(&membership).as_str(), membership.deadline()),
        ("", None)
    );
    // A snapshot from before the start of clusterd confirms no loss.
    membership.observe(&current(nodes()), later(45));
    membership.observe(&current([]), later(46));
    membership.observe(&snapshot(Freshness::Old, []), later(47));
    membership.tick(later(46) + CONFIRM);
    assert_eq!(words(&membership), "+13 +14 +15 +16");
    // Half of them is no mass.
    membership.observe(&current(nodes()), later(50));
    membership.observe(&current([node(13), node(14)]), later(60));
    assert_eq!(words(&membership), "+13 +14");
}

#[test]
fn an_old_snapshot_takes_nothing_away() {
    let now = moment();
    let mut membership = membership();
    membership.observe(&snapshot(Freshness::Old, [node(13), cordoned(16)]), now);
    assert_eq!(words(&membership), "13+ 14 15 +16!");
    for freshness in [Freshness::Old, Freshness::Unread] {
        membership.observe(&snapshot(freshness, []), now);
        assert_eq!(words(&membership), "13+ 14 15 +16!", "{freshness}");
    }
    membership.observe(&current([]), now);
    assert_eq!(words(&membership), "13 14 15");
}

#[test]
fn another_configuration_keeps_what_it_allows() {
    let now = moment();
    let mut membership = membership();
    membership.observe(&current([node(13), node(16), node(17), node(18)]), now);
    let written = [16].map(|last| Written {
        name: "sixteen".to_owned(),
        address: ip(last),
    });
    let bounds = Bounds {
        excluded: [ip(17)].into(),
        ..bounds()
    };
    membership.adopt(written.into(), bounds);
    assert_eq!(words(&membership), "16+ +18");
    membership.observe(&current([node(13), node(16), node(17), node(18)]), now);
    assert_eq!(words(&membership), "16+ +13 +18");
}

#[test]
fn whatever_a_cluster_says_half_of_the_members_stay() {
    for seed in 0..=u8::MAX {
        let mut random = Random::new([seed; 16]);
        let mut below = |most: u64| random.bits() % most;
        let mut now = moment();
        let mut membership = membership();
        for step in 0..200 {
            let before = membership.serving(&membership.picture);
            let was_due = membership.deadline();
            now += Duration::from_secs(below(120));
            let nodes: Vec<Node> = (10..20)
                .filter_map(|last| match below(4) {
                    0 => None,
                    1 => Some(cordoned(last)),
                    _ => Some(node(last)),
                })
                .collect();
            let nodes = match below(8) {
                0 => Vec::new(),
                _ => nodes,
            };
            let freshness = match below(8) {
                0 => Freshness::Old,
                1 => Freshness::Unread,
                _ => Freshness::Current,
            };
            membership.observe(&snapshot(freshness, nodes), now);
            let after = membership.serving(&membership.picture);
            let lost = before.difference(&after).count();
            let is_confirmed = was_due.is_some_and(|due| due <= now);
            assert!(
                lost * 2 <= before.len() || is_confirmed,
                "seed {seed} step {step}: {lost} of {}",
                before.len()
            );
            let members = membership.members();
            for last in [13, 14, 15] {
                assert!(members.iter().any(|one| one.address == ip(last)));
            }
            assert!(
                members.iter().any(|one| !one.drains),
                "seed {seed} step {step}"
            );
            let addresses: BTreeSet<IpAddr> = members.iter().map(|one| one.address).collect();
            assert_eq!(addresses.len(), members.len(), "seed {seed} step {step}");
            membership.tick(now);
        }
    }
}
