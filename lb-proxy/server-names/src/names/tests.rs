use random::Random;

use super::*;
use crate::message::Failure;

const SETTINGS: Settings = Settings {
    timeout_resolve: Duration::from_secs(1),
    hold_valid: Duration::from_secs(10),
    hold_nx: Duration::from_secs(30),
    hold_obsolete: Duration::ZERO,
};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn host(server: &str, host: &str, most: usize) -> Entry {
    Entry {
        backend: "b".into(),
        server: server.into(),
        source: Source::Host(name(host), 80),
        most,
        families: Families::Prefer(Family::V6),
    }
}

fn service(server: &str, most: usize) -> Entry {
    Entry {
        source: Source::Service(name("_http._tcp.web.example")),
        families: Families::Only(Family::V4),
        ..host(server, "unused.example", most)
    }
}

/// The records of a zone: names with addresses, and the places of the service.
#[derive(Clone, Default)]
struct Zone {
    addresses: BTreeMap<Name, Vec<IpAddr>>,
    places: Vec<Place>,
}

impl Zone {
    fn with(mut self, host: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        self.addresses.insert(name(host), addresses.collect());
        self
    }

    fn place(mut self, priority: u16, weight: u16, port: u16, target: &str) -> Self {
        self.places.push(Place {
            priority,
            weight,
            port,
            target: name(target),
        });
        self
    }

    fn answer(&self, question: &Question) -> Outcome {
        let known = self.addresses.get(&question.name);
        let of = |is_v4: bool| {
            let all = known.into_iter().flatten();
            let of_family = all.filter(move |ip| ip.is_ipv4() == is_v4);
            of_family.copied().map(Record::Address).collect()
        };
        let records: BTreeSet<Record> = match question.kind {
            Kind::V4 => of(true),
            Kind::V6 => of(false),
            Kind::Service => self.places.iter().cloned().map(Record::Place).collect(),
        };
        match records.is_empty() {
            false => Outcome::Found {
                records,
                ttl: Duration::from_secs(5),
            },
            true => Outcome::Denied {
                exists: known.is_some() || question.kind == Kind::Service,
                ttl: None,
            },
        }
    }
}

/// Answers everything that is due.
fn answer(names: &mut Names, zone: &Zone, now: Instant) {
    names.tick(now);
    for _ in 0..9 {
        for question in names.due(now) {
            names.take(&question, zone.answer(&question), now);
        }
    }
}

/// The servers of an entry: address, weight of 100, and whether it is a backup.
fn servers(names: &Names, server: &str) -> Vec<String> {
    let servers = names.servers("b", server).iter();
    servers
        .map(|one| {
            let backup = if one.is_backup { " backup" } else { "" };
            format!("{} {}{backup}", one.address, one.share.of(100))
        })
        .collect()
}

#[test]
fn a_server_has_one_address_and_keeps_it_while_it_is_there() {
    let start = start();
    let mut names = Names::new(SETTINGS, vec![host("s", "web.example", 1)], start);
    assert!(!names.is_settled());
    let zone = Zone::default().with("web.example", &["192.0.2.5", "192.0.2.7"]);
    answer(&mut names, &zone, start);
    assert!(names.is_settled());
    assert_eq!(servers(&names, "s"), ["192.0.2.5:80 100"]);
    let mut now = start;
    for (addresses, expected) in [
        (&["192.0.2.1", "192.0.2.5"][..], "192.0.2.5:80 100"),
        (&["192.0.2.1", "192.0.2.2"], "192.0.2.1:80 100"),
        (&["192.0.2.2", "192.0.2.1"], "192.0.2.1:80 100"),
    ] {
        now += Duration::from_secs(11);
        let zone = Zone::default().with("web.example", addresses);
        answer(&mut names, &zone, now);
        assert_eq!(servers(&names, "s"), [expected]);
    }
}

