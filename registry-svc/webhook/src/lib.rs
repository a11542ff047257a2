//! Tells others of pushes, pulls, mounts and deletions.
//!
//! ```text
//! request ──notify──► channel ──► one thread: filter, JSON, append ──► queue of each endpoint (disk)
//!                     (bounded)                                              │
//!                                    one task each: post, try again ◄────────┘
//! ```
//!
//! A request never waits for any of it: when the channel or a queue is full, events are dropped and
//! counted.

pub mod envelope;
mod post;
pub mod queue;
pub mod retry_delay;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use daemon::calendar::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::envelope::{Stamp, event as as_json};
use self::post::Client;
use self::queue::Queue;
use self::retry_delay::RetryDelay;

pub use self::envelope::{Event, EventAction, RequestInfo};
pub use self::post::PostError;

/// An endpoint that receives events of pushes, pulls and deletions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its name, in logs and metrics.
    pub name: String,
    /// The URL that events are posted to.
    pub url: String,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Failures in a row after which it is left alone for a while.
    pub threshold: u32,
    /// For how long; twice as long each time.
    pub backoff: Duration,
    /// Media types without events.
    pub ignored_media_types: Vec<String>,
    /// Actions without events.
    pub ignored_actions: Vec<String>,
    /// The authority that signs its certificate, if not a public one.
    pub ca: Option<PathBuf>,
}

/// Events on their way from requests to the queues: a burst of pulls.
const CHANNEL: usize = 4096;

/// Events in one envelope.
const BATCH: usize = 32;

/// How often queues are synced while there is something new in them.
const SYNC: Duration = Duration::from_secs(1);

/// The directory below the root.
const DIRECTORY: &str = "webhooks";

/// The sender of events; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mouth>);

/// The present destination of events.
#[derive(Debug, Default)]
struct Mouth {
    /// Whether there is a sender: looked at by requests that may have nothing to say.
    is_open: AtomicBool,
    sender: Mutex<Option<SyncSender<Happened>>>,
}

/// An event with the moment in which it happened.
#[derive(Debug)]
struct Happened {
    event: Event,
    at: Timestamp,
}

impl Events {
    /// Sends no events.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Somebody is told who looks when it likes to.
    #[cfg(any(test, feature = "testing"))]
    pub fn overheard() -> (Self, impl Iterator<Item = Event>) {
        let (sender, receiver) = sync_channel::<Happened>(CHANNEL);
        let events = Self::none();
        events.set(Some(sender));
        let next = move || receiver.try_recv().ok().map(|happened| happened.event);
        (events, std::iter::from_fn(next))
    }

    /// Whether an endpoint gets events: check this before making an expensive one.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }

    /// Something happened; never waits.
    pub fn notify(&self, event: Event) {
        if !self.is_wanted() {
            return;
        }
        let at = Timestamp::now();
        let sender = self.sender().clone();
        if let Some(sender) = sender
            && sender.try_send(Happened { event, at }).is_err()
        {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set(&self, sender: Option<SyncSender<Happened>>) {
        self.0.is_open.store(sender.is_some(), Ordering::Relaxed);
        *self.sender() = sender;
    }

    fn sender(&self) -> MutexGuard<'_, Option<SyncSender<Happened>>> {
        // Replaced in one step, so a panic elsewhere cannot have left it half made.
        let sender = &self.0.sender;
        sender.lock()
    }
}

/// Events that were dropped before any endpoint's queue saw them.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many events were dropped because too many came at once.
#[must_use]
pub fn n_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Errors of the endpoints' setup.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The queue cannot be used.
    #[error("cannot keep events for webhook {name}")]
    Queue {
        /// The endpoint.
        name: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The URL cannot be used.
    #[error("webhook {name} cannot be reached as configured")]
    Endpoint {
        /// The endpoint.
        name: String,
        /// The cause.
        #[source]
        source: PostError,
    },
    /// There is no thread.
    #[error("no thread for webhooks")]
    Thread(#[source] io::Error),
}

/// The status of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Its name.
    pub name: String,
    /// The URL that events are posted to.
    pub url: String,
    /// Events that wait.
    pub waiting: usize,
    /// Events that were delivered.
    pub delivered: u64,
    /// Posts that failed.
    pub failures: u64,
    /// Events that were dropped because the queue was full or could not be written.
    pub dropped: u64,
    /// How often it has failed in a row.
    pub failures_in_a_row: u32,
    /// The last error, until it works again.
    pub error: Option<String>,
    /// Answers by status; 0 is none at all.
    pub answers: BTreeMap<u16, u64>,
}

/// One endpoint, as the thread and its task share it.
#[derive(Debug)]
struct Endpoint {
    settings: Settings,
    queue: Mutex<Queue>,
    status: Mutex<EndpointStatus>,
    /// Something is in the queue.
    news: Notify,
}

/// The endpoints.
#[derive(Debug)]
pub struct Webhooks {
    root: PathBuf,
    instance: Arc<str>,
    events: Events,
    running: Mutex<Running>,
}

/// The present endpoints.
#[derive(Debug, Default)]
struct Running {
    endpoints: Vec<Arc<Endpoint>>,
    tasks: Vec<JoinHandle<()>>,
    keeper: Option<thread::JoinHandle<()>>,
}

impl Webhooks {
    /// Opens the queues below `root` and begins to deliver; `instance` is this node's name.
    ///
    /// # Errors
    /// When a queue or an endpoint cannot be used.
    pub fn start(
        settings: &[Settings],
        root: &Path,
        instance: &Arc<str>,
    ) -> Result<Self, WebhookError> {
        let webhooks = Self {
            root: root.to_owned(),
            instance: Arc::clone(instance),
            events: Events::none(),
            running: Mutex::default(),
        };
        webhooks.begin(settings, clients(settings)?)?;
        Ok(webhooks)
    }

