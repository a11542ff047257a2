//! A connection of framed messages (RFC 7766): pipelined queries, answered out of order.
//!
//! While the client does not read, nothing is read from it: a slow client delays only itself.

use std::sync::Arc;
use std::time::Duration;

use daemon::connections::{self, Place};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::service::{Answer, Client, MAX_QUERY, Replies, Service, Transport};

/// Octets of replies that are collected before they are written. A few short queries may have long answers.
const BATCH: usize = 64 << 10;
/// The time between two reports of queries that are answered at once.
const OFTEN: Duration = Duration::from_millis(100);
/// The room for input at first. Most clients send one query at a time.
const INPUT: usize = 512;

/// Answers the queries of a connection until the client closes it, is idle, does not read, or `stop` is set.
/// A refusal ends it after the first reply.
pub async fn converse<S: Service>(
    stream: impl AsyncRead + AsyncWrite,
    place: &Place,
    client: Client,
    is_refusal: bool,
    service: Arc<S>,
    mut stop: watch::Receiver<bool>,
) {
    let limits = *service.limits();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (later, mut ready) = mpsc::channel::<Vec<u8>>(limits.pipeline.max(1));
    let mut session = Session::new(service, client, later);
    let mut open = true;
    // A client that sends less than a query, octet by octet, does not keep its place.
    let mut deadline = Instant::now() + limits.idle;
    let mut phase = Phase::new(place, client.transport);
    let (mut last, mut has_asked_last) = (None, false);
    loop {
        // Replies to what was read go out before anything else is read.
        match session.handle_all() {
            Ok(0) => {}
            // The refusal is among the replies.
            Ok(_) if is_refusal => open = false,
            Ok(_) => deadline = Instant::now() + limits.idle,
            Err(NotDns) => {
                tracing::debug!(peer = %client.peer, "Client does not speak DNS");
                // Queries before it are answered; nothing after it is read.
                session.input.clear();
                open = false;
            }
        }
        let is_busy = session.waiting > 0 || session.messages.is_some();
        phase.is(is_busy, !session.input.is_empty());
        let is_full = session.replies.octets().len() >= BATCH;
        if !session.replies.octets().is_empty() && !session.write(&mut writer).await {
            return;
        }
        if is_full {
            // A client that reads is not idle.
            deadline = Instant::now() + limits.idle;
            continue;
        }
        if session.messages.is_some() {
            session.wait_for_message(&mut ready).await;
            deadline = Instant::now() + limits.idle;
            continue;
        }
        if has_asked_last && session.input.is_empty() {
            open = false;
        }
        if !open && session.waiting == 0 {
            break;
        }
        let may_read = open && session.waiting < limits.pipeline;
        let until = last.map_or(deadline, |last| deadline.min(last));
        tokio::select! {
            reply = ready.recv(), if session.waiting > 0 => {
                // The session keeps a sender.
                let Some(reply) = reply else { return };
                session.take(&reply);
                while let Ok(reply) = ready.try_recv() {
                    session.take(&reply);
                }
                deadline = Instant::now() + limits.idle;
            }
            read = timeout_at(until, reader.read_buf(session.room())), if may_read => match read {
                Ok(Ok(n)) if n > 0 => has_asked_last = last.is_some(),
                // Closed by the client: queries that wait are still answered (RFC 7766 §6.2.4).
                Ok(Ok(_)) => open = false,
                Ok(Err(_)) => return,
                Err(_) if last.is_some_and(|last| last <= Instant::now()) => open = false,
                Err(_) if session.waiting == 0 => break,
                // A connection that waits for answers is not idle.
                Err(_) => deadline = Instant::now() + limits.idle,
            },
            _ = stop.wait_for(|stop| *stop), if last.is_none() => {
                last = Some(Instant::now() + limits.last);
            }
        }
    }
    if let Err(error) = writer.shutdown().await {
        tracing::debug!(peer = %client.peer, %error, "Client is gone");
    }
}

/// The phase of a connection, as its place knows it.
struct Phase<'a> {
    place: &'a Place,
    /// Answers are in flight.
    busy: Option<connections::Answer>,
    /// A part of a query has come.
    is_asking: bool,
    /// The last time that the place heard that the connection is idle.
    idle: Instant,
}

