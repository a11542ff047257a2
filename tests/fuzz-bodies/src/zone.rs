//! Any bytes as a master file: read, printed and read again, compiled, and asked.

use std::io;
use std::path::Path;

use config_text::{MAX_PROBLEMS, MAX_WARNINGS, Problem};
use dns_answer::Transport;
use dns_wire::{Name, Type, rdata};
use dns_zone::parse::{self, Options, ZoneFile};
use dns_zone::record::RecordData;

use crate::dns_world::world_of;

pub(super) fn body(data: &[u8]) {
    let options = Options {
        // Small, so that no input takes long.
        generate_steps: 200,
        include_files: 20,
        include_depth: 5,
        ..Options::default()
    };
    let apex = Name::parse("example.").expect("a name");
    let mut load = |path: &Path| match path.to_str() {
        Some("zone") => Ok(data.to_vec()),
        Some("other") => Ok(b"other A 192.0.2.7\n$INCLUDE other\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let result = parse::parse(Path::new("zone"), &apex, &mut load, &options);
    let n_lines = data.split(|&byte| byte == b'\n').count();
    match result {
        Ok(file) => {
            assert!(
                file.warnings.len() <= MAX_WARNINGS + 1,
                "warnings are bounded"
            );
            places_exist(&file.warnings, n_lines);
            records_read_back(&file);
            every_name_answers(&file);
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
        if *position.file == *Path::new("zone") {
            let exists = (1..=n_lines).contains(&position.line) && position.column >= 1;
            assert!(exists, "{position} of {n_lines} lines");
        }
    }
}

/// Data in the form in which it is printed means the same.
fn records_read_back(file: &ZoneFile) {
    for record in &file.records {
        assert!(
            record.owner.is_within(&file.apex),
            "{} is out of the zone",
            record.owner
        );
        let RecordData::Wire { rtype, rdata: wire } = &record.data else {
            continue;
        };
        assert!(
            rdata::is_valid(*rtype, wire),
            "{rtype} {wire:02x?} was read but is not valid"
        );
        let text = rdata::display(*rtype, wire);
        let again = rdata::from_text(*rtype, &text, &file.apex);
        assert_eq!(again.as_deref(), Ok(&**wire), "{rtype} {text}");
    }
}

fn every_name_answers(file: &ZoneFile) {
    let Some(mut world) = world_of(file) else {
        return;
    };
    for record in file.records.iter().take(MAX_ASKED) {
        for (name, qtype) in [
            (Some(record.owner.clone()), record.rtype()),
            (record.owner.prepend(b"x").ok(), record.rtype()),
            (Some(record.owner.clone()), Type::ANY),
        ] {
            let Some(name) = name else { continue };
            for transport in [Transport::Udp, Transport::Tcp] {
                let query = query(&name, qtype);
                let message = world
                    .answer(&query, transport)
                    .expect("own names are answered");
                let rcode = message.rcode;
                assert!(
                    rcode != 1 && rcode != 4 && rcode != 5,
                    "{name} {qtype}: {rcode}"
                );
            }
        }
    }
}

fn query(name: &Name, qtype: Type) -> Vec<u8> {
    let mut query = vec![1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(name.as_wire());
    query.extend(qtype.0.to_be_bytes());
    query.extend([0, 1]);
    query
}

/// Names that are asked of one zone.
const MAX_ASKED: usize = 40;

/// Pieces of master files.
pub(super) const WORDS: &[&str] = &[
    "$ORIGIN ",
    "$TTL ",
    "$INCLUDE other\n",
    "$GENERATE 1-20/3 h${0,3,x} A 192.0.2.$\n",
    "@ ",
    " IN ",
    " SOA . . 1 2 3 4 5\n",
    " NS ns\n",
    " CNAME a\n",
    " DNAME b\n",
    " LUA A \"",
    "\"\n",
    "*.",
    "*",
    " TYPE65400 \\# 3 abcdef\n",
    " TXT ",
    "\\032",
    "\\.",
    "(",
    ")",
    ";",
    "\n",
    " 1W ",
    " 4294967295 ",
    " AAAA 2001:db8::1\n",
    " A 192.0.2.1\n",
    " MX 1 a\n",
    " CH ",
    "example.",
    " DS 1 13 2 00\n",
    " LOC 52 N 4 E 1m\n",
    " SVCB 1 . alpn=h2\n",
    " NAPTR 1 1 u e \"\" .\n",
    " CAA 0 issue \"x\"\n",
    "\r\n",
    "\0",
    "\t",
];
