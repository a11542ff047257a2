//! A flattened version of a zone.

use std::borrow::Cow;
use std::sync::Arc;

use dns_history::{Change, Content, History, Limits, Version};
use dns_wire::{Name, Type};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Cursor, Zone};

/// The records of a live set at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// These records.
    Records {
        /// The TTL of all.
        ttl: u32,
        /// Their data.
        rdata: Vec<Vec<u8>>,
        /// Whether they are all: programs that read the query cannot be flattened.
        is_whole: bool,
        /// Whether the liveness of its targets is still unknown.
        is_undecided: bool,
    },
    /// Nothing, because of a defect or because no target is known yet.
    Nothing,
}

/// The records of one name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlatSet {
    owner: Name,
    rtype: Type,
    ttl: u32,
    /// In order.
    rdata: Vec<Vec<u8>>,
}

/// A zone with plain records in the place of its live sets, and a serial of its own. The zone itself is shared.
#[derive(Debug)]
pub struct Flat {
    zone: Arc<Zone>,
    sets: Vec<FlatSet>,
    version: Version,
    n_records: usize,
    history: History,
    /// How many live sets have programs that cannot be flattened.
    n_partial: usize,
}

/// A place among the records of a flattened version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    cursor: Cursor,
    set: usize,
    record: usize,
}

/// The sets of a zone that its live sets make, and how many of these are not whole. A live set that gives nothing keeps what it
/// gave before. An alias has one target: it stays the one before as long as that may be.
pub(crate) fn sets(
    zone: &Zone,
    given: &[Given],
    before: Option<&Flat>,
    may_wait: bool,
) -> (Vec<FlatSet>, usize) {
    let mut n_partial = 0;
    let lives = zone.live_sets().iter().zip(given);
    let sets = lives.filter_map(|(live, given)| {
        let kept = before.and_then(|flat| flat.set(&live.owner, live.rtype));
        let (ttl, rdata) = match given {
            Given::Records {
                is_undecided: true, ..
            } if may_wait && kept.is_some() => return kept.cloned(),
            Given::Records {
                ttl,
                rdata,
                is_whole,
                ..
            } => {
                n_partial += usize::from(!is_whole);
                (*ttl, rdata.clone())
            }
            Given::Nothing => return kept.cloned(),
        };
        let mut set = FlatSet {
            owner: live.owner.clone(),
            rtype: live.rtype,
            ttl,
            rdata,
        };
        set.rdata.sort();
        set.rdata.dedup();
        if live.rtype == Type::CNAME && set.rdata.len() > 1 {
            let kept = kept.and_then(|kept| kept.rdata.first());
            let kept = kept.filter(|target| set.rdata.contains(target)).cloned();
            match kept {
                Some(target) => set.rdata = vec![target],
                None => set.rdata.truncate(1),
            }
        }
        (!set.rdata.is_empty()).then_some(set)
    });
    let sets = sets.collect();
    (sets, n_partial)
}

/// The SOA record of a zone.
fn soa(zone: &Zone) -> Option<ZoneRecord<'static>> {
    let mut cursor = Cursor::default();
    let mut plain = std::iter::from_fn(|| zone.next_plain_record(&mut cursor));
    let soa = plain.find(|record| record.rtype == Type::SOA)?;
    Some(soa.into_owned())
}

/// How many records of a zone are in every flattened version of it.
fn n_plain(zone: &Zone) -> usize {
    let n_live: usize = zone.live_sets().iter().map(|set| set.fixed.len()).sum();
    zone.n_records() - n_live - zone.programs().count()
}

fn n_records(sets: &[FlatSet]) -> usize {
    sets.iter().map(|set| set.rdata.len()).sum()
}

/// The records of a zone in whose place a flattened version has others.
fn live_records(zone: &Zone) -> Vec<ZoneRecord<'static>> {
    let programs = zone.programs().map(|(owner, rtype, program)| ZoneRecord {
        owner: owner.clone(),
        rtype: Type::LUA,
        ttl: program.ttl,
        rdata: program.rdata(rtype).into(),
    });
    let fixed = zone.live_sets().iter().flat_map(|set| {
        set.fixed.iter().map(|rdata| ZoneRecord {
            owner: set.owner.clone(),
            rtype: set.rtype,
            ttl: set.fixed_ttl,
            rdata: rdata.to_vec().into(),
        })
    });
    programs.chain(fixed).collect()
}

impl Flat {
    /// The version behind another one, or the first. `published` is the time, in seconds since 1970; `None` if the zone has no SOA
    /// record.
    pub(crate) fn new(
        zone: &Arc<Zone>,
        (sets, n_partial): (Vec<FlatSet>, usize),
        serial: u32,
        before: Option<&Self>,
        (published, limits): (u64, Limits),
    ) -> Option<Self> {
        let soa = soa(zone)?.with_serial(serial)?;
        let mut flat = Self {
            zone: Arc::clone(zone),
            n_records: n_plain(zone) + n_records(&sets),
            sets,
            version: Version { soa, digest: 0 },
            history: before
                .map(|before| before.history.clone())
                .unwrap_or_default(),
            n_partial,
        };
        let of_same_zone = before.filter(|before| Arc::ptr_eq(&before.zone, zone));
        let change = match (of_same_zone, before) {
            // Only the sets differ: a large zone is not read for that.
            (Some(before), _) => {
                let (removed, added) = difference(&before.sets, &flat.sets);
                let soa = flat.version.soa.clone();
                flat.version = before.version.after(soa, &removed, &added);
                let change = Change {
                    from: before.version.clone(),
                    to: flat.version.clone(),
                    published,
                    removed,
                    added,
                };
                (change.octets() <= limits.octets).then_some(change)
            }
            (None, before) => {
                flat.version = Version::of_content(&flat)?;
                let between = before.map(|before| {
                    Change::between_contents(before, &flat, published, limits.octets)
                });
                between.and_then(Result::ok).flatten()
            }
        };
        match change {
            Some(change) if limits.versions > 0 => flat.history.push(Arc::new(change), limits),
            _ => flat.history.clear(),
        }
        Some(flat)
    }

