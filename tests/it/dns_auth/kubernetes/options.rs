//! The names of a cluster that are options: those of OpenShift 3, those of annotations, and those of endpoints that are up.

use std::net::TcpListener;

use super::*;

/// Has a test run with the objects from a directory of manifests, and from an API server.
fn from_both(objects: &[Value], kubernetes: &str, test: impl Fn(&Cluster)) {
    let cluster = Cluster::new("manifests = \"DIR/manifests\"", kubernetes);
    cluster.put("all", objects);
    let clusterd = cluster.clusterd();
    let authd = cluster.site.start("dns-authd");
    test(&cluster);
    authd.stop();
    clusterd.stop();
    let double = Double::start();
    fill(&double, objects.to_vec());
    let source = format!("[api]\naddresses = [\"{}\"]\nwatch = \"10s\"", double.url());
    let cluster = Cluster::new(&source, kubernetes);
    let _clusterd = cluster.clusterd();
    let _authd = cluster.site.start("dns-authd");
    test(&cluster);
}

/// The forms of names that SkyDNS of OpenShift 3 answered, each with its answer.
const OPENSHIFT_3: &[Case] = &[
    (
        "any.kubernetes.default.svc.Z",
        A,
        NOERROR,
        &["any.kubernetes.default.svc.Z 30 1 10.3.0.1"],
    ),
    (
        "_https._tcp.kubernetes.default.svc.Z",
        SRV,
        NOERROR,
        &["_https._tcp.kubernetes.default.svc.Z 30 33 0 50 443 kubernetes.default.svc.Z"],
    ),
    (
        "headless.default.endpoints.Z",
        A,
        NOERROR,
        &[
            "headless.default.endpoints.Z 30 1 10.3.0.100",
            "headless.default.endpoints.Z 30 1 10.3.0.101",
        ],
    ),
    (
        "_endpoints.headless.default.svc.Z",
        A,
        NOERROR,
        &[
            "_endpoints.headless.default.svc.Z 30 1 10.3.0.100",
            "_endpoints.headless.default.svc.Z 30 1 10.3.0.101",
        ],
    ),
    (
        "my-pet.headless.default.endpoints.Z",
        AAAA,
        NOERROR,
        &["my-pet.headless.default.endpoints.Z 30 28 fd03::100"],
    ),
    (
        "any.foo.default.svc.Z",
        CNAME,
        NOERROR,
        &["any.foo.default.svc.Z 30 5 www.example.com"],
    ),
    (
        "172-30-162-172.default.pod.Z",
        A,
        NOERROR,
        &["172-30-162-172.default.pod.Z 30 1 172.30.162.172"],
    ),
    ("empty.default.endpoints.Z", A, NOERROR, &[]),
    ("no.default.endpoints.Z", A, NXDOMAIN, &[]),
];

#[test]
fn names_of_openshift_3_are_the_same_from_manifests_and_from_an_api_server() {
    let options = "skydns = true\nttl = 30\n";
    from_both(&specification(), options, |cluster| {
        cluster.wait(
            "kubernetes.default.svc.cluster.local",
            NOERROR,
            &["10.3.0.1"],
        );
        replay(cluster, OPENSHIFT_3);
    });
}

/// Services that ask for names by annotations.
fn annotated() -> Vec<Value> {
    let balanced = |name: &str, created: &str, hostname: &str, more: Value| {
        let mut annotations = more;
        annotations["external-dns.alpha.kubernetes.io/hostname"] = hostname.into();
        object(
            "Service",
            name,
            json!({
                "annotations": annotations,
                "creationTimestamp": created,
                "spec": {"type": "LoadBalancer", "clusterIP": "10.3.0.9", "ports": [{"port": 80}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}},
            }),
        )
    };
    let ttl = json!({"external-dns.alpha.kubernetes.io/ttl": "90"});
    let target = json!({"external-dns.alpha.kubernetes.io/target": "lb.example.net"});
    vec![
        object("Namespace", "default", json!({})),
        balanced(
            "web",
            "2026-01-02T00:00:00Z",
            "www.shops.example.com,www.example.com,*.shops.example.com",
            ttl,
        ),
        balanced(
            "late",
            "2026-01-03T00:00:00Z",
            "www.shops.example.com",
            json!({}),
        ),
        balanced(
            "alias",
            "2026-01-03T00:00:00Z",
            "b.a.shops.example.com",
            target,
        ),
    ]
}

