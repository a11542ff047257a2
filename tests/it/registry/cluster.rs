//! Three nodes of a registry on machines of their own: pushed to one, pulled from any; apart and
//! together again; wiped; killed in the middle of a push.

mod membership;
mod name;
mod pace;
mod renewal;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use oci::digest::{Algorithm, Digest};
use rustix::process::Signal;
use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::strangers::Strangers;
use tests::wait;

/// Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(90);

const REPOSITORY: &str = "ocp4/release";

/// A site of three nodes that know each other, and what they need.
struct Site {
    scratch: Scratch,
    network: Network,
    nodes: Vec<Node>,
}

/// A machine, and the registry on it while it runs.
struct Node {
    name: String,
    address: String,
    machine: Machine,
    daemon: Option<Daemon>,
}

impl Site {
    fn new() -> Self {
        Self::with(|_, _| OPEN.to_owned(), |_, _| String::new())
    }

    /// A site whose nodes have further lines before and after the sections of their configuration,
    /// made of where the files of the site are, and of the node's name.
    fn with(first: impl Fn(&Path, &str) -> String, last: impl Fn(&Path, &str) -> String) -> Self {
        let scratch = Scratch::new("registry-cluster");
        let mut network = Network::new();
        authority(scratch.path());
        let nodes = (0..3).map(|at| {
            let name = format!("master-{at}");
            let address = format!("192.168.7.{}", 13 + at);
            certificate(scratch.path(), &name);
            let (first, last) = (first(scratch.path(), &name), last(scratch.path(), &name));
            let text = config(scratch.path(), at).replace("plain = true\n", &first) + &last;
            scratch.write(&format!("{name}.toml"), &text);
            Node {
                machine: network.machine(&name, &format!("{address}/24")),
                name,
                address,
                daemon: None,
            }
        });
        let nodes = nodes.collect();
        let mut site = Self {
            scratch,
            network,
            nodes,
        };
        for at in 0..3 {
            site.start(at);
        }
        site
    }

    fn start(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let mut command = node.machine.command(binary("registry-svc"));
        command
            .arg("serve")
            .arg("--config")
            .arg(self.scratch.join(&format!("{}.toml", node.name)))
            .arg("--admin-socket")
            .arg(self.scratch.join(&format!("{}.admin", node.name)));
        node.daemon = Some(Daemon::start(&node.name, command));
    }

    fn kill(&mut self, at: usize) {
        self.nodes[at].daemon.take().expect("the node runs").kill();
    }

    /// Loses the disk of a node that does not run.
    fn wipe(&self, at: usize) {
        std::fs::remove_dir_all(self.scratch.join(&format!("root-{at}"))).unwrap();
    }

    /// The output of `registry-svc diff` on one node about another: nothing when they are equal.
    fn diff(&self, at: usize, other: usize) -> (Option<i32>, String) {
        let node = &self.nodes[at];
        let mut command = node.machine.command(binary("registry-svc"));
        command.arg("diff").arg(&self.nodes[other].name);
        let (status, out, error) = run(command);
        (status.code(), out + &error)
    }

    /// Waits until every node says that it has what every other one has.
    fn wait_equal(&self) {
        for at in 0..3 {
            for other in (0..3).filter(|other| *other != at) {
                let mut last = String::new();
                wait::for_it("nodes are equal", PATIENCE, || {
                    let (code, text) = self.diff(at, other);
                    if text != last {
                        println!("{at} and {other}: {code:?} {text}");
                        last = text;
                    }
                    code == Some(0) && last.is_empty()
                });
            }
        }
    }

    /// Waits until all follow each other, so that the response to a push does not depend on the start.
    fn wait_connected(&self) {
        for node in &self.nodes {
            wait::for_it("the nodes follow each other", PATIENCE, || {
                node.connected() == 2
            });
        }
    }
}

impl Node {
    /// How many other nodes it follows.
    fn connected(&self) -> usize {
        let text = self.curl(&["-s", "http://127.0.0.1:9405/metrics"]).1;
        let is_up = |line: &&str| {
            line.starts_with("outpost_registry_replica_connected{") && line.ends_with(" 1")
        };
        text.lines().filter(is_up).count()
    }

