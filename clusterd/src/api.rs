//! The Kubernetes API as a source.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | follower, one a kind | holds the machine, sends its requests, changes the picture | with the service |
//! | a request | carries out one list or watch | with its answer, or when the machine cancels it |
//! | credentials | reads the files again when they change or are refused | with the service |
//! | addresses | holds the election, and writes the addresses of Services | with the service |
//! | version | asks the API for its version | with the service |

mod addresses;
mod follower;
pub mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cluster::Kind;
use cluster_client::access::{self, Access, Stamps};
use cluster_client::request;
use daemon::clock;
use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::addresses::{AddressSettings, AddressState};
use crate::metrics::Counters;
use crate::publisher::Publisher;
use addresses::AddressWriter;
use follower::Follower;
use settings::ApiSettings;

pub use follower::Progress;

/// How often the files of the credentials are looked at: Kubernetes renews a token minutes before it ends.
const LOOK: Duration = Duration::from_secs(10);
/// The pause after credentials that were refused: a new file may come at any moment.
const REFUSED: Duration = Duration::from_millis(500);
/// How often the version of the API is read; an upgrade takes minutes.
const VERSION_EVERY: Duration = Duration::from_secs(300);
/// The pause before another request for the version.
const VERSION_AGAIN: Duration = Duration::from_secs(5);
/// The time for one answer about the version.
const VERSION_WITHIN: Duration = Duration::from_secs(5);
/// The time to give up the Lease in.
const LEAVE: Duration = Duration::from_secs(2);
/// The longest answer about the version.
const MAX_VERSION: usize = 64 << 10;

/// The API as a source; its tasks end when it is dropped.
#[derive(Debug)]
pub struct ApiSource {
    shared: Arc<Shared>,
    given: Arc<Mutex<AddressSettings>>,
    given_changed: Arc<Notify>,
    leave: Arc<Notify>,
    writer: Option<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
}

/// The state that the tasks share.
#[derive(Debug)]
struct Shared {
    settings: Mutex<ApiSettings>,
    /// The last credentials that can be used; why there are none before the first.
    access: Arc<Latest<Result<Access, String>>>,
    /// Why the files cannot be used as they are now.
    problem: Mutex<Option<String>>,
    /// The API has refused the credentials, or the settings are others.
    refused: Notify,
    minor: AtomicU32,
    progress: Vec<Arc<Mutex<Progress>>>,
    readiness: Readiness,
    counters: Counters,
}

impl ApiSource {
    /// Begins to follow every kind; needs a tokio runtime.
    #[must_use]
    pub fn start(
        settings: &ApiSettings,
        given: AddressSettings,
        state: Arc<Mutex<AddressState>>,
        publisher: &Publisher,
        readiness: &Readiness,
        counters: &Counters,
        most: usize,
    ) -> Self {
        let stamps = Stamps::of(&settings.access);
        let first = access::read(&settings.access).map_err(|error| daemon::exit::chain(&error));
        let shared = Arc::new(Shared {
            problem: Mutex::new(first.as_ref().err().cloned()),
            access: Latest::new(first),
            settings: Mutex::new(settings.clone()),
            refused: Notify::new(),
            minor: AtomicU32::new(0),
            progress: Kind::ALL
                .into_iter()
                .filter(|kind| !kind.is_optional() || settings.dnses)
                .map(|kind| Arc::new(Mutex::new(Progress::new(kind))))
                .collect(),
            readiness: readiness.clone(),
            counters: counters.clone(),
        });
        shared.report();
        let mut tasks = vec![
            tokio::spawn(Arc::clone(&shared).follow_credentials(stamps)),
            tokio::spawn(Arc::clone(&shared).follow_version()),
        ];
        for progress in &shared.progress {
            let follower = Follower::new(
                Arc::clone(&shared),
                Arc::clone(progress),
                publisher.clone(),
                settings,
                most,
            );
            tasks.push(tokio::spawn(follower.run()));
        }
        let (given, given_changed) = (Arc::new(Mutex::new(given)), Arc::<Notify>::default());
        let leave = Arc::<Notify>::default();
        let writer = AddressWriter::new(
            Arc::clone(&shared),
            Arc::clone(&given),
            Arc::clone(&given_changed),
            state,
            publisher.reader(),
            Arc::clone(&leave),
        );
        Self {
            shared,
            given,
            given_changed,
            leave,
            writer: Some(tokio::spawn(writer.run())),
            tasks,
        }
    }

