//! Walks the records of any message, such as an upstream's response.

use std::ops::Range;

use crate::header;
use crate::layout::{Field, Layout};
use crate::name::{self, Name, NameError};
use crate::rtype::{Class, Type};

/// One of the sections that hold records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Records that answer the question.
    Answer,
    /// Records that point to an authority.
    Authority,
    /// Records that may help.
    Additional,
}

/// A record in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRef {
    /// The section it is in.
    pub section: Section,
    /// The offset of its owner name, which is the start of the record.
    pub name_offset: usize,
    /// Its type.
    pub rtype: Type,
    /// Its class; for OPT the sender's UDP size.
    pub class: Class,
    /// Its TTL; for OPT response code, version and flags.
    pub ttl: u32,
    /// The offset of its TTL.
    pub ttl_offset: usize,
    /// The range of its RDATA.
    pub rdata: Range<usize>,
}

impl RecordRef {
    /// Whether it is one of the answer, of this owner and type.
    #[must_use]
    pub fn answers(&self, message: &[u8], owner: &Name, rtype: Type) -> bool {
        self.section == Section::Answer
            && self.class == Class::IN
            && self.rtype == rtype
            && Name::read(message, self.name_offset).is_ok_and(|(name, _)| name == *owner)
    }
}

/// The records of a message, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: [u16; 3],
}

impl<'a> Records<'a> {
    /// Starts behind the question section.
    ///
    /// # Errors
    /// When the header or the question section is cut short.
    pub fn new(message: &'a [u8]) -> Result<Self, NameError> {
        let [n_questions, answers, authorities, additionals] =
            header::counts(message).ok_or(NameError::Short)?;
        let mut at = header::LENGTH;
        for _ in 0..n_questions {
            at = name::skip(message, at)? + 4;
        }
        if at > message.len() {
            return Err(NameError::Short);
        }
        Ok(Self {
            message,
            at,
            left: [answers, authorities, additionals],
        })
    }

    /// The offset of the next record; behind the last one when all are read.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    fn read(&mut self, section: Section) -> Result<RecordRef, NameError> {
        let name_offset = self.at;
        let fixed = name::skip(self.message, name_offset)?;
        let bytes: &[u8; 10] = self
            .message
            .get(fixed..)
            .and_then(|rest| rest.first_chunk())
            .ok_or(NameError::Short)?;
        let &[t1, t0, c1, c0, l3, l2, l1, l0, n1, n0] = bytes;
        let start = fixed + 10;
        let end = start + usize::from(u16::from_be_bytes([n1, n0]));
        if end > self.message.len() {
            return Err(NameError::Short);
        }
        self.at = end;
        Ok(RecordRef {
            section,
            name_offset,
            rtype: Type(u16::from_be_bytes([t1, t0])),
            class: Class(u16::from_be_bytes([c1, c0])),
            ttl: u32::from_be_bytes([l3, l2, l1, l0]),
            ttl_offset: fixed + 4,
            rdata: start..end,
        })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<RecordRef, NameError>;

    fn next(&mut self) -> Option<Self::Item> {
        let section = match &mut self.left {
            [n @ 1..=u16::MAX, ..] => {
                *n -= 1;
                Section::Answer
            }
            [0, n @ 1..=u16::MAX, _] => {
                *n -= 1;
                Section::Authority
            }
            [0, 0, n @ 1..=u16::MAX] => {
                *n -= 1;
                Section::Additional
            }
            [0, 0, 0] => return None,
        };
        let record = self.read(section);
        if record.is_err() {
            self.left = [0; 3];
        }
        Some(record)
    }
}

/// A record as a line of a master file, its TTL counted down by `age` seconds; `None` when it is damaged.
#[must_use]
pub fn line(message: &[u8], record: &RecordRef, age: u32) -> Option<String> {
    let (owner, _) = Name::read(message, record.name_offset).ok()?;
    let data = uncompressed_rdata(message, record).ok()?;
    let data = crate::rdata::display(record.rtype, &data);
    let ttl = record.ttl.saturating_sub(age);
    let (class, rtype) = (record.class, record.rtype);
    Some(format!("{owner} {ttl} {class} {rtype} {data}"))
}

/// A record's RDATA with every name in it decompressed.
///
/// # Errors
/// When the RDATA ends early or a name in it is bad.
pub fn uncompressed_rdata(message: &[u8], record: &RecordRef) -> Result<Vec<u8>, NameError> {
    let mut at = record.rdata.start;
    let end = record.rdata.end;
    let mut rdata = Vec::with_capacity(record.rdata.len());
    let within = message.get(..end).ok_or(NameError::Short)?;
    for field in Layout::of(record.rtype).fields {
        let next = match field {
            Field::Name => {
                let (name, next) = Name::read(within, at)?;
                rdata.extend_from_slice(name.as_wire());
                at = next;
                continue;
            }
            Field::Octets(n) => at + n,
            Field::CharacterString => {
                at + 1 + usize::from(*within.get(at).ok_or(NameError::Short)?)
            }
            Field::Rest => end,
        };
        rdata.extend_from_slice(within.get(at..next).ok_or(NameError::Short)?);
        at = next;
    }
    rdata.extend_from_slice(within.get(at..).ok_or(NameError::Short)?);
    Ok(rdata)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"\0\x01\x81\x80\0\x01\0\x01\0\x01\0\x01\x03www\x01x\0\0\x0f\0\x01\
        \xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x09\0\x0a\x04mail\xc0\x10\
        \xc0\x10\0\x02\0\x01\0\0\0\x3c\0\x02\xc0\x25\
        \0\0\x29\x04\xd0\0\0\0\0\0\0";

    #[test]
    fn records_are_walked_section_by_section() {
        let records: Vec<RecordRef> = Records::new(RESPONSE)
            .unwrap()
            .map(|record| record.unwrap())
            .collect();
        let seen: Vec<_> = records
            .iter()
            .map(|r| (r.section, r.rtype, r.ttl))
            .collect();
        assert_eq!(
            seen,
            [
                (Section::Answer, Type::MX, 60),
                (Section::Authority, Type::NS, 60),
                (Section::Additional, Type::OPT, 0),
            ]
        );
        assert_eq!(
            uncompressed_rdata(RESPONSE, &records[0]).unwrap(),
            b"\0\x0a\x04mail\x01x\0"
        );
        assert_eq!(
            uncompressed_rdata(RESPONSE, &records[1]).unwrap(),
            b"\x04mail\x01x\0"
        );
        let ttl = records[0].ttl_offset;
        assert_eq!(RESPONSE[ttl..ttl + 4], [0, 0, 0, 60]);
    }

    #[test]
    fn a_cut_message_ends_with_one_error() {
        for cut in 0..RESPONSE.len() {
            let Ok(records) = Records::new(&RESPONSE[..cut]) else {
                continue;
            };
            let errors = records.filter(Result::is_err).count();
            assert_eq!(errors, 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_name_in_rdata_may_not_run_past_its_record() {
        let record = Records::new(RESPONSE).unwrap().next().unwrap().unwrap();
        for end in record.rdata.start..record.rdata.end {
            let cut = RecordRef {
                rdata: record.rdata.start..end,
                ..record.clone()
            };
            assert_eq!(uncompressed_rdata(RESPONSE, &cut), Err(NameError::Short));
        }
    }
}
