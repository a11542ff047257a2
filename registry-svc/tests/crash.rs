//! The program itself, killed at random moments while clients push, tag and delete, while it sweeps and
//! while it follows another node: what it had acknowledged is there and whole afterwards.
//!
//! `CRASH_ROUNDS` and `CRASH_SEED` ask for more, and for others. What a loss of power does is
//! simulated inside of the crate, on a disk that forgets.

#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    clippy::indexing_slicing,
    reason = "a test fails where something is missing"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use registry_svc::digest::{Algorithm, Digest};
use tempfile::TempDir;

/// Times one is killed in each test, unless asked for more.
const ROUNDS: u64 = 16;

/// Clients at once; each has a repository of its own.
const CLIENTS: u64 = 4;

/// How long a registry lives at most: clients whose connections were closed make no more.
const BURST: Duration = Duration::from_secs(2);

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What clients push: few enough that they push the same, and that what was swept comes again.
const CONTENTS: u64 = 40;

#[test]
fn a_killed_registry_has_everything_it_acknowledged() {
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    let mut registry = Registry::new(&directory, "alone", &sweeping());
    let mut clients = clients(&mut chance);
    let mut counts = Counts::default();
    for round in 0..rounds() {
        registry.start();
        for client in &mut clients {
            client.verify(registry.address, round);
        }
        let victims = std::slice::from_mut(&mut registry);
        counts.add(&burst(victims, &mut clients, &mut chance, 0));
        if chance.below(8) == 0 {
            registry.start();
            registry.stop();
        }
    }
    registry.start();
    for client in &mut clients {
        client.verify(registry.address, rounds());
    }
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
    assert!(counts.sweeps >= rounds() / 4, "{counts:?}");
}

/// Two nodes, either of which is killed; clients of both.
#[test]
fn of_two_nodes_either_may_be_killed_and_both_have_everything_in_the_end() {
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let addresses = [free(), free()];
    let mut nodes: Vec<Registry> = (0..2)
        .map(|at| {
            Registry::new(
                &directory,
                &at.to_string(),
                &following(&directory, at, addresses),
            )
        })
        .collect();
    let mut clients = clients(&mut chance);
    let mut counts = Counts::default();
    nodes[0].start();
    nodes[1].start();
    for round in 0..rounds() {
        let at = usize::try_from(chance.below(2)).unwrap();
        counts.add(&burst(&mut nodes, &mut clients, &mut chance, at));
        nodes[at].start();
        // Each at the node that it talked to; where the two came to differ, the other follows.
        for (number, client) in clients.iter_mut().enumerate() {
            client.verify(nodes[number % 2].address, round);
            client.wait_same(nodes[(number + 1) % 2].address, round);
        }
    }
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
}

/// What the clients of one registry, or of two by turns, are told until one is killed.
fn burst(
    registries: &mut [Registry],
    clients: &mut [Pusher],
    chance: &mut Chance,
    victim: usize,
) -> Counts {
    let is_over = AtomicBool::new(false);
    let n_acknowledged = AtomicU64::new(0);
    let n_sweeps = AtomicU64::new(0);
    thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let (is_over, n_acknowledged) = (&is_over, &n_acknowledged);
            let address = registries[number % registries.len()].address;
            scope.spawn(move || client.work(address, is_over, n_acknowledged));
        }
        let (over, sweeps) = (&is_over, &n_sweeps);
        let admin = registries[victim].admin;
        scope.spawn(move || sweep(admin, over, sweeps));
        // So many acknowledgements, on a machine of any speed, and then somewhere in the next.
        let wanted = chance.below(80);
        let begun = now();
        while n_acknowledged.load(Ordering::Relaxed) < wanted && begun.elapsed() < BURST {
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(Duration::from_micros(chance.below(3000)));
        registries[victim].kill();
        is_over.store(true, Ordering::Relaxed);
    });
    Counts {
        acknowledged: n_acknowledged.into_inner(),
        sweeps: n_sweeps.into_inner(),
    }
}

/// Asks for one sweep after the other.
fn sweep(admin: SocketAddr, is_over: &AtomicBool, n_sweeps: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        let asked = Connection::open(admin)
            .and_then(|mut connection| connection.ask("POST", "/upkeep?task=sweep", "", b""));
        if asked.is_ok_and(|answer| answer.status < 300) {
            n_sweeps.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug, Default)]
struct Counts {
    acknowledged: u64,
    sweeps: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.sweeps += other.sweeps;
    }
}

fn rounds() -> u64 {
    number("CRASH_ROUNDS").unwrap_or(ROUNDS)
}

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok().and_then(|text| text.parse().ok())
}

