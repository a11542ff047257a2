//! The program itself, killed at random moments while clients push, tag and delete: what it had
//! acknowledged is there and whole afterwards.
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

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use registry_svc::digest::{Algorithm, Digest};

/// Times it is killed, unless asked for more.
const ROUNDS: u64 = 24;

/// Clients at once; each has a repository of its own.
const CLIENTS: u64 = 4;

/// How long a registry lives at most: clients whose connections were closed make no more.
const BURST: Duration = Duration::from_secs(2);

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_killed_registry_has_everything_it_acknowledged() {
    let number = |key| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let rounds: u64 = number("CRASH_ROUNDS").unwrap_or(ROUNDS);
    let mut chance = Chance(number("CRASH_SEED").unwrap_or(17));
    let mut registry = Registry::new();
    let mut clients: Vec<Pusher> = (0..CLIENTS)
        .map(|number| Pusher::new(number, chance.next()))
        .collect();
    let n_acknowledged = AtomicU64::new(0);
    for round in 0..rounds {
        registry.start();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for client in &mut clients {
                let (is_over, n_acknowledged) = (&is_over, &n_acknowledged);
                let address = registry.address;
                scope.spawn(move || client.work(address, is_over, n_acknowledged));
            }
            // So many acknowledgements, on a machine of any speed, and then somewhere in the next.
            let before = n_acknowledged.load(Ordering::Relaxed);
            let wanted = before + chance.below(80);
            let begun = now();
            while n_acknowledged.load(Ordering::Relaxed) < wanted && begun.elapsed() < BURST {
                thread::sleep(Duration::from_micros(100));
            }
            thread::sleep(Duration::from_micros(chance.below(3000)));
            registry.kill();
            is_over.store(true, Ordering::Relaxed);
        });
        // What a kill left is looked at by the next process, which also makes its index anew.
        registry.start();
        for client in &mut clients {
            client.verify(registry.address, round);
        }
        if chance.below(4) == 0 {
            registry.stop();
        } else {
            registry.kill();
        }
    }
    let n_acknowledged = n_acknowledged.into_inner();
    assert!(n_acknowledged >= 10 * rounds, "{n_acknowledged}");
}

//--- Clients

/// One client and what it was told.
struct Pusher {
    repository: String,
    chance: Chance,
    content: BTreeMap<Digest, Vec<u8>>,
    /// Each blob, and whether it may be there: several when its push was not answered.
    blobs: BTreeMap<Digest, Vec<bool>>,
    tags: BTreeMap<String, Vec<Option<Digest>>>,
}

impl Pusher {
    fn new(number: u64, seed: u64) -> Self {
        Self {
            repository: format!("crash/r{number}"),
            chance: Chance(seed),
            content: BTreeMap::new(),
            blobs: BTreeMap::new(),
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
                5..9 => self.tag(&mut connection),
                _ => self.delete(&mut connection),
            };
            match step {
                Ok(()) => n_acknowledged.fetch_add(1, Ordering::Relaxed),
                Err(_) => return,
            };
        }
    }

    fn push(&mut self, connection: &mut Connection) -> io::Result<()> {
        let length = self.chance.below(60_000) + 1;
        let seed = self.chance.next().to_le_bytes();
        let length = usize::try_from(length).unwrap();
        let octets: Vec<u8> = seed.into_iter().cycle().take(length).collect();
        let digest = Digest::of(Algorithm::Sha256, &octets);
        self.content.insert(digest, octets.clone());
        // Until it is answered both are right.
        self.blobs.insert(digest, vec![false, true]);
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
        self.blobs.insert(digest, vec![true]);
        Ok(())
    }

    fn tag(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sure = self.blobs.iter().filter(|(_, values)| **values == [true]);
        let layers: Vec<String> = sure
            .take(3)
            .map(|(digest, _)| {
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
        let values = self.tags.entry(tag.clone()).or_insert_with(|| vec![None]);
        values.push(Some(digest));
        let path = format!("/v2/{}/manifests/{tag}", self.repository);
        connection.expect("PUT", &path, MANIFEST, text.as_bytes(), 201)?;
        self.tags.insert(tag, vec![Some(digest)]);
        Ok(())
    }

    fn delete(&mut self, connection: &mut Connection) -> io::Result<()> {
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

    /// Compares what is there with what may be; from then on that is what is.
    fn verify(&mut self, address: SocketAddr, round: u64) {
        let mut connection = Connection::open(address).unwrap();
        let repository = &self.repository;
        for (digest, values) in &mut self.blobs {
            let path = format!("/v2/{repository}/blobs/{digest}");
            let found = connection.ask("GET", &path, "", b"").unwrap();
            let is_there = found.status == 200;
            assert!(
                values.contains(&is_there),
                "round {round}: {path}: {}",
                found.status
            );
            assert!(
                !is_there || found.body == self.content[digest],
                "round {round}: {path}"
            );
            *values = vec![is_there];
        }
        for (tag, values) in &mut self.tags {
            let path = format!("/v2/{repository}/manifests/{tag}");
            let found = connection.ask("GET", &path, "", b"").unwrap();
            let target = (found.status == 200).then(|| Digest::of(Algorithm::Sha256, &found.body));
            assert!(
                values.contains(&target),
                "round {round}: {path} is {target:?}, may be {values:?}"
            );
            *values = vec![target];
        }
        // What is whole stays so; a few are looked at again each time.
        while self.blobs.len() > 60 {
            self.blobs.pop_first();
        }
    }
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

/// A registry with a directory of its own, which goes with it.
struct Registry {
    directory: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Registry {
    fn new() -> Self {
        let name = format!("registry-crash-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        // A port that was free a moment ago, the same for every process that follows.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!(
            "version = \"v1\"\nlisten = [\"{address}\"]\nplain = true\nroot = \"{}\"\n\
             workers = 2\n[admin]\nlisten = \"none\"\n[space]\nfree = \"16MiB\"\nreserve = \"1MiB\"\nwarn = 99\nstop = 100\n",
            directory.join("root").display()
        );
        std::fs::write(directory.join("registry-svc.toml"), text).unwrap();
        Self {
            directory,
            address,
            child: None,
        }
    }

    fn start(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_registry-svc"));
        command.args(["serve", "--log-level", "error", "--config"]);
        command.arg(self.directory.join("registry-svc.toml"));
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
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

#[expect(clippy::disallowed_methods, reason = "tests wait with a limit")]
fn now() -> Instant {
    Instant::now()
}

/// Chance that comes out the same for the same seed: `SplitMix64`.
struct Chance(u64);

impl Chance {
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