const ANNOTATED: &[Case] = &[
    (
        "www.shops.example.com",
        A,
        NOERROR,
        &["www.shops.example.com 90 1 192.0.2.7"],
    ),
    ("www.shops.example.com", AAAA, NOERROR, &[]),
    (
        "b.a.shops.example.com",
        A,
        NOERROR,
        &["b.a.shops.example.com 5 5 lb.example.net"],
    ),
    ("a.shops.example.com", A, NOERROR, &[]),
    ("any.shops.example.com", A, NXDOMAIN, &[]),
    ("www.example.com", A, REFUSED, &[]),
];

#[test]
fn names_of_annotations_are_served_in_their_zones_and_foreign_ones_are_counted_and_named() {
    let options = "hostname-zones = [\"shops.example.com\"]\n";
    from_both(&annotated(), options, |cluster| {
        cluster.wait("www.shops.example.com", NOERROR, &["192.0.2.7"]);
        replay(cluster, ANNOTATED);
        let metrics = cluster.site.get("dns-authd", "/metrics").1;
        let count = |state: &str| {
            let name = format!("dns_authd_cluster_hostnames{{state=\"{state}\"}}");
            metric(&metrics, &name).unwrap()
        };
        assert_eq!((count("served"), count("refused")), (2.0, 3.0));
        let status = cluster.site.get("dns-authd", "/status").1;
        let status: Value = serde_json::from_str(&status).unwrap();
        let refused = status["detail"]["kubernetes"]["refused"].to_string();
        for wanted in [
            "service default/late does not have www.shops.example.com.: service default/web has it",
            "service default/web does not have *.shops.example.com: it is a wildcard",
            "service default/web does not have www.example.com: it lies in no zone",
        ] {
            assert!(refused.contains(wanted), "{wanted}: {refused}");
        }
    });
}

#[test]
fn endpoints_that_healthd_knows_to_be_down_are_left_out_until_all_are() {
    let ours = tests::scratch::loopback();
    let other = tests::scratch::loopback();
    let listener = TcpListener::bind((ours, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut slice = slice(
        "headless",
        "IPv4",
        &json!([
            {"addresses": [ours.to_string()], "conditions": {"ready": true}},
            {"addresses": [other.to_string()], "conditions": {"ready": true}},
        ]),
    );
    slice["ports"][0]["port"] = port.into();
    let mut objects = specification();
    objects.retain(|object| object["kind"] != "EndpointSlice");
    objects.push(slice);
    let cluster = Cluster::new("manifests = \"DIR/manifests\"", "probe = \"\"\n");
    cluster.put("all", &objects);
    let _healthd = cluster.site.start("healthd");
    let _clusterd = cluster.clusterd();
    let _authd = cluster.site.start("dns-authd");
    let name = "headless.default.svc.cluster.local";
    let mut both = [ours.to_string(), other.to_string()];
    both.sort();
    let both = both.each_ref().map(String::as_str);
    cluster.wait(name, NOERROR, &[&ours.to_string()]);
    drop(listener);
    cluster.wait(name, NOERROR, &both);
    let _listener = TcpListener::bind((ours, port)).unwrap();
    cluster.wait(name, NOERROR, &[&ours.to_string()]);
    wait::for_it("the status counts what is probed", LIMIT, || {
        let status = cluster.site.get("dns-authd", "/status").1;
        let status: Value = serde_json::from_str(&status).unwrap();
        status["detail"]["kubernetes"]["probed"] == 2
    });
}
