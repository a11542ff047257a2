//! Decides which content a node fetches before it applies the records of others.
//!
//! Clients choose a mirror by its manifest alone and take every blob from it, so a manifest must not
//! be visible before all it refers to is here. A record from another node therefore waits until its
//! content has been fetched. Records of one origin take their places in order; those of different origins
//! do not wait for each other.
//!
//! A record does not wait long for another repository's content either. While the first records of an
//! origin wait for content that is large or not to be had, complete ones behind them are applied *ahead*: their
//! facts, with no place in the sequence, as long as no earlier record of the same repository waits. They
//! are safe here then, which [`Intake::ahead`] tells, and take their places like all others later.
//!
//! Small content is fetched first ([`Class`]).
//!
//! A digest that a record itself states to be present is *needed*: the record waits for it. Other
//! content that a manifest refers to may be missing at its origin (an index of which some platforms
//! were not mirrored), so it is *wished for*: the node fetches it if a peer has it, and does
//! without it when the node that sent the record says that it has none, in the incarnation in which it sent it: one
//! that has lost its disk since has none of anything ([`Intake::sender_renewed`]).
//!
//! A record that cannot be completed for [`Limits::patience`] is set aside, so that it does not
//! hold up later records for ever: its place in the sequence is taken and its facts are left out.
//! The comparison of buckets brings them back once a node has their content.
//!
//! Never fetches, never reads a clock: the shell does what [`Intake::poll_output`] says and tells
//! how it went.

mod ahead;
mod fetch_queue;
mod needs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use oci::digest::Digest;
use registry_facts::name::NodeName;
use registry_facts::record::{NodeId, Record, Vector};
use retry::Backoff;

pub use self::fetch_queue::Class;
use self::fetch_queue::FetchQueue;
use self::needs::content_of;

/// Records of one origin that do not count as waiting because they are applied ahead, as a multiple of those that
/// may wait.
const MOST_AHEAD: usize = 4;

/// How much waits, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most waiting records of one origin. The node requests more once these are applied, so
    /// one origin whose content is unavailable does not fill the memory. Four times as many may be applied
    /// ahead beside them.
    pub queue: usize,
    /// Digests being looked up or fetched at a time.
    pub parallel: usize,
    /// Records applied, and synced to the disk, in one go.
    pub batch: usize,
    /// The time that a record waits for content that no node has before it is set aside.
    pub patience: Duration,
    /// The interval of looks at content that is here for records that still wait. The sweep knows
    /// of no register that names it; a look renews its lease.
    pub keep: Duration,
    /// Between attempts to get one digest.
    pub backoff: Backoff,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 1024,
            parallel: 64,
            batch: 256,
            patience: Duration::from_secs(600),
            keep: Duration::from_secs(600),
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30)),
        }
    }
}

/// The kind of content that a digest names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Content that refers to nothing.
    Blob,
    /// A manifest, which is read for what it refers to.
    Manifest,
}

/// How an attempt to get a digest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is here, and refers to these.
    Held(Vec<(Digest, Kind)>),
    /// Everyone who could be asked says that it has none, the node among them that [`Output::Ensure`] names.
    Denied,
    /// A peer could not be reached, or the transfer failed.
    Unreachable,
    /// It cannot be stored here, such as when the disk is full.
    NoRoom,
}

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// See to it that the digest is here: look, else fetch; `from` is the likeliest to have it.
    /// Answered by [`Intake::settle`].
    Ensure {
        /// The needed content.
        digest: Digest,
        /// Its kind.
        kind: Kind,
        /// How large it is, as far as is known.
        class: Class,
        /// The node that sent the record.
        from: NodeName,
    },
    /// Look whether the digest is here still, for a record that waits. Answered by
    /// [`Intake::lost`] if it is not.
    Look {
        /// The content to look for.
        digest: Digest,
    },
    /// Apply these records, in order. Answered by [`Intake::applied`].
    Apply {
        /// The number to report back with.
        batch: u64,
        /// The records.
        records: Vec<Record>,
    },
    /// A record was set aside.
    SetAside {
        /// The record.
        record: Record,
        /// The unavailable content.
        missing: Vec<Digest>,
    },
    /// There is room for records that were turned away: begin the streams again.
    Restart,
}

/// How a record was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It will be applied.
    Taken,
    /// It is here or waiting already.
    Known,
    /// There is no room, or an earlier record was turned away. The node requests it again later.
    TurnedAway,
}

/// The records that wait, and what they wait for.
#[derive(Debug)]
pub struct Intake {
    limits: Limits,
    /// The applied records.
    applied: Vector,
    queues: BTreeMap<NodeId, Queue>,
    pending: BTreeMap<u64, Pending>,
    needs: BTreeMap<Digest, Need>,
    wanted: FetchQueue,
    n_repairs: usize,
    batches: BTreeMap<u64, Batch>,
    next: u64,
    outputs: VecDeque<Output>,
    n_set_aside: u64,
    /// When what is here was last looked at.
    kept: Option<Instant>,
}

