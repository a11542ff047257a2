//! The message of an update.

use std::fmt;

use dns_wire::records::uncompressed_rdata;
use dns_wire::{Class, Name, Opcode, Query, Records, Section, Type};

/// An update as its message has it. Its records are checked in the order of RFC 2136 §3, when it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The zone.
    pub zone: Name,
    /// The prerequisites (§2.4).
    pub prerequisites: Vec<Entry>,
    /// The changes (§2.5).
    pub changes: Vec<Entry>,
}

/// A prerequisite or a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The owner.
    pub owner: Name,
    /// The type.
    pub rtype: Type,
    /// The class, which says what the entry means.
    pub class: Class,
    /// The TTL.
    pub ttl: u32,
    /// The data, names uncompressed.
    pub rdata: Vec<u8>,
}

/// The octets are no update: FORMERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is no update")
    }
}

impl Update {
    /// Reads a message. Its zone section has one zone of class IN (RFC 2136 §2.3).
    ///
    /// # Errors
    /// When it breaks the format.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let query = Query::parse_any_opcode(message).map_err(|_| Malformed)?;
        let is_update = query.opcode() == Opcode::UPDATE;
        if !is_update || query.qtype != Type::SOA || query.qclass != Class::IN {
            return Err(Malformed);
        }
        let (zone, _) = Name::from_wire(query.qname).map_err(|_| Malformed)?;
        let mut update = Self {
            zone,
            prerequisites: Vec::new(),
            changes: Vec::new(),
        };
        for record in Records::new(message).map_err(|_| Malformed)? {
            let record = record.map_err(|_| Malformed)?;
            let entries = match record.section {
                Section::Answer => &mut update.prerequisites,
                Section::Authority => &mut update.changes,
                // Glue that is of no use (§2.6), OPT and TSIG.
                Section::Additional => continue,
            };
            let (owner, _) = Name::read(message, record.name_offset).map_err(|_| Malformed)?;
            // An entry without data has no names in it.
            let rdata = match record.rdata.is_empty() {
                true => Vec::new(),
                false => uncompressed_rdata(message, &record).map_err(|_| Malformed)?,
            };
            entries.push(Entry {
                owner,
                rtype: record.rtype,
                class: record.class,
                ttl: record.ttl,
                rdata,
            });
        }
        Ok(update)
    }
}
