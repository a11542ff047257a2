//! Runs one probe of one target, whatever its kind, within its timeout.
//!
//! Each kind has a file of its own; here is what they share: the timeout, the local address, the
//! words for what went wrong. Every probe opens a fresh socket and closes it, so what is measured is
//! what a new client would find.
//!
//! Never decides what a result means for a target; [`liveness`] does.

mod dns;
mod grpc;
mod http;
mod ntp;
mod tcp;
mod tcp_check;
mod tls;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ::tcp_check::Conversation;
use daemon::clock;
use daemon::config::HumanDuration;
use health::{CheckStep, HttpProbe, Target, TargetKind, Verify};
use liveness::table::Finding;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use tls::Configs;

/// Runs probes, and keeps what they share.
#[derive(Debug, Default)]
pub struct Prober {
    tls: Configs,
}

/// The observation of a good probe, or the reason of a bad one.
type Outcome = Result<String, String>;

/// Refuses an HTTP target that can never be probed, and says why.
///
/// # Errors
/// When it cannot.
pub fn check_http(probe: &HttpProbe, address: SocketAddr, is_tls: bool) -> Result<(), String> {
    http::request(probe, address)?;
    if is_tls {
        tls::server_name(&probe.host, address)?;
    }
    Ok(())
}

/// Steps of a conversation, if they can be had.
///
/// # Errors
/// When they cannot.
pub fn check_steps(steps: Vec<CheckStep>) -> Result<Vec<CheckStep>, String> {
    Conversation::new(&steps).map(|_| steps)
}

/// Reads the file that a target has its authorities from, if it has one.
///
/// # Errors
/// When it cannot be read, or has none.
pub fn check_authorities(target: &Target) -> Result<(), String> {
    match &target.kind {
        TargetKind::Https(HttpProbe {
            verify: Verify::Ca(file),
            ..
        }) => tls::authorities(Some(Path::new(file))).map(drop),
        _ => Ok(()),
    }
}

impl Prober {
    /// A prober that has read no certificates yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Probes a target once.
    pub async fn probe(&self, target: &Target, timeout: Duration) -> Finding {
        let started = clock::now();
        let outcome = tokio::time::timeout(timeout, self.attempt(target)).await;
        let latency = started.elapsed();
        let outcome =
            outcome.unwrap_or_else(|_| Err(format!("no answer within {}", HumanDuration(timeout))));
        let good = outcome.is_ok();
        let reason = outcome.unwrap_or_else(|reason| reason);
        Finding {
            good,
            reason: shorten(reason),
            latency,
        }
    }

    async fn attempt(&self, target: &Target) -> Outcome {
        let (address, source) = (target.address, target.source);
        match &target.kind {
            TargetKind::Tcp => tcp::probe(address, source).await,
            TargetKind::TcpCheck(steps) => {
                let stream = connect(address, source).await?;
                tcp_check::probe(stream, steps).await
            }
            TargetKind::Http(request) => {
                let stream = connect(address, source).await?;
                http::probe(stream, request, address).await
            }
            TargetKind::Https(request) => {
                let config = self.tls.client(&request.verify)?;
                let stream = connect(address, source).await?;
                let stream = tls::connect(config, stream, &request.host, address).await?;
                http::probe(stream, request, address).await
            }
            TargetKind::Grpc { service } => grpc::probe(address, source, service).await,
            TargetKind::Dns(query) => dns::probe(address, source, query).await,
            TargetKind::Ntp => ntp::probe(address, source).await,
        }
    }
}

//--- Sockets

async fn connect(address: SocketAddr, source: Option<IpAddr>) -> Result<TcpStream, String> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(|error| words(&error))?;
    if let Some(source) = source {
        socket
            .bind(SocketAddr::new(source, 0))
            .map_err(|error| format!("cannot probe from {source}: {}", words(&error)))?;
    }
    socket.connect(address).await.map_err(|error| words(&error))
}

/// A UDP socket that receives from this address only.
async fn connect_udp(address: SocketAddr, source: Option<IpAddr>) -> Result<UdpSocket, String> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let local = source.unwrap_or(any);
    let socket = UdpSocket::bind(SocketAddr::new(local, 0)).await;
    let socket = socket.map_err(|error| format!("cannot probe from {local}: {}", words(&error)))?;
    let connected = socket.connect(address).await;
    connected.map_err(|error| words(&error))?;
    Ok(socket)
}

//--- Words

/// The error, as people say it.
fn words(error: &io::Error) -> String {
    let known = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network unreachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::UnexpectedEof => "connection closed",
        io::ErrorKind::AddrNotAvailable => "address not available",
        _ => return error.to_string(),
    };
    known.to_owned()
}

/// The last cause of an error says what happened; those above it say what was being done.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) => words(error),
        None => cause.to_string(),
    }
}

/// Reasons travel to every subscriber and come partly from the target; they stay short.
const MAX_REASON: usize = 200;

fn shorten(reason: String) -> String {
    if reason.chars().all(|letter| !letter.is_control()) && reason.len() <= MAX_REASON {
        return reason;
    }
    let printable = reason.chars().map(|letter| match letter.is_control() {
        true => ' ',
        false => letter,
    });
    printable.take(MAX_REASON / 4).collect()
}

/// A number that an attacker off the path cannot guess, so that an answer cannot be forged.
fn unguessable() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests;
