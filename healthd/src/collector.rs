//! Metrics of targets and clocks, read at each scrape.
//!
//! Series of single targets are written for the first targets only: a scraper must survive a
//! site that watches thousands. Sums cover all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daemon::metrics::float;
use daemon::metrics::{Labels as PageLabels, Page, labels};
use exchange::members::Contact;
use health::{Basis, ClockReport, ClockState, Liveness};
use liveness::counts::{BOUNDS, Counts};
use liveness::monitor::Monitor;
use liveness::table::Entry;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::driver::Driver;
use crate::metrics::{
    CLOCK_AGE, CLOCK_OFFSET, CLOCK_ROOT_DISTANCE, CLOCK_STATE, CLOCK_STRATUM, CUT_OFF, GENERATION,
    PEER_FINDINGS, PEER_HEARD, PEER_IGNORED, PROBES_IN_FLIGHT, PROBES_IN_FLIGHT_LIMIT, SUBSCRIBERS,
    TARGET_PROBE_DURATION, TARGET_TRANSITIONS, TARGET_UP, TARGETS, TARGETS_WITHOUT_SERIES,
    VERDICTS,
};

/// Reads the monitor at each scrape.
pub struct TargetCollector {
    driver: Driver,
    max_series: Arc<AtomicUsize>,
}

impl TargetCollector {
    /// Writes the series of at most `max_series` targets.
    #[must_use]
    pub fn new(driver: Driver, max_series: Arc<AtomicUsize>) -> Self {
        Self { driver, max_series }
    }
}

impl fmt::Debug for TargetCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetCollector").finish_non_exhaustive()
    }
}

impl Collector for TargetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let max_series = self.max_series.load(Ordering::Relaxed);
        // This copies first: a slow scraper must not hold the monitor.
        let (totals, series, clocks, peers) = self.driver.look_now(|monitor, now| {
            let series = monitor.table().entries().take(max_series);
            let series = series.map(Series::of).collect::<Vec<_>>();
            let clocks = monitor.clocks().iter();
            let clocks = clocks.map(|clock| (clock.report.clone(), clock.age(now.steady)));
            let clocks = clocks.collect::<Vec<_>>();
            (
                Totals::of(monitor),
                series,
                clocks,
                Peers::of(monitor, now.steady),
            )
        });
        totals.encode(&mut encoder, series.len())?;
        encode_series(&mut encoder, &series)?;
        let mut page = Page::new(&mut encoder);
        encode_clocks(&mut page, &clocks)?;
        match peers {
            Some(peers) => peers.encode(&mut page),
            None => Ok(()),
        }
    }
}

/// There are no more clocks than [`Clocks`](liveness::clocks::Clocks) holds.
fn encode_clocks(page: &mut Page<'_, '_>, clocks: &[(ClockReport, Duration)]) -> fmt::Result {
    let states = clocks.iter().flat_map(|(report, _)| {
        ClockState::ALL.map(|state| {
            let is_in = f64::from(u8::from(state == report.state));
            let named = [("reporter", &*report.reporter), ("state", state.name())];
            (labels(&named), is_in)
        })
    });
    page.gauges(
        CLOCK_STATE,
        "The state of a node's clock.",
        states.collect(),
    )?;
    let each = |value: fn(&ClockReport, Duration) -> f64| -> Vec<(PageLabels, f64)> {
        let all = clocks.iter();
        let all = all.map(|(report, age)| {
            let labels = labels(&[("reporter", &*report.reporter)]);
            (labels, value(report, *age))
        });
        all.collect()
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact to the nanosecond for a hundred days"
    )]
    let offsets = each(|report, _| report.offset as f64 / 1e9);
    page.gauges(
        CLOCK_OFFSET,
        "Offset of a node's clock; positive if slow.",
        offsets,
    )?;
    let distances = each(|report, _| report.root_distance.as_secs_f64());
    page.gauges(
        CLOCK_ROOT_DISTANCE,
        "Bound on the error of a node's clock.",
        distances,
    )?;
    let strata = each(|report, _| f64::from(report.stratum));
    page.gauges(CLOCK_STRATUM, "Stratum that clients of a node see.", strata)?;
    let ages = each(|_, age| age.as_secs_f64());
    page.gauges(CLOCK_AGE, "How long ago a node's clock was reported.", ages)
}

/// The other nodes, where there are some.
struct Peers {
    is_cut_off: bool,
    by_basis: [(Basis, usize); 4],
    /// Each with whether it is heard, and how many findings are kept and were ignored.
    peers: Vec<(PageLabels, bool, usize, u64)>,
}

impl Peers {
    fn of(monitor: &Monitor, now: Instant) -> Option<Self> {
        let members = monitor.exchanged()?.members();
        let silence = members.settings().silence;
        let count = |basis| {
            let sites = monitor.table().entries();
            let sites = sites.filter_map(|entry| entry.site.as_ref());
            (basis, sites.filter(|site| site.basis == basis).count())
        };
        let peers = members.peers().iter().map(|peer| {
            let is_heard = peer.is_heard(silence, now);
            let labels = labels(&[("peer", &peer.name)]);
            (labels, is_heard, peer.n_findings(), peer.n_ignored())
        });
        Some(Self {
            is_cut_off: members.contact().0 == Contact::CutOff,
            by_basis: Basis::ALL.map(count),
            peers: peers.collect(),
        })
    }

