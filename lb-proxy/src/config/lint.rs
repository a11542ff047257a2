//! What is legal and yet surely not meant: warnings of `check`, and in the log at the start.
//!
//! [`config`] goes by the file alone; [`host`] also by what the node is like.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::config::HumanDuration;
use ipnet::IpNet;
use proto::health::{Schedule, TargetKind};

use super::{Backend, Config, Path, Role};
use crate::keeper::Keeper;
use crate::kernel::Share;
use crate::service;
use crate::vrrp::openshift;
use crate::vrrp::settings::{Peers, RouterSettings};

/// OpenShift: how long after `/readyz` has failed an API server may still get connections.
const READYZ_LIMIT: Duration = Duration::from_secs(30);

/// Descriptors of one session: two sockets; pipes are few.
const DESCRIPTORS: u64 = 2;

/// What is odd about a configuration.
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
        if backend.servers.is_empty() {
            odd.push(format!("backend {name} has no server"));
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
    let clashes = openshift::clashes(&routers, config.cluster.as_deref());
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
            let longest = until_down(&check.schedule);
            if longest > READYZ_LIMIT {
                odd.push(format!(
                    "frontend {frontend}: a server of {name} may be chosen for {} after /readyz has failed; OpenShift allows 30s",
                    HumanDuration(longest)
                ));
            }
        }
    }
    if backend.algorithm == crate::pool::Algorithm::Source {
        odd.push(format!(
            "frontend {frontend}: {name} balances by source; OpenShift asks for the API without session persistence"
        ));
    }
    odd
}

