//! The connections to one server: one of them takes each query, and queries that one leaves behind go to another.
//!
//! One connection carries all queries (RFC 7766 §6.2.2) until it is full or stalls. Ids of queries are unique on a
//! connection (§6.2.1): a query whose id is taken gets another one there, and its response the former. A query that was
//! abandoned keeps its id until the response comes or the connection ends, so that no other query gets that response.
//!
//! A state machine: inputs are method calls with `now`, outputs are drained with [`Pool::poll_action`]. Never touches a
//! socket or a clock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_resolve::resolver::{ExchangeId, Loss};

/// The most connections to one server.
pub const MAX_CONNECTIONS: usize = 4;
/// The most queries of one connection that wait for responses.
pub const PIPELINE: usize = 100;
/// The most queries that wait for a connection.
pub const MAX_WAITING: usize = 1000;
/// A connection that owes responses and has been silent for this long takes no further query while another one can.
pub const STALL: Duration = Duration::from_secs(2);
/// A connection that owes responses and has been silent for this long is closed.
pub const DEAD: Duration = Duration::from_secs(10);
/// The time before another try to open a further connection, when the server has just refused one.
pub const GROWTH_PAUSE: Duration = Duration::from_secs(1);
/// A connection without queries is closed after this long. Servers close theirs after 10 to 30 seconds.
pub const IDLE: Duration = Duration::from_secs(10);

/// The number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection.
    Open(ConnectionId),
    /// Send a message.
    Send(ConnectionId, Vec<u8>),
    /// Close a connection.
    Close(ConnectionId),
    /// A response has come.
    Received(ExchangeId, Vec<u8>),
    /// There will be none.
    Lost(ExchangeId, Loss),
}

/// Why a query has no response although its connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server has answered the request with an error.
    Refused,
    /// The request was cut off: the connection ends, and the query may go over another one.
    CutOff,
}

/// All connections to one server.
#[derive(Debug)]
pub struct Pool {
    connections: BTreeMap<ConnectionId, Connection>,
    waiting: VecDeque<Query>,
    /// The connection and the id of each query that was sent.
    places: HashMap<ExchangeId, (ConnectionId, u16)>,
    actions: VecDeque<Action>,
    last: ConnectionId,
    /// No further connection is opened before this.
    grows_at: Instant,
}

#[derive(Debug)]
struct Connection {
    is_open: bool,
    /// It gets no further query, and ends with its last response.
    is_retiring: bool,
    pending: BTreeMap<u16, Pending>,
    /// The time since which it owes a response and is silent, or without queries; that of its beginning before it is open.
    since: Instant,
}

#[derive(Debug)]
struct Pending {
    /// The id that the query had.
    id: [u8; 2],
    /// `None` when no client waits any more.
    query: Option<Query>,
}

#[derive(Clone, Debug)]
struct Query {
    exchange: ExchangeId,
    message: Vec<u8>,
    /// Whether a connection has ended without a response to it.
    is_again: bool,
}

impl Pool {
    /// A pool without connections, whose numbers come after this one.
    #[must_use]
    pub fn new(last: ConnectionId) -> Self {
        Self {
            connections: BTreeMap::new(),
            waiting: VecDeque::new(),
            places: HashMap::new(),
            actions: VecDeque::new(),
            last,
            grows_at: Instant::START,
        }
    }