    fn encode(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        page.gauge(
            CUT_OFF,
            "Whether this node is cut off from the others.",
            f64::from(u8::from(self.is_cut_off)),
        )?;
        let verdicts = self.by_basis.iter();
        let verdicts = verdicts.map(|(basis, count)| {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            (labels(&[("basis", basis.name())]), float(count))
        });
        page.gauges(
            VERDICTS,
            "Targets by what their liveness rests on.",
            verdicts.collect(),
        )?;
        let peers = self.peers.iter();
        let heard = peers
            .clone()
            .map(|(labels, heard, ..)| (labels.clone(), f64::from(u8::from(*heard))));
        page.gauges(
            PEER_HEARD,
            "Whether the findings of another node count.",
            heard.collect(),
        )?;
        let findings = peers.clone().map(|(labels, _, findings, _)| {
            let findings = u64::try_from(*findings).unwrap_or(u64::MAX);
            (labels.clone(), float(findings))
        });
        page.gauges(
            PEER_FINDINGS,
            "Findings of another node that are kept.",
            findings.collect(),
        )?;
        let ignored = peers.map(|(labels, _, _, ignored)| (labels.clone(), *ignored));
        page.counters(
            PEER_IGNORED,
            "Messages and findings of another node that were ignored.",
            ignored.collect(),
        )
    }
}

struct Totals {
    by_liveness: [(&'static str, usize); 3],
    n_targets: usize,
    n_subscribers: usize,
    generation: u64,
    in_flight: (usize, usize),
}

impl Totals {
    fn of(monitor: &Monitor) -> Self {
        let count = |wanted| {
            let entries = monitor.table().entries();
            entries.filter(|entry| entry.liveness() == wanted).count()
        };
        Self {
            by_liveness: [
                ("unknown", count(Liveness::Unknown)),
                ("up", count(Liveness::Up)),
                ("down", count(Liveness::Down)),
            ],
            n_targets: monitor.table().len(),
            n_subscribers: monitor.subscribers().count(),
            generation: monitor.generation(),
            in_flight: monitor.in_flight(),
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, n_series: usize) -> fmt::Result {
        let mut family =
            encoder.encode_descriptor(TARGETS, "Targets known.", None, MetricType::Gauge)?;
        for (liveness, count) in self.by_liveness {
            let labels = [("liveness", liveness)];
            gauge(count).encode(family.encode_family(&labels)?)?;
        }
        let (in_flight, limit) = self.in_flight;
        let generation = usize::try_from(self.generation).unwrap_or(usize::MAX);
        let gauges = [
            (
                TARGETS_WITHOUT_SERIES,
                "Targets beyond the bound on series of single targets.",
                self.n_targets - n_series.min(self.n_targets),
            ),
            (SUBSCRIBERS, "Open Watch streams.", self.n_subscribers),
            (GENERATION, "The newest generation.", generation),
            (PROBES_IN_FLIGHT, "Probes in flight.", in_flight),
            (
                PROBES_IN_FLIGHT_LIMIT,
                "How many probes may be in flight.",
                limit,
            ),
        ];
        for (name, help, value) in gauges {
            let value = gauge(value);
            value.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

fn gauge(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The series of one target.
struct Series {
    labels: SeriesLabels,
    is_up: bool,
    counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SeriesLabels {
    id: String,
    kind: &'static str,
    address: String,
}

impl Series {
    fn of(entry: &Entry) -> Self {
        Self {
            labels: SeriesLabels {
                id: crate::wire_form::fingerprint(&entry.target),
                kind: entry.target.kind.name(),
                address: entry.target.address.to_string(),
            },
            is_up: entry.liveness() == Liveness::Up,
            counts: entry.counts.clone(),
        }
    }
}

fn encode_series(encoder: &mut DescriptorEncoder<'_>, series: &[Series]) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        TARGET_UP,
        "Whether the target is up for subscribers.",
        None,
        MetricType::Gauge,
    )?;
    for one in series {
        gauge(usize::from(one.is_up)).encode(family.encode_family(&one.labels)?)?;
    }
    let mut family = encoder.encode_descriptor(
        TARGET_TRANSITIONS,
        "Changes of a target's liveness.",
        None,
        MetricType::Counter,
    )?;
    for one in series {
        ConstCounter::new(one.counts.n_transitions).encode(family.encode_family(&one.labels)?)?;
    }
    let mut family = encoder.encode_descriptor(
        TARGET_PROBE_DURATION,
        "How long a target's probes took.",
        None,
        MetricType::Histogram,
    )?;
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    for one in series {
        let buckets: Vec<(f64, u64)> = bounds.clone().zip(one.counts.buckets).collect();
        let (sum, count) = (one.counts.total.as_secs_f64(), one.counts.n_probes());
        let no_exemplars: Option<&std::collections::HashMap<usize, Exemplar<NoLabels, f64>>> = None;
        family
            .encode_family(&one.labels)?
            .encode_histogram(sum, count, &buckets, no_exemplars)?;
    }
    Ok(())
}

type NoLabels = [(&'static str, &'static str); 0];
