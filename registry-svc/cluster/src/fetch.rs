//! Content from other nodes: one transfer per digest, however many wait for it.
//!
//! A transfer is a *flight*. Its octets go to the store, which checks the digest before the blob is
//! visible, and past a window of what came last, from which clients that wait for the same blob are
//! served while it flies. A peer that fails in the middle is followed by another one at the offset
//! that was reached.
//!
//! A client that joins late, or reads slower than the disk writes, finds the window gone; it
//! continues from a peer, or from the disk once the flight has landed. No client gets the last
//! piece of a blob before the digest is verified: a client sees a broken connection, never a whole
//! blob that is wrong.

mod reader;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oci::digest::Digest;
use parking_lot::{Mutex, MutexGuard};
use registry_cluster_core::intake::Class;
use registry_facts::name::NodeName;
use registry_proto as wire;
use registry_store::recent_bytes::{Piece, RecentBytes};
use registry_store::{Store, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::counters::Counters;
use super::members::Members;
use super::peer::Peer;
use super::throttle::{Rates, Throttle};

/// Pieces on their way to the disk or to a client. Each is at most a quarter of a mebibyte, so a slow
/// reader holds one mebibyte.
const PIECES: usize = 4;

/// Small blobs on their way here in the background at a time: some mebibytes.
const SMALL_FLIGHTS: usize = 8;

/// Rounds through the peers without any data before a flight ends; a request that still needs the
/// content begins another one.
const IDLE_ROUNDS: u32 = 3;

/// Between two rounds.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// A peer that sends nothing for this long has failed; the next one takes over.
const STALLED: Duration = Duration::from_secs(20);

/// Copies known to be bad. More are a broken disk, which the scrub of that node finds.
const MAX_SUSPECTS: usize = 1024;

/// A stream of a blob's octets for a client.
pub type Body = ReceiverStream<io::Result<Bytes>>;

/// How a flight ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransferOutcome {
    /// The blob is here.
    Held,
    /// All reachable peers lack it, and no peer that should have it was left out.
    Denied,
    /// A peer could not be reached, or failed.
    Unreachable,
    /// The received bytes do not match the digest.
    Corrupt,
    /// It cannot be stored here.
    NoRoom,
}

impl TransferOutcome {
    /// Its name in metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Denied => "denied",
            Self::Unreachable => "unreachable",
            Self::Corrupt => "corrupt",
            Self::NoRoom => "no_room",
        }
    }
}

/// Brings content here.
#[derive(Clone, Debug)]
pub(super) struct Fetcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    members: Members,
    counters: Counters,
    throttle: Throttle,
    slots: FlightSlots,
    flights: Mutex<BTreeMap<Digest, Arc<Flight>>>,
    /// Copies that were not what they should be: asked last.
    suspects: Mutex<BTreeSet<(NodeName, Digest)>>,
}

/// The slots of flights in the background.
#[derive(Debug)]
struct FlightSlots {
    small: Arc<Semaphore>,
    all: Arc<Semaphore>,
    /// Large ones leave half of all slots to others.
    large: Arc<Semaphore>,
}

impl FlightSlots {
    fn new(n_flights: usize) -> Self {
        let places = |n_places: usize| Arc::new(Semaphore::new(n_places.max(1)));
        Self {
            small: places(SMALL_FLIGHTS),
            all: places(n_flights),
            large: places(n_flights / 2),
        }
    }

    /// Waits for a place; it is given back with the result.
    async fn take(&self, class: Class) -> Vec<OwnedSemaphorePermit> {
        let needed: &[&Arc<Semaphore>] = match class {
            Class::Small => &[&self.small],
            Class::Middle => &[&self.all],
            Class::Large => &[&self.large, &self.all],
        };
        let mut taken = Vec::new();
        for places in needed {
            taken.extend(Arc::clone(places).acquire_owned().await.ok());
        }
        taken
    }
}

/// One blob on its way here.
#[derive(Debug)]
struct Flight {
    class: Class,
    progress: watch::Sender<Progress>,
    window: Mutex<RecentBytes>,
    /// A client waits: no place is needed, and no rate limits it.
    urgent: watch::Sender<bool>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// How many octets have come.
    at: u64,
    /// How it ended.
    landing: Option<TransferOutcome>,
}

