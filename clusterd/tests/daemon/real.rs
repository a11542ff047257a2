//! The same beside a real API server with etcd, left out unless the environment names both: `tests/kube-apiserver.sh` builds
//! them once on a machine.

use cluster::rules::{ADDRESSES, ELECTION, Rule};

use super::*;

/// The token of an administrator.
const ADMIN: &str = "admin";
/// The token of the account that has the rules of clusterd.
const ACCOUNT: &str = "clusterd";

/// etcd and API servers; killed at the end.
struct Cluster {
    place: TempDir,
    etcd: Option<Child>,
    server: Option<Child>,
    etcd_port: u16,
    port: u16,
}

impl Cluster {
    /// Starts both; none if the environment does not name them.
    fn start() -> Option<Self> {
        for variable in ["OUTPOST_KUBE_APISERVER", "OUTPOST_ETCD"] {
            std::env::var_os(variable)?;
        }
        let place = tempfile::tempdir().expect("a directory");
        let name = "kubernetes.default.svc".to_owned();
        let key = rcgen::generate_simple_self_signed([name]).expect("a key");
        let write = |name: &str, text: &str| {
            fs::write(place.path().join(name), text).expect("a file");
        };
        write("tls.crt", &key.cert.pem());
        write("tls.key", &key.signing_key.serialize_pem());
        let tokens = format!("{ADMIN},admin,1,\"system:masters\"\n{ACCOUNT},{ACCOUNT},2\n");
        write("tokens", &tokens);
        let mut cluster = Self {
            place,
            etcd: None,
            server: None,
            etcd_port: free_port(),
            port: free_port(),
        };
        cluster.start_etcd("etcd");
        cluster.start_server(&[]);
        let namespace = json!({"metadata": {"name": "shop"}});
        cluster.create("/api/v1/namespaces", &namespace);
        Some(cluster)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.place.path());
        // What they say is shown when they do not come up.
        let log = fs::File::create(self.place.path().join("log")).expect("a file");
        command.stdout(Stdio::null()).stderr(log);
        command
    }

    fn start_etcd(&mut self, directory: &str) {
        let (port, peer) = (self.etcd_port, free_port());
        let mut command = self.command(&program("OUTPOST_ETCD"));
        command.args(["--data-dir", directory, "--unsafe-no-fsync"]);
        for (key, port) in [
            ("--listen-client-urls", port),
            ("--advertise-client-urls", port),
            ("--listen-peer-urls", peer),
            ("--initial-advertise-peer-urls", peer),
        ] {
            command.arg(format!("{key}=http://127.0.0.1:{port}"));
        }
        command.arg(format!("--initial-cluster=default=http://127.0.0.1:{peer}"));
        self.etcd = Some(command.spawn().expect("etcd starts"));
    }

    fn start_server(&mut self, options: &[&str]) {
        let mut command = self.command(&program("OUTPOST_KUBE_APISERVER"));
        command.args(options);
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--token-auth-file=tokens",
            "--authorization-mode=RBAC",
            "--service-account-key-file=tls.crt",
            "--service-account-signing-key-file=tls.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--api-audiences=api",
            "--disable-admission-plugins=ServiceAccount",
            "--tls-cert-file=tls.crt",
            "--tls-private-key-file=tls.key",
        ]);
        command.arg(format!(
            "--etcd-servers=http://127.0.0.1:{}",
            self.etcd_port
        ));
        command.arg(format!("--secure-port={}", self.port));
        self.server = Some(command.spawn().expect("kube-apiserver starts"));
        let begun = now();
        while self.call("GET", "/readyz", ADMIN, None).0 != 200 {
            let log = || fs::read_to_string(self.place.path().join("log"));
            assert!(begun.elapsed() < LIMIT, "not ready: {:?}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn stop(child: &mut Option<Child>) {
        let mut child = child.take().expect("it runs");
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
    }

    /// A request as somebody with this token: the code and the answer.
    fn call(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> (u16, Value) {
        let mut command = Command::new("curl");
        command.args(["-sk", "-m", "20", "-w", "\n%{http_code}", "-X", method]);
        command.args(["-H", &format!("Authorization: Bearer {token}")]);
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        command.args(["-H", &format!("Content-Type: {kind}")]);
        if let Some(body) = body {
            command.args(["-d", &body.to_string()]);
        }
        command.arg(format!("https://127.0.0.1:{}{path}", self.port));
        let output = command.output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = text.rsplit_once('\n').unwrap_or_default();
        (
            code.parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    #[track_caller]
    fn done(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (code, answer) = self.call(method, path, ADMIN, body);
        assert!(
            (200..300).contains(&code),
            "{method} {path}: {code} {answer}"
        );
        answer
    }

    #[track_caller]
    fn create(&self, path: &str, object: &Value) {
        self.done("POST", path, Some(object));
    }

    fn put_service(&self, name: &str, ip: &str) {
        let service = json!({
            "metadata": {"name": name},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
        });
        self.create("/api/v1/namespaces/shop/services", &service);
    }

    fn put_balanced(&self, name: &str) {
        let service = json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        self.create("/api/v1/namespaces/shop/services", &service);
    }

    fn delete_service(&self, name: &str) {
        let path = format!("/api/v1/namespaces/shop/services/{name}");
        self.done("DELETE", &path, None);
    }

    fn address(&self, name: &str) -> Option<String> {
        let path = format!("/api/v1/namespaces/shop/services/{name}");
        let service = self.done("GET", &path, None);
        let ip = service.pointer("/status/loadBalancer/ingress/0/ip")?;
        ip.as_str().map(str::to_owned)
    }

    fn etcdctl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program("OUTPOST_ETCD").with_file_name("etcdctl"));
        command.current_dir(self.place.path());
        command.env("ETCDCTL_API", "3").args(arguments);
        command.arg(format!("--endpoints=http://127.0.0.1:{}", self.etcd_port));
        let output = command.output().expect("etcdctl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Has etcd forget every version but the newest.
    fn compact(&self) {
        let status = self.etcdctl(&["endpoint", "status", "--write-out=json"]);
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let revision = status.pointer("/0/Status/header/revision").expect("one");
        self.etcdctl(&["compact", &revision.to_string()]);
    }

    /// A clusterd that asks it with a token, with further lines.
    fn clusterd(&self, token: &str, lines: &str) -> Daemon {
        let mut daemon = Daemon::configured(&format!(
            "{lines}[api]\naddresses = [\"https://127.0.0.1:{}\"]\nserver-name = \"kubernetes.default.svc\"\n\
             ca-file = \"DIR/ca\"\ntoken-file = \"DIR/token\"\npage = 2\nwatch = \"10s\"\n",
            self.port
        ));
        let authority = self.place.path().join("tls.crt");
        fs::copy(authority, daemon.path().join("ca")).expect("a copy");
        fs::write(daemon.path().join("token"), token).expect("a file");
        daemon.start();
        daemon
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in [self.server.take(), self.etcd.take()].into_iter().flatten() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Clients that list Services one request after another until they are dropped.
struct Crowd(Vec<Child>);

impl Crowd {
    fn start(cluster: &Cluster, size: usize) -> Self {
        let header = format!("Authorization: Bearer {ACCOUNT}");
        let url = format!(
            "https://127.0.0.1:{}/api/v1/services?[1-1000000]",
            cluster.port
        );
        let clients = (0..size).map(|_| {
            let mut command = Command::new("curl");
            command.args(["-sk", "-o", "/dev/null", "-H", &header, &url]);
            command.stdout(Stdio::null());
            command.spawn().expect("curl starts")
        });
        Self(clients.collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A program that the environment names.
fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    PathBuf::from(path.unwrap_or_else(|| panic!("{variable} names the program")))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn signal(daemon: &Daemon, signal: rustix::process::Signal) {
    let child = daemon.child.as_ref().expect("it runs");
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("a signal");
}

async fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The Services in the namespace of the tests; the server has one of its own elsewhere.
fn of_shop(snapshot: &Snapshot) -> Vec<String> {
    let services = snapshot.of_kind(Kind::Service);
    let services = services.filter(|object| object.meta().namespace == "shop");
    services.map(|object| object.meta().name.clone()).collect()
}

#[tokio::test]
async fn a_real_server_is_followed_through_a_compaction_and_a_restart() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    for (place, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        cluster.put_service(name, &format!("10.96.0.{}", place + 101));
    }
    let daemon = cluster.clusterd(ADMIN, "");
    let link = daemon.link();
    let first = until(&link, "everything", is_current).await;
    assert_eq!(of_shop(&first), ["a", "b", "c", "d", "e"]);
    // Changes of every kind follow.
    let slice = json!({
        "metadata": {"name": "b-x", "labels": {"kubernetes.io/service-name": "b"}},
        "addressType": "IPv4", "ports": [{"port": 8080}],
        "endpoints": [{"addresses": ["10.128.0.1"], "conditions": {"ready": true}}],
    });
    let slices = "/apis/discovery.k8s.io/v1beta1/namespaces/shop/endpointslices";
    cluster.create(slices, &slice);
    cluster.create("/api/v1/nodes", &json!({"metadata": {"name": "master-0"}}));
    cluster.done(
        "PATCH",
        "/api/v1/nodes/master-0",
        Some(&json!({"spec": {"unschedulable": true}})),
    );
    cluster.delete_service("a");
    until(&link, "the changes", |it| {
        let is_cordoned = it
            .of_kind(Kind::Node)
            .any(|object| matches!(&**object, Object::Node(node) if node.unschedulable));
        of_shop(it) == ["b", "c", "d", "e"] && it.count(Kind::EndpointSlice) == 1 && is_cordoned
    })
    .await;
    // While clusterd does not look, one goes and one comes, and etcd and the server forget both.
    signal(&daemon, rustix::process::Signal::STOP);
    cluster.delete_service("b");
    cluster.put_service("f", "10.96.0.120");
    cluster.compact();
    Cluster::stop(&mut cluster.server);
    cluster.start_server(&[]);
    signal(&daemon, rustix::process::Signal::CONT);
    until(&link, "the list", |it| of_shop(it) == ["c", "d", "e", "f"]).await;
    cluster.put_service("g", "10.96.0.121");
    until(&link, "a change after it", |it| {
        of_shop(it) == ["c", "d", "e", "f", "g"]
    })
    .await;
}

#[tokio::test]
async fn a_restored_snapshot_of_a_real_etcd_is_noticed() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    cluster.put_service("a", "10.96.0.101");
    cluster.etcdctl(&["snapshot", "save", "backup"]);
    let daemon = cluster.clusterd(ADMIN, "");
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    for number in 0..20 {
        cluster.put_service(&format!("n{number}"), &format!("10.96.1.{number}"));
    }
    until(&link, "later objects", |it| of_shop(it).len() == 21).await;
    Cluster::stop(&mut cluster.server);
    Cluster::stop(&mut cluster.etcd);
    cluster.etcdctl(&["snapshot", "restore", "backup", "--data-dir", "restored"]);
    cluster.start_etcd("restored");
    cluster.start_server(&[]);
    until(&link, "the restored state", |it| of_shop(it) == ["a"]).await;
    cluster.put_service("b", "10.96.0.102");
    until(&link, "a change after it", |it| of_shop(it) == ["a", "b"]).await;
}

#[tokio::test]
async fn a_real_server_that_refuses_for_overload_is_asked_until_it_answers() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    grant(&cluster);
    for (place, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        cluster.put_service(name, &format!("10.96.0.{}", place + 101));
    }
    // One request at a time; administrators alone are served beyond that. What it answers to others is 429.
    Cluster::stop(&mut cluster.server);
    cluster.start_server(&[
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=1",
    ]);
    let crowd = Crowd::start(&cluster, 6);
    let daemon = cluster.clusterd(ACCOUNT, "");
    let busy = r#"reason="busy"} "#;
    let begun = now();
    while !daemon.ask("/metrics").await.contains(busy) {
        assert!(begun.elapsed() < LIMIT, "nobody is refused");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(crowd);
    let link = daemon.link();
    until(&link, "everything", is_current).await;
    until(&link, "the list", |it| of_shop(it).len() == 5).await;
    // Watches do not count among the requests: changes come however many are refused.
    let _crowd = Crowd::start(&cluster, 6);
    cluster.put_service("f", "10.96.0.120");
    until(&link, "a change", |it| of_shop(it).len() == 6).await;
}

#[tokio::test]
async fn the_rules_of_the_role_suffice_and_of_two_clusterds_one_writes() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    grant(&cluster);
    let pool = |identity: &str| {
        format!(
            "addresses.identity = \"{identity}\"\n[[pool]]\nname = \"lan\"\naddresses = [\"192.0.2.1-192.0.2.2\"]\n"
        )
    };
    let first = cluster.clusterd(ACCOUNT, &pool("one"));
    until(&first.link(), "everything", is_current).await;
    let second = cluster.clusterd(ACCOUNT, &pool("two"));
    until(&second.link(), "everything", is_current).await;
    for name in ["web", "mail", "late"] {
        cluster.put_balanced(name);
    }
    wait("two have addresses", || {
        ["web", "mail", "late"]
            .iter()
            .filter(|name| cluster.address(name).is_some())
            .count()
            == 2
    })
    .await;
    let given = |name: &str| cluster.address(name);
    let all: std::collections::BTreeSet<String> = ["web", "mail", "late"]
        .into_iter()
        .filter_map(given)
        .collect();
    assert_eq!(all.len(), 2, "no address twice");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/outpost-clusterd";
    let holder = || cluster.done("GET", lease, None)["spec"]["holderIdentity"].clone();
    let before = holder();
    wait("an Event says why one gets none", || {
        let events = cluster.done("GET", "/api/v1/namespaces/shop/events", None);
        let mut events = events["items"].as_array().into_iter().flatten();
        events.any(|event| event["reason"] == "AllocationFailed")
    })
    .await;
    // The holder dies: the other one writes, and takes nothing away.
    let (dying, _left) = match before == "one" {
        true => (first, second),
        false => (second, first),
    };
    drop(dying);
    let waiting: Vec<&str> = ["web", "mail", "late"]
        .into_iter()
        .filter(|name| cluster.address(name).is_none())
        .collect();
    let served = ["web", "mail", "late"]
        .into_iter()
        .find(|name| !waiting.contains(name));
    cluster.delete_service(served.expect("one has an address"));
    wait("the one that waited gets the address", || {
        waiting.iter().all(|name| cluster.address(name).is_some())
    })
    .await;
    assert_ne!(holder(), before);
    // The account has no right beyond that.
    for (method, path) in [
        ("GET", "/api/v1/secrets"),
        ("DELETE", "/api/v1/nodes/none"),
        ("GET", "/api/v1/namespaces/shop/configmaps"),
    ] {
        assert_eq!(cluster.call(method, path, ACCOUNT, None).0, 403, "{path}");
    }
}

/// Gives the account the rules that `outpost` renders, which are made of the same constants.
fn grant(cluster: &Cluster) {
    let rule = |rule: &Rule| {
        json!({"apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs,
            "resourceNames": rule.names})
    };
    let reads = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Dns).map(|kind| {
        json!({"apiGroups": [kind.group()], "resources": [kind.resource()], "verbs": Kind::VERBS})
    });
    let rules: Vec<Value> = reads.chain(ADDRESSES.iter().map(rule)).collect();
    let election: Vec<Value> = ELECTION.iter().map(rule).collect();
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{"apiGroup": group, "kind": "User", "name": ACCOUNT}]);
    let named = json!({"name": "outpost-clusterd"});
    let reference =
        |kind: &str| json!({"apiGroup": group, "kind": kind, "name": "outpost-clusterd"});
    let of_namespace = format!("/apis/{group}/v1/namespaces/kube-system");
    let root = format!("/apis/{group}/v1");
    cluster.create(
        &format!("{root}/clusterroles"),
        &json!({"metadata": named, "rules": rules}),
    );
    cluster.create(
        &format!("{root}/clusterrolebindings"),
        &json!({"metadata": named, "roleRef": reference("ClusterRole"), "subjects": subjects}),
    );
    cluster.create(
        &format!("{of_namespace}/roles"),
        &json!({"metadata": named, "rules": election}),
    );
    cluster.create(
        &format!("{of_namespace}/rolebindings"),
        &json!({"metadata": named, "roleRef": reference("Role"), "subjects": subjects}),
    );
}
