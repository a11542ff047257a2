//! Lists of nodes that people wrote, and that nodes of a cluster join: the part that follows clusterd.
//!
//! ```text
//! settings ─► NodeList (core) ─► Latest<Lists> ─► service
//! clusterd ──────┘   ▲ └─► disk
//!                    └──── at a start ──┘
//! ```
//!
//! `cluster_members` decides which nodes join. The lists are there as soon as [`Follower::start`] returns: the written nodes, and
//! those that the process before kept. Nothing here waits for clusterd.

#![warn(missing_docs)]

mod store;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cluster_members::{Bounds, Held, Listed, NodeList, Origin, Refused, Written};
use config::nodes::ClusterNodes;
use daemon::clock;
use daemon::latest::{Latest, Reader};
use ipnet::IpNet;
use parking_lot::Mutex;
use proto::cluster::link::Link;
use proto::cluster::{Freshness, Kind};
use proto::endpoint::Endpoint;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use store::{Loaded, Saved, Store};

/// The lists that a service wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The socket of clusterd.
    pub socket: PathBuf,
    /// The networks of addresses with which nodes may join.
    pub networks: Vec<IpNet>,
    /// Addresses in them that may not.
    pub excluded: BTreeSet<IpAddr>,
    /// The directory in which the nodes that have joined are kept, if they are.
    pub state: Option<PathBuf>,
    /// The lists.
    pub lists: Vec<ListSettings>,
}

/// A list that a service wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListSettings {
    /// Its name.
    pub name: String,
    /// The nodes that join.
    pub nodes: Vec<ClusterNodes>,
    /// The members that are written.
    pub written: Vec<Written>,
}

impl Settings {
    fn bounds(&self, list: &ListSettings) -> Bounds {
        Bounds {
            nodes: list.nodes.clone(),
            networks: self.networks.clone(),
            excluded: self.excluded.clone(),
        }
    }
}

/// Lists by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    lists: BTreeMap<String, List>,
    /// Whether nodes that have joined are those of the disk.
    is_saved: bool,
}

impl Lists {
    /// The members of a list; none if there is no such list.
    #[must_use]
    pub fn members(&self, name: &str) -> Option<&[Listed]> {
        self.lists.get(name).map(|list| list.members.as_slice())
    }
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    nodes: Vec<ClusterNodes>,
    members: Vec<Listed>,
    refused: Vec<Refused>,
    held: Option<Held>,
}

/// The lists of a service; they follow clusterd until this is dropped.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    lists: Arc<Latest<Lists>>,
    /// The socket of clusterd, and the directory of what is kept.
    places: watch::Sender<(Option<PathBuf>, Option<PathBuf>)>,
    link: Arc<Latest<Link>>,
}

#[derive(Debug, Default)]
struct State {
    settings: Option<Settings>,
    lists: BTreeMap<String, NodeList>,
    /// The nodes that the process before kept.
    restored: Vec<Saved>,
    /// Whether clusterd has said anything of the cluster yet.
    is_read: bool,
}

impl Follower {
    /// Begins to follow clusterd, under the name of a service; needs a tokio runtime.
    #[must_use]
    pub fn start(service: &'static str, settings: Option<Settings>) -> Self {
        let mut state = State::default();
        let (places, changes) = watch::channel(places(settings.as_ref()));
        let directory = settings.as_ref().and_then(|it| it.state.clone());
        let store = directory.as_deref().and_then(|it| open(it, &mut state));
        state.adopt(settings);
        let shared = Arc::new(Shared {
            lists: Latest::new(state.published()),
            state: Mutex::new(state),
            places,
            link: Latest::new(Link::default()),
        });
        let task = Task {
            shared: Arc::clone(&shared),
            service,
            places: changes,
            link: Link::default(),
            store: store.map(Arc::new),
            saved: None,
        };
        Self {
            task: tokio::spawn(task.run()),
            shared,
        }
    }

