//! Follows clusterd, and has the names of the cluster rendered by a thread of their own.
//!
//! Decides no name: that is `dns_kubernetes`'s. The thread sees only the newest snapshot; those that come while it renders are
//! skipped. While clusterd is away, its last snapshot stays.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use daemon::clock;
use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use dns_kubernetes::{Cluster, Options};
use dns_wire::hash::Seed;
use proto::cluster::link::Link;
use proto::cluster::{Freshness, Kind, Snapshot};
use proto::endpoint::Endpoint;
use tokio::sync::watch;

use crate::publisher::{Command, Rendered};

/// The name of this subscriber.
const SUBSCRIBER: &str = "dns-authd";
/// The key of the reason on `/readyz`.
const REASON: &str = "kubernetes";
/// The interval of looks at the reason while clusterd is away; a connection made or lost is seen at once.
const LOOK: Duration = Duration::from_secs(2);

/// The part of the configuration that names of a cluster depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The options; none without names of a cluster.
    pub options: Option<Arc<Options>>,
    /// The socket of clusterd.
    pub socket: PathBuf,
}

/// The running follower.
#[derive(Debug)]
pub struct Handle {
    settings: watch::Sender<Settings>,
    link: Arc<Latest<Link>>,
}

/// The input of the thread.
#[derive(Clone, Debug, Default)]
struct Input {
    options: Option<Arc<Options>>,
    snapshot: Arc<Snapshot>,
    is_last: bool,
}

/// Starts the task and the thread; needs a tokio runtime.
///
/// # Errors
/// When the thread does not start.
pub fn start(
    settings: Settings,
    seed: Seed,
    commands: SyncSender<Command>,
    readiness: Readiness,
) -> io::Result<Handle> {
    let inputs = Latest::new(Input::default());
    let reader = inputs.reader();
    thread::Builder::new()
        .name("zone-kubernetes".to_owned())
        .spawn(move || render(reader, seed, &commands))?;
    let link = Latest::new(Link::default());
    let (settings, changes) = watch::channel(settings);
    let follower = Follower {
        settings: changes,
        inputs,
        shown: Arc::clone(&link),
        readiness,
    };
    tokio::spawn(follower.run());
    Ok(Handle { settings, link })
}

impl Handle {
    /// Takes the settings of another configuration, which the publisher has already.
    pub fn configure(&self, settings: Settings) {
        self.settings.send_if_modified(|current| {
            let is_other = *current != settings;
            *current = settings;
            is_other
        });
    }

    /// The link to clusterd, also that of a later configuration.
    #[must_use]
    pub fn link(&self) -> Arc<Latest<Link>> {
        Arc::clone(&self.link)
    }
}

/// The task that hands snapshots to the thread.
struct Follower {
    settings: watch::Receiver<Settings>,
    inputs: Arc<Latest<Input>>,
    shown: Arc<Latest<Link>>,
    readiness: Readiness,
}

impl Follower {
    async fn run(mut self) {
        let mut link = Link::default();
        let mut socket = None;
        loop {
            let settings = self.settings.borrow_and_update().clone();
            let wanted = settings.options.as_ref().map(|_| settings.socket.clone());
            if wanted != socket {
                link = Link::start(wanted.clone().map(Endpoint::Unix), SUBSCRIBER);
                self.shown.publish(link.clone());
                socket = wanted;
            }
            let mut snapshots = link.reader();
            let mut connection = link.is_connected();
            let give = |snapshot| {
                self.inputs.publish(Input {
                    options: settings.options.clone(),
                    snapshot,
                    is_last: false,
                });
            };
            give(link.current());
            loop {
                let reason = settings.options.as_ref().and_then(|_| trouble(&link));
                self.readiness.set_reason(REASON, reason);
                tokio::select! {
                    changed = self.settings.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => {
                            let last = Input { is_last: true, ..Input::default() };
                            self.inputs.publish(last);
                            return;
                        }
                    },
                    snapshot = next(&mut snapshots) => give(snapshot),
                    () = look(&mut connection) => {}
                }
            }
        }
    }
}

/// The next snapshot; never without clusterd.
async fn next(snapshots: &mut Option<Reader<Snapshot>>) -> Arc<Snapshot> {
    match snapshots {
        Some(snapshots) => {
            snapshots.changed().await;
            snapshots.shared()
        }
        None => pending().await,
    }
}

/// Ends when the reason on `/readyz` may be another: never without clusterd.
async fn look(connection: &mut Option<Reader<bool>>) {
    let Some(connection) = connection else {
        return pending().await;
    };
    match *connection.shared() {
        true => connection.changed().await,
        false => {
            let _passed = tokio::time::timeout(LOOK, connection.changed()).await;
        }
    }
}

/// The trouble with the names of the cluster, in a line.
fn trouble(link: &Link) -> Option<String> {
    let state = link.state()?;
    let snapshot = link.current();
    let away = match state.error.is_empty() {
        true => String::new(),
        false => format!(" ({})", state.error),
    };
    if !Cluster::is_complete(&snapshot) {
        return Some(format!(
            "clusterd has given no whole snapshot yet{away}: queries for names of the cluster get SERVFAIL"
        ));
    }
    if !state.connected {
        return Some(format!(
            "clusterd is away{away}: names of the cluster are those of its last snapshot"
        ));
    }
    let old: Vec<&str> = snapshot.kinds_of(Freshness::Old).map(Kind::name).collect();
    (!old.is_empty()).then(|| {
        format!(
            "clusterd has not read the cluster since its start: {} are those that it kept",
            old.join(", ")
        )
    })
}

/// The thread: renders the newest snapshot with the newest options.
fn render(mut inputs: Reader<Input>, seed: Seed, commands: &SyncSender<Command>) {
    let mut current: Option<(Arc<Options>, Cluster)> = None;
    loop {
        if !inputs.wait(Duration::MAX) {
            continue;
        }
        let input = inputs.shared();
        if input.is_last {
            return;
        }
        let Some(options) = input.options.clone() else {
            current = None;
            continue;
        };
        let begun = clock::now();
        let (_, cluster) = match current.take().filter(|(known, _)| *known == options) {
            Some(known) => current.insert(known),
            None => {
                let cluster = Cluster::new(Arc::clone(&options), seed);
                current.insert((Arc::clone(&options), cluster))
            }
        };
        match cluster.take(&input.snapshot, seconds()) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                let rendered = Rendered {
                    options,
                    changes,
                    took: begun.elapsed(),
                };
                if commands.send(Command::Cluster(rendered)).is_err() {
                    return;
                }
            }
            Err(problems) => {
                for problem in problems {
                    tracing::error!(%problem, "Names of the cluster cannot be rendered; those before stay");
                }
                // The next snapshot is rendered as a whole.
                current = None;
            }
        }
    }
}

/// The seconds since 1970, as serials count them.
fn seconds() -> u32 {
    let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    // RFC 1982: a serial begins again at 0.
    u32::try_from(since.as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}
