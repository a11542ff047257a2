//! The versions of one zone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Soa, Zone};

use crate::change::{Change, Difference, TooLarge};
use crate::layers::Layers;
use crate::version::{Version, each, form};

/// The bounds of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most versions before the newest.
    pub versions: usize,
    /// The most octets.
    pub octets: usize,
}

/// The versions of a zone, as far back as the bounds allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    changes: VecDeque<Arc<Change>>,
    octets: usize,
    rollback: Option<Rollback>,
    updates: Option<Layers>,
}

/// An older version that was published again. It stays until the zone's files change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The serial of the version whose records are served again.
    pub to: u32,
    /// When, in seconds since 1970.
    pub since: u64,
    /// The version of the zone's files, which is set aside.
    pub file: Version,
}

/// A version is not in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchVersion(pub u32);

impl fmt::Display for NoSuchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no version with serial {} is kept", self.0)
    }
}

impl History {
    /// The history of these changes, the oldest first; `None` if one does not begin where the one before ends, or if the updates
    /// lead elsewhere.
    #[must_use]
    pub fn new(
        changes: Vec<Change>,
        rollback: Option<Rollback>,
        updates: Option<Change>,
    ) -> Option<Self> {
        let mut pairs = changes.iter().zip(changes.iter().skip(1));
        if !pairs.all(|(one, next)| one.to == next.from) {
            return None;
        }
        let ends = [changes.last(), updates.as_ref()].map(|change| change.map(|it| &it.to));
        if let [Some(newest), Some(updated)] = ends
            && newest != updated
        {
            return None;
        }
        let changes: VecDeque<Arc<Change>> = changes.into_iter().map(Arc::new).collect();
        Some(Self {
            octets: changes.iter().map(|change| change.octets()).sum(),
            changes,
            rollback,
            updates: updates.map(|updates| Layers::new(Arc::new(updates))),
        })
    }

    /// Adds the newest change, which ends a rollback and the updates. The history begins with it, unless it follows the newest version.
    pub fn push(&mut self, change: Arc<Change>, limits: Limits) {
        if self.newest().is_some_and(|newest| *newest != change.from) {
            self.clear();
        }
        self.rollback = None;
        self.updates = None;
        self.octets += change.octets();
        self.changes.push_back(change);
        self.keep_within(limits);
    }

    /// Adds the change that publishes an older version again; `false` if the bounds leave no way from the version of the files
    /// to it, which a restart needs.
    #[must_use]
    pub fn roll_back(&mut self, change: Change, rollback: Rollback, limits: Limits) -> bool {
        self.push(Arc::new(change), limits);
        let is_whole = self
            .changes
            .iter()
            .any(|change| change.from == rollback.file);
        self.rollback = Some(rollback);
        is_whole
    }

    /// Adds a change that updates have made. It is laid over the version of the files, with the updates before.
    pub fn update(&mut self, change: Arc<Change>, limits: Limits) {
        let updates = match self.updates.take() {
            Some(mut updates) => {
                updates.push(Arc::clone(&change));
                updates
            }
            None => Layers::new(Arc::clone(&change)),
        };
        self.push(change, limits);
        self.updates = Some(updates);
    }

