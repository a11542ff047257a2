//! Signed queries, and NOTIFY.

use std::sync::Arc;

use dns_wire::header::Flags;
use dns_wire::tsig::Algorithm;
use dns_wire::{Key, Keys, Opcode, Rcode, Records, Type};

use crate::testing::{self, NOW, client, query, records, snapshot};
use crate::*;

const ZONE: &str = "example. 3600 SOA ns.example. h.example. 9 2 3 4 60\nexample. 300 NS ns.example.\n\
    ns.example. 300 A 192.0.2.53\nwww.example. 300 A 192.0.2.80\n";

fn zone() -> Snapshot {
    snapshot("example.", &records(ZONE))
}

fn plain(name: &str, qtype: Type) -> Vec<u8> {
    query(&name.parse().unwrap(), qtype)
}

/// A query with an OPT record that says how many octets its sender takes.
fn with_edns(name: &str, qtype: Type, size: u16) -> Vec<u8> {
    let mut message = plain(name, qtype);
    message[11] = 1;
    message.extend(b"\0\0\x29");
    message.extend(size.to_be_bytes());
    message.extend([0; 6]);
    message
}

#[test]
fn a_signed_query_is_told_that_its_key_is_not_known() {
    let mut message = with_edns("www.example.", Type::A, 1232);
    message[11] = 2;
    message.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x15\x01h\0\0\0\x12\x34\x56\x78\x01\x2c");
    message.extend(b"\0\x02mm\x12\x34\0\0\0\0");
    let reply = testing::ask(&zone(), &message, Transport::Udp);
    assert_eq!(Flags::read(&reply).unwrap().rcode(), Rcode::NOTAUTH);
    let records = Records::new(&reply).unwrap().map(Result::unwrap);
    let types: Vec<Type> = records.map(|record| record.rtype).collect();
    assert_eq!(types, [Type::OPT, Type::TSIG]);
}

#[test]
fn a_signed_query_gets_a_signed_answer_that_fits() {
    let key = Key::new(&"k.".parse().unwrap(), Algorithm::Sha512, "AAAA").unwrap();
    let mut snapshot = zone();
    snapshot.settings.keys = Keys::new([key.clone()]);
    for name in ["www.example.", "none.example.", "elsewhere."] {
        for size in [512, 600, 1232] {
            let mut message = with_edns(name, Type::A, size);
            let mut responses = key.sign(&mut message, NOW).unwrap();
            let reply = testing::ask(&snapshot, &message, Transport::Udp);
            assert!(
                reply.len() <= usize::from(size),
                "{name} {size}: {}",
                reply.len()
            );
            responses.check(&reply, NOW).unwrap();
            let records = Records::new(&reply).unwrap().map(Result::unwrap);
            assert_eq!(records.last().map(|record| record.rtype), Some(Type::TSIG));
        }
    }
    // The access list comes first: a signature does not open it.
    let mut message = plain("www.example.", Type::A);
    key.sign(&mut message, NOW).unwrap();
    let outsider = Client {
        may_ask: false,
        ..client(Transport::Udp)
    };
    let mut responder = Responder::new(NoPrograms, 7);
    let asked = responder.respond(&snapshot, &message, &outsider, &mut [0; 512]);
    assert!(matches!(asked, Verdict::Reply(_)), "{asked:?}");
}

/// Sends NOTIFY from an address, perhaps signed; returns whether it is taken, and the response code.
fn notify(
    snapshot: &Snapshot,
    (name, qtype): (&str, Type),
    from: &str,
    key: Option<&Key>,
) -> (bool, Rcode) {
    let mut message = plain(name, qtype);
    message[2] = Opcode::NOTIFY.0 << 3;
    let mut responses = key.map(|key| key.sign(&mut message, NOW).unwrap());
    let client = Client {
        peer: from.parse().unwrap(),
        ..client(Transport::Udp)
    };
    let mut out = vec![0; 512];
    let mut responder = Responder::new(NoPrograms, 7);
    let verdict = match responder.respond(snapshot, &message, &client, &mut out) {
        Verdict::Signed => responder.respond_signed(snapshot, (&message, NOW), &client, &mut out),
        verdict => verdict,
    };
    let (length, is_taken) = match verdict {
        Verdict::Notified { length, .. } => (length, true),
        Verdict::Reply(length) => (length, false),
        other => panic!("{other:?}"),
    };
    let reply = &out[..length];
    let flags = Flags::read(reply).unwrap();
    assert_eq!(flags.opcode(), Opcode::NOTIFY);
    assert_eq!(flags.has(Flags::AA), is_taken);
    if let Some(responses) = &mut responses {
        responses.check(reply, NOW).unwrap();
    }
    (is_taken, flags.rcode())
}

#[test]
fn notify_is_taken_of_primaries_and_of_the_zones_key_for_secondary_zones_alone() {
    let key = Key::new(&"k.".parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap();
    let other = Key::new(&"o.".parse().unwrap(), Algorithm::Sha256, "AAAA").unwrap();
    let notifiers = Notifiers {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        keys: vec![key.name().clone()],
    };
    let mut snapshot = zone();
    snapshot.settings.keys = Keys::new([key.clone(), other.clone()]);
    let of_zone = [("example.".parse().unwrap(), notifiers)];
    snapshot.settings.notifiers = Arc::new(of_zone.into_iter().collect());
    let (primary, mapped, stranger) = ("192.0.2.1:4000", "[::ffff:192.0.2.1]:1", "192.0.2.2:53");
    let taken = (true, Rcode::NOERROR);
    for (name, from, signed, expected) in [
        ("example.", primary, None, taken),
        ("EXAMPLE.", mapped, None, taken),
        ("example.", stranger, Some(&key), taken),
        ("example.", stranger, None, (false, Rcode::REFUSED)),
        ("example.", stranger, Some(&other), (false, Rcode::REFUSED)),
        ("www.example.", primary, None, (false, Rcode::NOTIMP)),
        ("elsewhere.", primary, None, (false, Rcode::NOTIMP)),
    ] {
        let got = notify(&snapshot, (name, Type::SOA), from, signed);
        assert_eq!(got, expected, "{name} {from}");
    }
    let odd = notify(&snapshot, ("example.", Type::A), primary, None);
    assert_eq!(odd, (false, Rcode::FORMERR));
}
