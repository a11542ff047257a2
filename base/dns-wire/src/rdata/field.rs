//! The fields of RDATA, each with a parser and a printer.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::{MAX_STRING, Text, character_string, push_escaped, push_string};
use super::wire::Wire;
use super::{RdataError, Token, apl, base, bitmap, gateway, location, mnemonic, service, time};
use crate::Type;

/// One field of RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// An IPv4 address.
    Address4,
    /// An IPv6 address.
    Address6,
    /// A DNSSEC algorithm: a number or its mnemonic.
    Algorithm,
    /// All of AMTRELAY (RFC 8777 §4).
    AmtRelay,
    /// Octets in base 64, to the end; at least one.
    Base64,
    /// Octets in base 64, to the end, or none at all.
    Base64OrNothing,
    /// The property name of CAA: letters and digits (RFC 8659 §4.1).
    CaaTag,
    /// A certificate type: a number or its mnemonic.
    CertType,
    /// Six octets as `00-00-5e-00-53-2a` (RFC 7043 §3.2).
    Eui48,
    /// Eight octets as `00-00-5e-ef-10-00-00-2a` (RFC 7043 §4.2).
    Eui64,
    /// A hash in base 32 after its length (RFC 5155 §3.3).
    Hash,
    /// Octets in hex, to the end; at least one.
    Hex,
    /// All of HIP (RFC 8005 §5).
    Hip,
    /// All of IPSECKEY (RFC 4025 §3).
    IpsecKey,
    /// All of LOC (RFC 1876).
    Location,
    /// A domain name.
    Name,
    /// 64 bits as `0014:4fff:ff20:ee64` (RFC 6742 §2.1).
    Node64,
    /// An OSI address as `0x47.0005…` (RFC 1706 §5).
    Nsap,
    /// A character-string that may be left out.
    OptString,
    /// Address prefixes, to the end (RFC 3123).
    Prefixes,
    /// Octets in hex after their length, `-` for none (RFC 5155 §3.3).
    Salt,
    /// Service parameters, to the end (RFC 9460 §2.1).
    ServiceParams,
    /// One character-string.
    String,
    /// Character-strings to the end; at least one.
    Strings,
    /// Text without a length, to the end of the data.
    Target,
    /// A time as `YYYYMMDDHHmmSS`.
    Time,
    /// A time span in seconds.
    Ttl,
    /// The mnemonic of a type.
    TypeCode,
    /// A set of types, to the end.
    Types,
    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
}

//--- Text to wire

impl Field {
    /// Reads the field's words and appends its octets.
    pub(super) fn parse(self, text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
        match self {
            Self::Address4 => out.extend_from_slice(&text.address4()?.octets()),
            Self::Address6 => out.extend_from_slice(&text.address6()?.octets()),
            Self::Algorithm => {
                let word = text.bare("an algorithm")?;
                let code = mnemonic::algorithm(word).or_else(|| word.parse().ok());
                out.push(known(text, word, code, "algorithm")?);
            }
            Self::AmtRelay => gateway::parse_amtrelay(text, out)?,
            Self::Base64 => non_empty(base64(text, out)?, text, "base 64")?,
            Self::Base64OrNothing => drop(base64(text, out)?),
            Self::CaaTag => caa_tag(text, out)?,
            Self::CertType => {
                let word = text.bare("a certificate type")?;
                let code = mnemonic::cert_type(word).or_else(|| word.parse().ok());
                let code: u16 = known(text, word, code, "certificate type")?;
                out.extend_from_slice(&code.to_be_bytes());
            }
            Self::Eui48 => grouped_hex::<6>(text, '-', 2, out)?,
            Self::Eui64 => grouped_hex::<8>(text, '-', 2, out)?,
            Self::Node64 => grouped_hex::<8>(text, ':', 4, out)?,
            Self::Hash => hash(text, out)?,
            Self::Hex => non_empty(hex(text, out)?, text, "hex")?,
            Self::Hip => gateway::parse_hip(text, out)?,
            Self::IpsecKey => gateway::parse_ipseckey(text, out)?,
            Self::Location => location::parse(text, out)?,
            Self::Name => out.extend_from_slice(text.name()?.as_wire()),
            Self::Nsap => nsap(text, out)?,
            Self::OptString => {
                if text.end().is_err() {
                    text.string("a string", out)?;
                }
            }
            Self::Prefixes => apl::parse(text, out)?,
            Self::Salt => salt(text, out)?,
            Self::ServiceParams => service::parse(text, out)?,
            Self::String => text.string("a string", out)?,
            Self::Strings => strings(text, out)?,
            Self::Target => {
                let token = text.next("a text")?;
                out.extend(character_string(token).map_err(|error| text.at_last(error))?);
            }
            Self::Time => {
                let word = text.bare("a moment")?;
                let moment = time::parse(word.as_bytes());
                let moment =
                    moment.ok_or_else(|| text.error(format!("`{word}` is no YYYYMMDDHHmmSS")))?;
                out.extend_from_slice(&moment.to_be_bytes());
            }
            Self::Ttl => out.extend_from_slice(&text.ttl("a time span")?.to_be_bytes()),
            Self::TypeCode => {
                let word = text.bare("a record type")?;
                let rtype = known(text, word, word.parse::<Type>().ok(), "record type")?;
                out.extend_from_slice(&rtype.0.to_be_bytes());
            }
            Self::Types => bitmap::parse(text, out)?,
            Self::U8 => out.push(text.number("a number")?),
            Self::U16 => out.extend_from_slice(&text.number::<u16>("a number")?.to_be_bytes()),
            Self::U32 => out.extend_from_slice(&text.number::<u32>("a number")?.to_be_bytes()),
        }
        Ok(())
    }
}

