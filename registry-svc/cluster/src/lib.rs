//! Several nodes, one content: leaderless replication, reads and uploads through any node.
//!
//! ```text
//!             records                     content
//! peer ──► feed ──► intake (core) ──► fetch ──► store        what others have stated and pushed
//!                      └── when all of it is here ──► store
//! store ──► server ──► peer                                  what this node holds, from its own disk
//! client ──► read_through ──► fetch ──► client and store     what is not here yet
//! client ──► proxy ──► peer                                  sessions that another node has
//! store ──► compare ──► intake, fetch                        what went wrong
//! ```
//!
//! Each node follows the journals of all others ([`feed`]) and applies a record when all the content
//! that it needs is here ([`registry_cluster_core::intake`]), so that a manifest that is visible can be pulled whole. A write
//! is acknowledged when enough nodes have it on disk ([`registry_cluster_core::acknowledge`]). Tags and deletions are
//! registers in which the last writer wins, so partitions heal without anyone deciding. A clock that is
//! wrong delays nothing and takes nothing from later writes ([`registry_cluster_core::clocks`]).
//!
//! No node waits for another to start: alone, this one serves and takes what it can and says so.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use daemon::connections::Connections;
use daemon::drain::Guard;
use daemon::node_tls::Identity;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::{Request, Response};
use node_certificate::Renewal;
use oci::digest::Digest;
use registry_facts::name::NodeName;
use registry_facts::record::{Position, Vector};
use registry_store::Store;
use registry_store::others::{Fetched, Others};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use self::compare::{CompareError, Comparison};
use self::counters::Counters;
use self::feed::Feed;
use self::fetch::Fetcher;
use self::members::Members;
use self::pace::BEAT;
use self::peer::Peer;
use self::server::Server;
use self::service::replication_client::ReplicationClient;
use self::settings::Settings;
use registry_cluster_core::acknowledge::{Acknowledgement, Followers, Mode};
use registry_cluster_core::buckets::Difference;
use registry_cluster_core::clocks::Fault;
use registry_cluster_core::intake::{Class, Limits};

pub mod compare;
pub mod counters;
mod feed;
mod fetch;
mod members;
mod pace;
mod peer;
pub mod proxy;
mod read_through;
mod server;
mod service;
pub mod settings;
#[cfg(test)]
mod tests;
mod throttle;

pub use daemon::node_tls::TlsError;
pub use fetch::Body;
pub use members::{Member, MemberError};
pub use read_through::Remote;
pub use server::Caller;

/// How often a write that waits looks whether a peer has fallen silent.
const LOOK: Duration = Duration::from_millis(250);

/// The nodes of a site that keep one content; clones share it.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    store: Store,
    members: Members,
    identity: Option<Arc<Identity>>,
    renewal: Option<Arc<Renewal>>,
    counters: Counters,
    fetcher: Fetcher,
    feed: Feed,
    server: Server,
    /// The tasks that hold streams: cancelled when the cluster is dropped.
    _tasks: JoinSet<()>,
}

impl Others for Cluster {
    fn has_heard_all(&self) -> bool {
        self.has_heard_all()
    }

    fn fetch<'a>(&'a self, digest: &'a Digest) -> Fetched<'a> {
        Box::pin(self.fetch(digest))
    }
}

impl Cluster {
    /// Begins to follow the peers. Needs a tokio runtime; nothing is listened on before
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// When the files that prove who this node is cannot be used.
    pub fn start(settings: Settings, store: Store) -> Result<Self, TlsError> {
        Self::start_with(settings, store, Limits::default())
    }

