//! A secondary that follows the flattened versions of a zone has its records, whatever happens to the zone and to liveness.

use std::collections::BTreeSet;
use std::path::Path;

use dns_history::{Content, History};
use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::parse::{Options, parse};

use super::*;

const PACE: Pace = Pace {
    interval: Duration::from_millis(200),
    per_minute: 60,
};
const LIMITS: Limits = Limits {
    versions: 100,
    octets: 1 << 20,
};

#[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
fn start() -> Instant {
    Instant::now()
}

/// The zone of this text.
fn zone(serial: u32, text: &str) -> Arc<Zone> {
    let text = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n NS ns\nns A 192.0.2.1\n{text}");
    let apex: Name = "a.".parse().unwrap();
    let mut load = |_: &Path| Ok(text.clone().into_bytes());
    let file = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
    Arc::new(Zone::build(&apex, &file.records, Seed(1)).unwrap())
}

/// A set with these last octets of addresses.
fn given(addresses: &[u8]) -> Given {
    Given::Records {
        ttl: 5,
        rdata: addresses
            .iter()
            .map(|last| vec![192, 0, 2, *last])
            .collect(),
        is_whole: true,
        is_undecided: false,
    }
}

fn undecided(addresses: &[u8]) -> Given {
    let Given::Records {
        ttl,
        rdata,
        is_whole,
        ..
    } = given(addresses)
    else {
        unreachable!()
    };
    Given::Records {
        ttl,
        rdata,
        is_whole,
        is_undecided: true,
    }
}

type Line = (Name, Type, u32, Vec<u8>);

/// The records without the SOA record.
fn lines(flat: &Flat) -> BTreeSet<Line> {
    let mut lines = BTreeSet::new();
    let mut n = 0;
    flat.each(&mut |record| {
        n += 1;
        if record.rtype != Type::SOA {
            lines.insert((
                record.owner.to_lowercase(),
                record.rtype,
                record.ttl,
                record.rdata.into_owned(),
            ));
        }
    });
    assert_eq!(n, flat.n_records(), "each record comes once");
    lines
}

/// The data of the addresses of a name, by their last octets.
fn addresses(flat: &Flat, owner: &str) -> Vec<u8> {
    let owner: Name = owner.parse().unwrap();
    let lines = lines(flat);
    let its = lines
        .iter()
        .filter(|line| line.0 == owner && line.1 == Type::A);
    its.filter_map(|line| line.3.last().copied()).collect()
}

/// Makes the next version, as soon as it may be.
fn make(
    flattening: &mut Flattening,
    zone: &Arc<Zone>,
    given: &[Given],
    (serial, now): (u32, &mut Instant),
) -> Arc<Flat> {
    loop {
        match flattening.step(zone, given, PACE, *now) {
            Step::At(due) => *now = due,
            Step::Make(draft) => {
                let flat = flattening.make(draft, serial, *now, (0, LIMITS));
                return Arc::clone(flat.unwrap());
            }
            Step::Current => panic!("nothing has changed"),
        }
    }
}

const LIVE: &str = "www LUA A \"f()\"\nwww A 192.0.2.99\nwww TXT x\n*.apps LUA A \"g()\"\n\
    alias LUA CNAME \"h()\"\nlib LUA LUA \"x = 1\"\n";

