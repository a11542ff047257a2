//! The accepted records: the vector, the newest records, and the feed that other nodes read.
//!
//! A feed gives what its reader's vector does not cover, and then what comes. The newest records
//! are at hand; a reader that lacks older ones gets them out of the index, where what has been
//! overwritten is gone. A record without facts at the end of an origin's records tells that nothing
//! is left between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use registry_facts::hlc::Hlc;
use registry_facts::index::{IndexError, SCAN};
use registry_facts::record::{NodeId, Record, Vector};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::journal::current::Current;

/// Records for another node, oldest first of each origin; continues with new ones.
pub type Feed = ReceiverStream<Record>;

/// Newest records at hand: those of a burst of pushes, so that a reader that keeps up never needs
/// the index.
const RECENT: usize = 4096;

/// Records on their way to a reader.
const FEED_QUEUE: usize = 64;

/// The accepted records.
#[derive(Debug)]
pub struct Taken {
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    vector: Vector,
    recent: VecDeque<Arc<Record>>,
    /// How many records came before the first of the recent ones.
    n_before: u64,
}

impl State {
    fn n_taken(&self) -> u64 {
        self.n_before + self.recent.len() as u64
    }
}

impl Taken {
    /// The records that the journal held at the start.
    #[must_use]
    pub fn new(vector: Vector) -> Self {
        let state = State {
            vector,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        }
    }

    /// How many records of each origin have been taken.
    pub fn vector(&self) -> Vector {
        self.state().vector.clone()
    }

    /// Moves with every record.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notes records that are durable and applied.
    pub fn add(&self, records: Vec<Arc<Record>>) {
        let mut state = self.state();
        for record in records {
            state.vector.advance(&record.origin, record.sequence);
            state.recent.push_back(record);
            if state.recent.len() > RECENT {
                state.recent.pop_front();
                state.n_before += 1;
            }
        }
        let n_taken = state.n_taken();
        drop(state);
        self.changes.send_replace(n_taken);
    }

    /// The records that `from` does not cover, and then new ones. Has to be called in a runtime.
    pub fn feed(self: &Arc<Self>, current: Arc<Current>, from: Vector) -> Feed {
        let (sender, receiver) = mpsc::channel(FEED_QUEUE);
        let reader = Reader {
            taken: Arc::clone(self),
            current,
            has: from,
            sender,
        };
        tokio::spawn(reader.run());
        ReceiverStream::new(receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic could leave a record noted twice or not noted, which a feed bears.
        self.state.lock()
    }
}

/// One reader of the feed.
struct Reader {
    taken: Arc<Taken>,
    current: Arc<Current>,
    /// The records that the reader has.
    has: Vector,
    sender: mpsc::Sender<Record>,
}

impl Reader {
    /// Runs until the reader stops.
    async fn run(mut self) {
        let mut changes = self.taken.changes();
        loop {
            changes.mark_unchanged();
            let records = match self.recent() {
                Some(records) => records,
                None => match self.older().await {
                    Ok(records) => records,
                    Err(error) => {
                        tracing::error!(%error, "A feed ends, because the index cannot be read");
                        return;
                    }
                },
            };
            for record in records {
                self.has.advance(&record.origin, record.sequence);
                if self.sender.send(record).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = self.sender.closed() => return,
            }
        }
    }

    /// The records that the reader lacks, if they are all among the newest ones.
    fn recent(&self) -> Option<Vec<Record>> {
        let state = self.taken.state();
        let mut next = self.has.clone();
        let mut records = Vec::new();
        for record in &state.recent {
            // A repair has no place in a sequence: the other node finds its own.
            if record.sequence == 0 || record.sequence <= next.of(&record.origin) {
                continue;
            }
            if record.sequence != next.of(&record.origin) + 1 {
                return None;
            }
            next.advance(&record.origin, record.sequence);
            records.push((**record).clone());
        }
        let is_all = state
            .vector
            .iter()
            .all(|(origin, sequence)| sequence <= next.of(origin));
        is_all.then_some(records)
    }

    /// The records that the reader lacks, from the index.
    async fn older(&self) -> Result<Vec<Record>, IndexError> {
        // Taken before the index is read: later changes come again.
        let vector = self.taken.vector();
        let current = Arc::clone(&self.current);
        let has = self.has.clone();
        let scan = tokio::task::spawn_blocking(move || standing(&current, &has, &vector));
        scan.await
            .unwrap_or_else(|error| Err(IndexError::Failed(error.to_string())))
    }
}

/// Facts that stand in the index and that `has` does not cover, as the records they came in, and
/// the ends of the origins as `vector` knows them.
fn standing(current: &Current, has: &Vector, vector: &Vector) -> Result<Vec<Record>, IndexError> {
    let mut records: BTreeMap<(NodeId, u64), Record> = BTreeMap::new();
    let mut after = None;
    loop {
        let registers = current.read(|view| view.registers(after.as_ref(), SCAN))?;
        let Some(last) = registers.last() else {
            break;
        };
        after = Some(last.fact.key());
        for register in registers {
            if register.sequence <= has.of(&register.origin) {
                continue;
            }
            let place = (register.origin.clone(), register.sequence);
            let record = records.entry(place).or_insert_with(|| Record {
                origin: register.origin,
                sequence: register.sequence,
                stamp: register.stamp,
                facts: Vec::new(),
            });
            record.facts.push(register.fact);
        }
    }
    for (origin, sequence) in vector.iter() {
        if sequence > has.of(origin) {
            let empty = || Record {
                origin: origin.clone(),
                sequence,
                stamp: Hlc::default(),
                facts: Vec::new(),
            };
            records
                .entry((origin.clone(), sequence))
                .or_insert_with(empty);
        }
    }
    Ok(records.into_values().collect())
}
