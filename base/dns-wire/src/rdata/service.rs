//! Service parameters of SVCB and HTTPS (RFC 9460 §2.1 and appendix A): `key=value` words in
//! text, and in wire form keys in ascending order, each with its length and value.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::{Text, character_string, decimal, push_escaped};
use super::wire::Wire;
use super::{RdataError, Token, base};

/// A parameter's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u16);

impl Key {
    const MANDATORY: Self = Self(0);
    const ALPN: Self = Self(1);
    const NO_DEFAULT_ALPN: Self = Self(2);
    const PORT: Self = Self(3);
    const IPV4_HINT: Self = Self(4);
    const ECH: Self = Self(5);
    const IPV6_HINT: Self = Self(6);
    const DOH_PATH: Self = Self(7);
    const OHTTP: Self = Self(8);
    /// Reserved as invalid (RFC 9460 §14.3.2).
    const INVALID: Self = Self(u16::MAX);

    /// The names of the numbers from 0 on.
    const NAMES: [&str; 9] = [
        "mandatory",
        "alpn",
        "no-default-alpn",
        "port",
        "ipv4hint",
        "ech",
        "ipv6hint",
        "dohpath",
        "ohttp",
    ];

    fn parse(word: &[u8]) -> Option<Self> {
        if let Some(code) = Self::NAMES.iter().position(|name| name.as_bytes() == word) {
            return u16::try_from(code).ok().map(Self);
        }
        let digits = word.strip_prefix(b"key")?;
        let leading_zero = digits.len() > 1 && digits.starts_with(b"0");
        decimal(digits)
            .map(Self)
            .filter(|key| !leading_zero && *key != Self::INVALID)
    }

    fn name(self) -> String {
        let known = Self::NAMES.get(usize::from(self.0));
        known.map_or_else(|| format!("key{}", self.0), |name| (*name).to_owned())
    }
}

//--- Text to wire

/// Reads parameters to the end; there may be none.
pub(super) fn parse(text: &mut Text<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let mut parameters = BTreeMap::new();
    while let Some(token) = text.next_if_any() {
        if token.quoted {
            return Err(text.wrong(token, "service parameter such as alpn=h2"));
        }
        let equals = token.text.iter().position(|byte| *byte == b'=');
        let (word, value) = match equals.and_then(|at| token.text.split_at_checked(at)) {
            Some((word, value)) => (word, Some(unquoted(value.get(1..).unwrap_or_default()))),
            None => (token.text, None),
        };
        let key = Key::parse(word).ok_or_else(|| unknown_key(word, text.wrong(token, NO_KEY)))?;
        let generic = word.starts_with(b"key");
        let octets = match value {
            Some(value) => character_string(value).map_err(|error| text.at_last(error))?,
            None => Vec::new(),
        };
        if key == Key::MANDATORY && !generic {
            let mut words = octets.split(|byte| *byte == b',');
            if let Some(word) = words.find(|word| Key::parse(word).is_none()) {
                return Err(unknown_key(word, text.wrong(token, LEGAL)));
            }
        }
        let encoded = if generic {
            Some(octets)
        } else {
            encode(key, &octets, value.is_some())
        };
        let encoded = encoded.filter(|octets| is_valid(key, octets));
        let encoded = encoded.ok_or_else(|| text.wrong(token, LEGAL))?;
        if parameters.insert(key, encoded).is_some() {
            return Err(text.error(format!("`{}` is given twice", key.name())));
        }
    }
    if let Some(missing) = missing_mandatory(&parameters) {
        return Err(text.error(format!("`{}` is mandatory but not given", missing.name())));
    }
    for (key, value) in parameters {
        let length = u16::try_from(value.len());
        let length = length.map_err(|_| text.error("a service parameter is too long"))?;
        out.extend_from_slice(&key.0.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend(value);
    }
    Ok(())
}

/// The words for a key without a number, and for a value that its key does not allow.
const NO_KEY: &str = "known service parameter";
const LEGAL: &str = "legal service parameter";

/// The error about a key. It is unknown if it may be in the registry (RFC 9460 §14.3) without this version's
/// knowledge, or if it is the number of a key in a form that only other servers read.
fn unknown_key(word: &[u8], error: RdataError) -> RdataError {
    let lower = !word.iter().any(u8::is_ascii_uppercase);
    let number = word.strip_prefix(b"key").and_then(decimal::<u32>);
    let is_key = number.is_none_or(|number| number < u32::from(Key::INVALID.0));
    match lower && is_key {
        true => error.if_unknown(word),
        false => error,
    }
}

/// The value with or without its quotes.
fn unquoted(value: &[u8]) -> Token<'_> {
    let inside = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    inside.map_or_else(|| Token::bare(value), |text| Token { text, quoted: true })
}

