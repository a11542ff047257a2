//! One `Watch` stream, kept alive: the last snapshot stays when healthd goes.
//!
//! [`Watcher`] connects, states its targets, and publishes a [`Snapshot`] with each response.
//! When the stream ends it connects again, waiting longer after each failure up to a bound. Until
//! healthd is back its subscribers keep the snapshot they have; nothing flips because the
//! prober was swapped. [`Watcher::state`] has its age.
//!
//! A restarted healthd may know less for a while than its subscriber: a target that it has not probed
//! since its restart keeps the liveness from before ([`Snapshot::keep_known`]). So a restart
//! without its saved state is no outage either.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use retry::Backoff;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::endpoint::{self, Endpoint};
use crate::health::{Snapshot, Target, apply};
use crate::reconnect::{backoff, chain};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// Statements under way to healthd. Each replaces the one before, so few are ever waiting.
const STATEMENT_QUEUE: usize = 4;
/// The largest message either side takes: 16,384 targets of a few hundred octets each fit.
pub const MAX_MESSAGE: usize = 16 << 20;

/// Keeps one `Watch` stream; dropping it ends the stream.
#[derive(Debug)]
pub struct Watcher {
    wanted: watch::Sender<Subscription>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// How the stream is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether healthd is connected.
    pub connected: bool,
    /// When healthd was last heard of; `None` before the first time.
    pub heard: Option<Instant>,
    /// How often a connection was made.
    pub connections: u64,
    /// Why the last attempt failed; empty while connected.
    pub error: String,
}

impl State {
    /// How old the snapshot may be: nothing while connected, for healthd would have told.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        match self.connected {
            true => Some(Duration::ZERO),
            false => self.heard.map(|heard| now.saturating_duration_since(heard)),
        }
    }
}

impl Watcher {
    /// Begins to connect. `subscriber` is the name that healthd lists; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Endpoint, subscriber: &str, targets: Vec<Target>) -> Self {
        Self::with(
            endpoint,
            subscriber,
            Subscription::new(targets, Shown::Stated),
        )
    }

    /// As [`start`](Self::start), and is shown every other target there is besides.
    #[must_use]
    pub fn start_all(endpoint: Endpoint, subscriber: &str, targets: Vec<Target>) -> Self {
        Self::with(endpoint, subscriber, Subscription::new(targets, Shown::All))
    }

    fn with(endpoint: Endpoint, subscriber: &str, wanted: Subscription) -> Self {
        let (wanted, stated) = watch::channel(wanted);
        let (publish, snapshot) = watch::channel(Arc::new(Snapshot::default()));
        let state = Arc::new(Mutex::new(State::default()));
        let stream = Stream {
            endpoint,
            subscriber: subscriber.to_owned(),
            wanted: stated,
            publish,
            state: Arc::clone(&state),
            n_statements: 0,
        };
        let task = tokio::spawn(stream.run());
        Self {
            wanted,
            snapshot,
            state,
            task,
        }
    }

    /// States the full set of targets again.
    pub fn set_targets(&self, targets: Vec<Target>) {
        self.wanted.send_if_modified(|wanted| {
            let changed = *wanted.targets != targets;
            if changed {
                wanted.targets = targets.into();
            }
            changed
        });
    }

    /// The snapshots: always the newest, waited for with `changed`.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// The newest snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// How the stream is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The targets that a subscriber asks for.
#[derive(Clone, Debug)]
struct Subscription {
    targets: Arc<[Target]>,
    shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Stated,
    All,
}

impl Subscription {
    fn new(targets: Vec<Target>, shown: Shown) -> Self {
        Self {
            targets: targets.into(),
            shown,
        }
    }
}

/// The task behind a [`Watcher`].
struct Stream {
    endpoint: Endpoint,
    subscriber: String,
    wanted: watch::Receiver<Subscription>,
    publish: watch::Sender<Arc<Snapshot>>,
    state: Arc<Mutex<State>>,
    n_statements: u64,
}

/// An open stream, and what was said on it.
struct Open {
    statements: mpsc::Sender<wire::WatchRequest>,
    responses: Streaming<wire::WatchResponse>,
    stated: Arc<[Target]>,
    /// The snapshot from before the stream.
    before: Arc<Snapshot>,
    /// The snapshot of this stream alone.
    heard: Snapshot,
}

impl Stream {
    async fn run(mut self) {
        let mut wait = backoff();
        while !self.publish.is_closed() {
            let error = match self.connect().await {
                Ok(open) => self.follow(open, &mut wait).await,
                Err(error) => error,
            };
            self.lost(&error);
            tokio::time::sleep(wait.next_wait()).await;
        }
    }

    /// Opens the stream with the first statement already in it.
    async fn connect(&mut self) -> Result<Open, String> {
        let channel = endpoint::connect(&self.endpoint).await;
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
        tracing::info!(endpoint = %self.endpoint, "Connected to healthd");
        let mut state = self.lock();
        state.connected = true;
        state.connections += 1;
        state.error.clear();
        drop(state);
        Ok(Open {
            statements,
            responses: response.into_inner(),
            stated,
            before: Arc::clone(&self.publish.borrow()),
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
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return "the subscriber is gone".to_owned();
                    }
                    let (statement, stated) = self.statement();
                    open.stated = stated;
                    if open.statements.send(statement).await.is_err() {
                        return "healthd ended the stream".to_owned();
                    }
                }
            }
        }
    }

    fn statement(&mut self) -> (wire::WatchRequest, Arc<[Target]>) {
        self.n_statements += 1;
        let wanted = self.wanted.borrow_and_update().clone();
        let request = wire::WatchRequest {
            targets: wanted.targets.iter().map(wire::Target::from).collect(),
            subscriber: self.subscriber.clone(),
            statement: self.n_statements,
            all: wanted.shown == Shown::All,
        };
        (request, wanted.targets)
    }

    fn publish(&self, open: &mut Open, response: &wire::WatchResponse) {
        self.lock().heard = Some(now());
        if response.statement != 0 && response.statement != self.n_statements {
            // The statement has changed since; its full snapshot is on the way.
            return;
        }
        open.heard = apply(std::mem::take(&mut open.heard), response, &open.stated);
        let snapshot = open.heard.clone().keep_known(&open.before);
        self.publish.send_replace(Arc::new(snapshot));
    }

    fn lost(&self, error: &str) {
        let mut state = self.lock();
        if state.connected || state.error != error {
            tracing::warn!(endpoint = %self.endpoint, error, "Not connected to healthd; the last snapshot stays in force");
        }
        if state.connected {
            state.heard = Some(now());
        }
        state.connected = false;
        error.clone_into(&mut state.error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The clock, for the age of a snapshot.
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_when_healthd_was_last_heard() {
        let heard = now();
        let later = heard + Duration::from_secs(9);
        let state = |connected, heard| State {
            connected,
            heard,
            connections: 1,
            error: String::new(),
        };
        assert_eq!(state(true, Some(heard)).age(later), Some(Duration::ZERO));
        assert_eq!(
            state(false, Some(heard)).age(later),
            Some(Duration::from_secs(9))
        );
        assert_eq!(state(false, None).age(later), None);
    }
}
