//! The thread that writes the journal.
//!
//! It gives each statement of this node its position and its stamp. Before a statement it begins a new
//! incarnation of the node when the sequence on the disk [has to end](Continuity).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use daemon::clock;
use daemon::latest::Latest;
use parking_lot::Mutex;
use registry_facts::continuity::{Continuity, MANY_ORIGINS};
use registry_facts::frame;
use registry_facts::frame::Kind;
use registry_facts::hlc::{Hlc, Stamps, TimeRange};
use registry_facts::index::IndexError;
use registry_facts::name::NodeName;
use registry_facts::record::{Fact, Key, NodeId, Position, Record, Vector};
use tokio::sync::{mpsc, oneshot};

use super::copy::Copy;
use super::feed::Taken;
use super::files;
use super::snapshot::{Boundary, Directory, TOMBSTONES};
use super::{JournalError, Place};
use crate::disk::File;
use crate::journal::current::Current;

/// Statements waiting for the thread: more than the requests served at once, so no request waits
/// for a place here.
const QUEUE: usize = 1024;

/// Statements that share one sync.
const MOST_AT_ONCE: usize = 1024;

/// How long news to a connected node take at most.
const NEWS: Duration = Duration::from_hours(24);

/// Reads the wall clock: milliseconds since 1970.
pub type WallClock = fn() -> u64;

/// Reads a clock that never steps: milliseconds since any moment of this process.
pub type SteadyClock = fn() -> u64;

/// Makes an incarnation of this node and notes it on the disk, durably.
pub struct Renewal(pub Box<dyn Fn() -> io::Result<NodeId> + Send>);

impl fmt::Debug for Renewal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Renewal")
    }
}

/// The identity and the time that this node states with, shared by the thread and its callers.
#[derive(Debug)]
pub struct Own {
    /// The node in its present incarnation.
    origin: Arc<Latest<NodeId>>,
    /// The last stamp of the incarnation that came from the wall clock, as its bits.
    stamp: AtomicU64,
    /// The times that may be stamped with, and when that was found out.
    range: Mutex<(TimeRange, Instant)>,
    wall: WallClock,
    /// Since when deletions are remembered whatever their age, in milliseconds since 1970.
    unheard: AtomicU64,
}

impl Own {
    /// An incarnation whose last stamp is known, with any time allowed.
    pub fn new(origin: NodeId, stamp: Hlc, wall: WallClock) -> Arc<Self> {
        Arc::new(Self {
            origin: Latest::new(origin),
            stamp: AtomicU64::new(stamp.to_bits()),
            range: Mutex::new((TimeRange::default(), clock::now())),
            wall,
            unheard: AtomicU64::new(u64::MAX),
        })
    }

    /// The node in its present incarnation.
    pub fn origin(&self) -> NodeId {
        (*self.origin.current()).clone()
    }

    /// The last stamp of the incarnation that came from the wall clock.
    pub fn stamp(&self) -> Hlc {
        Hlc::from_bits(self.stamp.load(Ordering::Acquire))
    }

    /// Bounds the times that are stamped with.
    pub fn bound(&self, range: TimeRange) {
        *self.range.lock() = (range, clock::now());
    }

    /// Remembers deletions that were stated since, whatever their age.
    pub fn remember_since(&self, unheard: u64) {
        self.unheard.store(unheard, Ordering::Release);
    }

    /// Deletions that were stated before are forgotten, in milliseconds since 1970.
    fn forgotten_before(&self) -> u64 {
        let before = |time: u64, age: Duration| {
            time.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        };
        let unheard = self.unheard.load(Ordering::Acquire);
        before(self.now(), TOMBSTONES).min(before(unheard, NEWS))
    }

    /// The time that a statement is stamped with now, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        let (range, since) = *self.range.lock();
        let elapsed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        range.nearest((self.wall)(), elapsed)
    }
}

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

    /// Takes note of the last record that another node has of this node's incarnation.
    ///
    /// # Errors
    ///
    /// Fails when a new incarnation is needed and cannot be noted on the disk: nothing is stated then.
    pub async fn heard(
        &self,
        from: NodeName,
        incarnation: NodeId,
        sequence: u64,
    ) -> Result<(), JournalError> {
        let heard = Statement::Heard {
            from,
            incarnation,
            sequence,
        };
        self.ask(heard).await.map(drop)
    }

    /// Begins a new incarnation of this node.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be noted on the disk; the present one continues.
    pub async fn renew(&self) -> Result<(), JournalError> {
        self.ask(Statement::Renew).await.map(drop)
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
    Heard {
        from: NodeName,
        incarnation: NodeId,
        sequence: u64,
    },
    Renew,
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
    /// The journal's copy.
    pub copy: Copy,
    /// The place of the next record.
    pub end: Place,
    /// How long a segment grows.
    pub longest: u64,
    /// Octets in the segments that are full.
    pub n_sealed: u64,
    /// The identity and the time that this node states with.
    pub own: Arc<Own>,
    /// Stamps of this node.
    pub stamps: Stamps,
    /// Whether the sequence of this node may continue.
    pub continuity: Continuity,
    /// Makes a new incarnation.
    pub renewal: Renewal,
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
    /// The facts of these records, which the index does not have yet.
    facts: HashMap<Key, (Hlc, Fact)>,
    replies: Vec<(Reply, Option<Position>)>,
}

