//! Changes of elements as one transaction of nftables (`linux/netfilter/nf_tables.h`), without the `nft` command.
//!
//! ```text
//!  begin │ rules that draw: out, in │ elements that go │ elements that come │ end
//! ```
//!
//! The kernel makes all of it or nothing: a batch that is not whole, or one message that it refuses, leaves everything as it was.
//! Numbers are in the network's order, but for those of headers.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkBuffer, NetlinkHeader};

use super::netlink::Netlink;
use super::ruleset::{Draw, Element, ElementUpdate, Protocol};

/// A longer batch does not fit into a socket's buffer everywhere; `nft` makes such a change.
pub(super) const MOST_OCTETS: usize = 192 * 1024;

/// Elements of one message: an attribute has at most 64 KiB.
const MOST_ELEMENTS: usize = 256;

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// The part of the kernel that messages are for.
const NFTABLES: u16 = 10;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const DELETE_RULE: u16 = NFTABLES << 8 | 8;
const NEW_ELEMENTS: u16 = NFTABLES << 8 | 12;
const DELETE_ELEMENTS: u16 = NFTABLES << 8 | 14;
/// The family `inet`.
const INET: u8 = 1;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// The type of an answer with an error number.
const ERROR: u16 = 2;

const LIST_ITEM: u16 = 1;
/// The verdict's register, and the one that numbers are drawn into.
const VERDICT_REGISTER: u32 = 0;
const NUMBER_REGISTER: u32 = 1;
/// The verdict `goto`.
const GOTO: i32 = -4;
/// An element that ends a range: the first number behind it.
const RANGE_END: u32 = 1;

/// Makes the change; says how many octets it took.
///
/// # Errors
///
/// The kernel's error: then nothing has changed.
pub(super) fn send(update: &ElementUpdate) -> io::Result<usize> {
    let batch = Batch::new(update).ok_or(io::ErrorKind::FileTooLarge)?;
    let mut netlink = Netlink::open(libc::NETLINK_NETFILTER)?;
    netlink.send(&batch.octets)?;
    loop {
        if let Some(result) = batch.result(netlink.receive()?) {
            return result.map(|()| batch.octets.len());
        }
    }
}

/// Messages in a row.
#[derive(Debug)]
struct Batch {
    octets: Vec<u8>,
    /// The number of the last message.
    last: u32,
    /// The number of the message that the kernel is to answer.
    asked: u32,
}

impl Batch {
    /// The messages for a change; none if they would be too long.
    fn new(update: &ElementUpdate) -> Option<Self> {
        let mut batch = Self {
            octets: Vec::new(),
            last: 0,
            asked: 0,
        };
        let table = || text(1, &update.table.to_string());
        batch.message(BATCH_BEGIN, REQUEST, NFTABLES, &[]);
        let rules = update.draws.iter().flat_map(|(name, draw)| {
            let chain = [table(), text(2, name)].concat();
            let rule = rule(name, *draw).map(|rule| [chain.clone(), rule].concat());
            let goes = (DELETE_RULE, REQUEST, chain);
            let comes = rule.map(|rule| (NEW_RULE, REQUEST | CREATE | APPEND, rule));
            [Some(goes), comes]
        });
        let elements = |kind: u16, flags: u16, name: &str, elements: &[Element]| {
            let leads = kind == NEW_ELEMENTS;
            let items = elements.iter().flat_map(|one| element(one, leads));
            let list: Vec<u8> = items.collect();
            let content = [table(), text(2, name), nested(3, &list)].concat();
            (kind, flags, content)
        };
        let removed = update.removed.iter().flat_map(|(name, all)| {
            let parts = all.chunks(MOST_ELEMENTS);
            parts.map(move |part| elements(DELETE_ELEMENTS, REQUEST, name, part))
        });
        let added = update.added.iter().flat_map(|(name, all)| {
            let parts = all.chunks(MOST_ELEMENTS);
            parts.map(move |part| elements(NEW_ELEMENTS, REQUEST | CREATE, name, part))
        });
        let mut messages = rules.flatten().chain(removed).chain(added).peekable();
        while let Some((kind, flags, content)) = messages.next() {
            // The kernel speaks of what it refuses in any case, and of the last message.
            let flags = match messages.peek() {
                None => flags | ACKNOWLEDGE,
                Some(_) => flags,
            };
            batch.message(kind, flags, 0, &content);
            if batch.octets.len() > MOST_OCTETS {
                return None;
            }
        }
        batch.asked = batch.last;
        batch.message(BATCH_END, REQUEST, NFTABLES, &[]);
        Some(batch)
    }

