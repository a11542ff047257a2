//! Messages of netlink about connections (`linux/netfilter/nfnetlink_conntrack.h`).
//!
//! Numbers in headers are in the machine's order, those in attributes in the network's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Entry, Scope};

/// A header: length, type, flags, sequence, port; then family, version and resource.
const HEADER: usize = 16;
const FAMILY: usize = 4;
/// Length and type.
const ATTRIBUTE: usize = 4;

/// Subsystem 1, and what to do.
const LIST: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const ENTRY: u16 = 1 << 8;
/// Types of netlink itself.
const ERROR: u16 = 2;
const DONE: u16 = 3;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Root and match: the whole table.
const DUMP: u16 = 0x300;

/// Attributes of an entry.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const PROTOCOL_INFO: u16 = 4;
const ID: u16 = 12;
const ZONE: u16 = 18;
const STATUS_MASK: u16 = 26;
/// Attributes within each other: the facts about TCP, and its state.
const TCP_INFO: u16 = 1;
const TCP_STATE: u16 = 1;
/// Bits of an attribute's type that say how it is built.
const TYPE_MASK: u16 = 0x3fff;
/// The status of an entry whose destination is rewritten.
const DESTINATION_NAT: u32 = 1 << 5;
/// That of one whose packets go by a flow table, in software or in a device.
const OFFLOADED: u32 = 1 << 14 | 1 << 15;

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An entry of the table.
    Entry(Entry),
    /// An entry of a protocol without ports.
    Other,
    /// The end, with an error number that is 0 if all went well.
    End(i32),
}

/// Asks for all entries, or those whose destination is rewritten. A kernel before 5.15 gives all.
pub(super) fn list(scope: Scope) -> Vec<u8> {
    let mut wanted = Vec::new();
    if scope == Scope::Forwarded {
        for kind in [STATUS, STATUS_MASK] {
            // Header and number.
            wanted.extend(8_u16.to_ne_bytes());
            wanted.extend(kind.to_ne_bytes());
            wanted.extend(DESTINATION_NAT.to_be_bytes());
        }
    }
    message(LIST, REQUEST | DUMP, 0, &wanted)
}

/// Asks to delete `entry`.
pub(super) fn delete(entry: &Entry) -> Vec<u8> {
    let family = match entry.client {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let family = u8::try_from(family).unwrap_or(0);
    message(DELETE, REQUEST | ACKNOWLEDGE, family, &entry.key)
}

/// A request with its sequence number.
pub(super) fn number(request: &[u8], sequence: u32) -> Vec<u8> {
    let mut request = request.to_vec();
    if let Some(field) = request.get_mut(8..12) {
        field.copy_from_slice(&sequence.to_ne_bytes());
    }
    request
}

fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + FAMILY + attributes.len()).unwrap_or(u32::MAX);
    let mut message = Vec::with_capacity(HEADER + FAMILY + attributes.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family, 0, 0, 0]);
    message.extend(attributes);
    message
}

/// The messages in `octets` that answer the request with the number `sequence`.
pub(super) fn parts(mut octets: &[u8], sequence: u32) -> impl Iterator<Item = Part> {
    std::iter::from_fn(move || {
        loop {
            let length = usize::try_from(u32::from_ne_bytes(*octets.first_chunk()?)).ok()?;
            let kind = u16::from_ne_bytes(*octets.get(4..)?.first_chunk()?);
            let number = u32::from_ne_bytes(*octets.get(8..)?.first_chunk()?);
            let body = octets.get(HEADER..length)?;
            octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
            if number == sequence {
                return Some(part(kind, body));
            }
        }
    })
}

fn part(kind: u16, body: &[u8]) -> Part {
    match kind {
        ERROR => {
            let code = body
                .first_chunk()
                .map_or(0, |code| i32::from_ne_bytes(*code));
            Part::End(code.saturating_neg())
        }
        DONE => Part::End(0),
        ENTRY => body
            .get(FAMILY..)
            .and_then(entry)
            .map_or(Part::Other, Part::Entry),
        _ => Part::Other,
    }
}

fn entry(attributes: &[u8]) -> Option<Entry> {
    let (mut original, mut reply, mut status, mut key) = (None, None, 0, Vec::new());
    let mut tcp_state = None;
    for attribute in Attributes(attributes) {
        match attribute.kind {
            ORIGINAL => original = tuple(attribute.value),
            REPLY => reply = tuple(attribute.value),
            PROTOCOL_INFO => tcp_state = state_of_tcp(attribute.value),
            STATUS => status = u32::from_be_bytes(*attribute.value.first_chunk()?),
            _ => {}
        }
        if matches!(attribute.kind, ORIGINAL | ID | ZONE) {
            key.extend(attribute.whole);
        }
    }
    let (original, reply) = (original?, reply?);
    Some(Entry {
        protocol: original.protocol,
        client: original.source,
        destination: original.destination,
        answers_from: reply.source,
        is_forwarded: status & DESTINATION_NAT != 0,
        is_offloaded: status & OFFLOADED != 0,
        tcp_state,
        key,
    })
}

fn state_of_tcp(attributes: &[u8]) -> Option<u8> {
    let mut infos = Attributes(attributes).filter(|info| info.kind == TCP_INFO);
    let mut states = Attributes(infos.next()?.value).filter(|state| state.kind == TCP_STATE);
    states.next()?.value.first().copied()
}

