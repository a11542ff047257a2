//! The agent: one thread that keeps the time, and what the rest of the process knows of it.
//!
//! ```text
//!   commands, settings ──► queue ──► ┌───────────────────────────────┐ ──► views, reference (snapshots)
//!   resolver (a thread) ──► queue ──►│ poll loop: sockets, timer,    │ ──► logs, drift file (a thread)
//!                                    │ reference clocks ◄──► engine  │ ──► clock
//!                                    └───────────────────────────────┘
//! ```
//!
//! The thread never waits but in its `poll`: whatever may take long (names, files) is done by others. It makes only the calls of
//! [`system`](crate::system).

mod answer;
mod file_writer;
mod leaps;
mod nics;
mod report;
mod run;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use daemon::exit;
use daemon::latest::Latest;
use daemon::run::Heartbeat;
use tokio::sync::{oneshot, watch};

use crate::drift_file;
use crate::resolver::Resolver;
use crate::server::AnswerData;
use crate::state_file::StateFile;
use crate::system::clock::{self, Clock, ClockError};
use crate::system::other_daemons::{self, CompetingService};
use crate::system::timer::Waker;
use crate::thermometer::Thermometer;
use crate::views::Views;
use ntp::engine::{Command, Engine, Reply};
use ntp::keys::KeyRing;
use random::Random;
use time_model::settings::{Host, RefclockDriver, Settings, SourceSettings};
use time_model::time::{Reading, Span};
use time_model::view::View;
use timekeeper::SavedState;

use file_writer::FileWriter;
use leaps::Leaps;
use run::Run;

/// Commands that wait for the thread, which takes them within a turn of its loop. A client that queues more than this is
/// faulty.
const QUEUE: usize = 64;
/// Directories to search for programs that may correct the clock, too.
const PROCESSES: &str = "/proc";

/// The agent's dependencies besides its settings.
#[derive(Debug)]
pub struct Options {
    /// Correct the clock. Otherwise the clock stays as it is, and clients get the missing correction added.
    pub corrects_clock: bool,
    /// Publishes the view.
    pub views: Arc<Latest<View>>,
    /// The data for answers to clients: the loop keeps it up to date, and answers those that ask a socket of its own.
    pub supply: Option<AnswerData>,
    /// Answer all clients in the loop.
    pub answers_all: bool,
    /// The time state of the previous process.
    pub state: Option<SavedState>,
    /// Writes the state for the next process.
    pub leaves: Option<StateFile>,
    /// Sockets for that which were handed over; without, the loop opens those of the settings.
    pub inherited: Vec<OwnedFd>,
}

impl Options {
    /// For who wants to know nothing.
    #[must_use]
    pub fn new(corrects_clock: bool) -> Self {
        Self {
            corrects_clock,
            views: Latest::new(View::default()),
            supply: None,
            answers_all: false,
            state: None,
            leaves: None,
            inherited: Vec::new(),
        }
    }
}

/// Why there is no agent, or none any more.
#[derive(Debug)]
pub enum AgentError {
    /// Another program corrects the clock.
    CompetingService(CompetingService),
    /// The clock cannot be corrected.
    Clock(ClockError),
    /// The clock is so far off (`maxchange`) that something else is wrong.
    GivenUp(Span),
    /// The kernel does not give what is needed.
    System {
        /// The failed operation.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CompetingService(service) => write!(
                f,
                "{service} corrects the clock: stop it, or leave the clock to it with --no-clock"
            ),
            Self::Clock(error) => error.fmt(f),
            Self::GivenUp(span) => write!(
                f,
                "the clock is off by {:.3} s, more than `maxchange` allows",
                span.seconds()
            ),
            Self::System { what, .. } => write!(f, "cannot {what}"),
        }
    }
}

impl std::error::Error for AgentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Clock(error) => error.source(),
            Self::System { source, .. } => Some(source),
            Self::CompetingService(_) | Self::GivenUp(_) => None,
        }
    }
}

/// Turns an error of the kernel into one that says what was wanted.
fn system(what: &'static str) -> impl FnOnce(io::Error) -> AgentError {
    move |source| AgentError::System { what, source }
}