    /// Runs curl on the node: its exit code, what it printed.
    fn curl(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = self.machine.command("curl");
        command.args(["--max-time", "60"]).args(arguments);
        let (status, out, _) = run(command);
        (status.code(), out)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}:5443{path}", self.address)
    }

    /// Sends a request with a file as its body: the status, and the head of the answer.
    fn send(&self, method: &str, path: &str, body: Option<&Path>, kind: &str) -> (u16, String) {
        let url = match path.starts_with("http") {
            true => path.to_owned(),
            false => self.url(path),
        };
        let kind = format!("Content-Type: {kind}");
        let file = body.map(|body| body.display().to_string());
        let mut arguments = vec![
            "-s",
            "-o",
            "/dev/null",
            "-D",
            "-",
            "-X",
            method,
            "-H",
            &kind,
        ];
        if let Some(file) = &file {
            arguments.extend(["-H", "Expect:", "-T", file]);
        }
        arguments.push(&url);
        let head = self.curl(&arguments).1;
        let status = head
            .split_whitespace()
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or(0), head)
    }

    /// Pushes a blob in two requests; the second may go to another node.
    fn push_blob(&self, then: &Self, file: &Path, digest: &Digest) -> u16 {
        finish(then, &self.begin(), file, digest).0
    }

    /// Begins an upload session; its path.
    fn begin(&self) -> String {
        self.begin_in(REPOSITORY)
    }

    fn begin_in(&self, repository: &str) -> String {
        let begin = format!("/v2/{repository}/blobs/uploads/");
        let (status, head) = self.send("POST", &begin, None, "application/octet-stream");
        assert_eq!(status, 202, "{head}");
        let location = header(&head, "location").expect("an upload session has a place");
        let path = location
            .split_once("/v2/")
            .map_or(location.as_str(), |(_, path)| path);
        format!("/v2/{}", path.trim_start_matches('/'))
    }

    /// Pushes an image with one layer; the status, and what else the registry said.
    fn push(&self, scratch: &Scratch, tag: &str, layer: &[u8]) -> (u16, String) {
        let (config, manifest) = image(layer);
        let files = [("config", config.as_bytes()), ("layer", layer)];
        for (what, content) in files {
            let file = scratch.join(&format!("{tag}-{what}"));
            std::fs::write(&file, content).unwrap();
            let digest = sha256(content);
            assert_eq!(self.push_blob(self, &file, &digest), 201, "{what} of {tag}");
        }
        let file = scratch.join(&format!("{tag}-manifest"));
        std::fs::write(&file, &manifest).unwrap();
        let path = format!("/v2/{REPOSITORY}/manifests/{tag}");
        self.send("PUT", &path, Some(&file), OCI_IMAGE)
    }

    /// Pulls an image with this layer as a client does: the manifest, then each blob, from this node
    /// alone.
    fn pull(&self, scratch: &Scratch, tag: &str, layer: &[u8]) -> Result<(), String> {
        let (config, manifest) = image(layer);
        let mut parts = vec![(
            format!("/v2/{REPOSITORY}/manifests/{tag}"),
            manifest.as_bytes(),
        )];
        for content in [config.as_bytes(), layer] {
            parts.push((
                format!("/v2/{REPOSITORY}/blobs/{}", sha256(content)),
                content,
            ));
        }
        for (path, content) in parts {
            let file = scratch.join(&format!("pulled-{}", self.name));
            let target = file.display().to_string();
            let accept = format!("Accept: {OCI_IMAGE}");
            let url = self.url(&path);
            let (code, _) = self.curl(&["-sf", "-H", &accept, "-o", &target, &url]);
            if code != Some(0) {
                return Err(format!(
                    "{path} from {}: curl ends with {code:?}",
                    self.name
                ));
            }
            if std::fs::read(&file).unwrap() != content {
                return Err(format!("{path} from {} is something else", self.name));
            }
        }
        Ok(())
    }
}

/// Ends an upload session with its content; the status, and the head of the response.
fn finish(node: &Node, path: &str, file: &Path, digest: &Digest) -> (u16, String) {
    let join = if path.contains('?') { '&' } else { '?' };
    let finish = format!("{path}{join}digest={digest}");
    node.send("PUT", &finish, Some(file), "application/octet-stream")
}

const OCI_IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The configuration and the manifest of an image with one layer.
fn image(layer: &[u8]) -> (String, String) {
    let config = format!(r#"{{"os":"linux","layer":"{}"}}"#, sha256(layer));
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI_IMAGE}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{}}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{}","size":{}}}]}}"#,
        sha256(config.as_bytes()),
        config.len(),
        sha256(layer),
        layer.len()
    );
    (config, manifest)
}

