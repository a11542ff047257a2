use std::collections::BTreeSet;
use std::path::Path;

use dns_wire::{Name, Type, rdata};
use dns_zone::Zone;
use dns_zone::parse::{Options, parse};

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

type Line = (Name, Type, Vec<u8>);

/// Records below `c.test.`, one a line: owner, type and data.
fn lines(text: &str) -> Vec<Line> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| {
        let mut fields = line.splitn(3, ' ');
        let owner = Name::parse_relative(fields.next().unwrap(), &name("c.test.")).unwrap();
        let rtype: Type = fields.next().unwrap().parse().unwrap();
        let data = rdata::from_text(rtype, fields.next().unwrap(), &Name::root()).unwrap();
        (owner, rtype, data)
    });
    lines.collect()
}

fn read_lines(lines: &[Line], most: usize) -> Result<Catalog, Broken> {
    let records = lines.iter();
    let records = records.map(|(owner, rtype, data)| (owner, *rtype, data.as_slice()));
    Catalog::read(&name("c.test."), records, most)
}

fn read(text: &str) -> Result<Catalog, Broken> {
    read_lines(&lines(text), 100)
}

fn node(id: &str, groups: &[&str], coo: Option<&str>) -> Node {
    Node {
        id: id.as_bytes().into(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        coo: coo.map(name),
    }
}

#[test]
fn a_catalog_is_read_with_groups_and_owners_and_other_properties_are_ignored() {
    let catalog = read(
        "version TXT \"2\"\nb1.zones PTR A.test.\ngroup.b1.zones TXT \"second\"\ngroup.b1.zones TXT \"First\"\n\
         group.b1.zones TXT \"first\" \"of two\"\ncoo.b1.zones PTR d.test.\nA2.Zones PTR sub.a.test.\n\
         x.ext PTR a.b.\nprimaries.ext.b1.zones A 192.0.2.1\nextra.label.b1.zones TXT \"x\"\n\
         group.gone.zones TXT \"without a member\"\nzones TXT \"not a member\"\nb1.zones TXT \"not this type\"\n\
         a.b.version TXT \"7\"",
    )
    .unwrap();
    let members: Vec<_> = catalog.members().collect();
    let first = (
        &name("a.test."),
        &[node("b1", &["First", "second"], Some("d.test."))][..],
    );
    let second = (&name("sub.a.test."), &[node("a2", &[], None)][..]);
    assert_eq!(members, [first, second]);
    assert_eq!(read("version TXT 2").unwrap(), Catalog::default());
}

#[test]
fn a_broken_catalog_says_why() {
    for (text, expected) in [
        ("", Broken::NoVersion),
        ("1.zones PTR a.", Broken::NoVersion),
        ("version A 192.0.2.1", Broken::NoVersion),
        ("version TXT \"1\"", Broken::Version("1".to_owned())),
        ("version TXT \"22\"", Broken::Version("22".to_owned())),
        ("version TXT \"2\" \"2\"", Broken::Version("2 2".to_owned())),
        (
            "version TXT \"2\"\nversion TXT \"1\"",
            Broken::Version("2 1".to_owned()),
        ),
        (
            "version TXT \"2\"\n1.zones PTR a.\n1.zones PTR b.",
            Broken::TwoMembers("1".to_owned()),
        ),
        (
            "version TXT \"2\"\n1.zones PTR a.\ncoo.1.zones PTR b.\ncoo.1.zones PTR d.",
            Broken::TwoOwners("1".to_owned()),
        ),
    ] {
        assert_eq!(read(text), Err(expected), "{text}");
    }
    let three = lines("version TXT \"2\"\n1.zones PTR a.\n2.zones PTR b.\n3.zones PTR c.");
    assert!(read_lines(&three, 3).is_ok());
    assert_eq!(read_lines(&three, 2), Err(Broken::TooMany(2)));
    let sentence = Broken::TooMany(2).to_string();
    assert!(sentence.contains("max-members"), "{sentence}");
}

//--- Assignment

/// A catalog with these members: zone, identifier, and the catalog that may take it over.
fn catalog(members: &[(&str, &str, Option<&str>)]) -> Catalog {
    let mut text = "version TXT \"2\"\n".to_owned();
    for (zone, id, coo) in members {
        text.push_str(&format!("{id}.zones PTR {zone}\n"));
        if let Some(coo) = coo {
            text.push_str(&format!("coo.{id}.zones PTR {coo}\n"));
        }
    }
    read(&text).unwrap()
}

/// The members until now: zone, catalog and identifier.
fn members(members: &[(&str, &str, &str)]) -> Members {
    let members = members.iter().map(|(zone, catalog, id)| {
        let member = Member {
            catalog: name(catalog),
            id: id.as_bytes().into(),
            groups: Vec::new(),
        };
        (name(zone), member)
    });
    members.collect()
}

fn assigned(before: &Members, catalogs: &[(&str, Option<Catalog>)]) -> Assigned {
    let names: Vec<Name> = catalogs.iter().map(|(apex, _)| name(apex)).collect();
    let known: Vec<Known<'_>> = names
        .iter()
        .zip(catalogs)
        .map(|(name, (_, catalog))| Known {
            name,
            catalog: catalog.as_ref(),
        })
        .collect();
    assign(before, &known, &|zone| *zone == name("own.test."))
}

type Listing<'t> = (&'t str, &'t [(&'t str, &'t str, Option<&'t str>)]);

