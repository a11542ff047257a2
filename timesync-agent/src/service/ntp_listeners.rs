//! The NTP listeners: sockets and threads, from the start or once a client is allowed.
//!
//! Each address has one socket and one thread at first. When they cannot keep up, it gets another of both, as many as `threads`
//! allows. Sockets that were handed over get more threads, not more sockets.
//!
//! Open sockets stay open after the last client is denied; requests then get no answer.

use parking_lot::{Mutex, MutexGuard};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use daemon::cores;
use daemon::listen::Inherited;
use daemon::metrics::Metrics;
use daemon::run::{Context, Progress, StartError};
use daemon::udp;

use super::{policy, sockets};
use crate::config::Config;
use crate::server::{AnswerData, Server};
use ntp::keys::KeyRing;
use random::Random;
use time_model::settings::{ServerSettings, Settings};

/// Threads that are added have this long to show what they are worth, before there are more.
const SETTLING: Duration = Duration::from_millis(100);

/// How more threads are made.
struct Growth {
    settings: ServerSettings,
    /// Sockets that were handed over. Another program has made them, and may not share their addresses.
    shared: Vec<UdpSocket>,
    /// More threads that each address may get.
    left: usize,
}

/// Sockets, and threads that answer there.
pub(super) struct NtpListeners {
    supply: AnswerData,
    precision: i8,
    /// The largest number of sockets for each address, one for each thread; none if the poll loop answers.
    threads: Option<usize>,
    progress: Progress,
    metrics: Metrics,
    held: Mutex<Held>,
}

struct Held {
    random: Random,
    server: Option<Server>,
    growth: Option<Growth>,
    listeners: Vec<String>,
}

impl std::fmt::Debug for NtpListeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NtpListeners").finish_non_exhaustive()
    }
}

impl NtpListeners {
    /// Nothing is open yet.
    pub(super) fn new(
        config: &Config,
        context: &Context,
        supply: AnswerData,
        precision: i8,
        random: Random,
    ) -> Arc<Self> {
        let cores = cores::usable();
        Arc::new(Self {
            supply,
            precision,
            threads: config
                .file
                .batch
                .then(|| config.file.threads.unwrap_or(cores)),
            progress: context.progress.clone(),
            metrics: context.metrics.clone(),
            held: Mutex::new(Held {
                random,
                server: None,
                growth: None,
                listeners: Vec::new(),
            }),
        })
    }

    /// Opens what the settings ask for, or takes up what was handed over. Gives back what the poll loop has to serve itself.
    pub(super) fn open(
        &self,
        inherited: &mut Inherited,
        settings: &ServerSettings,
    ) -> Result<Vec<UdpSocket>, StartError> {
        let Some(threads) = self.threads else {
            let sockets = sockets::handed_over(inherited)?;
            self.held().listeners = sockets::names(&sockets);
            return Ok(sockets);
        };
        let handed_over = sockets::handed_over(inherited)?;
        let shared = clones(&handed_over)?;
        let sockets = if shared.is_empty() {
            sockets::open(settings)?
        } else {
            sockets::bind_devices(&handed_over, settings)?;
            handed_over
        };
        if sockets.is_empty() {
            return Ok(Vec::new());
        }
        let mut held = self.held();
        held.listeners = sockets::names(&sockets);
        let at_once = sockets.len();
        let server = Server::start(sockets, at_once, &self.supply, &mut held.random)?;
        held.growth = Some(Growth {
            settings: settings.clone(),
            shared,
            left: threads.saturating_sub(1),
        });
        self.progress.register_all(server.heartbeats());
        let counters = udp::Collector::new("timesync", server.counters());
        self.metrics.register_collector(counters);
        held.server = Some(server);
        Ok(Vec::new())
    }

    /// Adds threads whenever those that are there cannot keep up.
    pub(super) async fn grow_with_load(self: Arc<Self>) {
        loop {
            self.supply.overload.notified().await;
            let own = Arc::clone(&self);
            // A bind, and threads: nothing for the runtime to wait for.
            let grown = tokio::task::spawn_blocking(move || own.grow()).await;
            if let Ok(Err(error)) = grown {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "Cannot answer NTP clients with more threads");
            }
            tokio::time::sleep(SETTLING).await;
        }
    }

    /// Gives each address one more socket and thread, if there may be more.
    fn grow(&self) -> Result<(), StartError> {
        let mut held = self.held();
        let Held {
            random,
            server: Some(server),
            growth: Some(growth),
            ..
        } = &mut *held
        else {
            return Ok(());
        };
        if growth.left == 0 {
            return Ok(());
        }
        // An attempt that fails is not repeated for ever.
        growth.left -= 1;
        let sockets = if growth.shared.is_empty() {
            sockets::join(&growth.settings)?
        } else {
            clones(&growth.shared)?
        };
        let heartbeats = server.grow(sockets, &self.supply, random)?;
        tracing::info!(
            threads = server.n_threads(),
            "More threads answer NTP clients"
        );
        self.progress.register_all(heartbeats);
        Ok(())
    }

    /// Changes settings and keys: the access list changes, and the first allowed client makes this open sockets.
    pub(super) fn tell(&self, settings: &Settings, keys: &KeyRing) {
        let policy = policy(settings, keys, self.precision);
        self.supply.policy.publish(policy);
        let is_closed = self.threads.is_some() && self.held().server.is_none();
        if is_closed
            && settings.server.is_open()
            && let Err(error) = self.open(&mut Inherited::none(), &settings.server)
        {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "Cannot open the sockets for NTP clients");
        }
    }

    /// The addresses of the listeners, as text.
    pub(super) fn listeners(&self) -> Vec<String> {
        self.held().listeners.clone()
    }

    /// Threads answer what they have read, and then end.
    pub(super) fn ask_to_stop(&self) {
        let mut held = self.held();
        // No thread would read from these.
        held.growth = None;
        if let Some(server) = &held.server {
            server.ask_to_stop();
        }
    }

    /// Waits until they have.
    pub(super) fn close(&self) {
        let server = self.held().server.take();
        drop(server);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

fn clones(sockets: &[UdpSocket]) -> std::io::Result<Vec<UdpSocket>> {
    sockets.iter().map(UdpSocket::try_clone).collect()
}