impl Fetcher {
    pub(super) fn new(
        store: Store,
        members: Members,
        counters: Counters,
        fetches: usize,
        rates: Rates,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            members,
            counters,
            throttle: Throttle::new(rates),
            slots: FlightSlots::new(fetches),
            flights: Mutex::default(),
            suspects: Mutex::default(),
        }))
    }

    /// Brings a blob here; returns when it is on the disk, or why it is not. `first` is the peer
    /// that is likeliest to have it.
    pub(super) async fn fetch(
        &self,
        digest: &Digest,
        class: Class,
        first: Option<&NodeName>,
    ) -> TransferOutcome {
        let flight = self.flight(digest, class, first, false);
        flight.landed().await
    }

    /// Has a blob brought here without waiting for it.
    pub(super) fn begin(&self, digest: &Digest, first: Option<&NodeName>) {
        if self.0.store.is_on_read_only_disk() {
            return;
        }
        drop(self.flight(digest, Class::Middle, first, false));
    }

    /// A part of a blob, from the disk if it is here by now, else while it is brought here.
    pub(super) async fn open(
        &self,
        digest: &Digest,
        size: u64,
        part: Range<u64>,
        first: &NodeName,
    ) -> Body {
        let (sender, body) = mpsc::channel(PIECES);
        let from = match self.0.store.held(digest).await {
            Ok(Some(_)) => Origin::Disk,
            Ok(None) if !self.0.store.is_on_read_only_disk() => {
                Origin::Flight(self.flight(digest, Class::of(size), Some(first), true))
            }
            // Nothing can be stored here.
            Ok(None) | Err(_) => Origin::Peer,
        };
        let reader = Reader {
            fetcher: self.clone(),
            digest: *digest,
            size,
            at: part.start,
            end: part.end.min(size),
            first: first.clone(),
            sender,
        };
        tokio::spawn(reader.run(from));
        ReceiverStream::new(body)
    }

    /// The peers that content comes from.
    pub(super) fn peers(&self) -> Vec<Arc<Peer>> {
        self.0.members.peers()
    }

    /// How many blobs are on their way here.
    pub(super) fn n_flights(&self) -> usize {
        self.flights().len()
    }

    /// The flight of a digest, begun if there is none.
    fn flight(
        &self,
        digest: &Digest,
        class: Class,
        first: Option<&NodeName>,
        urgent: bool,
    ) -> Arc<Flight> {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(digest) {
            if urgent {
                flight.urgent.send_replace(true);
            }
            return Arc::clone(flight);
        }
        let flight = Arc::new(Flight {
            class,
            progress: watch::Sender::default(),
            window: Mutex::default(),
            urgent: watch::Sender::new(urgent),
        });
        flights.insert(*digest, Arc::clone(&flight));
        drop(flights);
        let (fetcher, digest, first) = (self.clone(), *digest, first.cloned());
        let flying = Arc::clone(&flight);
        tokio::spawn(async move {
            let landing = fetcher.fly(&flying, &digest, first.as_ref()).await;
            fetcher.0.counters.landed(landing.name());
            fetcher.flights().remove(&digest);
            flying
                .progress
                .send_modify(|progress| progress.landing = Some(landing));
        });
        flight
    }

    async fn fly(
        &self,
        flight: &Arc<Flight>,
        digest: &Digest,
        first: Option<&NodeName>,
    ) -> TransferOutcome {
        let mut urgent = flight.urgent.subscribe();
        let _place = tokio::select! {
            place = self.0.slots.take(flight.class) => place,
            _ = urgent.wait_for(|urgent| *urgent) => Vec::new(),
        };
        match self.0.store.held(digest).await {
            Ok(Some(_)) => return TransferOutcome::Held,
            Ok(None) if !self.0.store.is_on_read_only_disk() => {}
            Ok(None) | Err(_) => return TransferOutcome::NoRoom,
        }
        let (pieces, body) = mpsc::channel(PIECES);
        let mut transfer = Transfer {
            fetcher: self.clone(),
            flight: Arc::clone(flight),
            digest: *digest,
            pieces,
            at: 0,
            size: None,
            report: Report::default(),
        };
        let candidates = self.candidates(digest, first);
        // The size is known with the first message, and with it the room that has to be made.
        let Some(opened) = transfer.open_any(&candidates).await else {
            return self.verdict(&transfer.report, first);
        };
        let length = transfer.size;
        let pump = tokio::spawn(async move {
            transfer.pump(opened, &candidates).await;
            // The store's stream ends with the rest of the transfer.
            let Transfer { report, .. } = transfer;
            report
        });
        let ingested = self
            .0
            .store
            .ingest(digest, length, ReceiverStream::new(body))
            .await;
        let report = pump.await.unwrap_or_default();
        match ingested {
            Ok(_) => TransferOutcome::Held,
            Err(StoreError::DigestMismatch { actual }) => {
                self.suspect(digest, &actual, report.sources);
                TransferOutcome::Corrupt
            }
            Err(StoreError::Body(_)) => self.verdict(&report, first),
            Err(error) => {
                tracing::warn!(%digest, %error, "Content of a peer cannot be stored");
                TransferOutcome::NoRoom
            }
        }
    }

    /// The peers in the order of requests: the likeliest, then the reachable ones, then those whose
    /// copy was bad.
    fn candidates(&self, digest: &Digest, first: Option<&NodeName>) -> Vec<Arc<Peer>> {
        let suspects = self.suspects();
        let mut peers = self.peers();
        peers.sort_by_key(|peer| {
            (
                suspects.contains(&(peer.name.clone(), *digest)),
                !peer.is_connected(),
                Some(&peer.name) != first,
            )
        });
        peers
    }

    /// The outcome of an incomplete transfer.
    fn verdict(&self, report: &Report, first: Option<&NodeName>) -> TransferOutcome {
        let peers = self.peers();
        let asked = match first {
            Some(first) => report.denied.contains(first),
            None => report.denied.len() == peers.len(),
        };
        let mut reachable = peers.iter().filter(|peer| peer.is_connected());
        match asked && reachable.all(|peer| report.denied.contains(&peer.name)) {
            true => TransferOutcome::Denied,
            false => TransferOutcome::Unreachable,
        }
    }

    fn suspect(&self, digest: &Digest, actual: &Digest, sources: BTreeSet<NodeName>) {
        for peer in &sources {
            tracing::error!(%digest, %actual, peer = peer.as_str(), "A peer's copy is not what its digest says");
        }
        let mut suspects = self.suspects();
        if suspects.len() >= MAX_SUSPECTS {
            suspects.clear();
        }
        suspects.extend(sources.into_iter().map(|peer| (peer, *digest)));
    }

    fn flights(&self) -> MutexGuard<'_, BTreeMap<Digest, Arc<Flight>>> {
        self.0.flights.lock()
    }

    fn suspects(&self) -> MutexGuard<'_, BTreeSet<(NodeName, Digest)>> {
        self.0.suspects.lock()
    }
}

