//! The nodes of the cluster that join backends and leave them.
//!
//! ```text
//! configuration ─┐
//! clusterd ──────┴─► membership of each backend ─► configuration with the servers that have joined ─► table, targets
//! ```
//!
//! `cluster_members` decides which nodes join. While clusterd is away, the servers stay as they are.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::config::lb_proxy::{Follow, Server as ServerSpec};
use api::lb_proxy::{Cluster, Followed, HeldLoss, Origin, RefusedNode};
use cluster_members::{Bounds, Member, Membership, Written};
use daemon::clock;
use ipnet::IpNet;
use parking_lot::Mutex;
use proto::cluster::Snapshot;
use proto::cluster::link::Link;
use proto::endpoint::Endpoint;
use proto::link::Link as HealthLink;
use tokio::task::JoinHandle;

use crate::config::{Backend, Config, server};
use crate::table_builder::TableBuilder;

/// How long a start waits for the first report of clusterd, so that decisions of operators about nodes that have joined find them.
/// clusterd is on this node and answers within milliseconds; without it the servers are those of the configuration.
const FIRST_REPORT: Duration = Duration::from_millis(500);

/// The configuration, and the members of its backends.
#[derive(Debug)]
pub(crate) struct Members {
    written: Config,
    memberships: BTreeMap<Arc<str>, Membership>,
}

impl Members {
    /// Begins with the servers that are written.
    #[must_use]
    pub(crate) fn new(config: Config) -> Self {
        let mut members = Self {
            written: config.clone(),
            memberships: BTreeMap::new(),
        };
        members.adopt(config);
        members
    }

    /// Takes up another configuration. Nodes that had joined a backend stay, as far as the configuration allows them.
    pub(crate) fn adopt(&mut self, config: Config) {
        let mut before = std::mem::take(&mut self.memberships);
        for (backend, follow) in followers(&config) {
            let bounds = bounds(&config, backend, follow);
            let written = backend.servers.iter().map(|server| Written {
                name: server.name.to_string(),
                address: server.address.ip(),
            });
            let written = written.collect();
            let membership = match before.remove(&backend.name) {
                Some(mut known) => {
                    known.adopt(written, bounds);
                    known
                }
                None => Membership::new(written, bounds),
            };
            self.memberships
                .insert(Arc::clone(&backend.name), membership);
        }
        self.written = config;
    }

    /// Takes up a snapshot of the cluster.
    pub(crate) fn observe(&mut self, snapshot: &Snapshot, now: Instant) {
        for membership in self.memberships.values_mut() {
            membership.observe(snapshot, now);
        }
    }

    /// Notes that clusterd is away.
    pub(crate) fn lose_sight(&mut self) {
        for membership in self.memberships.values_mut() {
            membership.lose_sight();
        }
    }

    /// Lets losses count that have lasted long enough.
    pub(crate) fn tick(&mut self, now: Instant) {
        for membership in self.memberships.values_mut() {
            membership.tick(now);
        }
    }

    /// When [`Self::tick`] wants to be called.
    #[must_use]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let memberships = self.memberships.values();
        memberships.filter_map(Membership::deadline).min()
    }

    /// The configuration with the servers that have joined.
    #[must_use]
    pub(crate) fn config(&self) -> Config {
        let mut config = self.written.clone();
        for (backend, spec) in config.backends.iter_mut().zip(&self.written.file.backend) {
            let membership = self.memberships.get(&backend.name);
            let (Some(membership), Some(follow)) = (membership, &spec.follow) else {
                continue;
            };
            let members = membership.members();
            for (server, member) in backend.servers.iter_mut().zip(&members) {
                server.origin = Some(origin(member));
                server.is_cordoned = member.drains;
            }
            for member in members.iter().skip(backend.servers.len()) {
                let address = SocketAddr::new(member.address, follow.port.get());
                let joined = ServerSpec::new(&member.name, address);
                let name = member.name.as_str().into();
                let mut server = server(&joined, spec, backend.check.as_ref(), name);
                server.origin = Some(origin(member));
                server.is_cordoned = member.drains;
                backend.servers.push(server);
            }
        }
        config
    }

    /// The backends that follow nodes, for the status.
    fn followed(&self, now: Instant) -> Vec<Followed> {
        let followed = |(backend, follow): (&Backend, &Follow)| {
            let membership = self.memberships.get(&backend.name)?;
            let refused = membership.refused().iter().map(|refused| RefusedNode {
                node: refused.node.clone(),
                why: refused.why.to_string(),
            });
            let held = membership.held().map(|held| HeldLoss {
                servers: held.losses.iter().map(ToString::to_string).collect(),
                of: held.of,
                seconds: held.until.saturating_duration_since(now).as_secs(),
            });
            Some(Followed {
                backend: backend.name.to_string(),
                nodes: follow.nodes.iter().map(|it| it.name().to_owned()).collect(),
                refused: refused.collect(),
                held,
            })
        };
        followers(&self.written).filter_map(followed).collect()
    }
}

/// The backends that follow nodes.
fn followers(config: &Config) -> impl Iterator<Item = (&Backend, &Follow)> {
    let backends = config.backends.iter().zip(&config.file.backend);
    backends.filter_map(|(backend, spec)| Some((backend, spec.follow.as_ref()?)))
}