#[test]
fn the_preferred_family_counts_alone_if_there_is_one() {
    let start = start();
    let both = Zone::default().with("web.example", &["192.0.2.1", "2001:db8::1"]);
    let four = Zone::default().with("web.example", &["192.0.2.1"]);
    let (v4, v6) = ("192.0.2.1:80 100", "[2001:db8::1]:80 100");
    for (families, zone, expected) in [
        (Families::Prefer(Family::V6), &both, &[v6][..]),
        (Families::Prefer(Family::V4), &both, &[v4]),
        (Families::Prefer(Family::V6), &four, &[v4]),
        (Families::Only(Family::V6), &four, &[]),
        (Families::Only(Family::V4), &both, &[v4]),
    ] {
        let entry = Entry {
            families,
            ..host("s", "web.example", 9)
        };
        let mut names = Names::new(SETTINGS, vec![entry], start);
        answer(&mut names, zone, start);
        assert_eq!(servers(&names, "s"), expected, "{families:?}");
    }
    // IPv4 waits until it is known that there is no IPv6.
    let mut names = Names::new(SETTINGS, vec![host("s", "web.example", 9)], start);
    let due = names.due(start);
    let [four_asked, six_asked] = due.as_slice() else {
        panic!("{due:?}");
    };
    assert_eq!((four_asked.kind, six_asked.kind), (Kind::V4, Kind::V6));
    assert!(!names.take(four_asked, four.answer(four_asked), start));
    let silent = Outcome::Failed(Failure::Silent);
    assert!(names.take(six_asked, silent, start));
    assert_eq!(servers(&names, "s"), [v4]);
}

#[test]
fn servers_of_a_backend_share_no_address() {
    let start = start();
    let entries = vec![
        host("a", "web.example", 1),
        host("b", "web.example", 1),
        host("c", "web.example", 1),
        Entry {
            backend: "other".into(),
            ..host("a", "web.example", 1)
        },
    ];
    let mut names = Names::new(SETTINGS, entries, start);
    let zone = Zone::default().with("web.example", &["192.0.2.1", "192.0.2.2"]);
    answer(&mut names, &zone, start);
    assert_eq!(servers(&names, "a"), ["192.0.2.1:80 100"]);
    assert_eq!(servers(&names, "b"), ["192.0.2.2:80 100"]);
    assert_eq!(servers(&names, "c"), [""; 0]);
    assert_eq!(names.servers("other", "a").len(), 1);
    // The one whose address goes takes the new one, and the other keeps its own.
    let now = start + Duration::from_secs(11);
    let zone = Zone::default().with("web.example", &["192.0.2.2", "192.0.2.3"]);
    answer(&mut names, &zone, now);
    assert_eq!(servers(&names, "a"), ["192.0.2.3:80 100"]);
    assert_eq!(servers(&names, "b"), ["192.0.2.2:80 100"]);
}

#[test]
fn places_of_a_service_have_ports_weights_and_priorities() {
    let start = start();
    let mut names = Names::new(SETTINGS, vec![service("s", 9)], start);
    let zone = Zone::default()
        .with("a.example", &["192.0.2.3"])
        .with("b.example", &["192.0.2.2"])
        .with("c.example", &["192.0.2.1"])
        .place(10, 20, 8080, "a.example")
        .place(10, 10, 8081, "b.example")
        .place(10, 0, 8082, "b.example")
        .place(20, 5, 8083, "c.example")
        .place(30, 5, 8080, "a.example")
        .place(10, 7, 8084, "gone.example");
    answer(&mut names, &zone, start);
    let expected = [
        "192.0.2.2:8081 50",
        "192.0.2.2:8082 1",
        "192.0.2.3:8080 100",
        "192.0.2.1:8083 100 backup",
    ];
    assert_eq!(servers(&names, "s"), expected);
    let report = names.reports(start);
    let [report] = report.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((report.servers, report.state), (4, State::Found));
    // With fewer servers, the best priorities are chosen.
    names.adopt(SETTINGS, vec![service("s", 2)], start);
    assert_eq!(servers(&names, "s"), expected[..2]);
    // And a name of which nothing is known is asked for.
    names.adopt(
        SETTINGS,
        vec![service("s", 9), host("t", "t.example", 1)],
        start,
    );
    assert_eq!(servers(&names, "s"), expected);
    assert_eq!(names.due(start).len(), 2);
}

#[test]
fn records_without_weights_share_alike() {
    let start = start();
    let mut names = Names::new(SETTINGS, vec![service("s", 9)], start);
    let zone = Zone::default()
        .with("a.example", &["192.0.2.1"])
        .place(0, 0, 80, "a.example")
        .place(0, 0, 81, "a.example");
    answer(&mut names, &zone, start);
    let expected = ["192.0.2.1:80 100", "192.0.2.1:81 100"];
    assert_eq!(servers(&names, "s"), expected);
    let all: Vec<u16> = names
        .servers("b", "s")
        .iter()
        .map(|one| one.share.of(0))
        .collect();
    assert_eq!(all, [0, 0], "an operator's zero stays");
}