/// Of servers that expect a PROXY header, those whose probes speak would be found down.
fn probed_without_header(backend: &Backend) -> Option<String> {
    let speaks = |kind: &TargetKind| {
        matches!(
            kind,
            TargetKind::Http(_) | TargetKind::Https(_) | TargetKind::Grpc { .. }
        )
    };
    let expects = backend.policy.send_proxy != crate::table::SendProxy::No;
    let server = backend.servers.iter().find(|server| {
        let target = server.target.as_ref();
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
    if backend.policy.send_proxy != crate::table::SendProxy::No {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, which sends no PROXY header to {name}"
        ));
    }
    if !Share::is_exact(backend.algorithm) {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, which counts no connections: servers of {name} are drawn by chance"
        ));
    }
    if backend.policy.on_up == crate::table::OnUp::Reset {
        odd.push(format!(
            "frontend {frontend} takes the kernel path, where sessions with backup servers of {name} go on"
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

//--- The node

/// What is known of the node; what could not be found out is absent and not warned about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The networks of its interfaces.
    pub networks: Vec<IpNet>,
    /// Whether it forwards IPv4 packets.
    pub forwards_ipv4: Option<bool>,
    /// Whether it forwards IPv6 packets.
    pub forwards_ipv6: Option<bool>,
    /// How many descriptors this process may open.
    pub descriptors: Option<u64>,
    /// The lowest port that anybody may bind.
    pub first_open_port: Option<u16>,
    /// The capabilities that this process has.
    pub capabilities: Option<u64>,
}

/// `CAP_NET_BIND_SERVICE`: ports below 1024.
const BIND_SERVICE: u32 = 10;
/// `CAP_NET_ADMIN`: addresses of interfaces, rules of the kernel.
const NET_ADMIN: u32 = 12;
/// `CAP_NET_RAW`: VRRP's own protocol.
const NET_RAW: u32 = 13;

impl Host {
    /// As it is.
    #[must_use]
    pub fn look() -> Self {
        let number =
            |path: &str| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let capabilities = status.lines().find_map(|line| {
            let hex = line.strip_prefix("CapEff:")?;
            u64::from_str_radix(hex.trim(), 16).ok()
        });
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let open_port = number("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        Self {
            networks: daemon::acl::local_networks(),
            forwards_ipv4: number("/proc/sys/net/ipv4/ip_forward").map(|n| n != 0),
            forwards_ipv6: number("/proc/sys/net/ipv6/conf/all/forwarding").map(|n| n != 0),
            descriptors: limit.maximum,
            first_open_port: open_port.and_then(|port| u16::try_from(port).ok()),
            capabilities,
        }
    }

    fn may(&self, capability: u32) -> bool {
        self.capabilities
            .is_none_or(|set| set >> capability & 1 == 1)
    }
}

/// What the node lacks for a configuration.
#[must_use]
pub fn host(config: &Config, host: &Host) -> Vec<String> {
    let mut odd = Vec::new();
    let first_open = host.first_open_port.unwrap_or(0);
    for frontend in &config.frontends {
        let low = frontend
            .listen
            .iter()
            .find(|address| (1..first_open).contains(&address.port()));
        let binds = frontend.path == Path::User;
        if let Some(address) = low.filter(|_| binds && !host.may(BIND_SERVICE)) {
            odd.push(format!(
                "frontend {}: {address} takes CAP_NET_BIND_SERVICE, or a socket unit",
                frontend.name
            ));
        }
    }
    let kernel = config
        .frontends
        .iter()
        .filter(|frontend| frontend.path != Path::User);
    let kernel: Vec<_> = kernel.collect();
    odd.extend(forwarded(config));
    if let Some(frontend) = kernel.first() {
        if !host.may(NET_ADMIN) {
            odd.push(format!(
                "frontend {}: path = \"kernel\" takes CAP_NET_ADMIN",
                frontend.name
            ));
        }
        let off = [
            (false, host.forwards_ipv4, "net.ipv4.ip_forward"),
            (true, host.forwards_ipv6, "net.ipv6.conf.all.forwarding"),
        ];
        for (ipv6, forwards, name) in off {
            let concerned = kernel
                .iter()
                .find(|f| f.listen.iter().any(|a| a.is_ipv6() == ipv6));
            if let Some(frontend) = concerned.filter(|_| forwards == Some(false)) {
                odd.push(format!(
                    "frontend {}: the kernel path needs {name} = 1",
                    frontend.name
                ));
            }
        }
    }
    let may_hold = host.may(NET_ADMIN) && host.may(NET_RAW);
    if !config.vips.is_empty() && !may_hold {
        odd.push("virtual IPs take CAP_NET_ADMIN and CAP_NET_RAW".to_owned());
    }
    odd.extend(outside(config, host));
    odd.extend(descriptors(config, host));
    odd
}

/// What the kernel cannot do as it is written.
fn forwarded(config: &Config) -> Vec<String> {
    if config
        .frontends
        .iter()
        .all(|frontend| frontend.path == Path::User)
    {
        return Vec::new();
    }
    let keeper = Keeper::new(config.clone(), Arc::default(), 0);
    let rules = service::kernel_frontends(config, &keeper.view().table);
    let faults = rules.iter().flat_map(|rule| {
        let faults = rule.faults().into_iter();
        faults.map(|fault| format!("frontend {}: {fault}", rule.name))
    });
    faults.collect()
}

/// Addresses that nobody on the link would look for there.
fn outside(config: &Config, host: &Host) -> Vec<String> {
    let private = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    };
    let mut odd = Vec::new();
    for vip in &config.vips {
        for entry in &vip.router.addresses {
            let address = entry.address;
            let is_near = host
                .networks
                .iter()
                .any(|network| network.contains(&address));
            // Of public networks the node's own are not known here.
            if !is_near && private(address) && !host.networks.is_empty() {
                odd.push(format!(
                    "virtual IP {}: {address} is in no network of this node",
                    vip.router.name
                ));
            }
        }
    }
    odd
}

fn descriptors(config: &Config, host: &Host) -> Option<String> {
    let limit = host.descriptors?;
    let wanted = config.max_connections?.saturating_mul(DESCRIPTORS);
    (wanted > limit).then(|| {
        format!(
            "max-connections = {} takes {wanted} descriptors, and the system allows {limit}: there will be fewer",
            config.max_connections.unwrap_or_default()
        )
    })
}
