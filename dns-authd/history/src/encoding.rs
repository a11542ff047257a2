//! A history as octets.
//!
//! ```text
//! history  =  name of the zone   rollback   count (u32)  version  change*   updates
//! rollback =  0 (u8)  |  1 (u8)  to (u32)  since (u64)  version
//! change   =  published (u64)  version  records  records
//! updates  =  nothing  |  version  change
//! version  =  digest (u64)  record
//! records  =  count (u32)  record*
//! record   =  name   type (u16)  TTL (u32)  length (u16)  data
//! name     =  length (u8)  wire form
//! ```
//!
//! Integers are big endian.

use std::fmt;
use std::sync::Arc;

use dns_wire::{Name, Type};
use dns_zone::zone::cursor::ZoneRecord;

use crate::change::Change;
use crate::history::{History, Limits, Rollback};
use crate::version::Version;

/// The data of a SOA record ends with five numbers.
const SOA_NUMBERS: usize = 20;

/// Octets are no history of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these octets are no history of the zone")
    }
}

impl History {
    /// The octets of the history of this zone.
    #[must_use]
    pub fn encode(&self, zone: &Name) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.octets() + 256);
        write_name(&mut out, zone);
        match self.rollback() {
            None => out.push(0),
            Some(rollback) => {
                out.push(1);
                out.extend(rollback.to.to_be_bytes());
                out.extend(rollback.since.to_be_bytes());
                write_version(&mut out, &rollback.file);
            }
        }
        write_count(&mut out, self.changes().len());
        if let Some(first) = self.changes().next() {
            write_version(&mut out, &first.from);
        }
        for change in self.changes() {
            write_change(&mut out, change);
        }
        if let Some(updates) = self.updates() {
            write_version(&mut out, &updates.from);
            write_change(&mut out, &updates);
        }
        out
    }

    /// Adds the change of an update that [`Change::encode`] made octets of. It follows the newest version.
    ///
    /// # Errors
    /// When they are none, or when its records do not lead from the newest version to the one that it names.
    pub fn follow(&mut self, octets: &[u8], zone: &Name) -> Result<(), Malformed> {
        let newest = self.newest().cloned().ok_or(Malformed)?;
        let mut reader = Reader { rest: octets, zone };
        let change = reader.change(newest).filter(|_| reader.rest.is_empty());
        let unbounded = Limits {
            versions: usize::MAX,
            octets: usize::MAX,
        };
        self.update(Arc::new(change.ok_or(Malformed)?), unbounded);
        Ok(())
    }

    /// The history of a zone that [`encode`](Self::encode) made octets of.
    ///
    /// # Errors
    /// When they are none, or not of this zone, or when the records of a change do not lead from its version to the next.
    pub fn decode(octets: &[u8], zone: &Name) -> Result<Self, Malformed> {
        let mut reader = Reader { rest: octets, zone };
        reader.history().ok_or(Malformed)
    }
}

impl Change {
    /// The octets of a change, for [`History::follow`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.octets() + 64);
        write_change(&mut out, self);
        out
    }
}

/// The name of a zone's file: octets other than letters, digits, `-` and `_` as `%XX`, so that two zones never share one. A
/// longer name than a file may have is cut, and what is read from it is of the other zone: it counts as no history.
#[must_use]
pub fn file_name(zone: &Name) -> String {
    let mut text = String::new();
    for label in zone.to_lowercase().labels() {
        for octet in label {
            match octet {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(*octet)),
                _ => text.push_str(&format!("%{octet:02X}")),
            }
        }
        text.push('.');
    }
    text.truncate(200);
    format!("{text}history")
}

//--- Writing

fn write_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn write_name(out: &mut Vec<u8>, name: &Name) {
    out.push(u8::try_from(name.as_wire().len()).unwrap_or(u8::MAX));
    out.extend_from_slice(name.as_wire());
}

