//! The status and the metrics of `node-hosts`.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::Status;
use api::node_hosts::{Detail, Family, Service};
use config_text::counted;
use daemon::calendar::Timestamp;
use daemon::config::HumanDuration;
use daemon::metrics::{Page, float, labels};
use daemon::run::headline;
use node_hosts::services::Known;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Shared;

/// The lines of the block.
const ENTRIES: &str = "node_hosts_entries";
/// When the file was last found as it should be, or written so, in seconds since 1970.
const LAST_SUCCESS: &str = "node_hosts_last_success_timestamp_seconds";
/// Writes, by the `way`.
const WRITES: &str = "node_hosts_writes";
/// Writes that have failed.
const FAILURES: &str = "node_hosts_write_failures";
/// Changes by others at the same time.
const CONFLICTS: &str = "node_hosts_conflicts";
/// Lookups, by their `outcome`.
const LOOKUPS: &str = "node_hosts_lookups";
/// Seconds since the last answer about a service, by `service` and `family`; absent before the first one.
const ANSWER_AGE: &str = "node_hosts_answer_age_seconds";

/// The outcomes of lookups, in the order of their counters.
const OUTCOMES: [&str; 4] = ["addresses", "empty", "denied", "failed"];
/// The families, in the order of the core.
const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// The detail of the status.
pub(super) fn detail(shared: &Shared) -> Detail {
    let now = shared.now();
    let state = shared.state.lock();
    let counts = state.counts;
    let services = state.services.all().map(|(service, [v4, v6])| Service {
        name: service.asked.to_string(),
        ipv4: family(v4, now),
        ipv6: family(v6, now),
    });
    Detail {
        path: shared.file.path().display().to_string(),
        entries: state.services.entries().len(),
        way: state.way.map(|way| way.to_string()),
        right_at: state.right_at,
        writes: counts.replaced + counts.in_place,
        conflicts: counts.conflicts,
        failures: counts.failures,
        problem: state.problem.clone(),
        nameservers: shared.servers.iter().map(ToString::to_string).collect(),
        services: services.collect(),
    }
}

fn family(known: &Known, now: Duration) -> Family {
    let ago = |answered| now.saturating_sub(answered).as_secs();
    Family {
        addresses: known.addresses.iter().map(ToString::to_string).collect(),
        answered_ago: known.answered.map(ago),
        denied: known.is_denied(),
        failure: known.failure.map(|failure| failure.to_string()),
    }
}

/// The status for people.
pub(super) fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    if let Some(detail) = &status.detail {
        // Writing to a string does not fail.
        let _written = write_detail(&mut text, detail);
    }
    text
}

fn write_detail(text: &mut String, detail: &Detail) -> fmt::Result {
    let entries = counted(detail.entries, "line");
    writeln!(text, "{}: {entries} in the block", detail.path)?;
    let problem = detail.problem.as_ref();
    if let Some(problem) = problem {
        writeln!(text, "  ! {problem}")?;
    }
    let way = detail.way.as_deref().unwrap_or("not yet");
    let conflicts = counted(
        usize::try_from(detail.conflicts).unwrap_or(usize::MAX),
        "conflict",
    );
    writeln!(
        text,
        "  written {} ({way}), {conflicts}, {} failed",
        times(detail.writes),
        detail.failures
    )?;
    if let Some(right_at) = detail.right_at {
        let time = UNIX_EPOCH + Duration::from_secs(right_at);
        writeln!(text, "  as it should be at {}", Timestamp(time))?;
    }
    writeln!(text, "asks {}", detail.nameservers.join(", "))?;
    for service in &detail.services {
        writeln!(text, "{}", service.name)?;
        for (name, family) in [("IPv4", &service.ipv4), ("IPv6", &service.ipv6)] {
            writeln!(text, "  {name}: {}", of_family(family))?;
        }
    }
    Ok(())
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}

fn of_family(family: &Family) -> String {
    let addresses = match family.addresses.is_empty() {
        true => "none".to_owned(),
        false => family.addresses.join(", "),
    };
    let heard = match family.answered_ago {
        None => "no answer yet".to_owned(),
        Some(ago) => {
            let what = if family.denied { "denied" } else { "answered" };
            format!("{what} {} ago", HumanDuration(Duration::from_secs(ago)))
        }
    };
    match &family.failure {
        None => format!("{addresses} ({heard})"),
        Some(failure) => format!("{addresses} ({heard}; then: {failure})"),
    }
}

/// Shows the updater to a scraper.
pub(super) struct Scrape(pub(super) Arc<Shared>);

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.0.now();
        let state = self.0.state.lock();
        let (counts, entries) = (state.counts, state.services.entries().len());
        let mut ages = Vec::new();
        for (service, families) in state.services.all() {
            let name = service.asked.to_string();
            for (family, known) in FAMILIES.iter().zip(families) {
                if let Some(answered) = known.answered {
                    let age = now.saturating_sub(answered).as_secs_f64();
                    ages.push((labels(&[("service", &name), ("family", family)]), age));
                }
            }
        }
        let right_at = state.right_at.map(float);
        drop(state);
        let mut page = Page::new(&mut encoder);
        let count = u64::try_from(entries).unwrap_or(u64::MAX);
        page.gauge(
            ENTRIES,
            "Lines of the block of the hosts file",
            float(count),
        )?;
        if let Some(right_at) = right_at {
            let help = "When the hosts file was last found as it should be, or written so";
            page.gauge(LAST_SUCCESS, help, right_at)?;
        }
        let ways = [("replaced", counts.replaced), ("in-place", counts.in_place)];
        let ways = ways.map(|(way, count)| (labels(&[("way", way)]), count));
        page.counters(WRITES, "Writes of the hosts file", ways.to_vec())?;
        page.counter(
            FAILURES,
            "Writes of the hosts file that have failed",
            counts.failures,
        )?;
        let help = "Changes of the hosts file by others at the same time";
        page.counter(CONFLICTS, help, counts.conflicts)?;
        let lookups = OUTCOMES.iter().zip(counts.lookups);
        let lookups = lookups.map(|(outcome, count)| (labels(&[("outcome", outcome)]), count));
        page.counters(LOOKUPS, "Lookups of services", lookups.collect())?;
        page.gauges(
            ANSWER_AGE,
            "Seconds since the last answer about a service",
            ages,
        )
    }
}
