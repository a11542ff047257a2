//! healthd: its findings about servers, and this proxy's own observations for it.
//!
//! One target for each distinct check of a server; frontends and backends share them. When healthd goes,
//! what it said last stays in force for a while; then the [`stand_in`] probes. A connect that fails is reported, so that healthd,
//! or the stand-in, probes at once.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::pool::Server;
use daemon::clock;
use daemon::latest::Latest;
use l4::relay::Report;
use parking_lot::Mutex;
use proto::endpoint::Endpoint;
use proto::health::{Snapshot, Target, Watched};
use proto::link::Link;
use proto::report::Reporter;
use stand_in::StandIn;

use crate::table_builder::Targets;

/// How long a start waits for the first word from healthd, so that the first connections are not sent to
/// servers that are known to be down. healthd is on this node and answers within milliseconds; without
/// it every server counts as up.
const FIRST_WORD: Duration = Duration::from_millis(500);

/// One report of a server in this time: healthd needs to be told once.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Waits for the first word, but not long.
pub async fn first_word(link: &Link) -> Arc<Snapshot> {
    if !link.has_heard_within(FIRST_WORD).await {
        tracing::info!("No message from healthd yet: every server counts as up");
    }
    link.current()
}

/// Tells healthd, where there is one, of connects that failed.
pub struct FailureReports {
    reporter: Option<Reporter>,
    stand_in: StandIn,
    targets: Arc<Latest<Targets>>,
    /// When each target was reported last; no larger than the targets there are.
    told: Mutex<HashMap<Target, Instant>>,
}

impl FailureReports {
    /// For these servers.
    #[must_use]
    pub fn start(
        endpoint: Option<Endpoint>,
        stand_in: StandIn,
        targets: Arc<Latest<Targets>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            reporter: endpoint.map(Reporter::start),
            stand_in,
            targets,
            told: Mutex::default(),
        })
    }

    /// The stand-in, which hears of failures too.
    #[must_use]
    pub const fn stand_in(&self) -> &StandIn {
        &self.stand_in
    }

    /// How many observations healthd was never told.
    #[must_use]
    pub fn n_dropped(&self) -> u64 {
        self.reporter.as_ref().map_or(0, Reporter::n_dropped)
    }

    fn is_due(&self, target: &Target, n_targets: usize) -> bool {
        let now = clock::now();
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
        if let Some(Watched { target, .. }) = targets.get(&key)
            && self.is_due(target, targets.len())
        {
            reporter.report(target, false, format!("connect: {error}"));
            self.stand_in.report(target, false);
        }
    }
}

impl fmt::Debug for FailureReports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Passive").finish_non_exhaustive()
    }
}
