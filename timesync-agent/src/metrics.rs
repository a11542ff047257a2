//! Names of metrics, and what they are read from.
//!
//! `timesync_*` is the agent's own. What dashboards and alerts of the platform read of its PTP daemons is there under the
//! same names (`openshift_ptp_*`, with `process="timesync-agent"`), so that a node that has this agent in their place is
//! charted like the others.

use std::fmt;
use std::sync::Arc;

use daemon_base::metrics::{Labels, Page, float, labels};
use daemon_base::snapshot::Cell;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::view::{ClockState, Leap, SourceView, View};
use crate::words;

/// 1 for the state that the clock is in, 0 for the others, by state.
pub const STATE: &str = "timesync_clock_state";
/// 1 if clients are given time that they may follow.
pub const SYNCHRONISED: &str = "timesync_synchronised";
/// What is left to be corrected; positive if the clock is slow.
pub const OFFSET: &str = "timesync_offset_seconds";
/// Offset at the last update.
pub const LAST_OFFSET: &str = "timesync_last_offset_seconds";
/// Long-term average of the offset.
pub const RMS_OFFSET: &str = "timesync_rms_offset_seconds";
/// By how much the clock would gain without correction; positive if fast.
pub const FREQUENCY: &str = "timesync_frequency_ppm";
/// Bound on the error of the frequency.
pub const SKEW: &str = "timesync_skew_ppm";
/// Round trip to the primary source.
pub const ROOT_DELAY: &str = "timesync_root_delay_seconds";
/// Error collected on the way to the primary source.
pub const ROOT_DISPERSION: &str = "timesync_root_dispersion_seconds";
/// Bound on the error of the clock.
pub const ROOT_DISTANCE: &str = "timesync_root_distance_seconds";
/// What clients are told.
pub const STRATUM: &str = "timesync_stratum";
/// Leap second at hand: 0 none, 1 insert, 2 delete, 3 not synchronised.
pub const LEAP: &str = "timesync_leap";
/// When the clock was last told what time it is.
pub const REFERENCE_TIME: &str = "timesync_reference_timestamp_seconds";
/// Updates of the clock.
pub const UPDATES: &str = "timesync_updates";
/// Steps of the clock.
pub const STEPS: &str = "timesync_steps";
/// 1 if the clock is corrected, 0 with `--no-clock`.
pub const CORRECTS: &str = "timesync_corrects_clock";
/// Sources by what selection said of them.
pub const SOURCES: &str = "timesync_sources";
/// Names that have no address yet.
pub const UNRESOLVED: &str = "timesync_unresolved_names";
/// 1 for the state that a source is in, by source and state.
pub const SOURCE_STATE: &str = "timesync_source_state";
/// Offset of a source's last sample, as corrected since.
pub const SOURCE_OFFSET: &str = "timesync_source_offset_seconds";
/// Half of the round trip and dispersion of the last sample.
pub const SOURCE_ERROR: &str = "timesync_source_error_seconds";
/// Round trip of the last valid packet.
pub const SOURCE_DELAY: &str = "timesync_source_delay_seconds";
/// Standard deviation of a source's samples.
pub const SOURCE_DEVIATION: &str = "timesync_source_deviation_seconds";
/// How many of the last eight polls were answered.
pub const SOURCE_REACH: &str = "timesync_source_reach";
/// Stratum of a source.
pub const SOURCE_STRATUM: &str = "timesync_source_stratum";
/// Polling interval of a source.
pub const SOURCE_POLL: &str = "timesync_source_poll_seconds";
/// Packets sent to a source.
pub const SOURCE_SENT: &str = "timesync_source_packets_sent";
/// Packets received from a source, by whether they were of use.
pub const SOURCE_RECEIVED: &str = "timesync_source_packets_received";

