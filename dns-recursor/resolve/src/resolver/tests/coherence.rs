//! Zones that change, upstreams that were sick, and the wait of each route before a stale answer.

use super::*;

#[test]
fn an_upstream_that_is_back_says_since_when_it_was_sick() {
    let mut world = world(&[1]);
    assert_eq!(ask(&mut world, "a.example").1, good("a.example"));
    assert!(world.recovered.is_empty());
    let sick = world.now;
    world.behave(1, |how| how.presence = Presence::Silent);
    world.ask("b.example");
    world.run_for(20_000);
    assert!(world.recovered.is_empty(), "it is not back");
    let back = world.now;
    world.behave(1, |how| how.presence = Presence::Here);
    world.run_for(2_000);
    let [(time, zone, since)] = world.recovered.as_slice() else {
        panic!("{:?}", world.recovered);
    };
    assert!(*time >= back && zone.is_root());
    let since = since.as_millis();
    assert!((sick..back).contains(&since), "{sick} {since} {back}");
    // A doubt alone is no sickness; one soon after is the same one.
    world.behave(1, |how| how.presence = Presence::Silent);
    world.ask("c.example");
    world.run_for(20_000);
    world.behave(1, |how| how.presence = Presence::Here);
    world.run_for(2_000);
    assert_eq!(world.recovered.last().unwrap().2.as_millis(), since);
    world.run_for(120_000);
    world.behave(1, |how| how.presence = Presence::Silent);
    let later = world.now;
    world.ask("d.example");
    world.run_for(20_000);
    world.behave(1, |how| how.presence = Presence::Here);
    world.run_for(2_000);
    assert!(world.recovered.last().unwrap().2.as_millis() >= later);
}

#[test]
fn a_zone_that_changes_meanwhile_leaves_no_old_answer_in_the_cache() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.delay = (50, 51));
    let first = world.ask("a.example");
    let other = world.ask("a.other");
    world.run_for(10);
    world
        .resolver
        .zone_changed(&Name::parse("EXAMPLE").unwrap());
    // A client that comes later does not join the question.
    let second = world.ask("a.example");
    world.run_for(1_000);
    for (client, name) in [
        (first, "a.example"),
        (other, "a.other"),
        (second, "a.example"),
    ] {
        assert_eq!(world.got(client).unwrap().1, good(name));
    }
    assert_eq!(n_asked(&world, 1), 3);
    world
        .resolver
        .zone_changed(&Name::parse("example").unwrap());
    assert_eq!(ask(&mut world, "a.example").1, good("a.example"));
    assert_eq!(n_asked(&world, 1), 3, "the second answer was kept");
}

#[test]
fn each_route_has_its_own_wait_before_a_stale_answer() {
    let with = |zone, wait| {
        let mut route = route(zone, Mode::Recursive, &[1]);
        route.stale_wait = wait;
        route
    };
    let table = Table::new([
        with("usual.example", None),
        with("slow.example", Some(Duration::from_millis(1_800))),
        with("now.example", Some(Duration::ZERO)),
    ]);
    let mut world = World::new(1, table);
    let names = ["a.usual.example", "a.slow.example", "a.now.example"];
    for name in names {
        ask(&mut world, name);
    }
    world.run_for(6_000);
    world.behave(1, |how| {
        (how.delay, how.probe_delay) = ((3_000, 3_001), Some(1));
    });
    let usual = u64::try_from(world.settings.stale_wait.as_millis()).unwrap();
    for (name, wait) in names.iter().zip([usual, 1_800, 0]) {
        let (took, got) = ask(&mut world, name);
        assert_eq!(got, Got::Stale(expected(name)), "{name}");
        assert!((wait..wait + 20).contains(&took), "{name} took {took}");
        world.run_for(20_000);
    }
}
