//! RDATA in the text form of master files (RFC 1035 §5.1 and each type's own RFC) and in the wire form of
//! messages, in both directions.
//!
//! Every type is a row of one table: the list of its fields, each of which has a parser and a printer. A
//! type without a row, and any type in that form, is read as `\# LENGTH HEX` (RFC 3597 §5).
//!
//! Never compresses names, never looks at other records, and never panics on any input.

mod apl;
mod base;
mod bitmap;
mod field;
mod gateway;
mod location;
mod mnemonic;
mod service;
mod text;
mod time;
mod wire;

use std::borrow::Cow;
use std::fmt;

use crate::{Name, Type};
use field::Field;
use text::Text;
use wire::Wire;

pub(crate) use base::base64_word;
pub use text::{character_string, seconds, tokens};

/// One word of a master file: text between blanks, or between quotes.
///
/// Escapes are kept as written, because their meaning depends on the field that takes the word: `\.` in a
/// name is not `\.` in a string. The quotes themselves are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word, escapes unresolved.
    pub text: &'a [u8],
    /// Whether it was in quotes.
    pub quoted: bool,
}

impl<'a> Token<'a> {
    /// A word without quotes.
    #[must_use]
    pub const fn bare(text: &'a [u8]) -> Self {
        Self {
            text,
            quoted: false,
        }
    }
}

/// The reason why text is not RDATA of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdataError {
    /// The number of the wrong word, counted from 0; when it is the number of words, one is missing.
    pub token: usize,
    /// Whether the word may be right, but has a meaning that this version does not know: a type, a key or an
    /// algorithm that was registered later.
    pub is_unknown: bool,
    message: Cow<'static, str>,
}

impl RdataError {
    /// An error about the word with this number.
    fn new(token: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            token,
            is_unknown: false,
            message: message.into(),
        }
    }

    /// The same error, about a word that has the form of a mnemonic.
    fn if_unknown(self, word: &[u8]) -> Self {
        Self {
            is_unknown: crate::rtype::is_mnemonic(word),
            ..self
        }
    }
}

impl fmt::Display for RdataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RdataError {}

/// The longest RDATA, whose length travels in 16 bits.
const MAX_RDATA: usize = 65_535;

