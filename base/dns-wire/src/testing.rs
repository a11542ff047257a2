//! Messages for tests.

use crate::header;
use crate::name::Name;
use crate::question::Question;
use crate::records::Section;
use crate::rtype::{Class, Type};

/// A record: section, owner, type, TTL and RDATA.
pub type Written = (Section, &'static str, Type, u32, Vec<u8>);

/// A response to a question, with flags and records.
///
/// # Panics
///
/// Panics if an owner is no name, or there are more records or octets than a message can have.
#[must_use]
#[expect(clippy::unwrap_used, reason = "for tests")]
pub fn response(question: &Question<'_>, flags: u16, records: &[Written]) -> Vec<u8> {
    let mut message = question.query();
    let count = |section| {
        let n = records.iter().filter(|record| record.0 == section).count();
        u16::try_from(n).unwrap()
    };
    header::set_word(&mut message, 2, flags);
    header::set_word(&mut message, 6, count(Section::Answer));
    header::set_word(&mut message, 8, count(Section::Authority));
    for (_, owner, rtype, ttl, data) in records {
        message.extend_from_slice(owner.parse::<Name>().unwrap().as_wire());
        message.extend_from_slice(&rtype.0.to_be_bytes());
        message.extend_from_slice(&Class::IN.0.to_be_bytes());
        message.extend_from_slice(&ttl.to_be_bytes());
        message.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        message.extend_from_slice(data);
    }
    message
}
