//! The nodes of the cluster that join backends and leave them, and the Services that have an address of a pool.
//!
//! ```text
//! configuration ─┐
//! clusterd ──────┼─► membership of each backend ─┬─► configuration with what was learned ─► table, targets, places
//!                └─► services ───────────────────┘
//! ```
//!
//! `cluster_members` decides which nodes join, `services` makes what serves Services. While clusterd is away, all stays as it is.

mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::config::lb_proxy::{Follow, Resolvers, Server as ServerSpec};
use api::lb_proxy::{Cluster, Followed, HeldLoss, Origin, RefusedNode, RefusedService, Resolving};
use cluster_members::{Bounds, Member, Membership, Written};
use daemon::clock;
use ipnet::IpNet;
use kept_names::AnswersFile;
use name_lookup::Counts;
use parking_lot::Mutex;
use proto::cluster::Snapshot;
use proto::cluster::link::Link;
use proto::endpoint::Endpoint;
use proto::link::Link as HealthLink;
use server_names::message::Question;
use server_names::names::Names;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{Backend, Config, Frontend, server};
use crate::names;
use crate::table_builder::TableBuilder;
use services::Learned;

/// How long a start waits for the first report of clusterd, so that decisions of operators about nodes that have joined find them.
/// clusterd is on this node and answers within milliseconds; without it the servers are those of the configuration.
const FIRST_REPORT: Duration = Duration::from_millis(500);

/// The configuration, and the members of its backends.
#[derive(Debug)]
pub(crate) struct Members {
    written: Config,
    memberships: BTreeMap<Arc<str>, Membership>,
    /// The name of this node in the cluster.
    node: String,
    /// The last snapshot: another configuration serves other Services of it.
    seen: Snapshot,
    learned: Learned,
    /// Frontends of Services whose places something else has.
    unbound: BTreeSet<Arc<str>>,
    /// The servers that have DNS names.
    names: Names,
}

impl Members {
    /// Begins with the servers that are written.
    #[must_use]
    pub(crate) fn new(config: Config) -> Self {
        let named = config.file.cluster.as_ref().and_then(|it| it.node.clone());
        let host = || {
            let names = rustix::system::uname();
            names.nodename().to_string_lossy().into_owned()
        };
        let mut members = Self {
            names: names::names(&config),
            written: config.clone(),
            memberships: BTreeMap::new(),
            node: named.unwrap_or_else(host),
            seen: Snapshot::default(),
            learned: Learned::default(),
            unbound: BTreeSet::new(),
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
        let resolvers = name_lookup::settings(&config.file.resolvers);
        self.names
            .adopt(resolvers, names::entries(&config), clock::now());
        self.written = config;
        self.learned = services::learn(&self.written, &self.seen, &self.node);
    }

    /// Takes up a snapshot of the cluster.
    pub(crate) fn observe(&mut self, snapshot: &Snapshot, now: Instant) {
        for membership in self.memberships.values_mut() {
            membership.observe(snapshot, now);
        }
        self.seen = snapshot.clone();
        self.learned = services::learn(&self.written, &self.seen, &self.node);
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
                let mut server = server((name, address), &joined, spec, backend.check.as_ref());
                server.origin = Some(origin(member));
                server.is_cordoned = member.drains;
                backend.servers.push(server);
            }
        }
        for (backend, spec) in config.backends.iter_mut().zip(&self.written.file.backend) {
            names::join(backend, spec, &self.names);
        }
        self.learned.clone().add_to(&mut config, &self.unbound);
        config
    }

    /// Leaves out the frontends of Services that are not bound yet.
    pub(crate) fn leave_out(&mut self, is_new: impl Fn(&Frontend) -> bool) {
        let frontends = self.learned.frontends.iter();
        let new = frontends.filter(|frontend| is_new(frontend));
        self.unbound = new.map(|frontend| Arc::clone(&frontend.name)).collect();
    }

    /// The Services that are not served, with the reasons.
    fn refused_services(&self) -> Vec<RefusedService> {
        let refused = self.learned.refused.iter();
        let refused = refused.map(|(service, why)| (service.clone(), why.clone()));
        let unbound = self.unbound.iter().map(|name| {
            let why = "its place cannot be listened on: something else has it";
            (name.to_string(), why.to_owned())
        });
        let all = refused.chain(unbound);
        all.map(|(service, why)| RefusedService { service, why })
            .collect()
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
    /// Frontends, addresses or their tracked backends are others.
    places: Arc<Notify>,
    /// Names of servers are others.
    names: Notify,
    kept: AnswersFile,
    lookups: Counts,
}

