//! A registry on a disk that is too small, really: a file system of its own, in a private mount
//! namespace.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::registry::{PORT, Registry, digest_of, exchange, succeed};
use tests::scratch::at;
use tests::wait;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

const MIB: usize = 1 << 20;

/// Longer than the registry waits between two looks at its disk, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A registry whose data are on a file system of this many bytes.
struct Small {
    registry: Registry,
    /// Keeps the mount namespace.
    holder: Child,
}

impl Small {
    fn new(octets: usize, more: &str) -> Self {
        let registry = Registry::with(more);
        std::fs::create_dir(registry.root()).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={octets} tmpfs '{}' && echo mounted && exec sleep infinity",
            registry.root().display()
        );
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(holder.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        Self { registry, holder }
    }

    /// A verb of its command line, where its data are.
    fn command(&self, verb: &str) -> Command {
        let inner = self.registry.command(verb);
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command
            .arg("--")
            .arg(inner.get_program())
            .args(inner.get_args());
        command
    }

    fn start(&self) -> Daemon {
        let mut serve = self.command("serve");
        serve
            .arg("--admin-socket")
            .arg(self.registry.admin_socket());
        Daemon::start("registry-svc", serve)
    }

    fn address(&self) -> SocketAddr {
        at(self.registry.ip, PORT)
    }

    /// Its data, seen from outside of the namespace.
    fn root(&self) -> PathBuf {
        let outside = format!("/proc/{}/root", self.holder.id());
        let inside = self.registry.root();
        Path::new(&outside).join(inside.strip_prefix("/").unwrap())
    }

    /// Octets of uploads that lie about.
    fn uploads(&self) -> u64 {
        let entries = std::fs::read_dir(self.root().join("uploads")).unwrap();
        let length = |entry: io::Result<std::fs::DirEntry>| {
            // One may go meanwhile.
            entry.unwrap().metadata().map_or(0, |metadata| {
                use std::os::unix::fs::MetadataExt as _;
                metadata.blocks() * 512
            })
        };
        entries.map(length).sum()
    }

    /// Waits until nothing of refused uploads is left but what a session is called.
    fn wait_removed(&self) {
        wait::for_it("what was refused is gone", PATIENCE, || {
            self.uploads() < 64 << 10
        });
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let (status, head, body) = exchange(self.address(), method, path, headers, body).unwrap();
        Answer { status, head, body }
    }

    fn push(&self, repository: &str, content: &[u8]) -> Answer {
        let digest = digest_of(content);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        self.ask("POST", &path, "", content)
    }

    /// Pushes an image of one layer; what the registry says of its manifest.
    fn push_image(&self, repository: &str, layer: &[u8]) -> Answer {
        assert_eq!(self.push(repository, layer).status, 201);
        let described = json!({ "mediaType": "application/octet-stream", "digest": digest_of(layer), "size": layer.len() });
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [] });
        let header = format!("Content-Type: {MANIFEST}\r\n");
        let path = format!("/v2/{repository}/manifests/1");
        self.ask("PUT", &path, &header, manifest.to_string().as_bytes())
    }

    /// Begins an upload session, as soon as what was removed a moment ago has left its room; its path.
    fn begin(&self, repository: &str) -> String {
        let path = format!("/v2/{repository}/blobs/uploads/");
        let mut session = None;
        wait::for_it("a session begins", PATIENCE, || {
            let answer = self.ask("POST", &path, "", b"");
            assert!(matches!(answer.status, 202 | 507), "{}", answer.head);
            session = answer.header("location");
            session.is_some()
        });
        session.expect("a place to go on")
    }

    /// The layer of an image comes back whole.
    fn check_pull(&self, repository: &str, layer: &[u8]) {
        let path = format!("/v2/{repository}/manifests/1");
        assert_eq!(self.ask("GET", &path, "", b"").status, 200);
        let path = format!("/v2/{repository}/blobs/{}", digest_of(layer));
        let answer = self.ask("GET", &path, "", b"");
        assert_eq!(answer.status, 200);
        assert!(answer.body == layer, "{repository} has something else");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, wanted: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted)
                .then(|| value.trim().to_owned())
        })
    }

    /// Is an error of the registry, after which it says nothing more, and which names no file.
    fn is(&self, status: u16, code: &str) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{}\n{text}", self.head);
        let body: Value = serde_json::from_slice(&self.body).expect("an error is JSON");
        assert_eq!(body["errors"][0]["code"], code, "{text}");
        assert!(
            !text.contains("uploads") && !text.contains("No space"),
            "{text}"
        );
        assert_eq!(self.header("connection").as_deref(), Some("close"));
    }
}

/// Sends a body without saying how long it is, until the server stops reading it.
fn send_chunked(address: SocketAddr, method: &str, path: &str, content: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let send = |mut stream: &TcpStream| -> io::Result<()> {
        for piece in content.chunks(MIB) {
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(piece)?;
            stream.write_all(b"\r\n")?;
        }
        stream.write_all(b"0\r\n\r\n")
    };
    // A registry without room for a body does not read it to its end.
    drop(send(&stream));
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        panic!("no answer: {read:?}");
    };
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.expect("a status"),
        body: answer.split_off(end + 4),
        head,
    }
}

