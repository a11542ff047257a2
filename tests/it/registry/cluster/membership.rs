//! Nodes that are forgotten, come back and are taken in while the others run.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::run;
use tests::wait;

use super::{
    Node, OCI_IMAGE, OPEN, PATIENCE, REPOSITORY, Site, certificate, config, image, layer, sha256,
};

/// Longer than deletions are remembered.
const FORTY_DAYS: u64 = 40 * 24 * 3_600_000;

impl Site {
    fn connected() -> Self {
        let site = Self::new();
        site.wait_connected();
        site
    }

    /// What a command of registry-svc prints on a node, when it succeeds.
    pub(super) fn ask(&self, at: usize, arguments: &[&str]) -> String {
        let mut command = self.nodes[at].machine.command(binary("registry-svc"));
        command.args(arguments);
        let (status, out, error) = run(command);
        assert!(status.success(), "{arguments:?}: {out}{error}");
        out
    }

    fn wait_status(&self, at: usize, text: &str) {
        wait::for_it(text, PATIENCE, || self.ask(at, &["status"]).contains(text));
    }

    fn delete(&self, at: usize, layer: &[u8]) {
        let manifest = sha256(image(layer).1.as_bytes());
        let path = format!("/v2/{REPOSITORY}/manifests/{manifest}");
        let (status, head) = self.nodes[at].send("DELETE", &path, None, OCI_IMAGE);
        assert_eq!(status, 202, "{head}");
    }

    /// Waits until no node among these keeps anything for another one.
    fn wait_deletion_goes_on(&self, nodes: &[usize]) {
        for at in nodes {
            wait::for_it("deletion waits for nobody", PATIENCE, || {
                let status = self.ask(*at, &["status", "--json"]);
                let status: Value = serde_json::from_str(&status).unwrap();
                let cluster = &status["detail"]["cluster"];
                let of = |list: &str, key: &str, expected: bool| {
                    let all = cluster[list].as_array().unwrap();
                    all.iter().all(|one| one[key] == expected)
                };
                of("members", "holds_deletion", false) && of("peers", "connected", true)
            });
        }
    }

    /// A node that was forgotten starts, is refused, ends by itself and starts again.
    fn begin_anew(&mut self, at: usize) {
        self.start(at);
        let mut refused = self.nodes[at].daemon.take().expect("the node runs");
        let ended = refused.wait();
        assert!(ended.success(), "{ended}");
        let log = refused.log();
        assert!(
            log.contains("The other nodes have forgotten this one"),
            "{log}"
        );
        self.start(at);
        self.wait_connected();
        self.wait_equal();
    }
}