/// One direction of a flow.
struct Tuple {
    protocol: u8,
    source: SocketAddr,
    destination: SocketAddr,
}

fn tuple(attributes: &[u8]) -> Option<Tuple> {
    let (mut source, mut destination) = (None, None);
    let (mut protocol, mut source_port, mut destination_port) = (None, None, None);
    for attribute in Attributes(attributes) {
        for inner in Attributes(attribute.value) {
            match (attribute.kind, inner.kind) {
                (1, 1 | 3) => source = address(inner.value),
                (1, 2 | 4) => destination = address(inner.value),
                (2, 1) => protocol = inner.value.first().copied(),
                (2, 2) => source_port = port(inner.value),
                (2, 3) => destination_port = port(inner.value),
                _ => {}
            }
        }
    }
    Some(Tuple {
        protocol: protocol?,
        source: SocketAddr::new(source?, source_port?),
        destination: SocketAddr::new(destination?, destination_port?),
    })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 16]>::try_from(octets) {
        return Some(Ipv6Addr::from(octets).into());
    }
    let octets = <[u8; 4]>::try_from(octets).ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn port(octets: &[u8]) -> Option<u16> {
    octets.first_chunk().map(|port| u16::from_be_bytes(*port))
}

/// Attributes, one after the other.
struct Attributes<'a>(&'a [u8]);

struct Attribute<'a> {
    kind: u16,
    value: &'a [u8],
    /// With its header and padding.
    whole: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(*self.0.first_chunk()?));
        let kind = u16::from_ne_bytes(*self.0.get(2..)?.first_chunk()?);
        let value = self.0.get(ATTRIBUTE..length)?;
        let padded = length.next_multiple_of(4).min(self.0.len());
        let (whole, rest) = self.0.split_at_checked(padded)?;
        self.0 = rest;
        Some(Attribute {
            kind: kind & TYPE_MASK,
            value,
            whole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE + value.len()).unwrap();
        let mut octets = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        octets.extend(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    fn direction(kind: u16, source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let [from, to] = ports;
        let addresses = [attribute(1, &source), attribute(2, &destination)].concat();
        let protocol = [
            attribute(1, &[6]),
            attribute(2, &from.to_be_bytes()),
            attribute(3, &to.to_be_bytes()),
        ]
        .concat();
        let nested = 0x8000;
        let tuple = [
            attribute(1 | nested, &addresses),
            attribute(2 | nested, &protocol),
        ]
        .concat();
        attribute(kind | nested, &tuple)
    }

    fn listed() -> (Vec<u8>, Vec<u8>) {
        let original = direction(ORIGINAL, [198, 51, 100, 1], [192, 0, 2, 1], [4000, 6443]);
        let id = attribute(ID, &[0, 0, 0, 7]);
        let attributes = [
            original.clone(),
            direction(REPLY, [10, 0, 0, 2], [192, 0, 2, 1], [443, 1024]),
            attribute(STATUS, &DESTINATION_NAT.to_be_bytes()),
            attribute(
                PROTOCOL_INFO,
                &attribute(TCP_INFO, &attribute(TCP_STATE, &[3])),
            ),
            id.clone(),
        ]
        .concat();
        let text = number(&message(ENTRY, 0, 2, &attributes), 5);
        (text, [original, id].concat())
    }

    #[test]
    fn an_entry_is_read_and_named_as_it_was_listed() {
        let (octets, key) = listed();
        let expected = Entry {
            protocol: 6,
            client: "198.51.100.1:4000".parse().unwrap(),
            destination: "192.0.2.1:6443".parse().unwrap(),
            answers_from: "10.0.0.2:443".parse().unwrap(),
            is_forwarded: true,
            is_offloaded: false,
            tcp_state: Some(3),
            key: key.clone(),
        };
        let request = delete(&expected);
        assert_eq!(request.get(HEADER + FAMILY..), Some(key.as_slice()));
        assert_eq!(
            parts(&octets, 5).collect::<Vec<_>>(),
            [Part::Entry(expected)]
        );
        assert_eq!(parts(&octets, 6).count(), 0);
    }

    #[test]
    fn an_answer_ends_with_an_error_or_without() {
        let done = number(&message(DONE, 0, 0, &[]), 1);
        assert_eq!(parts(&done, 1).collect::<Vec<_>>(), [Part::End(0)]);
        let mut error = number(&message(ERROR, 0, 0, &[]), 1);
        error
            .get_mut(16..20)
            .unwrap()
            .copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(parts(&error, 1).collect::<Vec<_>>(), [Part::End(2)]);
    }

    #[test]
    fn what_is_cut_anywhere_is_read_as_far_as_it_goes() {
        let (octets, _) = listed();
        for end in 0..octets.len() {
            assert_eq!(parts(octets.get(..end).unwrap(), 5).count(), 0);
            let mut shorter = octets.clone();
            shorter.truncate(end.max(HEADER));
            let length = u32::try_from(shorter.len()).unwrap();
            shorter
                .get_mut(..4)
                .unwrap()
                .copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parts(&shorter, 5).count(), 1);
        }
    }
}