    fn start_with(settings: Settings, store: Store, limits: Limits) -> Result<Self, TlsError> {
        let identity = match &settings.tls {
            Some(files) => Some(Arc::new(Identity::read(&settings.node, files)?)),
            None => None,
        };
        let members = Members::new(&settings, &store, identity.as_ref());
        let counters = Counters::default();
        let fetcher = Fetcher::new(
            store.clone(),
            members.clone(),
            counters.clone(),
            settings.fetches,
            settings.rates.clone(),
        );
        let feed = Feed::new(
            store.clone(),
            fetcher.clone(),
            members.clone(),
            counters.clone(),
            settings.clock_bound,
            limits,
        );
        let followers = Followers::new(settings.acknowledge, members.peers().len());
        let renewal = renewal(&settings);
        let proofs = (identity.clone(), renewal.clone());
        let server = Server::new(store.clone(), members.clone(), proofs, followers);
        let mut tasks = JoinSet::new();
        if let Some(renewal) = renewal.clone() {
            tasks.spawn(renew(renewal, members.clone()));
        }
        tasks.spawn(feed.clone().beat());
        let comparison = Comparison {
            store: store.clone(),
            feed: feed.clone(),
            fetcher: fetcher.clone(),
            counters: counters.clone(),
        };
        let (following, interval) = (feed.clone(), settings.compare_interval);
        let begin = move |peer: &Arc<Peer>| {
            let mut tasks = JoinSet::new();
            tasks.spawn(following.clone().follow(Arc::clone(peer)));
            tasks.spawn(comparison.clone().run(Arc::clone(peer), interval));
            tasks
        };
        let (looking, counting) = (feed.clone(), server.clone());
        let looked = move |peers: &[Arc<Peer>]| {
            looking.keep(peers);
            counting.set_peers(peers);
        };
        let clocks = feed.clone();
        let clocks_agree = move || clocks.clock_fault().is_none();
        tasks.spawn(members.clone().watch(begin, looked, clocks_agree));
        Ok(Self(Arc::new(Inner {
            settings,
            store,
            members,
            identity,
            renewal,
            counters,
            fetcher,
            feed,
            server,
            _tasks: tasks,
        })))
    }

    /// The connections of the listeners for nodes.
    #[must_use]
    pub fn connections(&self) -> &Arc<Connections> {
        self.0.server.connections()
    }

