//! The nodes of the site: followed as the journal names them, and forgotten when they are away for too long.
//!
//! Decided in [`registry_cluster_core::members`]; this looks every second, notes what it has seen, states
//! what was decided and has the tasks of each node begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::HostPort;
use daemon::latest::Latest;
use daemon::node_tls::Identity;
use parking_lot::{Mutex, MutexGuard};
use registry_cluster_core::members as core;
use registry_cluster_core::members::{Claim, Obstacle, Reception};
use registry_facts::name::NodeName;
use registry_facts::record::{FILLING, Membership, Vector};
use registry_store::journal::snapshot::TOMBSTONES;
use registry_store::{Noted, Store, StoreError};
use tokio::task::JoinSet;

use super::pace::{BEAT, milliseconds};
use super::peer::Peer;
use super::settings::{PeerSettings, Settings};

/// How much later a node has to have been seen than is noted, in milliseconds, to be noted again: the
/// disk is written seldom, and deletions are remembered for many days.
const NOTE: u64 = 3_600_000;

/// Why the membership of a node stays.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// It is this node.
    #[error("this node is {0} itself")]
    Own(NodeName),
    /// Nothing names it.
    #[error("no node is called {0}")]
    Unknown(NodeName),
    /// Fewer than a majority are connected.
    #[error(
        "no more than half of the known nodes are connected, and those that are away may be at work: repeat with \
         --force only when {0} is gone permanently"
    )]
    NoMajority(NodeName),
    /// No node would know its address.
    #[error("no configuration has the address of {0}: say it")]
    NoAddress(NodeName),
    /// The text is no address.
    #[error("not an address: {0}")]
    Address(String),
    /// It cannot be stated.
    #[error("the membership of {name} cannot be stated")]
    Store {
        /// The node.
        name: NodeName,
        /// Why.
        #[source]
        source: StoreError,
    },
}

/// A node of the site, or one that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// Its address, when the journal or the configuration has one.
    pub address: Option<String>,
    /// Whether it counts; else it was forgotten.
    pub is_member: bool,
    /// Whether the configuration of this node names it.
    pub is_configured: bool,
    /// When it was forgotten last, in milliseconds since 1970; none when it never was.
    pub forgotten: Option<u64>,
    /// When it was connected last, in milliseconds since 1970.
    pub seen: Option<u64>,
}

/// The nodes; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Members(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    identity: Option<Arc<Identity>>,
    configured: BTreeMap<NodeName, PeerSettings>,
    core: Mutex<core::Members>,
    /// The nodes that count, with the connections to them.
    peers: Arc<Latest<Vec<Arc<Peer>>>>,
    /// Those that take nothing of this node.
    refusing: Mutex<BTreeSet<NodeName>>,
    has_to_begin: AtomicBool,
}

impl Members {
    pub(super) fn new(
        settings: &Settings,
        store: &Store,
        identity: Option<&Arc<Identity>>,
    ) -> Self {
        let configured = settings
            .peers
            .iter()
            .map(|peer| (peer.name.clone(), peer.clone()));
        let configured: BTreeMap<_, _> = configured.collect();
        let core = core::Members::new(
            settings.node.clone(),
            configured.keys().cloned(),
            store.noted().seen,
            store.noted().together,
            u64::try_from(TOMBSTONES.as_millis()).unwrap_or(u64::MAX),
        );
        let members = Self(Arc::new(Inner {
            store: store.clone(),
            identity: identity.cloned(),
            configured,
            core: Mutex::new(core),
            peers: Latest::new(Vec::new()),
            refusing: Mutex::default(),
            has_to_begin: AtomicBool::new(false),
        }));
        members.refresh();
        members
    }

    /// The nodes that count, beside this one.
    pub(super) fn peers(&self) -> Vec<Arc<Peer>> {
        self.0.peers.current().to_vec()
    }

    pub(super) fn peer(&self, name: &NodeName) -> Option<Arc<Peer>> {
        let peers = self.peers();
        peers.iter().find(|peer| peer.name == *name).map(Arc::clone)
    }

    /// The names in certificates of nodes that may connect.
    pub(super) fn names(&self) -> Vec<NodeName> {
        let core = self.core();
        let all = core.all().map(|(name, _)| name);
        all.filter(|name| core.may_connect(name)).cloned().collect()
    }

    pub(super) fn is_member(&self, name: &NodeName) -> bool {
        self.core().is_member(name)
    }

    //--- Nodes that connect

    /// The statement of this node about itself.
    pub(super) fn claim(&self) -> Claim {
        let began = self.0.store.noted().began;
        self.core().claim(began)
    }

    /// When another node was forgotten last.
    pub(super) fn forgotten(&self, name: &NodeName) -> u64 {
        self.core().forgotten(name)
    }

    /// How to receive a node.
    pub(super) fn receive(&self, name: &NodeName, claim: Claim, holds: &Vector) -> Reception {
        let known = self.0.store.vector();
        self.core().receive(name, claim, holds, &known)
    }