impl<'a> Phase<'a> {
    fn new(place: &'a Place, transport: Transport) -> Self {
        Self {
            place,
            busy: None,
            // The first octet is one of a query, unless a handshake goes before.
            is_asking: transport == Transport::Tcp,
            idle: Instant::now(),
        }
    }

    /// Tells the place of a change. Queries that are answered at once are one only now and then.
    fn is(&mut self, is_busy: bool, is_asking: bool) {
        match (is_busy, self.busy.is_some()) {
            (true, false) => self.busy = Some(self.place.answer()),
            (false, true) => self.busy = None,
            _ => {}
        }
        if is_busy {
            return;
        }
        let before = std::mem::replace(&mut self.is_asking, is_asking);
        if is_asking && !before {
            self.place.received(0);
        }
        if !is_asking && (before || self.idle.elapsed() >= OFTEN) {
            self.place.idle();
            self.idle = Instant::now();
        }
    }
}

/// The client sends something that is not DNS.
#[derive(Debug)]
struct NotDns;

struct Session<S> {
    service: Arc<S>,
    client: Client,
    later: mpsc::Sender<Vec<u8>>,
    /// Input that is not yet handled.
    input: Vec<u8>,
    /// Output that is not yet written.
    replies: Replies,
    /// A reply of many messages that is under way. The next query comes after it.
    messages: Option<mpsc::Receiver<Vec<u8>>>,
    /// Queries whose replies come later.
    waiting: usize,
}

impl<S: Service> Session<S> {
    fn new(service: Arc<S>, client: Client, later: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            service,
            client,
            later,
            input: Vec::with_capacity(INPUT),
            replies: Replies::default(),
            messages: None,
            waiting: 0,
        }
    }

    /// The input, with room for more.
    fn room(&mut self) -> &mut Vec<u8> {
        if self.input.capacity() - self.input.len() < INPUT / 2 {
            self.input.reserve(MAX_QUERY);
        }
        &mut self.input
    }

    /// A reply that comes later.
    fn take(&mut self, reply: &[u8]) {
        self.waiting = self.waiting.saturating_sub(1);
        if !reply.is_empty() {
            self.replies.push(reply);
        }
    }

    /// Writes the replies; false when the client is gone or does not read.
    async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> bool {
        let write = async {
            writer.write_all(self.replies.octets()).await?;
            // TLS may keep back the end of what is written.
            writer.flush().await
        };
        let written = timeout(self.service.limits().write, write).await;
        self.replies.clear();
        matches!(written, Ok(Ok(())))
    }

    /// Waits for the next message of a reply of many, or for a reply that comes later.
    async fn wait_for_message(&mut self, ready: &mut mpsc::Receiver<Vec<u8>>) {
        let Some(messages) = &mut self.messages else {
            return;
        };
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => self.replies.push(&message),
                None => self.messages = None,
            },
            reply = ready.recv(), if self.waiting > 0 => self.take(&reply.unwrap_or_default()),
        }
    }

    /// Handles whole queries, within the bounds of the pipeline and of one batch; the octets that they were.
    fn handle_all(&mut self) -> Result<usize, NotDns> {
        let limit = self.service.limits().pipeline;
        let mut used = 0;
        let mut handled = Ok(());
        while self.replies.octets().len() < BATCH {
            if let Some(messages) = &mut self.messages {
                match messages.try_recv() {
                    Ok(message) => self.replies.push(&message),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.messages = None,
                }
                continue;
            }
            if self.waiting >= limit {
                break;
            }
            let rest = self.input.get(used..).unwrap_or_default();
            let Some((length, rest)) = rest.split_first_chunk::<2>() else {
                break;
            };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > MAX_QUERY {
                handled = Err(NotDns);
                break;
            }
            let Some(message) = rest.get(..length) else {
                break;
            };
            used += 2 + length;
            let (service, client) = (&self.service, &self.client);
            match service.answer(message, client, &self.later, &mut self.replies) {
                Answer::Now | Answer::Silence => {}
                Answer::Later => self.waiting += 1,
                Answer::Messages(messages) => self.messages = Some(messages),
                Answer::NotDns => {
                    handled = Err(NotDns);
                    break;
                }
            }
        }
        self.input.drain(..used);
        handled.map(|()| used)
    }
}

#[cfg(test)]
mod tests;