//--- Clients

/// One client and what it was told.
struct Pusher {
    repository: String,
    chance: Chance,
    content: BTreeMap<Digest, Vec<u8>>,
    /// What was pushed and is not in a manifest yet, for a while: the sweep takes it then.
    blobs: BTreeSet<Digest>,
    /// Each manifest, what it refers to, and whether it may be there: several when it was not
    /// answered.
    manifests: BTreeMap<Digest, (Vec<Digest>, Vec<bool>)>,
    tags: BTreeMap<String, Vec<Option<Digest>>>,
}

fn clients(chance: &mut Chance) -> Vec<Pusher> {
    (0..CLIENTS)
        .map(|number| Pusher::new(number, chance.next()))
        .collect()
}

impl Pusher {
    fn new(number: u64, seed: u64) -> Self {
        Self {
            repository: format!("crash/r{number}"),
            chance: Chance(seed),
            content: BTreeMap::new(),
            blobs: BTreeSet::new(),
            manifests: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    /// Works until the connection breaks.
    fn work(&mut self, address: SocketAddr, is_over: &AtomicBool, n_acknowledged: &AtomicU64) {
        let Ok(mut connection) = Connection::open(address) else {
            return;
        };
        while !is_over.load(Ordering::Relaxed) {
            let step = match self.chance.below(10) {
                0..5 => self.push(&mut connection),
                5..8 => self.tag(&mut connection),
                8 => self.delete_tag(&mut connection),
                _ => self.delete(&mut connection),
            };
            match step {
                Ok(()) => n_acknowledged.fetch_add(1, Ordering::Relaxed),
                Err(_) => return,
            };
        }
    }

    fn push(&mut self, connection: &mut Connection) -> io::Result<()> {
        let number = self.chance.below(CONTENTS);
        let length = usize::try_from(number * number * 37 + 1).unwrap();
        let octets: Vec<u8> = number
            .to_le_bytes()
            .into_iter()
            .cycle()
            .take(length)
            .collect();
        let digest = Digest::of(Algorithm::Sha256, &octets);
        self.content.insert(digest, octets.clone());
        let uploads = format!("/v2/{}/blobs/uploads/", self.repository);
        if self.chance.below(2) == 0 {
            let path = format!("{uploads}?digest={digest}");
            connection.expect("POST", &path, "application/octet-stream", &octets, 201)?;
        } else {
            let begun = connection.expect("POST", &uploads, "", b"", 202)?;
            let (first, second) = octets.split_at(octets.len() / 2);
            let patched = connection.expect(
                "PATCH",
                &begun.location(),
                "application/octet-stream",
                first,
                202,
            )?;
            let location = patched.location();
            let mark = if location.contains('?') { '&' } else { '?' };
            let path = format!("{location}{mark}digest={digest}");
            connection.expect("PUT", &path, "application/octet-stream", second, 201)?;
        }
        self.blobs.insert(digest);
        Ok(())
    }

    fn tag(&mut self, connection: &mut Connection) -> io::Result<()> {
        let blobs: Vec<Digest> = std::mem::take(&mut self.blobs).into_iter().collect();
        let layers: Vec<String> = blobs
            .iter()
            .map(|digest| {
                let size = self.content[digest].len();
                format!("{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"{digest}\",\"size\":{size}}}")
            })
            .collect();
        let Some(config) = layers.first().cloned() else {
            return Ok(());
        };
        let text = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{config},\"layers\":[{}],\"annotations\":{{\"n\":\"{}\"}}}}",
            layers.join(","),
            self.chance.below(1000)
        );
        let digest = Digest::of(Algorithm::Sha256, text.as_bytes());
        self.content.insert(digest, text.clone().into_bytes());
        let tag = format!("t{}", self.chance.below(5));
        // Until it is answered both are right.
        let before = (
            self.manifests.get(&digest).cloned(),
            self.tags.get(&tag).cloned(),
        );
        let (_, values) = self
            .manifests
            .entry(digest)
            .or_insert_with(|| (blobs, vec![false]));
        values.push(true);
        let values = self.tags.entry(tag.clone()).or_insert_with(|| vec![None]);
        values.push(Some(digest));
        let path = format!("/v2/{}/manifests/{tag}", self.repository);
        let answer = connection.ask("PUT", &path, MANIFEST, text.as_bytes())?;
        let body = String::from_utf8_lossy(&answer.body);
        match answer.status {
            201 => {
                if let Some((_, values)) = self.manifests.get_mut(&digest) {
                    *values = vec![true];
                }
                self.tags.insert(tag, vec![Some(digest)]);
            }
            // Who takes longer than the grace begins again.
            400 | 404 if body.contains("MANIFEST_BLOB_UNKNOWN") => {
                restore(&mut self.manifests, digest, before.0);
                restore(&mut self.tags, tag, before.1);
            }
            status => panic!("{path}: {status} {body}"),
        }
        Ok(())
    }

    fn delete_tag(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sure = |(_, values): &(&String, &Vec<_>)| matches!(values[..], [Some(_)]);
        let Some((tag, _)) = self.tags.iter().find(sure) else {
            return Ok(());
        };
        let tag = tag.clone();
        self.tags.entry(tag.clone()).or_default().push(None);
        let path = format!("/v2/{}/manifests/{tag}", self.repository);
        connection.expect("DELETE", &path, "", b"", 202)?;
        self.tags.insert(tag, vec![None]);
        Ok(())
    }

    /// Deletes a manifest and with it its tags: what it alone referred to is swept.
    fn delete(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sure = |(_, (_, values)): &(&Digest, &(_, Vec<bool>))| values[..] == [true];
        let Some((digest, _)) = self.manifests.iter().find(sure) else {
            return Ok(());
        };
        let digest = *digest;
        self.set(&digest, &[true, false]);
        let pointing = |values: &&mut Vec<Option<Digest>>| values.contains(&Some(digest));
        for values in self.tags.values_mut().filter(pointing) {
            values.push(None);
        }
        let path = format!("/v2/{}/manifests/{digest}", self.repository);
        connection.expect("DELETE", &path, "", b"", 202)?;
        self.set(&digest, &[false]);
        for values in self.tags.values_mut() {
            values.retain(|value| *value != Some(digest));
        }
        Ok(())
    }

    fn set(&mut self, digest: &Digest, possible: &[bool]) {
        if let Some((_, values)) = self.manifests.get_mut(digest) {
            *values = possible.to_vec();
        }
    }

    /// Compares what is there with what may be; from then on that is what is.
    fn verify(&mut self, address: SocketAddr, round: u64) {
        let mut connection = Connection::open(address).unwrap();
        let repository = &self.repository;
        let mut whole = BTreeSet::new();
        for (digest, (blobs, values)) in &mut self.manifests {
            let path = format!("/v2/{repository}/manifests/{digest}");
            let found = connection.ask("GET", &path, "", b"").unwrap();
            let is_there = found.status == 200;
            let status = found.status;
            assert!(
                values.contains(&is_there),
                "round {round}: {path}: {status}"
            );
            *values = vec![is_there];
            if !is_there {
                continue;
            }
            assert_eq!(found.body, self.content[digest], "round {round}: {path}");
            // What is visible is whole.
            for blob in blobs.iter().filter(|blob| whole.insert(**blob)) {
                let path = format!("/v2/{repository}/blobs/{blob}");
                let found = connection.ask("GET", &path, "", b"").unwrap();
                assert_eq!(found.status, 200, "round {round}: {path} of {digest}");
                assert_eq!(found.body, self.content[blob], "round {round}: {path}");
            }
        }
        for (tag, values) in &mut self.tags {
            let path = format!("/v2/{repository}/manifests/{tag}");
            let target = connection.target(&path);
            assert!(
                values.contains(&target),
                "round {round}: {path} is {target:?}, may be {values:?}"
            );
            *values = vec![target];
        }
        self.manifests.retain(|_, (_, values)| values[..] == [true]);
    }

    /// Waits until another node shows the same.
    fn wait_same(&self, address: SocketAddr, round: u64) {
        let mut connection = Connection::open(address).unwrap();
        let begun = now();
        for (tag, values) in &self.tags {
            let path = format!("/v2/{}/manifests/{tag}", self.repository);
            while connection.target(&path) != values[0] {
                assert!(begun.elapsed() < LIMIT, "round {round}: {path} differs");
                thread::sleep(Duration::from_millis(5));
            }
        }
        for (digest, (blobs, _)) in &self.manifests {
            let path = format!("/v2/{}/manifests/{digest}", self.repository);
            assert_eq!(connection.target(&path), Some(*digest), "round {round}");
            for blob in blobs {
                let path = format!("/v2/{}/blobs/{blob}", self.repository);
                let found = connection.ask("GET", &path, "", b"").unwrap();
                assert!(found.body == self.content[blob], "round {round}: {path}");
            }
        }
    }
}

fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, before: Option<V>) {
    match before {
        Some(before) => map.insert(key, before),
        None => map.remove(&key),
    };
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A connection over which one request follows the other.
struct Connection(BufReader<TcpStream>);

struct Response {
    status: u16,
    location: Option<String>,
    body: Vec<u8>,
}

impl Response {
    /// Where the next request goes: the path, wherever it is said to be.
    fn location(&self) -> String {
        let location = self.location.clone().expect("a location");
        match location.split_once("://") {
            Some((_, rest)) => rest
                .get(rest.find('/').expect("a path")..)
                .unwrap()
                .to_owned(),
            None => location,
        }
    }
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// What a reference leads to.
    fn target(&mut self, path: &str) -> Option<Digest> {
        let found = self.ask("GET", path, "", b"").unwrap();
        (found.status == 200).then(|| Digest::of(Algorithm::Sha256, &found.body))
    }

    fn expect(
        &mut self,
        method: &str,
        path: &str,
        media_type: &str,
        body: &[u8],
        status: u16,
    ) -> io::Result<Response> {
        let response = self.ask(method, path, media_type, body)?;
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status, status, "{method} {path}: {text}");
        Ok(response)
    }

    fn ask(
        &mut self,
        method: &str,
        path: &str,
        media_type: &str,
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: registry.example.org\r\n");
        request += &format!("Content-Length: {}\r\n", body.len());
        if !media_type.is_empty() {
            request += &format!("Content-Type: {media_type}\r\n");
        }
        request += "\r\n";
        let mut octets = request.into_bytes();
        octets.extend_from_slice(body);
        self.0.get_mut().write_all(&octets)?;
        let (mut status, mut length, mut location) = (0, 0, None);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a number"),
                    "location" => location = Some(value.to_owned()),
                    _ => {}
                }
            } else {
                let word = line.split(' ').nth(1);
                status = word.and_then(|word| word.parse().ok()).expect("a status");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Response {
            status,
            location,
            body,
        })
    }
}

