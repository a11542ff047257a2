//! Forwards of the cluster: the object of OpenShift's DNS operator, as clusterd publishes it.
//!
//! ```text
//! clusterd ─► object ─► peer_openshift_dns ─► import ─► Learned ─► Routing ─► table, resolver, cache
//!                ▲ └─► learned_store ─► disk
//!                └──────── at a start without clusterd ──┘
//! ```
//!
//! The configuration comes first: a zone that it forwards is not taken from the cluster. An object that cannot be followed changes
//! nothing, and neither does a clusterd that is away.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::config::dns_recursor::Cluster as ClusterFile;
use api::dns_recursor::Cluster;
use cluster::{Dns, DnsUpstream};
use daemon::config::Document;
use daemon::disk::Disk;
use daemon::readiness::Readiness;
use dns_resolve::own_addresses::OwnAddresses;
use learned_store::{Known, Loaded, Store};
use parking_lot::Mutex;
use proto::cluster::link::Link;
use proto::cluster::{Freshness, Key, Kind, Object, Snapshot};
use proto::endpoint::Endpoint;
use tokio::task::JoinHandle;

use crate::config::{Config, Learned, read_upstreams};
use crate::import;
use crate::load;
use crate::routing::Routing;

/// The key of the reason on `/readyz`.
const REASON: &str = "cluster";
/// The key of the reason about the file.
const STORE_REASON: &str = "cluster state";
/// The interval of looks at the node's name servers, and at the connection to clusterd.
const LOOK: Duration = match cfg!(test) {
    true => Duration::from_millis(5),
    false => Duration::from_secs(2),
};

/// How long a start waits for the first report of clusterd, which is on this node and answers within milliseconds.
const FIRST_REPORT: Duration = Duration::from_millis(500);

/// Reads the part of a configuration that an object has. `system` has the name servers of the node.
///
/// # Errors
/// When the object cannot be followed as it is.
fn read(dns: &Dns, system: &[SocketAddr], own: &OwnAddresses) -> Result<Learned, String> {
    let draft = import::draft(&peer_openshift_dns::forwarder(dns, system)?);
    let written = draft.written("").map_err(|error| error.to_string())?;
    let document = Document::inline("the DNS object of the cluster", written.to_string());
    let config = Config::from_document(&document).map_err(|problems| {
        let first = problems.0.first();
        first.map_or_else(String::new, |problem| problem.message.clone())
    })?;
    if let Some(upstream) = config.upstreams().iter().find(|one| own.contains(**one)) {
        return Err(format!(
            "upstream {upstream} is this server itself: its queries would go in a circle"
        ));
    }
    let servers = read_upstreams(&config.streams, config.source).map_err(|problems| {
        let first = problems.0.first();
        first.map_or_else(String::new, |problem| problem.message.clone())
    })?;
    let cache = &config.file.cache;
    Ok(Learned {
        servers,
        max_ttls: Some((cache.max_ttl, cache.negative_max_ttl)),
        query_log: Some(config.file.query_log).filter(|log| log.enabled),
        remarks: draft.notes.iter().map(|note| note.reason.clone()).collect(),
        forwards: config.forwards,
    })
}

/// The running follower; its task ends when this is dropped.
#[derive(Debug)]
pub struct Follower {
    link: Link,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// The result of the last snapshot.
#[derive(Clone, Debug, Default)]
struct State {
    /// The reason why the object is not followed.
    problem: Option<String>,
    /// Whether the forwards are those of the disk.
    is_saved: bool,
}

impl Follower {
    /// Begins to follow clusterd. Waits a moment for what it has, so that a restart does not forget it.
    pub async fn start(
        settings: &ClusterFile,
        service: &str,
        routing: &Arc<Routing>,
        readiness: Readiness,
    ) -> Self {
        let link = Link::start(Some(Endpoint::Unix(settings.socket.clone())), service);
        let state = Arc::<Mutex<State>>::default();
        let mut task = Task {
            link: link.clone(),
            resolv_conf: settings.resolv_conf.clone(),
            routing: Arc::clone(routing),
            readiness,
            state: Arc::clone(&state),
            seen: None,
            store: None,
            saved: None,
        };
        task.open(settings.state.as_deref()).await;
        if let Some(mut snapshots) = link.reader() {
            let first = snapshots.wait_for(|snapshot| snapshot.generation > 0);
            drop(tokio::time::timeout(FIRST_REPORT, first).await);
            task.take(&link.current()).await;
        }
        Self {
            task: tokio::spawn(task.run()),
            link,
            state,
        }
    }

