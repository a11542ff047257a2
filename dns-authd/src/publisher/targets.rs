//! Follows healthd and the nodes of lists: they change the choices of programs, and programs name the targets that healthd probes.

use std::collections::BTreeSet;
use std::sync::Arc;

use dns_answer::live::View;
use dns_cluster::nodes::{Facts, NodeLists};
use dns_lua::LivenessView;
use proto::health::{Liveness, Snapshot as Health, Watched};

use super::{Publisher, log_message};

impl Publisher {
    /// Takes a snapshot of healthd, and evaluates the programs that depend on its changes.
    pub(super) fn take_health(&mut self, new: Arc<Health>) {
        let old = std::mem::replace(&mut self.health, new);
        let moved: BTreeSet<Watched> = self
            .watched
            .keys()
            .filter(|target| liveness(&old, target) != liveness(&self.health, target))
            .cloned()
            .collect();
        // TTLs and notes of all answers change with who probes.
        let has_switched = old.stands_in != self.health.stands_in;
        let is_affected = |target: &Watched| has_switched || moved.contains(target);
        let places: BTreeSet<usize> = self
            .watched
            .iter()
            .filter(|(target, _)| is_affected(target))
            .flat_map(|(_, places)| places)
            .copied()
            .collect();
        for target in &moved {
            log_target(target, &old, &self.health);
        }
        for place in places {
            self.evaluate(place, &is_affected);
        }
        // Clients may ask which generation the answers are of.
        if has_switched || !moved.is_empty() || old.generation != self.health.generation {
            self.publish();
        }
    }

    /// Takes the nodes of lists, and evaluates the programs that may name them.
    pub(super) fn take_nodes(&mut self, new: Arc<NodeLists>) {
        if self.nodes == new {
            return;
        }
        self.nodes = new;
        for place in 0..self.zones.len() {
            let kept = self.zones.get_mut(place);
            if kept.is_some_and(|kept| kept.live.forget_nodes()) {
                self.evaluate(place, &|_| false);
            }
        }
        self.publish();
    }

    /// All that programs see.
    pub(super) fn facts(&self) -> Facts {
        Facts {
            health: Arc::clone(&self.health),
            nodes: Arc::clone(&self.nodes),
        }
    }

    /// All that programs see, as the data path has it.
    pub(super) fn view(&self) -> View {
        View(Arc::new(self.facts()))
    }

    /// Evaluates the programs of a zone that name an affected target.
    pub(super) fn evaluate(&mut self, place: usize, is_affected: &dyn Fn(&Watched) -> bool) {
        let view = self.view();
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        let Some(zone) = kept.zone.clone() else {
            return;
        };
        self.changed.insert(place);
        if kept.live.is_empty() {
            return;
        }
        let evaluated = kept.live.evaluate(&zone, &view, is_affected);
        for message in &evaluated.messages {
            log_message(&kept.declared.id(), message);
        }
        kept.report = Arc::new(kept.report.with_live(kept.live.report()));
        // The result of a program may name further targets.
        if evaluated.has_other_targets {
            self.watch(place);
        }
    }

    /// Notes the targets of a zone, and sends all to healthd if they are others than before.
    pub(super) fn watch(&mut self, place: usize) {
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        let targets: BTreeSet<Watched> = kept.live.targets().cloned().collect();
        if targets == kept.watched {
            return;
        }
        for target in kept.watched.difference(&targets) {
            if let Some(places) = self.watched.get_mut(target) {
                places.remove(&place);
                if places.is_empty() {
                    self.watched.remove(target);
                }
            }
        }
        for target in targets.difference(&kept.watched) {
            self.watched
                .entry(target.clone())
                .or_default()
                .insert(place);
        }
        kept.watched = targets;
        self.has_other_targets = true;
    }

    /// Sends all targets to healthd: those of programs, and the endpoints of the cluster.
    pub(super) fn send_targets(&mut self) {
        let targets: BTreeSet<Watched> = self.watched.keys().cloned().collect();
        let targets = &targets | self.cluster.targets();
        let link = &self.channels.link;
        link.set_targets(targets.into_iter().collect());
        self.has_other_targets = false;
    }
}

pub(super) fn liveness(health: &Health, target: &Watched) -> Liveness {
    LivenessView::liveness(health, target)
}

fn log_target(target: &Watched, old: &Health, new: &Health) {
    let (before, after) = (liveness(old, target), liveness(new, target));
    let reason = new
        .watched(target)
        .map_or("", |status| status.reason.as_str());
    match after {
        Liveness::Down => tracing::warn!(%target, %before, reason, "Target is down"),
        Liveness::Up | Liveness::Unknown => tracing::info!(%target, %before, "Target is {after}"),
    }
}
