//! Asks servers for the addresses of a service: over UDP, and over TCP when the response is cut or none comes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use dns_resolve::exchange::Entropy as _;
use dns_wire::Name;
use node_hosts::answer::{Allow, Failure, Family, Judged, Outcome, Question};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::entropy::SystemEntropy;

/// Datagrams that are sent to a server.
const TRIES: usize = 2;
/// The time that a datagram has for its response.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The time that a query over TCP has, its connection too.
const TCP_PATIENCE: Duration = Duration::from_secs(3);
/// The longest datagram: a query without EDNS gets no longer response (RFC 1035 §4.2.1); a larger one is cut and foreign.
const LONGEST: usize = 1232;

/// Looks a name up at the first server that answers.
pub(super) async fn look_up(
    servers: Arc<[SocketAddr]>,
    name: Name,
    family: Family,
    allow: Allow,
) -> Outcome {
    let mut failure = Failure::Silent;
    for server in servers.iter() {
        let id = SystemEntropy::default().next().to_be_bytes();
        let [high, low, ..] = id;
        let question = Question {
            id: u16::from_be_bytes([high, low]),
            name: &name,
            family,
        };
        match ask(*server, question, allow).await {
            Outcome::Failed(found) => failure = found,
            outcome => return outcome,
        }
    }
    Outcome::Failed(failure)
}

async fn ask(server: SocketAddr, question: Question<'_>, allow: Allow) -> Outcome {
    let mut failure = Failure::Silent;
    for _ in 0..TRIES {
        match timeout(PATIENCE, ask_udp(server, question, allow)).await {
            Ok(Ok(Judged::Answer(outcome))) => return outcome,
            Ok(Ok(_)) => break,
            Ok(Err(error)) => {
                failure = of_error(&error);
                break;
            }
            Err(_) => {}
        }
    }
    match timeout(TCP_PATIENCE, ask_tcp(server, question, allow)).await {
        Ok(Ok(Judged::Answer(outcome))) => outcome,
        Ok(Ok(_)) => Outcome::Failed(Failure::Damaged),
        Ok(Err(error)) => Outcome::Failed(of_error(&error)),
        Err(_) => Outcome::Failed(failure),
    }
}

fn of_error(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Failure::Silent,
        _ => Failure::Unreachable,
    }
}

/// Sends a query from a port of its own, and waits for its response.
async fn ask_udp(server: SocketAddr, question: Question<'_>, allow: Allow) -> io::Result<Judged> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question.query()).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match question.judge(buffer.get(..length).unwrap_or_default(), allow) {
            Judged::Foreign => {}
            judged => return Ok(judged),
        }
    }
}

async fn ask_tcp(server: SocketAddr, question: Question<'_>, allow: Allow) -> io::Result<Judged> {
    let mut stream = TcpStream::connect(server).await?;
    let query = question.query();
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), query.as_slice()].concat())
        .await?;
    let length = stream.read_u16().await?;
    let mut response = vec![0; usize::from(length)];
    stream.read_exact(&mut response).await?;
    Ok(question.judge(&response, allow))
}
