//! Each source gets what it may, and nobody pays for others.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::pool::tests::{Numbers, start};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rules(connections: Option<u32>, rate: Option<u32>) -> Rules {
    Rules {
        connections,
        rate: rate.map(|count| Rate {
            count,
            period: SECOND,
        }),
    }
}

fn limits(rules: Rules, now: Instant) -> Arc<Limits> {
    Limits::new(rules, CAPACITY, 1, now)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn a_source_has_so_many_connections_at_a_time() {
    let now = start();
    let limits = limits(rules(Some(2), None), now);
    let first = limits.admit(ip("192.0.2.1"), now).unwrap();
    let second = limits.admit(ip("::ffff:192.0.2.1"), now).unwrap();
    let refusal = limits.admit(ip("192.0.2.1"), now).unwrap_err();
    assert_eq!(refusal, Refusal::Connections);
    assert!(limits.admit(ip("192.0.2.2"), now).is_ok());
    drop(first);
    let third = limits.admit(ip("192.0.2.1"), now).unwrap();
    assert_eq!(count(&limits.tally().refused_connections), 1);
    // One that exists counts, limit or not.
    let fourth = limits.adopt(ip("192.0.2.1"), now);
    drop((second, third));
    assert!(limits.admit(ip("192.0.2.1"), now).is_ok());
    let fifth = limits.adopt(ip("192.0.2.1"), now);
    assert!(limits.admit(ip("192.0.2.1"), now).is_err());
    drop((fourth, fifth));
}

#[test]
fn a_source_begins_so_many_connections_in_a_time() {
    let begin = start();
    let limits = limits(rules(None, Some(10)), begin);
    let source = ip("192.0.2.1");
    let admitted = |milliseconds: u64, tries: u32| {
        let now = begin + Duration::from_millis(milliseconds);
        (0..tries)
            .filter(|_| limits.admit(source, now).is_ok())
            .count()
    };
    for (milliseconds, expected) in [
        (0, 10),
        (500, 0),
        (999, 0),
        // Of the last second's ten, fewer and fewer count.
        (1100, 1),
        (1500, 4),
        (1999, 5),
        // Then ten of the current one.
        (4000, 10),
        (5000, 0),
        (6000, 10),
    ] {
        assert_eq!(
            admitted(milliseconds, 100),
            expected,
            "at {milliseconds} ms"
        );
    }
    assert_eq!(count(&limits.tally().refused_rate), 860);
    assert_eq!(limits.busiest(9, begin + 6 * SECOND)[0].rate, 10);
}

#[test]
fn a_source_that_asks_for_more_gets_as_much_as_it_may() {
    let begin = start();
    let limits = limits(rules(None, Some(50)), begin);
    let source = ip("192.0.2.1");
    let mut admitted = 0;
    for step in 0..100_000 {
        let now = begin + Duration::from_micros(100) * step;
        admitted += u32::from(limits.admit(source, now).is_ok());
    }
    // Ten seconds at fifty.
    assert!((450..=500).contains(&admitted), "{admitted}");
}

#[test]
fn a_source_below_its_rate_is_never_refused() {
    let begin = start();
    let limits = limits(rules(None, Some(50)), begin);
    let mut numbers = Numbers(3);
    let mut now = begin;
    for step in 0..20_000 {
        // At most one in 20 ms on average, up to three at once.
        let burst = 1 + u32::from(numbers.one_in(3)) + u32::from(numbers.one_in(3));
        for _ in 0..burst {
            assert!(limits.admit(ip("192.0.2.1"), now).is_ok(), "step {step}");
        }
        now += Duration::from_millis(22) * burst;
    }
}

#[test]
fn an_ipv6_source_is_a_64() {
    let now = start();
    let limits = limits(rules(Some(1), None), now);
    let held = limits.admit(ip("2001:db8:0:1::1"), now);
    assert!(held.is_ok());
    assert!(limits.admit(ip("2001:db8:0:1:ffff::2"), now).is_err());
    assert!(limits.admit(ip("2001:db8:0:2::1"), now).is_ok());
}

#[test]
fn sources_are_told_apart_and_named() {
    for (address, name) in [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1", "fe80::"),
    ] {
        let now = start();
        let limits = limits(rules(Some(1), None), now);
        let _held = limits.admit(ip(address), now);
        let expected = Source {
            address: ip(name),
            connections: 1,
            rate: 1,
        };
        assert_eq!(limits.busiest(10, now), [expected], "{address}");
    }
}

#[test]
fn rules_change_under_way() {
    let now = start();
    let limits = limits(rules(Some(1), None), now);
    let _first = limits.admit(ip("192.0.2.1"), now).unwrap();
    assert!(limits.admit(ip("192.0.2.1"), now).is_err());
    limits.set_rules(rules(Some(2), Some(2)));
    let _second = limits.admit(ip("192.0.2.1"), now).unwrap();
    assert_eq!(
        limits.admit(ip("192.0.2.1"), now).unwrap_err(),
        Refusal::Connections
    );
    limits.set_rules(rules(None, None));
    assert!(limits.admit(ip("192.0.2.1"), now).is_ok());
    limits.set_rules(Rules {
        connections: Some(0),
        rate: None,
    });
    let only = limits.admit(ip("192.0.2.2"), now);
    assert!(only.is_ok());
    assert!(limits.admit(ip("192.0.2.2"), now).is_err());
}

#[test]
fn the_busiest_come_first() {
    let now = start();
    let limits = limits(rules(None, None), now);
    let mut held = Vec::new();
    for (address, n) in [("192.0.2.1", 2), ("192.0.2.2", 7), ("192.0.2.3", 4)] {
        for _ in 0..n {
            held.push(limits.admit(ip(address), now));
        }
    }
    for _ in 0..3 {
        assert!(limits.admit(ip("192.0.2.4"), now).is_ok());
    }
    let busiest: Vec<String> = limits
        .busiest(3, now)
        .iter()
        .map(|source| source.address.to_string())
        .collect();
    assert_eq!(busiest, ["192.0.2.2", "192.0.2.3", "192.0.2.1"]);
    assert_eq!(limits.busiest(9, now).len(), 4);
    // Two periods later a rate is forgotten.
    assert_eq!(limits.busiest(9, now + 2 * SECOND).len(), 3);
}

#[test]
fn an_attack_neither_grows_the_table_nor_shuts_out_anybody() {
    let begin = start();
    let limits = Limits::new(rules(Some(2), Some(5)), 1024, 7, begin);
    assert_eq!(limits.capacity(), 1024);
    assert!(limits.fits(1024) && limits.fits(1017) && !limits.fits(1025));
    // Somebody who was there before and has all it may.
    let known = ip("192.0.2.1");
    let held: Vec<Admission> = (0..2)
        .map(|_| limits.admit(known, begin).unwrap())
        .collect();
    let mut attack = Vec::new();
    for number in 0..100_000_u32 {
        let now = begin + Duration::from_micros(10) * number;
        // Each once: it keeps every tenth, and is never refused, nor is anybody else.
        let source = std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).into();
        let admission = limits.admit(source, now).unwrap();
        if number % 10 == 0 {
            attack.push(admission);
        }
    }
    let now = begin + SECOND;
    assert!(count(&limits.tally().uncounted) > 0);
    assert_eq!(limits.capacity(), 1024);
    // What it has stays counted.
    assert_eq!(limits.admit(known, now).unwrap_err(), Refusal::Connections);
    for number in 0..1000_u32 {
        let source: IpAddr = std::net::Ipv4Addr::from_bits(0x0c00_0000 + number).into();
        assert!(limits.admit(source, now).is_ok());
    }
    drop((held, attack));
    assert!(limits.busiest(9, now + 2 * SECOND).is_empty());
}

