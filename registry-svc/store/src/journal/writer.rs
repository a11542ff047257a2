//! The thread that writes the journal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use parking_lot::Mutex;
use registry_facts::frame;
use registry_facts::frame::Kind;
use registry_facts::hlc::{Clock, Hlc};
use registry_facts::record::{Fact, NodeId, Position, Record, Vector};
use tokio::sync::{mpsc, oneshot};

use super::feed::Taken;
use super::files;
use super::snapshot::{Boundary, Directory};
use super::{JournalError, Place};
use crate::disk::File;
use crate::journal::current::Current;

/// Statements waiting for the thread: more than the requests served at once, so no request waits
/// for a place here.
const QUEUE: usize = 1024;

/// Statements that share one sync.
const MOST_AT_ONCE: usize = 1024;

/// Reads the wall clock: milliseconds since 1970.
pub type WallClock = fn() -> u64;

/// Hands statements to the thread that writes them.
#[derive(Debug)]
pub struct Writer {
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    is_dead: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails when there can be no more threads.
    pub fn start(state: State) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let is_dead = Arc::clone(&state.is_dead);
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || state.run(receiver))?;
        Ok(Self {
            requests: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            is_dead,
        })
    }

    /// A writer of a journal on a read-only file system: it refuses everything.
    pub fn read_only() -> Self {
        Self {
            requests: Mutex::default(),
            thread: Mutex::default(),
            is_dead: Arc::default(),
        }
    }

    /// Whether writing has stopped permanently. A refused statement may still have been written,
    /// and be there after the next start: nothing may be acknowledged, and no content removed,
    /// because of the index.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// States facts of this node in one record; durable and visible when it returns.
    ///
    /// # Errors
    ///
    /// Fails when they could not be made durable.
    pub async fn state(&self, facts: Vec<Fact>) -> Result<Position, JournalError> {
        self.own(facts, None).await
    }

    /// States facts of this node as they were at a moment in the past: whatever was stated since,
    /// anywhere, holds against them.
    ///
    /// # Errors
    ///
    /// Fails when they could not be made durable.
    pub async fn state_as_of(
        &self,
        facts: Vec<Fact>,
        as_of: Hlc,
    ) -> Result<Position, JournalError> {
        self.own(facts, Some(as_of)).await
    }

    async fn own(&self, facts: Vec<Fact>, as_of: Option<Hlc>) -> Result<Position, JournalError> {
        let position = self.ask(Statement::Own { facts, as_of }).await?;
        // A record of this node always has a place.
        position.ok_or(JournalError::ReadOnly)
    }

    /// Takes records of other nodes; durable and visible when it returns.
    ///
    /// # Errors
    ///
    /// Fails when they could not be made durable.
    pub async fn take(&self, records: Vec<Record>) -> Result<(), JournalError> {
        self.ask(Statement::Foreign(records)).await.map(drop)
    }

    /// Writes what is queued and ends the thread; blocks.
    pub fn close(&self) {
        drop(self.requests.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("The journal's thread panicked");
        }
    }

    async fn ask(&self, statement: Statement) -> Result<Option<Position>, JournalError> {
        let (done, answer) = oneshot::channel();
        let sender = {
            let requests = self.requests.lock();
            requests.clone().ok_or(JournalError::ReadOnly)?
        };
        let request = Request { statement, done };
        sender
            .send(request)
            .await
            .map_err(|_| JournalError::ReadOnly)?;
        answer.await.unwrap_or(Err(JournalError::ReadOnly))
    }
}

/// A statement to write.
#[derive(Debug)]
enum Statement {
    Own {
        facts: Vec<Fact>,
        /// When they were so; none for now.
        as_of: Option<Hlc>,
    },
    Foreign(Vec<Record>),
}

#[derive(Debug)]
struct Request {
    statement: Statement,
    done: Reply,
}

/// Tells who asked where the record stands.
type Reply = oneshot::Sender<Result<Option<Position>, JournalError>>;

