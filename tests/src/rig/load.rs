//! Clients of everything that a site serves, each with the patience and the second choice that such a client has.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::dns::{self, A, NXDOMAIN, Question, check, exchange_udp};
use crate::netns::Machine;
use crate::node::tls;
use crate::registry::digest_of;
use crate::stream::Pattern;
use crate::time;

use super::site::{ANSWER, API, DOMAIN, INGRESS, NODES, PIECE, Site};

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Asks the nodes' resolvers for names of the site, over UDP and TCP.
    Name,
    /// Asks them for names outside that were never asked for before.
    Outside,
    /// Asks the API for something on a new connection of TLS, through its virtual address.
    Connection,
    /// Reads a stream that does not end, through the virtual address of the ingress.
    Stream,
    /// Pulls an image that a push was acknowledged for.
    Pull,
    /// Pushes an image.
    Push,
    /// Asks for the time.
    Time,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Name,
        Self::Outside,
        Self::Connection,
        Self::Stream,
        Self::Pull,
        Self::Push,
        Self::Time,
    ];

    /// Its column in the table.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "names",
            Self::Outside => "outside",
            Self::Connection => "API",
            Self::Stream => "streams",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Time => "time",
        }
    }

    /// The time between the beginnings of two of its exchanges.
    fn pace(self) -> Duration {
        Duration::from_millis(match self {
            Self::Name => 20,
            Self::Outside => 100,
            Self::Connection => 150,
            // The pace of the server.
            Self::Stream => 0,
            Self::Pull => 300,
            Self::Push => 1000,
            Self::Time => 250,
        })
    }

    /// An exchange that took longer is late.
    fn late(self) -> Duration {
        Duration::from_millis(match self {
            Self::Name | Self::Outside | Self::Time => 500,
            Self::Connection | Self::Stream => 1000,
            Self::Pull | Self::Push => 3000,
        })
    }

    /// How long its clients try.
    fn patience(self) -> Duration {
        Duration::from_secs(match self {
            // As long as a stub resolver with `timeout:1` asks three servers twice.
            Self::Name | Self::Outside | Self::Time => 6,
            Self::Connection | Self::Stream | Self::Pull | Self::Push => 15,
        })
    }
}

/// What came of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Right,
    /// No server did what was asked; the last one said this.
    Lost(String),
    /// A server answered, and the answer is wrong.
    Wrong(String),
}

/// An exchange that is over.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) kind: Kind,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    pub(super) n_tries: u32,
    pub(super) fate: Fate,
}

impl Exchange {
    pub(super) fn is_late(&self) -> bool {
        self.ended - self.begun > self.kind.late()
    }
}

/// A try that failed.
enum Failure {
    /// The client tries another server.
    Next(String),
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Next(error.to_string())
    }
}

/// An image that a push was acknowledged for.
#[derive(Clone, Debug)]
pub(super) struct Image {
    number: u64,
    acknowledged: Instant,
    manifest: String,
}

/// The state that clients share.
struct Shared {
    stop: AtomicBool,
    done: Mutex<Vec<Exchange>>,
    images: Mutex<Vec<Image>>,
    next: AtomicU64,
    https: tls::Client,
}

/// Clients of a site, until they are dropped.
pub(super) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The streams that are read at a time.
const STREAMS: usize = 4;
/// How long a try may take.
const TRY: Duration = Duration::from_secs(1);
/// The time for a connection and one request over it.
const CONNECTION: Duration = Duration::from_secs(5);
/// How old an image is before others pull it.
const AGE: Duration = Duration::from_secs(3);

