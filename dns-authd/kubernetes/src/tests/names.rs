//! The names of the specification, and CoreDNS's.

use super::*;

/// Names below the namespace, types and answers; `ZONE` is the namespace.
const SERVICES: &[(&str, &str, &str)] = &[
    ("svc1", "A", "svc1.ZONE 5 A 10.0.0.1"),
    ("SVC1", "A", "svc1.ZONE 5 A 10.0.0.1"),
    ("svcempty", "A", "svcempty.ZONE 5 A 10.0.0.1"),
    ("svc1", "AAAA", ""),
    ("svc1", "SOA", ""),
    ("svc1", "SRV", "svc1.ZONE 5 SRV 0 100 80 svc1.ZONE"),
    (
        "_http._tcp.svc1",
        "SRV",
        "_http._tcp.svc1.ZONE 5 SRV 0 100 80 svc1.ZONE",
    ),
    ("_tcp.svc1", "SRV", ""),
    ("svc6", "AAAA", "svc6.ZONE 5 AAAA 1234:abcd::1"),
    (
        "svc-dual-stack",
        "SRV",
        "svc-dual-stack.ZONE 5 SRV 0 50 80 svc-dual-stack.ZONE",
    ),
    ("svc-dual-stack", "AAAA", "svc-dual-stack.ZONE 5 AAAA 10::3"),
    (
        "hdls1",
        "A",
        "hdls1.ZONE 5 A 172.0.0.2\nhdls1.ZONE 5 A 172.0.0.3\n\
             hdls1.ZONE 5 A 172.0.0.4\nhdls1.ZONE 5 A 172.0.0.5",
    ),
    (
        "hdls1",
        "AAAA",
        "hdls1.ZONE 5 AAAA 5678:abcd::1\nhdls1.ZONE 5 AAAA 5678:abcd::2",
    ),
    (
        "_http._tcp.hdls1",
        "SRV",
        "_http._tcp.hdls1.ZONE 5 SRV 0 16 80 172-0-0-2.hdls1.ZONE\n\
             _http._tcp.hdls1.ZONE 5 SRV 0 16 80 172-0-0-3.hdls1.ZONE\n\
             _http._tcp.hdls1.ZONE 5 SRV 0 16 80 5678-abcd--1.hdls1.ZONE\n\
             _http._tcp.hdls1.ZONE 5 SRV 0 16 80 5678-abcd--2.hdls1.ZONE\n\
             _http._tcp.hdls1.ZONE 5 SRV 0 16 80 dup-name.hdls1.ZONE",
    ),
    ("172-0-0-2.hdls1", "A", "172-0-0-2.hdls1.ZONE 5 A 172.0.0.2"),
    (
        "172-0-0-2.hdls1",
        "SRV",
        "172-0-0-2.hdls1.ZONE 5 SRV 0 100 80 172-0-0-2.hdls1.ZONE",
    ),
    (
        "dup-name.hdls1",
        "A",
        "dup-name.hdls1.ZONE 5 A 172.0.0.4\ndup-name.hdls1.ZONE 5 A 172.0.0.5",
    ),
    (
        "5678-abcd--2.hdls1",
        "AAAA",
        "5678-abcd--2.hdls1.ZONE 5 AAAA 5678:abcd::2",
    ),
    // An endpoint of a Service with a cluster IP has a name too.
    ("ep1a.svc1", "A", "ep1a.svc1.ZONE 5 A 172.0.0.1"),
    ("hdlsprtls", "A", "hdlsprtls.ZONE 5 A 172.0.0.20"),
    ("hdlsprtls", "SRV", ""),
    (
        "172-0-0-20.hdlsprtls",
        "A",
        "172-0-0-20.hdlsprtls.ZONE 5 A 172.0.0.20",
    ),
    (
        "external",
        "CNAME",
        "external.ZONE 5 CNAME ext.interwebs.test.",
    ),
    ("external", "A", "external.ZONE 5 CNAME ext.interwebs.test."),
    (
        "external-to-service",
        "A",
        "external-to-service.ZONE 5 CNAME svc1.ZONE\nsvc1.ZONE 5 A 10.0.0.1",
    ),
];

#[test]
fn services_have_the_records_of_the_specification() {
    let server = Server::new(&objects(), &Kubernetes::default());
    let zone = "testns.svc.cluster.local.";
    for (name, rtype, wanted) in SERVICES {
        let wanted = wanted.replace("ZONE", zone);
        server.answers(&format!("{name}.{zone}"), rtype, 0, &wanted);
    }
    for name in [
        "svc0",
        "bogusendpoint.hdls1",
        "bogusendpoint.svc0",
        "172-0-0-6.hdls1",
        "none-ready",
        "endpoint.external",
        "external-address",
        "_http._udp.svc1",
        "a.b.c.svc1",
    ] {
        server.answers(&format!("{name}.{zone}"), "A", 3, "");
    }
}

