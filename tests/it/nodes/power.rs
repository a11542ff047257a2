//! The power fails, at any moment, everywhere at once; then the nodes boot with CRI-O's store gone.
//!
//! `POWER_SEED` replays a run.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::daemon::run;
use tests::node::lan::{ADDRESSES, DOMAIN, Lan, wait_serving};
use tests::node::{Node, images_or_skip, or_skip};
use tests::registry::image;
use tests::scratch::Scratch;
use tests::stream::Pattern;
use tests::wait;

use super::SETTLED;

#[test]
#[ignore = "needs network namespaces and nspawn; tests/run runs it"]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    let (Some(root), Some(images)) = (or_skip(), images_or_skip()) else {
        return;
    };
    let seed = std::env::var("POWER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("POWER_SEED={seed}");
    let mut random = Pattern::new(seed);
    let mut lan = Lan::provision(root, images, "");

    // While the images are loaded for the first time, on each node at another moment.
    for node in &mut lan.nodes {
        node.start();
    }
    cut_all(&mut lan, &mut random, Duration::from_secs(4));
    boot_cold(&mut lan);

    // While a client pushes images.
    let mut pushed = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut pusher = Pusher::new(&lan, round);
        let start = Instant::now();
        let limit = Duration::from_millis(1000 + random.below(3000));
        while start.elapsed() < limit {
            pusher.push_one(&lan, &mut pushed);
        }
        // One is on its way.
        let child = pusher.begin(&lan);
        std::thread::sleep(Duration::from_millis(random.below(400)));
        cut_all(&mut lan, &mut random, Duration::from_millis(50));
        pusher.end(child, &mut pushed);
        boot_cold(&mut lan);
        for server in 0..ADDRESSES.len() {
            assert_pulled(&lan, server, &pushed);
        }
    }
    assert!(!pushed.is_empty(), "nothing was pushed");

    // Images that a disk has lost are loaded again from their archive.
    let node = &mut lan.nodes[0];
    node.cut_power();
    damage(node);
    node.start();
    wait_serving(node);
    lan.assert_nothing_left();
    eprintln!(
        "power: {} images pushed, none lost, POWER_SEED={seed}",
        pushed.len()
    );
}

/// Takes the power of all nodes, each at a moment of its own within `window`.
fn cut_all(lan: &mut Lan, random: &mut Pattern, window: Duration) {
    let window = u64::try_from(window.as_millis()).unwrap();
    let mut moments: Vec<(u64, usize)> = (0..lan.nodes.len())
        .map(|n| (random.below(window), n))
        .collect();
    moments.sort_unstable();
    let start = Instant::now();
    for (moment, number) in moments {
        std::thread::sleep(Duration::from_millis(moment).saturating_sub(start.elapsed()));
        lan.nodes[number].cut_power();
    }
}

/// Boots all nodes after CRI-O has wiped its store, as it does after an unclean shutdown.
fn boot_cold(lan: &mut Lan) {
    for node in &mut lan.nodes {
        let store = node.containers("storage");
        drop(std::fs::remove_dir_all(&store));
        assert!(!store.exists(), "{} is gone", store.display());
        node.start();
    }
    for node in &lan.nodes {
        wait_serving(node);
        let answer = || lan.dig(&node.address().to_string(), &[&format!("helper.{DOMAIN}")]);
        wait::for_it("names are answered", SETTLED, || {
            answer() == ["192.168.7.11"]
        });
    }
}

/// Damages what podman keeps of an image, as a disk does that lied about what it had written.
fn damage(node: &Node) {
    let layers = node.state("storage/overlay");
    let mut find = Command::new("find");
    find.arg(&layers)
        .args(["-type", "f", "-path", "*/diff/*", "-size", "+100k"]);
    let (_, files, _) = run(find);
    let program = files
        .lines()
        .next()
        .unwrap_or_else(|| panic!("no program in {}", layers.display()));
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(program)
        .unwrap();
    file.set_len(4096).unwrap();
}

//--- Pushing

/// Pushes small images, each under a tag of its own, to one node after the other.
struct Pusher {
    files: Scratch,
    round: usize,
    number: usize,
    begun: Option<(String, String)>,
}

impl Pusher {
    fn new(lan: &Lan, round: usize) -> Self {
        let files = Scratch::new("push");
        std::fs::create_dir_all(files.join("certificates")).unwrap();
        std::fs::copy(
            lan.files.join("pki/ca.crt"),
            files.join("certificates/ca.crt"),
        )
        .unwrap();
        Self {
            files,
            round,
            number: 0,
            begun: None,
        }
    }

    fn begin(&mut self, lan: &Lan) -> Child {
        self.number += 1;
        let tag = format!("r{}-{}", self.round, self.number);
        let layout = self.files.join(&tag);
        let digest = image(&layout, &tag, &[tag.as_bytes(), &vec![7; 300_000]]);
        let node = self.number % ADDRESSES.len();
        let to = format!("docker://master-{node}.{DOMAIN}:5443/site/pushed:{tag}");
        let mut command = lan.client_command("skopeo");
        command.args([
            "--insecure-policy",
            "copy",
            "--preserve-digests",
            "--dest-cert-dir",
        ]);
        command.arg(self.files.join("certificates"));
        command
            .arg(format!("oci:{}:{tag}", layout.display()))
            .arg(to);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.begun = Some((tag, digest));
        command.spawn().unwrap()
    }

    /// Content that the registry has acknowledged has to stay.
    fn end(&mut self, mut child: Child, pushed: &mut BTreeMap<String, String>) {
        let is_acknowledged = child.wait().unwrap().success();
        if let Some((tag, digest)) = self.begun.take().filter(|_| is_acknowledged) {
            pushed.insert(tag, digest);
        }
    }

    fn push_one(&mut self, lan: &Lan, pushed: &mut BTreeMap<String, String>) {
        let child = self.begin(lan);
        self.end(child, pushed);
    }
}

/// Every image is what it was, as this node has it.
fn assert_pulled(lan: &Lan, server: usize, pushed: &BTreeMap<String, String>) {
    let certificates = Scratch::new("pull");
    std::fs::copy(lan.files.join("pki/ca.crt"), certificates.join("ca.crt")).unwrap();
    for (tag, digest) in pushed {
        let mut found = String::new();
        wait::for_it(&format!("master-{server} has {tag}"), SETTLED, || {
            let mut command = lan.client_command("skopeo");
            command.args(["inspect", "--format", "{{.Digest}}", "--cert-dir"]);
            command.arg(certificates.path());
            command.arg(format!(
                "docker://master-{server}.{DOMAIN}:5443/site/pushed:{tag}"
            ));
            let (status, out, _) = run(command);
            found = out.trim().to_owned();
            status.success()
        });
        assert_eq!(&found, digest, "{tag} at master-{server}");
    }
}

/// How often the power fails while images are pushed.
const ROUNDS: usize = 2;
