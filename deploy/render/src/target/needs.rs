//! The needs of each service on its host; it gets nothing else.

use std::path::PathBuf;
use std::time::Duration;

use super::scope::Scope;
use crate::config::layout::DRAIN;
use site::facts::{self, Identity};
use site::paths;
use site::service::Service;

/// The needs of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Capabilities (capabilities(7)), without `CAP_`.
    pub(super) capabilities: Vec<&'static str>,
    /// Directories that it writes to: its state and its sockets.
    pub(super) writes: Vec<String>,
    /// Directories that it reads: its configuration, and the sockets of services that it connects to.
    pub(super) reads: Vec<String>,
    /// Groups that let it connect to those.
    pub(super) groups: Vec<Identity>,
    /// Directories of the host's system that it reads; there on every host, since podman starts no container without them.
    pub(super) system: Vec<&'static str>,
    /// Whether it looks up names of hosts that its configuration has.
    pub(super) names: bool,
    /// How long it may take to stop.
    pub(super) stop: Duration,
}

impl Needs {
    /// The needs of a service in a scope.
    pub(super) fn of(service: Service, scope: &Scope<'_>) -> Self {
        let path = |path: PathBuf| path.display().to_string();
        let servers = servers(service, scope);
        let own = [facts::run(service), Some(paths::state(service))];
        let sockets = servers.iter().copied().filter_map(facts::run);
        Self {
            capabilities: capabilities(service, scope),
            writes: [paths::admin_directory(service)]
                .into_iter()
                .chain(own.into_iter().flatten())
                .map(path)
                .collect(),
            reads: [paths::etc(service)]
                .into_iter()
                .chain(sockets)
                .map(path)
                .collect(),
            groups: servers.into_iter().filter_map(facts::clients).collect(),
            system: match service {
                // Leap seconds are known from its time zones, which not every host has.
                Service::TimesyncAgent => vec![SYSTEM],
                _ => Vec::new(),
            },
            names: matches!(
                service,
                Service::Clusterd | Service::RegistrySvc | Service::TimesyncAgent
            ),
            stop: stop(service),
        }
    }
}

/// The services to whose sockets a service connects, where they run.
fn servers(service: Service, scope: &Scope<'_>) -> Vec<Service> {
    let servers = facts::servers(service).iter().copied();
    servers.filter(|server| scope.runs(*server)).collect()
}

/// The directory of time zones.
const SYSTEM: &str = "/usr/share";

/// Ports below 1024 are among the inherited sockets: no service needs a capability to bind one, but for
/// the port of chronyc.
fn capabilities(service: Service, scope: &Scope<'_>) -> Vec<&'static str> {
    match service {
        // Addresses of interfaces, and a protocol of its own.
        Service::LbProxy if !scope.site.vips.is_empty() => vec!["NET_ADMIN", "NET_RAW"],
        Service::TimesyncAgent if scope.site.time.correct_clock => {
            vec!["NET_BIND_SERVICE", "SYS_TIME"]
        }
        Service::TimesyncAgent => vec!["NET_BIND_SERVICE"],
        _ => Vec::new(),
    }
}

/// Longer than the service's own drain, so that it ends by itself.
fn stop(service: Service) -> Duration {
    DRAIN
        + Duration::from_secs(match service {
            // It finishes pushes, and closes the index.
            Service::RegistrySvc => 50,
            _ => 20,
        })
}
