//! Accepts connections of tokio's listeners within bounds, so that a listener can never be what brings a
//! daemon down. Every loop over a stream listener is one of [`Acceptor`].
//!
//! | bound | policy | beyond it |
//! | --- | --- | --- |
//! | connections in all | [`Acceptor::waiting`] | more wait in the kernel's queue: clients that have nowhere else to go |
//! | connections of a client ([`Connections`]) | [`Acceptor::with_clients`] | closed at once, and counted |
//! | the listener's own rule | [`Acceptor::turning_away`], [`Acceptor::admit`] | closed at once: clients that then ask another server |
//! | descriptors of the process | all | accepting rests for [`PAUSE`]; the failure is counted, and the first one in a row logged |

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::{Connections, Place};

/// The rest after a failed accept. The usual cause is a lack of descriptors, which come back when connections end.
pub const PAUSE: Duration = Duration::from_millis(100);

/// A source of connections.
pub trait Listener: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for a connection. Cancel safe.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, peer) = self.accept().await?;
        Ok((stream, Peer::Network(peer)))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, Peer::Node))
    }
}

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

/// The bounds of what is accepted; clones share them, and so may several listeners.
#[derive(Debug, Clone)]
pub struct Acceptor {
    /// Room for connections in all; none where the listener's own rule bounds them.
    all: Option<Arc<Semaphore>>,
    clients: Option<Arc<Connections>>,
    failures: Arc<Failures>,
}

/// Connections that were there, and that the system has refused.
#[derive(Debug, Default)]
struct Failures {
    all: AtomicU64,
    /// Whether the last accept failed.
    is_failing: AtomicBool,
}

/// A connection's room within the bounds; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    // Given back first: the next connection finds room in all only when it finds room for its client.
    _client: Option<Place>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Acceptor {
    /// At most `most` connections at a time; more wait.
    #[must_use]
    pub fn waiting(most: usize) -> Self {
        Self {
            all: Some(Arc::new(Semaphore::new(most))),
            clients: None,
            failures: Arc::default(),
        }
    }

    /// Connections are bounded by the rule that [`admit`](Self::admit) is given; more are closed.
    #[must_use]
    pub fn turning_away() -> Self {
        Self {
            all: None,
            clients: None,
            failures: Arc::default(),
        }
    }

    /// Each client of a network is bounded besides.
    #[must_use]
    pub fn with_clients(self, clients: Arc<Connections>) -> Self {
        Self {
            clients: Some(clients),
            ..self
        }
    }

    /// How often the system has refused a connection that was there.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.all.load(Ordering::Relaxed)
    }

    /// Waits for the next connection that is within the bounds. Cancel safe.
    pub async fn next<L: Listener>(&self, listener: &L) -> (L::Stream, Peer, Permit) {
        let (stream, peer, permit, ()) = self.admit(listener, |_| Some(())).await;
        (stream, peer, permit)
    }

    /// Waits for the next connection that is within the bounds and that `rule` admits; others are closed.
    /// Cancel safe.
    pub async fn admit<L: Listener, A>(
        &self,
        listener: &L,
        rule: impl Fn(Peer) -> Option<A>,
    ) -> (L::Stream, Peer, Permit, A) {
        let all = match &self.all {
            // The semaphore is never closed.
            Some(all) => Arc::clone(all).acquire_owned().await.ok(),
            None => None,
        };
        loop {
            match listener.next().await {
                Ok((stream, peer)) => {
                    self.failures.is_failing.store(false, Ordering::Relaxed);
                    let Ok(client) = self.client(peer) else {
                        tracing::debug!(%peer, "Connection is closed: its client has too many");
                        continue;
                    };
                    if let Some(admitted) = rule(peer) {
                        let permit = Permit {
                            _client: client,
                            _all: all,
                        };
                        return (stream, peer, permit, admitted);
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Counts a failure, and logs the first in a row: a process without descriptors fails ten times a second.
    fn failed(&self, error: &io::Error) {
        self.failures.all.fetch_add(1, Ordering::Relaxed);
        match self.failures.is_failing.swap(true, Ordering::Relaxed) {
            false => tracing::warn!(%error, "Connection was not accepted"),
            true => tracing::debug!(%error, "Connection was not accepted"),
        }
    }

    /// A client's place, where clients are bounded; an error when it has no more.
    fn client(&self, peer: Peer) -> Result<Option<Place>, ()> {
        match (&self.clients, peer) {
            (Some(clients), Peer::Network(address)) => {
                clients.admit(address.ip()).map(Some).ok_or(())
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn more_than_may_be_wait_for_one_to_end() {
        let (listener, address) = listener().await;
        let acceptor = Acceptor::waiting(1);
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let (_first, peer, permit) = acceptor.next(&listener).await;
        assert!(peer.address().is_some_and(|peer| peer.ip().is_loopback()));
        let soon = Duration::from_millis(20);
        let second = tokio::time::timeout(soon, acceptor.next(&listener)).await;
        assert!(second.is_err(), "there is no room");
        drop(permit);
        let _second = acceptor.next(&listener).await;
        assert_eq!(acceptor.failures(), 0);
    }

    #[tokio::test]
    async fn a_client_with_too_many_is_turned_away_and_counted() {
        let (listener, address) = listener().await;
        let clients = Connections::new(9, 1);
        let acceptor = Acceptor::waiting(9).with_clients(Arc::clone(&clients));
        let _first = TcpStream::connect(address).await.unwrap();
        let (_stream, _, permit) = acceptor.next(&listener).await;
        let _second = TcpStream::connect(address).await.unwrap();
        let soon = Duration::from_millis(50);
        let none = tokio::time::timeout(soon, acceptor.next(&listener)).await;
        assert!(none.is_err());
        assert_eq!((clients.open(), clients.refused()), (1, 1));
        drop(permit);
        let _third = TcpStream::connect(address).await.unwrap();
        let (_, _, _permit) = acceptor.next(&listener).await;
        assert_eq!(clients.open(), 1);
    }

    #[tokio::test]
    async fn a_rule_turns_away_and_nothing_waits() {
        let (listener, address) = listener().await;
        let acceptor = Acceptor::turning_away();
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let seen = AtomicU64::new(0);
        let second = |_| (seen.fetch_add(1, Ordering::Relaxed) > 0).then_some("second");
        let (_stream, _, _permit, admitted) = acceptor.admit(&listener, second).await;
        assert_eq!((admitted, seen.load(Ordering::Relaxed)), ("second", 2));
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
    }

    #[tokio::test]
    async fn a_system_without_descriptors_is_waited_for() {
        let (listener, address) = listener().await;
        let _client = TcpStream::connect(address).await.unwrap();
        let acceptor = Acceptor::waiting(1);
        let failing = Failing(AtomicU64::new(0), listener);
        let _connection = acceptor.next(&failing).await;
        assert_eq!(acceptor.failures(), 2);
    }
}
