//! The NTP listeners: sockets and threads, from the start or once a client is allowed.
//!
//! Open sockets stay open after the last client is denied; requests then get no answer.

use parking_lot::{Mutex, MutexGuard};
use std::net::UdpSocket;
use std::sync::Arc;

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

/// Sockets, and threads that answer there.
pub(super) struct NtpListeners {
    supply: AnswerData,
    precision: i8,
    /// The number of sockets for each address, one for each thread; none if the poll loop answers.
    threads: Option<usize>,
    progress: Progress,
    metrics: Metrics,
    held: Mutex<Held>,
}

struct Held {
    random: Random,
    server: Option<Server>,
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
        let sockets = sockets::open(inherited, settings, threads)?;
        if sockets.is_empty() {
            return Ok(Vec::new());
        }
        let mut held = self.held();
        held.listeners = sockets::names(&sockets);
        let server = Server::start(sockets, threads, &self.supply, &mut held.random)?;
        self.progress.register_all(server.heartbeats());
        let counters = udp::Collector::new("timesync", server.counters());
        self.metrics.register_collector(counters);
        held.server = Some(server);
        Ok(Vec::new())
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
        if let Some(server) = &self.held().server {
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