/// The records of one origin that wait, by their tickets.
#[derive(Debug, Default)]
struct Queue {
    tickets: VecDeque<u64>,
    /// The last sequence that waits.
    last: u64,
    /// Records have been turned away since there was room.
    overflowed: bool,
    /// Those at the front that are being applied.
    applying: usize,
    /// Those that are applied ahead.
    n_ahead: usize,
}

impl Queue {
    /// How many records count as waiting.
    fn n_counted(&self, limits: &Limits) -> usize {
        let most_ahead = limits.queue.saturating_mul(MOST_AHEAD);
        self.tickets.len() - self.n_ahead.min(most_ahead)
    }
}

/// Records that are being applied, by their tickets.
#[derive(Debug)]
struct Batch {
    tickets: Vec<u64>,
    /// The origin of records that are applied ahead.
    ahead_of: Option<NodeId>,
}

/// A record that waits.
#[derive(Debug)]
struct Pending {
    record: Record,
    from: NodeName,
    /// All that it needs or wishes for.
    uses: BTreeSet<Digest>,
    /// Content that may not be here yet.
    open: BTreeSet<Digest>,
    /// Content that the record itself states to be present.
    stated: BTreeSet<Digest>,
    /// Since when nothing that it needs could be had.
    stuck: Option<Instant>,
    ahead: Ahead,
    /// The sender has begun another incarnation since.
    is_sender_renewed: bool,
}

/// Whether a record was applied ahead of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    No,
    Applying,
    Applied,
}

/// A digest that some record waits for.
#[derive(Debug)]
struct Need {
    kind: Kind,
    /// The size that a record says; none of a manifest, and of content that only a manifest names.
    size: Option<u64>,
    from: NodeName,
    users: BTreeSet<u64>,
    phase: Phase,
    failures: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// To be asked for as soon as fewer are running.
    Wanted,
    /// Asked for as this.
    Running(Kind, Class),
    /// Failed; to be tried again at this time.
    Resting(Instant),
    /// Here, and refers to these.
    Held(Vec<(Digest, Kind)>),
}

impl Intake {
    /// Nothing waits; `applied` is what the store holds.
    #[must_use]
    pub fn new(limits: Limits, applied: Vector) -> Self {
        Self {
            limits,
            applied,
            queues: BTreeMap::new(),
            pending: BTreeMap::new(),
            needs: BTreeMap::new(),
            wanted: FetchQueue::default(),
            n_repairs: 0,
            batches: BTreeMap::new(),
            next: 0,
            outputs: VecDeque::new(),
            n_set_aside: 0,
            kept: None,
        }
    }

    /// The records that have been applied or wait: a stream begins behind them.
    #[must_use]
    pub fn expected(&self) -> Vector {
        let mut expected = self.applied.clone();
        for (origin, queue) in &self.queues {
            expected.advance(origin, queue.last);
        }
        expected
    }

