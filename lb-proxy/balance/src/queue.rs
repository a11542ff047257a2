//! Connections that wait for a server with room, first come first served across all workers.
//!
//! A worker whose choice was [`Choice::Full`](crate::pool::Choice) lets the connection wait
//! ([`Pool::wait`](crate::pool::Pool::wait)) and continues with others. When a session ends, the one
//! that has waited longest is *called*: its worker is woken with the connection's token and tries
//! again ([`Pool::retry`](crate::pool::Pool::retry)). While a connection is called, connections that
//! never waited take no room on servers that have a limit, so none is overtaken permanently.
//!
//! ```text
//!           enter                 a session ends, stir
//!  (none) ───────▶ waiting ─────────────────────────────▶ called
//!                     ▲      no room after all             │  │
//!                     └────────────────────────────────────┘  ▼  took a slot, timed out, client gone
//!                                                           (none)
//! ```
//!
//! A connection that leaves `called` without the room, or with room to spare, passes the call on to the next in
//! line; a session that ends while all are called is remembered. So a call is never lost.
//!
//! Never times out: the data path drops the [`Ticket`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

/// How a worker hears that one of its connections is called.
pub trait Wake: fmt::Debug + Send + Sync {
    /// The connection that waits under `token` may try again.
    ///
    /// Comes from any thread, the worker's own included, and must not wait. The connection may have
    /// gone in the meantime, so tokens must not be used again soon.
    fn wake(&self, token: u64);
}

/// The waiting line of one pool; shared by its successive snapshots.
#[derive(Debug)]
pub struct Queue {
    limit: AtomicU32,
    /// Length of the line, those called included.
    waiting: AtomicU32,
    /// How many of them are called.
    called: AtomicU32,
    most_waiting: AtomicU32,
    total: AtomicU64,
    overflows: AtomicU64,
    line: Mutex<Line>,
}

/// A connection's place in the line; dropping it leaves.
#[derive(Debug)]
pub struct Ticket {
    queue: Arc<Queue>,
    number: u64,
    left: bool,
}

impl Queue {
    /// A queue in which at most `limit` connections wait.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            limit: AtomicU32::new(limit),
            waiting: AtomicU32::new(0),
            called: AtomicU32::new(0),
            most_waiting: AtomicU32::new(0),
            total: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
            line: Mutex::default(),
        }
    }

    /// Changes how many may wait; those that wait already stay.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many may wait.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many wait.
    #[must_use]
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The most that have waited at a time.
    #[must_use]
    pub fn most_waiting(&self) -> u32 {
        self.most_waiting.load(Ordering::Relaxed)
    }

    /// How many have ever waited.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// How many found the queue full.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    /// Calls the first in line although no session has ended: servers came up, limits grew, time
    /// passed in a slow start. If it finds room and leaves some, the next is called, and so on.
    ///
    /// A worker does so for each pool in which its connections wait when it takes up a new table.
    pub fn stir(&self) {
        if self.waiting() == 0 {
            return;
        }
        let mut line = self.line.lock();
        let call = self.call_first(&mut line);
        drop(line);
        make(call);
    }

    /// Takes a place at the end of the line; none when it is as long as it may be.
    pub(crate) fn enter(self: &Arc<Self>, wake: &Arc<dyn Wake>, token: u64) -> Option<Ticket> {
        let mut line = self.line.lock();
        let waiting = line.len();
        if waiting >= self.limit() {
            drop(line);
            self.overflows.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let number = line.next;
        line.next += 1;
        line.waiting.insert(
            number,
            Place {
                wake: Arc::clone(wake),
                token,
            },
        );
        self.waiting.store(waiting + 1, Ordering::SeqCst);
        drop(line);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.most_waiting.fetch_max(waiting + 1, Ordering::Relaxed);
        // Pairs with `free`: either the choice that follows sees the session gone, or the thread
        // that ended it sees this place.
        fence(Ordering::SeqCst);
        Some(Ticket {
            queue: Arc::clone(self),
            number,
            left: false,
        })
    }

    /// True while a connection is called, so that free room is spoken for.
    #[inline]
    pub(crate) fn is_calling(&self) -> bool {
        self.called.load(Ordering::Relaxed) > 0
    }

    /// Ends a session with `end`, which must be a sequentially consistent write, and calls the
    /// first in line.
    pub(crate) fn free(&self, end: impl FnOnce()) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            end();
            if self.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
            let mut line = self.line.lock();
            let call = self.call_first(&mut line);
            drop(line);
            make(call);
            return;
        }
        let mut line = self.line.lock();
        // Called before the room is there: no other slips in between.
        let call = self.call_first(&mut line);
        end();
        drop(line);
        make(call);
    }

    fn call_first(&self, line: &mut Line) -> Option<Place> {
        let call = self.call_after(line, Bound::Unbounded);
        if call.is_none() && !line.called.is_empty() {
            line.missed = true;
        }
        call
    }

    fn call_after(&self, line: &mut Line, after: Bound<u64>) -> Option<Place> {
        let number = *line.waiting.range((after, Bound::Unbounded)).next()?.0;
        let place = line.waiting.remove(&number)?;
        let call = place.clone();
        line.called.insert(number, place);
        self.count_called(line);
        Some(call)
    }

    fn count_called(&self, line: &Line) -> u32 {
        let called = u32::try_from(line.called.len()).unwrap_or(u32::MAX);
        self.called.store(called, Ordering::SeqCst);
        called
    }
}

