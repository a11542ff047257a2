//! The pools of all servers, and the tasks of their connections.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dns_cache::instant::Instant;
use dns_resolve::resolver::{ExchangeId, Loss};
use tokio::sync::mpsc;

use crate::connection::{self, Progress, QUEUE, Report, Reporter};
use crate::pool::{Action, ConnectionId, Pool};
use crate::server::{Place, Server};

/// The least time between two log lines about one server that is not trusted.
const LOG: Duration = Duration::from_secs(60);

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response has come.
    Received(ExchangeId, Vec<u8>),
    /// There will be none.
    Lost(ExchangeId, Loss),
}

/// The connections to all servers. The tasks of connections report by `events`, to [`Pools::arrived`].
#[derive(Debug)]
pub struct Pools<E> {
    entries: HashMap<Place, Entry>,
    /// The server of each query under way.
    queries: HashMap<ExchangeId, Place>,
    outcomes: VecDeque<Outcome>,
    events: mpsc::Sender<E>,
    /// The number of pools so far: numbers of connections are never used twice.
    n_pools: u64,
}

#[derive(Debug)]
struct Entry {
    server: Arc<Server>,
    pool: Pool,
    /// The way to each connection; without it, the connection ends.
    links: HashMap<ConnectionId, mpsc::Sender<Vec<u8>>>,
    /// Whether a configuration has it.
    is_wanted: bool,
    logged: Option<Instant>,
}

impl<E: From<Report> + Send + 'static> Pools<E> {
    /// No servers yet.
    #[must_use]
    pub fn new(events: mpsc::Sender<E>) -> Self {
        Self {
            entries: HashMap::new(),
            queries: HashMap::new(),
            outcomes: VecDeque::new(),
            events,
            n_pools: 0,
        }
    }

    /// Takes up these servers and no others. Connections to one whose settings have changed end with their last response.
    pub fn adopt(&mut self, servers: &BTreeMap<Place, Arc<Server>>) {
        for (place, entry) in &mut self.entries {
            let server = servers.get(place);
            entry.is_wanted = server.is_some();
            let is_same = server.is_some_and(|it| it.settings() == entry.server.settings());
            if !is_same {
                entry.pool.retire();
            }
            if let Some(server) = server {
                entry.server = Arc::clone(server);
            }
        }
        for (place, server) in servers {
            if !self.entries.contains_key(place) {
                // Numbers of connections are unique: no pool opens 2³² of them.
                let first = ConnectionId(self.n_pools << 32);
                self.n_pools += 1;
                let entry = Entry {
                    server: Arc::clone(server),
                    pool: Pool::new(first),
                    links: HashMap::new(),
                    is_wanted: true,
                    logged: None,
                };
                self.entries.insert(*place, entry);
            }
        }
        let places: Vec<Place> = self.entries.keys().copied().collect();
        for place in places {
            self.perform(place);
        }
        self.entries
            .retain(|_, entry| entry.is_wanted || !entry.pool.is_empty());
    }

    /// Whether there is such a server.
    #[must_use]
    pub fn has(&self, place: Place) -> bool {
        self.entries
            .get(&place)
            .is_some_and(|entry| entry.is_wanted)
    }

    /// The number of connections to a server.
    #[must_use]
    pub fn n_connections(&self, place: Place) -> usize {
        let entry = self.entries.get(&place);
        entry.map_or(0, |entry| entry.pool.n_connections())
    }

    /// Sends a query to a server.
    pub fn ask(&mut self, place: Place, exchange: ExchangeId, message: Vec<u8>, now: Instant) {
        let Some(entry) = self.entries.get_mut(&place) else {
            self.outcomes
                .push_back(Outcome::Lost(exchange, Loss::Broken));
            return;
        };
        self.queries.insert(exchange, place);
        entry.pool.ask(exchange, message, now);
        self.perform(place);
    }

    /// No client waits for a response any more.
    pub fn end(&mut self, exchange: ExchangeId) {
        if let Some(place) = self.queries.remove(&exchange)
            && let Some(entry) = self.entries.get_mut(&place)
        {
            entry.pool.abandon(exchange);
        }
    }

    /// Takes the report of a connection.
    pub fn arrived(&mut self, report: Report, now: Instant) {
        let Report {
            place,
            connection,
            progress,
        } = report;
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        match progress {
            Progress::Opened => entry.pool.opened(connection, now),
            Progress::Received(message) => entry.pool.received(connection, message, now),
            Progress::Failed(number, failure) => {
                entry.pool.failed(connection, number, failure, now);
            }
            Progress::Ended(loss, reason) => {
                entry.log_end(loss, &reason, now);
                entry.links.remove(&connection);
                entry.pool.ended(connection, loss, now);
            }
        }
        self.perform(place);
    }

    /// Closes connections that are idle or dead.
    pub fn expire(&mut self, now: Instant) {
        let due = self.entries.iter().filter(|(_, entry)| {
            let deadline = entry.pool.next_deadline();
            deadline.is_some_and(|deadline| now >= deadline)
        });
        let due: Vec<Place> = due.map(|(place, _)| *place).collect();
        for place in due {
            if let Some(entry) = self.entries.get_mut(&place) {
                entry.pool.expire(now);
            }
            self.perform(place);
        }
    }

    /// The time of the next [`Pools::expire`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let entries = self.entries.values();
        entries.filter_map(|entry| entry.pool.next_deadline()).min()
    }

    /// The next outcome; drain after every call.
    pub fn next_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn perform(&mut self, place: Place) {
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        while let Some(action) = entry.pool.poll_action() {
            match action {
                Action::Open(id) => {
                    let (sender, messages) = mpsc::channel(QUEUE);
                    entry.links.insert(id, sender);
                    let reporter = Reporter {
                        place,
                        connection: id,
                        events: self.events.clone(),
                    };
                    let server = Arc::clone(&entry.server);
                    tokio::spawn(connection::run(server, messages, reporter));
                }
                Action::Send(id, message) => {
                    let link = entry.links.get(&id);
                    let sent = link.is_some_and(|link| link.try_send(message).is_ok());
                    if !sent {
                        // Its task has ended: its last report is on the way.
                        entry.links.remove(&id);
                    }
                }
                Action::Close(id) => {
                    entry.links.remove(&id);
                }
                Action::Received(exchange, message) => {
                    self.queries.remove(&exchange);
                    self.outcomes
                        .push_back(Outcome::Received(exchange, message));
                }
                Action::Lost(exchange, loss) => {
                    self.queries.remove(&exchange);
                    self.outcomes.push_back(Outcome::Lost(exchange, loss));
                }
            }
        }
    }
}

impl Entry {
    fn log_end(&mut self, loss: Loss, reason: &str, now: Instant) {
        let upstream = self.server.settings().address;
        let is_due = self.logged.is_none_or(|last| now >= last.after(LOG));
        if loss == Loss::Untrusted && is_due {
            self.logged = Some(now);
            tracing::warn!(%upstream, reason, "The upstream's certificate is refused");
        } else {
            tracing::debug!(%upstream, reason, "A connection to an upstream has ended");
        }
    }
}

#[cfg(test)]
mod tests;
