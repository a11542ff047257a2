//! Transfers: the messages that carry a zone (AXFR, RFC 5936), or the differences from the client's version
//! to this one (IXFR, RFC 1995), one after the other.
//!
//! The response to IXFR is the whole zone, as its §4 allows, when the differences are not kept or are more
//! than the zone; and only the SOA record when the client has this version or a later one. `LUA` records have
//! `PowerDNS`'s form, so that its secondaries accept them; a flattened version has plain ones in their place.

use std::sync::Arc;

use dns_flatten::{Flat, Place};
use dns_history::{Change, History};
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
    content: Content,
    id: u16,
    flags: Flags,
    question: Vec<u8>,
    next: Next,
    is_first: bool,
    /// Signs the messages, if the query was signed.
    session: Option<Session>,
}

/// The content of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The whole zone.
    Whole,
    /// The differences from the client's version.
    Differences,
    /// Only the SOA record: the client has this version or a later one.
    Current,
}

/// The version, and the changes that lead to it, in their order.
#[derive(Clone, Debug)]
struct Content {
    version: Version,
    changes: Arc<[Arc<Change>]>,
}

/// A version of a zone that is transferred.
#[derive(Clone, Debug)]
pub enum Version {
    /// As it is.
    Raw(Arc<Zone>),
    /// Flattened.
    Flat(Arc<Flat>),
}

impl From<&Arc<Zone>> for Version {
    fn from(zone: &Arc<Zone>) -> Self {
        Self::Raw(Arc::clone(zone))
    }
}

impl From<&Arc<Flat>> for Version {
    fn from(flat: &Arc<Flat>) -> Self {
        Self::Flat(Arc::clone(flat))
    }
}

impl Version {
    /// Its serial.
    #[must_use]
    pub fn serial(&self) -> u32 {
        match self {
            Self::Raw(zone) => zone.soa().serial,
            Self::Flat(flat) => flat.serial(),
        }
    }

    fn n_records(&self) -> usize {
        match self {
            Self::Raw(zone) => zone.n_records(),
            Self::Flat(flat) => flat.n_records(),
        }
    }

    /// The SOA record, which is among the first of a zone: the apex comes first.
    fn soa(&self) -> Option<ZoneRecord<'_>> {
        match self {
            Self::Raw(zone) => {
                let mut cursor = Cursor::default();
                let mut records = std::iter::from_fn(|| zone.next_record(&mut cursor));
                records.find(|record| record.rtype == Type::SOA)
            }
            Self::Flat(flat) => Some(flat.soa().borrowed()),
        }
    }
}

/// The next record of a transfer.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The SOA record at the start.
    FirstSoa(Kind),
    /// A record of the zone, its SOA record left out; behind them the SOA record again.
    Record(Cursor),
    /// The same of a flattened version.
    Flat(Place),
    /// A record of a change, by its number, its part, and the place in it; behind them the SOA record again.
    Change(usize, Part, usize),
    /// None.
    End,
}

/// A part of a change (RFC 1995 §4).
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The SOA record of the version before, and the records that go.
    Removed,
    /// The SOA record of the version after, and the records that come.
    Added,
}

impl Transfer {
    /// Begins the transfer of a zone that this message requests; the session of a signed message signs it. `history` is that of
    /// this version.
    #[must_use]
    pub fn new(
        version: impl Into<Version>,
        history: Option<&History>,
        message: &[u8],
        session: Option<Session>,
    ) -> (Self, Kind) {
        let version = version.into();
        let query = Query::parse(message).ok();
        let known = query.as_ref().filter(|query| query.qtype == Type::IXFR);
        let known = known.and_then(known_serial);
        let (kind, changes) = match known {
            Some(known) if !Soa::is_newer(version.serial(), known) => (Kind::Current, Vec::new()),
            Some(known) => match differences(&version, history, known) {
                Some(changes) => (Kind::Differences, changes),
                None => (Kind::Whole, Vec::new()),
            },
            None => (Kind::Whole, Vec::new()),
        };
        let flags = query
            .as_ref()
            .map_or_else(Flags::default, |query| query.flags.of_authority());
        let transfer = Self {
            content: Content {
                version,
                changes: changes.into(),
            },
            id: query.as_ref().map_or(0, |query| query.id),
            flags: flags.with(Flags::AA),
            question: query.map_or_else(Vec::new, |query| query.question.to_vec()),
            next: Next::FirstSoa(kind),
            is_first: true,
            session,
        };
        (transfer, kind)
    }

