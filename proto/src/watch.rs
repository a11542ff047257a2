//! One `Watch` stream, kept alive: the last snapshot stays when healthd goes.
//!
//! [`Watcher`] connects, states its targets, and publishes a [`Snapshot`] with each response.
//! When the stream ends it connects again, waiting longer after each failure up to a bound. Until
//! healthd is back its subscribers keep the snapshot they have; nothing flips because the
//! prober was swapped. [`Watcher::state`] has its age. A subscriber that then probes by itself puts its states in
//! healthd's place with [`Watcher::stand_in`], until healthd is connected.
//!
//! A restarted healthd may know less for a while than its subscriber: a target that it has not probed
//! since its restart keeps the liveness from before ([`Snapshot::keep_known`]). So a restart
//! without its saved state is no outage either.

use std::sync::Arc;

use daemon::latest::{Latest, Reader};
use retry::Backoff;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::connection::{Connection, Sentences, State};
use crate::endpoint::{self, Endpoint};
use crate::health::{Snapshot, Watched, apply};
use crate::reconnect::{backoff, chain};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// Statements under way to healthd. Each replaces the one before, so few are ever waiting.
const STATEMENT_QUEUE: usize = 4;
/// The largest message either side takes: 16,384 targets of a few hundred octets each fit.
pub const MAX_MESSAGE: usize = 16 << 20;

const SENTENCES: Sentences = Sentences {
    connected: "Connected to healthd",
    lost: "Not connected to healthd; the last snapshot stays in force",
};

/// Keeps one `Watch` stream; dropping it ends the stream.
#[derive(Debug)]
pub struct Watcher {
    wanted: Arc<Latest<Subscription>>,
    snapshots: Arc<Latest<Snapshot>>,
    /// A reader of the snapshots that has seen none.
    unread: Reader<Snapshot>,
    connection: Arc<Connection>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Begins to connect. `subscriber` is the name that healthd lists; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Endpoint, subscriber: &str, targets: Vec<impl Into<Watched>>) -> Self {
        Self::with(
            endpoint,
            subscriber,
            Subscription::new(targets, Shown::Stated),
        )
    }

    /// As [`start`](Self::start), and is shown every other target there is besides.
    #[must_use]
    pub fn start_all(
        endpoint: Endpoint,
        subscriber: &str,
        targets: Vec<impl Into<Watched>>,
    ) -> Self {
        Self::with(endpoint, subscriber, Subscription::new(targets, Shown::All))
    }

    fn with(endpoint: Endpoint, subscriber: &str, wanted: Subscription) -> Self {
        let wanted = Latest::new(wanted);
        let snapshots = Latest::new(Snapshot::default());
        let connection = Arc::new(Connection::new(endpoint, SENTENCES));
        let unread = snapshots.reader();
        let stream = Stream {
            subscriber: subscriber.to_owned(),
            wanted: wanted.reader(),
            snapshots: Arc::clone(&snapshots),
            connection: Arc::clone(&connection),
            n_statements: 0,
        };
        let task = tokio::spawn(stream.run());
        Self {
            wanted,
            snapshots,
            unread,
            connection,
            task,
        }
    }

    /// States the full set of targets again.
    pub fn set_targets(&self, targets: Vec<impl Into<Watched>>) {
        let wanted = Subscription::new(targets, self.wanted.current().shown);
        self.wanted.publish_if_changed(wanted);
    }

    /// Reads the targets that are stated.
    #[must_use]
    pub fn stated(&self) -> Reader<Subscription> {
        self.wanted.reader()
    }

    /// Publishes states that the subscriber has found itself, unless healthd is connected; true when it did.
    ///
    /// Once healthd is connected no such snapshot follows, so that its first response is compared with the last of them.
    pub fn stand_in(&self, snapshot: Snapshot) -> bool {
        self.connection.while_lost(|| {
            self.snapshots.publish(snapshot);
        })
    }

    /// Reads the snapshots: always the newest, waited for with `changed`. The first from healthd is a change.
    #[must_use]
    pub fn subscribe(&self) -> Reader<Snapshot> {
        self.unread.clone()
    }

    /// The newest snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.snapshots.current()
    }

    /// Reads whether healthd is connected, and waits for changes of it.
    #[must_use]
    pub fn is_connected(&self) -> Reader<bool> {
        self.connection.is_connected()
    }

    /// How the stream is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.connection.state()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The targets that a subscriber asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The targets that it states.
    pub targets: Arc<[Watched]>,
    shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Stated,
    All,
}

