//! Words of a master file: splits a line into them, and reads the simple ones.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{RdataError, Token};
use crate::Name;

/// The longest character-string (RFC 1035 §3.3).
pub(super) const MAX_STRING: usize = 255;

/// The words of a record's data that have not been read yet.
#[derive(Debug)]
pub(super) struct Text<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    origin: &'a Name,
}

impl<'a> Text<'a> {
    pub(super) const fn new(tokens: &'a [Token<'a>], origin: &'a Name) -> Self {
        Self {
            tokens,
            at: 0,
            origin,
        }
    }

    /// The number of the next word.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// The next word, which is `what`.
    pub(super) fn next(&mut self, what: &str) -> Result<Token<'a>, RdataError> {
        let token = self.tokens.get(self.at).copied();
        let token = token.ok_or_else(|| RdataError::new(self.at, format!("{what} is missing")))?;
        self.at += 1;
        Ok(token)
    }

    /// The next word, if there is one.
    pub(super) fn next_if_any(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied()?;
        self.at += 1;
        Some(token)
    }

    /// All words that are left.
    pub(super) fn rest(&mut self) -> &'a [Token<'a>] {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        self.at = self.tokens.len();
        rest
    }

    /// The words from this number on, whether read or not.
    pub(super) fn from(&self, first: usize) -> &'a [Token<'a>] {
        self.tokens.get(first..).unwrap_or_default()
    }

    /// An error about the word read last.
    pub(super) fn error(&self, message: impl Into<String>) -> RdataError {
        RdataError::new(self.at.saturating_sub(1), message.into())
    }

    /// An error that names the word read last: "`word` is no …".
    pub(super) fn wrong(&self, token: Token<'_>, what: &str) -> RdataError {
        self.error(format!("{} is no {what}", shown(token)))
    }

    pub(super) fn address4(&mut self) -> Result<Ipv4Addr, RdataError> {
        self.address("an IPv4 address", "IPv4 address")
    }

    pub(super) fn address6(&mut self) -> Result<Ipv6Addr, RdataError> {
        self.address("an IPv6 address", "IPv6 address")
    }

    fn address<T: FromStr>(&mut self, one: &str, what: &str) -> Result<T, RdataError> {
        let token = self.next(one)?;
        let word = std::str::from_utf8(token.text)
            .ok()
            .filter(|_| !token.quoted);
        word.and_then(|word| word.parse().ok())
            .ok_or_else(|| self.wrong(token, what))
    }

    /// Fails if a word is left.
    pub(super) fn end(&self) -> Result<(), RdataError> {
        match self.tokens.get(self.at) {
            None => Ok(()),
            Some(extra) => {
                let message = format!("{} is one word too many", shown(*extra));
                Err(RdataError::new(self.at, message))
            }
        }
    }

    /// The next word, which must not be in quotes, as text.
    pub(super) fn bare(&mut self, what: &str) -> Result<&'a str, RdataError> {
        let token = self.next(what)?;
        match std::str::from_utf8(token.text) {
            Ok(text) if !token.quoted => Ok(text),
            _ => Err(self.wrong(
                token,
                what.trim_start_matches("the ").trim_start_matches("a "),
            )),
        }
    }

    /// A decimal number.
    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, RdataError> {
        let token = self.next(what)?;
        let value = (!token.quoted).then(|| decimal(token.text)).flatten();
        value.ok_or_else(|| {
            let highest = u64::MAX >> (64 - size_of::<T>() * 8);
            self.wrong(token, &format!("number from 0 to {highest}"))
        })
    }

    /// A time span in seconds or in BIND's units.
    pub(super) fn ttl(&mut self, what: &str) -> Result<u32, RdataError> {
        let token = self.next(what)?;
        let value = (!token.quoted).then(|| seconds(token.text)).flatten();
        value.ok_or_else(|| self.wrong(token, "time span in seconds"))
    }

    /// A domain name.
    pub(super) fn name(&mut self) -> Result<Name, RdataError> {
        let token = self.next("a domain name")?;
        if token.quoted {
            return Err(self.error("a domain name has no quotes"));
        }
        if token.text == b"@" {
            return Ok(self.origin.clone());
        }
        Name::parse_bytes(token.text, self.origin)
            .map_err(|error| self.error(format!("{} is no domain name: {error}", shown(token))))
    }

    /// One character-string of at most 255 octets, appended with its length octet.
    pub(super) fn string(&mut self, what: &str, out: &mut Vec<u8>) -> Result<(), RdataError> {
        let token = self.next(what)?;
        let octets = character_string(token).map_err(|error| self.at_last(error))?;
        let Ok(length) = u8::try_from(octets.len()) else {
            return Err(self.error("a string is longer than 255 octets"));
        };
        out.push(length);
        out.extend_from_slice(&octets);
        Ok(())
    }

    /// The same error, about the word read last.
    pub(super) fn at_last(&self, error: RdataError) -> RdataError {
        RdataError {
            token: self.at.saturating_sub(1),
            ..error
        }
    }
}

