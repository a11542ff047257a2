//! A strict reader of DNS messages, and a writer of queries, for tests.
//!
//! It shares no code with `dns-wire`, so that a mistake there cannot hide itself. It is strict where the servers under test have to be
//! right: every name must be in place, and nothing may follow the last record.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const A: u16 = 1;
pub const NS: u16 = 2;
pub const CNAME: u16 = 5;
pub const SOA: u16 = 6;
pub const PTR: u16 = 12;
pub const MX: u16 = 15;
pub const TXT: u16 = 16;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;
pub const OPT: u16 = 41;
pub const DNAME: u16 = 39;
pub const IXFR: u16 = 251;
pub const AXFR: u16 = 252;
pub const ANY: u16 = 255;

pub const NOERROR: u8 = 0;
pub const FORMERR: u8 = 1;
pub const SERVFAIL: u8 = 2;
pub const NXDOMAIN: u8 = 3;
pub const NOTIMP: u8 = 4;
pub const REFUSED: u8 = 5;

/// A question of a query, with the query's flags.
#[derive(Clone, Debug)]
pub struct Question {
    pub name: String,
    pub rtype: u16,
    pub class: u16,
    pub opcode: u8,
    pub recursion_desired: bool,
    pub checking_disabled: bool,
    /// UDP size of an OPT record; no OPT record without one.
    pub edns: Option<Edns>,
}

/// The OPT record of a question.
#[derive(Clone, Debug)]
pub struct Edns {
    pub udp_size: u16,
    pub version: u8,
    pub dnssec_ok: bool,
    /// The other flags, which are reserved.
    pub flags: u16,
    /// Options as they lie in the message.
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Default for Edns {
    fn default() -> Self {
        Self {
            udp_size: 1232,
            version: 0,
            dnssec_ok: false,
            flags: 0,
            options: Vec::new(),
        }
    }
}

impl Question {
    /// A plain question, with recursion desired and EDNS.
    #[must_use]
    pub fn new(name: &str, rtype: u16) -> Self {
        Self {
            name: name.to_owned(),
            rtype,
            class: 1,
            opcode: 0,
            recursion_desired: true,
            checking_disabled: false,
            edns: Some(Edns::default()),
        }
    }

    /// The same without EDNS.
    #[must_use]
    pub fn without_edns(mut self) -> Self {
        self.edns = None;
        self
    }

    /// The same with that OPT record.
    #[must_use]
    pub fn with_edns(mut self, edns: Edns) -> Self {
        self.edns = Some(edns);
        self
    }

    /// The message.
    ///
    /// # Panics
    ///
    /// Panics if the name is not one.
    #[must_use]
    pub fn to_wire(&self, id: u16) -> Vec<u8> {
        let mut wire = id.to_be_bytes().to_vec();
        wire.push(self.opcode << 3 | u8::from(self.recursion_desired));
        wire.push(u8::from(self.checking_disabled) << 4);
        let n_additional = u8::from(self.edns.is_some());
        wire.extend([0, 1, 0, 0, 0, 0, 0, n_additional]);
        wire.extend(name_to_wire(&self.name));
        wire.extend(self.rtype.to_be_bytes());
        wire.extend(self.class.to_be_bytes());
        if let Some(edns) = &self.edns {
            wire.push(0);
            wire.extend(OPT.to_be_bytes());
            wire.extend(edns.udp_size.to_be_bytes());
            let flags = u16::from(edns.dnssec_ok) << 15 | edns.flags;
            wire.extend([0, edns.version]);
            wire.extend(flags.to_be_bytes());
            let mut options = Vec::new();
            for (code, value) in &edns.options {
                options.extend(code.to_be_bytes());
                options.extend(
                    u16::try_from(value.len())
                        .expect("short option")
                        .to_be_bytes(),
                );
                options.extend(value);
            }
            wire.extend(
                u16::try_from(options.len())
                    .expect("short options")
                    .to_be_bytes(),
            );
            wire.extend(options);
        }
        wire
    }
}

/// A name as text (no escapes) in wire form.
///
/// # Panics
///
/// Panics if a label is too long.
#[must_use]
pub fn name_to_wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        assert!(label.len() < 64, "label too long: {label}");
        wire.push(u8::try_from(label.len()).expect("less than 64"));
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

//--- Messages

/// A message, read whole.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub id: u16,
    pub response: bool,
    pub opcode: u8,
    pub authoritative: bool,
    pub truncated: bool,
    pub recursion_desired: bool,
    pub recursion_available: bool,
    pub authentic_data: bool,
    pub checking_disabled: bool,
    /// Including the upper bits from the OPT record.
    pub rcode: u16,
    pub questions: Vec<(String, u16, u16)>,
    pub answers: Vec<Record>,
    pub authority: Vec<Record>,
    /// Without the OPT record.
    pub additional: Vec<Record>,
    pub edns: Option<Edns>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub owner: String,
    pub rtype: u16,
    pub class: u16,
    pub ttl: u32,
    /// The data, its names expanded where the type has any that may be compressed.
    pub data: Data,
}