    /// The versions before, with the step from the zone to this version, as a file keeps them: with the zone, they are enough to
    /// have the version again.
    #[must_use]
    pub fn kept(&self) -> Option<History> {
        let (removed, added) = (live_records(&self.zone), self.set_records());
        let from = self.version.after(soa(&self.zone)?, &added, &removed);
        let mut kept = self.history.clone();
        kept.lay_over(Some(Arc::new(Change {
            from,
            to: self.version.clone(),
            published: 0,
            removed,
            added,
        })));
        Some(kept)
    }

    /// The version of a zone that [`kept`](Self::kept) was made of; `None` if it was of another version of the zone.
    #[must_use]
    pub fn restored(zone: &Arc<Zone>, mut kept: History) -> Option<Self> {
        let step = kept.updates()?;
        if Version::of(zone)? != step.from {
            return None;
        }
        let of_live = |live: &dns_zone::LiveSet| {
            let mine = step.added.iter();
            let mine = mine.filter(|it| it.rtype == live.rtype && it.owner == live.owner);
            let ttl = mine.clone().next()?.ttl;
            let mut rdata: Vec<Vec<u8>> = mine.map(|it| it.rdata.to_vec()).collect();
            rdata.sort();
            Some(FlatSet {
                owner: live.owner.clone(),
                rtype: live.rtype,
                ttl,
                rdata,
            })
        };
        let sets: Vec<FlatSet> = zone.live_sets().iter().filter_map(of_live).collect();
        kept.return_to_files();
        let flat = Self {
            n_records: n_plain(zone) + n_records(&sets),
            zone: Arc::clone(zone),
            sets,
            version: step.to.clone(),
            history: kept,
            n_partial: 0,
        };
        // Records that belong to no live set are not those of this zone.
        let digest = |version: &Version| version.digest;
        let own = step.from.after(
            step.to.soa.clone(),
            &live_records(zone),
            &flat.set_records(),
        );
        (digest(&own) == digest(&step.to)).then_some(flat)
    }

    /// The records of its sets.
    fn set_records(&self) -> Vec<ZoneRecord<'static>> {
        let sets = self.sets.iter();
        sets.flat_map(|set| set.without(None)).collect()
    }

    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// The serial.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.version.serial()
    }

    /// The SOA record.
    #[must_use]
    pub const fn soa(&self) -> &ZoneRecord<'static> {
        &self.version.soa
    }

    /// The flattened versions before.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// How many live sets have programs that cannot be flattened, since they read the query.
    #[must_use]
    pub const fn n_partial(&self) -> usize {
        self.n_partial
    }

    /// The number of records, the SOA record among them.
    #[must_use]
    pub const fn n_records(&self) -> usize {
        self.n_records
    }

    pub(crate) fn sets(&self) -> &[FlatSet] {
        &self.sets
    }

    fn set(&self, owner: &Name, rtype: Type) -> Option<&FlatSet> {
        let mut sets = self.sets.iter();
        sets.find(|set| set.rtype == rtype && set.owner == *owner)
    }

    /// The record at this place, which moves behind it.
    pub fn next_record(&self, place: &mut Place) -> Option<ZoneRecord<'_>> {
        if let Some(record) = self.zone.next_plain_record(&mut place.cursor) {
            return Some(match record.rtype {
                Type::SOA => self.version.soa.borrowed(),
                _ => record,
            });
        }
        while let Some(set) = self.sets.get(place.set) {
            if let Some(rdata) = set.rdata.get(place.record) {
                place.record += 1;
                return Some(set.record(Cow::Borrowed(rdata)));
            }
            place.set += 1;
            place.record = 0;
        }
        None
    }
}

impl Content for Flat {
    fn each(&self, take: &mut dyn FnMut(ZoneRecord<'_>)) {
        let mut place = Place::default();
        while let Some(record) = self.next_record(&mut place) {
            take(record);
        }
    }

    fn n_records(&self) -> usize {
        self.n_records
    }
}

impl FlatSet {
    fn record<'s>(&self, rdata: Cow<'s, [u8]>) -> ZoneRecord<'s> {
        ZoneRecord {
            owner: self.owner.clone(),
            rtype: self.rtype,
            ttl: self.ttl,
            rdata,
        }
    }

    /// Its records that another set does not have.
    fn without(&self, other: Option<&Self>) -> Vec<ZoneRecord<'static>> {
        let same_ttl = other.filter(|other| other.ttl == self.ttl);
        let is_new = |rdata: &&Vec<u8>| same_ttl.is_none_or(|other| !other.rdata.contains(rdata));
        let records = self.rdata.iter().filter(is_new);
        let records = records.map(|rdata| self.record(Cow::Owned(rdata.clone())));
        records.collect()
    }
}

type Records = Vec<ZoneRecord<'static>>;

/// The records that go and come between the sets of two versions of one zone.
fn difference(old: &[FlatSet], new: &[FlatSet]) -> (Records, Records) {
    let less = |these: &[FlatSet], those: &[FlatSet]| {
        let records = these.iter().flat_map(|set| {
            let mut those = those.iter();
            let other = those.find(|one| one.rtype == set.rtype && one.owner == set.owner);
            set.without(other)
        });
        records.collect()
    };
    (less(old, new), less(new, old))
}
