//! Carries out updates (RFC 2136), and writes zones with updates back into their files.
//!
//! ```text
//! Command::Update ─► queue of the zone ─► worker: draft ─► zone ─► guard ─► history on disk ─► publish ─► response
//! ```
//!
//! The updates that wait for a zone become one version, and each is carried out as a whole or not at all. A version is on disk
//! before it is published, and its clients get their responses after that.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use daemon::clock;
use daemon::disk::Stamp;
use dns_history::{Change, History};
use dns_lua::LuaSettings;
use dns_update::{Draft, Grant, Refusal, Update};
use dns_wire::hash::Seed;
use dns_wire::{Name, Rcode, Session, Type};
use dns_zone::parse::{LeftOut, Options};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Guard, Zone};
use peer_bind::ZoneDecl;
use proto::health::Snapshot as Health;
use tokio::sync::oneshot;

use super::loader::{Prepared, evaluate};
use super::steps::{Making, Step, TOO_MANY_UPDATES};
use super::zone_state::Change as FileChange;
use super::{Pending, Publisher};
use crate::histories::{Keeping, Orders};
use crate::load::Fresh;

/// The most updates that wait for one zone; clients repeat further ones.
const MAX_WAITING: usize = 256;
/// The most updates that become one version.
const AT_ONCE: usize = 64;

/// An update of a client.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The update.
    pub update: Update,
    /// The grants of its zone.
    pub grants: Arc<[Grant]>,
    /// The key that it is signed with.
    pub key: Name,
    /// The client.
    pub peer: SocketAddr,
}

impl Asked {
    /// An update with the grants of its zone.
    #[must_use]
    pub fn new(update: Update, grants: Arc<[Grant]>, session: &Session, peer: SocketAddr) -> Self {
        Self {
            update,
            grants,
            key: session.key().name().clone(),
            peer,
        }
    }
}

/// An update that waits, and the one who gets the code of the response.
#[derive(Debug)]
pub(super) struct Waiting {
    asked: Arc<Asked>,
    done: oneshot::Sender<Rcode>,
}

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

//--- The worker's part

/// Updates to carry out.
#[derive(Debug)]
pub(super) struct Updating {
    /// The version in service.
    served: Arc<Zone>,
    /// Its history.
    history: History,
    /// The updates, in their order.
    asked: Vec<Arc<Asked>>,
    guard: Guard,
    keeping: Keeping,
    options: Arc<Options>,
    seed: Seed,
    orders: Orders,
}

/// The result of updates.
#[derive(Debug)]
pub(super) struct Updated {
    /// What became of each.
    pub(super) results: Vec<Result<(), Refusal>>,
    /// The next version; `None` if nothing changes.
    pub(super) next: Option<Box<Prepared>>,
}

/// Carries out updates; the next version is on disk when this returns.
pub(super) fn carry_out(
    declared: &ZoneDecl,
    updating: &Updating,
    lua: &Arc<LuaSettings>,
    health: Arc<Health>,
) -> Updated {
    let begun = clock::now();
    let making = Making {
        name: &declared.name,
        path: declared.file.as_deref(),
        options: &updating.options,
        lua,
        seed: updating.seed,
    };
    let mut draft = Draft::of(&updating.served);
    let (mut results, is_changed) = apply(&mut draft, &updating.asked);
    let mut made = make(&draft, &making);
    if made.is_err() && updating.asked.len() > 1 {
        // One of them spoils the zone: find out which.
        (results, made) = one_by_one(updating, &making);
    }
    let none = |results| Updated {
        results,
        next: None,
    };
    if !is_changed {
        return none(results);
    }
    let kept = made.and_then(|zone| {
        let history = judge(&zone, updating)?;
        let name = &declared.name;
        let file = updating
            .keeping
            .file(name)
            .ok_or("no [history] directory is set")?;
        updating.orders.write_now(file, name, &history)?;
        Ok((zone, history))
    });
    match kept {
        Ok((zone, history)) => {
            let zone = Arc::new(zone);
            let next = Prepared {
                evaluation: evaluate(&zone, lua, health),
                fresh: Fresh {
                    zone,
                    warnings: Vec::new(),
                    left_out: LeftOut::default(),
                },
                took: begun.elapsed(),
                step: Step::Apart(Arc::clone(&updating.served), history),
            };
            Updated {
                results,
                next: Some(Box::new(next)),
            }
        }
        Err(why) => none(
            results
                .into_iter()
                .map(|result| result.and(Err(failure(&why))))
                .collect(),
        ),
    }
}

