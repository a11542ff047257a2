//! A zone that comes in by a transfer: AXFR (RFC 5936) or IXFR (RFC 1995), message by message.
//!
//! Collects records and gives them back as a master file; does not judge them. Never reads a socket.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use dns_wire::header::{self, Flags};
use dns_wire::records::uncompressed_rdata;
use dns_wire::{Class, Name, Opcode, Rcode, Records, Section, Type};

use crate::program;
use crate::record::SoaTimes;

/// The most octets of data and names that a zone may have.
const MAX_OCTETS: usize = 1 << 30;
/// A record: its owner, its type and its data, names uncompressed.
type Key = (Name, Type, Vec<u8>);

/// The serial and the records of a version: owner, type, TTL and data of each.
pub type Base = (u32, Vec<(Name, Type, u32, Vec<u8>)>);

/// The reason why a transfer is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// A message cannot be read, or is no response to the request.
    Malformed,
    /// The primary refuses, or fails.
    Rcode(Rcode),
    /// The first record is not the zone's SOA record.
    NoSoa,
    /// A record is outside the zone, or of another class.
    Outside(Name),
    /// More than a zone may have.
    TooLarge,
    /// The differences are not those of the version here.
    NotOurVersion,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("a message of the transfer cannot be read"),
            Self::Rcode(rcode) => write!(f, "the primary responds {rcode}"),
            Self::NoSoa => f.write_str("the transfer does not begin with the zone's SOA record"),
            Self::Outside(name) => write!(f, "{name} is not part of the zone"),
            Self::TooLarge => write!(f, "the zone is larger than {} MiB", MAX_OCTETS >> 20),
            Self::NotOurVersion => f.write_str("the differences do not fit the version here"),
        }
    }
}

impl std::error::Error for TransferError {}

/// The state of a transfer behind a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    More,
    /// The zone is complete.
    Complete,
    /// The version here is the newest (RFC 1995 §4).
    Current,
}

/// A transfer under way.
#[derive(Debug)]
pub struct Incoming {
    zone: Name,
    id: u16,
    /// The serial here, if differences were asked for.
    known: Option<u32>,
    /// The records, with their TTLs; with differences, at first those of the version here.
    records: HashMap<Key, u32>,
    octets: usize,
    step: Step,
    /// Whether differences came.
    is_difference: bool,
    /// The new version's SOA record.
    soa: Option<(Key, u32, SoaTimes)>,
}

/// The next record of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The SOA record of the new version.
    First,
    /// The record behind it tells a whole zone from differences.
    Second,
    /// Records of the whole zone.
    Whole,
    /// Records that go.
    Removed,
    /// Records that come, to the version of this serial.
    Added(u32),
    /// None.
    End,
}