impl Flight {
    async fn landed(&self) -> TransferOutcome {
        let mut progress = self.progress.subscribe();
        let landed = progress
            .wait_for(|progress| progress.landing.is_some())
            .await;
        let landing = landed.ok().and_then(|progress| progress.landing.clone());
        landing.unwrap_or(TransferOutcome::Unreachable)
    }

    /// Keeps a piece for those who wait, and tells them.
    fn arrived(&self, at: u64, piece: &Bytes) {
        self.window().push(at, piece);
        let end = at + piece.len() as u64;
        self.progress.send_modify(|progress| progress.at = end);
    }

    fn piece(&self, at: u64) -> Piece {
        self.window().at(at)
    }

    fn window(&self) -> MutexGuard<'_, RecentBytes> {
        self.window.lock()
    }
}

//--- From the peers to the disk

/// An answer that has begun.
struct Opened {
    from: NodeName,
    first: Bytes,
    rest: tonic::Streaming<wire::FetchResponse>,
}

/// The side of a flight that reads from peers.
struct Transfer {
    fetcher: Fetcher,
    flight: Arc<Flight>,
    digest: Digest,
    pieces: mpsc::Sender<io::Result<Bytes>>,
    at: u64,
    size: Option<u64>,
    report: Report,
}

/// The responses of the peers.
#[derive(Debug, Default)]
struct Report {
    /// Those that say they have none.
    denied: BTreeSet<NodeName>,
    /// Those that have sent any of it.
    sources: BTreeSet<NodeName>,
}

//--- From a flight to a client

/// The origin of a client's content.
enum Origin {
    /// It is here.
    Disk,
    /// It is on its way here.
    Flight(Arc<Flight>),
    /// It cannot be stored here.
    Peer,
}

/// Serves one client a part of a blob that may still be on its way.
struct Reader {
    fetcher: Fetcher,
    digest: Digest,
    size: u64,
    at: u64,
    end: u64,
    first: NodeName,
    sender: mpsc::Sender<io::Result<Bytes>>,
}
