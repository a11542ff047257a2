//! `dns-recursor node-hosts`: keeps lines for services of the cluster in the node's hosts file, in the place of
//! `OpenShift`'s node-resolver.
//!
//! ```text
//! nameserver ─► lookup ─► services (core) ─► block (core) ─► file ─► /etc/hosts
//! healthd, SIGHUP: look up now ─►┘                            ▲
//!                               changes of the directory ─────┘
//! ```

pub mod args;
mod file;
mod lookup;
mod view;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::node_hosts::Detail;
use daemon::clock;
use daemon::config::{Common, Problems};
use daemon::directory::Directory;
use daemon::disk::Stamp;
use daemon::readiness::Readiness;
use daemon::run::{self, Context, Service, StartError};
use dns_resolve::exchange::Entropy as _;
use dns_wire::Type;
use node_hosts::answer::{Family, Outcome};
use node_hosts::block;
use node_hosts::services::Services;
use parking_lot::Mutex;
use proto::health::{DnsProbe, Liveness, Target, TargetKind};
use proto::link::Link;
use random::Random;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::entropy::SystemEntropy;
use args::{Config, NodeHosts, NodeHostsVerb};
use file::{HostsFile, WriteError, WriteMethod};
use lookup::look_up;

/// The address of the admin listener.
pub(crate) const DEFAULT_ADMIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9408);

/// The time that a burst of changes of the file has to end in.
const SETTLE: Duration = Duration::from_millis(100);
/// How long a write waits for answers that come together.
const GATHER: Duration = Duration::from_millis(300);
/// The interval of looks at a file whose directory says nothing: it cannot be watched, or the file is written through
/// another mount.
const LOOK: Duration = Duration::from_secs(1);
/// Attempts to write a file that others change.
const ATTEMPTS: usize = 5;
/// The wait between them.
const BETWEEN: Duration = Duration::from_millis(150);

/// Runs `node-hosts` and its verb.
pub fn run(command: &NodeHosts) -> ExitCode {
    match &command.verb {
        Some(NodeHostsVerb::Status(status)) => run::status(status, DEFAULT_ADMIN, view::render),
        None => run::serve::<HostsUpdater, _>(&command.serve, |args| {
            // Read once, before there is a second thread.
            args.read(|name| std::env::var(name).ok())
        }),
    }
}

/// The service that updates the hosts file of a node.
#[derive(Debug)]
struct HostsUpdater {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    link: Link,
    follower: Option<JoinHandle<()>>,
}

/// The state of the updater, for its task and the views.
#[derive(Debug)]
struct Shared {
    config: Config,
    servers: Arc<[SocketAddr]>,
    file: HostsFile,
    start: std::time::Instant,
    state: Mutex<State>,
    /// One write at a time, and none behind the last one.
    writing: Mutex<Writing>,
    ask_now: Notify,
    readiness: Readiness,
}

/// Whether the file may still be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Going,
    Ended,
}

#[derive(Debug)]
struct State {
    services: Services,
    counts: Counts,
    way: Option<WriteMethod>,
    /// When the file was found as it should be, or written so, in seconds since 1970.
    right_at: Option<u64>,
    problem: Option<String>,
}

/// Events since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    replaced: u64,
    in_place: u64,
    conflicts: u64,
    failures: u64,
    /// Lookups by their outcome: addresses, empty, denied, failed.
    lookups: [u64; 4],
}

impl Service for HostsUpdater {
    const NAME: &'static str = "node-hosts";
    type Config = Config;
    type Status = Detail;
    type File = ();

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(_config: &Config) -> &() {
        &()
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let file = HostsFile::new(config.hosts_file.clone());
        let read = file.read();
        let read = read.map_err(|error| StartError::io(file.path().display(), &error))?;
        let mut entropy = SystemEntropy::default();
        let seed = (u128::from(entropy.next()) << 64) | u128::from(entropy.next());
        let random = Random::new(seed.to_be_bytes());
        let mut services = Services::new(config.services.clone(), config.remove_after, random);
        services.adopt(&block::entries(&read.bytes, config.node_resolver));
        let shared = Arc::new(Shared {
            servers: config.nameservers.clone().into(),
            file,
            start: clock::now(),
            state: Mutex::new(State {
                services,
                counts: Counts::default(),
                way: None,
                right_at: None,
                problem: None,
            }),
            writing: Mutex::new(Writing::Going),
            ask_now: Notify::new(),
            readiness: context.readiness.clone(),
            config,
        });
        let collector = view::Scrape(Arc::clone(&shared));
        context.metrics.register_collector(Box::new(collector));
        let link = Link::start(
            shared.config.healthd.clone(),
            Self::NAME,
            targets(&shared.config),
        );
        let told = Arc::clone(&shared);
        let mut n_up = 0;
        let follower = link.follow(move |snapshot| {
            let targets = snapshot.targets.values();
            let up = targets
                .filter(|status| status.liveness == Liveness::Up)
                .count();
            // A server is back: services are looked up at once.
            if up > std::mem::replace(&mut n_up, up) {
                told.ask_now.notify_one();
            }
        });
        Ok(Self {
            task: tokio::spawn(keep(Arc::clone(&shared))),
            shared,
            link,
            follower,
        })
    }