#[test]
fn names_above_services_exist_without_data() {
    let server = Server::new(&objects(), &Kubernetes::default());
    for name in [
        "cluster.local.",
        "svc.cluster.local.",
        "pod.cluster.local.",
        "testns.svc.cluster.local.",
        "dns.cluster.local.",
    ] {
        server.answers(name, "A", 0, "");
    }
    for name in [
        "foo.cluster.local.",
        "foo.svc.cluster.local.",
        "svc0.svc-nons.svc.cluster.local.",
        "testns.pod.cluster.local.",
        "10-0-0-7.testns.pod.cluster.local.",
    ] {
        server.answers(name, "A", 3, "");
    }
    server.answers(
        "dns-version.cluster.local.",
        "TXT",
        0,
        "dns-version.cluster.local. 28800 TXT \"1.1.0\"",
    );
    server.answers(
        "cluster.local.",
        "SOA",
        0,
        "cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 5",
    );
}

#[test]
fn the_additional_section_has_the_addresses_of_srv_targets() {
    let server = Server::new(&objects(), &Kubernetes::default());
    let response = server.ask("_http._tcp.hdls1.testns.svc.cluster.local.", "SRV");
    assert_eq!(response.additional.len(), 6);
}

#[test]
fn the_name_server_has_the_addresses_of_the_configuration() {
    let file = Kubernetes {
        name_servers: vec!["192.168.7.13".parse().unwrap()],
        ..Kubernetes::default()
    };
    let server = Server::new(&objects(), &file);
    server.answers(
        "cluster.local.",
        "NS",
        0,
        "cluster.local. 5 NS ns.dns.cluster.local.",
    );
    server.answers(
        "ns.dns.cluster.local.",
        "A",
        0,
        "ns.dns.cluster.local. 5 A 192.168.7.13",
    );
}

#[test]
fn every_address_is_a_pod_where_the_operator_says_so() {
    let file = Kubernetes {
        pods: PodNames::Insecure,
        ..Kubernetes::default()
    };
    let server = Server::new(&objects(), &file);
    let zone = "testns.pod.cluster.local.";
    for (name, rtype, wanted) in [
        ("10-240-0-1", "A", "10-240-0-1.ZONE 5 A 10.240.0.1"),
        ("10-240-0-1", "AAAA", ""),
        (
            "1234-abcd--1",
            "AAAA",
            "1234-abcd--1.ZONE 5 AAAA 1234:abcd::1",
        ),
    ] {
        server.answers(
            &format!("{name}.{zone}"),
            rtype,
            0,
            &wanted.replace("ZONE", zone),
        );
    }
    server.answers(zone, "A", 0, "");
    for name in [
        "10-240-0-1.other.pod.cluster.local.",
        "10-240-0.testns.pod.cluster.local.",
        "10-240-0-256.testns.pod.cluster.local.",
        "10-240-0-1.testns.svc.cluster.local.",
        "x.10-240-0-1.testns.pod.cluster.local.",
    ] {
        server.answers(name, "A", 3, "");
    }
}

#[test]
fn the_pods_of_services_are_verified() {
    let file = Kubernetes {
        pods: PodNames::Verified,
        ..Kubernetes::default()
    };
    let mut server = Server::new(&objects(), &file);
    let name = "172-0-0-6.testns.pod.cluster.local.";
    // It is not ready, but it is there.
    server.answers(name, "A", 0, &format!("{name} 5 A 172.0.0.6"));
    server.answers("172-0-0-7.testns.pod.cluster.local.", "A", 3, "");
    // Two Services have it; it stays until both have lost it.
    server.put(slice("svc1", 1, &["172.0.0.6"], &[]));
    server.take(NOW);
    server.put(slice("hdls1", 1, &[], &[]));
    server.take(NOW);
    server.answers(name, "A", 0, &format!("{name} 5 A 172.0.0.6"));
    server.put(slice("svc1", 1, &[], &[]));
    server.take(NOW);
    server.answers(name, "A", 3, "");
}