fn sha256(content: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, content)
}

/// So many octets, others for each seed.
fn layer(seed: u32, length: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut content = Vec::with_capacity(length + 8);
    while content.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_be_bytes());
    }
    content.truncate(length);
    content
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}

fn config(directory: &Path, at: usize) -> String {
    let directory = directory.display();
    let address = |at: usize| format!("192.168.7.{}", 13 + at);
    let mut peers = String::new();
    for other in (0..3).filter(|other| *other != at) {
        writeln!(
            peers,
            "  {{ name = \"master-{other}\", address = \"{}:5444\" }},",
            address(other)
        )
        .unwrap();
    }
    format!(
        r#"version = "v1"
plain = true
listen = ["{own}:5443"]
root = "{directory}/root-{at}"
[space]
free = "1MiB"
stop = 99
[cluster]
node = "master-{at}"
listen = ["{own}:5444"]
peers = [
{peers}]
ca = "{directory}/ca.pem"
certificate = "{directory}/master-{at}.pem"
key = "{directory}/master-{at}.key"
compare = "2s"
"#,
        own = address(at),
    )
}

/// Every client pushes.
const OPEN: &str = "plain = true\naccess.anonymous = \"all\"\n";

/// Makes an authority for the nodes.
fn authority(directory: &Path) {
    openssl(
        directory,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=nodes -keyout ca.key -out ca.pem",
    );
}

/// Makes the certificate of a node.
fn certificate(directory: &Path, name: &str) {
    let request = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
    );
    openssl(directory, &request);
    let extensions = directory.join(format!("{name}.ext"));
    std::fs::write(extensions, format!("subjectAltName=DNS:{name}\n")).unwrap();
    let sign = format!(
        "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {name}.ext -out {name}.pem"
    );
    openssl(directory, &sign);
}

/// Adds a list to the authority's file that has the certificate of a node.
fn revoke(directory: &Path, name: &str) {
    let read = format!("x509 -in {name}.pem -noout -serial -out {name}.serial");
    openssl(directory, &read);
    let serial = std::fs::read_to_string(directory.join(format!("{name}.serial"))).unwrap();
    let serial = serial.trim().trim_start_matches("serial=");
    let entry = format!("R\t491231000000Z\t250101000000Z\t{serial}\tunknown\t/CN={name}\n");
    std::fs::write(directory.join("index.txt"), entry).unwrap();
    std::fs::write(directory.join("number"), "01\n").unwrap();
    let settings = "[ca]\ndefault_ca = all\n[all]\ndatabase = index.txt\ncrlnumber = number\ndefault_md = sha256\n\
                    default_crl_days = 1\ncrl_extensions = kinds\n[kinds]\nauthorityKeyIdentifier = keyid\n";
    std::fs::write(directory.join("ca.cnf"), settings).unwrap();
    let make = "ca -gencrl -config ca.cnf -keyfile ca.key -cert ca.pem -out ca.crl";
    openssl(directory, make);
    let authority = std::fs::read_to_string(directory.join("ca.pem")).unwrap();
    let list = std::fs::read_to_string(directory.join("ca.crl")).unwrap();
    std::fs::write(directory.join("ca.pem"), authority + &list).unwrap();
}

fn openssl(directory: &Path, arguments: &str) {
    let status = Command::new("openssl")
        .current_dir(directory)
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success(), "openssl {arguments}");
}

