//! Referrals: whom they lead to, and which are not followed.

use super::*;

/// Servers with their addresses, if they come with one.
type Servers<'a> = &'a [(&'a str, &'a str)];

/// What the servers of `example` refer to: names below which, the apex that the referral has, and the
/// servers of that zone.
const DELEGATIONS: [(&str, &str, Servers<'_>); 9] = [
    (
        "sub.example",
        "sub.example",
        &[
            ("ns1.sub.example", "192.0.2.11"),
            ("ns2.sub.example", "192.0.2.12"),
        ],
    ),
    (
        "deep.example",
        "deep.example",
        &[("ns.deep.example", "192.0.2.13")],
    ),
    ("far.example", "far.example", &[("ns.other", "")]),
    ("lie.example", "lie.example", &[("ns.other", "192.0.2.66")]),
    ("lost.example", "lost.example", &[("ns.lost.example", "")]),
    (
        "round-a.example",
        "round-a.example",
        &[("ns.round-b.example", "")],
    ),
    (
        "round-b.example",
        "round-b.example",
        &[("ns.round-a.example", "")],
    ),
    (
        "home.example",
        "home.example",
        &[("ns.home.example", "127.0.0.1")],
    ),
    ("up.example", "example", &[("ns.example", "192.0.2.11")]),
];

fn is_below(name: &str, zone: &str) -> bool {
    name == zone || name.ends_with(&format!(".{zone}"))
}

fn refer(zone: &str, servers: Servers<'_>) -> (Rcode, Vec<OwnedRow>) {
    let names = servers.iter().map(|(server, _)| {
        let (zone, server) = (zone.to_owned(), (*server).to_owned());
        (Section::Authority, zone, Type::NS, 60, server)
    });
    let located = servers.iter().filter(|(_, address)| !address.is_empty());
    let glue = located.map(|(server, address)| {
        let (server, address) = ((*server).to_owned(), (*address).to_owned());
        (Section::Additional, server, Type::A, 60, address)
    });
    let rows = names.chain(glue).collect();
    (Rcode::NOERROR, rows)
}

/// The servers of `example`, which have nothing but delegations.
fn parent(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    let delegation = DELEGATIONS.iter().find(|(below, ..)| is_below(name, below));
    match delegation {
        Some((_, zone, servers)) => refer(zone, servers),
        None => (Rcode::NXDOMAIN, Vec::new()),
    }
}

/// The server of `deep.example`, which delegates as well, and once to itself.
fn deep(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    match is_below(name, "more.deep.example") {
        true => refer(
            "more.deep.example",
            &[
                ("ns.deep.example", "192.0.2.13"),
                ("ns.more.deep.example", "192.0.2.14"),
            ],
        ),
        false => refer("deep.example", &[("ns.deep.example", "192.0.2.13")]),
    }
}

fn delegated() -> World {
    let mut world = World::new(
        1,
        Table::new([
            route("example", Mode::Authoritative, &[1]),
            route(".", Mode::Recursive, &[2]),
        ]),
    );
    world.zones.insert(address(1), parent);
    world.zones.insert(address(13), deep);
    let named = (11..=14).map(address).chain([other()]);
    world
        .upstreams
        .extend(named.map(|server| (server, Behaviour::default())));
    world
}

/// Where `ns.other` is, as the recursive upstream says.
fn other() -> SocketAddr {
    format!("{}:53", expected("ns.other")).parse().unwrap()
}

#[test]
fn the_servers_of_the_zone_below_are_asked() {
    let mut world = delegated();
    let (took, got) = ask(&mut world, "www.sub.example");
    assert_eq!(got, good("www.sub.example"));
    assert!(took < 20, "{took} ms");
    assert_eq!(n_asked(&world, 1), 1);
    assert_eq!(n_asked(&world, 11) + n_asked(&world, 12), 1);
    // They are not upstreams: nobody is told of them.
    assert_eq!(world.resolver.upstreams().count(), 2);
    assert!(!world.resolver.is_upstream(address(11)));
}

#[test]
fn a_referral_with_aa_is_followed_and_is_no_denial() {
    let mut world = delegated();
    world.behave(1, |how| how.boasts = true);
    assert_eq!(
        ask(&mut world, "www.sub.example").1,
        good("www.sub.example")
    );
    // From a recursive upstream it is no answer: the next one has it.
    let mut world = self::world(&[1, 2]);
    world.zones.insert(address(1), parent);
    world.behave(1, |how| how.boasts = true);
    assert_eq!(
        ask(&mut world, "www.sub.example").1,
        good("www.sub.example")
    );
}

#[test]
fn a_delegation_below_a_delegation_is_followed() {
    let mut world = delegated();
    let (_, got) = ask(&mut world, "www.more.deep.example");
    assert_eq!(got, good("www.more.deep.example"));
    assert_eq!(n_asked(&world, 14), 1);
}

#[test]
fn a_server_of_a_delegation_that_is_away_is_left_for_the_other() {
    for presence in [Presence::Silent, Presence::Closed, Presence::Unreachable] {
        let mut world = delegated();
        world.behave(11, |how| how.presence = presence);
        for i in 0..30 {
            let name = format!("n{i}.sub.example");
            let (took, got) = ask(&mut world, &name);
            assert_eq!(got, good(&name), "{presence:?}");
            assert!(took <= 100, "{presence:?}: {took} ms");
        }
        // When it is back it takes its part again.
        world.behave(11, |how| how.presence = Presence::Here);
        world.behave(12, |how| how.presence = presence);
        let (took, got) = ask(&mut world, "back.sub.example");
        assert_eq!(got, good("back.sub.example"), "{presence:?}");
        assert!(took <= 100, "{presence:?}: {took} ms");
    }
}

#[test]
fn a_server_without_an_address_is_looked_for() {
    let mut world = delegated();
    let clients = ["a.far.example", "b.far.example"].map(|name| (name, world.ask(name)));
    world.run_for(100);
    for (name, client) in clients {
        assert_eq!(world.got(client).unwrap().1, good(name));
    }
    // For both at once, and the next finds it in the cache.
    assert_eq!(ask(&mut world, "c.far.example").1, good("c.far.example"));
    assert_eq!(world.asked[&address(2)], ["ns.other."]);
    assert_eq!(world.asked[&other()].len(), 3);
}

#[test]
fn an_address_from_outside_the_referring_zone_is_not_believed() {
    let mut world = delegated();
    let (_, got) = ask(&mut world, "www.lie.example");
    assert_eq!(got, good("www.lie.example"));
    assert_eq!(world.asked[&other()], ["www.lie.example."]);
}

#[test]
fn referrals_that_lead_nowhere_fail_soon_and_cost_little() {
    for name in [
        "www.lost.example",
        "www.round-a.example",
        "www.home.example",
        "www.up.example",
        "www.deep.example",
    ] {
        let mut world = delegated();
        let (took, got) = ask(&mut world, name);
        assert!(matches!(got, Got::Failed(_)), "{name}: {got:?}");
        assert!(took < 200, "{name}: {took} ms");
        let n_sent = world.resolver.counts().sent;
        assert!(n_sent <= 20, "{name}: {n_sent} queries");
        assert_eq!(world.resolver.n_flights(), 0, "{name}");
    }
}

#[test]
fn recursive_upstreams_are_asked_to_answer_themselves() {
    let mut world = world(&[1, 2]);
    world.zones.insert(address(1), parent);
    assert_eq!(
        ask(&mut world, "www.sub.example").1,
        good("www.sub.example")
    );
    assert_eq!((n_asked(&world, 1), n_asked(&world, 2)), (1, 1));
}

#[test]
fn a_referral_to_this_server_itself_is_not_followed() {
    let [port, other] = [53, 5300].map(|port| SocketAddr::from(([0, 0, 0, 0], port)));
    let node: ipnet::IpNet = "192.0.2.11/32".parse().unwrap();
    for (listening, is_asked) in [(port, false), (other, true)] {
        let mut world = delegated();
        let own = OwnAddresses::new(vec![listening], vec![node]);
        world.resolver.set_own_addresses(own);
        for i in 0..20 {
            let name = format!("n{i}.sub.example");
            assert_eq!(ask(&mut world, &name).1, good(&name));
        }
        assert_eq!(n_asked(&world, 11) > 0, is_asked, "{listening}");
    }
}
