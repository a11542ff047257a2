//! Three nodes from a rendered site, and the world around them: API servers and routers, a name server and a clock outside.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::bundle::{Site as Files, images, other, text, well};
use crate::daemon::run;
use crate::dns::NOERROR;
use crate::installed::Installed;
use crate::netns::{Machine, Network};
use crate::node::tls;
use crate::scratch::Scratch;
use crate::stream::{Pattern, Server};
use crate::time;
use crate::upstream::{Action, Upstream};

use super::process::Node;

/// The site file: virtual addresses, names and time from outside, and a registry that takes what clients push.
const SITE: &str = r#"version = "v1"
name = "edge"
domain = "edge.example.org"
networks = ["192.168.7.0/24"]
interface = "eth0"

[[node]]
name = "master-0"
role = "master"
address = "192.168.7.13"

[[node]]
name = "master-1"
role = "master"
address = "192.168.7.14"

[[node]]
name = "master-2"
role = "master"
address = "192.168.7.15"

[dns]
upstreams = ["192.168.7.40"]

[time]
correct-clock = false
servers = ["192.168.7.40"]

[[vip]]
name = "api"
role = "api"
address = "192.168.7.100"

[[vip]]
name = "ingress"
role = "ingress"
address = "192.168.7.101"

[[publish]]
name = "api"
role = "api"
port = 6443
proxy-port = 9445

[[publish]]
name = "ingress"
role = "ingress"
port = 443
proxy-port = 9443

[[record]]
name = "api"
address = "192.168.7.100"

[[record]]
name = "*.apps"
address = "192.168.7.101"

[registry]
open = true

[platform]
podman = "none"
"#;

/// The domain of the site.
pub(super) const DOMAIN: &str = "edge.example.org";

/// The nodes.
pub(super) const NODES: [(&str, Ipv4Addr); 3] = [
    ("master-0", Ipv4Addr::new(192, 168, 7, 13)),
    ("master-1", Ipv4Addr::new(192, 168, 7, 14)),
    ("master-2", Ipv4Addr::new(192, 168, 7, 15)),
];

/// The virtual address of the API.
pub(super) const API: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 7, 100));
/// The virtual address of the ingress.
pub(super) const INGRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 7, 101));

/// The machine with the name server and the clock outside.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 40);
/// The address that every name outside has.
pub(super) const ANSWER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The zone whose name server says nothing.
pub(super) const SILENT: &str = "silent.test";

/// Between two pieces of a stream.
const PACE: Duration = Duration::from_millis(100);
/// The octets of a piece.
pub(super) const PIECE: usize = 1024;

/// The nodes and the world around them.
pub(super) struct Site {
    pub(super) nodes: Vec<Arc<Node>>,
    /// The machine of the clients.
    pub(super) client: Machine,
    /// The machine of the attackers.
    pub(super) attacker: Machine,
    /// A client of HTTPS that trusts the site's authority.
    pub(super) https: tls::Client,
    outside: Machine,
    upstream: Option<Upstream>,
    _clock: time::Server,
    _servers: Vec<Server>,
    _network: Network,
    files: Files,
    _disks: Disks,
}

impl Site {
    /// Renders and installs the site; no service runs yet.
    pub(super) fn install() -> Self {
        let files = Files::of(SITE);
        files.make_keys();
        let bundle = files.bundle(&images("0.1.0"), "bundle");
        let mut network = Network::new();
        let mut disks = Disks::default();
        let nodes = NODES.iter().map(|(name, address)| {
            let machine = network.machine(name, &format!("{address}/24"));
            let root = Scratch::new(name);
            disks.mount(&root);
            Arc::new(Node::new(Installed::on(
                machine, root, &files, &bundle, name,
            )))
        });
        let nodes: Vec<Arc<Node>> = nodes.collect();
        let client = network.machine("client", "192.168.7.20/24");
        let attacker = network.machine("attacker", "192.168.7.30/24");
        let outside = network.machine("outside", &format!("{OUTSIDE}/24"));
        // All API servers have the name of the first: clients ask whichever lb-proxy chooses.
        let pki = files.files.join("pki/nodes");
        let (certificate, key) = (pki.join("master-0.crt"), pki.join("master-0.key"));
        let mut servers = Vec::new();
        for node in &nodes {
            node.machine().inside(|| {
                let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                servers.push(tls::api_server(any(6443), &certificate, &key));
                servers.push(Server::start(any(443), stream));
            });
        }
        let upstream = Some(start_upstream(&outside));
        let clock = time::Server::on(&outside, OUTSIDE, time::Says::default());
        Self {
            https: tls::Client::trusting(&files.files.join("pki/ca.crt")),
            nodes,
            client,
            attacker,
            outside,
            upstream,
            _clock: clock,
            _servers: servers,
            _network: network,
            files,
            _disks: disks,
        }
    }

