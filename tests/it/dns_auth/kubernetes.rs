//! The names of a cluster: clusterd and dns-authd together, from a directory of manifests and from an API server.

mod options;

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::binaries::binary;
use tests::clusterd;
use tests::daemon::{Daemon, metric};
use tests::dns::{
    A, AAAA, CNAME, Data, Message, NOERROR, NXDOMAIN, PTR, Question, REFUSED, SERVFAIL, SOA, SRV,
    TXT, ask,
};
use tests::lb::memory;
use tests::site::Site;
use tests::wait;

use crate::double::Double;

const LIMIT: Duration = Duration::from_secs(60);

/// A node with clusterd and dns-authd.
struct Cluster {
    site: Site,
}

impl Cluster {
    /// Configures both: the lines of clusterd's source, in which `DIR` is the site's directory, and lines of `[kubernetes]`.
    fn new(source: &str, kubernetes: &str) -> Self {
        let site = Site::new();
        let directory = site.files.join("").display().to_string();
        let directory = directory.trim_end_matches('/');
        std::fs::create_dir_all(site.files.join("manifests")).unwrap();
        let source = source.replace("DIR", directory);
        site.files.write(
            "clusterd.toml",
            &format!(
                "version = \"v1\"\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/clusterd\"\n\
                 admin.listen = \"none\"\n{source}\n"
            ),
        );
        let more = format!(
            "zones.serial-must-rise = false\n[kubernetes]\nsocket = \"{directory}/clusterd.sock\"\n{kubernetes}"
        );
        site.configure_authd(&[], &more);
        Self { site }
    }

    fn clusterd(&self) -> Daemon {
        clusterd::start(&self.site.files)
    }

    fn put(&self, name: &str, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.site
            .files
            .write(&format!("manifests/{name}.json"), &list.to_string());
    }

    fn ask(&self, name: &str, rtype: u16) -> Message {
        ask(self.site.authority(), &Question::new(name, rtype))
            .unwrap_or_else(|error| panic!("{name} {rtype}: {error}"))
    }

    /// The code and the answers, as text.
    fn answers(&self, name: &str, rtype: u16) -> (u16, Vec<String>) {
        let message = self.ask(name, rtype);
        let mut answers: Vec<String> = message.answers.iter().map(line).collect();
        answers.sort();
        (message.rcode, answers)
    }

    fn wait(&self, name: &str, rcode: u8, data: &[&str]) {
        wait::for_it(&format!("{name}: {data:?}"), LIMIT, || {
            let message = self.ask(name, A);
            let mut found: Vec<String> = message
                .answers
                .iter()
                .map(|record| text(&record.data))
                .collect();
            found.sort();
            message.rcode == u16::from(rcode) && found == data
        });
    }

    fn reasons(&self) -> String {
        self.site.get("dns-authd", "/readyz").1
    }
}

fn line(record: &tests::dns::Record) -> String {
    let owner = record.owner.to_lowercase();
    let owner = owner.trim_end_matches('.');
    format!(
        "{owner} {} {} {}",
        record.ttl,
        record.rtype,
        text(&record.data)
    )
}

fn text(data: &Data) -> String {
    match data {
        Data::Address(address) => address.to_string(),
        Data::Name(name) => name.trim_end_matches('.').to_owned(),
        Data::Text(parts) => parts.concat(),
        Data::Soa(_, _, [serial, rest @ ..]) => {
            assert!(*serial > 0);
            format!("{rest:?}")
        }
        Data::Exchange(preference, name) => format!("{preference} {name}"),
        Data::Other(octets) => service(octets),
    }
}

/// The data of an SRV record.
fn service(octets: &[u8]) -> String {
    let number = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    let (mut labels, mut at) = (Vec::new(), 6);
    while octets[at] != 0 {
        let end = at + 1 + usize::from(octets[at]);
        labels.push(String::from_utf8_lossy(&octets[at + 1..end]).into_owned());
        at = end;
    }
    format!(
        "{} {} {} {}",
        number(0),
        number(2),
        number(4),
        labels.join(".")
    )
}

//--- Objects

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let (version, namespaced) = match kind {
        "EndpointSlice" => ("discovery.k8s.io/v1", true),
        "Service" => ("v1", true),
        _ => ("v1", false),
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    for (key, value) in rest.as_object().cloned().unwrap_or_default() {
        match key.as_str() {
            "labels" | "annotations" | "creationTimestamp" => object["metadata"][key] = value,
            _ => object[key] = value,
        }
    }
    object
}

fn slice(service: &str, family: &str, endpoints: &Value) -> Value {
    object(
        "EndpointSlice",
        &format!("{service}-{}", family.to_lowercase()),
        json!({
            "labels": {"kubernetes.io/service-name": service},
            "addressType": family,
            "endpoints": endpoints,
            "ports": [{"name": "https", "protocol": "TCP", "port": 443}],
        }),
    )
}