impl Clients {
    pub(super) fn start(site: &Site) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            done: Mutex::default(),
            images: Mutex::default(),
            next: AtomicU64::new(0),
            https: site.https.clone(),
        });
        let mut clients = Self {
            shared,
            threads: Vec::new(),
        };
        site.client.inside(|| {
            for kind in Kind::ALL {
                let shared = Arc::clone(&clients.shared);
                let run = move || match kind {
                    Kind::Stream => shared.read_streams(),
                    _ => shared.run(kind),
                };
                clients.threads.push(std::thread::spawn(run));
            }
        });
        clients
    }

    /// The exchanges that are over since the last call.
    pub(super) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.shared.done.lock())
    }

    /// Stops, and gives the images that pushes were acknowledged for.
    pub(super) fn stop(mut self) -> Images {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("clients do not panic");
        }
        let images = self.shared.images.lock().clone();
        let https = self.shared.https.clone();
        Images { images, https }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Shared {
    /// Begins an exchange whenever one is due, whether or not those before have ended.
    fn run(self: Arc<Self>, kind: Kind) {
        let mut due = Instant::now();
        let mut running: Vec<JoinHandle<()>> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            running.retain(|thread| !thread.is_finished());
            let shared = Arc::clone(&self);
            running.push(std::thread::spawn(move || shared.exchange(kind)));
            due = (due + kind.pace()).max(Instant::now() - kind.pace());
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        for thread in running {
            thread.join().expect("exchanges do not panic");
        }
    }

    fn exchange(&self, kind: Kind) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let image = match kind {
            Kind::Pull => match self.old_image(number) {
                Some(image) => Some(image),
                None => return,
            },
            _ => None,
        };
        let begun = Instant::now();
        let mut n_tries = 0;
        let fate = loop {
            // Clients begin with the node that is theirs.
            let node = NODES[(number + u64::from(n_tries)) as usize % NODES.len()].1;
            n_tries += 1;
            let tried = match kind {
                Kind::Name => ask_name(node, number),
                Kind::Outside => ask_outside(node, number),
                Kind::Connection => self.ask_api(),
                Kind::Pull => image
                    .as_ref()
                    .map_or(Ok(()), |image| pull(&self.https, node, image)),
                Kind::Push => self.push(node, number),
                Kind::Time => ask_time(node),
                Kind::Stream => Ok(()),
            };
            match tried {
                Ok(()) => break Fate::Right,
                Err(Failure::Wrong(what)) => break Fate::Wrong(what),
                Err(Failure::Next(what)) if begun.elapsed() >= kind.patience() => {
                    break Fate::Lost(what);
                }
                // A refusal comes at once: no client tries again without a pause.
                Err(Failure::Next(_)) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        self.done.lock().push(Exchange {
            kind,
            begun,
            ended: Instant::now(),
            n_tries,
            fate,
        });
    }

    //--- API

    fn ask_api(&self) -> Result<(), Failure> {
        let stream = connect(SocketAddr::new(API, 6443), CONNECTION)?;
        match self.https.get(stream, "master-0", "/readyz")? {
            200 => Ok(()),
            status => Err(Failure::Wrong(format!("status {status}"))),
        }
    }

    //--- Streams

    fn read_streams(self: Arc<Self>) {
        let threads = (0..STREAMS).map(|_| {
            let shared = Arc::clone(&self);
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    if let Ok(stream) = connect(SocketAddr::new(INGRESS, 443), CONNECTION) {
                        shared.read_stream(&stream);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().expect("clients do not panic");
        }
    }

    /// Each piece is an exchange, and so is the end of a stream that broke after its first piece.
    fn read_stream(&self, mut stream: &TcpStream) {
        use std::io::Read as _;
        let mut seed = [0; 8];
        if stream.read_exact(&mut seed).is_err() {
            return;
        }
        let mut pattern = Pattern::new(u64::from_be_bytes(seed));
        drop(stream.set_read_timeout(Some(Kind::Stream.patience())));
        let mut piece = vec![0; PIECE];
        while !self.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let fate = match stream.read_exact(&mut piece) {
                Ok(()) => match pattern.check(&piece) {
                    Ok(()) => Fate::Right,
                    Err(what) => Fate::Wrong(what),
                },
                Err(error) => Fate::Lost(error.to_string()),
            };
            let is_over = fate != Fate::Right;
            self.done.lock().push(Exchange {
                kind: Kind::Stream,
                begun,
                ended: Instant::now(),
                n_tries: 1,
                fate,
            });
            if is_over {
                return;
            }
        }
    }

    //--- Images

    /// An image that every node should have by now.
    fn old_image(&self, number: u64) -> Option<Image> {
        let images = self.images.lock();
        let n_old = images.partition_point(|image| image.acknowledged.elapsed() > AGE);
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let chosen = spread.checked_rem(n_old as u64)?;
        images.get(chosen as usize).cloned()
    }

    fn push(&self, node: Ipv4Addr, number: u64) -> Result<(), Failure> {
        let manifest = push(&self.https, node, number, &layer(number))?;
        self.images.lock().push(Image {
            number,
            acknowledged: Instant::now(),
            manifest,
        });
        Ok(())
    }
}

/// Pushes an image of one layer, and gives its manifest.
fn push(https: &tls::Client, node: Ipv4Addr, number: u64, layer: &[u8]) -> Result<String, Failure> {
    let expect = |request: &str, body: &[u8]| match exchange(https, node, request, body)? {
        (201, ..) => Ok(()),
        (found, _, answer) => {
            let answer = String::from_utf8_lossy(&answer);
            Err(Failure::Next(format!("{request}: {found} {answer}")))
        }
    };
    let config = b"{}";
    for blob in [layer, config] {
        let digest = digest_of(blob);
        let request = format!("POST {}/blobs/uploads/?digest={digest}", repository(number));
        expect(&request, blob)?;
    }
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{},"layers":[{}]}}"#,
        describe("application/vnd.oci.image.config.v1+json", config),
        describe("application/vnd.oci.image.layer.v1.tar", layer),
    );
    let request = format!("PUT {}/manifests/n{number}", repository(number));
    expect(&request, manifest.as_bytes())?;
    Ok(manifest)
}

