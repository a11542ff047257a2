//! Any bytes as a message to a DNS server: read by every reader there is, and answered.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use dns_answer::live::{Failure, LiveAnswer, LiveSets};
use dns_answer::table::{Served, Table};
use dns_answer::{Client, NoPrograms, Responder, Settings, Snapshot, Transport, Verdict};
use dns_wire::hash::Seed;
use dns_wire::query::reply_to_error;
use dns_wire::{Name, Query, Records};
use dns_zone::Zone;
use dns_zone::parse;

use crate::dns::Message;

pub(super) fn body(data: &[u8]) {
    read_names(data);
    if let Ok(records) = Records::new(data) {
        for record in records.flatten() {
            drop(Name::read(data, record.name_offset));
            drop(dns_wire::records::uncompressed_rdata(data, &record));
        }
    }
    if let Err(error) = Query::parse(data) {
        let mut reply = [0; 512];
        if let Some(length) = reply_to_error(data, error, &mut reply) {
            let message = Message::read(&reply[..length]).expect("an error is a message");
            assert!(message.response, "a reply says that it is one");
            assert_eq!(
                message.id.to_be_bytes(),
                data[..2],
                "a reply has the query's id"
            );
            assert!(data[2] & 0x80 == 0, "a response is never replied to");
        }
    }
    WORLD.with_borrow_mut(|world| {
        world.answer(data, Transport::Udp);
        world.answer(data, Transport::Tcp);
    });
}

/// A name that was read can be written and read again.
fn read_names(data: &[u8]) {
    for offset in [0, 12] {
        let Ok((name, next)) = Name::read(data, offset) else {
            continue;
        };
        assert!(
            next > offset && next <= data.len(),
            "reading moves on, within the message"
        );
        assert!(name.as_wire().len() <= 255, "names are bounded");
        let text = name.to_string();
        let again = Name::parse(&text).expect("what is printed can be read");
        assert_eq!(again.as_wire(), name.as_wire(), "{text}");
        let (from_wire, used) = Name::from_wire(name.as_wire()).expect("own wire form");
        assert_eq!(
            (from_wire.as_wire(), used),
            (name.as_wire(), name.as_wire().len())
        );
    }
}

/// Zones, and somebody who answers for them.
pub(super) struct World {
    snapshot: Snapshot,
    responder: Responder<NoPrograms>,
    reply: Vec<u8>,
}

impl World {
    /// A server of the one zone, its live sets without an answer.
    pub(super) fn new(apex: &Name, zone: Zone) -> Self {
        let live = zone
            .live_sets()
            .iter()
            .map(|_| LiveAnswer::failed(Failure::Incomplete));
        let served = Served {
            apex: apex.clone(),
            live: Arc::new(LiveSets::new(live.collect(), None)),
            zone: Some(Arc::new(zone)),
        };
        let snapshot = Snapshot {
            table: Table::new(seed(), vec![Arc::new(served)]),
            settings: Settings::default(),
        };
        Self {
            snapshot,
            responder: Responder::new(NoPrograms, 17),
            reply: vec![0; 65_535],
        }
    }

    /// Has `data` answered, and holds the answer against what is true of every answer.
    pub(super) fn answer(&mut self, data: &[u8], transport: Transport) -> Option<Message> {
        let client = Client {
            peer: SocketAddr::from(([192, 0, 2, 1], 5353)),
            local: None,
            local_port: 53,
            transport,
            can_wait: false,
            may_ask: true,
        };
        let verdict = self
            .responder
            .respond(&self.snapshot, data, &client, &mut self.reply);
        let Verdict::Reply(length) = verdict else {
            return None;
        };
        let reply = &self.reply[..length];
        let message = Message::read(reply).unwrap_or_else(|error| {
            panic!("{error}: {reply:02x?}");
        });
        assert!(message.response, "a reply says that it is one");
        assert_eq!(
            message.id.to_be_bytes(),
            data[..2],
            "a reply has the query's id"
        );
        assert!(data[2] & 0x80 == 0, "a response is never replied to");
        assert!(message.questions.len() <= 1, "one question at most");
        if let Ok(query) = Query::parse(data) {
            let limit = if transport == Transport::Udp {
                query.udp_limit()
            } else {
                65_535
            };
            assert!(
                length <= limit,
                "{length} octets where the client takes {limit}"
            );
            assert_eq!(
                message.edns.is_some(),
                query.edns.is_some(),
                "an OPT record answers an OPT record (RFC 6891 §6.1.1)"
            );
            if message.questions.len() == 1 {
                assert_eq!(
                    reply[12..12 + query.question.len()],
                    *query.question,
                    "the question, case kept"
                );
            }
        }
        assert!(
            transport == Transport::Udp || !message.truncated,
            "only datagrams are truncated"
        );
        Some(message)
    }
}

fn seed() -> Seed {
    Seed(0x0123_4567_89ab_cdef)
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(example());
}

/// A zone with one of everything that changes how a question is answered.
fn example() -> World {
    let text = include_bytes!("example.zone");
    let file = parse::parse_bytes(text).expect("the example is right");
    let zone = Zone::build(&file.apex, &file.records, seed()).expect("the example is a zone");
    World::new(&file.apex, zone)
}

/// As [`World::new`], for records that were read.
pub(super) fn world_of(file: &parse::ZoneFile) -> Option<World> {
    let zone = Zone::build(&file.apex, &file.records, seed()).ok()?;
    Some(World::new(&file.apex, zone))
}