/// The link to clusterd, and the members as it has reported them and as names are resolved; waits for the first report and the
/// first answers, but not long.
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
    kept_names::restore(&members.written.file.state, &mut members.names);
    name_lookup::first_answers(&mut members.names, &members.written.file.resolvers).await;
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
        let kept = AnswersFile::new(&members.written.file.state);
        kept.keep(members.names.kept());
        Arc::new(Self {
            kept,
            members: Mutex::new(members),
            cluster,
            health,
            builder,
            places: Arc::default(),
            names: Notify::new(),
            lookups: Counts::default(),
        })
    }

    /// Waits until places or addresses of Services are others.
    pub(crate) async fn places_change(&self) {
        self.places.notified().await;
    }

    /// The configuration with everything that was learned.
    #[must_use]
    pub(crate) fn whole(&self) -> Config {
        self.members.lock().config()
    }

    /// A configuration with everything that was learned.
    #[must_use]
    pub(crate) fn whole_of(&self, config: Config) -> Config {
        let members = self.members.lock();
        let learned = services::learn(&config, &members.seen, &members.node);
        let mut whole = config;
        learned.add_to(&mut whole, &members.unbound);
        whole
    }

    /// Leaves out frontends of Services whose places something else has; returns whether these are others than before.
    pub(crate) fn set_unbound(&self, unbound: BTreeSet<Arc<str>>) -> bool {
        let mut members = self.members.lock();
        if members.unbound == unbound {
            return false;
        }
        for frontend in unbound.difference(&members.unbound) {
            let frontend = &**frontend;
            tracing::warn!(
                frontend,
                "A Service is not served: its place cannot be listened on"
            );
        }
        members.unbound = unbound;
        self.publish(&members);
        true
    }

    /// Whether any Service of the cluster is served.
    #[must_use]
    pub(crate) fn serves_any(&self) -> bool {
        !self.members.lock().learned.services.is_empty()
    }

    /// Whether the place of a Service could not be listened on.
    #[must_use]
    pub(crate) fn has_unbound(&self) -> bool {
        !self.members.lock().unbound.is_empty()
    }

    /// The frontends of Services.
    #[must_use]
    pub(crate) fn learned_frontends(&self) -> Vec<Frontend> {
        self.members.lock().learned.frontends.clone()
    }

    /// The configuration as it is written.
    #[must_use]
    pub(crate) fn written(&self) -> Config {
        self.members.lock().written.clone()
    }

    /// The names of another configuration, with what is known of them and with first answers for the others.
    pub(crate) async fn resolved(&self, config: &Config) -> Names {
        let mut names = self.members.lock().names.clone();
        let resolvers = &config.file.resolvers;
        names.give_up();
        names.adopt(
            name_lookup::settings(resolvers),
            names::entries(config),
            clock::now(),
        );
        name_lookup::first_answers(&mut names, resolvers).await;
        names
    }

    /// Takes up another configuration, with its names if they have been resolved: the table and the targets follow.
    pub(crate) fn adopt(&self, config: Config, names: Option<Names>) {
        let mut members = self.members.lock();
        if let Some(names) = names {
            members.names = names;
        }
        members.adopt(config);
        self.names.notify_one();
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

    /// Follows the names of servers.
    #[must_use]
    pub(crate) fn follow_names(self: &Arc<Self>) -> JoinHandle<()> {
        let servers = Arc::clone(self);
        tokio::spawn(async move {
            let mut lookups = JoinSet::new();
            loop {
                let (due, deadline, resolvers) = servers.due();
                for question in due {
                    lookups.spawn(name_lookup::look_up(Arc::clone(&resolvers), question));
                }
                tokio::select! {
                    Some(found) = lookups.join_next() => {
                        let Ok((question, outcome)) = found else { continue };
                        servers.lookups.note(&outcome);
                        servers.change_names(|names| names.take(&question, outcome, clock::now()));
                    }
                    () = until(deadline) => servers.change_names(|names| names.tick(clock::now())),
                    () = servers.names.notified() => {}
                }
            }
        })
    }

    /// The questions to ask now, when there is something to do next, and the resolvers.
    fn due(&self) -> (Vec<Question>, Option<Instant>, Arc<Resolvers>) {
        let mut members = self.members.lock();
        let due = members.names.due(clock::now());
        let resolvers = match due.is_empty() {
            true => Arc::default(),
            false => Arc::new(members.written.file.resolvers.clone()),
        };
        (due, members.names.deadline(), resolvers)
    }

    /// Changes what is known of names; the table and the targets follow if the servers are others.
    fn change_names(&self, change: impl FnOnce(&mut Names) -> bool) {
        let mut members = self.members.lock();
        let before = members.names.all();
        if change(&mut members.names) {
            name_lookup::tell(&before, &members.names.all());
            self.publish(&members);
        }
    }

    /// The names of servers; none where there are none.
    #[must_use]
    pub(crate) fn resolving(&self) -> Option<Resolving> {
        let members = self.members.lock();
        name_lookup::status(&members.names, &members.written.file.resolvers)
    }

    /// The lookups of names since the start.
    pub(crate) const fn lookups(&self) -> &Counts {
        &self.lookups
    }

    /// The state of the cluster's nodes; none where it is not followed.
    #[must_use]
    pub(crate) fn status(&self) -> Option<Cluster> {
        let state = self.cluster.state()?;
        let members = self.members.lock();
        Some(Cluster {
            connected: state.connected,
            error: state.error,
            age_seconds: self.cluster.age().map(|age| age.as_secs_f64()),
            generation: self.cluster.current().generation,
            backends: members.followed(clock::now()),
            refused_services: members.refused_services(),
        })
    }

    /// Changes the members; the table and the targets follow if the servers are others.
    fn change(&self, change: impl FnOnce(&mut Members)) {
        let mut members = self.members.lock();
        let (before, served) = (members.lists(), members.learned.clone());
        change(&mut members);
        let after = members.lists();
        let is_served_alike = members.learned.is_like(&served);
        if before != after {
            tell(&before, &after);
        }
        if before != after || !is_served_alike {
            self.publish(&members);
        }
        if !is_served_alike {
            tell_served(&served, &members.learned);
            self.places.notify_one();
        }
    }

    fn publish(&self, members: &Members) {
        let config = members.config();
        self.health.set_targets(config.targets());
        self.builder.adopt(config);
        self.kept.keep(members.names.kept());
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

/// Says which Services are served and which are not any more.
fn tell_served(before: &Learned, after: &Learned) {
    let has = |list: &Learned, one: &crate::config::Service| {
        let mut services = list.services.iter();
        services.any(|it| it.name == one.name && it.addresses == one.addresses)
    };
    for one in after.services.iter().filter(|one| !has(before, one)) {
        let (service, addresses) = (&*one.name, &one.addresses);
        tracing::info!(service, ?addresses, "A Service of the cluster is served");
    }
    for one in before.services.iter().filter(|one| !has(after, one)) {
        let (service, addresses) = (&*one.name, &one.addresses);
        tracing::info!(
            service,
            ?addresses,
            "A Service of the cluster is not served any more"
        );
    }
    for (service, why) in after
        .refused
        .iter()
        .filter(|it| !before.refused.contains(it))
    {
        tracing::warn!(service, why, "A Service of the cluster is not served");
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
