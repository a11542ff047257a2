//! Names of nodes follow a cluster: `clusternodes` in LUA records, with clusterd and a directory of manifests.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::binaries::binary;
use tests::clusterd;
use tests::daemon::{Daemon, run};
use tests::dns::{A, AAAA, Data, Question, ask};
use tests::site::Site;
use tests::wait;

const LIMIT: Duration = Duration::from_secs(60);

/// `api` is where port 1 is up, which no test has: all that are in the list are answered. The registry's name is plain.
const ZONE: &str = r#"$TTL 60
@        IN SOA ns1 hostmaster 7 3600 600 86400 60
         IN NS ns1
ns1      IN A 127.0.0.1
api      IN LUA A "ifportup(6443, clusternodes('api'))"
all      IN LUA A "clusternodes('api')"
all      IN LUA AAAA "clusternodes('api')"
*.apps   IN LUA A "clusternodes('api')"
etcd-2   IN LUA A "clusternodes('api', 2)"
etcd-3   IN LUA A "clusternodes('api', 3)"
wrong    IN LUA A "clusternodes('nothing')"
"#;

/// dns-authd with a list of m0 and m1 at 10.0.0.10 and .11, and clusterd with manifests.
struct Nodes {
    site: Site,
}

impl Nodes {
    fn new() -> Self {
        let site = Site::new();
        let directory = site.files.join("").display().to_string();
        let directory = directory.trim_end_matches('/');
        fs::create_dir_all(site.files.join("manifests")).unwrap();
        site.files.write(
            "clusterd.toml",
            &format!(
                "version = \"v1\"\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/clusterd\"\n\
                 manifests = \"{directory}/manifests\"\nadmin.listen = \"none\"\n"
            ),
        );
        let nodes = Self { site };
        nodes.configure("{ name = \"m0\", address = \"10.0.0.10\" }, { name = \"m1\", address = \"10.0.0.11\" }");
        nodes
    }

    fn configure(&self, members: &str) {
        let directory = self.site.files.join("").display().to_string();
        let directory = directory.trim_end_matches('/');
        let more = format!(
            "zones.serial-must-rise = false\nhealth.all-down = \"all\"\n\
             [cluster]\nsocket = \"{directory}/clusterd.sock\"\nstate = \"{directory}/nodes\"\n\
             networks = [\"10.0.0.0/24\", \"fd00::/64\"]\nexcluded = [\"10.0.0.100\"]\n\
             [[cluster.list]]\nname = \"api\"\nnodes = [\"masters\"]\nmembers = [{members}]\n"
        );
        self.site.configure_authd(&[("site.example", ZONE)], &more);
    }

    fn clusterd(&self) -> Daemon {
        clusterd::start(&self.site.files)
    }

    /// Writes the manifest of a master.
    fn put(&self, name: &str, addresses: &[&str], is_cordoned: bool) {
        let address = |address: &&str| json!({"type": "InternalIP", "address": address});
        let addresses: Vec<Value> = addresses.iter().map(address).collect();
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": is_cordoned},
            "status": {"addresses": addresses},
        });
        let file = format!("manifests/{name}.json");
        self.site.files.write(&file, &node.to_string());
    }

    fn remove(&self, name: &str) {
        let file = format!("manifests/{name}.json");
        fs::remove_file(self.site.files.join(&file)).unwrap();
    }

    fn addresses(&self, name: &str, rtype: u16) -> Vec<String> {
        let name = format!("{name}.site.example");
        let message = ask(self.site.authority(), &Question::new(&name, rtype))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let address = |record: &tests::dns::Record| match &record.data {
            Data::Address(address) => Some(address.to_string()),
            _ => None,
        };
        let mut found: Vec<String> = message.answers.iter().filter_map(address).collect();
        found.sort();
        found
    }

    #[track_caller]
    fn wait(&self, name: &str, wanted: &[&str]) {
        wait::for_it(&format!("{name}: {wanted:?}"), LIMIT, || {
            self.addresses(name, A) == wanted
        });
    }

    fn said(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(binary("dns-authd"));
        command.args(arguments);
        let admin = self.site.admin("dns-authd").to_string();
        command.args(["--admin", &admin]);
        let (_, text, problems) = run(command);
        format!("{text}{problems}")
    }
}

