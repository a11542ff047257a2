//! What each service needs of the host that it runs on: nothing else is given to it.

use std::time::Duration;

use super::scope::Scope;
use crate::config::layout::DRAIN;
use site::places;
use site::service::Service;

/// What a service needs.
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
    /// How long it may take to end after it was told to.
    pub(super) stop: Duration,
}

impl Needs {
    /// Of a service in a scope.
    pub(super) fn of(service: Service, scope: &Scope<'_>) -> Self {
        let mut writes = vec![places::RUN.to_owned()];
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
            names: matches!(service, Service::RegistrySvc | Service::TimesyncAgent),
            stop: stop(service),
        }
    }
}

/// Where chronyc looks for the daemon that it speaks to.
const CHRONY_RUN: &str = "/run/chrony";

/// Where time zones are, among all that systems have in common.
const SYSTEM: &str = "/usr/share";

/// Ports below 1024 are among the inherited sockets: nobody needs a capability to bind one, but for
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
            // What was pushed is finished, and the index is closed.
            Service::RegistrySvc => 50,
            _ => 20,
        })
}
