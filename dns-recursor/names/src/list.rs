//! Lists of names: one a line, a hosts file, or the host rules of an ad blocker.
//!
//! | line | names |
//! | --- | --- |
//! | `ads.example` | the name and all below |
//! | `*.ads.example` | all below |
//! | `\|\|ads.example^` | the name and all below |
//! | `0.0.0.0 ads.example` | the names alone |

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config_text::{MAX_PROBLEMS, Position, Problem};
use dns_wire::Name;

use crate::policy::{PolicyZone, Rule};

/// The most names of a list.
pub const MAX_NAMES: usize = 2_000_000;

/// The names that stand in each hosts file for the host itself: a list must not block them.
const OWN: [&str; 7] = [
    "localhost",
    "localhost.localdomain",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "0.0.0.0",
];

/// A list of names as rules, and the first lines that were not understood.
///
/// # Errors
/// A list with more than [`MAX_NAMES`].
pub fn parse(path: &Path, text: &[u8], rule: &Rule) -> Result<(PolicyZone, Vec<Problem>), Problem> {
    let file: Arc<Path> = path.into();
    let mut zone = PolicyZone::default();
    let mut problems = Vec::new();
    for (index, line) in text.split(|octet| *octet == b'\n').enumerate() {
        let at = || Position {
            file: Arc::clone(&file),
            line: index + 1,
            column: 1,
        };
        if zone.len() > MAX_NAMES {
            return Err(Problem::at(at(), format!("more than {MAX_NAMES} names")));
        }
        let line = String::from_utf8_lossy(line);
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('!') || line.starts_with('[') {
            continue;
        }
        if !add(&mut zone, line, rule) {
            zone.n_left_out += 1;
            if problems.len() < MAX_PROBLEMS {
                let message =
                    format!("`{line}` is neither a domain name nor a line of a hosts file");
                problems.push(Problem::at(at(), message));
            }
        }
    }
    Ok((zone, problems))
}

/// Adds a line; false when it is not understood.
fn add(zone: &mut PolicyZone, line: &str, rule: &Rule) -> bool {
    let mut words = line.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    if first.parse::<IpAddr>().is_ok() {
        let mut has_name = false;
        for word in words {
            has_name = true;
            let Ok(name) = Name::parse(word) else {
                return false;
            };
            if !OWN.iter().any(|own| word.eq_ignore_ascii_case(own)) {
                zone.add(&name, rule.clone());
            }
        }
        return has_name;
    }
    if words.next().is_some() {
        return false;
    }
    let (text, is_itself) = match (first.strip_prefix("||"), first.strip_prefix("*.")) {
        (Some(rest), _) => match rest.strip_suffix('^') {
            Some(name) => (name, true),
            None => return false,
        },
        (None, Some(rest)) => (rest, false),
        (None, None) => (first, true),
    };
    match Name::parse(text) {
        Ok(name) if !name.is_root() && !text.contains(['*', '/', '|', '^', '$']) => {
            if is_itself {
                zone.add(&name, rule.clone());
            }
            zone.add_below(&name, rule.clone());
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_line_names_its_names() {
        let text =
            b"# a list\n! another comment\n[Adblock Plus]\nads.example\n*.below.example # all\n\
            ||block.example^\n0.0.0.0 host.example Other.example\n127.0.0.1 localhost\n";
        let (zone, problems) = parse(Path::new("list"), text, &Rule::NxDomain).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        for (name, is_blocked) in [
            ("ads.example", true),
            ("a.b.ads.example", true),
            ("xads.example", false),
            ("below.example", false),
            ("a.below.example", true),
            ("block.example", true),
            ("a.block.example", true),
            ("host.example", true),
            ("a.host.example", false),
            ("other.example", true),
            ("localhost", false),
            ("example", false),
        ] {
            let wire = Name::parse(name).unwrap();
            assert_eq!(zone.find(wire.as_wire()).is_some(), is_blocked, "{name}");
        }
    }

    #[test]
    fn other_lines_are_named_and_left_out() {
        let text = b"fine.example\n/banner/*/img\n||a.example^$third-party\ntwo words\n0.0.0.0\n";
        let (zone, problems) = parse(Path::new("list"), text, &Rule::NoData).unwrap();
        assert_eq!((zone.n_left_out, problems.len()), (4, 4));
        assert!(
            problems[0]
                .to_string()
                .starts_with("list:2:1: `/banner/*/img` is neither")
        );
    }
}
