use std::fs;
use std::time::Instant;

use proto::health::{Target, TargetKind, Terms};

use super::*;
use durable::state::{Loaded, Refused};
use liveness::monitor::Limits;
use liveness::now::Now;
use liveness::schedules::Schedules;
use liveness::table::Known;

fn known(port: u16, liveness: Liveness) -> Known {
    Known {
        target: Target::tcp(([192, 168, 7, 13], port).into()),
        liveness,
        since: Some(Duration::from_millis(1_700_000_000_123)),
        last_check: Some(Duration::from_millis(1_700_000_000_456)),
        latency: Duration::from_micros(789),
        reason: "connected".to_owned(),
    }
}

fn restored() -> Restored {
    let mut rules = AdminRules::default();
    rules.set(
        Scope::Address([192, 168, 7, 13].into()),
        Decision {
            state: AdminState::Maintenance,
            terms: Terms {
                since: Some(Duration::from_millis(1_800_000_000_001)),
                until: Some(Duration::from_millis(1_800_000_060_000)),
                reason: "a new disk".to_owned(),
                by: "anna".to_owned(),
            },
        },
    );
    let api = SocketAddr::from(([192, 168, 7, 13], 6443));
    rules.set(Scope::Port(api), AdminState::Ready.into());
    Restored {
        generation: 77,
        known: vec![
            known(1, Liveness::Up),
            known(2, Liveness::Down),
            known(3, Liveness::Unknown),
        ],
        rules,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an instant to count from, whichever it is"
)]
fn monitor(restored: Restored) -> Monitor {
    let limits = Limits {
        in_flight: 1,
        targets: 100,
        grace: Duration::ZERO,
    };
    let now = Now {
        steady: Instant::now(),
        wall: Duration::ZERO,
    };
    Monitor::new(limits, Schedules::default(), 1, restored, now)
}

#[test]
fn what_is_written_is_read_but_for_what_was_never_known() {
    let mut expected = restored();
    let monitor = monitor(restored());
    let decoded = decode(&encode(&monitor)).unwrap();
    expected.known.pop();
    assert_eq!(decoded.generation, monitor.generation());
    assert_eq!(decoded.known, expected.known);
    assert_eq!(decoded.rules, expected.rules);
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let octets = encode(&monitor(restored()));
    assert_eq!(decode(b"").unwrap_err(), StateError::Foreign("healthd"));
    for length in 0..octets.len() {
        assert!(decode(&octets[..length]).is_err(), "cut at {length}");
    }
    for place in 0..octets.len() {
        let mut bent = octets.clone();
        bent[place] ^= 0x10;
        assert!(decode(&bent).is_err(), "bent at {place}");
    }
    let mut later = octets;
    later[FORMAT.magic().len() + 3] = 2;
    assert_eq!(decode(&later).unwrap_err(), StateError::Version(2));
}

#[test]
fn the_checksum_is_the_usual_one() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn a_target_of_a_later_version_is_left_out_and_the_rest_is_read() {
    let mut saved = Saved::default();
    let unknown = wire::Target {
        kind: None,
        ..wire::Target::from(&known(1, Liveness::Up).target)
    };
    for target in [unknown, (&known(2, Liveness::Up).target).into()] {
        saved.targets.push(wire::TargetStatus {
            target: Some(target),
            liveness: 1,
            ..Default::default()
        });
    }
    let mut body = saved.encode_to_vec();
    // Field 900, which this version does not know.
    body.extend([0xa2, 0x38, 3, b'n', b'e', b'w']);
    let octets = FORMAT.encode(&body);
    let restored = decode(&octets).unwrap();
    let [known] = &restored.known[..] else {
        panic!("{restored:?}");
    };
    assert_eq!(known.target.address.port(), 2);
    assert_eq!(known.target.kind, TargetKind::Tcp);
}

#[test]
fn a_state_is_replaced_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("deeper")).unwrap();
    assert!(matches!(store.load(), Loaded::Absent));
    for generation in [1, 2] {
        let saved = monitor(Restored {
            generation,
            ..restored()
        });
        store.save(&encode(&saved)).unwrap();
        let Loaded::Restored(loaded) = store.load() else {
            panic!("not loaded");
        };
        assert_eq!(loaded.generation, saved.generation());
    }
    let names = fs::read_dir(store.path().parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(names, 1, "nothing but the state is left");
}

#[test]
fn a_damaged_state_is_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    fs::write(store.path(), "outpost-healthd-state\nnot at all").unwrap();
    let Loaded::Refused(Refused { reason, aside, .. }) = store.load() else {
        panic!("not refused");
    };
    assert!(reason.contains("is unknown") || reason.contains("damaged"));
    assert!(aside.unwrap().is_file());
    assert!(matches!(store.load(), Loaded::Absent));
    fs::create_dir(store.path()).unwrap();
    assert!(matches!(store.load(), Loaded::Refused(_)), "a directory");
}
