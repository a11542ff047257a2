//! Images in and out, by Debian's skopeo, podman and docker-registry on the other side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::registry::{Registry, image, skopeo, succeed};
use tests::scratch::{Scratch, loopback};
use tests::wait;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes everything from everybody.
const OPEN: &str = "plain = true\n\n[access]\nanonymous = \"push\"\n";

/// A registry-svc that serves.
struct Serving {
    daemon: Daemon,
    authority: String,
    /// Its data goes when it does.
    _registry: Registry,
}

impl Serving {
    fn start(registry: Registry) -> Self {
        Self {
            daemon: registry.start(),
            authority: registry.name(),
            _registry: registry,
        }
    }

    fn image(&self, name: &str) -> String {
        format!("docker://{}/{name}", self.authority)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.authority)
    }
}

fn closed() -> Registry {
    Registry::with(OPEN)
}

/// Debian's docker-registry over a directory.
fn docker_registry(scratch: &Scratch, data: &Path) -> (Daemon, String) {
    let address = format!("{}:5000", loopback());
    let config = format!(
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
        data.display()
    );
    let config = scratch.write("docker-registry.yml", &config);
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(config);
    let daemon = Daemon::spawn("docker-registry", command);
    wait::until("docker-registry listens", PATIENCE, || {
        std::net::TcpStream::connect(&address).ok()
    });
    (daemon, address)
}

