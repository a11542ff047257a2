//! The metrics of healthd. Each name is here and nowhere else.
//!
//! Series of single targets are written for the first so many targets only
//! ([`TargetCollector`]): a scraper must survive a site that watches thousands. Sums cover all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use daemon::metrics::{Labels as PageLabels, Metrics, Page, labels};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use proto::health::{ClockReport, ClockState, Liveness, Target};

use crate::board::{Entry, Finding};
use crate::engine::Engine;
use crate::hub::Hub;
use crate::tally::{BOUNDS, Tally};

/// `healthd_probes_total{kind,result}`: probes that have ended, good or bad.
pub const PROBES: &str = "healthd_probes";
/// `healthd_probe_duration_seconds{kind}`: how long probes took.
pub const PROBE_DURATION: &str = "healthd_probe_duration_seconds";
/// `healthd_probe_lateness_seconds`: how long after its due time a probe was started.
pub const PROBE_LATENESS: &str = "healthd_probe_lateness_seconds";
/// `healthd_probes_in_flight`: probes that have started and not ended.
pub const PROBES_IN_FLIGHT: &str = "healthd_probes_in_flight";
/// `healthd_probes_in_flight_limit`: how many may be.
pub const PROBES_IN_FLIGHT_LIMIT: &str = "healthd_probes_in_flight_limit";
/// `healthd_evidence_total{use}`: reports of subscribers that led to a probe or were dropped.
pub const EVIDENCE: &str = "healthd_evidence";
/// `healthd_targets{liveness}`: targets known.
pub const TARGETS: &str = "healthd_targets";
/// `healthd_targets_without_series`: targets beyond the bound on series of single targets.
pub const TARGETS_WITHOUT_SERIES: &str = "healthd_targets_without_series";
/// `healthd_subscribers`: open `Watch` streams.
pub const SUBSCRIBERS: &str = "healthd_subscribers";
/// `healthd_generation`: the newest generation.
pub const GENERATION: &str = "healthd_generation";
/// `healthd_state_saves_total{result}`: attempts to write the state to disk.
pub const STATE_SAVES: &str = "healthd_state_saves";
/// `healthd_target_up{id,kind,address}`: 1 when probes find the target up.
pub const TARGET_UP: &str = "healthd_target_up";
/// `healthd_target_transitions_total{id,kind,address}`: changes of a target's liveness.
pub const TARGET_TRANSITIONS: &str = "healthd_target_transitions";
/// `healthd_target_probe_duration_seconds{id,kind,address}`: how long a target's probes took.
pub const TARGET_PROBE_DURATION: &str = "healthd_target_probe_duration_seconds";
/// `healthd_clock_state{reporter,state}`: 1 for the state that a node's clock is in, 0 for the others.
pub const CLOCK_STATE: &str = "healthd_clock_state";
/// `healthd_clock_offset_seconds{reporter}`: what the clock is off; positive if it is slow.
pub const CLOCK_OFFSET: &str = "healthd_clock_offset_seconds";
/// `healthd_clock_root_distance_seconds{reporter}`: bound on its error.
pub const CLOCK_ROOT_DISTANCE: &str = "healthd_clock_root_distance_seconds";
/// `healthd_clock_stratum{reporter}`: what clients of the node are told.
pub const CLOCK_STRATUM: &str = "healthd_clock_stratum";
/// `healthd_clock_age_seconds{reporter}`: how long ago the report came.
pub const CLOCK_AGE: &str = "healthd_clock_age_seconds";

/// Upper bounds of the buckets of lateness, in seconds: a timer is late by a millisecond or two.
const LATENESS_BOUNDS: [f64; 7] = [0.001, 0.002, 0.005, 0.02, 0.1, 0.5, 2.5];

type Labels = [(&'static str, &'static str); 1];

/// What is counted of all probes; clones share it.
#[derive(Clone, Debug)]
pub struct Counters {
    probes: Family<[(&'static str, &'static str); 2], Counter>,
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    /// How long after its due time a probe was started.
    pub lateness: Histogram,
    evidence: Family<Labels, Counter>,
    saves: Family<Labels, Counter>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            probes: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            lateness: Histogram::new(LATENESS_BOUNDS),
            evidence: Family::default(),
            saves: Family::default(),
        }
    }
}

