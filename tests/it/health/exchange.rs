//! Three nodes as `outpost` renders them, whose healthds exchange findings about a target beside them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::binaries::{binary, checkout};
use tests::daemon::{Daemon, http_get, metric, run};
use tests::masters::Master;
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::strangers::Strangers;
use tests::wait;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const TARGET: &str = "192.168.7.40:6443";

/// The nodes of the site in `tests/data/deploy/seed`.
const NODES: [(&str, &str); 3] = [
    ("master-0", "192.168.7.13/24"),
    ("master-1", "192.168.7.14/24"),
    ("master-2", "192.168.7.15/24"),
];

pub(super) struct Node {
    pub(super) machine: Machine,
    pub(super) directory: PathBuf,
    /// The directory that the files of its services were rendered into.
    pub(super) rendered: PathBuf,
    pub(super) healthd: Option<Daemon>,
    watcher: Option<Child>,
}

pub(super) struct Site {
    _network: Network,
    /// The site file, certificates, and what was rendered.
    pub(super) files: Scratch,
    pub(super) nodes: Vec<Node>,
}

pub(super) fn outpost(arguments: &[&str]) {
    let mut command = Command::new(binary("outpost"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{arguments:?}: {stdout}{stderr}");
}

impl Site {
    /// The nodes, and the machine of the target beside them; nothing runs yet.
    pub(super) fn new() -> (Self, Machine) {
        let files = Scratch::new("health-exchange");
        let from = checkout().join("tests/data/deploy/seed");
        crate::deploy::copy_site(&from, &files);
        let (site, mut beside) = Self::of(files, &NODES, &[("beside", "192.168.7.40/24")]);
        (site, beside.remove(0))
    }

    /// The masters of the site whose file is in a directory, and machines beside them; nothing runs yet.
    pub(super) fn of(
        files: Scratch,
        masters: &[(&str, &str)],
        beside: &[(&str, &str)],
    ) -> (Self, Vec<Machine>) {
        let site = files.join("site.toml").display().to_string();
        let output = files.join("out").display().to_string();
        outpost(&["pki", "make", &site]);
        outpost(&["render", &site, "--output", &output]);
        let mut network = Network::new();
        let nodes = masters.iter().map(|&(name, address)| {
            let machine = network.machine(name, address);
            let directory = files.join(name);
            std::fs::create_dir(&directory).unwrap();
            let rendered = files.join("out/configs").join(name).join("etc/outpost");
            let text = std::fs::read_to_string(rendered.join("healthd/healthd.toml")).unwrap();
            let pki = files.join("pki").display().to_string();
            let text = text
                .replace("/etc/outpost/healthd/pki/ca.crt", &format!("{pki}/ca.crt"))
                .replace(
                    "/etc/outpost/healthd/pki/node",
                    &format!("{pki}/nodes/{name}"),
                );
            std::fs::write(directory.join("healthd.toml"), text).unwrap();
            Node {
                machine,
                directory,
                rendered,
                healthd: None,
                watcher: None,
            }
        });
        let nodes = nodes.collect();
        let beside = beside.iter();
        let beside = beside.map(|(name, address)| network.machine(name, address));
        let beside = beside.collect();
        let site = Self {
            nodes,
            _network: network,
            files,
        };
        (site, beside)
    }

    /// Waits until every node's subscribers see the target so.
    fn wait_all(&self, liveness: &str, basis: &str) {
        for node in &self.nodes {
            node.wait_sees(liveness, basis);
        }
    }
}

impl Node {
    pub(super) fn start(&mut self) {
        let mut serve = self.machine.command(binary("healthd"));
        serve.args(["serve", "--config"]);
        serve.arg(self.directory.join("healthd.toml"));
        for (option, name) in [
            ("--socket", "healthd.sock"),
            ("--state-dir", "state"),
            ("--admin-socket", "healthd.admin"),
        ] {
            serve.arg(option).arg(self.directory.join(name));
        }
        self.healthd = Some(Daemon::start("healthd", serve));
    }

    /// Subscribes to the target, and writes what it hears into a file.
    fn watch(&mut self) {
        let mut watch = Command::new(binary("healthd"));
        watch.args(["watch", "--json", &format!("tcp:{TARGET}"), "--socket"]);
        watch.arg(self.directory.join("healthd.sock"));
        let heard = File::create(self.directory.join("heard")).unwrap();
        watch.stdout(heard).stderr(Stdio::null());
        self.watcher = Some(watch.spawn().unwrap());
    }

    /// What its subscriber has heard: each liveness with its generation, and without repetitions.
    fn heard(&self) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(self.directory.join("heard")).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines = lines.map(|line: Value| {
            let liveness = line["liveness"].as_str().unwrap().to_owned();
            (liveness, line["generation"].as_u64().unwrap_or_default())
        });
        let mut all: Vec<_> = lines.collect();
        assert!(
            all.is_sorted_by_key(|(_, generation)| *generation),
            "{all:?}"
        );
        all.dedup_by(|next, before| next.0 == before.0);
        all
    }

    pub(super) fn get(&self, path: &str) -> (u16, String) {
        let admin: SocketAddr = "127.0.0.1:9401".parse().unwrap();
        let answer = self.machine.inside(|| http_get(admin, path));
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn detail(&self) -> Value {
        let (_, body) = self.get("/status");
        let status: Value = serde_json::from_str(&body).unwrap();
        status["detail"].clone()
    }

    fn target(&self) -> Option<Value> {
        let detail = self.detail();
        let mut targets = detail["targets"].as_array()?.iter();
        let name = format!("tcp {TARGET}");
        targets
            .find(|target| target["target"] == name.as_str())
            .cloned()
    }

    /// What a node finds about the target, as this node has heard it.
    fn finding(&self, node: &str) -> Option<String> {
        let target = self.target()?;
        let findings = target["verdict"]["findings"].as_array()?;
        let finding = findings.iter().find(|finding| finding["node"] == node)?;
        Some(finding["liveness"].as_str()?.to_owned())
    }

    fn sees(&self, liveness: &str, basis: &str) -> bool {
        self.target().is_some_and(|target| {
            target["liveness"] == liveness && target["verdict"]["basis"] == basis
        })
    }

    fn wait_sees(&self, liveness: &str, basis: &str) {
        let what = format!("the target is {liveness} by {basis}");
        wait::for_it(&what, LIMIT, || self.sees(liveness, basis));
    }

    fn wait_contact(&self, contact: &str) {
        wait::for_it(contact, LIMIT, || {
            self.detail()["exchange"]["contact"] == contact
        });
    }

    /// Loses or finds its way to the target alone.
    fn reach_target(&self, reaches: bool) {
        let (address, _) = TARGET.split_once(':').unwrap();
        let verb = if reaches { "del" } else { "add" };
        let mut command = Command::new("ip");
        command.args(["-n", self.machine.namespace(), "route", verb]);
        command.args(["unreachable", address]);
        let (status, _, stderr) = run(command);
        assert!(status.success(), "{stderr}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.kill());
            drop(watcher.wait());
        }
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn three_nodes_have_one_verdict() {
    let (mut site, beside) = Site::new();
    let mut target = Master::on(&beside, vec![TARGET.parse().unwrap()]);
    for node in &mut site.nodes {
        node.start();
        node.watch();
    }
    site.wait_all("up", "site");

    // One node's way to the target is cut: it stays up for all, and every node knows why.
    site.nodes[2].reach_target(false);
    for node in &site.nodes {
        wait::for_it("the finding of master-2 is heard", LIMIT, || {
            node.finding("master-2").as_deref() == Some("down")
        });
        assert!(node.sees("up", "site"), "{:?}", node.target());
    }
    let reason = site.nodes[2].target().unwrap()["reason"].to_string();
    assert!(reason.contains("up for 2 of 3 nodes; here: "), "{reason}");
    site.nodes[2].reach_target(true);
    for node in &site.nodes {
        wait::for_it("master-2 reaches it again", LIMIT, || {
            node.finding("master-2").as_deref() == Some("up")
        });
    }

    // It is down for all of them, and up again.
    target.down();
    site.wait_all("down", "site");
    target.up();
    site.wait_all("up", "site");

    cut_off(&site, &mut target);

    // No subscriber has heard anything else, and generations grow.
    for node in &site.nodes {
        let mut heard = node.heard();
        heard.retain(|(liveness, _)| liveness != "unknown");
        let heard = heard.iter().map(|(liveness, _)| liveness.as_str());
        let heard: Vec<&str> = heard.collect();
        assert_eq!(heard, ["up", "down", "up", "down"]);
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn strangers_keep_no_node_apart() {
    let (mut site, beside) = Site::new();
    let _target = Master::on(&beside, vec![TARGET.parse().unwrap()]);
    site.nodes[0].start();
    site.nodes[1].start();
    let addresses = NODES.map(|(_, address)| {
        let (ip, _) = address.split_once('/').unwrap();
        SocketAddr::new(ip.parse().unwrap(), 5445)
    });
    let _strangers = Strangers::on(&beside, &addresses[..2], 200);
    // A node that comes meanwhile is heard, and hears.
    site.nodes[2].start();
    for node in &mut site.nodes {
        node.watch();
    }
    site.wait_all("up", "site");
    for node in &site.nodes {
        wait::for_it("the finding of master-2 is heard", LIMIT, || {
            node.finding("master-2").as_deref() == Some("up")
        });
    }
}

/// A node that is cut off says so, and holds the last verdict until it is back.
fn cut_off(site: &Site, target: &mut Master<'_>) {
    let node = &site.nodes[2];
    node.machine.cut_off();
    node.wait_contact("cut-off");
    for other in &site.nodes[..2] {
        wait::for_it("it is not heard", LIMIT, || {
            other.finding("master-2").is_none()
        });
        assert_eq!(other.detail()["exchange"]["contact"], "connected");
    }
    let (status, ready) = node.get("/readyz");
    assert_eq!(status, 200, "it serves: {ready}");
    assert!(ready.contains("cut off"), "{ready}");
    let (_, metrics) = node.get("/metrics");
    assert_eq!(metric(&metrics, "healthd_cut_off"), Some(1.0), "{metrics}");
    assert!(node.healthd.as_ref().unwrap().log().contains("cut off"));
    wait::for_it("its own probes find it down", LIMIT, || {
        node.finding("master-2").as_deref() == Some("down")
    });
    node.wait_sees("up", "last");
    // The others have another verdict meanwhile, which holds when it is back.
    target.down();
    for other in &site.nodes[..2] {
        other.wait_sees("down", "site");
    }
    assert!(node.sees("up", "last"), "{:?}", node.target());
    node.machine.join();
    node.wait_contact("connected");
    node.wait_sees("down", "site");
    wait::for_it("nothing is to be said", LIMIT, || {
        let (_, ready) = node.get("/readyz");
        !ready.contains("cut off")
    });
}
