//! Passes updates (RFC 2136) to the publisher, and responds when they are carried out.
//!
//! ```text
//! UDP threads ─► queue ─► Updates ─► publisher
//! streams ────────────────┘  │          │
//!        ◄── response ◄──────┴──── code ┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use daemon::run::Predecessor;
use daemon::udp::ReturnPath;
use dns_wire::{Rcode, Session};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::publisher::{Asked, Command};
use crate::signed;

/// The most updates over UDP that wait to be taken.
const QUEUE: usize = 256;
/// How long updates wait for the end of another process that takes them too. One whose end does not show is not waited for any
/// longer.
const OVERLAP: Duration = Duration::from_secs(15);
/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);

/// The counts of updates, by what became of them.
#[derive(Debug, Default)]
pub struct Counts {
    /// Carried out.
    pub carried_out: AtomicU64,
    /// A prerequisite was not met.
    pub unmet: AtomicU64,
    /// Not allowed, or not possible.
    pub refused: AtomicU64,
    /// Not carried out because of this server.
    pub failed: AtomicU64,
}

/// The message of an update, to be responded to.
#[derive(Debug)]
pub struct Response {
    message: Box<[u8]>,
    session: Session,
}

impl Response {
    /// To this message, signed by this session.
    #[must_use]
    pub fn new(message: &[u8], session: Session) -> Self {
        Self {
            message: message.into(),
            session,
        }
    }

    fn with(mut self, rcode: Rcode) -> Vec<u8> {
        let mut out = vec![0; 1024];
        let length = dns_answer::respond_with(&self.message, rcode, &mut out);
        let length = length.and_then(|length| self.session.sign(&mut out, length, signed::now()));
        out.truncate(length.unwrap_or(0));
        out
    }
}

/// Takes updates; clones share the queue.
#[derive(Clone, Debug)]
pub struct Updates {
    publisher: SyncSender<Command>,
    datagrams: mpsc::Sender<(Asked, Response, ReturnPath)>,
    counts: Arc<Counts>,
    /// Whether this process is the one that carries out updates.
    is_open: watch::Receiver<bool>,
    /// The updates under way.
    under_way: Arc<AtomicUsize>,
}

impl Updates {
    /// Starts the task that takes updates over UDP. While a predecessor carries out updates, this process does not: each of the
    /// two would undo what the other has done. At its end its updates are read from the disk.
    #[must_use]
    pub fn start(
        publisher: SyncSender<Command>,
        predecessor: &Predecessor,
        counts: &Arc<Counts>,
    ) -> Self {
        let (datagrams, mut queue) = mpsc::channel(QUEUE);
        let (open, is_open) = watch::channel(!predecessor.may_serve());
        let updates = Self {
            publisher: publisher.clone(),
            datagrams,
            counts: Arc::clone(counts),
            is_open,
            under_way: Arc::default(),
        };
        let predecessor = predecessor.clone();
        tokio::spawn(async move {
            if predecessor.may_serve() {
                drop(tokio::time::timeout(OVERLAP, predecessor.end()).await);
                renew(&publisher).await;
                open.send_replace(true);
            }
            // A receiver takes a sender that is gone for the end.
            open.closed().await;
        });
        let taker = updates.clone();
        let places = Arc::new(Semaphore::new(QUEUE));
        tokio::spawn(async move {
            while let Some((asked, response, path)) = queue.recv().await {
                // Those beyond wait in the queue.
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                let taker = taker.clone();
                tokio::spawn(async move {
                    if let Some(reply) = taker.carry_out(asked, response).await
                        && let Err(error) = path.send(&reply)
                    {
                        tracing::debug!(peer = %path.peer(), %error, "Cannot respond to an update");
                    }
                    taker.under_way.fetch_sub(1, Ordering::AcqRel);
                    drop(place);
                });
            }
        });
        updates
    }

    /// Takes updates and drops them.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self {
            publisher: std::sync::mpsc::sync_channel(0).0,
            datagrams: mpsc::channel(1).0,
            counts: Arc::default(),
            is_open: watch::channel(true).1,
            under_way: Arc::default(),
        }
    }

    /// Takes an update that came over UDP. One that finds no room gets no response: its client sends it again.
    pub fn take(&self, asked: Asked, response: Response, path: ReturnPath) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        if let Err(error) = self.datagrams.try_send((asked, response, path)) {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!(%error, "Update is dropped");
        }
    }

    /// Whether every update that came over UDP has its response.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Has an update carried out; the response to its client. `None` when this process ends before: a client that hears nothing
    /// sends the update again, to the next one.
    pub async fn carry_out(&self, asked: Asked, response: Response) -> Option<Vec<u8>> {
        let mut is_open = self.is_open.clone();
        let opened = is_open.wait_for(|is_open| *is_open);
        drop(tokio::time::timeout(OVERLAP + OVERLAP, opened).await);
        let (done, rcode) = oneshot::channel();
        let command = Command::Update(Box::new(asked), done);
        let rcode = match self.publisher.try_send(command) {
            Ok(()) => rcode.await.ok()?,
            // It is busy.
            Err(TrySendError::Full(_)) => Rcode::SERVFAIL,
            Err(TrySendError::Disconnected(_)) => return None,
        };
        let count = match rcode {
            Rcode::NOERROR => &self.counts.carried_out,
            Rcode::NXDOMAIN | Rcode::YXDOMAIN | Rcode::NXRRSET | Rcode::YXRRSET => {
                &self.counts.unmet
            }
            Rcode::SERVFAIL => &self.counts.failed,
            _ => &self.counts.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some(response.with(rcode))
    }
}

/// Has the publisher read the updates that another process has carried out.
async fn renew(publisher: &SyncSender<Command>) {
    let (done, renewed) = oneshot::channel();
    let mut command = Command::Renew(done);
    while let Err(TrySendError::Full(returned)) = publisher.try_send(command) {
        command = returned;
        tokio::time::sleep(RETRY).await;
    }
    // It ends before only if the publisher has.
    drop(renewed.await);
}