    /// Whether it has neither connections nor queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.waiting.is_empty()
    }

    /// The number of connections.
    #[must_use]
    pub fn n_connections(&self) -> usize {
        self.connections.len()
    }

    //--- Queries

    /// Takes a query.
    pub fn ask(&mut self, exchange: ExchangeId, message: Vec<u8>, now: Instant) {
        let query = Query {
            exchange,
            message,
            is_again: false,
        };
        self.place(query, now);
    }

    /// No client waits for a response any more.
    pub fn abandon(&mut self, exchange: ExchangeId) {
        self.waiting.retain(|query| query.exchange != exchange);
        if let Some((connection, id)) = self.places.remove(&exchange)
            && let Some(connection) = self.connections.get_mut(&connection)
            && let Some(pending) = connection.pending.get_mut(&id)
        {
            pending.query = None;
        }
    }

    fn place(&mut self, query: Query, now: Instant) {
        if let Some(id) = self.with_room(now) {
            self.send(id, query, now);
            return;
        }
        if self.waiting.len() >= MAX_WAITING {
            let lost = Action::Lost(query.exchange, Loss::Broken);
            self.actions.push_back(lost);
            return;
        }
        self.waiting.push_back(query);
        self.grow(now);
    }

    /// The first connection that takes a further query: later ones become idle when they are not needed.
    fn with_room(&self, now: Instant) -> Option<ConnectionId> {
        let mut connections = self.connections.iter();
        let found = connections.find(|(_, connection)| connection.has_room(now));
        found.map(|(id, _)| *id)
    }

    /// Opens a further connection, unless one is being opened or there are enough.
    fn grow(&mut self, now: Instant) {
        if !self.may_grow() || now < self.grows_at {
            return;
        }
        self.last.0 += 1;
        let connection = Connection {
            is_open: false,
            is_retiring: false,
            pending: BTreeMap::new(),
            since: now,
        };
        self.connections.insert(self.last, connection);
        self.actions.push_back(Action::Open(self.last));
    }

    fn may_grow(&self) -> bool {
        let mut connections = self.connections.values();
        let is_opening = connections.any(|connection| !connection.is_open);
        let retiring = self.connections.values().filter(|it| it.is_retiring);
        // Those that retire do not hold up their successors, up to as many again.
        let n_fresh = self.connections.len() - retiring.count();
        let is_full = n_fresh >= MAX_CONNECTIONS || self.connections.len() >= 2 * MAX_CONNECTIONS;
        !is_opening && !is_full
    }

    fn send(&mut self, id: ConnectionId, mut query: Query, now: Instant) {
        let connection = self.connections.get_mut(&id);
        let (Some(connection), Some(own)) = (connection, query.message.first_chunk_mut::<2>())
        else {
            let lost = Action::Lost(query.exchange, Loss::Broken);
            self.actions.push_back(lost);
            return;
        };
        let before = *own;
        let mut number = u16::from_be_bytes(before);
        // There are far more ids than queries of a connection.
        while connection.pending.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        *own = number.to_be_bytes();
        if connection.pending.is_empty() {
            connection.since = now;
        }
        self.places.insert(query.exchange, (id, number));
        let message = query.message.clone();
        *query.message.first_chunk_mut().unwrap_or(&mut [0; 2]) = before;
        let pending = Pending {
            id: before,
            query: Some(query),
        };
        connection.pending.insert(number, pending);
        self.actions.push_back(Action::Send(id, message));
    }

    /// Sends queries that wait, as far as there is room.
    fn drain(&mut self, now: Instant) {
        while !self.waiting.is_empty()
            && let Some(id) = self.with_room(now)
            && let Some(query) = self.waiting.pop_front()
        {
            self.send(id, query, now);
        }
        if !self.waiting.is_empty() {
            self.grow(now);
        }
    }

    //--- Connections

    /// A connection is open.
    pub fn opened(&mut self, id: ConnectionId, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_open = true;
            connection.since = now;
        }
        self.drain(now);
    }

    /// A message has come. One that answers no query of the connection is dropped.
    pub fn received(&mut self, id: ConnectionId, mut message: Vec<u8>, now: Instant) {
        let Some(own) = message.first_chunk_mut::<2>() else {
            return;
        };
        let Some(pending) = self.take(id, u16::from_be_bytes(*own), now) else {
            return;
        };
        *own = pending.id;
        if let Some(query) = pending.query {
            self.places.remove(&query.exchange);
            self.actions
                .push_back(Action::Received(query.exchange, message));
        }
        self.drain(now);
    }

    /// A query has no response, and the connection continues.
    pub fn failed(&mut self, id: ConnectionId, number: u16, failure: Failure, now: Instant) {
        if failure == Failure::CutOff
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.is_retiring = true;
        }
        if let Some(query) = self.take(id, number, now).and_then(|pending| pending.query) {
            self.places.remove(&query.exchange);
            self.lose(query, failure == Failure::CutOff, Loss::Broken, now);
        }
        self.drain(now);
    }

    /// A connection has ended, or could not be opened.
    pub fn ended(&mut self, id: ConnectionId, loss: Loss, now: Instant) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        for query in connection.pending.into_values().filter_map(|it| it.query) {
            self.places.remove(&query.exchange);
            self.lose(query, connection.is_open, loss, now);
        }
        match (connection.is_open, self.connections.is_empty()) {
            // The server takes no connection: nothing else will serve those that wait.
            (false, true) => {
                for query in std::mem::take(&mut self.waiting) {
                    self.actions.push_back(Action::Lost(query.exchange, loss));
                }
            }
            // It takes no further one. Those that wait are served as others have their responses.
            (false, false) => self.grows_at = now.after(GROWTH_PAUSE),
            (true, _) => {}
        }
        self.drain(now);
    }

    /// Gives a query another connection, once; otherwise it is lost.
    fn lose(&mut self, mut query: Query, may_go_again: bool, loss: Loss, now: Instant) {
        if may_go_again && !query.is_again {
            query.is_again = true;
            self.place(query, now);
        } else {
            self.actions.push_back(Action::Lost(query.exchange, loss));
        }
    }

    /// Removes a query from its connection.
    fn take(&mut self, id: ConnectionId, number: u16, now: Instant) -> Option<Pending> {
        let connection = self.connections.get_mut(&id)?;
        let pending = connection.pending.remove(&number)?;
        connection.since = now;
        if connection.is_retiring && connection.pending.is_empty() {
            self.connections.remove(&id);
            self.actions.push_back(Action::Close(id));
        }
        Some(pending)
    }

    /// Connections get no further query: the server's settings have changed.
    pub fn retire(&mut self) {
        for connection in self.connections.values_mut() {
            connection.is_retiring = true;
        }
        let idle: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.pending.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in idle {
            self.connections.remove(&id);
            self.actions.push_back(Action::Close(id));
        }
    }

    //--- Time

    /// Closes connections that are idle or dead.
    pub fn expire(&mut self, now: Instant) {
        let due = self.connections.iter().filter(|(_, connection)| {
            let deadline = connection.deadline();
            deadline.is_some_and(|deadline| now >= deadline)
        });
        let due: Vec<ConnectionId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.actions.push_back(Action::Close(id));
            self.ended(id, Loss::Broken, now);
        }
        self.drain(now);
    }

    /// The time of the next [`Pool::expire`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let connections = self.connections.values();
        let growth = !self.waiting.is_empty() && self.may_grow();
        let growth = growth.then_some(self.grows_at);
        connections
            .filter_map(Connection::deadline)
            .chain(growth)
            .min()
    }

    /// The next action; drain after every input.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

impl Connection {
    fn has_room(&self, now: Instant) -> bool {
        let is_stalled = !self.pending.is_empty() && now.since(self.since) >= STALL;
        self.is_open && !self.is_retiring && !is_stalled && self.pending.len() < PIPELINE
    }

    /// The time of its end if nothing comes; the shell bounds the time of its opening.
    fn deadline(&self) -> Option<Instant> {
        let most = match self.pending.is_empty() {
            true => IDLE,
            false => DEAD,
        };
        self.is_open.then(|| self.since.after(most))
    }
}

#[cfg(test)]
mod tests;
