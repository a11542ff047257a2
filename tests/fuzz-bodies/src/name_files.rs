//! Any bytes as a hosts file, as a list of names and as a response policy zone.

use std::path::Path;

use config_text::{MAX_PROBLEMS, Problem};
use dns_names::policy::Rule;
use dns_names::{hosts, list, zone};
use dns_wire::Name;

pub(super) fn body(data: &[u8]) {
    let path = Path::new("names");
    let n_lines = data.split(|&byte| byte == b'\n').count();
    let places_exist = |problems: &[Problem]| {
        for position in problems.iter().filter_map(|it| it.position.as_ref()) {
            let exists = (1..=n_lines).contains(&position.line) && position.column >= 1;
            assert!(exists, "{position} of {n_lines} lines");
        }
    };
    let read = hosts::parse(path, data);
    assert!(read.problems.len() <= MAX_PROBLEMS, "problems are bounded");
    assert!(read.n_problems >= read.problems.len(), "all are counted");
    assert!(
        read.lines.iter().all(|host| !host.names.is_empty()),
        "each address has a name"
    );
    places_exist(&read.problems);
    match list::parse(path, data, &Rule::NxDomain) {
        Ok((zone, problems)) => {
            assert!(problems.len() <= MAX_PROBLEMS, "problems are bounded");
            assert!(zone.n_left_out >= problems.len(), "all are counted");
            places_exist(&problems);
        }
        Err(problem) => places_exist(&[problem]),
    }
    let apex = Name::parse("rpz.test").expect("it is a name");
    if let Err(problems) = zone::parse(path, &apex, data, None) {
        assert!(!problems.is_empty(), "a refusal says why");
        places_exist(&problems);
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "192.0.2.1 ",
    "2001:db8::1 ",
    "a.example ",
    "*.a.example ",
    "||a.example^",
    "# ",
    "\n",
    "$TTL 60\n",
    "@ SOA l. r. 1 2 3 4 5\n",
    "@ NS l.\n",
    "a.example CNAME .\n",
    "*.a.example CNAME *.\n",
    "a.example CNAME rpz-passthru.\n",
    "a.example CNAME rpz-drop.\n",
    "a.example CNAME *.garden.example.\n",
    "a.example A 192.0.2.1\n",
    "32.1.2.0.192.rpz-ip CNAME .\n",
    "x.rpz-nsdname TXT \"x\"\n",
];