impl Incoming {
    /// The response to a request of this identifier. `base` has the serial and the records of the version here, if
    /// the request was for differences.
    #[must_use]
    pub fn new(zone: &Name, id: u16, base: Option<Base>) -> Self {
        let known = base.as_ref().map(|(serial, _)| *serial);
        let records = base.into_iter().flat_map(|(_, records)| records);
        let records: HashMap<Key, u32> = records
            .filter(|(_, rtype, ..)| *rtype != Type::SOA)
            .map(|(owner, rtype, ttl, rdata)| ((owner, rtype, rdata), ttl))
            .collect();
        Self {
            zone: zone.clone(),
            id,
            known,
            octets: records.keys().map(octets).sum(),
            records,
            step: Step::First,
            is_difference: false,
            soa: None,
        }
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// When the transfer is of no use.
    pub fn take(&mut self, message: &[u8]) -> Result<Progress, TransferError> {
        let flags = Flags::read(message).ok_or(TransferError::Malformed)?;
        let is_response = flags.has(Flags::QR)
            && flags.opcode() == Opcode::QUERY
            && header::id(message) == Some(self.id);
        if !is_response || flags.has(Flags::TC) {
            return Err(TransferError::Malformed);
        }
        if flags.rcode() != Rcode::NOERROR {
            return Err(TransferError::Rcode(flags.rcode()));
        }
        let records = Records::new(message).map_err(|_| TransferError::Malformed)?;
        for record in records {
            let record = record.map_err(|_| TransferError::Malformed)?;
            if record.section != Section::Answer {
                continue;
            }
            let owner = Name::read(message, record.name_offset);
            let (owner, _) = owner.map_err(|_| TransferError::Malformed)?;
            if record.class != Class::IN || !owner.is_within(&self.zone) {
                return Err(TransferError::Outside(owner));
            }
            let rdata = uncompressed_rdata(message, &record);
            let rdata = rdata.map_err(|_| TransferError::Malformed)?;
            self.take_record((owner, record.rtype, rdata), record.ttl)?;
        }
        // RFC 1995 §4: a single SOA record that is not newer says that nothing has changed.
        if self.step == Step::Second
            && let (Some(known), Some(times)) = (self.known, self.times())
            && !crate::Soa::is_newer(times.serial, known)
        {
            return Ok(Progress::Current);
        }
        match self.step {
            Step::End => Ok(Progress::Complete),
            Step::First => Err(TransferError::NoSoa),
            _ => Ok(Progress::More),
        }
    }

    fn take_record(&mut self, key: Key, ttl: u32) -> Result<(), TransferError> {
        let soa = match key.1 {
            Type::SOA if key.0 == self.zone => SoaTimes::of(&key.2),
            // The SOA record of another name is no part of the zone's data.
            Type::SOA => return Err(TransferError::Outside(key.0)),
            _ => None,
        };
        let newest = self.times().map(|times| times.serial);
        match (self.step, soa) {
            (Step::First, Some(times)) => {
                self.soa = Some((key, ttl, times));
                self.step = Step::Second;
            }
            (Step::First, None) => return Err(TransferError::NoSoa),
            // The zone is the SOA record alone, twice.
            (Step::Second, Some(times)) if Some(times.serial) == newest => {
                self.records.clear();
                self.step = Step::End;
            }
            (Step::Second, Some(times)) => {
                // RFC 1995 §4: differences begin with the SOA record of the version here.
                if Some(times.serial) != self.known {
                    return Err(TransferError::NotOurVersion);
                }
                self.is_difference = true;
                self.step = Step::Removed;
            }
            (Step::Second, None) => {
                self.records.clear();
                self.octets = 0;
                self.add(key, ttl)?;
                self.step = Step::Whole;
            }
            (Step::Whole, Some(_)) => self.step = Step::End,
            (Step::Whole | Step::Added(_), None) => self.add(key, ttl)?,
            (Step::Removed, Some(times)) => self.step = Step::Added(times.serial),
            (Step::Removed, None) => {
                if self.records.remove(&key).is_none() {
                    return Err(TransferError::NotOurVersion);
                }
                self.octets = self.octets.saturating_sub(octets(&key));
            }
            (Step::Added(serial), Some(times)) => {
                self.step = match (times.serial == serial, Some(serial) == newest) {
                    (true, true) => Step::End,
                    (true, false) => Step::Removed,
                    (false, _) => return Err(TransferError::NotOurVersion),
                };
            }
            (Step::End, _) => return Err(TransferError::Malformed),
        }
        Ok(())
    }

    fn add(&mut self, key: Key, ttl: u32) -> Result<(), TransferError> {
        let size = octets(&key);
        if self.records.insert(key, ttl).is_none() {
            self.octets += size;
        }
        match self.octets > MAX_OCTETS {
            true => Err(TransferError::TooLarge),
            false => Ok(()),
        }
    }

    /// The serial and the timers of the new version; `None` before its SOA record has come.
    #[must_use]
    pub fn times(&self) -> Option<SoaTimes> {
        self.soa.as_ref().map(|(_, _, times)| *times)
    }

    /// Whether the primary sent differences, and not the whole zone.
    #[must_use]
    pub const fn is_difference(&self) -> bool {
        self.is_difference
    }

    /// How many records the zone has.
    #[must_use]
    pub fn n_records(&self) -> usize {
        self.records.len() + usize::from(self.soa.is_some())
    }

    /// The zone as a master file: names absolute, the SOA record first, and the order the same for the same data.
    #[must_use]
    pub fn master_file(&self) -> String {
        let mut records: Vec<(&Key, u32)> =
            self.records.iter().map(|(key, ttl)| (key, *ttl)).collect();
        records.sort_unstable();
        let soa = self.soa.iter().map(|(key, ttl, _)| (key, *ttl));
        let mut text = String::new();
        for ((owner, rtype, rdata), ttl) in soa.chain(records) {
            text.push_str(&line(owner, *rtype, ttl, rdata));
            text.push('\n');
        }
        text
    }
}

/// A record as a transfer has it, as a line of a master file. The name is absolute.
#[must_use]
pub fn line(owner: &Name, rtype: Type, ttl: u32, rdata: &[u8]) -> String {
    let data = match rtype {
        Type::LUA => program::display_wire(rdata),
        rtype => dns_wire::rdata::display(rtype, rdata),
    };
    format!("{owner}\t{ttl}\tIN\t{rtype}\t{data}")
}

/// The octets that a record takes, roughly.
fn octets((owner, _, rdata): &Key) -> usize {
    owner.as_wire().len() + rdata.len() + 16
}

impl SoaTimes {
    /// Reads the data of a SOA record, names uncompressed.
    #[must_use]
    pub fn of(rdata: &[u8]) -> Option<Self> {
        let [
            s3,
            s2,
            s1,
            s0,
            r3,
            r2,
            r1,
            r0,
            t3,
            t2,
            t1,
            t0,
            e3,
            e2,
            e1,
            e0,
            ..,
        ] = *rdata.last_chunk::<20>()?;
        let seconds = |octets| Duration::from_secs(u32::from_be_bytes(octets).into());
        Some(Self {
            serial: u32::from_be_bytes([s3, s2, s1, s0]),
            refresh: seconds([r3, r2, r1, r0]),
            retry: seconds([t3, t2, t1, t0]),
            expire: seconds([e3, e2, e1, e0]),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dns_wire::hash::Seed;
    use dns_wire::{Composer, Owner, rdata};

    use super::*;
    use crate::Zone;
    use crate::parse::{Options, parse};

    const ID: u16 = 7;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// A record, written `OWNER TYPE DATA`.
    fn record(text: &str) -> (Name, Type, u32, Vec<u8>) {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().unwrap();
        let (owner, rtype, data) = (name(word()), word().parse().unwrap(), word());
        let rdata = rdata::from_text(rtype, data, &Name::root()).unwrap();
        (owner, rtype, 60, rdata)
    }

    fn soa(serial: u32) -> String {
        format!("a.test. SOA ns.a.test. h. {serial} 10 20 30 40")
    }

    fn message(records: &[String]) -> Vec<u8> {
        let mut out = vec![0; 65_535];
        let flags = Flags(Flags::QR | Flags::AA);
        let mut message = Composer::new(&mut out, 65_535, ID, flags).unwrap();
        message.question(b"\x01a\x04test\0\0\xfc\0\x01").unwrap();
        for text in records {
            let (owner, rtype, ttl, rdata) = record(text);
            let fixed = (rtype, Class::IN, ttl);
            message
                .record(Section::Answer, Owner::Name(&owner), fixed, &rdata)
                .unwrap();
        }
        let length = message.finish();
        out.truncate(length);
        out
    }

    /// Takes one record a message, and all in one.
    fn take(
        base: Option<(u32, &[&str])>,
        records: &[String],
    ) -> (Result<Progress, TransferError>, Incoming) {
        let new = || {
            let base = base.map(|(serial, records)| {
                (serial, records.iter().map(|text| record(text)).collect())
            });
            Incoming::new(&name("a.test."), ID, base)
        };
        let mut whole = new();
        let at_once = whole.take(&message(records));
        let mut incoming = new();
        let mut result = Err(TransferError::Malformed);
        for text in records {
            result = incoming.take(&message(std::slice::from_ref(text)));
            if result != Ok(Progress::More) {
                break;
            }
        }
        assert_eq!(at_once.is_err(), result.is_err(), "{at_once:?} {result:?}");
        if result.is_ok() {
            assert_eq!(whole.master_file(), incoming.master_file());
        }
        (result, incoming)
    }

    fn lines(incoming: &Incoming) -> Vec<String> {
        let text = incoming.master_file();
        text.lines().map(|line| line.replace('\t', " ")).collect()
    }

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    #[test]
    fn a_whole_zone_ends_with_the_soa_record_that_it_began_with() {
        let mut records = vec![soa(5)];
        records.extend(texts(&["a.test. NS ns.a.test.", "ns.a.test. A 192.0.2.1"]));
        let (result, incoming) = take(None, &records);
        assert_eq!(result, Ok(Progress::More));
        assert_eq!(incoming.n_records(), 3);
        records.push(soa(5));
        let (result, incoming) = take(None, &records);
        assert_eq!(result, Ok(Progress::Complete));
        assert_eq!(incoming.times().unwrap().expire, Duration::from_secs(30));
        let expected = [
            "a.test. 60 IN SOA ns.a.test. h. 5 10 20 30 40",
            "a.test. 60 IN NS ns.a.test.",
            "ns.a.test. 60 IN A 192.0.2.1",
        ];
        assert_eq!(lines(&incoming), expected);
        // A whole zone as the answer to IXFR replaces what is here.
        let (result, whole) = take(Some((3, &["old.a.test. A 192.0.2.9"])), &records);
        assert_eq!(result, Ok(Progress::Complete));
        assert_eq!(lines(&whole), expected);
    }

    #[test]
    fn differences_change_the_version_here() {
        let base: &[&str] = &["a.test. NS ns.a.test.", "x.a.test. A 192.0.2.1"];
        let differences = |last: u32| {
            [
                vec![soa(5), soa(3), "X.a.test. A 192.0.2.1".to_owned(), soa(4)],
                vec!["y.a.test. A 192.0.2.2".to_owned(), soa(4), soa(last)],
                vec!["z.a.test. A 192.0.2.3".to_owned(), soa(5)],
            ]
            .concat()
        };
        let (result, incoming) = take(Some((3, base)), &differences(5));
        assert_eq!(result, Ok(Progress::Complete));
        let text = lines(&incoming).join("\n");
        assert!(
            text.contains("y.a.test.") && text.contains("z.a.test."),
            "{text}"
        );
        assert!(
            !text.contains("x.a.test.") && text.starts_with("a.test. 60 IN SOA"),
            "{text}"
        );
        // Those of another version, and a removal of what is not here.
        for (serial, base) in [(2, base), (3, &["a.test. NS ns.a.test."][..])] {
            let (result, _) = take(Some((serial, base)), &differences(5));
            assert_eq!(result, Err(TransferError::NotOurVersion), "{serial}");
        }
    }

    #[test]
    fn the_soa_record_alone_says_that_nothing_is_newer() {
        for (known, expected) in [
            (5, Progress::Current),
            (6, Progress::Current),
            (4, Progress::More),
        ] {
            let (result, _) = take(Some((known, &[])), &[soa(5)]);
            assert_eq!(result, Ok(expected), "{known}");
        }
        assert_eq!(take(None, &[soa(5)]).0, Ok(Progress::More));
    }

    #[test]
    fn what_is_no_transfer_of_the_zone_is_refused() {
        for (records, expected) in [
            (vec!["a.test. NS b.".to_owned()], TransferError::NoSoa),
            (vec![], TransferError::NoSoa),
            (
                vec![soa(5), "b.test. NS b.".to_owned()],
                TransferError::Outside(name("b.test.")),
            ),
            (
                vec![soa(5), "x.a.test. SOA a. b. 1 2 3 4 5".to_owned()],
                TransferError::Outside(name("x.a.test.")),
            ),
        ] {
            let mut incoming = Incoming::new(&name("a.test."), ID, None);
            assert_eq!(incoming.take(&message(&records)), Err(expected));
        }
        let refused = |bend: &dyn Fn(&mut Vec<u8>)| {
            let mut wire = message(&[soa(5)]);
            bend(&mut wire);
            Incoming::new(&name("a.test."), ID, None).take(&wire)
        };
        assert_eq!(
            refused(&|wire| wire[3] |= 5),
            Err(TransferError::Rcode(Rcode::REFUSED))
        );
        let malformed = Err(TransferError::Malformed);
        assert_eq!(
            refused(&|wire| wire[1] ^= 1),
            malformed,
            "another identifier"
        );
        assert_eq!(refused(&|wire| wire[2] &= 0x7f), malformed, "a query");
        assert_eq!(refused(&|wire| wire[2] |= 2), malformed, "truncated");
        let whole = message(&[soa(5), "x.a.test. A 192.0.2.1".to_owned(), soa(5)]);
        for cut in 0..whole.len() {
            let mut incoming = Incoming::new(&name("a.test."), ID, None);
            assert!(incoming.take(&whole[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_master_file_reads_back_as_the_same_zone_programs_too() {
        let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n\
                    l LUA A \"ifportup(443, {'192.0.2.1'})\" \"-- \\\"x\\\"\"\ntxt TXT \"a \\\"b\\\" \\200\"\n";
        let apex = name("a.test.");
        let read = |text: &str| {
            let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
            let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
            Zone::build(&file.apex, &file.records, Seed(1)).unwrap()
        };
        let zone = read(text);
        let mut incoming = Incoming::new(&apex, ID, None);
        let (soas, others): (Vec<_>, Vec<_>) = zone
            .records()
            .into_iter()
            .partition(|(_, rtype, ..)| *rtype == Type::SOA);
        for (owner, rtype, ttl, rdata) in soas.iter().chain(&others).chain(&soas) {
            let key = (owner.clone(), *rtype, rdata.clone());
            incoming.take_record(key, *ttl).unwrap();
        }
        let again = read(&incoming.master_file());
        let sorted = |zone: &Zone| {
            let mut records = zone.records();
            records.sort();
            records
        };
        assert_eq!(sorted(&again), sorted(&zone));
        let parts = |zone: &Zone| zone.programs().next().unwrap().2.parts.to_vec();
        assert_eq!(parts(&again), parts(&zone));
    }
}
