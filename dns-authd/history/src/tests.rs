//! Histories of generated zones: every version comes back, by way of octets too.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use dns_wire::Type;
use dns_wire::hash::Seed;
use dns_zone::parse::parse_bytes;
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{Cursor, Zone};

use crate::{Change, Difference, History, Limits, NoSuchVersion, Rollback, TooLarge, Version};

const LIMITS: Limits = Limits {
    versions: 8,
    octets: 1 << 20,
};

fn zone(serial: u32, text: &str) -> Zone {
    let text = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n NS ns\n{text}");
    let file = parse_bytes(text.as_bytes()).unwrap();
    Zone::build(&file.apex, &file.records, Seed(u64::from(serial))).unwrap()
}

fn change(old: &Zone, new: &Zone) -> Change {
    Change::between(old, new, 7, LIMITS.octets)
        .unwrap()
        .unwrap()
}

fn arc(old: &Zone, new: &Zone) -> Arc<Change> {
    Arc::new(change(old, new))
}

fn line(record: &ZoneRecord<'_>) -> String {
    let ZoneRecord {
        owner,
        rtype,
        ttl,
        rdata,
    } = record;
    format!("{owner} {ttl} {rtype} {rdata:?}").to_lowercase()
}

/// The records of a zone without its SOA record.
fn lines(zone: &Zone) -> BTreeSet<String> {
    let mut cursor = Cursor::default();
    let records = std::iter::from_fn(|| zone.next_record(&mut cursor));
    let records = records.filter(|record| record.rtype != Type::SOA);
    records.map(|record| line(&record)).collect()
}

