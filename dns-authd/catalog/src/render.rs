//! A catalog zone as its producer writes it.

use dns_wire::{Name, NameError, Type, rdata};
use dns_zone::{Soa, SoaTimes};
use sha2::{Digest, Sha256};

/// The numbers of the SOA record behind the serial: refresh, retry, expire and minimum, in seconds. A consumer must not lose a
/// catalog because its producer is away for long.
const TIMES: &str = "3600 600 2147483646 0";

/// The octets of a digest that make an identifier.
const ID_OCTETS: usize = 16;

/// A zone that a catalog lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The zone.
    pub zone: Name,
    /// Its groups.
    pub groups: Vec<String>,
}

/// The identifier of a zone in the catalogs of this server: the same as long as the zone is listed.
#[must_use]
pub fn id_of(zone: &Name) -> String {
    digest(zone.to_lowercase().as_wire())
}

pub(crate) fn digest(octets: &[u8]) -> String {
    let digest = Sha256::digest(octets);
    let octets = digest.iter().take(ID_OCTETS);
    octets.map(|octet| format!("{octet:02x}")).collect()
}

/// The master file of a catalog with these zones. `before` is the file that is there, and `seconds` the time since 1970; `None` if
/// the file says it all. A new file has a serial of the time, or the next one behind that of the file before.
///
/// # Errors
/// When the name of the catalog is too long.
pub fn render(
    apex: &Name,
    zones: &[Listed],
    before: Option<&str>,
    seconds: u32,
) -> Result<Option<String>, NameError> {
    let known = before.and_then(|text| serial_of(text, apex));
    if let (Some(before), Some(serial)) = (before, known)
        && text(apex, zones, serial)? == before
    {
        return Ok(None);
    }
    let serial = match known {
        Some(known) if !Soa::is_newer(seconds, known) => known.wrapping_add(1),
        _ => seconds,
    };
    text(apex, zones, serial).map(Some)
}

/// The serial of a file that was written here.
fn serial_of(text: &str, apex: &Name) -> Option<u32> {
    let fields: Vec<&str> = text.lines().next()?.splitn(5, '\t').collect();
    let [owner, _, "IN", "SOA", data] = *fields.as_slice() else {
        return None;
    };
    if Name::parse(owner).ok()? != *apex {
        return None;
    }
    let rdata = rdata::from_text(Type::SOA, data, &Name::root()).ok()?;
    SoaTimes::of(&rdata).map(|times| times.serial)
}

fn text(apex: &Name, zones: &[Listed], serial: u32) -> Result<String, NameError> {
    let mut text = format!("{apex}\t0\tIN\tSOA\tinvalid. invalid. {serial} {TIMES}\n");
    let mut line = |owner: &Name, data: &str| {
        text.push_str(&format!("{owner}\t0\tIN\t{data}\n"));
    };
    line(apex, "NS\tinvalid.");
    line(&apex.prepend(b"version")?, "TXT\t\"2\"");
    let list = apex.prepend(b"zones")?;
    let mut zones: Vec<&Listed> = zones.iter().collect();
    zones.sort_by(|one, other| one.zone.cmp(&other.zone));
    zones.dedup_by(|one, other| one.zone == other.zone);
    for Listed { zone, groups } in zones {
        let node = list.prepend(id_of(zone).as_bytes())?;
        line(&node, &format!("PTR\t{}", zone.to_lowercase()));
        for group in groups {
            let owner = node.prepend(b"group")?;
            line(&owner, &format!("TXT\t{}", quoted(group)));
        }
    }
    Ok(text)
}

/// A string of a TXT record.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for octet in text.bytes() {
        match octet {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(octet));
            }
            0x20..=0x7e => quoted.push(char::from(octet)),
            _ => quoted.push_str(&format!("\\{octet:03}")),
        }
    }
    quoted.push('"');
    quoted
}
