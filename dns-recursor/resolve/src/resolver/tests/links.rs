//! Upstreams behind slow and lossy links, and zones that are silent behind an upstream that is not.

use super::*;

/// The names that are asked over a link, 20 a second.
const NAMES: usize = 300;

/// A world with one upstream behind a link with this round trip and this loss.
fn linked(seed: u64, round_trip: u64, loss: u64) -> World {
    let mut world = World::new(seed, Table::new([route(".", Mode::Recursive, &[1])]));
    let spread = round_trip / 50;
    world.behave(1, |how| {
        (how.delay, how.loss) = ((round_trip - spread, round_trip + spread), loss);
    });
    world
}

/// Asks cold names at a steady rate; the names that got no answer.
fn failures(world: &mut World, label: &str, n_names: usize) -> Vec<(String, Option<(u64, Got)>)> {
    let clients: Vec<(u64, String)> = (0..n_names)
        .map(|n| {
            let name = format!("{label}{n}.example");
            let client = world.ask(&name);
            world.run_for(50);
            (client, name)
        })
        .collect();
    world.run_for(5_000);
    let got = clients
        .into_iter()
        .map(|(client, name)| (world.got(client), name));
    got.filter(|(got, name)| got.as_ref().map(|(_, got)| got) != Some(&good(name)))
        .map(|(got, name)| (name, got))
        .collect()
}

fn hundredths(sent: u64) -> u64 {
    sent * 100 / NAMES as u64
}

#[test]
fn over_a_slow_link_each_name_is_answered_and_costs_about_one_query() {
    for round_trip in [600, 900] {
        for seed in 1..=8 {
            let mut world = linked(seed, round_trip, 0);
            assert_eq!(failures(&mut world, "n", NAMES), []);
            let sent = hundredths(world.resolver.counts().sent);
            assert!(sent <= 120, "{round_trip} ms, {seed}: {sent} / 100");
            assert!(
                world.health.iter().all(|(.., to)| *to != Fitness::Absent),
                "{round_trip} ms, {seed}"
            );
        }
    }
}

#[test]
fn over_a_lossy_link_each_name_is_answered_and_few_queries_are_too_many() {
    for round_trip in [20, 600, 900] {
        for seed in 1..=16 {
            let mut world = linked(seed, round_trip, 20);
            let failed = failures(&mut world, "n", NAMES);
            assert_eq!(failed, [], "{round_trip} ms, {seed}");
            // Four of five queries arrive, so each name takes 1.25 on average.
            let sent = hundredths(world.resolver.counts().sent);
            assert!(sent <= 150, "{round_trip} ms, {seed}: {sent} / 100");
            let probes = hundredths(world.probed);
            assert!(
                probes <= 10,
                "{round_trip} ms, {seed}: {probes} / 100 probes"
            );
        }
    }
}

#[test]
fn what_counts_as_absent_is_tried_until_the_deadline_when_nothing_is_stale() {
    let mut world = world(&[1]);
    ask(&mut world, "known.example");
    world.run_for(6_000);
    world.behave(1, |how| how.presence = Presence::Silent);
    let new = world.ask("new.example");
    world.run_for(2_000);
    let known = world.ask("known.example");
    world.run_for(1_000);
    assert_eq!(
        world.got(known),
        Some((0, Got::Stale(expected("known.example"))))
    );
    assert_eq!(world.got(new), None, "it was given up");
    let last = world.health.last().map(|(.., to)| *to);
    assert_eq!(last, Some(Fitness::Absent));
    world.behave(1, |how| how.presence = Presence::Here);
    world.run_for(1_000);
    let got = world.got(new).map(|(_, got)| got);
    assert_eq!(got, Some(good("new.example")));
}

#[test]
fn an_upstream_that_was_silent_for_long_costs_a_new_name_little() {
    let mut world = world(&[1]);
    world.behave(1, |how| how.presence = Presence::Silent);
    ask(&mut world, "first.example");
    world.run_for(15_000);
    let (took, got) = ask(&mut world, "late.example");
    assert_eq!(got, Got::Failed(Reason::Absent));
    assert!(took <= 1_000, "{took} ms");
}

/// A thousand names of a dead zone a minute, and few of others, through one upstream.
#[test]
fn a_dead_zone_takes_no_upstream_away() {
    for (seed, loss) in [(1, 0), (2, 0), (3, 20), (4, 20)] {
        let mut world = linked(seed, 30, loss);
        world.behave(1, |how| how.deaf_to = Some("dead.test"));
        let mut asked = Vec::new();
        for n in 0..600 {
            world.ask(&format!("n{n}.dead.test"));
            if n % 20 == 0 {
                let name = format!("m{n}.example");
                asked.push((world.ask(&name), name));
            }
            world.run_for(60);
        }
        world.run_for(5_000);
        for (client, name) in asked {
            let got = world.got(client).map(|(_, got)| got);
            assert_eq!(got, Some(good(&name)), "{seed}");
        }
        if loss == 0 {
            let absent = world.health.iter().find(|(.., to)| *to == Fitness::Absent);
            assert_eq!(absent, None, "{seed}");
        }
    }
}

#[test]
fn a_zone_that_its_server_is_silent_about_is_away_alone() {
    let table = Table::new([
        route("dead.test", Mode::Authoritative, &[1]),
        route("good.test", Mode::Authoritative, &[1]),
    ]);
    let mut world = World::new(1, table);
    ask(&mut world, "a.good.test");
    world.behave(1, |how| how.deaf_to = Some("dead.test"));
    world.ask("a.dead.test");
    world.run_for(6_000);
    let is_down = |world: &World, zone: &str| {
        let zone = Name::parse(zone).unwrap();
        let route = world.resolver.table.find(zone.as_wire(), Type::A).unwrap();
        route.is_down()
    };
    assert!(is_down(&world, "dead.test"));
    assert!(!is_down(&world, "good.test"));
    // Its name has expired, and is asked for again.
    assert_eq!(ask(&mut world, "a.good.test").1, good("a.good.test"));
    // The address is shown once, and as one that answers.
    let views: Vec<Fitness> = world
        .resolver
        .upstreams()
        .map(|view| view.fitness)
        .collect();
    assert_eq!(views, [Fitness::Good]);
}
