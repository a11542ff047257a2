use daemon::config::Document;
use proto::cluster::{AddressType, Endpoint, EndpointPort, Ingress, Meta, NodeAddress, TargetPort};

use super::*;

const POOL: &str = r#"
[cluster]
networks = ["192.0.2.0/24"]
[[pool]]
name = "lan"
addresses = ["198.51.100.1-198.51.100.200"]
interface = "eth0"
peers = ["192.0.2.2"]
cluster = "FORWARD"
[[vip]]
name = "api"
addresses = ["198.51.100.9"]
interface = "eth0"
router-id = 3
[[frontend]]
name = "web"
listen = ["198.51.100.7:80"]
backend = "web"
[[backend]]
name = "web"
"#;

fn config(forward: &str) -> Config {
    let text = POOL.replace("FORWARD", forward);
    let document = Document::inline("x", format!("version = \"v1\"\n{text}"));
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}"))
}

fn meta(name: &str) -> Meta {
    Meta {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        ..Meta::default()
    }
}

fn service(name: &str, address: &str, ports: &[(KubernetesProtocol, u16)]) -> Service {
    let ports = ports.iter().map(|(protocol, port)| ServicePort {
        name: format!("p{port}"),
        protocol: *protocol,
        port: *port,
        target: TargetPort::Number(8000 + *port),
        node_port: 30000 + *port,
        app_protocol: String::new(),
    });
    Service {
        meta: meta(name),
        kind: ServiceType::LoadBalancer,
        ports: ports.collect(),
        ingress: vec![Ingress {
            ip: Some(address.parse().unwrap()),
            ..Ingress::default()
        }],
        ..Service::default()
    }
}

const TCP: KubernetesProtocol = KubernetesProtocol::Tcp;
const UDP: KubernetesProtocol = KubernetesProtocol::Udp;

/// Endpoints of a Service, each with its node and its state: `r` is ready, `t` is terminating and serving, an empty one is neither.
fn slice(service: &Service, endpoints: &[(&str, &str, &str)]) -> Object {
    let endpoints = endpoints.iter().map(|(address, node, state)| Endpoint {
        addresses: vec![address.parse().unwrap()],
        ready: *state == "r",
        serving: !state.is_empty(),
        terminating: *state == "t",
        node: (*node).to_owned(),
        ..Endpoint::default()
    });
    let ports = service.ports.iter().map(|port| EndpointPort {
        name: port.name.clone(),
        protocol: port.protocol,
        port: 8000 + port.port,
        app_protocol: String::new(),
    });
    Object::EndpointSlice(EndpointSlice {
        meta: meta(&format!("{}-x", service.meta.name)),
        service: service.meta.name.clone(),
        address_type: AddressType::IPv4,
        endpoints: endpoints.collect(),
        ports: ports.collect(),
    })
}

fn node(name: &str, address: &str) -> Object {
    Object::Node(node_of(name, address))
}

fn node_of(name: &str, address: &str) -> Node {
    Node {
        meta: Meta {
            name: name.to_owned(),
            ..Meta::default()
        },
        addresses: vec![NodeAddress {
            kind: "InternalIP".to_owned(),
            address: address.to_owned(),
        }],
        ..Node::default()
    }
}

fn snapshot(objects: impl IntoIterator<Item = Object>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for object in [node("n1", "192.0.2.1"), node("n2", "192.0.2.2")] {
        snapshot.put(object);
    }
    for object in objects {
        snapshot.put(object);
    }
    for kind in Kind::ALL {
        snapshot.set_freshness(kind, Freshness::Current);
    }
    snapshot
}

fn of(service: Service) -> Object {
    Object::Service(Box::new(service))
}

