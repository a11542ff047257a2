//! Reloads: what of before still counts, and for whom.

use super::*;

#[test]
fn what_was_asked_of_upstreams_that_no_longer_count_is_not_kept() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.delay = (50, 50));
    let client = world.ask("a.site.example");
    world.run_for(10);
    let table = Table::new([
        route(".", Mode::Recursive, &[1]),
        route("site.example", Mode::Authoritative, &[2]),
    ]);
    world.upstreams.insert(address(2), Behaviour::default());
    let now = Instant::from_millis(world.now);
    world
        .resolver
        .reconfigure(Settings::default(), Arc::new(table), now);
    world.run_for(100);
    assert_eq!(world.got(client).unwrap().1, good("a.site.example"));
    ask(&mut world, "a.site.example");
    assert_eq!((n_asked(&world, 1), n_asked(&world, 2)), (1, 1));
}

#[test]
fn a_reload_keeps_what_is_known_and_what_is_under_way() {
    let mut world = world(&[1, 2]);
    world.behave(1, |how| how.presence = Presence::Closed);
    world.behave(2, |how| how.delay = (50, 50));
    let before = world.ask("a.example");
    world.run_for(10);
    let table = Table::new([route(".", Mode::Recursive, &[1, 3])]);
    world.upstreams.insert(address(3), Behaviour::default());
    let now = Instant::from_millis(world.now);
    world
        .resolver
        .reconfigure(Settings::default(), Arc::new(table), now);
    world.drain();
    world.run_for(100);
    assert_eq!(world.got(before).unwrap().1, good("a.example"));
    let (took, got) = ask(&mut world, "b.example");
    assert_eq!((took <= 2, got), (true, good("b.example")));
    assert_eq!((n_asked(&world, 1), n_asked(&world, 3)), (1, 1));
    let probed: Vec<SocketAddr> = world
        .resolver
        .upstreams()
        .map(|view| view.address)
        .collect();
    assert_eq!(probed, [address(1), address(3)]);
}

/// All goes to these upstreams from here on.
fn reload(world: &mut World, upstreams: &[u8]) {
    let table = Table::new([route(".", Mode::Recursive, upstreams)]);
    for upstream in upstreams {
        let behaviour = world.upstreams.entry(address(*upstream));
        behaviour.or_default();
    }
    world.adopt(table);
}

#[test]
fn who_asks_after_a_reload_does_not_wait_for_upstreams_that_no_longer_count() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.presence = Presence::Silent);
    let before = world.ask("a.example");
    world.run_for(10);
    reload(&mut world, &[2]);
    let after = world.ask("a.example");
    world.run_for(10);
    assert_eq!(world.got(after).unwrap().1, good("a.example"));
    world.run_for(5_000);
    assert!(world.got(before).is_some());
    assert_eq!(world.resolver.n_flights(), 0);
}

#[test]
fn the_failure_of_upstreams_that_no_longer_count_is_not_kept() {
    let mut world = world(&[1]);
    world.behave(1, |how| (how.delay, how.failing) = ((50, 50), 100));
    let before = world.ask("a.example");
    world.run_for(10);
    reload(&mut world, &[2]);
    world.run_for(100);
    assert!(matches!(world.got(before).unwrap().1, Got::Failed(_)));
    let after = world.ask("a.example");
    world.run_for(10);
    assert_eq!(world.got(after).unwrap().1, good("a.example"));
}

#[test]
fn questions_whose_upstreams_stay_are_joined_after_a_reload() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.delay = (50, 50));
    let before = world.ask("a.example");
    world.run_for(10);
    reload(&mut world, &[1]);
    let after = world.ask("a.example");
    world.run_for(100);
    for client in [before, after] {
        assert_eq!(world.got(client).unwrap().1, good("a.example"));
    }
    assert_eq!(n_asked(&world, 1), 1);
}

#[test]
fn of_upstreams_that_no_longer_count_nothing_is_told() {
    let mut world = world(&[1, 2]);
    world.behave(1, |how| how.presence = Presence::Closed);
    ask(&mut world, "a.example");
    world.health.clear();
    reload(&mut world, &[2]);
    // healthd reports it down of all that it has been told to watch, until it is told otherwise.
    let now = Instant::from_millis(world.now);
    world.resolver.reported(address(1), Report::Drained, now);
    world.drain();
    assert_eq!(world.health, []);
    // When it is back it is as good as new.
    world.behave(1, |how| how.presence = Presence::Here);
    reload(&mut world, &[1]);
    assert_eq!(ask(&mut world, "b.example").1, good("b.example"));
}
