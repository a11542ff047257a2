//! Runs the sweep and the scrub; shows their progress and their last results.
//!
//! One of each at a time, and neither waits for the other: a scrub takes hours, and a disk that is full
//! has to be swept meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::config::registry_svc::Stay;
use api::registry_svc::{Last, Outcome, ScrubReport, SweepReport};
use daemon::clock;
use daemon::exit;
use daemon::latest::Latest;
use parking_lot::{Mutex, MutexGuard};
use registry_cluster::Cluster;
use registry_store::others::Others;
use registry_store::scrub;
use registry_store::scrub::Pace;
use registry_store::space::{Space, FillLevel};
use registry_store::sweep;
use registry_store::sweep::Mode;
use registry_store::{Store, StoreError};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::metrics::{self, Sample};

/// The interval of checks whether a task is due.
const LOOK: Duration = Duration::from_secs(1);

/// The interval of sweeps on a full disk: one sweep moves content to the trash, and the next one
/// deletes it.
const SWEEP_WHEN_FULL: Duration = Duration::from_secs(30);

/// The shortest grace with other nodes: a client may have pushed a blob to one node while its
/// manifest is on the way to another.
pub const GRACE_AMONG_NODES: Duration = Duration::from_hours(24);

/// The tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A sweep.
    Sweep,
    /// A sweep that only reports.
    DryRun,
    /// A scrub at the configured rate.
    Scrub,
    /// A scrub as fast as the disk reads, because an operator waits for it.
    Verify,
}

impl Task {
    /// Its name in paths and in what is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::DryRun => "dry-run",
            Self::Scrub => "scrub",
            Self::Verify => "verify",
        }
    }

    /// The task of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Sweep, Self::DryRun, Self::Scrub, Self::Verify]
            .into_iter()
            .find(|task| task.name() == name)
    }

    fn is_sweep(self) -> bool {
        matches!(self, Self::Sweep | Self::DryRun)
    }
}

/// The upkeep of one store; clones are the same.
#[derive(Clone, Debug)]
pub struct Maintenance(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    cluster: Option<Cluster>,
    space: Option<Space>,
    config: Arc<Latest<Config>>,
    state: Mutex<State>,
    /// Octets that the scrub under way has read.
    read: Arc<AtomicU64>,
    totals: Totals,
}

#[derive(Debug)]
struct State {
    sweeping: Option<Running>,
    scrubbing: Option<Running>,
    /// How many have been started: a number for each.
    n_started: u64,
    last_sweep: Option<Last<SweepReport>>,
    last_scrub: Option<Last<ScrubReport>>,
    swept: Instant,
    scrubbed: Instant,
}

impl State {
    /// The running task of a kind.
    fn running(&mut self, task: Task) -> &mut Option<Running> {
        match task.is_sweep() {
            true => &mut self.sweeping,
            false => &mut self.scrubbing,
        }
    }
}

#[derive(Debug)]
struct Running {
    task: Task,
    number: u64,
    since: Instant,
}

#[derive(Debug, Default)]
struct Totals {
    sweeps: AtomicU64,
    sweep_milliseconds: AtomicU64,
    trashed: AtomicU64,
    deleted: AtomicU64,
    deleted_octets: AtomicU64,
    /// Manifests that the last sweep could not read.
    unreadable: AtomicU64,
    scrubs: AtomicU64,
    scrubbed_octets: AtomicU64,
    damaged: AtomicU64,
    repaired: AtomicU64,
}

impl Maintenance {
    /// The tasks of a store, at the times of the configuration. Nothing runs before
    /// [`run`](Self::run).
    #[must_use]
    pub fn new(
        store: &Store,
        cluster: Option<&Cluster>,
        space: Option<&Space>,
        config: &Arc<Latest<Config>>,
    ) -> Self {
        let begun = clock::now();
        Self(Arc::new(Inner {
            store: store.clone(),
            cluster: cluster.cloned(),
            space: space.cloned(),
            config: Arc::clone(config),
            state: Mutex::new(State {
                sweeping: None,
                scrubbing: None,
                n_started: 0,
                last_sweep: None,
                last_scrub: None,
                swept: begun,
                scrubbed: begun,
            }),
            read: Arc::default(),
            totals: Totals::default(),
        }))
    }

