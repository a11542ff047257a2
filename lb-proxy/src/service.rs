//! The proxy as the life of its process sees it: what is started, in which order, and ended.

mod sockets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon_base::config::{Common, Problem, Problems};
use daemon_base::exit;
use daemon_base::run::{Context, Service, StartError};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::access_log::Writer;
use crate::config::{Config, lint};
use crate::health::{Link, Passive};
use crate::keeper::Keeper;
use crate::metrics::Scrape;
use crate::relay::{self, Engine};
use crate::routes;
use crate::status::Report;

use sockets::Sockets;

/// A running lb-proxy.
#[derive(Debug)]
pub struct Proxy {
    engine: Arc<Engine>,
    keeper: Arc<Keeper>,
    link: Link,
    log: Writer,
    sockets: Sockets,
    fixed: Fixed,
    tasks: Vec<JoinHandle<()>>,
}

/// What does not change on a reload.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    workers: usize,
    max_connections: Option<u64>,
    health: Option<proto::endpoint::Endpoint>,
    swap: Option<std::path::PathBuf>,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        Self {
            workers: config.workers,
            max_connections: config.max_connections,
            health: config.health.clone(),
            swap: config.swap.clone(),
        }
    }
}

impl Service for Proxy {
    const NAME: &'static str = "lb-proxy";
    type Config = Config;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        warn_all(&config);
        let mut sockets = Sockets::new(&config);
        let listeners = sockets.open(&config, &mut context.inherited)?;
        let log = Writer::start(&config.access_log).map_err(|error| {
            StartError::io(
                format_args!("access log to {}", config.access_log.target),
                &error,
            )
        })?;
        let link = Link::start(config.health.clone(), Self::NAME, config.targets());
        let snapshot = link.first_word().await;
        let fixed = Fixed::of(&config);
        let summary = config.summary();
        let options = relay::Options {
            workers: config.workers,
            max_connections: config.max_connections,
        };
        let keeper = Keeper::new(config, snapshot, secret());
        let passive = Arc::new(Passive::new(&link, keeper.targets()));
        let engine = Engine::start(listeners, keeper.cell(), log.log(), passive, options)
            .map_err(|error| StartError::io("the data path does not start", &error))?;
        let mut proxy = Self {
            engine: Arc::new(engine),
            keeper,
            link,
            log,
            sockets,
            fixed,
            tasks: Vec::new(),
        };
        proxy.follow(context);
        proxy.show(context);
        for (frontend, address) in proxy.engine.listening() {
            tracing::info!(frontend = &*frontend, %address, "Listening");
        }
        tracing::info!("Balancing: {summary}");
        Ok(proxy)
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        warn_all(&config);
        if self.fixed != Fixed::of(&config) {
            tracing::warn!(
                "Workers, max-connections, [health] and [swap] change with the next restart"
            );
        }
        let before = self.keeper.view().config.clone();
        let summary = config.summary();
        let wanted = self.sockets.wanted(&config, &self.engine.listening());
        let options = Sockets::options(&config);
        let settings = config.access_log.clone();
        let targets = config.targets();
        // First the table, so that a listener never accepts for a frontend that is not in it.
        self.keeper.adopt(config);
        self.engine.notice();
        if let Err(error) = self.engine.set_listeners(&wanted, options) {
            if let Some(before) = before {
                self.keeper.adopt((*before).clone());
                self.engine.notice();
            }
            return Err(Problem::new(exit::chain(&error)).into());
        }
        self.link.set_targets(targets);
        if let Err(error) = self.log.log().configure(&settings) {
            tracing::error!(target = %settings.target, %error, "The access log stays as it was");
        }
        Ok(summary)
    }

    fn status(&self) -> Value {
        self.report().value()
    }

    async fn drain(self, deadline: Duration) -> bool {
        let begun = now();
        for task in &self.tasks {
            task.abort();
        }
        let engine = Arc::clone(&self.engine);
        let left = deadline.saturating_sub(begun.elapsed());
        let drained = tokio::task::spawn_blocking(move || engine.drain(left)).await;
        let sessions = self
            .engine
            .counters()
            .sessions
            .load(std::sync::atomic::Ordering::Relaxed);
        if sessions > 0 {
            tracing::warn!(sessions, "Sessions are reset: they did not end in time");
        }
        let (engine, log) = (self.engine, self.log);
        let ended = tokio::task::spawn_blocking(move || {
            drop(engine);
            log.close();
        });
        ended.await.is_ok() && drained.unwrap_or(false)
    }
}

impl Proxy {
    fn report(&self) -> Report {
        Report {
            engine: Arc::clone(&self.engine),
            view: self.keeper.view(),
            link: self.link.clone(),
        }
    }

    /// Keeps what depends on the table up to date.
    fn follow(&mut self, context: &Context) {
        self.tasks
            .extend(self.link.follow(Arc::clone(&self.keeper)));
        let engine = Arc::clone(&self.engine);
        let readiness = context.readiness.clone();
        let mut views = self.keeper.subscribe();
        self.tasks.push(tokio::spawn(async move {
            let mut told = Vec::new();
            loop {
                let view = Arc::clone(&views.borrow_and_update());
                engine.notice();
                let unable: Vec<Arc<str>> = view
                    .abilities
                    .iter()
                    .filter(|(name, able)| !**able && name.starts_with("frontend:"))
                    .map(|(name, _)| Arc::clone(name))
                    .collect();
                for gone in told.iter().filter(|name| !unable.contains(name)) {
                    readiness.set_reason(&**gone, None);
                }
                for name in &unable {
                    let reason = format!("{}: no server may be chosen", name.replace(':', " "));
                    readiness.set_reason(&**name, Some(reason));
                }
                told = unable;
                if views.changed().await.is_err() {
                    return;
                }
            }
        }));
    }

    /// Adds metrics, heartbeats and paths to what the admin listener shows.
    fn show(&self, context: &Context) {
        context.progress.register_all(self.engine.heartbeats());
        context.metrics.register_collector(Box::new(Scrape {
            engine: Arc::clone(&self.engine),
            keeper: Arc::clone(&self.keeper),
            link: self.link.clone(),
            log: self.log.log(),
        }));
        routes::add(&context.admin, &self.engine, &self.keeper);
    }
}

fn warn_all(config: &Config) {
    for warning in config
        .warnings
        .iter()
        .chain(&lint::host(config, &lint::Host::look()))
    {
        tracing::warn!("{warning}");
    }
}

/// A number that nobody outside can guess.
fn secret() -> u64 {
    let mut octets = [0; 8];
    // Before the kernel has gathered randomness there is nobody to guess either.
    let _n = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(octets)
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
