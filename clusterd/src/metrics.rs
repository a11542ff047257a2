//! The metrics of clusterd. Each name is here and nowhere else.

use std::fmt;
use std::sync::Arc;

use cluster::{Freshness, Kind};
use cluster_watch::{Failure, Input, Note};
use daemon::metrics::{Metrics, Page, float, labels};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::addresses::AddressState;
use crate::grpc::Subscribers;
use crate::publisher::Publisher;

/// `clusterd_objects{kind}`: objects of the last snapshot.
pub const OBJECTS: &str = "clusterd_objects";
/// `clusterd_objects_without_room{kind}`: objects beyond the bound.
pub const OBJECTS_WITHOUT_ROOM: &str = "clusterd_objects_without_room";
/// `clusterd_current{kind}`: 1 when the source has been read since the start.
pub const CURRENT: &str = "clusterd_current";
/// `clusterd_generation`: the generation of the last snapshot.
pub const GENERATION: &str = "clusterd_generation";
/// `clusterd_subscribers`: open `Watch` streams.
pub const SUBSCRIBERS: &str = "clusterd_subscribers";
/// `clusterd_events_total{kind}`: events of watches.
pub const EVENTS: &str = "clusterd_events";
/// `clusterd_lists_total{kind}`: whole lists that were read.
pub const LISTS: &str = "clusterd_lists";
/// `clusterd_failures_total{kind,reason}`: requests that have failed.
pub const FAILURES: &str = "clusterd_failures";
/// `clusterd_silent_watches_total{kind}`: watches that were silent for too long.
pub const SILENT_WATCHES: &str = "clusterd_silent_watches";
/// `clusterd_restores_total{kind}`: older versions that were taken up.
pub const RESTORES: &str = "clusterd_restores";
/// `clusterd_unreadable_objects_total{kind}`: objects that could not be read.
pub const UNREADABLE: &str = "clusterd_unreadable_objects";
/// `clusterd_state_saves_total{result}`: attempts to write the snapshot to disk.
pub const STATE_SAVES: &str = "clusterd_state_saves";

/// `clusterd_leads`: 1 when this clusterd is the one that writes addresses.
pub const LEADS: &str = "clusterd_leads";
/// `clusterd_addresses{pool}`: addresses of a pool that Services have.
pub const ADDRESSES: &str = "clusterd_addresses";
/// `clusterd_services_waiting`: Services that wait for an address.
pub const SERVICES_WAITING: &str = "clusterd_services_waiting";
/// `clusterd_address_writes_total`: statuses of Services that were written.
pub const ADDRESS_WRITES: &str = "clusterd_address_writes";

type Label = [(&'static str, &'static str); 1];

/// Counters; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    events: Family<Label, Counter>,
    lists: Family<Label, Counter>,
    failures: Family<[(&'static str, &'static str); 2], Counter>,
    silent: Family<Label, Counter>,
    restores: Family<Label, Counter>,
    unreadable: Family<Label, Counter>,
    saves: Family<Label, Counter>,
    address_writes: Counter,
}

