//! The members of a list that people wrote, such as the servers of a backend, as a cluster changes: masters, workers or the
//! nodes of the ingress join and leave.
//!
//! ```text
//! what is written ──────────┐
//! what the site allows ─────┼─► Membership ─► members: written, learned or both; whether each takes new connections
//! snapshot of the cluster ──┘        └────► nodes that may not join, losses that wait for a confirmation
//! ```
//!
//! * A written member never leaves: the cluster adds to what people wrote. healthd says which of them are down.
//! * A node joins with an address in a network that the site allows, which no other member and no virtual IP has.
//! * A node that is cordoned, or whose deletion has begun, takes no new connections, unless that leaves no member that does.
//! * `Ready` has no say: when the nodes lose the API, all of them turn unready at once, and serve on.
//! * More than half of the members never stop taking connections at once: such a loss counts when it has lasted for [`CONFIRM`].
//! * A snapshot from before clusterd's last start takes nothing away; without any, the members are the written ones.
//! * While clusterd is away, nothing changes: no loss counts of which it has not said that it lasts.
//!
//! Reads no clock, and asks nothing: snapshots and times are given.

#![warn(missing_docs)]

mod list;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use cluster::{Freshness, Kind, Node, Object, Snapshot};
use config::nodes::ClusterNodes;
use ipnet::IpNet;

pub use list::{Joined, Listed, NodeList};

/// How long the loss of more than half of the members has to last before it counts.
pub const CONFIRM: Duration = Duration::from_mins(5);

/// The most nodes that join: those of the largest control planes, several times.
pub const MOST_LEARNED: usize = 64;

/// The labels of a master: those of Kubernetes, of its versions before 1.24 and of OpenShift, and of RKE. Their value has no
/// meaning.
pub const MASTER_LABELS: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/controlplane",
];

/// The label of a worker, which OpenShift sets and Kubernetes alone does not.
const WORKER_LABEL: &str = "node-role.kubernetes.io/worker";

/// The label of a worker of OpenShift that is away from the site, where no router runs.
pub const REMOTE_LABEL: &str = "node.openshift.io/remote-worker";

/// The beginning of the labels of all roles.
const ROLE_LABELS: &str = "node-role.kubernetes.io/";

/// The Service whose endpoints are the routers of OpenShift's default ingress, whatever publishes them.
const ROUTERS: (&str, &str) = ("openshift-ingress", "router-internal-default");

/// A member as people wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

/// The limits of what may join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The nodes.
    pub nodes: Vec<ClusterNodes>,
    /// The networks of addresses that may join.
    pub networks: Vec<IpNet>,
    /// Addresses in these networks that may not: virtual IPs.
    pub excluded: BTreeSet<IpAddr>,
}

/// The origin of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is written; the cluster has no master with this address.
    Written,
    /// It is a node of the cluster, and not written.
    Learned,
    /// It is written, and a node of the cluster.
    Both,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name: as it is written, else that of the node.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The origin.
    pub origin: Origin,
    /// Whether its node is cordoned, and another member takes new connections.
    pub drains: bool,
}

/// A node that may not join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The name of the node.
    pub node: String,
    /// The reason.
    pub why: Why,
}

/// Why a node may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no internal address.
    NoAddress,
    /// None of its internal addresses is in a network that the site allows.
    Outside,
    /// Its address is a virtual IP.
    VirtualIp(IpAddr),
    /// Its address is that of another node.
    Taken(IpAddr),
    /// A written member has its name, and another address.
    WrittenElsewhere(IpAddr),
    /// There are too many.
    TooMany,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("it has no internal address"),
            Self::Outside => f.write_str("none of its addresses is in a network of the site"),
            Self::VirtualIp(address) => write!(f, "{address} is a virtual IP"),
            Self::Taken(address) => write!(f, "{address} is the address of another node"),
            Self::WrittenElsewhere(address) => {
                write!(f, "the configuration has {address} under its name")
            }
            Self::TooMany => write!(f, "{MOST_LEARNED} nodes have joined already"),
        }
    }
}

/// A loss that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The members that would leave or drain.
    pub losses: BTreeSet<IpAddr>,
    /// How many members take new connections now.
    pub of: usize,
    /// When the loss counts, if it lasts until then.
    pub until: Instant,
}

/// The nodes of a snapshot, as far as the site allows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Picture {
    /// The nodes that may join, by their addresses.
    learned: BTreeMap<IpAddr, String>,
    /// The written members that are nodes.
    known: BTreeSet<IpAddr>,
    /// The nodes among both that take no new connections.
    cordoned: BTreeSet<IpAddr>,
}

/// The members of one list.
#[derive(Clone, Debug)]
pub struct Membership {
    written: Vec<Written>,
    bounds: Bounds,
    picture: Picture,
    refused: Vec<Refused>,
    /// The loss that waits, and the picture that has it.
    held: Option<(Held, Picture)>,
}

