//! Whole-zone transfers (RFC 5936): the messages that carry a zone, one after the other.
//!
//! The response to an incremental transfer (RFC 1995) is the whole zone, as its §4 allows, or only the SOA
//! record when the client has this version or a later one. `LUA` records have `PowerDNS`'s form, so that
//! its secondaries accept them.

use std::sync::Arc;

use dns_wire::composer::{Composer, Owner};
use dns_wire::header::Flags;
use dns_wire::{Class, Query, Section, Session, Type};
use dns_zone::zone::cursor::{Cursor, ZoneRecord};
use dns_zone::{MAX_MESSAGE, Soa, Zone};

/// Octets of records in one message: compression pointers reach no further, and a small buffer suffices.
const MESSAGE_SIZE: usize = 16 * 1024;

/// A transfer in progress. It reads the zone as it goes.
#[derive(Debug)]
pub struct Transfer {
    zone: Arc<Zone>,
    id: u16,
    flags: Flags,
    question: Vec<u8>,
    next: Next,
    is_first: bool,
    /// Signs the messages, if the query was signed.
    session: Option<Session>,
}

/// The next record of a transfer.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The SOA record at the start; it is the only record if the client has this version.
    FirstSoa { is_only: bool },
    /// A record of the zone, its SOA record left out; behind them the SOA record again.
    Record(Cursor),
    /// None.
    End,
}

impl Transfer {
    /// Begins the transfer of a zone that this message requests; the session of a signed message signs it.
    #[must_use]
    pub fn new(zone: &Arc<Zone>, message: &[u8], session: Option<Session>) -> Self {
        let query = Query::parse(message).ok();
        let has_current = query.as_ref().is_some_and(|query| {
            let known = known_serial(query);
            query.qtype == Type::IXFR
                && known.is_some_and(|known| !Soa::is_newer(zone.soa().serial, known))
        });
        let flags = query
            .as_ref()
            .map_or_else(Flags::default, |query| query.flags.of_authority());
        Self {
            zone: Arc::clone(zone),
            id: query.as_ref().map_or(0, |query| query.id),
            flags: flags.with(Flags::AA),
            question: query.map_or_else(Vec::new, |query| query.question.to_vec()),
            next: Next::FirstSoa {
                is_only: has_current,
            },
            is_first: true,
            session,
        }
    }

    /// Writes the next message; `None` when all are written. `now` is the time of a signature, in seconds since 1970.
    pub fn next_message(&mut self, out: &mut [u8], now: u64) -> Option<usize> {
        let zone = Arc::clone(&self.zone);
        self.next.record(&zone)?;
        let limit = MAX_MESSAGE - self.session.as_ref().map_or(0, Session::length);
        let mut message = Composer::new(out, limit, self.id, self.flags).ok()?;
        // RFC 5936 §2.2.1: later messages need not repeat the question.
        if self.is_first {
            message.question(&self.question).ok()?;
        }
        self.is_first = false;
        let mut count = 0_usize;
        while let Some((record, next)) = self.next.record(&zone) {
            let fixed = (record.rtype, Class::IN, record.ttl);
            let owner = Owner::Name(&record.owner);
            let pushed = message.record(Section::Answer, owner, fixed, &record.rdata);
            if pushed.is_err() && count == 0 {
                // A record beyond what a message holds cannot be sent: the transfer ends here,
                // and the client sees that the closing SOA is missing.
                return None;
            }
            if pushed.is_err() {
                break;
            }
            self.next = next;
            count += 1;
            if message.length() >= MESSAGE_SIZE {
                break;
            }
        }
        let length = message.finish();
        match &mut self.session {
            Some(session) => session.sign(out, length, now),
            None => Some(length),
        }
    }
}

impl Next {
    /// The record, and what comes after it.
    fn record(self, zone: &Zone) -> Option<(ZoneRecord<'_>, Self)> {
        match self {
            Self::FirstSoa { is_only } => {
                let next = match is_only {
                    true => Self::End,
                    false => Self::Record(Cursor::default()),
                };
                Some((soa(zone)?, next))
            }
            Self::Record(mut cursor) => {
                while let Some(record) = zone.next_record(&mut cursor) {
                    if record.rtype != Type::SOA {
                        return Some((record, Self::Record(cursor)));
                    }
                }
                Some((soa(zone)?, Self::End))
            }
            Self::End => None,
        }
    }
}

/// The zone's SOA record, which is among its first: the apex comes first.
fn soa(zone: &Zone) -> Option<ZoneRecord<'_>> {
    let mut cursor = Cursor::default();
    std::iter::from_fn(|| zone.next_record(&mut cursor)).find(|record| record.rtype == Type::SOA)
}

