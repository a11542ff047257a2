//! Accepts connections of tokio's listeners within bounds, so that a listener can never be what brings a
//! daemon down.
//!
//! | bound | beyond it |
//! | --- | --- |
//! | connections in all | more wait in the kernel's queue |
//! | connections of a client ([`Connections`]) | turned away at once, and counted |
//! | descriptors of the process | accepting rests for a moment, and the failure is counted |

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connections::{Connections, Place};

/// How long to wait when the system has no descriptor for a new connection.
const PAUSE: Duration = Duration::from_millis(200);

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
    /// Whether it is on this node.
    #[must_use]
    pub fn is_local(self) -> bool {
        match self {
            Self::Network(address) => address.ip().to_canonical().is_loopback(),
            Self::Node => true,
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
    all: Arc<Semaphore>,
    clients: Option<Arc<Connections>>,
    failures: Arc<AtomicU64>,
}

/// A connection's room within the bounds; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    _all: Option<OwnedSemaphorePermit>,
    _client: Option<Place>,
}

impl Acceptor {
    /// At most `most` connections at a time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
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
        self.failures.load(Ordering::Relaxed)
    }

    /// Waits for the next connection that is within the bounds. Cancel safe.
    pub async fn next<L: Listener>(&self, listener: &L) -> (L::Stream, Peer, Permit) {
        // The semaphore is never closed.
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        loop {
            match listener.next().await {
                Ok((stream, peer)) => {
                    if let Ok(client) = self.admit(peer) {
                        let permit = Permit {
                            _all: all,
                            _client: client,
                        };
                        return (stream, peer, permit);
                    }
                    tracing::debug!(%peer, "Client has too many connections");
                }
                Err(error) => {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%error, "Connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// A client's place, where clients are bounded; an error when it has no more.
    fn admit(&self, peer: Peer) -> Result<Option<Place>, ()> {
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
        let acceptor = Acceptor::new(1);
        let _clients = [
            TcpStream::connect(address).await.unwrap(),
            TcpStream::connect(address).await.unwrap(),
        ];
        let (_first, peer, permit) = acceptor.next(&listener).await;
        assert!(peer.is_local());
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
        let acceptor = Acceptor::new(9).with_clients(Arc::clone(&clients));
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
        let acceptor = Acceptor::new(1);
        let failing = Failing(AtomicU64::new(0), listener);
        let _connection = acceptor.next(&failing).await;
        assert_eq!(acceptor.failures(), 2);
    }
}
