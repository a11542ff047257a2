//! registry-svc on a loopback address of its own, and images to push to it.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::binaries::binary;
use crate::daemon::{Daemon, run};
use crate::scratch::{Scratch, at, loopback};

/// The address of the registry.
pub const PORT: u16 = 5443;

/// The address of its admin listener.
const ADMIN: u16 = 9405;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A registry's address, its configuration and its data; the process is started from it.
#[derive(Debug)]
pub struct Registry {
    /// The address of all its listeners.
    pub ip: Ipv4Addr,
    /// Configuration, data, certificates.
    pub files: Scratch,
}

impl Registry {
    /// One that takes everything from everybody without TLS.
    #[must_use]
    pub fn open() -> Self {
        Self::with("plain = true\n\n[access]\nanonymous = \"all\"\n")
    }

    /// One with further lines of configuration.
    #[must_use]
    pub fn with(more: &str) -> Self {
        let registry = Self {
            ip: loopback(),
            files: Scratch::new("registry"),
        };
        registry.configure(more);
        registry
    }

    /// Writes its configuration again.
    pub fn configure(&self, more: &str) {
        let mut text = String::from("version = \"v1\"\n");
        let lines = [
            format!("listen = [\"{}\"]", self.name()),
            format!("admin.listen = \"{}\"", self.admin()),
            format!("root = \"{}\"", self.root().display()),
        ];
        for line in lines {
            writeln!(text, "{line}").expect("strings take everything");
        }
        text.push_str(more);
        self.files.write("registry-svc.toml", &text);
    }

    /// Its data.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.files.join("data")
    }

    /// Address and port, as clients write them before a repository.
    #[must_use]
    pub fn name(&self) -> String {
        at(self.ip, PORT).to_string()
    }

    /// Its admin listener.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        at(self.ip, ADMIN)
    }

    /// The socket at which the one that [`start`](Self::start) starts takes changes.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.files.join("registry-svc.admin")
    }

    /// Starts it and waits until it is ready.
    #[must_use]
    pub fn start(&self) -> Daemon {
        let mut serve = self.command("serve");
        serve.arg("--admin-socket").arg(self.admin_socket());
        Daemon::start("registry-svc", serve)
    }

    /// A verb of its command line, with its configuration.
    #[must_use]
    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(binary("registry-svc"));
        command
            .arg(verb)
            .arg("--config")
            .arg(self.files.join("registry-svc.toml"));
        command
    }
}

//--- Images

/// An image in an OCI layout, of one layer for each of `contents`; gives the digest of its manifest.
///
/// # Panics
///
/// Panics if the files cannot be written.
pub fn image(layout: &Path, tag: &str, contents: &[&[u8]]) -> String {
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).expect("the layout's directory is made");
    let blob = |octets: &[u8]| -> (String, Value) {
        let name = sha256(octets);
        std::fs::write(blobs.join(&name), octets).expect("a blob is written");
        let digest = digest_of(octets);
        let value = json!({ "digest": digest, "size": octets.len() });
        (digest, value)
    };
    let describe = |media_type: &str, mut value: Value| {
        value["mediaType"] = media_type.into();
        value
    };
    let layers: Vec<_> = contents
        .iter()
        .enumerate()
        .map(|(n, content)| blob(&layer(n, content)))
        .collect();
    let diff_ids: Vec<_> = layers.iter().map(|(digest, _)| digest.clone()).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config = describe(CONFIG, blob(config.to_string().as_bytes()).1);
    let layers: Vec<_> = layers
        .into_iter()
        .map(|(_, value)| describe(LAYER, value))
        .collect();
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
    let (digest, value) = blob(manifest.to_string().as_bytes());
    let mut entry = describe(MANIFEST, value);
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    // A layout may have several images.
    let index = layout.join("index.json");
    let mut manifests = std::fs::read(&index)
        .ok()
        .and_then(|octets| serde_json::from_slice::<Value>(&octets).ok())
        .and_then(|index| index["manifests"].as_array().cloned())
        .unwrap_or_default();
    manifests.push(entry);
    let whole = json!({ "schemaVersion": 2, "manifests": manifests });
    std::fs::write(&index, whole.to_string()).expect("the index is written");
    std::fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .expect("the marker is written");
    digest
}

fn sha256(octets: &[u8]) -> String {
    digest(&SHA256, octets)
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, octet| {
            write!(text, "{octet:02x}").expect("strings take everything");
            text
        })
}

/// A tar archive of one file (POSIX ustar), the same for the same content.
fn layer(number: usize, content: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut header = [0_u8; BLOCK];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &format!("file-{number}"));
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|octet| u32::from(*octet)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

//--- Clients

/// Runs a program to its end and gives what it printed.
///
/// # Panics
///
/// Panics if it fails.
pub fn succeed(command: Command) -> String {
    let shown = format!("{command:?}");
    let (status, out, complaint) = run(command);
    assert!(status.success(), "{shown}: {status}\n{out}{complaint}");
    out
}

/// skopeo with these arguments, and no policy of this machine.
#[must_use]
pub fn skopeo(arguments: &[&str]) -> Command {
    let mut command = Command::new("skopeo");
    command.arg("--insecure-policy").args(arguments);
    command
}

/// One request on a connection of its own: status, head and body of the answer.
///
/// # Errors
///
/// Fails if no server answers, or not within ten seconds.
pub fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<(u16, String, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    // A server that refuses a body may not read it.
    drop(stream.write_all(body));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or(io::ErrorKind::InvalidData)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, head, answer.split_off(end + 4)))
}

/// `sha256:…` of some octets.
#[must_use]
pub fn digest_of(octets: &[u8]) -> String {
    format!("sha256:{}", sha256(octets))
}