    /// Gives the Lease up, if this clusterd has it; its tasks end.
    pub async fn leave(mut self) {
        self.leave.notify_one();
        if let Some(writer) = self.writer.take() {
            // Without an answer the Lease ends by itself.
            drop(tokio::time::timeout(LEAVE, writer).await);
        }
    }

    /// Takes up other settings; followers take them with their next request.
    pub fn reload(&self, settings: ApiSettings, given: AddressSettings) {
        let identity = self.given.lock().identity.clone();
        *self.given.lock() = AddressSettings { identity, ..given };
        self.given_changed.notify_one();
        *self.shared.settings.lock() = settings;
        self.shared.refused.notify_one();
    }

    /// How the kinds are followed.
    #[must_use]
    pub fn progress(&self) -> Vec<Progress> {
        self.shared
            .progress
            .iter()
            .map(|progress| progress.lock().clone())
            .collect()
    }

    /// The addresses in the order of preference.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        match &*self.shared.access.current() {
            Ok(access) => access.addresses.iter().map(ToString::to_string).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// The minor version of the API server; none before it has answered.
    #[must_use]
    pub fn minor_version(&self) -> Option<u32> {
        Some(self.shared.minor.load(Ordering::Relaxed)).filter(|minor| *minor > 0)
    }

    /// Why the credentials cannot be used.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.problem.lock().clone()
    }
}

impl Drop for ApiSource {
    fn drop(&mut self) {
        for task in self.tasks.iter().chain(&self.writer) {
            task.abort();
        }
    }
}

impl Shared {
    fn access(&self) -> Reader<Result<Access, String>> {
        self.access.reader()
    }

    /// Servers send lists as first events of a watch by default in 1.32 and from 1.34 on.
    fn has_initial(&self) -> bool {
        matches!(self.minor.load(Ordering::Relaxed), 32 | 34..)
    }

    async fn follow_credentials(self: Arc<Self>, mut seen: Stamps) {
        loop {
            let was_refused = tokio::select! {
                () = self.refused.notified() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let settings = self.settings.lock().clone();
            let stamps = Stamps::of(&settings.access);
            if !was_refused && stamps == seen {
                continue;
            }
            seen = stamps;
            let read = tokio::task::spawn_blocking(move || access::read(&settings.access)).await;
            let Ok(read) = read else { return };
            self.take(read.map_err(|error| daemon::exit::chain(&error)));
            if was_refused {
                tokio::time::sleep(REFUSED).await;
            }
        }
    }

    /// Takes up credentials that were read again. Files that cannot be used leave the earlier ones in use: one of several
    /// files may have been replaced, and the others not yet.
    fn take(&self, read: Result<Access, String>) {
        let problem = read.as_ref().err().cloned();
        if let Some(error) = &problem
            && *self.problem.lock() != problem
        {
            tracing::error!(error, "Credentials of the API cannot be used");
        }
        *self.problem.lock() = problem;
        self.report();
        let before = self.access.current();
        let is_better = read.is_ok() || before.is_err();
        if is_better && *before != read {
            if read.is_ok() {
                tracing::info!("Credentials and addresses of the API are read again");
            }
            self.access.publish(read);
        }
    }

    fn report(&self) {
        let problem = self.problem.lock().clone();
        self.readiness.set_reason("credentials", problem);
    }

    async fn follow_version(self: Arc<Self>) {
        loop {
            let access = self.access.current();
            let mut found = None;
            if let Ok(access) = access.as_ref() {
                for address in &access.addresses {
                    let asked = request::get(access, address, "/version", MAX_VERSION);
                    if let Ok(Ok(body)) = tokio::time::timeout(VERSION_WITHIN, asked).await {
                        found = cluster_objects::answer::minor_version(&body);
                        break;
                    }
                }
            }
            let pause = match found {
                Some(minor) => {
                    let before = self.minor.swap(minor, Ordering::Relaxed);
                    if before != minor {
                        tracing::info!(minor, "The API server has told its version");
                    }
                    VERSION_EVERY
                }
                None => VERSION_AGAIN,
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// Seconds since a moment.
fn seconds_since(moment: std::time::Instant) -> f64 {
    clock::now().saturating_duration_since(moment).as_secs_f64()
}
