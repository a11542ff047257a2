//! Publishes the zones, their reports and the readiness that follows from them.

use std::sync::Arc;

use api::dns_authd::{Loads, ZoneState as State};
use config_text::counted;
use daemon::clock;
use dns_answer::Settings;
use dns_answer::live::LiveSets;
use dns_answer::shared_list::SharedList;
use dns_answer::table::{Served, Table};
use dns_answer::{Snapshot, ViewTables};

use super::zone_state::ZoneState;
use super::{Publisher, RETIREMENT, Reports, ZoneReport};

/// The most zones that a reason names.
const NAMED_ZONES: usize = 20;
/// The most snapshots that wait to be freed here, so that many updates of a large zone do not add up.
const MAX_RETIRED: usize = 8;
/// The CHAOS TXT name that answers which generation of healthd's the answers are of.
const GENERATION: &str = "generation.outpost.";

impl Publisher {
    /// Frees snapshots that no thread uses any more. A large zone is freed here, where no query waits for
    /// it.
    pub(super) fn free_retired(&mut self) {
        let now = clock::now();
        let before = self.retired.len();
        self.retired
            .retain(|(since, _)| now.duration_since(*since) < RETIREMENT);
        if self.must_trim && self.retired.len() < before {
            self.must_trim = !self.retired.is_empty();
            daemon::memory::trim();
        }
    }

    /// Publishes all zones, in the order of the configuration.
    pub(super) fn publish_all(&mut self) {
        let (of_cluster, reports_of_cluster) = self.cluster.all();
        let served = self.zones.iter().map(|kept| self.served(kept));
        let served: Vec<Arc<Served>> = served.chain(of_cluster).collect();
        let zones = self.zones.iter().map(|kept| Arc::clone(&kept.report));
        let zones: Vec<Arc<ZoneReport>> = zones.chain(reports_of_cluster).collect();
        self.changed.clear();
        let of_no_view = served.iter().filter(|served| served.view.is_none());
        let of_no_view: Vec<Arc<Served>> = of_no_view.cloned().collect();
        let table = Table::new(self.seed, &of_no_view);
        let views = ViewTables::new(self.seed, &self.plan.views, &served);
        self.publish_tables((table, views), SharedList::new(&zones));
    }

    /// Publishes if something has changed.
    pub(super) fn publish_changes(&mut self) {
        if self.has_changes() {
            self.publish();
        }
    }

    /// Whether something is not published as it is.
    pub(super) fn has_changes(&self) -> bool {
        self.is_report_old || !self.changed.is_empty() || self.cluster.has_changed()
    }

    /// Publishes the zones that have changed; the others are shared with the snapshot before.
    pub(super) fn publish(&mut self) {
        let current = self.channels.cell.current();
        let changed = std::mem::take(&mut self.changed);
        let of_cluster = self.cluster.take_changed();
        let zones = || {
            let places = changed.iter();
            places.filter_map(|place| Some((*place, self.zones.get(*place)?)))
        };
        let served = zones().map(|(_, kept)| self.served(kept));
        let of_cluster_served = of_cluster.iter().map(|(_, served, _)| Arc::clone(served));
        let served: Vec<Arc<Served>> = served.chain(of_cluster_served).collect();
        let views = current.views.replace(&served);
        let table = current.table.replace(served);
        let reports = zones().map(|(place, kept)| (place, Arc::clone(&kept.report)));
        // Those of the cluster come behind the others.
        let reports = reports.chain(
            of_cluster
                .into_iter()
                .map(|(place, _, report)| (self.zones.len() + place, report)),
        );
        let reports = self.channels.reports.current().zones.replace(reports);
        self.publish_tables((table, views), reports);
    }

