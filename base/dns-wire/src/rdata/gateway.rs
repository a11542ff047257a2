//! The types with a gateway or a host identity, whose form depends on an earlier field: IPSECKEY (RFC
//! 4025), AMTRELAY (RFC 8777) and HIP (RFC 8005).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::Text;
use super::wire::Wire;
use super::{RdataError, Token, base};

//--- IPSECKEY

/// `PRECEDENCE GATEWAY-TYPE ALGORITHM GATEWAY [KEY]`.
pub(super) fn parse_ipseckey(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let precedence: u8 = text.number("the precedence")?;
    let kind: u8 = text.number("the gateway type")?;
    let algorithm: u8 = text.number("the algorithm")?;
    out.extend_from_slice(&[precedence, kind, algorithm]);
    parse_gateway(kind, text, out)?;
    let first = text.position();
    base::parse_base64(text.rest(), first, out)
}

pub(super) fn show_ipseckey(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    let (precedence, kind, algorithm) = (wire.u8()?, wire.u8()?, wire.u8()?);
    out.push_str(&format!("{precedence} {kind} {algorithm} "));
    show_gateway(kind, wire, out)?;
    if !wire.is_empty() {
        out.push(' ');
        base::push_base64(wire.take_rest(), out);
    }
    Some(())
}

//--- AMTRELAY

/// The bit in front of the relay's type: the discovery is optional (RFC 8777 §4.2.2).
const OPTIONAL: u8 = 0x80;

/// `PRECEDENCE D TYPE RELAY`.
pub(super) fn parse_amtrelay(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let precedence: u8 = text.number("the precedence")?;
    let optional: u8 = text.number("the discovery bit")?;
    if optional > 1 {
        return Err(text.error("the discovery bit is 0 or 1"));
    }
    let kind: u8 = text.number("the relay type")?;
    if kind > 3 {
        return Err(text.error("the relay type is 0 to 3"));
    }
    out.extend_from_slice(&[precedence, (optional * OPTIONAL) | kind]);
    parse_gateway(kind, text, out)
}

pub(super) fn show_amtrelay(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    let (precedence, octet) = (wire.u8()?, wire.u8()?);
    let (optional, kind) = (octet / OPTIONAL, octet & !OPTIONAL);
    out.push_str(&format!("{precedence} {optional} {kind} "));
    show_gateway(kind, wire, out)
}

//--- Gateways

/// `.`, an address or a name, depending on the type before it.
fn parse_gateway(kind: u8, text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    match kind {
        0 => {
            let token = text.next("a gateway")?;
            if token.text != b"." {
                return Err(text.error("a gateway of type 0 is written `.`"));
            }
        }
        1 => out.extend_from_slice(&text.address4()?.octets()),
        2 => out.extend_from_slice(&text.address6()?.octets()),
        3 => out.extend_from_slice(text.name()?.as_wire()),
        _ => return Err(text.error("the gateway type is 0 to 3")),
    }
    Ok(())
}

fn show_gateway(kind: u8, wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    match kind {
        0 => out.push('.'),
        1 => out.push_str(&Ipv4Addr::from(wire.array::<4>()?).to_string()),
        2 => out.push_str(&Ipv6Addr::from(wire.array::<16>()?).to_string()),
        3 => out.push_str(&wire.name()?.to_string()),
        _ => return None,
    }
    Some(())
}

//--- HIP

/// `ALGORITHM HIT KEY [SERVER...]`, the host identity tag in hex and the key in one word.
pub(super) fn parse_hip(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let algorithm: u8 = text.number("the algorithm")?;
    let mut tag = Vec::new();
    let token = text.next("a host identity tag")?;
    base::parse_hex(&[token], text.position() - 1, &mut tag)?;
    let tag_length = u8::try_from(tag.len()).ok().filter(|length| *length > 0);
    let tag_length = tag_length.ok_or_else(|| text.wrong(token, "host identity tag"))?;
    let word: Token<'_> = text.next("a public key")?;
    let key = base::base64_word(word.text).filter(|key| !key.is_empty() && !word.quoted);
    let counted = key.and_then(|key| Some((u16::try_from(key.len()).ok()?, key)));
    let (key_length, key) = counted.ok_or_else(|| text.wrong(word, "key in base 64"))?;
    out.extend_from_slice(&[tag_length, algorithm]);
    out.extend_from_slice(&key_length.to_be_bytes());
    out.extend(tag);
    out.extend(key);
    while text.end().is_err() {
        out.extend_from_slice(text.name()?.as_wire());
    }
    Ok(())
}

pub(super) fn show_hip(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    let (tag_length, algorithm, key_length) = (wire.u8()?, wire.u8()?, wire.u16()?);
    if tag_length == 0 || key_length == 0 {
        return None;
    }
    out.push_str(&format!("{algorithm} "));
    base::push_hex(wire.take(usize::from(tag_length))?, out);
    out.push(' ');
    base::push_base64(wire.take(usize::from(key_length))?, out);
    while !wire.is_empty() {
        out.push_str(&format!(" {}", wire.name()?));
    }
    Some(())
}