    /// Does what is due, for as long as it is polled.
    pub async fn run(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            for task in self.due() {
                // One that runs already is not begun again.
                drop(self.start(task));
            }
        }
    }

    fn due(&self) -> Vec<Task> {
        let config = self.0.config.current();
        let state = self.state();
        let is_past = |interval: Option<Duration>, last: Instant| {
            interval.is_some_and(|interval| last.elapsed() >= interval)
        };
        let interval = match self.is_full() {
            true => config
                .file
                .sweep
                .interval
                .0
                .map(|it| it.min(SWEEP_WHEN_FULL)),
            false => config.file.sweep.interval.0,
        };
        let mut due = Vec::new();
        let is_read_only = config.file.read_only || self.0.store.is_on_read_only_disk();
        if is_past(interval, state.swept) && !is_read_only {
            due.push(Task::Sweep);
        }
        if is_past(config.file.scrub.interval.0, state.scrubbed) {
            due.push(Task::Scrub);
        }
        due
    }

    fn is_full(&self) -> bool {
        let space = self.0.space.as_ref();
        space.is_some_and(|space| space.standing() == FillLevel::Full)
    }

    /// Starts a task and gives its number; none while another of its kind runs. Has to be called in the
    /// runtime that does the work.
    #[must_use]
    pub fn start(&self, task: Task) -> Option<(u64, JoinHandle<()>)> {
        let mut state = self.state();
        if state.running(task).is_some() {
            return None;
        }
        state.n_started += 1;
        let number = state.n_started;
        let since = clock::now();
        *state.running(task) = Some(Running {
            task,
            number,
            since,
        });
        drop(state);
        if !task.is_sweep() {
            self.0.read.store(0, Ordering::Relaxed);
        }
        let this = self.clone();
        Some((
            number,
            tokio::spawn(async move {
                match task.is_sweep() {
                    true => this.sweep(task, number).await,
                    false => this.scrub(task, number).await,
                }
            }),
        ))
    }

    fn others(&self) -> Option<&dyn Others> {
        self.0
            .cluster
            .as_ref()
            .map(|cluster| cluster as &dyn Others)
    }

    async fn sweep(&self, task: Task, number: u64) {
        let swept = self.swept(task).await;
        let report = Self::outcome(task, swept);
        let mut state = self.state();
        state.sweeping = None;
        state.last_sweep = Some(Last {
            number,
            task: task.name().to_owned(),
            report,
        });
        if task == Task::Sweep {
            state.swept = clock::now();
        }
    }

    async fn swept(&self, task: Task) -> Result<SweepReport, StoreError> {
        let config = self.0.config.current();
        let mut settings = config.file.sweep;
        if self.0.cluster.is_some() {
            settings.grace = settings.grace.max(Stay::clamped(GRACE_AMONG_NODES));
        }
        if self.is_full() {
            // No client can push content again that is in the trash; the first grace and leases
            // still hold.
            settings.trash = Stay::clamped(Duration::ZERO);
        }
        let mode = match task {
            Task::DryRun => Mode::DryRun,
            _ => Mode::Sweep,
        };
        let others = self.others();
        let report = sweep::sweep(&self.0.store, others, &settings, mode).await?;
        if mode == Mode::Sweep {
            self.0.totals.swept(&report);
            if let Some(space) = &self.0.space {
                // Records may wait for another node for a long time: no reason to come again.
                space.expect(report.trashed.octets + report.in_trash.octets);
            }
            tracing::info!(
                trashed = report.trashed.n,
                deleted = report.deleted.n,
                deleted_octets = report.deleted.octets,
                waiting = report.waiting.n,
                restated = report.n_restated,
                unreadable = report.unreadable.len(),
                took = ?report.took,
                "Swept"
            );
        }
        Ok(report.shown())
    }

    async fn scrub(&self, task: Task, number: u64) {
        let scrubbed = self.scrubbed(task).await;
        let report = Self::outcome(task, scrubbed);
        let mut state = self.state();
        state.scrubbing = None;
        state.last_scrub = Some(Last {
            number,
            task: task.name().to_owned(),
            report,
        });
        state.scrubbed = clock::now();
    }

    async fn scrubbed(&self, task: Task) -> Result<ScrubReport, StoreError> {
        let config = self.0.config.current();
        let pace = Pace {
            rate: (task == Task::Scrub).then_some(config.file.scrub.rate.get()),
            read: Arc::clone(&self.0.read),
        };
        let report = scrub::scrub(&self.0.store, self.others(), &pace).await?;
        self.0.totals.scrubbed(&report);
        tracing::info!(
            blobs = report.n_blobs,
            damaged = report.damaged.len(),
            repaired = report.n_repaired,
            missing = report.missing.len(),
            took = ?report.took,
            "Scrubbed"
        );
        Ok(report.shown())
    }

    fn outcome<R>(task: Task, done: Result<R, StoreError>) -> Outcome<R> {
        match done {
            Ok(report) => Outcome::Done(report),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    task = task.name(),
                    "Maintenance failed"
                );
                Outcome::Failed {
                    error: exit::chain(&error),
                }
            }
        }
    }

    /// The running tasks, and the results of the last ones.
    #[must_use]
    pub fn status(&self) -> api::registry_svc::Upkeep {
        let state = self.state();
        let running = [&state.sweeping, &state.scrubbing].into_iter().flatten();
        let shown = running.map(|running| api::registry_svc::Running {
            task: running.task.name().to_owned(),
            number: running.number,
            seconds: running.since.elapsed().as_secs_f64(),
            read_bytes: (!running.task.is_sweep()).then(|| self.0.read.load(Ordering::Relaxed)),
        });
        api::registry_svc::Upkeep {
            running: shown.collect(),
            last_sweep: state.last_sweep.clone(),
            last_scrub: state.last_scrub.clone(),
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let totals = &self.0.totals;
        let counter = |name, help, value: &AtomicU64| {
            Sample::counter(name, help, Vec::new(), value.load(Ordering::Relaxed))
        };
        let milliseconds = totals.sweep_milliseconds.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "shown as seconds")]
        let seconds = milliseconds as f64 / 1000.0;
        vec![
            counter(metrics::SWEEPS, "Sweeps", &totals.sweeps),
            Sample::gauge(
                metrics::SWEEP_DURATION,
                "How long the last sweep took",
                Vec::new(),
                seconds,
            ),
            counter(
                metrics::SWEEP_TRASHED,
                "Blobs that sweeps moved to the trash",
                &totals.trashed,
            ),
            counter(
                metrics::SWEEP_DELETED,
                "Blobs that sweeps deleted",
                &totals.deleted,
            ),
            counter(
                metrics::SWEEP_DELETED_BYTES,
                "Octets that sweeps deleted",
                &totals.deleted_octets,
            ),
            Sample::count(
                metrics::SWEEP_UNREADABLE,
                "Manifests that the last sweep could not read",
                Vec::new(),
                totals.unreadable.load(Ordering::Relaxed),
            ),
            counter(metrics::SCRUBS, "Scrubs", &totals.scrubs),
            counter(
                metrics::SCRUB_READ,
                "Octets that scrubs read",
                &totals.scrubbed_octets,
            ),
            counter(
                metrics::SCRUB_DAMAGED,
                "Blobs that scrubs found damaged",
                &totals.damaged,
            ),
            counter(
                metrics::SCRUB_REPAIRED,
                "Blobs that scrubs fetched anew from other nodes",
                &totals.repaired,
            ),
        ]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl Totals {
    fn swept(&self, report: &sweep::Report) {
        let add = |total: &AtomicU64, n: u64| total.fetch_add(n, Ordering::Relaxed);
        add(&self.sweeps, 1);
        add(&self.trashed, report.trashed.n);
        add(&self.deleted, report.deleted.n);
        add(&self.deleted_octets, report.deleted.octets);
        let unreadable = report.unreadable.len() as u64;
        self.unreadable.store(unreadable, Ordering::Relaxed);
        let took = u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX);
        self.sweep_milliseconds.store(took, Ordering::Relaxed);
    }

    fn scrubbed(&self, report: &scrub::Report) {
        let add = |total: &AtomicU64, n: u64| total.fetch_add(n, Ordering::Relaxed);
        add(&self.scrubs, 1);
        add(&self.scrubbed_octets, report.octets);
        add(&self.damaged, report.damaged.len() as u64);
        add(&self.repaired, report.n_repaired);
    }
}

