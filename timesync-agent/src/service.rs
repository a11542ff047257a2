//! The life of the agent's process: the order in which its parts start and stop.

mod controller;
mod ntp_listeners;
pub(crate) mod sockets;

use parking_lot::Mutex;
use std::error::Error;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::config::timesync_agent::TimesyncAgent;
use api::timesync_agent::Detail;
use daemon::admin::{Reply, Routes};
use daemon::config::{Common, Problem, Problems};
use daemon::exit;
use daemon::latest::{Latest, Reader};
use daemon::readiness::{Latch, Readiness};
use daemon::run::{Context, Service, StartError};
use daemon::succession::{self, Lock, LockError};
use tokio::task::JoinHandle;

use self::controller::Controller;
use self::ntp_listeners::NtpListeners;
use crate::agent::{self, Agent, AgentError};
use crate::cmdmon;
use crate::config::Config;
use crate::health::Health;
use crate::keys;
use crate::learned::Learned;
use crate::metrics::Scrape;
use crate::page;
use crate::self_check;
use crate::server::{self, AnswerData};
use crate::state_file::StateFile;
use crate::status::{self, HostInfo};
use crate::system;
use crate::system::clock;
use crate::views::Views;
use ntp::keys::KeyRing;
use ntp::responder::{Policy, Tables};
use random::Random;
use time_model::history::History;
use time_model::labels;
use time_model::settings::{PtpTransport, RefclockDriver, Settings};
use time_model::view::View;
use timekeeper::Reference;
use timesync_sandbox::{self as sandbox, Capabilities};

/// A running agent.
#[derive(Debug)]
pub struct Timesync {
    agent: Agent,
    /// The sockets for chronyc.
    chronyc: cmdmon::Server,
    /// Executes chronyc's commands.
    controller: Controller,
    views: Views,
    /// The nodes of a cluster that the agent asks.
    learned: Learned,
    /// The NTP listeners.
    ntp_listeners: Arc<NtpListeners>,
    health: Arc<Health>,
    /// Whether the clock is corrected. A reload does not change it: the process may have given up the privilege.
    is_clock_corrected: bool,
    follower: JoinHandle<()>,
    /// Adds threads that answer.
    grower: JoinHandle<()>,
    /// The directory of the drift file, whose holder corrects the clock.
    lock: Option<Lock>,
}

impl Service for Timesync {
    const NAME: &'static str = "timesync-agent";