fn registry_svc(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(binary("registry-svc"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code().unwrap_or(-1), stdout, stderr)
}

fn expect(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = registry_svc(arguments);
    assert_eq!(code, 0, "{arguments:?}:\n{stdout}{stderr}");
    stdout
}

fn copy(from: &str, to: &str) {
    let mut arguments = vec!["copy", "--quiet", "--preserve-digests", "--all"];
    for (text, flag) in [
        (from, "--src-tls-verify=false"),
        (to, "--dest-tls-verify=false"),
    ] {
        if text.starts_with("docker://") {
            arguments.push(flag);
        }
    }
    arguments.extend([from, to]);
    drop(succeed(skopeo(&arguments)));
}

/// The manifest of an image as it is there.
fn manifest(image: &str) -> String {
    let mut arguments = vec!["inspect", "--raw"];
    if image.starts_with("docker://") {
        arguments.push("--tls-verify=false");
    }
    arguments.push(image);
    succeed(skopeo(&arguments))
}

fn config_digest(manifest: &str) -> String {
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    manifest["config"]["digest"].as_str().unwrap().to_owned()
}

/// Makes an image in an OCI layout, `size` octets in its first layer, and returns its manifest.
fn make_image(layout: &Path, size: usize) -> String {
    let mut state = 88_172_645_463_325_252_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(size)
    .collect();
    let digest = image(layout, "1.0", &[&noise, b"second"]);
    let (_, hex) = digest.split_once(':').unwrap();
    std::fs::read_to_string(layout.join("blobs/sha256").join(hex)).unwrap()
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn archives_of_skopeo_come_in_and_go_out_unchanged() {
    let scratch = Scratch::new("registry-archives");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 300_000);
    let of_layout = format!("oci:{}:1.0", shown(&layout));
    let archive = |kind: &str, name: &str| format!("{kind}:{}{name}", shown(&scratch.join(kind)));
    let docker = archive("docker-archive", ":localhost/saved/docker:2");
    let oci = archive("oci-archive", ":localhost/saved/oci:3");
    let directory = archive("dir", "");
    copy_as_is(&of_layout, &docker);
    copy(&of_layout, &oci);
    copy(&of_layout, &directory);
    let registry = closed();
    let root = registry.root();
    let import = |arguments: &[&str]| {
        let mut all = vec!["import", "--root", shown(&root)];
        all.extend(arguments);
        expect(&all)
    };
    import(&[shown(&layout), "--as", "plain/layout:1.0"]);
    import(&[shown(&scratch.join("docker-archive"))]);
    import(&[shown(&scratch.join("oci-archive"))]);
    import(&[shown(&scratch.join("dir")), "--as", "plain/dir:4"]);
    let again = import(&[
        shown(&scratch.join("oci-archive")),
        "--repository",
        "mirror",
    ]);
    assert!(again.contains("copied 1 image (0 blobs, 0 B)"), "{again}");
    let registry = Serving::start(registry);
    for name in [
        "plain/layout:1.0",
        "saved/oci:3",
        "plain/dir:4",
        "mirror/saved/oci:3",
    ] {
        assert_eq!(manifest(&registry.image(name)), pushed, "{name}");
    }
    let made = manifest(&registry.image("saved/docker:2"));
    assert_eq!(config_digest(&made), config_digest(&pushed));
    // Whole, and as every client wants it: skopeo verifies each digest.
    for (number, name) in ["plain/layout:1.0", "saved/docker:2"]
        .into_iter()
        .enumerate()
    {
        let back = scratch.join(&format!("back-{number}"));
        copy(&registry.image(name), &format!("dir:{}", shown(&back)));
    }
    let Serving {
        daemon, _registry, ..
    } = registry;
    daemon.stop();
    expect(&[
        "export",
        shown(&scratch.join("out")),
        "--root",
        shown(&root),
        "--only",
        "plain/*",
    ]);
    let out = format!("oci:{}:plain/layout:1.0", shown(&scratch.join("out")));
    assert_eq!(manifest(&out), pushed);
}

/// Without keeping the digest of the manifest, which such an archive has none of.
fn copy_as_is(from: &str, to: &str) {
    drop(succeed(skopeo(&["copy", "--quiet", from, to])));
}

#[test]
#[ignore = "podman wants root"]
fn archives_of_podman_come_in_unchanged() {
    // podman takes no more than 50 characters for its directory of running things.
    let scratch = Scratch::new("podman");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 100_000);
    let podman = |arguments: &[&str]| {
        let mut command = Command::new("podman");
        command.args(["--storage-driver", "vfs", "--root"]);
        command
            .arg(scratch.join("podman"))
            .arg("--runroot")
            .arg(scratch.join("run"));
        command.args(arguments);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "podman {arguments:?}:\n{stdout}{stderr}");
        stdout.trim().to_owned()
    };
    let id = podman(&["pull", "--quiet", &format!("oci:{}:1.0", shown(&layout))]);
    let name = "quay.example.org/group/image:9";
    podman(&["tag", &id, name]);
    let registry = closed();
    let root = registry.root();
    for (form, repository) in [("docker-archive", "docker"), ("oci-archive", "oci")] {
        let path = scratch.join(form);
        podman(&[
            "save",
            "--quiet",
            "--format",
            form,
            "--output",
            shown(&path),
            name,
        ]);
        expect(&[
            "import",
            shown(&path),
            "--root",
            shown(&root),
            "--repository",
            repository,
        ]);
    }
    let registry = Serving::start(registry);
    for repository in ["docker", "oci"] {
        let image = registry.image(&format!("{repository}/group/image:9"));
        assert_eq!(config_digest(&manifest(&image)), config_digest(&pushed));
        let image = image.trim_start_matches("docker://").to_owned();
        let pulled = podman(&["pull", "--quiet", "--tls-verify=false", &image]);
        assert_eq!(pulled, id, "{repository}");
    }
}

#[test]
fn trees_of_skopeo_sync_come_in() {
    let scratch = Scratch::new("registry-sync");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 50_000);
    let source = Serving::start(closed());
    for name in ["group/one:1", "group/one:2"] {
        copy(&format!("oci:{}:1.0", shown(&layout)), &source.image(name));
    }
    let tree = scratch.join("tree");
    let from = source.image("group/one");
    let from = from.trim_start_matches("docker://");
    let transports = ["--src", "docker", "--dest", "dir", "--src-tls-verify=false"];
    let mut arguments = vec!["sync", "--scoped"];
    arguments.extend(transports);
    arguments.extend([from, shown(&tree)]);
    drop(succeed(skopeo(&arguments)));
    let registry = closed();
    let target = registry.root();
    let listed = expect(&["import", shown(&tree), "--list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    expect(&[
        "import",
        shown(&tree),
        "--root",
        shown(&target),
        "--tag",
        "2",
    ]);
    let registry = Serving::start(registry);
    assert_eq!(manifest(&registry.image("group/one:2")), pushed);
    let tags = skopeo(&[
        "list-tags",
        "--tls-verify=false",
        &registry.image("group/one"),
    ]);
    let tags: Value = serde_json::from_str(&succeed(tags)).unwrap();
    assert_eq!(tags["Tags"], json!(["2"]));
}