/// So many octets that no other content has.
fn content(seed: u8, length: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..=250).cycle().take(length).collect();
    content[0] = seed;
    content[length / 2] = !seed;
    content
}

fn settings(space: &str, trash: &str) -> String {
    format!(
        "plain = true\n\n[access]\nanonymous = \"all\"\n\n[space]\nwarn = 99\nstop = 100\n{space}\n\
         [sweep]\ngrace = \"0s\"\ntrash = \"{trash}\"\n"
    )
}

#[test]
#[ignore = "mounts a file system of its own"]
fn below_the_watermark_pushes_are_refused_and_go_on_when_there_is_room() {
    let space = "free = \"32MiB\"\nreserve = \"0B\"\n";
    let small = Small::new(96 * MIB, &settings(space, "1h"));
    let serving = small.start();
    let (kept, waste) = (content(1, 20 * MIB), content(2, 24 * MIB));
    assert_eq!(small.push_image("kept/app", &kept).status, 201);
    assert_eq!(small.push_image("waste/app", &waste).status, 201);

    // 64 MiB may be used, and 44 are.
    let large = content(3, 30 * MIB);
    let digest = digest_of(&large);
    small.push("new/app", &large).is(507, "DENIED");
    let session = small.begin("new/app");
    small.ask("PATCH", &session, "", &large).is(507, "DENIED");
    let join = if session.contains('?') { '&' } else { '?' };
    let finish = format!("{session}{join}digest={digest}");
    small.ask("PUT", &finish, "", &large).is(507, "DENIED");
    small.wait_removed();
    let path = format!("/v2/new/app/blobs/{digest}");
    assert_eq!(small.ask("HEAD", &path, "", b"").status, 404);
    small.check_pull("kept/app", &kept);
    // A body that fits is taken.
    assert_eq!(small.push("new/app", &content(4, MIB)).status, 201);

    // A body that will fit when the trash is empty is worth another attempt, also after a restart.
    let header = format!("Accept: {MANIFEST}\r\n");
    let manifest = small.ask("GET", "/v2/waste/app/manifests/1", &header, b"");
    let path = format!("/v2/waste/app/manifests/{}", digest_of(&manifest.body));
    assert_eq!(small.ask("DELETE", &path, "", b"").status, 202);
    succeed(small.command("gc"));
    let come_again = || {
        let answer = small.push("new/app", &large);
        answer.is(429, "TOOMANYREQUESTS");
        assert_eq!(answer.header("retry-after").as_deref(), Some("5"));
    };
    come_again();
    serving.kill();
    let serving = small.start();
    succeed(small.command("gc"));
    come_again();
    small.check_pull("kept/app", &kept);
    serving.stop();

    small.registry.configure(&settings(space, "0s"));
    let serving = small.start();
    succeed(small.command("gc"));
    assert_eq!(small.push_image("new/app", &large).status, 201);
    small.check_pull("new/app", &large);
    small.check_pull("kept/app", &kept);
    serving.stop();
}

#[test]
#[ignore = "mounts a file system of its own"]
fn a_disk_without_room_refuses_what_is_written_and_serves_and_deletes_all_the_same() {
    let space = "free = \"0B\"\nreserve = \"4MiB\"\n";
    let small = Small::new(64 * MIB, &settings(space, "0s"));
    let serving = small.start();
    let kept = content(1, 20 * MIB);
    assert_eq!(small.push_image("kept/app", &kept).status, 201);
    assert_eq!(small.push_image("other/app", &content(2, MIB)).status, 201);

    // These have no length, so they end where the disk does.
    let large = content(3, 80 * MIB);
    let path = format!("/v2/new/app/blobs/uploads/?digest={}", digest_of(&large));
    send_chunked(small.address(), "POST", &path, &large).is(507, "DENIED");
    small.wait_removed();
    let session = small.begin("new/app");
    send_chunked(small.address(), "PATCH", &session, &large).is(507, "DENIED");
    small.wait_removed();
    small.check_pull("kept/app", &kept);

    // Others fill the disk; what is kept aside is given up, and then something can be deleted.
    let reserve = small.root().join("reserve");
    wait::for_it("room is kept aside", PATIENCE, || reserve.exists());
    let filler = small.root().join("filler");
    fill(&filler);
    serving.wait_log("The reserve is given up");
    assert!(!reserve.exists());
    small
        .push("new/app", &content(4, 8 * MIB))
        .is(507, "DENIED");
    small.check_pull("kept/app", &kept);
    let path = "/v2/other/app/manifests/1";
    assert_eq!(small.ask("DELETE", path, "", b"").status, 202);

    // A crash then: what is left is served, and what was deleted stays so.
    serving.kill();
    let serving = small.start();
    small.check_pull("kept/app", &kept);
    assert_eq!(small.ask("GET", path, "", b"").status, 404);
    std::fs::remove_file(&filler).unwrap();
    let new = content(5, 8 * MIB);
    assert_eq!(small.push_image("new/app", &new).status, 201);
    small.check_pull("new/app", &new);
    serving.stop();
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let piece = vec![0; 64 << 10];
    loop {
        if let Err(error) = file.write_all(&piece) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            return;
        }
    }
}
