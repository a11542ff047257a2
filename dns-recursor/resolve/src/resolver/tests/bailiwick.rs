//! Whose names an upstream's answer may speak of.

use dns_wire::{Name, Records};

use super::*;
use crate::resolver::simulation::LIE;

/// What the server of `evil.test` answers: an alias into the bank's zone with an address, and others' records in
/// every section.
fn evil(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    let row = |section, owner: &str, rtype, text: &str| {
        (section, owner.to_owned(), rtype, 60, text.to_owned())
    };
    let own = match name.split('.').next() {
        Some("alias") => row(Section::Answer, name, Type::CNAME, "www.bank.test"),
        Some("chain") => row(Section::Answer, name, Type::CNAME, "alias.evil.test"),
        _ => row(Section::Answer, name, Type::A, &expected(name)),
    };
    let rows = vec![
        own,
        row(
            Section::Answer,
            "alias.evil.test",
            Type::CNAME,
            "www.bank.test",
        ),
        row(Section::Answer, "www.bank.test", Type::A, LIE),
        row(Section::Authority, "test", Type::NS, "ns.evil.test"),
        row(Section::Authority, "bank.test", Type::NS, "ns.evil.test"),
        row(Section::Additional, "www.bank.test", Type::A, LIE),
        row(Section::Additional, "ns.evil.test", Type::A, LIE),
    ];
    (Rcode::NOERROR, rows)
}

/// What the outside's resolver answers: aliases into the site, with its own view of the site's names, and aliases
/// that it does not follow.
fn outside(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    let row = |owner: &str, rtype, text: &str| {
        (
            Section::Answer,
            owner.to_owned(),
            rtype,
            60,
            text.to_owned(),
        )
    };
    let rows = match name {
        "app.corp" => vec![
            row(name, Type::CNAME, "api.bank.test"),
            row("api.bank.test", Type::A, LIE),
        ],
        "bare.corp" => vec![row(name, Type::CNAME, "end.corp")],
        "gone.corp" => {
            let soa = (
                Section::Authority,
                "test".to_owned(),
                Type::SOA,
                60,
                "60".to_owned(),
            );
            let rows = vec![row(name, Type::CNAME, "api.bank.test"), soa];
            return (Rcode::NXDOMAIN, rows);
        }
        "lost.corp" => vec![row(name, Type::CNAME, "www.nowhere.test")],
        _ => vec![row(name, Type::A, &expected(name))],
    };
    (Rcode::NOERROR, rows)
}

fn table(root: bool) -> Table {
    let outside = root.then(|| route(".", Mode::Recursive, &[1]));
    let corp = (!root).then(|| route("corp", Mode::Recursive, &[1]));
    Table::new(outside.into_iter().chain(corp).chain([
        route("evil.test", Mode::Authoritative, &[2]),
        route("bank.test", Mode::Authoritative, &[3]),
    ]))
}

fn sites() -> World {
    let mut world = World::new(1, table(true));
    world.zones.insert(address(1), outside);
    world.zones.insert(address(2), evil);
    world
}

/// Section, owner and type of the cached records.
fn cached(world: &World, name: &str) -> Vec<(Section, String, Type)> {
    let key = Key::new(SEED, &testing::question(name, Type::A), Variant::default());
    let now = Instant::from_millis(world.now);
    let message = world
        .cache
        .look_up(&key, now, |found| found.message.clone());
    let message = message.unwrap();
    let bytes = message.bytes();
    let records = Records::new(bytes).unwrap().map(Result::unwrap);
    records
        .map(|record| {
            let (owner, _) = Name::read(bytes, record.name_offset).unwrap();
            (record.section, owner.to_string(), record.rtype)
        })
        .collect()
}

#[test]
fn a_liar_for_one_zone_changes_nothing_for_another() {
    let mut world = sites();
    let client = world.ask("www.evil.test");
    world.run_for(100);
    assert_eq!(world.got(client).unwrap().1, good("www.evil.test"));
    let own = [(Section::Answer, "www.evil.test.".to_owned(), Type::A)];
    assert_eq!(cached(&world, "www.evil.test"), own);
    for (name, n_links) in [("alias.evil.test", 1), ("chain.evil.test", 2)] {
        let client = world.ask(name);
        world.run_for(100);
        assert_eq!(
            world.got(client).unwrap().1,
            good("www.bank.test"),
            "{name}"
        );
        let records = cached(&world, name);
        assert_eq!(records.len(), n_links + 1, "{records:?}");
        assert!(records.iter().all(|it| it.0 == Section::Answer));
    }
    assert_eq!(world.asked[&address(3)], ["www.bank.test."]);
}

#[test]
fn the_sites_own_servers_answer_for_an_alias_of_the_outside() {
    let mut world = sites();
    for name in ["app.corp", "gone.corp"] {
        assert_eq!(ask(&mut world, name).1, good("api.bank.test"), "{name}");
    }
    let asked = &world.asked[&address(3)];
    assert!(
        asked.iter().all(|name| name == "api.bank.test."),
        "{asked:?}"
    );
}

#[test]
fn an_alias_that_a_recursive_upstream_does_not_follow_is_followed() {
    let mut world = sites();
    assert_eq!(ask(&mut world, "bare.corp").1, good("end.corp"));
    assert_eq!(world.asked[&address(1)], ["bare.corp.", "end.corp."]);
}

#[test]
fn an_alias_to_a_name_without_a_route_fails() {
    let mut world = World::new(1, table(false));
    world.zones.insert(address(1), outside);
    let (_, got) = ask(&mut world, "lost.corp");
    assert_eq!(got, Got::Failed(Reason::NoRoute));
    assert_eq!(ask(&mut world, "app.corp").1, good("api.bank.test"));
}