#[test]
fn the_data_of_docker_registry_comes_in_and_goes_out() {
    let scratch = Scratch::new("registry-distribution");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 200_000);
    let data = scratch.join("data");
    let (daemon, address) = docker_registry(&scratch, &data);
    let of_layout = format!("oci:{}:1.0", shown(&layout));
    for name in ["ocp4/release:4.17", "ocp4/release:other", "plain:1"] {
        copy(&of_layout, &format!("docker://{address}/{name}"));
    }
    daemon.kill();
    let root = scratch.join("root");
    let summary = expect(&["import", shown(&data), "--root", shown(&root)]);
    assert!(summary.contains("copied 3 images (3 blobs"), "{summary}");
    let summary = expect(&["import", shown(&data), "--root", shown(&root)]);
    assert!(summary.contains("held already: 3 images"), "{summary}");
    let out = scratch.join("out");
    let form = ["--format", "distribution", "--root", shown(&root)];
    expect(&[&["export", shown(&out)], &form[..]].concat());
    let (_daemon, address) = docker_registry(&scratch, &out);
    for name in ["ocp4/release:4.17", "plain:1"] {
        let image = format!("docker://{address}/{name}");
        assert_eq!(manifest(&image), pushed, "{name}");
        let back = scratch.join(&name.replace(['/', ':'], "-"));
        copy(&image, &format!("dir:{}", shown(&back)));
    }
    // As oc-mirror cuts such a directory into parts: links in the first, content in the second.
    let archive = scratch.join("mirror");
    std::fs::create_dir_all(&archive).unwrap();
    for (number, part) in ["repositories", "blobs"].into_iter().enumerate() {
        let path = archive.join(format!("mirror_{:06}.tar", number + 1));
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(path).arg("-C").arg(&out);
        tar.arg(format!("docker/registry/v2/{part}"));
        let (status, _, stderr) = run(tar);
        assert!(status.success(), "{stderr}");
    }
    let second = scratch.join("second");
    let summary = expect(&["import", shown(&archive), "--root", shown(&second)]);
    assert!(summary.contains("copied 3 images (3 blobs"), "{summary}");
}

#[test]
fn images_are_pushed_and_pulled() {
    let scratch = Scratch::new("registry-push");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 3_000_000);
    let registry = closed();
    let root = registry.root();
    let registry = Serving::start(registry);
    let (_daemon, address) = docker_registry(&scratch, &scratch.join("data"));
    for target in [
        registry.url("group/image:1.0"),
        format!("http://{address}/group/image:1.0"),
    ] {
        let summary = expect(&["push", shown(&layout), &target]);
        assert!(summary.contains("copied 1 image (3 blobs"), "{summary}");
        let summary = expect(&["push", shown(&layout), &target]);
        assert!(summary.contains("held already: 1 image"), "{summary}");
    }
    // A blob of another repository is not sent again.
    let summary = expect(&["push", shown(&layout), &registry.url("other:2")]);
    assert!(summary.contains("copied 1 image"), "{summary}");
    assert_eq!(manifest(&registry.image("group/image:1.0")), pushed);
    let pulled = scratch.join("pulled");
    let sources = [
        registry.url("group/image:1.0"),
        format!("http://{address}/group/image"),
    ];
    expect(&["pull", &sources[0], &sources[1], shown(&pulled)]);
    let image = format!("oci:{}:1.0", shown(&pulled));
    assert_eq!(manifest(&image), pushed);
    let (code, _, stderr) = registry_svc(&["pull", &registry.url("gone:1"), shown(&pulled)]);
    assert_eq!(code, 65, "{stderr}");
    assert!(stderr.contains("problem: gone:1: "), "{stderr}");
    let nobody = format!("http://{}:1/x", loopback());
    let (code, _, stderr) = registry_svc(&["pull", &nobody, shown(&pulled)]);
    assert_eq!(code, 69, "{stderr}");
    let (code, _, stderr) = registry_svc(&["export", shown(&pulled), "--root", shown(&root)]);
    assert_eq!(code, 69, "{stderr}");
    assert!(stderr.contains("runs"), "{stderr}");
}

