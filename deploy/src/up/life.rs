//! A site from its first process to its last: the loop that carries out what the
//! [`Conductor`] decides and shows what happens.
//!
//! One task owns all state. Beside it run: a task for each process ([`super::child`]), one that asks
//! the admin listeners ([`poll`]), one for the control socket ([`super::control`]), and those of the
//! masters ([`super::master`]). Every channel between them is bounded. The loop's waits are
//! cancel safe; it finishes each action before it waits again.

mod act;

use std::collections::VecDeque;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use daemon::clock;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::child::{Plan, Report, Running};
use super::control::{self, Call, Request};
use super::master::{Behind, Master};
use super::poll::{self, Sample};
use super::printer::Printer;
use super::signals::{Meaning, Signals};
use super::terminal::Terminal;
use site::Site;
use site::service::{PerService, Service};
use site_up::conductor::{Conductor, Input, Phase};
use site_up::event::Event;
use site_up::keys::Key;
use site_up::sample::Meter;
use site_up::screen::{self, Page};
use site_up::view::{MasterView, Offer, Seen, ServiceView, View};

/// Everything a site needs to run.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The site, at the addresses where it runs.
    pub(crate) site: Site,
    /// The address for DNS clients.
    pub(crate) dns: SocketAddr,
    /// The address of registry-svc: the masters' offer of a registry leads there.
    pub(crate) registry: SocketAddr,
    /// The services that run, each with its admin listener.
    pub(crate) admin: Vec<(Service, SocketAddr)>,
    /// How to start each service.
    pub(crate) plans: PerService<Plan>,
    /// The address of each service for clients, if it has any.
    pub(crate) listens: PerService<String>,
    /// The control socket.
    pub(crate) control: PathBuf,
    /// Commands worth trying in another shell.
    pub(crate) commands: Vec<String>,
    /// Lines even on a terminal.
    pub(crate) plain: bool,
    /// Log lines too.
    pub(crate) log: bool,
}

/// The server behind each port of a master.
fn behind(offers: &[Offer], registry: SocketAddr) -> Vec<(Offer, Behind)> {
    let behind = |offer: &Offer| match offer.what.as_str() {
        "registry" => Behind::Service(registry),
        _ => Behind::Greeting,
    };
    offers
        .iter()
        .map(|offer| (offer.clone(), behind(offer)))
        .collect()
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The user stopped it, after this long.
    Stopped(Duration),
    /// A service does not start; the last lines that it wrote.
    Failed(Service, Vec<String>),
}

/// Runs a site until the user stops it.
///
/// # Errors
///
/// When a master, the control socket or a signal handler cannot be had. Nothing was started then.
pub(crate) async fn run(setup: Setup) -> anyhow::Result<Outcome> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
    let listener = UnixListener::bind(&setup.control).context("cannot make the control socket")?;
    let (report, mut reports) = mpsc::channel(REPORTS);
    let (call, mut calls) = mpsc::channel(CALLS);
    let (sample, mut samples) = mpsc::channel(SAMPLES);
    let mut life = Life::new(setup, report);
    life.bring_masters_up().await?;
    tokio::spawn(control::serve(listener, call));
    tokio::spawn(poll::poll(life.setup.admin.clone(), sample));
    let taken = if life.setup.plain {
        None
    } else {
        Terminal::take()
    };
    let (terminal, mut keys) = taken.unzip();
    if terminal.is_none() {
        life.printer = Some(Printer::start().context("cannot start a thread")?);
    }

    let mut tick = interval(FRAME);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    life.handle(Input::Begin);
    while !life.finished {
        let deadline = life.conductor.next_deadline();
        tokio::select! {
            Some(report) = reports.recv() => life.report(report),
            Some(call) = calls.recv() => life.call(call).await,
            Some(sample) = samples.recv() => life.sample(sample),
            next = next_keys(keys.as_mut()) => match next {
                Some(next) => life.keys(next).await,
                // A terminal that is gone wants what its hang-up signal wants.
                None => {
                    keys = None;
                    life.stop();
                }
            },
            event = signals.next() => life.signal(event),
            () = until(deadline) => life.deadline(),
            _ = tick.tick() => life.dirty = true,
        }
        if life.dirty
            && let Some(terminal) = &terminal
        {
            life.refresh();
            let frame = screen::frame(&life.view, life.page, terminal.look());
            life.dirty = !terminal.show(frame);
        }
    }
    drop(terminal);
    Ok(life.end().await)
}

