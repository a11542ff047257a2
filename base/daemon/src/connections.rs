//! The places of a listener's connections: the shell of the crate `admission`, which decides.
//!
//! ```text
//! accepted ── Connections::admit ── Place ── Placed, the stream that tells of its phases and ends when it has to
//! ```
//!
//! One task for all connections of a listener looks at their deadlines. It lives for as long as there is a connection.

mod answering;
mod placed;
mod table;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Instant;

use admission::{Admission, Ended, Id, Taken};
use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

pub use admission::{Class, Opening, Policy, Reason, Refusal, Source};
pub use answering::Answering;
pub use placed::Placed;
pub(crate) use table::StreamsCollector;
pub use table::Table;

use crate::clock;

/// The connections of one listener, or of several that share their places.
#[derive(Debug)]
pub struct Connections {
    name: &'static str,
    policy: Policy,
    state: Mutex<State>,
    /// The addresses of other nodes.
    members: RwLock<Vec<IpAddr>>,
    /// A deadline is earlier than the armed one.
    is_sooner: Notify,
    refused: [AtomicU64; Refusal::ALL.len()],
    ended: [AtomicU64; Reason::ALL.len()],
}

#[derive(Debug)]
struct State {
    admission: Admission,
    signals: BTreeMap<Id, Arc<Signal>>,
    /// The deadline for which the task of deadlines waits.
    armed: Option<Instant>,
    /// Whether a task looks at deadlines.
    is_watched: bool,
}

/// Tells a connection that it has to end.
#[derive(Debug, Default)]
struct Signal {
    is_ended: AtomicBool,
    /// Those who wait to read and to write.
    wakers: Mutex<[Option<Waker>; 2]>,
    notify: Notify,
}

impl Signal {
    fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        for waker in &mut *self.wakers.lock() {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
        self.notify.notify_one();
    }
}

impl Connections {
    /// No connection yet. The name is that of the listener in metrics.
    #[must_use]
    pub fn new(name: &'static str, policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            name,
            policy,
            state: Mutex::new(State {
                admission: Admission::new(policy),
                signals: BTreeMap::new(),
                armed: None,
                is_watched: false,
            }),
            members: RwLock::default(),
            is_sooner: Notify::new(),
            refused: Default::default(),
            ended: Default::default(),
        })
    }

    /// The addresses of the other nodes, for which places are reserved.
    pub fn set_members(&self, members: Vec<IpAddr>) {
        *self.members.write() = members;
    }

    /// The class of a client by its address, and by the one that it has connected to.
    #[must_use]
    pub fn class(&self, peer: IpAddr, local: Option<IpAddr>) -> Class {
        let peer = peer.to_canonical();
        let is_own = local.is_some_and(|local| local.to_canonical() == peer);
        if self.members.read().contains(&peer) {
            Class::Member
        } else if peer.is_loopback() || is_own {
            Class::Node
        } else {
            Class::Other
        }
    }

    /// Decides on a connection that has come. Needs a tokio runtime.
    ///
    /// # Errors
    /// The reason why it has no place.
    pub fn admit(
        self: &Arc<Self>,
        source: Source,
        class: Class,
        opening: Opening,
    ) -> Result<Place, Refusal> {
        let signal = Arc::new(Signal::default());
        let admitted = self.with(|state| {
            let now = clock::now();
            let decision = state.admission.arrive(source, class, opening, now);
            self.end(state, &decision.ended);
            let id = decision.outcome?;
            state.signals.insert(id, Arc::clone(&signal));
            if !state.is_watched {
                state.is_watched = true;
                tokio::spawn(Arc::clone(self).watch());
            }
            Ok(id)
        });
        match admitted {
            Ok(id) => Ok(Place(Arc::new(Held {
                connections: Arc::clone(self),
                id,
                signal,
            }))),
            Err(refusal) => Err(self.refuse(refusal)),
        }
    }

    /// Whether a connection would get a place, and no other one had to end for it.
    #[must_use]
    pub fn has_free(&self, source: Source, class: Class, opening: Opening) -> bool {
        self.state.lock().admission.has_free(source, class, opening)
    }

    /// Counts a refusal.
    fn refuse(&self, refusal: Refusal) -> Refusal {
        let place = Refusal::ALL.iter().position(|one| *one == refusal);
        count(&self.refused, place);
        refusal
    }

    fn end(&self, state: &mut State, ended: &[Ended]) {
        for ended in ended {
            count(
                &self.ended,
                Reason::ALL.iter().position(|one| *one == ended.reason),
            );
            if let Some(signal) = state.signals.remove(&ended.id) {
                signal.end();
            }
        }
    }

    /// Changes the places, and wakes the task of deadlines when one is earlier now.
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let is_sooner = match (state.admission.next_deadline(), state.armed) {
            (Some(next), Some(armed)) => next < armed,
            (next, None) => next.is_some(),
            (None, Some(_)) => false,
        };
        drop(state);
        if is_sooner {
            self.is_sooner.notify_one();
        }
        result
    }

    /// Ends connections whose time is over, until there is no connection.
    async fn watch(self: Arc<Self>) {
        loop {
            let armed = {
                let state = &mut *self.state.lock();
                let ended = state.admission.due(clock::now());
                self.end(state, &ended);
                state.armed = state.admission.next_deadline();
                if state.admission.is_empty() {
                    (state.armed, state.is_watched) = (None, false);
                    return;
                }
                state.armed
            };
            let due = async {
                match armed {
                    Some(armed) => tokio::time::sleep_until(armed.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.is_sooner.notified() => {}
            }
        }
    }

    /// The name of the listener.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The places that are taken.
    #[must_use]
    pub fn taken(&self) -> Taken {
        self.state.lock().admission.taken()
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        u64::try_from(self.taken().all()).unwrap_or(u64::MAX)
    }

    /// How many were refused, by the reason.
    pub fn refused_by(&self) -> impl Iterator<Item = (Refusal, u64)> {
        let counts = self
            .refused
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        Refusal::ALL.into_iter().zip(counts)
    }

    /// How many were ended, by the reason.
    pub fn ended_by(&self) -> impl Iterator<Item = (Reason, u64)> {
        let counts = self.ended.iter().map(|count| count.load(Ordering::Relaxed));
        Reason::ALL.into_iter().zip(counts)
    }

    /// How many were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused_by().map(|(_, count)| count).sum()
    }
}