/// The objects of the examples in the specification.
fn specification() -> Vec<Value> {
    let port = json!([{"name": "https", "protocol": "TCP", "port": 443}]);
    vec![
        object("Namespace", "default", json!({})),
        object(
            "Service",
            "kubernetes",
            json!({"spec": {"clusterIP": "10.3.0.1", "clusterIPs": ["10.3.0.1", "fd03::1"], "ports": port}}),
        ),
        object(
            "Service",
            "headless",
            json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": port}}),
        ),
        object(
            "Service",
            "empty",
            json!({"spec": {"clusterIP": "None", "selector": {"a": "c"}, "ports": port}}),
        ),
        object(
            "Service",
            "foo",
            json!({"spec": {"type": "ExternalName", "externalName": "www.example.com"}}),
        ),
        slice(
            "headless",
            "IPv4",
            &json!([
                {"addresses": ["10.3.0.100"], "hostname": "my-pet", "conditions": {"ready": true}},
                {"addresses": ["10.3.0.101"], "conditions": {"ready": true}},
                {"addresses": ["10.3.0.102"], "conditions": {"ready": false}},
            ]),
        ),
        slice(
            "headless",
            "IPv6",
            &json!([{"addresses": ["fd03::100"], "hostname": "my-pet", "conditions": {"ready": true}}]),
        ),
    ]
}

const OPTIONS: &str = "reverse = [\"10.3.0.0/16\", \"fd03::/16\"]\npods = \"insecure\"\n\
    name-servers = [\"192.0.2.53\"]\n";

/// Names, types, codes and answers of the specification; `Z` is the domain.
const REPLAY: &[Case] = &[
    (
        "dns-version.Z",
        TXT,
        NOERROR,
        &["dns-version.Z 28800 16 1.1.0"],
    ),
    (
        "kubernetes.default.svc.Z",
        A,
        NOERROR,
        &["kubernetes.default.svc.Z 5 1 10.3.0.1"],
    ),
    (
        "KUBERNETES.default.SVC.Z",
        AAAA,
        NOERROR,
        &["kubernetes.default.svc.Z 5 28 fd03::1"],
    ),
    (
        "_https._tcp.kubernetes.default.svc.Z",
        SRV,
        NOERROR,
        &["_https._tcp.kubernetes.default.svc.Z 5 33 0 50 443 kubernetes.default.svc.Z"],
    ),
    (
        "1.0.3.10.in-addr.arpa",
        PTR,
        NOERROR,
        &["1.0.3.10.in-addr.arpa 5 12 kubernetes.default.svc.Z"],
    ),
    (
        "headless.default.svc.Z",
        A,
        NOERROR,
        &[
            "headless.default.svc.Z 5 1 10.3.0.100",
            "headless.default.svc.Z 5 1 10.3.0.101",
        ],
    ),
    (
        "headless.default.svc.Z",
        AAAA,
        NOERROR,
        &["headless.default.svc.Z 5 28 fd03::100"],
    ),
    (
        "my-pet.headless.default.svc.Z",
        A,
        NOERROR,
        &["my-pet.headless.default.svc.Z 5 1 10.3.0.100"],
    ),
    (
        "10-3-0-101.headless.default.svc.Z",
        A,
        NOERROR,
        &["10-3-0-101.headless.default.svc.Z 5 1 10.3.0.101"],
    ),
    (
        "_https._tcp.headless.default.svc.Z",
        SRV,
        NOERROR,
        &[
            "_https._tcp.headless.default.svc.Z 5 33 0 33 443 10-3-0-101.headless.default.svc.Z",
            "_https._tcp.headless.default.svc.Z 5 33 0 33 443 my-pet.headless.default.svc.Z",
        ],
    ),
    (
        "100.0.3.10.in-addr.arpa",
        PTR,
        NOERROR,
        &["100.0.3.10.in-addr.arpa 5 12 my-pet.headless.default.svc.Z"],
    ),
    (
        "101.0.3.10.in-addr.arpa",
        PTR,
        NOERROR,
        &["101.0.3.10.in-addr.arpa 5 12 10-3-0-101.headless.default.svc.Z"],
    ),
    (
        "foo.default.svc.Z",
        A,
        NOERROR,
        &["foo.default.svc.Z 5 5 www.example.com"],
    ),
    (
        "foo.default.svc.Z",
        CNAME,
        NOERROR,
        &["foo.default.svc.Z 5 5 www.example.com"],
    ),
    (
        "10-9-8-7.default.pod.Z",
        A,
        NOERROR,
        &["10-9-8-7.default.pod.Z 5 1 10.9.8.7"],
    ),
    ("Z", SOA, NOERROR, &["Z 5 6 [7200, 1800, 86400, 5]"]),
    ("ns.dns.Z", A, NOERROR, &["ns.dns.Z 5 1 192.0.2.53"]),
    // Names that exist without data of the type.
    ("Z", A, NOERROR, &[]),
    ("svc.Z", A, NOERROR, &[]),
    ("default.svc.Z", A, NOERROR, &[]),
    ("kubernetes.default.svc.Z", TXT, NOERROR, &[]),
    ("0.3.10.in-addr.arpa", PTR, NOERROR, &[]),
    // Names that do not exist. A headless Service without a ready endpoint is one.
    ("empty.default.svc.Z", A, NXDOMAIN, &[]),
    ("no.default.svc.Z", A, NXDOMAIN, &[]),
    ("kubernetes.other.svc.Z", A, NXDOMAIN, &[]),
    ("10-3-0-102.headless.default.svc.Z", A, NXDOMAIN, &[]),
    ("10-9-8-7.other.pod.Z", A, NXDOMAIN, &[]),
    ("102.0.3.10.in-addr.arpa", PTR, NXDOMAIN, &[]),
    ("www.example.com", A, REFUSED, &[]),
];

