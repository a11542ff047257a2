//! Legal settings that are surely not meant, by the file alone: warnings of `check`, and in the log
//! at the start.

use std::time::Duration;

use daemon::config::HumanDuration;
use netfilter::Share;
use proto::health::{Schedule, TargetKind};
use vrrp::openshift;
use vrrp::settings::{Peers, RouterSettings};

use super::{Backend, Config, Path, Role};

/// OpenShift: how long after `/readyz` has failed an API server may still get connections.
const READYZ_LIMIT: Duration = Duration::from_secs(30);

/// The odd settings of a configuration.
#[must_use]
pub fn config(config: &Config) -> Vec<String> {
    let mut odd = Vec::new();
    for frontend in &config.frontends {
        let name = &frontend.name;
        for backend in config.backends.iter().filter(|backend| {
            frontend
                .backends()
                .any(|leads_to| *leads_to == backend.name)
        }) {
            if frontend.role == Role::Api {
                odd.extend(api(name, backend));
            }
            if frontend.path != Path::User {
                odd.extend(kernel(name, backend));
            }
        }
    }
    for backend in &config.backends {
        let name = &backend.name;
        if backend.servers.is_empty() && backend.named.is_empty() {
            odd.push(format!("backend {name} has no server"));
        } else if !backend.named.is_empty() {
            // Its servers are known once the names are resolved.
        } else if backend
            .servers
            .iter()
            .all(|s| s.weight == 0 || s.maintenance)
        {
            odd.push(format!("backend {name} has no server that may be chosen"));
        } else if backend.servers.iter().all(|server| server.backup) {
            odd.push(format!("backend {name} has backup servers only"));
        }
        odd.extend(probed_without_header(backend));
    }
    let routers: Vec<RouterSettings> = config.vips.iter().map(|vip| vip.router.clone()).collect();
    let clashes = openshift::clashes(&routers, config.foreign_cluster());
    odd.extend(clashes.iter().map(|clash| format!("virtual IP {clash}")));
    for router in &routers {
        let name = &router.name;
        match &router.peers {
            Peers::Unicast(peers) if peers.is_empty() => odd.push(format!(
                "virtual IP {name} has an empty list of peers: it will not become active here"
            )),
            Peers::Unicast(peers) if router.source.is_some_and(|own| peers.contains(&own)) => {
                odd.push(format!("virtual IP {name} has this node among its peers"));
            }
            Peers::Unicast(_) | Peers::Multicast => {}
        }
    }
    odd
}

fn api(frontend: &str, backend: &Backend) -> Vec<String> {
    let mut odd = Vec::new();
    let name = &backend.name;
    match &backend.check {
        None => odd.push(format!(
            "frontend {frontend}: the servers of {name} are not checked, so a failing /readyz takes none out"
        )),
        Some(check) => {
            // healthd's own schedule, as long as its file says nothing else.
            let longest = until_down(&Schedule::default().with(&check.deviation));
            if longest > READYZ_LIMIT {
                odd.push(format!(
                    "frontend {frontend}: a server of {name} may be chosen for {} after /readyz has failed; OpenShift allows 30s",
                    HumanDuration(longest)
                ));
            }
        }
    }
    if backend.algorithm == balance::pool::Algorithm::Source {
        odd.push(format!(
            "frontend {frontend}: {name} balances by source; OpenShift asks for the API without session persistence"
        ));
    }
    odd
}

/// Servers that expect a PROXY header and have probes that speak would be found down.
fn probed_without_header(backend: &Backend) -> Option<String> {
    let speaks = |kind: &TargetKind| {
        matches!(
            kind,
            TargetKind::TcpCheck(_)
                | TargetKind::Http(_)
                | TargetKind::Https(_)
                | TargetKind::Grpc { .. }
        )
    };
    let expects = backend.policy.send_proxy != balance::table::SendProxy::No;
    let server = backend.servers.iter().find(|server| {
        let target = server.target.as_ref().map(|watched| &watched.target);
        target.is_some_and(|target| speaks(&target.kind) && target.address == server.address)
    });
    server.filter(|_| expects).map(|server| {
        format!(
            "backend {}: connections to {} begin with a PROXY header and probes do not: a server that insists on one is found down; probe another port, or with kind = \"tcp\"",
            backend.name, server.name
        )
    })
}

/// How long it may take until a server that has failed is down: it fails just after a probe, and each
/// probe that finds it takes as long as it may.
#[must_use]
pub fn until_down(schedule: &Schedule) -> Duration {
    let undecided = schedule.fast_interval.max(schedule.timeout);
    schedule.interval + schedule.timeout + undecided * schedule.fall.saturating_sub(1)
}

fn kernel(frontend: &str, backend: &Backend) -> Vec<String> {
    let mut odd = Vec::new();
    let name = &backend.name;
    if backend.policy.send_proxy != balance::table::SendProxy::No {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, which sends no PROXY header to {name}"
        ));
    }
    if !Share::is_exact(backend.algorithm) {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, which counts no connections: servers of {name} are drawn by chance"
        ));
    }
    if backend.policy.on_up == balance::table::OnUp::Reset {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, where sessions with backup servers of {name} continue"
        ));
    }
    if backend
        .servers
        .iter()
        .any(|server| server.max_connections.is_some())
    {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, which knows no `max-connections` of {name}"
        ));
    }
    odd
}
