//! Zones, queries and responses for tests.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config_text::Position;
use dns_wire::hash::Seed;
use dns_wire::header::Flags;
use dns_wire::records::uncompressed_rdata;
use dns_wire::{Class, Name, Records, Section, Type, rdata};
use dns_zone::{ProgramText, Record, RecordData, Zone};

use crate::client::{Client, Transport};
use crate::live::LiveSets;
use crate::programs::NoPrograms;
use crate::responder::Responder;
use crate::settings::Settings;
use crate::snapshot::Snapshot;
use crate::table::{Origin, Served, Table};
use crate::verdict::Verdict;

/// A record of a response: owner, type, TTL, data; names in lower case.
pub type Line = (Name, Type, u32, Vec<u8>);

/// A whole response, sections as sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub rcode: u16,
    pub authoritative: bool,
    pub answer: BTreeSet<Line>,
    pub authority: BTreeSet<Line>,
    pub additional: BTreeSet<Line>,
}

/// The zone in this place of a snapshot, which has it.
pub fn zone_at(snapshot: &Snapshot, place: usize) -> Arc<Zone> {
    let served = snapshot.table.zones().get(place);
    let zone = served.and_then(|served| served.zone.as_ref());
    Arc::clone(zone.expect("the test's snapshot has the zone"))
}

/// Records written `OWNER TTL TYPE DATA`, one on a line, all names absolute.
pub fn records(text: &str) -> Vec<Record> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(number, line)| record(number + 1, line))
        .collect()
}

fn record(line: usize, text: &str) -> Record {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("{text}"));
    let (owner, ttl, rtype, data) = (word(), word(), word(), word());
    let data = match rtype {
        "LUA" => {
            let (rtype, code) = data.split_once(' ').expect("tests write what can be read");
            RecordData::Lua {
                rtype: rtype.parse().expect("tests write what can be read"),
                program: Box::new(ProgramText {
                    code: code.to_owned(),
                    parts: Arc::from([Box::from(code)]),
                }),
            }
        }
        _ => {
            let rtype: Type = rtype.parse().expect("tests write what can be read");
            RecordData::Wire {
                rtype,
                rdata: rdata::from_text(rtype, data, &Name::root())
                    .unwrap_or_else(|error| panic!("{text}: {error}"))
                    .into(),
            }
        }
    };
    Record {
        owner: owner.parse().expect("tests write what can be read"),
        ttl: ttl.parse().expect("tests write what can be read"),
        class: Class::IN,
        data,
        position: Position {
            file: std::path::Path::new("test.zone").into(),
            line,
            column: 1,
        },
    }
}

/// A server of one zone.
pub fn snapshot(apex: &str, records: &[Record]) -> Snapshot {
    snapshot_of(&[(apex, records, LiveSets::default())])
}

/// A server of several zones, with the answers of their live sets.
pub fn snapshot_of(zones: &[(&str, &[Record], LiveSets)]) -> Snapshot {
    let seed = Seed(0x5eed);
    let served = zones.iter().map(|(apex, records, live)| {
        let apex: Name = apex.parse().expect("tests write what can be read");
        let zone = Zone::build(&apex, records, seed).expect("tests write what can be read");
        Arc::new(Served {
            apex,
            zone: Some(Arc::new(zone)),
            parts: None,
            live: Arc::new(live.clone()),
            origin: Origin::Configured,
            view: None,
            access: None,
        })
    });
    Snapshot {
        table: Table::new(seed, &served.collect::<Vec<_>>()),
        views: crate::ViewTables::default(),
        settings: Settings::default(),
    }
}

pub fn client(transport: Transport) -> Client {
    Client {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 5353)),
        local: None,
        local_port: 53,
        transport,
        can_wait: true,
        may_ask: true,
        clock: || 1_559_731_985,
    }
}

pub fn query(name: &Name, qtype: Type) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.as_wire());
    message.extend(qtype.0.to_be_bytes());
    message.extend(Class::IN.0.to_be_bytes());
    message
}

/// The time of signatures.
pub const NOW: u64 = 1_800_000_000;

pub fn ask(snapshot: &Snapshot, message: &[u8], transport: Transport) -> Vec<u8> {
    let mut responder = Responder::new(NoPrograms, 1);
    let mut out = vec![0xee; 65_535];
    let client = client(transport);
    let verdict = match responder.respond(snapshot, message, &client, &mut out) {
        Verdict::Signed => responder.respond_signed(snapshot, (message, NOW), &client, &mut out),
        verdict => verdict,
    };
    match verdict {
        Verdict::Reply(length) => {
            out.truncate(length);
            out
        }
        other => panic!("{other:?}"),
    }
}

/// Reads a response back; in this crate's tests Hickory's decoder must take it too.
pub fn decode(message: &[u8]) -> Expected {
    #[cfg(test)]
    {
        let hickory = hickory_proto::op::Message::from_vec(message);
        assert!(hickory.is_ok(), "{hickory:?}: {message:02x?}");
    }
    let flags = Flags::read(message).expect("tests write what can be read");
    let mut response = Expected {
        rcode: flags.rcode().0,
        authoritative: flags.has(Flags::AA),
        ..Expected::default()
    };
    let mut reader = Records::new(message).expect("tests write what can be read");
    for record in reader.by_ref() {
        let record = record.expect("tests write what can be read");
        let owner = Name::read(message, record.name_offset)
            .expect("tests write what can be read")
            .0;
        let data = uncompressed_rdata(message, &record).expect("tests write what can be read");
        let data = canonical(record.rtype, &data);
        let line: Line = (owner.to_lowercase(), record.rtype, record.ttl, data);
        let section = match record.section {
            Section::Answer => &mut response.answer,
            Section::Authority => &mut response.authority,
            Section::Additional => &mut response.additional,
        };
        let text = format!("{line:?}");
        assert!(section.insert(line), "repeated: {text}");
    }
    assert_eq!(reader.offset(), message.len(), "trailing octets");
    response
}

/// RDATA with its names in lower case: its numbers stay as they are, whatever letters they may look like.
pub fn canonical(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let (numbers_before, numbers_after) = match rtype {
        Type::NS | Type::CNAME | Type::DNAME | Type::PTR => (0, 0),
        Type::MX => (2, 0),
        Type::SRV => (6, 0),
        Type::SOA => (0, 20),
        _ => return rdata.to_vec(),
    };
    let mut lower = rdata.to_vec();
    let names = numbers_before..rdata.len() - numbers_after;
    if let Some(names) = lower.get_mut(names) {
        names.make_ascii_lowercase();
    }
    lower
}