#[test]
fn live_sets_become_plain_records_and_programs_go() {
    let (mut now, mut flattening) = (start(), Flattening::default());
    let zone = zone(7, LIVE);
    let alias = |targets: &[&[u8]]| Given::Records {
        ttl: 5,
        rdata: targets.iter().map(|target| target.to_vec()).collect(),
        is_whole: false,
        is_undecided: false,
    };
    // The order is that of the zone.
    let of = |www: &[u8], apps: &[u8], targets: &[&[u8]]| -> Vec<Given> {
        let sets = zone.live_sets().iter();
        sets.map(|set| match set.owner.to_string().as_str() {
            "www.a." => given(www),
            "*.apps.a." => given(apps),
            _ => alias(targets),
        })
        .collect()
    };
    let first = of(&[99, 2, 1, 2], &[3], &[b"\x01x\0", b"\x01b\0"]);
    let flat = make(&mut flattening, &zone, &first, (10, &mut now));
    assert_eq!(flat.serial(), 10);
    assert_eq!(flat.n_partial(), 1);
    assert_eq!(addresses(&flat, "www.a."), [1, 2, 99], "each once");
    assert_eq!(addresses(&flat, "*.apps.a."), [3]);
    let all = lines(&flat);
    assert!(all.iter().all(|line| line.1 != Type::LUA));
    assert!(all.iter().any(|line| line.1 == Type::TXT));
    let target = |flat: &Flat| {
        let lines = lines(flat);
        let aliases: Vec<_> = lines
            .into_iter()
            .filter(|line| line.1 == Type::CNAME)
            .collect();
        assert_eq!(aliases.len(), 1, "an alias has one target");
        aliases[0].3.clone()
    };
    assert_eq!(target(&flat), b"\x01b\0");
    // It stays as long as it may.
    let second = of(&[99, 1], &[], &[b"\x01a\0", b"\x01b\0"]);
    let flat = make(&mut flattening, &zone, &second, (11, &mut now));
    assert_eq!(target(&flat), b"\x01b\0");
    assert_eq!(addresses(&flat, "www.a."), [1, 99]);
    assert_eq!(addresses(&flat, "*.apps.a."), [] as [u8; 0]);
    let third = of(&[99, 1], &[], &[b"\x01a\0"]);
    let flat = make(&mut flattening, &zone, &third, (12, &mut now));
    assert_eq!(target(&flat), b"\x01a\0");
    assert!(matches!(
        flattening.step(&zone, &third, PACE, now),
        Step::Current
    ));
}

#[test]
fn a_set_that_gives_nothing_keeps_its_records_and_an_undecided_one_for_a_while() {
    let (mut now, mut flattening) = (start(), Flattening::default());
    let zone = zone(7, "w LUA A \"f()\"\nx LUA A \"g()\"\n");
    let begun = now;
    let step = flattening.step(&zone, &[given(&[1]), undecided(&[1, 2])], PACE, now);
    let Step::At(due) = step else {
        panic!("{step:?}");
    };
    assert_eq!(due, begun + UNDECIDED);
    let both = [given(&[1]), undecided(&[1, 2])];
    let flat = make(&mut flattening, &zone, &both, (10, &mut now));
    assert_eq!(now, begun + UNDECIDED, "it waits, but not for ever");
    assert_eq!(addresses(&flat, "x.a."), [1, 2]);
    let flat = make(
        &mut flattening,
        &zone,
        &[given(&[2]), given(&[2])],
        (11, &mut now),
    );
    assert_eq!(addresses(&flat, "x.a."), [2]);
    now += Duration::from_secs(60);
    let before = now;
    // healthd has restarted: the known set stays, and the other set moves at once.
    let flat = make(
        &mut flattening,
        &zone,
        &[given(&[1]), undecided(&[1, 2])],
        (12, &mut now),
    );
    assert_eq!((addresses(&flat, "w.a."), now), (vec![1], before));
    assert_eq!(addresses(&flat, "x.a."), [2]);
    let broken = [given(&[3]), Given::Nothing];
    now += Duration::from_secs(60);
    let flat = make(&mut flattening, &zone, &broken, (13, &mut now));
    assert_eq!(
        addresses(&flat, "x.a."),
        [2],
        "a defect keeps the records before"
    );
}

/// A secondary: its version, and the records that it has put together from differences.
struct Secondary {
    serial: u32,
    lines: BTreeSet<Line>,
}

impl Secondary {
    fn of(flat: &Flat) -> Self {
        Self {
            serial: flat.serial(),
            lines: lines(flat),
        }
    }