//--- The program

/// A port that was free a moment ago, the same for every process that follows.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Settings of one that sweeps whatever nobody asked for a moment ago.
fn sweeping() -> String {
    "[sweep]\ngrace = \"300ms\"\ntrash = \"100ms\"\n".to_owned()
}

/// Settings of one of two nodes.
fn following(directory: &TempDir, at: usize, addresses: [SocketAddr; 2]) -> String {
    let files = directory.path().display();
    let (own, other, peer) = (addresses[at], 1 - at, addresses[1 - at]);
    format!(
        "[cluster]\nnode = \"node-{at}\"\nlisten = [\"{own}\"]\n\
         peers = [{{ name = \"node-{other}\", address = \"{peer}\" }}]\n\
         ca = \"{files}/ca.pem\"\ncertificate = \"{files}/{at}.pem\"\nkey = \"{files}/{at}.key\"\n\
         compare = \"1s\"\n"
    )
}

/// An authority, and a certificate for each of two nodes.
fn certificates(directory: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    for at in 0..2 {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![format!("node-{at}")]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(directory.join(format!("{at}.pem")), certificate.pem()).unwrap();
        std::fs::write(directory.join(format!("{at}.key")), key.serialize_pem()).unwrap();
    }
}

/// A registry and its data.
struct Registry {
    config: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
    child: Option<Child>,
}