    /// Writes the next message; `None` when all are written. `now` is the time of a signature, in seconds since 1970.
    pub fn next_message(&mut self, out: &mut [u8], now: u64) -> Option<usize> {
        let content = self.content.clone();
        self.next.record(&content)?;
        let limit = MAX_MESSAGE - self.session.as_ref().map_or(0, Session::length);
        let mut message = Composer::new(out, limit, self.id, self.flags).ok()?;
        // RFC 5936 §2.2.1: later messages need not repeat the question.
        if self.is_first {
            message.question(&self.question).ok()?;
        }
        self.is_first = false;
        let mut count = 0_usize;
        while let Some((record, next)) = self.next.record(&content) {
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
    fn record(self, content: &Content) -> Option<(ZoneRecord<'_>, Self)> {
        let version = &content.version;
        match self {
            Self::FirstSoa(kind) => {
                let next = match (kind, version) {
                    (Kind::Whole, Version::Raw(_)) => Self::Record(Cursor::default()),
                    (Kind::Whole, Version::Flat(_)) => Self::Flat(Place::default()),
                    (Kind::Differences, _) => Self::Change(0, Part::Removed, 0),
                    (Kind::Current, _) => Self::End,
                };
                Some((version.soa()?, next))
            }
            Self::Record(mut cursor) => {
                if let Version::Raw(zone) = version {
                    while let Some(record) = zone.next_record(&mut cursor) {
                        if record.rtype != Type::SOA {
                            return Some((record, Self::Record(cursor)));
                        }
                    }
                }
                Some((version.soa()?, Self::End))
            }
            Self::Flat(mut place) => {
                if let Version::Flat(flat) = version {
                    while let Some(record) = flat.next_record(&mut place) {
                        if record.rtype != Type::SOA {
                            return Some((record, Self::Flat(place)));
                        }
                    }
                }
                Some((version.soa()?, Self::End))
            }
            Self::Change(number, part, at) => {
                let Some(change) = content.changes.get(number) else {
                    return Some((version.soa()?, Self::End));
                };
                let (end, records) = match part {
                    Part::Removed => (&change.from, &change.removed),
                    Part::Added => (&change.to, &change.added),
                };
                let record = match at.checked_sub(1) {
                    None => &end.soa,
                    Some(at) => records.get(at)?,
                };
                let next = match part {
                    _ if at < records.len() => Self::Change(number, part, at + 1),
                    Part::Removed => Self::Change(number, Part::Added, 0),
                    Part::Added => Self::Change(number + 1, Part::Removed, 0),
                };
                Some((record.borrowed(), next))
            }
            Self::End => None,
        }
    }
}

/// The changes from a client's version to this one, if they are kept and have no more records than the zone.
fn differences(
    version: &Version,
    history: Option<&History>,
    known: u32,
) -> Option<Vec<Arc<Change>>> {
    let changes = history?.since(known)?;
    let n_records: usize = changes.iter().map(|change| change.n_records()).sum();
    let ends_here = changes.last()?.to.serial() == version.serial();
    (ends_here && n_records <= version.n_records()).then_some(changes)
}

/// Writes the differences from a client's version into a response over UDP; `None` if they are not kept, or do not fit.
pub(crate) fn write_differences(
    message: &mut Composer<'_>,
    version: &Version,
    history: &History,
    known: u32,
) -> Option<()> {
    let content = Content {
        version: version.clone(),
        changes: differences(version, Some(history), known)?.into(),
    };
    write_all(message, &content, Kind::Differences)
}

/// Writes the SOA record of a version into a response.
pub(crate) fn write_soa(message: &mut Composer<'_>, version: &Version) -> Option<()> {
    let content = Content {
        version: version.clone(),
        changes: Arc::default(),
    };
    write_all(message, &content, Kind::Current)
}

fn write_all(message: &mut Composer<'_>, content: &Content, kind: Kind) -> Option<()> {
    let mut next = Next::FirstSoa(kind);
    while let Some((record, behind)) = next.record(content) {
        let fixed = (record.rtype, Class::IN, record.ttl);
        let owner = Owner::Name(&record.owner);
        message
            .record(Section::Answer, owner, fixed, &record.rdata)
            .ok()?;
        next = behind;
    }
    Some(())
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
    use dns_zone::incoming::{Incoming, Progress};

    use super::*;
    use crate::testing::{query, records, snapshot, zone_at};

    fn zone(text: &str) -> Arc<Zone> {
        let snapshot = snapshot("example.", &records(text));
        zone_at(&snapshot, 0)
    }

    /// Owners and types of all records, message by message.
    fn transfer(zone: &Arc<Zone>, message: &[u8]) -> Vec<Vec<(Name, Type)>> {
        let (mut transfer, _) = Transfer::new(zone, None, message, None);
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
        let (mut transfer, _) = Transfer::new(&zone(&text), None, &asked, Some(session));
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
            let messages = transfer(&zone(SMALL), &ixfr(serial));
            assert_eq!(messages.iter().flatten().count(), n, "serial {serial}");
        }
    }

    /// A request for the differences from the version of this serial.
    fn ixfr(serial: u32) -> Vec<u8> {
        let mut asked = query(&"example.".parse().unwrap(), Type::IXFR);
        asked[9] = 1;
        asked.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0");
        for number in [serial, 0, 0, 0, 0_u32] {
            asked.extend(number.to_be_bytes());
        }
        asked
    }

    /// A version of a zone of 40 records and more; `names` are those that differ.
    fn version(serial: u32, names: std::ops::Range<u32>) -> Arc<Zone> {
        let mut text = format!(
            "example. 60 SOA a. b. {serial} 2 3 4 5\nexample. 60 NS ns.example.\n\
             live.example. 60 LUA A ifportup({serial})\n"
        );
        for number in (0..40).chain(100 + names.start..100 + names.end) {
            text.push_str(&format!("n{number}.example. 60 TXT \"{number}\"\n"));
        }
        zone(&text)
    }

    fn history(versions: &[Arc<Zone>]) -> History {
        let mut history = History::default();
        let limits = dns_history::Limits {
            versions: 100,
            octets: 1 << 20,
        };
        for (old, new) in versions.iter().zip(versions.iter().skip(1)) {
            let change = Change::between(old, new, 0, limits.octets).unwrap();
            history.push(Arc::new(change.unwrap()), limits);
        }
        history
    }

    #[test]
    fn differences_lead_a_client_of_each_kept_version_to_this_one() {
        let versions = [
            version(u32::MAX, 0..3),
            version(4, 2..4),
            version(5, 0..1),
            version(9, 5..9),
        ];
        let history = history(&versions);
        let newest = &versions[3];
        let mut out = vec![0; MAX_MESSAGE];
        for old in &versions[..3] {
            let serial = old.soa().serial;
            let asked = ixfr(serial);
            let (mut transfer, kind) = Transfer::new(newest, Some(&history), &asked, None);
            assert_eq!(kind, Kind::Differences);
            let id = u16::from_be_bytes([asked[0], asked[1]]);
            let base = Some((serial, old.records()));
            let mut incoming = Incoming::new(newest.apex(), id, base);
            let length = transfer.next_message(&mut out, 0).unwrap();
            assert_eq!(incoming.take(&out[..length]), Ok(Progress::Complete));
            assert!(incoming.is_difference());
            assert_eq!(transfer.next_message(&mut out, 0), None);
            let mut whole = Incoming::new(newest.apex(), id, None);
            let asked = query(newest.apex(), Type::AXFR);
            let (mut transfer, _) = Transfer::new(newest, None, &asked, None);
            let length = transfer.next_message(&mut out, 0);
            out[..2].copy_from_slice(&id.to_be_bytes());
            whole.take(&out[..length.unwrap()]).unwrap();
            assert_eq!(incoming.master_file(), whole.master_file(), "{serial}");
        }
        let kind = |serial| Transfer::new(newest, Some(&history), &ixfr(serial), None).1;
        assert_eq!(kind(3), Kind::Whole, "never published");
        assert_eq!(kind(9), Kind::Current);
        assert_eq!(kind(10), Kind::Current);
        let asked = query(newest.apex(), Type::AXFR);
        let (_, whole) = Transfer::new(newest, Some(&history), &asked, None);
        assert_eq!(whole, Kind::Whole);
    }

    #[test]
    fn differences_of_more_records_than_the_zone_or_to_another_version_are_not_sent() {
        let versions = [version(1, 0..30), version(2, 40..80), version(3, 80..90)];
        let history = history(&versions);
        let kind = |zone, serial| Transfer::new(zone, Some(&history), &ixfr(serial), None).1;
        assert_eq!(
            kind(&versions[2], 2),
            Kind::Whole,
            "50 of 53 records, and SOA records"
        );
        assert_eq!(
            kind(&versions[1], 1),
            Kind::Whole,
            "the history of a later version"
        );
    }
}
