//! containerd, with its root, state and socket in the directory of the test, pulls and pushes: plain, with TLS, and with tokens.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tests::daemon::run;
use tests::registry::{Registry, image, skopeo, succeed};
use tests::wait::until;

use super::clients::{copy, digest_of, guarded};

/// Longer than containerd takes to start, and to end, on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A containerd of this test alone.
struct Containerd {
    process: Child,
    socket: PathBuf,
}

impl Containerd {
    /// Starts it; it ends with this value.
    fn start(registry: &Registry) -> Self {
        let files = &registry.files;
        let path = |name: &str| files.join(name).display().to_string();
        let socket = files.join("containerd.sock");
        // Its CRI wants addresses and plugins of a node.
        let config = files.write(
            "containerd.toml",
            &format!(
                "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\n[grpc]\naddress = \"{0}\"\n\n\
                 [ttrpc]\naddress = \"{0}.ttrpc\"\n",
                socket.display()
            ),
        );
        // It mounts what it unpacks: where no other process sees it.
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "containerd"])
            .arg("--config")
            .arg(config)
            .args([
                "--root",
                &path("containerd"),
                "--state",
                &path("containerd-state"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let containerd = Self {
            process: command.spawn().expect("unshare is there"),
            socket,
        };
        until("containerd answers", LIMIT, || {
            run(containerd.ctr(&["version"])).0.success().then_some(())
        });
        containerd
    }

    /// Its client.
    fn ctr(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(&self.socket).args(arguments);
        command
    }

    /// Pulls an image and unpacks it.
    fn pull(&self, reference: &str, how: &[&str]) -> Command {
        let mut command = self.ctr(&["images", "pull", "--snapshotter", "native"]);
        command.args(how).arg(reference);
        command
    }

    fn push(&self, reference: &str, how: &[&str]) -> Command {
        let mut command = self.ctr(&["images", "push"]);
        command.args(how).arg(reference);
        command
    }

    /// Whether it has an image of a digest.
    fn has(&self, reference: &str, digest: &str) -> bool {
        let listed = succeed(self.ctr(&["images", "list", &format!("name=={reference}")]));
        listed.contains(digest)
    }

    /// Pulls an image, pushes it under another name, forgets both and pulls the other.
    fn go_round(&self, from: &str, to: &str, digest: &str, how: &[&str]) {
        succeed(self.pull(from, how));
        assert!(self.has(from, digest));
        succeed(self.ctr(&["images", "tag", from, to]));
        succeed(self.push(to, how));
        succeed(self.ctr(&["images", "remove", "--sync", from, to]));
        assert!(!self.has(to, digest));
        succeed(self.pull(to, how));
        assert!(self.has(to, digest));
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The files of registries as a node has them, and their directory. Without them containerd does without TLS on loopback.
fn hosts(registry: &Registry, trust: &Path) -> String {
    let (name, ca) = (registry.name(), trust.join("ca.crt"));
    let directory = registry.files.join("hosts");
    std::fs::create_dir_all(directory.join(&name)).unwrap();
    let text = format!(
        "server = \"https://{name}\"\n\n[host.\"https://{name}\"]\n\
         capabilities = [\"pull\", \"resolve\", \"push\"]\nca = \"{}\"\n",
        ca.display()
    );
    registry
        .files
        .write(&format!("hosts/{name}/hosts.toml"), &text);
    directory.display().to_string()
}

#[test]
#[ignore = "containerd wants root"]
fn containerd_pulls_and_pushes_without_tls() {
    let registry = Registry::open();
    let _serving = registry.start();
    let containerd = Containerd::start(&registry);
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"for containerd", &[7; 100_000]]);
    let name = registry.name();
    let from = format!("{name}/ocp4/release:4.16");
    copy(
        &format!("oci:{}:1", layout.display()),
        &format!("docker://{from}"),
        &["--dest-tls-verify=false"],
    );
    let to = format!("{name}/team/app:2");
    containerd.go_round(&from, &to, &digest, &["--plain-http"]);
    let pushed = digest_of(&format!("docker://{to}"), &["--tls-verify=false"]);
    assert_eq!(pushed, digest);
    let gone = containerd.pull(&format!("{name}/team/app:3"), &["--plain-http"]);
    let (status, _, complaint) = run(gone);
    assert!(
        !status.success() && complaint.contains("not found"),
        "{complaint}"
    );
}

#[test]
#[ignore = "containerd wants root"]
fn containerd_pulls_with_tls_and_pushes_with_a_token() {
    // Everyone may pull.
    let (registry, trust) = guarded("pull");
    let _serving = registry.start();
    let containerd = Containerd::start(&registry);
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"for all"]);
    let name = registry.name();
    let from = format!("{name}/public/image:1");
    let user = "pusher:correct horse";
    copy(
        &format!("oci:{}:1", layout.display()),
        &format!("docker://{from}"),
        &[
            "--dest-cert-dir",
            &trust.display().to_string(),
            "--dest-creds",
            user,
        ],
    );
    let hosts = hosts(&registry, &trust);
    let hosts = ["--hosts-dir", &hosts];
    succeed(containerd.pull(&from, &hosts));
    assert!(containerd.has(&from, &digest));
    let to = format!("{name}/team/app:2");
    succeed(containerd.ctr(&["images", "tag", &from, &to]));
    assert!(!run(containerd.push(&to, &hosts)).0.success());
    let with_user = [&hosts[..], &["--user", user][..]].concat();
    containerd.go_round(&from, &format!("{name}/team/app:3"), &digest, &with_user);
}

#[test]
#[ignore = "containerd wants root"]
fn containerd_asks_for_tokens_with_a_password_and_gets_nothing_without() {
    let (registry, trust) = guarded("none");
    let _serving = registry.start();
    let containerd = Containerd::start(&registry);
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"secret"]);
    let name = registry.name();
    let from = format!("{name}/secret/image:1");
    let user = "pusher:correct horse";
    let mut push = skopeo(&["copy", "-q", "--preserve-digests", "--dest-creds", user]);
    push.arg("--dest-cert-dir").arg(&trust);
    push.arg(format!("oci:{}:1", layout.display()));
    push.arg(format!("docker://{from}"));
    succeed(push);
    let hosts = hosts(&registry, &trust);
    let trusting = ["--hosts-dir", &hosts];
    let with = |user: &'static str| [&trusting[..], &["--user", user][..]].concat();
    for refused in [trusting.to_vec(), with("pusher:wrong")] {
        assert!(!run(containerd.pull(&from, &refused)).0.success());
    }
    let with_user = with(user);
    containerd.go_round(
        &from,
        &format!("{name}/secret/other:2"),
        &digest,
        &with_user,
    );
}
