//! Incremental transfers over UDP (RFC 1995 §2).

use std::sync::Arc;

use dns_wire::header::Flags;
use dns_wire::{Records, Section, Type};

use super::answers::with_edns;
use crate::testing::{client, records, snapshot, zone_at};
use crate::*;

/// The response to a query for an incremental transfer over UDP.
pub(super) fn incremental(snapshot: &Snapshot, message: &[u8], ixfr: Ixfr) -> Vec<u8> {
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
