//! Names by annotations of external-dns.

use super::*;

const OLD: &str = "external-dns.alpha.kubernetes.io/";
const NEW: &str = "external-dns.kubernetes.io/";

fn file() -> Kubernetes {
    Kubernetes {
        hostname_zones: vec![
            "shops.example.com".to_owned(),
            "eu.shops.example.com".to_owned(),
        ],
        ..Kubernetes::default()
    }
}

/// A Service with a load balancer's address and annotations.
fn annotated(name: &str, address: &str, annotations: &[(&str, &str)]) -> Service {
    let mut service = service(name, &["10.1.0.1"], &["http/tcp/80"]);
    service.kind = ServiceType::LoadBalancer;
    service.ingress = vec![Ingress {
        ip: address.parse().ok(),
        hostname: match address.parse::<IpAddr>() {
            Ok(_) => String::new(),
            Err(_) => address.to_owned(),
        },
        mode: String::new(),
    }];
    let annotations = annotations.iter();
    let annotations = annotations.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    service.meta.annotations = annotations.collect();
    service
}

fn hostname(name: &str) -> [(String, String); 1] {
    [(format!("{OLD}hostname"), name.to_owned())]
}

fn asking(service: &str, address: &str, name: &str) -> Service {
    let [(key, value)] = hostname(name);
    annotated(service, address, &[(&key, &value)])
}

fn put(server: &mut Server, service: Service) {
    server.put(Object::Service(Box::new(service)));
    server.take(NOW);
}

fn refused(server: &Server) -> Vec<String> {
    let refused = server.cluster.refused_hostnames().into_iter();
    let refused = refused.map(|one| format!("{} {}: {}", one.service, one.hostname, one.reason));
    refused.collect()
}

