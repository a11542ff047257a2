//! Responses of this node to its peers: from its own disk, never by asking another node.
//!
//! One HTTP/2 listener serves both the replication service and the requests of clients that a peer
//! forwards. A caller has to show the certificate of a configured peer; without TLS, which is for
//! tests, every caller is believed.

mod following;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::service::replication_server::{Replication, ReplicationServer};
use bytes::Bytes;
use daemon::accept::{Acceptor, Peer};
use daemon::connections::{Connections, Opening, Placed, Policy};
use daemon::drain::Guard;
use daemon::node_tls::Identity;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use node_certificate::Renewal;
use parking_lot::{Mutex, MutexGuard};
use registry_facts::name::NodeName;
use registry_facts::record::{NodeId, RecordError, Vector};
use registry_proto as wire;
use registry_store::{Purpose, Store, StoreError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Request as Call, Response as Answer, Status, Streaming};
use tower_service::Service as _;

use self::shown::find;
use super::compare::Content;
use super::feed::learn_of_own_records;
use super::members::Members;
use super::peer::{CONNECTION_WINDOW, INCARNATION, MAX_MESSAGE, STREAM_WINDOW};
use registry_cluster_core::acknowledge::Followers;
use registry_cluster_core::members::{Claim, Reception};
use registry_cluster_core::wire as form;
use registry_cluster_core::wire::Search;

/// Connections. Each peer makes three; strangers on a wider network do not fill the places of nodes.
const MAX_CONNECTIONS: usize = 64;

/// A peer that has not shown who it is by then is none.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The interval of keep-alive pings on a silent connection, and the time to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Messages on their way to a peer.
const MESSAGES: usize = 4;

/// Records in one message at most. One record is at most a few hundred kilobytes, most are a few
/// hundred octets.
const RECORDS: usize = 64;

/// Digests that one question may be about.
pub(super) const MAX_DIGESTS: usize = 1024;

/// Registers or digests in one message.
const LISTED: usize = 512;

/// Everything that a listener needs to answer.
#[derive(Clone, Debug)]
pub(super) struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    members: Members,
    store: Store,
    identity: Option<Arc<Identity>>,
    renewal: Option<Arc<Renewal>>,
    followers: Mutex<Followers>,
    /// Moves when a follower has said something, or is gone.
    heard: watch::Sender<u64>,
    /// The newest stream of each peer, by its number.
    streams: Mutex<BTreeMap<NodeName, u64>>,
    next_stream: AtomicU64,
    acceptor: Acceptor,
    connections: Arc<Connections>,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The peer's name, from its certificate; none without TLS.
    pub node: Option<NodeName>,
    /// Its address.
    pub address: SocketAddr,
}

impl Server {
    pub(super) fn new(
        store: Store,
        members: Members,
        (identity, renewal): (Option<Arc<Identity>>, Option<Arc<Renewal>>),
        followers: Followers,
    ) -> Self {
        let connections = Connections::new("nodes", Policy::of(MAX_CONNECTIONS).with_members());
        let opening = match identity {
            Some(_) => Opening::Handshake,
            None => Opening::Request,
        };
        Self(Arc::new(Inner {
            members,
            store,
            identity,
            renewal,
            followers: Mutex::new(followers),
            heard: watch::Sender::new(0),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            acceptor: Acceptor::new(Arc::clone(&connections), opening),
            connections,
        }))
    }

    /// Looks at the followers.
    pub(super) fn followers<R>(&self, look: impl FnOnce(&Followers) -> R) -> R {
        look(&self.lock())
    }

    /// These other nodes should follow.
    pub(super) fn set_peers(&self, peers: &[Arc<super::peer::Peer>]) {
        self.lock().set_peers(peers.len());
        let addresses = peers.iter().filter_map(|peer| peer.ip());
        self.0.connections.set_members(addresses.collect());
    }

