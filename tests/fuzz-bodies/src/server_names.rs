//! Any bytes as the responses to the lookups of servers that have names.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dns_wire::Name;
use server_names::Settings;
use server_names::message::{Judged, MAX_RECORDS, Outcome, Question};
use server_names::names::{Entry, Families, Family, Names, Source};

/// The most servers of the entry.
const MOST: usize = 3;

pub(super) fn body(data: &[u8]) {
    let start = Instant::now();
    let mut names = names(start);
    let mut now = start;
    // One piece for each query: the counts of the sections, and what comes behind the question.
    for piece in data.split(|byte| *byte == b'|') {
        for question in names.due(now) {
            let whole = message(&question, piece);
            // As it is, and behind a header that fits.
            let raw = question.judge(0, piece);
            let judged = question.judge(0, &whole);
            for judged in [raw, judged] {
                if let Judged::Answer(outcome) = judged {
                    check(&outcome);
                    names.take(&question, outcome, now);
                }
            }
        }
        names.give_up();
        now += Duration::from_secs(u64::from(piece.first().copied().unwrap_or(1)));
        names.tick(now);
        let servers = names.servers("b", "s");
        assert!(servers.len() <= MOST, "{servers:?}");
        let mut addresses: Vec<SocketAddr> = servers.iter().map(|one| one.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), servers.len(), "each address once");
        for server in servers {
            assert_ne!(server.address.port(), 0, "a server has a port");
            assert!((1..=100).contains(&server.share.of(100)), "{server:?}");
        }
        assert!(servers.first().is_none_or(|first| !first.is_backup));
    }
}

fn names(now: Instant) -> Names {
    let settings = Settings {
        timeout_resolve: Duration::from_secs(1),
        hold_valid: Duration::from_secs(10),
        hold_nx: Duration::from_secs(30),
        hold_obsolete: Duration::from_secs(2),
    };
    let entry = Entry {
        backend: "b".into(),
        server: "s".into(),
        source: Source::Service(name()),
        most: MOST,
        families: Families::Prefer(Family::V6),
    };
    Names::new(settings, vec![entry], now)
}

fn name() -> Name {
    Name::parse("_http._tcp.web.example").expect("it is a name")
}

/// A response to a question with the counts and records of a piece.
fn message(question: &Question, piece: &[u8]) -> Vec<u8> {
    let mut message = question.query(0);
    let (counts, records) = piece.split_at_checked(2).unwrap_or((&[1, 0], piece));
    let [answers, authorities] = [counts.first(), counts.last()].map(|it| it.copied().unwrap_or(0));
    for (at, value) in [(2, 0x81), (7, answers), (9, authorities)] {
        if let Some(octet) = message.get_mut(at) {
            *octet = value;
        }
    }
    message.extend_from_slice(records);
    message
}

fn check(outcome: &Outcome) {
    if let Outcome::Found { records, .. } = outcome {
        assert!((1..=MAX_RECORDS).contains(&records.len()), "{records:?}");
    }
}