    /// The name server outside goes away, or comes back.
    pub(super) fn set_upstream(&mut self, is_there: bool) {
        self.upstream = None;
        if is_there {
            self.upstream = Some(start_upstream(&self.outside));
        }
    }

    /// Renews every certificate, and installs the site again on each node.
    pub(super) fn renew_certificates(&self) {
        well(&["pki", "make", "--renew", &self.files.path("site.toml")]);
        let bundle = self.files.bundle(&images("0.1.0"), "bundle");
        for (node, (name, _)) in self.nodes.iter().zip(NODES) {
            node.installed.update(&bundle, name);
        }
    }

    /// The ports at which a node still shows another certificate than the one that was made for it last.
    pub(super) fn old_certificates(&self) -> Vec<String> {
        let mut old = Vec::new();
        for (name, address) in NODES {
            let made = self.files.path(&format!("pki/nodes/{name}.crt"));
            let made = other("openssl", &["x509", "-in", &made, "-noout", "-serial"]);
            // The registry for clients and between nodes, and the exchange of findings.
            for port in [5443, 5444, 5445] {
                let script = format!(
                    "openssl s_client -connect {address}:{port} </dev/null 2>/dev/null | openssl x509 -noout -serial"
                );
                let mut command = self.client.command("sh");
                command.args(["-c", &script]);
                let (_, shown, _) = run(command);
                if shown != made {
                    old.push(format!("{name}:{port} shows {shown:?}, not {made:?}"));
                }
            }
        }
        old
    }

    /// The node that has an address, if one has.
    pub(super) fn holder(&self, address: IpAddr) -> Option<usize> {
        let has = |node: &Arc<Node>| node.machine().has_address(address);
        self.nodes.iter().position(has)
    }
}

/// Answers for every name outside, but for those of the silent zone.
fn start_upstream(outside: &Machine) -> Upstream {
    outside.inside(|| {
        Upstream::start((OUTSIDE, 53).into(), |asked| {
            match asked.name().trim_end_matches('.').ends_with(SILENT) {
                true => Action::Silence,
                false => {
                    let record = (crate::dns::A, 60, ANSWER.octets().to_vec());
                    Action::Send(asked.answer(NOERROR, &[record]))
                }
            }
        })
    })
}

/// Sends a seed and its pattern, a piece at a time, until the client goes.
fn stream(mut stream: &std::net::TcpStream) {
    use std::io::Write as _;
    let seed = time::now();
    let mut pattern = Pattern::new(seed);
    let mut piece = seed.to_be_bytes().to_vec();
    while stream.write_all(&piece).is_ok() {
        piece.resize(PIECE, 0);
        pattern.fill(&mut piece);
        std::thread::sleep(PACE);
    }
}

/// The disks of the nodes, each a file system in a sparse file: the memory of what is written does not count for the writer, as it
/// would in a tmpfs.
#[derive(Default)]
struct Disks {
    mounted: Vec<PathBuf>,
}

/// The size of a disk: the registry wants some room that it does not use.
const SIZE: u64 = 8 << 30;

impl Disks {
    fn mount(&mut self, root: &Scratch) {
        let (image, path) = (root.join("disk.img"), root.join("var/lib"));
        std::fs::create_dir_all(&path).expect("the scratch directory is writable");
        let file = std::fs::File::create(&image).expect("the scratch directory is writable");
        file.set_len(SIZE).expect("a hole takes no room");
        let (image, at) = (text(&image), text(&path));
        other("mkfs.ext4", &["-q", "-m", "0", &image]);
        other("mount", &["-o", "loop", &image, &at]);
        self.mounted.push(path);
    }
}

/// A disk has no room left, or has again.
pub(super) fn fill(disk: &Path, is_full: bool) {
    let path = disk.join("filler");
    if !is_full {
        std::fs::remove_file(&path).expect("the disk was full");
        return;
    }
    let file = std::fs::File::create(&path).expect("the disk has room for a name");
    // What holds the blocks together needs some of them, so the last ones come in smaller pieces.
    let mut size = 0;
    let mut part = 1;
    while part <= 64 {
        let found = rustix::fs::statvfs(disk).expect("it is mounted");
        let free = found.f_bavail * found.f_frsize / part;
        if free < found.f_frsize {
            break;
        }
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), size, free) {
            Ok(()) => size += free,
            Err(_) => part *= 2,
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for path in &self.mounted {
            let mut command = std::process::Command::new("umount");
            drop(command.arg("--lazy").arg(path).output());
        }
    }
}
