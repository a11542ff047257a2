//! From the root's servers downwards, through a tree with honest zones and with those of adversaries.

use super::*;
use crate::forward::ForwardMode;

type Rows = (Rcode, Vec<OwnedRow>);

/// The address that only liars give.
const LIE: &str = "192.0.2.66";

fn row(section: Section, owner: &str, rtype: Type, data: &str) -> OwnedRow {
    (section, owner.to_owned(), rtype, 300, data.to_owned())
}

fn is_below(name: &str, zone: &str) -> bool {
    name == zone || name.ends_with(&format!(".{zone}"))
}

/// A referral to servers with these names and addresses.
fn refer(zone: &str, servers: &[(&str, &str)]) -> Rows {
    let names = servers
        .iter()
        .map(|(server, _)| row(Section::Authority, zone, Type::NS, server));
    let located = servers.iter().filter(|(_, address)| !address.is_empty());
    let glue = located.map(|(server, address)| row(Section::Additional, server, Type::A, address));
    (Rcode::NOERROR, names.chain(glue).collect())
}

fn address_of(name: &str, address: &str) -> Rows {
    (
        Rcode::NOERROR,
        vec![row(Section::Answer, name, Type::A, address)],
    )
}

fn denied(zone: &str, rcode: Rcode) -> Rows {
    (rcode, vec![row(Section::Authority, zone, Type::SOA, "60")])
}

fn root(name: &str, qtype: Type) -> Rows {
    match name {
        "." if qtype == Type::NS => (
            Rcode::NOERROR,
            vec![
                row(Section::Answer, ".", Type::NS, "a.root"),
                row(Section::Answer, ".", Type::NS, "b.root"),
                row(Section::Additional, "a.root", Type::A, "192.0.2.1"),
                row(Section::Additional, "b.root", Type::A, "192.0.2.2"),
                row(Section::Additional, "c.evil", Type::A, LIE),
            ],
        ),
        name if is_below(name, "test") => refer(
            "test",
            &[("ns1.test", "192.0.2.11"), ("ns2.test", "192.0.2.12")],
        ),
        name if is_below(name, "example") => refer("example", &[("ns.example", "192.0.2.13")]),
        _ => denied(".", Rcode::NXDOMAIN),
    }
}

/// The servers without an address of a zone that wants others asked much.
const VICTIMS: [&str; 13] = [
    "n1.victim.example",
    "n2.victim.example",
    "n3.victim.example",
    "n4.victim.example",
    "n5.victim.example",
    "n6.victim.example",
    "n7.victim.example",
    "n8.victim.example",
    "n9.victim.example",
    "n10.victim.example",
    "n11.victim.example",
    "n12.victim.example",
    "n13.victim.example",
];

