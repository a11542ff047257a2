//! The registry of a daemon's metrics, and how they are written for a scraper.
//!
//! Written as `OpenMetrics` when the scraper's `Accept` asks for it, else in Prometheus' text format
//! 0.0.4. Metrics of the process and of the build are always there.

mod page;
mod process;
mod prometheus;

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

pub use page::{Histogram, Labels, Page, float, labels};
pub(crate) use process::ReadinessCollector;
pub use process::{cpu_seconds, resident_memory};

/// `outpost_build_info`: a constant 1 whose labels say what runs.
pub const BUILD: &str = "outpost_build";

/// `outpost_reload_total`: reloads that were taken up.
pub const RELOADS: &str = "outpost_reload";

/// `outpost_reload_failed_total`: reloads refused because of a problem; the old config stays.
pub const RELOADS_FAILED: &str = "outpost_reload_failed";

/// `outpost_admin_refused_total`: requests at the admin listener that the caller had no right to.
pub const ADMIN_REFUSED: &str = "outpost_admin_refused";

/// `outpost_streams_places`: the places of a listener.
pub const STREAMS_PLACES: &str = "outpost_streams_places";

/// `outpost_streams_open`: those that are taken, by the kind of client.
pub const STREAMS_OPEN: &str = "outpost_streams_open";

/// `outpost_streams_refused_total`: streams that got no place, by the reason.
pub const STREAMS_REFUSED: &str = "outpost_streams_refused";

/// `outpost_streams_ended_total`: streams that had to give their places back, by the reason.
pub const STREAMS_ENDED: &str = "outpost_streams_ended";

/// `outpost_certificate_end_timestamp_seconds`: the end of a certificate in use.
#[cfg(feature = "tls")]
pub const CERTIFICATE_END: &str = "outpost_certificate_end_timestamp_seconds";

/// `outpost_ready`: 1 while the daemon is ready.
pub const READY: &str = "outpost_ready";

/// The metrics of one daemon; clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    prefix: String,
}

/// How to write metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Prometheus,
}

impl Exposition {
    /// Reads the `Accept` header of a scraper.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    /// The `Content-Type` of the answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Metrics {
    /// The metrics of a service: those of its process and build, until it adds its own.
    #[must_use]
    pub fn new(service: &'static str) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::ProcessCollector));
        let build = Info::new(vec![
            ("service", service),
            ("version", crate::args::PACKAGE_VERSION),
            ("revision", crate::args::REVISION),
        ]);
        registry.register(BUILD, "Version and revision of this daemon", build);
        Self {
            registry: Arc::new(Mutex::new(registry)),
            prefix: String::new(),
        }
    }

    /// Registers a metric. A counter's name is given without `_total`, which is added.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        let name = format!("{}{name}", self.prefix);
        self.lock().register(name, help, metric);
    }

    /// Registers a collector, which writes its metrics at every scrape and names them in full.
    pub fn register_collector(&self, collector: Box<dyn Collector>) {
        self.lock().register_collector(collector);
    }

    /// The same metrics, where names registered from here on begin with `prefix_`.
    #[must_use]
    pub fn sub(&self, prefix: &str) -> Self {
        Self {
            registry: Arc::clone(&self.registry),
            prefix: format!("{}{prefix}_", self.prefix),
        }
    }

    /// All metrics as text.
    #[must_use]
    pub fn encode(&self, exposition: Exposition) -> String {
        let mut text = String::new();
        let encoded = prometheus_client::encoding::text::encode(&mut text, &self.lock());
        if encoded.is_err() {
            // Only a collector can fail: its output may be cut short, and is not shown.
            tracing::error!("A collector could not write its metrics");
            return String::new();
        }
        match exposition {
            Exposition::OpenMetrics => text,
            Exposition::Prometheus => prometheus::from_openmetrics(&text),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // Only grows by whole entries, so a panic elsewhere leaves it usable.
        self.registry.lock()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Metrics")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    #[test]
    fn both_expositions_hold_the_same_numbers() {
        let metrics = Metrics::new("dns-authd");
        let queries = Counter::<u64>::default();
        metrics
            .sub("dns_authd")
            .register("queries", "Queries received", queries.clone());
        let zones = Gauge::<i64>::default();
        metrics.register("zones", "Zones loaded", zones.clone());
        queries.inc_by(7);
        zones.set(3);
        let open = metrics.encode(Exposition::OpenMetrics);
        assert!(
            open.contains("# TYPE dns_authd_queries counter\n"),
            "{open}"
        );
        assert!(open.contains("\ndns_authd_queries_total 7\n"), "{open}");
        assert!(open.ends_with("# EOF\n"));
        let classic = metrics.encode(Exposition::Prometheus);
        assert!(
            classic.contains("# TYPE dns_authd_queries_total counter\n"),
            "{classic}"
        );
        for text in [&open, &classic] {
            assert!(text.contains("\nzones 3\n"), "{text}");
            assert!(
                text.contains("outpost_build_info{service=\"dns-authd\""),
                "{text}"
            );
            for name in [
                "process_cpu_seconds_total",
                "process_resident_memory_bytes",
                "process_open_fds",
                "process_max_fds",
                "process_start_time_seconds",
            ] {
                assert!(text.contains(&format!("\n{name} ")), "{name} in {text}");
            }
        }
        assert!(!classic.contains("EOF"));
    }

    #[test]
    fn the_scraper_says_which_exposition_it_reads() {
        for (accept, expected) in [
            (None, Exposition::Prometheus),
            (Some("*/*"), Exposition::Prometheus),
            (Some("text/plain;version=0.0.4"), Exposition::Prometheus),
            (
                Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"),
                Exposition::OpenMetrics,
            ),
        ] {
            assert_eq!(Exposition::accepted(accept), expected);
        }
    }
}
