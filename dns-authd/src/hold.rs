//! Queries that wait: no target behind their answer has been probed yet.
//!
//! healthd probes a new target at once, so the first results arrive within a few milliseconds after a zone
//! was loaded, and a right answer is worth that wait. A query waits for a snapshot that lets it be
//! answered, and at most the configured time; then it gets the best answer there is, with a short TTL, and
//! no later query for that set waits.
//!
//! One thread, one bounded queue. When it is full a query is answered at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::latest::{Latest, Reader};
use daemon::random;
use daemon::udp::ReturnPath;
use dns_answer::{Client, Responder, Snapshot, Transport, Verdict};
use dns_views::ZoneId;

use crate::metrics::{ThreadTotals, Totals};
use crate::publisher::Command;
use crate::signed;
use dns_programs::LuaPrograms;

/// The most queries that wait: a burst of first queries after a start, and 4 MiB at most.
const QUEUE: usize = 1024;
/// The interval of checks for a new snapshot, while queries wait.
const POLL: Duration = Duration::from_millis(2);

/// A query that waits.
#[derive(Debug)]
pub struct Waiting {
    /// The query.
    pub message: Box<[u8]>,
    /// The way back to the client.
    pub path: ReturnPath,
    /// The address it came to.
    pub local: Option<IpAddr>,
    /// The port it came to.
    pub local_port: u16,
    /// The zone of the live set it waits for.
    pub zone: ZoneId,
    /// The live set.
    pub set: u32,
}

/// The queue of queries that wait; clones share it. The thread ends with the last clone.
#[derive(Clone, Debug)]
pub struct Hold {
    queue: SyncSender<Waiting>,
    count: Arc<AtomicU64>,
}

impl Hold {
    /// Starts the thread; it ends after every waiting query has its answer.
    pub fn start(
        cell: Arc<Latest<Snapshot>>,
        publisher: SyncSender<Command>,
        limit: Duration,
        totals: &Totals,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, waiting) = sync_channel(QUEUE);
        let room = Room {
            cell,
            publisher,
            limit,
            responder: Responder::new(LuaPrograms, random::seed()),
            held: Vec::new(),
            out: vec![0; 65_535],
            totals: totals.add_thread(),
        };
        let thread = thread::Builder::new()
            .name("hold".to_owned())
            .spawn(move || room.run(&waiting))?;
        let count = Arc::clone(&totals.held);
        Ok((Self { queue, count }, thread))
    }

    /// Lets a query wait; `false` when the queue is full.
    #[must_use]
    pub fn hold(&self, waiting: Waiting) -> bool {
        let held = self.queue.try_send(waiting).is_ok();
        if held {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        held
    }
}

/// The queries that wait.
struct Room {
    cell: Arc<Latest<Snapshot>>,
    publisher: SyncSender<Command>,
    limit: Duration,
    responder: Responder<LuaPrograms>,
    held: Vec<(Instant, Waiting)>,
    out: Vec<u8>,
    totals: Arc<ThreadTotals>,
}

impl Room {
    fn run(mut self, queue: &Receiver<Waiting>) {
        while let Ok(first) = queue.recv() {
            // A new reader each time: a thread that sleeps must not keep an old snapshot.
            let mut reader = Reader::new(Arc::clone(&self.cell));
            self.take(first, &reader);
            while !self.held.is_empty() {
                match queue.recv_timeout(POLL) {
                    Ok(waiting) => {
                        reader.refresh();
                        self.take(waiting, &reader);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
                }
                self.look(&mut reader);
                self.totals.add(&self.responder.tally().take());
            }
            self.totals.add(&self.responder.tally().take());
        }
    }

    /// Answers a new query, or lets it wait.
    fn take(&mut self, waiting: Waiting, reader: &Reader<Snapshot>) {
        let has_room = self.held.len() < QUEUE;
        if !self.is_answered(&waiting, has_room, reader) {
            self.held.push((clock::now() + self.limit, waiting));
        }
    }

    /// Answers the queries that can be answered, and those that have waited long enough.
    fn look(&mut self, reader: &mut Reader<Snapshot>) {
        let changed = reader.refresh();
        let now = clock::now();
        for (deadline, waiting) in std::mem::take(&mut self.held) {
            let has_time = now < deadline;
            if !has_time {
                let (zone, set) = (waiting.zone.clone(), waiting.set);
                // When the publisher is busy, a later query sends this again.
                drop(self.publisher.try_send(Command::EndWait { zone, set }));
            }
            if has_time && !changed || !self.is_answered(&waiting, has_time, reader) {
                self.held.push((deadline, waiting));
            }
        }
    }

    /// Answers a query; `false` when it keeps waiting, which only one that `can_wait` does.
    fn is_answered(
        &mut self,
        waiting: &Waiting,
        can_wait: bool,
        reader: &Reader<Snapshot>,
    ) -> bool {
        let client = client(waiting, can_wait);
        let (responder, out) = (&mut self.responder, &mut self.out);
        let verdict = signed::respond(responder, reader.get(), &waiting.message, &client, out);
        match verdict {
            Verdict::Wait { .. } => return false,
            Verdict::Silent
            | Verdict::Signed
            | Verdict::Notified { .. }
            | Verdict::Update { .. }
            | Verdict::Incremental { .. }
            | Verdict::Transfer { .. } => {}
            Verdict::Reply(length) => {
                let reply = self.out.get(..length).unwrap_or_default();
                if let Err(error) = waiting.path.send(reply) {
                    tracing::debug!(peer = %waiting.path.peer(), %error, "Cannot send a late answer");
                }
            }
        }
        true
    }
}

fn client(waiting: &Waiting, can_wait: bool) -> Client {
    Client {
        peer: waiting.path.peer(),
        local: waiting.local,
        local_port: waiting.local_port,
        transport: Transport::Udp,
        can_wait,
        // Only a query with access gets to wait.
        may_ask: true,
        clock: dns_serve::cookies::clock,
    }
}
