//! The names of the cluster on a node of a rendered site.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tests::dns::{A, NXDOMAIN, PTR, Question, ask};
use tests::installed::{Installed, SITE};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(20);

/// Lists of a Service and its endpoints, as `kubectl get --output yaml` writes them.
const SHOP: &str = r#"apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: shop}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: shop}
  spec: {clusterIP: 172.30.0.20, clusterIPs: [172.30.0.20], ports: [{name: http, port: 80}]}
- apiVersion: v1
  kind: Service
  metadata: {name: db, namespace: shop}
  spec: {clusterIP: None, clusterIPs: [None], ports: [{name: sql, port: 5432}]}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
  addressType: IPv4
  endpoints: [{addresses: [10.128.0.7], hostname: db-0, conditions: {ready: true}}]
  ports: [{name: sql, port: 5432}]
"#;

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_node_that_asks_its_recursor_gets_the_names_of_the_cluster() {
    let manifests = "/etc/outpost/clusterd/manifests";
    let cluster = format!(
        "[cluster]\nmanifests = \"{manifests}\"\ndomain = \"cluster.local\"\n\
         reverse = [\"172.30.0.0/16\", \"10.128.0.0/14\"]\n[registry]\n"
    );
    let mut node = Installed::install(&SITE.replace("[registry]\n", &cluster));
    let directory = node.root.join(manifests.trim_start_matches('/'));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("shop.yaml"), SHOP).unwrap();
    for service in ["healthd", "clusterd", "dns-authd", "dns-recursor"] {
        node.serve(service);
    }
    let recursor = SocketAddr::from(([192, 168, 7, 13], 53));
    let answer = |name: &str, rtype| {
        let question = Question::new(name, rtype);
        node.machine.inside(|| ask(recursor, &question)).unwrap()
    };
    wait::for_it("the Service has its name", LIMIT, || {
        let answer = answer("web.shop.svc.cluster.local", A);
        answer.addresses() == ["172.30.0.20".parse().unwrap()].into()
    });
    for (name, rtype, data) in [
        ("db.shop.svc.cluster.local", A, "10.128.0.7"),
        ("db-0.db.shop.svc.cluster.local", A, "10.128.0.7"),
        (
            "20.0.30.172.in-addr.arpa",
            PTR,
            "web.shop.svc.cluster.local",
        ),
        (
            "7.0.128.10.in-addr.arpa",
            PTR,
            "db-0.db.shop.svc.cluster.local",
        ),
    ] {
        let answer = answer(name, rtype);
        let found = format!("{:?}", answer.answers);
        assert!(found.contains(data), "{name}: {answer:?}");
    }
    let none = answer("cart.shop.svc.cluster.local", A);
    assert_eq!(none.rcode, u16::from(NXDOMAIN), "{none:?}");
    // The names of the site are there as before.
    let own = answer("master-1.edge.example.org", A);
    assert_eq!(own.addresses(), ["192.168.7.14".parse().unwrap()].into());
}
