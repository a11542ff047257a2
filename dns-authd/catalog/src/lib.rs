//! Catalog zones (RFC 9432): a zone whose records list other zones, so that secondaries serve what their primary serves.
//!
//! ```text
//! records of a catalog zone ─► Catalog ─┐
//! records of another one ────► Catalog ─┼─► assign ─► Members, conflicts, resets
//! members until now ────────────────────┘
//!
//! zones of a configuration ─► render ─► the master file of a catalog zone
//! ```
//!
//! Opens nothing, reads no clock and logs nothing.

mod assign;
mod catalog;
mod ledger;
mod render;
#[cfg(test)]
mod tests;

pub use assign::{Assigned, Conflict, Known, Member, Members, Reason, assign};
pub use catalog::{Broken, Catalog, Node};
pub use ledger::{NotLedger, decode, encode};
pub use render::{Listed, id_of, render};

use dns_wire::Name;

/// The longest part of a file's name that is the zone's.
const MAX_PART: usize = 150;

/// The name of the file that keeps a member zone, without an ending. It is another one for each identifier of the zone, so that
/// the data of a member that has gone never comes back.
#[must_use]
pub fn file_name(zone: &Name, id: &[u8]) -> String {
    let text = zone.to_lowercase().to_string();
    let text = text.trim_end_matches('.');
    let is_plain = |octet: &u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    let is_hidden = text.starts_with('.');
    let part = match text.bytes().all(|octet| is_plain(&octet)) && !is_hidden {
        // The digest behind it tells a long name from others.
        true => text.get(..MAX_PART).unwrap_or(text).to_owned(),
        false => text
            .bytes()
            .filter(is_plain)
            .skip_while(|octet| *octet == b'.')
            .take(MAX_PART)
            .map(char::from)
            .collect(),
    };
    let mut whole = zone.to_lowercase().as_wire().to_vec();
    whole.extend(id.to_ascii_lowercase());
    format!("{part}.{}", render::digest(&whole))
}