/// Each backend with its servers, each frontend with its places, each address with its number and what it needs.
fn shown(learned: &Learned) -> Vec<String> {
    let mut lines = Vec::new();
    for backend in &learned.backends {
        let servers = backend.servers.iter().map(|server| {
            let target = server.target.as_ref();
            let target = target.map_or_else(String::new, |target| format!(" ({target})"));
            let drains = if server.is_cordoned { " drains" } else { "" };
            format!("{}{target}{drains}", server.address)
        });
        let servers = servers.collect::<Vec<_>>().join(", ");
        lines.push(format!("{} -> {servers}", backend.name));
    }
    for frontend in &learned.frontends {
        lines.push(format!("{} at {:?}", frontend.name, frontend.listen));
    }
    for vip in &learned.vips {
        let needs = vip.priority.tracked.iter().map(|tracked| {
            let must = tracked.effect == Effect::Required;
            format!("{}{}", if must { "" } else { "?" }, tracked.name)
        });
        let needs = needs.collect::<Vec<_>>().join(" ");
        lines.push(format!(
            "{} {} {needs}",
            vip.router.name, vip.router.router_id
        ));
    }
    for (service, why) in &learned.refused {
        lines.push(format!("! {service}: {why}"));
    }
    lines
}

#[track_caller]
fn check(forward: &str, objects: Vec<Object>, expected: &[&str]) {
    let learned = learn(&config(forward), &snapshot(objects), "n1");
    assert_eq!(shown(&learned), expected);
}

#[test]
fn traffic_goes_to_the_endpoints_of_each_port() {
    let web = service("web", "198.51.100.5", &[(TCP, 80), (UDP, 53)]);
    let endpoints = [
        ("10.0.0.1", "n1", "r"),
        ("10.0.0.2", "n2", "r"),
        ("10.0.0.3", "n2", ""),
    ];
    check(
        "endpoints",
        vec![slice(&web, &endpoints), of(web)],
        &[
            "shop/web:80 -> 10.0.0.1:8080 (tcp 10.0.0.1:8080), 10.0.0.2:8080 (tcp 10.0.0.2:8080)",
            "shop/web:53/udp -> 10.0.0.1:8053, 10.0.0.2:8053",
            "shop/web:80 at [198.51.100.5:80]",
            "shop/web:53/udp at [198.51.100.5:53]",
            "address:198.51.100.5 5 backend:shop/web:80 backend:shop/web:53/udp",
        ],
    );
}

#[test]
fn endpoints_that_end_serve_when_none_is_ready() {
    let web = service("web", "198.51.100.5", &[(TCP, 80)]);
    let learned = |endpoints: &[(&str, &str, &str)]| {
        let objects = [slice(&web, endpoints), of(web.clone())];
        shown(&learn(&config("endpoints"), &snapshot(objects), "n1")).swap_remove(0)
    };
    assert_eq!(
        learned(&[("10.0.0.1", "n1", "t"), ("10.0.0.2", "n1", "r")]),
        "shop/web:80 -> 10.0.0.2:8080 (tcp 10.0.0.2:8080)"
    );
    assert_eq!(
        learned(&[("10.0.0.1", "n1", "t"), ("10.0.0.2", "n1", "")]),
        "shop/web:80 -> 10.0.0.1:8080 (tcp 10.0.0.1:8080)"
    );
}