#[test]
fn passers_by_push_out_whoever_matters_least() {
    let begin = start();
    // One group: the most crowded table there can be.
    let limits = Limits::new(rules(Some(9), Some(4)), WAYS, 7, begin);
    let regular = ip("192.0.2.1");
    for _ in 0..4 {
        assert!(limits.admit(regular, begin).is_ok());
    }
    for number in 0..100_u32 {
        let passer = std::net::Ipv4Addr::from_bits(0x0b00_0000 + number).into();
        assert!(limits.admit(passer, begin).is_ok());
    }
    // It has spent its rate, which the hundred who passed have not undone.
    assert_eq!(limits.admit(regular, begin).unwrap_err(), Refusal::Rate);
    assert!(count(&limits.tally().forgotten) >= 90);
}

#[test]
fn every_connection_is_counted_as_a_plain_map_would() {
    for seed in 0..50 {
        let mut numbers = Numbers(seed);
        let begin = start();
        let limits = limits(rules(Some(3), None), begin);
        let mut held: Vec<(usize, Admission)> = Vec::new();
        let mut model: HashMap<usize, u32> = HashMap::new();
        for step in 0..2000 {
            let now = begin + Duration::from_millis(1) * step;
            let number = numbers.below(40);
            if numbers.one_in(3) && !held.is_empty() {
                let at = numbers.below(held.len());
                let (number, admission) = held.swap_remove(at);
                drop(admission);
                *model.entry(number).or_default() -= 1;
                continue;
            }
            let source = ip(&format!("10.0.0.{number}"));
            let expected = model.entry(number).or_default();
            match limits.admit(source, now) {
                Ok(admission) => {
                    assert!(*expected < 3, "seed {seed} step {step}");
                    *expected += 1;
                    held.push((number, admission));
                }
                Err(_) => assert_eq!(*expected, 3, "seed {seed} step {step}"),
            }
        }
    }
}

#[test]
fn limits_hold_when_many_threads_admit() {
    let now = start();
    let limits = limits(rules(Some(5), None), now);
    let open: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..8 {
            let (limits, open) = (&limits, &open);
            scope.spawn(move || {
                let mut numbers = Numbers(thread);
                for _ in 0..5000 {
                    let number = numbers.below(8);
                    let source = ip(&format!("10.0.0.{number}"));
                    let mut held = Vec::new();
                    for _ in 0..2 {
                        if let Ok(admission) = limits.admit(source, now) {
                            assert!(open[number].fetch_add(1, Ordering::SeqCst) < 5);
                            held.push(admission);
                        }
                    }
                    for admission in held {
                        open[number].fetch_sub(1, Ordering::SeqCst);
                        drop(admission);
                    }
                }
            });
        }
    });
    assert!(limits.busiest(9, now + 2 * SECOND).is_empty());
}