/// A request to the thread.
#[derive(Debug)]
enum Request {
    Command(Command, oneshot::Sender<Reply>),
    OnOffline(oneshot::Sender<Reply>),
    Reload(Box<Reload>),
}

/// The changes of a reload. The caller reads files and starts threads, not the thread that keeps the time.
#[derive(Debug)]
struct Reload {
    settings: Settings,
    keys: KeyRing,
    leaps: (Leaps, Option<leaps::Table>),
    file_writer: FileWriter,
    thermometer: Thermometer,
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    commander: Commander,
    views: Arc<Latest<View>>,
    heartbeat: Heartbeat,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), AgentError>>,
    /// Why the thread ended by itself; its other half is gone when the thread is.
    end: watch::Receiver<Option<String>>,
}

impl Agent {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Another program corrects the clock, it may not be corrected, or the kernel does not give what is needed.
    pub fn start(settings: &Settings, keys: KeyRing, options: Options) -> Result<Self, AgentError> {
        let (parts, commander) = Parts::prepare(settings, keys, options)?;
        let views = Arc::clone(&parts.options.views);
        let heartbeat = Arc::clone(&parts.heartbeat);
        let stop = Arc::clone(&parts.stop);
        let (tell, end) = watch::channel(None);
        let thread = thread::Builder::new()
            .name("ntp".to_owned())
            .spawn(move || {
                let result = Run::open(parts).and_then(|mut run| run.until_stopped());
                if let Err(error) = &result {
                    tell.send_replace(Some(exit::chain(error)));
                }
                result
            })
            .map_err(system("start a thread"))?;
        Ok(Self {
            commander,
            views,
            heartbeat,
            stop,
            thread,
            end,
        })
    }

    /// The sender of its commands.
    #[must_use]
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// Counted up at each turn.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        Arc::clone(&self.heartbeat)
    }

    /// The views that it publishes, and makes for who asks.
    #[must_use]
    pub fn views(&self) -> Views {
        Views::new(Arc::clone(&self.views), Arc::clone(&self.commander.waker))
    }

    /// Waits until the thread has ended, and says why. Its end by [`Self::stop`] is one, too.
    pub async fn ended(&self) -> String {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the thread that keeps the time ended without a word".to_owned(),
        }
    }

    /// Ends the thread, which saves the frequency and leaves the clock running with it.
    ///
    /// # Errors
    ///
    /// Why it had ended before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.stop.store(true, Ordering::Release);
        self.commander.waker.wake();
        self.thread.join().unwrap_or(Ok(()))
    }
}

/// The view that [`run_until`] passes on at each turn of the loop.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Everything that is known.
    pub engine: &'a Engine,
    /// When.
    pub now: Reading,
}