    fn publish_tables(
        &mut self,
        (table, views): (Table, ViewTables),
        zones: SharedList<ZoneReport>,
    ) {
        if self.has_other_targets {
            self.send_targets();
        }
        self.state_directories();
        self.free_retired();
        self.published = clock::now();
        self.is_report_old = false;
        self.retired
            .push((self.published, self.channels.cell.current()));
        let n_beyond = self.retired.len().saturating_sub(MAX_RETIRED);
        self.retired.drain(..n_beyond);
        self.channels.cell.publish(Snapshot {
            table,
            views,
            settings: self.answers(),
        });
        self.channels.reports.publish(Reports {
            zones,
            n_targets: self.watched.len() + self.n_endpoints(),
            loads: Loads {
                running: self.loads.running().map(ToString::to_string).collect(),
                waiting: self.loads.n_waiting(),
            },
        });
        let readiness = &self.channels.readiness;
        let (n_of_cluster, n_rendered) = self.cluster.counts();
        let loaded = n_rendered > 0 || self.zones.iter().any(|kept| kept.zone.is_some());
        let is_any = n_of_cluster > 0 || !self.zones.is_empty();
        let none = (!loaded && is_any).then(|| "not one is loaded".to_owned());
        readiness.set_unready("zones", none);
        readiness.set_reason("loading zones", self.loading());
    }

    /// The endpoints of the cluster that are targets, and of no program besides.
    fn n_endpoints(&self) -> usize {
        let targets = self.cluster.targets().iter();
        targets
            .filter(|target| !self.watched.contains_key(*target))
            .count()
    }

    /// The zones that are not loaded for the first time yet, in a line.
    fn loading(&self) -> Option<String> {
        let n_more = self.unloaded.len().saturating_sub(NAMED_ZONES);
        let zones = self.unloaded.iter().take(NAMED_ZONES);
        let zones = zones.filter_map(|place| self.zones.get(*place));
        let names: Vec<String> = zones.map(|kept| kept.declared.id().to_string()).collect();
        let more = match n_more {
            0 => String::new(),
            _ => format!(" and {n_more} more"),
        };
        let names = names.join(" ");
        let is_any = !self.unloaded.is_empty();
        is_any.then(|| format!("{names}{more}: queries for their names get SERVFAIL"))
    }

    /// The settings of answers, with the generation of liveness that they are of.
    fn answers(&self) -> Settings {
        let mut answers = self.plan.answers.clone();
        let generation = self.health.generation;
        if generation > 0
            && let Ok(name) = GENERATION.parse()
        {
            answers.chaos.push((name, generation.to_string()));
        }
        answers
    }

    fn served(&self, kept: &ZoneState) -> Arc<Served> {
        let view = self.view();
        let live = match kept.live.is_empty() {
            true => LiveSets::default().with_flat(kept.flat.clone()),
            false => kept.live.serve(&view).with_flat(kept.flat.clone()),
        };
        let access = &kept.declared.access;
        Arc::new(Served {
            apex: kept.declared.name.clone(),
            view: kept.declared.view.clone(),
            zone: kept.zone.clone().filter(|_| !kept.is_expired),
            parts: None,
            live: Arc::new(live),
            origin: self.plan.origins.of(&kept.declared.id()),
            access: (!access.is_open()).then(|| Arc::new(access.clone())),
        })
    }

    pub(super) fn summary(&self) -> String {
        let n_loaded = self.zones.iter().filter(|kept| kept.zone.is_some()).count();
        let reports = self.zones.iter().map(|kept| &kept.report);
        let is_broken = |report: &&Arc<ZoneReport>| {
            !matches!(report.state, State::Loaded | State::Held | State::Loading)
        };
        let n_broken = reports.filter(is_broken).count();
        let mut summary = counted(self.zones.len(), "zone");
        if n_broken > 0 || !self.unloaded.is_empty() {
            summary = format!("{n_loaded} of {summary}");
        }
        if n_broken > 0 {
            summary = format!("{summary}, {n_broken} with broken files");
        }
        if !self.unloaded.is_empty() {
            summary = format!("{summary}, {} still loading", self.unloaded.len());
        }
        format!("{summary}, {}", counted(self.watched.len(), "target"))
    }
}