/// The state of the thread.
#[derive(Debug)]
pub struct State {
    /// The journal's directory.
    pub directory: Directory,
    /// The segment that is written.
    pub segment: Box<dyn File>,
    /// The place of the next record.
    pub end: Place,
    /// How long a segment grows.
    pub longest: u64,
    /// Octets in the segments that are full.
    pub n_sealed: u64,
    /// The identity of this node.
    pub own: NodeId,
    /// Stamps of this node.
    pub clock: Clock,
    /// The wall clock.
    pub wall: WallClock,
    /// The accepted records.
    pub taken: Arc<Taken>,
    /// The index.
    pub current: Arc<Current>,
    /// Set when nothing may be written any more.
    pub is_dead: Arc<AtomicBool>,
}

/// Records that go out together.
#[derive(Default)]
struct Group {
    records: Vec<Arc<Record>>,
    payloads: Vec<Vec<u8>>,
    vector: Vector,
    replies: Vec<(Reply, Option<Position>)>,
}

impl State {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group = Group {
                vector: self.taken.vector(),
                ..Group::default()
            };
            let clock = self.clock;
            self.add(&mut group, first);
            while group.replies.len() < MOST_AT_ONCE
                && let Ok(request) = requests.try_recv()
            {
                self.add(&mut group, request);
            }
            if let Err(error) = self.commit(&group) {
                // The next statement may succeed, and gets the sequence numbers.
                self.clock = clock;
                refuse(group, &error);
            } else {
                self.done(group);
            }
        }
    }

    /// Makes the records of a request.
    fn add(&mut self, group: &mut Group, request: Request) {
        let result = match request.statement {
            Statement::Own { facts, as_of } => self.add_own(group, facts, as_of).map(Some),
            Statement::Foreign(records) => self.add_foreign(group, records).map(|()| None),
        };
        match result {
            Ok(position) => group.replies.push((request.done, position)),
            // The caller may have given up.
            Err(error) => drop(request.done.send(Err(error))),
        }
    }

    fn add_own(
        &mut self,
        group: &mut Group,
        facts: Vec<Fact>,
        as_of: Option<Hlc>,
    ) -> Result<Position, JournalError> {
        let now = self.clock.tick((self.wall)());
        let record = Record {
            origin: self.own.clone(),
            sequence: group.vector.of(&self.own) + 1,
            stamp: as_of.map_or(now, |as_of| as_of.min(now)),
            facts,
        };
        let position = Position {
            origin: record.origin.clone(),
            sequence: record.sequence,
        };
        group.add(record)?;
        Ok(position)
    }

    fn add_foreign(&mut self, group: &mut Group, records: Vec<Record>) -> Result<(), JournalError> {
        for record in records {
            self.clock.observe(record.stamp);
            let is_known = match record.position() {
                Some(position) => group.vector.covers(&position),
                None => !self
                    .current
                    .read(|view| view.is_news(&record))
                    .map_err(|error| JournalError::Io {
                        doing: "read the index",
                        source: io::Error::other(error),
                    })?,
            };
            if !is_known {
                group.add(record)?;
            }
        }
        Ok(())
    }

    /// Writes and syncs a group.
    fn commit(&mut self, group: &Group) -> Result<(), JournalError> {
        if group.records.is_empty() {
            return Ok(());
        }
        if self.is_dead() {
            return Err(JournalError::ReadOnly);
        }
        if self.end.at >= self.longest {
            self.rotate()?;
        }
        let begin = self.end.at;
        let mut octets = Vec::new();
        for payload in &group.payloads {
            let at = begin + octets.len() as u64;
            frame::put(&mut octets, at, begin, Kind::Record, payload);
        }
        self.write(octets)
    }

    /// Adds octets to the segment and syncs it.
    fn write(&mut self, octets: Vec<u8>) -> Result<(), JournalError> {
        let length = octets.len() as u64;
        if let Err(error) = self.segment.write_at(&[Bytes::from(octets)], self.end.at) {
            // Durably: the rest of a refused statement must not come back with the next loss of
            // power, after a client has relied on its refusal.
            let cut = self.segment.truncate(self.end.at);
            if let Err(error) = cut.and_then(|()| self.segment.sync()) {
                return Err(self.die("The journal cannot be cut back", &error));
            }
            return Err(match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full,
                _ => JournalError::io("write the journal")(error),
            });
        }
        if let Err(error) = self.segment.sync() {
            return Err(self.die("The journal cannot be synced", &error));
        }
        self.end.at += length;
        Ok(())
    }

    /// Stops writing permanently: the state of the last write on the disk is unknown.
    fn die(&mut self, what: &'static str, error: &io::Error) -> JournalError {
        self.is_dead.store(true, Ordering::Release);
        tracing::error!(%error, "{what}: the store is read-only until the service is restarted");
        JournalError::ReadOnly
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    /// Begins the next segment. A successor is made first: when there is no room for one, the
    /// segment continues.
    fn rotate(&mut self) -> Result<(), JournalError> {
        let number = self.end.segment + 1;
        let path = self.directory.path.join(files::segment(number));
        let mut created = self.directory.disk.create(&path);
        if created
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        {
            // One that was made before and could not be removed again. It was never written.
            drop(self.directory.disk.remove(&path));
            created = self.directory.disk.create(&path);
        }
        let Ok(next) = created else {
            return Ok(());
        };
        let mut octets = Vec::new();
        frame::put(&mut octets, self.end.at, self.end.at, Kind::End, b"");
        if let Err(error) = self.write(octets) {
            if !self.is_dead() {
                // The segment was cut back and continues.
                drop(self.directory.disk.remove(&path));
                return Ok(());
            }
            return Err(error);
        }
        if let Err(error) = self.directory.disk.sync_directory(&self.directory.path) {
            return Err(self.die("The journal's directory cannot be synced", &error));
        }
        self.n_sealed += self.end.at;
        self.segment = next;
        self.end = Place {
            segment: number,
            at: 0,
        };
        if self.n_sealed >= self.longest {
            self.compact(number);
        }
        Ok(())
    }

    /// Writes a snapshot while the journal continues.
    fn compact(&mut self, segment: u64) {
        let boundary = Boundary {
            segment,
            vector: self.taken.vector(),
            stamp: self.clock.last(),
            milliseconds: (self.wall)(),
        };
        let (directory, current) = (self.directory.clone(), Arc::clone(&self.current));
        let work = move || match directory.compact(&current, &boundary) {
            Ok(size) => tracing::info!(segment, size, "The journal was compacted"),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "The journal cannot be compacted"
            ),
        };
        let spawned = thread::Builder::new()
            .name("compact".to_owned())
            .spawn(work);
        match spawned {
            Ok(_) => self.n_sealed = 0,
            Err(error) => tracing::error!(%error, "The journal cannot be compacted"),
        }
    }

    /// Applies a group and tells those who asked.
    fn done(&mut self, group: Group) {
        if !group.records.is_empty() {
            if let Err(error) = self.current.apply(&group.records, self.end) {
                // It is durable, and the next start shows it; content that cannot be read is not
                // served.
                self.is_dead.store(true, Ordering::Release);
                tracing::error!(%error, "The store is read-only until the service is restarted");
                return refuse(group, &JournalError::ReadOnly);
            }
            self.taken.add(group.records);
        }
        for (done, position) in group.replies {
            // The caller may have given up.
            drop(done.send(Ok(position)));
        }
    }
}

impl Group {
    fn add(&mut self, record: Record) -> Result<(), JournalError> {
        let payload = record.encode();
        if payload.len() >= frame::LONGEST {
            return Err(JournalError::Io {
                doing: "write a record that is too long",
                source: io::ErrorKind::InvalidInput.into(),
            });
        }
        self.vector.advance(&record.origin, record.sequence);
        self.records.push(Arc::new(record));
        self.payloads.push(payload);
        Ok(())
    }
}

/// Tells those who asked that nothing was written.
fn refuse(group: Group, error: &JournalError) {
    for (done, _) in group.replies {
        let error = match error {
            JournalError::Full => JournalError::Full,
            JournalError::ReadOnly => JournalError::ReadOnly,
            JournalError::Io { doing, source } => JournalError::Io {
                doing,
                source: source.kind().into(),
            },
            JournalError::Damaged { .. } => JournalError::ReadOnly,
        };
        // The caller may have given up.
        drop(done.send(Err(error)));
    }
}
