//! The members of catalogs as a file keeps them, so that a start serves them before the catalogs are read.
//!
//! ```text
//! a.test.<TAB>catalog.test.<TAB>6964<TAB>67726f7570 ...
//! ```
//!
//! A line for each zone: its name, its catalog, its identifier and its groups, the latter in hexadecimal digits.

use std::fmt;

use dns_wire::Name;

use crate::assign::{Member, Members};

/// The first line of a file.
const HEAD: &str = "outpost-dns-authd-members 1";

/// A text that is no list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLedger {
    /// The first line that cannot be read; they are counted from 1.
    pub line: usize,
}

impl fmt::Display for NotLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is none of a list of members", self.line)
    }
}

impl std::error::Error for NotLedger {}

/// The members as text.
#[must_use]
pub fn encode(members: &Members) -> String {
    let mut text = format!("{HEAD}\n");
    for (zone, member) in members {
        let Member {
            catalog,
            id,
            groups,
        } = member;
        text.push_str(&format!("{zone}\t{catalog}\t{}", hex(id)));
        for group in groups {
            text.push('\t');
            text.push_str(&hex(group.as_bytes()));
        }
        text.push('\n');
    }
    text
}

/// The members of a text.
///
/// # Errors
/// When a line cannot be read.
pub fn decode(text: &str) -> Result<Members, NotLedger> {
    let mut lines = text.lines().zip(1..);
    match lines.next() {
        Some((HEAD, _)) => {}
        _ => return Err(NotLedger { line: 1 }),
    }
    let members = lines.map(|(line, number)| member(line).ok_or(NotLedger { line: number }));
    members.collect()
}

fn member(line: &str) -> Option<(Name, Member)> {
    let mut fields = line.split('\t');
    let zone = Name::parse(fields.next()?).ok()?;
    let catalog = Name::parse(fields.next()?).ok()?;
    let id = octets(fields.next()?)?;
    let groups = fields.map(|field| String::from_utf8(octets(field)?).ok());
    let member = Member {
        catalog,
        id: id.into(),
        groups: groups.collect::<Option<_>>()?,
    };
    Some((zone, member))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |octet: u8| char::from(octet).to_digit(16);
    let octets = pairs.iter().map(|[high, low]| {
        let octet = digit(*high)? * 16 + digit(*low)?;
        u8::try_from(octet).ok()
    });
    octets.collect()
}
