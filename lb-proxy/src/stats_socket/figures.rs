//! The proxy as HAProxy's commands show it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use balance::pool::{self, Algorithm, Eligibility};
use balance::table::FrontendTally;
use daemon::args::{PACKAGE_VERSION, VERSION};
use daemon::clock;
use daemon::life::State;
use haproxy_cli::{
    Backend, Check, Command, Figures, Finding, Frontend, Process, Proxy, Server, ServerState,
    Session,
};
use l4::relay::{Filter, SessionInfo};
use proto::health::{Liveness, TargetKind};
use rustix::process::{Resource, getrlimit};

use super::Subject;
use crate::config::{self, Config, Protocol};
use crate::server_state::Verdict;
use crate::table_builder::View;

/// The number of the first proxy: HAProxy counts itself as 1.
const FIRST: u32 = 2;

/// The most sessions that a command lists.
const MOST_SESSIONS: usize = 10_000;

impl Subject {
    /// The figures of the moment, with sessions if the command needs them.
    pub(super) async fn figures(&self, command: &Command) -> Figures {
        let view = self.builder.view();
        let sessions = match command.lists_sessions() {
            true => self.sessions(command.session()).await,
            false => Vec::new(),
        };
        Figures {
            process: self.process(&view),
            proxies: proxies(&view, clock::now()),
            sessions,
            sockets: self
                .board
                .sockets()
                .map(|(path, level, _)| (path, level))
                .collect(),
        }
    }

    /// Open sessions, or the one of this number; the workers answer, which takes them a moment.
    async fn sessions(&self, id: Option<u64>) -> Vec<Session> {
        let engine = Arc::clone(&self.engine);
        let listed = tokio::task::spawn_blocking(move || {
            let wanted = Filter {
                id,
                ..Filter::all()
            };
            let mut sessions = engine.sessions(&wanted);
            sessions.sort_by_key(|session| session.id);
            sessions.truncate(MOST_SESSIONS);
            sessions.iter().map(session).collect()
        });
        listed.await.unwrap_or_default()
    }

    fn process(&self, view: &View) -> Process {
        let counters = self.engine.counters();
        let uptime = clock::now().saturating_duration_since(self.started);
        let threads = view.config.as_deref().map_or(1, Config::workers);
        let frontends = view.table.frontends.iter();
        Process {
            name: "lb-proxy".to_owned(),
            version: PACKAGE_VERSION.to_owned(),
            release_date: build_date(),
            threads: number(threads),
            pid: std::process::id().into(),
            uptime,
            started: clock::since_1970().saturating_sub(uptime).as_secs(),
            descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            most_sessions: self.engine.most_sessions(),
            sessions: load(&counters.sessions),
            accepted: load(&counters.accepted),
            most_pipes: self.engine.most_pipes(),
            pipes: load(&counters.pipes),
            node: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            is_stopping: self.life.state() == State::Draining,
            listeners: number(self.engine.listening().len()),
            dropped_logs: self.log.dropped(),
            bytes_out: frontends
                .map(|frontend| load(&frontend.tally.bytes_out))
                .sum(),
            spliced_bytes: load(&counters.spliced_bytes),
        }
    }
}

/// The day of the build, as HAProxy writes it.
fn build_date() -> String {
    let date = VERSION.split_once("built ").map_or("", |(_, date)| date);
    date.trim_end_matches(')').replace('-', "/")
}

/// Frontends in the order of the file, each with the backend of its name; then the other backends.
fn proxies(view: &View, now: Instant) -> Vec<Proxy> {
    let Some(config) = view.config.as_deref() else {
        return Vec::new();
    };
    let datagrams: BTreeSet<&str> = config
        .frontends
        .iter()
        .filter(|frontend| frontend.protocol == Protocol::Udp)
        .flat_map(config::Frontend::backends)
        .map(|name| &**name)
        .collect();
    let mode = |is_datagrams: bool| if is_datagrams { "udp" } else { "tcp" };
    let mut proxies = Vec::new();
    let mut id = FIRST;
    let mut next_id = || {
        let this = id;
        id += 1;
        this
    };
    for frontend in &config.frontends {
        proxies.push(Proxy {
            id: next_id(),
            name: frontend.name.to_string(),
            mode: mode(frontend.protocol == Protocol::Udp),
            frontend: Some(self::frontend(frontend, view)),
            backend: backend(&frontend.name, view, config, now),
        });
    }
    for known in &config.backends {
        if config
            .frontends
            .iter()
            .any(|frontend| frontend.name == known.name)
        {
            continue;
        }
        proxies.push(Proxy {
            id: next_id(),
            name: known.name.to_string(),
            mode: mode(datagrams.contains(&*known.name)),
            frontend: None,
            backend: backend(&known.name, view, config, now),
        });
    }
    proxies
}

