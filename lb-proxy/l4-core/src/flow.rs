//! Flows of datagrams: the server of each client, and when a flow ends.
//!
//! A flow is a client's address together with the address it sends to. The first datagram chooses a
//! server; the others follow it until the flow is idle, complete, or its server goes.
//!
//! ```text
//!  handle_request ───▶ ┌─────────┐ ───▶ Open, Forward, Drop
//!  handle_response ──▶ │  Flows  │ ───▶ Close
//!  handle_refused ───▶ │         │ ───▶ Refused (for whoever probes servers)
//!  handle_servers ───▶ │         │ ───▶ …
//!  handle_adopted ───▶ └─────────┘      (flows that began elsewhere)
//!  handle_timeout(now) ◀── poll_timeout
//! ```
//!
//! After each `handle_…` the outputs are to be polled until there are none: an output refers to the
//! datagram that was handled.
//!
//! There are never more flows than settings say: the one that was idle the longest makes room. So a
//! flood of addresses costs no more memory than that, and flows in use outlive it.
//!
//! Does no I/O; knows neither sockets nor what datagrams say.

mod adopt;
mod event;
mod hash;
mod order;

pub use adopt::Known;
pub use event::{Counts, Dropped, Ending, FlowId, FlowInfo, Output, Settings};

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use balance::limits::Admission;
use balance::pool::{Choice, Failure, Hint, Pool, Server, Slot, Tried, mix};
use balance::table::Frontend;

use self::hash::Seed;

/// How long a server that refused a datagram is passed over, while there are others: about as long as
/// it takes until its probes tell.
const PASSED_OVER: Duration = Duration::from_secs(1);

/// Servers passed over at a time; [`Tried`] remembers no more.
const MAX_PASSED_OVER: usize = Tried::CAPACITY;

/// No flow.
const NONE: u32 = u32::MAX;

/// The flows of one frontend.
#[derive(Debug)]
pub struct Flows {
    settings: Settings,
    frontend: Arc<Frontend>,
    /// Without a pool there is no server to send to.
    pool: Option<Arc<Pool>>,
    places: Vec<Place>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32, Seed>,
    /// The flow in which something moved last, and the one that has been idle the longest.
    newest: u32,
    oldest: u32,
    passed_over: Vec<(Arc<Server>, Instant)>,
    outputs: VecDeque<Output>,
    random: u64,
    /// The latest time there was: threads may hand theirs in out of order.
    now: Instant,
    counts: Counts,
}

/// The key of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    local: Option<IpAddr>,
}

/// Room for one flow.
#[derive(Debug)]
struct Place {
    generation: u32,
    flow: Option<Flow>,
}

#[derive(Debug)]
struct Flow {
    key: Key,
    server: Arc<Server>,
    /// Counts the session with the server.
    _slot: Slot,
    /// Counts the session with the source.
    _admission: Option<Admission>,
    moved_at: Instant,
    requests: u64,
    responses: u64,
    newer: u32,
    older: u32,
}

impl Flows {
    /// No flows. `seed` makes the order in which hashes fall, and chance, unpredictable.
    #[must_use]
    pub fn new(settings: Settings, frontend: Arc<Frontend>, seed: u64, now: Instant) -> Self {
        Self {
            settings,
            frontend,
            pool: None,
            places: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::with_hasher(Seed(mix(seed))),
            newest: NONE,
            oldest: NONE,
            passed_over: Vec::new(),
            outputs: VecDeque::new(),
            random: mix(!seed),
            now,
            counts: Counts::default(),
        }
    }

    //--- Inputs

    /// Datagrams came from `client`, sent to `local`: one, unless the kernel has merged several.
    #[inline]
    pub fn handle_request(
        &mut self,
        client: SocketAddr,
        local: Option<IpAddr>,
        datagrams: u64,
        now: Instant,
    ) {
        self.advance(now);
        let key = Key { client, local };
        let index = match self.by_key.get(&key).copied() {
            Some(index) => index,
            None => match self.open(key) {
                Ok(index) => index,
                Err(dropped) => {
                    self.count_dropped(dropped);
                    self.outputs.push_back(Output::Drop(dropped));
                    return;
                }
            },
        };
        self.touch(index);
        let Some((flow, entry)) = self.at_mut(index) else {
            return;
        };
        entry.requests += datagrams;
        let requests = entry.requests;
        self.outputs.push_back(Output::Forward { flow });
        if self.settings.responses == Some(0) {
            self.close(index, Ending::Complete);
        } else if self
            .settings
            .requests
            .is_some_and(|most| requests >= most.into())
        {
            // Answers may still come: only the client's next datagram is for another flow.
            self.by_key.remove(&key);
        }
    }

    /// Datagrams came from the server of `flow`, and are on their way to the client.
    #[inline]
    pub fn handle_response(&mut self, flow: FlowId, datagrams: u64, now: Instant) {
        self.advance(now);
        let Some(index) = self.find(flow) else { return };
        self.touch(index);
        let Some((_, entry)) = self.at_mut(index) else {
            return;
        };
        entry.responses += datagrams;
        entry.server.load.connected();
        let (requests, responses) = (entry.requests, entry.responses);
        if let Some(most) = self.settings.responses
            && responses >= requests.saturating_mul(most.into())
        {
            self.close(index, Ending::Complete);
        }
    }

