//! Incremental transfers over UDP (RFC 1995 §2).

use std::sync::Arc;

use dns_wire::header::Flags;
use dns_wire::{Rcode, Records, Section, Type};

use super::answers::{ask, plain, rcode, udp, verdict, with_edns, zone};
use crate::testing::{client, decode, records, snapshot, zone_at};
use crate::*;

/// The response to a query for an incremental transfer over UDP.
fn incremental(snapshot: &Snapshot, message: &[u8], ixfr: Ixfr) -> Vec<u8> {
    let mut responder = Responder::new(NoPrograms, 1);
    responder.set_ixfr(ixfr);
    let mut out = vec![0; 4096];
    let client = client(Transport::Udp);
    match responder.respond(snapshot, message, &client, &mut out) {
        Verdict::Reply(length) => out[..length].to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_incremental_transfer_over_udp_has_the_differences_if_they_fit() {
    let version = |serial: u32, texts: usize| {
        let mut text =
            format!("example. 60 SOA a. b. {serial} 2 3 4 5\nexample. 60 NS ns.example.\n");
        for number in 0..30 {
            text.push_str(&format!("n{number}.example. 60 A 192.0.2.1\n"));
        }
        for number in 0..texts {
            text.push_str(&format!(
                "t{number}.example. 60 TXT \"{}\"\n",
                "x".repeat(100)
            ));
        }
        snapshot("example.", &records(&text))
    };
    let limits = dns_history::Limits {
        versions: 8,
        octets: 1 << 20,
    };
    // The client's size, the texts that come, and whether they fit. The response has four SOA records.
    for (size, texts, fits) in [
        (1232, 3, true),
        (1232, 12, false),
        (512, 3, false),
        (512, 1, true),
    ] {
        let (before, after) = (version(3, 0), version(4, texts));
        let (old, new) = (zone_at(&before, 0), zone_at(&after, 0));
        let change = dns_history::Change::between(&old, &new, 0, limits.octets).unwrap();
        let mut history = dns_history::History::default();
        history.push(Arc::new(change.unwrap()), limits);
        for known in [3_u32, 2, 4] {
            let mut message = with_edns("example.", Type::IXFR, size, 0, &[]);
            let opt = message.split_off(message.len() - 11);
            message.extend(b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0");
            message.extend(known.to_be_bytes());
            message.extend([0; 16]);
            message.extend(opt);
            message[9] = 1;
            let octets = incremental(&after, &message, Ixfr::Differences(history.clone()));
            // The SOA records repeat, as they do in every difference.
            let n_records = Records::new(&octets).unwrap().map(|record| record.unwrap());
            let n_answers = n_records
                .filter(|record| record.section == Section::Answer)
                .count();
            let flags = Flags::read(&octets).unwrap();
            let expected = if fits && known == 3 { texts + 4 } else { 1 };
            assert_eq!(n_answers, expected, "{size} {texts} {known}");
            assert!(flags.has(Flags::AA) && !flags.has(Flags::TC));
        }
    }
}

#[test]
fn transfers_are_for_streams_and_the_apex() {
    let snapshot = zone();
    let soa = b"\xc0\x0c\0\x06\0\x01\0\0\0\0\0\x16\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for (rtype, n_answers) in [(Type::AXFR, None), (Type::IXFR, Some(1))] {
        let mut message = plain("example.", rtype);
        if rtype == Type::IXFR {
            let bare = ask(&snapshot, &message, Transport::Tcp);
            assert_eq!(rcode(&bare), Rcode::FORMERR);
            message[9] = 1;
            message.extend(soa);
        }
        match n_answers {
            Some(n) => {
                let apex = "example.".parse().unwrap();
                let (asked, _) = verdict(&snapshot, &message, &client(Transport::Udp));
                assert_eq!(
                    asked,
                    Verdict::Incremental {
                        zone: apex,
                        key: None
                    }
                );
                let alone = incremental(&snapshot, &message, Ixfr::SoaAlone);
                assert_eq!(decode(&alone).answer.len(), n);
            }
            None => assert_eq!(rcode(&udp(&snapshot, &message)), Rcode::REFUSED),
        }
        let (asked, _) = verdict(&snapshot, &message, &client(Transport::Tcp));
        let apex = "example.".parse().unwrap();
        let session = None;
        assert_eq!(
            asked,
            Verdict::Transfer {
                zone: apex,
                session
            }
        );
        let below = ask(&snapshot, &plain("www.example.", rtype), Transport::Tcp);
        assert_eq!(rcode(&below), Rcode::NOTAUTH);
    }
    let mut out = [0; 64];
    let message = with_edns("example.", Type::AXFR, 1232, 0, &[]);
    let length = respond_with(&message, Rcode::REFUSED, &mut out).unwrap();
    assert_eq!(rcode(&out[..length]), Rcode::REFUSED);
    decode(&out[..length]);
}
