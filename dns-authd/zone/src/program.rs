//! Programs of `LUA` records, as they are written, run and sent.
//!
//! A program is written in one or more strings. The server runs them joined, with or without blanks
//! between them; it shows and sends the strings as written, because each reader joins them in its own
//! way.

use std::sync::Arc;

use config_text::Position;
use dns_wire::Type;

/// The longest string in a record's data.
const MAX_STRING: usize = 255;

/// One `LUA` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The TTL it was written with.
    pub ttl: u32,
    /// The program's text.
    pub code: Arc<str>,
    /// The strings it was written in.
    pub parts: Arc<[Box<str>]>,
    /// Its place in the file.
    pub position: Position,
}

impl Program {
    /// The program as record data: the type it makes, then its strings, split where one is too long.
    #[must_use]
    pub fn rdata(&self, rtype: Type) -> Vec<u8> {
        let parts = self.parts.iter().map(|part| part.as_bytes());
        wire(rtype, parts)
    }

    /// The LUA record's data in master-file form: the type it makes, and its strings in quotes. Octets that
    /// quotes cannot hold are escaped.
    #[must_use]
    pub fn display(&self, rtype: Type) -> String {
        let strings: Option<Vec<String>> = self.parts.iter().map(|part| quoted(part)).collect();
        match strings {
            Some(strings) => format!("{rtype} {}", strings.join(" ")),
            // On reading back, the strings of octets are joined without blanks.
            None => {
                let octets = wire(rtype, std::iter::once(self.code.as_bytes()));
                dns_wire::rdata::display(Type::LUA, &octets)
            }
        }
    }
}

/// A LUA record's data in master-file form, of its data in a transfer.
pub(crate) fn display_wire(rdata: &[u8]) -> String {
    let display = || {
        let (rtype, mut rest) = rdata.split_first_chunk::<2>()?;
        let mut text = Type(u16::from_be_bytes(*rtype)).to_string();
        while let Some((length, behind)) = rest.split_first() {
            let (string, tail) = behind.split_at_checked(usize::from(*length))?;
            text.push(' ');
            text.push_str(&quoted(std::str::from_utf8(string).ok()?)?);
            rest = tail;
        }
        Some(text)
    };
    // Strings cut in the middle of a character are octets, too.
    display().unwrap_or_else(|| dns_wire::rdata::display(Type::LUA, rdata))
}

fn wire<'p>(rtype: Type, parts: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut rdata = rtype.0.to_be_bytes().to_vec();
    for part in parts {
        let mut rest = part;
        loop {
            let (string, tail) = rest.split_at(rest.len().min(MAX_STRING));
            rdata.push(u8::try_from(string.len()).unwrap_or(u8::MAX));
            rdata.extend_from_slice(string);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    }
    rdata
}

/// A string in quotes that [`unescape`] turns into the same string; `None` if there is no such form.
fn quoted(part: &str) -> Option<String> {
    let text = part.replace('"', r#"\""#);
    let mut back = Vec::with_capacity(part.len());
    unescape(text.as_bytes(), &mut back);
    // A remaining backslash would escape the closing quote.
    let n_backslashes = part.len() - part.trim_end_matches('\\').len();
    let is_whole = back == part.as_bytes() && n_backslashes.is_multiple_of(2);
    let is_text = !part.contains(|c: char| c.is_control() && c != '\t');
    (is_whole && is_text).then(|| format!("\"{text}\""))
}

/// Appends a string of a program as a master file has it. Backslashes are Lua's own, so only the two
/// escapes that the master file needs for itself are resolved.
pub(crate) fn unescape(text: &[u8], code: &mut Vec<u8>) {
    let mut octets = text.iter().peekable();
    while let Some(octet) = octets.next() {
        match (octet, octets.peek()) {
            (b'\\', Some(next @ (b'"' | b';'))) => {
                code.push(**next);
                octets.next();
            }
            (b'\\', Some(next)) => {
                code.extend([b'\\', **next]);
                octets.next();
            }
            _ => code.push(*octet),
        }
    }
}