    /// Another node takes what this one has, and says when this one was forgotten.
    pub(super) async fn taken_by(&self, name: &NodeName, forgotten: u64) -> Result<(), StoreError> {
        self.0.refusing.lock().remove(name);
        if forgotten <= self.0.store.noted().began {
            return Ok(());
        }
        let begins = move |noted: &mut Noted| noted.began = noted.began.max(forgotten);
        self.0.store.note(begins).await
    }

    /// Whether this node takes records of one that had last caught up with a majority then. That it begins to
    /// fill is on the disk before.
    pub(super) async fn takes_from(
        &self,
        name: &NodeName,
        together: u64,
        now: u64,
    ) -> Result<bool, StoreError> {
        let (takes, own) = {
            let mut core = self.core();
            (core.takes_from(name, together, now), core.together())
        };
        let is_noted = self.0.store.noted().together > 0;
        if !is_noted && own > 0 && !self.0.store.is_on_read_only_disk() {
            let members = self.clone();
            let fills = move |noted: &mut Noted| noted.together = members.core().together();
            self.0.store.note(fills).await?;
        }
        Ok(takes)
    }

    /// When this node had last caught up with a majority, for the others. A node that hears it begins to fill on this word, so it
    /// is what the disk has: after a crash between the two, both would begin, and neither would take anything of the other.
    pub(super) fn together(&self) -> u64 {
        self.0.store.noted().together
    }

    /// Another node takes nothing of this one.
    pub(super) fn refused_by(&self, name: &NodeName) {
        self.0.refusing.lock().insert(name.clone());
    }

    /// Whether the journal here is set aside at the next start.
    pub(super) fn has_to_begin(&self) -> bool {
        self.0.has_to_begin.load(Ordering::Acquire)
    }

