//! skopeo, podman and a client with mirrors push, pull, copy, delete and mount.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::registry::{Registry, image, skopeo, succeed};
use tests::scratch::Scratch;

/// One field of `skopeo inspect`.
pub(super) fn digest_of(reference: &str, more: &[&str]) -> String {
    let mut command = skopeo(&["inspect", "--format", "{{.Digest}}"]);
    command.args(more).arg(reference);
    succeed(command).trim().to_owned()
}

pub(super) fn copy(from: &str, to: &str, more: &[&str]) {
    let mut command = skopeo(&["copy", "-q", "--preserve-digests"]);
    command.args(more).args([from, to]);
    succeed(command);
}

const PLAIN: [&str; 2] = ["--src-tls-verify=false", "--dest-tls-verify=false"];

#[test]
fn skopeo_pushes_inspects_copies_lists_and_deletes() {
    let registry = Registry::open();
    let _serving = registry.start();
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"a layer", &[7; 100_000]]);
    let source = format!("oci:{}:1", layout.display());
    let name = registry.name();
    let at = |reference: &str| format!("docker://{name}/{reference}");

    copy(&source, &at("ocp4/release:4.16"), &PLAIN);
    assert_eq!(
        digest_of(&at("ocp4/release:4.16"), &["--tls-verify=false"]),
        digest
    );
    assert_eq!(
        digest_of(
            &at(&format!("ocp4/release@{digest}")),
            &["--tls-verify=false"]
        ),
        digest
    );

    // Within the registry blobs are mounted; back out, every octet is checked by the client.
    copy(&at("ocp4/release:4.16"), &at("other/place:tag"), &PLAIN);
    let back = registry.files.join("back");
    copy(
        &at("other/place:tag"),
        &format!("oci:{}:1", back.display()),
        &PLAIN,
    );
    let held = |layout: &Path| {
        std::fs::read_dir(layout.join("blobs/sha256"))
            .unwrap()
            .count()
    };
    assert_eq!(held(&back), held(&layout));

    let listed = succeed(skopeo(&[
        "list-tags",
        "--tls-verify=false",
        &at("ocp4/release"),
    ]));
    assert!(listed.contains("\"4.16\""), "{listed}");

    succeed(skopeo(&[
        "delete",
        "--tls-verify=false",
        &at("ocp4/release:4.16"),
    ]));
    let gone = skopeo(&["inspect", "--tls-verify=false", &at("ocp4/release:4.16")])
        .output()
        .unwrap();
    assert!(!gone.status.success());
    let complaint = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(complaint.contains("manifest unknown"), "{complaint}");
    assert_eq!(
        digest_of(&at("other/place:tag"), &["--tls-verify=false"]),
        digest
    );
}

#[test]
fn what_was_pushed_is_there_after_a_restart() {
    let registry = Registry::open();
    let layout = registry.files.join("layout");
    let at = format!("docker://{}/a/b:1", registry.name());
    let serving = registry.start();
    let digest = image(&layout, "1", &[b"kept"]);
    copy(&format!("oci:{}:1", layout.display()), &at, &PLAIN);
    serving.kill();
    let serving = registry.start();
    assert_eq!(digest_of(&at, &["--tls-verify=false"]), digest);
    serving.stop();
    let _serving = registry.start();
    assert_eq!(digest_of(&at, &["--tls-verify=false"]), digest);
}

//--- TLS and passwords

/// A certificate authority and a certificate for an address, made by openssl.
fn certificates(files: &Scratch, ip: &str) -> (PathBuf, PathBuf, PathBuf) {
    let path = |name: &str| files.join(name);
    let openssl = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(files.path());
        succeed(command)
    };
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test authority",
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
    ]);
    openssl(&[
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=registry",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ]);
    files.write(
        "names",
        &format!("subjectAltName=IP:{ip},DNS:registry.example.org\n"),
    );
    openssl(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "server.crt",
    ]);
    (path("ca.crt"), path("server.crt"), path("server.key"))
}