    type Config = Config;
    type Status = Detail;
    type File = TimesyncAgent;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &TimesyncAgent {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        config.warnings.iter().map(ToString::to_string).collect()
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let settings = &config.settings;
        keep_capabilities(&config)?;
        let keys = read_keys(settings);
        let precision = server::measure_precision();
        let seed = system::seed().map_err(|error| StartError::io("get random numbers", &error))?;
        let mut random = Random::new(seed);
        let supply = supply(settings, &keys, precision, &mut random);
        let lock = take_clock(&config, context).await?;
        let drift_file = settings.clock.drift_file.as_deref();
        let leaves = drift_file.filter(|_| lock.is_some());
        let leaves = leaves.and_then(StateFile::beside);
        let state = leaves.as_ref().and_then(StateFile::take);
        if let Some(state) = &state {
            // A client gets the time from its first request on.
            let told = state.reference(settings, !config.file.correct_clock, clock::read());
            supply.reference.publish(told);
        }
        let ntp_listeners =
            NtpListeners::new(&config, context, supply.clone(), precision, random.fork());
        let inherited = ntp_listeners.open(&mut context.inherited, &settings.server)?;
        let options = agent::Options {
            supply: Some(supply.clone()),
            answers_all: !config.file.batch,
            state,
            leaves,
            inherited: inherited.into_iter().map(Into::into).collect(),
            ..agent::Options::new(config.file.correct_clock)
        };
        let agent = Agent::start(settings, keys, options).map_err(refused)?;
        let views = agent.views();
        context.progress.register("ntp", agent.heartbeat());
        check_self(context, &agent, &supply, &mut random);
        let controller = Controller::new(agent.commander(), settings, Arc::clone(&ntp_listeners));
        let chronyc = cmdmon::Server::start(
            settings,
            views.clone(),
            Arc::clone(&supply.tables),
            random.fork(),
            Box::new(controller.handle()),
            resolve,
        );
        let health = Arc::new(Health::start(
            config.file.health.endpoint.0.clone(),
            config.node(),
        ));
        succession::offer(context, lock.as_ref());
        let learned = Learned::start(Self::NAME, &config, controller.handle());
        let grower = tokio::spawn(Arc::clone(&ntp_listeners).grow_with_load());
        let follower = show(&config, context, &views, &supply, &health);
        if config.file.sandbox {
            forbid();
        }
        let listeners = listeners(&ntp_listeners, &chronyc).join(" ");
        tracing::info!(listeners, "Keeping time: {}", config.summary());
        Ok(Self {
            agent,
            chronyc,
            controller,
            learned,
            views,
            ntp_listeners,
            health,
            is_clock_corrected: config.file.correct_clock,
            follower: tokio::spawn(follower.run()),
            grower,
            lock,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        let keys = read_keys(&config.settings);
        let told = keys.clone();
        let summary = config.summary();
        self.chronyc.reload(&config.settings, resolve);
        let adopt = |settings: &Settings| {
            self.controller.reload(settings);
            self.agent.commander().reload(settings.clone(), keys)
        };
        if !self.learned.reload(&config, adopt).await {
            return Err(Problem::new("the poll loop takes no orders").into());
        }
        self.ntp_listeners.tell(&config.settings, &told);
        Ok(summary)
    }

    fn status(&self) -> Detail {
        let around = HostInfo {
            listeners: listeners(&self.ntp_listeners, &self.chronyc),
            is_clock_corrected: self.is_clock_corrected,
            healthd: self.health.reports(),
            learned: self.learned.status(),
        };
        status::detail(&self.views.now(), &around)
    }

    async fn failure(&self) -> Box<dyn Error + Send + Sync> {
        // Without it nothing here is of use, and another process may fare better.
        self.agent.ended().await.into()
    }

    async fn drain(self, _deadline: Duration) -> bool {
        self.follower.abort();
        self.grower.abort();
        // Threads answer what they have read, and sockets that a successor shares stay open with it.
        let Self {
            ntp_listeners,
            agent,
            lock,
            ..
        } = self;
        ntp_listeners.ask_to_stop();
        let stopped = tokio::task::spawn_blocking(move || {
            if let Err(error) = agent.stop() {
                let error: &dyn Error = &error;
                tracing::debug!(error, "The time was not kept to the end");
            }
            ntp_listeners.close();
        });
        let stopped = stopped.await.is_ok();
        // A successor corrects the clock once nothing of this process can.
        if let Some(lock) = lock {
            lock.keep();
        }
        stopped
    }
}

/// Takes the clock over: two processes on it would undo each other's work, and processes in containers
/// cannot see one another. Without a drift file there is no place to meet at, and what runs where this
/// process can see it is all that is known.
async fn take_clock(config: &Config, context: &Context) -> Result<Option<Lock>, StartError> {
    let drift_file = config.settings.clock.drift_file.as_deref();
    let Some(directory) = drift_file.and_then(std::path::Path::parent) else {
        return Ok(None);
    };
    match succession::take(directory, &config.common, context).await {
        Ok(lock) => Ok(Some(lock)),
        // An agent that leaves the clock alone competes with no program.
        Err(LockError::Held { .. }) if !config.file.correct_clock => Ok(None),
        Err(error @ LockError::Held { .. }) => Err(StartError::new(exit::SOFTWARE, error)),
        Err(error @ LockError::Io { .. }) => {
            let error = exit::chain(&error);
            tracing::warn!(error, "The directory of the drift file is not locked");
            Ok(None)
        }
    }
}

/// Everywhere that the process listens, in words.
fn listeners(ntp_listeners: &NtpListeners, chronyc: &cmdmon::Server) -> Vec<String> {
    let mut listeners = ntp_listeners.listeners();
    listeners.extend_from_slice(chronyc.listeners());
    listeners
}

/// Gives up privileges that are not needed, before there are threads that would keep them.
fn keep_capabilities(config: &Config) -> Result<(), StartError> {
    if !config.file.sandbox {
        return Ok(());
    }
    let settings = &config.settings;
    let capabilities = Capabilities {
        set_time: config.file.correct_clock,
        bind_ports: true,
        raw_packets: settings.refclocks.iter().any(|clock| match &clock.driver {
            RefclockDriver::Ptp(ptp) => ptp.transport == PtpTransport::Ethernet,
            _ => false,
        }),
        configure_cards: !settings.client.hardware_stamps.is_empty(),
    };
    capabilities
        .keep()
        .map_err(|error| StartError::io("privileges cannot be given up", &error))
}

/// Gives up system calls that are not needed. On a kernel without seccomp, the agent continues without.
fn forbid() {
    if let Err(error) = sandbox::forbid() {
        tracing::warn!(%error, "Cannot install the filter of system calls");
    }
}

/// The data that clients are answered from.
fn supply(settings: &Settings, keys: &KeyRing, precision: i8, random: &mut Random) -> AnswerData {
    AnswerData {
        policy: Latest::new(policy(settings, keys, precision)),
        reference: Latest::new(Reference::default()),
        tables: Tables::new(
            settings.server.client_log_limit,
            [random.bits(), random.bits()],
        ),
        overload: Arc::default(),
    }
}

/// Lets the process be asked whether it works.
fn check_self(context: &Context, agent: &Agent, supply: &AnswerData, random: &mut Random) {
    let beat = Arc::downgrade(&agent.heartbeat());
    let (supply, random) = (supply.clone(), Mutex::new(random.fork()));
    context.admin.self_check(move || {
        let random = random.lock().fork();
        self_check::run(Weak::clone(&beat), supply.clone(), random)
    });
}

/// Why there is no agent, with the code to exit with.
fn refused(error: AgentError) -> StartError {
    let code = match &error {
        AgentError::System { source, .. } => exit::code_of_io(source),
        AgentError::Clock(_) => exit::NO_PERMISSION,
        AgentError::CompetingService(_) | AgentError::GivenUp(_) => exit::SOFTWARE,
    };
    StartError::new(code, error)
}

fn read_keys(settings: &Settings) -> KeyRing {
    let (ring, warnings) = keys::read(settings);
    for warning in warnings {
        tracing::warn!(warning, "The keys have a problem");
    }
    ring
}

/// The access list and the form of answers. Looks up names here: a start or a reload may wait for that, a response may not.
fn policy(settings: &Settings, keys: &KeyRing, precision: i8) -> Policy {
    let keys = Arc::new(keys.clone());
    Policy::new(&settings.server, keys, precision, resolve)
}

fn resolve(name: &str) -> Vec<IpAddr> {
    match (name, 0).to_socket_addrs() {
        Ok(addresses) => addresses.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(name, %error, "A name in the access rules is not resolved");
            Vec::new()
        }
    }
}

/// Adds metrics and the page to what the admin listener shows, and makes what keeps them fresh.
fn show(
    config: &Config,
    context: &Context,
    views: &Views,
    supply: &AnswerData,
    health: &Arc<Health>,
) -> Follower {
    let history = Arc::new(Mutex::new(History::default()));
    let scrape = Scrape::new(
        views.clone(),
        Arc::clone(&supply.tables),
        config.node(),
        config.file.correct_clock,
    );
    context.metrics.register_collector(Box::new(scrape));
    add_page(&context.admin, views, &history);
    Follower {
        latch: Some(context.readiness.latch("the poll loop")),
        views: views.reader(),
        health: Arc::clone(health),
        history,
        readiness: context.readiness.clone(),
    }
}

/// The page, for a browser.
fn add_page(admin: &Routes, views: &Views, history: &Arc<Mutex<History>>) {
    let (views, history) = (views.clone(), Arc::clone(history));
    admin.get("/", move |_| {
        let view = views.now();
        let page = page::render(&view, &history.lock());
        async move { Reply::html(page) }
    });
}

/// The generation of the view that an agent begins with, before it has looked at the clock.
const EMPTY: u64 = 1;

/// Carries what is seen to those who want to know.
struct Follower {
    /// Held until there is something to see.
    latch: Option<Latch>,
    views: Reader<View>,
    health: Arc<Health>,
    history: Arc<Mutex<History>>,
    readiness: Readiness,
}

impl Follower {
    async fn run(mut self) {
        // The first view may have come before this began to wait, and the next one is long in coming at rest.
        if self.views.generation() == EMPTY {
            self.views.changed().await;
        }
        loop {
            self.pass_on();
            // From here on `/readyz` says what the clock is like.
            self.latch = None;
            self.views.changed().await;
        }
    }

    fn pass_on(&self) {
        let view = self.views.get();
        self.health.tell(view);
        let reason = (!labels::is_ready(view)).then(|| labels::summary(view));
        self.readiness.set_unready("clock", reason);
        let mut history = self.history.lock();
        history.note(view);
    }
}

#[cfg(test)]
mod tests {
    use ::config::restart_needed;
    use peer_chrony::parse_bytes;

    #[test]
    fn what_takes_a_restart_is_known() {
        let of = |line: &str| parse_bytes(line.as_bytes()).unwrap().draft.config;
        let before = of("");
        let needed = |line: &str| restart_needed(&before, &of(line));
        for line in [
            "port 1123",
            "bindaddress 127.0.0.1",
            "binddevice eth0",
            "clientloglimit 1000000",
            "cmdport 1323",
            "bindcmdaddress 127.0.0.2",
            "bindcmdaddress /run/other.sock",
            "bindcmddevice eth0",
        ] {
            assert_eq!(needed(line).len(), 1, "{line}");
        }
        for line in ["server 192.0.2.1", "allow", "cmdallow 10", "makestep 1 3"] {
            assert_eq!(needed(line), [""; 0], "{line}");
        }
    }
}
