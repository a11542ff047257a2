//! The needs of each service on its host; it gets nothing else.

use std::time::Duration;

use super::scope::Scope;
use crate::config::layout::DRAIN;
use site::places;
use site::service::Service;

/// The needs of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Capabilities (capabilities(7)), without `CAP_`.
    pub(super) capabilities: Vec<&'static str>,
    /// Directories that it writes to.
    pub(super) writes: Vec<String>,
    /// Directories of the host's system that it reads; there on every host, since podman starts no container without them.
    pub(super) reads: Vec<&'static str>,
    /// Whether it looks up names of hosts that its configuration has.
    pub(super) names: bool,
    /// How long it may take to stop.
    pub(super) stop: Duration,
}

impl Needs {
    /// The needs of a service in a scope.
    pub(super) fn of(service: Service, scope: &Scope<'_>) -> Self {
        let admin = places::admin_directory(service);
        let mut writes = vec![places::RUN.to_owned(), admin.display().to_string()];
        writes.extend(places::state(service).map(|path| path.display().to_string()));
        if service == Service::TimesyncAgent {
            writes.push(CHRONY_RUN.to_owned());
        }
        Self {
            capabilities: capabilities(service, scope),
            writes,
            reads: match service {
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

/// The directory of the socket that chronyc connects to.
const CHRONY_RUN: &str = "/run/chrony";

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