impl Registry {
    fn new(directory: &TempDir, name: &str, more: &str) -> Self {
        let (address, admin) = (free(), free());
        let text = format!(
            "version = \"v1\"\nlisten = [\"{address}\"]\nplain = true\nroot = \"{}\"\n\
             workers = 2\n[admin]\nlisten = \"{admin}\"\n[space]\nfree = \"16MiB\"\nreserve = \"1MiB\"\nwarn = 99\nstop = 100\n{more}",
            directory.path().join(format!("root-{name}")).display()
        );
        let config = directory.path().join(format!("{name}.toml"));
        std::fs::write(&config, text).unwrap();
        Self {
            config,
            address,
            admin,
            child: None,
        }
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_registry-svc"));
        command.args(["serve", "--log-level", "error", "--config"]);
        command.arg(&self.config);
        command.stdout(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let begun = now();
        while TcpStream::connect(self.address).is_err() {
            let child = self.child.as_mut().expect("it was started");
            assert_eq!(child.try_wait().unwrap(), None, "the registry ended");
            assert!(begun.elapsed() < LIMIT, "the registry does not listen");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn kill(&mut self) {
        let mut child = self.child.take().expect("it was started");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to end.
    fn stop(&mut self) {
        let mut child = self.child.take().expect("it was started");
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests wait with a limit")]
fn now() -> Instant {
    Instant::now()
}

/// Chance that comes out the same for the same seed: `SplitMix64`.
struct Chance(u64);

impl Chance {
    /// By the seed of this run.
    fn of_run() -> Self {
        Self(number("CRASH_SEED").unwrap_or(17))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
