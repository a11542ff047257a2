//! DNS over TCP (RFC 7766): pipelined queries, bounded connections, idle ones closed.
//!
//! A task for each connection reads what there is, answers every whole query in it, and writes the
//! answers with one call; it reads no more until they are written, so a client that does not read
//! holds up nobody but itself. Queries that wait for first results are answered out of order
//! (RFC 7766 §7).

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon_base::connections::{Connections, Place};
use daemon_base::snapshot::Cell;
use dns_wire::{Name, Rcode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::access::Access;
use crate::answer::{self, Client, Responder, Snapshot, Transport, Verdict};
use crate::config::TcpLimits;
use crate::encrypted::Ask;
use crate::metrics::{ThreadTotals, Totals};
use crate::programs::LuaPrograms;
use crate::random;
use crate::transfer;

/// The longest query that is read: a query with every option there is does not come near.
const MAX_QUERY: usize = 4096;
/// Answers written with one call, unless a single one is longer.
const WRITE_BATCH: usize = 64 * 1024;
/// How often a waiting query looks whether it can be answered.
const POLL: Duration = Duration::from_millis(2);
/// How long a connection is read from when the server stops: a query that was on its way is answered, and
/// not cut off with its connection.
const LAST: Duration = Duration::from_millis(500);
/// After a failure to accept for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What connections share. One thread runs them all.
#[derive(Debug)]
pub struct Shared {
    cell: Arc<Cell<Snapshot>>,
    limits: TcpLimits,
    hold: Duration,
    access: Arc<Cell<Access>>,
    connections: Arc<Connections>,
    totals: Totals,
    thread: Arc<ThreadTotals>,
    responder: Mutex<Responder<LuaPrograms>>,
}

/// A query that waits for first results.
struct Waiting {
    message: Vec<u8>,
    deadline: Instant,
}

impl Shared {
    /// What connections need.
    #[must_use]
    pub fn new(
        cell: Arc<Cell<Snapshot>>,
        limits: TcpLimits,
        hold: Duration,
        access: Arc<Cell<Access>>,
        totals: Totals,
    ) -> Arc<Self> {
        let responder = Responder::new(LuaPrograms, random::seed());
        Arc::new(Self {
            responder: Mutex::new(responder),
            cell,
            limits,
            hold,
            access,
            connections: Connections::new(limits.connections, limits.per_client),
            thread: totals.add_thread(),
            totals,
        })
    }

    /// Answers one message; for every transport that is a stream.
    pub fn respond(&self, message: &[u8], client: &Client, out: &mut [u8]) -> Verdict {
        // A responder left by a panic elsewhere holds nothing but scratch.
        let snapshot = self.cell.current();
        let mut responder = self
            .responder
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let verdict = responder.respond(&snapshot, message, client, out);
        let tally = responder.tally().take();
        drop(responder);
        self.thread.add(&tally);
        verdict
    }

    /// Answers one message, after a wait while nothing is known yet; `None` is silence.
    async fn answer(
        &self,
        message: &[u8],
        peer: SocketAddr,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let deadline = now() + self.hold;
        let mut out = vec![0; answer::MAX_MESSAGE];
        let length = loop {
            let client = Client {
                peer,
                local: None,
                local_port: 0,
                transport,
                can_wait: now() < deadline,
                may_ask: self.access.current().may_ask(peer.ip()),
            };
            match self.respond(message, &client, &mut out) {
                Verdict::Reply(length) => break length,
                Verdict::Wait { .. } => tokio::time::sleep(POLL).await,
                Verdict::Silent => return None,
                // Transfers are for TCP, or TLS with a protocol of its own (RFC 9103).
                Verdict::Transfer { .. } => {
                    break answer::refuse(message, Rcode::REFUSED, &mut out)?;
                }
            }
        };
        out.truncate(length);
        Some(out)
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }

    /// Waits until no connection is open.
    pub async fn wait_until_closed(&self) {
        while self.connections.open() > 0 {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Takes a place for a client, unless it may not ask or a bound is reached.
    fn admit(&self, client: IpAddr) -> Option<Place> {
        if !self.access.current().may_ask(client) {
            self.totals.outsiders.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.connections.admit(client)
    }
}

/// Answers for transports that carry one message at a time.
#[must_use]
pub fn ask(shared: Arc<Shared>) -> Ask {
    Arc::new(move |message, peer, transport| {
        let shared = Arc::clone(&shared);
        Box::pin(async move { shared.answer(&message, peer, transport).await })
    })
}

/// Accepts connections until `stop` is set.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(place) = shared.admit(peer.ip()) {
                    let connection = Connection::new(&stream, peer, &shared, place);
                    tokio::spawn(connection.run(stream, stop.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "Connection is not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    /// Given back when the connection ends.
    _place: Place,
    client: Client,
    /// What was read and not yet answered.
    input: Vec<u8>,
    /// What is to be written.
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
    /// The client sends what is no DNS.
    Noise,
}

impl Connection {
    fn new(stream: &TcpStream, peer: SocketAddr, shared: &Arc<Shared>, place: Place) -> Self {
        let local = stream.local_addr().ok();
        Self {
            shared: Arc::clone(shared),
            _place: place,
            client: Client {
                peer,
                local: local.map(|local| local.ip()),
                local_port: local.map_or(0, |local| local.port()),
                transport: Transport::Tcp,
                can_wait: true,
                may_ask: true,
            },
            input: Vec::new(),
            output: Vec::new(),
            scratch: vec![0; answer::MAX_MESSAGE],
            waiting: Vec::new(),
            deadline: now(),
        }
    }

    async fn run(mut self, stream: TcpStream, mut stop: watch::Receiver<bool>) {
        let peer = self.client.peer;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "Connection cannot be set up");
        }
        let (mut reader, mut writer) = stream.into_split();
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
            tracing::debug!(%peer, "Client sends what is no DNS");
        }
    }

    /// Answers what waits, after the client has said that it asks no more.
    async fn finish(&mut self, writer: &mut OwnedWriteHalf) -> End {
        while !self.waiting.is_empty() {
            tokio::time::sleep(POLL).await;
            if let Err(end) = self.answer(writer).await {
                return end;
            }
        }
        // An error here means that the client is gone already.
        drop(writer.shutdown().await);
        End::Closed
    }

    /// Answers every whole query that was read, and those that have waited enough.
    async fn answer(&mut self, writer: &mut OwnedWriteHalf) -> Result<(), End> {
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
        }
        self.flush(writer).await
    }

    async fn answer_one(&mut self, message: &[u8], writer: &mut OwnedWriteHalf) -> Result<(), End> {
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
        match self.output.len() >= WRITE_BATCH {
            true => self.flush(writer).await,
            false => Ok(()),
        }
    }

    /// Sends a whole zone, if the client may have it.
    async fn transfer(
        &mut self,
        message: &[u8],
        apex: &Name,
        writer: &mut OwnedWriteHalf,
    ) -> Result<(), End> {
        let shared = Arc::clone(&self.shared);
        let peer = self.client.peer;
        let is_allowed = shared.access.current().may_transfer(peer.ip());
        let snapshot = shared.cell.current();
        let zone = snapshot
            .table
            .zone(apex)
            .and_then(|served| served.zone.clone())
            .filter(|_| is_allowed);
        let Some(zone) = zone else {
            if let Some(length) = answer::refuse(message, Rcode::REFUSED, &mut self.scratch) {
                self.push(length);
            }
            return Ok(());
        };
        tracing::info!(zone = %apex, %peer, serial = zone.soa().serial, "Zone is transferred");
        let mut transfer = transfer::Transfer::new(&zone, message);
        while let Some(length) = transfer.next_message(&mut self.scratch) {
            self.push(length);
            if self.output.len() >= WRITE_BATCH {
                self.flush(writer).await?;
            }
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

    async fn flush(&mut self, writer: &mut OwnedWriteHalf) -> Result<(), End> {
        if self.output.is_empty() {
            return Ok(());
        }
        let written = timeout(self.shared.limits.idle, writer.write_all(&self.output)).await;
        self.output.clear();
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Closed),
        }
    }
}

/// Reads what there is; `Some(0)` when the client has no more to send.
async fn read_some(
    reader: &mut OwnedReadHalf,
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

fn now() -> Instant {
    Instant::now()
}
