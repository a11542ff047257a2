//! Follows clusterd, and has the names of the cluster rendered by a thread of their own.
//!
//! Decides no name: that is `dns_kubernetes`'s. The thread sees only the newest snapshot, and the newest states of healthd; those that
//! come while it renders are skipped. While clusterd is away, its last snapshot stays. The publisher tells healthd which endpoints
//! are targets.

#![warn(missing_docs)]

pub mod nodes;

use std::collections::BTreeSet;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use daemon::clock;
use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use dns_kubernetes::{Change, Cluster, MOST_PROBED, Options, RefusedHostname};
use dns_wire::hash::Seed;
use proto::cluster::link::Link;
use proto::cluster::{Freshness, Kind, Snapshot};
use proto::endpoint::Endpoint;
use proto::health::{Liveness, Snapshot as Health, Target, Watched};
use proto::link::Link as HealthLink;
use tokio::sync::watch;

/// The name of this subscriber.
const SUBSCRIBER: &str = "dns-authd";
/// The key of the reason on `/readyz`.
const REASON: &str = "kubernetes";
/// The interval of looks at the reason while clusterd is away; a connection made or lost is seen at once.
const LOOK: Duration = Duration::from_secs(2);
/// The most refused names that are kept for the status, and logged at once.
const SHOWN_REFUSED: usize = 20;

/// The part of the configuration that names of a cluster depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The options; none without names of a cluster.
    pub options: Option<Arc<Options>>,
    /// The socket of clusterd.
    pub socket: PathBuf,
}

/// A rendering of a snapshot of clusterd.
#[derive(Debug)]
pub struct Rendered {
    /// The options that it was rendered with.
    pub options: Arc<Options>,
    /// The changed zones.
    pub changes: Vec<Change>,
    /// The endpoints that healthd is to probe.
    pub targets: Arc<BTreeSet<Watched>>,
    /// The time that it took.
    pub took: Duration,
}

/// Takes renderings; false when no more are wanted.
type Give = Box<dyn FnMut(Rendered) -> bool + Send>;

/// The running follower.
#[derive(Debug)]
pub struct Handle {
    settings: watch::Sender<Settings>,
    link: Arc<Latest<Link>>,
    findings: Arc<Latest<Findings>>,
}

/// The input of the thread.
#[derive(Clone, Debug, Default)]
struct Input {
    options: Option<Arc<Options>>,
    snapshot: Arc<Snapshot>,
    /// The endpoints that healthd knows to be down.
    down: Arc<BTreeSet<SocketAddr>>,
    is_last: bool,
}

/// The facts about the last rendering that operators ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The number of names that Services have by annotations.
    pub hostnames: usize,
    /// The number of names that Services ask for and do not have.
    pub n_refused: usize,
    /// The first of them.
    pub refused: Vec<RefusedHostname>,
    /// The number of endpoints that healthd probes.
    pub probed: usize,
    /// The number of endpoints beyond the limit of those.
    pub unprobed: usize,
}

/// Starts the task and the thread; needs a tokio runtime. `give` takes the renderings, and is false when no more are wanted.
///
/// # Errors
/// When the thread does not start.
pub fn start(
    settings: Settings,
    seed: Seed,
    give: impl FnMut(Rendered) -> bool + Send + 'static,
    (health, readiness): (HealthLink, Readiness),
) -> io::Result<Handle> {
    let inputs = Latest::new(Input::default());
    let findings = Latest::new(Findings::default());
    let renderer = Renderer {
        seed,
        give: Box::new(give),
        findings: Arc::clone(&findings),
        refused: BTreeSet::new(),
    };
    let reader = inputs.reader();
    thread::Builder::new()
        .name("zone-kubernetes".to_owned())
        .spawn(move || renderer.run(reader))?;
    let link = Latest::new(Link::default());
    let (settings, changes) = watch::channel(settings);
    let follower = Follower {
        settings: changes,
        inputs,
        shown: Arc::clone(&link),
        health,
        readiness,
    };
    tokio::spawn(follower.run());
    Ok(Handle {
        settings,
        link,
        findings,
    })
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

    /// The facts about the last rendering.
    #[must_use]
    pub fn findings(&self) -> Arc<Latest<Findings>> {
        Arc::clone(&self.findings)
    }
}

/// The task that hands snapshots to the thread.
struct Follower {
    settings: watch::Receiver<Settings>,
    inputs: Arc<Latest<Input>>,
    shown: Arc<Latest<Link>>,
    health: HealthLink,
    readiness: Readiness,
}