/// Members before; catalogs with what they list; members after; those that are reset; the number of conflicts.
type Case<'t> = (
    &'t [(&'t str, &'t str, &'t str)],
    &'t [Listing<'t>],
    &'t [(&'t str, &'t str, &'t str)],
    &'t [&'t str],
    usize,
);

const CASES: &[Case<'static>] = &[
    // A new member; the first of two catalogs gets it.
    (
        &[],
        &[("c.", &[("a.", "1", None)])],
        &[("a.", "c.", "1")],
        &[],
        0,
    ),
    (
        &[],
        &[("c.", &[("a.", "1", None)]), ("d.", &[("a.", "1", None)])],
        &[("a.", "c.", "1")],
        &[],
        1,
    ),
    // One that stays, also when another catalog that comes first lists it; and one that goes.
    (
        &[("a.", "d.", "1"), ("b.", "d.", "2")],
        &[("c.", &[("a.", "1", None)]), ("d.", &[("a.", "1", None)])],
        &[("a.", "d.", "1")],
        &[],
        1,
    ),
    // Another identifier: its data goes first.
    (
        &[("a.", "c.", "1")],
        &[("c.", &[("a.", "2", None)])],
        &[("a.", "c.", "2")],
        &["a."],
        0,
    ),
    // A change of ownership, with its data; before the new owner lists it, it stays.
    (
        &[("a.", "c.", "1")],
        &[
            ("c.", &[("a.", "1", Some("d."))]),
            ("d.", &[("a.", "1", None)]),
        ],
        &[("a.", "d.", "1")],
        &[],
        0,
    ),
    (
        &[("a.", "c.", "1")],
        &[("c.", &[("a.", "1", Some("d."))]), ("d.", &[])],
        &[("a.", "c.", "1")],
        &[],
        0,
    ),
    // With another identifier, without data; to a catalog that is not here, not at all.
    (
        &[("a.", "c.", "1")],
        &[
            ("c.", &[("a.", "1", Some("d."))]),
            ("d.", &[("a.", "7", None)]),
        ],
        &[("a.", "d.", "7")],
        &["a."],
        0,
    ),
    (
        &[("a.", "c.", "1")],
        &[
            ("c.", &[("a.", "1", Some("e."))]),
            ("d.", &[("a.", "1", None)]),
        ],
        &[("a.", "c.", "1")],
        &[],
        1,
    ),
    // The old owner has let go without a word: a new zone of the same name.
    (
        &[("a.", "c.", "1")],
        &[("c.", &[]), ("d.", &[("a.", "1", None)])],
        &[("a.", "d.", "1")],
        &["a."],
        0,
    ),
    // The new owner keeps it, whatever the former one lists.
    (
        &[("a.", "d.", "1")],
        &[
            ("c.", &[("a.", "1", Some("d."))]),
            ("d.", &[("a.", "1", None)]),
        ],
        &[("a.", "d.", "1")],
        &[],
        0,
    ),
    // Twice in one catalog: the one that is there stays.
    (
        &[("a.", "c.", "2")],
        &[("c.", &[("a.", "1", None), ("a.", "2", None)])],
        &[("a.", "c.", "2")],
        &[],
        1,
    ),
    // A zone that is configured otherwise is never taken, and goes if it was a member.
    (
        &[("own.test.", "c.", "1")],
        &[("c.", &[("own.test.", "1", None), ("b.", "2", None)])],
        &[("b.", "c.", "2")],
        &[],
        1,
    ),
    // A catalog that is not configured any more.
    (&[("a.", "gone.", "1")], &[("c.", &[])], &[], &[], 0),
];