    /// The server of `flow` refused a datagram: no process listens there.
    pub fn handle_refused(&mut self, flow: FlowId, now: Instant) {
        self.advance(now);
        let Some(index) = self.find(flow) else { return };
        let Some((_, entry)) = self.at_mut(index) else {
            return;
        };
        let server = Arc::clone(&entry.server);
        let errors = &server.load.tally.connect_errors;
        errors.fetch_add(1, Ordering::Relaxed);
        server.load.failed(Failure::Refusal, self.now);
        self.close(index, Ending::Refused);
        self.pass_over(&server);
        self.outputs.push_back(Output::Refused { server });
    }

    /// The way to the server of `flow` could not be made.
    pub fn handle_no_way(&mut self, flow: FlowId, now: Instant) {
        self.advance(now);
        let Some(index) = self.find(flow) else { return };
        if let Some((_, entry)) = self.at_mut(index) {
            let server = Arc::clone(&entry.server);
            self.pass_over(&server);
        }
        self.close(index, Ending::NoWay);
    }

    /// There is no descriptor or memory for the way to the server of `flow`: it ends, and another that
    /// was idle the longest makes room.
    pub fn handle_exhausted(&mut self, flow: FlowId) {
        if let Some(index) = self.find(flow) {
            self.close(index, Ending::NoWay);
        }
        self.close(self.oldest, Ending::Evicted);
    }

    /// `flow` is to end.
    pub fn handle_kill(&mut self, flow: FlowId) {
        if let Some(index) = self.find(flow) {
            self.close(index, Ending::Killed);
        }
    }

    /// The frontend and its servers stand like this from now on. Flows whose server went, and those of
    /// sources that may no longer send, end at once.
    pub fn handle_servers(&mut self, frontend: Arc<Frontend>, pool: Option<&Arc<Pool>>) {
        let n_flows = u64::try_from(self.len()).unwrap_or(0);
        let old = std::mem::replace(&mut self.frontend, frontend);
        old.tally.sessions.fetch_sub(n_flows, Ordering::Relaxed);
        let tally = &self.frontend.tally;
        tally.sessions.fetch_add(n_flows, Ordering::Relaxed);
        self.pool = pool.map(Arc::clone);
        let mut stay: HashMap<u32, Arc<Server>> = HashMap::new();
        if let Some(pool) = pool {
            stay.extend(adopt::keeping(pool).map(|server| (server.load.id(), Arc::clone(server))));
        }
        for index in (0..).take(self.places.len()) {
            let Some((_, flow)) = self.at_mut(index) else {
                continue;
            };
            let client = flow.key.client.ip();
            let reason = match stay.get(&flow.server.load.id()) {
                Some(server) if server.address == flow.server.address => {
                    flow.server = Arc::clone(server);
                    if self.frontend.sources.admit(client) {
                        continue;
                    }
                    Ending::Denied
                }
                _ => Ending::ServerGone,
            };
            self.close(index, reason);
        }
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        while let Some(due) = self.poll_timeout() {
            if due > self.now {
                break;
            }
            self.close(self.oldest, Ending::Idle);
        }
    }

    //--- Outputs