    /// The connections of its listeners.
    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.0.connections
    }

    /// Moves when a follower has said something.
    pub(super) fn heard(&self) -> watch::Receiver<u64> {
        self.0.heard.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Followers> {
        self.0.followers.lock()
    }

    //--- Connections

    /// Serves a listener until the drain begins. Requests that are not replication go to
    /// `passed_on`.
    pub(super) async fn serve<H, F, B>(self, listener: TcpListener, passed_on: H, mut guard: Guard)
    where
        H: Fn(Request<Incoming>, Caller) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        loop {
            let (stream, peer) = tokio::select! {
                () = guard.asked() => return,
                accepted = self.0.acceptor.next(&listener) => accepted,
            };
            let Peer::Network(address) = peer else {
                continue;
            };
            let server = self.clone();
            let (passed_on, guard) = (passed_on.clone(), guard.clone());
            tokio::spawn(async move {
                server.connection(stream, address, passed_on, guard).await;
            });
        }
    }

    async fn connection<H, F, B>(
        self,
        mut stream: Placed<TcpStream>,
        address: SocketAddr,
        passed_on: H,
        guard: Guard,
    ) where
        H: Fn(Request<Incoming>, Caller) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Small messages are sent when they are written.
        drop(stream.get_ref().set_nodelay(true));
        let place = stream.place().clone();
        let Some(identity) = self.0.identity.as_ref() else {
            let caller = Caller {
                node: None,
                address,
            };
            place.prove();
            stream.tell_nothing();
            return self.requests(stream, caller, passed_on, guard).await;
        };
        let names = self.0.members.names();
        let accepting = identity.accept(stream, names.iter());
        let (mut stream, node) = match tokio::time::timeout(HANDSHAKE, accepting).await {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(error)) => {
                tracing::warn!(%address, %error, "A connection for peers is refused");
                return;
            }
            Err(_) => {
                tracing::warn!(%address, "A connection for peers is refused: no handshake in time");
                return;
            }
        };
        place.prove();
        stream.get_mut().get_mut().0.tell_nothing();
        let caller = Caller {
            node: Some(node),
            address,
        };
        self.requests(stream, caller, passed_on, guard).await;
    }

    async fn requests<S, H, F, B>(self, stream: S, caller: Caller, passed_on: H, mut guard: Guard)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        H: Fn(Request<Incoming>, Caller) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let service = ReplicationServer::new(Service {
            server: self,
            caller: caller.clone(),
            guard: guard.clone(),
        })
        .max_decoding_message_size(MAX_MESSAGE);
        let routes = Routes::new(service).prepare();
        let service = service_fn(move |request: Request<Incoming>| {
            let (mut routes, passed_on, caller) =
                (routes.clone(), passed_on.clone(), caller.clone());
            async move {
                if request.uri().path().starts_with(SERVICE_PATH) {
                    return routes.call(request).await;
                }
                Ok::<_, Infallible>(passed_on(request, caller).await.map(Body::new))
            }
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = guard.asked() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "A connection of a peer has failed");
        }
    }
}

/// The common prefix of the replication service's paths.
const SERVICE_PATH: &str = "/outpost.registry.v1.Replication/";

/// The answer where nothing is passed on.
pub(super) fn nowhere() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

//--- The service

/// The service to one caller.
#[derive(Clone, Debug)]
struct Service {
    server: Server,
    caller: Caller,
    /// Guards the connection: a stream of the journal has no other end.
    guard: Guard,
}

