//! The contract's service: `Watch`.
//!
//! Each stream has one task: it sends the whole picture, and then the differences to what it has sent. A subscriber that reads
//! slowly delays no other: it gets all changes in between as one difference. The task ends with the stream, or when the daemon
//! drains.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cluster::Snapshot;
use daemon::accept::Acceptor;
use daemon::calendar::Timestamp;
use daemon::connections::{Connections, Opening, Policy, Table};
use daemon::drain::Guard;
use daemon::latest::Reader;
use parking_lot::Mutex;
use proto::cluster::pieces;
use proto::incoming;
use proto::watch::MAX_MESSAGE;
use proto::wire::cluster as wire;
use proto::wire::cluster::cluster_server::{Cluster, ClusterServer};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::publisher::Publisher;

/// Pieces that wait for a subscriber to read.
const PIECE_QUEUE: usize = 2;
/// Open streams. Every service of a node has one; this many are a mistake somewhere.
const MAX_SUBSCRIBERS: usize = 256;
/// Connections at a time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 2 * MAX_SUBSCRIBERS;
/// A subscriber's name is shown, never parsed.
const MAX_NAME: usize = 64;
/// The interval of pings to a silent subscriber, and the time limit of its answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The open streams; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    shared: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    streams: BTreeMap<u64, Subscriber>,
}

/// An open stream.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// Its name.
    pub name: String,
    /// The generation that it was sent.
    pub generation: u64,
    /// When it subscribed.
    pub since: Timestamp,
}

impl Subscribers {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().streams.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Subscriber> {
        self.shared.lock().streams.values().cloned().collect()
    }

    fn open(&self, name: String) -> Option<Entry> {
        let mut open = self.shared.lock();
        if open.streams.len() >= MAX_SUBSCRIBERS {
            return None;
        }
        open.last += 1;
        let number = open.last;
        let subscriber = Subscriber {
            name,
            generation: 0,
            since: Timestamp::now(),
        };
        open.streams.insert(number, subscriber);
        drop(open);
        Some(Entry {
            subscribers: self.clone(),
            number,
        })
    }
}

/// The entry of a stream, which is removed when it is dropped.
struct Entry {
    subscribers: Subscribers,
    number: u64,
}

impl Entry {
    fn sent(&self, generation: u64) {
        let mut open = self.subscribers.shared.lock();
        if let Some(subscriber) = open.streams.get_mut(&self.number) {
            subscriber.generation = generation;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.subscribers.shared.lock().streams.remove(&self.number);
    }
}

/// Serves the contract.
#[derive(Clone, Debug)]
pub struct ClusterApi {
    publisher: Publisher,
    subscribers: Subscribers,
    guard: Guard,
}

impl ClusterApi {
    /// Serves the snapshots of a publisher until the drain begins.
    #[must_use]
    pub const fn new(publisher: Publisher, subscribers: Subscribers, guard: Guard) -> Self {
        Self {
            publisher,
            subscribers,
            guard,
        }
    }

    /// Serves at a socket; needs a tokio runtime.
    pub fn serve(self, listener: UnixListener, table: &Table) {
        let guard = self.guard.clone();
        let service = ClusterServer::new(self).max_encoding_message_size(MAX_MESSAGE);
        let router = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .add_service(service);
        let connections = Connections::new("subscribers", Policy::of(MAX_CONNECTIONS));
        table.add(&connections);
        let acceptor = Acceptor::new(connections, Opening::Request);
        incoming::serve(router, listener, acceptor, &guard);
    }
}

type Pieces = Pin<Box<dyn Stream<Item = Result<wire::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Cluster for ClusterApi {
    type WatchStream = Pieces;

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Pieces>, Status> {
        let mut name = request.into_inner().subscriber;
        name.retain(|letter| !letter.is_control());
        let name = name.chars().take(MAX_NAME).collect();
        let Some(entry) = self.subscribers.open(name) else {
            return Err(Status::resource_exhausted("too many subscribers"));
        };
        let (sender, queue) = mpsc::channel(PIECE_QUEUE);
        let session = Session {
            snapshots: self.publisher.reader(),
            sender,
            guard: self.guard.clone(),
            entry,
        };
        tokio::spawn(session.run());
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }
}

/// The task of one stream.
struct Session {
    snapshots: Reader<Snapshot>,
    sender: mpsc::Sender<Result<wire::WatchResponse, Status>>,
    guard: Guard,
    entry: Entry,
}

/// The subscriber has gone, or the daemon drains.
struct Over;

impl Session {
    async fn run(mut self) {
        let mut sent: Option<Arc<Snapshot>> = None;
        loop {
            let snapshot = self.snapshots.shared();
            let difference = snapshot.difference_from(sent.as_deref());
            for piece in pieces(&difference) {
                if self.send(piece).await.is_err() {
                    return;
                }
            }
            self.entry.sent(snapshot.generation);
            sent = Some(snapshot);
            tokio::select! {
                () = self.snapshots.changed() => {}
                () = self.sender.closed() => return,
                () = self.guard.asked() => return,
            }
        }
    }

    async fn send(&mut self, piece: wire::WatchResponse) -> Result<(), Over> {
        tokio::select! {
            sent = self.sender.send(Ok(piece)) => sent.map_err(|_| Over),
            () = self.guard.asked() => Err(Over),
        }
    }
}
