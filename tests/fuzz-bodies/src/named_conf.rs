//! Any bytes as a list of zones.

use std::path::Path;

use config_text::{MAX_PROBLEMS, MAX_WARNINGS, Problem};
use peer_bind::parse_bytes;

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    match parse_bytes(data) {
        Ok(conf) => {
            assert!(
                conf.warnings.len() <= MAX_WARNINGS + 1,
                "warnings are bounded"
            );
            places_exist(&conf.warnings, n_lines);
            for zone in &conf.zones {
                let line = zone.position.line;
                assert!(
                    (1..=n_lines).contains(&line),
                    "{} of {n_lines} lines",
                    zone.position
                );
                if let Some(file) = &zone.file {
                    assert!(
                        !file.as_os_str().is_empty(),
                        "{} has an empty file name",
                        zone.name
                    );
                }
            }
        }
        Err(rejected) => {
            assert!(!rejected.problems.is_empty(), "a refusal says why");
            assert!(
                rejected.problems.len() <= MAX_PROBLEMS + 1,
                "problems are bounded"
            );
            places_exist(&rejected.problems, n_lines);
        }
    }
}

fn places_exist(problems: &[Problem], n_lines: usize) {
    for problem in problems {
        assert!(!problem.message.is_empty(), "a problem says what it is");
        let Some(position) = &problem.position else {
            continue;
        };
        if *position.file == *Path::new("named.conf") {
            let exists = (1..=n_lines).contains(&position.line) && position.column >= 1;
            assert!(exists, "{position} of {n_lines} lines");
        }
    }
}

/// Pieces of such lists.
pub(super) const WORDS: &[&str] = &[
    "zone ",
    "\"a.example\" ",
    "{ ",
    "};",
    "}; ",
    "type master;",
    "type primary;",
    "type slave;",
    "file \"x\";",
    "options ",
    "directory \"/etc\";",
    "include \"x\";",
    "also-notify { 192.0.2.1; };",
    "primaries { 192.0.2.1 port 5301; };",
    "// ",
    "# ",
    "/* ",
    " */",
    "\n",
    "IN ",
    "acl x { any; };",
    "logging ",
    "\"",
    ";",
    "masters",
    "2001:db8::1",
    "key \"k\" ",
];
