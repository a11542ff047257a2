//! A zone and a responder, for the targets that ask questions.

use std::net::SocketAddr;
use std::sync::Arc;

use dns_answer::live::{Failure, LiveAnswer, LiveSets};
use dns_answer::table::{Origin, Served, Table};
use dns_answer::{Client, NoPrograms, Responder, Settings, Snapshot, Transport, Verdict};
use dns_strict::Message;
use dns_wire::hash::Seed;
use dns_wire::{Name, Query};
use dns_zone::{Zone, parse};

/// A zone and the responder that serves it.
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
            parts: None,
            live: Arc::new(LiveSets::new(live, None)),
            zone: Some(Arc::new(zone)),
            origin: Origin::Configured,
            view: None,
            access: None,
        };
        let snapshot = Snapshot {
            table: Table::new(seed(), &[Arc::new(served)]),
            views: dns_answer::ViewTables::default(),
            settings: Settings::default(),
        };
        Self {
            snapshot,
            responder: Responder::new(NoPrograms, 17),
            reply: vec![0; 65_535],
        }
    }

    /// Answers `data`, and checks what is true of every answer.
    pub(super) fn answer(&mut self, data: &[u8], transport: Transport) -> Option<Message> {
        let client = Client {
            peer: SocketAddr::from(([192, 0, 2, 1], 5353)),
            local: None,
            local_port: 53,
            transport,
            can_wait: false,
            may_ask: true,
            clock: || 0,
        };
        let mut verdict = self
            .responder
            .respond(&self.snapshot, data, &client, &mut self.reply);
        if verdict == Verdict::Signed {
            // The world has no keys.
            let asked = (data, 1_800_000_000);
            verdict =
                self.responder
                    .respond_signed(&self.snapshot, asked, &client, &mut self.reply);
        }
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

/// As [`World::new`], for the records of a file.
pub(super) fn world_of(file: &parse::ZoneFile) -> Option<World> {
    let zone = Zone::build(&file.apex, &file.records, seed()).ok()?;
    Some(World::new(&file.apex, zone))
}