    /// How many records wait.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.pending.len()
    }

    /// How many have been set aside since the start.
    #[must_use]
    pub fn n_set_aside(&self) -> u64 {
        self.n_set_aside
    }

    /// Digests that could not be had at the last attempt, and how often they were tried.
    pub fn missing(&self) -> impl Iterator<Item = (&Digest, u32)> {
        self.needs
            .iter()
            .filter(|(_, need)| need.failures > 0 && !matches!(need.phase, Phase::Held(_)))
            .map(|(digest, need)| (digest, need.failures))
    }

    //--- Input

    /// The store itself has stated records, or they came from elsewhere.
    pub fn advance(&mut self, applied: &Vector) {
        for (origin, sequence) in applied.iter() {
            self.applied.advance(origin, sequence);
        }
    }

    /// A record has come from a peer. `previous` is the sequence of the one before it on the stream.
    pub fn receive(&mut self, from: &NodeName, record: Record, previous: u64) -> Receipt {
        let applied = self.applied.of(&record.origin);
        let queue = self.queues.entry(record.origin.clone()).or_default();
        let expected = applied.max(queue.last);
        if record.sequence <= expected {
            return Receipt::Known;
        }
        if previous > expected || queue.n_counted(&self.limits) >= self.limits.queue {
            queue.overflowed = true;
            return Receipt::TurnedAway;
        }
        queue.last = record.sequence;
        let ticket = self.next;
        queue.tickets.push_back(ticket);
        let origin = record.origin.clone();
        self.admit(from, record);
        self.advance_queue(&origin);
        self.start_wanted();
        Receipt::Taken
    }

    /// Takes registers that another node has and this one lacks. They have no place in a sequence
    /// and no record waits for them; without their content they are dropped.
    pub fn repair(&mut self, from: &NodeName, record: Record) -> Receipt {
        if self.n_repairs >= self.limits.queue {
            return Receipt::TurnedAway;
        }
        self.n_repairs += 1;
        let ticket = self.next;
        self.admit(from, record);
        self.finish_repair(ticket);
        self.start_wanted();
        Receipt::Taken
    }

    /// An attempt to get a digest has ended.
    pub fn settle(&mut self, digest: &Digest, outcome: Outcome, spread: u8, now: Instant) {
        let Some(need) = self.needs.get_mut(digest) else {
            return;
        };
        let Phase::Running(asked, class) = need.phase else {
            return;
        };
        self.wanted.ended(class);
        let users: Vec<u64> = need.users.iter().copied().collect();
        match outcome {
            _ if users.is_empty() => {
                self.needs.remove(digest);
            }
            Outcome::Held(_) if asked != need.kind => need.want(*digest, &mut self.wanted),
            Outcome::Held(refers) => {
                need.phase = Phase::Held(refers);
                need.failures = 0;
                for ticket in users {
                    self.meet(ticket, *digest);
                }
            }
            failed => {
                let asked_from = need.from.clone();
                need.failures = need.failures.saturating_add(1);
                let wait = self
                    .limits
                    .backoff
                    .after(need.failures, f64::from(spread) / 256.0);
                need.phase = Phase::Resting(now + wait);
                for ticket in users {
                    self.fail(ticket, *digest, &failed, &asked_from, now);
                }
                if failed == Outcome::Denied {
                    self.ask_another_sender(digest, &asked_from);
                }
            }
        }
        self.start_wanted();
    }

    /// A peer has begun another incarnation: it may have lost its disk, so what it denies from now on says nothing
    /// about the records that it sent before.
    pub fn sender_renewed(&mut self, sender: &NodeName) {
        let sent = self.pending.values_mut();
        for pending in sent.filter(|pending| pending.from == *sender) {
            pending.is_sender_renewed = true;
        }
    }

    /// Content that was here is not: whatever waits for more waits for it too. False when nothing waits for it, for no
    /// node has it or no record needs it.
    pub fn lost(&mut self, digest: &Digest) -> bool {
        let Some(need) = self.needs.get_mut(digest) else {
            return false;
        };
        if !matches!(need.phase, Phase::Held(_)) {
            let mut users = need
                .users
                .iter()
                .filter_map(|ticket| self.pending.get(ticket));
            return users.any(|pending| pending.open.contains(digest));
        }
        need.want(*digest, &mut self.wanted);
        for ticket in need.users.clone() {
            if let Some(pending) = self.pending.get_mut(&ticket) {
                pending.open.insert(*digest);
            }
        }
        self.start_wanted();
        true
    }

    /// A batch has been applied and is safe on disk, or has not. True when it has gone ahead of others.
    pub fn applied(&mut self, batch: u64, done: bool) -> bool {
        let Some(Batch { tickets, ahead_of }) = self.batches.remove(&batch) else {
            return false;
        };
        if let Some(origin) = ahead_of {
            self.applied_ahead(&origin, &tickets, done);
            return done;
        }
        let first = tickets.first().and_then(|ticket| self.pending.get(ticket));
        let Some((origin, sequence)) =
            first.map(|one| (one.record.origin.clone(), one.record.sequence))
        else {
            return false;
        };
        if sequence == 0 {
            // One that could not be applied is found again by the next comparison.
            tickets
                .into_iter()
                .for_each(|ticket| self.drop_pending(ticket));
            self.start_wanted();
            return false;
        }
        if let Some(queue) = self.queues.get_mut(&origin) {
            queue.applying = 0;
            if done {
                queue
                    .tickets
                    .drain(..tickets.len().min(queue.tickets.len()));
            }
        }
        if done {
            let mut n_ahead = 0;
            for ticket in tickets {
                if let Some(pending) = self.pending.get(&ticket) {
                    self.applied.advance(&origin, pending.record.sequence);
                    n_ahead += usize::from(pending.ahead == Ahead::Applied);
                }
                self.drop_pending(ticket);
            }
            if let Some(queue) = self.queues.get_mut(&origin) {
                queue.n_ahead -= n_ahead;
            }
            self.advance_queue(&origin);
            self.make_room(&origin);
        }
        self.start_wanted();
        false
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.wake(|until| until <= now);
        self.keep(now);
        let origins: Vec<NodeId> = self.queues.keys().cloned().collect();
        for origin in origins {
            for ticket in self.given_up(&origin, now) {
                self.set_aside(ticket);
            }
            // Besides, what failed to be applied is tried again.
            self.advance_queue(&origin);
            self.make_room(&origin);
        }
        self.start_wanted();
    }

    /// A peer can be reached again: retry resting content at once.
    pub fn reached(&mut self) {
        self.wake(|_| true);
        self.start_wanted();
    }

    /// The next action for the shell.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    //--- Inside

    /// Takes a record in and notes what it needs.
    fn admit(&mut self, from: &NodeName, record: Record) {
        let ticket = self.next;
        self.next += 1;
        let wanted = content_of(&record);
        let pending = Pending {
            from: from.clone(),
            uses: BTreeSet::new(),
            open: BTreeSet::new(),
            stated: wanted.iter().map(|(digest, ..)| *digest).collect(),
            stuck: None,
            ahead: Ahead::No,
            is_sender_renewed: false,
            record,
        };
        self.pending.insert(ticket, pending);
        for (digest, kind, size) in wanted {
            self.want(ticket, digest, kind, size);
        }
    }

    fn progress(&mut self, ticket: u64) {
        let Some(pending) = self.pending.get(&ticket) else {
            return;
        };
        if !pending.open.is_empty() {
            return;
        }
        match pending.record.sequence {
            0 => self.finish_repair(ticket),
            _ => {
                let origin = pending.record.origin.clone();
                self.advance_queue(&origin);
            }
        }
    }

    fn finish_repair(&mut self, ticket: u64) {
        let complete = self.pending.get(&ticket).filter(|one| one.open.is_empty());
        if let Some(pending) = complete {
            let records = vec![pending.record.clone()];
            self.apply(vec![ticket], records, None);
        }
    }

    /// Applies what is complete at the front of an origin's queue, one batch at a time, and what may go ahead.
    fn advance_queue(&mut self, origin: &NodeId) {
        self.advance_front(origin);
        self.go_ahead(origin);
    }

    fn advance_front(&mut self, origin: &NodeId) {
        let Some(queue) = self.queues.get_mut(origin) else {
            return;
        };
        if queue.applying > 0 {
            return;
        }
        let mut tickets = Vec::new();
        let mut records = Vec::new();
        for ticket in queue.tickets.iter().take(self.limits.batch) {
            match self.pending.get(ticket) {
                Some(pending) if pending.open.is_empty() => {
                    tickets.push(*ticket);
                    records.push(pending.record.clone());
                }
                _ => break,
            }
        }
        queue.applying = tickets.len();
        if !tickets.is_empty() {
            self.apply(tickets, records, None);
        }
    }

    fn apply(&mut self, tickets: Vec<u64>, records: Vec<Record>, ahead_of: Option<NodeId>) {
        let batch = self.next;
        self.next += 1;
        self.batches.insert(batch, Batch { tickets, ahead_of });
        self.outputs.push_back(Output::Apply { batch, records });
    }

    /// Leaves out the facts of a record, and takes its place in the sequence.
    fn set_aside(&mut self, ticket: u64) {
        let Some(pending) = self.pending.get_mut(&ticket) else {
            return;
        };
        let record = pending.record.clone();
        pending.record.facts.clear();
        let missing: Vec<Digest> = std::mem::take(&mut pending.open).into_iter().collect();
        self.n_set_aside += 1;
        self.outputs.push_back(Output::SetAside { record, missing });
    }

    /// Has the streams begin again once half of a queue that overflowed is applied.
    fn make_room(&mut self, origin: &NodeId) {
        let Some(queue) = self.queues.get_mut(origin) else {
            return;
        };
        if queue.overflowed && queue.n_counted(&self.limits) <= self.limits.queue / 2 {
            queue.overflowed = false;
            self.outputs.push_back(Output::Restart);
        }
    }

    fn drop_pending(&mut self, ticket: u64) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        if pending.record.sequence == 0 {
            self.n_repairs -= 1;
        }
        for digest in pending.uses {
            if let Some(need) = self.needs.get_mut(&digest) {
                need.users.remove(&ticket);
                // One that runs ends in its own time.
                if need.users.is_empty() && !matches!(need.phase, Phase::Running(..)) {
                    self.needs.remove(&digest);
                }
            }
        }
    }

    /// The records of an origin that nothing can be hoped for, with none before them that still may.
    fn given_up(&self, origin: &NodeId, now: Instant) -> Vec<u64> {
        let queue = self.queues.get(origin);
        let tickets = queue.into_iter().flat_map(|queue| queue.tickets.iter());
        let patience = self.limits.patience;
        let is_stuck = |pending: &Pending| {
            let stuck = pending.stuck;
            stuck.is_some_and(|since| now.saturating_duration_since(since) >= patience)
        };
        tickets
            .filter_map(|ticket| Some((*ticket, self.pending.get(ticket)?)))
            .take_while(|(_, pending)| pending.open.is_empty() || is_stuck(pending))
            .filter(|(_, pending)| !pending.open.is_empty())
            .map(|(ticket, _)| ticket)
            .collect()
    }
}

#[cfg(test)]
mod tests;