#[test]
#[ignore = "needs root for network namespaces"]
fn three_nodes_keep_one_content() {
    let mut site = Site::new();
    site.wait_connected();

    // Pushed to one, pulled from each of the others at once.
    for turn in 0..6_u32 {
        let content = layer(turn, 200_000 * (1 + turn as usize));
        let tag = format!("v{turn}");
        let at = turn as usize % 3;
        let (status, head) = site.nodes[at].push(&site.scratch, &tag, &content);
        assert_eq!(status, 201, "{head}");
        assert_eq!(header(&head, "warning"), None, "{head}");
        for node in &site.nodes {
            node.pull(&site.scratch, &tag, &content).unwrap();
        }
    }

    // Two requests of one push at two nodes.
    let content = layer(50, 300_000);
    let file = site.scratch.join("two-nodes");
    std::fs::write(&file, &content).unwrap();
    let digest = sha256(&content);
    assert_eq!(site.nodes[0].push_blob(&site.nodes[2], &file, &digest), 201);
    let path = format!("/v2/{REPOSITORY}/blobs/{digest}");
    let (status, head) = site.nodes[1].send("HEAD", &path, None, "a/b");
    assert_eq!(status, 200, "{head}");

    site.wait_equal();
    apart_and_together(&site);
    wiped(&mut site);
    damaged(&mut site);
    killed_in_a_push(&mut site);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn strangers_keep_no_node_apart() {
    let mut site = Site::new();
    site.wait_connected();
    let stranger = site.network.machine("stranger", "192.168.7.99/24");
    let addresses = [13, 14, 15].map(|last| SocketAddr::from(([192, 168, 7, last], 5444)));
    let _strangers = Strangers::on(&stranger, &addresses, 200);
    // A node that starts again finds the others, and they find it.
    site.kill(0);
    site.start(0);
    site.wait_connected();
    let content = layer(1, 200_000);
    let (status, head) = site.nodes[0].push(&site.scratch, "v1", &content);
    assert_eq!(status, 201, "{head}");
    assert_eq!(header(&head, "warning"), None, "{head}");
    for node in &site.nodes {
        node.pull(&site.scratch, "v1", &content).unwrap();
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_node_whose_key_was_stolen_is_out_and_the_others_go_on() {
    let mut site = Site::new();
    site.wait_connected();
    revoke(&site.scratch.join("."), "master-2");
    for at in 0..3 {
        site.nodes[at].daemon.as_ref().unwrap().signal(Signal::HUP);
    }
    // The connections end that were open, in both directions.
    for (node, others) in site.nodes.iter().zip([1, 1, 0]) {
        wait::for_it("the stolen node is out", PATIENCE, || {
            node.connected() == others
        });
    }
    let content = layer(2, 200_000);
    let (status, head) = site.nodes[0].push(&site.scratch, "v1", &content);
    assert_eq!(status, 201, "{head}");
    site.nodes[1].pull(&site.scratch, "v1", &content).unwrap();
    assert!(site.nodes[2].pull(&site.scratch, "v1", &content).is_err());
    // It is not let in again either.
    site.kill(2);
    site.start(2);
    let refusing = site.nodes[0].daemon.as_ref().unwrap();
    wait::for_it("it is refused", PATIENCE, || {
        refusing.log().contains("A connection for peers is refused")
    });
    assert_eq!(site.nodes[2].connected(), 0);
}

/// A node whose disk was damaged while it was off serves everything whole, and heals its disk.
fn damaged(site: &mut Site) {
    site.kill(2);
    let contents: Vec<Vec<u8>> = (0..6_u32)
        .map(|turn| layer(turn, 200_000 * (1 + turn as usize)))
        .collect();
    let manifests = contents.iter().map(|content| image(content).1.into_bytes());
    let manifests: Vec<Vec<u8>> = manifests.collect();
    let blobs = site.scratch.join("root-2/blobs/sha256");
    let path = |content: &[u8]| {
        let digest = sha256(content);
        blobs
            .join(format!("{:02x}", digest.shard()))
            .join(digest.hex())
    };
    let change = |content: &[u8], change: fn(&mut Vec<u8>)| {
        let path = path(content);
        let mut octets = std::fs::read(&path).unwrap();
        change(&mut octets);
        // Files of blobs are not writable.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, octets).unwrap();
    };
    change(&contents[5], |octets| octets[700_000] ^= 1);
    change(&contents[4], |octets| octets.truncate(1000));
    change(&contents[3], Vec::clear);
    std::fs::remove_file(path(&contents[2])).unwrap();
    change(&contents[0], |octets| octets[9] ^= 8);
    change(&manifests[1], |octets| octets[40] ^= 1);
    site.start(2);
    for (turn, content) in contents.iter().enumerate() {
        let tag = format!("v{turn}");
        // A large layer is hashed while it is sent: its damage cuts the connection once.
        let pulled = site.nodes[2].pull(&site.scratch, &tag, content);
        let is_cut = pulled
            .as_ref()
            .is_err_and(|error| error.contains("curl ends with"));
        assert!(pulled.is_ok() || turn == 5 && is_cut, "{pulled:?}");
        if pulled.is_err() {
            site.nodes[2].pull(&site.scratch, &tag, content).unwrap();
        }
    }
    wait::for_it("the node has healed its disk", PATIENCE, || {
        let all = contents.iter().chain(&manifests);
        all.into_iter()
            .all(|content| std::fs::read(path(content)).is_ok_and(|read| read == *content))
    });
    let status = site.nodes[2]
        .curl(&["-s", "http://127.0.0.1:9405/status"])
        .1;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let damage = &status["detail"]["damage"];
    assert!(damage["found"].as_u64() >= Some(6), "{damage}");
    assert!(damage["quarantined"].as_u64() >= Some(4), "{damage}");
    wait::for_it("nothing waits", PATIENCE, || {
        let text = site.nodes[2]
            .curl(&["-s", "http://127.0.0.1:9405/metrics"])
            .1;
        tests::daemon::metric(&text, "registry_svc_damage_waiting_blobs") == Some(0.0)
    });
}

/// A node that is cut off takes pushes, and so do the others; afterwards all have all of it.
fn apart_and_together(site: &Site) {
    let (inside, outside) = (layer(60, 100_000), layer(61, 100_000));
    site.nodes[2].machine.cut_off();
    wait::for_it("the cut-off node knows that it is alone", PATIENCE, || {
        let (status, head) = site.nodes[2].push(&site.scratch, "apart", &inside);
        assert_eq!(status, 201, "{head}");
        header(&head, "warning").is_some_and(|text| text == "299 - \"stored on 1 of 3 nodes\"")
    });
    let (status, head) = site.nodes[0].push(&site.scratch, "together", &outside);
    assert_eq!(status, 201, "{head}");
    assert_eq!(
        header(&head, "warning"),
        None,
        "two of three are enough: {head}"
    );
    // One tag on both sides: the later push holds.
    site.nodes[2].push(&site.scratch, "contested", &inside);
    site.nodes[1].push(&site.scratch, "contested", &outside);
    assert!(site.nodes[0].pull(&site.scratch, "apart", &inside).is_err());
    site.nodes[2].machine.join();
    site.wait_equal();
    for node in &site.nodes {
        node.pull(&site.scratch, "apart", &inside).unwrap();
        node.pull(&site.scratch, "together", &outside).unwrap();
        node.pull(&site.scratch, "contested", &outside).unwrap();
    }
}

/// A node that lost its disk fills it again: alone, it serves everything.
fn wiped(site: &mut Site) {
    site.kill(1);
    site.wipe(1);
    site.start(1);
    // At once through the others.
    site.nodes[1]
        .pull(&site.scratch, "v0", &layer(0, 200_000))
        .unwrap();
    site.wait_equal();
    site.nodes[1].machine.cut_off();
    for turn in 0..6_u32 {
        let content = layer(turn, 200_000 * (1 + turn as usize));
        let tag = format!("v{turn}");
        site.nodes[1].pull(&site.scratch, &tag, &content).unwrap();
    }
    site.nodes[1].machine.join();
    site.wait_equal();
}

/// A node is killed in the middle of a push; the client begins again at another one.
fn killed_in_a_push(site: &mut Site) {
    let content = layer(70, 4_000_000);
    let file = site.scratch.join("killed");
    std::fs::write(&file, &content).unwrap();
    let url = site.nodes[0].url(&site.nodes[0].begin());
    let mut pushing = site.nodes[0]
        .machine
        .command("curl")
        .args(["-s", "-X", "PATCH", "--limit-rate", "400k", "-H", "Expect:"])
        .args(["-H", "Content-Type: application/octet-stream", "-T"])
        .arg(&file)
        .arg(&url)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let uploads = site.scratch.join("root-0");
    wait::for_it("the push has begun", PATIENCE, || {
        holds_part(&uploads, 100_000)
    });
    site.kill(0);
    assert!(
        !pushing.wait().unwrap().success(),
        "the push ended before the node did"
    );
    let (status, head) = site.nodes[1].push(&site.scratch, "retried", &content);
    assert_eq!(status, 201, "{head}");
    site.start(0);
    site.wait_equal();
    for node in &site.nodes {
        node.pull(&site.scratch, "retried", &content).unwrap();
    }
}

/// Whether some file below a directory that is no blob has this many bytes.
fn holds_part(directory: &Path, octets: u64) -> bool {
    let Ok(entries) = std::fs::read_dir(directory.join("uploads")) else {
        return false;
    };
    entries.filter_map(Result::ok).any(|entry| {
        // Room may be made before the octets come: what is on the disk counts.
        use std::os::unix::fs::MetadataExt as _;
        entry
            .metadata()
            .is_ok_and(|metadata| metadata.len() >= octets && metadata.blocks() * 512 >= octets)
    })
}