    /// The status.
    #[must_use]
    pub fn status(&self, learned: &Learned) -> Option<Cluster> {
        let state = self.link.state()?;
        let snapshot = self.link.current();
        let State { problem, is_saved } = self.state.lock().clone();
        Some(Cluster {
            connected: state.connected,
            error: state.error,
            generation: snapshot.generation,
            freshness: snapshot.freshness(Kind::Dns).name().to_owned(),
            saved: is_saved,
            zones: zones(learned),
            problem,
            remarks: learned.remarks.clone(),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The zones that the cluster forwards.
fn zones(learned: &Learned) -> Vec<String> {
    let forwards = learned.forwards.iter();
    forwards.map(|forward| forward.zone.to_string()).collect()
}

struct Task {
    link: Link,
    resolv_conf: PathBuf,
    routing: Arc<Routing>,
    readiness: Readiness,
    state: Arc<Mutex<State>>,
    /// The object and the node's name servers that were looked at last.
    seen: Option<(Option<Arc<Object>>, Vec<SocketAddr>)>,
    /// The file of the last object, if there is to be one.
    store: Option<Arc<Store>>,
    /// The content of the file: the object, or that there is none.
    saved: Option<Option<Arc<Object>>>,
}

impl Task {
    async fn run(mut self) {
        let Some(mut snapshots) = self.link.reader() else {
            return;
        };
        loop {
            let snapshot = self.link.current();
            self.take(&snapshot).await;
            let reason = self.trouble(&snapshot);
            self.readiness.set_reason(REASON, reason);
            tokio::select! {
                () = snapshots.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Takes up the object of a snapshot; before the first one of the source, that of the disk.
    async fn take(&mut self, snapshot: &Snapshot) {
        // That there is no object means something only once the source was read.
        if snapshot.freshness(Kind::Dns) != Freshness::Unread {
            self.state.lock().is_saved = false;
            self.follow(snapshot.get(&key()).cloned()).await;
            self.save().await;
        } else if let Some(object) = self.saved.clone() {
            self.state.lock().is_saved = true;
            self.follow(object).await;
        }
    }

    /// Takes up an object, unless it is the one that was looked at before.
    async fn follow(&mut self, object: Option<Arc<Object>>) {
        let dns = object.as_deref().and_then(|object| match object {
            Object::Dns(dns) => Some(&**dns),
            _ => None,
        });
        let own = load::own_addresses(self.routing.listening());
        let needs_system = dns.is_some_and(names_system);
        let system = match needs_system {
            true => name_servers(&self.resolv_conf).await,
            false => Ok(Vec::new()),
        };
        let (system, unreadable) = match system {
            Ok(servers) => (servers, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        // A resolv.conf that names this server is what makes the node ask it.
        let system: Vec<SocketAddr> = system.into_iter().filter(|at| !own.contains(*at)).collect();
        let seen = (object.clone(), system);
        if self.seen.as_ref() == Some(&seen) {
            return;
        }
        let learned = match dns {
            None => Ok(Learned::default()),
            Some(dns) => read(dns, &seen.1, &own),
        };
        self.seen = Some(seen);
        match learned {
            Ok(mut learned) => {
                learned.remarks.extend(unreadable);
                for remark in &learned.remarks {
                    tracing::warn!(remark, "A part of the cluster's DNS object has no effect");
                }
                self.state.lock().problem = None;
                let zones = zones(&learned).join(" ");
                let n_dropped = self.routing.learn(learned).await;
                tracing::info!(zones, n_dropped, "The forwards of the cluster are in force");
            }
            Err(problem) => {
                tracing::error!(
                    problem,
                    "The cluster's DNS object is not followed; its earlier forwards stay"
                );
                self.state.lock().problem = Some(problem);
            }
        }
    }

    /// Opens the directory of the last object, and reads it.
    async fn open(&mut self, directory: Option<&Path>) {
        let Some(directory) = directory.map(Path::to_owned) else {
            return;
        };
        let opened = tokio::task::spawn_blocking(move || {
            let store = learned_store::open(&directory)?;
            let loaded = store.load();
            Ok::<_, io::Error>((store, loaded))
        });
        let (store, loaded) = match opened.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return self.unsaved(&error.to_string()),
            Err(error) => return self.unsaved(&error.to_string()),
        };
        match loaded {
            Loaded::Restored(known) => {
                self.saved = Some(known.map(|dns| Arc::new(Object::Dns(dns))));
            }
            Loaded::Absent => {}
            Loaded::Refused(refused) => {
                tracing::warn!(%refused, "The last DNS object of the cluster cannot be read");
            }
        }
        self.store = Some(Arc::new(store));
    }

    /// Writes the object that is followed, if the disk has another one. One that cannot be followed is not kept.
    async fn save(&mut self) {
        let (Some(store), Some((object, _))) = (self.store.clone(), self.seen.clone()) else {
            return;
        };
        if self.saved.as_ref() == Some(&object) || self.state.lock().problem.is_some() {
            return;
        }
        let known: Known = match object.as_deref() {
            Some(Object::Dns(dns)) => Some(dns.clone()),
            _ => None,
        };
        let written =
            tokio::task::spawn_blocking(move || store.save(&learned_store::encode(&known)));
        match written.await {
            Ok(Ok(())) => {
                self.saved = Some(object);
                self.readiness.set_reason(STORE_REASON, None);
            }
            Ok(Err(error)) => self.unsaved(&error.to_string()),
            Err(error) => self.unsaved(&error.to_string()),
        }
    }

    /// Says that a start without clusterd would not know the forwards.
    fn unsaved(&self, error: &str) {
        let reason = format!("the cluster's DNS object cannot be kept on disk: {error}");
        self.readiness.set_reason(STORE_REASON, Some(reason));
    }

    /// The trouble with the forwards of the cluster, in a line.
    fn trouble(&self, snapshot: &Snapshot) -> Option<String> {
        let state = self.link.state()?;
        if !state.connected {
            let error = match state.error.is_empty() {
                true => String::new(),
                false => format!(" ({})", state.error),
            };
            let which = match self.state.lock().is_saved {
                true => "are those of the disk, from before the start",
                false => "stay as they were",
            };
            return Some(format!(
                "clusterd is away{error}: forwards of the cluster {which}"
            ));
        }
        if snapshot.freshness(Kind::Dns) == Freshness::Unread {
            return Some(
                "clusterd has not read `dnses` (`dnses` in `[api]` of its file): nothing is learned"
                    .to_owned(),
            );
        }
        let problem = self.state.lock().problem.clone();
        problem.map(|problem| {
            format!(
                "the cluster's DNS object is not followed, its earlier forwards stay: {problem}"
            )
        })
    }
}

fn key() -> Key {
    Key {
        kind: Kind::Dns,
        namespace: String::new(),
        name: Kind::Dns.only().unwrap_or_default().to_owned(),
    }
}

fn names_system(dns: &Dns) -> bool {
    dns.resolvers.upstreams.contains(&DnsUpstream::System)
}

/// The name servers of the node.
async fn name_servers(path: &Path) -> Result<Vec<SocketAddr>, String> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || peer_forwarder::name_servers(&path, &mut Disk));
    read.await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use cluster::{DnsForward, DnsServer};

    use super::*;

    fn object(zone: &str, upstream: &str) -> Dns {
        Dns {
            servers: vec![DnsServer {
                name: "site".to_owned(),
                zones: vec![zone.to_owned()],
                forward: DnsForward {
                    upstreams: vec![DnsUpstream::Address(upstream.parse().unwrap())],
                    ..DnsForward::default()
                },
            }],
            positive_ttl: Some(60),
            ..Dns::default()
        }
    }

    fn own() -> OwnAddresses {
        OwnAddresses::new(vec!["192.0.2.53:53".parse().unwrap()], Vec::new())
    }

    fn learned(dns: &Dns) -> Result<Learned, String> {
        read(dns, &[], &own())
    }

    #[test]
    fn an_object_that_cannot_be_followed_is_refused_as_a_whole() {
        let made = learned(&object("a.example", "192.0.2.1:53")).unwrap();
        assert_eq!(zones(&made), ["a.example."]);
        for (zone, upstream, wanted) in [
            ("a..example", "192.0.2.1:53", "a..example"),
            ("a.example", "192.0.2.53:53", "is this server itself"),
        ] {
            let refused = learned(&object(zone, upstream)).unwrap_err();
            assert!(refused.contains(wanted), "{refused}");
        }
        let mut twice = object("a.example", "192.0.2.1:53");
        twice.servers.extend(twice.servers.clone());
        assert!(learned(&twice).is_err());
    }

    #[test]
    fn what_is_written_comes_before_what_is_learned() {
        let text = "version = \"v1\"\n[cache]\nmax-ttl = \"30s\"\n[[forward]]\nzone = \"a.example\"\nupstreams = [\"192.0.2.9\"]\n";
        let config = Config::from_document(&Document::inline("x", text.to_owned())).unwrap();
        let mut dns = object("A.example", "192.0.2.1:53");
        if let Some(server) = dns.servers.first_mut() {
            server.zones.push("b.example".to_owned());
        }
        let made = learned(&dns).unwrap();
        let joining: Vec<String> = config
            .joining(&made)
            .map(|one| one.zone.to_string())
            .collect();
        assert_eq!(joining, ["b.example."]);
        let table = config.table_with(&made, &crate::config::Followed::new());
        let route = |zone: &str| {
            let mut routes = table.routes();
            let route = routes.find(|route| route.zone.to_string() == zone);
            route.map(|route| route.upstreams.clone()).unwrap()
        };
        assert_eq!(
            route("a.example."),
            ["192.0.2.9:53".parse::<SocketAddr>().unwrap()]
        );
        assert_eq!(
            route("b.example."),
            ["192.0.2.1:53".parse::<SocketAddr>().unwrap()]
        );
        let denied: Vec<String> = table
            .anchors()
            .negative_zones()
            .map(|(zone, _)| zone.to_string())
            .collect();
        assert!(denied.contains(&"b.example.".to_owned()), "{denied:?}");
    }
}
