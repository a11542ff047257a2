//! The packages that a package may know, by its folder; and those that a core never depends on.
//!
//! ```text
//! base/*      the floor: knows base and proto
//! peers/*     formats of other software: never a service's own crate
//! S           a service's own crate lies in S itself; tests alone may depend on it
//! S/*         its parts; another service uses one only if it says `shared = true`
//! tests/*     depend on anything, and nothing depends on them
//! ```

use std::collections::BTreeMap;

use tidy::workspace::{Dependency, Package, packages};

/// Crates that do input or output, or stand on one that does.
const FORBIDDEN_IN_CORES: &[&str] = &[
    "daemon",
    "hyper",
    "hyper-util",
    "libc",
    "mio",
    "rtnetlink",
    "rustix",
    "socket2",
    "sys",
    "tokio",
    "tonic",
    "tracing",
];

#[test]
fn packages_depend_in_one_direction() {
    let packages = packages();
    assert!(packages.len() > 10, "{} packages", packages.len());
    let found = wrong_directions(&packages);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn cores_depend_on_nothing_that_does_io() {
    let found = impure_cores(&packages());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn wrong_directions(packages: &[Package]) -> Vec<String> {
    let by_name = by_name(packages);
    let mut found = Vec::new();
    for from in packages {
        for dependency in &from.dependencies {
            if let Some(to) = by_name.get(dependency.name.as_str())
                && let Some(why) = why_not(from, to)
            {
                let (from, to) = (&from.name, &to.name);
                found.push(format!("{from} must not depend on {to}: {why}"));
            }
        }
    }
    found
}

fn why_not(from: &Package, to: &Package) -> Option<&'static str> {
    let kind = |package: &Package| match package.top() {
        "base" | "proto" => Floor::Base,
        "peers" => Floor::Peers,
        "tests" => Floor::Tests,
        top if package.folder.as_os_str() == top => Floor::Service,
        _ => Floor::Part,
    };
    match (kind(from), kind(to)) {
        (Floor::Tests, _) | (_, Floor::Base) => None,
        (_, Floor::Tests) => Some("nothing depends on tests"),
        (_, Floor::Service) => Some("tests alone depend on a service's own crate"),
        (Floor::Base, _) => Some("the base knows the base alone"),
        (Floor::Peers, Floor::Part) if !to.core => Some("it is not a core"),
        (Floor::Service | Floor::Part, Floor::Part) if from.top() != to.top() && !to.shared => {
            Some("it is another service's, and does not say `shared = true`")
        }
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Floor {
    Base,
    Peers,
    /// A service's own crate.
    Service,
    /// Another crate in a service's folder.
    Part,
    Tests,
}

fn impure_cores(packages: &[Package]) -> Vec<String> {
    let by_name = by_name(packages);
    let mut found = Vec::new();
    for core in packages.iter().filter(|package| package.core) {
        let mut ways = vec![vec![core]];
        let mut seen = vec![core.name.as_str()];
        while let Some(way) = ways.pop() {
            let last = way[way.len() - 1];
            for Dependency { name, .. } in last.dependencies.iter().filter(|d| d.normal) {
                if FORBIDDEN_IN_CORES.contains(&name.as_str()) {
                    let names: Vec<&str> = way.iter().map(|p| p.name.as_str()).collect();
                    found.push(format!("{} → {name}", names.join(" → ")));
                } else if let Some(next) = by_name.get(name.as_str())
                    && !seen.contains(&name.as_str())
                {
                    seen.push(name);
                    let mut way = way.clone();
                    way.push(next);
                    ways.push(way);
                }
            }
        }
    }
    found
}

fn by_name(packages: &[Package]) -> BTreeMap<&str, &Package> {
    let named = |package| -> (&str, &Package) {
        let package: &Package = package;
        (package.name.as_str(), package)
    };
    packages.iter().map(named).collect()
}

//--- The rules themselves

/// A package at a folder, with what it depends on; a `!` makes a core, a `+` shares it.
fn made_up(folder: &str, dependencies: &[&str]) -> Package {
    let path = folder.trim_end_matches(['!', '+']);
    Package {
        name: path.rsplit('/').next().unwrap().to_owned(),
        folder: path.into(),
        targets: Vec::new(),
        dependencies: dependencies
            .iter()
            .map(|name| Dependency {
                name: name.trim_start_matches("dev:").to_owned(),
                normal: !name.starts_with("dev:"),
            })
            .collect(),
        core: folder.contains('!'),
        shared: folder.contains('+'),
    }
}

#[test]
fn directions_are_judged_by_folders() {
    let check = |dependent: (&str, &[&str]), wrong: bool| {
        let packages = [
            made_up("base/text", &[]),
            made_up("peers/bind", &[]),
            made_up("dns", &[]),
            made_up("dns/zone!", &[]),
            made_up("dns/io", &[]),
            made_up("registry/oci!+", &[]),
            made_up("tests", &[]),
            made_up(dependent.0, dependent.1),
        ];
        let found = wrong_directions(&packages);
        assert_eq!(!found.is_empty(), wrong, "{dependent:?}: {found:?}");
    };
    check(("base/daemon", &["text", "serde"]), false);
    check(("base/daemon", &["zone"]), true);
    check(("peers/pdns", &["zone", "text", "bind"]), false);
    check(("peers/pdns", &["io"]), true);
    check(("peers/pdns", &["dns"]), true);
    check(("dns/lua", &["zone", "io", "bind"]), false);
    check(("dns/lua", &["dns"]), true);
    check(("lb", &["zone"]), true);
    check(("lb", &["oci"]), false);
    check(("lb", &["dev:dns"]), true);
    check(("lb", &["tests"]), true);
    check(("tests/bodies", &["tests", "dns", "io"]), false);
}

#[test]
fn cores_are_held_to_what_they_reach() {
    let check = |packages: &[Package], wanted: &[&str]| {
        assert_eq!(impure_cores(packages), wanted);
    };
    check(&[made_up("a/core!", &["ipnet", "dev:tokio"])], &[]);
    check(&[made_up("a/core!", &["tokio"])], &["core → tokio"]);
    check(&[made_up("a/shell", &["tokio"])], &[]);
    check(
        &[
            made_up("a/core!", &["middle"]),
            made_up("a/middle", &["core", "libc"]),
        ],
        &["core → middle → libc"],
    );
}