impl Counters {
    /// Registers everything that is counted.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(EVENTS, "Events of watches", self.events.clone());
        metrics.register(LISTS, "Whole lists that were read", self.lists.clone());
        metrics.register(FAILURES, "Requests that have failed", self.failures.clone());
        metrics.register(
            SILENT_WATCHES,
            "Watches that were silent for too long",
            self.silent.clone(),
        );
        metrics.register(
            RESTORES,
            "Older versions that were taken up",
            self.restores.clone(),
        );
        metrics.register(
            UNREADABLE,
            "Objects that could not be read",
            self.unreadable.clone(),
        );
        metrics.register(
            STATE_SAVES,
            "Attempts to write the snapshot to disk",
            self.saves.clone(),
        );
        metrics.register(
            ADDRESS_WRITES,
            "Statuses of Services that were written",
            self.address_writes.clone(),
        );
    }

    /// Counts a status that was written.
    pub(crate) fn address_written(&self) {
        self.address_writes.inc();
    }

    /// Counts an answer of the API.
    pub(crate) fn input(&self, kind: Kind, input: &Input) {
        match input {
            Input::Event(_) => drop(self.events.get_or_create(&label(kind)).inc()),
            Input::Failed(failure) => {
                let reason = match failure {
                    Failure::Broken(_) => "broken",
                    Failure::Refused(refusal) if refusal.is_expired() => "expired",
                    Failure::Refused(refusal) => match refusal.code {
                        401 | 403 => "forbidden",
                        404 => "not-found",
                        429 => "busy",
                        _ => "refused",
                    },
                };
                let labels = [("kind", kind.name()), ("reason", reason)];
                self.failures.get_or_create(&labels).inc();
            }
            Input::Page(_) | Input::Opened | Input::Ended => {}
        }
    }

    /// Counts what the machine notes.
    pub(crate) fn note(&self, kind: Kind, note: &Note) {
        let family = match note {
            Note::Listed { .. } => &self.lists,
            Note::Silent => &self.silent,
            Note::Restored => &self.restores,
            Note::Bad(_) => &self.unreadable,
            _ => return,
        };
        family.get_or_create(&label(kind)).inc();
    }

    /// Counts objects of manifests that could not be read.
    pub(crate) fn unreadable(&self, kind: Kind) {
        self.unreadable.get_or_create(&label(kind)).inc();
    }

    /// Counts an attempt to write the snapshot.
    pub(crate) fn saved(&self, is_good: bool) {
        let result = if is_good { "good" } else { "failed" };
        self.saves.get_or_create(&[("result", result)]).inc();
    }
}

const fn label(kind: Kind) -> Label {
    [("kind", kind.name())]
}

/// Reads the picture at each scrape.
pub struct PictureCollector {
    publisher: Publisher,
    subscribers: Subscribers,
    addresses: Arc<Mutex<AddressState>>,
}

impl PictureCollector {
    /// A collector of these.
    #[must_use]
    pub const fn new(
        publisher: Publisher,
        subscribers: Subscribers,
        addresses: Arc<Mutex<AddressState>>,
    ) -> Self {
        Self {
            publisher,
            subscribers,
            addresses,
        }
    }
}

impl fmt::Debug for PictureCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PictureCollector").finish_non_exhaustive()
    }
}

impl Collector for PictureCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.publisher.current();
        let mut page = Page::new(&mut encoder);
        let each = |value: &dyn Fn(Kind) -> usize| {
            let value = |kind| float(u64::try_from(value(kind)).unwrap_or(u64::MAX));
            let kinds = snapshot.kinds();
            kinds
                .map(|kind| (labels(&label(kind)), value(kind)))
                .collect()
        };
        page.gauges(
            OBJECTS,
            "Objects of the last snapshot.",
            each(&|kind| snapshot.count(kind)),
        )?;
        let without_room = each(&|kind| self.publisher.without_room(kind));
        page.gauges(
            OBJECTS_WITHOUT_ROOM,
            "Objects beyond the bound.",
            without_room,
        )?;
        let current = each(&|kind| usize::from(snapshot.freshness(kind) == Freshness::Current));
        page.gauges(
            CURRENT,
            "Whether the source has been read since the start.",
            current,
        )?;
        page.gauge(
            GENERATION,
            "The generation of the last snapshot.",
            float(snapshot.generation),
        )?;
        let subscribers = u64::try_from(self.subscribers.len()).unwrap_or(u64::MAX);
        page.gauge(SUBSCRIBERS, "Open Watch streams.", float(subscribers))?;
        let state = self.addresses.lock().clone();
        let n = |n: usize| float(u64::try_from(n).unwrap_or(u64::MAX));
        page.gauge(
            LEADS,
            "Whether this clusterd writes addresses.",
            n(usize::from(state.leads)),
        )?;
        page.gauge(
            SERVICES_WAITING,
            "Services that wait for an address.",
            n(state.waiting.len()),
        )?;
        let pools = state.given.iter();
        let pools = pools.map(|(pool, given)| (labels(&[("pool", pool.as_str())]), n(*given)));
        page.gauges(
            ADDRESSES,
            "Addresses of a pool that Services have.",
            pools.collect(),
        )
    }
}