#[test]
fn local_traffic_needs_an_endpoint_of_this_node() {
    let web = Service {
        external_local: true,
        health_check_node_port: 32000,
        ..service("web", "198.51.100.5", &[(TCP, 80)])
    };
    let here = slice(&web, &[("10.0.0.1", "n1", "r"), ("10.0.0.2", "n2", "r")]);
    let there = slice(&web, &[("10.0.0.2", "n2", "r")]);
    for (forward, slice, backend) in [
        (
            "endpoints",
            &here,
            "shop/web:80 -> 10.0.0.1:8080 (tcp 10.0.0.1:8080)",
        ),
        ("endpoints", &there, "shop/web:80 -> "),
        (
            "node-ports",
            &here,
            "shop/web:80 -> 192.0.2.1:30080 (http 192.0.2.1:32000/healthz)",
        ),
        ("node-ports", &there, "shop/web:80 -> "),
        (
            "kube-proxy",
            &here,
            "shop/web:80 -> 192.0.2.1:80 (http 192.0.2.1:32000/healthz)",
        ),
        ("kube-proxy", &there, "shop/web:80 -> "),
    ] {
        let objects = [slice.clone(), of(web.clone())];
        let learned = learn(&config(forward), &snapshot(objects), "n1");
        let lines = shown(&learned);
        assert_eq!(lines[0], backend, "{forward}");
        let held = "address:198.51.100.5 5 backend:shop/web:80";
        assert_eq!(lines.last().unwrap(), held, "{forward}");
        let listens = !learned.frontends.is_empty();
        assert_eq!(listens, forward != "kube-proxy");
    }
}

#[test]
fn node_ports_are_those_of_nodes_that_stay() {
    let web = service("web", "198.51.100.5", &[(TCP, 80)]);
    let far = node("n3", "203.0.113.3");
    let cordoned = Object::Node(Node {
        unschedulable: true,
        ..node_of("n2", "192.0.2.2")
    });
    check(
        "node-ports",
        vec![far.clone(), cordoned, of(web.clone())],
        &[
            "shop/web:80 -> 192.0.2.1:30080 (tcp 192.0.2.1:30080), 192.0.2.2:30080 (tcp 192.0.2.2:30080) drains",
            "shop/web:80 at [198.51.100.5:80]",
            "address:198.51.100.5 5 backend:shop/web:80",
        ],
    );
    let without = Service {
        ports: vec![ServicePort {
            node_port: 0,
            ..web.ports[0].clone()
        }],
        ..web
    };
    check(
        "node-ports",
        vec![of(without)],
        &["! shop/web: port 80 has no node port"],
    );
}

#[test]
fn services_share_an_address_and_a_place_is_one_service_s() {
    let web = service("a", "198.51.100.5", &[(TCP, 80)]);
    let mail = service("b", "198.51.100.5", &[(TCP, 25)]);
    let again = service("c", "198.51.100.5", &[(TCP, 80)]);
    check(
        "endpoints",
        vec![of(web), of(mail), of(again)],
        &[
            "shop/a:80 -> ",
            "shop/b:25 -> ",
            "shop/a:80 at [198.51.100.5:80]",
            "shop/b:25 at [198.51.100.5:25]",
            "address:198.51.100.5 5 ?backend:shop/a:80 ?backend:shop/b:25",
            "! shop/c: port 80 is in use",
        ],
    );
}

#[test]
fn what_is_in_the_file_stays_there() {
    check(
        "endpoints",
        vec![
            of(service("a", "198.51.100.9", &[(TCP, 80)])),
            of(service("b", "198.51.100.7", &[(TCP, 80)])),
            of(service("c", "203.0.113.1", &[(TCP, 80)])),
        ],
        &[
            "! shop/a: 198.51.100.9 is in the configuration already",
            "! shop/b: port 80 is in use",
        ],
    );
}