    async fn reload(&self, _config: Config) -> Result<String, Problems> {
        self.shared.ask_now.notify_one();
        Ok("all services are looked up again".to_owned())
    }

    fn status(&self) -> Detail {
        view::detail(&self.shared)
    }

    async fn drain(self, _deadline: Duration) -> bool {
        self.task.abort();
        if let Some(follower) = &self.follower {
            follower.abort();
        }
        drop(self.link);
        let shared = self.shared;
        let ended = tokio::task::spawn_blocking(move || shared.end());
        ended.await.is_ok()
    }
}

/// The servers as targets of healthd, with a question that each of them can answer.
fn targets(config: &Config) -> Vec<Target> {
    let first = config.services.first();
    let name = first.map_or_else(|| ".".to_owned(), |service| service.asked.to_string());
    let target = |address: &SocketAddr| Target {
        kind: TargetKind::Dns(DnsProbe {
            name: name.clone(),
            rtype: Type::A.0,
            rcode: None,
        }),
        address: *address,
        source: None,
    };
    config.nameservers.iter().map(target).collect()
}

/// Looks services up when they are due, and keeps the file as it should be, until the task is aborted.
async fn keep(shared: Arc<Shared>) {
    let directory = watch(&shared);
    let mut lookups: JoinSet<((usize, Family), Outcome)> = JoinSet::new();
    // The lines of a former process are right until an answer comes: the file is repaired at once.
    let mut write_by = Some(Instant::now());
    let mut look_at = Instant::now() + LOOK;
    let mut last = Stamp::default();
    loop {
        let due = shared.state.lock().services.take_due(shared.now());
        for which in due {
            shared.look_up(which, &mut lookups);
        }
        let next_due = shared.state.lock().services.next_due();
        let next_due = next_due.map_or(look_at, |due| shared.instant(due));
        let wake = [Some(next_due), Some(look_at), write_by]
            .into_iter()
            .flatten()
            .min();
        tokio::select! {
            Some(answered) = lookups.join_next(), if !lookups.is_empty() => {
                if answered.is_ok_and(|(which, outcome)| shared.answered(which, outcome)) {
                    write_by.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = shared.ask_now.notified() => {
                let now = shared.now();
                shared.state.lock().services.ask_now(now);
            }
            () = has_changed(directory.as_ref(), &shared.file) => write_by = Some(Instant::now()),
            () = sleep_until(wake.unwrap_or(look_at)) => {}
        }
        let now = Instant::now();
        if look_at <= now {
            look_at = now + LOOK;
            let has_problem = shared.state.lock().problem.is_some();
            if has_problem || Stamp::of(shared.file.path()) != last {
                write_by.get_or_insert(now);
            }
        }
        // Answers that are under way are written with those that are there.
        let is_time = write_by.is_some_and(|by| by <= now || lookups.is_empty());
        if is_time {
            // Its state before it is read: a change after that is seen at the next look.
            last = Stamp::of(shared.file.path());
            shared.put_right().await;
            write_by = None;
        }
    }
}

fn watch(shared: &Shared) -> Option<Directory> {
    let path = durable::directory_of(shared.file.path());
    match Directory::watch(path) {
        Ok(directory) => Some(directory),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "Directory cannot be watched");
            None
        }
    }
}

/// Waits until the file may have changed.
async fn has_changed(directory: Option<&Directory>, file: &HostsFile) {
    let Some(directory) = directory else {
        return std::future::pending().await;
    };
    loop {
        match directory.changes(SETTLE).await {
            Err(_) => return std::future::pending().await,
            Ok(changes) => {
                let name = file.path().file_name().unwrap_or_default();
                if changes.is_lossy || changes.files.contains_key(name) {
                    return;
                }
            }
        }
    }
}

