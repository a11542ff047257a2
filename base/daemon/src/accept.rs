//! Accepts connections of tokio's listeners. Every loop over a stream listener is one of [`Acceptor`].
//!
//! Every connection is accepted, and then decided on by the policy of all listeners ([`Connections`]): one that gets no
//! place is closed at once. When the process has no descriptors, accepting rests for [`PAUSE`]; the failure is counted,
//! and the first one in a row logged.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::connections::{Class, Connections, Opening, Placed, Refusal, Source};

/// The rest after a failed accept. The usual cause is a lack of descriptors, which come back when connections end.
pub const PAUSE: Duration = Duration::from_millis(100);

/// A source of connections.
pub trait Listener: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection. Cancel safe.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;

    /// The source and the class of a connection, as the policy of listeners sees them.
    fn origin(stream: &Self::Stream, peer: Peer, connections: &Connections) -> (Source, Class);
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, peer) = self.accept().await?;
        Ok((stream, Peer::Network(peer)))
    }

    fn origin(stream: &TcpStream, peer: Peer, connections: &Connections) -> (Source, Class) {
        match peer {
            Peer::Network(peer) => {
                let local = stream.local_addr().ok().map(|local| local.ip());
                let class = connections.class(peer.ip(), local);
                (Source::Address(peer.ip()), class)
            }
            Peer::Node => (Source::User(NOBODY), Class::Node),
        }
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, Peer::Node))
    }

    fn origin(stream: &UnixStream, _: Peer, _: &Connections) -> (Source, Class) {
        let user = stream.peer_cred().map_or(NOBODY, |peer| peer.uid());
        (Source::User(user), Class::Node)
    }
}

/// The user of a process that the kernel does not identify.
const NOBODY: u32 = 65_534;

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client at an address.
    Network(SocketAddr),
    /// A process of this node that the mode of the socket's file lets in.
    Node,
}

impl Peer {
    /// The address of a client of a network.
    #[must_use]
    pub const fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Network(address) => Some(address),
            Self::Node => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(formatter),
            Self::Node => formatter.write_str("a process of this node"),
        }
    }
}

/// Accepts connections for the same places; clones share them, and so may several listeners.
#[derive(Debug, Clone)]
pub struct Acceptor {
    connections: Arc<Connections>,
    opening: Opening,
    failures: Arc<Failures>,
}

/// Connections that were there, and that the system has refused.
#[derive(Debug, Default)]
struct Failures {
    all: AtomicU64,
    /// Whether the last accept failed.
    is_failing: AtomicBool,
}

impl Acceptor {
    /// Connections that begin with this get these places.
    #[must_use]
    pub fn new(connections: Arc<Connections>, opening: Opening) -> Self {
        Self {
            connections,
            opening,
            failures: Arc::default(),
        }
    }