fn owners(records: &[ZoneRecord<'static>]) -> Vec<String> {
    let text =
        |record: &ZoneRecord<'_>| format!("{} {} {}", record.owner, record.rtype, record.ttl);
    records.iter().map(text).collect()
}

/// Versions of a zone with names, TTLs and programs that come and go, the same for the same seed.
fn versions(seed: u64, n: u32) -> Vec<Zone> {
    let mut state = seed;
    let mut draw = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let version = |serial: u32| {
        let mut text = String::new();
        for name in 0..12 {
            match draw(4) {
                0 => {}
                1 => writeln!(text, "n{name} {} TXT a b", 60 + draw(2)).unwrap(),
                2 => writeln!(text, "n{name} A 192.0.2.{}\nn{name} A 192.0.2.9", draw(3)).unwrap(),
                _ => writeln!(text, "n{name} LUA A \"f({})\"", draw(2)).unwrap(),
            }
        }
        zone(serial, &text)
    };
    (1..=n).map(version).collect()
}

#[test]
fn a_change_has_the_records_that_differ() {
    let old = zone(
        1,
        "a A 192.0.2.1\nb A 192.0.2.2\nb A 192.0.2.3\nC MX 1 X\nd 30 TXT d\n",
    );
    let new = zone(
        2,
        "a A 192.0.2.1\nb A 192.0.2.2\nc MX 1 x\nd 40 TXT d\ne LUA A \"f()\"\n",
    );
    let change = change(&old, &new);
    assert_eq!((change.from.serial(), change.to.serial()), (1, 2));
    assert_eq!(
        owners(&change.removed),
        ["b.example. A 60", "d.example. TXT 30"]
    );
    assert_eq!(
        owners(&change.added),
        ["d.example. TXT 40", "e.example. LUA 60"]
    );
    assert_eq!(change.n_records(), 6);
    assert_eq!(Change::between(&old, &old, 0, 1 << 20), Ok(None));
    // The SOA record alone is a change.
    let serial = Change::between(&old, &zone(1, "a A 192.0.2.1\n"), 0, 1 << 20).unwrap();
    assert_eq!(serial.unwrap().from.serial(), 1);
    assert_eq!(Change::between(&old, &new, 0, 150), Err(TooLarge));
}

#[test]
fn every_version_that_is_kept_comes_back() {
    for seed in 0..20 {
        let versions = versions(seed, 8);
        let mut history = History::default();
        for (old, new) in versions.iter().zip(&versions[1..]) {
            history.push(arc(old, new), LIMITS);
            let octets = history.encode(new.apex());
            assert_eq!(History::decode(&octets, new.apex()).unwrap(), history);
        }
        let newest = versions.last().unwrap();
        for old in &versions[..7] {
            let serial = old.soa().serial;
            let (version, records) = history.restore(newest, serial).unwrap();
            assert_eq!(Some(version), Version::of(old));
            let restored: BTreeSet<String> = records.iter().map(line).collect();
            assert_eq!(restored, lines(old), "seed {seed}, serial {serial}");
            let there = history.difference(serial, 8).unwrap();
            let back = history.difference(8, serial).unwrap();
            assert_eq!(there, back.reversed());
            let (old, new) = (lines(old), lines(newest));
            let of = |records: &[ZoneRecord<'static>]| -> BTreeSet<String> {
                let plain = records.iter().filter(|record| record.rtype != Type::SOA);
                plain.map(line).collect()
            };
            assert_eq!(of(&there.removed), &old - &new);
            assert_eq!(of(&there.added), &new - &old);
        }
        assert_eq!(history.restore(newest, 8), Err(NoSuchVersion(8)));
        assert_eq!(history.restore(newest, 99), Err(NoSuchVersion(99)));
        assert_eq!(history.difference(1, 99), Err(NoSuchVersion(99)));
        assert_eq!(history.difference(5, 5), Ok(Difference::default()));
        // Another zone than that which the history leads to.
        assert_eq!(history.restore(&zone(8, ""), 1), Err(NoSuchVersion(1)));
    }
}

#[test]
fn a_history_is_bounded_and_begins_anew_where_it_is_broken() {
    let versions = versions(1, 8);
    let mut history = History::default();
    let limits = Limits {
        versions: 3,
        ..LIMITS
    };
    for (old, new) in versions.iter().zip(&versions[1..]) {
        history.push(arc(old, new), limits);
    }
    let kept = |history: &History| -> Vec<u32> {
        history
            .changes()
            .map(|change| change.from.serial())
            .collect()
    };
    assert_eq!(kept(&history), [5, 6, 7]);
    assert!(history.since(4).is_none());
    assert_eq!(history.since(5).unwrap().len(), 3);
    assert!(history.since(8).is_none(), "the newest");
    let octets = history.octets();
    assert_eq!(
        octets,
        history
            .changes()
            .map(|change| change.octets())
            .sum::<usize>()
    );
    history.keep_within(Limits {
        octets: octets - 1,
        ..limits
    });
    assert_eq!(kept(&history), [6, 7]);
    // Version 3 does not follow version 8.
    history.push(arc(&versions[2], &versions[3]), limits);
    assert_eq!(kept(&history), [3]);
    history.clear();
    assert!(history.is_empty());
}

#[test]
fn a_serial_that_does_not_rise_is_no_way_for_a_client() {
    let steps = [
        (1, "a A 192.0.2.1\n"),
        (5, ""),
        (4, "b A 192.0.2.1\n"),
        (6, ""),
    ];
    let zones: Vec<Zone> = steps
        .iter()
        .map(|(serial, text)| zone(*serial, text))
        .collect();
    let mut history = History::default();
    for (old, new) in zones.iter().zip(&zones[1..]) {
        history.push(arc(old, new), LIMITS);
    }
    assert!(history.since(1).is_none());
    assert!(history.since(5).is_none());
    assert_eq!(history.since(4).unwrap().len(), 1);
    assert!(
        history.restore(&zones[3], 1).is_ok(),
        "an operator may go back"
    );
}

#[test]
fn a_rollback_is_kept_until_the_next_change() {
    let (one, two) = (zone(1, "a A 192.0.2.1\n"), zone(2, "a A 192.0.2.2\n"));
    let again = zone(3, "a A 192.0.2.1\n");
    let mut history = History::default();
    history.push(arc(&one, &two), LIMITS);
    let rollback = Rollback {
        to: 1,
        since: 70,
        file: Version::of(&two).unwrap(),
    };
    let mut bounded = history.clone();
    let tight = Limits {
        versions: 0,
        ..LIMITS
    };
    assert!(!bounded.roll_back(change(&two, &again), rollback.clone(), tight));
    assert!(history.roll_back(change(&two, &again), rollback.clone(), LIMITS));
    let octets = history.encode(two.apex());
    let mut read = History::decode(&octets, two.apex()).unwrap();
    assert_eq!(read.rollback(), Some(&rollback));
    // After a restart the file has version 2, and version 3 is served.
    let (version, records) = read.renew(&two).unwrap();
    assert_eq!(Some(version), Version::of(&again));
    let records: BTreeSet<String> = records.iter().map(line).collect();
    assert_eq!(records, lines(&again));
    assert_eq!(read.renew(&zone(2, "")), Err(NoSuchVersion(2)));
    read.push(arc(&again, &zone(4, "")), LIMITS);
    assert_eq!(read.rollback(), None);
}

#[test]
fn octets_that_are_cut_or_changed_are_no_history() {
    let versions = versions(3, 4);
    let mut history = History::default();
    for (old, new) in versions.iter().zip(&versions[1..]) {
        history.push(arc(old, new), LIMITS);
    }
    let apex = versions[0].apex();
    let octets = history.encode(apex);
    for cut in 0..octets.len() {
        assert!(History::decode(&octets[..cut], apex).is_err(), "{cut}");
    }
    let more = [&octets[..], &[0]].concat();
    assert!(History::decode(&more, apex).is_err());
    assert!(History::decode(&octets, &"other.".parse().unwrap()).is_err());
    let mut n_accepted = 0;
    for place in 0..octets.len() {
        let mut other = octets.clone();
        other[place] ^= 0x11;
        // Times, and digits of SOA records, may be any.
        n_accepted += usize::from(History::decode(&other, apex).is_ok());
    }
    assert!(
        n_accepted < octets.len() / 3,
        "{n_accepted} of {}",
        octets.len()
    );
}

#[test]
fn updates_stay_laid_over_the_files_whatever_the_bounds_drop() {
    let file = zone(1, "a A 192.0.2.1\nb A 192.0.2.2\n");
    let steps = [
        zone(2, "a A 192.0.2.1\nb A 192.0.2.2\nc TXT x\n"),
        zone(3, "b A 192.0.2.2\nc TXT x\nd TXT y\n"),
        zone(4, "b A 192.0.2.2\nd TXT y\ne LUA A \"f()\"\n"),
    ];
    for versions in [0, 1, 8] {
        let limits = Limits { versions, ..LIMITS };
        let mut history = History::default();
        let mut before = &file;
        for next in &steps {
            history.update(arc(before, next), limits);
            let octets = history.encode(file.apex());
            assert_eq!(History::decode(&octets, file.apex()).unwrap(), history);
            assert_eq!(history.newest(), Version::of(next).as_ref());
            let updates = history.updates().unwrap();
            assert!(updates.is_whole(), "{versions}");
            assert_eq!(Some(&updates.from), Version::of(&file).as_ref());
            assert_eq!(history.set_aside(), Some(&updates.from));
            assert!(history.has_updates_beyond(updates.octets() - 1));
            assert!(!history.has_updates_beyond(updates.octets()));
            // After a restart the file is as it was.
            let (version, records) = history.renew(&file).unwrap();
            assert_eq!(Some(version), Version::of(next));
            assert_eq!(
                records.iter().map(line).collect::<BTreeSet<_>>(),
                lines(next)
            );
            before = next;
        }
        let updates = history.updates().unwrap();
        assert_eq!(owners(&updates.removed), ["a.example. A 60"]);
        assert_eq!(
            owners(&updates.added),
            ["d.example. TXT 60", "e.example. LUA 60"]
        );
        // Over another version of the file: what is there already stays, what is gone need not be there.
        let edited = zone(9, "b A 192.0.2.3\nd TXT y\n");
        let both = updates.lay_over(&edited);
        let expected = lines(&zone(9, "b A 192.0.2.3\nd TXT y\ne LUA A \"f()\"\n"));
        assert_eq!(both.iter().map(line).collect::<BTreeSet<_>>(), expected);
        // A version of the files ends them.
        history.push(arc(before, &edited), LIMITS);
        assert!(history.updates().is_none() && history.set_aside().is_none());
    }
    // Updates that lead elsewhere than the changes are no history.
    let mut history = History::default();
    history.push(arc(&file, &steps[0]), LIMITS);
    history.lay_over(Some(arc(&file, &steps[1])));
    let octets = history.encode(file.apex());
    assert!(History::decode(&octets, file.apex()).is_err());
}

#[test]
fn a_change_that_is_read_behind_a_history_is_its_newest() {
    let file = zone(1, "a A 192.0.2.1\n");
    let steps = [zone(2, "b TXT x\n"), zone(3, "b TXT x\nc TXT y\n")];
    let mut history = History::default();
    let first = arc(&file, &steps[0]);
    assert!(
        history
            .clone()
            .follow(&first.encode(), file.apex())
            .is_err(),
        "nothing to follow"
    );
    history.update(first, LIMITS);
    let whole = History::decode(&history.encode(file.apex()), file.apex()).unwrap();
    let next = arc(&steps[0], &steps[1]);
    history.update(Arc::clone(&next), LIMITS);
    let newest = Version::of(&steps[0]).unwrap();
    let of_file = Version::of(&file).unwrap();
    assert_eq!(
        history.updates_behind(&newest, &of_file),
        Some(vec![Arc::clone(&next)])
    );
    assert_eq!(
        history
            .updates_behind(&of_file, &of_file)
            .map(|it| it.len()),
        Some(2)
    );
    assert_eq!(
        history.updates_behind(&newest, &newest),
        None,
        "of another file"
    );
    assert_eq!(
        history.updates_behind(&Version::of(&steps[1]).unwrap(), &of_file),
        None
    );
    let octets = next.encode();
    let mut read = whole.clone();
    read.follow(&octets, file.apex()).unwrap();
    assert_eq!(read, history);
    // It follows no other version, and no part of it is one.
    assert!(read.follow(&octets, file.apex()).is_err());
    for cut in 0..octets.len() {
        let mut other = whole.clone();
        assert!(other.follow(&octets[..cut], file.apex()).is_err(), "{cut}");
        assert_eq!(other, whole);
    }
}

#[test]
fn many_updates_are_the_sum_of_all_of_them() {
    let file = zone(1, "");
    let mut history = History::default();
    let mut before = zone(1, "");
    let mut random = 7_u64;
    let mut names = BTreeSet::new();
    for serial in 2..400 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(11);
        let name = random >> 58;
        if !names.remove(&name) {
            names.insert(name);
        }
        let lines = names
            .iter()
            .map(|name| format!("n{name} A 192.0.2.{name}\n"));
        let next = zone(serial, &lines.collect::<String>());
        history.update(arc(&before, &next), LIMITS);
        if serial % 13 == 0 {
            let expected = change(&file, &next);
            let sum = history.updates().unwrap();
            assert_eq!(
                (&sum.from, &sum.to),
                (&expected.from, &expected.to),
                "{serial}"
            );
            let sorted =
                |records: &[ZoneRecord<'_>]| records.iter().map(line).collect::<BTreeSet<_>>();
            assert_eq!(sorted(&sum.added), sorted(&expected.added), "{serial}");
            assert!(sum.removed.is_empty() && sum.is_whole(), "{serial}");
            assert!(!history.has_updates_beyond(sum.octets()), "{serial}");
        }
        before = next;
    }
}