fn failure(why: &str) -> Refusal {
    Refusal {
        rcode: Rcode::SERVFAIL,
        why: why.to_owned(),
    }
}

/// Applies updates to a draft; the second result says whether it has changed.
fn apply(draft: &mut Draft, asked: &[Arc<Asked>]) -> (Vec<Result<(), Refusal>>, bool) {
    let mut is_changed = false;
    let results = asked.iter().map(|asked| {
        let grants = asked.grants.iter().filter(|grant| grant.key == asked.key);
        let grants: Vec<&Grant> = grants.collect();
        is_changed |= draft.apply(&asked.update, &grants)?;
        Ok(())
    });
    let results = results.collect();
    (results, is_changed)
}

/// The zone of a draft.
fn make(draft: &Draft, making: &Making<'_>) -> Result<Zone, String> {
    let records = draft.clone().into_records();
    let is_soa = |record: &ZoneRecord<'_>| record.rtype == Type::SOA;
    let (mut soa, records): (Vec<_>, Vec<_>) = records.into_iter().partition(is_soa);
    making.zone(soa.pop().ok_or("it has no SOA record")?, records)
}

/// Carries out updates one by one, those that spoil the zone left out.
fn one_by_one(
    updating: &Updating,
    making: &Making<'_>,
) -> (Vec<Result<(), Refusal>>, Result<Zone, String>) {
    let mut draft = Draft::of(&updating.served);
    let results = updating.asked.iter().map(|asked| {
        let mut next = draft.clone();
        let (results, _) = apply(&mut next, std::slice::from_ref(asked));
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        make(&next, making).map_err(|why| failure(&why))?;
        draft = next;
        Ok(())
    });
    let results = results.collect();
    (results, make(&draft, making))
}

/// The history behind a version that updates have made, unless that version is doubtful.
fn judge(zone: &Zone, updating: &Updating) -> Result<History, String> {
    let served = &updating.served;
    if let Some(doubt) = updating.guard.doubt_of_update(served, zone) {
        return Err(doubt.to_string());
    }
    let limits = updating.keeping.limits;
    let mut history = updating.history.clone();
    let now = clock::since_1970().as_secs();
    let change = Change::between(served, zone, now, limits.octets);
    if let Some(change) = change.map_err(|_| TOO_MANY_UPDATES)? {
        history.update(Arc::new(change), limits);
    }
    let n_octets = history.updates().map_or(0, |updates| updates.octets());
    match n_octets <= limits.octets {
        true => Ok(history),
        false => Err(TOO_MANY_UPDATES.to_owned()),
    }
}

//--- The publisher's part

impl Publisher {
    /// Takes an update of a client.
    pub(super) fn update(&mut self, asked: Asked, done: oneshot::Sender<Rcode>) {
        let name = asked.update.zone.clone();
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
            // Signatures would have to be made anew, and a digest.
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

    /// Reads the zones that take updates again, with their histories.
    pub(super) fn renew(&mut self, done: oneshot::Sender<String>) {
        let grants = Arc::clone(&self.plan.answers.grants);
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
        let (zone, serial) = (&kept.declared.name, kept.report.serial);
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
        if let Some(file) = self.plan.history.file(&kept.declared.name) {
            self.writer
                .write(file, &kept.declared.name, &kept.history, None);
        }
    }

    /// The zone that is to be written into its file.
    pub(super) fn sync(&self, name: &Name) -> Result<(Arc<Zone>, PathBuf), NotSynced> {
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
