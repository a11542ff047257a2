//! Files in the form of /etc/hosts (hosts(5)): an address, its name, and further names of it.
//!
//! A line that cannot be understood is counted, and harms no other line.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use config_text::{MAX_PROBLEMS, Position, Problem};
use dns_wire::Name;

/// The most names of one file: more is no list that people keep.
pub const MAX_NAMES: usize = 500_000;

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    pub lines: Vec<Host>,
    /// The first lines that were not understood.
    pub problems: Vec<Problem>,
    /// The number of all of them.
    pub n_problems: usize,
}

/// An address and its names, the official one first; never without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub address: IpAddr,
    pub names: Vec<Name>,
}

/// Reads a file. Bytes that are not UTF-8 make their line a wrong one.
#[must_use]
pub fn parse(path: &Path, text: &[u8]) -> Hosts {
    let file: Arc<Path> = path.into();
    let mut hosts = Hosts::default();
    let mut n_names = 0_usize;
    for (index, line) in text.split(|octet| *octet == b'\n').enumerate() {
        let mut wrong = |column: usize, message: String| {
            hosts.n_problems += 1;
            if hosts.problems.len() < MAX_PROBLEMS {
                let position = Position {
                    file: Arc::clone(&file),
                    line: index + 1,
                    column,
                };
                hosts.problems.push(Problem::at(position, message));
            }
        };
        let Ok(line) = std::str::from_utf8(line) else {
            wrong(1, "the line is not UTF-8".to_owned());
            continue;
        };
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next() else {
            continue;
        };
        let column = |word: &str| word.as_ptr().addr() - line.as_ptr().addr() + 1;
        let Ok(address) = word.parse::<IpAddr>() else {
            wrong(column(word), format!("`{word}` is no IP address"));
            continue;
        };
        let mut names = Vec::new();
        for word in words {
            n_names += 1;
            if n_names > MAX_NAMES {
                wrong(
                    column(word),
                    format!("more than {MAX_NAMES} names: the rest is left out"),
                );
                return hosts;
            }
            match Name::parse(word) {
                Ok(name) if !name.is_root() => names.push(name.to_lowercase()),
                _ => wrong(column(word), format!("`{word}` is not a domain name")),
            }
        }
        match names.is_empty() {
            true => wrong(column(word), format!("{address} has no name")),
            false => hosts.lines.push(Host { address, names }),
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Vec<String>, Vec<String>) {
        let hosts = parse(Path::new("hosts"), text);
        assert_eq!(hosts.problems.len(), hosts.n_problems);
        let line = |host: &Host| {
            let names: Vec<String> = host.names.iter().map(Name::to_string).collect();
            format!("{} {}", host.address, names.join(" "))
        };
        (
            hosts.lines.iter().map(line).collect(),
            hosts.problems.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn lines_are_addresses_with_names() {
        let text = b"# comment\n\n127.0.0.1\tlocalhost  Local.Example # end\r\n::1 v6.example.\r\n10.0.0.1 last";
        let (lines, problems) = read(text);
        assert_eq!(
            lines,
            [
                "127.0.0.1 localhost. local.example.",
                "::1 v6.example.",
                "10.0.0.1 last."
            ]
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_wrong_line_harms_no_other() {
        let text =
            b"fe80::1%eth0 zone.example\n10.0.0.1\n 10.0.0.2 a..b fine\n\xff\n10.0.0.3 x .\n";
        let (lines, problems) = read(text);
        assert_eq!(lines, ["10.0.0.2 fine.", "10.0.0.3 x."]);
        assert_eq!(
            problems,
            [
                "hosts:1:1: `fe80::1%eth0` is no IP address",
                "hosts:2:1: 10.0.0.1 has no name",
                "hosts:3:11: `a..b` is not a domain name",
                "hosts:4:1: the line is not UTF-8",
                "hosts:5:12: `.` is not a domain name",
            ]
        );
    }

    #[test]
    fn names_and_problems_are_bounded() {
        let many = "10.0.0.1 a\n".repeat(MAX_NAMES + 10);
        let hosts = parse(Path::new("hosts"), many.as_bytes());
        assert_eq!((hosts.lines.len(), hosts.n_problems), (MAX_NAMES, 1));
        let hosts = parse(Path::new("hosts"), "x y\n".repeat(1000).as_bytes());
        assert_eq!(
            (hosts.problems.len(), hosts.n_problems),
            (MAX_PROBLEMS, 1000)
        );
    }
}
