use std::fs;

use dns_cache::testing::{addresses, question};
use dns_names::Reply;
use dns_resolve::forward::Table;
use dns_wire::Type;

use super::*;

/// How long a change may take to be seen; much more than it takes.
const LONG: Duration = Duration::from_secs(60);

fn answered(names: &Names, name: &str) -> Vec<String> {
    match names.reply(&question(name, Type::A), None, &Table::default()) {
        Some((Reply::Answer(message), _)) => addresses(message.bytes()),
        _ => Vec::new(),
    }
}

async fn until(shared: &Shared, what: impl Fn(&Names) -> bool) {
    let cell = shared.cell();
    let waiting = async {
        while !what(&cell.current()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap();
}

#[tokio::test]
async fn a_hosts_file_is_read_again_however_it_changes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hosts");
    let plan = NamePlan {
        hosts: vec![path.clone()],
        ..NamePlan::default()
    };
    let contents = Contents::read(&plan).unwrap();
    let names = FollowedNames::start(plan, contents);
    let shared = names.shared();
    assert!(answered(&shared.cell().current(), "a.example").is_empty());
    let is = |expected: &'static str| {
        move |names: &Names| answered(names, "a.example").join(" ") == expected
    };
    fs::write(&path, "192.0.2.1 a.example\n").unwrap();
    until(&shared, is("192.0.2.1")).await;
    let other = place.path().join("new");
    fs::write(&other, "192.0.2.2 a.example\n").unwrap();
    fs::rename(&other, &path).unwrap();
    until(&shared, is("192.0.2.2")).await;
    fs::remove_file(&path).unwrap();
    until(&shared, is("")).await;
    std::os::unix::fs::symlink(&other, &path).unwrap();
    fs::write(&other, "192.0.2.3 a.example\nwrong line\n").unwrap();
    until(&shared, is("192.0.2.3")).await;
    let report = shared.report().unwrap();
    assert_eq!((report.hosts, report.files[0].left_out), (1, 1));
}

#[tokio::test]
async fn a_policy_with_a_problem_stops_the_start_and_changes_nothing_later() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rpz");
    let plan = NamePlan {
        policies: vec![PolicyFile {
            path: path.clone(),
            zone: Some(Name::parse("rpz.test").unwrap()),
            fixed: None,
        }],
        ..NamePlan::default()
    };
    assert!(
        Contents::read(&plan)
            .unwrap_err()
            .to_string()
            .contains("rpz: ")
    );
    let head = "$TTL 60\n@ SOA l. r. 1 2 3 4 5\n@ NS l.\n";
    fs::write(&path, format!("{head}a.example A 192.0.2\n")).unwrap();
    assert!(
        Contents::read(&plan)
            .unwrap_err()
            .to_string()
            .contains("rpz:4:")
    );
    fs::write(&path, format!("{head}a.example A 192.0.2.1\n")).unwrap();
    let contents = Contents::read(&plan).unwrap();
    let names = FollowedNames::start(plan, contents);
    let shared = names.shared();
    assert_eq!(
        answered(&shared.cell().current(), "a.example"),
        ["192.0.2.1"]
    );
    fs::write(&path, "nonsense\n").unwrap();
    let problem = || shared.report().unwrap().files[0].problem.clone();
    let waiting = async {
        while problem().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap();
    assert_eq!(
        answered(&shared.cell().current(), "a.example"),
        ["192.0.2.1"]
    );
    fs::write(&path, format!("{head}a.example A 192.0.2.9\n")).unwrap();
    until(&shared, |names| {
        answered(names, "a.example") == ["192.0.2.9"]
    })
    .await;
    assert_eq!(problem(), None);
}
