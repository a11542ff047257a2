//! Forwards of a cluster: dns-recursor follows the object of OpenShift's DNS operator through clusterd.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::binaries::binary;
use tests::clusterd;
use tests::daemon::{Daemon, run};
use tests::dns::{A, NOERROR, SERVFAIL, ask_a};
use tests::scratch::{at, loopback};
use tests::site::Site;
use tests::upstream::{Action, Upstream};
use tests::wait;

use super::{address, addresses};
use crate::double::Double;

const LIMIT: Duration = Duration::from_secs(60);

/// An upstream that answers every question with 192.0.2.N.
fn upstream(last: u8) -> (SocketAddr, Upstream) {
    let to = at(loopback(), 5300);
    let upstream = Upstream::start(to, move |asked| {
        Action::Send(asked.answer(NOERROR, &[(A, 60, address(last))]))
    });
    (to, upstream)
}

/// The object, with one server for a zone.
fn object(zone: &str, to: SocketAddr) -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "DNS",
        "metadata": {"name": "default"},
        "spec": {
            "servers": [{
                "name": "site",
                "zones": [zone],
                "forwardPlugin": {"policy": "Sequential", "upstreams": [to.to_string()]},
            }],
            "cache": {"positiveTTL": "20s", "negativeTTL": "10s"},
        },
    })
}

/// A dns-recursor that forwards `written.example` by its file, and learns other zones from clusterd.
struct Node {
    site: Site,
    source: String,
}

impl Node {
    fn new(written: SocketAddr, source: &str, resolv_conf: &str) -> Self {
        let site = Site::new();
        let directory = site.files.join("").display().to_string();
        let directory = directory.trim_end_matches('/');
        std::fs::create_dir_all(site.files.join("manifests")).unwrap();
        site.files.write("resolv.conf", resolv_conf);
        let forward = format!(
            "[[forward]]\nzone = \"written.example\"\nupstreams = [\"{written}\"]\nrecursive = true\n\
             [cluster]\nsocket = \"{directory}/clusterd.sock\"\nresolv-conf = \"{directory}/resolv.conf\"\n\
             state = \"{directory}/learned\"\n"
        );
        site.configure_recursor(&forward, "");
        let source = source.replace("DIR", directory);
        site.files.write(
            "clusterd.toml",
            &format!(
                "version = \"v1\"\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/clusterd\"\n\
                 admin.listen = \"none\"\n{source}\n"
            ),
        );
        Self { site, source }
    }

    fn clusterd(&self) -> Daemon {
        clusterd::start(&self.site.files)
    }

    fn put(&self, object: &Value) {
        self.site
            .files
            .write("manifests/dns.json", &object.to_string());
    }

    /// The code and the addresses of a name.
    fn ask(&self, name: &str) -> (u16, Vec<String>) {
        let message = ask_a(self.site.resolver(), name).unwrap();
        (message.rcode, addresses(&message))
    }

    /// Waits until names below a zone are answered like this; each question is asked once, so that the cache has no say.
    fn wait(&self, zone: &str, wanted: &(u16, Vec<String>)) {
        let mut n = 0;
        wait::for_it(
            &format!("{zone}: {wanted:?} from {}", self.source),
            LIMIT,
            || {
                n += 1;
                self.ask(&format!("n{n}.{zone}")) == *wanted
            },
        );
    }

    fn detail(&self) -> Value {
        let status = self.site.get("dns-recursor", "/status").1;
        let status: Value = serde_json::from_str(&status).unwrap();
        status["detail"].clone()
    }

    fn reasons(&self) -> String {
        self.site.get("dns-recursor", "/readyz").1
    }

    fn explain(&self, name: &str) -> String {
        super::explain::explain(&self.site, &[name])
    }
}

fn answer(last: u8) -> (u16, Vec<String>) {
    (u16::from(NOERROR), vec![format!("192.0.2.{last}")])
}

fn failure() -> (u16, Vec<String>) {
    (u16::from(SERVFAIL), Vec::new())
}

