use super::*;

fn meta(namespace: &str, name: &str) -> Meta {
    Meta {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
        created: "2026-11-23T10:00:00Z".to_owned(),
        deleting: true,
        labels: [("a".to_owned(), "b".to_owned())].into(),
        annotations: [("c".to_owned(), "d".to_owned())].into(),
    }
}

fn objects() -> Vec<Object> {
    vec![
        Object::Node(Node {
            meta: meta("", "n"),
            addresses: vec![NodeAddress {
                kind: "InternalIP".to_owned(),
                address: "192.0.2.1".to_owned(),
            }],
            ready: Ready::False,
            network_unavailable: true,
            unschedulable: true,
            taints: vec![Taint {
                key: "k".to_owned(),
                value: "v".to_owned(),
                effect: "NoExecute".to_owned(),
            }],
        }),
        Object::Namespace(Namespace {
            meta: meta("", "ns"),
        }),
        Object::Service(Box::new(service())),
        Object::EndpointSlice(EndpointSlice {
            meta: meta("ns", "s-1"),
            service: "s".to_owned(),
            address_type: AddressType::IPv6,
            endpoints: vec![Endpoint {
                addresses: vec!["fd00::2".parse().unwrap()],
                ready: true,
                serving: true,
                terminating: true,
                hostname: "h".to_owned(),
                node: "n".to_owned(),
                zone: "z".to_owned(),
                pod: "ns/p".to_owned(),
            }],
            ports: vec![EndpointPort {
                name: "p".to_owned(),
                protocol: Protocol::Tcp,
                port: 8080,
                app_protocol: "a".to_owned(),
            }],
        }),
        Object::Dns(Box::new(dns())),
    ]
}

fn dns() -> Dns {
    let forward = |upstreams: &[DnsUpstream], policy, tls| DnsForward {
        upstreams: upstreams.to_vec(),
        policy,
        is_tcp: true,
        tls,
    };
    let address = DnsUpstream::Address("192.0.2.1:5353".parse().unwrap());
    Dns {
        meta: meta("", "default"),
        servers: vec![DnsServer {
            name: "foo".to_owned(),
            zones: vec!["foo.com".to_owned(), "bar.com".to_owned()],
            forward: forward(
                &[address],
                DnsPolicy::Random,
                Some(DnsTls {
                    server_name: "dns.foo.com".to_owned(),
                    ca_bundle: "ca".to_owned(),
                }),
            ),
        }],
        resolvers: forward(&[DnsUpstream::System, address], DnsPolicy::RoundRobin, None),
        positive_ttl: Some(60),
        negative_ttl: None,
        log_level: "Debug".to_owned(),
    }
}

fn service() -> Service {
    Service {
        meta: meta("ns", "s"),
        kind: ServiceType::LoadBalancer,
        headless: true,
        cluster_ips: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        ip_families: vec![IpFamily::V4, IpFamily::V6],
        ip_family_policy: "PreferDualStack".to_owned(),
        external_ips: vec!["192.0.2.7".parse().unwrap()],
        external_name: "e".to_owned(),
        ports: vec![
            ServicePort {
                name: "p".to_owned(),
                protocol: Protocol::Udp,
                port: 53,
                target: TargetPort::Number(5353),
                node_port: 30053,
                app_protocol: "h2c".to_owned(),
            },
            ServicePort {
                name: "q".to_owned(),
                protocol: Protocol::Sctp,
                port: 54,
                target: TargetPort::Name("t".to_owned()),
                node_port: 0,
                app_protocol: String::new(),
            },
        ],
        selector: [("app".to_owned(), "x".to_owned())].into(),
        publish_not_ready: true,
        external_local: true,
        internal_local: true,
        load_balancer_ip: "192.0.2.8".to_owned(),
        load_balancer_class: "c".to_owned(),
        source_ranges: vec!["192.0.2.0/24".to_owned()],
        allocates_node_ports: true,
        health_check_node_port: 30100,
        ingress: vec![
            Ingress {
                ip: Some("192.0.2.9".parse().unwrap()),
                hostname: String::new(),
                mode: "VIP".to_owned(),
            },
            Ingress {
                ip: None,
                hostname: "h".to_owned(),
                mode: String::new(),
            },
        ],
        client_affinity: true,
    }
}

fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::default();
    for object in objects() {
        snapshot.put(object);
    }
    snapshot.set_freshness(Kind::Node, Freshness::Old);
    snapshot.set_freshness(Kind::Service, Freshness::Current);
    snapshot.generation = 7;
    snapshot
}

fn over_the_wire(difference: &Difference) -> Difference {
    let mut assembly = Assembly::default();
    let mut whole = None;
    for piece in pieces(difference) {
        assert!(whole.is_none(), "the last piece is the last one");
        let octets = piece.encode_to_vec();
        let piece = wire::WatchResponse::decode(octets.as_slice()).unwrap();
        whole = assembly.add(piece);
    }
    whole.unwrap()
}

#[test]
fn every_field_goes_over_the_wire() {
    let snapshot = snapshot();
    let difference = snapshot.difference_from(None);
    assert_eq!(over_the_wire(&difference), difference);
    assert_eq!(
        Snapshot::default().with(over_the_wire(&difference)),
        snapshot
    );
    let back = Snapshot::default().difference_from(Some(&snapshot));
    assert_eq!(over_the_wire(&back), back);
    assert_eq!(back.gone.len(), 5);
}

#[test]
fn a_large_difference_comes_in_pieces() {
    let mut large = Snapshot::default();
    for number in 0..3000 {
        let mut meta = Meta {
            name: format!("n{number}"),
            ..Meta::default()
        };
        meta.annotations.insert("a".to_owned(), "x".repeat(1000));
        large.put(Object::Namespace(Namespace { meta }));
    }
    let difference = large.difference_from(None);
    let made = pieces(&difference);
    assert!(made.len() > 2 && made.iter().all(|piece| piece.encoded_len() < 2 * PIECE));
    assert_eq!(over_the_wire(&difference), difference);
    // A stream that ended in the middle, and began again with another generation.
    let mut assembly = Assembly::default();
    assert!(assembly.add(made[0].clone()).is_none());
    let other = Snapshot::default().difference_from(None);
    let other = Difference {
        generation: 99,
        ..other
    };
    let whole = pieces(&other)
        .into_iter()
        .find_map(|piece| assembly.add(piece));
    assert_eq!(whole, Some(other));
}

#[test]
fn an_object_that_is_unknown_here_is_left_out() {
    let mut piece = pieces(&snapshot().difference_from(None)).remove(0);
    piece.put[1].kind = None;
    piece.put[0].meta = None;
    if let Some(wire::object::Kind::EndpointSlice(slice)) = &mut piece.put[3].kind {
        slice.endpoints[0].addresses[0] = "nowhere".to_owned();
    }
    piece.gone.push(wire::Key::default());
    let difference = Assembly::default().add(piece).unwrap();
    assert_eq!((difference.put.len(), difference.gone.len()), (2, 0));
}