impl Membership {
    /// Begins with the written members.
    #[must_use]
    pub fn new(written: Vec<Written>, bounds: Bounds) -> Self {
        Self {
            written,
            bounds,
            picture: Picture::default(),
            refused: Vec::new(),
            held: None,
        }
    }

    /// Takes up another configuration. Nodes that had joined stay, as far as the new bounds allow them.
    pub fn adopt(&mut self, written: Vec<Written>, bounds: Bounds) {
        let is_written = |address: &IpAddr| written.iter().any(|one| one.address == *address);
        let learned = std::mem::take(&mut self.picture.learned);
        let (known, learned) = learned
            .into_iter()
            .filter(|(address, _)| bounds.allow(*address))
            .partition::<BTreeMap<_, _>, _>(|(address, _)| is_written(address));
        self.picture.learned = learned;
        self.picture.known.extend(known.into_keys());
        self.picture.known.retain(is_written);
        self.held = None;
        (self.written, self.bounds) = (written, bounds);
    }

    /// Takes up a node that had joined when the process before ended, if the bounds allow it.
    pub fn restore(&mut self, address: IpAddr, name: String) {
        let mut written = self.written.iter();
        let is_written = written.any(|one| one.address == address || one.name == name);
        let has_room = self.picture.learned.len() < MOST_LEARNED;
        if has_room && !is_written && self.bounds.allow(address) {
            self.picture.learned.insert(address, name);
        }
    }

    /// Whether nothing is written, and nothing may join.
    fn is_closed(&self) -> bool {
        self.written.is_empty() && self.bounds.networks.is_empty()
    }