impl Counters {
    /// Registers everything that is counted.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(PROBES, "Probes that have ended", self.probes.clone());
        metrics.register(
            PROBE_DURATION,
            "How long probes took",
            self.duration.clone(),
        );
        metrics.register(
            PROBE_LATENESS,
            "How long after its due time a probe was started",
            self.lateness.clone(),
        );
        metrics.register(EVIDENCE, "Reports of subscribers", self.evidence.clone());
        metrics.register(
            STATE_SAVES,
            "Attempts to write the state to disk",
            self.saves.clone(),
        );
    }

    /// Counts a probe.
    pub fn count(&self, target: &Target, finding: &Finding) {
        let kind = target.kind.name();
        let result = if finding.good { "good" } else { "bad" };
        let labels = [("kind", kind), ("result", result)];
        self.probes.get_or_create(&labels).inc();
        let duration = self.duration.get_or_create(&[("kind", kind)]);
        duration.observe(finding.latency.as_secs_f64());
    }

    /// Counts a report that led to a probe.
    pub fn evidence_accepted(&self) {
        self.evidence.get_or_create(&[("use", "probe")]).inc();
    }

    /// Counts a report that led to nothing.
    pub fn evidence_dropped(&self) {
        self.evidence.get_or_create(&[("use", "dropped")]).inc();
    }

    /// Counts an attempt to write the state.
    pub fn saved<T, E>(&self, attempt: &Result<T, E>) {
        let result = if attempt.is_ok() { "good" } else { "failed" };
        self.saves.get_or_create(&[("result", result)]).inc();
    }
}

//--- Targets

/// Reads the hub at each scrape.
pub struct TargetCollector {
    engine: Engine,
    max_series: Arc<AtomicUsize>,
}

impl TargetCollector {
    /// Writes the series of at most so many targets.
    #[must_use]
    pub fn new(engine: Engine, max_series: Arc<AtomicUsize>) -> Self {
        Self { engine, max_series }
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
        // What is written is copied first: a slow scraper must not hold the hub.
        let (totals, series, clocks) = self.engine.look_now(|hub, now| {
            let series = hub.board().entries().take(max_series);
            let series = series.map(Series::of).collect::<Vec<_>>();
            let clocks = hub.clocks().iter();
            let clocks = clocks.map(|clock| (clock.report.clone(), clock.age(now.steady)));
            (Totals::of(hub), series, clocks.collect::<Vec<_>>())
        });
        totals.encode(&mut encoder, series.len())?;
        encode_series(&mut encoder, &series)?;
        encode_clocks(&mut Page::new(&mut encoder), &clocks)
    }
}

/// There are no more clocks than [`Clocks`](crate::clocks::Clocks) holds.
fn encode_clocks(page: &mut Page<'_, '_>, clocks: &[(ClockReport, Duration)]) -> fmt::Result {
    let states = clocks.iter().flat_map(|(report, _)| {
        ClockState::ALL.map(|state| {
            let labels = [("reporter", &*report.reporter), ("state", state.name())];
            let is_in = f64::from(u8::from(state == report.state));
            (self::labels(&labels), is_in)
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
        "What a node's clock is off; positive if slow.",
        offsets,
    )?;
    let distances = each(|report, _| report.root_distance.as_secs_f64());
    page.gauges(
        CLOCK_ROOT_DISTANCE,
        "Bound on the error of a node's clock.",
        distances,
    )?;
    let strata = each(|report, _| f64::from(report.stratum));
    page.gauges(
        CLOCK_STRATUM,
        "Stratum that clients of a node are told.",
        strata,
    )?;
    let ages = each(|_, age| age.as_secs_f64());
    page.gauges(CLOCK_AGE, "How long ago a node's clock was reported.", ages)
}

struct Totals {
    by_liveness: [(&'static str, usize); 3],
    n_targets: usize,
    n_subscribers: usize,
    generation: u64,
    in_flight: (usize, usize),
}

impl Totals {
    fn of(hub: &Hub) -> Self {
        let count = |wanted| {
            let entries = hub.board().entries();
            entries
                .filter(|entry| entry.standing.liveness() == wanted)
                .count()
        };
        Self {
            by_liveness: [
                ("unknown", count(Liveness::Unknown)),
                ("up", count(Liveness::Up)),
                ("down", count(Liveness::Down)),
            ],
            n_targets: hub.board().len(),
            n_subscribers: hub.subscribers().count(),
            generation: hub.generation(),
            in_flight: hub.in_flight(),
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
    tally: Tally,
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
            is_up: entry.standing.liveness() == Liveness::Up,
            tally: entry.tally.clone(),
        }
    }
}

fn encode_series(encoder: &mut DescriptorEncoder<'_>, series: &[Series]) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        TARGET_UP,
        "Whether probes find the target up.",
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
        ConstCounter::new(one.tally.n_transitions).encode(family.encode_family(&one.labels)?)?;
    }
    let mut family = encoder.encode_descriptor(
        TARGET_PROBE_DURATION,
        "How long a target's probes took.",
        None,
        MetricType::Histogram,
    )?;
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    for one in series {
        let buckets: Vec<(f64, u64)> = bounds.clone().zip(one.tally.buckets).collect();
        let (sum, count) = (one.tally.total.as_secs_f64(), one.tally.n_probes());
        let no_exemplars: Option<&std::collections::HashMap<usize, Exemplar<NoLabels, f64>>> = None;
        family
            .encode_family(&one.labels)?
            .encode_histogram(sum, count, &buckets, no_exemplars)?;
    }
    Ok(())
}

type NoLabels = [(&'static str, &'static str); 0];
