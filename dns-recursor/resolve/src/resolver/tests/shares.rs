//! One client, or one zone, that asks more than there is room for.

use super::*;

/// Room for so few questions that dead ones fill it within a second.
const ROOM: usize = 40;

fn origin(host: u8) -> Origin {
    Origin::of([10, 0, 0, host].into())
}

/// Everything but the site goes to an upstream that never answers for `dead.test`.
fn crowded() -> World {
    let table = || {
        Table::new([
            route(".", Mode::Recursive, &[1]),
            route("site.example", Mode::Authoritative, &[2]),
        ])
    };
    let mut world = World::new(1, table());
    world.settings.max_flights = ROOM;
    world.adopt(table());
    world.behave(1, |how| how.deaf_to = Some("dead.test"));
    world
}

/// One origin asks 150 dead names a second, another a new name five times a second; the answers of the other.
fn under_load(world: &mut World, greedy: u8, modest: u8, zone: &str) -> Vec<(String, Got)> {
    let mut asked = Vec::new();
    for n in 0..600 {
        world.ask_from(origin(greedy), &format!("n{n}.dead.test"));
        // By then there is no room.
        if n >= 100 && n % 30 == 0 {
            let name = format!("m{n}.{zone}");
            asked.push((world.ask_from(origin(modest), &name), name));
        }
        world.run_for(7);
    }
    world.run_for(5_000);
    let got = asked
        .into_iter()
        .map(|(client, name)| (name, world.got(client).unwrap().1));
    got.collect()
}

#[test]
fn a_client_that_asks_dead_names_takes_no_place_from_another() {
    for zone in ["site.example", "example", "dead-end.test"] {
        let mut world = crowded();
        let answers = under_load(&mut world, 1, 2, zone);
        assert!(answers.len() > 10);
        for (name, got) in answers {
            assert_eq!(got, good(&name));
        }
        assert!(world.resolver.counts().overload > 0, "there was room");
    }
}

#[test]
fn a_dead_zone_takes_no_place_from_others_behind_one_forwarder() {
    for zone in ["site.example", "example"] {
        let mut world = crowded();
        for (name, got) in under_load(&mut world, 1, 1, zone) {
            assert_eq!(got, good(&name));
        }
    }
}

#[test]
fn clients_that_ask_equally_much_have_equal_shares() {
    let mut world = crowded();
    for n in 0..100 {
        for host in 1..=4 {
            world.ask_from(origin(host), &format!("n{n}-{host}.dead.test"));
        }
        world.run_for(5);
    }
    let mut shares = [0_usize; 5];
    for (_, flight) in world.resolver.flights.iter() {
        let host = (1..=4).find(|host| flight.owner == Some(origin(*host)));
        shares[usize::from(host.unwrap())] += 1;
    }
    let each = ROOM / 4;
    assert!(
        shares[1..].iter().all(|n| n.abs_diff(each) <= 2),
        "{shares:?}"
    );
}

#[test]
fn one_client_waits_in_a_part_of_the_places_only() {
    let mut world = crowded();
    world.settings.max_clients = 40;
    let (settings, table) = (world.settings, Arc::clone(&world.resolver.table));
    let now = Instant::from_millis(world.now);
    world.resolver.reconfigure(settings, table, now);
    for _ in 0..100 {
        world.ask_from(origin(1), "same.dead.test");
    }
    assert_eq!(world.resolver.n_clients(), 10);
    let client = world.ask_from(origin(2), "www.site.example");
    world.run_for(100);
    assert_eq!(world.got(client).unwrap().1, good("www.site.example"));
}