impl Follower {
    async fn run(mut self) {
        let mut link = Link::default();
        let mut socket = None;
        let mut states = self.health.reader();
        let mut down = Arc::new(down_in(&self.health.current()));
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
            let give = |snapshot, down: &Arc<BTreeSet<SocketAddr>>| {
                self.inputs.publish(Input {
                    options: settings.options.clone(),
                    snapshot,
                    down: Arc::clone(down),
                    is_last: false,
                });
            };
            give(link.current(), &down);
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
                    snapshot = next(&mut snapshots) => give(snapshot, &down),
                    health = next(&mut states) => {
                        let new = down_in(&health);
                        if *down != new {
                            down = Arc::new(new);
                            give(link.current(), &down);
                        }
                    }
                    () = look(&mut connection) => {}
                }
            }
        }
    }
}

/// The addresses of the TCP targets that are down.
fn down_in(health: &Health) -> BTreeSet<SocketAddr> {
    let targets = health.targets.iter();
    let down = targets.filter(|(target, status)| {
        status.effective() == Liveness::Down && **target == Target::tcp(target.address)
    });
    down.map(|(target, _)| target.address).collect()
}

/// The next snapshot; never without the service that sends them.
async fn next<T>(snapshots: &mut Option<Reader<T>>) -> Arc<T> {
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
struct Renderer {
    seed: Seed,
    give: Give,
    findings: Arc<Latest<Findings>>,
    /// The refused names that were logged.
    refused: BTreeSet<RefusedHostname>,
}

impl Renderer {
    fn run(mut self, mut inputs: Reader<Input>) {
        let mut current: Option<(Arc<Options>, Cluster)> = None;
        let mut targets: Arc<BTreeSet<Watched>> = Arc::default();
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
                targets = Arc::default();
                self.findings.publish_if_changed(Findings::default());
                continue;
            };
            let begun = clock::now();
            let (_, cluster) = match current.take().filter(|(known, _)| *known == options) {
                Some(known) => current.insert(known),
                None => {
                    let cluster = Cluster::new(Arc::clone(&options), self.seed);
                    current.insert((Arc::clone(&options), cluster))
                }
            };
            cluster.take_down(&input.down);
            match cluster.take(&input.snapshot, seconds()) {
                Ok(changes) => {
                    let before = Arc::clone(&targets);
                    self.show(cluster, &mut targets);
                    if changes.is_empty() && targets == before {
                        continue;
                    }
                    let rendered = Rendered {
                        options,
                        changes,
                        targets: Arc::clone(&targets),
                        took: begun.elapsed(),
                    };
                    if !(self.give)(rendered) {
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

    /// Publishes the facts about a rendering, logs names that were not refused before, and notes the targets.
    fn show(&mut self, cluster: &Cluster, targets: &mut Arc<BTreeSet<Watched>>) {
        let (probed, unprobed) = cluster.probed();
        let new = probed
            .iter()
            .map(|place| Watched::from(Target::tcp(*place)));
        let new: BTreeSet<Watched> = new.collect();
        if **targets != new {
            *targets = Arc::new(new);
        }
        if unprobed > 0 && self.findings.current().unprobed == 0 {
            tracing::warn!(
                probed = MOST_PROBED,
                unprobed,
                "More endpoints than healthd probes for dns-authd; the others are served as the cluster says"
            );
        }
        let refused: BTreeSet<RefusedHostname> = cluster.refused_hostnames().into_iter().collect();
        let new = refused.difference(&self.refused);
        let n_new = new.clone().count();
        for one in new.take(SHOWN_REFUSED) {
            let (service, hostname, reason) = (&one.service, &one.hostname, &one.reason);
            tracing::warn!(%service, hostname, reason, "A Service does not have the name that it asks for");
        }
        if n_new > SHOWN_REFUSED {
            let more = n_new - SHOWN_REFUSED;
            tracing::warn!(
                more,
                "Further Services do not have the names that they ask for"
            );
        }
        self.findings.publish_if_changed(Findings {
            hostnames: cluster.n_hostnames(),
            n_refused: refused.len(),
            refused: refused.iter().take(SHOWN_REFUSED).cloned().collect(),
            probed: probed.len(),
            unprobed,
        });
        self.refused = refused;
    }
}

/// The seconds since 1970, as serials count them.
fn seconds() -> u32 {
    let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    // RFC 1982: a serial begins again at 0.
    u32::try_from(since.as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}
