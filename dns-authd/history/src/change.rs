//! The difference between two versions of a zone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use dns_wire::Type;
use dns_zone::Zone;
use dns_zone::zone::cursor::ZoneRecord;

use crate::version::{Content, Version, each, form, octets, sum};

/// A step from one version to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version before.
    pub from: Version,
    /// The version after.
    pub to: Version,
    /// When the version after was published, in seconds since 1970.
    pub published: u64,
    /// The records that go; the SOA record is not among them.
    pub removed: Vec<ZoneRecord<'static>>,
    /// The records that come; the SOA record is not among them.
    pub added: Vec<ZoneRecord<'static>>,
}

/// The records that go and those that come between two versions, the SOA records among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The records that go, in the order of names.
    pub removed: Vec<ZoneRecord<'static>>,
    /// The records that come, in the order of names.
    pub added: Vec<ZoneRecord<'static>>,
}

/// The difference takes more octets than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Change {
    /// The difference between two zones of one name, in at most `limit` octets; `None` if they have the same records.
    ///
    /// # Errors
    /// When it takes more, or a zone has no SOA record.
    pub fn between(
        old: &Zone,
        new: &Zone,
        published: u64,
        limit: usize,
    ) -> Result<Option<Self>, TooLarge> {
        Self::between_contents(old, new, published, limit)
    }

    /// The difference between the records of two versions of one zone, as [`between`](Self::between).
    ///
    /// # Errors
    /// When it takes more than `limit` octets, or one has no SOA record.
    pub fn between_contents(
        old: &dyn Content,
        new: &dyn Content,
        published: u64,
        limit: usize,
    ) -> Result<Option<Self>, TooLarge> {
        // Numbers instead of records: a zone of a million names has this twice, and not twice its records.
        let state = RandomState::new();
        let (from, mut before) = numbers(old, &state).ok_or(TooLarge)?;
        let (to, mut after) = numbers(new, &state).ok_or(TooLarge)?;
        keep_differing(&mut before, &mut after);
        let removed = collect(old, &state, &before, limit)?;
        let added = collect(new, &state, &after, limit)?;
        if from == to {
            return Ok(None);
        }
        let change = Self {
            from,
            to,
            published,
            removed,
            added,
        };
        match change.octets() <= limit && change.is_whole() {
            true => Ok(Some(change)),
            false => Err(TooLarge),
        }
    }

    /// This change and the next one in a single step.
    #[must_use]
    pub fn then(&self, next: &Arc<Self>) -> Self {
        let Difference { removed, added } =
            Difference::of(&[Arc::new(self.clone()), Arc::clone(next)]);
        let without_soa = |mut records: Vec<ZoneRecord<'static>>| {
            records.retain(|record| record.rtype != Type::SOA);
            records
        };
        Self {
            from: self.from.clone(),
            to: next.to.clone(),
            published: next.published,
            removed: without_soa(removed),
            added: without_soa(added),
        }
    }

    /// The records of another version with this change laid over it, without the SOA record. The records that it removes need not be
    /// there, and those that it adds may be.
    #[must_use]
    pub fn lay_over(&self, zone: &Zone) -> Vec<ZoneRecord<'static>> {
        let mut records: BTreeMap<Vec<u8>, ZoneRecord<'static>> = BTreeMap::new();
        each(zone, |record, form| {
            if record.rtype != Type::SOA {
                records.insert(form.to_vec(), record.into_owned());
            }
        });
        for record in &self.removed {
            records.remove(&form(record));
        }
        for record in &self.added {
            records.insert(form(record), record.clone());
        }
        records.into_values().collect()
    }

    /// The octets that it takes.
    #[must_use]
    pub fn octets(&self) -> usize {
        let records = self.removed.iter().chain(&self.added);
        let soa = [&self.from.soa, &self.to.soa];
        records.chain(soa).map(octets).sum::<usize>() + 64
    }

    /// How many records an incremental transfer of it has.
    #[must_use]
    pub fn n_records(&self) -> usize {
        self.removed.len() + self.added.len() + 2
    }

    /// Whether the records lead from the one version to the other.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let soa = self.to.soa.clone();
        let to = self.from.after(soa, &self.removed, &self.added);
        to.digest == self.to.digest
    }
}

/// The version that a zone is, and the numbers of its records without the SOA record, in order; `None` if it has no SOA record.
fn numbers(zone: &dyn Content, state: &RandomState) -> Option<(Version, Vec<u64>)> {
    let mut numbers = Vec::with_capacity(zone.n_records());
    let (mut digest, mut soa) = (0_u64, None);
    each(zone, |record, form| match record.rtype {
        Type::SOA => soa = Some(record.into_owned()),
        _ => {
            digest = digest.wrapping_add(sum(form));
            numbers.push(state.hash_one(form));
        }
    });
    numbers.sort_unstable();
    Some((Version { soa: soa?, digest }, numbers))
}

/// Removes the numbers that both have.
fn keep_differing(before: &mut Vec<u64>, after: &mut Vec<u64>) {
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if a == b => {
                old.next();
                new.next();
            }
            (Some(a), Some(b)) if a < b => gone.extend(old.next()),
            (Some(_), None) => gone.extend(old.next()),
            (_, Some(_)) => come.extend(new.next()),
            (None, None) => break,
        }
    }
    (*before, *after) = (gone, come);
}

/// The records of a zone with these numbers.
fn collect(
    zone: &dyn Content,
    state: &RandomState,
    numbers: &[u64],
    limit: usize,
) -> Result<Vec<ZoneRecord<'static>>, TooLarge> {
    let mut records = Vec::new();
    if numbers.is_empty() {
        return Ok(records);
    }
    let mut size = 0;
    each(zone, |record, form| {
        let differs = record.rtype != Type::SOA && size <= limit;
        if differs && numbers.binary_search(&state.hash_one(form)).is_ok() {
            size += octets(&record);
            records.push(record.into_owned());
        }
    });
    match size <= limit {
        true => Ok(records),
        false => Err(TooLarge),
    }
}

impl Difference {
    /// The sum of changes, each of which begins with the version in which the one before ends. A record that goes and comes
    /// back is in neither list.
    #[must_use]
    pub fn of(changes: &[Arc<Change>]) -> Self {
        let mut net: BTreeMap<Vec<u8>, (&ZoneRecord<'static>, bool)> = BTreeMap::new();
        let mut step = |record, comes| match net.entry(form(record)) {
            Entry::Vacant(vacant) => drop(vacant.insert((record, comes))),
            Entry::Occupied(there) if there.get().1 != comes => drop(there.remove()),
            Entry::Occupied(_) => {}
        };
        for change in changes {
            step(&change.from.soa, false);
            step(&change.to.soa, true);
            change.removed.iter().for_each(|record| step(record, false));
            change.added.iter().for_each(|record| step(record, true));
        }
        let mut records: Vec<_> = net.into_values().collect();
        let place = |record: &ZoneRecord<'static>| (record.rtype != Type::SOA, record.rtype);
        records.sort_by(|(a, _), (b, _)| {
            let order = (&a.owner, place(a)).cmp(&(&b.owner, place(b)));
            order.then_with(|| a.rdata.cmp(&b.rdata))
        });
        let (added, removed): (Vec<_>, Vec<_>) = records.into_iter().partition(|(_, comes)| *comes);
        let only = |records: Vec<(&ZoneRecord<'static>, bool)>| {
            let records = records.into_iter();
            records.map(|(record, _)| record.clone()).collect()
        };
        Self {
            removed: only(removed),
            added: only(added),
        }
    }

    /// The way back.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            removed: self.added,
            added: self.removed,
        }
    }
}
