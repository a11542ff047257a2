//! Connections: accepts them, speaks HTTP/1.1 or HTTP/2 on them, in the clear or in TLS, and lets
//! them end.
//!
//! ```text
//! listener → room? → PROXY header? → TLS handshake → ALPN, else the first octets → HTTP/1.1 | HTTP/2 → Api
//!              │           └ within a time  └ within a time        └ within a time       └ head, body, answer: within a time
//!              └ waits in the kernel's queue
//! ```
//!
//! Runs on the runtime that it is started in. Never looks into a request: [`Api`] does.

mod connection;
mod proxy_header;
mod stall;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use cidrs::Cidrs;
use daemon::accept::{Acceptor, Peer, Permit};
use daemon::connections::{Connections, Place};
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
    /// Connections at once; more wait in the kernel's queue. Each may cost a descriptor for itself
    /// and one for a blob.
    pub connections: usize,
    /// Connections of one address at once; more are closed. Clients open some ten for an image.
    pub connections_per_client: usize,
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
    /// The bounds of a configuration, without load balancers.
    #[must_use]
    pub fn of(limits: &config::registry_svc::Limits) -> Self {
        Self {
            connections: limits.connections.get(),
            connections_per_client: CONNECTIONS_PER_CLIENT,
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

/// Connections of one address at once.
const CONNECTIONS_PER_CLIENT: usize = 1024;

/// Listeners that are served.
#[derive(Debug)]
pub struct Server {
    drain: Drain,
    accepting: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

/// State that every connection needs.
#[derive(Debug)]
struct Shared {
    api: Arc<Api>,
    tls: Option<Arc<Latest<ServerConfig>>>,
    settings: Settings,
    acceptor: Acceptor,
    clients: Arc<Connections>,
}

/// A connection that was accepted, with its room.
struct Accepted {
    stream: TcpStream,
    client: Client,
    permit: Permit,
}

/// The other side of a connection.
enum Client {
    /// A client, with its place among its own connections.
    Itself(SocketAddr, Place),
    /// A load balancer: it names the client.
    LoadBalancer(SocketAddr),
}

impl Shared {
    /// The other side of a new connection; none, when it has too many.
    fn client(&self, peer: Peer) -> Option<Client> {
        let address = peer.address()?;
        match self.settings.load_balancers.contains(address.ip()) {
            true => Some(Client::LoadBalancer(address)),
            false => Some(Client::Itself(address, self.place(address)?)),
        }
    }

    /// A client's place; none, when it has too many connections.
    fn place(&self, client: SocketAddr) -> Option<Place> {
        let place = self.clients.admit(client.ip());
        if place.is_none() {
            tracing::debug!(%client, "Connection is closed: its client has too many");
        }
        place
    }
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
        let clients = Connections::new(settings.connections, settings.connections_per_client);
        let shared = Arc::new(Shared {
            api,
            tls,
            acceptor: Acceptor::waiting(settings.connections),
            clients,
            settings,
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
            addresses,
        })
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
            (stream, _, permit, client) = shared.acceptor.admit(&listener, |peer| shared.client(peer)) => {
                let accepted = Accepted { stream, client, permit };
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
