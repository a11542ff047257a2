//! The handle of the driver for the rest of the server: it takes questions and commands.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use daemon::latest::Reader;
use daemon::run::Heartbeat;
use dns_cache::instant::Instant;
use dns_cache::key::Seed;
use dns_cache::message::MAX_MESSAGE;
use dns_resolve::resolver::Resolver;
use dns_resolve::upstream_state::Report;
use dns_upstream::Pools;
use dns_wire::Name;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use super::shared::{Questions, Queues, Shared};
use super::{Client, Command, Driver, Job, Observed, Outbox, Plan, Resources};
use crate::entropy::SystemEntropy;
use crate::upstream::udp::{Sockets, Waiter};

/// Questions on their way to the driver while it is busy. A working site never has more at once; when the queue is full,
/// clients get an error at once.
const JOB_QUEUE: usize = 8192;
/// Messages from upstreams on their way to the driver; exchanges wait when it is full.
const EVENT_QUEUE: usize = 4096;
/// Commands under way.
const COMMAND_QUEUE: usize = 64;

/// The running driver. Dropping it ends its threads.
#[derive(Debug)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
    questions: Questions,
    commands: mpsc::Sender<Command>,
    observed: Arc<Mutex<Observed>>,
    heartbeats: [(&'static str, Heartbeat); 2],
    /// Ends the wait for upstreams.
    waiter: Waiter,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system has no thread or event queue left.
    pub fn start(resources: Resources, plan: &Plan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let sockets = Sockets::new()?;
        let waiter = sockets.waiter();
        let (jobs, queue) = mpsc::channel(JOB_QUEUE);
        let (commands, orders) = mpsc::channel(COMMAND_QUEUE);
        let (events, arrivals) = mpsc::channel(EVENT_QUEUE);
        let observed = Arc::new(Mutex::new(Observed::default()));
        let (heartbeat, receives) = (Heartbeat::default(), Heartbeat::default());
        let asked = Arc::new(Notify::new());
        let wake = Arc::clone(&asked);
        heartbeat.wake_by(move || wake.notify_one());
        let clock = resources.clock;
        let now = clock.now();
        let resolver = resolver(plan, resources.cache.seed(), now);
        let mut pools = Pools::new(events.clone());
        pools.adopt(&plan.servers);
        let driver = Driver {
            resolver,
            pools,
            counts: resources.totals.add_thread(),
            watcher: resources.watch.watcher(),
            answering: None,
            names: Reader::new(Arc::clone(&resources.names)),
            resources,
            plan: plan.clone(),
            sockets,
            exchanges: HashMap::new(),
            events,
            seen: Observed::default(),
            flushes: 0,
            observed: Arc::clone(&observed),
            shown: Instant::START,
            is_shown: false,
            runtime: runtime.handle().clone(),
            down: BTreeSet::new(),
            logged_loops: HashMap::new(),
            logged_bogus: HashMap::new(),
            idle: None,
            out: vec![0; MAX_MESSAGE],
            outbox: Outbox::default(),
        };
        let shared = Arc::new(Shared::new(driver, clock, asked));
        // Dropped on an error, it stops the thread it has.
        let mut handle = Self {
            questions: Questions::new(Arc::clone(&shared), jobs.clone()),
            jobs,
            commands,
            observed,
            heartbeats: [
                ("resolver", Arc::clone(&heartbeat)),
                ("upstreams", Arc::clone(&receives)),
            ],
            waiter: waiter.clone(),
            threads: Vec::new(),
        };
        let queues = Queues {
            jobs: queue,
            commands: orders,
            events: arrivals,
        };
        let timers = Arc::clone(&shared);
        handle.spawn("dns-resolver", move || {
            runtime.block_on(timers.run(queues, heartbeat));
        })?;
        handle.spawn("dns-upstreams", move || shared.receive(&waiter, &receives))?;
        Ok(handle)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// The way of clients' questions.
    #[must_use]
    pub fn questions(&self) -> Questions {
        self.questions.clone()
    }

    /// The queue of questions.
    #[must_use]
    pub fn jobs(&self) -> mpsc::Sender<Job> {
        self.jobs.clone()
    }

    /// The names of the threads, and counters that grow while these live.
    pub fn heartbeats(&self) -> impl Iterator<Item = (String, Heartbeat)> {
        let named = |(name, beat): &(&str, Heartbeat)| ((*name).to_owned(), Arc::clone(beat));
        self.heartbeats.iter().map(named)
    }

    /// The counters of the driver, shared with status and metrics.
    #[must_use]
    pub fn observed(&self) -> Arc<Mutex<Observed>> {
        Arc::clone(&self.observed)
    }

    /// The handle through which the driver takes other configurations.
    #[must_use]
    pub fn adopter(&self) -> Adopter {
        Adopter(self.commands.clone())
    }

    /// The way to ask whether the thread answers.
    #[must_use]
    pub fn echo(&self) -> Echo {
        Echo(self.commands.downgrade())
    }

    /// The way of zones that have changed.
    #[must_use]
    pub fn notices(&self) -> Notices {
        Notices {
            commands: self.commands.downgrade(),
            taken: Arc::default(),
        }
    }

    /// The handle through which healthd's reports reach the driver.
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
        // An error means that the thread has ended: nothing is left to wait for.
        let _told = idle.await;
    }
}

fn resolver(plan: &Plan, seed: Seed, now: Instant) -> Resolver<Client, SystemEntropy> {
    let (table, entropy) = (Arc::clone(&plan.table), SystemEntropy::default());
    let mut resolver = Resolver::new(plan.settings, table, seed, entropy, now);
    resolver.set_own_addresses(plan.own_addresses.clone());
    resolver
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.commands.try_send(Command::Stop).is_err() {
            tracing::debug!("The resolver's thread had ended already");
        }
        // The first of them ends the driver; the second sees that when its wait ends.
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("A thread of the resolver has panicked");
            }
            self.waiter.end();
        }
    }
}

