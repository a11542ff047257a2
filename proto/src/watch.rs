//! One `Watch` stream, kept alive: the last snapshot stays when healthd goes.
//!
//! [`Watcher`] connects, states its targets, and publishes a [`Snapshot`] with each response.
//! When the stream ends it connects anew, waiting longer after each failure up to a bound. Until
//! healthd is back its subscribers go on with the snapshot they have; nothing flips because the
//! prober was swapped. How old that knowledge is, [`Watcher::state`] tells.
//!
//! A restarted healthd may know less for a moment than its subscriber does. A target it reports
//! as unknown keeps the state last heard, so a restart without its saved state is no outage
//! either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::endpoint::Endpoint;
use crate::health::{Liveness, Snapshot, Target};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// Before the second attempt to connect.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between attempts at most: healthd's return is noticed within this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Statements under way to healthd. Each replaces the one before, so few are ever waiting.
const STATEMENT_QUEUE: usize = 4;
/// A message with 16,384 targets of a few hundred octets each fits.
const MAX_MESSAGE: usize = 16 << 20;

/// Keeps one `Watch` stream; dropping it ends the stream.
#[derive(Debug)]
pub struct Watcher {
    targets: watch::Sender<Vec<Target>>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// How the stream is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let (targets, wanted) = watch::channel(targets);
        let (publish, snapshot) = watch::channel(Arc::new(Snapshot::default()));
        let state = Arc::new(Mutex::new(State {
            connected: false,
            heard: None,
            connections: 0,
            error: String::new(),
        }));
        let stream = Stream {
            endpoint,
            subscriber: subscriber.to_owned(),
            wanted,
            publish,
            state: Arc::clone(&state),
        };
        let task = tokio::spawn(stream.run());
        Self {
            targets,
            snapshot,
            state,
            task,
        }
    }

    /// States the full set of targets anew.
    pub fn set_targets(&self, targets: Vec<Target>) {
        self.targets.send_if_modified(|stated| {
            let changed = *stated != targets;
            if changed {
                *stated = targets;
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
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind a [`Watcher`].
struct Stream {
    endpoint: Endpoint,
    subscriber: String,
    wanted: watch::Receiver<Vec<Target>>,
    publish: watch::Sender<Arc<Snapshot>>,
    state: Arc<Mutex<State>>,
}

impl Stream {
    async fn run(mut self) {
        let mut wait = Backoff::default();
        while !self.publish.is_closed() {
            let error = match self.connect().await {
                Ok((statements, responses)) => {
                    tracing::info!(endpoint = %self.endpoint, "Connected to healthd");
                    wait = Backoff::default();
                    self.follow(&statements, responses).await
                }
                Err(error) => error,
            };
            self.lost(&error);
            tokio::time::sleep(wait.next()).await;
        }
    }

    /// Opens the stream with the first statement already in it.
    async fn connect(
        &mut self,
    ) -> Result<
        (
            mpsc::Sender<wire::WatchRequest>,
            Streaming<wire::WatchResponse>,
        ),
        String,
    > {
        let channel = self
            .endpoint
            .connect()
            .await
            .map_err(|error| chain(&error))?;
        let (statements, queue) = mpsc::channel(STATEMENT_QUEUE);
        let first = self.statement();
        statements
            .send(first)
            .await
            .map_err(|error| error.to_string())?;
        let mut client = HealthClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let response = client.watch(ReceiverStream::new(queue)).await;
        let responses = response
            .map_err(|status| status.message().to_owned())?
            .into_inner();
        let mut state = self.lock();
        state.connected = true;
        state.connections += 1;
        state.error.clear();
        drop(state);
        Ok((statements, responses))
    }

    /// Publishes what comes until the stream ends; says why it ended.
    async fn follow(
        &mut self,
        statements: &mpsc::Sender<wire::WatchRequest>,
        mut responses: Streaming<wire::WatchResponse>,
    ) -> String {
        loop {
            tokio::select! {
                message = responses.message() => match message {
                    Ok(Some(response)) => self.publish(&response),
                    Ok(None) => return "healthd ended the stream".to_owned(),
                    Err(status) => return status.message().to_owned(),
                },
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return "the subscriber is gone".to_owned();
                    }
                    let statement = self.statement();
                    if statements.send(statement).await.is_err() {
                        return "healthd ended the stream".to_owned();
                    }
                }
            }
        }
    }

    fn statement(&mut self) -> wire::WatchRequest {
        let targets = self.wanted.borrow_and_update();
        wire::WatchRequest {
            targets: targets.iter().map(wire::Target::from).collect(),
            subscriber: self.subscriber.clone(),
        }
    }

    fn publish(&self, response: &wire::WatchResponse) {
        self.lock().heard = Some(now());
        let before = Arc::clone(&self.publish.borrow());
        self.publish
            .send_replace(Arc::new(keep_known(&before, before.apply(response))));
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

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what was known of a target that the new snapshot calls unknown.
fn keep_known(before: &Snapshot, mut after: Snapshot) -> Snapshot {
    for (target, status) in &mut after.targets {
        if status.liveness == Liveness::Unknown
            && let Some(known) = before.status(target)
        {
            status.liveness = known.liveness;
            status.since = known.since;
        }
    }
    after
}

/// Waits between attempts: doubling, bounded, and spread so that the subscribers of a node do not
/// all come back in the same instant.
#[derive(Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn next(&mut self) -> Duration {
        let doubled =
            FIRST_WAIT.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1).min(16);
        let wait = doubled.min(LONGEST_WAIT);
        // The standard library seeds this hasher from the system, differently in each process.
        let spread = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0) % 256;
        wait.mul_f64(1.0 - 0.25 * f64::from(u8::try_from(spread).unwrap_or(0)) / 256.0)
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The clock, for the age of a snapshot.
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::TargetStatus;

    #[test]
    fn waits_grow_to_a_bound_and_stay_spread() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] <= FIRST_WAIT && waits[0] >= FIRST_WAIT.mul_f64(0.75));
        assert!(waits.iter().all(|wait| *wait <= LONGEST_WAIT));
        assert!(waits[30] >= LONGEST_WAIT.mul_f64(0.75));
    }

    #[test]
    fn a_healthd_that_forgot_does_not_make_its_subscribers_forget() {
        let target = |port| Target::tcp(([192, 168, 7, 13], port).into());
        let snapshot = |states: &[(u16, Liveness)]| Snapshot {
            generation: 1,
            targets: states
                .iter()
                .map(|(port, liveness)| {
                    (
                        target(*port),
                        TargetStatus {
                            liveness: *liveness,
                            ..Default::default()
                        },
                    )
                })
                .collect(),
        };
        let before = snapshot(&[(1, Liveness::Up), (2, Liveness::Down)]);
        let forgot = [
            (1, Liveness::Unknown),
            (2, Liveness::Up),
            (3, Liveness::Unknown),
        ];
        let after = keep_known(&before, snapshot(&forgot));
        assert_eq!(after.liveness(&target(1)), Liveness::Up);
        assert_eq!(after.liveness(&target(2)), Liveness::Up);
        assert_eq!(after.liveness(&target(3)), Liveness::Unknown);
    }

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
