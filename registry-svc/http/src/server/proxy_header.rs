//! The client of a connection: the address in the PROXY header that a load balancer sends first, before TLS, or
//! the connection's own.
//!
//! A header counts from a load balancer alone: any other client could claim any address with it.

use std::io;
use std::net::SocketAddr;

use daemon::connections::Placed;
use l4_core::proxy_protocol::{self, Header, LONGEST, Parsed};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{SECOND_LOOK, Shared};

/// The beginnings of a header, of either version, that tell it from TLS and from a request.
const BEGINNINGS: [&[u8]; 2] = [b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"];

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("it begins without a PROXY header")]
    Absent,
    #[error("its PROXY header is malformed: {0}")]
    Malformed(&'static str),
    #[error("it begins with a PROXY header, and its address is not one of `accept-proxy-from`")]
    Untrusted,
    #[error("its PROXY header took too long")]
    Late,
    #[error("it ended before its PROXY header")]
    Gone(#[source] io::Error),
}

/// The address of a connection's client, among whose connections it counts from here on; none, when the connection has to
/// be closed.
pub(super) async fn client(
    shared: &Shared,
    address: SocketAddr,
    stream: &mut Placed<TcpStream>,
) -> Option<SocketAddr> {
    let load_balancers = &shared.settings.load_balancers;
    if load_balancers.is_empty() {
        return Some(address);
    }
    let limit = shared.settings.handshake;
    let read = match load_balancers.contains(address.ip()) {
        true => {
            let header = tokio::time::timeout(limit, header(stream)).await;
            header.unwrap_or(Err(Refusal::Late))
        }
        // One that says nothing is cut off where its request is awaited.
        false => match tokio::time::timeout(limit, begins_with_header(stream.get_ref())).await {
            Ok(Ok(true)) => Err(Refusal::Untrusted),
            Ok(Ok(false)) | Err(_) => return Some(address),
            Ok(Err(_)) => return None,
        },
    };
    match read {
        Ok(header) => {
            // A connection of the load balancer's own, such as a probe, names no client.
            let Some(client) = header.source else {
                return Some(address);
            };
            if let Err(refusal) = stream.place().is_of(client.ip()) {
                let reason = refusal.name();
                tracing::debug!(%client, reason, "Connection is closed: its client gets no place");
                return None;
            }
            Some(client)
        }
        Err(refusal) => {
            shared.api.parts.metrics.proxy_header_refused();
            tracing::debug!(peer = %address, error = %refusal, "Connection is closed");
            None
        }
    }
}

/// Takes the header from the stream, and no byte more.
async fn header(stream: &mut Placed<TcpStream>) -> Result<Header, Refusal> {
    let mut bytes = vec![0; LONGEST];
    loop {
        let seen = stream.get_ref().peek(&mut bytes).await;
        let n_seen = seen.map_err(Refusal::Gone)?;
        let seen = bytes.get(..n_seen).unwrap_or_default();
        match proxy_protocol::parse(seen) {
            Parsed::Header { header, length } => {
                bytes.truncate(length);
                let read = stream.read_exact(&mut bytes).await;
                read.map_err(Refusal::Gone)?;
                return Ok(header);
            }
            Parsed::Absent => return Err(Refusal::Absent),
            Parsed::Invalid(what) => return Err(Refusal::Malformed(what)),
            Parsed::More if n_seen == 0 => {
                return Err(Refusal::Gone(io::ErrorKind::UnexpectedEof.into()));
            }
            // Peeked bytes stay readable, so only time can separate two looks.
            Parsed::More => tokio::time::sleep(SECOND_LOOK).await,
        }
    }
}

/// Whether a connection begins with a header. Waits until its first bytes decide, and leaves them.
async fn begins_with_header(stream: &TcpStream) -> io::Result<bool> {
    let mut bytes = [0; 12];
    loop {
        let n_seen = stream.peek(&mut bytes).await?;
        let seen = bytes.get(..n_seen).unwrap_or_default();
        if BEGINNINGS.iter().any(|it| seen.starts_with(it)) {
            return Ok(true);
        }
        let may_begin = |it: &&[u8]| it.starts_with(seen);
        if n_seen == 0 || !BEGINNINGS.iter().any(may_begin) {
            return Ok(false);
        }
        tokio::time::sleep(SECOND_LOOK).await;
    }
}