/// Asks the driver whether it is there.
#[derive(Clone, Debug)]
pub struct Echo(mpsc::WeakSender<Command>);

impl Echo {
    /// Waits until the driver has answered; false when it has ended.
    pub async fn answer(&self) -> bool {
        let Some(commands) = self.0.upgrade() else {
            return false;
        };
        let (told, answer) = oneshot::channel();
        let is_sent = commands.send(Command::Echo(told)).await.is_ok();
        is_sent && answer.await.is_ok()
    }
}

/// NOTIFYs that are taken in a second: each looks at every entry of the cache.
const NOTICES: u64 = 10;

/// Passes zones that have changed to the driver.
#[derive(Clone, Debug)]
pub struct Notices {
    commands: mpsc::WeakSender<Command>,
    /// The second, and in the low 8 bits the NOTIFYs that were taken in it.
    taken: Arc<AtomicU64>,
}

impl Notices {
    /// Drops a zone from the cache soon. False when there are too many.
    #[must_use]
    pub fn take(&self, zone: Name, now: Instant) -> bool {
        let second = (now.as_millis() / 1000) << 8;
        let count = |taken: u64| match taken & !0xff == second {
            true if taken & 0xff < NOTICES => Some(taken + 1),
            true => None,
            false => Some(second + 1),
        };
        let order = Ordering::Relaxed;
        let is_taken = self.taken.fetch_update(order, order, count).is_ok();
        let commands = self.commands.upgrade().filter(|_| is_taken);
        commands.is_some_and(|commands| commands.try_send(Command::Changed(zone)).is_ok())
    }
}

/// Passes configurations to the driver.
#[derive(Clone, Debug)]
pub struct Adopter(mpsc::Sender<Command>);

impl Adopter {
    /// Switches to another configuration; returns when it is in force.
    pub async fn adopt(&self, plan: Plan) {
        let (told, adopted) = oneshot::channel();
        if self
            .0
            .send(Command::Adopt(Box::new(plan), told))
            .await
            .is_err()
        {
            tracing::error!("The resolver's thread has ended");
            return;
        }
        // An error means that the thread has ended meanwhile.
        let _told = adopted.await;
    }
}

/// Passes healthd's reports to the driver.
#[derive(Clone, Debug)]
pub struct Reporter(mpsc::Sender<Command>);

impl Reporter {
    /// Passes on healthd's report about an upstream; false when the driver has ended.
    pub async fn report(&self, upstream: SocketAddr, report: Report) -> bool {
        self.0
            .send(Command::Report { upstream, report })
            .await
            .is_ok()
    }
}
