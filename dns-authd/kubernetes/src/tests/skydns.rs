//! The further names of OpenShift 3.

use super::*;

fn server() -> Server {
    let file = Kubernetes {
        skydns: true,
        ttl: config::Whole::clamped(30),
        ..Kubernetes::default()
    };
    let mut snapshot = objects();
    let mut two = service("two", &["10.0.0.7"], &["http/tcp/80", "https/tcp/443"]);
    two.ports.extend(service("", &[], &["dns/udp/53"]).ports);
    snapshot.put(Object::Service(Box::new(two)));
    snapshot.put(slice(
        "two",
        1,
        &["172.0.1.7", "172.0.1.8"],
        &["http/tcp/8080"],
    ));
    Server::new(&snapshot, &file)
}

/// The hashes of `SkyDNS`: FNV-1a of the address, in hexadecimal digits.
const NAMES: &[(&str, &str, &str)] = &[
    // The specification's own names stay.
    ("svc1.NS.svc", "A", "10.0.0.1"),
    ("ep1a.svc1.NS.svc", "A", "172.0.0.1"),
    (
        "_http._tcp.svc1.NS.svc",
        "SRV",
        "0 100 80 svc1.testns.svc.cluster.local.",
    ),
    ("172-0-0-2.hdls1.NS.svc", "A", "172.0.0.2"),
    // Every name below a Service with cluster IPs leads to it.
    ("any.svc1.NS.svc", "A", "10.0.0.1"),
    ("any.thing.svc1.NS.svc", "A", "10.0.0.1"),
    ("any._tcp.svc1.NS.svc", "A", "10.0.0.1"),
    ("any._http._tcp.svc1.NS.svc", "A", "10.0.0.1"),
    ("any.ep1a.svc1.NS.svc", "A", "10.0.0.1"),
    ("_http._tcp.svc1.NS.svc", "A", "10.0.0.1"),
    ("_tcp.svc1.NS.svc", "A", "10.0.0.1"),
    ("_nosuch._tcp.svc1.NS.svc", "A", "10.0.0.1"),
    ("any.svc6.NS.svc", "AAAA", "1234:abcd::1"),
    ("any.svc6.NS.svc", "A", ""),
    (
        "_tcp.two.NS.svc",
        "SRV",
        "0 100 80 two.testns.svc.cluster.local.\n0 100 443 two.testns.svc.cluster.local.",
    ),
    (
        "_udp.two.NS.svc",
        "SRV",
        "0 100 53 two.testns.svc.cluster.local.",
    ),
    ("any.external.NS.svc", "CNAME", "ext.interwebs.test."),
    // The endpoints of every Service.
    ("_endpoints.two.NS.svc", "A", "172.0.1.7\n172.0.1.8"),
    ("any._endpoints.two.NS.svc", "A", "172.0.1.7\n172.0.1.8"),
    ("two.NS.endpoints", "A", "172.0.1.7\n172.0.1.8"),
    ("_endpoints.two.NS.endpoints", "A", "172.0.1.7\n172.0.1.8"),
    ("_http._tcp.two.NS.endpoints", "A", "172.0.1.7\n172.0.1.8"),
    ("svc1.NS.endpoints", "A", "172.0.0.1"),
    ("ep1a.svc1.NS.endpoints", "A", "172.0.0.1"),
    ("any.ep1a.svc1.NS.endpoints", "A", "172.0.0.1"),
    (
        "_http._tcp.svc1.NS.endpoints",
        "SRV",
        "0 100 80 ep1a.svc1.testns.endpoints.cluster.local.",
    ),
    ("svcempty.NS.endpoints", "A", ""),
    ("NS.endpoints", "A", ""),
    ("dup-name.hdls1.NS.endpoints", "A", "172.0.0.4\n172.0.0.5"),
    ("_http._tcp.hdlsprtls.NS.svc", "A", "NXDOMAIN"),
    // A headless Service answers for its endpoints alone.
    ("any.dup-name.hdls1.NS.svc", "A", "172.0.0.4\n172.0.0.5"),
    ("any.hdls1.NS.svc", "A", "NXDOMAIN"),
    ("nosuch.NS.svc", "A", "NXDOMAIN"),
    ("nosuch.NS.endpoints", "A", "NXDOMAIN"),
    ("external.NS.endpoints", "A", "NXDOMAIN"),
    // Pods.
    ("10-9-8-7.NS.pod", "A", "10.9.8.7"),
];

