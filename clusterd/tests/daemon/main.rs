//! The program itself, beside a double of the API server that restarts, compacts, keeps silent and is set back.

mod addresses;
mod double;
mod real;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use cluster::{Freshness, Key, Kind, Object, Snapshot};
use daemon::admin;
use daemon::clock::{first_generation, now, since_1970};
use double::Double;
use proto::cluster::link::Link;
use proto::endpoint::Endpoint;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

//--- Scaffold

/// A clusterd of its own, with its directory; killed and removed at the end.
struct Daemon {
    directory: TempDir,
    child: Option<Child>,
}

impl Daemon {
    /// With these lines in its file, in which `DIR` is its directory.
    fn configured(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().display().to_string();
        let text = format!(
            "version = \"v1\"\nsocket = \"{path}/s\"\nstate = \"{path}/state\"\nadmin.listen = \"none\"\n{}",
            lines.replace("DIR", &path)
        );
        fs::write(directory.path().join("clusterd.toml"), text).expect("a file");
        Self {
            directory,
            child: None,
        }
    }

    fn beside(doubles: &[&Double]) -> Self {
        let addresses: Vec<String> = doubles
            .iter()
            .map(|double| format!("\"{}\"", double.url()))
            .collect();
        let mut daemon = Self::configured(&format!(
            "[api]\naddresses = [{}]\npage = 2\nwatch = \"10s\"\n",
            addresses.join(", ")
        ));
        daemon.start();
        daemon
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn socket(&self) -> PathBuf {
        self.path().join("s")
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clusterd"));
        command.args(["serve", "--log-level", "info", "--config"]);
        command.arg(self.path().join("clusterd.toml"));
        command.arg("--admin-socket").arg(self.path().join("admin"));
        command.stdout(Stdio::null());
        self.child = Some(command.spawn().expect("clusterd starts"));
        let begun = now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(begun.elapsed() < LIMIT, "clusterd does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .expect("it is asked to end");
        assert!(child.wait().expect("it ends").success());
    }

    fn link(&self) -> Link {
        Link::start(Some(Endpoint::Unix(self.socket())), "test")
    }

    fn run(&self, verb: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clusterd"));
        command.args(verb);
        command.output().expect("clusterd runs")
    }

    fn get(&self, words: &[&str]) -> String {
        let socket = self.socket().display().to_string();
        let verb = [&["get", "--socket", &socket], words].concat();
        let output = self.run(&verb);
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    async fn ask(&self, path: &str) -> String {
        let socket = self.path().join("admin");
        let answer = admin::get(socket.as_path(), path).await;
        answer.expect("an answer").text()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Waits until the snapshot of a link is as wanted.
async fn until(link: &Link, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let mut snapshots = link.reader().expect("a link");
    let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(|snapshot| wanted(snapshot))).await;
    assert!(waited.is_ok(), "{what}: {:?}", names(&link.current()));
    Snapshot::clone(&snapshots.shared())
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .objects()
        .map(|object| object.key().to_string())
        .collect()
}

fn services(snapshot: &Snapshot) -> Vec<String> {
    let services = snapshot.of_kind(Kind::Service);
    services.map(|object| object.meta().name.clone()).collect()
}

fn is_current(snapshot: &Snapshot) -> bool {
    snapshot.least_fresh() == Freshness::Current
}

fn service(name: &str, ip: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "spec": {"clusterIP": ip, "ports": [{"port": 80}]}})
}

fn slice(name: &str, address: &str) -> Value {
    let labels = json!({"kubernetes.io/service-name": name});
    json!({"metadata": {"name": format!("{name}-x"), "namespace": "shop", "labels": labels},
        "addressType": "IPv4", "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"port": 8080}]})
}

fn populated() -> Double {
    let double = Double::start();
    for (place, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        double.put("services", service(name, &format!("10.96.0.{}", place + 1)));
    }
    double.put("nodes", json!({"metadata": {"name": "master-0"}}));
    double.put("namespaces", json!({"metadata": {"name": "shop"}}));
    double.put("endpointslices", slice("a", "10.128.0.1"));
    double
}

//--- Tests

#[tokio::test]
async fn objects_are_listed_in_pages_and_their_changes_follow() {
    let double = populated();
    let daemon = Daemon::beside(&[&double]);
    let link = daemon.link();
    let first = until(&link, "everything", is_current).await;
    assert_eq!(services(&first), ["a", "b", "c", "d", "e"]);
    assert_eq!(first.len(), 8);
    double.put("services", service("f", "10.96.0.9"));
    double.delete("services", "shop/a");
    double.put(
        "services",
        json!({"metadata": {"name": "bad", "namespace": "shop"}, "spec": {"clusterIP": "x"}}),
    );
    double.put("endpointslices", slice("b", "10.128.0.2"));
    let next = until(&link, "changes", |it| {
        services(it) == ["b", "c", "d", "e", "f"] && it.count(Kind::EndpointSlice) == 2
    })
    .await;
    assert!(next.generation > first.generation);
    assert!(
        daemon
            .get(&["service"])
            .contains("service shop/f  ClusterIP 10.96.0.9 80/TCP")
    );
    assert!(
        daemon
            .get(&["node", "master-0", "--json"])
            .contains("\"ready\":\"unknown\"")
    );
    assert!(
        !daemon
            .run(&[
                "get",
                "--socket",
                &daemon.socket().display().to_string(),
                "node",
                "no"
            ])
            .status
            .success()
    );
    let status: Value = serde_json::from_str(&daemon.ask("/status").await).expect("a status");
    assert_eq!(status["ready"], true, "{status:#}");
    assert_eq!(status["detail"]["kinds"][2]["watching"], true, "{status:#}");
    assert_eq!(status["detail"]["source"]["minor_version"], 30);
    // The unreadable object came after the change that ended the wait, or before it.
    let begun = now();
    let mut metrics = daemon.ask("/metrics").await;
    let unreadable = "clusterd_unreadable_objects_total{kind=\"service\"} 1";
    while !metrics.contains(unreadable) && begun.elapsed() < LIMIT {
        metrics = daemon.ask("/metrics").await;
    }
    for line in [
        "clusterd_objects{kind=\"service\"} 5",
        unreadable,
        "clusterd_current{kind=\"node\"} 1",
        "clusterd_subscribers 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let lists = double
        .requests()
        .iter()
        .filter(|it| it.contains("continue="))
        .count();
    assert!(lists >= 2, "five services in pages of two");
}

#[tokio::test]
async fn a_restart_and_a_compaction_of_the_api_lose_nothing() {
    let double = populated();
    let daemon = Daemon::beside(&[&double]);
    let link = daemon.link();
    let first = until(&link, "everything", is_current).await;
    let mut seen = link.reader().expect("a link");
    // While nobody watches, one goes and one comes; the history forgets both.
    double.set(|behaviour| behaviour.is_down = true);
    double.delete("services", "shop/b");
    double.put("services", service("g", "10.96.0.20"));
    double.compact();
    double.restart();
    double.set(|behaviour| behaviour.is_down = false);
    let next = until(&link, "the list", |it| {
        services(it) == ["a", "c", "d", "e", "g"]
    })
    .await;
    // Both in one step: the list is taken up as a whole, and nothing was away in between.
    seen.changed().await;
    assert_eq!(next.generation, first.generation + 1);
    assert_eq!(services(&seen.shared()), services(&next));
    double.put("services", service("h", "10.96.0.21"));
    until(&link, "a change after it", |it| {
        services(it).contains(&"h".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_restored_etcd_is_noticed() {
    let double = populated();
    let restore = double.backup();
    let daemon = Daemon::beside(&[&double]);
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    for number in 0..20 {
        double.put("services", service(&format!("n{number}"), "10.96.1.1"));
    }
    until(&link, "later objects", |it| it.count(Kind::Service) == 25).await;
    restore(&double);
    until(&link, "the restored state", |it| {
        it.count(Kind::Service) == 5
    })
    .await;
}

// The link that is dropped has to close its connection while the test waits for the end of the process.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_snapshot_is_served_as_old_while_the_api_is_away() {
    let double = populated();
    let mut daemon = Daemon::beside(&[&double]);
    let before = until(&daemon.link(), "everything", is_current).await;
    daemon.stop();
    double.set(|behaviour| behaviour.is_down = true);
    daemon.start();
    let link = daemon.link();
    let old = until(&link, "the old snapshot", |it| it.generation > 0).await;
    assert_eq!(
        (names(&old), old.least_fresh()),
        (names(&before), Freshness::Old)
    );
    assert!(old.generation > before.generation);
    assert!(
        daemon
            .get(&["node"])
            .contains("from before the start of clusterd")
    );
    // Without its state it knows nothing; the subscriber keeps what it had. Its generations follow the clock then, and are
    // greater than all before once the clock is past the jump that the state gave to the last start.
    daemon.stop();
    while first_generation(0, since_1970()) <= old.generation {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fs::remove_dir_all(daemon.path().join("state")).expect("a directory");
    daemon.start();
    let lost = until(&link, "the new process", |it| {
        it.generation > old.generation
    })
    .await;
    assert_eq!(
        (names(&lost), lost.least_fresh()),
        (names(&before), Freshness::Old)
    );
    double.delete("services", "shop/c");
    double.set(|behaviour| behaviour.is_down = false);
    let current = until(&link, "the api", is_current).await;
    until(&link, "the deletion", |it| {
        services(it) == ["a", "b", "d", "e"]
    })
    .await;
    assert!(current.generation > old.generation);
}

#[tokio::test]
async fn another_address_takes_over_and_a_silent_watch_is_left() {
    let first = populated();
    let second = first.beside();
    let daemon = Daemon::beside(&[&first, &second]);
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    assert!(second.requests().is_empty(), "the own node's first");
    first.set(|behaviour| behaviour.is_down = true);
    first.restart();
    first.put("services", service("f", "10.96.0.9"));
    until(&link, "the other address", |it| {
        services(it).contains(&"f".to_owned())
    })
    .await;
    // The second keeps its connections, and says nothing any more.
    first.set(|behaviour| behaviour.is_down = false);
    second.set(|behaviour| behaviour.is_silent = true);
    first.put("services", service("g", "10.96.0.10"));
    until(&link, "a change that the silent one keeps", |it| {
        services(it).contains(&"g".to_owned())
    })
    .await;
}

#[tokio::test]
async fn lists_come_as_first_events_where_the_server_has_it_and_old_slices_are_found() {
    let double = populated();
    double.set(|behaviour| {
        behaviour.minor = 34;
        behaviour.has_old_slices = true;
    });
    let daemon = Daemon::beside(&[&double]);
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    assert!(link.current().count(Kind::EndpointSlice) == 1);
    // The version is known by now, or soon; each restart has the objects listed again.
    let has_initial = || {
        double
            .requests()
            .iter()
            .any(|it| it.contains("sendInitialEvents=true"))
    };
    let begun = now();
    let mut number = 0;
    while !has_initial() {
        assert!(begun.elapsed() < LIMIT, "{:?}", double.requests());
        number += 1;
        let name = format!("n{number}");
        double.put("services", service(&name, "10.96.1.1"));
        double.compact();
        double.restart();
        until(&link, "a change", |it| services(it).contains(&name)).await;
    }
    double.put("services", service("last", "10.96.1.2"));
    until(&link, "the last", |it| {
        services(it).contains(&"last".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_token_that_rotates_is_read_again() {
    let key =
        rcgen::generate_simple_self_signed(["kubernetes.default.svc".to_owned()]).expect("a key");
    let chain = vec![key.cert.der().clone()];
    let private =
        rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).expect("a key");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .expect("a certificate");
    let double = Double::start_with_tls(config);
    double.put("services", service("a", "10.96.0.1"));
    double.set(|behaviour| behaviour.token = Some("one".to_owned()));
    let mut daemon = Daemon::configured(&format!(
        "[api]\naddresses = [\"{}\"]\nserver-name = \"kubernetes.default.svc\"\nca-file = \"DIR/ca\"\ntoken-file = \"DIR/token\"\nwatch = \"10s\"\n",
        double.url()
    ));
    fs::write(daemon.path().join("ca"), key.cert.pem()).expect("a file");
    fs::write(daemon.path().join("token"), "one\n").expect("a file");
    let config = daemon.path().join("clusterd.toml").display().to_string();
    let checked = daemon.run(&["check", "--config", &config]);
    assert!(checked.status.success(), "{checked:?}");
    daemon.start();
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    double.set(|behaviour| behaviour.token = Some("two".to_owned()));
    double.restart();
    double.put("services", service("b", "10.96.0.2"));
    fs::write(daemon.path().join("token"), "two\n").expect("a file");
    until(&link, "the new token", |it| services(it) == ["a", "b"]).await;
    // A file that is of no use leaves the credentials that are in use.
    fs::write(daemon.path().join("ca"), "none").expect("a file");
    let begun = now();
    while !daemon.ask("/status").await.contains("give `ca-file`") {
        assert!(begun.elapsed() < LIMIT, "the file of no use is not named");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    double.put("services", service("c", "10.96.0.3"));
    double.restart();
    double.put("services", service("d", "10.96.0.4"));
    until(&link, "the old credentials", |it| services(it).len() == 4).await;
}

#[tokio::test]
async fn manifests_are_followed() {
    let mut daemon = Daemon::configured("manifests = \"DIR/manifests\"\n");
    let place = daemon.path().join("manifests");
    fs::create_dir(&place).expect("a directory");
    let manifest = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n"
        )
    };
    fs::write(place.join("a.yaml"), manifest("a")).expect("a file");
    daemon.start();
    let link = daemon.link();
    until(&link, "the first file", |it| services(it) == ["a"]).await;
    let new = place.join(".new");
    fs::write(&new, manifest("b") + "---\n" + &manifest("c")).expect("a file");
    fs::rename(&new, place.join("b.yaml")).expect("a rename");
    until(&link, "the second file", |it| {
        services(it) == ["a", "b", "c"]
    })
    .await;
    fs::write(place.join("b.yaml"), "a: [").expect("a file");
    fs::remove_file(place.join("a.yaml")).expect("a file");
    until(&link, "the removal", |it| services(it) == ["b", "c"]).await;
    let begun = now();
    while !daemon.ask("/status").await.contains("b.yaml: ") {
        assert!(
            begun.elapsed() < LIMIT,
            "the file that cannot be read is not named"
        );
    }
    assert_eq!(
        services(&link.current()),
        ["b", "c"],
        "its earlier text counts"
    );
    let object = link.current();
    let key = Key {
        kind: Kind::Service,
        namespace: "default".to_owned(),
        name: "b".to_owned(),
    };
    assert!(matches!(
        object.get(&key).map(|it| &**it),
        Some(Object::Service(_))
    ));
}