#[test]
fn queries_under_way_are_bounded() {
    let start = start();
    let entries = (0..100).map(|n| host(&format!("s{n}"), &format!("h{n}.example"), 1));
    let mut names = Names::new(SETTINGS, entries.collect(), start);
    let first = names.due(start);
    assert_eq!(first.len(), MOST_IN_FLIGHT);
    assert!(names.due(start).is_empty());
    assert_eq!(
        names.deadline(),
        None,
        "there is nothing to do until one is answered"
    );
    let question = first.first().unwrap();
    names.take(question, Outcome::Failed(Failure::Silent), start);
    assert_eq!(names.due(start).len(), 1);
}

/// Any answers in any order: servers are those of the zone once it is quiet, and never more than may be.
#[test]
fn any_history_ends_with_the_servers_of_the_zone() {
    let seed = std::env::var("SIM_SEED")
        .ok()
        .and_then(|it| it.parse().ok());
    let seeds = seed.map_or(0..200_u8, |seed| seed..seed + 1);
    for seed in seeds {
        let mut random = Random::new([seed; 16]);
        let start = start();
        let entries = vec![
            service("s", 3),
            host("a", "a.example", 1),
            host("b", "a.example", 2),
        ];
        let mut names = Names::new(SETTINGS, entries, start);
        let mut now = start;
        let mut zone = Zone::default();
        for step in 0..200 {
            let said = format!("seed {seed} step {step}");
            now += Duration::from_millis(random.bits() % 3000);
            if random.bits().is_multiple_of(4) {
                zone = any_zone(&mut random);
            }
            names.tick(now);
            let before = all(&names);
            let mut is_silent = names.is_settled();
            for question in names.due(now) {
                let outcome = match random.bits() % 3 {
                    0 => Outcome::Failed(Failure::Silent),
                    _ => zone.answer(&question),
                };
                is_silent &= matches!(outcome, Outcome::Failed(_));
                names.take(&question, outcome, now);
            }
            let after = all(&names);
            if is_silent {
                assert_eq!(before, after, "silence changes nothing: {said}");
            }
            assert!(names.servers("b", "s").len() <= 3, "{said}");
            let unique: BTreeSet<_> = after.iter().collect();
            assert_eq!(unique.len(), after.len(), "an address is used once: {said}");
            assert!(names.deadline().is_some(), "it is asked again: {said}");
        }
        for _ in 0..50 {
            now += Duration::from_secs(2);
            answer(&mut names, &zone, now);
        }
        let mut fresh = Names::new(SETTINGS, names.entries.clone(), now);
        answer(&mut fresh, &zone, now);
        // Which of `a` and `b` has an address is a matter of history.
        for servers in [&["s"][..], &["a", "b"]] {
            let n_servers = |names: &Names| -> usize {
                let servers = servers.iter();
                servers.map(|server| names.servers("b", server).len()).sum()
            };
            let (known, expected) = (n_servers(&names), n_servers(&fresh));
            assert_eq!(known, expected, "{servers:?}, seed {seed}");
        }
    }
}

fn any_zone(random: &mut Random) -> Zone {
    let mut zone = Zone::default();
    for host in ["a.example", "b.example"] {
        let addresses =
            (0..random.bits() % 4).map(|n| format!("192.0.2.{}", n + random.bits() % 4));
        let addresses: Vec<String> = addresses.collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        zone = zone.with(host, &addresses);
    }
    for _ in 0..random.bits() % 4 {
        let mut word = || u16::try_from(random.bits() % 3).unwrap();
        let (priority, weight, port) = (word(), word(), 8000 + word());
        let target = ["a.example", "b.example", "c.example"][usize::from(word())];
        zone = zone.place(priority, weight, port, target);
    }
    zone
}

fn all(names: &Names) -> Vec<SocketAddr> {
    names
        .found
        .iter()
        .flatten()
        .map(|one| one.address)
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "any time will do, and there is no other way to one"
)]
fn start() -> Instant {
    Instant::now()
}