fn write_version(out: &mut Vec<u8>, version: &Version) {
    out.extend(version.digest.to_be_bytes());
    write_record(out, &version.soa);
}

/// A change without the version before, which its reader knows.
fn write_change(out: &mut Vec<u8>, change: &Change) {
    out.extend(change.published.to_be_bytes());
    write_version(out, &change.to);
    for records in [&change.removed, &change.added] {
        write_count(out, records.len());
        for record in records {
            write_record(out, record);
        }
    }
}

fn write_record(out: &mut Vec<u8>, record: &ZoneRecord<'_>) {
    write_name(out, &record.owner);
    out.extend(record.rtype.0.to_be_bytes());
    out.extend(record.ttl.to_be_bytes());
    let length = u16::try_from(record.rdata.len()).unwrap_or(u16::MAX);
    out.extend(length.to_be_bytes());
    out.extend_from_slice(&record.rdata);
}

//--- Reading

struct Reader<'o> {
    rest: &'o [u8],
    zone: &'o Name,
}

impl Reader<'_> {
    fn history(&mut self) -> Option<History> {
        if self.name()? != *self.zone {
            return None;
        }
        let rollback = match self.octets::<1>()? {
            [0] => None,
            [1] => Some(Rollback {
                to: u32::from_be_bytes(self.octets()?),
                since: u64::from_be_bytes(self.octets()?),
                file: self.version()?,
            }),
            _ => return None,
        };
        let n_changes = self.count()?;
        let mut changes = Vec::new();
        if n_changes > 0 {
            let mut from = self.version()?;
            for _ in 0..n_changes {
                let change = self.change(from)?;
                from = change.to.clone();
                changes.push(change);
            }
        }
        // Histories of before there were updates end here.
        let updates = match self.rest.is_empty() {
            true => None,
            false => {
                let from = self.version()?;
                Some(self.change(from)?)
            }
        };
        if !self.rest.is_empty() {
            return None;
        }
        History::new(changes, rollback, updates)
    }

    fn change(&mut self, from: Version) -> Option<Change> {
        let published = u64::from_be_bytes(self.octets()?);
        let change = Change {
            from,
            to: self.version()?,
            published,
            removed: self.records()?,
            added: self.records()?,
        };
        change.is_whole().then_some(change)
    }

    fn octets<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (octets, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*octets)
    }

    fn slice(&mut self, length: usize) -> Option<&[u8]> {
        let (octets, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(octets)
    }

    /// A count of things that take an octet at least.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(u32::from_be_bytes(self.octets()?)).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    fn name(&mut self) -> Option<Name> {
        let [length] = self.octets()?;
        let wire = self.slice(length.into())?;
        let (name, used) = Name::from_wire(wire).ok()?;
        (used == wire.len()).then_some(name)
    }

    fn version(&mut self) -> Option<Version> {
        let digest = u64::from_be_bytes(self.octets()?);
        let soa = self.record()?;
        let is_soa = soa.rtype == Type::SOA && soa.owner == *self.zone;
        (is_soa && soa.rdata.len() > SOA_NUMBERS).then_some(Version { soa, digest })
    }

    /// Records of the zone other than its SOA record.
    fn records(&mut self) -> Option<Vec<ZoneRecord<'static>>> {
        let count = self.count()?;
        let records: Option<Vec<_>> = (0..count).map(|_| self.record()).collect();
        records.filter(|records| records.iter().all(|record| record.rtype != Type::SOA))
    }

    fn record(&mut self) -> Option<ZoneRecord<'static>> {
        let owner = self.name()?;
        let rtype = Type(u16::from_be_bytes(self.octets()?));
        let ttl = u32::from_be_bytes(self.octets()?);
        let length = u16::from_be_bytes(self.octets()?);
        let rdata = self.slice(length.into())?.to_vec().into();
        let is_inside = owner.is_within(self.zone);
        is_inside.then_some(ZoneRecord {
            owner,
            rtype,
            ttl,
            rdata,
        })
    }
}
