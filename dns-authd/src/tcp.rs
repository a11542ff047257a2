//! DNS over TCP (RFC 7766) and over TLS (RFC 7858): pipelined queries, bounded connections, idle ones
//! closed. Connections of HTTPS are accepted here too, within the same bounds.
//!
//! A task for each connection reads the available octets, answers every whole query in them, and
//! writes the answers with one call. It reads no more until they are written, so a client that does
//! not read delays only itself. Queries that wait for first results are answered out of order
//! (RFC 7766 §7).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::connections::Place;
use dns_answer::transfer::Transfer;
use dns_answer::{Client, Transport, Verdict};
use dns_wire::{Name, Rcode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::https::{self, Site};
use crate::shared::{LAST, MAX_QUERY, POLL, Shared, now};

/// Answers written with one call, unless a single one is longer.
const WRITE_BATCH: usize = 64 * 1024;
/// How long a TLS handshake may take; it has its place among the connections from its beginning.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// After a failure to accept for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A query that waits for first results.
struct Waiting {
    message: Vec<u8>,
    deadline: Instant,
}

/// The protocol of a listener's connections.
#[derive(Clone)]
pub enum Spoken {
    /// DNS.
    Plain,
    /// DNS, after a handshake.
    Tls(TlsAcceptor),
    /// HTTP, after a handshake.
    Https(Site),
}

impl std::fmt::Debug for Spoken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain => f.write_str("Plain"),
            Self::Tls(_) => f.write_str("Tls"),
            Self::Https(site) => f.debug_tuple("Https").field(site).finish(),
        }
    }
}

