//! Lists of address prefixes (RFC 3123): `1:192.168.32.0/21 !2:2001:db8::/32`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::RdataError;
use super::text::{Text, decimal};
use super::wire::Wire;

/// Address family numbers for IPv4 and IPv6.
const IPV4: u16 = 1;
const IPV6: u16 = 2;
/// The bit that negates an item.
const NEGATED: u8 = 0x80;

/// Reads prefixes to the end; there may be none.
pub(super) fn parse(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    while let Some(token) = text.next_if_any() {
        let word = std::str::from_utf8(token.text)
            .ok()
            .filter(|_| !token.quoted);
        let item = word.and_then(parse_item);
        out.extend(item.ok_or_else(|| text.wrong(token, "prefix such as 1:192.0.2.0/24"))?);
    }
    Ok(())
}

fn parse_item(word: &str) -> Option<Vec<u8>> {
    let (negation, word) = match word.strip_prefix('!') {
        Some(rest) => (NEGATED, rest),
        None => (0, word),
    };
    let (family, word) = word.split_once(':')?;
    let (address, prefix) = word.rsplit_once('/')?;
    let (family, prefix): (u16, u8) = (decimal(family.as_bytes())?, decimal(prefix.as_bytes())?);
    let mut octets = match family {
        IPV4 if prefix <= 32 => address.parse::<Ipv4Addr>().ok()?.octets().to_vec(),
        IPV6 if prefix <= 128 => address.parse::<Ipv6Addr>().ok()?.octets().to_vec(),
        _ => return None,
    };
    // RFC 3123 §4: trailing zero octets are not sent.
    while octets.last() == Some(&0) {
        octets.pop();
    }
    let [high, low] = family.to_be_bytes();
    let mut item = vec![
        high,
        low,
        prefix,
        negation | u8::try_from(octets.len()).ok()?,
    ];
    item.extend(octets);
    Some(item)
}

/// Appends the prefixes.
pub(super) fn show(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    while !wire.is_empty() {
        let (family, prefix, length) = (wire.u16()?, wire.u8()?, wire.u8()?);
        let octets = wire.take(usize::from(length & !NEGATED))?;
        if octets.last() == Some(&0) {
            return None;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        if length & NEGATED != 0 {
            out.push('!');
        }
        let address = match family {
            IPV4 if prefix <= 32 => Ipv4Addr::from(padded::<4>(octets)?).to_string(),
            IPV6 if prefix <= 128 => Ipv6Addr::from(padded::<16>(octets)?).to_string(),
            _ => return None,
        };
        out.push_str(&format!("{family}:{address}/{prefix}"));
    }
    Some(())
}

/// The octets with the zeros that were not sent.
fn padded<const N: usize>(octets: &[u8]) -> Option<[u8; N]> {
    let mut full = [0; N];
    full.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(full)
}