    fn follow(&mut self, history: &History) -> bool {
        let Some(changes) = history.since(self.serial) else {
            return false;
        };
        for change in changes {
            assert_eq!(change.from.serial(), self.serial);
            for record in &change.removed {
                let line = (
                    record.owner.to_lowercase(),
                    record.rtype,
                    record.ttl,
                    record.rdata.to_vec(),
                );
                assert!(self.lines.remove(&line), "{line:?} was not there");
            }
            for record in &change.added {
                let line = (
                    record.owner.to_lowercase(),
                    record.rtype,
                    record.ttl,
                    record.rdata.to_vec(),
                );
                assert!(self.lines.insert(line.clone()), "{line:?} was there");
            }
            self.serial = change.to.serial();
        }
        true
    }
}

#[test]
fn differences_lead_to_each_version_whatever_changes() {
    for seed in 0..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut now, mut flattening) = (start(), Flattening::default());
        let (mut serials, mut version) = (Serials::default(), 1);
        let mut current = zone(version, "w LUA A \"f()\"\n");
        let mut secondary: Option<Secondary> = None;
        for step in 0..30 {
            if random(4) == 0 {
                // The same records may be plain in one version, and of a live set in the next.
                let live = ["w LUA A \"f()\"\n", "w LUA A \"g()\"\nw A 192.0.2.1\n", ""];
                let plain = ["w A 192.0.2.1\nw A 192.0.2.2\n", "", "x TXT y\n"];
                let mut text = live[usize::try_from(random(3)).unwrap()].to_owned();
                if !text.contains('w') || !text.contains("A 192") {
                    text += plain[usize::try_from(random(3)).unwrap()];
                }
                version += u32::try_from(random(3)).unwrap();
                current = zone(version, &text);
            }
            let sets = current.live_sets().iter();
            let mut of_set = |_| {
                let addresses: Vec<u8> = (1..5).filter(|_| random(2) == 0).collect();
                match random(8) {
                    0 => Given::Nothing,
                    1 => undecided(&addresses),
                    _ => given(&addresses),
                }
            };
            let all: Vec<Given> = sets.map(&mut of_set).collect();
            now += Duration::from_secs(random(10));
            let made = match flattening.step(&current, &all, PACE, now) {
                Step::Make(draft) => {
                    let serial = serials.next(current.soa().serial);
                    serials.take(serial);
                    flattening.make(draft, serial, now, (0, LIMITS)).cloned()
                }
                Step::Current | Step::At(_) => None,
            };
            let Some(flat) = made else {
                continue;
            };
            let way = format!("seed {seed}, step {step}");
            match &mut secondary {
                None => secondary = Some(Secondary::of(&flat)),
                Some(secondary) => {
                    assert!(secondary.follow(flat.history()), "{way}");
                    assert_eq!(secondary.serial, flat.serial(), "{way}");
                    assert_eq!(secondary.lines, lines(&flat), "{way}");
                }
            }
        }
    }
}

use crate::Serials;

#[test]
fn a_server_that_comes_and_goes_is_bounded_and_delays_others_little() {
    for per_minute in [2, 7, 60] {
        let pace = Pace { per_minute, ..PACE };
        let (begun, mut flattening) = (start(), Flattening::default());
        let zone = zone(7, "w LUA A \"f()\"\n");
        let (mut now, mut times, mut is_up) = (begun, Vec::new(), false);
        // It changes every tenth of a second for five minutes.
        while now < begun + Duration::from_mins(5) {
            is_up = !is_up;
            let given = [given(if is_up { &[1, 2] } else { &[2] })];
            if let Step::Make(draft) = flattening.step(&zone, &given, pace, now) {
                flattening.make(draft, 1, now, (0, LIMITS)).unwrap();
                times.push(now);
            }
            now += Duration::from_millis(100);
        }
        for (number, at) in times.iter().enumerate() {
            let until = *at + MINUTE;
            let n = times[number..].iter().filter(|time| **time < until).count();
            assert!(n <= per_minute, "{n} in a minute of {per_minute}");
        }
        let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
        let (shortest, longest) = (pauses.clone().min().unwrap(), pauses.max().unwrap());
        assert!(shortest >= PACE.interval, "{shortest:?}");
        let spread = MINUTE / u32::try_from(per_minute.div_ceil(2)).unwrap();
        let slack = Duration::from_millis(300);
        assert!(longest <= spread + slack, "{longest:?} of {per_minute}");
    }
}

