//! One name with the addresses of all three nodes, as the site's DNS has it: clients know nothing else,
//! and do not mind a node that is away.

use std::path::Path;
use std::process::Command;

use tests::netns::Machine;
use tests::registry::{image, succeed};
use tests::scratch::Scratch;

use super::{Site, openssl};

/// What clients call the registry.
const NAME: &str = "registry.ocp4.redhat.ren:5443";

/// `htpasswd -nbB -C 4 pusher 'correct horse'`: a low cost, since what it costs is not tested.
const HTPASSWD: &str = "pusher:$2y$04$LwUHuTUsvd5d9uzFq.bem.zln/MOYgB.LnBWjaXKp2wN6k4jzK3uu\n";

/// A machine that is no node, and its programs.
struct Client {
    machine: Machine,
    hosts: String,
    /// podman's, whose path must be short.
    storage: Scratch,
}

impl Client {
    fn new(site: &mut Site) -> Self {
        let host = NAME.split(':').next().unwrap();
        let lines = site
            .nodes
            .iter()
            .map(|node| format!("{} {host}\n", node.address));
        let hosts = site.scratch.write("hosts", &lines.collect::<String>());
        Self {
            machine: site.network.machine("client", "192.168.7.40/24"),
            hosts: hosts.display().to_string(),
            storage: Scratch::new("podman"),
        }
    }

    /// A program to which the name has three addresses.
    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let script = format!("mount --bind '{}' /etc/hosts && exec \"$@\"", self.hosts);
        let mut command = self.machine.command("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", program]);
        command.args(arguments);
        command
    }

    fn skopeo(&self, arguments: &[&str]) -> String {
        let mut all = vec!["--insecure-policy"];
        all.extend(arguments);
        succeed(self.command("skopeo", &all))
    }

    fn podman(&self, arguments: &[&str]) -> String {
        let storage = [
            "--storage-driver",
            "vfs",
            "--events-backend",
            "none",
            "--cgroup-manager",
            "cgroupfs",
        ];
        let place = |name: &str| self.storage.join(name).display().to_string();
        let (root, run, temporary) = (place("root"), place("run"), place("tmp"));
        let places = ["--root", &root, "--runroot", &run, "--tmpdir", &temporary];
        let mut all: Vec<&str> = storage.into_iter().chain(places).collect();
        all.extend(arguments);
        succeed(self.command("podman", &all))
    }
}

/// How clients reach the registry: of each, what it is told besides.
struct Ways {
    /// skopeo, of where it copies from and to, and of what it inspects.
    source: Vec<String>,
    destination: Vec<String>,
    inspect: Vec<String>,
    podman: Vec<String>,
}

fn words(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

/// Pushes with every node there, and pulls and pushes with each of them away in turn.
fn push_and_pull(site: &mut Site, ways: &Ways) {
    let client = Client::new(site);
    site.wait_connected();
    for away in [None, Some(0), Some(1), Some(2)] {
        if let Some(at) = away {
            site.kill(at);
        }
        let tag = format!("v{}", away.map_or(9, |at| at));
        let layout = site.scratch.join(&format!("layout-{tag}"));
        let digest = image(&layout, "1", &[tag.as_bytes(), &[7; 300_000]]);
        let source = format!("oci:{}:1", layout.display());
        let name = format!("docker://{NAME}/ocp4/release:{tag}");
        let mut copy = vec!["copy", "-q", "--preserve-digests"];
        copy.extend(words(&ways.destination));
        copy.extend([source.as_str(), &name]);
        client.skopeo(&copy);

        let mut inspect = vec!["inspect", "--format", "{{.Digest}}"];
        inspect.extend(words(&ways.inspect));
        inspect.push(&name);
        assert_eq!(client.skopeo(&inspect).trim(), digest, "without {away:?}");

        let back = site.scratch.join(&format!("back-{tag}"));
        let target = format!("oci:{}:1", back.display());
        let mut copy = vec!["copy", "-q", "--preserve-digests"];
        copy.extend(words(&ways.source));
        copy.extend([name.as_str(), &target]);
        client.skopeo(&copy);
        let hex = &digest["sha256:".len()..];
        assert!(back.join("blobs/sha256").join(hex).exists());

        let mut pull = vec!["pull", "-q"];
        pull.extend(words(&ways.podman));
        let plain = format!("{NAME}/ocp4/release:{tag}");
        pull.push(&plain);
        let id = client.podman(&pull);
        assert_eq!(id.trim().len(), 64, "{id}");
        if let Some(at) = away {
            site.start(at);
            site.wait_connected();
            // What was pushed meanwhile is on the next that goes, or on those that stay.
            site.wait_equal();
        }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
#[ignore = "needs root for network namespaces"]
fn one_name_of_three_nodes_serves_clients_with_any_of_them_away() {
    let mut site = Site::new();
    let ways = Ways {
        source: owned(&["--src-tls-verify=false"]),
        destination: owned(&["--dest-tls-verify=false"]),
        inspect: owned(&["--tls-verify=false"]),
        podman: owned(&["--tls-verify=false"]),
    };
    push_and_pull(&mut site, &ways);
}

#[test]
#[ignore = "needs root for network namespaces"]
fn one_name_of_three_nodes_serves_clients_that_show_a_password_over_tls() {
    // One key for tokens and one certificate for the name, on all nodes.
    let prepare = |directory: &Path, _: &str| {
        if !directory.join("site.pem").exists() {
            let host = NAME.split(':').next().unwrap();
            openssl(
                directory,
                &format!(
                    "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={host} -keyout site.key -out site.csr"
                ),
            );
            std::fs::write(
                directory.join("site.ext"),
                format!("subjectAltName=DNS:{host}\n"),
            )
            .unwrap();
            openssl(
                directory,
                "x509 -req -in site.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile site.ext -out site.pem",
            );
            openssl(directory, "genpkey -algorithm ed25519 -out token.key");
            std::fs::write(directory.join("htpasswd"), HTPASSWD).unwrap();
        }
        String::new()
    };
    let sections = |directory: &Path, _: &str| {
        let files = directory.display();
        format!(
            "[tls]\ncertificates = [{{ certificate = \"{files}/site.pem\", key = \"{files}/site.key\" }}]\n\
             [access]\nhtpasswd = \"{files}/htpasswd\"\nanonymous = \"none\"\n\
             [access.token]\nkey = \"{files}/token.key\"\n"
        )
    };
    let mut site = Site::with(prepare, sections);
    let trust = site.scratch.join("trust");
    std::fs::create_dir(&trust).unwrap();
    std::fs::copy(site.scratch.join("ca.pem"), trust.join("ca.crt")).unwrap();
    let trust = trust.display().to_string();
    let credentials = "pusher:correct horse";
    let ways = Ways {
        source: owned(&["--src-cert-dir", &trust, "--src-creds", credentials]),
        destination: owned(&["--dest-cert-dir", &trust, "--dest-creds", credentials]),
        inspect: owned(&["--cert-dir", &trust, "--creds", credentials]),
        podman: owned(&["--cert-dir", &trust, "--creds", credentials]),
    };
    push_and_pull(&mut site, &ways);
    // Nobody else is let in, through whichever node.
    let client = Client::new(&mut site);
    let name = format!("docker://{NAME}/ocp4/release:v9");
    let stranger = client
        .command("skopeo", &["inspect", "--cert-dir", &trust, &name])
        .output()
        .unwrap();
    assert!(!stranger.status.success());
}