/// The wire form of a value in its key's own text form.
fn encode(key: Key, text: &[u8], given: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match key {
        Key::MANDATORY => {
            let mut keys = Vec::new();
            for word in text.split(|byte| *byte == b',') {
                keys.push(Key::parse(word)?.0);
            }
            keys.sort_unstable();
            out.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        }
        Key::ALPN => {
            for item in items(text)? {
                out.push(u8::try_from(item.len()).ok()?);
                out.extend(item);
            }
        }
        Key::NO_DEFAULT_ALPN | Key::OHTTP => return (!given).then_some(out),
        Key::PORT => out.extend_from_slice(&decimal::<u16>(text)?.to_be_bytes()),
        Key::IPV4_HINT => {
            for word in std::str::from_utf8(text).ok()?.split(',') {
                out.extend_from_slice(&word.parse::<Ipv4Addr>().ok()?.octets());
            }
        }
        Key::IPV6_HINT => {
            for word in std::str::from_utf8(text).ok()?.split(',') {
                out.extend_from_slice(&word.parse::<Ipv6Addr>().ok()?.octets());
            }
        }
        Key::ECH => out = base::base64_word(text)?,
        _ => out.extend_from_slice(text),
    }
    Some(out)
}

/// A list's items: cut at commas, with `\,` and `\\` for the two characters themselves
/// (RFC 9460 appendix A.1). The master file's own escapes are already resolved.
fn items(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    let mut octets = text.iter();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => items.push(std::mem::take(&mut item)),
            b'\\' => item.push(*octets.next()?),
            _ => item.push(*octet),
        }
    }
    items.push(item);
    Some(items)
}

/// Whether a value in wire form is legal for its key.
fn is_valid(key: Key, value: &[u8]) -> bool {
    match key {
        Key::MANDATORY => {
            let (keys, rest) = value.as_chunks::<2>();
            // Ascending, and without the lowest number, which is `mandatory` itself.
            let ascending = keys.is_sorted_by(|a, b| a < b);
            !keys.is_empty() && rest.is_empty() && ascending && keys.first() != Some(&[0, 0])
        }
        Key::ALPN => !value.is_empty() && alpn_items(value).is_some(),
        Key::NO_DEFAULT_ALPN | Key::OHTTP => value.is_empty(),
        Key::PORT => value.len() == 2,
        Key::IPV4_HINT => !value.is_empty() && value.len().is_multiple_of(4),
        Key::IPV6_HINT => !value.is_empty() && value.len().is_multiple_of(16),
        Key::ECH => !value.is_empty(),
        Key::DOH_PATH => !value.is_empty() && std::str::from_utf8(value).is_ok(),
        _ => key != Key::INVALID,
    }
}

/// The items of an ALPN value, none of them empty.
fn alpn_items(value: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut wire, mut items) = (Wire::new(value), Vec::new());
    while !wire.is_empty() {
        items.push(Some(wire.counted()?).filter(|item| !item.is_empty())?);
    }
    Some(items)
}

/// A key that `mandatory` lists but that is missing (RFC 9460 §8).
fn missing_mandatory(parameters: &BTreeMap<Key, Vec<u8>>) -> Option<Key> {
    let (listed, _) = parameters.get(&Key::MANDATORY)?.as_chunks::<2>();
    let mut listed = listed.iter().map(|key| Key(u16::from_be_bytes(*key)));
    listed.find(|key| !parameters.contains_key(key))
}

//--- Wire to text

/// Appends the parameters in their order.
pub(super) fn show(wire: &mut Wire<'_>, out: &mut String) -> Option<()> {
    let mut parameters = BTreeMap::new();
    while !wire.is_empty() {
        let (key, length) = (Key(wire.u16()?), wire.u16()?);
        let value = wire
            .take(usize::from(length))
            .filter(|value| is_valid(key, value))?;
        if parameters
            .last_key_value()
            .is_some_and(|(last, _)| *last >= key)
        {
            return None;
        }
        parameters.insert(key, value.to_vec());
    }
    if missing_mandatory(&parameters).is_some() {
        return None;
    }
    for (key, value) in &parameters {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&key.name());
        show_value(*key, value, out)?;
    }
    Some(())
}

fn show_value(key: Key, value: &[u8], out: &mut String) -> Option<()> {
    if !value.is_empty() {
        out.push('=');
    }
    match key {
        Key::MANDATORY => {
            let (keys, _) = value.as_chunks::<2>();
            let names: Vec<_> = keys
                .iter()
                .map(|key| Key(u16::from_be_bytes(*key)).name())
                .collect();
            out.push_str(&names.join(","));
        }
        Key::ALPN => {
            let mut list = Vec::new();
            for (index, item) in alpn_items(value)?.into_iter().enumerate() {
                if index > 0 {
                    list.push(b',');
                }
                for octet in item {
                    if matches!(octet, b',' | b'\\') {
                        list.push(b'\\');
                    }
                    list.push(*octet);
                }
            }
            push_quoted(&list, out);
        }
        Key::PORT => out.push_str(&u16::from_be_bytes(value.try_into().ok()?).to_string()),
        Key::IPV4_HINT => {
            let (hints, _) = value.as_chunks::<4>();
            let hints: Vec<_> = hints
                .iter()
                .map(|it| Ipv4Addr::from(*it).to_string())
                .collect();
            out.push_str(&hints.join(","));
        }
        Key::IPV6_HINT => {
            let (hints, _) = value.as_chunks::<16>();
            let hints: Vec<_> = hints
                .iter()
                .map(|it| Ipv6Addr::from(*it).to_string())
                .collect();
            out.push_str(&hints.join(","));
        }
        Key::ECH => base::push_base64(value, out),
        _ if !value.is_empty() => push_quoted(value, out),
        _ => {}
    }
    Some(())
}

fn push_quoted(octets: &[u8], out: &mut String) {
    out.push('"');
    push_escaped(octets, out);
    out.push('"');
}
