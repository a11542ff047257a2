//! The load of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::failures::{Failure, Failures};
use crate::queue::Queue;

/// Sessions and counters of one server; lives as long as a session or a snapshot knows it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Load {
    id: u32,
    sessions: AtomicU32,
    most_sessions: AtomicU32,
    total: AtomicU64,
    /// The pool's count of choices when this server was chosen last.
    chosen: AtomicU64,
    queue: Arc<Queue>,
    failures: Failures,
    /// The sums over its sessions.
    pub tally: Tally,
}

/// The sums over a server's sessions; they only go up.
#[derive(Debug, Default)]
pub struct Tally {
    /// Connections that were not made: refused, unreachable, too late.
    pub connect_errors: AtomicU64,
    /// Attempts to connect that followed a failed one to this server.
    pub retries: AtomicU64,
    /// Sessions this server got after another had failed.
    pub redispatches: AtomicU64,
    /// Sessions that were ended because the server went away.
    pub resets: AtomicU64,
    /// Sessions that the client broke off while data was passed.
    pub client_aborts: AtomicU64,
    /// Sessions that the server broke off while data was passed.
    pub server_aborts: AtomicU64,
    /// Bytes from clients.
    pub bytes_in: AtomicU64,
    /// Bytes to clients.
    pub bytes_out: AtomicU64,
    /// Time it took to connect, in microseconds.
    pub connect_microseconds: AtomicU64,
    /// Connections that were made.
    pub connects: AtomicU64,
}

/// One session of a server; dropping it ends the session and calls the first that waits.
#[derive(Debug)]
pub struct Slot {
    load: Arc<Load>,
}

impl Load {
    /// A server without sessions; `id` is not zero and no other server's.
    pub(crate) fn new(id: u32, queue: Arc<Queue>) -> Self {
        Self {
            id,
            sessions: AtomicU32::new(0),
            most_sessions: AtomicU32::new(0),
            total: AtomicU64::new(0),
            chosen: AtomicU64::new(0),
            queue,
            failures: Failures::default(),
            tally: Tally::default(),
        }
    }

    /// A number that no other server of this process has.
    #[must_use]
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sessions that are open, those that are being connected included.
    #[must_use]
    #[inline]
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// The most there were at a time.
    #[must_use]
    #[inline]
    pub fn most_sessions(&self) -> u32 {
        self.most_sessions.load(Ordering::Relaxed)
    }

    /// How often it was chosen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a session that exists already, limit or not: one that was handed over.
    #[must_use]
    #[inline]
    pub fn adopt(self: &Arc<Self>) -> Slot {
        let sessions = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        self.count(sessions)
    }

    /// Counts a session if there are then at most `limit`.
    #[inline]
    pub(crate) fn reserve(self: &Arc<Self>, limit: Option<u32>) -> Option<Slot> {
        let Some(limit) = limit else {
            return Some(self.adopt());
        };
        let sessions = self
            .sessions
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |sessions| {
                (sessions < limit).then(|| sessions + 1)
            })
            .ok()?;
        Some(self.count(sessions + 1))
    }

    /// Counts a session if there are `seen` at this moment, and then at most `limit`.
    #[inline]
    pub(crate) fn reserve_at(self: &Arc<Self>, seen: u32, limit: Option<u32>) -> Option<Slot> {
        if limit.is_some_and(|limit| seen >= limit) {
            return None;
        }
        self.sessions
            .compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed)
            .ok()?;
        Some(self.count(seen + 1))
    }

    /// A connection has failed; true for the first in a row.
    pub fn failed(&self, failure: Failure, now: Instant) -> bool {
        self.failures.note(failure, now)
    }

    /// A connection was made; true when it ends failures in a row.
    pub fn connected(&self) -> bool {
        self.failures.forget()
    }

    /// How many connections have failed since one was made.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures.in_a_row()
    }

    /// How much longer connections go elsewhere because the last one has failed.
    #[must_use]
    pub fn avoided(&self, now: Instant) -> Option<Duration> {
        self.failures.avoided(now)
    }

    /// Puts a connection on trial, if the last one has failed; false when it has to go elsewhere.
    pub(super) fn try_again(&self, now: Instant) -> bool {
        self.failures.try_again(now)
    }

    /// The pool's count of choices when this server was chosen last.
    pub(crate) fn chosen(&self) -> u64 {
        self.chosen.load(Ordering::Relaxed)
    }

    /// Remembers the pool's count of choices.
    pub(crate) fn set_chosen(&self, count: u64) {
        self.chosen.store(count, Ordering::Relaxed);
    }

    fn count(self: &Arc<Self>, sessions: u32) -> Slot {
        self.total.fetch_add(1, Ordering::Relaxed);
        if sessions > self.most_sessions() {
            self.most_sessions.fetch_max(sessions, Ordering::Relaxed);
        }
        Slot {
            load: Arc::clone(self),
        }
    }
}

impl Slot {
    /// The server it is of.
    #[must_use]
    #[inline]
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let load = &self.load;
        load.queue.free(|| {
            load.sessions.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
