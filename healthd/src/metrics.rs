//! The metrics of healthd. Each name is here and nowhere else.

use daemon::metrics::Metrics;
use liveness::counts::BOUNDS;
use liveness::table::Finding;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use proto::health::Target;

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
/// `healthd_target_up{id,kind,address}`: 1 when the target is up for subscribers.
pub const TARGET_UP: &str = "healthd_target_up";
/// `healthd_target_transitions_total{id,kind,address}`: changes of a target's liveness.
pub const TARGET_TRANSITIONS: &str = "healthd_target_transitions";
/// `healthd_target_probe_duration_seconds{id,kind,address}`: how long a target's probes took.
pub const TARGET_PROBE_DURATION: &str = "healthd_target_probe_duration_seconds";
/// `healthd_clock_state{reporter,state}`: 1 for the state that a node's clock is in, 0 for the others.
pub const CLOCK_STATE: &str = "healthd_clock_state";
/// `healthd_clock_offset_seconds{reporter}`: the offset of the clock; positive if it is slow.
pub const CLOCK_OFFSET: &str = "healthd_clock_offset_seconds";
/// `healthd_clock_root_distance_seconds{reporter}`: bound on its error.
pub const CLOCK_ROOT_DISTANCE: &str = "healthd_clock_root_distance_seconds";
/// `healthd_clock_stratum{reporter}`: the stratum that clients of the node see.
pub const CLOCK_STRATUM: &str = "healthd_clock_stratum";
/// `healthd_clock_age_seconds{reporter}`: how long ago the report came.
pub const CLOCK_AGE: &str = "healthd_clock_age_seconds";

/// `healthd_cut_off`: 1 while this node is cut off from the others; absent without other nodes.
pub const CUT_OFF: &str = "healthd_cut_off";
/// `healthd_verdicts{basis}`: targets that nodes exchange findings about, by what their liveness rests on.
pub const VERDICTS: &str = "healthd_verdicts";
/// `healthd_peer_heard{peer}`: 1 while the findings of another node count.
pub const PEER_HEARD: &str = "healthd_peer_heard";
/// `healthd_peer_findings{peer}`: findings of another node that are kept.
pub const PEER_FINDINGS: &str = "healthd_peer_findings";
/// `healthd_peer_ignored_total{peer}`: its messages and findings that were ignored.
pub const PEER_IGNORED: &str = "healthd_peer_ignored";
/// `healthd_peer_connections_refused_total`: connections for other nodes without a peer's certificate.
pub const PEER_CONNECTIONS_REFUSED: &str = "healthd_peer_connections_refused";

/// `healthd_page_refused_total{reason}`: handshakes and logins of the published page that were refused.
pub const PAGE_REFUSED: &str = "healthd_page_refused";

/// Upper bounds of the buckets of lateness, in seconds: a timer is late by a millisecond or two.
const LATENESS_BOUNDS: [f64; 7] = [0.001, 0.002, 0.005, 0.02, 0.1, 0.5, 2.5];

type Labels = [(&'static str, &'static str); 1];

/// Counters of all probes; clones share them.
#[derive(Clone, Debug)]
pub struct Counters {
    probes: Family<[(&'static str, &'static str); 2], Counter>,
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    /// How long after its due time a probe was started.
    pub lateness: Histogram,
    evidence: Family<Labels, Counter>,
    saves: Family<Labels, Counter>,
    peers_refused: Counter,
    page_refused: Family<Labels, Counter>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            probes: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            lateness: Histogram::new(LATENESS_BOUNDS),
            evidence: Family::default(),
            saves: Family::default(),
            peers_refused: Counter::default(),
            page_refused: Family::default(),
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
        metrics.register(
            PEER_CONNECTIONS_REFUSED,
            "Connections for other nodes that were refused",
            self.peers_refused.clone(),
        );
        metrics.register(
            PAGE_REFUSED,
            "Handshakes and logins of the published page that were refused",
            self.page_refused.clone(),
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

    /// Counts a connection for other nodes without a peer's certificate.
    pub(crate) fn peer_refused(&self) {
        self.peers_refused.inc();
    }

    /// Counts a handshake or a login of the published page that was refused.
    pub(crate) fn page_refused(&self, reason: &'static str) {
        self.page_refused.get_or_create(&[("reason", reason)]).inc();
    }

    /// Counts an attempt to write the state.
    pub fn saved<T, E>(&self, attempt: &Result<T, E>) {
        let result = if attempt.is_ok() { "good" } else { "failed" };
        self.saves.get_or_create(&[("result", result)]).inc();
    }
}
