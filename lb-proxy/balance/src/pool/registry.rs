//! The state that outlives a snapshot, by name.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use config::lb_proxy as file;

use super::maglev::Member;
use super::{Algorithm, Eligibility, Load, MAX_SERVERS, MAX_WEIGHT, Maglev, Pool, Server, Tier};
use crate::queue::Queue;

/// Makes snapshots of pools, and keeps what successive ones share.
///
/// Holds nothing that neither a snapshot nor a session uses, once [swept](Self::sweep).
#[derive(Debug, Default)]
pub struct Registry {
    pools: HashMap<Arc<str>, Shared>,
    /// The last server's.
    id: u32,
}

/// The settings of one pool.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name.
    pub name: Arc<str>,
    /// How a server is chosen.
    pub algorithm: Algorithm,
    /// With no server up, choose among those that are down.
    pub fail_open: bool,
    /// Choose among all backup servers, not the first alone.
    pub all_backups: bool,
    /// How many connections may wait for a server with room.
    pub queue: u32,
    /// Its servers.
    pub servers: Vec<ServerSettings>,
}

/// The settings of one server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its name, which no other of the pool has.
    pub name: Arc<str>,
    /// Its address.
    pub address: SocketAddr,
    /// Its share of connections, from 0 to [`MAX_WEIGHT`].
    pub weight: u16,
    /// Chosen only when no other server is up.
    pub backup: bool,
    /// Sessions at a time.
    pub max_connections: Option<u32>,
    /// How long it takes to its whole weight and limit once it is back.
    pub slow_start: Duration,
    /// Whether it may be chosen.
    pub eligibility: Eligibility,
    /// Its eligibility is what probes find now.
    pub is_probed: bool,
}

impl Settings {
    /// A pool without servers, everything at its default.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            algorithm: Algorithm::default(),
            fail_open: false,
            all_backups: false,
            queue: file::Backend::new("").queue,
            servers: Vec::new(),
        }
    }
}

impl ServerSettings {
    /// A server that is up, everything at its default.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, address: SocketAddr) -> Self {
        Self {
            name: name.into(),
            address,
            weight: file::Server::new("", address).weight.get(),
            backup: false,
            max_connections: None,
            slow_start: Duration::ZERO,
            eligibility: Eligibility::Up { since: None },
            is_probed: false,
        }
    }
}

/// The parts that the snapshots of one pool share.
#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    turn: Arc<Turn>,
    loads: HashMap<Arc<str>, Arc<Load>>,
    /// The tables of the last snapshot, which stay while names and weights do.
    tables: Vec<(Vec<Member>, Arc<Maglev>)>,
}

/// The turn, and how many choices there were.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The turn of a round robin that comes next.
    pub(super) next: AtomicU64,
    /// Choices by least connections.
    pub(super) choices: AtomicU64,
}

impl Registry {
    /// A registry that keeps nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A snapshot of the pool that `settings` describe. Loads, turn and waiting line are those of the
    /// snapshot before.
    ///
    /// Linear in the servers, but for the turns of a round robin (servers × turns, a millisecond for
    /// a hundred servers) and for a source table when names or weights have changed (a few
    /// milliseconds).
    pub fn pool(&mut self, settings: Settings) -> Arc<Pool> {
        let kept = self
            .pools
            .entry(Arc::clone(&settings.name))
            .or_insert_with(|| Shared::new(settings.queue));
        kept.queue.set_limit(settings.queue);
        let id = &mut self.id;
        let servers: Vec<Arc<Server>> = settings
            .servers
            .into_iter()
            .map(|server| Arc::new(kept.server(server, id)))
            .collect();
        let tiers = kept.tiers(&servers, &settings.algorithm, settings.fail_open);
        let slow_until = servers
            .iter()
            .filter_map(|server| server.slow_until())
            .max();
        Arc::new(Pool {
            name: settings.name,
            servers,
            algorithm: settings.algorithm,
            fail_open: settings.fail_open,
            all_backups: settings.all_backups,
            queue: Arc::clone(&kept.queue),
            tiers,
            turn: Arc::clone(&kept.turn),
            slow_until,
        })
    }

