//! healthd: its findings about servers, and this proxy's own observations for it.
//!
//! One target for each distinct check of a server; frontends and backends share them. When healthd goes,
//! what it said last stays in force. A connect that fails is reported, so that healthd probes at once.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::pool::Server;
use daemon::latest::Latest;
use l4::relay::Report;
use parking_lot::Mutex;
use proto::endpoint::Endpoint;
use proto::health::{Snapshot, Target};
use proto::report::Reporter;
use proto::watch::{State, Watcher};
use tokio::task::JoinHandle;

use crate::table_builder::{TableBuilder, Targets};

/// How long a start waits for the first word from healthd, so that the first connections are not sent to
/// servers that are known to be down. healthd is on this node and answers within milliseconds; without
/// it every server counts as up.
const FIRST_WORD: Duration = Duration::from_millis(500);

/// One report of a server in this time: healthd needs to be told once.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// The stream from healthd; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Link {
    watcher: Option<Arc<Watcher>>,
    reporter: Option<Arc<Reporter>>,
}

impl Link {
    /// Begins to watch targets, if there is a healthd to ask.
    #[must_use]
    pub fn start(endpoint: Option<Endpoint>, service: &str, targets: Vec<Target>) -> Self {
        let Some(endpoint) = endpoint else {
            return Self::default();
        };
        Self {
            watcher: Some(Arc::new(Watcher::start(endpoint.clone(), service, targets))),
            reporter: Some(Arc::new(Reporter::start(endpoint))),
        }
    }

    /// Waits for the first word, but not long.
    pub async fn first_word(&self) -> Arc<Snapshot> {
        let Some(watcher) = &self.watcher else {
            return Arc::default();
        };
        let mut snapshots = watcher.subscribe();
        let known = |snapshot: &Arc<Snapshot>| snapshot.generation > 0;
        let word = tokio::time::timeout(FIRST_WORD, snapshots.wait_for(known)).await;
        if !matches!(word, Ok(Ok(_))) {
            tracing::info!("No message from healthd yet: every server counts as up");
        }
        watcher.current()
    }

    /// Passes on what comes to the builder, for as long as the task lives.
    #[must_use]
    pub fn follow(&self, builder: Arc<TableBuilder>) -> Option<JoinHandle<()>> {
        let mut snapshots = self.watcher.as_ref()?.subscribe();
        Some(tokio::spawn(async move {
            while snapshots.changed().await.is_ok() {
                let snapshot = Arc::clone(&snapshots.borrow_and_update());
                builder.observe(snapshot);
            }
        }))
    }

    /// Watches other targets.
    pub fn set_targets(&self, targets: Vec<Target>) {
        if let Some(watcher) = &self.watcher {
            watcher.set_targets(targets);
        }
    }

    /// How the stream is doing; `None` when there is to be none.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.watcher.as_ref().map(|watcher| watcher.state())
    }

    /// How old what is known may be; `None` before the first word.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.state()?.age(tokio_now())
    }

    /// How many observations healthd was never told.
    #[must_use]
    pub fn n_reports_dropped(&self) -> u64 {
        self.reporter
            .as_ref()
            .map_or(0, |reporter| reporter.n_dropped())
    }
}

/// Tells healthd of connects that failed.
pub struct FailureReports {
    reporter: Option<Arc<Reporter>>,
    targets: Arc<Latest<Targets>>,
    /// When each target was reported last; no larger than the targets there are.
    told: Mutex<HashMap<Target, Instant>>,
}

impl FailureReports {
    /// Over this stream, for these servers.
    #[must_use]
    pub fn new(link: &Link, targets: Arc<Latest<Targets>>) -> Self {
        Self {
            reporter: link.reporter.clone(),
            targets,
            told: Mutex::default(),
        }
    }

    fn is_due(&self, target: &Target, n_targets: usize) -> bool {
        let now = now();
        let mut told = self.told.lock();
        if told.len() > n_targets {
            told.clear();
        }
        let last = told.get(target);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(*last) >= REPORT_EVERY);
        if is_due {
            told.insert(target.clone(), now);
        }
        is_due
    }
}

impl Report for FailureReports {
    fn connect_failed(&self, backend: &Arc<str>, server: &Arc<Server>, error: &io::Error) {
        let Some(reporter) = &self.reporter else {
            return;
        };
        let targets = self.targets.current();
        let key = (Arc::clone(backend), Arc::clone(&server.name));
        // A check at another port says nothing of this one, but is worth a look too.
        if let Some(target) = targets.get(&key)
            && self.is_due(target, targets.len())
        {
            reporter.report(target, false, format!("connect: {error}"));
        }
    }
}

impl fmt::Debug for FailureReports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Passive").finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
