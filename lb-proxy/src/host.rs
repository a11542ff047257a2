//! Missing abilities of this node for a configuration: warnings of `check`, and in the log at the start.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::{Config, Path};
use crate::kernel_path;
use crate::table_builder;

/// Descriptors of one session: two sockets; pipes are few.
const DESCRIPTORS: u64 = 2;

/// The facts about the node; a fact that is unknown is absent and not warned about.
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

/// The missing abilities of the node for a configuration.
#[must_use]
pub fn lacks(config: &Config, host: &Host) -> Vec<String> {
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

/// The settings that the kernel cannot carry out.
fn forwarded(config: &Config) -> Vec<String> {
    if config
        .frontends
        .iter()
        .all(|frontend| frontend.path == Path::User)
    {
        return Vec::new();
    }
    let rules = kernel_path::frontends(config, &table_builder::as_configured(config));
    let faults = rules.iter().flat_map(|rule| {
        let faults = rule.faults().into_iter();
        faults.map(|fault| format!("frontend {}: {fault}", rule.name))
    });
    faults.collect()
}

/// Addresses that no client on the link would look for there.
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
            // The node's own public networks are unknown here.
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
    let wanted = config.max_connections()?.saturating_mul(DESCRIPTORS);
    (wanted > limit).then(|| {
        format!(
            "max-connections = {} takes {wanted} descriptors, and the system allows {limit}: there will be fewer",
            config.max_connections().unwrap_or_default()
        )
    })
}