#[test]
fn addresses_have_names_in_the_reverse_zones() {
    let file = Kubernetes {
        reverse: ["10.0.0.0/16", "172.0.0.0/8", "5678:abcd::/32"]
            .map(|network| network.parse().unwrap())
            .to_vec(),
        ..Kubernetes::default()
    };
    let mut server = Server::new(&objects(), &file);
    for (name, target) in [
        (
            "3.0.0.10.in-addr.arpa.",
            "svc-dual-stack.testns.svc.cluster.local.",
        ),
        (
            "2.0.0.172.in-addr.arpa.",
            "172-0-0-2.hdls1.testns.svc.cluster.local.",
        ),
        (
            "4.0.0.172.in-addr.arpa.",
            "dup-name.hdls1.testns.svc.cluster.local.",
        ),
        (
            "1.0.0.172.in-addr.arpa.",
            "ep1a.svc1.testns.svc.cluster.local.",
        ),
        (
            "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.c.b.a.8.7.6.5.ip6.arpa.",
            "5678-abcd--2.hdls1.testns.svc.cluster.local.",
        ),
    ] {
        server.answers(name, "PTR", 0, &format!("{name} 5 PTR {target}"));
    }
    // The names between exist, and have nothing.
    for name in [
        "0.0.172.in-addr.arpa.",
        "0.172.in-addr.arpa.",
        "172.in-addr.arpa.",
        "0.0.d.c.b.a.8.7.6.5.ip6.arpa.",
        "3.0.0.10.in-addr.arpa.",
    ] {
        server.answers(name, "TXT", 0, "");
    }
    for name in [
        "6.0.0.172.in-addr.arpa.",
        "9.172.in-addr.arpa.",
        "9.0.10.in-addr.arpa.",
        "1.d.c.b.a.8.7.6.5.ip6.arpa.",
    ] {
        server.answers(name, "PTR", 3, "");
    }
    // A zone of the networks that are not in the list is not served.
    assert_eq!(server.ask("3.0.1.10.in-addr.arpa.", "PTR").rcode, 5);
    // A Service's name excludes those of endpoints with the same address.
    server.put(Object::Service(Box::new(service(
        "late",
        &["172.0.0.2"],
        &[],
    ))));
    server.take(NOW);
    let name = "2.0.0.172.in-addr.arpa.";
    server.answers(
        name,
        "PTR",
        0,
        &format!("{name} 5 PTR late.testns.svc.cluster.local."),
    );
}

#[test]
fn names_that_a_reverse_zone_does_not_have_fall_through() {
    let file = Kubernetes {
        reverse: vec!["10.0.0.0/16".parse().unwrap()],
        fallthrough: true,
        ..Kubernetes::default()
    };
    let mut server = Server::new(&objects(), &file);
    let (known, other) = ("3.0.0.10.in-addr.arpa.", "9.0.0.10.in-addr.arpa.");
    assert_eq!(server.ask(other, "PTR").rcode, 5);
    assert_eq!(server.ask("nosuch.cluster.local.", "A").rcode, 3);
    let text = format!(
        "10.in-addr.arpa. 60 SOA ns. h. 7 1 1 1 60\n{other} 60 PTR host.example.\n{known} 60 PTR no.example."
    );
    let above: Name = "10.in-addr.arpa.".parse().unwrap();
    server.above = Some(Arc::new(Served {
        zone: Some(Arc::new(
            Zone::build(&above, &records(&text), SEED).unwrap(),
        )),
        apex: above,
        parts: None,
        live: Arc::default(),
        origin: Origin::Configured,
        view: None,
        access: None,
    }));
    server.answers(other, "PTR", 0, &format!("{other} 60 PTR host.example."));
    server.answers(
        known,
        "PTR",
        0,
        &format!("{known} 5 PTR svc-dual-stack.testns.svc.cluster.local."),
    );
    let missing = server.ask("8.0.0.10.in-addr.arpa.", "PTR");
    assert_eq!(missing.rcode, 3);
    assert_eq!(
        missing.authority,
        lines("10.in-addr.arpa. 60 SOA ns. h. 7 1 1 1 60")
    );
}

#[test]
fn an_alias_of_another_zone_that_ends_in_the_cluster_has_the_serial_of_the_cluster() {
    let mut server = Server::new(&objects(), &Kubernetes::default());
    let text =
        "example. 60 SOA ns. h. 7 1 1 1 60\nno.example. 60 CNAME no.testns.svc.cluster.local.";
    let apex: Name = "example.".parse().unwrap();
    server.above = Some(Arc::new(Served {
        zone: Some(Arc::new(Zone::build(&apex, &records(text), SEED).unwrap())),
        apex,
        parts: None,
        live: Arc::default(),
        origin: Origin::Configured,
        view: None,
        access: None,
    }));
    let response = server.ask("no.example.", "A");
    assert_eq!(response.rcode, 3);
    assert_eq!(
        response.authority,
        lines(
            "cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 5"
        )
    );
}