    /// The load of a server that is known, also of one that is no longer configured but has sessions.
    #[must_use]
    pub fn load(&self, pool: &str, server: &str) -> Option<&Arc<Load>> {
        self.pools.get(pool)?.loads.get(server)
    }

    /// Forgets what no snapshot and no session uses. Call it once old snapshots are gone, at the
    /// next change at the latest.
    pub fn sweep(&mut self) {
        self.pools.retain(|_, kept| {
            kept.loads.retain(|_, load| Arc::strong_count(load) > 1);
            !kept.loads.is_empty() || Arc::strong_count(&kept.queue) > 1
        });
    }
}

impl Shared {
    fn new(limit: u32) -> Self {
        Self {
            queue: Arc::new(Queue::new(limit)),
            turn: Arc::default(),
            loads: HashMap::new(),
            tables: Vec::new(),
        }
    }

    fn server(&mut self, settings: ServerSettings, id: &mut u32) -> Server {
        let queue = &self.queue;
        let load = self
            .loads
            .entry(Arc::clone(&settings.name))
            .or_insert_with(|| {
                // Zero stands for no server.
                *id = id.wrapping_add(1).max(1);
                Arc::new(Load::new(*id, Arc::clone(queue)))
            });
        Server {
            load: Arc::clone(load),
            name: settings.name,
            address: settings.address,
            weight: settings.weight.min(MAX_WEIGHT),
            backup: settings.backup,
            max_connections: settings.max_connections,
            slow_start: settings.slow_start,
            eligibility: settings.eligibility,
            is_probed: settings.is_probed,
        }
    }

    /// Groups of servers to choose from, the best first.
    fn tiers(
        &mut self,
        servers: &[Arc<Server>],
        algorithm: &Algorithm,
        fail_open: bool,
    ) -> Vec<Tier> {
        let mut old = std::mem::take(&mut self.tables);
        let anybody_up = servers
            .iter()
            .any(|server| server.eligibility.is_up() && server.weight > 0);
        let mut tiers = Vec::with_capacity(2);
        for backup in [false, true] {
            let of_tier = |server: &&Server| server.backup == backup && server.weight > 0;
            let may_be_chosen = |server: &Server| match server.eligibility {
                Eligibility::Up { .. } => true,
                Eligibility::Down => fail_open && !anybody_up,
                Eligibility::Drain | Eligibility::Maintenance => false,
            };
            let all: Vec<(u16, &Server)> = (0..)
                .zip(servers.iter().take(MAX_SERVERS))
                .map(|(index, server)| (index, &**server))
                .filter(|(_, server)| of_tier(server))
                .collect();
            let members: Vec<(u16, u16)> = all
                .iter()
                .filter(|(_, server)| may_be_chosen(server))
                .map(|(index, server)| (*index, server.weight))
                .collect();
            if *algorithm == Algorithm::Source {
                // Everybody is in the table, so that it does not change when one fails.
                let table = self.table(&mut old, &all);
                if !members.is_empty() {
                    tiers.push(Tier::new(backup, &members, table, servers.len()));
                }
            } else if !members.is_empty() {
                tiers.push(Tier::new(backup, &members, None, servers.len()));
            }
        }
        tiers
    }

    fn table(
        &mut self,
        old: &mut Vec<(Vec<Member>, Arc<Maglev>)>,
        servers: &[(u16, &Server)],
    ) -> Option<Arc<Maglev>> {
        let members: Vec<Member> = servers
            .iter()
            .map(|(index, server)| Member {
                name: Arc::clone(&server.name),
                weight: server.weight,
                index: *index,
            })
            .collect();
        let (members, table) = match old.iter().position(|(known, _)| *known == members) {
            Some(at) => old.swap_remove(at),
            None => {
                let table = Arc::new(Maglev::new(&members)?);
                (members, table)
            }
        };
        self.tables.push((members, Arc::clone(&table)));
        Some(table)
    }
}
