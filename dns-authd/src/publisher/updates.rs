//! Carries out updates (RFC 2136), and writes zones with updates back into their files.
//!
//! ```text
//! Command::Update ─► queue of the zone ─► worker: draft ─► zone ─► guard ─► history on disk ─► publish ─► response
//! ```
//!
//! The updates that wait for a zone become one version, and each is carried out as a whole or not at all. A version is on disk
//! before it is published, and its clients get their responses after that.

use std::path::PathBuf;
use std::sync::Arc;

use daemon::disk::Stamp;
use dns_update::Refusal;
use dns_views::ZoneId;
use dns_wire::{Rcode, Type};
use dns_zone::Zone;
use tokio::sync::oneshot;

use super::loader::Updated;
use super::updating::{Asked, Updating, Waiting};
use super::zone_state::Change as FileChange;
use super::{Pending, Publisher};

/// The most updates that wait for one zone; clients repeat further ones.
const MAX_WAITING: usize = 256;
/// The most updates that become one version.
const AT_ONCE: usize = 64;

/// Why a zone cannot be written into its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSynced {
    /// No zone of that name is served.
    NoSuchZone,
    /// It cannot be.
    Refused(String),
}

/// Gets the zone and its file.
pub type SyncDone = oneshot::Sender<Result<(Arc<Zone>, PathBuf), NotSynced>>;

impl Publisher {
    /// Takes an update of a client.
    pub(super) fn update(&mut self, asked: Asked, done: oneshot::Sender<Rcode>) {
        let name = asked.zone.clone();
        let place = self.places.get(&name).copied();
        let kept = place.and_then(|place| self.zones.get_mut(place));
        let Some(kept) = kept else {
            let _is_heard = done.send(Rcode::NOTAUTH);
            return;
        };
        let refusal = match &kept.zone {
            None => Some((Rcode::SERVFAIL, "the zone was never loaded")),
            Some(_) if kept.updates.len() >= MAX_WAITING => {
                Some((Rcode::SERVFAIL, "too many updates of the zone wait"))
            }
            // Signatures would have to be made again, and a digest.
            Some(zone) if zone.is_signed() || !zone.data(zone.apex(), Type::ZONEMD).is_empty() => {
                Some((Rcode::REFUSED, "the zone is signed"))
            }
            Some(_) if kept.history.rollback().is_some() => {
                Some((Rcode::REFUSED, "the zone is rolled back"))
            }
            Some(_) => None,
        };
        if let Some((rcode, why)) = refusal {
            let (peer, key) = (asked.peer, &asked.key);
            tracing::warn!(zone = %name, %peer, %key, %rcode, why, "Update is refused");
            let _is_heard = done.send(rcode);
            return;
        }
        let asked = Arc::new(asked);
        kept.updates.push_back(Waiting { asked, done });
        let size = kept.size();
        self.loads.request([(name, size)], None);
        self.begin_loads();
    }

    /// Reads the zones that take updates again, with their histories. This process keeps those of all zones from here on.
    pub(super) fn renew(&mut self, done: oneshot::Sender<String>) {
        let grants = Arc::clone(&self.plan.answers.grants);
        for name in self.unwritten.take().unwrap_or_default() {
            let place = self.places.get(&name).copied();
            if let Some(place) = place.filter(|_| !grants.contains_key(&name)) {
                self.keep_history(place);
            }
        }
        let places = grants.keys().filter_map(|name| self.places.get(name));
        let places: Vec<usize> = places.copied().collect();
        for place in &places {
            if let Some(kept) = self.zones.get_mut(*place) {
                kept.load.must_renew = kept.zone.is_some();
            }
        }
        let ticket = self.open(Pending::Summary(done));
        self.request(&places, Some(ticket));
        self.begin_loads();
        self.answer_if_complete(ticket);
    }

    /// The next updates of a zone to carry out.
    pub(super) fn updating(&mut self, place: usize) -> Option<Updating> {
        let kept = self.zones.get_mut(place)?;
        let served = Arc::clone(kept.zone.as_ref()?);
        let n = kept.updates.len().min(AT_ONCE);
        kept.updating = kept.updates.drain(..n).collect();
        Some(Updating {
            served,
            history: kept.history.clone(),
            asked: kept
                .updating
                .iter()
                .map(|it| Arc::clone(&it.asked))
                .collect(),
            guard: self.plan.zones.guard,
            keeping: self.plan.history.clone(),
            options: Arc::clone(&self.plan.zones.options),
            seed: self.seed,
            orders: self.writer.orders(),
        })
    }

    /// Takes the result of updates: publishes their version, and then answers their clients.
    pub(super) fn take_updated(&mut self, place: usize, updated: Updated) {
        let limits = self.plan.history.limits;
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        if let Some(next) = updated.next {
            let adopted = kept.take_updated(*next, limits);
            if kept.is_held() {
                // It was compared with the version before.
                let before = kept.paths();
                kept.drop_held();
                for path in self.files.replace(&before, &kept.paths()) {
                    self.quiet.forget(&path);
                }
            }
            self.settle(place, Some(adopted));
            self.publish();
        }
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        let (zone, serial) = (kept.declared.id(), kept.report.serial);
        let waiting = std::mem::take(&mut kept.updating);
        for (Waiting { asked, done }, result) in waiting.into_iter().zip(updated.results) {
            let (peer, key) = (asked.peer, &asked.key);
            let rcode = match result {
                Ok(()) => {
                    tracing::info!(%zone, serial, %peer, %key, "Update is carried out");
                    Rcode::NOERROR
                }
                Err(Refusal { rcode, why }) => {
                    tracing::warn!(%zone, %peer, %key, %rcode, why, "Update is refused");
                    rcode
                }
            };
            // The client may have left.
            let _is_heard = done.send(rcode);
        }
    }

    /// Puts updates whose result does not count back into the queue, and the history in service onto the disk again.
    pub(super) fn update_again(&mut self, place: usize) {
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        for waiting in std::mem::take(&mut kept.updating).into_iter().rev() {
            kept.updates.push_front(waiting);
        }
        if let Some(file) = self.plan.history.file(&kept.declared.id()) {
            self.writer
                .write(file, &kept.declared.name, &kept.history, None);
        }
    }

    /// The zone that is to be written into its file.
    pub(super) fn sync(&self, name: &ZoneId) -> Result<(Arc<Zone>, PathBuf), NotSynced> {
        let kept = self
            .places
            .get(name)
            .and_then(|place| self.zones.get(*place));
        let kept = kept.ok_or(NotSynced::NoSuchZone)?;
        let refused = |why: &str| Err(NotSynced::Refused(why.to_owned()));
        let (Some(zone), Some(file)) = (&kept.zone, &kept.declared.file) else {
            return refused("the zone was never loaded");
        };
        if kept.history.set_aside().is_none() {
            return refused("the zone's files have what is served");
        }
        let is_changed = kept.change(|_, _: Stamp| true) != FileChange::None;
        if kept.is_held() || is_changed {
            return refused("the zone's files have changed: load or accept them first");
        }
        Ok((Arc::clone(zone), file.clone()))
    }
}