/// A registry with TLS and one user, `pusher` with the password `correct horse`, and everyone may pull if so.
pub(super) fn guarded(anonymous: &str) -> (Registry, PathBuf) {
    let registry = Registry::with("");
    let (ca, certificate, key) = certificates(&registry.files, &registry.ip.to_string());
    let htpasswd = registry.files.write("htpasswd", HTPASSWD);
    registry.configure(&format!(
        "\n[tls]\ncertificates = [{{ certificate = \"{}\", key = \"{}\" }}]\n\n\
         [access]\nhtpasswd = \"{}\"\nanonymous = \"{anonymous}\"\n",
        certificate.display(),
        key.display(),
        htpasswd.display(),
    ));
    let trust = registry.files.join("trust");
    std::fs::create_dir(&trust).unwrap();
    std::fs::copy(ca, trust.join("ca.crt")).unwrap();
    (registry, trust)
}

/// `htpasswd -nbB -C 4 pusher 'correct horse'`: a low cost, since what it costs is not tested.
const HTPASSWD: &str = "pusher:$2y$04$LwUHuTUsvd5d9uzFq.bem.zln/MOYgB.LnBWjaXKp2wN6k4jzK3uu\n";

#[test]
fn with_tls_and_a_password_clients_ask_for_a_token_and_push() {
    let (registry, trust) = guarded("none");
    let _serving = registry.start();
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"secret"]);
    let source = format!("oci:{}:1", layout.display());
    let at = format!("docker://{}/secret/image:1", registry.name());
    let trust = trust.display().to_string();

    let refused = skopeo(&["copy", "-q", "--dest-cert-dir", &trust, &source, &at])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let wrong = skopeo(&[
        "copy",
        "-q",
        "--dest-cert-dir",
        &trust,
        "--dest-creds",
        "pusher:wrong",
        &source,
        &at,
    ])
    .output()
    .unwrap();
    assert!(!wrong.status.success());

    copy(
        &source,
        &at,
        &[
            "--dest-cert-dir",
            &trust,
            "--dest-creds",
            "pusher:correct horse",
        ],
    );
    assert_eq!(
        digest_of(
            &at,
            &["--cert-dir", &trust, "--creds", "pusher:correct horse"]
        ),
        digest
    );
    let stranger = skopeo(&["inspect", "--cert-dir", &trust, &at])
        .output()
        .unwrap();
    assert!(!stranger.status.success());
}

#[test]
fn everyone_may_pull_where_that_is_allowed_and_nobody_push() {
    let (registry, trust) = guarded("pull");
    let _serving = registry.start();
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"for all"]);
    let source = format!("oci:{}:1", layout.display());
    let at = format!("docker://{}/public/image:1", registry.name());
    let trust = trust.display().to_string();
    copy(
        &source,
        &at,
        &[
            "--dest-cert-dir",
            &trust,
            "--dest-creds",
            "pusher:correct horse",
        ],
    );
    assert_eq!(digest_of(&at, &["--cert-dir", &trust]), digest);
    let refused = skopeo(&["copy", "-q", "--dest-cert-dir", &trust, &source, &at])
        .output()
        .unwrap();
    assert!(!refused.status.success());
}

//--- Mirrors, as nodes are configured

#[test]
fn a_client_with_mirrors_pulls_what_the_source_no_longer_gives() {
    let registry = Registry::open();
    let _serving = registry.start();
    let layout = registry.files.join("layout");
    let digest = image(&layout, "1", &[b"mirrored"]);
    let name = registry.name();
    copy(
        &format!("oci:{}:1", layout.display()),
        &format!("docker://{name}/ocp4/openshift4:1"),
        &PLAIN,
    );

    // The first mirror is not there, and neither is the source.
    let conf = registry.files.write(
        "registries.conf",
        &format!(
            "[[registry]]\nprefix = \"quay.example.org/openshift\"\nlocation = \"127.0.0.1:9/openshift\"\ninsecure = true\n\n\
             [[registry.mirror]]\nlocation = \"127.0.0.1:9/first\"\ninsecure = true\npull-from-mirror = \"digest-only\"\n\n\
             [[registry.mirror]]\nlocation = \"{name}/ocp4/openshift4\"\ninsecure = true\npull-from-mirror = \"digest-only\"\n"
        ),
    );
    let pulled = registry.files.join("pulled");
    let mut command = skopeo(&["--registries-conf"]);
    command
        .arg(&conf)
        .args(["copy", "-q", "--preserve-digests"])
        .arg(format!("docker://quay.example.org/openshift@{digest}"))
        .arg(format!("oci:{}:1", pulled.display()));
    succeed(command);
    assert!(
        pulled
            .join("blobs/sha256")
            .join(&digest["sha256:".len()..])
            .exists()
    );
}