/// A name, a type, the code and the answers.
type Case = (&'static str, u16, u8, &'static [&'static str]);

fn replay(cluster: &Cluster, cases: &[Case]) {
    let domain = "cluster.local";
    for (name, rtype, rcode, wanted) in cases {
        let name = name.replace('Z', domain);
        let wanted: Vec<String> = wanted
            .iter()
            .map(|line| line.replace('Z', domain))
            .collect();
        let answers = cluster.answers(&name, *rtype);
        assert_eq!(answers, (u16::from(*rcode), wanted), "{name} {rtype}");
    }
}

//--- Tests

#[test]
fn the_names_of_a_directory_of_manifests_are_those_of_the_specification() {
    let cluster = Cluster::new("manifests = \"DIR/manifests\"", OPTIONS);
    cluster.put("all", &specification());
    let _clusterd = cluster.clusterd();
    let _authd = cluster.site.start("dns-authd");
    cluster.wait(
        "kubernetes.default.svc.cluster.local",
        NOERROR,
        &["10.3.0.1"],
    );
    replay(&cluster, REPLAY);
}

/// Puts objects into an API server.
fn fill(double: &Double, objects: Vec<Value>) {
    for object in objects {
        let resource = match object["kind"].as_str().unwrap() {
            "Namespace" => "namespaces",
            "Service" => "services",
            _ => "endpointslices",
        };
        double.put(resource, object);
    }
}

#[test]
fn the_names_of_an_api_server_are_those_of_the_specification() {
    let double = Double::start();
    fill(&double, specification());
    let source = format!("[api]\naddresses = [\"{}\"]\nwatch = \"10s\"", double.url());
    let cluster = Cluster::new(&source, OPTIONS);
    let _clusterd = cluster.clusterd();
    let _authd = cluster.site.start("dns-authd");
    cluster.wait(
        "kubernetes.default.svc.cluster.local",
        NOERROR,
        &["10.3.0.1"],
    );
    replay(&cluster, REPLAY);
    double.delete("services", "default/kubernetes");
    cluster.wait("kubernetes.default.svc.cluster.local", NXDOMAIN, &[]);
}

#[test]
fn names_follow_the_cluster_and_outlive_clusterd() {
    let cluster = Cluster::new("manifests = \"DIR/manifests\"", "");
    let authd = cluster.site.start("dns-authd");
    let name = "headless.default.svc.cluster.local";
    // Nothing is known yet: that is no answer.
    assert_eq!(cluster.ask(name, A).rcode, u16::from(SERVFAIL));
    wait::for_it("the reason shows", LIMIT, || {
        cluster
            .reasons()
            .contains("clusterd has given no whole snapshot yet")
    });

    cluster.put("all", &specification());
    let clusterd = cluster.clusterd();
    cluster.wait(name, NOERROR, &["10.3.0.100", "10.3.0.101"]);
    let serial = |cluster: &Cluster| {
        let metrics = cluster.site.get("dns-authd", "/metrics").1;
        metric(&metrics, "dns_authd_zone_serial{zone=\"cluster.local.\"}").unwrap()
    };
    let before = serial(&cluster);

    let endpoint = json!([{"addresses": ["10.3.0.7"], "conditions": {"ready": true}}]);
    let mut objects = specification();
    objects.retain(|object| object["kind"] != "EndpointSlice");
    objects.push(slice("headless", "IPv4", &endpoint));
    cluster.put("all", &objects);
    cluster.wait(name, NOERROR, &["10.3.0.7"]);
    assert!(serial(&cluster) > before);

    clusterd.kill();
    wait::for_it("the reason shows", LIMIT, || {
        cluster.reasons().contains("clusterd is away")
    });
    assert_eq!(cluster.site.get("dns-authd", "/readyz").0, 200);
    cluster.wait(name, NOERROR, &["10.3.0.7"]);

    // An object that was deleted meanwhile is gone once clusterd has read its source.
    objects.retain(|object| object["metadata"]["name"] != "headless");
    cluster.put("all", &objects);
    let _clusterd = cluster.clusterd();
    cluster.wait(name, NXDOMAIN, &[]);
    cluster.wait(
        "kubernetes.default.svc.cluster.local",
        NOERROR,
        &["10.3.0.1"],
    );
    wait::for_it("the reason is gone", LIMIT, || {
        !cluster.reasons().contains("clusterd")
    });
    authd.stop();
}

#[test]
fn a_reload_changes_the_options_and_a_mistake_is_refused() {
    let cluster = Cluster::new("manifests = \"DIR/manifests\"", "");
    cluster.put("all", &specification());
    let _clusterd = cluster.clusterd();
    let authd = cluster.site.start("dns-authd");
    let name = "kubernetes.default.svc.cluster.local";
    cluster.wait(name, NOERROR, &["10.3.0.1"]);
    let path = cluster.site.files.join("dns-authd.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    cluster
        .site
        .files
        .write("dns-authd.toml", &(text.clone() + "ttl = 30\n"));
    authd.hang_up();
    wait::for_it("the TTL is another", LIMIT, || {
        let message = cluster.ask(name, A);
        assert_eq!(
            message.rcode,
            u16::from(NOERROR),
            "the zone stays meanwhile"
        );
        message.answers[0].ttl == 30
    });
    cluster
        .site
        .files
        .write("dns-authd.toml", &(text + "labels = \"a within b\"\n"));
    let mut check = Command::new(binary("dns-authd"));
    check.arg("check").arg("--config").arg(&path);
    let (status, out, err) = tests::daemon::run(check);
    assert!(!status.success());
    assert!(
        format!("{out}{err}").contains("`a within b` is no condition on a label"),
        "{out}{err}"
    );
}

#[test]
#[ignore = "a measurement: 5,000 Services with 50,000 endpoints"]
fn a_large_cluster_is_measured() {
    let cluster = Cluster::new("manifests = \"DIR/manifests\"\nobjects = 20000", "");
    let mut objects = vec![object("Namespace", "default", json!({}))];
    let address = |service: usize, endpoint: usize| {
        let number = service * 10 + endpoint;
        format!(
            "10.{}.{}.{}",
            128 + number / 65_536,
            number / 256 % 256,
            number % 256
        )
    };
    let endpoints = |service: usize, first: usize| {
        let all = (first..first + 10).map(|endpoint| {
            json!({"addresses": [address(service, endpoint)], "conditions": {"ready": true}})
        });
        Value::from(all.collect::<Vec<_>>())
    };
    for number in 0..5000 {
        let name = format!("s{number}");
        let ip = format!("172.30.{}.{}", number / 250, 1 + number % 250);
        objects.push(object(
            "Service",
            &name,
            json!({"spec": {"clusterIP": ip, "ports": [{"name": "https", "port": 443}]}}),
        ));
        objects.push(slice(&name, "IPv4", &endpoints(number, 0)));
    }
    let changed = objects.pop().unwrap();
    cluster.put("all", &objects);
    cluster.put("last", &[changed]);
    let _clusterd = cluster.clusterd();
    let authd = cluster.site.start("dns-authd");
    let before = memory(authd.id());
    cluster.wait(
        "s4999.default.svc.cluster.local",
        NOERROR,
        &["172.30.19.250"],
    );
    let metrics = || cluster.site.get("dns-authd", "/metrics").1;
    let read =
        |name: &str| metric(&metrics(), &format!("{name}{{zone=\"cluster.local.\"}}")).unwrap();
    println!(
        "whole: {} records, rendered in {:.3} s, {} KiB of memory ({} KiB before)",
        read("dns_authd_zone_records"),
        read("dns_authd_zone_load_duration_seconds"),
        memory(authd.id()) >> 10,
        before >> 10,
    );
    cluster.put("last", &[slice("s4999", "IPv4", &endpoints(4999, 1))]);
    let last = address(4999, 10);
    let name = format!("{}.s4999.default.svc.cluster.local", last.replace('.', "-"));
    cluster.wait(&name, NOERROR, &[&last]);
    println!(
        "one changed endpoint: rendered in {:.6} s, {} KiB of memory",
        read("dns_authd_zone_load_duration_seconds"),
        memory(authd.id()) >> 10,
    );
}
