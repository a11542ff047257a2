//! The distribution API as curl sees it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use oci::digest::{Algorithm, Digest};
use rustix::process::Signal;
use tests::daemon::Daemon;
use tests::registry::Registry;
use tests::scratch::Scratch;

/// A registry that runs.
struct Running {
    registry: Registry,
    daemon: Option<Daemon>,
}

impl Running {
    fn start() -> Self {
        let registry = Registry::open();
        let daemon = Some(registry.start());
        Self { registry, daemon }
    }

    /// Kills it as a crash would, and starts it again.
    fn crash(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
        }
        self.daemon = Some(self.registry.start());
    }

    /// Asks for a path with curl, and with `arguments` besides.
    fn curl(&self, path: &str, arguments: &[&str]) -> Reply {
        let url = format!("http://{}{path}", self.registry.name());
        curl(&url, arguments)
    }

    /// Writes a file for curl to send.
    fn file(&self, name: &str, octets: &[u8]) -> String {
        let path = self.registry.files.join(name);
        std::fs::write(&path, octets).expect("scratch file is written");
        format!("@{}", path.display())
    }
}

fn sha256(octets: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, octets)
}

/// Pushes a blob in two requests; its digest.
fn push(registry: &Running, name: &str, octets: &[u8]) -> Digest {
    let digest = sha256(octets);
    let begun = registry.curl(&format!("/v2/{name}/blobs/uploads/"), &["-X", "POST"]);
    assert_eq!(begun.status, 202, "{begun:?}");
    let location = begun.header("Location").expect("a session is somewhere");
    let body = registry.file("blob", octets);
    let put = registry.curl(
        &format!("{location}?digest={digest}"),
        &["-X", "PUT", "--data-binary", &body],
    );
    assert_eq!(put.status, 201, "{put:?}");
    digest
}

/// Pushes an image of two blobs under a tag; its manifest.
fn push_image(registry: &Running, name: &str, tag: &str) -> String {
    let (config, layer) = (push(registry, name, b"{}"), push(registry, name, b"layer"));
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{media_type}\",\
         \"config\":{{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"{config}\",\"size\":2}},\
         \"layers\":[{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"{layer}\",\"size\":5}}]}}"
    );
    let body = registry.file("manifest", manifest.as_bytes());
    let header = format!("Content-Type: {media_type}");
    let path = format!("/v2/{name}/manifests/{tag}");
    let put = registry.curl(&path, &["-X", "PUT", "-H", &header, "--data-binary", &body]);
    assert_eq!(put.status, 201, "{put:?}");
    manifest
}

#[test]
fn an_image_is_pushed_listed_pulled_and_deleted() {
    let registry = Running::start();
    let base = registry.curl("/v2/", &[]);
    assert_eq!((base.status, base.version.as_str()), (200, "1.1"));
    // Scripts look for names as other registries write them.
    assert!(
        base.head
            .contains("\nDocker-Distribution-Api-Version: registry/2.0"),
        "{base:?}"
    );
    let manifest = push_image(&registry, "ocp4/release", "4.17.3");
    let digest = sha256(manifest.as_bytes());
    for arguments in [&[][..], &["--http2-prior-knowledge"]] {
        let get = registry.curl("/v2/ocp4/release/manifests/4.17.3", arguments);
        assert_eq!((get.status, get.text()), (200, manifest.clone()));
        assert_eq!(
            get.header("Docker-Content-Digest"),
            Some(digest.to_string().as_str())
        );
        assert_eq!(get.version, if arguments.is_empty() { "1.1" } else { "2" });
    }
    let head = registry.curl("/v2/ocp4/release/manifests/4.17.3", &["--head"]);
    let length = manifest.len().to_string();
    assert_eq!(head.header("Content-Length"), Some(length.as_str()));
    let catalog = registry.curl("/v2/_catalog", &[]);
    assert_eq!(catalog.text(), "{\"repositories\":[\"ocp4/release\"]}");
    let tags = registry.curl("/v2/ocp4/release/tags/list", &[]);
    assert_eq!(
        tags.text(),
        "{\"name\":\"ocp4/release\",\"tags\":[\"4.17.3\"]}"
    );
    let layer = sha256(b"layer");
    let part = registry.curl(&format!("/v2/ocp4/release/blobs/{layer}"), &["-r", "1-3"]);
    assert_eq!((part.status, part.text().as_str()), (206, "aye"));
    let tag = format!("If-None-Match: \"{layer}\"");
    let known = registry.curl(&format!("/v2/ocp4/release/blobs/{layer}"), &["-H", &tag]);
    assert_eq!((known.status, known.body.len()), (304, 0));
}