/// The number that a word stands for; without one the word may be unknown to this version only.
fn known<T>(text: &Text<'_>, word: &str, code: Option<T>, what: &str) -> Result<T, RdataError> {
    let error = || text.error(format!("`{word}` is no {what}"));
    code.ok_or_else(|| error().if_unknown(word.as_bytes()))
}

/// Reads hex to the end; returns the number of octets.
fn hex(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<usize, RdataError> {
    let (first, before) = (text.position(), out.len());
    base::parse_hex(text.rest(), first, out)?;
    Ok(out.len() - before)
}

/// Reads base 64 to the end; returns the number of octets.
fn base64(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<usize, RdataError> {
    let (first, before) = (text.position(), out.len());
    base::parse_base64(text.rest(), first, out)?;
    Ok(out.len() - before)
}

fn non_empty(n_octets: usize, text: &Text<'_>, what: &str) -> Result<(), RdataError> {
    match n_octets {
        0 => Err(RdataError::new(
            text.position(),
            format!("{what} is missing"),
        )),
        _ => Ok(()),
    }
}

fn caa_tag(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let word = text.bare("a property name")?;
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let length = u8::try_from(word.len())
        .ok()
        .filter(|length| *length > 0 && plain);
    out.push(length.ok_or_else(|| text.error("a property name consists of letters and digits"))?);
    out.extend_from_slice(word.as_bytes());
    Ok(())
}

/// `N` octets in hex, in groups of `width` digits.
fn grouped_hex<const N: usize>(
    text: &mut Text<'_>,
    separator: char,
    width: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let word = text.bare("an identifier")?;
    let wrong = || text.error(format!("`{word}` is no identifier of {N} octets"));
    let mut octets = Vec::with_capacity(N);
    for group in word.split(separator) {
        // Leading zeros of a 16-bit group may be left out (RFC 6742 §2.1.2), those of an octet not.
        let short = separator == ':' && (1..width).contains(&group.len());
        let value = u16::from_str_radix(group, 16).ok().filter(|_| {
            (group.len() == width || short) && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let [high, low] = value.ok_or_else(wrong)?.to_be_bytes();
        if width == 4 {
            octets.push(high);
        }
        octets.push(low);
    }
    if octets.len() != N {
        return Err(wrong());
    }
    out.extend_from_slice(&octets);
    Ok(())
}

fn hash(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let word = text.bare("a hash")?;
    let octets = base::parse_base32(word.as_bytes()).filter(|octets| !octets.is_empty());
    let counted = octets.and_then(|octets| Some((u8::try_from(octets.len()).ok()?, octets)));
    let (length, octets) =
        counted.ok_or_else(|| text.error(format!("`{word}` is no hash in base 32")))?;
    out.push(length);
    out.extend(octets);
    Ok(())
}

fn salt(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let token = text.next("a salt")?;
    let mut octets = Vec::new();
    if token.text != b"-" {
        base::parse_hex(&[token], text.position() - 1, &mut octets)?;
    }
    let length = u8::try_from(octets.len());
    out.push(length.map_err(|_| text.error("a salt is at most 255 octets"))?);
    out.extend(octets);
    Ok(())
}

/// Character-strings to the end. One that is longer than 255 octets is cut into as many as it needs, as
/// pdns does; SPF and DKIM join them again (RFC 7208 §3.3).
fn strings(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    text.next("a string")?;
    let (first, before) = (text.position() - 1, out.len());
    for (index, token) in text.from(first).iter().enumerate() {
        for part in quoted_parts(*token) {
            let octets = character_string(part).map_err(|error| RdataError {
                token: first + index,
                ..error
            })?;
            if octets.is_empty() {
                out.push(0);
            }
            for chunk in octets.chunks(MAX_STRING) {
                out.extend(u8::try_from(chunk.len()));
                out.extend_from_slice(chunk);
            }
        }
        if out.len() - before > super::MAX_RDATA {
            let message = "the strings are longer than 65535 octets";
            return Err(RdataError::new(first + index, message));
        }
    }
    text.rest();
    Ok(())
}

/// A bare word such as `key="some value"` is one word for a service parameter, and two strings for strings.
fn quoted_parts(token: Token<'_>) -> impl Iterator<Item = Token<'_>> {
    let inside = token.text.strip_suffix(b"\"").filter(|_| !token.quoted);
    let start = inside.and_then(|inside| inside.windows(2).position(|pair| pair == b"=\""));
    let parts = match (inside, start) {
        (Some(inside), Some(start)) => {
            let (bare, quoted) = inside.split_at_checked(start + 1).unwrap_or((inside, &[]));
            let text = quoted.get(1..).unwrap_or_default();
            [Some(Token::bare(bare)), Some(Token { text, quoted: true })]
        }
        _ => [Some(token), None],
    };
    parts.into_iter().flatten()
}

fn nsap(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let word = text.bare("an address")?;
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let digits = digits.ok_or_else(|| text.error("an NSAP address begins with `0x`"))?;
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b'.').collect();
    let before = out.len();
    base::parse_hex(&[Token::bare(&digits)], text.position() - 1, out)?;
    non_empty(out.len() - before, text, "an address")
}

//--- Wire to text

impl Field {
    /// Reads the field's octets and appends its text; `None` when they are not such a field.
    pub(super) fn show(self, wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
        // The fields that may be empty write their own blanks.
        match self {
            Self::Base64OrNothing | Self::OptString if wire.is_empty() => return Some(()),
            Self::Prefixes => return apl::show(wire, out),
            Self::ServiceParams => return service::show(wire, out),
            Self::Types => return bitmap::show(wire, out),
            _ if !out.is_empty() => out.push(' '),
            _ => {}
        }
        match self {
            Self::Address4 => out.push_str(&Ipv4Addr::from(wire.array::<4>()?).to_string()),
            Self::Address6 => out.push_str(&Ipv6Addr::from(wire.array::<16>()?).to_string()),
            Self::Algorithm | Self::U8 => out.push_str(&wire.u8()?.to_string()),
            Self::AmtRelay => gateway::show_amtrelay(wire, out)?,
            Self::Base64 | Self::Base64OrNothing => {
                base::push_base64(some(wire.take_rest())?, out);
            }
            Self::CaaTag => push_caa_tag(wire.counted()?, out)?,
            Self::CertType | Self::U16 => out.push_str(&wire.u16()?.to_string()),
            Self::Eui48 => push_groups(wire.take(6)?, '-', 1, out),
            Self::Eui64 => push_groups(wire.take(8)?, '-', 1, out),
            Self::Node64 => push_groups(wire.take(8)?, ':', 2, out),
            Self::Hash => base::push_base32(some(wire.counted()?)?, out),
            Self::Hex => base::push_hex(some(wire.take_rest())?, out),
            Self::Hip => gateway::show_hip(wire, out)?,
            Self::IpsecKey => gateway::show_ipseckey(wire, out)?,
            Self::Location => location::show(wire, out)?,
            Self::Name => out.push_str(&wire.name()?.to_string()),
            Self::Nsap => {
                out.push_str("0x");
                base::push_hex(some(wire.take_rest())?, out);
            }
            Self::OptString | Self::String => push_string(wire.counted()?, out),
            Self::Salt => match wire.counted()? {
                [] => out.push('-'),
                salt => base::push_hex(salt, out),
            },
            Self::Strings => {
                push_string(wire.counted()?, out);
                while !wire.is_empty() {
                    out.push(' ');
                    push_string(wire.counted()?, out);
                }
            }
            Self::Target => {
                out.push('"');
                push_escaped(wire.take_rest(), out);
                out.push('"');
            }
            Self::Time => time::push(wire.u32()?, out),
            Self::Ttl | Self::U32 => out.push_str(&wire.u32()?.to_string()),
            Self::TypeCode => out.push_str(&Type(wire.u16()?).to_string()),
            Self::Prefixes | Self::ServiceParams | Self::Types => {}
        }
        Some(())
    }
}

/// The octets, unless there are none.
const fn some(octets: &[u8]) -> Option<&[u8]> {
    if octets.is_empty() {
        None
    } else {
        Some(octets)
    }
}

fn push_caa_tag(tag: &[u8], out: &mut String) -> Option<()> {
    let plain = !tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric);
    out.push_str(std::str::from_utf8(tag).ok().filter(|_| plain)?);
    Some(())
}

/// Appends octets in lower-case hex in groups of `width` octets.
fn push_groups(octets: &[u8], separator: char, width: usize, out: &mut String) {
    for (index, group) in octets.chunks(width).enumerate() {
        if index > 0 {
            out.push(separator);
        }
        for octet in group {
            out.push_str(&format!("{octet:02x}"));
        }
    }
}
