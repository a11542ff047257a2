//! The zones of the cluster. They come rendered, a few parts at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::config::dns_authd::PodNames;
use daemon::clock;
use dns_answer::live::LiveSets;
use dns_answer::shared_list::SharedList;
use dns_answer::table::{Origin, Parts, Served};
use dns_cluster::Rendered;
use dns_kubernetes::{Change, Cluster, Options, PARTS};
use dns_wire::Name;
use dns_zone::zone::split::Split;
use proto::health::Watched;

use super::report::ZoneReport;

/// The zones of the cluster, in the order of [`Options::apexes`].
#[derive(Default)]
pub(super) struct ClusterZones {
    options: Option<Arc<Options>>,
    zones: Vec<ClusterZone>,
    /// The endpoints that healthd is to probe.
    targets: Arc<BTreeSet<Watched>>,
    /// The zones whose published answers or reports are not the newest.
    changed: BTreeSet<usize>,
}

struct ClusterZone {
    served: Arc<Served>,
    report: Arc<ZoneReport>,
    split: Split,
}

impl ClusterZones {
    /// Takes the options of a configuration. A zone that stays is served as before until it is rendered again.
    pub(super) fn configure(&mut self, options: Option<Arc<Options>>) {
        if self.options == options {
            return;
        }
        let mut old = std::mem::take(&mut self.zones);
        if let Some(options) = &options {
            let zones = options.apexes().zip(Cluster::splits(options));
            let zones = zones.map(|(apex, split)| {
                let known = old.iter().position(|zone| zone.served.apex == *apex);
                known.map_or_else(
                    || ClusterZone::new(apex, split),
                    |known| old.swap_remove(known),
                )
            });
            self.zones = zones.collect();
        }
        if options.is_none() {
            self.targets = Arc::default();
        }
        self.options = options;
        self.changed.clear();
    }

    /// Takes a rendering; those with other options than the newest are too late. True if it has other targets than the one before.
    pub(super) fn take(&mut self, rendered: Rendered) -> bool {
        if self.options.as_ref() != Some(&rendered.options) {
            return false;
        }
        for change in rendered.changes {
            let place = change.zone;
            if let Some(zone) = self.zones.get_mut(place) {
                zone.take(change, &rendered.options, rendered.took);
                self.changed.insert(place);
            }
        }
        let has_others = self.targets != rendered.targets;
        self.targets = rendered.targets;
        has_others
    }

    /// The endpoints that healthd is to probe.
    pub(super) fn targets(&self) -> &BTreeSet<Watched> {
        &self.targets
    }

    /// Whether some zone is not published as it is.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The zones that are not published as they are, each with its place; then none is left.
    pub(super) fn take_changed(&mut self) -> Vec<(usize, Arc<Served>, Arc<ZoneReport>)> {
        let places = std::mem::take(&mut self.changed).into_iter();
        let zones = places.filter_map(|place| {
            let zone = self.zones.get(place)?;
            Some((place, Arc::clone(&zone.served), Arc::clone(&zone.report)))
        });
        zones.collect()
    }

    /// All zones with their reports; none is left to publish then.
    pub(super) fn all(&mut self) -> (Vec<Arc<Served>>, Vec<Arc<ZoneReport>>) {
        self.changed.clear();
        let zones = self.zones.iter();
        zones
            .map(|zone| (Arc::clone(&zone.served), Arc::clone(&zone.report)))
            .unzip()
    }

    /// The number of zones, and how many of them have data.
    pub(super) fn counts(&self) -> (usize, usize) {
        let with_data = self.zones.iter().filter(|zone| zone.served.zone.is_some());
        (self.zones.len(), with_data.count())
    }
}

impl ClusterZone {
    /// A zone without data: its names get SERVFAIL.
    fn new(apex: &Name, split: Split) -> Self {
        Self {
            served: Arc::new(Served {
                apex: apex.clone(),
                zone: None,
                parts: None,
                live: Arc::default(),
                origin: Origin::Configured,
                view: None,
                access: None,
            }),
            report: Arc::new(ZoneReport::named(apex.clone().into(), None)),
            split,
        }
    }

    fn take(&mut self, change: Change, options: &Options, took: Duration) {
        let is_domain = self.served.apex == options.domain;
        let before = match (change.empty, &self.served.parts) {
            (Some(empty), _) => SharedList::new(&vec![empty; PARTS]),
            (None, Some(parts)) => parts.zones.clone(),
            // A zone begins with a whole rendering.
            (None, None) => return,
        };
        let parts = Parts {
            split: self.split,
            zones: before.replace(change.parts),
            falls_through: options.fallthrough && options.reverse.contains(&self.served.apex),
            computed_pods: (is_domain && options.pods == PodNames::Insecure).then_some(options.ttl),
        };
        // A part without names has a SOA record only; it is shared.
        let with_names = parts.zones.iter().filter(|zone| zone.n_records() > 1);
        let memory = change.root.memory() + with_names.map(|zone| zone.memory()).sum::<usize>();
        let serial = change.root.soa().serial;
        let size = (change.n_records, memory);
        self.report = Arc::new(self.report.rendered(serial, size, took, clock::wall()));
        self.served = Arc::new(Served {
            apex: self.served.apex.clone(),
            zone: Some(change.root),
            parts: Some(parts),
            live: Arc::new(LiveSets::default()),
            origin: Origin::Configured,
            view: None,
            access: None,
        });
    }
}
