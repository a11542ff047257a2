//! Any bytes as a hosts file, as a list of names and as a response policy zone; as the hosts file of a node that gets its
//! block, and as the response about a service in it.

use std::path::Path;

use config_text::{MAX_PROBLEMS, Problem};
use dns_names::policy::Rule;
use dns_names::{hosts, list, zone};
use dns_wire::Name;
use node_hosts::answer::{Allow, Family, Judged, Outcome, Question};
use node_hosts::block::{self, Entry, NodeResolver};

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
    node_hosts(data);
}

fn node_hosts(data: &[u8]) {
    let entry = Entry {
        address: [192, 0, 2, 1].into(),
        names: vec!["a.example".to_owned(), "a.example.test".to_owned()],
    };
    let entries = [entry];
    for node_resolver in [NodeResolver::Keep, NodeResolver::Replace] {
        let with = block::replaced(data, &entries, node_resolver);
        let again = block::replaced(&with, &entries, node_resolver);
        assert_eq!(with, again, "a second write changes nothing");
        let n_blocks = with
            .split(|&byte| byte == b'\n')
            .filter(|line| line.trim_ascii_end() == block::BEGIN.as_bytes())
            .count();
        assert_eq!(n_blocks, 1, "there is one block");
        let known = block::entries(&with, node_resolver);
        assert_eq!(known, entries, "what was written is read again");
    }
    let is_marked = |marker: &str| data.windows(marker.len()).any(|it| it == marker.as_bytes());
    if !is_marked("outpost-node-resolver") {
        let with = block::replaced(data, &entries, NodeResolver::Keep);
        let without = block::replaced(&with, &[], NodeResolver::Keep);
        assert_eq!(without, data, "the bytes of others stay");
    }
    let name = Name::parse("a.example").expect("it is a name");
    let question = Question {
        id: 0,
        name: &name,
        family: Family::V4,
    };
    if let Judged::Answer(Outcome::Addresses { addresses, .. }) =
        question.judge(data, Allow::Nothing)
    {
        assert!(
            !addresses.is_empty() && addresses.is_sorted(),
            "{addresses:?}"
        );
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
    "# BEGIN outpost-node-resolver\n",
    "# END outpost-node-resolver",
    "192.0.2.9 a.example a.example.test\r\n",
    "192.0.2.9 a.example a.example.test # openshift-generated-node-resolver\n",
];