    /// A node that was forgotten begins again, or has done so, and is one of the site's again.
    pub(super) async fn take_in(&self, name: &NodeName) {
        if self.is_member(name) {
            return;
        }
        tracing::info!(
            node = name.as_str(),
            "A node that was forgotten is taken in again"
        );
        if let Err(error) = self.add(name, None).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "A node that was forgotten cannot be taken in again"
            );
        }
    }

    //--- Commands of an operator

    pub(super) async fn forget(&self, name: &NodeName, forced: bool) -> Result<bool, MemberError> {
        let connected = self.connected();
        let now = milliseconds(self.0.store.stated_time());
        let forgotten = self.core().forget(name, &connected, forced, now);
        self.state(name, forgotten).await
    }

    pub(super) async fn add(
        &self,
        name: &NodeName,
        address: Option<&str>,
    ) -> Result<bool, MemberError> {
        if let Some(address) = address
            && address.parse::<HostPort>().is_err()
        {
            return Err(MemberError::Address(address.to_owned()));
        }
        let added = self.core().add(name, address);
        self.state(name, added).await
    }

    async fn state(
        &self,
        name: &NodeName,
        decided: Result<Option<Membership>, Obstacle>,
    ) -> Result<bool, MemberError> {
        let decided = decided.map_err(|obstacle| {
            let name = name.clone();
            match obstacle {
                Obstacle::Own => MemberError::Own(name),
                Obstacle::Unknown => MemberError::Unknown(name),
                Obstacle::NoMajority => MemberError::NoMajority(name),
                Obstacle::NoAddress => MemberError::NoAddress(name),
            }
        });
        let Some(membership) = decided? else {
            return Ok(false);
        };
        let stated = self
            .0
            .store
            .state_membership(name.clone(), membership)
            .await;
        stated.map_err(|source| MemberError::Store {
            name: name.clone(),
            source,
        })?;
        self.refresh();
        Ok(true)
    }

    /// All nodes that were ever named, beside this one.
    pub(super) fn all(&self) -> Vec<Member> {
        let core = self.core();
        let member = |(name, membership): (&NodeName, Option<&Membership>)| Member {
            name: name.clone(),
            address: self.address(name, membership),
            is_member: core.is_member(name),
            is_configured: self.0.configured.contains_key(name),
            forgotten: Some(core.forgotten(name)).filter(|time| *time > 0),
            seen: core.seen(name),
        };
        core.all().map(member).collect()
    }

    //--- Every second

    /// Looks at the nodes for ever. `begin` begins the tasks of one; `looked` hears which there are each time.
    pub(super) async fn watch(
        self,
        begin: impl Fn(&Arc<Peer>) -> JoinSet<()>,
        looked: impl Fn(&[Arc<Peer>]),
        clocks_agree: impl Fn() -> bool,
    ) {
        let mut running: Vec<(Arc<Peer>, JoinSet<()>)> = Vec::new();
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            self.refresh();
            let peers = self.peers();
            running.retain(|(one, _)| peers.iter().any(|peer| Arc::ptr_eq(peer, one)));
            for peer in &peers {
                if !running.iter().any(|(one, _)| Arc::ptr_eq(one, peer)) {
                    running.push((Arc::clone(peer), begin(peer)));
                }
            }
            looked(&peers);
            // A clock that is wrong says nothing of how long a node is away.
            if clocks_agree() && !self.0.store.is_on_read_only_disk() {
                self.look().await;
            }
        }
    }

    /// Takes over what the journal says.
    fn refresh(&self) {
        let stated = match self.0.store.memberships() {
            Ok(stated) => stated,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "The nodes cannot be read"
                );
                return;
            }
        };
        let mut core = self.core();
        let is_news = core.state(stated);
        let before = self.peers();
        if !is_news && !before.is_empty() {
            return;
        }
        let memberships: BTreeMap<&NodeName, Option<&Membership>> = core.all().collect();
        let others = core.others().filter_map(|name| {
            let membership = memberships.get(name).copied().flatten();
            let address = self.address(name, membership)?;
            let known = before.iter().find(|peer| peer.name == *name);
            if let Some(known) = known.filter(|peer| peer.address() == address) {
                return Some(Arc::clone(known));
            }
            let settings = PeerSettings {
                name: name.clone(),
                // The journal may have it from a node of another version.
                address: address.parse().ok()?,
            };
            Some(Arc::new(Peer::new(&settings, self.0.identity.as_ref())))
        });
        let others = others.collect();
        drop(core);
        self.0.peers.publish(others);
    }

    async fn look(&self) {
        let connected = self.connected();
        let now = milliseconds(self.0.store.stated_time());
        let holds = self.0.store.vector();
        let peers = self.peers();
        let caught_up = peers.iter().filter(|peer| super::is_heard(peer, &holds));
        let caught_up: BTreeMap<NodeName, u64> = caught_up
            .map(|peer| (peer.name.clone(), peer.known().together))
            .collect();
        let overdue = {
            let mut core = self.core();
            // Only then is the time that of the others.
            if core.is_majority(&connected) {
                core.look(&connected, now);
            }
            core.catch_up(&caught_up, now);
            core.overdue(&connected, now)
        };
        self.keep_unheard();
        for name in overdue {
            tracing::warn!(
                node = name.as_str(),
                "A node is away for as long as deletions are remembered: it is forgotten, and begins again should it come back"
            );
            if let Err(error) = self.forget(&name, false).await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "An absent node cannot be forgotten"
                );
            }
        }
        self.note().await;
        self.look_whether_to_begin(&connected).await;
    }

    /// Has the store remember deletions that some node may not have heard of.
    fn keep_unheard(&self) {
        let unheard = self.core().unheard_since();
        self.0
            .store
            .remember_deletions_since(unheard.unwrap_or(u64::MAX));
    }

    async fn note(&self) {
        let noted = self.0.store.noted();
        let (seen, together) = self.core().to_note();
        let is_news = seen.iter().any(|(name, time)| {
            let before = noted.seen.get(name);
            before.is_none_or(|before| time.abs_diff(*before) >= NOTE)
        });
        let has_caught_up = together > FILLING && noted.together <= FILLING;
        if !is_news && !has_caught_up && together.abs_diff(noted.together) < NOTE {
            return;
        }
        let members = self.clone();
        let looked = move |noted: &mut Noted| {
            // As it is by then: another note may have been written meanwhile.
            (noted.seen, noted.together) = members.core().to_note();
        };
        if let Err(error) = self.0.store.note(looked).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "The disk cannot note when nodes were connected"
            );
        }
    }

    /// Has this node begin again when too few take it, once each has answered or cannot be reached.
    async fn look_whether_to_begin(&self, connected: &BTreeSet<NodeName>) {
        let peers = self.peers();
        let is_open = |peer: &Arc<Peer>| !peer.is_connected() && peer.known().error.is_empty();
        let refusing = self.0.refusing.lock().clone();
        if self.has_to_begin()
            || peers.iter().any(is_open)
            || !self.core().has_to_begin(&refusing, connected)
        {
            return;
        }
        tracing::error!(
            ?refusing,
            "The other nodes have forgotten this one: its journal may bring back deleted content, so it is set aside at the next start"
        );
        match self.0.store.begin_anew().await {
            Ok(()) => self.0.has_to_begin.store(true, Ordering::Release),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "This node cannot begin again"
            ),
        }
    }

    fn connected(&self) -> BTreeSet<NodeName> {
        let peers = self.peers();
        let connected = peers.iter().filter(|peer| peer.is_connected());
        connected.map(|peer| peer.name.clone()).collect()
    }

    /// The journal's address of a node wins over the configured one: an operator has said it later.
    fn address(&self, name: &NodeName, membership: Option<&Membership>) -> Option<String> {
        let stated = membership.and_then(|membership| membership.address.as_deref());
        let configured = self.0.configured.get(name);
        stated
            .map(str::to_owned)
            .or_else(|| configured.map(|peer| peer.address.to_string()))
    }

    fn core(&self) -> MutexGuard<'_, core::Members> {
        self.0.core.lock()
    }
}
