//! The servers of a case: one listener each, for both proxies.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use tests::certificate::self_signed;
use tests::scratch::{Scratch, at, loopback};
use tests::stream::{Server, Silent, echo};

use super::Step;

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Says its name at once, and then sends back what it is sent.
    Greets,
    /// Says its name and the address that it sees.
    Sees,
    /// Says its name once the client has sent something; to a request by HTTP it answers with its status.
    Answers,
    /// Reads a PROXY header, and says its name and the source in the header.
    TakesProxy,
    /// Says its name once the client has sent something; to `PING` it answers as Redis does, by its status.
    Redis,
    /// Says its name and closes its side.
    Closes,
    /// Says its name, and keeps its side open when the client closes.
    Keeps,
    /// Says this line, whatever its name is, and closes: an agent.
    Says(&'static str),
    /// As `Answers`, and to a request by HTTPS too: an API server.
    Api,
    /// Connections are refused.
    Dead,
    /// Connections are neither accepted nor refused.
    Silent,
}

/// The port of every server: each has an address of its own.
pub(super) const PORT: u16 = 7400;

/// All servers of a case.
pub(super) struct Servers(BTreeMap<&'static str, Place>);

struct Place {
    kind: Kind,
    address: SocketAddr,
    status: Arc<AtomicU16>,
    running: Option<Running>,
    /// Whether its connections are accepted.
    is_up: bool,
}

enum Running {
    Server(Server),
    /// It is only kept.
    Silent(#[expect(dead_code, reason = "it listens until it is dropped")] Silent),
}

impl Servers {
    /// Starts them.
    pub(super) fn start(servers: &[(&'static str, Kind)]) -> Self {
        let mut all = BTreeMap::new();
        for (name, kind) in servers {
            let mut place = Place {
                kind: *kind,
                address: at(loopback(), PORT),
                status: Arc::new(AtomicU16::new(200)),
                running: None,
                is_up: false,
            };
            place.up(name);
            all.insert(*name, place);
        }
        Self(all)
    }

    /// The names, each with its address.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.0.iter().map(|(name, place)| (*name, place.address))
    }

    /// Does what a step says.
    pub(super) fn step(&mut self, step: Step) {
        let (Step::Down(name) | Step::Closed(name) | Step::Up(name) | Step::Status(name, _)) = step;
        let place = self.0.get_mut(name).expect("the case has the server");
        match step {
            Step::Down(_) => {
                place.running = None;
                place.is_up = false;
            }
            Step::Closed(_) => place.close(),
            Step::Up(_) if place.is_up => {}
            Step::Up(_) => place.up(name),
            Step::Status(_, status) => place.status.store(status, Ordering::Relaxed),
        }
    }
}

impl Place {
    fn close(&mut self) {
        if let Some(Running::Server(server)) = &mut self.running {
            server.close();
        }
        self.is_up = false;
    }

    fn up(&mut self, name: &str) {
        // The one before must have let go of its address.
        self.running = None;
        self.is_up = true;
        let (kind, status) = (self.kind, Arc::clone(&self.status));
        let name = name.to_owned();
        self.running = match kind {
            Kind::Dead => None,
            Kind::Silent => Some(Running::Silent(Silent::start(self.address))),
            _ => Some(Running::Server(Server::start(
                self.address,
                move |stream| drop(serve(kind, &name, &status, stream)),
            ))),
        };
    }
}

fn serve(
    kind: Kind,
    name: &str,
    status: &AtomicU16,
    mut stream: &TcpStream,
) -> std::io::Result<()> {
    match kind {
        Kind::Greets => writeln!(stream, "{name}")?,
        Kind::Sees => writeln!(stream, "{name} sees {}", stream.peer_addr()?.ip())?,
        Kind::Says(line) => {
            writeln!(stream, "{line}")?;
            return stream.shutdown(Shutdown::Write);
        }
        Kind::Api if is_handshake(stream)? => return answer_by_tls(name, status, stream),
        Kind::Answers | Kind::Api => {
            if answer(name, status, &mut &*stream)? {
                return stream.shutdown(Shutdown::Write);
            }
        }
        Kind::Redis => {
            let mut said = [0; 1024];
            loop {
                let length = stream.read(&mut said)?;
                let text = String::from_utf8_lossy(&said[..length]);
                let is_well = status.load(Ordering::Relaxed) == 200;
                match (length, text.contains("PING"), is_well) {
                    (0, ..) => return Ok(()),
                    (_, true, true) => write!(stream, "+PONG\r\n")?,
                    (_, true, false) => write!(stream, "-LOADING\r\n")?,
                    (_, false, _) => writeln!(stream, "{name}")?,
                }
            }
        }
        Kind::TakesProxy => {
            let source = header(stream)?;
            writeln!(stream, "{name} for {source}")?;
        }
        Kind::Closes => {
            writeln!(stream, "{name}")?;
            stream.shutdown(Shutdown::Write)?;
            // The client may keep its side open.
            std::thread::sleep(Duration::from_secs(30));
            return Ok(());
        }
        Kind::Keeps => {
            writeln!(stream, "{name}")?;
            std::thread::sleep(Duration::from_secs(30));
            return Ok(());
        }
        Kind::Dead | Kind::Silent => return Ok(()),
    }
    echo(stream);
    Ok(())
}

fn is_handshake(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first)?;
    Ok(length == 1 && first == [22])
}

/// Answers what comes first: a request by HTTP with the status, anything else with its name. Says which it was.
fn answer(
    name: &str,
    status: &AtomicU16,
    stream: &mut (impl Read + Write),
) -> std::io::Result<bool> {
    let mut first = [0; 1024];
    let length = stream.read(&mut first)?;
    let text = String::from_utf8_lossy(&first[..length]);
    let is_request = text.contains(" HTTP/1.");
    if is_request {
        let status = status.load(Ordering::Relaxed);
        let length = name.len() + 1;
        write!(
            stream,
            "HTTP/1.0 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{name}\n"
        )?;
    } else {
        writeln!(stream, "{name}")?;
    }
    Ok(is_request)
}

fn answer_by_tls(name: &str, status: &AtomicU16, stream: &TcpStream) -> std::io::Result<()> {
    let mut connection =
        ServerConnection::new(Arc::clone(&TLS)).expect("the configuration is whole");
    let mut plain = stream;
    let mut tls = rustls::Stream::new(&mut connection, &mut plain);
    answer(name, status, &mut tls)?;
    tls.conn.send_close_notify();
    tls.flush()
}

/// A certificate that nothing trusts, made once.
static TLS: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let files = Scratch::new("import-tls").unkept();
    let (certificate, key) = (files.join("a.pem"), files.join("a.key"));
    self_signed(&certificate, &key, "api.example");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&certificate)
        .expect("openssl wrote it")
        .collect();
    let key = PrivateKeyDer::from_pem_file(&key).expect("openssl wrote it");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(chain.expect("it is PEM"), key)
        .expect("they belong together");
    Arc::new(config)
});

/// The source that a PROXY header names, of version 1 or 2.
fn header(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let first = reader.fill_buf()?.first().copied();
    if first != Some(b'\r') {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        return Ok(match (words.next(), words.nth(1)) {
            (Some("PROXY"), Some(source)) => format!("{source} by v1"),
            _ => "nobody".to_owned(),
        });
    }
    let mut head = [0; 28];
    reader.read_exact(&mut head)?;
    let [a, b, c, d] = [16, 17, 18, 19].map(|at| head[at]);
    Ok(match head[12] & 0xf {
        1 => format!("{a}.{b}.{c}.{d} by v2"),
        _ => "itself by v2".to_owned(),
    })
}