/// The data of a record, as far as tests look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Address(IpAddr),
    /// NS, CNAME, DNAME, PTR.
    Name(String),
    /// Primary, mailbox, and the five numbers.
    Soa(String, String, [u32; 5]),
    Text(Vec<String>),
    /// The preference and the name of an MX record.
    Exchange(u16, String),
    Other(Vec<u8>),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn read(wire: &[u8]) -> Result<Self, String> {
        let mut at = Reader { wire, at: 0 };
        let id = at.u16()?;
        let [high, low] = at.u16()?.to_be_bytes();
        let counts = [at.u16()?, at.u16()?, at.u16()?, at.u16()?];
        let mut message = Self {
            id,
            response: high & 0x80 != 0,
            opcode: high >> 3 & 15,
            authoritative: high & 4 != 0,
            truncated: high & 2 != 0,
            recursion_desired: high & 1 != 0,
            recursion_available: low & 0x80 != 0,
            authentic_data: low & 0x20 != 0,
            checking_disabled: low & 0x10 != 0,
            rcode: u16::from(low & 15),
            ..Self::default()
        };
        for _ in 0..counts[0] {
            message.questions.push((at.name()?, at.u16()?, at.u16()?));
        }
        for (section, count) in (1..).zip(&counts[1..]) {
            for _ in 0..*count {
                message.read_record(section, &mut at)?;
            }
        }
        if at.at != wire.len() {
            return Err(format!(
                "{} bytes after the last record",
                wire.len() - at.at
            ));
        }
        Ok(message)
    }

    fn read_record(&mut self, section: u8, at: &mut Reader<'_>) -> Result<(), String> {
        let owner = at.name()?;
        let (rtype, class) = (at.u16()?, at.u16()?);
        let ttl = at.u32()?;
        let length = usize::from(at.u16()?);
        let end = at.at + length;
        if rtype == OPT {
            if section != 3 || self.edns.is_some() || owner != "." {
                return Err("a misplaced or second OPT record".to_owned());
            }
            let [upper, version, ..] = ttl.to_be_bytes();
            self.rcode |= u16::from(upper) << 4;
            let mut options = Vec::new();
            while at.at < end {
                let code = at.u16()?;
                let length = usize::from(at.u16()?);
                options.push((code, at.bytes(length)?.to_vec()));
            }
            self.edns = Some(Edns {
                udp_size: class,
                version,
                dnssec_ok: ttl & 0x8000 != 0,
                flags: u16::try_from(ttl & 0x7fff).expect("fifteen bits"),
                options,
            });
        } else {
            let data = Data::read(rtype, length, at)?;
            let record = Record {
                owner,
                rtype,
                class,
                ttl,
                data,
            };
            match section {
                1 => self.answers.push(record),
                2 => self.authority.push(record),
                _ => self.additional.push(record),
            }
        }
        if at.at == end {
            Ok(())
        } else {
            Err(format!("data of type {rtype} has a wrong length"))
        }
    }

    /// The addresses of the answer, of whichever owner.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let address = |record: &Record| match record.data {
            Data::Address(address) => Some(address),
            _ => None,
        };
        self.answers.iter().filter_map(address).collect()
    }

    /// The info codes of extended errors (RFC 8914).
    #[must_use]
    pub fn extended_errors(&self) -> Vec<u16> {
        let options = self.edns.iter().flat_map(|edns| &edns.options);
        options
            .filter(|(code, _)| *code == 15)
            .filter_map(|(_, value)| value.first_chunk().copied().map(u16::from_be_bytes))
            .collect()
    }
}

impl Data {
    fn read(rtype: u16, length: usize, at: &mut Reader<'_>) -> Result<Self, String> {
        Ok(match (rtype, length) {
            (A, 4) => Self::Address(Ipv4Addr::from(at.u32()?).into()),
            (AAAA, 16) => {
                let octets: [u8; 16] = at.bytes(16)?.try_into().expect("sixteen");
                Self::Address(Ipv6Addr::from(octets).into())
            }
            (NS | CNAME | DNAME | PTR, _) => Self::Name(at.name()?),
            (MX, _) => Self::Exchange(at.u16()?, at.name()?),
            (SOA, _) => {
                let (primary, mailbox) = (at.name()?, at.name()?);
                let numbers = [at.u32()?, at.u32()?, at.u32()?, at.u32()?, at.u32()?];
                Self::Soa(primary, mailbox, numbers)
            }
            (TXT, _) => {
                let end = at.at + length;
                let mut strings = Vec::new();
                while at.at < end {
                    let length = usize::from(at.u8()?);
                    strings.push(String::from_utf8_lossy(at.bytes(length)?).into_owned());
                }
                Self::Text(strings)
            }
            _ => Self::Other(at.bytes(length)?.to_vec()),
        })
    }
}

struct Reader<'a> {
    wire: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], String> {
        let bytes = self
            .wire
            .get(self.at..self.at + length)
            .ok_or("the message is cut off")?;
        self.at += length;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_be_bytes(self.bytes(2)?.try_into().expect("two")))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_be_bytes(self.bytes(4)?.try_into().expect("four")))
    }

    /// A name, with pointers that only lead back.
    fn name(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut at = self.at;
        let mut lowest = self.at;
        let mut end = None;
        loop {
            let length = usize::from(*self.wire.get(at).ok_or("a name is cut off")?);
            match length {
                0 => break,
                1..64 => {
                    let label = self
                        .wire
                        .get(at + 1..=at + length)
                        .ok_or("a label is cut off")?;
                    text.extend(label.iter().map(|&byte| char::from(byte)));
                    text.push('.');
                    at += 1 + length;
                }
                192.. => {
                    let low = *self.wire.get(at + 1).ok_or("a pointer is cut off")?;
                    end.get_or_insert(at + 2);
                    at = (length & 63) << 8 | usize::from(low);
                    if at >= lowest {
                        return Err(format!("a pointer does not lead back: {at}"));
                    }
                    lowest = at;
                }
                _ => return Err(format!("label type {length:#x}")),
            }
        }
        self.at = end.unwrap_or(at + 1);
        if text.is_empty() {
            text.push('.');
        }
        Ok(text)
    }
}
