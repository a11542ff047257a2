//! The records of a zone while updates change them.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::fmt;

use dns_wire::{Class, Name, Rcode, Type, rdata};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Cursor, Edit, Soa, SoaTimes, Zone, canonical};

use crate::grant::Grant;
use crate::message::{Entry, Update};

/// The records of a zone. Each update that is applied changes them as a whole, or not at all.
#[derive(Clone, Debug)]
pub struct Draft<'z> {
    served: &'z Zone,
    zone: Name,
    /// The records of the names that updates are about; the others have those of the version in service.
    names: HashMap<Name, Records>,
}

/// The changes that updates have made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// The names with other records, and those.
    pub(crate) edits: Vec<Edit>,
    /// The records that go; the SOA record is not among them.
    pub(crate) removed: Records,
    /// The records that come; the SOA record is not among them.
    pub(crate) added: Records,
    /// The SOA record of the next version.
    pub(crate) soa: Option<ZoneRecord<'static>>,
    /// The records of the zone's own servers in the next version.
    pub(crate) servers: Records,
}

type Records = Vec<ZoneRecord<'static>>;

/// Why an update is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the response.
    pub rcode: Rcode,
    /// The reason, for the log.
    pub why: String,
}

impl Refusal {
    fn new(rcode: Rcode, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { rcode, why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rcode, self.why)
    }
}

impl<'z> Draft<'z> {
    /// The records of a version.
    #[must_use]
    pub fn of(zone: &'z Zone) -> Self {
        Self {
            served: zone,
            zone: zone.apex().clone(),
            names: HashMap::new(),
        }
    }

    /// Reads the records of a name, unless they were read before.
    fn read(&mut self, name: &Name) {
        if !self.names.contains_key(name) {
            let records = self.served.records_at(name);
            self.names.insert(name.clone(), records);
        }
    }

    /// Carries out an update, as far as these grants allow it. `false` says that it changes nothing. The serial rises with a
    /// change, unless the update has a SOA record that raises it.
    ///
    /// # Errors
    /// When it is not carried out; the records are then as before.
    pub fn apply(&mut self, update: &Update, grants: &[&Grant]) -> Result<bool, Refusal> {
        let apex = self.zone.clone();
        self.read(&apex);
        for entry in update.prerequisites.iter().chain(&update.changes) {
            self.read(&entry.owner);
        }
        self.check_prerequisites(&update.prerequisites)?;
        self.check_changes(&update.changes)?;
        self.check_grants(&update.changes, grants)?;
        let mut before: HashMap<Name, Records> = HashMap::new();
        for change in &update.changes {
            if let Place::Vacant(place) = before.entry(change.owner.clone()) {
                place.insert(self.at(&change.owner).to_vec());
            }
            self.carry_out(change);
        }
        let mut names = before.iter();
        let is_changed = names.any(|(name, before)| !has_same(before, self.at(name)));
        if is_changed {
            let apex = before.get(&self.zone);
            let serial = apex.and_then(|records| serial_of(records));
            if serial.is_none() || serial == serial_of(self.at(&self.zone)) {
                self.raise_serial();
            }
        }
        Ok(is_changed)
    }