    fn message(&mut self, kind: u16, flags: u16, resource: u16, content: &[u8]) {
        self.last += 1;
        let is_frame = matches!(kind, BATCH_BEGIN | BATCH_END);
        let family = if is_frame { 0 } else { INET };
        let mut header = NetlinkHeader::default();
        let length = header.buffer_len() + 4 + content.len();
        header.length = u32::try_from(length).unwrap_or(u32::MAX);
        header.message_type = kind;
        header.flags = flags;
        header.sequence_number = self.last;
        let mut octets = vec![0; header.buffer_len()];
        header.emit(&mut octets);
        self.octets.extend(octets);
        self.octets.extend([family, 0]);
        self.octets.extend(resource.to_be_bytes());
        self.octets.extend(content);
    }

    /// The kernel's word, if it is in this piece of its answer.
    fn result(&self, mut piece: &[u8]) -> Option<io::Result<()>> {
        while let Ok(message) = NetlinkBuffer::new_checked(piece) {
            let code = message
                .payload()
                .first_chunk()
                .map(|code| i32::from_ne_bytes(*code));
            let number = message.sequence_number();
            match code.filter(|_| message.message_type() == ERROR) {
                Some(0) if number == self.asked => return Some(Ok(())),
                Some(0) | None => {}
                Some(code) => {
                    return Some(Err(io::Error::from_raw_os_error(code.saturating_neg())));
                }
            }
            let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
            piece = piece.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        None
    }
}

//--- Attributes

fn attribute(kind: u16, value: Vec<u8>) -> Vec<u8> {
    let attribute = DefaultNla::new(kind, value);
    let mut octets = vec![0; attribute.buffer_len()];
    attribute.emit(&mut octets);
    octets
}

fn nested(kind: u16, content: &[u8]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, content.to_vec())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, [value.as_bytes(), &[0]].concat())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, value.to_be_bytes().to_vec())
}

//--- Elements

/// The items of the list for one element: a range has two, its first number and the one behind its last. One that goes has
/// its key only, one that comes also the chain that it `leads` to.
fn element(element: &Element, leads: bool) -> Vec<u8> {
    let item = |key: &[u8], more: &[u8]| {
        let key = nested(1, &attribute(1, key.to_vec()));
        nested(LIST_ITEM, &[&key, more].concat())
    };
    match element {
        Element::Numbers { first, last, chain } => {
            let code = number(1, GOTO.cast_unsigned());
            let verdict = nested(2, &[code, text(2, chain)].concat());
            let verdict = if leads {
                nested(2, &verdict)
            } else {
                Vec::new()
            };
            let mut items = item(&first.to_be_bytes(), &verdict);
            if let Some(behind) = last.checked_add(1) {
                items.extend(item(&behind.to_be_bytes(), &number(3, RANGE_END)));
            }
            items
        }
        Element::Server(address) => item(&[ip(address.ip()), port(*address)].concat(), &[]),
        Element::Itself(address) => item(&[ip(*address), ip(*address)].concat(), &[]),
        Element::Flow(protocol, address) => {
            let protocol = match protocol {
                Protocol::Tcp => vec![6, 0, 0, 0],
                Protocol::Udp => vec![17, 0, 0, 0],
            };
            item(&[ip(address.ip()), protocol, port(*address)].concat(), &[])
        }
    }
}