/// All state of a running site.
struct Life {
    setup: Setup,
    conductor: Conductor,
    processes: PerService<Process>,
    masters: Vec<Master>,
    view: View,
    page: Page,
    printer: Option<Printer>,
    reports: mpsc::Sender<Report>,
    started: Instant,
    was_ready: bool,
    dirty: bool,
    finished: bool,
}

/// The process of a service.
#[derive(Debug, Default)]
struct Process {
    running: Option<Running>,
    since: Option<Instant>,
    starts: u32,
    meter: Meter,
    /// Why it is not ready, as it says itself.
    unready: Option<String>,
}

impl Life {
    fn new(setup: Setup, reports: mpsc::Sender<Report>) -> Self {
        let runs: Vec<Service> = setup.admin.iter().map(|(service, _)| *service).collect();
        let offers: Vec<Offer> = setup
            .site
            .published
            .iter()
            .map(|published| Offer {
                what: published.what.clone(),
                port: published.port,
            })
            .collect();
        let masters: Vec<Master> = setup
            .site
            .masters()
            .map(|node| Master::new(&node.name, node.address(), behind(&offers, setup.registry)))
            .collect();
        let view = View {
            site: setup.site.name.clone(),
            domain: setup.site.domain.clone(),
            dns: setup.dns,
            elapsed: Duration::ZERO,
            services: PerService::from_fn(|service| ServiceView {
                serves: setup.listens.of(service).clone(),
                ..Default::default()
            }),
            masters: setup
                .site
                .masters()
                .map(|node| MasterView {
                    name: node.name.clone(),
                    address: node.address(),
                    taken_down: false,
                    seen: vec![Seen::Unknown; offers.len()],
                })
                .collect(),
            offers,
            commands: setup.commands.clone(),
            events: VecDeque::new(),
            log: VecDeque::new(),
        };
        Self {
            setup,
            conductor: Conductor::new(|service| runs.contains(&service)),
            processes: PerService::from_fn(|_| Process::default()),
            masters,
            view,
            page: Page::Site,
            printer: None,
            reports,
            started: clock::now(),
            was_ready: false,
            dirty: true,
            finished: false,
        }
    }

    async fn bring_masters_up(&mut self) -> anyhow::Result<()> {
        for master in &mut self.masters {
            master
                .bring_up()
                .await
                .with_context(|| format!("cannot bring {} up", master.name()))?;
        }
        Ok(())
    }

    //--- Input

    fn handle(&mut self, input: Input) {
        self.conductor.handle(input, clock::now());
        self.perform();
    }

