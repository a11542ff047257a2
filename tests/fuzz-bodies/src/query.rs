//! Any bytes as a message to a DNS server: read by every reader there is, and answered.

use std::cell::RefCell;

use dns_answer::Transport;
use dns_strict::Message;
use dns_wire::query::reply_to_error;
use dns_wire::{Name, Query, Records};
use dns_zone::parse;

use crate::dns_world::{World, world_of};

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

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(example());
}

/// A zone with one of everything that changes how a question is answered.
fn example() -> World {
    let text = include_bytes!("example.zone");
    let file = parse::parse_bytes(text).expect("the example is right");
    world_of(&file).expect("the example is a zone")
}
