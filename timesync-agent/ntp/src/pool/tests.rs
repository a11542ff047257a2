use super::*;
use time_model::settings::{DEFAULT_POOL_SOURCES, Family};

const NOW: RawTime = RawTime(5000 * SECOND);

fn server(host: &str) -> SourceSettings {
    SourceSettings {
        host: Host::parse(host),
        pool: None,
        is_peer: false,
        options: SourceOptions::default(),
    }
}

fn pool_of(host: &str, wanted: usize) -> SourceSettings {
    SourceSettings {
        pool: Some(wanted),
        ..server(host)
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn addresses(lasts: &[u8]) -> Vec<IpAddr> {
    lasts.iter().map(|last| address(*last)).collect()
}

/// What the pool says, in short: `?name`, `+4` for an address that ends so, `-` for one that is let go.
fn changes(pool: &mut Pool, known: &mut Vec<(SourceId, IpAddr)>) -> String {
    let mut text = Vec::new();
    while let Some(change) = pool.poll_change() {
        match change {
            Change::Resolve(name) => text.push(format!("?{name}")),
            Change::Add { id, address, .. } => {
                known.push((id, address));
                text.push(format!("+{}", last(address)));
            }
            Change::Remove(id) => {
                let place = known.iter().position(|(other, _)| *other == id).unwrap();
                let (_, address) = known.remove(place);
                text.push(format!("-{}", last(address)));
            }
            Change::Replaced { old, new, .. } => {
                text.push(format!("{}>{}", last(old), last(new)));
            }
        }
    }
    text.join(" ")
}

fn last(address: IpAddr) -> String {
    address.to_string().rsplit('.').next().unwrap().to_owned()
}

fn id_of(known: &[(SourceId, IpAddr)], last: u8) -> SourceId {
    known
        .iter()
        .find(|(_, other)| *other == address(last))
        .unwrap()
        .0
}

#[test]
fn addresses_are_asked_at_once_and_names_when_they_are_resolved() {
    let sources = [server("192.0.2.1"), server("ntp.example.org")];
    let mut pool = Pool::new(&sources, NOW);
    let known = &mut Vec::new();
    assert_eq!(changes(&mut pool, known), "+1");
    assert_eq!((pool.n_unresolved(), pool.poll_timeout()), (1, Some(NOW)));
    pool.handle_timeout(NOW);
    assert_eq!(changes(&mut pool, known), "?ntp.example.org");
    assert_eq!(pool.poll_timeout(), None, "asked once");
    // Nobody is asked twice, whatever names stand for the address.
    pool.resolved("ntp.example.org", &addresses(&[1, 2, 3]), NOW);
    assert_eq!(changes(&mut pool, known), "+2");
    assert_eq!((pool.n_unresolved(), pool.poll_timeout()), (0, None));
    pool.resolved("ntp.example.org", &addresses(&[4]), NOW);
    assert_eq!(changes(&mut pool, known), "", "nobody has asked");
}

#[test]
fn names_that_are_not_resolved_are_tried_again_more_and_more_seldom() {
    let mut pool = Pool::new(&[server("ntp.example.org")], NOW);
    let mut now = NOW;
    let mut waits = Vec::new();
    for _ in 0..10 {
        pool.handle_timeout(now);
        pool.resolved("ntp.example.org", &[], now);
        let next = pool.poll_timeout().unwrap();
        waits.push((next - now).0 / SECOND);
        pool.handle_timeout(next - Span(1));
        assert_eq!(pool.poll_timeout(), Some(next), "not before its time");
        now = next;
    }
    assert_eq!(waits, [28, 56, 112, 224, 448, 896, 1792, 3584, 3584, 3584]);
}

#[test]
fn a_pool_keeps_the_first_that_answer() {
    let mut pool = Pool::new(&[pool_of("pool.example.org", DEFAULT_POOL_SOURCES)], NOW);
    let known = &mut Vec::new();
    pool.handle_timeout(NOW);
    changes(&mut pool, known);
    let all: Vec<u8> = (1..=20).collect();
    pool.resolved("pool.example.org", &addresses(&all), NOW);
    assert_eq!(changes(&mut pool, known), "+1 +2 +3 +4 +5 +6 +7 +8");
    for last in [3, 8, 1] {
        pool.confirm(id_of(known, last));
        assert_eq!(changes(&mut pool, known), "");
    }
    pool.confirm(id_of(known, 4));
    assert_eq!(changes(&mut pool, known), "-2 -5 -6 -7");
    assert_eq!(pool.ids().count(), 4);
}

#[test]
fn a_pool_with_too_few_addresses_looks_for_more() {
    let mut pool = Pool::new(&[pool_of("pool.example.org", 3)], NOW);
    let known = &mut Vec::new();
    pool.handle_timeout(NOW);
    pool.resolved("pool.example.org", &addresses(&[1]), NOW);
    assert_eq!(changes(&mut pool, known), "?pool.example.org +1");
    pool.confirm(id_of(known, 1));
    let next = pool.poll_timeout().unwrap();
    assert_eq!((next - NOW).0, 28 * SECOND);
    pool.handle_timeout(next);
    pool.resolved("pool.example.org", &addresses(&[1, 2, 9]), next);
    assert_eq!(changes(&mut pool, known), "?pool.example.org +2 +9");
    assert_eq!(pool.poll_timeout(), None);
    assert_eq!(pool.n_unresolved(), 0);
}

#[test]
fn a_bad_server_is_replaced_but_not_too_often() {
    let mut pool = Pool::new(&[pool_of("pool.example.org", 2), server("192.0.2.50")], NOW);
    let known = &mut Vec::new();
    pool.handle_timeout(NOW);
    pool.resolved("pool.example.org", &addresses(&[1, 2]), NOW);
    changes(&mut pool, known);
    pool.confirm(id_of(known, 1));
    pool.confirm(id_of(known, 2));
    pool.complain(id_of(known, 50), NOW);
    assert_eq!(pool.poll_timeout(), None, "an address stands for itself");
    pool.complain(id_of(known, 1), NOW);
    pool.complain(id_of(known, 2), NOW);
    pool.handle_timeout(NOW);
    assert_eq!(changes(&mut pool, known), "?pool.example.org");
    pool.resolved("pool.example.org", &addresses(&[2, 1, 50, 7]), NOW);
    assert_eq!(changes(&mut pool, known), "-1 +7 1>7");
    for (minutes, expected) in [(10, ""), (29, ""), (30, "?pool.example.org")] {
        let now = NOW + Span(minutes * 60 * SECOND);
        pool.complain(id_of(known, 2), now);
        pool.handle_timeout(now);
        assert_eq!(changes(&mut pool, known), expected, "after {minutes} min");
    }
    // The name stands for nobody else: better a bad server than none.
    pool.resolved("pool.example.org", &addresses(&[2, 7]), NOW);
    assert_eq!(changes(&mut pool, known), "");
    assert_eq!(pool.ids().count(), 3);
}

#[test]
fn only_the_family_that_is_wanted_is_asked() {
    let mut settings = server("ntp.example.org");
    settings.options.family = Some(Family::V4);
    let mut pool = Pool::new(&[settings], NOW);
    pool.handle_timeout(NOW);
    let found = ["2001:db8::1".parse().unwrap(), address(4)];
    pool.resolved("ntp.example.org", &found, NOW);
    assert_eq!(changes(&mut pool, &mut Vec::new()), "?ntp.example.org +4");
}

#[test]
fn a_reload_leaves_alone_what_has_not_changed() {
    let before = [
        server("192.0.2.1"),
        server("192.0.2.2"),
        server("ntp.example.org"),
    ];
    let mut pool = Pool::new(&before, NOW);
    let known = &mut Vec::new();
    pool.handle_timeout(NOW);
    pool.resolved("ntp.example.org", &addresses(&[3]), NOW);
    changes(&mut pool, known);
    let mut other = server("192.0.2.2");
    other.options.iburst = true;
    let after = [
        server("ntp.example.org"),
        server("192.0.2.4"),
        other,
        server("192.0.2.1"),
    ];
    pool.configure(&after, NOW);
    assert_eq!(changes(&mut pool, known), "-2 +4 +2");
    let order: Vec<String> = pool
        .ids()
        .map(|id| last(known.iter().find(|(other, _)| *other == id).unwrap().1))
        .collect();
    assert_eq!(
        order,
        ["3", "4", "2", "1"],
        "in the order of the configuration"
    );
}

#[test]
fn a_refresh_looks_every_name_up_again() {
    let mut pool = Pool::new(&[server("ntp.example.org"), server("192.0.2.1")], NOW);
    let known = &mut Vec::new();
    pool.handle_timeout(NOW);
    pool.resolved("ntp.example.org", &addresses(&[3]), NOW);
    changes(&mut pool, known);
    pool.refresh(NOW);
    pool.handle_timeout(NOW);
    assert_eq!(changes(&mut pool, known), "?ntp.example.org");
    pool.resolved("ntp.example.org", &addresses(&[3]), NOW);
    assert_eq!(changes(&mut pool, known), "", "it stands for the same");
    pool.refresh(NOW);
    pool.handle_timeout(NOW);
    pool.resolved("ntp.example.org", &addresses(&[5]), NOW);
    assert_eq!(changes(&mut pool, known), "?ntp.example.org -3 +5 3>5");
}

#[test]
fn hosts_are_added_and_deleted_by_address() {
    let mut known = Vec::new();
    let mut pool = Pool::new(&[server("192.0.2.1"), pool_of("pool.example.org", 2)], NOW);
    pool.handle_timeout(NOW);
    pool.resolved("pool.example.org", &addresses(&[3, 4]), NOW);
    assert_eq!(changes(&mut pool, &mut known), "+1 ?pool.example.org +3 +4");
    let another_port = SourceSettings {
        options: SourceOptions {
            port: 124,
            ..SourceOptions::default()
        },
        ..server("192.0.2.4")
    };
    assert_eq!(
        pool.append(&another_port, NOW),
        Err(Refused::AlreadyPresent)
    );
    assert_eq!(pool.append(&server("192.0.2.7"), NOW), Ok(()));
    assert_eq!(pool.append(&server("ntp.example.org"), NOW), Ok(()));
    pool.handle_timeout(NOW);
    assert_eq!(changes(&mut pool, &mut known), "+7 ?ntp.example.org");
    // A pool has one less from here on, and then is none.
    assert!(pool.delete(address(3)));
    assert!(!pool.delete(address(3)));
    assert_eq!(changes(&mut pool, &mut known), "-3");
    assert_eq!(pool.settings()[1].pool, Some(1));
    assert!(pool.delete(address(4)) && pool.delete(address(1)));
    assert_eq!(changes(&mut pool, &mut known), "-4 -1");
    let left: Vec<String> = pool
        .settings()
        .iter()
        .map(|it| it.host.to_string())
        .collect();
    assert_eq!(left, ["192.0.2.7", "ntp.example.org"]);
    // What is left is what a reload with the same hosts leaves alone.
    let settings = pool.settings();
    pool.configure(&settings, NOW);
    assert_eq!(changes(&mut pool, &mut known), "");
    let many = |n: usize| server(&format!("h{n}.example.org"));
    let refused = (0..=MAX_SERVERS).find_map(|n| pool.append(&many(n), NOW).err());
    assert_eq!(refused, Some(Refused::TooMany));
}