fn count(counts: &[AtomicU64], place: Option<usize>) {
    if let Some(count) = place.and_then(|place| counts.get(place)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection's place, given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    connections: Arc<Connections>,
    id: Id,
    signal: Arc<Signal>,
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Admission, Id, Instant)) {
        let id = self.0.id;
        self.0
            .connections
            .with(|state| change(&mut state.admission, id, clock::now()));
    }

    /// This many octets have come from the client.
    pub fn received(&self, octets: usize) {
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        self.change(|admission, id, now| admission.received(id, octets, now));
    }

    /// The handshake is made, or the client has nothing more to come: the connection is idle.
    pub fn idle(&self) {
        self.change(Admission::idle);
    }

    /// An answer is in flight, until the guard is dropped.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.change(|admission, id, _| admission.answer(id));
        Answer {
            place: self.clone(),
            is_counted: AtomicBool::new(true),
        }
    }

    /// The client is a node of the site by its certificate, or a process that a socket's mode lets in: it stays.
    pub fn prove(&self) {
        self.change(|admission, id, _| admission.prove(id));
    }

    /// A load balancer has named the client: the connection counts among those of this address.
    ///
    /// # Errors
    /// The reason why that client gets no place. The connection has lost its own.
    pub fn is_of(&self, client: IpAddr) -> Result<(), Refusal> {
        let connections = &self.0.connections;
        let class = connections.class(client, None);
        let moved = connections.with(|state| {
            let source = Source::Address(client);
            let decision = state
                .admission
                .move_to(self.0.id, source, class, clock::now());
            connections.end(state, &decision.ended);
            decision.outcome.map(drop)
        });
        moved.map_err(|refusal| connections.refuse(refusal))
    }

    fn blocked(&self, is_blocked: bool) {
        self.change(|admission, id, now| admission.blocked(id, is_blocked, now));
    }

    /// Whether the connection has to end.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.0.signal.is_ended.load(Ordering::Acquire)
    }

    /// Comes when the connection has to end, to one who waits. Cancel safe.
    pub async fn ended(&self) {
        while !self.is_ended() {
            self.0.signal.notify.notified().await;
        }
    }

    /// Has a task woken at the end; true when that has come.
    fn watch(&self, side: Side, waker: &Waker) -> bool {
        let mut wakers = self.0.signal.wakers.lock();
        let [read, write] = &mut *wakers;
        let own = match side {
            Side::Read => read,
            Side::Write => write,
        };
        match own {
            Some(known) => known.clone_from(waker),
            None => *own = Some(waker.clone()),
        }
        drop(wakers);
        self.is_ended()
    }
}

/// One who waits at a stream.
#[derive(Clone, Copy, Debug)]
enum Side {
    Read,
    Write,
}

impl Drop for Held {
    fn drop(&mut self) {
        let id = self.id;
        self.connections.with(|state| {
            state.admission.leave(id);
            state.signals.remove(&id);
            if state.admission.is_empty() {
                // The task of deadlines ends.
                self.connections.is_sooner.notify_one();
            }
        });
    }
}

/// An answer in flight.
#[derive(Debug)]
pub struct Answer {
    place: Place,
    /// Whether it counts: not while the body of its request is read.
    is_counted: AtomicBool,
}

impl Answer {
    /// Reads the body of a request, which has to come at some speed. Meanwhile the answer is not in flight.
    pub async fn reading<F: Future>(&self, body: F) -> F::Output {
        self.is_counted.store(false, Ordering::Relaxed);
        self.place.change(Admission::body);
        let output = body.await;
        self.place.change(|admission, id, _| admission.answer(id));
        self.is_counted.store(true, Ordering::Relaxed);
        output
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.is_counted.load(Ordering::Relaxed) {
            self.place.change(Admission::answered);
        }
    }
}

/// How many of the `wanted` places the descriptors of this process allow, when each takes `each` and `reserved` are for
/// what the service itself connects to and for its control: those come first.
#[must_use]
pub fn within_descriptors(wanted: usize, each: usize, reserved: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return wanted;
    };
    let most = places_within(limit, each, reserved);
    if most < wanted {
        tracing::warn!(
            wanted,
            places = most,
            descriptors = limit,
            "Fewer connections than configured: raise LimitNOFILE"
        );
    }
    wanted.min(most)
}

fn places_within(limit: usize, each: usize, reserved: usize) -> usize {
    // Connections have half of very few descriptors.
    (limit.saturating_sub(reserved) / each.max(1))
        .max(limit / each.max(1) / 2)
        .max(1)
}

#[cfg(test)]
mod tests;
