//! Servers with DNS names, between lb-proxy's configuration and [`server_names`], which decides: the entries, their state
//! for people, and the lookups over UDP, and over TCP when the response is cut.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::lb_proxy::{Named, Resolving};
use config::lb_proxy::{self as file, ResolvePrefer, Resolvers, ServerAddress};
use daemon::clock;
use server_names::message::{Failure, Judged, Outcome, Question};
use server_names::names::{Entry, Families, Family, Found, Names, Source};
use server_names::{Settings, State};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a start, or a reload, waits for the first answers, so that names have servers when the first connection comes.
const FIRST_ANSWERS: Duration = Duration::from_secs(1);

/// The longest datagram: a query without EDNS gets no longer response (RFC 1035 §4.2.1); a larger one is cut and foreign.
const LONGEST: usize = 1232;

/// The lookups since the start, by their results.
#[derive(Debug, Default)]
pub struct Counts {
    /// With records.
    pub found: AtomicU64,
    /// Without such a name, or without records.
    pub denied: AtomicU64,
    /// Without an answer, or with an error.
    pub failed: AtomicU64,
}

impl Counts {
    /// The counts, by the word for each result.
    #[must_use]
    pub fn by_result(&self) -> [(&'static str, u64); 3] {
        [
            ("found", &self.found),
            ("denied", &self.denied),
            ("failed", &self.failed),
        ]
        .map(|(result, count)| (result, count.load(Ordering::Relaxed)))
    }

    /// Counts a lookup.
    pub fn note(&self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Found { .. } => &self.found,
            Outcome::Denied { .. } => &self.denied,
            Outcome::Failed(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

//--- Entries

/// The times of lookups.
#[must_use]
pub fn settings(resolvers: &Resolvers) -> Settings {
    Settings {
        timeout_resolve: resolvers.timeout_resolve.get(),
        hold_valid: resolvers.hold_valid.get(),
        hold_nx: resolvers.hold_nx.0,
        hold_obsolete: resolvers.hold_obsolete.0,
    }
}

/// The entry of a server with a name; none for an address, and for a name that is too long.
#[must_use]
pub fn entry(backend: &file::Backend, server: &file::Server) -> Option<Entry> {
    let source = match &server.address {
        ServerAddress::Ip(_) => return None,
        ServerAddress::Host(name, port) => Source::Host(name.parse().ok()?, *port),
        ServerAddress::Service(name) => Source::Service(name.parse().ok()?),
    };
    let prefer = match server.resolve_prefer {
        ResolvePrefer::Ipv4 => Family::V4,
        ResolvePrefer::Ipv6 => Family::V6,
    };
    Some(Entry {
        backend: backend.name.as_str().into(),
        server: server.name.as_str().into(),
        source,
        most: usize::from(server.servers.map_or(1, config::Whole::get)),
        // A connection from a source address leads to servers of its family alone.
        families: match backend.source_address {
            Some(source) if source.is_ipv4() => Families::Only(Family::V4),
            Some(_) => Families::Only(Family::V6),
            None => Families::Prefer(prefer),
        },
    })
}

/// The name of a server that a name stands for. With several, it is that of the address on every node, so that
/// all nodes choose alike, and an operator's word is about one machine.
#[must_use]
pub fn name_of(written: &file::Server, found: &Found) -> String {
    let (name, address) = (&written.name, found.address);
    match (&written.address, written.servers) {
        (_, None) => name.clone(),
        (ServerAddress::Service(_), Some(_)) => {
            format!("{name}-{}:{}", address.ip(), address.port())
        }
        (_, Some(_)) => format!("{name}-{}", address.ip()),
    }
}

/// The names, for the status; none without any.
#[must_use]
pub fn status(names: &Names, resolvers: &Resolvers) -> Option<Resolving> {
    if names.is_empty() {
        return None;
    }
    let named = names.reports(clock::now()).into_iter().map(|report| Named {
        backend: report.entry.backend.to_string(),
        server: report.entry.server.to_string(),
        name: match &report.entry.source {
            Source::Host(name, port) => format!("{}:{port}", without_dot(&name.to_string())),
            Source::Service(name) => without_dot(&name.to_string()).to_owned(),
        },
        servers: report.servers,
        most: report.entry.most,
        state: match report.state {
            State::Asking => "asking",
            State::Found => "found",
            State::Denied { exists: false } => "no such name",
            State::Denied { exists: true } => "no addresses",
            State::Failed(_) => "failed",
        }
        .to_owned(),
        error: match report.state {
            State::Failed(failure) => Some(failure.to_string()),
            _ => None,
        },
        age_seconds: report.age.map(|age| age.as_secs_f64()),
    });
    let nameservers = resolvers.nameservers.iter();
    Some(Resolving {
        nameservers: nameservers.map(ToString::to_string).collect(),
        names: named.collect(),
    })
}

/// Says which servers names have come to stand for, and for which they do not any more, by backend, entry and address.
pub fn tell(
    before: &BTreeSet<(Arc<str>, Arc<str>, SocketAddr)>,
    after: &BTreeSet<(Arc<str>, Arc<str>, SocketAddr)>,
) {
    for (backend, server, address) in after.difference(before) {
        let (backend, server) = (&**backend, &**server);
        tracing::info!(backend, server, %address, "The name of a server has another address");
    }
    for (backend, server, address) in before.difference(after) {
        let (backend, server) = (&**backend, &**server);
        tracing::info!(backend, server, %address, "The name of a server has an address no longer");
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

//--- Lookups

/// Asks for all names of which nothing is known, and waits for the answers, but not long.
pub async fn first_answers(names: &mut Names, resolvers: &Resolvers) {
    let resolvers = Arc::new(resolvers.clone());
    let mut lookups = JoinSet::new();
    let ask_all = async {
        while !names.is_settled() {
            for question in names.due(clock::now()) {
                lookups.spawn(look_up(Arc::clone(&resolvers), question));
            }
            let Some(Ok((question, outcome))) = lookups.join_next().await else {
                return;
            };
            names.take(&question, outcome, clock::now());
        }
    };
    if timeout(FIRST_ANSWERS, ask_all).await.is_err() {
        tracing::warn!("Not every name of a server is resolved yet");
    }
    names.give_up();
}

/// Asks the resolvers one after the other until one answers.
pub async fn look_up(resolvers: Arc<Resolvers>, question: Question) -> (Question, Outcome) {
    let mut failure = Failure::Silent;
    for nameserver in &resolvers.nameservers {
        match ask(nameserver.0, &resolvers, &question).await {
            Outcome::Failed(found) => failure = found,
            outcome => return (question, outcome),
        }
    }
    (question, Outcome::Failed(failure))
}

async fn ask(nameserver: SocketAddr, resolvers: &Resolvers, question: &Question) -> Outcome {
    let patience = resolvers.timeout_retry.get();
    for _ in 0..resolvers.resolve_retries.get() {
        match timeout(patience, ask_udp(nameserver, question)).await {
            Ok(Ok(Judged::Answer(outcome))) => return outcome,
            Ok(Ok(_)) => {
                return match timeout(patience, ask_tcp(nameserver, question)).await {
                    Ok(Ok(Judged::Answer(outcome))) => outcome,
                    Ok(Ok(_)) => Outcome::Failed(Failure::Damaged),
                    Ok(Err(error)) => Outcome::Failed(of_error(&error)),
                    Err(_) => Outcome::Failed(Failure::Silent),
                };
            }
            Ok(Err(error)) => return Outcome::Failed(of_error(&error)),
            Err(_) => {}
        }
    }
    Outcome::Failed(Failure::Silent)
}

fn of_error(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Failure::Silent,
        _ => Failure::Unreachable,
    }
}

/// Sends a query from a port of its own, and waits for its response.
async fn ask_udp(nameserver: SocketAddr, question: &Question) -> io::Result<Judged> {
    let any: IpAddr = match nameserver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(nameserver).await?;
    let id = identifier();
    socket.send(&question.query(id)).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match question.judge(id, buffer.get(..length).unwrap_or_default()) {
            Judged::Foreign => {}
            judged => return Ok(judged),
        }
    }
}

async fn ask_tcp(nameserver: SocketAddr, question: &Question) -> io::Result<Judged> {
    let mut stream = TcpStream::connect(nameserver).await?;
    let id = identifier();
    let query = question.query(id);
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), query.as_slice()].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut response = vec![0; usize::from(length)];
    stream.read_exact(&mut response).await?;
    Ok(question.judge(id, &response))
}

/// The DNS servers of this machine, as `/etc/resolv.conf` has them.
#[must_use]
pub fn of_machine() -> Vec<IpAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let lines = text.lines().map(str::split_whitespace);
    let servers = lines.filter_map(|mut words| match (words.next(), words.next()) {
        (Some("nameserver"), Some(address)) => address.parse().ok(),
        _ => None,
    });
    servers.collect()
}

/// An identifier that no host can guess.
fn identifier() -> u16 {
    let mut octets = [0; 2];
    // A node that has no randomness yet has random ports from its kernel all the same.
    let _n = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::NONBLOCK);
    u16::from_ne_bytes(octets)
}

#[cfg(test)]
mod tests;