#[test]
fn a_change_after_a_quiet_time_comes_at_once() {
    let (mut now, mut flattening) = (start(), Flattening::default());
    let zone = zone(7, "w LUA A \"f()\"\n");
    make(&mut flattening, &zone, &[given(&[1, 2])], (1, &mut now));
    now += PACE.interval;
    let before = now;
    make(&mut flattening, &zone, &[given(&[2])], (2, &mut now));
    assert_eq!(now, before);
    make(&mut flattening, &zone, &[given(&[1, 2])], (3, &mut now));
    assert_eq!(
        now,
        before + PACE.interval,
        "the next waits for the interval"
    );
    let history = flattening.flat().unwrap().history();
    assert_eq!(history.since(1).map(|changes| changes.len()), Some(2));
}

#[test]
fn a_history_of_none_leaves_no_way() {
    let (now, mut flattening) = (start(), Flattening::default());
    let zone = zone(7, "w LUA A \"f()\"\n");
    let none = Limits {
        versions: 0,
        octets: 1 << 20,
    };
    for (serial, address) in [(1, 1), (2, 2)] {
        let now = now + Duration::from_secs(serial.into());
        let Step::Make(draft) = flattening.step(&zone, &[given(&[address])], PACE, now) else {
            panic!();
        };
        let flat = flattening.make(draft, serial, now, (0, none)).unwrap();
        assert!(flat.history().is_empty());
    }
}

#[test]
fn a_version_that_was_kept_comes_back_and_the_next_one_follows_it() {
    let (mut now, zone) = (start(), zone(7, LIVE));
    let of = |www: &[u8]| -> Vec<Given> {
        let sets = zone.live_sets().iter();
        sets.map(|set| match set.owner.to_string().as_str() {
            "www.a." => given(www),
            "*.apps.a." => given(&[3]),
            _ => Given::Nothing,
        })
        .collect()
    };
    let mut before = Flattening::default();
    make(&mut before, &zone, &of(&[1, 2, 99]), (10, &mut now));
    let last = make(&mut before, &zone, &of(&[2, 99]), (11, &mut now));
    let octets = last.kept().unwrap().encode(zone.apex());
    let kept = || History::decode(&octets, zone.apex()).unwrap();
    let flat = Flat::restored(&zone, kept()).unwrap();
    assert_eq!((flat.serial(), lines(&flat)), (11, lines(&last)));
    assert_eq!(flat.history(), last.history());
    // Of another version of the zone it is none.
    let other = self::zone(8, LIVE);
    assert!(Flat::restored(&other, kept()).is_none());
    let other = self::zone(7, &LIVE.replace("f()", "e()"));
    assert!(Flat::restored(&other, kept()).is_none());
    assert!(Flat::restored(&zone, History::default()).is_none());

    // The same records are the same version, and a change follows it.
    let mut behind = Flattening::default();
    behind.begin_with(flat);
    let waiting = [undecided(&[7]), undecided(&[8]), Given::Nothing];
    let step = behind.step(&zone, &waiting, PACE, now);
    assert!(matches!(step, Step::At(due) if due > now), "{step:?}");
    let step = behind.step(&zone, &of(&[2, 99]), PACE, now);
    assert!(matches!(step, Step::Current), "{step:?}");
    let next = make(&mut behind, &zone, &of(&[4, 99]), (40, &mut now));
    for serial in [10, 11] {
        let changes = next.history().since(serial).unwrap();
        assert_eq!(changes.last().unwrap().to.serial(), 40, "{serial}");
    }
}