/// Offset in nanoseconds, as the platform's PTP daemons have it.
pub const PTP_OFFSET: &str = "openshift_ptp_offset_ns";
/// The largest offset so far, in nanoseconds.
pub const PTP_MAX_OFFSET: &str = "openshift_ptp_max_offset_ns";
/// Frequency adjustment, in nanoseconds a second.
pub const PTP_FREQUENCY: &str = "openshift_ptp_frequency_adjustment_ns";
/// Delay of the path, in nanoseconds.
pub const PTP_DELAY: &str = "openshift_ptp_delay_ns";
/// 0 free run, 1 locked, 2 holdover.
pub const PTP_CLOCK_STATE: &str = "openshift_ptp_clock_state";
/// 1 while the process runs.
pub const PTP_PROCESS_STATUS: &str = "openshift_ptp_process_status";

/// The name under which the platform's dashboards find this process.
const PROCESS: &str = "timesync-agent";
/// The platform's name for the clock of the system, where it names an interface.
const SYSTEM_CLOCK: &str = "CLOCK_REALTIME";

/// Reads the newest view at each scrape.
pub struct Scrape {
    views: Arc<Cell<View>>,
    node: String,
    corrects_clock: bool,
}

impl Scrape {
    /// Of these views, for the node of this name.
    #[must_use]
    pub fn new(views: Arc<Cell<View>>, node: String, corrects_clock: bool) -> Self {
        Self {
            views,
            node,
            corrects_clock,
        }
    }
}

impl fmt::Debug for Scrape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let view = self.views.current();
        let mut page = Page::new(&mut encoder);
        clock(&mut page, &view)?;
        page.gauge(
            CORRECTS,
            "1 if the clock is corrected, 0 if it is left alone",
            flag(self.corrects_clock),
        )?;
        sources(&mut page, &view.sources)?;
        platform(&mut page, &view, &self.node)
    }
}

fn clock(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let tracking = &view.tracking;
    let states = words::STATES.map(|state| {
        let labels = labels(&[("state", words::state(state))]);
        (labels, flag(state == view.state))
    });
    page.gauges(STATE, "The state of the clock", states.into())?;
    page.gauge(
        SYNCHRONISED,
        "1 if clients may follow the time that they are given",
        flag(words::is_ready(view)),
    )?;
    estimate(page, view)?;
    if tracking.reference_time.0 > 0 {
        let told = (tracking.reference_time - crate::time::UnixTime(0)).seconds();
        page.gauge(
            REFERENCE_TIME,
            "When the clock was last told what time it is",
            told,
        )?;
    }
    page.counter(UPDATES, "Updates of the clock", tracking.n_updates)?;
    page.counter(STEPS, "Steps of the clock", tracking.n_steps)
}