    /// The certificate of this node; none without TLS.
    #[must_use]
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.0.identity.as_ref()
    }

    /// The certificate for clients that the nodes give each other.
    #[must_use]
    pub fn renewal(&self) -> Option<&Arc<Renewal>> {
        self.0.renewal.as_ref()
    }

    /// Serves the peers on a listener until the drain begins. Requests of clients that a peer
    /// forwards go to `passed_on`.
    ///
    /// # Errors
    /// When the runtime cannot take the listener.
    pub fn serve<H, F, B>(
        &self,
        listener: std::net::TcpListener,
        passed_on: H,
        guard: Guard,
    ) -> std::io::Result<()>
    where
        H: Fn(Request<Incoming>, Caller) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        tokio::spawn(self.0.server.clone().serve(listener, passed_on, guard));
        Ok(())
    }

    /// Reads the certificate files again, for new connections.
    ///
    /// # Errors
    /// When they cannot be used; those in force stay.
    pub fn reload(&self) -> Result<(), TlsError> {
        match &self.0.identity {
            Some(identity) => identity.reload(),
            None => Ok(()),
        }
    }

    /// Checks that the certificate files can be read again; changes nothing.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn check(&self) -> Result<(), TlsError> {
        check(&self.0.settings)
    }

    //--- Writes

    /// Whether a write could be acknowledged: asked before it is made, so that what a site refuses
    /// for the lack of a majority is not stored either.
    #[must_use]
    pub fn admits(&self) -> bool {
        let now = Instant::now().into_std();
        self.0.server.followers(|followers| followers.admits(now))
    }

    /// Waits until a write is on enough nodes, or no more can be waited for.
    pub async fn acknowledge(&self, position: &Position) -> Acknowledgement {
        let deadline = Instant::now() + self.0.settings.acknowledge_wait;
        let mut heard = self.0.server.heard();
        loop {
            heard.mark_unchanged();
            let time = Instant::now();
            let is_last = time >= deadline;
            let decided = self
                .0
                .server
                .followers(|followers| followers.decide(position, time.into_std(), is_last));
            if let Some(acknowledgement) = decided {
                self.0.counters.acknowledged(acknowledgement.outcome);
                return acknowledgement;
            }
            let look = (time + LOOK).min(deadline);
            // The sender is in the server, which lives as long as this.
            drop(tokio::time::timeout_at(look, heard.changed()).await);
        }
    }

    /// Whether all that the other nodes have acknowledged is known here, but for what is on its way:
    /// each is connected, this node has what it says it holds, and nothing waits for its content.
    #[must_use]
    pub fn has_heard_all(&self) -> bool {
        let holds = self.0.store.vector();
        let peers = self.peers();
        let mut peers = peers.iter();
        peers.all(|peer| is_heard(peer, &holds)) && self.0.feed.waiting().0 == 0
    }

    //--- Content

    /// Whether some peer that may be reached holds content, whatever repository has it.
    pub async fn has(&self, digest: &Digest) -> bool {
        let mut asked = JoinSet::new();
        for peer in self.peers().iter().filter(|peer| peer.may_answer()) {
            let mut client = peer.control();
            let request = registry_proto::HasRequest {
                digests: vec![digest.to_string()],
            };
            asked.spawn(async move {
                let answer = tokio::time::timeout(BEAT, client.has(request)).await;
                let held = answer.ok()?.ok()?.into_inner().held;
                held.first().map(|held| held.held)
            });
        }
        while let Some(answer) = asked.join_next().await {
            if answer.ok().flatten() == Some(true) {
                return true;
            }
        }
        false
    }

    /// Fetches content from a node that has it; true when it is here. The scrub uses it to repair
    /// damaged blobs.
    pub async fn fetch(&self, digest: &Digest) -> bool {
        let fetched = self.0.fetcher.fetch(digest, Class::Middle, None).await;
        fetched == fetch::TransferOutcome::Held
    }

    /// The fault of this node's clock, by those of the others.
    #[must_use]
    pub fn clock_fault(&self) -> Option<Fault> {
        self.0.feed.clock_fault()
    }

    //--- The nodes

    /// Takes a node in, also one that no configuration names; true when it was not one of the site's, or had
    /// another address.
    ///
    /// # Errors
    /// When it cannot be taken in.
    pub async fn add_node(
        &self,
        name: &NodeName,
        address: Option<&str>,
    ) -> Result<bool, MemberError> {
        self.0.members.add(name, address).await
    }

    /// Forgets a node: nothing waits for it any more, and it begins again should it come back. Without a
    /// majority of the known nodes only when `forced`. True unless it was forgotten already.
    ///
    /// # Errors
    /// When it must not be forgotten.
    pub async fn forget_node(&self, name: &NodeName, forced: bool) -> Result<bool, MemberError> {
        self.0.members.forget(name, forced).await
    }

    /// Whether the other nodes have forgotten this one: its journal is set aside at the next start.
    #[must_use]
    pub fn has_to_begin(&self) -> bool {
        self.0.members.has_to_begin()
    }

    //--- Views

    /// The differences between this node and another one.
    ///
    /// # Errors
    /// When they cannot be compared.
    pub async fn diff(&self, node: &str) -> Result<Vec<Difference>, CompareError> {
        let peers = self.peers();
        let peer = peers.iter().find(|peer| peer.name.as_str() == node);
        let peer = peer.ok_or_else(|| CompareError::NoPeer(node.to_owned()))?;
        let comparison = Comparison {
            store: self.0.store.clone(),
            feed: self.0.feed.clone(),
            fetcher: self.0.fetcher.clone(),
            counters: self.0.counters.clone(),
        };
        comparison.differences(peer).await
    }

    /// How the cluster is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let time = Instant::now().into_std();
        let holds = self.0.store.vector();
        let (n_waiting, missing) = self.0.feed.waiting();
        let followers = self.0.server.followers(|followers| {
            let followers = followers.reachable(time);
            let said = followers.map(|(name, follower)| {
                let lag = feed::behind(&follower.holds, &holds);
                (name.clone(), (lag, follower.waiting))
            });
            said.collect::<std::collections::BTreeMap<_, _>>()
        });
        let peers = self.peers();
        let now = pace::milliseconds(self.0.store.stated_time());
        let peers = peers.iter().map(|peer| {
            let known = peer.known();
            let follower = followers.get(&peer.name);
            PeerStatus {
                name: peer.name.clone(),
                address: peer.address().to_owned(),
                node: known.node.map(|node| node.to_string()),
                connected: peer.is_connected(),
                error: known.error,
                heard: known
                    .heard
                    .map(|heard| time.saturating_duration_since(heard)),
                behind: feed::behind(&holds, &known.holds),
                behind_since: known
                    .behind_since
                    .map(|since| time.saturating_duration_since(since)),
                clock: self
                    .0
                    .feed
                    .clock_of(&peer.name)
                    .filter(|difference| self.0.feed.is_beyond(*difference)),
                follows: follower.is_some(),
                lacks: follower.map(|(lag, _)| *lag),
                waits: follower.map_or(0, |(_, waiting)| *waiting),
                differences: known.differences,
                missing_blobs: known.missing_blobs,
                holds_deletion: !is_heard(peer, &holds),
            }
        });
        Status {
            node: self.0.store.origin().to_string(),
            acknowledge: self.0.settings.acknowledge,
            peers: peers.collect(),
            members: self.0.members.all(),
            now,
            has_to_begin: self.0.members.has_to_begin(),
            clock: self.0.feed.clock_fault(),
            waiting: n_waiting,
            missing,
            fetching: self.0.fetcher.n_flights(),
        }
    }

    /// The counters, to register with the daemon's metrics.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    //--- For the parts

    fn store(&self) -> &Store {
        &self.0.store
    }

    fn peers(&self) -> Vec<Arc<Peer>> {
        self.0.members.peers()
    }

    fn peer(&self, name: &NodeName) -> Option<Arc<Peer>> {
        self.0.members.peer(name)
    }

    fn fetcher(&self) -> &Fetcher {
        &self.0.fetcher
    }
}