impl State {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group = Group {
                vector: self.taken.vector(),
                ..Group::default()
            };
            let stamps = self.stamps;
            self.add(&mut group, first);
            while group.replies.len() < MOST_AT_ONCE
                && let Ok(request) = requests.try_recv()
            {
                self.add(&mut group, request);
            }
            if let Err(error) = self.commit(&group) {
                // The next statement may succeed, and gets the sequence numbers.
                self.stamps = stamps;
                refuse(group, &error);
            } else {
                self.done(group);
            }
        }
        self.copy.sync();
    }

    /// Makes the records of a request.
    fn add(&mut self, group: &mut Group, request: Request) {
        let result = match request.statement {
            Statement::Own { facts, as_of } => self.add_own(group, facts, as_of).map(Some),
            Statement::Foreign(records) => self.add_foreign(group, records).map(|()| None),
            Statement::Heard {
                from,
                incarnation,
                sequence,
            } => self
                .add_heard(group, &from, &incarnation, sequence)
                .map(|()| None),
            Statement::Renew => self.leave_stamps(group).map(|()| None),
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
        let n_origins = group.vector.iter().count();
        if self.continuity.needs_incarnation(n_origins) {
            self.renew("not every other node has said that it knows no later record")?;
        }
        let origin = self.own.origin();
        let now = self.own.now();
        let stamp = match as_of {
            Some(as_of) => as_of,
            None => {
                let overwritten = self.overwritten(group, &facts).map_err(unreadable)?;
                self.stamps.state(now, overwritten)
            }
        };
        let record = Record {
            sequence: group.vector.of(&origin) + 1,
            origin,
            stamp,
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
            let is_known = match record.position() {
                Some(position) => group.vector.covers(&position),
                None => !self
                    .current
                    .read(|view| view.is_news(&record))
                    .map_err(unreadable)?,
            };
            if !is_known {
                group.add(record)?;
            }
        }
        Ok(())
    }

    fn add_heard(
        &mut self,
        group: &Group,
        from: &NodeName,
        incarnation: &NodeId,
        sequence: u64,
    ) -> Result<(), JournalError> {
        // It may be about an incarnation that has ended meanwhile.
        if *incarnation != self.own.origin() {
            return Ok(());
        }
        let here = group.vector.of(incarnation);
        self.continuity.heard(from, sequence, here);
        if self.continuity == Continuity::Lost {
            tracing::error!(
                peer = from.as_str(),
                here,
                there = sequence,
                "Another node has records of this node that its disk lacks: the disk was restored or has lost the end of its journal; they are fetched"
            );
            self.renew("the disk lacks records of this node")?;
        }
        Ok(())
    }

    /// Leaves the stamps of the present incarnation behind.
    fn leave_stamps(&mut self, group: &Group) -> Result<(), JournalError> {
        if group.vector.iter().count() < MANY_ORIGINS {
            return self.renew("its clock was ahead");
        }
        self.own.stamp.store(0, Ordering::Release);
        Ok(())
    }

    /// Begins a new incarnation: no other node has a record of it.
    fn renew(&mut self, reason: &'static str) -> Result<(), JournalError> {
        if self.is_dead() {
            return Err(JournalError::ReadOnly);
        }
        let origin = (self.renewal.0)().map_err(JournalError::io("note a new incarnation"))?;
        tracing::info!(%origin, reason, "This node states under a new incarnation");
        self.own.origin.publish(origin);
        self.own.stamp.store(0, Ordering::Release);
        self.stamps = Stamps::default();
        self.continuity.renewed();
        Ok(())
    }

    /// The greatest stamp of what facts change here. A manifest states the links to its blobs again, and
    /// such a link need not win: else one stamp that is far ahead would spread with every shared layer.
    fn overwritten(&self, group: &Group, facts: &[Fact]) -> Result<Option<Hlc>, IndexError> {
        let mut greatest = None;
        for fact in facts {
            let key = fact.key();
            let register = self.current.read(|view| view.register(&key))?;
            let register = register.map(|register| (register.stamp, register.fact));
            let pending = group.facts.get(&key);
            let standing = match (&register, pending) {
                (Some(register), Some(pending)) if register.0 > pending.0 => Some(register),
                (register, pending) => pending.or(register.as_ref()),
            };
            if let Some((stamp, of)) = standing
                && of != fact
            {
                greatest = greatest.max(Some(*stamp));
            }
        }
        Ok(greatest)
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
        let octets = Bytes::from(octets);
        let length = octets.len() as u64;
        let written = self
            .segment
            .write_at(std::slice::from_ref(&octets), self.end.at);
        if let Err(error) = written {
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
        self.copy.add(octets, self.end);
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
        self.copy.begin(number);
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
            forgotten_before: self.own.forgotten_before(),
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
            let stamp = self.stamps.last().to_bits();
            self.own.stamp.fetch_max(stamp, Ordering::AcqRel);
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
        for fact in &record.facts {
            let stated = (record.stamp, fact.clone());
            match self.facts.entry(fact.key()) {
                Entry::Occupied(entry) if entry.get().0 > record.stamp => {}
                entry => drop(entry.insert_entry(stated)),
            }
        }
        self.records.push(Arc::new(record));
        self.payloads.push(payload);
        Ok(())
    }
}

fn unreadable(error: IndexError) -> JournalError {
    JournalError::Io {
        doing: "read the index",
        source: io::Error::other(error),
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
            JournalError::Damaged { .. } | JournalError::Newer { .. } => JournalError::ReadOnly,
        };
        // The caller may have given up.
        drop(done.send(Err(error)));
    }
}