#[test]
fn an_import_that_was_killed_goes_on() {
    let scratch = Scratch::new("registry-killed");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 40_000_000);
    let registry = closed();
    let root = registry.root();
    let import = || -> Command {
        let mut command = Command::new(binary("registry-svc"));
        command.args([
            "import",
            shown(&layout),
            "--as",
            "a:1",
            "--root",
            shown(&root),
        ]);
        command
    };
    let mut killed = import().spawn().unwrap();
    wait::until("something of it is there", PATIENCE, || {
        let uploads = std::fs::read_dir(root.join("uploads"))
            .into_iter()
            .flatten();
        let is_over = killed.try_wait().unwrap().is_some();
        (uploads.count() > 0 || is_over).then_some(())
    });
    drop(killed.kill());
    killed.wait().unwrap();
    let (status, stdout, stderr) = run(import());
    assert!(status.success(), "{stdout}{stderr}");
    let registry = Serving::start(registry);
    assert_eq!(manifest(&registry.image("a:1")), pushed);
    copy(
        &registry.image("a:1"),
        &format!("dir:{}", shown(&scratch.join("back"))),
    );
}

#[test]
fn an_upstream_is_mirrored_and_may_go_away() {
    let scratch = Scratch::new("registry-mirror");
    let layout = scratch.join("layout");
    let pushed = make_image(&layout, 2_000_000);
    let (daemon, address) = docker_registry(&scratch, &scratch.join("data"));
    let of_layout = format!("oci:{}:1.0", shown(&layout));
    copy(&of_layout, &format!("docker://{address}/library/image:1"));
    let mirror = format!(
        "{OPEN}[[mirror]]\nupstream = \"http://{address}\"\nprefix = \"up\"\n\
         namespace = \"docker.example.org\"\nttl = \"1s\"\n"
    );
    let registry = Serving::start(Registry::with(&mirror));
    let image = registry.image("up/library/image:1");
    assert_eq!(manifest(&image), pushed);
    copy(&image, &format!("dir:{}", shown(&scratch.join("first"))));
    let by_namespace = registry.url("v2/library/image/manifests/1?ns=docker.example.org");
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-i", &by_namespace]);
    let (_, answer, _) = run(curl);
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("oci-namespace: docker.example.org"),
        "{answer}"
    );
    wait::until("the image is kept", PATIENCE, || {
        let mut curl = Command::new("curl");
        curl.args(["-sS", &registry.url("v2/up/library/image/tags/list")]);
        let (_, answer, _) = run(curl);
        answer.contains("\"1\"").then_some(())
    });
    daemon.kill();
    // Beyond the time that a tag is taken for current.
    wait::until("the registry says that it is stale", PATIENCE, || {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-i",
            &registry.url("v2/up/library/image/manifests/1"),
        ]);
        let (_, answer, _) = run(curl);
        answer
            .to_ascii_lowercase()
            .contains("warning: 110")
            .then_some(())
    });
    copy(&image, &format!("dir:{}", shown(&scratch.join("second"))));
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST"]);
    curl.arg(registry.url("v2/up/library/image/blobs/uploads/"));
    let (_, code, _) = run(curl);
    assert_eq!(code, "405");
}

#[test]
fn what_is_no_archive_is_refused() {
    let scratch = Scratch::new("registry-refused");
    let notes: PathBuf = scratch.write("notes.txt", "nothing");
    let empty = scratch.join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    for path in [&notes, &empty] {
        let (code, _, stderr) = registry_svc(&["import", shown(path), "--list"]);
        assert_eq!(code, 65, "{}: {stderr}", path.display());
    }
    let (code, _, _) = registry_svc(&["import", shown(&scratch.join("gone")), "--list"]);
    assert_eq!(code, 64);
}