impl Subscription {
    fn new(targets: Vec<impl Into<Watched>>, shown: Shown) -> Self {
        Self {
            targets: targets.into_iter().map(Into::into).collect(),
            shown,
        }
    }
}

/// The task behind a [`Watcher`].
struct Stream {
    subscriber: String,
    wanted: Reader<Subscription>,
    snapshots: Arc<Latest<Snapshot>>,
    connection: Arc<Connection>,
    n_statements: u64,
}

/// An open stream, and what was said on it.
struct Open {
    statements: mpsc::Sender<wire::WatchRequest>,
    responses: Streaming<wire::WatchResponse>,
    stated: Arc<[Watched]>,
    /// The snapshot from before the stream.
    before: Arc<Snapshot>,
    /// The snapshot of this stream alone.
    heard: Snapshot,
}

impl Stream {
    async fn run(mut self) {
        let mut wait = backoff();
        loop {
            let error = match self.connect().await {
                Ok(open) => self.follow(open, &mut wait).await,
                Err(error) => error,
            };
            self.connection.lost(&error);
            tokio::time::sleep(wait.next_wait()).await;
        }
    }

    /// Opens the stream with the first statement already in it.
    async fn connect(&mut self) -> Result<Open, String> {
        let channel = endpoint::connect(self.connection.endpoint()).await;
        let channel = channel.map_err(|error| chain(&error))?;
        let (statements, queue) = mpsc::channel(STATEMENT_QUEUE);
        let (statement, stated) = self.statement();
        let sent = statements.send(statement).await;
        sent.map_err(|error| error.to_string())?;
        let mut client = HealthClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let response = client.watch(ReceiverStream::new(queue)).await;
        let response = response.map_err(|status| status.message().to_owned())?;
        self.connection.connected();
        Ok(Open {
            statements,
            responses: response.into_inner(),
            stated,
            before: self.snapshots.current(),
            heard: Snapshot::default(),
        })
    }

    /// Publishes what comes until the stream ends; says why it ended.
    async fn follow(&mut self, mut open: Open, wait: &mut Backoff) -> String {
        loop {
            tokio::select! {
                message = open.responses.message() => match message {
                    Ok(Some(response)) => {
                        // A peer that ends each stream before it says a word is not back.
                        *wait = backoff();
                        self.publish(&mut open, &response);
                    }
                    Ok(None) => return "healthd ended the stream".to_owned(),
                    Err(status) => return status.message().to_owned(),
                },
                () = self.wanted.changed() => {
                    let (statement, stated) = self.statement();
                    open.stated = stated;
                    if open.statements.send(statement).await.is_err() {
                        return "healthd ended the stream".to_owned();
                    }
                }
            }
        }
    }

    fn statement(&mut self) -> (wire::WatchRequest, Arc<[Watched]>) {
        self.n_statements += 1;
        self.wanted.refresh();
        let wanted = self.wanted.shared();
        let request = wire::WatchRequest {
            targets: wanted.targets.iter().map(wire::Target::from).collect(),
            subscriber: self.subscriber.clone(),
            statement: self.n_statements,
            all: wanted.shown == Shown::All,
        };
        (request, Arc::clone(&wanted.targets))
    }

    fn publish(&self, open: &mut Open, response: &wire::WatchResponse) {
        self.connection.heard();
        if response.statement != 0 && response.statement != self.n_statements {
            // The statement has changed since; its full snapshot is on the way.
            return;
        }
        open.heard = apply(std::mem::take(&mut open.heard), response, &open.stated);
        let snapshot = open.heard.clone().keep_known(&open.before);
        self.snapshots.publish(snapshot);
    }
}