    /// Takes the settings of another configuration. The lists are those of it when this returns.
    pub fn configure(&self, settings: Option<Settings>) {
        let places = places(settings.as_ref());
        self.shared.change(|state| state.adopt(settings));
        // The task looks at the lists again in any case: new ones know no node yet.
        self.shared.places.send_replace(places);
    }

    /// The lists.
    #[must_use]
    pub fn lists(&self) -> Arc<Latest<Lists>> {
        Arc::clone(&self.shared.lists)
    }

    /// The state, for the status; none without lists.
    #[must_use]
    pub fn status(&self) -> Option<api::cluster_nodes::Nodes> {
        let link = self.shared.link.current();
        let state = link.state()?;
        let lists = self.shared.lists.current();
        let now = clock::now();
        Some(api::cluster_nodes::Nodes {
            connected: state.connected,
            error: state.error,
            age_seconds: link.age().map(|age| age.as_secs_f64()),
            generation: link.current().generation,
            saved: lists.is_saved,
            lists: view::lists(&lists, now),
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn places(settings: Option<&Settings>) -> (Option<PathBuf>, Option<PathBuf>) {
    let socket = settings.map(|settings| settings.socket.clone());
    (socket, settings.and_then(|settings| settings.state.clone()))
}

/// Opens the directory of what is kept, and reads it.
fn open(directory: &Path, state: &mut State) -> Option<Store> {
    let store = match store::open(directory) {
        Ok(store) => store,
        Err(error) => {
            unsaved(&error);
            return None;
        }
    };
    match store.load() {
        Loaded::Restored(saved) => state.restored = saved,
        Loaded::Absent => {}
        Loaded::Refused(refused) => {
            tracing::warn!(%refused, "The nodes that had joined cannot be read");
        }
    }
    Some(store)
}

fn unsaved(error: &dyn std::fmt::Display) {
    tracing::warn!(%error, "The nodes that have joined are not kept: a start without clusterd does not have them");
}

impl State {
    fn adopt(&mut self, settings: Option<Settings>) {
        let mut before = std::mem::take(&mut self.lists);
        for list in settings.iter().flat_map(|settings| &settings.lists) {
            let bounds = settings.as_ref().map(|it| it.bounds(list));
            let bounds = bounds.unwrap_or_default();
            let new = match before.remove(&list.name) {
                Some(mut known) => {
                    known.adopt(list.written.clone(), &bounds);
                    known
                }
                None => {
                    let mut new = NodeList::new(list.written.clone(), &bounds);
                    let restored = self.restored.iter().filter(|one| one.list == list.name);
                    new.restore(restored.map(Saved::kept));
                    new
                }
            };
            self.lists.insert(list.name.clone(), new);
        }
        self.settings = settings;
    }

    fn published(&self) -> Lists {
        let settings = self.settings.iter().flat_map(|settings| &settings.lists);
        let lists = settings.filter_map(|settings| {
            let list = self.lists.get(&settings.name)?;
            let shown = List {
                nodes: settings.nodes.clone(),
                members: list.members(),
                refused: list.refused(),
                held: list.held().cloned(),
            };
            Some((settings.name.clone(), shown))
        });
        Lists {
            lists: lists.collect(),
            is_saved: !self.is_read && self.lists.values().any(|list| !list.kept().is_empty()),
        }
    }

    /// The nodes to keep.
    fn saved(&self) -> Vec<Saved> {
        let lists = self.lists.iter();
        lists
            .flat_map(|(name, list)| list.kept().into_iter().map(|kept| Saved::of(name, kept)))
            .collect()
    }

    fn deadline(&self) -> Option<Instant> {
        self.lists.values().filter_map(NodeList::deadline).min()
    }
}

impl Shared {
    /// Changes the lists, publishes them if they are others, and says who has joined and left.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let before = self.lists.current();
        let after = state.published();
        if *before != after {
            tell(&before, &after);
            self.lists.publish(after);
        }
    }
}

/// Says which nodes have joined and left.
fn tell(before: &Lists, after: &Lists) {
    let learned = |lists: &Lists, name: &str| {
        let members = lists.members(name).unwrap_or_default().iter();
        let learned = members.filter(|listed| listed.member.origin == Origin::Learned);
        let learned = learned.map(|listed| (listed.member.address, listed.member.name.clone()));
        learned.collect::<BTreeSet<(IpAddr, String)>>()
    };
    for list in after.lists.keys() {
        let (old, new) = (learned(before, list), learned(after, list));
        for (address, node) in new.difference(&old) {
            tracing::info!(list, node, %address, "A node of the cluster has joined");
        }
        for (address, node) in old.difference(&new) {
            tracing::info!(list, node, %address, "A node of the cluster has left");
        }
    }
}

struct Task {
    shared: Arc<Shared>,
    service: &'static str,
    places: watch::Receiver<(Option<PathBuf>, Option<PathBuf>)>,
    link: Link,
    /// The file of what is kept, if there is to be one.
    store: Option<Arc<Store>>,
    /// The content of the file, as far as it is known.
    saved: Option<Vec<Saved>>,
}

impl Task {
    async fn run(mut self) {
        let mut socket = None;
        let mut directory = self.places.borrow().1.clone();
        loop {
            let (wanted, kept_in) = self.places.borrow_and_update().clone();
            if wanted != socket {
                self.link = Link::start(wanted.clone().map(Endpoint::Unix), self.service);
                self.shared.link.publish(self.link.clone());
                socket = wanted;
            }
            if kept_in != directory {
                self.store = kept_in.as_deref().and_then(reopen);
                self.saved = None;
                directory = kept_in;
            }
            if !self.follow().await {
                return;
            }
        }
    }

    /// Follows clusterd until the places are others; false when the service has ended.
    async fn follow(&mut self) -> bool {
        let mut snapshots = self.link.reader();
        let mut is_connected = self.link.is_connected();
        loop {
            self.look();
            self.save().await;
            let deadline = self.shared.state.lock().deadline();
            tokio::select! {
                changed = self.places.changed() => return changed.is_ok(),
                () = next(&mut snapshots) => {}
                () = next(&mut is_connected) => {}
                () = until(deadline) => self.shared.change(|state| {
                    for list in state.lists.values_mut() {
                        list.tick(clock::now());
                    }
                }),
            }
        }
    }

    /// Takes up what clusterd reports, or that it is away.
    fn look(&self) {
        let is_there = self.link.state().is_some_and(|state| state.connected);
        let snapshot = self.link.current();
        self.shared.change(|state| match is_there {
            true => {
                state.is_read |= snapshot.freshness(Kind::Node) != Freshness::Unread;
                for list in state.lists.values_mut() {
                    list.observe(&snapshot, clock::now());
                }
            }
            false => state.lists.values_mut().for_each(NodeList::lose_sight),
        });
    }

    /// Keeps the nodes that have joined, if the disk has others.
    async fn save(&mut self) {
        let Some(store) = self.store.clone() else {
            return;
        };
        let nodes = self.shared.state.lock().saved();
        if self.saved.as_ref() == Some(&nodes) {
            return;
        }
        let octets = store::encode(&nodes);
        let written = tokio::task::spawn_blocking(move || store.save(&octets)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            unsaved(&error);
        }
        // A disk that is full is tried again when the nodes are others.
        self.saved = Some(nodes);
    }
}

/// Opens another directory, whose content counts for nothing: the lists are known.
fn reopen(directory: &Path) -> Option<Arc<Store>> {
    let store = store::open(directory);
    store.map(Arc::new).map_err(|error| unsaved(&error)).ok()
}

/// The next value; never without clusterd.
async fn next<T>(reader: &mut Option<Reader<T>>) {
    match reader {
        Some(reader) => reader.changed().await,
        None => pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
