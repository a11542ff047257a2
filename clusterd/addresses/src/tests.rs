use cluster::{Meta, Protocol, ServicePort, TargetPort};

use super::*;

fn pool(name: &str, ranges: &[&str]) -> Pool {
    Pool {
        name: name.to_owned(),
        ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        automatic: true,
        namespaces: Vec::new(),
        avoid_buggy: false,
    }
}

fn settings(pools: Vec<Pool>) -> Settings {
    Settings { pools, class: None }
}

/// A Service `ns/name` with port 80, made in the order of the names.
pub(crate) fn service(name: &str) -> Service {
    Service {
        meta: Meta {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            created: format!("2026-01-01T00:00:00Z{name}"),
            ..Meta::default()
        },
        kind: ServiceType::LoadBalancer,
        ip_families: vec![IpFamily::V4],
        ports: vec![port(Protocol::Tcp, 80)],
        ..Service::default()
    }
}

pub(crate) fn port(protocol: Protocol, port: u16) -> ServicePort {
    ServicePort {
        name: String::new(),
        protocol,
        port,
        target: TargetPort::Number(port),
        node_port: 0,
        app_protocol: String::new(),
    }
}

fn annotated(name: &str, annotations: &[(&str, &str)]) -> Service {
    let mut service = service(name);
    for (key, value) in annotations {
        let (key, value) = ((*key).to_owned(), (*value).to_owned());
        service.meta.annotations.insert(key, value);
    }
    service
}

pub(crate) fn with(mut service: Service, addresses: &[&str]) -> Service {
    service.ingress = addresses
        .iter()
        .map(|address| Ingress {
            ip: Some(address.parse().unwrap()),
            ..Ingress::default()
        })
        .collect();
    service
}

/// The addresses that each Service gets, then what is missing.
fn outcome(settings: &Settings, services: &[Service]) -> Vec<String> {
    let decisions = decide(settings, services);
    let each = services
        .iter()
        .map(|service| match decisions.get(&key(service)) {
            None => "-".to_owned(),
            Some(Decision::Cleared) => "cleared".to_owned(),
            Some(Decision::Has { given, missing }) => {
                let mut parts: Vec<String> = given
                    .iter()
                    .map(|given| given.address.to_string())
                    .collect();
                parts.extend(missing.iter().map(|refusal| format!("! {refusal}")));
                parts.join(" ")
            }
        });
    each.collect()
}

#[track_caller]
fn check(settings: &Settings, services: &[Service], expected: &[&str]) {
    assert_eq!(outcome(settings, services), expected);
}

