//! DNS over TCP (RFC 7766) and over TLS (RFC 7858): pipelined queries, answered out of order.
//!
//! One thread runs all connections, a task each. A task reads what there is, answers what the
//! cache can answer, and writes other answers as they come. It lets in no more queries than the
//! pipeline's bound while they wait, and reads nothing while the client does not read, so a client
//! that is slow holds up nobody but itself. Those who may not ask have places of their own, few, and lose
//! them when they have been told so.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use daemon::connections::{Connections, Place};
use dns_cache::answer::Transport;
use dns_cache::message::MAX_MESSAGE;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::config::TcpLimits;
use crate::driver::ReturnTo;
use crate::server::{Desk, Done, Reception};

/// The longest query that is read: one with every option there is does not come near.
const MAX_QUERY: usize = 4096;
/// How much is made ready to be written before it is written: a few short queries may have long answers.
const MAX_OUTBOX: usize = 64 << 10;
/// Connections at once of those who may not ask, in all and of one client.
const STRANGERS: usize = 32;
const STRANGERS_PER_CLIENT: usize = 4;
/// After a failure to accept for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection is read from when the server stops: a query that was on its way is answered, and
/// not cut off with its connection. Tests wait for more than a machine that is busy takes.
const LAST: Duration = match cfg!(test) {
    true => Duration::from_secs(3),
    false => Duration::from_millis(500),
};
/// How long a TLS handshake or a write may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What connections share. One thread runs them all.
pub struct Shared {
    limits: TcpLimits,
    /// The desk, and where responses are written.
    desk: Mutex<(Desk, Vec<u8>)>,
    connections: Arc<Connections>,
    /// Those of clients who may not ask.
    strangers: Arc<Connections>,
}

impl Shared {
    fn new(limits: TcpLimits, desk: Desk) -> Arc<Self> {
        Arc::new(Self {
            limits,
            desk: Mutex::new((desk, vec![0; MAX_MESSAGE])),
            connections: Connections::new(limits.connections, limits.per_client),
            strangers: Connections::new(
                limits.connections.min(STRANGERS),
                limits.per_client.min(STRANGERS_PER_CLIENT),
            ),
        })
    }

    /// The desk; one left by a panic elsewhere holds nothing but scratch.
    fn desk(&self) -> MutexGuard<'_, (Desk, Vec<u8>)> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for who connects, and how they are received.
    fn admit(&self, peer: IpAddr) -> Option<(Place, Reception)> {
        let reception = self.desk().0.receive(peer);
        let place = match reception {
            Reception::Guest => self.connections.admit(peer),
            Reception::Stranger => self.strangers.admit(peer),
            Reception::Nobody => None,
        };
        Some((place?, reception))
    }
}

/// The listeners of one server.
pub struct Listeners {
    /// Plain.
    pub tcp: Vec<std::net::TcpListener>,
    /// Encrypted, with what shakes hands.
    pub tls: Option<(Vec<std::net::TcpListener>, TlsAcceptor)>,
}