#[test]
fn forwards_follow_the_cluster_and_outlive_clusterd() {
    let (written, _written) = upstream(1);
    let (first, _first) = upstream(2);
    let (second, _second) = upstream(3);
    let (system, _system) = upstream(4);
    let node = Node::new(written, "manifests = \"DIR/manifests\"", "");
    let _recursor = node.site.start("dns-recursor");
    node.wait("written.example", &answer(1));
    node.wait("site.example", &failure());
    assert!(
        node.reasons().contains("clusterd is away"),
        "{}",
        node.reasons()
    );
    assert_eq!(node.site.get("dns-recursor", "/readyz").0, 200);

    node.put(&object("site.example", first));
    let clusterd = node.clusterd();
    node.wait("site.example", &answer(2));
    let ttl = ask_a(node.site.resolver(), "ttl.site.example").unwrap();
    assert!(ttl.answers[0].ttl <= 20, "the lower bound counts: {ttl:?}");
    let detail = node.detail();
    let learned = |zone: &str| {
        let zones = detail["zones"].as_array().unwrap();
        let zone = zones.iter().find(|one| one["zone"] == zone);
        zone.unwrap_or_else(|| panic!("{detail}"))["learned"] == true
    };
    assert!(learned("site.example.") && !learned("written.example."));
    assert!(
        node.explain("a.site.example")
            .contains("learned from the cluster")
    );
    assert!(!node.explain("a.written.example").contains("learned"));

    // The forward follows the object; a zone that is written stays.
    let mut changed = object("site.example", second);
    changed["spec"]["servers"][0]["zones"] = json!(["site.example", "written.example"]);
    node.put(&changed);
    node.wait("site.example", &answer(3));
    node.wait("written.example", &answer(1));

    // So does the name server of the node.
    node.site
        .files
        .write("resolv.conf", &format!("nameserver {}\n", node.site.ip));
    let mut with_port = changed.clone();
    with_port["spec"]["upstreamResolvers"] = json!({"upstreams": [
        {"type": "Network", "address": system.ip().to_string(), "port": system.port()},
    ]});
    node.put(&with_port);
    node.wait("other.example", &answer(4));

    // One that cannot be followed changes nothing and is named.
    let mut bad = changed.clone();
    bad["spec"]["servers"][0]["forwardPlugin"]["transportConfig"] = json!({"transport": "TLS", "tls": {"serverName": "dns.example", "caBundle": {"name": "ca"}}});
    node.put(&bad);
    wait::for_it("the reason shows", LIMIT, || {
        node.reasons().contains("`site` demands TLS")
    });
    assert!(
        node.detail()["cluster"]["problem"]
            .to_string()
            .contains("demands TLS")
    );
    node.wait("site.example", &answer(3));
    bad = changed.clone();
    bad["spec"]["servers"][0]["forwardPlugin"]["upstreams"] =
        json!([node.site.resolver().to_string()]);
    node.put(&bad);
    wait::for_it("the circle is named", LIMIT, || {
        node.reasons().contains("is this server itself")
    });
    node.wait("site.example", &answer(3));
    bad["spec"]["servers"][0]["forwardPlugin"]["upstreams"] = json!(["nowhere"]);
    node.put(&bad);
    node.put(&changed);
    wait::for_it("the reason is gone", LIMIT, || {
        !node.reasons().contains("not followed")
    });

    clusterd.kill();
    wait::for_it("the reason shows", LIMIT, || {
        node.reasons().contains("clusterd is away")
    });
    node.wait("site.example", &answer(3));

    // clusterd comes back with what it had, and an object that is gone takes its forwards along.
    let _clusterd = node.clusterd();
    wait::for_it("the reason is gone", LIMIT, || {
        !node.reasons().contains("clusterd is away")
    });
    node.wait("site.example", &answer(3));
    std::fs::remove_file(node.site.files.join("manifests/dns.json")).unwrap();
    node.wait("site.example", &failure());
    node.wait("written.example", &answer(1));
}

#[test]
fn forwards_of_an_api_server_are_learned_and_a_restart_knows_them() {
    let (written, _written) = upstream(1);
    let (first, _first) = upstream(2);
    let double = Double::start();
    double.put("dnses", object("site.example", first));
    let source = format!(
        "[api]\naddresses = [\"{}\"]\nwatch = \"10s\"\ndnses = true",
        double.url()
    );
    let node = Node::new(written, &source, "");
    let _clusterd = node.clusterd();
    let recursor = node.site.start("dns-recursor");
    node.wait("site.example", &answer(2));
    recursor.stop();
    let _recursor = node.site.start("dns-recursor");
    node.wait("site.example", &answer(2));
    double.delete("dnses", "default");
    node.wait("site.example", &failure());
}

#[test]
fn a_start_without_clusterd_forwards_as_the_disk_says() {
    let (written, _written) = upstream(1);
    let (first, _first) = upstream(2);
    let (second, _second) = upstream(3);
    let node = Node::new(written, "manifests = \"DIR/manifests\"", "");
    node.put(&object("site.example", first));
    let clusterd = node.clusterd();
    let recursor = node.site.start("dns-recursor");
    node.wait("site.example", &answer(2));
    assert_eq!(node.detail()["cluster"]["saved"], false);
    // Its successor knows the forwards though clusterd never answers it; a power cut would leave the same file.
    let state = node.site.files.join("learned/state");
    wait::for_it("the object is on disk", LIMIT, || state.exists());
    clusterd.kill();
    recursor.kill();
    let recursor = node.site.start("dns-recursor");
    node.wait("site.example", &answer(2));
    assert_eq!(node.detail()["cluster"]["saved"], true);
    assert!(
        node.reasons()
            .contains("forwards of the cluster are those of the disk, from before the start"),
        "{}",
        node.reasons()
    );
    let mut status = Command::new(binary("dns-recursor"));
    status
        .arg("status")
        .arg("--admin")
        .arg(node.site.admin("dns-recursor").to_string());
    let (_, out, err) = run(status);
    assert!(out.contains("is the OLD one of the disk"), "{out}{err}");
    // clusterd comes back: what it says counts.
    node.put(&object("site.example", second));
    let clusterd = node.clusterd();
    node.wait("site.example", &answer(3));
    assert_eq!(node.detail()["cluster"]["saved"], false);
    clusterd.kill();
    recursor.kill();
    // A damaged file is moved aside, and harms nothing else.
    std::fs::write(&state, "damaged").unwrap();
    let _recursor = node.site.start("dns-recursor");
    node.wait("written.example", &answer(1));
    node.wait("site.example", &failure());
    assert!(node.site.files.join("learned/state.refused").exists());
}

#[test]
fn a_file_with_the_table_of_a_cluster_is_checked() {
    let (written, _written) = upstream(1);
    let node = Node::new(written, "manifests = \"DIR/manifests\"", "");
    let mut check = Command::new(binary("dns-recursor"));
    check.arg("check").arg("--config");
    check.arg(node.site.files.join("dns-recursor.toml"));
    let (status, out, err) = run(check);
    assert!(status.success(), "{out}{err}");
}
