//! Publishes an older version of a zone again, and keeps the histories of zones.

use dns_history::History;
use dns_views::ZoneId;
use dns_wire::Type;
use tokio::sync::oneshot;

use super::{Outcome, Pending, Publisher};
use dns_primary::histories::Written;

/// A zone that is rolled back.
#[derive(Debug)]
pub struct RolledBack {
    /// Its serial and number of records.
    pub outcome: Outcome,
    /// Whether it is on disk, so that a restart does not undo it.
    pub written: oneshot::Receiver<Written>,
}

/// Why a zone is not rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRolledBack {
    /// No zone of that name is served.
    NoSuchZone,
    /// It cannot be.
    Refused(String),
}

/// Gets the result of a rollback.
pub type RollbackDone = oneshot::Sender<Result<RolledBack, NotRolledBack>>;

impl Publisher {
    /// Begins to publish an older version of a zone again.
    pub(super) fn roll_back(&mut self, name: &ZoneId, serial: u32, done: RollbackDone) {
        let place = self.places.get(name).copied();
        let refusal = match place {
            Some(place) => self
                .rollback_refusal(place, serial)
                .map(NotRolledBack::Refused),
            None => Some(NotRolledBack::NoSuchZone),
        };
        let kept = place.and_then(|place| self.zones.get_mut(place));
        let (None, Some(kept)) = (&refusal, kept) else {
            let refusal = refusal.unwrap_or(NotRolledBack::NoSuchZone);
            // The asker may have left.
            drop(done.send(Err(refusal)));
            return;
        };
        kept.load.restore = Some(serial);
        kept.load.failure = None;
        let zone = (name.clone(), kept.size());
        let ticket = self.open(Pending::Rollback {
            zone: name.clone(),
            serial,
            done,
        });
        self.loads.request([zone], Some(ticket));
        self.begin_loads();
        self.answer_if_complete(ticket);
    }

    /// The reason why a zone cannot be rolled back to the version with this serial.
    fn rollback_refusal(&self, place: usize, serial: u32) -> Option<String> {
        let kept = self.zones.get(place)?;
        let Some(zone) = &kept.zone else {
            return Some("the zone was never loaded".to_owned());
        };
        if self.plan.history.directory.is_none() {
            return Some(
                "set [history] directory: without it the next start would undo a rollback"
                    .to_owned(),
            );
        }
        if !kept.declared.primaries.is_empty() {
            return Some(
                "the zone is transferred from its primaries: roll it back there".to_owned(),
            );
        }
        // A new serial in the SOA record needs a new signature, or digest.
        if zone.is_signed() || !zone.data(zone.apex(), Type::ZONEMD).is_empty() {
            return Some(
                "the zone is signed: sign the older records, with a higher serial".to_owned(),
            );
        }
        if kept.is_held() {
            return Some(
                "a new version is held back: accept it, or mend the zone's file, first".to_owned(),
            );
        }
        (zone.soa().serial == serial).then(|| format!("serial {serial} is in service"))
    }

    /// Answers a request for a rollback, when its load has ended.
    pub(super) fn answer_rollback(&mut self, name: &ZoneId, serial: u32, done: RollbackDone) {
        let place = self.places.get(name).copied();
        let kept = place.and_then(|place| self.zones.get_mut(place));
        let Some(kept) = kept else {
            drop(done.send(Err(NotRolledBack::NoSuchZone)));
            return;
        };
        let failure = kept.load.failure.take();
        let is_back = kept
            .history
            .rollback()
            .is_some_and(|rollback| rollback.to == serial);
        let result = match (failure, self.plan.history.file(name)) {
            (None, Some(file)) if is_back => {
                let (write, written) = oneshot::channel();
                self.writer
                    .write(file, &name.apex, &kept.history, Some(write));
                Ok(RolledBack {
                    outcome: kept.report.outcome(),
                    written,
                })
            }
            (failure, _) => {
                let changed = || "the zone has changed meanwhile: try again".to_owned();
                Err(NotRolledBack::Refused(failure.unwrap_or_else(changed)))
            }
        };
        drop(done.send(result));
    }

    /// Shows the history of a zone to others, and has it written if it is another one than on disk.
    pub(super) fn keep_history(&mut self, place: usize) {
        let Some(kept) = self.zones.get(place) else {
            return;
        };
        let Some(zone) = &kept.zone else {
            return;
        };
        let view = kept.declared.view.as_ref();
        self.channels.histories.set(view, zone, &kept.history);
        let name = kept.declared.id();
        if let Some(file) = self.plan.history.file(&name).filter(|_| kept.must_write) {
            // The other process may have carried out updates that this one does not know.
            match &mut self.unwritten {
                Some(unwritten) => drop(unwritten.insert(name)),
                None => self.writer.write(file, &name.apex, &kept.history, None),
            }
        }
    }

    /// Forgets the history of a zone that is declared no more.
    pub(super) fn forget_history(&self, name: &ZoneId) {
        self.channels.histories.remove(name);
        if let Some(file) = self.plan.history.file(name) {
            self.writer
                .write(file, &name.apex, &History::default(), None);
        }
    }
}