#[test]
fn each_zone_belongs_to_one_catalog_and_changes_it_only_as_the_owner_says() {
    for (before, listings, after, reset, n_conflicts) in CASES {
        let catalogs: Vec<_> = listings
            .iter()
            .map(|(apex, listed)| (*apex, Some(catalog(listed))))
            .collect();
        let result = assigned(&members(before), &catalogs);
        assert_eq!(result.members, members(after), "{before:?} {listings:?}");
        let reset: BTreeSet<Name> = reset.iter().map(|zone| name(zone)).collect();
        assert_eq!(result.reset, reset, "{before:?} {listings:?}");
        let found = result.conflicts.len();
        assert_eq!(found, *n_conflicts, "{:?}", result.conflicts);
        // Nothing moves when nothing changes.
        let again = assigned(&result.members, &catalogs);
        assert_eq!(again.members, result.members, "{listings:?}");
        assert!(again.reset.is_empty(), "{listings:?}");
    }
}

#[test]
fn members_of_an_unknown_catalog_stay() {
    let before = members(&[
        ("a.", "c.", "1"),
        ("b.", "d.", "1"),
        ("own.test.", "c.", "3"),
    ]);
    let listed = catalog(&[("a.", "9", None), ("e.", "2", None)]);
    let result = assigned(&before, &[("c.", None), ("d.", Some(listed))]);
    assert_eq!(
        result.members,
        members(&[("a.", "c.", "1"), ("e.", "d.", "2")])
    );
    let conflicts: Vec<String> = result.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(conflicts, ["d. lists a., which belongs to c."]);
}

#[test]
fn random_catalogs_never_share_a_zone_or_take_a_configured_one() {
    let mut state = 7_u64;
    let mut draw = |most: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let zones = ["a.", "b.", "e.", "own.test."];
    let apexes = ["c.", "d.", "f."];
    let mut held = Members::new();
    for step in 0..3000 {
        let catalogs: Vec<(&str, Option<Catalog>)> = apexes
            .iter()
            .map(|apex| {
                let listed = zones.iter().filter_map(|zone| {
                    let node = (["1", "2"], [None, Some("c."), Some("d.")]);
                    let id = node.0.get(usize::try_from(draw(2)).ok()?)?;
                    let coo = node.1.get(usize::try_from(draw(3)).ok()?)?;
                    (draw(2) == 0).then_some((*zone, format!("{id}{zone}"), *coo))
                });
                let listed: Vec<_> = listed.collect();
                let listed: Vec<_> = listed
                    .iter()
                    .map(|(zone, id, coo)| (*zone, id.trim_end_matches('.'), *coo))
                    .collect();
                (*apex, (draw(5) > 0).then(|| catalog(&listed)))
            })
            .collect();
        let result = assigned(&held, &catalogs);
        assert!(!result.members.contains_key(&name("own.test.")), "{step}");
        for (zone, member) in &result.members {
            let its = catalogs
                .iter()
                .find(|(apex, _)| name(apex) == member.catalog);
            let (_, its) = its.unwrap();
            match its {
                Some(its) => {
                    let nodes = its.nodes(zone);
                    assert!(nodes.iter().any(|node| node.id == member.id), "{step}");
                }
                None => assert_eq!(held.get(zone), Some(member), "{step}"),
            }
            let was = held.get(zone);
            let is_other = was.is_some_and(|was| was.id != member.id);
            assert!(!is_other || result.reset.contains(zone), "{step} {zone}");
        }
        // Each listed zone has an owner, unless it is configured.
        for (_, listed) in &catalogs {
            for (zone, _) in listed.iter().flat_map(Catalog::members) {
                let is_own = *zone == name("own.test.");
                assert!(is_own || result.members.contains_key(zone), "{step} {zone}");
            }
        }
        held = result.members;
    }
}

//--- Text