#[test]
fn each_service_gets_one_address_until_none_is_left_and_the_oldest_waits_first() {
    let settings = settings(vec![pool("lan", &["192.0.2.1-192.0.2.2"])]);
    let all = ["a", "b", "c", "d"].map(service);
    let mut found = outcome(&settings, &all);
    let mut given = found.drain(..2).collect::<Vec<_>>();
    given.sort();
    assert_eq!(given, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(found, ["! no IPv4 address is left in lan"; 2]);
    // One is deleted: the older of both that wait gets its address, and no other moves.
    let [_, b, c, d] = all;
    let b = with(b, &["192.0.2.2"]);
    check(
        &settings,
        &[d, c, b],
        &["! no IPv4 address is left in lan", "192.0.2.1", "192.0.2.2"],
    );
}

#[test]
fn what_a_service_has_stays_while_it_is_valid() {
    let settings = settings(vec![
        pool("lan", &["192.0.2.1-192.0.2.99"]),
        Pool {
            automatic: false,
            ..pool("other", &["198.51.100.0/24"])
        },
    ]);
    // From a pool that it would not get one of, too.
    check(
        &settings,
        &[
            with(service("a"), &["192.0.2.77"]),
            with(service("b"), &["198.51.100.7"]),
        ],
        &["192.0.2.77", "198.51.100.7"],
    );
    // Two have one: the older one keeps it.
    let both = [
        with(service("b"), &["192.0.2.7"]),
        with(service("a"), &["192.0.2.7"]),
    ];
    let found = outcome(&settings, &both);
    assert_eq!(found[1], "192.0.2.7");
    assert_ne!(found[0], "192.0.2.7");
    // It asks for another pool: it moves as soon as that has room.
    let asks = with(
        annotated("a", &[("metallb.io/address-pool", "other")]),
        &["192.0.2.7"],
    );
    assert!(outcome(&settings, &[asks])[0].starts_with("198.51.100."));
    let asks = with(
        annotated("a", &[("metallb.io/address-pool", "none")]),
        &["192.0.2.7"],
    );
    check(
        &settings,
        &[asks],
        &["192.0.2.7 ! there is no pool \"none\""],
    );
}

/// A pool for all, and one for those that ask for it.
fn two_pools() -> Settings {
    settings(vec![
        pool("lan", &["192.0.2.1-192.0.2.9", "2001:db8::1-2001:db8::9"]),
        Pool {
            automatic: false,
            avoid_buggy: true,
            ..pool("quiet", &["198.51.100.0-198.51.100.255"])
        },
    ])
}

fn asking(address: &str) -> Service {
    Service {
        load_balancer_ip: address.to_owned(),
        ..service("a")
    }
}

#[test]
fn addresses_that_services_ask_for() {
    let settings = two_pools();
    let both = |annotations| Service {
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        ..annotated("a", annotations)
    };
    for (asks, expected) in [
        (asking("192.0.2.5"), "192.0.2.5"),
        (asking("198.51.100.5"), "198.51.100.5"),
        (
            asking("198.51.100.255"),
            "! 198.51.100.255 is in no pool that the Service may use",
        ),
        (
            asking("203.0.113.1"),
            "! 203.0.113.1 is in no pool that the Service may use",
        ),
        (
            asking("x"),
            "! spec.loadBalancerIP has \"x\", which is no IP address",
        ),
        (
            asking("2001:db8::5"),
            "! 2001:db8::5 is of no family of the Service (spec.ipFamilies)",
        ),
        (
            annotated("a", &[("metallb.io/loadBalancerIPs", "192.0.2.5")]),
            "192.0.2.5",
        ),
        (
            annotated("a", &[("metallb.universe.tf/loadBalancerIPs", "192.0.2.5")]),
            "192.0.2.5",
        ),
        (
            annotated("a", &[("kube-vip.io/loadbalancerIPs", "192.0.2.5")]),
            "192.0.2.5",
        ),
        (
            annotated("a", &[("lbipam.cilium.io/ips", "192.0.2.5")]),
            "192.0.2.5",
        ),
        (
            annotated(
                "a",
                &[("metallb.io/loadBalancerIPs", "192.0.2.5,192.0.2.6")],
            ),
            "! 192.0.2.5 and 192.0.2.6 are of one family",
        ),
        (
            both(&[("metallb.io/loadBalancerIPs", "192.0.2.5, 2001:db8::5")]),
            "2001:db8::5 192.0.2.5",
        ),
        (
            Service {
                load_balancer_ip: "192.0.2.6".to_owned(),
                ..annotated("a", &[("metallb.io/loadBalancerIPs", "192.0.2.5")])
            },
            "! metallb.io/loadBalancerIPs and spec.loadBalancerIP do not ask for the same",
        ),
    ] {
        check(&settings, &[asks], &[expected]);
    }
}

#[test]
fn an_address_of_another_is_not_given_away() {
    let settings = two_pools();
    // One that another has is not taken from it, also if it is younger; the address of the other works on.
    check(
        &settings,
        &[
            with(asking("192.0.2.5"), &["192.0.2.8"]),
            with(service("z"), &["192.0.2.5"]),
        ],
        &[
            "192.0.2.8 ! 192.0.2.5 is the address of ns/z, which does not share it",
            "192.0.2.5",
        ],
    );
    // Nor by writing it down as an external IP.
    let claims = Service {
        external_ips: vec!["192.0.2.5".parse().unwrap()],
        ..with(service("a"), &["192.0.2.1"])
    };
    check(
        &settings,
        &[claims, with(service("z"), &["192.0.2.5"])],
        &["192.0.2.1", "192.0.2.5"],
    );
}

#[test]
fn pools_are_for_namespaces_and_by_name() {
    let only = Pool {
        namespaces: vec!["ns".to_owned()],
        ..pool("only", &["192.0.2.1"])
    };
    let elsewhere = Pool {
        namespaces: vec!["shop".to_owned()],
        ..pool("shop", &["192.0.2.2"])
    };
    let group = pool("keepalivedgroup-workers", &["192.0.2.3"]);
    let settings = settings(vec![pool("all", &["192.0.2.4"]), only, elsewhere, group]);
    let in_pool = |name, pool| annotated(name, &[("metallb.universe.tf/address-pool", pool)]);
    let in_group = |name, group| annotated(name, &[(KEEPALIVED_GROUP, group)]);
    check(&settings, &[service("a")], &["192.0.2.1"]);
    check(&settings, &[in_pool("a", "all")], &["192.0.2.4"]);
    check(
        &settings,
        &[in_pool("a", "shop")],
        &["! pool \"shop\" is not for this namespace"],
    );
    // The objects of the keepalived operator: a group is a pool where there is one of its name.
    check(
        &settings,
        &[in_group("a", "keepalived-operator/keepalivedgroup-workers")],
        &["192.0.2.3"],
    );
    check(
        &settings,
        &[in_group("a", "keepalived-operator/others")],
        &["192.0.2.1"],
    );
}

#[test]
fn families_follow_the_policy() {
    let lan = vec![pool("lan", &["192.0.2.1-192.0.2.9"])];
    let four = settings(lan);
    let dual = settings(vec![
        pool("lan", &["192.0.2.1"]),
        pool("lan6", &["2001:db8::1"]),
    ]);
    let of = |policy: &str| Service {
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        ip_family_policy: policy.to_owned(),
        ..service("a")
    };
    for (settings, policy, expected) in [
        (&dual, "SingleStack", "2001:db8::1"),
        (&dual, "PreferDualStack", "2001:db8::1 192.0.2.1"),
        (&dual, "RequireDualStack", "2001:db8::1 192.0.2.1"),
        (
            &four,
            "RequireDualStack",
            "! no pool with IPv6 addresses may be used",
        ),
    ] {
        check(settings, &[of(policy)], &[expected]);
    }
    let found = outcome(&four, &[of("PreferDualStack")]);
    assert!(
        found[0].starts_with("192.0.2.") && found[0].ends_with("may be used"),
        "one at once, the other later: {found:?}"
    );
    // A manifest has no families: its cluster IP says, else the pools.
    let bare = Service {
        ip_families: Vec::new(),
        ..service("a")
    };
    let of_six = Service {
        cluster_ips: vec!["fd00::1".parse().unwrap()],
        ..bare.clone()
    };
    check(&dual, &[bare], &["192.0.2.1"]);
    check(&dual, &[of_six], &["2001:db8::1"]);
}

#[test]
fn services_share_an_address_by_key_ports_and_policy() {
    let settings = settings(vec![pool("lan", &["192.0.2.1-192.0.2.2"])]);
    let key = [("metallb.io/allow-shared-ip", "dns")];
    let tcp = |name| Service {
        ports: vec![port(Protocol::Tcp, 53)],
        ..annotated(name, &key)
    };
    let udp = |name| Service {
        ports: vec![port(Protocol::Udp, 53)],
        ..annotated(name, &key)
    };
    let found = outcome(&settings, &[tcp("a"), udp("b"), tcp("c")]);
    assert_eq!(found[0], found[1], "one address for both protocols");
    assert_ne!(found[0], found[2], "a port is there once");
    // Local needs the same nodes.
    let local = |service: Service, app: &str| Service {
        external_local: true,
        selector: [("app".to_owned(), app.to_owned())].into(),
        ..service
    };
    let found = outcome(&settings, &[local(tcp("a"), "x"), local(udp("b"), "x")]);
    assert_eq!(found[0], found[1]);
    let found = outcome(&settings, &[local(tcp("a"), "x"), local(udp("b"), "y")]);
    assert_ne!(found[0], found[1]);
    let found = outcome(&settings, &[local(tcp("a"), "x"), udp("b")]);
    assert_ne!(found[0], found[1]);
    // Cilium's key holds in a namespace, unless both admit the other's.
    let cilium = |name, namespace: &str, admits: &str| {
        let keys = [
            ("lbipam.cilium.io/sharing-key", "k"),
            ("lbipam.cilium.io/sharing-cross-namespace", admits),
        ];
        let mut service = annotated(name, &keys);
        namespace.clone_into(&mut service.meta.namespace);
        service
    };
    for (one, other, is_shared) in [
        ("", "", false),
        ("y", "", false),
        ("y", "x", true),
        ("*", "x", true),
    ] {
        let first = cilium("a", "x", one);
        let second = Service {
            ports: vec![port(Protocol::Tcp, 443)],
            ..cilium("b", "y", other)
        };
        let found = outcome(&settings, &[first, second]);
        assert_eq!(found[0] == found[1], is_shared, "{one} {other}: {found:?}");
    }
    // One without a key does not share, also if the other has one.
    let asks = Service {
        load_balancer_ip: "192.0.2.1".to_owned(),
        ports: vec![port(Protocol::Udp, 53)],
        ..annotated("b", &key)
    };
    check(
        &settings,
        &[with(service("a"), &["192.0.2.1"]), asks],
        &[
            "192.0.2.1",
            "! 192.0.2.1 is the address of ns/a, which does not share it",
        ],
    );
}

#[test]
fn what_another_load_balancer_serves_is_left_alone() {
    let of_class = |class: &str| Service {
        load_balancer_class: class.to_owned(),
        ..service("a")
    };
    let lan = settings(vec![pool("lan", &["192.0.2.1"])]);
    let own = Settings {
        class: Some("outpost".to_owned()),
        ..lan.clone()
    };
    check(&lan, &[of_class("other")], &["-"]);
    check(&own, &[of_class("outpost")], &["192.0.2.1"]);
    check(&own, &[service("a")], &["-"]);
    check(
        &lan,
        &[annotated("a", &[("kube-vip.io/ignore", "true")])],
        &["-"],
    );
    // An address that an operator wrote, or OpenShift.
    check(&lan, &[with(service("a"), &["203.0.113.1"])], &["-"]);
    // Addresses of the pools that others have are not given.
    check(
        &lan,
        &[with(of_class("other"), &["192.0.2.1"]), service("b")],
        &["-", "! no IPv4 address is left in lan"],
    );
    // A Service of another type gives back what it had.
    let former = Service {
        kind: ServiceType::ClusterIP,
        ..with(service("a"), &["192.0.2.1"])
    };
    check(
        &lan,
        &[former, service("b")],
        &["cleared", "! no IPv4 address is left in lan"],
    );
    let others = Service {
        kind: ServiceType::ClusterIP,
        ..with(service("a"), &["203.0.113.1"])
    };
    check(&lan, &[others], &["-"]);
}

#[test]
fn a_service_that_is_being_deleted_keeps_what_it_has_and_gets_nothing() {
    let lan = settings(vec![pool("lan", &["192.0.2.1-192.0.2.9"])]);
    let deleting = |service: Service| Service {
        meta: Meta {
            deleting: true,
            ..service.meta
        },
        ..service
    };
    check(
        &lan,
        &[
            deleting(with(service("a"), &["192.0.2.3"])),
            deleting(service("b")),
        ],
        &["192.0.2.3", ""],
    );
}

#[test]
fn pools_that_overlap_are_named() {
    let pools = [
        pool("a", &["192.0.2.1-192.0.2.9"]),
        pool("b", &["192.0.2.9-192.0.2.20"]),
        pool("c", &["192.0.2.21", "2001:db8::/64"]),
    ];
    let found: Vec<_> = overlaps(&pools).into_iter().collect();
    assert_eq!(found, [("a".to_owned(), "b".to_owned())]);
}