    /// The history behind the zone that updates have made of the one in service. `step` is its SOA record, and the other records that go and
    /// that come, if they are known.
    ///
    /// # Errors
    /// When the updates would take more than the bounds.
    pub fn updated(
        &self,
        (served, next): (&Zone, &Zone),
        step: Option<(&ZoneRecord<'static>, &Records, &Records)>,
        published: u64,
        limits: Limits,
    ) -> Result<Self, TooLarge> {
        let change = match step {
            None => Change::between(served, next, published, limits.octets)?,
            Some((soa, removed, added)) => {
                // A history leads to the version in service.
                let newest = self.newest().cloned();
                let from = newest.or_else(|| Version::of(served)).ok_or(TooLarge)?;
                Some(Change {
                    to: from.after(soa.clone(), removed, added),
                    from,
                    published,
                    removed: removed.to_vec(),
                    added: added.to_vec(),
                })
            }
        };
        let mut history = self.clone();
        if let Some(change) = change {
            if change.octets() > limits.octets {
                return Err(TooLarge);
            }
            history.update(Arc::new(change), limits);
        }
        match history.has_updates_beyond(limits.octets) {
            false => Ok(history),
            true => Err(TooLarge),
        }
    }

    /// Lays updates over a version of the files that is new; the newest change leads to where they lead.
    pub fn lay_over(&mut self, updates: Option<Arc<Change>>) {
        self.updates = updates.map(Layers::new);
    }

    /// Ends a rollback and the updates: the version in service is that of the files.
    pub fn return_to_files(&mut self) {
        self.rollback = None;
        self.updates = None;
    }

    /// Drops what is beyond the bounds, the oldest first.
    pub fn keep_within(&mut self, limits: Limits) {
        while self.changes.len() > limits.versions || self.octets > limits.octets {
            let Some(oldest) = self.changes.pop_front() else {
                return;
            };
            self.octets -= oldest.octets();
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.rollback.is_none() && self.updates.is_none()
    }

    /// The changes, the oldest first.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Arc<Change>> + DoubleEndedIterator {
        self.changes.iter()
    }

    /// The newest version; `None` if no change is kept.
    #[must_use]
    pub fn newest(&self) -> Option<&Version> {
        let newest = self.changes.back().map(|change| &change.to);
        newest.or_else(|| self.updates.as_ref().map(Layers::to))
    }

    /// The change from the version of the zone's files to the one in service that updates have made, until it is in the files.
    #[must_use]
    pub fn updates(&self) -> Option<Arc<Change>> {
        self.updates.as_ref().map(Layers::sum)
    }

    /// Whether updates are laid over the version of the zone's files.
    #[must_use]
    pub const fn has_updates(&self) -> bool {
        self.updates.is_some()
    }

    /// Whether the updates take more octets than this.
    #[must_use]
    pub fn has_updates_beyond(&self, octets: usize) -> bool {
        let updates = self.updates.as_ref();
        updates.is_some_and(|it| it.octets() > octets && it.sum().octets() > octets)
    }

    /// The version of the files that is not in service as it is: it is rolled back, or updates are laid over it.
    #[must_use]
    pub fn set_aside(&self) -> Option<&Version> {
        let rollback = self.rollback.as_ref().map(|rollback| &rollback.file);
        rollback.or_else(|| self.updates.as_ref().map(Layers::from))
    }

    /// The rollback, until the zone's files change.
    #[must_use]
    pub const fn rollback(&self) -> Option<&Rollback> {
        self.rollback.as_ref()
    }

    /// The octets that it takes.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// The newest changes that updates have made, behind this version; `None` if not all of them are kept, or if others are among them.
    /// `file` is the version of the files that they are laid over.
    #[must_use]
    pub fn updates_behind(&self, version: &Version, file: &Version) -> Option<Vec<Arc<Change>>> {
        let is_laid_over = self.updates.as_ref().is_some_and(|it| it.from() == file);
        if !is_laid_over || self.rollback.is_some() {
            return None;
        }
        let first = self.changes.iter().rposition(|it| it.from == *version)?;
        Some(self.changes.iter().skip(first).cloned().collect())
    }

    /// The changes behind the latest version with this serial.
    fn behind(&self, serial: u32) -> Result<Vec<Arc<Change>>, NoSuchVersion> {
        let newest = self.newest().ok_or(NoSuchVersion(serial))?;
        if newest.serial() == serial {
            return Ok(Vec::new());
        }
        let from = self
            .changes
            .iter()
            .rposition(|change| change.from.serial() == serial);
        let from = from.ok_or(NoSuchVersion(serial))?;
        Ok(self.changes.iter().skip(from).cloned().collect())
    }

    /// The changes that lead a client from a serial to the newest version, for an incremental transfer. `None` if they are not
    /// kept, or if a serial on the way does not rise: the client could not follow.
    #[must_use]
    pub fn since(&self, serial: u32) -> Option<Vec<Arc<Change>>> {
        let changes = self.behind(serial).ok()?;
        let rises = |change: &Arc<Change>| Soa::is_newer(change.to.serial(), change.from.serial());
        let is_way = !changes.is_empty() && changes.iter().all(rises);
        is_way.then_some(changes)
    }

    /// The difference between the versions with these serials.
    ///
    /// # Errors
    /// When one of them is not kept.
    pub fn difference(&self, from: u32, to: u32) -> Result<Difference, NoSuchVersion> {
        let (longer, shorter) = (self.behind(from)?, self.behind(to)?);
        let between = |longer: &[Arc<Change>], shorter: usize| {
            let n = longer.len().saturating_sub(shorter);
            Difference::of(longer.get(..n).unwrap_or_default())
        };
        Ok(match longer.len() >= shorter.len() {
            true => between(&longer, shorter.len()),
            false => between(&shorter, longer.len()).reversed(),
        })
    }

    /// The version with this serial, and its records without the SOA record. `zone` is the newest version.
    ///
    /// # Errors
    /// When the version is not kept, or is not what leads to this zone.
    pub fn restore(
        &self,
        zone: &Zone,
        serial: u32,
    ) -> Result<(Version, Vec<ZoneRecord<'static>>), NoSuchVersion> {
        let changes = self.behind(serial)?;
        let oldest = changes.first().ok_or(NoSuchVersion(serial))?;
        let steps = changes.iter().rev();
        let steps = steps.map(|change| (&*change.added, &*change.removed));
        let records = replay(zone, steps).ok_or(NoSuchVersion(serial))?;
        Ok((oldest.from.clone(), records))
    }

    /// The newest version, and its records without the SOA record. `zone` is the version of the files, which is set aside.
    ///
    /// # Errors
    /// When the changes from it to the newest version are not kept.
    pub fn renew(&self, zone: &Zone) -> Result<(Version, Vec<ZoneRecord<'static>>), NoSuchVersion> {
        let file = Version::of(zone).ok_or(NoSuchVersion(0))?;
        let missing = NoSuchVersion(file.serial());
        let newest = self.newest().ok_or(missing)?;
        if let Some(updates) = self.updates().filter(|it| it.from == file) {
            let step = (&*updates.removed, &*updates.added);
            let records = replay(zone, std::iter::once(step)).ok_or(missing)?;
            return Ok((newest.clone(), records));
        }
        let from = self.changes.iter().rposition(|change| change.from == file);
        let changes = self.changes.iter().skip(from.ok_or(missing)?);
        let steps = changes.map(|change| (&*change.removed, &*change.added));
        let records = replay(zone, steps).ok_or(missing)?;
        Ok((newest.clone(), records))
    }
}

type Records = [ZoneRecord<'static>];

/// The records of a zone after these steps, each of which removes and adds some, without the SOA record; `None` if they do not
/// fit the zone.
fn replay<'c>(
    zone: &Zone,
    steps: impl Iterator<Item = (&'c Records, &'c Records)>,
) -> Option<Vec<ZoneRecord<'static>>> {
    let mut records: HashMap<Vec<u8>, ZoneRecord<'static>> = HashMap::new();
    each(zone, |record, form| {
        if record.rtype != dns_wire::Type::SOA {
            records.insert(form.to_vec(), record.into_owned());
        }
    });
    for (removed, added) in steps {
        for record in removed {
            records.remove(&form(record))?;
        }
        for record in added {
            records.insert(form(record), record.clone());
        }
    }
    Some(records.into_values().collect())
}