    fn deadline(&mut self) {
        self.conductor.handle_deadline(clock::now());
        self.perform();
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Ready(service) => self.handle(Input::Ready(service)),
            Report::Line(service, line) => self.tell(Event::Log { service, line }),
            Report::Ended(service, ending) => {
                let process = self.processes.of_mut(service);
                process.running = None;
                process.since = None;
                process.unready = None;
                process.meter.reset();
                self.handle(Input::Ended(service, ending));
            }
        }
    }

    fn signal(&mut self, event: Meaning) {
        match event {
            Meaning::Interrupt => self.interrupt(),
            Meaning::HangUp => self.stop(),
            Meaning::Resized => self.dirty = true,
        }
    }

    async fn keys(&mut self, keys: Vec<Key>) {
        for key in keys {
            self.key(key).await;
        }
        self.dirty = true;
    }

    async fn key(&mut self, key: Key) {
        let page = self.page;
        if page == Page::AskRestart {
            self.page = Page::Site;
        }
        match (page, key) {
            (_, Key::Interrupt | Key::Char('q')) => self.interrupt(),
            (Page::AskRestart, Key::Char('h')) => self.handle(Input::Restart(Service::Healthd)),
            (Page::AskRestart, Key::Char('c')) => self.handle(Input::Restart(Service::Clusterd)),
            (Page::AskRestart, Key::Char('a')) => self.handle(Input::Restart(Service::DnsAuthd)),
            (Page::AskRestart, Key::Char('r')) => self.handle(Input::Restart(Service::DnsRecursor)),
            (Page::AskRestart, Key::Char('p')) => self.handle(Input::Restart(Service::LbProxy)),
            (Page::AskRestart, Key::Char('s')) => self.handle(Input::Restart(Service::RegistrySvc)),
            (Page::AskRestart, Key::Char('t')) => {
                self.handle(Input::Restart(Service::TimesyncAgent));
            }
            (Page::AskRestart | Page::Stopping, _) | (_, Key::Redraw | Key::Escape) => {}
            (Page::Site, Key::Char('l')) => self.page = Page::Log,
            (Page::Log, Key::Char('l')) => self.page = Page::Site,
            (_, Key::Char('r')) => self.page = Page::AskRestart,
            (_, Key::Char(digit)) => {
                let index = digit
                    .to_digit(10)
                    .and_then(|digit| usize::try_from(digit).ok());
                let Some(index) = index else { return };
                if let Some(up) = self.masters.get(index).map(Master::is_up) {
                    // A failure is shown as an event.
                    drop(self.switch(index, !up).await);
                }
            }
        }
    }

    async fn call(&mut self, call: Call) {
        let result = match call.request {
            Request::Status { json } => {
                self.refresh();
                Ok(match json {
                    true => crate::json::line(&self.view.facts()),
                    false => screen::text(&self.view),
                })
            }
            Request::Switch { masters, up } => self.switch_named(&masters, up).await,
        };
        // The caller may be gone.
        drop(call.answer.send(result));
        self.dirty = true;
    }

    fn sample(&mut self, sample: Sample) {
        let service = sample.service;
        if !matches!(
            self.conductor.phase(service),
            Phase::Starting { .. } | Phase::Ready { .. }
        ) {
            return;
        }
        let process = self.processes.of_mut(service);
        let was_unready = process.unready.take();
        process.unready = sample.unready.map(|reasons| reasons.replace('\n', "; "));
        if let Some(count) = sample.count {
            process.meter.add(sample.at, count);
        }
        if let Some(serves) = sample.serves {
            let view = self.view.services.of_mut(service);
            view.serves = match self.setup.listens.of(service).as_str() {
                "" => serves,
                place => format!("{place}, {serves}"),
            };
        }
        let event = match (&was_unready, &process.unready) {
            (None, Some(reasons)) => Some(Event::NotReady {
                service,
                reasons: reasons.clone(),
            }),
            (Some(_), None) => Some(Event::ReadyAgain { service }),
            (None, None) | (Some(_), Some(_)) => None,
        };
        if matches!(self.conductor.phase(service), Phase::Ready { .. })
            && let Some(event) = event
        {
            self.tell(event);
        }
        self.saw(&sample.seen);
        self.announce_once();
    }

    /// Takes note of what healthd thinks of the masters.
    fn saw(&mut self, all: &[(SocketAddr, Seen)]) {
        let mut events = Vec::new();
        let offers = &self.view.offers;
        for master in &mut self.view.masters {
            let mut changed: Vec<(&Offer, Seen)> = Vec::new();
            for (offer, known) in offers.iter().zip(&mut master.seen) {
                let address = SocketAddr::new(master.address, offer.port);
                let seen = all
                    .iter()
                    .find(|(of, _)| *of == address)
                    .map(|(_, seen)| *seen);
                if let Some(seen) = seen.filter(|seen| seen != known) {
                    *known = seen;
                    changed.push((offer, seen));
                }
            }
            for (wanted, up) in [(Seen::Up, true), (Seen::Down, false)] {
                let offers: Vec<String> = changed
                    .iter()
                    .filter(|(_, seen)| *seen == wanted)
                    .map(|(offer, _)| offer.what.clone())
                    .collect();
                if !offers.is_empty() {
                    let master = master.name.clone();
                    events.push(Event::Seen { master, offers, up });
                }
            }
        }
        for event in events {
            self.tell(event);
        }
    }
}

//--- Things to wait for

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

/// The next keys; nothing when the terminal is gone.
async fn next_keys(keys: Option<&mut mpsc::Receiver<Vec<Key>>>) -> Option<Vec<Key>> {
    match keys {
        Some(keys) => keys.recv().await,
        None => pending().await,
    }
}

/// Time between two frames, if nothing happens.
const FRAME: Duration = Duration::from_millis(500);
/// Reports that wait for the loop; a child that logs faster than that waits.
const REPORTS: usize = 256;
/// Requests from other shells that wait for the loop.
const CALLS: usize = 8;
/// Samples that wait for the loop.
const SAMPLES: usize = 8;
/// Lines shown of a service that does not start.
const LAST_LINES: usize = 20;