/// The octets of a word as a character-string: `\DDD` and `\X` are resolved (RFC 1035 §5.1). It may be
/// longer than a message can carry in one string.
///
/// # Errors
/// When a backslash stands before nothing, or before a number above 255.
pub fn character_string(token: Token<'_>) -> Result<Vec<u8>, RdataError> {
    let mut octets = Vec::with_capacity(token.text.len());
    let mut rest = token.text;
    loop {
        rest = match rest {
            [] => return Ok(octets),
            [b'\\', tail @ ..] => {
                let (octet, tail) = unescape(tail).ok_or_else(|| {
                    RdataError::new(
                        0,
                        r"a `\` is followed by no character or by a number above 255",
                    )
                })?;
                octets.push(octet);
                tail
            }
            // The lexer leaves a quote inside a bare word only for `key="value"`.
            [b'"', tail @ ..] if !token.quoted => tail,
            [plain, tail @ ..] => {
                octets.push(*plain);
                tail
            }
        };
    }
}

/// Decodes the escape after a backslash: the octet, and the rest of the text.
fn unescape(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
            let value = [a, b, c]
                .iter()
                .fold(0_u16, |sum, d| sum * 10 + u16::from(**d - b'0'));
            Some((u8::try_from(value).ok()?, rest))
        }
        [b'0'..=b'9', ..] | [] => None,
        [plain, rest @ ..] => Some((*plain, rest)),
    }
}

/// Appends octets as a string in quotes.
pub(super) fn push_string(octets: &[u8], out: &mut String) {
    out.push('"');
    push_escaped(octets, out);
    out.push('"');
}

/// Appends octets, and escapes those that cannot be in quotes unescaped.
pub(super) fn push_escaped(octets: &[u8], out: &mut String) {
    for octet in octets {
        match octet {
            b'"' | b'\\' => out.extend(['\\', char::from(*octet)]),
            b' '..=b'~' => out.push(char::from(*octet)),
            _ => {
                out.push('\\');
                out.push_str(&format!("{octet:03}"));
            }
        }
    }
}