/// A site that has two images on every node, and the layer of each: one is to be deleted, the other stays.
fn with_content() -> (Site, Vec<u8>, Vec<u8>) {
    let site = Site::connected();
    let (deleted, kept) = (layer(1, 100_000), layer(2, 100_000));
    for (tag, content) in [("deleted", &deleted), ("kept", &kept)] {
        let (status, head) = site.nodes[0].push(&site.scratch, tag, content);
        assert_eq!(status, 201, "{head}");
    }
    site.wait_equal();
    (site, deleted, kept)
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_node_that_is_gone_is_forgotten_and_begins_anew_should_it_come_back() {
    let (mut site, deleted, kept) = with_content();
    site.kill(2);
    site.delete(0, &deleted);
    // Sweeps keep what the one that is away might still refer to.
    for at in [0, 1] {
        site.wait_status(at, "deletion waits for master-2, connected last at ");
    }

    assert_eq!(site.ask(0, &["node", "forget", "master-2"]), "done\n");
    assert_eq!(
        site.ask(0, &["node", "forget", "master-2"]),
        "it was so before\n"
    );
    site.wait_deletion_goes_on(&[0, 1]);
    for at in [0, 1] {
        site.wait_status(at, "node master-2 was forgotten at ");
        let listed = site.ask(at, &["node", "list"]);
        assert!(
            listed.contains("master-2  192.168.7.15:5444  FORGOTTEN at "),
            "{listed}"
        );
    }

    site.begin_anew(2);
    let listed = site.ask(0, &["node", "list"]);
    assert!(!listed.contains("FORGOTTEN"), "{listed}");
    for node in &site.nodes {
        node.pull(&site.scratch, "kept", &kept).unwrap();
        assert!(node.pull(&site.scratch, "deleted", &deleted).is_err());
    }
    // Alone, it has what the others held.
    site.nodes[2].machine.cut_off();
    site.nodes[2].pull(&site.scratch, "kept", &kept).unwrap();
    site.nodes[2].machine.join();
    site.wait_deletion_goes_on(&[0, 1, 2]);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn two_of_three_forget_a_node_that_is_away_for_as_long_as_deletions_are_remembered() {
    let (mut site, deleted, kept) = with_content();
    let marks = [0, 1].map(|at| site.scratch.join(&format!("root-{at}/members")));
    wait::for_it("the disks note that a node is connected", PATIENCE, || {
        let notes =
            |mark| fs::read_to_string(mark).is_ok_and(|text| text.contains("seen master-2 "));
        marks.iter().all(notes)
    });
    (0..3).for_each(|at| site.kill(at));
    for mark in &marks {
        away_for_forty_days(mark, "master-2");
    }
    site.start(0);
    // Alone it forgets nobody.
    site.wait_status(0, "deletion waits for master-2, connected last at ");
    let listed = site.ask(0, &["node", "list"]);
    assert!(!listed.contains("FORGOTTEN"), "{listed}");
    site.delete(0, &deleted);
    site.start(1);
    for at in [0, 1] {
        site.wait_status(at, "node master-2 was forgotten at ");
    }
    site.wait_deletion_goes_on(&[0, 1]);
    site.begin_anew(2);
    site.nodes[2].pull(&site.scratch, "kept", &kept).unwrap();
    assert!(
        site.nodes[2]
            .pull(&site.scratch, "deleted", &deleted)
            .is_err()
    );
}

/// Has the disk note that a node was connected forty days ago.
fn away_for_forty_days(mark: &Path, node: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let long_ago = u64::try_from(now.as_millis()).unwrap() - FORTY_DAYS;
    let text = fs::read_to_string(mark).unwrap();
    let begin = format!("seen {node} ");
    assert!(text.contains(&begin), "{text}");
    let lines = text.lines().map(|line| match line.starts_with(&begin) {
        true => format!("{begin}{long_ago}\n"),
        false => format!("{line}\n"),
    });
    fs::write(mark, lines.collect::<String>()).unwrap();
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_node_is_taken_in_while_the_others_run() {
    let mut site = Site::connected();
    let content = layer(1, 100_000);
    let (status, head) = site.nodes[0].push(&site.scratch, "before", &content);
    assert_eq!(status, 201, "{head}");
    // No configuration but its own names it.
    certificate(site.scratch.path(), "master-3");
    let text = config(site.scratch.path(), 3).replace("plain = true\n", OPEN);
    site.scratch.write("master-3.toml", &text);
    let address = "192.168.7.16";
    site.nodes.push(Node {
        name: "master-3".to_owned(),
        address: address.to_owned(),
        machine: site.network.machine("master-3", &format!("{address}/24")),
        daemon: None,
    });
    let added = site.ask(0, &["node", "add", "master-3", "192.168.7.16:5444"]);
    assert_eq!(added, "done\n");
    site.wait_status(1, "peer master-3 192.168.7.16:5444: ");
    site.start(3);
    for at in 0..3 {
        site.wait_status(at, "peer master-3 192.168.7.16:5444: connected");
        let listed = site.ask(at, &["node", "list"]);
        assert!(listed.contains("master-3  192.168.7.16:5444  "), "{listed}");
    }
    wait::for_it("the new node is filled", PATIENCE, || {
        site.diff(3, 0) == (Some(0), String::new())
    });
    site.nodes[3].machine.cut_off();
    site.nodes[3]
        .pull(&site.scratch, "before", &content)
        .unwrap();
    site.nodes[3].machine.join();

    // It states what the others take, and they have it without their configurations.
    let content = layer(2, 100_000);
    let (status, head) = site.nodes[3].push(&site.scratch, "after", &content);
    assert_eq!(status, 201, "{head}");
    for node in &site.nodes {
        node.pull(&site.scratch, "after", &content).unwrap();
    }
}
