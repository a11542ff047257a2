//! Asks the admin listeners of the services how they are, again and again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use api::Status;
use config_text::counted;
use daemon::admin;
use daemon::clock;
use proto::health::Liveness;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use site::service::Service;
use site_up::sample;
use site_up::view::Seen;

/// A sample of a service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The service.
    pub(crate) service: Service,
    /// When.
    pub(crate) at: Instant,
    /// Why it is not ready, if it is not.
    pub(crate) unready: Option<String>,
    /// The requests served since the start.
    pub(crate) count: Option<f64>,
    /// A summary of what it serves.
    pub(crate) serves: Option<String>,
    /// The liveness of addresses; only from healthd.
    pub(crate) seen: Vec<(SocketAddr, Seen)>,
}

/// Sends samples until the receiver is dropped.
pub(crate) async fn poll(listeners: Vec<(Service, SocketAddr)>, samples: mpsc::Sender<Sample>) {
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        for &(service, address) in &listeners {
            // A service that does not answer is not running, which its process tells as well.
            if let Ok(Some(sample)) = timeout(LIMIT, ask(service, address)).await
                && samples.send(sample).await.is_err()
            {
                return;
            }
        }
    }
}

async fn ask(service: Service, address: SocketAddr) -> Option<Sample> {
    let ready = admin::get(address, "/readyz").await.ok()?;
    let metrics = admin::get(address, "/metrics").await.ok()?.text();
    let status = admin::get(address, "/status").await.ok()?;
    let (serves, seen) = match service {
        Service::Healthd => match detail::<api::healthd::Detail>(&status.body) {
            Some(detail) => (
                Some(detail.serves),
                detail.targets.iter().filter_map(target).collect(),
            ),
            None => (None, Vec::new()),
        },
        _ => (serves(service, &status.body, &metrics), Vec::new()),
    };
    Some(Sample {
        service,
        at: clock::now(),
        unready: (!ready.is_success()).then(|| ready.text()),
        count: sample::total(&metrics, counter(service)),
        serves,
        seen,
    })
}

/// The service's own part of its status.
fn detail<D: DeserializeOwned>(body: &[u8]) -> Option<D> {
    serde_json::from_slice::<Status<D>>(body).ok()?.detail
}

/// A summary of what a service serves.
fn serves(service: Service, body: &[u8], metrics: &str) -> Option<String> {
    match service {
        Service::Healthd => Some(detail::<api::healthd::Detail>(body)?.serves),
        Service::Clusterd => Some(detail::<api::clusterd::Detail>(body)?.serves),
        Service::DnsAuthd => {
            let zones = detail::<api::dns_authd::Detail>(body)?.zones;
            Some(counted(zones.loaded, "zone"))
        }
        Service::DnsRecursor => {
            let hits = sample::total(metrics, "coredns_cache_hits_total")?;
            let requests = sample::total(metrics, "coredns_cache_requests_total")?;
            (requests > 0.0).then(|| format!("{:.0}% hits", 100.0 * hits / requests))
        }
        Service::LbProxy => {
            let open = sample::total(metrics, "haproxy_frontend_current_sessions")?;
            Some(format!("{open} open"))
        }
        Service::RegistrySvc => {
            let held = detail::<api::registry_svc::Detail>(body)?.held?;
            Some(counted(held.repositories, "repository"))
        }
        Service::TimesyncAgent => Some(detail::<api::timesync_agent::Detail>(body)?.serves),
    }
}

/// The liveness of an address.
fn target(target: &api::healthd::Target) -> Option<(SocketAddr, Seen)> {
    let seen = match target.liveness {
        Liveness::Up => Seen::Up,
        Liveness::Down => Seen::Down,
        Liveness::Unknown => Seen::Unknown,
    };
    Some((target.address.parse().ok()?, seen))
}

/// The counter that tells how much a service does.
fn counter(service: Service) -> &'static str {
    match service {
        Service::Healthd => "healthd_probes_total",
        Service::Clusterd => "clusterd_events_total",
        Service::DnsAuthd => "dns_authd_queries_total",
        Service::DnsRecursor => "coredns_dns_requests_total",
        Service::LbProxy => "haproxy_frontend_sessions_total",
        Service::RegistrySvc => "registry_http_requests_total",
        Service::TimesyncAgent => "timesync_server_requests_total",
    }
}

/// Time between two rounds.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long one service may take to answer.
const LIMIT: Duration = Duration::from_millis(400);