fn frontend(frontend: &config::Frontend, view: &View) -> Frontend {
    // The kernel's own are in no table, and count nothing here.
    let counted = |of: fn(&FrontendTally) -> u64| {
        let known = view.table.frontend(&frontend.name);
        known.map_or(0, |known| of(&known.tally))
    };
    Frontend {
        sessions: counted(|tally| load(&tally.sessions)),
        most_sessions: counted(|tally| load(&tally.most_sessions)),
        limit: frontend.max_connections.map(u64::from),
        total: counted(|tally| load(&tally.total)),
        denied: counted(|tally| load(&tally.denied).saturating_add(load(&tally.limited))),
        rejected: counted(|tally| load(&tally.rejected)),
        bytes_in: counted(|tally| load(&tally.bytes_in)),
        bytes_out: counted(|tally| load(&tally.bytes_out)),
    }
}

fn backend(name: &str, view: &View, config: &Config, now: Instant) -> Option<Backend> {
    let pool = &view.table.backend(name)?.pool;
    let history = view.backends.get(name);
    let servers = (1..).zip(&pool.servers);
    Some(Backend {
        algorithm: match pool.algorithm {
            Algorithm::RoundRobin => "roundrobin",
            Algorithm::LeastConnections => "leastconn",
            Algorithm::RandomOfTwo => "random",
            Algorithm::Source => "source",
        },
        is_up: pool.n_usable() > 0,
        changed: since(history.map(|history| history.since), now),
        downs: history.map_or(0, |history| history.n_downs),
        downtime: history.map_or(Duration::ZERO, |history| history.downtime(now)),
        queued: pool.queue.waiting().into(),
        most_queued: pool.queue.most_waiting().into(),
        servers: servers
            .map(|(id, server)| self::server(id, name, server, (view, config), now))
            .collect(),
    })
}

fn server(
    id: u32,
    backend: &str,
    server: &pool::Server,
    (view, config): (&View, &Config),
    now: Instant,
) -> Server {
    let key = (Arc::from(backend), Arc::clone(&server.name));
    let history = view.histories.get(&key);
    let configured = config.server(backend, &server.name);
    let state = match history.map(|history| history.verdict) {
        None | Some(Verdict::Up) => ServerState::Up,
        Some(Verdict::Drain) => ServerState::Drain,
        Some(Verdict::Maintenance) => ServerState::Maintenance,
        Some(Verdict::Down) => ServerState::Down,
    };
    let has_decision = view
        .overrides
        .get(&key)
        .is_some_and(|said| said.state.is_some());
    let tally = &server.load.tally;
    let target = configured.and_then(|server| server.target.as_ref());
    Server {
        id,
        name: server.name.to_string(),
        address: server.address.ip().to_string(),
        port: server.address.port(),
        state,
        is_configured: configured.is_some_and(|server| server.maintenance) && !has_decision,
        weight: server.weight,
        initial_weight: configured.map_or(server.weight, |server| server.weight),
        throttle: throttle(server, now),
        is_backup: server.backup,
        limit: server.max_connections,
        sessions: server.load.sessions().into(),
        most_sessions: server.load.most_sessions().into(),
        total: server.load.total(),
        bytes_in: load(&tally.bytes_in),
        bytes_out: load(&tally.bytes_out),
        connects: load(&tally.connects),
        connect_time: Duration::from_micros(load(&tally.connect_microseconds)),
        connect_errors: load(&tally.connect_errors),
        retries: load(&tally.retries),
        redispatches: load(&tally.redispatches),
        client_aborts: load(&tally.client_aborts),
        server_aborts: load(&tally.server_aborts),
        changed: since(history.map(|history| history.since), now),
        check: target.map(|target| {
            let status = view.snapshot.watched(target);
            Check {
                connects_only: target.target.kind == TargetKind::Tcp,
                finding: match status.map(|status| status.liveness) {
                    Some(Liveness::Up) => Finding::Up,
                    Some(Liveness::Down) => Finding::Down,
                    Some(Liveness::Unknown) | None => Finding::Unknown,
                },
                reason: status.map_or_else(String::new, |status| status.reason.clone()),
                latency: status.map_or(Duration::ZERO, |status| status.latency),
                downs: history.map_or(0, |history| history.n_downs),
                downtime: history.map_or(Duration::ZERO, |history| history.downtime(now)),
            }
        }),
    }
}

/// The share of its weight that a server has during its slow start, in percent.
fn throttle(server: &pool::Server, now: Instant) -> Option<u8> {
    let Eligibility::Up { since: Some(since) } = server.eligibility else {
        return None;
    };
    let passed = now
        .saturating_duration_since(since)
        .as_millis()
        .saturating_mul(100);
    let percent = passed.checked_div(server.slow_start.as_millis())?;
    u8::try_from(percent).ok().filter(|percent| *percent < 100)
}

fn session(session: &SessionInfo) -> Session {
    Session {
        id: session.id,
        client: session.client,
        local: session.local,
        frontend: session.frontend.to_string(),
        backend: session.backend.as_deref().map(str::to_owned),
        server: session.server.as_deref().map(str::to_owned),
        server_address: session.server_address,
        state: session.state.as_str(),
        age: session.age,
        bytes_in: session.bytes_in,
        bytes_out: session.bytes_out,
    }
}

fn since(then: Option<Instant>, now: Instant) -> Duration {
    then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
}

fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