#[test]
fn clients_and_affinity_follow_the_service() {
    let with = |change: &dyn Fn(&mut Service)| {
        let mut web = service("a", "198.51.100.5", &[(TCP, 80)]);
        change(&mut web);
        learn(&config("endpoints"), &snapshot([of(web)]), "n1")
    };
    let plain = with(&|_| {});
    assert_eq!(plain.backends[0].algorithm, Algorithm::RoundRobin);
    assert!(plain.frontends[0].sources.allow.is_none());
    let sticky = with(&|web| web.client_affinity = true);
    assert_eq!(sticky.backends[0].algorithm, Algorithm::Source);
    let ranged = with(&|web| web.source_ranges = vec!["10.0.0.0/8".to_owned()]);
    let sources = &ranged.frontends[0].sources;
    assert!(sources.admit("10.1.1.1".parse().unwrap()));
    assert!(!sources.admit("11.1.1.1".parse().unwrap()));
    let key = SOURCE_RANGES.to_owned();
    let annotated = with(&|web| {
        let value = "10.0.0.0/8, 2001:db8::/32".to_owned();
        web.meta.annotations.insert(key.clone(), value);
    });
    let sources = &annotated.frontends[0].sources;
    assert!(!sources.admit("11.1.1.1".parse().unwrap()));
    let wrong = with(&|web| web.source_ranges = vec!["10.0.0.0/99".to_owned()]);
    assert!(
        wrong.frontends.is_empty() && wrong.vips.is_empty(),
        "no client is let in by mistake"
    );
    assert!(wrong.refused[0].1.contains("10.0.0.0/99"));
}

#[test]
fn the_objects_of_the_keepalived_operator_are_served() {
    let mut web = service("demo", "198.51.100.5", &[(TCP, 80)]);
    let group = "keepalived-operator/keepalivedgroup-workers".to_owned();
    web.external_ips = vec![
        "198.51.100.6".parse().unwrap(),
        "198.51.100.5".parse().unwrap(),
    ];
    let held = |web: &Service| {
        let learned = learn(&config("kube-proxy"), &snapshot([of(web.clone())]), "n1");
        let vips = learned.vips.iter();
        vips.map(|vip| vip.router.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(held(&web), ["address:198.51.100.5"]);
    web.meta
        .annotations
        .insert(KEEPALIVED_GROUP.to_owned(), group);
    assert_eq!(held(&web), ["address:198.51.100.5", "address:198.51.100.6"]);
}

#[test]
fn numbers_of_virtual_routers_do_not_depend_on_other_services() {
    let ip = |last: u8| IpAddr::from([198, 51, 100, last]);
    let ids = |wanted: &[(IpAddr, u128)]| router_ids(wanted, &BTreeSet::from([3]));
    let alone = ids(&[(ip(5), 4)]);
    let among = ids(&[(ip(1), 0), (ip(3), 2), (ip(5), 4), (ip(6), 5)]);
    assert_eq!(alone[&ip(5)], 5);
    assert_eq!(among[&ip(5)], 5);
    assert_eq!(among[&ip(1)], 1);
    assert!(![1, 3, 5, 6].contains(&among[&ip(3)]), "3 is written");
    let all: Vec<_> = (0..=254).map(|n: u8| (ip(n), u128::from(n))).collect();
    assert_eq!(ids(&all).len(), 254, "each number once");
}

#[test]
fn nothing_is_served_before_the_cluster_is_known_or_without_a_pool() {
    let web = of(service("a", "198.51.100.5", &[(TCP, 80)]));
    let mut unread = Snapshot::default();
    unread.put(web.clone());
    assert!(learn(&config("endpoints"), &unread, "n1").vips.is_empty());
    let text = "version = \"v1\"\n";
    let bare = Config::from_document(&Document::inline("x", text)).unwrap();
    assert!(learn(&bare, &snapshot([web]), "n1").vips.is_empty());
}

#[test]
fn a_node_may_have_a_longer_name_in_the_cluster() {
    let of = |names: &[&str], host: &'static str| {
        let nodes: Vec<Node> = names
            .iter()
            .map(|name| node_of(name, "192.0.2.1"))
            .collect();
        let nodes: Vec<&Node> = nodes.iter().collect();
        own_name(&nodes, host).to_owned()
    };
    assert_eq!(of(&["m0", "m0.example.org"], "m0"), "m0");
    assert_eq!(
        of(&["m0.example.org", "m1.example.org"], "m0"),
        "m0.example.org"
    );
    assert_eq!(of(&["m0.a", "m0.b"], "m0"), "m0", "two could be it");
    assert_eq!(of(&[], "m0"), "m0");
}