    /// How often the system has refused a connection that was there.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.all.load(Ordering::Relaxed)
    }

    /// Waits for the next connection that gets a place. Cancel safe.
    pub async fn next<L: Listener>(&self, listener: &L) -> (Placed<L::Stream>, Peer) {
        let all = |_| Some((Arc::clone(&self.connections), ()));
        let (stream, peer, ()) = self.admit(listener, all).await;
        (stream, peer)
    }

    /// Waits for the next connection that gets a place, and that `rule` admits to some connections; others are closed.
    /// Cancel safe.
    pub async fn admit<L: Listener, A>(
        &self,
        listener: &L,
        rule: impl Fn(Peer) -> Option<(Arc<Connections>, A)>,
    ) -> (Placed<L::Stream>, Peer, A) {
        loop {
            match listener.next().await {
                Ok((stream, peer)) => {
                    self.failures.is_failing.store(false, Ordering::Relaxed);
                    let Some((connections, admitted)) = rule(peer) else {
                        continue;
                    };
                    match self.place::<L>(stream, peer, &connections) {
                        Ok(stream) => return (stream, peer, admitted),
                        Err(refusal) => {
                            let reason = refusal.name();
                            tracing::debug!(%peer, reason, "Connection is closed: it gets no place");
                        }
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn place<L: Listener>(
        &self,
        stream: L::Stream,
        peer: Peer,
        connections: &Arc<Connections>,
    ) -> Result<Placed<L::Stream>, Refusal> {
        let (source, class) = L::origin(&stream, peer, connections);
        let place = connections.admit(source, class, self.opening)?;
        Ok(Placed::new(stream, place))
    }

    /// Counts a failure, and logs the first in a row: a process without descriptors fails ten times a second.
    fn failed(&self, error: &io::Error) {
        self.failures.all.fetch_add(1, Ordering::Relaxed);
        match self.failures.is_failing.swap(true, Ordering::Relaxed) {
            false => tracing::warn!(%error, "Connection was not accepted"),
            true => tracing::debug!(%error, "Connection was not accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Policy;

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn acceptor(policy: Policy) -> (Acceptor, Arc<Connections>) {
        let connections = Connections::new("tested", policy);
        let acceptor = Acceptor::new(Arc::clone(&connections), Opening::Request);
        (acceptor, connections)
    }

    #[tokio::test]
    async fn one_more_than_may_be_takes_the_place_of_one_without_an_answer() {
        let (listener, address) = listener().await;
        let (acceptor, connections) = acceptor(Policy::of(1));
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let (first, peer) = acceptor.next(&listener).await;
        assert!(peer.address().is_some_and(|peer| peer.ip().is_loopback()));
        let (second, _) = acceptor.next(&listener).await;
        assert!(first.place().is_ended());
        let answer = second.place().answer();
        let soon = Duration::from_millis(20);
        let third = tokio::time::timeout(soon, acceptor.next(&listener)).await;
        assert!(third.is_err() && !second.place().is_ended());
        assert_eq!((connections.open(), connections.refused()), (1, 1));
        drop((answer, second));
        assert_eq!((connections.open(), acceptor.failures()), (0, 0));
    }

    #[tokio::test]
    async fn a_rule_turns_away() {
        let (listener, address) = listener().await;
        let (acceptor, connections) = acceptor(Policy::of(9));
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let seen = AtomicU64::new(0);
        let second = |_| {
            let is_second = seen.fetch_add(1, Ordering::Relaxed) > 0;
            is_second.then(|| (Arc::clone(&connections), "second"))
        };
        let (_stream, _, admitted) = acceptor.admit(&listener, second).await;
        assert_eq!((admitted, seen.load(Ordering::Relaxed)), ("second", 2));
        assert_eq!((connections.open(), connections.refused()), (1, 0));
    }

    #[tokio::test]
    async fn processes_at_a_socket_are_the_node_by_their_users() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (acceptor, connections) = acceptor(Policy::of(9));
        let _client = UnixStream::connect(&path).await.unwrap();
        let (stream, peer) = acceptor.next(&listener).await;
        assert_eq!((peer, connections.taken().node), (Peer::Node, 1));
        let own = rustix::process::geteuid().as_raw();
        let origin = UnixListener::origin(stream.get_ref(), peer, &connections);
        assert_eq!(origin, (Source::User(own), Class::Node));
    }

    /// Fails twice, then has a connection.
    struct Failing(AtomicU64, TcpListener);

    impl Listener for Failing {
        type Stream = TcpStream;

        async fn next(&self) -> io::Result<(TcpStream, Peer)> {
            if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
            self.1.next().await
        }

        fn origin(stream: &TcpStream, peer: Peer, connections: &Connections) -> (Source, Class) {
            TcpListener::origin(stream, peer, connections)
        }
    }

    #[tokio::test]
    async fn a_system_without_descriptors_is_waited_for() {
        let (listener, address) = listener().await;
        let _client = TcpStream::connect(address).await.unwrap();
        let (acceptor, _) = acceptor(Policy::of(1));
        let failing = Failing(AtomicU64::new(0), listener);
        let _connection = acceptor.next(&failing).await;
        assert_eq!(acceptor.failures(), 2);
    }
}
