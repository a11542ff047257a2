//! Nodes of a cluster join a backend and leave it, as clusterd reports them.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tests::clusterd;
use tests::daemon::Daemon;
use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::{PATIENCE, Server, connect, line, receive, send};
use tests::wait;

/// lb-proxy with one written server `s0`, and clusterd with a directory of manifests.
struct Site {
    place: Place,
    servers: Vec<Server>,
    clusterd: Option<Daemon>,
    lb: Option<Daemon>,
    _healthd: Daemon,
}

impl Site {
    fn new() -> Self {
        let servers: Vec<Server> = (0..3)
            .map(|n| Server::named(at(loopback(), FRONT), &format!("s{n}")))
            .collect();
        let place = Place::new();
        fs::create_dir_all(place.files.join("manifests")).unwrap();
        let files = place.files.join("");
        let files = files.display().to_string();
        let files = files.trim_end_matches('/');
        place.files.write(
            "clusterd.toml",
            &format!(
                "version = \"v1\"\nsocket = \"{files}/clusterd.sock\"\nstate = \"{files}/clusterd\"\n\
                 manifests = \"{files}/manifests\"\nadmin.listen = \"none\"\n"
            ),
        );
        let schedule = "[schedule]\ninterval = \"500ms\"\ntimeout = \"200ms\"\n";
        let mut site = Self {
            _healthd: place.start_healthd(schedule),
            place,
            servers,
            clusterd: None,
            lb: None,
        };
        site.put(0, &json!({}));
        site.start_clusterd();
        site.start_lb();
        site
    }

    fn start_clusterd(&mut self) {
        self.clusterd = Some(clusterd::start(&self.place.files));
    }

    fn start_lb(&mut self) {
        let back = format!(
            "balance = \"round-robin\"\nfollow = {{ nodes = [\"masters\"], port = {FRONT} }}"
        );
        let pair = pair(&self.place, "", &back, &[self.servers[0].address()]);
        let socket = self.place.files.join("clusterd.sock");
        let cluster = format!(
            "[cluster]\nsocket = \"{}\"\nnetworks = [\"127.0.0.0/8\"]\n",
            socket.display()
        );
        self.lb = Some(self.place.start(&format!("{cluster}{pair}")));
    }

    /// Writes the manifest of the node of a server.
    fn put(&self, number: usize, spec: &Value) {
        let address = self.servers[number].address().ip().to_string();
        self.put_at(&format!("n{number}"), &address, spec);
    }

    fn put_at(&self, name: &str, address: &str, spec: &Value) {
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/master": ""}},
            "spec": spec,
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        });
        let name = format!("manifests/{name}.json");
        self.place.files.write(&name, &node.to_string());
    }

    fn remove(&self, number: usize) {
        let name = format!("manifests/n{number}.json");
        fs::remove_file(self.place.files.join(&name)).unwrap();
    }

    /// The servers that six connections get.
    fn chosen(&self) -> BTreeSet<String> {
        let next = |_| line(&connect(self.place.front()));
        (0..6).map(next).collect()
    }

    fn wait_chosen<const N: usize>(&self, names: [&str; N]) {
        let names: BTreeSet<String> = names.map(str::to_owned).into();
        wait::for_it(&format!("{names:?} are chosen"), PATIENCE, || {
            self.chosen() == names
        });
    }

    fn status(&self) -> Value {
        let status = self.place.done(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        status["detail"].clone()
    }

    /// The servers, with their origins.
    fn origins(&self) -> Vec<(String, String)> {
        let status = self.status();
        let servers = status["backends"][0]["servers"].as_array().unwrap().clone();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        servers
            .iter()
            .map(|server| (word(&server["address"]), word(&server["origin"])))
            .collect()
    }
}

fn named(addresses: &[SocketAddr], origins: &[&str]) -> Vec<(String, String)> {
    let addresses = addresses.iter().map(ToString::to_string);
    addresses
        .zip(origins.iter().map(|origin| (*origin).to_owned()))
        .collect()
}

#[test]
fn a_master_that_joins_the_cluster_is_a_server_until_it_leaves() {
    let site = Site::new();
    let [s0, s1, s2] = [0, 1, 2].map(|n| site.servers[n].address());
    site.wait_chosen(["s0"]);
    site.put(1, &json!({}));
    site.wait_chosen(["s0", "s1"]);
    site.put(2, &json!({}));
    site.wait_chosen(["s0", "s1", "s2"]);
    let mut expected = named(&[s0, s1, s2], &["both", "learned", "learned"]);
    let mut origins = site.origins();
    expected.sort();
    origins.sort();
    assert_eq!(origins, expected);
    // healthd probes a server that has joined.
    wait::for_it("healthd knows every server", PATIENCE, || {
        let status = site.status();
        let servers = status["backends"][0]["servers"].as_array().unwrap().clone();
        servers.iter().all(|it| it["probe"]["liveness"] == "up")
    });

    // A node that is cordoned keeps its sessions and gets none.
    let held: Vec<_> = (0..6)
        .map(|_| connect(site.place.front()))
        .map(|stream| (line(&stream), stream))
        .collect();
    site.put(1, &json!({"unschedulable": true}));
    site.wait_chosen(["s0", "s2"]);
    for (_, stream) in &held {
        send(stream, 3, 2000, 2000).unwrap();
        assert_eq!(receive(stream, 3, 2000), Ok(()));
    }
    let text = site.place.done(&["status"]);
    assert!(text.contains("its node is cordoned"), "{text}");
    assert!(text.contains("(learned)"), "{text}");
    assert!(text.contains("clusterd is connected"), "{text}");
    site.put(1, &json!({}));
    site.wait_chosen(["s0", "s1", "s2"]);
    site.remove(1);
    site.wait_chosen(["s0", "s2"]);

    // An address outside the networks does not join, and the status says why.
    site.put_at("n9", "192.0.2.9", &json!({}));
    wait::for_it("the status names the node", PATIENCE, || {
        let text = site.place.done(&["status"]);
        text.contains("n9 may NOT join: none of its addresses is in a network of the site")
    });
    assert_eq!(site.origins().len(), 2);
    // The written server stays whatever the cluster says.
    site.remove(0);
    site.wait_chosen(["s0", "s2"]);
}

#[test]
fn without_clusterd_the_servers_stay_and_lb_proxy_starts() {
    let mut site = Site::new();
    site.put(1, &json!({}));
    site.wait_chosen(["s0", "s1"]);
    site.clusterd.take().unwrap().kill();
    wait::for_it("lb-proxy has noticed", PATIENCE, || {
        let text = site.place.done(&["status"]);
        text.contains("clusterd is NOT connected")
    });
    site.wait_chosen(["s0", "s1"]);
    // A reload keeps what is known.
    site.lb.as_ref().unwrap().hang_up();
    site.lb.as_ref().unwrap().wait_log("Reloaded");
    site.wait_chosen(["s0", "s1"]);

    site.lb.take().unwrap().stop();
    site.start_lb();
    site.wait_chosen(["s0"]);
    let [s0] = [0].map(|n| site.servers[n].address());
    assert_eq!(site.origins(), named(&[s0], &["written"]));
    // Back with the manifests as they are, clusterd brings the node back.
    site.start_clusterd();
    site.wait_chosen(["s0", "s1"]);
}
