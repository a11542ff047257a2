//! The driver as everybody else sees it: where questions and commands go.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use daemon::run::Heartbeat;
use dns_cache::message::MAX_MESSAGE;
use dns_resolve::resolver::Resolver;
use dns_resolve::upstream_state::Report;
use tokio::sync::{mpsc, oneshot};

use super::{Command, Driver, Job, Observed, Plan, Supply};
use crate::entropy::SystemEntropy;

/// Questions on their way to the driver. More than wait at once in any working site; when it is
/// full, clients are told so at once.
const JOB_QUEUE: usize = 8192;
/// Messages from upstreams on their way to the driver; exchanges wait when it is full.
const EVENT_QUEUE: usize = 4096;
/// Commands under way.
const COMMAND_QUEUE: usize = 64;

/// The running driver. Dropping it ends its thread.
#[derive(Debug)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    commands: mpsc::Sender<Command>,
    observed: Arc<Mutex<Observed>>,
    heartbeat: Heartbeat,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or event queue left.
    pub fn start(supply: Supply, plan: &Plan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (jobs, queue) = mpsc::channel(JOB_QUEUE);
        let (commands, orders) = mpsc::channel(COMMAND_QUEUE);
        let (events, arrivals) = mpsc::channel(EVENT_QUEUE);
        let observed = Arc::new(Mutex::new(Observed::default()));
        let heartbeat = Heartbeat::default();
        let now = supply.clock.now();
        let entropy = SystemEntropy::default();
        let table = Arc::clone(&plan.table);
        let mut resolver = Resolver::new(plan.settings, table, supply.cache.seed(), entropy, now);
        resolver.set_own_addresses(plan.own_addresses.clone());
        let driver = Driver {
            resolver,
            counts: supply.totals.add_thread(),
            supply,
            plan: plan.clone(),
            ports: SystemEntropy::default(),
            exchanges: HashMap::new(),
            events,
            seen: Observed::default(),
            observed: Arc::clone(&observed),
            heartbeat: Arc::clone(&heartbeat),
            down: BTreeSet::new(),
            complained: HashMap::new(),
            idle: None,
            out: vec![0; MAX_MESSAGE],
        };
        let thread = thread::Builder::new()
            .name("dns-resolver".to_owned())
            .spawn(move || runtime.block_on(driver.run(queue, orders, arrivals)))?;
        Ok(Self {
            jobs,
            commands,
            observed,
            heartbeat,
            thread: Some(thread),
        })
    }

    /// Where questions go.
    #[must_use]
    pub fn jobs(&self) -> mpsc::Sender<Job> {
        self.jobs.clone()
    }

    /// Counted up while the thread lives.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        Arc::clone(&self.heartbeat)
    }

    /// What the driver sees, shared with whoever shows it.
    #[must_use]
    pub fn observed(&self) -> Arc<Mutex<Observed>> {
        Arc::clone(&self.observed)
    }

    /// Goes on by another configuration; returns when it is in force.
    pub async fn adopt(&self, plan: Plan) {
        let (told, adopted) = oneshot::channel();
        self.command(Command::Adopt(Box::new(plan), told)).await;
        // An error means that the thread has ended, as has been said.
        let _told = adopted.await;
    }

    /// Who tells the driver what healthd says.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        Reporter(self.commands.clone())
    }

    async fn command(&self, command: Command) {
        if self.commands.send(command).await.is_err() {
            tracing::error!("The resolver's thread has ended");
        }
    }

    /// Waits until no client waits for an answer.
    pub async fn wait_until_idle(&self) {
        let (told, idle) = oneshot::channel();
        self.command(Command::WhenIdle(told)).await;
        // An error means that the thread has ended, and nobody waits for it.
        let _told = idle.await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.commands.try_send(Command::Stop).is_err() {
            tracing::debug!("The resolver's thread has ended before");
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The resolver's thread has panicked");
        }
    }
}

/// Tells the driver what healthd says.
#[derive(Clone, Debug)]
pub struct Reporter(mpsc::Sender<Command>);

impl Reporter {
    /// healthd says this of an upstream; false when nobody listens any more.
    pub async fn report(&self, upstream: SocketAddr, report: Report) -> bool {
        self.0
            .send(Command::Report { upstream, report })
            .await
            .is_ok()
    }
}