//--- podman

/// podman with storage of its own.
fn podman(files: &Scratch, store: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("podman");
    command
        .args([
            "--storage-driver",
            "vfs",
            "--events-backend",
            "none",
            "--cgroup-manager",
            "cgroupfs",
            "--root",
        ])
        .arg(files.join(store))
        .arg("--runroot")
        .arg(files.join(&format!("{store}-run")))
        .arg("--tmpdir")
        .arg(files.join(&format!("{store}-tmp")))
        .args(arguments)
        .env("REGISTRY_AUTH_FILE", files.join("auth.json"));
    command
}

#[test]
#[ignore = "podman's storage wants root"]
fn podman_logs_in_pushes_and_another_pulls() {
    let (registry, trust) = guarded("none");
    let _serving = registry.start();
    let files = &registry.files;
    let layout = files.join("layout");
    image(&layout, "1", &[b"from podman"]);
    let name = registry.name();
    let at = format!("{name}/team/app:1");
    files.write("auth.json", "{}");
    let trust = trust.display().to_string();

    succeed(podman(
        files,
        "one",
        &["pull", "-q", &format!("oci:{}:1", layout.display())],
    ));
    let id = succeed(podman(files, "one", &["images", "-q"]));
    succeed(podman(files, "one", &["tag", id.trim(), &at]));
    succeed(podman(
        files,
        "one",
        &[
            "login",
            "--cert-dir",
            &trust,
            "-u",
            "pusher",
            "-p",
            "correct horse",
            &name,
        ],
    ));
    succeed(podman(
        files,
        "one",
        &["push", "-q", "--cert-dir", &trust, &at],
    ));
    succeed(podman(
        files,
        "two",
        &["pull", "-q", "--cert-dir", &trust, &at],
    ));
    let pulled = succeed(podman(files, "two", &["images", "-q"]));
    assert_eq!(pulled, id);
    let found = succeed(podman(
        files,
        "two",
        &["search", "--tls-verify=false", &format!("{name}/app")],
    ));
    assert!(found.contains("team/app"), "{found}");
}

#[test]
#[ignore = "podman's storage wants root"]
fn podman_pushes_and_pulls_without_tls_and_pulls_with_tls_and_no_password() {
    let registry = Registry::open();
    let serving = registry.start();
    let files = &registry.files;
    files.write("auth.json", "{}");
    let layout = files.join("layout");
    image(&layout, "1", &[b"from podman"]);
    let source = format!("oci:{}:1", layout.display());
    let at = format!("{}/team/app:1", registry.name());
    succeed(podman(files, "one", &["pull", "-q", &source]));
    let id = succeed(podman(files, "one", &["images", "-q"]));
    succeed(podman(files, "one", &["tag", id.trim(), &at]));
    let plain = ["push", "-q", "--tls-verify=false", &at];
    succeed(podman(files, "one", &plain));
    let plain = ["pull", "-q", "--tls-verify=false", &at];
    succeed(podman(files, "two", &plain));
    assert_eq!(succeed(podman(files, "two", &["images", "-q"])), id);
    serving.stop();

    let (registry, trust) = guarded("pull");
    let _serving = registry.start();
    let files = &registry.files;
    files.write("auth.json", "{}");
    let at = format!("{}/public/app:1", registry.name());
    let trust = trust.display().to_string();
    let pushed = [
        "--dest-cert-dir",
        &trust,
        "--dest-creds",
        "pusher:correct horse",
    ];
    copy(&source, &format!("docker://{at}"), &pushed);
    succeed(podman(
        files,
        "three",
        &["pull", "-q", "--cert-dir", &trust, &at],
    ));
    assert_eq!(succeed(podman(files, "three", &["images", "-q"])), id);
}