fn data(server: &Server, name: &str, rtype: &str) -> String {
    let name = name.replace("NS", "testns") + ".cluster.local.";
    let response = server.ask(&name, rtype);
    if response.rcode == 3 {
        return "NXDOMAIN".to_owned();
    }
    assert_eq!(response.rcode, 0, "{name} {rtype}");
    let wanted: Type = rtype.parse().unwrap();
    let own = response.answer.into_iter();
    let own = own.filter(|(_, found, _, _)| *found == wanted);
    let own = own.inspect(|(_, _, ttl, _)| assert_eq!(*ttl, 30, "{name} {rtype}"));
    let texts: BTreeSet<String> = own.map(|(_, rtype, _, data)| text(rtype, &data)).collect();
    texts.into_iter().collect::<Vec<_>>().join("\n")
}

fn text(rtype: Type, data: &[u8]) -> String {
    let name = |octets: &[u8]| Name::from_wire(octets).unwrap().0.to_string();
    match rtype {
        Type::A => std::net::Ipv4Addr::from(<[u8; 4]>::try_from(data).unwrap()).to_string(),
        Type::AAAA => std::net::Ipv6Addr::from(<[u8; 16]>::try_from(data).unwrap()).to_string(),
        Type::SRV => {
            let (numbers, target) = data.split_at(6);
            let mut numbers = numbers.chunks(2);
            let mut number = || u16::from_be_bytes(numbers.next().unwrap().try_into().unwrap());
            let (priority, weight, port) = (number(), number(), number());
            format!("{priority} {weight} {port} {}", name(target))
        }
        _ => name(data),
    }
}

fn sorted(lines: &str) -> String {
    let lines: BTreeSet<&str> = lines.lines().collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn names_of_openshift_3_are_beside_those_of_the_specification() {
    let server = server();
    for (name, rtype, wanted) in NAMES {
        assert_eq!(data(&server, name, rtype), sorted(wanted), "{name} {rtype}");
    }
}

#[test]
fn an_endpoint_without_a_hostname_has_the_hash_of_its_address_as_its_name() {
    let server = server();
    // Go: fnv.New32a() over "172.0.0.2", "%x".
    let hash = |text: &str| {
        let octets = text.bytes();
        let hash = octets.fold(2_166_136_261_u32, |hash, octet| {
            (hash ^ u32::from(octet)).wrapping_mul(16_777_619)
        });
        format!("{hash:x}")
    };
    // A known value of the function itself (RFC 9923's vectors).
    assert_eq!(hash("a"), "e40c292c");
    for (name, wanted) in [
        (format!("{}.hdls1.NS.svc", hash("172.0.0.2")), "172.0.0.2"),
        (
            format!("{}.two.NS.endpoints", hash("172.0.1.8")),
            "172.0.1.8",
        ),
        (
            format!("x.{}.two.NS.endpoints", hash("172.0.1.8")),
            "172.0.1.8",
        ),
        // The name below a Service with cluster IPs leads to these.
        (format!("{}.two.NS.svc", hash("172.0.1.8")), "10.0.0.7"),
    ] {
        assert_eq!(data(&server, &name, "A"), wanted, "{name}");
    }
    let name = "_http._tcp.two.NS.endpoints";
    let wanted = ["172.0.1.7", "172.0.1.8"].map(|address| {
        let hash = hash(address);
        format!("0 50 8080 {hash}.two.testns.endpoints.cluster.local.")
    });
    assert_eq!(data(&server, name, "SRV"), sorted(&wanted.join("\n")));
}

#[test]
fn a_changed_endpoint_changes_its_names_and_a_deleted_service_takes_them_along() {
    let mut server = server();
    server.put(slice("two", 1, &["172.0.1.9"], &["http/tcp/8080"]));
    server.take(NOW);
    for name in ["two.NS.endpoints", "_endpoints.two.NS.svc"] {
        assert_eq!(data(&server, name, "A"), "172.0.1.9", "{name}");
    }
    let gone = Object::Service(Box::new(service("two", &[], &[]))).key();
    server.snapshot.remove(&gone);
    server.take(NOW);
    for name in ["two.NS.endpoints", "two.NS.svc", "any.two.NS.svc"] {
        assert_eq!(data(&server, name, "A"), "NXDOMAIN", "{name}");
    }
}

#[test]
fn without_the_option_no_further_name_exists() {
    let server = Server::new(&objects(), &Kubernetes::default());
    for name in [
        "any.svc1.NS.svc",
        "svc1.NS.endpoints",
        "_endpoints.svc1.NS.svc",
    ] {
        let name = name.replace("NS", "testns") + ".cluster.local.";
        assert_eq!(server.ask(&name, "A").rcode, 3, "{name}");
    }
}