impl Ticket {
    /// True when this connection is called.
    #[must_use]
    #[inline]
    pub fn is_called(&self) -> bool {
        self.queue.line.lock().called.contains_key(&self.number)
    }

    /// Back to waiting, because there was no room after all; with `hand_on`, because there was none
    /// for this connection, though there may be some for others.
    pub(crate) fn decline(&self, hand_on: bool) {
        let queue = &self.queue;
        let mut line = queue.line.lock();
        let Some(place) = line.called.remove(&self.number) else {
            return;
        };
        line.waiting.insert(self.number, place);
        queue.count_called(&line);
        let call = if std::mem::take(&mut line.missed) {
            queue.call_first(&mut line)
        } else if hand_on {
            queue.call_after(&mut line, Bound::Excluded(self.number))
        } else {
            None
        };
        drop(line);
        make(call);
    }

    /// Out of the line. If it was called and leaves `room` for more than the others that are, the
    /// next is called too.
    pub(crate) fn leave(&mut self, room: u32) {
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        let queue = &self.queue;
        let mut line = queue.line.lock();
        let was_called = line.called.remove(&self.number).is_some();
        line.waiting.remove(&self.number);
        queue.waiting.store(line.len(), Ordering::SeqCst);
        let n_called = queue.count_called(&line);
        let call = match (was_called, line.missed) {
            (true, true) => queue.call_after(&mut line, Bound::Unbounded),
            (true, false) if room > n_called => {
                queue.call_after(&mut line, Bound::Excluded(self.number))
            }
            _ => None,
        };
        if call.is_some() || line.len() == 0 {
            line.missed = false;
        }
        drop(line);
        make(call);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Another connection has the room it was called for.
        self.leave(u32::MAX);
    }
}

/// Everybody who waits, by the order in which they came.
#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: BTreeMap<u64, Place>,
    called: BTreeMap<u64, Place>,
    /// A session ended while all were called: a connection that finds no room must look again.
    missed: bool,
}

impl Line {
    fn len(&self) -> u32 {
        u32::try_from(self.waiting.len() + self.called.len()).unwrap_or(u32::MAX)
    }
}

/// The worker to wake for a place.
#[derive(Debug, Clone)]
struct Place {
    wake: Arc<dyn Wake>,
    token: u64,
}

/// Wakes who was called; never under the lock.
fn make(call: Option<Place>) {
    if let Some(Place { wake, token }) = call {
        wake.wake(token);
    }
}

#[cfg(test)]
mod tests;