/// The servers of `test`.
fn test(name: &str, _: Type) -> Rows {
    let zone: String = name
        .rsplit('.')
        .take(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect::<Vec<_>>()
        .join(".");
    match &*zone {
        "good.test" => refer(
            "good.test",
            &[
                ("ns1.good.test", "192.0.2.21"),
                ("ns2.good.test", "192.0.2.22"),
            ],
        ),
        "glueless.test" => refer("glueless.test", &[("ns1.bank.example", "")]),
        // The servers of `test` may not say where a name of `example` is.
        "poison.test" => refer("poison.test", &[("ns1.bank.example", LIE)]),
        "lame.test" => refer("lame.test", &[("ns.lame.test", "192.0.2.31")]),
        "up.test" => refer("up.test", &[("ns.up.test", "192.0.2.32")]),
        "evil.test" => refer("evil.test", &[("ns.evil.test", "192.0.2.33")]),
        "round-a.test" => refer("round-a.test", &[("ns.round-b.test", "")]),
        "round-b.test" => refer("round-b.test", &[("ns.round-a.test", "")]),
        "nxns.test" => refer("nxns.test", &VICTIMS.map(|victim| (victim, ""))),
        _ => denied("test", Rcode::NXDOMAIN),
    }
}

fn example(name: &str, _: Type) -> Rows {
    match name {
        "ns.example" => address_of(name, "192.0.2.13"),
        name if is_below(name, "bank.example") => {
            refer("bank.example", &[("ns1.bank.example", "192.0.2.41")])
        }
        _ => denied("example", Rcode::NXDOMAIN),
    }
}

/// The servers of `good.test`. Like some in use, they deny a name that has only names below it.
fn good_zone(name: &str, _: Type) -> Rows {
    match name {
        "ns1.good.test" => address_of(name, "192.0.2.21"),
        "ns2.good.test" => address_of(name, "192.0.2.22"),
        "ent.good.test" => denied("good.test", Rcode::NXDOMAIN),
        "deep.good.test" => denied("good.test", Rcode::NOERROR),
        "to-bank.good.test" => (
            Rcode::NOERROR,
            vec![row(Section::Answer, name, Type::CNAME, "www.bank.example")],
        ),
        "circle.good.test" => (
            Rcode::NOERROR,
            vec![row(Section::Answer, name, Type::CNAME, "circle.good.test")],
        ),
        _ => address_of(name, &expected(name)),
    }
}

fn bank(name: &str, _: Type) -> Rows {
    match name {
        "ns1.bank.example" => address_of(name, "192.0.2.41"),
        _ => address_of(name, &expected(name)),
    }
}

/// What a bank's address is for the servers of `evil.test`.
fn evil(name: &str, _: Type) -> Rows {
    let rows = vec![
        row(Section::Answer, name, Type::CNAME, "www.bank.example"),
        row(Section::Answer, "www.bank.example", Type::A, LIE),
        row(Section::Authority, "bank.example", Type::NS, "ns.evil.test"),
        row(Section::Authority, "example", Type::NS, "ns.evil.test"),
        row(Section::Additional, "ns1.bank.example", Type::A, LIE),
        row(Section::Additional, "ns.evil.test", Type::A, "192.0.2.33"),
    ];
    (Rcode::NOERROR, rows)
}

fn refuses(_: &str, _: Type) -> Rows {
    (Rcode::REFUSED, Vec::new())
}

fn upwards(_: &str, _: Type) -> Rows {
    refer("test", &[("ns1.test", "192.0.2.11")])
}

/// The answers of a server to a name and a type.
type Answers = fn(&str, Type) -> Rows;

/// All servers, by the last octet of the address.
const SERVERS: [(u8, Answers); 12] = [
    (1, root),
    (2, root),
    (11, test),
    (12, test),
    (13, example),
    (21, good_zone),
    (22, good_zone),
    (31, refuses),
    (32, upwards),
    (33, evil),
    (41, bank),
    (66, evil),
];

fn recursing(zone: &str, source: ForwardMode, upstreams: &[u8]) -> Route {
    let mut route = route(zone, Mode::Recursive, upstreams);
    route.source = source;
    route
}

fn tree_of(seed: u64, routes: impl IntoIterator<Item = Route>) -> World {
    let root = vec![address(1).ip()];
    let mut world = World::new(seed, Table::new(routes).with_root(root));
    for (server, zone) in SERVERS {
        world
            .upstreams
            .insert(address(server), Behaviour::default());
        world.zones.insert(address(server), zone);
    }
    world
}

fn tree() -> World {
    tree_of(1, [recursing(".", ForwardMode::Recurse, &[])])
}

fn n_all(world: &World) -> usize {
    world.asked.values().map(Vec::len).sum()
}

#[test]
fn a_name_is_found_from_the_root_downwards_and_no_server_learns_more_than_it_needs() {
    let mut world = tree();
    let (_, got) = ask(&mut world, "www.good.test");
    assert_eq!(got, good("www.good.test"));
    assert_eq!(world.asked[&address(1)], ["test."]);
    let tld: Vec<&String> = [11, 12]
        .iter()
        .filter_map(|server| world.asked.get(&address(*server)))
        .flatten()
        .collect();
    assert_eq!(tld, ["good.test."]);
    assert_eq!(n_asked(&world, 21) + n_asked(&world, 22), 1);
}

#[test]
fn the_next_names_of_a_zone_cost_its_servers_one_query_and_those_above_none() {
    let mut world = tree();
    ask(&mut world, "www.good.test");
    let before = n_all(&world);
    for n in 0..20 {
        let name = format!("n{n}.good.test");
        assert_eq!(ask(&mut world, &name).1, good(&name));
    }
    assert_eq!(n_all(&world) - before, 20);
    assert_eq!(n_asked(&world, 1) + n_asked(&world, 2), 1);
}

#[test]
fn a_part_of_a_name_at_which_no_zone_begins_is_asked_for_once() {
    let mut world = tree();
    for name in ["a.b.deep.good.test", "c.b.deep.good.test"] {
        assert_eq!(ask(&mut world, name).1, good(name));
    }
    let of_zone: Vec<&String> = [21, 22]
        .iter()
        .filter_map(|server| world.asked.get(&address(*server)))
        .flatten()
        .collect();
    let n_part = of_zone.iter().filter(|it| **it == "deep.good.test.");
    assert_eq!(n_part.count(), 1, "{of_zone:?}");
    // The answer for the part is one to a question.
    let before = n_all(&world);
    assert_eq!(
        ask(&mut world, "b.deep.good.test").1,
        good("b.deep.good.test")
    );
    assert_eq!(n_all(&world), before);
}

#[test]
fn the_root_says_where_its_servers_are() {
    let mut world = tree();
    ask(&mut world, "www.good.test");
    assert_eq!(world.probed, 1, "one query of priming");
    // The one that was configured is gone, and the other was learnt.
    world.behave(1, |how| how.presence = Presence::Closed);
    assert_eq!(
        ask(&mut world, "www.bank.example").1,
        good("www.bank.example")
    );
    assert_eq!(world.asked[&address(2)], ["example."]);
    assert_eq!(
        n_asked(&world, 66),
        0,
        "a name that is no server of the root"
    );
}

#[test]
fn the_root_may_name_its_servers_without_addresses() {
    let mut world = tree();
    let brief: simulation::Zone = |name, qtype| match name {
        "." if qtype == Type::NS => (
            Rcode::NOERROR,
            vec![row(Section::Answer, ".", Type::NS, "a.root")],
        ),
        _ => root(name, qtype),
    };
    world.zones.insert(address(1), brief);
    assert_eq!(ask(&mut world, "www.good.test").1, good("www.good.test"));
    let known = world.resolver.known(world.instant());
    assert_eq!((known.root_servers, world.probed), (Some(1), 1));
    for n in 0..5 {
        let name = format!("n{n}.example");
        ask(&mut world, &name);
    }
    assert_eq!(world.probed, 1, "it is not asked for again with each name");
}

#[test]
fn a_denial_of_a_part_of_the_name_is_not_believed() {
    let mut world = tree();
    for name in ["www.ent.good.test", "a.b.c.deep.good.test"] {
        assert_eq!(ask(&mut world, name).1, good(name));
    }
    assert_eq!(ask(&mut world, "ent.good.test").1, Got::Denied);
    assert_eq!(ask(&mut world, "nothing").1, Got::Denied);
}

#[test]
fn a_server_without_an_address_is_looked_up_and_a_foreign_address_is_not_believed() {
    for zone in ["glueless.test", "poison.test"] {
        let mut world = tree();
        let name = format!("www.{zone}");
        assert_eq!(ask(&mut world, &name).1, good(&name));
        assert_eq!(n_asked(&world, 66), 0, "{zone}");
        // What was found out is remembered.
        let before = n_all(&world);
        let name = format!("next.{zone}");
        assert_eq!(ask(&mut world, &name).1, good(&name));
        assert_eq!(n_all(&world) - before, 1, "{zone}");
    }
}

#[test]
fn an_alias_is_followed_into_another_zone_and_a_circle_ends() {
    let mut world = tree();
    let (_, got) = ask(&mut world, "to-bank.good.test");
    assert_eq!(got, good("www.bank.example"));
    let (_, got) = ask(&mut world, "circle.good.test");
    assert!(matches!(got, Got::Failed(_)), "{got:?}");
}

#[test]
fn a_liar_changes_nothing_for_another_zone() {
    let mut world = tree();
    assert_eq!(ask(&mut world, "www.evil.test").1, good("www.bank.example"));
    for name in ["www.bank.example", "ns1.bank.example", "new.bank.example"] {
        let (_, got) = ask(&mut world, name);
        assert_ne!(got, Got::Address(LIE.to_owned()), "{name}");
    }
    assert_eq!(n_asked(&world, 33), 1);
}

#[test]
fn zones_that_lead_nowhere_fail_soon_and_cost_little() {
    for (zone, most) in [
        ("lame.test", 12),
        ("up.test", 12),
        ("round-a.test", 24),
        ("nxns.test", 40),
    ] {
        let mut world = tree();
        let (took, got) = ask(&mut world, &format!("www.{zone}"));
        assert!(matches!(got, Got::Failed(_)), "{zone}: {got:?}");
        assert!(took <= 500, "{zone}: {took} ms");
        let sent = world.resolver.counts().sent;
        assert!(sent <= most, "{zone}: {sent} queries");
        assert_eq!(world.resolver.n_flights(), 0, "{zone}");
    }
}

#[test]
fn a_zone_whose_servers_have_moved_is_found_again() {
    let mut world = tree();
    ask(&mut world, "www.good.test");
    for server in [21, 22] {
        world.behave(server, |how| how.presence = Presence::Closed);
    }
    world.upstreams.insert(address(23), Behaviour::default());
    world.zones.insert(address(23), good_zone);
    let moved: fn(&str, Type) -> Rows =
        |_, _| refer("good.test", &[("ns3.good.test", "192.0.2.23")]);
    for server in [11, 12] {
        world.zones.insert(address(server), moved);
    }
    let (_, got) = ask(&mut world, "first.good.test");
    assert!(matches!(got, Got::Failed(_)), "{got:?}");
    assert_eq!(
        ask(&mut world, "second.good.test").1,
        good("second.good.test")
    );
}

#[test]
fn a_single_zone_may_be_asked_for_from_the_root_downwards() {
    let routes = [
        recursing("good.test", ForwardMode::Recurse, &[]),
        route("example", Mode::Authoritative, &[13]),
    ];
    let mut world = tree_of(1, routes);
    assert_eq!(ask(&mut world, "www.good.test").1, good("www.good.test"));
    assert_eq!(
        ask(&mut world, "to-bank.good.test").1,
        good("www.bank.example")
    );
    let (_, got) = ask(&mut world, "www.lame.test");
    assert_eq!(got, Got::Failed(Reason::NoRoute));
}

#[test]
fn the_servers_of_such_a_zone_may_have_names_without_a_route() {
    let mut world = tree_of(1, [recursing("glueless.test", ForwardMode::Recurse, &[])]);
    let name = "www.glueless.test";
    assert_eq!(ask(&mut world, name).1, good(name));
    let (_, got) = ask(&mut world, "ns1.bank.example");
    assert_eq!(got, Got::Failed(Reason::NoRoute));
}

#[test]
fn nothing_is_asked_of_the_root_unless_a_zone_says_so() {
    let mut world = tree_of(1, [route(".", Mode::Recursive, &[50])]);
    world.behave(50, |how| how.presence = Presence::Silent);
    let (_, got) = ask(&mut world, "www.good.test");
    assert!(matches!(got, Got::Failed(_)));
    let asked: Vec<&SocketAddr> = world.asked.keys().collect();
    assert_eq!(asked, [&address(50)]);
}

#[test]
fn upstreams_are_asked_first_and_the_root_when_they_fail() {
    type Change = fn(&mut Behaviour);
    let forwarding = || recursing(".", ForwardMode::ForwardFirst, &[50, 51]);
    let cases: [(&str, Change, bool); 6] = [
        ("they answer", |_| {}, false),
        ("silent", |how| how.presence = Presence::Silent, true),
        ("closed", |how| how.presence = Presence::Closed, true),
        ("away", |how| how.presence = Presence::Unreachable, true),
        (
            "refuse",
            |how| (how.failing, how.rcode) = (100, Rcode::REFUSED),
            true,
        ),
        // A forwarder that validates says so, too.
        (
            "fail",
            |how| (how.failing, how.rcode) = (100, Rcode::SERVFAIL),
            false,
        ),
    ];
    for (what, change, falls_back) in cases {
        let mut world = tree_of(1, [forwarding()]);
        for upstream in [50, 51] {
            world.behave(upstream, change);
        }
        for name in ["www.good.test", "next.good.test"] {
            let (took, got) = ask(&mut world, name);
            match what {
                "fail" => assert!(matches!(got, Got::Failed(_)), "{what}: {got:?}"),
                _ => assert_eq!(got, good(name), "{what}"),
            }
            assert!(took <= 1_500, "{what}: {took} ms");
        }
        assert_eq!(n_asked(&world, 1) > 0, falls_back, "{what}");
    }
    // A denial is an answer.
    let mut world = tree_of(1, [forwarding()]);
    world
        .zones
        .insert(address(50), |_, _| denied(".", Rcode::NXDOMAIN));
    assert_eq!(ask(&mut world, "www.good.test").1, Got::Denied);
    assert_eq!(n_asked(&world, 1), 0);
}

/// New names of a zone whose servers, and those above, are behind a link with this round trip and this loss; the queries for
/// a hundred names.
fn over_a_link(seed: u64, round_trip: u64, loss: u64) -> usize {
    const NAMES: usize = 300;
    let mut world = tree_of(seed, [recursing(".", ForwardMode::Recurse, &[])]);
    for (server, _) in SERVERS {
        let spread = round_trip / 50;
        world.behave(server, |how| {
            (how.delay, how.loss) = ((round_trip - spread, round_trip + spread), loss);
        });
    }
    for name in ["first.good.test", "second.good.test"] {
        world.ask(name);
        world.run_for(5_000);
    }
    let before = world.resolver.counts().sent;
    let asked: Vec<(u64, String)> = (0..NAMES)
        .map(|n| {
            let name = format!("n{n}.good.test");
            let client = world.ask(&name);
            world.run_for(50);
            (client, name)
        })
        .collect();
    world.run_for(5_000);
    for (client, name) in asked {
        let got = world.got(client).map(|(_, got)| got);
        assert_eq!(got, Some(good(&name)), "{round_trip} ms, {loss} %, {seed}");
    }
    let sent = world.resolver.counts().sent - before;
    usize::try_from(sent).unwrap() * 100 / NAMES
}

#[test]
fn over_slow_and_lossy_links_each_name_is_found_and_costs_about_one_query() {
    for round_trip in [600, 900] {
        for seed in 1..=8 {
            let sent = over_a_link(seed, round_trip, 0);
            assert!(sent <= 120, "{round_trip} ms, {seed}: {sent} / 100");
            // Four of five queries arrive, so each name takes 1.25 on average.
            let sent = over_a_link(seed, round_trip, 20);
            assert!(sent <= 170, "{round_trip} ms, {seed}: {sent} / 100");
        }
    }
}

/// One seeded life in a tree whose servers come, go, lose, lie about letter case and fail.
fn wander(seed: u64) {
    let mut world = tree_of(seed, [recursing(".", ForwardMode::Recurse, &[])]);
    let mut random = Random(seed ^ 0x1234);
    let zones = [
        "good.test",
        "glueless.test",
        "poison.test",
        "lame.test",
        "evil.test",
        "round-a.test",
        "nxns.test",
        "bank.example",
        "deep.good.test",
    ];
    let mut asked = Vec::new();
    for _ in 0..200 {
        if random.chance(10) {
            let (server, _) = SERVERS[usize::try_from(random.below(12)).unwrap()];
            let percent = random.below(101);
            let pick = random.below(7);
            world.behave(server, |how| match pick {
                0 => how.presence = Presence::Silent,
                1 => how.presence = Presence::Closed,
                2 => how.loss = percent,
                3 => how.truncated = percent,
                4 => (how.failing, how.rcode) = (percent, Rcode::SERVFAIL),
                5 => how.wrong_id = percent,
                _ => *how = Behaviour::default(),
            });
        }
        let zone = zones[usize::try_from(random.below(zones.len() as u64)).unwrap()];
        let name = format!("h{}.{zone}", random.below(12));
        asked.push((world.ask(&name), name));
        world.run_for(random.below(200));
    }
    // A question that others wait for has a time of its own.
    world.run_for(9_000);
    for (client, name) in &asked {
        let got = world.got(*client);
        let (_, got) = got.unwrap_or_else(|| panic!("{name} waits: seed {seed}"));
        let expected = match is_below(name, "evil.test") {
            true => expected("www.bank.example"),
            false => expected(name),
        };
        if let Got::Address(address) | Got::Stale(address) = got {
            assert_eq!(address, expected, "{name}: seed {seed}");
        }
    }
    assert_eq!(world.resolver.n_flights(), 0, "seed {seed}");
    assert_eq!(n_asked(&world, 66), 0, "seed {seed}");
    for behaviour in world.upstreams.values_mut() {
        *behaviour = Behaviour::default();
    }
    // What was learnt of servers that were away is forgotten with the first failure.
    for name in ["try.good.test", "try.bank.example"] {
        ask(&mut world, name);
    }
    for name in ["late.good.test", "late.bank.example"] {
        assert_eq!(ask(&mut world, name).1, good(name), "seed {seed}");
    }
}

#[test]
fn every_client_is_answered_once_and_rightly_whatever_servers_do() {
    for seed in 0..128 {
        wander(seed);
    }
}