    /// Takes up other settings; events that wait for an endpoint that stays are kept. Waits for what
    /// is being written.
    ///
    /// # Errors
    /// When an endpoint or a queue cannot be used, and nothing has changed; or when there is no
    /// thread, and events stop.
    pub fn configure(&self, settings: &[Settings]) -> Result<(), WebhookError> {
        let clients = clients(settings)?;
        // Those that are in use can be used.
        let in_use = self.status();
        let is_new = |of: &&Settings| in_use.iter().all(|it| it.name != of.name);
        for settings in settings.iter().filter(is_new) {
            drop(self.open(settings)?);
        }
        self.stop();
        self.begin(settings, clients)
    }

    /// The sender of events.
    #[must_use]
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// The status of each endpoint.
    #[must_use]
    pub fn status(&self) -> Vec<EndpointStatus> {
        let of = |endpoint: &Arc<Endpoint>| EndpointStatus {
            waiting: endpoint.queue().len(),
            ..endpoint.status().clone()
        };
        self.running().endpoints.iter().map(of).collect()
    }

    fn begin(&self, settings: &[Settings], clients: Vec<Client>) -> Result<(), WebhookError> {
        if settings.is_empty() {
            return Ok(());
        }
        let mut endpoints = Vec::new();
        for settings in settings {
            let queue = self.open(settings)?;
            endpoints.push(Arc::new(Endpoint {
                status: Mutex::new(EndpointStatus {
                    name: settings.name.clone(),
                    url: settings.url.clone(),
                    ..EndpointStatus::default()
                }),
                settings: settings.clone(),
                queue: Mutex::new(queue),
                news: Notify::new(),
            }));
        }
        let (sender, receiver) = sync_channel(CHANNEL);
        let (all, instance) = (endpoints.clone(), Arc::clone(&self.instance));
        let keeper = thread::Builder::new()
            .name("webhooks".to_owned())
            .spawn(move || keep(&receiver, &all, &instance))
            .map_err(WebhookError::Thread)?;
        let pairs = endpoints.iter().zip(clients);
        let tasks = pairs.map(|(endpoint, client)| {
            let endpoint = Arc::clone(endpoint);
            tokio::spawn(async move { endpoint.deliver(client).await })
        });
        *self.running() = Running {
            tasks: tasks.collect(),
            endpoints,
            keeper: Some(keeper),
        };
        self.events.set(Some(sender));
        Ok(())
    }

    fn open(&self, settings: &Settings) -> Result<Queue, WebhookError> {
        open(&self.root, &settings.name).map_err(|source| WebhookError::Queue {
            name: settings.name.clone(),
            source,
        })
    }