/// The serial in the SOA record that an IXFR query carries (RFC 1995 §3).
pub(crate) fn known_serial(query: &Query<'_>) -> Option<u32> {
    let numbers: &[u8; 20] = query.authority.last_chunk()?;
    let [s3, s2, s1, s0, ..] = *numbers;
    Some(u32::from_be_bytes([s3, s2, s1, s0]))
}

#[cfg(test)]
mod tests {
    use dns_wire::tsig::Algorithm;
    use dns_wire::{Key, Keys, Name, Records};

    use super::*;
    use crate::testing::{query, records, snapshot, zone_at};

    fn zone(text: &str) -> Arc<Zone> {
        let snapshot = snapshot("example.", &records(text));
        zone_at(&snapshot, 0)
    }

    /// Owners and types of all records, message by message.
    fn transfer(zone: &Arc<Zone>, message: &[u8]) -> Vec<Vec<(Name, Type)>> {
        let mut transfer = Transfer::new(zone, message, None);
        let mut out = vec![0; MAX_MESSAGE];
        let mut messages = Vec::new();
        while let Some(length) = transfer.next_message(&mut out, 0) {
            let whole = &out[..length];
            assert!(Flags::read(whole).unwrap().has(Flags::QR | Flags::AA));
            assert_eq!(whole[..2], message[..2]);
            let items = Records::new(whole).unwrap().map(Result::unwrap);
            let name = |at| Name::read(whole, at).unwrap().0;
            messages.push(
                items
                    .map(|record| (name(record.name_offset), record.rtype))
                    .collect(),
            );
        }
        messages
    }

    const SMALL: &str = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n\
        ns.example. 60 A 192.0.2.1\nsub.example. 60 NS ns.sub.example.\n\
        ns.sub.example. 60 A 192.0.2.2\nlive.example. 60 LUA A ifportup()\n";

    #[test]
    fn a_zone_goes_whole_between_two_soa_records() {
        let asked = query(&"example.".parse().unwrap(), Type::AXFR);
        let messages = transfer(&zone(SMALL), &asked);
        let [only] = messages.as_slice() else {
            panic!("{messages:?}");
        };
        let types: Vec<Type> = only.iter().map(|(_, rtype)| *rtype).collect();
        assert_eq!((types[0], types[types.len() - 1]), (Type::SOA, Type::SOA));
        assert_eq!(types.len(), 7);
        let has = |owner: &str, rtype| {
            let wanted = (owner.parse().unwrap(), rtype);
            assert!(only.contains(&wanted), "{owner} {rtype}");
        };
        has("ns.sub.example.", Type::A);
        has("live.example.", Type::LUA);
    }

    #[test]
    fn a_large_zone_goes_in_many_messages() {
        let mut text = SMALL.to_owned();
        for number in 0..5000 {
            text.push_str(&format!("n{number}.example. 60 TXT \"{number}\"\n"));
        }
        let asked = query(&"example.".parse().unwrap(), Type::AXFR);
        let messages = transfer(&zone(&text), &asked);
        assert!(messages.len() > 3);
        assert_eq!(messages.iter().flatten().count(), 5007);
    }

    #[test]
    fn every_message_of_a_signed_transfer_is_signed() {
        let mut text = SMALL.to_owned();
        for number in 0..5000 {
            text.push_str(&format!("n{number}.example. 60 TXT \"{number}\"\n"));
        }
        let key = Key::new(&"k.".parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap();
        let mut asked = query(&"example.".parse().unwrap(), Type::AXFR);
        let mut responses = key.sign(&mut asked, 7).unwrap();
        let tsig = Query::parse(&asked).unwrap().tsig.unwrap();
        let session = Keys::new([key]).check(&asked, &tsig, 7).unwrap();
        let mut transfer = Transfer::new(&zone(&text), &asked, Some(session));
        let mut out = vec![0; MAX_MESSAGE];
        let mut n = 0;
        while let Some(length) = transfer.next_message(&mut out, 9) {
            responses.check(&out[..length], 9).unwrap();
            assert!(responses.is_complete());
            n += 1;
        }
        assert!(n > 3, "{n}");
    }

    #[test]
    fn a_client_that_has_the_version_or_a_later_one_gets_the_soa_record_alone() {
        for (serial, n) in [(7, 1), (6, 7), (8, 1), (u32::MAX, 7), (1 << 31, 1)] {
            let mut asked = query(&"example.".parse().unwrap(), Type::IXFR);
            asked[9] = 1;
            asked.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0");
            for number in [serial, 0, 0, 0, 0_u32] {
                asked.extend(number.to_be_bytes());
            }
            let messages = transfer(&zone(SMALL), &asked);
            assert_eq!(messages.iter().flatten().count(), n, "serial {serial}");
        }
    }
}