/// The thread that runs all connections. Dropping it ends them.
#[derive(Debug)]
pub struct Streams {
    stop: watch::Sender<bool>,
    connections: Arc<Connections>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listeners")
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Streams {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or event queue left.
    pub fn start(listeners: Listeners, limits: TcpLimits, desk: Desk) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Shared::new(limits, desk);
        let connections = Arc::clone(&shared.connections);
        let (stop, mut stopped) = watch::channel(false);
        let guard = runtime.enter();
        for listener in listeners.tcp {
            let listener = TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, None, Arc::clone(&shared), stopped.clone()));
        }
        let (encrypted, acceptor) = listeners.tls.unzip();
        for listener in encrypted.into_iter().flatten() {
            let listener = TcpListener::from_std(listener)?;
            let task = accept(
                listener,
                acceptor.clone(),
                Arc::clone(&shared),
                stopped.clone(),
            );
            tokio::spawn(task);
        }
        drop(guard);
        let thread = std::thread::Builder::new()
            .name("dns-tcp".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    // An error means that the sender is gone, which is a stop as well.
                    let _stopped = stopped.wait_for(|stop| *stop).await;
                    while shared.connections.open() > 0 {
                        sleep(Duration::from_millis(2)).await;
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            stop,
            connections,
            thread: Some(thread),
        })
    }

    /// What is counted of connections.
    #[must_use]
    pub fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }

    /// Takes no more queries, and ends each connection when its answers are written.
    pub fn ask_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether every connection has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.ask_to_stop();
        // Those that have not ended by now end with the process.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished)
            && thread.join().is_err()
        {
            tracing::error!("The thread of TCP has panicked");
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
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
                if let Some((place, reception)) = shared.admit(peer.ip()) {
                    let guest = Guest {
                        peer,
                        place,
                        reception,
                        shared: Arc::clone(&shared),
                    };
                    tokio::spawn(greet(stream, guest, tls.clone(), stop.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "A connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A client, and what its connection needs.
struct Guest {
    peer: SocketAddr,
    place: Place,
    reception: Reception,
    shared: Arc<Shared>,
}

async fn greet(
    stream: TcpStream,
    guest: Guest,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<bool>,
) {
    let peer = guest.peer;
    let _nodelay_is_only_faster = stream.set_nodelay(true);
    let Some(acceptor) = tls else {
        return converse(stream, guest, stop).await;
    };
    match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, guest, stop).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "A TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "A TLS handshake took too long"),
    }
}

/// One connection, from its first query to its last answer.
async fn converse<S>(stream: S, guest: Guest, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let Guest {
        peer,
        place: _place,
        reception,
        shared,
    } = guest;
    let limits = shared.limits;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (answers, mut ready) = mpsc::channel::<Vec<u8>>(limits.pipeline);
    let mut session = Session {
        shared,
        peer: peer.ip().to_canonical(),
        answers,
        inbox: Vec::with_capacity(512),
        outbox: Vec::new(),
        waiting: 0,
    };
    let mut open = true;
    // A client that sends less than a query, octet by octet, does not keep its place.
    let mut patience = limits.idle;
    let mut deadline = Instant::now() + patience;
    let (mut is_stopping, mut has_asked_last) = (false, false);
    loop {
        // What is whole in the inbox is handled, as far as the pipeline's bound and the outbox's
        // allow; what it said goes out before anything else is read.
        match session.handle_all() {
            None => return,
            Some(0) => {}
            // They have been told that they may not ask.
            Some(_) if reception != Reception::Guest => open = false,
            Some(_) => deadline = Instant::now() + patience,
        }
        match session.send(&mut writer).await {
            None => return,
            Some(Sent::Full) => continue,
            Some(Sent::All) => {}
        }
        if has_asked_last && session.inbox.is_empty() {
            open = false;
        }
        if !open && session.waiting == 0 {
            break;
        }
        let may_read = open && session.waiting < limits.pipeline;
        tokio::select! {
            answer = ready.recv(), if session.waiting > 0 => {
                let Some(answer) = answer else { return };
                session.write(&answer);
                session.waiting -= 1;
                deadline = Instant::now() + patience;
            }
            read = timeout_at(deadline, reader.read_buf(&mut session.inbox)), if may_read => {
                match read {
                    Ok(Ok(n)) if n > 0 => has_asked_last = is_stopping,
                    // Closed by the client: what waits is still answered (RFC 7766 §6.2.4).
                    Ok(Ok(_)) => open = false,
                    Ok(Err(_)) => return,
                    // Silent for long, and nothing on its way.
                    Err(_) if session.waiting == 0 => break,
                    Err(_) => deadline = Instant::now() + patience,
                }
            }
            _ = stop.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                patience = LAST;
                deadline = deadline.min(Instant::now() + patience);
            }
        }
    }
    if let Err(error) = writer.shutdown().await {
        tracing::debug!(%peer, %error, "A connection ended before it was closed");
    }
}

/// What was written.
enum Sent {
    /// Everything that could be said of what was read.
    All,
    /// As much as is made ready at once: there may be more.
    Full,
}

struct Session {
    shared: Arc<Shared>,
    peer: IpAddr,
    answers: mpsc::Sender<Vec<u8>>,
    /// What was read and not yet handled.
    inbox: Vec<u8>,
    /// What is to be written.
    outbox: Vec<u8>,
    /// Queries on their way to the resolver.
    waiting: usize,
}

impl Session {
    /// Handles every whole query that may be let in; says how many octets they were, or nothing when the
    /// client breaks the rules.
    fn handle_all(&mut self) -> Option<usize> {
        let mut used = 0;
        let shared = Arc::clone(&self.shared);
        let limit = shared.limits.pipeline;
        let mut guard = shared.desk();
        let (desk, scratch) = &mut *guard;
        desk.refresh();
        while self.waiting < limit && self.outbox.len() < MAX_OUTBOX {
            let rest = self.inbox.get(used..).unwrap_or_default();
            let Some((length, rest)) = rest.split_first_chunk::<2>() else {
                break;
            };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > MAX_QUERY {
                return None;
            }
            let Some(message) = rest.get(..length) else {
                break;
            };
            used += 2 + length;
            let answers = self.answers.clone();
            let to = || ReturnTo::Stream(answers);
            match desk.handle(message, self.peer, Transport::Tcp, scratch, to) {
                Done::Reply(length) => {
                    let reply = scratch.get(..length).unwrap_or_default();
                    frame(&mut self.outbox, reply);
                }
                Done::Later => self.waiting += 1,
                Done::Nothing => {}
            }
        }
        drop(guard);
        self.inbox.drain(..used);
        Some(used)
    }

    /// Writes what is ready; nothing when the client does not read.
    async fn send(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Option<Sent> {
        if self.outbox.is_empty() {
            return Some(Sent::All);
        }
        let written = timeout(PATIENCE, writer.write_all(&self.outbox)).await;
        let sent = match self.outbox.len() < MAX_OUTBOX {
            true => Sent::All,
            false => Sent::Full,
        };
        self.outbox.clear();
        matches!(written, Ok(Ok(()))).then_some(sent)
    }

    fn write(&mut self, answer: &[u8]) {
        frame(&mut self.outbox, answer);
    }
}

/// A message behind its length (RFC 1035 §4.2.2).
fn frame(outbox: &mut Vec<u8>, message: &[u8]) {
    if let Ok(length) = u16::try_from(message.len()) {
        outbox.extend_from_slice(&length.to_be_bytes());
        outbox.extend_from_slice(message);
    }
}

#[cfg(test)]
mod tests {
    use daemon::acl::Cidrs;
    use daemon::snapshot::Cell;
    use dns_cache::cache::{Cache, CacheOptions, Capacity};
    use dns_cache::key::Seed;
    use dns_cache::testing::{self, question};
    use dns_front::front::View;
    use dns_front::local::{Local, LocalOptions};
    use dns_front::policy::Outsiders;
    use dns_wire::Type;

    use super::*;
    use crate::clock::Clock;
    use crate::server::{Snapshot, Supply};
    use crate::totals::Totals;

    fn session() -> Session {
        let capacity = Capacity {
            entries: 10,
            octets: 1 << 20,
        };
        let options = CacheOptions {
            positive: capacity,
            negative: capacity,
            stale: Duration::ZERO,
        };
        let view = View {
            table: Arc::default(),
            local: Local::new(&LocalOptions::default()),
            outsiders: Outsiders::Refuse,
            stale_ttl: Duration::ZERO,
            prefetch: false,
        };
        let supply = Supply {
            cell: Cell::new(Snapshot {
                view: Arc::new(view),
                allow: Cidrs::any(),
                notify: Cidrs::none(),
            }),
            cache: Arc::new(Cache::new(&options, Seed(1))),
            clock: Clock::start(),
            jobs: mpsc::channel(1).0,
            totals: Totals::default(),
        };
        Session {
            shared: Shared::new(TcpLimits::default(), Desk::new(&supply)),
            peer: IpAddr::from([192, 0, 2, 1]),
            answers: mpsc::channel(1).0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            waiting: 0,
        }
    }

    #[test]
    fn no_more_is_handled_while_much_waits_to_be_written() {
        const QUERIES: usize = 5000;
        let mut session = session();
        let query = testing::query(1, &question("localhost", Type::A), None);
        for _ in 0..QUERIES {
            frame(&mut session.inbox, &query);
        }
        let (mut n_answers, mut n_rounds) = (0, 0);
        while !session.inbox.is_empty() {
            assert!(session.handle_all().unwrap() > 0);
            assert!(session.outbox.len() < MAX_OUTBOX + MAX_MESSAGE);
            let mut rest = session.outbox.as_slice();
            while let Some((length, message)) = rest.split_first_chunk::<2>() {
                rest = &message[u16::from_be_bytes(*length).into()..];
                n_answers += 1;
            }
            session.outbox.clear();
            n_rounds += 1;
        }
        assert_eq!(n_answers, QUERIES);
        assert!(n_rounds > 1);
    }
}
