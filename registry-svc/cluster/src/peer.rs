//! Another node, and the connections to it.
//!
//! Three connections: bulk transfers must delay neither short requests nor small content, which gets its share of
//! the link beside them. Each is made when first needed and again after it broke.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::service::replication_client::ReplicationClient;
use daemon::node_tls::Identity;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use registry_cluster_core::intake::Class;
use registry_facts::name::NodeName;
use registry_facts::record::{NodeId, Vector};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::settings::PeerSettings;

/// A connection attempt that takes longer has failed: peers are one switch away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of keep-alive pings to a silent peer, and the time that it has to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(3);

/// The bytes in flight to this node on one stream: enough for 10 Gbit/s over 3 ms.
pub(super) const STREAM_WINDOW: u32 = 4 << 20;

/// The same for a whole connection.
pub(super) const CONNECTION_WINDOW: u32 = 16 << 20;

/// The largest message either side takes: a journal message of many records, or a piece of a blob.
pub(super) const MAX_MESSAGE: usize = 32 << 20;

/// The metadata of a denial: the node that denies, in its incarnation.
pub(super) const INCARNATION: &str = "outpost-incarnation";

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: NodeName,
    address: String,
    control: Channel,
    small: Channel,
    bulk: Channel,
    /// Whether its journal is being followed.
    connected: AtomicBool,
    known: Mutex<Known>,
}

/// The state of a peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Its identity in this life of its disk.
    pub(super) node: Option<NodeId>,
    /// The records that it holds.
    pub(super) holds: Vector,
    /// When it had last caught up with a majority, as it says.
    pub(super) together: u64,
    /// Since when it has had records that this node has not; none while it has none.
    pub(super) behind_since: Option<Instant>,
    /// When it was last heard of.
    pub(super) heard: Option<Instant>,
    /// Why it is not connected; empty while it is.
    pub(super) error: String,
    /// Referenced blobs that this node holds and the peer does not, at the last comparison.
    pub(super) missing_blobs: u64,
    /// Registers and blobs that differed at the last comparison.
    pub(super) differences: u64,
}

impl Peer {
    pub(super) fn new(settings: &PeerSettings, identity: Option<&Arc<Identity>>) -> Self {
        // Never resolved: the connector knows where to go.
        let uri = Uri::builder()
            .scheme("http")
            .authority(settings.name.as_str())
            .path_and_query("/")
            .build()
            .unwrap_or_default();
        let channel = || {
            let connector = Connector {
                address: settings.address.to_string(),
                name: settings.name.clone(),
                identity: identity.map(Arc::clone),
            };
            Endpoint::from(uri.clone())
                .connect_timeout(CONNECT_TIMEOUT)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .connect_with_connector_lazy(connector)
        };
        Self {
            name: settings.name.clone(),
            address: settings.address.to_string(),
            control: channel(),
            small: channel(),
            bulk: channel(),
            connected: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Its address, unless it is known by a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        let address: SocketAddr = self.address.parse().ok()?;
        Some(address.ip().to_canonical())
    }

    /// For what others wait for.
    pub(super) fn control(&self) -> ReplicationClient<Channel> {
        ReplicationClient::new(self.control.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// For content of a class.
    pub(super) fn content(&self, class: Class) -> ReplicationClient<Channel> {
        let channel = match class {
            Class::Small => &self.small,
            Class::Middle | Class::Large => &self.bulk,
        };
        ReplicationClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// For requests of clients that this node passes on.
    pub(super) fn channel(&self) -> Channel {
        self.bulk.clone()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Whether it is worth waiting for: it is connected, or no attempt to connect has failed yet.
    /// Clients pull images from a node that has just started before it has met the others.
    pub(super) fn may_answer(&self) -> bool {
        self.is_connected() || self.lock().error.is_empty()
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Release);
    }

    pub(super) fn known(&self) -> Known {
        self.lock().clone()
    }

    pub(super) fn learn(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// Makes the connections of one peer.
#[derive(Clone, Debug)]
struct Connector {
    address: String,
    name: NodeName,
    identity: Option<Arc<Identity>>,
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Service<Uri> for Connector {
    type Response = TokioIo<Pin<Box<dyn Stream>>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(&connector.address).await?;
            stream.set_nodelay(true)?;
            let stream: Pin<Box<dyn Stream>> = match &connector.identity {
                None => Box::pin(stream),
                Some(identity) => Box::pin(identity.connect(stream, &connector.name).await?),
            };
            Ok(TokioIo::new(stream))
        })
    }
}