/// A time span in seconds, as BIND writes it: a plain number, or numbers with the units
/// W D H M S, such as `1h30m`.
#[must_use]
pub fn seconds(text: &[u8]) -> Option<u32> {
    if let Some(plain) = decimal(text) {
        return Some(plain);
    }
    let (mut total, mut number) = (0_u32, None::<u32>);
    for byte in text {
        let unit = match byte {
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            b'w' | b'W' => 604_800,
            b'd' | b'D' => 86_400,
            b'h' | b'H' => 3_600,
            b'm' | b'M' => 60,
            b's' | b'S' => 1,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    // After one unit, every number needs its unit: `1h30` is an error.
    number
        .is_none()
        .then_some(total)
        .filter(|_| !text.is_empty())
}

/// A number in nothing but decimal digits.
pub(super) fn decimal<T: FromStr>(text: &[u8]) -> Option<T> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The start of a word between backquotes, for an error's text.
pub(super) fn shown(token: Token<'_>) -> String {
    const ENOUGH: usize = 40;
    let text = String::from_utf8_lossy(token.text.get(..ENOUGH).unwrap_or(token.text));
    let more = if token.text.len() > ENOUGH { "…" } else { "" };
    format!("`{text}{more}`")
}

/// Cuts a line into words. Quotes hold a word together; a quote right after a `=` belongs to the
/// word before it (`alpn="h2,h3"`, RFC 9460 §2.1).
///
/// # Errors
/// When a quote is not closed.
pub fn tokens(line: &[u8]) -> Result<Vec<Token<'_>>, RdataError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let (token, tail) = match rest {
            [] => return Ok(words),
            [b'"', inside @ ..] => {
                let end = closing_quote(inside);
                let end = end.ok_or_else(|| RdataError::new(words.len(), OPEN_QUOTE))?;
                let (text, tail) = inside.split_at_checked(end).unwrap_or((inside, &[]));
                (
                    Token { text, quoted: true },
                    tail.get(1..).unwrap_or_default(),
                )
            }
            _ => {
                let end = word_end(rest);
                let end = end.ok_or_else(|| RdataError::new(words.len(), OPEN_QUOTE))?;
                let (text, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                (Token::bare(text), tail)
            }
        };
        words.push(token);
        rest = tail;
    }
}

const OPEN_QUOTE: &str = "a quote is not closed";

/// The offset of the closing quote, from the opening one on.
fn closing_quote(inside: &[u8]) -> Option<usize> {
    let mut escaped = false;
    inside.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

/// The end of a bare word; `None` when a quote inside it is open.
fn word_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut before) = (0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' if before == b'=' => at += closing_quote(text.get(at + 1..)?)? + 2,
            b'"' => return Some(at),
            blank if blank.is_ascii_whitespace() => return Some(at),
            _ => at += 1,
        }
        before = *byte;
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_take_binds_units() {
        let cases = [
            ("0", Some(0)),
            ("180", Some(180)),
            ("3H", Some(10_800)),
            ("30M", Some(1_800)),
            ("2W", Some(1_209_600)),
            ("1w2d3h4m5s", Some(788_645)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("9999999w", None),
            ("1h30", None),
            ("h", None),
            ("", None),
            ("-1", None),
            ("1y", None),
            ("1 h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_cut_at_blanks_and_quotes() {
        let check = |line: &str, expected: &[(&str, bool)]| {
            let words = tokens(line.as_bytes()).unwrap();
            let words: Vec<_> = words
                .iter()
                .map(|t| (std::str::from_utf8(t.text).unwrap(), t.quoted))
                .collect();
            assert_eq!(words, expected, "{line}");
        };
        check("", &[]);
        check("  a\tb ", &[("a", false), ("b", false)]);
        check(r#""a b" c"#, &[("a b", true), ("c", false)]);
        check(r#""" """#, &[("", true), ("", true)]);
        check(r#"a"b"c"#, &[("a", false), ("b", true), ("c", false)]);
        check(r#"alpn="h 2" x"#, &[(r#"alpn="h 2""#, false), ("x", false)]);
        check(
            r#""a\"b" c\ d e\"#,
            &[(r#"a\"b"#, true), (r"c\ d", false), (r"e\", false)],
        );
    }

    #[test]
    fn open_quotes_are_refused() {
        for (line, token) in [
            (r#"""#, 0),
            (r#"a "b"#, 1),
            (r#"a "b\""#, 1),
            (r#"k="v"#, 0),
        ] {
            assert_eq!(tokens(line.as_bytes()).unwrap_err().token, token, "{line}");
        }
    }

    #[test]
    fn escapes_stand_for_any_octet() {
        let check = |text: &[u8], expected: &[u8]| {
            assert_eq!(character_string(Token::bare(text)).unwrap(), expected);
        };
        check(br"\000\255\065", &[0, 255, 65]);
        check(br#"\"\\\;\a"#, br#""\;a"#);
        check(&[0xff, 0x80], &[0xff, 0x80]);
        for bad in [&br"\"[..], br"\256", br"\25", br"\1x"] {
            assert!(character_string(Token::bare(bad)).is_err());
        }
    }
}
