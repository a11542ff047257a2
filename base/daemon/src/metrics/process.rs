//! The kernel's figures of this process, read at every scrape.

use std::fs;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};

use crate::readiness::Readiness;

/// Metrics that Prometheus names for every process, none where `/proc` is not there.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(stat) = Stat::read() {
            counter(
                &mut encoder,
                "process_cpu_seconds",
                "User and system CPU time spent.",
                stat.cpu_seconds(),
            )?;
            gauge(
                &mut encoder,
                "process_resident_memory_bytes",
                "Resident memory.",
                stat.resident_bytes(),
            )?;
            gauge(
                &mut encoder,
                "process_virtual_memory_bytes",
                "Virtual memory.",
                stat.virtual_bytes,
            )?;
            gauge(&mut encoder, "process_threads", "Threads.", stat.n_threads)?;
            if let Some(start) = stat.start_time_seconds() {
                gauge(
                    &mut encoder,
                    "process_start_time_seconds",
                    "Start time since the Unix epoch.",
                    start,
                )?;
            }
        }
        if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
            // The listing itself is one of them while it is read.
            let open = descriptors.count().saturating_sub(1);
            let open = u64::try_from(open).unwrap_or(u64::MAX);
            gauge(
                &mut encoder,
                "process_open_fds",
                "Open file descriptors.",
                open,
            )?;
        }
        if let Some(limit) = getrlimit(Resource::Nofile).current {
            gauge(
                &mut encoder,
                "process_max_fds",
                "File descriptors that may be open.",
                limit,
            )?;
        }
        Ok(())
    }
}

/// Writes [`super::READY`].
#[derive(Debug)]
pub(crate) struct ReadinessCollector(Readiness);

impl ReadinessCollector {
    pub(crate) fn new(readiness: Readiness) -> Self {
        Self(readiness)
    }
}

impl Collector for ReadinessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let ready = u64::from(self.0.is_ready());
        gauge(
            &mut encoder,
            super::READY,
            "1 while the daemon is ready.",
            ready,
        )
    }
}

fn gauge<N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: N,
) -> Result<(), std::fmt::Error> {
    let metric = ConstGauge::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), std::fmt::Error> {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// CPU time of this process in seconds, if the kernel tells.
#[must_use]
pub fn cpu_seconds() -> Option<f64> {
    Stat::read().map(|stat| stat.cpu_seconds())
}

/// Resident memory of this process in bytes, if the kernel tells.
#[must_use]
pub fn resident_memory() -> Option<u64> {
    Stat::read().map(|stat| stat.resident_bytes())
}

/// The columns of `/proc/self/stat` that matter (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    n_threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The command in the second column may hold anything, so columns count from its last `)`.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let columns: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The manual numbers columns from 1, and the first after the command is its third.
        let column = |number: usize| columns.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: column(14)? + column(15)?,
            n_threads: column(20)?,
            start_ticks: column(22)?,
            virtual_bytes: column(23)?,
            resident_pages: column(24)?,
        })
    }

    fn cpu_seconds(&self) -> f64 {
        to_f64(self.cpu_ticks) / ticks_per_second()
    }

    fn resident_bytes(&self) -> u64 {
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        self.resident_pages.saturating_mul(page)
    }

    fn start_time_seconds(&self) -> Option<f64> {
        static BOOT: OnceLock<Option<f64>> = OnceLock::new();
        let boot = (*BOOT.get_or_init(boot_time_seconds))?;
        Some(boot + to_f64(self.start_ticks) / ticks_per_second())
    }
}

/// `btime` of `/proc/stat`: when the kernel booted, in seconds since the epoch.
fn boot_time_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn ticks_per_second() -> f64 {
    to_f64(rustix::param::clock_ticks_per_second())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating point; beyond 2^53 the last digits do not matter"
)]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_full_of_brackets_is_read_past() {
        let text = "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 7 0 9000 \
                    1048576 256 18446744073709551615 1 1 0";
        assert_eq!(
            Stat::parse(text),
            Some(Stat {
                cpu_ticks: 300,
                n_threads: 7,
                start_ticks: 9000,
                virtual_bytes: 1_048_576,
                resident_pages: 256,
            })
        );
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("42 (x) S 1"), None);
    }

    #[test]
    fn this_process_has_figures() {
        let stat = Stat::read().unwrap();
        assert!(stat.resident_bytes() > 100_000);
        assert!(stat.start_time_seconds().unwrap() > 1_500_000_000.0);
        assert!(cpu_seconds().is_some() && resident_memory().is_some());
    }
}
