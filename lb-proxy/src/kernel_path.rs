//! Frontends that the kernel forwards: the rules for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use balance::table::{OnDown, Table};
use daemon::run::StartError;
use netfilter::{KernelFrontend, Options, Path, Pause, Pauser, Status};
use parking_lot::Mutex;

use crate::config::{Config, Frontend, Path as Way, Protocol};
use crate::table_builder::View;

/// The rules; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelPath {
    path: Arc<Mutex<Option<Path>>>,
    /// There are rules, or were: connections outlive them.
    has_started: Arc<AtomicBool>,
}

impl KernelPath {
    /// Makes the rules of a configuration, if there is a frontend for them. Blocks for some milliseconds.
    pub(crate) fn start(&self, config: &Config, table: &Table) -> Result<(), StartError> {
        let frontends = frontends(config, table);
        let mut path = self.path.lock();
        match (&*path, frontends.is_empty()) {
            (None, true) => {}
            (Some(_), true) => drop(path.take()),
            (Some(path), false) => path.apply(frontends),
            (None, false) => {
                for fault in netfilter::forwarding_faults(&frontends) {
                    tracing::warn!("{fault}");
                }
                let options = Options {
                    table: config.file.kernel.table.clone(),
                    flow_table: config.file.kernel.flow_table,
                    ..Options::default()
                };
                self.has_started.store(true, Ordering::Relaxed);
                let started = Path::start(&options, frontends);
                *path = Some(
                    started
                        .map_err(|error| StartError::new(netfilter::exit_code(&error), error))?,
                );
            }
        }
        Ok(())
    }

    /// Whether the kernel may forward connections for this process.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Relaxed)
    }

    /// Brings the rules up to date with the table.
    pub(crate) fn apply(&self, view: &View) {
        if let (Some(path), Some(config)) = (&*self.path.lock(), &view.config) {
            path.apply(frontends(config, &view.table));
        }
    }

    /// How the rules stand; none where there are none.
    pub(crate) fn status(&self) -> Option<Status> {
        self.path.lock().as_ref().map(Path::status)
    }

    /// Takes the flow table away while this is kept, if there are rules. Blocks for some milliseconds.
    pub(crate) fn pause(&self) -> Option<Pause> {
        // The worker that applies rules does not wait for this.
        let pauser = self.path.lock().as_ref().map(Path::pauser);
        pauser.map(Pauser::pause)
    }

    /// Removes the rules. Blocks for some milliseconds.
    pub(crate) fn clear(&self) {
        drop(self.path.lock().take());
    }

    /// Leaves them to a successor.
    pub(crate) fn leave(&self) {
        if let Some(path) = self.path.lock().take() {
            path.leave();
        }
    }
}

/// Decides for each frontend that prefers the kernel whether it can have it. Blocks for some
/// milliseconds.
pub(crate) fn settle(config: &mut Config) {
    let prefers = |frontend: &Frontend| frontend.path == Way::KernelPreferred;
    if !config.frontends.iter().any(prefers) {
        return;
    }
    let options = Options {
        table: config.file.kernel.table.clone(),
        ..Options::default()
    };
    let path = match Path::check(&options, &[]) {
        Ok(()) => Way::Kernel,
        Err(error) => {
            let reason = daemon::exit::chain(&error);
            tracing::warn!(
                reason,
                "The kernel path does not work here: this process serves"
            );
            Way::User
        }
    };
    for frontend in config
        .frontends
        .iter_mut()
        .filter(|frontend| prefers(frontend))
    {
        frontend.path = path;
    }
}

/// The frontends for the kernel, by the table.
pub(crate) fn frontends(config: &Config, table: &Table) -> Vec<KernelFrontend> {
    let all = config
        .frontends
        .iter()
        .filter(|frontend| frontend.path == Way::Kernel);
    all.filter_map(|frontend| {
        let backend = table.backend(frontend.backend.as_ref()?)?;
        let protocol = match frontend.protocol {
            Protocol::Tcp => netfilter::Protocol::Tcp,
            Protocol::Udp => netfilter::Protocol::Udp,
        };
        let name = Arc::clone(&frontend.name);
        let mut known = KernelFrontend::new(name, protocol, frontend.listen.clone(), &backend.pool);
        known.allow.clone_from(&frontend.kernel.allow);
        known.deny.clone_from(&frontend.kernel.deny);
        known.masquerade = frontend.kernel.masquerade;
        known.reset_on_down = backend.policy.on_down == OnDown::Reset;
        Some(known)
    })
    .collect()
}