#[test]
fn an_upload_goes_on_where_a_crash_left_it() {
    let mut registry = Running::start();
    let octets: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
    let begun = registry.curl("/v2/a/blobs/uploads/", &["-X", "POST"]);
    let location = begun
        .header("Location")
        .expect("a session is somewhere")
        .to_owned();
    let first = registry.file("first", &octets[..1_000_000]);
    let patch = [
        "-X",
        "PATCH",
        "-H",
        "Content-Range: 0-999999",
        "--data-binary",
        &first,
    ];
    let patched = registry.curl(&location, &patch);
    assert_eq!(
        (patched.status, patched.header("Range")),
        (202, Some("0-999999"))
    );
    registry.crash();
    // The bytes that a killed process had taken are there: the system has them.
    let stands = registry.curl(&location, &[]);
    assert_eq!(
        (stands.status, stands.header("Range")),
        (204, Some("0-999999"))
    );
    let wrong = registry.curl(&location, &patch);
    assert_eq!(
        (wrong.status, wrong.header("Range")),
        (416, Some("0-999999"))
    );
    let digest = sha256(&octets);
    let rest = registry.file("rest", &octets[1_000_000..]);
    let path = format!("{location}?digest={digest}");
    let range = "Content-Range: 1000000-2999999";
    let put = registry.curl(&path, &["-X", "PUT", "-H", range, "--data-binary", &rest]);
    assert_eq!(put.status, 201, "{put:?}");
    registry.crash();
    let get = registry.curl(&format!("/v2/a/blobs/{digest}"), &[]);
    assert!(get.status == 200 && get.body == octets);
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash() {
    let mut registry = Running::start();
    let manifest = push_image(&registry, "a", "v1");
    registry.crash();
    assert_eq!(registry.curl("/v2/a/manifests/v1", &[]).text(), manifest);
    let deleted = registry.curl(&format!("/v2/a/blobs/{}", sha256(b"layer")), &[]);
    assert_eq!(deleted.text(), "layer");
}

#[test]
fn refusals_are_read_by_whoever_sends_too_much() {
    let registry = Running::start();
    let large = registry.file("large", &vec![b'x'; 24 << 20]);
    let type_ = "Content-Type: application/vnd.oci.image.manifest.v1+json";
    // With and without waiting for `100 Continue`.
    for expect in ["Expect: 100-continue", "Expect:"] {
        let arguments = [
            "-X",
            "PUT",
            "-H",
            type_,
            "-H",
            expect,
            "--data-binary",
            &large,
        ];
        let reply = registry.curl("/v2/a/manifests/b", &arguments);
        assert_eq!(reply.status, 413, "{reply:?}");
        assert!(reply.text().contains("MANIFEST_INVALID"), "{reply:?}");
    }
    let reply = registry.curl("/v2/", &["-X", "POST"]);
    assert_eq!(
        (reply.status, reply.header("Allow")),
        (405, Some("GET, HEAD"))
    );
    assert_eq!(registry.curl("/metrics", &[]).status, 404);
}

#[test]
fn an_upload_that_has_begun_ends_before_the_process_does() {
    let mut registry = Running::start();
    let begun = registry.curl("/v2/a/blobs/uploads/", &["-X", "POST"]);
    let location = begun
        .header("Location")
        .expect("a session is somewhere")
        .to_owned();
    let mut stream = TcpStream::connect(registry.registry.name()).expect("it listens");
    let head = format!(
        "PATCH {location} HTTP/1.1\r\nHost: registry.example.org\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("it wants the body");
    let mut daemon = registry.daemon.take().expect("it runs");
    daemon.signal(Signal::TERM);
    daemon.wait_told("STOPPING=1");
    stream.write_all(b"0123456789").expect("it reads on");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("it answers and closes");
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert!(daemon.wait().success());
    registry.daemon = Some(registry.registry.start());
    let stands = registry.curl(&location, &[]);
    assert_eq!(stands.header("Range"), Some("0-9"));
}

//--- curl

/// The response that curl got.
#[derive(Clone, Debug)]
struct Reply {
    /// The status.
    status: u16,
    /// The version of HTTP.
    version: String,
    /// The last answer's head.
    head: String,
    /// The body.
    body: Vec<u8>,
}

impl Reply {
    /// A header, by its name as registries write it.
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value.trim()))
    }

    /// The body as text.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks `url` with curl.
fn curl(url: &str, arguments: &[&str]) -> Reply {
    let scratch = Scratch::new("curl");
    let (head, body) = (scratch.join("head"), scratch.join("body"));
    std::fs::write(&body, "").expect("scratch file is written");
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--write-out",
        ])
        .arg("%{http_code} %{http_version}")
        .arg("--dump-header")
        .arg(&head)
        .arg("--output")
        .arg(&body)
        .args(arguments)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("curl is installed");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let (status, version) = told.split_once(' ').unwrap_or_default();
    assert!(
        output.status.success(),
        "curl {arguments:?} {url}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let head = read(&head);
    let last = head.trim_end().rsplit("\r\n\r\n").next();
    Reply {
        status: status.parse().expect("curl tells a status"),
        version: version.to_owned(),
        head: last.unwrap_or_default().to_owned(),
        body: std::fs::read(&body).expect("curl wrote the body"),
    }
}

fn read(path: &Path) -> String {
    let octets = std::fs::read(path).expect("curl wrote the head");
    String::from_utf8_lossy(&octets).into_owned()
}
