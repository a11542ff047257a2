//! The two sides of this crate: the trait that a DNS server implements, and the limits that it sets.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use daemon::connections::{Connections, Policy};
use tokio::sync::mpsc;

/// The longest query that is read. A query with every option is far shorter.
pub const MAX_QUERY: usize = 4096;

/// A DNS server, as its connections see it.
pub trait Service: Send + Sync + 'static {
    /// The bounds of connections.
    fn limits(&self) -> &Limits;

    /// The counters of connections.
    fn counters(&self) -> &Counters;

    /// Admits a client to these connections, to others, or not.
    fn admit(&self, client: IpAddr, connections: &Arc<Connections>) -> Option<Admission>;

    /// Answers a message. `later` is for [`Answer::Later`]. It has room for one message of each query that
    /// waits, and it is closed when the client has gone.
    fn answer(
        self: &Arc<Self>,
        message: &[u8],
        client: &Client,
        later: &mpsc::Sender<Vec<u8>>,
        replies: &mut Replies,
    ) -> Answer;
}

/// The bounds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one client.
    pub per_client: usize,
    /// Queries of one connection that may wait for answers.
    pub pipeline: usize,
    /// How long a connection may send no whole query while no answer is due.
    pub idle: Duration,
    /// How long a connection of QUIC may be idle.
    pub quic_idle: Duration,
    /// How long a handshake may take. A connection has its place from its beginning.
    pub handshake: Duration,
    /// How long one write may take.
    pub write: Duration,
    /// How long connections are still read after a stop: queries on their way are answered.
    pub last: Duration,
    /// The longest time from the last query to its answer.
    pub answer: Duration,
}

impl Limits {
    /// The policy of connections that may be idle for so long.
    #[must_use]
    pub const fn policy(&self, idle: Duration) -> Policy {
        Policy::of(self.connections)
            .with_source(self.per_client)
            .with_idle(idle)
            .with_stall(self.write)
    }
}

/// The counters of connections.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Connections over TCP: plain, TLS and HTTPS.
    pub tcp: Arc<Connections>,
    /// Connections over QUIC.
    pub quic: Arc<Connections>,
}

impl Counters {
    /// No connections yet, and these bounds.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let connections = |name, idle| Connections::new(name, limits.policy(idle));
        Self {
            tcp: connections("dns-tcp", limits.idle),
            quic: connections("dns-quic", limits.quic_idle),
        }
    }
}

/// The connections that a client's connection is to be among.
#[derive(Debug)]
pub struct Admission {
    /// They decide whether it gets a place.
    pub connections: Arc<Connections>,
    /// Whether the connection ends after the first reply, which is a refusal.
    pub is_refusal: bool,
}

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub peer: SocketAddr,
    /// The address that it has connected to, of TCP and TLS.
    pub local: Option<SocketAddr>,
    pub transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Tls {
        /// Whether zones may be transferred over it (RFC 9103 §7.1, §7.2): both sides have chosen TLS 1.3 and the protocol `dot`.
        may_transfer: bool,
    },
    Https,
    Quic,
}

impl From<Transport> for dns_wire::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp,
            Transport::Tls { .. } => Self::Tls,
            Transport::Https => Self::Https,
            Transport::Quic => Self::Quic,
        }
    }
}

/// The handling of a message.
#[derive(Debug)]
pub enum Answer {
    /// The reply is among the replies.
    Now,
    /// The reply comes by the channel, once; an empty one is no reply.
    Later,
    /// The reply is the messages that come by this channel, until it ends. Only TCP and TLS carry several. The next
    /// query of the connection comes after them.
    Messages(mpsc::Receiver<Vec<u8>>),
    /// There is no reply.
    Silence,
    /// The message is not DNS, and the connection ends.
    NotDns,
}

/// Replies to write, each behind its length (RFC 1035 §4.2.2).
#[derive(Debug, Default)]
pub struct Replies(Vec<u8>);

impl Replies {
    pub fn push(&mut self, message: &[u8]) {
        if let Ok(length) = u16::try_from(message.len()) {
            self.0.extend_from_slice(&length.to_be_bytes());
            self.0.extend_from_slice(message);
        }
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Answers one message; `None` when there is no reply.
pub(crate) async fn ask<S: Service>(
    service: &Arc<S>,
    message: &[u8],
    client: &Client,
) -> Option<Vec<u8>> {
    let (later, mut ready) = mpsc::channel(1);
    let mut replies = Replies::default();
    let reply = match service.answer(message, client, &later, &mut replies) {
        Answer::Now => replies.0.split_off(2.min(replies.0.len())),
        Answer::Later => {
            drop(later);
            ready.recv().await?
        }
        Answer::Messages(_) | Answer::Silence | Answer::NotDns => return None,
    };
    (!reply.is_empty()).then_some(reply)
}