type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Replication for Service {
    type JournalStream = Outgoing<wire::JournalResponse>;
    type FetchStream = Outgoing<wire::FetchResponse>;
    type RegistersStream = Outgoing<wire::RegistersResponse>;
    type BlobsStream = Outgoing<wire::BlobsResponse>;

    async fn journal(
        &self,
        call: Call<Streaming<wire::JournalRequest>>,
    ) -> Result<Answer<Self::JournalStream>, Status> {
        let mut requests = call.into_inner();
        let first = requests.message().await?;
        let first = first.ok_or_else(|| Status::invalid_argument("no request"))?;
        let node = form::read_node(first.node.clone()).map_err(malformed)?;
        self.admit(&node)?;
        let from = form::read_vector(first.from.clone()).map_err(malformed)?;
        let inner = &self.server.0;
        let holds = form::read_vector(first.holds.clone()).map_err(malformed)?;
        let members = &inner.members;
        admitted(members, &node.name, claim_of(&first), &holds).await?;
        // With what waits at the peer: a vector of what it holds does not show that.
        let own = inner.store.origin();
        let known = from.of(&own);
        learn_of_own_records(&inner.store, &node.name, own, known).await;
        let (responses, queue) = mpsc::channel(MESSAGES);
        let follower = Following {
            number: inner.next_stream.fetch_add(1, Ordering::Relaxed),
            server: self.server.clone(),
            name: node.name,
            sent: from.clone(),
        };
        follower.begun();
        follower.said(first).map_err(malformed)?;
        let records = inner.store.feed(from).into_inner();
        tokio::spawn(follower.run(requests, records, responses, self.guard.clone()));
        Ok(Answer::new(Box::pin(ReceiverStream::new(queue))))
    }

    async fn fetch(
        &self,
        call: Call<wire::FetchRequest>,
    ) -> Result<Answer<Self::FetchStream>, Status> {
        let request = call.into_inner();
        let digest = form::read_digest(&request.digest).map_err(malformed)?;
        let store = &self.server.0.store;
        let held = store.held(&digest).await.map_err(|error| failed(&error))?;
        let size = held.ok_or_else(|| not_held(store))?;
        if request.offset > size {
            return Err(Status::out_of_range("the blob is shorter"));
        }
        let first = wire::FetchResponse {
            size,
            data: Bytes::new(),
        };
        let first = tokio_stream::once(Ok(first));
        if request.offset == size {
            return Ok(Answer::new(Box::pin(first)));
        }
        let pieces = store
            .read(&digest, request.offset..size, Purpose::Copy)
            .await;
        let pieces = pieces.map_err(|error| match error {
            // Its file turned out to be damaged, or went meanwhile.
            StoreError::Unknown(_) => not_held(store),
            error => failed(&error),
        })?;
        let rest = pieces.map(|piece| match piece {
            Ok(data) => Ok(wire::FetchResponse { size: 0, data }),
            Err(error) => {
                tracing::error!(%error, "A blob cannot be read for a peer");
                Err(Status::data_loss("the disk failed"))
            }
        });
        Ok(Answer::new(Box::pin(first.chain(rest))))
    }

    async fn has(&self, call: Call<wire::HasRequest>) -> Result<Answer<wire::HasResponse>, Status> {
        let digests = call.into_inner().digests;
        if digests.len() > MAX_DIGESTS {
            return Err(Status::invalid_argument("too many digests"));
        }
        let mut held = Vec::with_capacity(digests.len());
        for digest in digests {
            let digest = form::read_digest(&digest).map_err(malformed)?;
            let size = self.server.0.store.held(&digest).await;
            let size = size.map_err(|error| failed(&error))?;
            held.push(wire::Held {
                held: size.is_some(),
                size: size.unwrap_or(0),
            });
        }
        Ok(Answer::new(wire::HasResponse { held }))
    }

    async fn find(
        &self,
        call: Call<wire::FindRequest>,
    ) -> Result<Answer<wire::FindResponse>, Status> {
        let wanted = Search::try_from(call.into_inner()).map_err(malformed)?;
        let found = find(&self.server.0.store, &wanted).await;
        let found = found.map_err(|error| failed(&error))?;
        Ok(Answer::new(wire::FindResponse {
            found: found.as_ref().map(Into::into),
        }))
    }

    async fn summary(
        &self,
        _: Call<wire::SummaryRequest>,
    ) -> Result<Answer<wire::SummaryResponse>, Status> {
        let content = Content::read(&self.server.0.store).await;
        let content = content.map_err(|error| failed(&error))?;
        Ok(Answer::new(wire::SummaryResponse {
            registers: content.register_buckets().to_wire(),
            blobs: content.blob_buckets().to_wire(),
        }))
    }

    async fn registers(
        &self,
        call: Call<wire::RegistersRequest>,
    ) -> Result<Answer<Self::RegistersStream>, Status> {
        let buckets = buckets(&call.into_inner().buckets)?;
        let content = Content::registers_only(&self.server.0.store).await;
        let registers = content
            .map_err(|error| failed(&error))?
            .registers_in(&buckets);
        let registers: Vec<wire::Register> = registers.values().map(form::register).collect();
        let messages = batches(registers, |registers| wire::RegistersResponse { registers });
        Ok(Answer::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn blobs(
        &self,
        call: Call<wire::BlobsRequest>,
    ) -> Result<Answer<Self::BlobsStream>, Status> {
        let buckets = buckets(&call.into_inner().buckets)?;
        let content = Content::read(&self.server.0.store).await;
        let blobs = content.map_err(|error| failed(&error))?.blobs_in(&buckets);
        let digests: Vec<String> = blobs.iter().map(ToString::to_string).collect();
        let messages = batches(digests, |digests| wire::BlobsResponse { digests });
        Ok(Answer::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn certificate(
        &self,
        _: Call<wire::CertificateRequest>,
    ) -> Result<Answer<wire::CertificateResponse>, Status> {
        let renewal = self.server.0.renewal.as_ref();
        let (Some(renewal), Some(node)) = (renewal, &self.caller.node) else {
            return Err(Status::not_found(
                "this node has no certificates for others",
            ));
        };
        let given = renewal.give(node);
        let pem = given.map_err(|nothing| Status::not_found(daemon::exit::chain(&nothing)))?;
        Ok(Answer::new(wire::CertificateResponse { pem }))
    }
}

impl Service {
    /// Whether the caller may follow as this node.
    fn admit(&self, node: &NodeId) -> Result<(), Status> {
        let inner = &self.server.0;
        if node.name == inner.store.origin().name {
            return Err(Status::permission_denied("that is the name of this node"));
        }
        let proven = self
            .caller
            .node
            .as_ref()
            .is_none_or(|name| *name == node.name);
        match proven && inner.members.names().contains(&node.name) {
            true => Ok(()),
            false => Err(Status::permission_denied(
                "no node of the site has this name",
            )),
        }
    }
}

fn buckets(numbers: &[u32]) -> Result<BTreeSet<u8>, Status> {
    let buckets = numbers.iter().map(|number| u8::try_from(*number));
    buckets
        .collect::<Result<_, _>>()
        .map_err(|_| Status::invalid_argument("there are 256 buckets"))
}

/// A list in messages of bounded size.
fn batches<T, M>(mut list: Vec<T>, message: impl Fn(Vec<T>) -> M) -> Vec<Result<M, Status>> {
    let mut messages = Vec::new();
    while !list.is_empty() {
        let rest = list.split_off(list.len().min(LISTED));
        messages.push(Ok(message(list)));
        list = rest;
    }
    messages
}

fn malformed(error: RecordError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn claim_of(request: &wire::JournalRequest) -> Claim {
    Claim {
        began: request.began,
        is_taken_in: request.taken_in,
    }
}

/// Whether a node may follow the journal here. One that was forgotten is taken in again.
async fn admitted(
    members: &Members,
    name: &NodeName,
    claim: Claim,
    holds: &Vector,
) -> Result<(), Status> {
    match members.receive(name, claim, holds) {
        Reception::Member | Reception::Beginner => {
            members.take_in(name).await;
            Ok(())
        }
        Reception::Refused => Err(Status::failed_precondition(
            "this node was forgotten: it has to begin again",
        )),
    }
}

/// The denial of this node, which says in which incarnation it is.
fn not_held(store: &Store) -> Status {
    let mut status = Status::not_found("not held");
    if let Ok(node) = store.origin().to_string().parse() {
        status.metadata_mut().insert(INCARNATION, node);
    }
    status
}

fn failed(error: &StoreError) -> Status {
    tracing::error!(%error, "A question of a peer cannot be answered");
    Status::internal("the store failed")
}

//--- Followers

/// One stream of the journal to a peer.
struct Following {
    number: u64,
    server: Server,
    name: NodeName,
    /// The records sent of each origin, or those that the peer had.
    sent: Vector,
}