impl Shared {
    fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.start)
    }

    fn instant(&self, time: Duration) -> Instant {
        Instant::from_std(self.start) + time
    }

    fn look_up(&self, which: (usize, Family), lookups: &mut JoinSet<((usize, Family), Outcome)>) {
        let (index, family) = which;
        let state = self.state.lock();
        let Some(service) = state.services.service(index) else {
            return;
        };
        let (servers, name) = (Arc::clone(&self.servers), service.asked.clone());
        let allow = self.config.allow;
        lookups.spawn(async move { (which, look_up(servers, name, family, allow).await) });
    }

    /// Takes an outcome; true when the file has to be another one.
    fn answered(&self, which: (usize, Family), outcome: Outcome) -> bool {
        let now = self.now();
        let mut state = self.state.lock();
        let [addresses, empty, denied, failed] = &mut state.counts.lookups;
        let (count, failure) = match &outcome {
            Outcome::Addresses { .. } => (addresses, None),
            Outcome::Empty => (empty, None),
            Outcome::Denied => (denied, None),
            Outcome::Failed(failure) => (failed, Some(*failure)),
        };
        *count += 1;
        if let (Some(failure), Some(service)) = (failure, state.services.service(which.0)) {
            tracing::debug!(service = %service.asked, family = ?which.1, %failure, "Lookup failed");
        }
        let is_other = state.services.answered(which, outcome, now);
        let unknown = state
            .services
            .all()
            .filter(|(_, families)| families.iter().all(|known| known.addresses.is_empty()));
        let unknown: Vec<&str> = unknown
            .filter_map(|(service, _)| service.names.first().map(String::as_str))
            .collect();
        let reason =
            (!unknown.is_empty()).then(|| format!("no address is known of {}", unknown.join(", ")));
        self.readiness.set_reason("services", reason);
        is_other
    }

    /// Makes the file as it should be.
    async fn put_right(self: &Arc<Self>) {
        for attempt in 1..=ATTEMPTS {
            let shared = Arc::clone(self);
            let is_last = attempt == ATTEMPTS;
            let written = tokio::task::spawn_blocking(move || shared.write_once(is_last)).await;
            match written {
                Ok(true) => return,
                Ok(false) => tokio::time::sleep(BETWEEN).await,
                Err(_) => {
                    tracing::error!("The thread that writes the hosts file has panicked");
                    return;
                }
            }
        }
    }

    /// Looks at the file, and writes it when it is not as it should be. False when another program is about to change it.
    fn write_once(&self, is_last: bool) -> bool {
        let writing = self.writing.lock();
        if *writing == Writing::Ended {
            return true;
        }
        let entries = self.state.lock().services.entries();
        let written = self.write(&entries, is_last);
        drop(writing);
        self.note(written, is_last)
    }

    fn write(
        &self,
        entries: &[block::Entry],
        is_last: bool,
    ) -> Result<Option<WriteMethod>, WriteError> {
        let before = self.file.read()?;
        let wanted = block::replaced(&before.bytes, entries, self.config.node_resolver);
        if wanted == before.bytes {
            return Ok(None);
        }
        // A file that was emptied a moment ago is being written by a program that copies over it.
        let age = clock::since_1970().as_secs().cast_signed() - before.changed;
        if before.bytes.is_empty() && (0..=1).contains(&age) && !is_last {
            return Err(WriteError::Changed);
        }
        HostsFile::write(&before, &wanted).map(Some)
    }

    /// Notes the outcome of a write; false when it has to be tried again.
    fn note(&self, written: Result<Option<WriteMethod>, WriteError>, is_last: bool) -> bool {
        let mut state = self.state.lock();
        let problem = match written {
            Ok(way) => {
                let counts = &mut state.counts;
                match way {
                    None => {}
                    Some(WriteMethod::Replaced) => counts.replaced += 1,
                    Some(WriteMethod::InPlace(_)) => counts.in_place += 1,
                }
                if let Some(way) = way {
                    let path = self.file.path().display();
                    let entries = state.services.entries().len();
                    tracing::info!(%path, entries, %way, "Hosts file written");
                    state.way = Some(way);
                }
                state.right_at = Some(clock::since_1970().as_secs());
                None
            }
            Err(WriteError::Changed) if !is_last => {
                state.counts.conflicts += 1;
                return false;
            }
            Err(WriteError::Changed) => {
                state.counts.conflicts += 1;
                Some("others change it all the time".to_owned())
            }
            Err(WriteError::Io(error)) => {
                state.counts.failures += 1;
                Some(error.to_string())
            }
            Err(WriteError::InPlace(because)) => {
                state.counts.failures += 1;
                Some(WriteMethod::InPlace(because).to_string())
            }
        };
        if state.problem != problem {
            let path = self.file.path().display();
            match &problem {
                Some(error) => tracing::warn!(%path, error, "Hosts file is not as it should be"),
                None => tracing::info!(%path, "Hosts file is as it should be again"),
            }
            let reason = problem.as_ref().map(|problem| format!("{path}: {problem}"));
            self.readiness.set_unready("hosts file", reason);
            state.problem = problem;
        }
        true
    }

    /// Writes nothing more; removes the block if that is wanted.
    fn end(&self) {
        let mut writing = self.writing.lock();
        *writing = Writing::Ended;
        if !self.config.is_clean {
            return;
        }
        for _ in 0..ATTEMPTS {
            match self.write(&[], true) {
                Err(WriteError::Changed) => std::thread::sleep(BETWEEN),
                Ok(_) => return,
                Err(WriteError::Io(error)) => {
                    return warn_of_block(&self.file, &error);
                }
                Err(WriteError::InPlace(because)) => {
                    let error = io::Error::other(WriteMethod::InPlace(because).to_string());
                    return warn_of_block(&self.file, &error);
                }
            }
        }
        warn_of_block(
            &self.file,
            &io::Error::other("others change it all the time"),
        );
    }
}

fn warn_of_block(file: &HostsFile, error: &io::Error) {
    tracing::warn!(path = %file.path().display(), %error, "The block of the hosts file stays");
}