#[test]
fn a_service_has_the_names_that_it_asks_for_in_zones_that_allow_it() {
    let mut server = Server::new(&objects(), &file());
    put(
        &mut server,
        annotated(
            "web",
            "192.0.2.7",
            &[
                (
                    &format!("{OLD}hostname"),
                    "Web.shops.example.com, a.b.eu.shops.example.com.",
                ),
                (&format!("{OLD}internal-hostname"), "in.shops.example.com"),
                (&format!("{OLD}ttl"), "1m"),
            ],
        ),
    );
    assert_eq!(server.cluster.n_hostnames(), 3);
    assert_eq!(refused(&server), [""; 0]);
    for (name, wanted) in [
        ("web.shops.example.com.", "192.0.2.7"),
        ("a.b.eu.shops.example.com.", "192.0.2.7"),
        ("in.shops.example.com.", "10.1.0.1"),
    ] {
        server.answers(name, "A", 0, &format!("{name} 60 A {wanted}"));
        server.answers(name, "AAAA", 0, "");
    }
    server.answers("b.eu.shops.example.com.", "A", 0, "");
    server.answers("nosuch.shops.example.com.", "A", 3, "");
    server.answers(
        "shops.example.com.",
        "NS",
        0,
        "shops.example.com. 5 NS ns.dns.cluster.local.",
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn targets_are_those_of_external_dns() {
    let name = "x.shops.example.com.";
    let headless = |annotations: &[(&str, &str)]| {
        let mut service = annotated("hdls1", "", annotations);
        service.kind = ServiceType::ClusterIP;
        service.headless = true;
        service.ingress.clear();
        service
    };
    let mut external_ips = asking("a", "192.0.2.7", name);
    external_ips.external_ips = vec![ip("192.0.2.9")];
    let mut alias = asking("a", "", name);
    alias.kind = ServiceType::ExternalName;
    alias.external_name = "www.example.net".to_owned();
    let [(key, value)] = hostname(name);
    let mut waiting = asking("a", "192.0.2.7", name);
    waiting.ingress.clear();
    for (service, rtype, wanted) in [
        (
            asking("a", "192.0.2.7", name),
            "A",
            "x.shops.example.com. 5 A 192.0.2.7",
        ),
        (
            asking("a", "fd00::7", name),
            "AAAA",
            "x.shops.example.com. 5 AAAA fd00::7",
        ),
        (
            asking("a", "lb.example.net", name),
            "A",
            "x.shops.example.com. 5 CNAME lb.example.net.",
        ),
        (external_ips, "A", "x.shops.example.com. 5 A 192.0.2.9"),
        (
            alias,
            "CNAME",
            "x.shops.example.com. 5 CNAME www.example.net.",
        ),
        (
            annotated(
                "a",
                "192.0.2.7",
                &[
                    (&key, &value),
                    (&format!("{OLD}target"), "192.0.2.1, 192.0.2.2"),
                ],
            ),
            "A",
            "x.shops.example.com. 5 A 192.0.2.1\nx.shops.example.com. 5 A 192.0.2.2",
        ),
        (
            annotated(
                "a",
                "192.0.2.7",
                &[(&key, &value), (&format!("{NEW}target"), "lb.example.net")],
            ),
            "A",
            "x.shops.example.com. 5 CNAME lb.example.net.",
        ),
        (
            annotated(
                "a",
                "192.0.2.7",
                &[
                    (&key, "y.shops.example.com"),
                    (&format!("{NEW}hostname"), name),
                ],
            ),
            "A",
            "x.shops.example.com. 5 A 192.0.2.7",
        ),
        (
            headless(&[(&key, &value)]),
            "A",
            "x.shops.example.com. 5 A 172.0.0.2\nx.shops.example.com. 5 A 172.0.0.3\n\
             x.shops.example.com. 5 A 172.0.0.4\nx.shops.example.com. 5 A 172.0.0.5",
        ),
    ] {
        let mut server = Server::new(&objects(), &file());
        put(&mut server, service);
        server.answers(name, rtype, 0, wanted);
        assert_eq!(refused(&server), [""; 0]);
    }
    let mut server = Server::new(&objects(), &file());
    put(&mut server, headless(&[(&key, &value)]));
    let pods = "dup-name.x.shops.example.com.";
    server.answers(
        pods,
        "A",
        0,
        &format!("{pods} 5 A 172.0.0.4\n{pods} 5 A 172.0.0.5"),
    );
    for service in [
        waiting,
        annotated(
            "a",
            "192.0.2.7",
            &[(&key, &value), (&format!("{OLD}controller"), "other")],
        ),
    ] {
        let mut server = Server::new(&objects(), &file());
        put(&mut server, service);
        assert_eq!(server.ask(name, "A").rcode, 3);
    }
}

#[test]
fn foreign_names_are_refused_and_harm_no_other() {
    let mut server = Server::new(&objects(), &file());
    let all = "www.example.com,*.shops.example.com,shops.example.com,a..shops.example.com,\
               a b.shops.example.com,good.shops.example.com,cluster.local";
    put(&mut server, asking("web", "192.0.2.7", all));
    let name = "good.shops.example.com.";
    server.answers(name, "A", 0, &format!("{name} 5 A 192.0.2.7"));
    let found = refused(&server);
    assert_eq!(found.len(), 6, "{found:?}");
    for (wanted, line) in [
        "www.example.com: it lies in no zone",
        "*.shops.example.com: it is a wildcard",
        "shops.example.com: it is the apex",
        "a..shops.example.com: it is no hostname",
        "a b.shops.example.com: it is no hostname",
        "cluster.local: it lies in no zone",
    ]
    .into_iter()
    .zip(&found)
    {
        assert!(line.contains(wanted), "{line}");
    }
    let many: Vec<String> = (0..100)
        .map(|n| format!("n{n}.shops.example.com"))
        .collect();
    put(&mut server, asking("web", "192.0.2.7", &many.join(",")));
    assert_eq!(server.cluster.n_hostnames(), 16);
    assert_eq!(refused(&server).len(), 17);
}

#[test]
fn the_oldest_service_has_a_name_and_the_next_gets_it_when_it_goes() {
    let mut server = Server::new(&objects(), &file());
    let name = "x.shops.example.com.";
    for (service, address, created) in [
        ("young", "192.0.2.1", "2026-02-01T00:00:00Z"),
        ("old", "192.0.2.2", "2026-01-01T00:00:00Z"),
        ("ageless", "192.0.2.3", ""),
    ] {
        let mut service = asking(service, address, name);
        service.meta.created = created.to_owned();
        put(&mut server, service);
    }
    server.answers(name, "A", 0, &format!("{name} 5 A 192.0.2.2"));
    let found = refused(&server);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .all(|line| line.ends_with("service testns/old has it")),
        "{found:?}"
    );
    for (gone, next) in [
        ("old", Some("192.0.2.1")),
        ("young", Some("192.0.2.3")),
        ("ageless", None),
    ] {
        let key = Object::Service(Box::new(service(gone, &[], &[]))).key();
        server.snapshot.remove(&key);
        server.take(NOW);
        match next {
            Some(address) => server.answers(name, "A", 0, &format!("{name} 5 A {address}")),
            None => server.answers(name, "A", 3, ""),
        }
    }
    assert_eq!(
        (server.cluster.n_hostnames(), refused(&server).len()),
        (0, 0)
    );
}

#[test]
fn a_service_that_is_not_served_has_no_name_by_annotation() {
    let file = Kubernetes {
        labels: "shown".to_owned(),
        ..file()
    };
    let mut server = Server::new(&objects(), &file);
    let name = "x.shops.example.com.";
    let mut service = asking("web", "192.0.2.7", name);
    put(&mut server, service.clone());
    server.answers(name, "A", 3, "");
    service
        .meta
        .labels
        .insert("shown".to_owned(), String::new());
    put(&mut server, service);
    server.answers(name, "A", 0, &format!("{name} 5 A 192.0.2.7"));
}

#[test]
fn a_change_of_one_name_renders_one_part_and_no_other_zone() {
    let mut server = Server::new(&objects(), &file());
    put(
        &mut server,
        asking("web", "192.0.2.7", "x.shops.example.com"),
    );
    let mut changed = asking("web", "192.0.2.8", "x.shops.example.com");
    changed.meta.uid = "2".to_owned();
    server.put(Object::Service(Box::new(changed)));
    assert_eq!(server.take(NOW), [(1, 1)]);
}

#[test]
fn zones_that_cannot_be_served_are_refused() {
    for zone in [
        "a..b",
        ".",
        "cluster.local",
        "shops.cluster.local",
        "services.example.com",
    ] {
        let file = Kubernetes {
            external: Some("services.example.com".to_owned()),
            hostname_zones: vec!["shops.example.com".to_owned(), zone.to_owned()],
            ..Kubernetes::default()
        };
        let refused = Options::of(&file).unwrap_err();
        let found: Vec<_> = refused.iter().map(|one| (one.key, one.index)).collect();
        assert_eq!(found, [("hostname-zones", Some(1))], "{zone}");
    }
}
