//! Blobs of upstreams on their way here: one transfer per digest, however many wait for it.
//!
//! A flight is as fast as the upstream and the disk. Clients are served from a window of the newest
//! bytes; one that falls behind waits until the blob is on the disk, and is served from there. No
//! client gets the last piece before the digest is verified: a client sees a broken connection,
//! never a whole blob that is wrong.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use oci::digest::Digest;
use parking_lot::{Mutex, MutexGuard};
use registry_client::connection::ByteStream;
use registry_store::recent_bytes::{Piece, RecentBytes};
use registry_store::{Purpose, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

/// Pieces on their way to the disk or to a client. Each is at most a quarter of a mebibyte.
const PIECES: usize = 4;
/// Flights at once. Beyond them clients get "not found", and try elsewhere.
const MAX_FLIGHTS: usize = 256;

/// All flights.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    store: Store,
    by_digest: Arc<Mutex<BTreeMap<Digest, Arc<Flight>>>>,
}

/// One blob on its way.
#[derive(Debug)]
pub(super) struct Flight {
    digest: Digest,
    size: u64,
    progress: watch::Sender<Progress>,
    window: Mutex<RecentBytes>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    at: u64,
    landing: Option<TransferOutcome>,
}

/// How a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferOutcome {
    /// The blob is on the disk.
    Held,
    /// It is not.
    Failed,
}

impl Flights {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            by_digest: Arc::default(),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// The flight of a blob, begun with what `open` gives if there is none; none when there are too many.
    pub(super) fn begin<F>(&self, digest: Digest, size: u64, open: F) -> Option<Arc<Flight>>
    where
        F: Future<Output = io::Result<ByteStream>> + Send + 'static,
    {
        let mut flights = self.lock();
        if let Some(flight) = flights.get(&digest) {
            return Some(Arc::clone(flight));
        }
        if flights.len() >= MAX_FLIGHTS {
            return None;
        }
        let flight = Arc::new(Flight {
            digest,
            size,
            progress: watch::Sender::default(),
            window: Mutex::default(),
        });
        flights.insert(digest, Arc::clone(&flight));
        drop(flights);
        let (all, flying) = (self.clone(), Arc::clone(&flight));
        tokio::spawn(async move {
            let landing = all.fly(&flying, open).await;
            all.lock().remove(&digest);
            flying
                .progress
                .send_modify(|progress| progress.landing = Some(landing));
        });
        Some(flight)
    }

    async fn fly(
        &self,
        flight: &Arc<Flight>,
        open: impl Future<Output = io::Result<ByteStream>>,
    ) -> TransferOutcome {
        match self.store.held(&flight.digest).await {
            Ok(Some(_)) => return TransferOutcome::Held,
            Ok(None) => {}
            Err(_) => return TransferOutcome::Failed,
        }
        let body = match open.await {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(digest = %flight.digest, %error, "A blob of an upstream cannot be had");
                return TransferOutcome::Failed;
            }
        };
        let passing = Arc::clone(flight);
        let mut at = 0;
        let body = body.map(move |piece| {
            let piece = piece?;
            passing.arrived(at, &piece);
            at += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            Ok(piece)
        });
        let size = Some(flight.size);
        match self.store.ingest(&flight.digest, size, body).await {
            Ok(_) => TransferOutcome::Held,
            Err(StoreError::DigestMismatch { actual }) => {
                tracing::error!(digest = %flight.digest, %actual, "An upstream's blob is not what its digest says");
                TransferOutcome::Failed
            }
            Err(error) => {
                let error = daemon::exit::chain(&error);
                tracing::warn!(digest = %flight.digest, error, "A blob of an upstream is not stored");
                TransferOutcome::Failed
            }
        }
    }

    /// A part of a blob that flies, for a client.
    pub(super) fn follow(&self, flight: Arc<Flight>, part: Range<u64>) -> ByteStream {
        let (sender, body) = mpsc::channel(PIECES);
        let mut reader = Reader {
            store: self.store.clone(),
            at: part.start,
            end: part.end.min(flight.size),
            flight,
            sender,
        };
        tokio::spawn(async move {
            if let Err(error) = reader.run().await {
                // The client may be gone already.
                drop(reader.sender.send(Err(error)).await);
            }
        });
        Box::pin(ReceiverStream::new(body))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Arc<Flight>>> {
        self.by_digest.lock()
    }
}

impl Flight {
    /// How many octets the blob has.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Waits until it has ended.
    pub(super) async fn landed(&self) -> TransferOutcome {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.landing.is_some());
        let landing = ended.await.ok().and_then(|progress| progress.landing);
        landing.unwrap_or(TransferOutcome::Failed)
    }

    /// Keeps a piece for those who wait, and tells them.
    fn arrived(&self, at: u64, piece: &Bytes) {
        self.window().push(at, piece);
        let end = at + u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.progress.send_modify(|progress| progress.at = end);
    }

    fn piece(&self, at: u64) -> Piece {
        self.window().at(at)
    }

    fn window(&self) -> MutexGuard<'_, RecentBytes> {
        self.window.lock()
    }
}

/// Serves one client.
struct Reader {
    store: Store,
    flight: Arc<Flight>,
    at: u64,
    end: u64,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Reader {
    async fn run(&mut self) -> io::Result<()> {
        let flight = Arc::clone(&self.flight);
        let mut progress = flight.progress.subscribe();
        while self.at < self.end {
            let landing = progress.borrow_and_update().landing;
            match landing {
                Some(TransferOutcome::Held) => return self.read_disk().await,
                Some(TransferOutcome::Failed) => return Err(broken()),
                None => {}
            }
            match flight.piece(self.at) {
                Piece::Here(piece) => {
                    let end = self.at + u64::try_from(piece.len()).unwrap_or(u64::MAX);
                    if end >= flight.size && flight.landed().await == TransferOutcome::Failed {
                        return Err(broken());
                    }
                    self.send(piece).await?;
                }
                Piece::NotYet => {
                    progress.changed().await.map_err(|_| broken())?;
                }
                Piece::Gone => match flight.landed().await {
                    TransferOutcome::Held => {}
                    TransferOutcome::Failed => return Err(broken()),
                },
            }
        }
        Ok(())
    }

    async fn read_disk(&mut self) -> io::Result<()> {
        let opened = self
            .store
            .read(&self.flight.digest, self.at..self.end, Purpose::Pull)
            .await;
        let mut pieces = opened.map_err(io::Error::other)?;
        while let Some(piece) = pieces.next().await {
            self.send(piece?).await?;
        }
        Ok(())
    }

    async fn send(&mut self, mut piece: Bytes) -> io::Result<()> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        piece.truncate(left);
        self.at += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let sent = self.sender.send(Ok(piece)).await;
        sent.map_err(|_| io::Error::other("the client is gone"))
    }
}

fn broken() -> io::Error {
    io::Error::other("the content could not be had whole")
}
