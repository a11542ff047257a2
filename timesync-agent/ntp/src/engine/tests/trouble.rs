//! Servers that are of no use.

use super::*;

/// Not synchronised.
fn without_time(answer: &mut [u8]) {
    answer[0] |= 0xC0;
}

/// A kiss-o'-death that says RATE.
fn kiss(answer: &mut [u8]) {
    without_time(answer);
    answer[1] = 0;
    answer[12..16].copy_from_slice(b"RATE");
}

/// A kiss-o'-death that says DENY.
fn deny(answer: &mut [u8]) {
    without_time(answer);
    answer[1] = 0;
    answer[12..16].copy_from_slice(b"DENY");
}

/// Five seconds of root dispersion.
fn far(answer: &mut [u8]) {
    answer[8..12].copy_from_slice(&[0, 5, 0, 0]);
}

/// A name that stands for two servers, of which the first is of no use.
fn world(source: SourceSettings, spoil: fn(&mut [u8])) -> World {
    let settings = Settings {
        sources: vec![source],
        ..Settings::default()
    };
    let mut world = World::new(&settings, 0.0)
        .with("192.0.2.1", Some(0.0))
        .with("192.0.2.2", Some(0.0));
    let both = vec![address("192.0.2.1"), address("192.0.2.2")];
    world.spoils.insert(both[0], spoil);
    world.names.insert("ntp.example.org".to_owned(), both);
    world
}

fn addresses(world: &World) -> Vec<IpAddr> {
    let sources = world.view().sources;
    sources.iter().filter_map(|source| source.address).collect()
}

#[test]
fn a_server_of_a_name_that_answers_and_is_of_no_use_is_replaced() {
    let spoils: [fn(&mut [u8]); 3] = [without_time, kiss, far];
    for (place, spoil) in spoils.into_iter().enumerate() {
        let mut world = world(source("ntp.example.org"), spoil);
        world.run(1);
        assert_eq!(addresses(&world), [address("192.0.2.1")]);
        world.run(1200);
        assert_eq!(addresses(&world), [address("192.0.2.2")], "{place}");
        assert_eq!(world.view().state, ClockState::Locked, "{place}");
    }
}

#[test]
fn a_pool_does_not_count_who_has_no_time() {
    let pool = SourceSettings {
        pool: Some(1),
        ..source("ntp.example.org")
    };
    let mut world = world(pool, without_time);
    world.run(30);
    assert_eq!(addresses(&world), [address("192.0.2.2")]);
}

#[test]
fn who_is_offline_by_itself_is_so_without_a_way_and_not_when_it_refuses() {
    let mut source = source("192.0.2.1");
    source.options.auto_offline = true;
    let settings = Settings {
        sources: vec![source],
        ..Settings::default()
    };
    for is_refused in [true, false] {
        let mut world = World::new(&settings, 0.0).with("192.0.2.1", None);
        world.run(0);
        let socket = *world.open.keys().next().expect("a request is out");
        let input = match is_refused {
            true => Input::Refused { socket },
            false => Input::Failed { socket },
        };
        world.engine.handle(input, world.now());
        world.servers.insert(address("192.0.2.1"), Some(0));
        world.run(120);
        let source = &world.view().sources[0];
        assert_eq!(source.online, is_refused);
        assert_eq!(source.reach != 0, is_refused);
    }
}

#[test]
fn a_kiss_is_told_once_until_there_is_another_answer() {
    let mut world = World::new(&settings(&["192.0.2.1"]), 0.0).with("192.0.2.1", Some(0.0));
    let told = |world: &mut World| {
        let records = std::mem::take(&mut world.records);
        let codes = records.into_iter().filter_map(|record| match record {
            Record::KissOfDeath { code, .. } => Some(code),
            _ => None,
        });
        codes.collect::<Vec<_>>()
    };
    let server = address("192.0.2.1");
    for _ in 0..2 {
        world.spoils.insert(server, deny);
        world.run(600);
        assert_eq!(told(&mut world), [*b"DENY"]);
        world.spoils.insert(server, kiss);
        world.run(600);
        assert_eq!(told(&mut world), [*b"RATE"]);
        world.spoils.clear();
        world.run(600);
        assert!(told(&mut world).is_empty());
    }
}

#[test]
fn requests_to_several_servers_keep_their_distance() {
    let hosts: Vec<String> = (1..=8).map(|host| format!("192.0.2.{host}")).collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    for (minpoll, apart) in [(4, 0.2), (0, 0.125), (-2, 1.0 / 32.0)] {
        let mut settings = settings(&names);
        for source in &mut settings.sources {
            (source.options.minpoll, source.options.maxpoll) = (minpoll, minpoll);
        }
        let mut world = World::new(&settings, 0.0);
        for host in &hosts {
            world = world.with(host, Some(0.0));
        }
        world.run(100);
        assert!(world.requests.len() > 8 * 6, "{minpoll}");
        for pair in world.requests.windows(2) {
            let ((before, one), (after, other)) = (pair[0], pair[1]);
            let pause = Span(after - before).seconds();
            assert!(
                one == other || pause >= apart - 1e-9,
                "{pause} s between {one} and {other} at polls of {minpoll}"
            );
        }
        let asked = |host: &String| {
            let host = address(host);
            world.requests.iter().filter(|(_, to)| *to == host).count()
        };
        let counts: Vec<usize> = hosts.iter().map(asked).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(most <= least.map(|least| least + 2).as_ref(), "{counts:?}");
    }
}
