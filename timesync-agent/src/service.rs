//! The agent as the life of its process sees it: what is started, in which order, and ended.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use daemon_base::admin::{Reply, Routes};
use daemon_base::config::{Common, Problems};
use daemon_base::readiness::Readiness;
use daemon_base::run::{Context, Service, StartError};
use daemon_base::snapshot::{Cell, Reader};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::health::Health;
use crate::history::History;
use crate::metrics::Scrape;
use crate::page;
use crate::responder::Tables;
use crate::status::{self, Surroundings};
use crate::view::View;
use crate::words;

/// How often what is seen is looked at: people and healthd hear of a change within this.
const LOOK: Duration = Duration::from_millis(250);

/// A running agent.
#[derive(Debug)]
pub struct Timesync {
    views: Arc<Cell<View>>,
    health: Arc<Health>,
    listeners: Vec<String>,
    fixed: Fixed,
    follower: JoinHandle<()>,
}

/// What does not change on a reload.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    node: String,
    corrects_clock: bool,
    health: Option<proto::endpoint::Endpoint>,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        Self {
            node: config.node.clone(),
            corrects_clock: config.corrects_clock,
            health: config.health.clone(),
        }
    }
}

impl Service for Timesync {
    const NAME: &'static str = "timesync-agent";

    type Config = Config;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        warn_all(&config);
        let views = Cell::new(View::default());
        let health = Arc::new(Health::start(config.health.clone(), config.node.clone()));
        let history = Arc::new(Mutex::new(History::default()));
        let tables = Tables::new(config.settings.server.client_log_limit, seeds());
        let scrape = Scrape::new(
            Arc::clone(&views),
            Arc::clone(&tables),
            config.node.clone(),
            config.corrects_clock,
        );
        context.metrics.register_collector(Box::new(scrape));
        add_page(&context.admin, &views, &history);
        let follower = Follower {
            views: Reader::new(Arc::clone(&views)),
            health: Arc::clone(&health),
            history,
            readiness: context.readiness.clone(),
        };
        tracing::info!("Keeping time: {}", config.summary());
        Ok(Self {
            views,
            health,
            listeners: Vec::new(),
            fixed: Fixed::of(&config),
            follower: tokio::spawn(follower.run()),
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        warn_all(&config);
        if self.fixed != Fixed::of(&config) {
            tracing::warn!(
                "The node's name, whether the clock is corrected, and [health] change with the next restart"
            );
        }
        Ok(config.summary())
    }

    fn status(&self) -> Value {
        let around = Surroundings {
            listeners: self.listeners.clone(),
            is_clock_corrected: self.fixed.corrects_clock,
            healthd: self.health.link(),
        };
        status::detail(&self.views.current(), &around)
    }

    async fn drain(self, _deadline: Duration) -> bool {
        self.follower.abort();
        true
    }
}

/// What nobody outside can guess.
fn seeds() -> [u64; 2] {
    // The standard library seeds these hashers from the system.
    [0, 1].map(|number: u64| RandomState::new().hash_one(number))
}

fn warn_all(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!(warning, "Configuration is legal, but odd");
    }
}

/// The page, for a browser.
fn add_page(admin: &Routes, views: &Arc<Cell<View>>, history: &Arc<Mutex<History>>) {
    let (views, history) = (Arc::clone(views), Arc::clone(history));
    admin.get("/", move |_| {
        let history = history.lock().unwrap_or_else(PoisonError::into_inner);
        let page = page::render(&views.current(), &history);
        async move { Reply::html(page) }
    });
}

/// Carries what is seen to those who want to know.
struct Follower {
    views: Reader<View>,
    health: Arc<Health>,
    history: Arc<Mutex<History>>,
    readiness: Readiness,
}

impl Follower {
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.pass_on();
        loop {
            ticks.tick().await;
            if self.views.refresh() {
                self.pass_on();
            }
        }
    }

    fn pass_on(&self) {
        let view = self.views.get();
        self.health.tell(view);
        let reason = (!words::is_ready(view)).then(|| words::summary(view));
        self.readiness.set_unready("clock", reason);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note(view);
    }
}