    /// The records, in no order.
    #[must_use]
    pub fn into_records(self) -> Vec<ZoneRecord<'static>> {
        let mut records = Vec::with_capacity(self.served.n_records());
        let mut cursor = Cursor::default();
        while let Some(record) = self.served.next_record(&mut cursor) {
            if !self.names.contains_key(&record.owner) {
                records.push(record.into_owned());
            }
        }
        records.extend(self.names.into_values().flatten());
        records
    }

    /// The difference from the version in service.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (name, after) in &self.names {
            let before = self.served.records_at(name);
            if has_same(&before, after) {
                continue;
            }
            let only = |these: &[ZoneRecord<'static>], others: &[ZoneRecord<'static>]| {
                let these = these.iter().filter(|record| record.rtype != Type::SOA);
                let only = these.filter(|one| !others.iter().any(|other| is_same(one, other)));
                only.cloned().collect::<Vec<_>>()
            };
            changes.removed.extend(only(&before, after));
            changes.added.extend(only(after, &before));
            changes.edits.push((name.clone(), after.clone()));
        }
        let mut soa = self.at(&self.zone).iter();
        changes.soa = soa.find(|record| record.rtype == Type::SOA).cloned();
        changes.servers = self.set(&self.zone, Type::NS).cloned().collect();
        changes
    }

    fn at(&self, name: &Name) -> &[ZoneRecord<'static>] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    fn set<'d>(
        &'d self,
        name: &Name,
        rtype: Type,
    ) -> impl Iterator<Item = &'d ZoneRecord<'static>> {
        let records = self.at(name).iter();
        records.filter(move |record| record.rtype == rtype)
    }

    /// Whether there are records of this type, or a program makes them.
    fn has_set(&self, name: &Name, rtype: Type) -> bool {
        self.set(name, rtype).next().is_some() || self.is_made(name, rtype)
    }

    /// Whether a program makes the records of this type.
    fn is_made(&self, name: &Name, rtype: Type) -> bool {
        let mut programs = self.set(name, Type::LUA);
        programs.any(|program| made_type(program) == Some(rtype))
    }

    fn check_zone(&self, entry: &Entry) -> Result<(), Refusal> {
        match entry.owner.is_within(&self.zone) {
            true => Ok(()),
            false => Err(Refusal::new(
                Rcode::NOTZONE,
                format!("{} is not a name of the zone", entry.owner),
            )),
        }
    }

    //--- Before a change

    /// RFC 2136 §3.2.
    fn check_prerequisites(&self, prerequisites: &[Entry]) -> Result<(), Refusal> {
        let formerr = |why: &str| Refusal::new(Rcode::FORMERR, format!("prerequisite: {why}"));
        let mut sets: HashMap<(Name, Type), Vec<&Entry>> = HashMap::new();
        for entry in prerequisites {
            if entry.ttl != 0 {
                return Err(formerr("it has a TTL"));
            }
            self.check_zone(entry)?;
            let (owner, rtype) = (&entry.owner, entry.rtype);
            let fails = |rcode, what: &str| {
                Err(Refusal::new(
                    rcode,
                    format!("prerequisite: {owner} {rtype} {what}"),
                ))
            };
            match entry.class {
                Class::ANY | Class::NONE if !entry.rdata.is_empty() => {
                    return Err(formerr("it has data"));
                }
                Class::ANY | Class::NONE if rtype.is_meta() && rtype != Type::ANY => {
                    return Err(formerr("it has a type that no record has"));
                }
                Class::ANY if rtype == Type::ANY && self.at(owner).is_empty() => {
                    return fails(Rcode::NXDOMAIN, "does not exist");
                }
                Class::ANY if rtype != Type::ANY && !self.has_set(owner, rtype) => {
                    return fails(Rcode::NXRRSET, "does not exist");
                }
                Class::NONE if rtype == Type::ANY && !self.at(owner).is_empty() => {
                    return fails(Rcode::YXDOMAIN, "exists");
                }
                Class::NONE if rtype != Type::ANY && self.has_set(owner, rtype) => {
                    return fails(Rcode::YXRRSET, "exists");
                }
                Class::ANY | Class::NONE => {}
                Class::IN if rtype.is_meta() || !rdata::is_valid(rtype, &entry.rdata) => {
                    return Err(formerr("its data is malformed"));
                }
                Class::IN => sets.entry((owner.clone(), rtype)).or_default().push(entry),
                _ => return Err(formerr("it is of another class")),
            }
        }
        for ((owner, rtype), entries) in sets {
            let mut wanted: Vec<_> = entries
                .iter()
                .map(|it| canonical(rtype, &it.rdata))
                .collect();
            wanted.sort_unstable();
            wanted.dedup();
            let there = self.set(&owner, rtype);
            let mut there: Vec<_> = there.map(|it| canonical(rtype, &it.rdata)).collect();
            there.sort_unstable();
            // The records of a program have no fixed value.
            if wanted != there || self.is_made(&owner, rtype) {
                let why = format!("prerequisite: {owner} {rtype} has other data");
                return Err(Refusal::new(Rcode::NXRRSET, why));
            }
        }
        Ok(())
    }

    /// RFC 2136 §3.4.1.
    fn check_changes(&self, changes: &[Entry]) -> Result<(), Refusal> {
        for entry in changes {
            self.check_zone(entry)?;
            let rtype = entry.rtype;
            let is_meta = rtype.is_meta();
            let has_data = !entry.rdata.is_empty();
            let problem = match entry.class {
                Class::IN if is_meta => Some("it has a type that no record has"),
                Class::IN if !rdata::is_valid(rtype, &entry.rdata) => Some("its data is malformed"),
                Class::ANY | Class::NONE if entry.ttl != 0 => Some("it removes, and has a TTL"),
                Class::ANY if has_data => Some("it removes a set, and has data"),
                Class::ANY if is_meta && rtype != Type::ANY => {
                    Some("it has a type that no record has")
                }
                Class::NONE if is_meta => Some("it has a type that no record has"),
                Class::IN | Class::ANY | Class::NONE => None,
                _ => Some("it is of another class"),
            };
            if let Some(problem) = problem {
                let why = format!("change of {} {rtype}: {problem}", entry.owner);
                return Err(Refusal::new(Rcode::FORMERR, why));
            }
        }
        Ok(())
    }

    /// Whether the grants cover every change (RFC 2136 §3.3). The records of a program stay as the zone's file has them.
    fn check_grants(&self, changes: &[Entry], grants: &[&Grant]) -> Result<(), Refusal> {
        for entry in changes {
            let owner = &entry.owner;
            let types = match entry.rtype {
                // All records of a name: those that are there.
                Type::ANY => {
                    let records = self.at(owner).iter();
                    let is_kept = |rtype| *owner == self.zone && is_kept_at_apex(rtype);
                    let types = records.map(|record| made_type(record).unwrap_or(record.rtype));
                    types.filter(|rtype| !is_kept(*rtype)).collect()
                }
                rtype => vec![rtype],
            };
            for rtype in types {
                if self.is_made(owner, rtype) {
                    let why = format!("a LUA record makes the {rtype} records of {owner}");
                    return Err(Refusal::new(Rcode::REFUSED, why));
                }
                if !grants.iter().any(|grant| grant.allows(owner, rtype)) {
                    let why = format!("the key may not change {owner} {rtype}");
                    return Err(Refusal::new(Rcode::REFUSED, why));
                }
            }
        }
        Ok(())
    }

    //--- A change

    /// RFC 2136 §3.4.2.
    fn carry_out(&mut self, change: &Entry) {
        let is_apex = change.owner == self.zone;
        match change.class {
            Class::IN => self.add(change, is_apex),
            Class::ANY => {
                let rtype = change.rtype;
                self.retain(&change.owner, |record| {
                    let is_meant = rtype == Type::ANY || record.rtype == rtype;
                    !is_meant || is_apex && is_kept_at_apex(record.rtype)
                });
            }
            _ => {
                let n_servers = self.set(&self.zone, Type::NS).count();
                let is_last_server = is_apex && change.rtype == Type::NS && n_servers <= 1;
                if change.rtype != Type::SOA && !is_last_server {
                    self.retain(&change.owner, |record| !is_record(record, change));
                }
            }
        }
    }

    fn add(&mut self, change: &Entry, is_apex: bool) {
        let (owner, rtype) = (&change.owner, change.rtype);
        // A name with an alias has nothing else (§3.4.2.2); programs are something else.
        let is_alias = |record: &ZoneRecord<'_>| record.rtype == Type::CNAME;
        let clashes = |record: &ZoneRecord<'_>| is_alias(record) != (rtype == Type::CNAME);
        if self.at(owner).iter().any(clashes) {
            return;
        }
        if rtype == Type::SOA {
            let serial = serial_of(self.at(owner));
            let new = SoaTimes::of(&change.rdata).map(|times| times.serial);
            let rises = match (serial, new) {
                (Some(serial), Some(new)) => Soa::is_newer(new, serial),
                _ => false,
            };
            if !is_apex || !rises {
                return;
            }
        }
        let is_single = matches!(rtype, Type::SOA | Type::CNAME | Type::DNAME);
        self.retain(owner, |record| {
            let is_replaced = is_single && record.rtype == rtype;
            !(is_replaced || is_record(record, change))
        });
        let records = self.names.entry(owner.clone()).or_default();
        // The records of a set have one TTL (RFC 2181 §5.2).
        for record in records.iter_mut().filter(|record| record.rtype == rtype) {
            record.ttl = change.ttl;
        }
        records.push(ZoneRecord {
            owner: owner.clone(),
            rtype,
            ttl: change.ttl,
            rdata: change.rdata.clone().into(),
        });
    }

    fn retain(&mut self, name: &Name, keep: impl Fn(&ZoneRecord<'_>) -> bool) {
        if let Some(records) = self.names.get_mut(name) {
            records.retain(keep);
        }
    }

    /// The next serial (RFC 2136 §3.6, RFC 1982).
    fn raise_serial(&mut self) {
        let records = self.names.get_mut(&self.zone).into_iter().flatten();
        for record in records.filter(|record| record.rtype == Type::SOA) {
            let serial = SoaTimes::of(&record.rdata).map_or(0, |times| times.serial);
            if let Some(raised) = record.with_serial(serial.wrapping_add(1)) {
                *record = raised;
            }
        }
    }
}

/// The type that a program makes, in the first octets of its data.
fn made_type(record: &ZoneRecord<'_>) -> Option<Type> {
    let (made, _) = record.rdata.split_first_chunk::<2>()?;
    (record.rtype == Type::LUA).then(|| Type(u16::from_be_bytes(*made)))
}

/// Whether a removal leaves the records of this type at the apex (§3.4.2.3).
const fn is_kept_at_apex(rtype: Type) -> bool {
    matches!(rtype, Type::SOA | Type::NS)
}

/// Whether a change is about this record: the TTL does not count.
fn is_record(record: &ZoneRecord<'_>, change: &Entry) -> bool {
    record.rtype == change.rtype
        && canonical(record.rtype, &record.rdata) == canonical(change.rtype, &change.rdata)
}

fn serial_of(records: &[ZoneRecord<'_>]) -> Option<u32> {
    let soa = records.iter().find(|record| record.rtype == Type::SOA)?;
    Some(SoaTimes::of(&soa.rdata)?.serial)
}

/// Whether both have the same records, in any order.
fn has_same(before: &[ZoneRecord<'_>], after: &[ZoneRecord<'_>]) -> bool {
    before.len() == after.len()
        && before
            .iter()
            .all(|one| after.iter().any(|other| is_same(one, other)))
}

/// Whether two records of one name are the same.
fn is_same(one: &ZoneRecord<'_>, other: &ZoneRecord<'_>) -> bool {
    (one.rtype, one.ttl) == (other.rtype, other.ttl)
        && canonical(one.rtype, &one.rdata) == canonical(other.rtype, &other.rdata)
}