#[cfg(test)]
mod tests {
    use ::config::SizeWithin;
    use bytes::Bytes;
    use daemon::config::Document;
    use oci::digest::{Algorithm, Digest};
    use registry_store::Settings;
    use registry_store::disk::RealDisk;

    use super::*;

    #[tokio::test]
    async fn a_disk_is_swept_while_it_is_scrubbed() {
        let scratch = tempfile::tempdir().unwrap();
        let settings = Settings::new(scratch.path().join("store"), "node-0".parse().unwrap());
        let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
        let content = Bytes::from_static(&[1; 8 << 20]);
        let digest = Digest::of(Algorithm::Sha256, &content);
        let body = tokio_stream::iter([Ok(content)]);
        store.ingest(&digest, None, body).await.unwrap();
        let document = Document::inline("test", "version = \"v1\"\nplain = true\n");
        let mut config = Config::from_document(&document).unwrap();
        // It takes two minutes.
        config.file.scrub.rate = SizeWithin::clamped(0);
        let upkeep = Maintenance::new(&store, None, None, &Latest::new(config));

        let (_, scrub) = upkeep.start(Task::Scrub).unwrap();
        assert!(upkeep.start(Task::Verify).is_none());
        let (number, sweep) = upkeep.start(Task::Sweep).unwrap();
        assert!(upkeep.start(Task::DryRun).is_none());
        sweep.await.unwrap();
        let status = upkeep.status();
        assert_eq!(status.last_sweep.unwrap().number, number);
        assert_eq!(status.running.len(), 1);
        assert_eq!(status.running[0].task, "scrub");
        scrub.abort();
    }
}