    /// Lets go of the queues, once all that was said is in them.
    fn stop(&self) {
        self.events.set(None);
        let running = std::mem::take(&mut *self.running());
        for task in &running.tasks {
            task.abort();
        }
        if let Some(keeper) = running.keeper {
            // A request may still be about to say something, and holds the channel open for that long.
            drop(keeper.join());
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock()
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether endpoints could be posted to, as far as can be said without posting.
///
/// # Errors
/// What is wrong with the first that could not.
pub fn check(settings: &[Settings]) -> Result<(), WebhookError> {
    clients(settings).map(drop)
}

/// The clients of all endpoints.
fn clients(settings: &[Settings]) -> Result<Vec<Client>, WebhookError> {
    let client = |settings: &Settings| {
        Client::new(settings).map_err(|source| WebhookError::Endpoint {
            name: settings.name.clone(),
            source,
        })
    };
    settings.iter().map(client).collect()
}

fn open(root: &Path, name: &str) -> io::Result<Queue> {
    let directory: PathBuf = root.join(DIRECTORY).join(name);
    Queue::open(&directory)
}

/// Writes events into the queues, until all senders are gone.
fn keep(happened: &Receiver<Happened>, endpoints: &[Arc<Endpoint>], instance: &Arc<str>) {
    let mut is_dirty = false;
    loop {
        let next = match is_dirty {
            true => happened
                .recv_timeout(SYNC)
                .map_err(|error| matches!(error, std::sync::mpsc::RecvTimeoutError::Disconnected)),
            false => happened.recv().map_err(|_| true),
        };
        match next {
            Ok(one) => {
                is_dirty = true;
                let stamp = Stamp {
                    id: unique(),
                    time: one.at.to_string(),
                    instance: Arc::clone(instance),
                };
                let text = as_json(&one.event, &stamp).to_string();
                for endpoint in endpoints {
                    if endpoint.wants(&one.event) {
                        endpoint.take(text.as_bytes());
                    }
                }
            }
            Err(is_over) => {
                for endpoint in endpoints {
                    if let Err(error) = endpoint.queue().sync() {
                        let webhook = &endpoint.settings.name;
                        tracing::warn!(webhook, %error, "Events are not synced");
                    }
                }
                is_dirty = false;
                if is_over {
                    return;
                }
            }
        }
    }
}

impl Endpoint {
    fn wants(&self, event: &Event) -> bool {
        let settings = &self.settings;
        let is_ignored = |ignored: &[String], word: &str| ignored.iter().any(|one| one == word);
        !is_ignored(&settings.ignored_actions, event.action.name())
            && !is_ignored(&settings.ignored_media_types, &event.media_type)
    }

    fn take(&self, text: &[u8]) {
        let taken = self.queue().push(text);
        match taken {
            Ok(true) => self.news.notify_one(),
            Ok(false) => self.status().dropped += 1,
            Err(error) => {
                let webhook = &self.settings.name;
                tracing::warn!(webhook, %error, "An event cannot be kept");
                self.status().dropped += 1;
            }
        }
    }

    /// Posts what waits, for as long as the process lives.
    async fn deliver(&self, client: Client) {
        let mut delay = RetryDelay::new(self.settings.threshold, self.settings.backoff);
        loop {
            // The page cache has it: this process writes the queue.
            let front = self.queue().front(BATCH);
            let (events, end) = match front {
                Ok((events, _)) if events.is_empty() => {
                    self.news.notified().await;
                    continue;
                }
                Ok(front) => front,
                Err(error) => {
                    let webhook = &self.settings.name;
                    tracing::error!(webhook, %error, "The queue cannot be read");
                    tokio::time::sleep(SYNC).await;
                    continue;
                }
            };
            let answer = client.post(envelope::envelope(&events)).await;
            let code = match &answer {
                Ok(code) | Err(PostError::Status(code)) => *code,
                Err(_) => 0,
            };
            *self.status().answers.entry(code).or_default() += 1;
            match answer {
                Ok(_) => {
                    self.succeeded(&mut delay, events.len());
                    if let Err(error) = self.queue().delivered(events.len(), end) {
                        let webhook = &self.settings.name;
                        tracing::warn!(webhook, %error, "Delivered events may be delivered again");
                    }
                }
                Err(error) => {
                    let pause = self.failed(&mut delay, &error);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn succeeded(&self, delay: &mut RetryDelay, n: usize) {
        if delay.failures() >= self.settings.threshold {
            tracing::info!(webhook = self.settings.name, "The webhook works again");
        }
        delay.succeeded();
        let mut status = self.status();
        status.delivered += u64::try_from(n).unwrap_or(0);
        status.failures_in_a_row = 0;
        status.error = None;
    }

    fn failed(&self, delay: &mut RetryDelay, error: &PostError) -> Duration {
        let pause = delay.failed();
        let told = daemon::exit::chain(error);
        if delay.failures() == self.settings.threshold {
            let webhook = &self.settings.name;
            tracing::warn!(webhook, error = told, "The webhook fails; its events wait");
        }
        let mut status = self.status();
        status.failures += 1;
        status.failures_in_a_row = delay.failures();
        status.error = Some(told);
        pause
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic in between leaves offsets that the next start reads from the file again.
        self.queue.lock()
    }

    fn status(&self) -> MutexGuard<'_, EndpointStatus> {
        self.status.lock()
    }
}

/// A name that no other event has.
fn unique() -> String {
    use std::fmt::Write as _;

    let mut octets = [0; 16];
    let _filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut octets);
    // Version 4, variant 1 (RFC 9562 §5.4).
    octets[6] = octets[6] & 0x0f | 0x40;
    octets[8] = octets[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (at, octet) in octets.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _written = write!(text, "{octet:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
