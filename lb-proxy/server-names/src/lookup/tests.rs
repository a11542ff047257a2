use super::*;

const SETTINGS: Settings = Settings {
    timeout_resolve: Duration::from_secs(1),
    hold_valid: Duration::from_secs(10),
    hold_nx: Duration::from_secs(30),
    hold_obsolete: Duration::from_secs(5),
};

/// What happens to a lookup.
enum Event {
    Found(&'static [u8], u64),
    NoName(Option<u64>),
    Silent,
    Wait,
}

use Event::{Found, NoName, Silent, Wait};

/// Runs events at seconds after the start; after each, the last octets of the addresses that hold and the seconds to the next
/// thing to do.
fn check(settings: Settings, events: &[(u64, Event, &[u8], Option<u64>)]) {
    let start = start();
    let mut lookup = Lookup::new(start);
    for (place, (at, event, held, next)) in events.iter().enumerate() {
        let now = start + Duration::from_secs(*at);
        let outcome = match event {
            Found(last, ttl) => Some(Outcome::Found {
                records: last.iter().copied().map(address).collect(),
                ttl: Duration::from_secs(*ttl),
            }),
            NoName(ttl) => Some(Outcome::Denied {
                exists: false,
                ttl: ttl.map(Duration::from_secs),
            }),
            Silent => Some(Outcome::Failed(Failure::Silent)),
            Wait => None,
        };
        match outcome {
            Some(outcome) => {
                lookup.send();
                lookup.take(outcome, &settings, now);
            }
            None => lookup.tick(&settings, now),
        }
        let records: BTreeSet<Record> = lookup.records().cloned().collect();
        let expected: BTreeSet<Record> = held.iter().copied().map(address).collect();
        assert_eq!(records, expected, "event {place} at {at} s");
        let deadline = lookup.deadline(&settings, true);
        let deadline = deadline.map(|at| at.saturating_duration_since(now).as_secs());
        assert_eq!(deadline, *next, "event {place} at {at} s");
    }
}

fn address(last: u8) -> Record {
    Record::Address([192, 0, 2, last].into())
}

#[test]
fn the_ttl_counts_within_its_bounds() {
    check(
        SETTINGS,
        &[
            (0, Found(&[1], 0), &[1], Some(1)),
            (1, Found(&[1], 7), &[1], Some(7)),
            (8, Found(&[1], 3600), &[1], Some(10)),
        ],
    );
}

#[test]
fn silence_changes_nothing_however_long_it_lasts() {
    check(
        SETTINGS,
        &[
            (0, Found(&[1, 2], 5), &[1, 2], Some(5)),
            (5, Silent, &[1, 2], Some(1)),
            (6, Silent, &[1, 2], Some(1)),
            (90_000, Silent, &[1, 2], Some(1)),
            (90_001, Wait, &[1, 2], Some(0)),
        ],
    );
}

#[test]
fn a_denial_counts_once_it_has_lasted_without_a_break() {
    check(
        SETTINGS,
        &[
            (0, Found(&[1], 5), &[1], Some(5)),
            // Asked again soon, whatever the zone says: the records are still in use.
            (5, NoName(Some(600)), &[1], Some(1)),
            (34, NoName(None), &[1], Some(1)),
            // The resolver is away: this does not confirm it.
            (35, Silent, &[1], Some(1)),
            (36, NoName(None), &[1], Some(1)),
            (65, NoName(None), &[1], Some(1)),
            (66, NoName(Some(600)), &[], Some(1)),
            // Nothing is in use: the zone says how long this is so.
            (67, NoName(Some(600)), &[], Some(10)),
            (77, Found(&[1], 5), &[1], Some(5)),
        ],
    );
}

#[test]
fn the_end_of_a_denial_needs_no_answer() {
    check(
        Settings {
            timeout_resolve: Duration::from_secs(60),
            hold_valid: Duration::from_secs(60),
            ..SETTINGS
        },
        &[
            (0, Found(&[1], 5), &[1], Some(60)),
            (60, NoName(None), &[1], Some(30)),
            (90, Wait, &[], Some(30)),
        ],
    );
}

#[test]
fn a_record_that_an_answer_lacks_stays_for_its_hold_time() {
    check(
        SETTINGS,
        &[
            (0, Found(&[1, 2], 10), &[1, 2], Some(10)),
            (10, Found(&[2, 3], 10), &[1, 2, 3], Some(5)),
            // It is back, and goes again: the time begins again.
            (12, Found(&[1, 2, 3], 10), &[1, 2, 3], Some(10)),
            (14, Found(&[2, 3], 10), &[1, 2, 3], Some(5)),
            (18, Wait, &[1, 2, 3], Some(1)),
            (19, Wait, &[2, 3], Some(5)),
        ],
    );
    check(
        Settings {
            hold_obsolete: Duration::ZERO,
            ..SETTINGS
        },
        &[
            (0, Found(&[1], 10), &[1], Some(10)),
            (10, Found(&[2], 10), &[2], Some(10)),
        ],
    );
}

#[test]
fn a_query_under_way_is_not_sent_again() {
    let start = start();
    let mut lookup = Lookup::new(start);
    assert!(lookup.is_due(start));
    lookup.send();
    assert!(!lookup.is_due(start + Duration::from_secs(99)));
    assert_eq!(lookup.deadline(&SETTINGS, true), None);
    lookup.give_up();
    assert!(lookup.is_due(start));
    assert_eq!(lookup.deadline(&SETTINGS, false), None);
}

#[expect(
    clippy::disallowed_methods,
    reason = "any time will do, and there is no other way to one"
)]
fn start() -> Instant {
    Instant::now()
}
