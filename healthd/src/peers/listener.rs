//! Lets the other nodes in: by their certificates, and within bounds.
//!
//! Places are reserved for connections from the addresses of configured peers, so that clients from elsewhere cannot use
//! them up. A handshake has little time, and a connection without a configured peer's certificate is closed; one with it
//! stays, whatever else comes.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use config::nodes::NodeName;
use daemon::accept::Acceptor;
use daemon::connections::{Connections, Opening, Placed, Policy, Table};
use daemon::drain::Guard;
use daemon::node_tls::{Identity, NodeStream};
use node_certificate::Renewal;
use parking_lot::Mutex;
use proto::incoming::Accepted;
use proto::wire;
use proto::wire::exchange_server::{Exchange, ExchangeServer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::session::{Messages, QUEUE, Session};
use crate::driver::Driver;
use crate::page::nodes::NodeView;

/// Connections: each peer may have its present one and those that are about to end.
const CONNECTIONS: usize = 80;

/// The time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// The interval of pings to a silent peer, and the time limit of its answer.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Lets peers in, and serves them; clones share everything.
#[derive(Clone)]
pub(super) struct Server(Arc<Inner>);

struct Inner {
    driver: Driver,
    view: NodeView,
    identity: Arc<Identity>,
    renewal: Option<Arc<Renewal>>,
    peers: Vec<NodeName>,
    connections: Arc<Connections>,
    /// The newest stream of each peer: those before it end.
    streams: Mutex<BTreeMap<NodeName, watch::Sender<()>>>,
}

/// The node that asks.
#[derive(Clone)]
struct Caller(NodeName);

/// A peer's connection.
type PeerConnection = Accepted<NodeStream<TlsStream<Placed<TcpStream>>>, Caller>;

impl Server {
    pub(super) fn new(
        (driver, view): (Driver, NodeView),
        (identity, renewal): (Arc<Identity>, Option<Arc<Renewal>>),
        peers: Vec<NodeName>,
        members: Vec<IpAddr>,
        table: &Table,
    ) -> Self {
        let connections = Connections::new("nodes", Policy::of(CONNECTIONS).with_members());
        connections.set_members(members);
        table.add(&connections);
        Self(Arc::new(Inner {
            driver,
            view,
            identity,
            renewal,
            peers,
            connections,
            streams: Mutex::default(),
        }))
    }

    /// Serves a listener until the drain begins.
    pub(super) fn serve(self, listener: std::net::TcpListener, guard: &Guard) {
        let (accepted, connections) = mpsc::channel(1);
        let mut stop = guard.clone();
        let server = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                ended = server.accept(listener, accepted) => if let Err(error) = ended {
                    tracing::error!(%error, "The listener for other nodes has failed");
                },
                () = stop.asked() => {}
            }
        });
        let (mut stop, guard) = (guard.clone(), guard.clone());
        let api = Api {
            server: self,
            guard: guard.clone(),
        };
        let router = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .add_service(ExchangeServer::new(api));
        tokio::spawn(async move {
            let connections = ReceiverStream::new(connections);
            let served = router
                .serve_with_incoming_shutdown(connections, async move { stop.asked().await })
                .await;
            if let Err(error) = served {
                tracing::error!(%error, "The listener for other nodes has failed");
            }
            // Held until the last connection is closed.
            drop(guard);
        });
    }

    async fn accept(
        &self,
        listener: std::net::TcpListener,
        accepted: mpsc::Sender<io::Result<PeerConnection>>,
    ) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let acceptor = Acceptor::new(Arc::clone(&self.0.connections), Opening::Handshake);
        loop {
            let (stream, peer) = acceptor.next(&listener).await;
            let (server, accepted) = (self.clone(), accepted.clone());
            tokio::spawn(async move {
                match server.handshake(stream).await {
                    Ok(connection) => drop(accepted.send(Ok(connection)).await),
                    Err(error) => {
                        server.0.driver.counters().peer_refused();
                        tracing::debug!(%peer, %error, "A connection for other nodes is refused");
                    }
                }
            });
        }
    }

    async fn handshake(&self, stream: Placed<TcpStream>) -> io::Result<PeerConnection> {
        stream.get_ref().set_nodelay(true)?;
        let accepting = self.0.identity.accept(stream, self.0.peers.iter());
        let (mut stream, node) = tokio::time::timeout(HANDSHAKE, accepting)
            .await
            .map_err(|_| io::Error::other("no handshake in time"))??;
        let placed = stream.get_mut().get_mut().0;
        placed.place().prove();
        placed.tell_nothing();
        Ok(Accepted {
            stream,
            info: Caller(node),
        })
    }
}

/// The contract's service for other nodes.
struct Api {
    server: Server,
    guard: Guard,
}

#[tonic::async_trait]
impl Exchange for Api {
    type FollowStream = Messages;

    async fn vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let Caller(node) = caller.ok_or_else(|| Status::internal("the connection has no owner"))?;
        let node = node.to_string();
        let leases = self.server.0.driver.leases();
        Ok(Response::new(leases.answer(&node, &request.into_inner())))
    }

    async fn show(
        &self,
        _request: Request<wire::ShowRequest>,
    ) -> Result<Response<wire::ShowResponse>, Status> {
        Ok(Response::new(self.server.0.view.answer().await))
    }

    async fn certificate(
        &self,
        request: Request<wire::CertificateRequest>,
    ) -> Result<Response<wire::CertificateResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let Caller(node) = caller.ok_or_else(|| Status::internal("the connection has no owner"))?;
        let renewal = self.server.0.renewal.as_ref();
        let renewal =
            renewal.ok_or_else(|| Status::not_found("this node has no certificates for others"))?;
        let pem = renewal
            .give(node)
            .map_err(|nothing| Status::not_found(daemon::exit::chain(&nothing)))?;
        Ok(Response::new(wire::CertificateResponse { pem }))
    }

    async fn follow(
        &self,
        request: Request<wire::FollowRequest>,
    ) -> Result<Response<Messages>, Status> {
        let caller = request.extensions().get::<Caller>();
        let Caller(node) = caller.ok_or_else(|| Status::internal("the connection has no owner"))?;
        let (newest, replaced) = watch::channel(());
        let inner = &self.server.0;
        // The sender of the stream before is dropped, which ends it.
        inner.streams.lock().insert(node.clone(), newest);
        let (messages, queue) = mpsc::channel(QUEUE);
        let session = Session {
            driver: inner.driver.clone(),
            messages,
            replaced,
            guard: self.guard.clone(),
        };
        tokio::spawn(session.run());
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }
}