/// The nodes that may join a backend.
fn bounds(config: &Config, backend: &Backend, follow: &Follow) -> Bounds {
    let cluster = config.file.cluster.as_ref();
    let networks = cluster.map_or(&[][..], |cluster| &cluster.networks);
    let networks = networks.iter().copied().map(IpNet::from);
    // A connection from a source address leads to servers of its family alone.
    let source = backend.policy.source_address;
    let of_family =
        |network: &IpNet| source.is_none_or(|ip| ip.is_ipv4() == network.addr().is_ipv4());
    let routers = config.vips.iter().flat_map(|vip| &vip.router.addresses);
    let virtual_ips = routers.map(|address| address.address);
    Bounds {
        nodes: follow.nodes.clone(),
        networks: networks.filter(of_family).collect(),
        excluded: virtual_ips.collect(),
    }
}

const fn origin(member: &Member) -> Origin {
    match member.origin {
        cluster_members::Origin::Written => Origin::Written,
        cluster_members::Origin::Learned => Origin::Learned,
        cluster_members::Origin::Both => Origin::Both,
    }
}

/// Keeps the servers of backends up to date.
#[derive(Debug)]
pub(crate) struct ClusterServers {
    members: Mutex<Members>,
    cluster: Link,
    health: HealthLink,
    builder: Arc<TableBuilder>,
}

/// The link to clusterd, and the members as it has reported them; waits for the first report, but not long.
pub(crate) async fn first_report(config: Config) -> (Link, Members) {
    let socket = config.file.cluster.as_ref();
    let endpoint = socket.map(|cluster| Endpoint::Unix(cluster.socket.clone()));
    let link = Link::start(endpoint, "lb-proxy");
    let mut members = Members::new(config);
    if let Some(mut snapshots) = link.reader() {
        let first = snapshots.wait_for(|snapshot| snapshot.generation > 0);
        match tokio::time::timeout(FIRST_REPORT, first).await {
            Ok(_) => members.observe(&link.current(), clock::now()),
            Err(_) => {
                tracing::info!("No report from clusterd yet: the servers are those of the file");
            }
        }
    }
    (link, members)
}

impl ClusterServers {
    /// Keeps the servers of a table that was made from these members.
    #[must_use]
    pub(crate) fn new(
        members: Members,
        cluster: Link,
        health: HealthLink,
        builder: Arc<TableBuilder>,
    ) -> Arc<Self> {
        Arc::new(Self {
            members: Mutex::new(members),
            cluster,
            health,
            builder,
        })
    }

    /// The configuration as it is written.
    #[must_use]
    pub(crate) fn written(&self) -> Config {
        self.members.lock().written.clone()
    }

    /// Takes up another configuration: the table and the targets follow.
    pub(crate) fn adopt(&self, config: Config) {
        let mut members = self.members.lock();
        members.adopt(config);
        // Backends that are new know no node yet.
        if self.cluster.state().is_some_and(|state| state.connected) {
            members.observe(&self.cluster.current(), clock::now());
        }
        self.publish(&members);
    }

    /// Follows clusterd; none where it is not followed.
    #[must_use]
    pub(crate) fn follow(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let mut snapshots = self.cluster.reader()?;
        let mut is_connected = self.cluster.is_connected()?;
        let servers = Arc::clone(self);
        Some(tokio::spawn(async move {
            loop {
                let is_there = *is_connected.shared();
                servers.change(|members| match is_there {
                    true => members.observe(&snapshots.shared(), clock::now()),
                    false => members.lose_sight(),
                });
                let deadline = servers.members.lock().deadline();
                tokio::select! {
                    () = snapshots.changed() => {}
                    () = is_connected.changed() => {}
                    () = until(deadline) => servers.change(|members| members.tick(clock::now())),
                }
            }
        }))
    }

    /// The state of the cluster's nodes; none where it is not followed.
    #[must_use]
    pub(crate) fn status(&self) -> Option<Cluster> {
        let state = self.cluster.state()?;
        Some(Cluster {
            connected: state.connected,
            error: state.error,
            age_seconds: self.cluster.age().map(|age| age.as_secs_f64()),
            generation: self.cluster.current().generation,
            backends: self.members.lock().followed(clock::now()),
        })
    }

    /// Changes the members; the table and the targets follow if the servers are others.
    fn change(&self, change: impl FnOnce(&mut Members)) {
        let mut members = self.members.lock();
        let before = members.lists();
        change(&mut members);
        let after = members.lists();
        if before != after {
            tell(&before, &after);
            self.publish(&members);
        }
    }

    fn publish(&self, members: &Members) {
        let config = members.config();
        self.health.set_targets(config.targets());
        self.builder.adopt(config);
    }
}

type Lists = BTreeMap<Arc<str>, Vec<Member>>;

impl Members {
    fn lists(&self) -> Lists {
        let memberships = self.memberships.iter();
        memberships
            .map(|(backend, membership)| (Arc::clone(backend), membership.members()))
            .collect()
    }
}

/// Says which nodes have joined and left.
fn tell(before: &Lists, after: &Lists) {
    for (backend, members) in after {
        let known = before.get(backend).map_or(&[][..], Vec::as_slice);
        let is_in = |list: &[Member], one: &Member| list.iter().any(|it| it.address == one.address);
        let backend = &**backend;
        for one in members.iter().filter(|one| !is_in(known, one)) {
            let (node, address) = (&one.name, one.address);
            tracing::info!(backend, node, %address, "A node of the cluster has joined");
        }
        for one in known.iter().filter(|one| !is_in(members, one)) {
            let (node, address) = (&one.name, one.address);
            tracing::info!(backend, node, %address, "A node of the cluster has left");
        }
    }
}

/// Waits until a time; for ever without one.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
