//! The set of types at a name, as NSEC, NSEC3 and CSYNC carry it (RFC 4034 §4.1.2): windows of
//! 256 types, each with only as many octets as its highest type needs.

use std::collections::BTreeSet;

use super::RdataError;
use super::text::Text;
use super::wire::Wire;
use crate::Type;

/// Reads type mnemonics to the end, in any order.
pub(super) fn parse(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let mut types = BTreeSet::new();
    while let Some(token) = text.next_if_any() {
        let rtype = std::str::from_utf8(token.text)
            .ok()
            .and_then(|word| word.parse::<Type>().ok());
        let rtype = rtype.filter(|_| !token.quoted);
        let rtype = rtype.ok_or_else(|| {
            let error = text.wrong(token, "record type");
            error.if_unknown(token.text)
        })?;
        types.insert(rtype.0);
    }
    let mut types = types.into_iter().peekable();
    while let Some(first) = types.peek() {
        let [window, _] = first.to_be_bytes();
        let mut bits = [0_u8; 32];
        let mut length = 0_u8;
        while let Some(code) = types.next_if(|code| code.to_be_bytes().starts_with(&[window])) {
            let [_, low] = code.to_be_bytes();
            if let Some(octet) = bits.get_mut(usize::from(low / 8)) {
                *octet |= 0x80 >> (low % 8);
            }
            length = low / 8 + 1;
        }
        out.extend_from_slice(&[window, length]);
        out.extend_from_slice(bits.get(..usize::from(length)).unwrap_or_default());
    }
    Ok(())
}

/// Appends the mnemonics in order of their numbers.
pub(super) fn show(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    let mut previous = None;
    while !wire.is_empty() {
        let window = wire.u8()?;
        let octets = wire.counted()?;
        // Windows ascend, and none is empty or ends in a zero octet.
        let in_order = previous.is_none_or(|previous| previous < window);
        if !in_order || octets.len() > 32 || octets.last().is_none_or(|last| *last == 0) {
            return None;
        }
        previous = Some(window);
        for (low, octet) in (0_u16..).step_by(8).zip(octets) {
            for bit in (0..8).filter(|bit| octet & (0x80 >> bit) != 0) {
                if !out.is_empty() {
                    out.push(' ');
                }
                out.push_str(&Type(u16::from(window) << 8 | low | bit).to_string());
            }
        }
    }
    Some(())
}