/// Keeps the time in the calling thread until `end` returns something. The loop calls `end` at each turn, at least once a
/// second. For callers that want one thread alone.
///
/// # Errors
///
/// As of [`Agent::start`].
pub fn run_until<T>(
    settings: &Settings,
    keys: KeyRing,
    options: Options,
    end: impl FnMut(&Seen<'_>) -> Option<T>,
) -> Result<Option<T>, AgentError> {
    let (parts, _commander) = Parts::prepare(settings, keys, options)?;
    Run::open(parts)?.until(end)
}

/// Takes commands to the agent; clones take them to the same one.
#[derive(Clone, Debug)]
pub struct Commander {
    requests: SyncSender<Request>,
    waker: Arc<Waker>,
}

impl Commander {
    /// Has a command done.
    pub async fn command(&self, command: Command) -> Reply {
        self.ask(|reply| Request::Command(command, reply)).await
    }

    /// chronyc's `onoffline`: polls those sources that there is a way to, and no others.
    pub async fn on_offline(&self) -> Reply {
        self.ask(Request::OnOffline).await
    }

    async fn ask(&self, request: impl FnOnce(oneshot::Sender<Reply>) -> Request) -> Reply {
        let (sender, reply) = oneshot::channel();
        if self.send(request(sender)) {
            reply.await.unwrap_or(Reply::Failed)
        } else {
            Reply::Failed
        }
    }

    /// Other settings and keys from here on; false if the thread has ended or is far behind.
    #[must_use]
    pub fn reload(&self, settings: Settings, keys: KeyRing) -> bool {
        let leaps = Leaps::start(&settings.leap, &self.waker);
        let file_writer = FileWriter::new(&settings);
        let thermometer = Thermometer::start(settings.clock.temperature.as_ref(), &self.waker);
        self.send(Request::Reload(Box::new(Reload {
            settings,
            keys,
            leaps,
            file_writer,
            thermometer,
        })))
    }

    fn send(&self, request: Request) -> bool {
        let is_queued = self.requests.try_send(request).is_ok();
        self.waker.wake();
        is_queued
    }
}

/// The parts that the thread is made from.
struct Parts {
    engine: Engine,
    clock: Clock,
    settings: Settings,
    options: Options,
    requests: Receiver<Request>,
    waker: Arc<Waker>,
    heartbeat: Heartbeat,
    stop: Arc<AtomicBool>,
    random: Random,
    resolver: Resolver,
    file_writer: FileWriter,
    leaps: Leaps,
    thermometer: Thermometer,
}

impl Parts {
    fn prepare(
        settings: &Settings,
        keys: KeyRing,
        options: Options,
    ) -> Result<(Self, Commander), AgentError> {
        let with_ptp = settings.refclocks.iter().any(|refclock| {
            matches!(
                refclock.driver,
                RefclockDriver::Phc { .. } | RefclockDriver::Ptp4l { .. }
            )
        });
        if options.corrects_clock
            && let Some(service) = other_daemons::find(Path::new(PROCESSES), with_ptp)
        {
            return Err(AgentError::CompetingService(service));
        }
        let drift = settings
            .clock
            .drift_file
            .as_deref()
            .and_then(drift_file::read);
        let seed = crate::system::seed().map_err(system("get random numbers"))?;
        let mut random = Random::new(seed);
        let now = clock::read();
        let clock = Clock::new(options.corrects_clock, settings.clock.rtcsync);
        let mut engine = Engine::new(settings, keys, drift, random.fork(), now);
        engine.set_free_running(!options.corrects_clock);
        if let Some(state) = &options.state {
            engine.inherit(state, now);
        }
        engine.set_precision(clock::measure_precision());
        let waker = Arc::new(Waker::new().map_err(system("make an event"))?);
        let (leaps, table) = Leaps::start(&settings.leap, &waker);
        engine.set_leap_table(&table.unwrap_or_default(), now);
        let mut resolver = Resolver::new(Arc::clone(&waker));
        let has_name = |source: &SourceSettings| matches!(source.host, Host::Name(_));
        if settings.sources.iter().any(has_name) {
            resolver.start();
        }
        let thermometer = Thermometer::start(settings.clock.temperature.as_ref(), &waker);
        let (sender, requests) = mpsc::sync_channel(QUEUE);
        let commander = Commander {
            requests: sender,
            waker: Arc::clone(&waker),
        };
        let heartbeat = Heartbeat::default();
        let asked = Arc::clone(&waker);
        heartbeat.wake_by(move || asked.wake());
        let parts = Self {
            engine,
            clock,
            settings: settings.clone(),
            options,
            requests,
            waker,
            heartbeat,
            stop: Arc::new(AtomicBool::new(false)),
            random,
            resolver,
            file_writer: FileWriter::new(settings),
            leaps,
            thermometer,
        };
        Ok((parts, commander))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Starts an agent that leaves the clock alone, and waits for its first view.
    fn started(settings: &Settings) -> Agent {
        let agent = Agent::start(settings, KeyRing::new(), Options::new(false)).unwrap();
        let mut views = agent.views().reader();
        while views.get().now == Reading::default() {
            views.wait(Duration::from_secs(1));
        }
        agent
    }

    #[test]
    fn at_rest_the_thread_sleeps_until_somebody_asks() {
        let agent = started(&Settings::default());
        let views = agent.views();
        let (turns, seen) = (agent.heartbeat().count(), views.reader());
        // A slow machine has fewer turns in this time.
        thread::sleep(Duration::from_secs(3));
        let turned = agent.heartbeat().count() - turns;
        assert!(turned <= 1, "{turned} turns in three seconds");
        while views.now().now.raw - seen.get().now.raw < Span::from_seconds(3.0) {}
        agent.stop().unwrap();
    }
}
