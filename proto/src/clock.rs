//! Reports to healthd how good the clock of this node is.
//!
//! [`ClockReporter`] takes every new value from any thread, without waiting, and sends healthd the newest
//! one: at once when more changed than the numbers that always move, else from time to time, so that
//! healthd's report stays true. While healthd is gone, it keeps the value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Channel;

use crate::connection::{Connection, Sentences, State};
use crate::endpoint::{self, Endpoint};
use crate::health::ClockReport;
use crate::reconnect::{backoff_up_to, chain};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// Between two reports in which nothing but numbers has moved. A third of what a report holds, so that
/// one lost report makes nothing stale.
const REFRESH: Duration = Duration::from_secs(10);
/// Between two reports at least: a clock that cannot make up its mind is no reason to flood.
const GAP: Duration = Duration::from_millis(200);
/// healthd has this long to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Until the next attempt at most, where healthd is gone for long or is of an earlier version, which takes no reports: a node
/// without healthd is not woken for it all the time.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const SENTENCES: Sentences = Sentences {
    connected: "healthd gets reports of the clock",
    lost: "healthd is not told of the clock",
};

/// Sends reports to healthd until it is dropped.
#[derive(Debug)]
pub struct ClockReporter {
    newest: watch::Sender<Option<ClockReport>>,
    connection: Arc<Connection>,
    n_reports: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl ClockReporter {
    /// Connects when there is something to tell; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Endpoint) -> Self {
        let (newest, values) = watch::channel(None);
        let connection = Arc::new(Connection::new(endpoint, SENTENCES));
        let n_reports = Arc::<AtomicU64>::default();
        let sender = ReportSender {
            values,
            connection: Arc::clone(&connection),
            n_reports: Arc::clone(&n_reports),
        };
        Self {
            newest,
            connection,
            n_reports,
            task: tokio::spawn(sender.run()),
        }
    }

    /// Makes this the newest value. Never waits.
    pub fn report(&self, report: ClockReport) {
        self.newest.send_if_modified(|newest| {
            let is_news = newest
                .as_ref()
                .is_none_or(|before| is_news(before, &report));
            *newest = Some(report);
            is_news
        });
    }

    /// How the reporting goes: whether the last attempt reached healthd.
    #[must_use]
    pub fn state(&self) -> State {
        self.connection.state()
    }

    /// How many reports healthd has taken.
    #[must_use]
    pub fn n_reports(&self) -> u64 {
        self.n_reports.load(Ordering::Relaxed)
    }
}

impl Drop for ClockReporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether a report is worth sending at once: everything but the numbers that always move.
fn is_news(before: &ClockReport, after: &ClockReport) -> bool {
    let numbers = ClockReport {
        offset: after.offset,
        root_distance: after.root_distance,
        ..before.clone()
    };
    numbers != *after
}

/// The task behind a [`ClockReporter`].
struct ReportSender {
    values: watch::Receiver<Option<ClockReport>>,
    connection: Arc<Connection>,
    n_reports: Arc<AtomicU64>,
}

/// Why healthd was not told.
struct Failure {
    reason: String,
    /// It answered, and does not know how to take a report.
    is_unknown: bool,
}

impl ReportSender {
    async fn run(mut self) {
        let mut wait = backoff_up_to(LONGEST_WAIT);
        let mut client = None;
        if self.values.changed().await.is_err() {
            return;
        }
        loop {
            let report = self.values.borrow_and_update().clone();
            let Some(report) = report else { return };
            let told = self.tell(&mut client, &report).await;
            let pause = match &told {
                Ok(()) => {
                    wait.reset();
                    GAP
                }
                Err(failure) if failure.is_unknown => LONGEST_WAIT,
                Err(_) => {
                    client = None;
                    wait.next_wait()
                }
            };
            let is_told = told.is_ok();
            self.note(told);
            tokio::time::sleep(pause).await;
            if is_told {
                // The end of the wait without a change is a refresh.
                let waited = tokio::time::timeout(REFRESH, self.values.changed()).await;
                if let Ok(Err(_)) = waited {
                    return;
                }
            }
        }
    }

    async fn tell(
        &self,
        client: &mut Option<HealthClient<Channel>>,
        report: &ClockReport,
    ) -> Result<(), Failure> {
        let reached = match client {
            Some(reached) => reached,
            None => {
                let channel = endpoint::connect(self.connection.endpoint())
                    .await
                    .map_err(|error| Failure {
                        reason: chain(&error),
                        is_unknown: false,
                    })?;
                client.insert(HealthClient::new(channel))
            }
        };
        let call = reached.report_clock(wire::ClockReport::from(report));
        match tokio::time::timeout(TIMEOUT, call).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(Failure {
                reason: status.message().to_owned(),
                is_unknown: status.code() == Code::Unimplemented,
            }),
            Err(_) => Err(Failure {
                reason: "no answer in time".to_owned(),
                is_unknown: false,
            }),
        }
    }

    fn note(&self, told: Result<(), Failure>) {
        match told {
            Ok(()) => {
                self.n_reports.fetch_add(1, Ordering::Relaxed);
                self.connection.connected();
                self.connection.heard();
            }
            Err(Failure { reason, .. }) => self.connection.lost(&reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{ClockState, Leap};

    fn report(offset: i64) -> ClockReport {
        ClockReport {
            reporter: "master-0".to_owned(),
            state: ClockState::Locked,
            offset,
            root_distance: Duration::from_millis(1),
            stratum: 3,
            leap: Leap::Normal,
            n_sources: 4,
            n_selectable: 4,
            reference: "192.0.2.1".to_owned(),
            valid: Duration::from_secs(30),
        }
    }

    #[test]
    fn numbers_that_move_are_no_news() {
        assert!(!is_news(&report(1), &report(2)));
        let unlocked = ClockReport {
            state: ClockState::Holdover,
            ..report(1)
        };
        assert!(is_news(&report(1), &unlocked));
        let led = ClockReport {
            reference: "192.0.2.2".to_owned(),
            ..report(1)
        };
        assert!(is_news(&report(1), &led));
    }

    #[test]
    fn a_healthd_that_is_not_there_is_asked_again_and_nobody_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let nowhere: Endpoint = "unix:/nonexistent/healthd.sock".parse().unwrap();
            let reporter = ClockReporter::start(nowhere);
            assert_eq!(reporter.state(), State::default(), "nothing to tell yet");
            for offset in 0..100 {
                reporter.report(report(offset));
            }
            let failed = async {
                while reporter.state().error.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(5), failed)
                .await
                .unwrap();
            assert_eq!(reporter.n_reports(), 0);
            assert_eq!(
                reporter
                    .newest
                    .borrow()
                    .as_ref()
                    .map(|newest| newest.offset),
                Some(99),
                "the last value is kept"
            );
        });
    }
}