/// Pushes an image with a large layer, whatever it takes.
pub(super) fn push_large(https: &tls::Client, node: Ipv4Addr, number: u64) -> Result<(), String> {
    const SIZE: usize = 40 << 20;
    let mut large = vec![0; SIZE];
    large[..8].copy_from_slice(&number.to_be_bytes());
    match push(https, node, number, &large) {
        Ok(_) => Ok(()),
        Err(Failure::Next(why) | Failure::Wrong(why)) => Err(format!("a large push: {why}")),
    }
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The content of the layer of an image.
fn layer(number: u64) -> Vec<u8> {
    let mut layer = vec![0; 4096];
    Pattern::new(number).fill(&mut layer);
    layer
}

fn describe(kind: &str, blob: &[u8]) -> String {
    let (digest, size) = (digest_of(blob), blob.len());
    format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
}

fn repository(number: u64) -> String {
    format!("/v2/load/r{}", number % 4)
}

fn exchange(
    https: &tls::Client,
    node: Ipv4Addr,
    request: &str,
    body: &[u8],
) -> io::Result<(u16, String, Vec<u8>)> {
    let stream = connect((node, 5443).into(), CONNECTION)?;
    let headers = match request.starts_with("PUT") {
        true => format!("Content-Type: {MANIFEST}\r\n"),
        false => String::new(),
    };
    https.exchange(
        stream,
        &format!("registry.{DOMAIN}"),
        request,
        &headers,
        body,
    )
}

fn pull(https: &tls::Client, node: Ipv4Addr, image: &Image) -> Result<(), Failure> {
    let repository = repository(image.number);
    let get = |path: String| -> Result<Vec<u8>, Failure> {
        match exchange(https, node, &format!("GET {repository}/{path}"), b"")? {
            (200, _, body) => Ok(body),
            (status, ..) => Err(Failure::Next(format!("{path} at {node}: {status}"))),
        }
    };
    let manifest = get(format!("manifests/n{}", image.number))?;
    if manifest != image.manifest.as_bytes() {
        let found = String::from_utf8_lossy(&manifest);
        return Err(Failure::Wrong(format!(
            "another manifest at {node}: {found}"
        )));
    }
    let expected = layer(image.number);
    let found = get(format!("blobs/{}", digest_of(&expected)))?;
    match found == expected {
        true => Ok(()),
        false if found.len() < expected.len() && expected.starts_with(&found) => Err(
            Failure::Next(format!("{} octets of a layer at {node}", found.len())),
        ),
        false => Err(Failure::Wrong(format!("another layer at {node}"))),
    }
}

/// The images that pushes were acknowledged for.
pub(super) struct Images {
    images: Vec<Image>,
    https: tls::Client,
}

impl Images {
    pub(super) fn len(&self) -> usize {
        self.images.len()
    }

    /// Those that a node does not have as they were pushed.
    pub(super) fn missing(&self, client: &Machine, node: Ipv4Addr) -> Vec<String> {
        client.inside(|| {
            let pulls = self.images.iter();
            let pulls = pulls.map(|image| pull(&self.https, node, image));
            let failures = pulls.filter_map(Result::err);
            let words = failures.map(|failure| match failure {
                Failure::Next(what) | Failure::Wrong(what) => what,
            });
            words.collect()
        })
    }
}

//--- DNS and NTP

fn ask_name(node: Ipv4Addr, number: u64) -> Result<(), Failure> {
    let (name, expected): (String, Option<IpAddr>) = match number % 5 {
        0 => (format!("api.{DOMAIN}"), Some(API)),
        1 => (format!("x{number}.apps.{DOMAIN}"), Some(INGRESS)),
        2 => (format!("master-1.{DOMAIN}"), Some(NODES[1].1.into())),
        3 => (format!("registry.{DOMAIN}"), None),
        _ => (format!("none-{number}.{DOMAIN}"), None),
    };
    let question = Question::new(&name, A);
    let answer = match number % 7 {
        0 => ask_tcp(node, &question)?,
        _ => ask(node, &question)?,
    };
    let addresses = answer.addresses();
    let is_right = match (number % 5, expected) {
        (3, _) => {
            !addresses.is_empty() && NODES.iter().any(|node| addresses.contains(&node.1.into()))
        }
        (4, _) => answer.rcode == u16::from(NXDOMAIN),
        (_, expected) => addresses == expected.into_iter().collect(),
    };
    judge(is_right, &answer)
}

fn ask_outside(node: Ipv4Addr, number: u64) -> Result<(), Failure> {
    let answer = ask(node, &Question::new(&format!("u{number}.outside.test"), A))?;
    judge(answer.addresses() == [ANSWER.into()].into(), &answer)
}

fn judge(is_right: bool, answer: &dns::Message) -> Result<(), Failure> {
    match answer.rcode {
        // A stub resolver asks the next server.
        2 | 5 => Err(Failure::Next(format!("RCODE {}", answer.rcode))),
        _ if is_right => Ok(()),
        _ => Err(Failure::Wrong(format!("{answer:?}"))),
    }
}

fn ask(node: Ipv4Addr, question: &Question) -> Result<dns::Message, Failure> {
    let id = dns::next_id();
    let octets =
        exchange_udp((node, 53).into(), &question.to_wire(id), TRY).map_err(Failure::Next)?;
    check(id, question, &octets).map_err(Failure::Wrong)
}

fn ask_tcp(node: Ipv4Addr, question: &Question) -> Result<dns::Message, Failure> {
    let id = dns::next_id();
    let mut stream = connect((node, 53).into(), TRY)?;
    dns::send_tcp(&mut stream, &question.to_wire(id)).map_err(Failure::Next)?;
    let octets = dns::receive_tcp(&mut stream).map_err(Failure::Next)?;
    check(id, question, &octets).map_err(Failure::Wrong)
}

/// How far from the clock of this machine a node may be, besides what the way there and back explains.
const FAR: f64 = 0.1;

fn ask_time(node: Ipv4Addr) -> Result<(), Failure> {
    let asked = Instant::now();
    let reply = time::ask((node, 123).into())?;
    let unsure = asked.elapsed().as_secs_f64() / 2.0;
    if reply.leap() == 3 {
        return Err(Failure::Next("not synchronised".to_owned()));
    }
    match reply.offset.abs() < FAR + unsure {
        true => Ok(()),
        false => Err(Failure::Wrong(format!("{} s away", reply.offset))),
    }
}

fn connect(address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}