/// Whether all that a node has acknowledged is known here, but for what is on its way.
fn is_heard(peer: &Peer, holds: &Vector) -> bool {
    peer.is_connected() && feed::behind(holds, &peer.known().holds) == 0
}

/// The certificates for clients that the nodes give each other, where a node has to prove who it is.
fn renewal(settings: &Settings) -> Option<Arc<Renewal>> {
    let (files, renewal) = (settings.tls.as_ref()?, settings.renewal.clone()?);
    let renewal = Renewal::new(settings.node.clone(), files.ca.clone(), renewal);
    Some(Arc::new(renewal))
}

/// Asks the other nodes for the certificate of this one when its end is near.
async fn renew(renewal: Arc<Renewal>, members: Members) {
    let others = || {
        let peers = members.peers();
        let peers = peers.iter();
        peers
            .map(|peer| (peer.name.to_string(), peer.control()))
            .collect()
    };
    let ask = |mut peer: ReplicationClient<Channel>| async move {
        let given = peer.certificate(registry_proto::CertificateRequest {});
        let given = given.await.map_err(|status| status.message().to_owned())?;
        Ok(given.into_inner().pem)
    };
    renewal.follow(others, ask).await;
}

/// Whether the files that prove who a node is can be used.
///
/// # Errors
/// When they cannot.
pub fn check(settings: &Settings) -> Result<(), TlsError> {
    match &settings.tls {
        Some(files) => Identity::read(&settings.node, files).map(drop),
        None => Ok(()),
    }
}

/// The handler of a node that takes no requests of clients from its peers.
pub async fn nowhere(_: Request<Incoming>, _: Caller) -> Response<tonic::body::Body> {
    std::future::ready(server::nowhere()).await
}

/// How the cluster is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This node in this life of its disk.
    pub node: String,
    /// How many nodes a write has to be on.
    pub acknowledge: Mode,
    /// The other nodes.
    pub peers: Vec<PeerStatus>,
    /// All nodes that were ever named, also those that were forgotten.
    pub members: Vec<Member>,
    /// The time that statements are stamped with, in milliseconds since 1970.
    pub now: u64,
    /// Whether the other nodes have forgotten this one: its journal is set aside at the next start.
    pub has_to_begin: bool,
    /// The fault of this node's clock.
    pub clock: Option<Fault>,
    /// Records that wait here for their content.
    pub waiting: usize,
    /// Content that could not be had, the first few, and how often it was tried.
    pub missing: Vec<(Digest, u32)>,
    /// Blobs on their way here.
    pub fetching: usize,
}

/// How a peer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name in the site.
    pub name: NodeName,
    /// Its address.
    pub address: String,
    /// Its identity in this life of its disk, after its first message.
    pub node: Option<String>,
    /// Whether this node follows its journal.
    pub connected: bool,
    /// Why not; empty while it does.
    pub error: String,
    /// How long ago it was heard.
    pub heard: Option<Duration>,
    /// Records it has and this node has not.
    pub behind: u64,
    /// For how long there have been any.
    pub behind_since: Option<Duration>,
    /// How far its clock is ahead of this node's, in milliseconds, when they differ by more than they may.
    pub clock: Option<i64>,
    /// Whether it follows this node's journal.
    pub follows: bool,
    /// Records this node has and it has not, while it follows.
    pub lacks: Option<u64>,
    /// Records that wait there for their content.
    pub waits: u64,
    /// Registers and blobs that differed at the last comparison.
    pub differences: u64,
    /// Blobs this node holds and it does not, at the last comparison.
    pub missing_blobs: u64,
    /// Whether sweeps keep content for it: it is not connected, or not all of its records are here.
    pub holds_deletion: bool,
}

/// The address of a caller without a certificate.
impl Caller {
    /// The caller's name for a log.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.node {
            Some(node) => node.as_str().to_owned(),
            None => SocketAddr::to_string(&self.address),
        }
    }
}