    /// Takes up a snapshot.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Instant) {
        let freshness = self.freshness(snapshot);
        if freshness != Freshness::Current {
            // It confirms nothing.
            self.held = None;
        }
        if freshness == Freshness::Unread {
            return;
        }
        let (next, refused) = self.read(snapshot);
        self.refused = refused;
        if freshness == Freshness::Old {
            self.add(next);
            return;
        }
        let losses = self.losses(&next);
        let of = self.serving(&self.picture).len();
        if self.take(&next) {
            self.held = None;
            return;
        }
        let begun = self.held.as_ref().filter(|(held, _)| held.losses == losses);
        let until = begun.map_or_else(|| now + CONFIRM, |(held, _)| held.until);
        // Nodes that join or are uncordoned need no confirmation.
        let mut more = self.picture.clone();
        more.learned.extend(next.learned.clone());
        more.known.extend(&next.known);
        more.cordoned.retain(|one| next.cordoned.contains(one));
        self.take(&more);
        self.held = Some((Held { losses, of, until }, next));
        self.tick(now);
    }

    /// Notes that clusterd is away: a loss that waits begins to wait again when clusterd says so.
    pub fn lose_sight(&mut self) {
        self.held = None;
    }

    /// The freshness of all that decides.
    fn freshness(&self, snapshot: &Snapshot) -> Freshness {
        let nodes = snapshot.freshness(Kind::Node);
        match self.bounds.nodes.contains(&ClusterNodes::Ingress) {
            true => nodes.min(snapshot.freshness(Kind::EndpointSlice)),
            false => nodes,
        }
    }

    /// Takes up what an old picture adds. It cordons too, unless it would take more than half: it cannot confirm that.
    fn add(&mut self, old: Picture) {
        let mut next = self.picture.clone();
        next.learned.extend(old.learned);
        next.known.extend(old.known);
        let more = next.clone();
        next.cordoned.extend(old.cordoned);
        if !self.take(&next) {
            self.take(&more);
        }
    }

    /// Takes up a picture, unless more than half of the members that take new connections would stop to; false if so.
    fn take(&mut self, next: &Picture) -> bool {
        let of = self.serving(&self.picture).len();
        let is_safe = self.losses(next).len().saturating_mul(2) <= of;
        if is_safe {
            self.picture.clone_from(next);
        }
        is_safe
    }

    /// Lets a loss count that has lasted long enough.
    pub fn tick(&mut self, now: Instant) {
        if let Some((_, next)) = self.held.take_if(|(held, _)| held.until <= now) {
            self.picture = next;
        }
    }

    /// When [`Self::tick`] wants to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|(held, _)| held.until)
    }

    /// The members: the written ones in their order, then the learned ones by address.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let serving = self.serving(&self.picture);
        let written = self.written.iter().map(|one| Member {
            name: one.name.clone(),
            address: one.address,
            origin: match self.picture.known.contains(&one.address) {
                true => Origin::Both,
                false => Origin::Written,
            },
            drains: !serving.contains(&one.address),
        });
        let learned = self.picture.learned.iter().map(|(address, name)| Member {
            name: name.clone(),
            address: *address,
            origin: Origin::Learned,
            drains: !serving.contains(address),
        });
        written.chain(learned).collect()
    }

    /// The nodes of the last snapshot that may not join.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The loss that waits for its confirmation.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref().map(|(held, _)| held)
    }

    /// The members that take new connections with a picture: all, if every one is cordoned.
    fn serving(&self, picture: &Picture) -> BTreeSet<IpAddr> {
        let written = self.written.iter().map(|one| one.address);
        let all: BTreeSet<IpAddr> = written.chain(picture.learned.keys().copied()).collect();
        let serving: BTreeSet<IpAddr> = all.difference(&picture.cordoned).copied().collect();
        match serving.is_empty() {
            true => all,
            false => serving,
        }
    }

    /// The members that take new connections now, and would not with another picture.
    fn losses(&self, next: &Picture) -> BTreeSet<IpAddr> {
        let (now, then) = (self.serving(&self.picture), self.serving(next));
        now.difference(&then).copied().collect()
    }

    fn read(&self, snapshot: &Snapshot) -> (Picture, Vec<Refused>) {
        let (mut picture, mut refused) = (Picture::default(), Vec::new());
        let routers = match self.bounds.nodes.contains(&ClusterNodes::Ingress) {
            true => nodes_of_routers(snapshot),
            false => BTreeSet::new(),
        };
        let is_of = |node: &Node| {
            self.bounds.nodes.iter().any(|nodes| match nodes {
                ClusterNodes::Masters => is_master(node),
                ClusterNodes::Workers => is_worker(node),
                ClusterNodes::Ingress => routers.contains(node.meta.name.as_str()),
            })
        };
        for object in snapshot.of_kind(Kind::Node) {
            let Object::Node(node) = &**object else {
                continue;
            };
            if !is_of(node) {
                continue;
            }
            match self.place(node, &picture) {
                Ok(address) => {
                    let is_written = self.written.iter().any(|one| one.address == address);
                    match is_written {
                        true => drop(picture.known.insert(address)),
                        false => drop(picture.learned.insert(address, node.meta.name.clone())),
                    }
                    if node.unschedulable || node.meta.deleting {
                        picture.cordoned.insert(address);
                    }
                }
                Err(why) => refused.push(Refused {
                    node: node.meta.name.clone(),
                    why,
                }),
            }
        }
        (picture, refused)
    }

    /// The address under which a node is a member.
    fn place(&self, node: &Node, picture: &Picture) -> Result<IpAddr, Why> {
        let internal: Vec<IpAddr> = node
            .addresses
            .iter()
            .filter(|address| address.kind == "InternalIP")
            .filter_map(|address| address.address.parse().ok())
            .collect();
        let is_written =
            |address: &&IpAddr| self.written.iter().any(|one| one.address == **address);
        let allowed = |address: &&IpAddr| self.bounds.allow(**address);
        let virtual_ip = |address: &&IpAddr| self.bounds.excluded.contains(*address);
        let found = internal.iter().find(is_written);
        let Some(address) = found.or_else(|| internal.iter().find(allowed)).copied() else {
            return Err(
                match (internal.is_empty(), internal.iter().find(virtual_ip)) {
                    (true, _) => Why::NoAddress,
                    (false, Some(address)) => Why::VirtualIp(*address),
                    (false, None) => Why::Outside,
                },
            );
        };
        if picture.known.contains(&address) || picture.learned.contains_key(&address) {
            return Err(Why::Taken(address));
        }
        if found.is_some() {
            return Ok(address);
        }
        let mut names = self.written.iter();
        if let Some(other) = names.find(|one| one.name == node.meta.name) {
            return Err(Why::WrittenElsewhere(other.address));
        }
        match picture.learned.len() < MOST_LEARNED {
            true => Ok(address),
            false => Err(Why::TooMany),
        }
    }
}

impl Bounds {
    fn allow(&self, address: IpAddr) -> bool {
        let mut networks = self.networks.iter();
        networks.any(|network| network.contains(&address)) && !self.excluded.contains(&address)
    }
}

fn is_master(node: &Node) -> bool {
    MASTER_LABELS
        .iter()
        .any(|label| node.meta.labels.contains_key(*label))
}

/// A node without any role is a worker: Kubernetes alone gives workers none.
fn is_worker(node: &Node) -> bool {
    let labels = &node.meta.labels;
    let has_role = labels.keys().any(|label| label.starts_with(ROLE_LABELS));
    let is_worker = labels.contains_key(WORKER_LABEL) || !has_role;
    is_worker && !labels.contains_key(REMOTE_LABEL)
}

/// The nodes on which a router is ready.
fn nodes_of_routers(snapshot: &Snapshot) -> BTreeSet<&str> {
    let slices = snapshot.of_kind(Kind::EndpointSlice);
    let slices = slices.filter_map(|object| match &**object {
        Object::EndpointSlice(slice) => Some(slice),
        _ => None,
    });
    let of_routers =
        slices.filter(|slice| (slice.meta.namespace.as_str(), slice.service.as_str()) == ROUTERS);
    let endpoints = of_routers.flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| endpoint.ready && !endpoint.node.is_empty());
    ready.map(|endpoint| endpoint.node.as_str()).collect()
}

#[cfg(test)]
mod tests;
