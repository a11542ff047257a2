//! A large layer on a slow link between the nodes, and small pushes beside it.
//!
//! `OUTPOST_LAYER_MIB=1024 OUTPOST_LINK_MBIT=40` measures on a quiet machine how long a small push waits for its
//! acknowledgement beside a layer of 1 GiB: it should be a second at most.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use oci::digest::Digest;
use serde_json::Value;

use super::{Node, OCI_IMAGE, Site, finish, header, image, layer, sha256};

/// The repository of the small images.
const SMALL: &str = "small/image";

/// A number that the environment may give.
fn given(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

fn push_blob(node: &Node, repository: &str, file: &Path, digest: &Digest) {
    let (status, head) = finish(node, &node.begin_in(repository), file, digest);
    assert_eq!(status, 201, "{head}");
}

/// Pushes an image to [`SMALL`]: how long that took.
fn push_small(site: &Site, node: &Node, number: u32) -> Duration {
    let content = layer(number, 20_000);
    let (config, manifest) = image(&content);
    let file = |what: &str, content: &[u8]| {
        let file = site.scratch.join(&format!("small-{what}"));
        std::fs::write(&file, content).unwrap();
        (file, sha256(content))
    };
    let blobs = [file("layer", &content), file("config", config.as_bytes())];
    let (manifest, _) = file("manifest", manifest.as_bytes());
    let begin = Instant::now();
    for (file, digest) in &blobs {
        push_blob(node, SMALL, file, digest);
    }
    let path = format!("/v2/{SMALL}/manifests/v{number}");
    let (status, head) = node.send("PUT", &path, Some(&manifest), OCI_IMAGE);
    let took = begin.elapsed();
    assert_eq!(status, 201, "{head}");
    assert_eq!(header(&head, "warning"), None, "{head}");
    took
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_large_layer_on_a_slow_link_holds_up_no_small_push() {
    let site = Site::new();
    site.wait_connected();
    let rate = format!("{}mbit", given("OUTPOST_LINK_MBIT", 4));
    let node = &site.nodes[0];
    let shape = |mut tc: Command| assert!(tc.status().unwrap().success(), "{tc:?}");
    let mut tc = node.machine.command("tc");
    tc.args(["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate]);
    tc.args(["burst", "32kb", "latency", "200ms"]);
    shape(tc);
    let content = layer(1, given("OUTPOST_LAYER_MIB", 16) << 20);
    let file = site.scratch.join("large");
    std::fs::write(&file, &content).unwrap();
    push_blob(node, "large/image", &file, &sha256(&content));
    let times: Vec<Duration> = (2..7)
        .map(|number| push_small(&site, node, number))
        .collect();
    println!("small pushes beside a large one: {times:?}");
    // It is on its way still.
    for other in [1, 2] {
        let status = site.ask(other, &["status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let waiting = &status["detail"]["cluster"]["records_waiting"];
        assert!(waiting.as_u64() > Some(0), "{status}");
    }
    let mut tc = node.machine.command("tc");
    tc.args(["qdisc", "del", "dev", "eth0", "root"]);
    shape(tc);
    site.wait_equal();
}
