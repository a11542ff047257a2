//! Connections: accepts them, speaks HTTP/1.1 or HTTP/2 on them, in the clear or in TLS, and lets
//! them end.
//!
//! ```text
//! listener → place? → PROXY header? → TLS handshake → ALPN, else the first octets → HTTP/1.1 | HTTP/2 → Api
//!              │            └ within a time  └ within a time        └ within a time       └ head, body, answer: within a time
//!              └ as the policy of all listeners says
//! ```
//!
//! Runs on the runtime that it is started in. Never looks into a request: [`Api`] does.

mod connection;
mod proxy_header;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use cidrs::Cidrs;
use daemon::accept::{Acceptor, Peer};
use daemon::connections::{Connections, Opening, Placed, Policy, within_descriptors};
use daemon::drain::{Drain, Guard};
use daemon::latest::Latest;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::Api;

/// The protocols offered in TLS. HTTP/1.1 first: clients then open a connection for each of several
/// blobs, and each connection has its own core to encrypt on.
pub const ALPN: [&[u8]; 2] = [b"http/1.1", H2];

/// HTTP/2 as ALPN names it (RFC 9113 §3.1).
const H2: &[u8] = b"h2";

/// Bounds of what connections may take, and the load balancers that they come through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Connections at once. Each may cost a descriptor for itself and one for a blob.
    pub connections: usize,
    /// Load balancers, whose connections begin with a PROXY header.
    pub load_balancers: Cidrs,
    /// A PROXY header takes no longer, and nor does a TLS handshake.
    pub handshake: Duration,
    /// A request's head takes no longer, and nor does a client that thinks what to ask next.
    pub head: Duration,
    /// A client that takes nothing of its answer for so long is gone.
    pub stall: Duration,
}

impl Settings {
    /// The bounds of a configuration.
    #[must_use]
    pub fn of(limits: &config::registry_svc::Limits) -> Self {
        Self {
            connections: limits.connections.get(),
            load_balancers: Cidrs::none(),
            handshake: limits.head_timeout.get(),
            head: limits.idle_timeout.get(),
            stall: limits.body_timeout.get(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&config::registry_svc::Limits::default())
    }
}

/// The wait for the rest after the first bytes: the next segment is close behind.
const SECOND_LOOK: Duration = Duration::from_millis(5);

/// Descriptors for the store, other nodes and registries, and control.
const RESERVED: usize = 256;

/// Listeners that are served.
#[derive(Debug)]
pub struct Server {
    drain: Drain,
    accepting: Vec<JoinHandle<()>>,
    connections: Arc<Connections>,
    addresses: Vec<SocketAddr>,
}

/// State that every connection needs.
#[derive(Debug)]
struct Shared {
    api: Arc<Api>,
    tls: Option<Arc<Latest<ServerConfig>>>,
    settings: Settings,
    acceptor: Acceptor,
}

/// A connection that has its place.
struct Accepted {
    stream: Placed<TcpStream>,
    address: SocketAddr,
}

impl Server {
    /// Serves `api` on `listeners`; in TLS, if there is a configuration for it, of which each new
    /// connection takes the current one.
    ///
    /// # Errors
    /// When the runtime does not take a listener.
    pub fn start(
        listeners: Vec<StdListener>,
        api: Arc<Api>,
        tls: Option<Arc<Latest<ServerConfig>>>,
        settings: Settings,
    ) -> io::Result<Self> {
        let (drain, guard) = Drain::new();
        // The rate of a body is not asked for: pushes over slow links continue, as long as something comes in time.
        let places = within_descriptors(settings.connections, 2, RESERVED);
        let policy = Policy::of(places)
            .with_idle(settings.head)
            .with_handshake(settings.handshake)
            .with_stall(settings.stall);
        let connections = Connections::new("registry", policy);
        let opening = match tls {
            Some(_) => Opening::Handshake,
            None => Opening::Request,
        };
        let shared = Arc::new(Shared {
            api,
            tls,
            settings,
            acceptor: Acceptor::new(Arc::clone(&connections), opening),
        });
        let mut addresses = Vec::new();
        let mut accepting = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            addresses.push(listener.local_addr()?);
            let (shared, guard) = (Arc::clone(&shared), guard.clone());
            accepting.push(tokio::spawn(serve(listener, shared, guard)));
        }
        Ok(Self {
            drain,
            accepting,
            connections,
            addresses,
        })
    }

    /// The connections of its listeners.
    #[must_use]
    pub const fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// The addresses of its listeners.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes no new connections, lets requests end, and ends what is left at the deadline; true
    /// when nothing was.
    pub async fn drain(self, deadline: Duration) -> bool {
        let is_drained = self.drain.finish(deadline).await;
        for task in &self.accepting {
            // Connections go with the task that accepted them.
            task.abort();
        }
        is_drained
    }
}

/// Accepts connections until the drain begins, and then waits for them.
async fn serve(listener: TcpListener, shared: Arc<Shared>, mut guard: Guard) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            (stream, peer) = shared.acceptor.next(&listener) => {
                let Peer::Network(address) = peer else {
                    continue;
                };
                let accepted = Accepted { stream, address };
                connections.spawn(connection::serve(Arc::clone(&shared), accepted, guard.clone()));
            }
            Some(ended) = connections.join_next(), if !connections.is_empty() => noticed(ended),
            () = guard.asked() => break,
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        noticed(ended);
    }
}

fn noticed(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "Connection ended in a panic");
    }
}

#[cfg(test)]
mod tests;