#[test]
fn what_is_kept_is_read_again_and_damage_is_named() {
    let mut kept = members(&[("a.test.", "c.", "1"), ("b\\.x.test.", "d.", "\u{e9}")]);
    let member = kept.get_mut(&name("a.test.")).unwrap();
    member.groups = vec!["one".to_owned(), "t\two\n".to_owned()];
    let text = encode(&kept);
    assert_eq!(decode(&text), Ok(kept));
    assert_eq!(decode(""), Err(NotLedger { line: 1 }));
    for line in [
        "a.test.",
        "a.test.\tc.",
        "a.test.\tc.\t1",
        "a.test.\tc.\txy",
        "..\tc.\t00",
    ] {
        let damaged = format!("{text}{line}\n");
        assert_eq!(decode(&damaged), Err(NotLedger { line: 4 }), "{line}");
    }
}

fn listed(zones: &[(&str, &[&str])]) -> Vec<Listed> {
    let zones = zones.iter().map(|(zone, groups)| Listed {
        zone: name(zone),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    });
    zones.collect()
}

/// Reads a master file as the server does.
fn read_file(text: &str, apex: &Name) -> (u32, Catalog) {
    let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
    let file = parse(Path::new("c"), apex, &mut load, &Options::default()).unwrap();
    let zone = Zone::build(apex, &file.records, dns_wire::hash::Seed(7)).unwrap();
    let records = zone.plain_records();
    let records = records
        .iter()
        .map(|(owner, rtype, _, data)| (owner, *rtype, data.as_slice()));
    let catalog = Catalog::read(apex, records, 1000).unwrap();
    (zone.soa().serial, catalog)
}

#[test]
fn a_written_catalog_says_what_was_listed_and_its_serial_rises() {
    let apex = name("C.test.");
    let zones = listed(&[
        ("b.test.", &["quoted \"g\"", "\u{fc}"]),
        ("A.test.", &[]),
        ("a.TEST.", &["again"]),
        (".", &[]),
    ]);
    let first = render(&apex, &zones, None, 1000).unwrap().unwrap();
    let (serial, catalog) = read_file(&first, &apex);
    assert_eq!(serial, 1000);
    let names: Vec<String> = catalog
        .members()
        .map(|(zone, _)| zone.to_string())
        .collect();
    assert_eq!(names, [".", "a.test.", "b.test."]);
    let nodes = catalog.nodes(&name("b.test."));
    let groups: Vec<&[String]> = nodes.iter().map(|node| node.groups.as_slice()).collect();
    assert_eq!(groups, [["quoted \"g\"", "\u{fc}"]]);
    // Nothing new, in any order; a clock that has the same time, an earlier or a later one.
    let mut other = zones.clone();
    other.swap(0, 3);
    assert_eq!(render(&apex, &other, Some(&first), 5000), Ok(None));
    let fewer = listed(&[("b.test.", &[])]);
    for (seconds, expected) in [(1000, 1001), (7, 1001), (5000, 5000)] {
        let second = render(&apex, &fewer, Some(&first), seconds)
            .unwrap()
            .unwrap();
        let (serial, catalog) = read_file(&second, &apex);
        assert_eq!((serial, catalog.members().len()), (expected, 1));
    }
    // Another zone's file, or one that was not written here.
    for before in ["", "x", &first.replace("C.test.", "d.test.")] {
        let text = render(&apex, &zones, Some(before), 9).unwrap().unwrap();
        assert_eq!(read_file(&text, &apex).0, 9);
    }
    let long = name(&format!("{0}.{0}.{0}.{1}.", "x".repeat(63), "y".repeat(40)));
    assert!(render(&long, &zones, None, 1).is_err());
}

#[test]
fn the_file_of_a_member_has_a_name_of_its_own_that_leads_nowhere_else() {
    let long = format!("{0}.{0}.{0}.", "x".repeat(63));
    let zones = [
        "a.test.",
        "b.test.",
        ".",
        "..\\047..\\047etc.",
        "\\046\\046.",
        "\\000x.",
        "a\\047b.",
        &long,
    ];
    let mut names = BTreeSet::new();
    for zone in zones {
        let Ok(zone) = Name::parse(zone) else {
            continue;
        };
        for id in ["1", "2"] {
            let file = file_name(&zone, id.as_bytes());
            assert!(file.len() < 200, "{file}");
            let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b".-_".contains(&octet);
            assert!(file.bytes().all(is_plain), "{file}");
            assert!(!file.starts_with("..") && !file.contains('/'), "{file}");
            assert!(names.insert(file), "{zone}");
        }
    }
    let upper = file_name(&name("A.TEST."), b"ID");
    assert_eq!(upper, file_name(&name("a.test."), b"id"));
    assert!(upper.starts_with("a.test."), "{upper}");
}