#[test]
fn options_select_what_has_names() {
    let one = |change: fn(&mut Kubernetes)| {
        let mut file = Kubernetes::default();
        change(&mut file);
        let mut snapshot = objects();
        let mut labelled = service("labelled", &["10.0.0.9"], &[]);
        labelled
            .meta
            .labels
            .insert("tier".to_owned(), "web".to_owned());
        snapshot.put(Object::Service(Box::new(labelled)));
        snapshot.put(namespace("other"));
        Server::new(&snapshot, &file)
    };
    let code = |server: &Server, name: &str| {
        let name = format!("{name}.svc.cluster.local.");
        server.ask(&name, "A").rcode
    };
    let labels = one(|file| file.labels = "tier=web".to_owned());
    assert_eq!(code(&labels, "svc1.testns"), 3);
    assert_eq!(code(&labels, "labelled.testns"), 0);
    let namespaces = one(|file| file.namespaces = vec!["other".to_owned()]);
    assert_eq!(code(&namespaces, "svc1.testns"), 3);
    assert_eq!(code(&namespaces, "testns"), 3);
    assert_eq!(code(&namespaces, "other"), 0);
    let namespaces = one(|file| file.namespace_labels = "!absent".to_owned());
    assert_eq!(code(&namespaces, "svc1.testns"), 0);
    let empty = one(|file| file.ignore_empty_service = true);
    assert_eq!(code(&empty, "svcempty.testns"), 3);
    assert_eq!(code(&empty, "svc1.testns"), 0);
    let pods = one(|file| file.endpoint_pod_names = true);
    assert_eq!(code(&pods, "pod-172-0-0-2.hdls1.testns"), 0);
    assert_eq!(code(&pods, "172-0-0-2.hdls1.testns"), 3);
    assert_eq!(code(&pods, "dup-name.hdls1.testns"), 0);
}

#[test]
fn endpoints_that_are_not_ready_have_names_where_the_service_says_so() {
    let mut server = Server::new(&objects(), &Kubernetes::default());
    let mut service = service("none-ready", &[], &["http/tcp/80"]);
    service.publish_not_ready = true;
    server.put(Object::Service(Box::new(service)));
    server.take(NOW);
    let name = "none-ready.testns.svc.cluster.local.";
    server.answers(name, "A", 0, &format!("{name} 5 A 172.0.0.30"));
}

#[test]
fn a_transfer_is_refused() {
    let server = Server::new(&objects(), &Kubernetes::default());
    assert_eq!(server.ask("cluster.local.", "AXFR").rcode, 5);
}

#[test]
fn addresses_outside_the_cluster_have_names_in_a_zone_of_their_own() {
    let file = Kubernetes {
        external: Some("out.example".to_owned()),
        ..Kubernetes::default()
    };
    let mut server = Server::new(&objects(), &file);
    let zone = "testns.out.example.";
    for name in ["svc1", "hdls1", "external"] {
        assert_eq!(
            server.ask(&format!("{name}.{zone}"), "A").rcode,
            3,
            "{name}"
        );
    }
    assert_eq!(server.ask(zone, "A").rcode, 0);
    let mut balanced = service("svc1", &["10.0.0.1"], &["http/tcp/80"]);
    balanced.kind = ServiceType::LoadBalancer;
    balanced.external_ips = vec![ip("192.0.2.9")];
    balanced.ingress = vec![Ingress {
        ip: Some(ip("192.0.2.10")),
        ..Ingress::default()
    }];
    server.put(Object::Service(Box::new(balanced.clone())));
    // The names of the domain are the same: one part of one zone is rendered again.
    assert_eq!(server.take(NOW), [(1, 1)]);
    for (name, rtype, wanted) in [
        (
            "svc1",
            "A",
            "svc1.ZONE 5 A 192.0.2.9\nsvc1.ZONE 5 A 192.0.2.10",
        ),
        (
            "_http._tcp.svc1",
            "SRV",
            "_http._tcp.svc1.ZONE 5 SRV 0 50 80 svc1.ZONE",
        ),
    ] {
        let response = server.ask(&format!("{name}.{zone}"), rtype);
        assert_eq!(
            response.answer,
            lines(&wanted.replace("ZONE", zone)),
            "{name}"
        );
    }
    let inside = "svc1.testns.svc.cluster.local.";
    server.answers(inside, "A", 0, &format!("{inside} 5 A 10.0.0.1"));
    balanced.external_ips.clear();
    balanced.ingress = vec![Ingress {
        hostname: "balancer.example".to_owned(),
        ..Ingress::default()
    }];
    server.put(Object::Service(Box::new(balanced)));
    server.take(NOW);
    let response = server.ask("svc1.testns.out.example.", "A");
    assert_eq!(
        response.answer,
        lines("svc1.testns.out.example. 5 CNAME balancer.example.")
    );
    let response = server.ask("nosuch.testns.out.example.", "A");
    let serial = server.cluster.serial();
    assert_eq!(response.rcode, 3);
    assert_eq!(
        response.authority,
        lines(&format!(
            "out.example. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. {serial} 7200 1800 86400 5"
        ))
    );
}