/// Turns the words after a record's type into wire form; names without a final dot are below
/// `origin`.
///
/// # Errors
/// When the words are not what the type asks for, too few or too many.
pub fn parse(rtype: Type, tokens: &[Token<'_>], origin: &Name) -> Result<Vec<u8>, RdataError> {
    let mut rdata = Vec::with_capacity(32);
    parse_into(rtype, tokens, origin, &mut rdata)?;
    Ok(rdata)
}

/// As [`parse`], into a buffer that is cleared first, for readers of millions of records.
///
/// # Errors
/// As [`parse`].
pub fn parse_into(
    rtype: Type,
    tokens: &[Token<'_>],
    origin: &Name,
    rdata: &mut Vec<u8>,
) -> Result<(), RdataError> {
    rdata.clear();
    if let Some((
        Token {
            text: br"\#",
            quoted: false,
        },
        octets,
    )) = tokens.split_first()
    {
        return parse_generic(rtype, octets, rdata);
    }
    let Some(fields) = fields(rtype) else {
        let message = format!(r"type {rtype} is written as `\# LENGTH HEX` only (RFC 3597)");
        return Err(RdataError {
            is_unknown: true,
            ..RdataError::new(0, message)
        });
    };
    let mut text = Text::new(tokens, origin);
    for field in fields {
        field.parse(&mut text, rdata)?;
    }
    text.end()?;
    if rdata.len() > MAX_RDATA {
        return Err(RdataError::new(0, "the data is longer than 65535 octets"));
    }
    Ok(())
}

/// Reads RDATA from one line of text, such as a program's answer.
///
/// # Errors
/// As [`parse`], and when a quote is not closed.
pub fn from_text(rtype: Type, line: &str, origin: &Name) -> Result<Vec<u8>, RdataError> {
    parse(rtype, &tokens(line.as_bytes())?, origin)
}

/// The text of RDATA as a master file has it: names with their final dot, strings in quotes. Data that is
/// not well-formed RDATA of its type comes as `\# LENGTH HEX`, so [`parse`] reads everything back.
#[must_use]
pub fn display(rtype: Type, rdata: &[u8]) -> String {
    show(rtype, rdata).unwrap_or_else(|| {
        let mut text = format!(r"\# {}", rdata.len());
        if !rdata.is_empty() {
            text.push(' ');
            base::push_hex(rdata, &mut text);
        }
        text
    })
}

/// Whether the bytes are well-formed RDATA of a type. Any bytes are, for a type without a row.
#[must_use]
pub fn is_valid(rtype: Type, rdata: &[u8]) -> bool {
    fields(rtype).is_none() || show(rtype, rdata).is_some()
}

/// The fields one after the other; `None` unless they fill the RDATA exactly.
fn show(rtype: Type, rdata: &[u8]) -> Option<String> {
    let mut wire = Wire::new(rdata);
    let mut text = String::new();
    for field in fields(rtype)? {
        field.show(&mut wire, &mut text)?;
    }
    wire.is_empty().then_some(text)
}

/// `\# LENGTH HEX...`; for a type with a row, the octets have to be valid (RFC 3597 §5).
fn parse_generic(rtype: Type, octets: &[Token<'_>], rdata: &mut Vec<u8>) -> Result<(), RdataError> {
    let root = Name::root();
    let mut text = Text::new(octets, &root);
    let shift = |error: RdataError| RdataError {
        token: error.token + 1,
        ..error
    };
    let length = usize::from(text.number::<u16>("the length").map_err(shift)?);
    let rest = text.rest();
    base::parse_hex(rest, 1, rdata).map_err(shift)?;
    if rdata.len() != length {
        let found = rdata.len();
        return Err(RdataError::new(
            1,
            format!("{length} octets announced, {found} given"),
        ));
    }
    if is_valid(rtype, rdata) {
        return Ok(());
    }
    Err(RdataError::new(
        0,
        format!("these octets are not valid {rtype} data"),
    ))
}

/// The fields of a type's RDATA; `None` for types that have only the generic form.
fn fields(rtype: Type) -> Option<&'static [Field]> {
    use Field::{
        Address4, Address6, Algorithm, AmtRelay, Base64, Base64OrNothing, CaaTag, CertType, Eui48,
        Eui64, Hash, Hex, Hip, IpsecKey, Location, Name, Node64, Nsap, OptString, Prefixes, Salt,
        ServiceParams, String, Strings, Target, Time, Ttl, TypeCode, Types, U8, U16, U32,
    };
    Some(match rtype {
        Type::A => &[Address4],
        Type::AAAA => &[Address6],
        Type::NS | Type::CNAME | Type::DNAME | Type::PTR => &[Name],
        Type::MB | Type::MD | Type::MF | Type::MG | Type::MR => &[Name],
        Type::SOA => &[Name, Name, U32, Ttl, Ttl, Ttl, Ttl],
        Type::MX | Type::AFSDB | Type::KX | Type::RT | Type::LP => &[U16, Name],
        Type::TXT | Type::SPF | Type::AVC | Type::NINFO | Type::RESINFO | Type::WALLET => {
            &[Strings]
        }
        Type::SRV => &[U16, U16, U16, Name],
        Type::NAPTR => &[U16, U16, String, String, String, Name],
        Type::RP | Type::MINFO | Type::TALINK => &[Name, Name],
        Type::PX => &[U16, Name, Name],
        Type::CAA => &[U8, CaaTag, Target],
        Type::URI => &[U16, U16, Target],
        Type::HINFO => &[String, String],
        Type::X25 => &[String],
        Type::ISDN => &[String, OptString],
        Type::GPOS => &[String, String, String],
        Type::NSAP => &[Nsap],
        Type::LOC => &[Location],
        Type::APL => &[Prefixes],
        Type::EUI48 => &[Eui48],
        Type::EUI64 => &[Eui64],
        Type::NID | Type::L64 => &[U16, Node64],
        Type::L32 => &[U16, Address4],
        Type::DS | Type::CDS | Type::DLV | Type::TA => &[U16, Algorithm, U8, Hex],
        Type::DNSKEY | Type::CDNSKEY => &[U16, U8, Algorithm, Base64],
        Type::KEY | Type::RKEY => &[U16, U8, Algorithm, Base64OrNothing],
        Type::RRSIG | Type::SIG => &[TypeCode, Algorithm, U8, Ttl, Time, Time, U16, Name, Base64],
        Type::NSEC => &[Name, Types],
        Type::NSEC3 => &[U8, U8, U16, Salt, Hash, Types],
        Type::NSEC3PARAM => &[U8, U8, U16, Salt],
        Type::CSYNC => &[U32, U16, Types],
        Type::DSYNC => &[TypeCode, U8, U16, Name],
        Type::SSHFP => &[U8, U8, Hex],
        Type::TLSA | Type::SMIMEA => &[U8, U8, U8, Hex],
        Type::ZONEMD => &[U32, U8, U8, Hex],
        Type::EID | Type::NIMLOC => &[Hex],
        Type::CERT => &[CertType, U16, Algorithm, Base64],
        Type::OPENPGPKEY | Type::DHCID => &[Base64],
        Type::SVCB | Type::HTTPS => &[U16, Name, ServiceParams],
        Type::IPSECKEY => &[IpsecKey],
        Type::AMTRELAY => &[AmtRelay],
        Type::HIP => &[Hip],
        Type::DOA => &[U32, U32, U8, String, Base64OrNothing],
        Type::LUA => &[TypeCode, Strings],
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
