//! Records of a zone, as a master file states them.

use std::sync::Arc;
use std::time::Duration;

use dns_wire::{Class, Name, Type};

use config_text::Position;

/// The serial and the timers of a SOA record (RFC 1035 §3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoaTimes {
    /// The version.
    pub serial: u32,
    /// How long a secondary waits before it asks again.
    pub refresh: Duration,
    /// How long it waits when the primaries do not respond.
    pub retry: Duration,
    /// How long it answers without a response.
    pub expire: Duration,
}

/// One resource record and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner name.
    pub owner: Name,
    /// How long resolvers may keep it, in seconds.
    pub ttl: u32,
    /// Its class.
    pub class: Class,
    /// Its type and data.
    pub data: RecordData,
    /// Its place in the file.
    pub position: Position,
}

/// The data of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordData {
    /// Plain data.
    Wire {
        /// The record's type.
        rtype: Type,
        /// The data in wire form, names uncompressed.
        rdata: Box<[u8]>,
    },
    /// A `LUA` record: a program that makes the data.
    Lua {
        /// The type of the records it makes.
        rtype: Type,
        /// The program.
        program: Box<ProgramText>,
    },
}

/// The text of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramText {
    /// The text.
    pub code: String,
    /// The strings it was written in.
    pub parts: Arc<[Box<str>]>,
}

impl Record {
    /// The type that a question must have to get this record.
    #[must_use]
    pub const fn rtype(&self) -> Type {
        match &self.data {
            RecordData::Wire { rtype, .. } | RecordData::Lua { rtype, .. } => *rtype,
        }
    }
}