#[test]
fn masters_join_names_and_leave_them_and_written_ones_stay() {
    let nodes = Nodes::new();
    nodes.put("m0", &["10.0.0.10"], false);
    let _clusterd = nodes.clusterd();
    let authd = nodes.site.start("dns-authd");
    let written = ["10.0.0.10", "10.0.0.11"];
    nodes.wait("all", &written);
    assert_eq!(nodes.addresses("etcd-2", A), [""; 0]);
    // One joins with an address of each family.
    nodes.put("m5", &["10.0.0.15", "fd00::15"], false);
    let joined = ["10.0.0.10", "10.0.0.11", "10.0.0.15"];
    for name in ["all", "api", "x.apps"] {
        nodes.wait(name, &joined);
    }
    nodes.wait("etcd-2", &["10.0.0.15"]);
    assert_eq!(nodes.addresses("all", AAAA), ["fd00::15"]);
    // A virtual IP, an address from elsewhere and that of another node do not.
    nodes.put("thief", &["10.0.0.100"], false);
    nodes.put("remote", &["192.168.99.1"], false);
    nodes.put("zdouble", &["10.0.0.15"], false);
    wait::for_it("three nodes are refused", LIMIT, || {
        let text = nodes.said(&["status"]);
        text.matches(" may not join: ").count() == 3
    });
    let text = nodes.said(&["status"]);
    for line in [
        "m0 10.0.0.10  written, a node\n",
        "m1 10.0.0.11  written\n",
        "m5 10.0.0.15  learned\n",
        "m5 fd00::15  learned\n",
        "thief may not join: 10.0.0.100 is a virtual IP\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let text = nodes.said(&["explain", "api.site.example"]);
    assert!(
        text.contains("10.0.0.15 of m5 is learned from the cluster"),
        "{text}"
    );
    // A cordoned node takes no new connections, though its number has its address.
    nodes.put("m5", &["10.0.0.15", "fd00::15"], true);
    nodes.wait("all", &written);
    assert_eq!(nodes.addresses("etcd-2", A), ["10.0.0.15"]);
    nodes.put("m0", &["10.0.0.10"], true);
    nodes.wait("all", &["10.0.0.11"]);
    nodes.put("m0", &["10.0.0.10"], false);
    nodes.put("m5", &["10.0.0.15", "fd00::15"], false);
    nodes.wait("all", &joined);
    // A number stays when another node leaves.
    nodes.put("m6", &["10.0.0.16"], false);
    nodes.wait("etcd-3", &["10.0.0.16"]);
    nodes.remove("m5");
    nodes.remove("zdouble");
    nodes.wait("all", &["10.0.0.10", "10.0.0.11", "10.0.0.16"]);
    assert_eq!(nodes.addresses("etcd-3", A), ["10.0.0.16"]);
    assert_eq!(nodes.addresses("etcd-2", A), [""; 0]);
    authd.stop();
}

#[test]
fn a_cluster_that_is_empty_or_away_takes_no_written_address() {
    let nodes = Nodes::new();
    nodes.put("m5", &["10.0.0.15"], false);
    let clusterd = nodes.clusterd();
    let authd = nodes.site.start("dns-authd");
    let joined = ["10.0.0.10", "10.0.0.11", "10.0.0.15"];
    nodes.wait("api", &joined);
    // Away: everything stays, through a start, too.
    clusterd.kill();
    wait::for_it("the status says so", LIMIT, || {
        nodes
            .said(&["status"])
            .contains("clusterd is NOT connected")
    });
    assert_eq!(nodes.addresses("api", A), joined);
    wait::for_it("the node is on disk", LIMIT, || {
        fs::read(nodes.site.files.join("nodes/state"))
            .is_ok_and(|octets| octets.windows(9).any(|part| part == b"10.0.0.15"))
    });
    authd.kill();
    let authd = nodes.site.start("dns-authd");
    nodes.wait("api", &joined);
    let text = nodes.said(&["status"]);
    assert!(
        text.contains("m5 10.0.0.15  learned, from the disk\n"),
        "{text}"
    );
    // A cluster without any node: what was learned goes, what is written stays.
    nodes.remove("m5");
    let clusterd = nodes.clusterd();
    nodes.wait("api", &joined[..2]);
    clusterd.kill();
    authd.stop();
}

#[test]
fn a_reload_has_the_new_list_with_the_new_zone_and_a_list_that_is_missing_is_named() {
    let nodes = Nodes::new();
    nodes.put("m5", &["10.0.0.15"], false);
    let _clusterd = nodes.clusterd();
    let authd = nodes.site.start("dns-authd");
    nodes.wait("all", &["10.0.0.10", "10.0.0.11", "10.0.0.15"]);
    let text = nodes.said(&["explain", "wrong.site.example"]);
    assert!(text.contains("has no list `nothing`"), "{text}");
    nodes.configure("{ name = \"m0\", address = \"10.0.0.20\" }");
    authd.hang_up();
    nodes.wait("all", &["10.0.0.15", "10.0.0.20"]);
    // The number of a node stays its own.
    assert_eq!(nodes.addresses("etcd-2", A), ["10.0.0.15"]);
    authd.stop();
}