/// Accepts connections until `stop` is set.
pub async fn serve(
    listener: TcpListener,
    spoken: Spoken,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(place) = shared.admit(peer.ip()) {
                    let arrival = (stream, peer, place);
                    let (spoken, shared) = (spoken.clone(), Arc::clone(&shared));
                    tokio::spawn(begin(arrival, spoken, shared, stop.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "Connection is not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Shakes hands where that is asked for, and answers; the place is given back at the end.
async fn begin(
    (stream, peer, _place): (TcpStream, SocketAddr, Place),
    spoken: Spoken,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "Connection cannot be set up");
    }
    let local = stream.local_addr().ok();
    let (acceptor, site) = match &spoken {
        Spoken::Plain => {
            let connection = Connection::new(Transport::Tcp, peer, local, shared);
            let (reader, writer) = stream.into_split();
            return connection.run(reader, writer, stop).await;
        }
        Spoken::Tls(acceptor) => (acceptor, None),
        Spoken::Https(site) => (&site.tls, Some(site)),
    };
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake has failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake takes too long");
            return;
        }
    };
    match site {
        Some(site) => https::serve(stream, peer, Arc::clone(&site.path), shared, stop).await,
        None => {
            let connection = Connection::new(Transport::Tls, peer, local, shared);
            let (reader, writer) = tokio::io::split(stream);
            connection.run(reader, writer, stop).await;
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    client: Client,
    /// Input that is not yet answered.
    input: Vec<u8>,
    /// Output that is not yet written.
    output: Vec<u8>,
    scratch: Vec<u8>,
    waiting: Vec<Waiting>,
    /// When the connection counts as idle: a client that sends less than a query does not keep it.
    deadline: Instant,
}

/// Why a connection ends.
enum End {
    /// The client is gone, is silent, or does not read.
    Closed,
    /// The client sends something that is not DNS.
    Noise,
}

impl Connection {
    fn new(
        transport: Transport,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            shared,
            client: Client {
                peer,
                local: local.map(|local| local.ip()),
                local_port: local.map_or(0, |local| local.port()),
                transport,
                can_wait: true,
                may_ask: true,
            },
            input: Vec::new(),
            output: Vec::new(),
            scratch: vec![0; dns_answer::MAX_MESSAGE],
            waiting: Vec::new(),
            deadline: now(),
        }
    }

    async fn run(
        mut self,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        mut stop: watch::Receiver<bool>,
    ) {
        let peer = self.client.peer;
        self.deadline = now() + self.shared.limits.idle;
        let mut last = None;
        let ended = loop {
            let is_full = self.waiting.len() >= self.shared.limits.pipeline;
            let deadline = last.map_or(self.deadline, |last| self.deadline.min(last));
            let read = tokio::select! {
                biased;
                read = read_some(&mut reader, &mut self.input, deadline), if !is_full => read,
                () = tokio::time::sleep(POLL), if !self.waiting.is_empty() => Ok(None),
                _ = stop.wait_for(|stop| *stop), if last.is_none() => {
                    last = Some(now() + LAST);
                    continue;
                }
            };
            let is_over = match read {
                Ok(Some(0)) => true,
                Ok(Some(_) | None) => false,
                // Its time is over, and what was asked in it is answered: nothing waits for longer than
                // queries are held.
                Err(End::Closed) if !self.waiting.is_empty() => true,
                Err(end) => break end,
            };
            if let Err(end) = self.answer(&mut writer).await {
                break end;
            }
            if is_over {
                break self.finish(&mut writer).await;
            }
            if last.is_some() && self.input.is_empty() && self.waiting.is_empty() {
                break End::Closed;
            }
        };
        if matches!(ended, End::Noise) {
            tracing::debug!(%peer, "Client does not speak DNS");
            // What came before it is answered; nothing after it is read.
            self.finish(&mut writer).await;
        }
    }

    /// Answers the waiting queries; no more are read.
    async fn finish(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> End {
        while !self.waiting.is_empty() {
            tokio::time::sleep(POLL).await;
            if let Err(end) = self.answer(writer).await {
                return end;
            }
        }
        if let Err(end) = self.flush(writer).await {
            return end;
        }
        // An error here means that the client is gone already.
        drop(writer.shutdown().await);
        End::Closed
    }

    /// Answers every whole query that was read, and those that have waited enough.
    async fn answer(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
        loop {
            self.answer_input(writer).await?;
            let n_waiting = self.waiting.len();
            self.answer_waiting(writer).await?;
            // The places of those that wait no more are for queries that were read already: nothing else
            // may come that would have these looked at.
            if self.waiting.len() == n_waiting || self.input.is_empty() {
                return self.flush(writer).await;
            }
        }
    }

    /// Answers whole queries, while there is a place for one that has to wait.
    async fn answer_input(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
        // A reload may have changed who may ask since the connection began.
        let access = self.shared.access.current();
        self.client.may_ask = access.may_ask(self.client.peer.ip());
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while self.waiting.len() < self.shared.limits.pipeline
            && let Some(message) = next_frame(input.get(at..).unwrap_or_default())?
        {
            at += 2 + message.len();
            self.answer_one(message, writer).await?;
        }
        input.drain(..at);
        self.input = input;
        if at > 0 {
            self.deadline = now() + self.shared.limits.idle;
        }
        Ok(())
    }

    async fn answer_waiting(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
        for waiting in std::mem::take(&mut self.waiting) {
            let client = Client {
                can_wait: now() < waiting.deadline,
                ..self.client
            };
            let shared = &self.shared;
            match shared.respond(&waiting.message, &client, &mut self.scratch) {
                Verdict::Reply(length) => self.push(length),
                Verdict::Wait { .. } => self.waiting.push(waiting),
                Verdict::Silent | Verdict::Transfer { .. } => {}
            }
            self.flush_batch(writer).await?;
        }
        Ok(())
    }

    async fn answer_one(
        &mut self,
        message: &[u8],
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), End> {
        let shared = Arc::clone(&self.shared);
        match shared.respond(message, &self.client, &mut self.scratch) {
            Verdict::Reply(length) => self.push(length),
            // What is no query ends the connection: there may be no frames in it at all.
            Verdict::Silent => return Err(End::Noise),
            Verdict::Wait { .. } => self.waiting.push(Waiting {
                message: message.to_vec(),
                deadline: now() + shared.hold,
            }),
            Verdict::Transfer { apex } => {
                self.flush(writer).await?;
                self.transfer(message, &apex, writer).await?;
            }
        }
        self.flush_batch(writer).await
    }

    /// Sends a whole zone, if the client may have it.
    async fn transfer(
        &mut self,
        message: &[u8],
        apex: &Name,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), End> {
        let shared = Arc::clone(&self.shared);
        let peer = self.client.peer;
        // Transfers are for TCP, or TLS with a protocol of its own (RFC 9103).
        let is_allowed = self.client.transport == Transport::Tcp
            && shared.access.current().may_transfer(peer.ip());
        let snapshot = shared.cell.current();
        let zone = snapshot
            .table
            .zone(apex)
            .and_then(|served| served.zone.clone())
            .filter(|_| is_allowed);
        let Some(zone) = zone else {
            if let Some(length) = dns_answer::refuse(message, Rcode::REFUSED, &mut self.scratch) {
                self.push(length);
            }
            return Ok(());
        };
        tracing::info!(zone = %apex, %peer, serial = zone.soa().serial, "Zone is transferred");
        let mut transfer = Transfer::new(&zone, message);
        while let Some(length) = transfer.next_message(&mut self.scratch) {
            self.push(length);
            self.flush_batch(writer).await?;
        }
        Ok(())
    }

    /// Frames the message at the start of the scratch buffer.
    fn push(&mut self, length: usize) {
        let message = self.scratch.get(..length).unwrap_or_default();
        let framed = u16::try_from(message.len()).unwrap_or(0);
        self.output.extend(framed.to_be_bytes());
        self.output.extend_from_slice(message);
    }

    /// Writes the output when it is enough for one call.
    async fn flush_batch(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
        match self.output.len() >= WRITE_BATCH {
            true => self.flush(writer).await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), End> {
        if self.output.is_empty() {
            return Ok(());
        }
        let write = async {
            writer.write_all(&self.output).await?;
            // TLS may keep back the end of what is written.
            writer.flush().await
        };
        let written = timeout(self.shared.limits.idle, write).await;
        self.output.clear();
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Closed),
        }
    }
}

/// Reads the available octets; `Some(0)` when the client has no more to send.
async fn read_some(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    deadline: Instant,
) -> Result<Option<usize>, End> {
    input.reserve(MAX_QUERY);
    match timeout_at(deadline, reader.read_buf(input)).await {
        Ok(Ok(n)) => Ok(Some(n)),
        Ok(Err(_)) | Err(_) => Err(End::Closed),
    }
}

/// The first whole message behind its length (RFC 1035 §4.2.2); `None` while it is not there.
fn next_frame(input: &[u8]) -> Result<Option<&[u8]>, End> {
    let Some((length, rest)) = input.split_first_chunk::<2>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 || length > MAX_QUERY {
        return Err(End::Noise);
    }
    Ok(rest.get(..length))
}

#[cfg(test)]
mod tests;
