//! Turns the arguments of health functions into targets for healthd to probe.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::options::{ProbeOptions, Url};
use super::settings::LuaSettings;

/// The target of a TCP connection.
pub(super) fn tcp(address: SocketAddr, probe: &ProbeOptions, settings: &LuaSettings) -> Target {
    Target {
        kind: TargetKind::Tcp,
        address,
        schedule: schedule(probe, settings),
        source: probe.source,
    }
}

/// The target of a request for a URL, sent to this address.
pub(super) fn url(
    url: &Url,
    address: IpAddr,
    probe: &ProbeOptions,
    settings: &LuaSettings,
) -> Target {
    let request = HttpProbe {
        host: url.authority.clone(),
        path: url.path.clone(),
        status: probe.status.unwrap_or(200),
        body: probe.string_match.clone(),
        user_agent: probe
            .user_agent
            .clone()
            .unwrap_or_else(|| USER_AGENT.to_owned()),
        headers: probe.headers.clone(),
        byte_limit: probe.byte_limit,
    };
    Target {
        kind: if url.tls {
            TargetKind::Https(request)
        } else {
            TargetKind::Http(request)
        },
        address: SocketAddr::new(address, url.port),
        schedule: schedule(probe, settings),
        source: probe.source,
    }
}

/// What probes call themselves when the record does not say.
const USER_AGENT: &str = "PowerDNS Authoritative Server";

fn schedule(probe: &ProbeOptions, settings: &LuaSettings) -> Schedule {
    let interval = probe.interval.unwrap_or(settings.interval);
    Schedule {
        interval,
        fast_interval: settings.fast_interval.min(interval),
        timeout: probe.timeout.unwrap_or(settings.timeout),
        rise: settings.rise,
        fall: probe.fall.unwrap_or(settings.fall),
    }
}

/// What is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// How.
    pub kind: TargetKind,
    /// Where.
    pub address: SocketAddr,
    /// When.
    pub schedule: Schedule,
    /// From which address.
    pub source: Option<IpAddr>,
}

/// How a target is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetKind {
    /// By a TCP connection.
    Tcp,
    /// By an HTTP request.
    Http(HttpProbe),
    /// By an HTTP request over TLS.
    Https(HttpProbe),
}

/// An HTTP request and what is expected of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HttpProbe {
    /// The `Host` header.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The status expected.
    pub status: u16,
    /// What the body must contain.
    pub body: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// How much of the body may come.
    pub byte_limit: Option<u64>,
}

/// When a target is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Schedule {
    /// Between probes.
    pub interval: Duration,
    /// Between probes while undecided.
    pub fast_interval: Duration,
    /// For one probe.
    pub timeout: Duration,
    /// Good results to be up.
    pub rise: u32,
    /// Bad results to be down.
    pub fall: u32,
}

/// What is known of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// Nothing.
    Unknown,
    /// It is up.
    Up,
    /// It is down.
    Down,
}