fn ip(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Parts of a key take whole registers.
fn port(address: SocketAddr) -> Vec<u8> {
    let [high, low] = address.port().to_be_bytes();
    vec![high, low, 0, 0]
}

//--- Rules

/// The rule that draws a number and looks it up; none for a draw that never changes.
fn rule(map: &str, draw: Draw) -> Option<Vec<u8>> {
    let (below, kind) = match draw {
        Draw::Turn(below) => (below, 0),
        Draw::Chance(below) => (below, 1),
        Draw::Source(_) => return None,
    };
    let expression = |name: &str, content: &[Vec<u8>]| {
        let content = [text(1, name), nested(2, &content.concat())].concat();
        nested(LIST_ITEM, &content)
    };
    let drawn = expression(
        "numgen",
        &[
            number(1, NUMBER_REGISTER),
            number(2, below),
            number(3, kind),
        ],
    );
    // The numbers of ranges are in the network's order.
    let turned = expression(
        "byteorder",
        &[
            number(1, NUMBER_REGISTER),
            number(2, NUMBER_REGISTER),
            number(3, 1),
            number(4, 4),
            number(5, 4),
        ],
    );
    let looked_up = expression(
        "lookup",
        &[
            text(1, map),
            number(2, NUMBER_REGISTER),
            number(3, VERDICT_REGISTER),
        ],
    );
    Some(nested(4, &[drawn, turned, looked_up].concat()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::ruleset::TableName;
    use super::*;

    fn update(n_elements: u32) -> ElementUpdate {
        let elements = (0..n_elements).map(|number| Element::Numbers {
            first: number,
            last: number,
            chain: "server/api/a".to_owned(),
        });
        ElementUpdate {
            table: TableName::default(),
            draws: vec![("share/api/v4".to_owned(), Draw::Chance(7))],
            removed: BTreeMap::new(),
            added: BTreeMap::from([("share/api/v4".to_owned(), elements.collect())]),
        }
    }

    /// Types of the messages and whether the kernel is to answer them.
    fn messages(mut octets: &[u8]) -> Vec<(u16, bool)> {
        let mut found = Vec::new();
        while let Ok(message) = NetlinkBuffer::new_checked(octets) {
            let is_asked = message.flags() & ACKNOWLEDGE != 0;
            found.push((message.message_type(), is_asked));
            let length = usize::try_from(message.length()).unwrap();
            assert_eq!(length % 4, 0);
            octets = octets.get(length..).unwrap();
        }
        assert!(octets.is_empty());
        found
    }

    #[test]
    fn a_change_is_one_batch_that_asks_once() {
        let batch = Batch::new(&update(1)).unwrap();
        let expected = [
            (BATCH_BEGIN, false),
            (DELETE_RULE, false),
            (NEW_RULE, false),
            (NEW_ELEMENTS, true),
            (BATCH_END, false),
        ];
        assert_eq!(messages(&batch.octets), expected);
        let many = Batch::new(&update(600)).unwrap();
        assert_eq!(messages(&many.octets).len(), 7);
        assert!(Batch::new(&update(10_000)).is_none(), "nft makes it");
    }

    #[test]
    fn an_answer_is_the_kernel_s_first_refusal_or_its_word_for_the_last_message() {
        let batch = Batch::new(&update(1)).unwrap();
        let answer = |sequence: u32, code: i32| {
            let mut header = NetlinkHeader::default();
            header.length = 20;
            header.message_type = ERROR;
            header.sequence_number = sequence;
            let mut octets = vec![0; 16];
            header.emit(&mut octets);
            octets.extend(code.to_ne_bytes());
            octets
        };
        let (made, refused) = (answer(4, 0), answer(2, -libc::ENOENT));
        assert!(matches!(batch.result(&made), Some(Ok(()))));
        assert!(batch.result(&answer(1, 0)).is_none());
        assert!(batch.result(&made[..10]).is_none());
        for octets in [refused.clone(), [refused, made].concat()] {
            let error = batch.result(&octets).unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        }
    }
}