    /// When [`Flows::handle_timeout`] is to be called, if nothing else happens.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (_, flow) = self.at(self.oldest)?;
        flow.moved_at.checked_add(self.settings.idle_timeout)
    }

    /// The next output.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    //--- Getters

    /// How many flows there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// True when there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The server of `flow`, while it is there.
    #[must_use]
    #[inline]
    pub fn server(&self, flow: FlowId) -> Option<&Arc<Server>> {
        let (_, flow) = self.at(self.find(flow)?)?;
        Some(&flow.server)
    }

    /// The frontend they are of.
    #[must_use]
    #[inline]
    pub fn frontend(&self) -> &Arc<Frontend> {
        &self.frontend
    }

    /// Every flow, as it stands.
    pub fn list(&self, now: Instant) -> impl Iterator<Item = FlowInfo> {
        (0..).take(self.places.len()).filter_map(move |index| {
            let (id, flow) = self.at(index)?;
            Some(FlowInfo {
                id,
                client: flow.key.client,
                local: flow.key.local,
                server: Arc::clone(&flow.server),
                requests: flow.requests,
                responses: flow.responses,
                idle: now.saturating_duration_since(flow.moved_at),
            })
        })
    }

    //--- Opening and closing

    fn open(&mut self, key: Key) -> Result<u32, Dropped> {
        let client = key.client.ip();
        let tally = Arc::clone(&self.frontend.tally);
        if !self.frontend.sources.admit(client) {
            tally.denied.fetch_add(1, Ordering::Relaxed);
            return Err(Dropped::Denied);
        }
        let admission = match &self.frontend.limits {
            None => None,
            Some(limits) => Some(limits.admit(client, self.now).map_err(|_| {
                tally.limited.fetch_add(1, Ordering::Relaxed);
                Dropped::Limited
            })?),
        };
        let (server, slot) = self.choose(client)?;
        if self.len() >= self.most() {
            self.close(self.oldest, Ending::Evicted);
        }
        let flow = Flow {
            key,
            server: Arc::clone(&server),
            _slot: slot,
            _admission: admission,
            moved_at: self.now,
            requests: 0,
            responses: 0,
            newer: NONE,
            older: NONE,
        };
        let index = self.place(flow);
        self.by_key.insert(key, index);
        self.push_newest(index);
        tally.total.fetch_add(1, Ordering::Relaxed);
        tally.sessions.fetch_add(1, Ordering::Relaxed);
        tally.note_most();
        self.counts.opened += 1;
        if let Some((flow, _)) = self.at(index) {
            self.outputs.push_back(Output::Open { flow, server });
        }
        Ok(index)
    }

    fn most(&self) -> usize {
        let most = self.frontend.max_connections.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        });
        self.settings.max_flows.min(most).clamp(1, NONE as usize)
    }

    fn choose(&mut self, source: IpAddr) -> Result<(Arc<Server>, Slot), Dropped> {
        let pool = self.pool.clone().ok_or(Dropped::Nobody)?;
        self.random = mix(self.random);
        let hint = Hint {
            source,
            random: self.random,
        };
        let mut tried = Tried::default();
        let now = self.now;
        self.passed_over.retain(|(_, until)| *until > now);
        for (server, _) in &self.passed_over {
            tried.add(server);
        }
        loop {
            match pool.choose(&hint, &tried, now) {
                Choice::Take { index, slot } => {
                    let server = pool.servers.get(index).ok_or(Dropped::Nobody)?;
                    return Ok((Arc::clone(server), slot));
                }
                // Better one that refused a moment ago than none.
                Choice::Full | Choice::Nobody if !tried.is_empty() => tried.clear(),
                Choice::Full => return Err(Dropped::Full),
                Choice::Nobody => return Err(Dropped::Nobody),
            }
        }
    }

    fn pass_over(&mut self, server: &Arc<Server>) {
        let Some(until) = self.now.checked_add(PASSED_OVER) else {
            return;
        };
        let id = server.load.id();
        self.passed_over.retain(|(other, _)| other.load.id() != id);
        if self.passed_over.len() >= MAX_PASSED_OVER {
            self.passed_over.remove(0);
        }
        self.passed_over.push((Arc::clone(server), until));
    }

    fn close(&mut self, index: u32, reason: Ending) {
        let Some((id, _)) = self.at(index) else {
            return;
        };
        self.unlink(index);
        let Some(flow) = self.place_mut(index).and_then(|place| place.flow.take()) else {
            return;
        };
        if self.by_key.get(&flow.key) == Some(&index) {
            self.by_key.remove(&flow.key);
        }
        self.free.push(index);
        self.frontend.tally.sessions.fetch_sub(1, Ordering::Relaxed);
        let counts = &mut self.counts;
        match reason {
            Ending::Idle => counts.idle += 1,
            Ending::Complete => counts.complete += 1,
            Ending::Evicted => counts.evicted += 1,
            Ending::ServerGone => counts.moved += 1,
            Ending::Refused => counts.refused += 1,
            Ending::NoWay => counts.no_way += 1,
            Ending::Denied | Ending::Killed => {}
        }
        self.outputs.push_back(Output::Close { flow: id, reason });
    }

    fn count_dropped(&mut self, dropped: Dropped) {
        match dropped {
            Dropped::Nobody => self.counts.nobody += 1,
            Dropped::Full => self.counts.full += 1,
            // Those are the frontend's.
            Dropped::Denied | Dropped::Limited => {}
        }
    }

    //--- Places

    fn place(&mut self, flow: Flow) -> u32 {
        if let Some(index) = self.free.pop() {
            if let Some(place) = self.place_mut(index) {
                place.generation = place.generation.wrapping_add(1);
                place.flow = Some(flow);
            }
            return index;
        }
        // There are at most `NONE` flows.
        let index = u32::try_from(self.places.len()).unwrap_or(NONE);
        self.places.push(Place {
            generation: 0,
            flow: Some(flow),
        });
        index
    }

    fn find(&self, flow: FlowId) -> Option<u32> {
        let (id, _) = self.at(flow.index)?;
        (id == flow).then_some(flow.index)
    }

    fn at(&self, index: u32) -> Option<(FlowId, &Flow)> {
        let place = self.places.get(usize::try_from(index).ok()?)?;
        let id = FlowId {
            index,
            generation: place.generation,
        };
        Some((id, place.flow.as_ref()?))
    }

    fn at_mut(&mut self, index: u32) -> Option<(FlowId, &mut Flow)> {
        let place = self.place_mut(index)?;
        let id = FlowId {
            index,
            generation: place.generation,
        };
        Some((id, place.flow.as_mut()?))
    }

    fn place_mut(&mut self, index: u32) -> Option<&mut Place> {
        self.places.get_mut(usize::try_from(index).ok()?)
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let left = u64::try_from(self.len()).unwrap_or(0);
        let sessions = &self.frontend.tally.sessions;
        sessions.fetch_sub(left, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