/// Numbers of the clock.
fn estimate(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let tracking = &view.tracking;
    let leap = match tracking.leap {
        Leap::Normal => 0,
        Leap::Insert => 1,
        Leap::Delete => 2,
        Leap::Unsynchronised => 3_u8,
    };
    let gauges = [
        (
            OFFSET,
            "What is left to be corrected; positive if the clock is slow",
            tracking.correction,
        ),
        (
            LAST_OFFSET,
            "Offset at the last update",
            tracking.last_offset,
        ),
        (
            RMS_OFFSET,
            "Long-term average of the offset",
            tracking.rms_offset,
        ),
        (
            FREQUENCY,
            "What the clock gains without correction",
            tracking.frequency,
        ),
        (SKEW, "Bound on the error of the frequency", tracking.skew),
        (
            ROOT_DELAY,
            "Round trip to the primary source",
            tracking.root_delay,
        ),
        (
            ROOT_DISPERSION,
            "Error collected on the way to the primary source",
            tracking.root_dispersion,
        ),
        (
            ROOT_DISTANCE,
            "Bound on the error of the clock",
            words::root_distance(view),
        ),
        (
            STRATUM,
            "What clients are told; 0 for none",
            f64::from(tracking.stratum),
        ),
        (
            LEAP,
            "Leap second at hand: 0 none, 1 insert, 2 delete, 3 not synchronised",
            f64::from(leap),
        ),
        (
            UNRESOLVED,
            "Names that have no address yet",
            f64::from(view.n_unresolved),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value)?;
    }
    Ok(())
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

//--- Sources

/// A number of a source, if it has it.
type Reading = fn(&SourceView) -> Option<f64>;

fn sources(page: &mut Page<'_, '_>, sources: &[SourceView]) -> fmt::Result {
    let by_state = words::SOURCE_STATES.map(|state| {
        let n = sources
            .iter()
            .filter(|source| source.state == state)
            .count();
        let labels = labels(&[("state", words::source_state(state))]);
        (labels, float(u64::try_from(n).unwrap_or(u64::MAX)))
    });
    page.gauges(
        SOURCES,
        "Sources by what selection said of them",
        by_state.into(),
    )?;
    let states = sources.iter().flat_map(|source| {
        words::SOURCE_STATES.map(|state| {
            let mut labels = of(source);
            labels.push(("state", words::source_state(state).to_owned()));
            (labels, flag(source.state == state))
        })
    });
    page.gauges(
        SOURCE_STATE,
        "What selection said of a source",
        states.collect(),
    )?;
    let gauges: [(&str, &str, Reading); 7] = [
        (
            SOURCE_OFFSET,
            "Offset of the last sample, as corrected since",
            |source| source.last_sample.map(|_| source.adjusted_offset),
        ),
        (
            SOURCE_ERROR,
            "Half of the round trip and dispersion of the last sample",
            |source| source.last_sample.map(|_| source.sample_error),
        ),
        (
            SOURCE_DELAY,
            "Round trip of the last valid packet",
            |source| source.packet.map(|packet| packet.delay),
        ),
        (
            SOURCE_DEVIATION,
            "Standard deviation of the samples",
            |source| (source.statistics.n_samples > 1).then_some(source.statistics.deviation),
        ),
        (
            SOURCE_REACH,
            "How many of the last eight polls were answered",
            |source| Some(f64::from(source.reach.count_ones())),
        ),
        (SOURCE_STRATUM, "Stratum of the source", |source| {
            Some(f64::from(source.stratum))
        }),
        (SOURCE_POLL, "Polling interval", |source| {
            Some(f64::from(source.poll).exp2())
        }),
    ];
    for (name, help, value) in gauges {
        let all = sources.iter();
        let all = all.filter_map(|source| Some((of(source), value(source)?)));
        page.gauges(name, help, all.collect())?;
    }
    packets(page, sources)
}

fn packets(page: &mut Page<'_, '_>, sources: &[SourceView]) -> fmt::Result {
    let mut sent = Vec::new();
    let mut received = Vec::new();
    for source in sources {
        let Some(packet) = source.packet else {
            continue;
        };
        sent.push((of(source), packet.n_sent.into()));
        let invalid = packet.n_received.saturating_sub(packet.n_valid);
        let unused = packet.n_valid.saturating_sub(packet.n_good);
        let results = [
            ("good", packet.n_good),
            ("unused", unused),
            ("invalid", invalid),
        ];
        for (result, n) in results {
            let mut labels = of(source);
            labels.push(("result", result.to_owned()));
            received.push((labels, n.into()));
        }
    }
    page.counters(SOURCE_SENT, "Packets sent", sent)?;
    page.counters(
        SOURCE_RECEIVED,
        "Packets received, by what they were good for",
        received,
    )
}

/// The name of a source, and its address: a pool has several of one name.
fn of(source: &SourceView) -> Labels {
    let address = source.address.map(|address| address.to_string());
    labels(&[
        ("source", &source.name),
        ("address", &address.unwrap_or_default()),
    ])
}

//--- The platform's names

fn platform(page: &mut Page<'_, '_>, view: &View, node: &str) -> fmt::Result {
    let tracking = &view.tracking;
    let of_clock = labels(&[
        ("process", PROCESS),
        ("node", node),
        ("iface", SYSTEM_CLOCK),
    ]);
    let mut of_source = labels(&[("from", "ntp")]);
    of_source.extend(of_clock.iter().cloned());
    // Theirs are positive if the clock is ahead of its master.
    let gauges = [
        (
            PTP_OFFSET,
            "Offset of the clock from its source",
            -tracking.correction * 1e9,
        ),
        (
            PTP_MAX_OFFSET,
            "RMS offset of the clock from its source",
            tracking.rms_offset * 1e9,
        ),
        (
            PTP_FREQUENCY,
            "Correction of the frequency",
            -tracking.frequency * 1e3,
        ),
        (
            PTP_DELAY,
            "Delay of the path to the source",
            tracking.root_delay * 1e9,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauges(name, help, vec![(of_source.clone(), value)])?;
    }
    let state = match view.state {
        ClockState::Locked => 1.0,
        ClockState::Holdover => 2.0,
        ClockState::Unsynchronised | ClockState::Syncing | ClockState::Local => 0.0,
    };
    page.gauges(
        PTP_CLOCK_STATE,
        "0 free run, 1 locked, 2 holdover",
        vec![(of_clock, state)],
    )?;
    let of_process = labels(&[
        ("process", PROCESS),
        ("node", node),
        ("config", SYSTEM_CLOCK),
    ]);
    page.gauges(
        PTP_PROCESS_STATUS,
        "1 while the process runs",
        vec![(of_process, 1.0)],
    )
}

#[cfg(test)]
mod tests {
    use daemon_base::metrics::{Exposition, Metrics};

    use super::*;
    use crate::time::RawTime;
    use crate::view::{PacketView, SourceState, Tracking};

    fn scraped(view: View) -> String {
        let metrics = Metrics::new("timesync-agent");
        let scrape = Scrape::new(Cell::new(view), "master-0".to_owned(), false);
        metrics.register_collector(Box::new(scrape));
        metrics.encode(Exposition::Prometheus)
    }

    #[test]
    fn what_is_seen_is_charted() {
        let view = View {
            state: ClockState::Holdover,
            tracking: Tracking {
                stratum: 3,
                leap: Leap::Insert,
                correction: -12e-6,
                frequency: 1.5,
                n_updates: 7,
                ..Tracking::default()
            },
            sources: vec![SourceView {
                name: "ntp.example.org".to_owned(),
                address: "192.0.2.1".parse().ok(),
                state: SourceState::Best,
                reach: 0o17,
                poll: -1,
                last_sample: Some(RawTime(0)),
                adjusted_offset: 0.25,
                packet: Some(PacketView {
                    n_sent: 9,
                    n_received: 8,
                    n_valid: 7,
                    n_good: 5,
                    ..PacketView::default()
                }),
                ..SourceView::default()
            }],
            ..View::default()
        };
        let text = scraped(view);
        for line in [
            "timesync_clock_state{state=\"holdover\"} 1.0",
            "timesync_clock_state{state=\"locked\"} 0.0",
            "timesync_synchronised 1.0",
            "timesync_offset_seconds -0.000012",
            "timesync_leap 1.0",
            "timesync_updates_total 7",
            "timesync_corrects_clock 0.0",
            "timesync_sources{state=\"best\"} 1.0",
            "timesync_source_offset_seconds{source=\"ntp.example.org\",address=\"192.0.2.1\"} 0.25",
            "timesync_source_reach{source=\"ntp.example.org\",address=\"192.0.2.1\"} 4.0",
            "timesync_source_poll_seconds{source=\"ntp.example.org\",address=\"192.0.2.1\"} 0.5",
            "timesync_source_packets_received_total{source=\"ntp.example.org\",address=\"192.0.2.1\",result=\"unused\"} 2",
            "openshift_ptp_offset_ns{from=\"ntp\",process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} 12000.0",
            "openshift_ptp_frequency_adjustment_ns{from=\"ntp\",process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} -1500.0",
            "openshift_ptp_clock_state{process=\"timesync-agent\",node=\"master-0\",iface=\"CLOCK_REALTIME\"} 2.0",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "no {line} in\n{text}"
            );
        }
    }

    #[test]
    fn an_agent_without_sources_is_charted() {
        let text = scraped(View::default());
        assert!(text.contains("timesync_synchronised 0.0"));
        assert!(text.contains("timesync_sources{state=\"best\"} 0.0"));
        assert!(!text.contains("timesync_source_reach"));
        assert!(!text.contains("timesync_reference_timestamp_seconds"));
    }
}
