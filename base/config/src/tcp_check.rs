//! The steps of a check by a conversation over TCP.

use std::fmt;
use std::str::FromStr;

use health::{Content, Expectation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use config_toml::{TextError, as_text};

/// A step of a conversation: one of these keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckStep {
    /// The text to send. Bytes that came before it count for nothing.
    pub send: Option<String>,
    /// The same in hexadecimal.
    pub send_hex: Option<Hex>,
    /// A text that must come, anywhere in what came since something was sent.
    pub expect: Option<String>,
    /// The same in hexadecimal.
    pub expect_hex: Option<Hex>,
    /// A regular expression, over bytes, that must fit what came since something was sent.
    pub expect_pattern: Option<String>,
    /// A text that must not come, in an answer that must.
    pub expect_not: Option<String>,
    /// The same in hexadecimal.
    pub expect_not_hex: Option<Hex>,
    /// A regular expression that must not fit an answer, which must come.
    pub expect_not_pattern: Option<String>,
}

impl CheckStep {
    /// Octets to send, as text where they are.
    #[must_use]
    pub fn sends(octets: &[u8]) -> Self {
        match text(octets) {
            Some(text) => Self {
                send: Some(text),
                ..Self::default()
            },
            None => Self {
                send_hex: Some(Hex(octets.to_vec())),
                ..Self::default()
            },
        }
    }

    /// Octets that must come, or must not; as text where they are.
    #[must_use]
    pub fn expects(octets: &[u8], is_wanted: bool) -> Self {
        let hex = || Some(Hex(octets.to_vec()));
        match (text(octets), is_wanted) {
            (Some(text), true) => Self {
                expect: Some(text),
                ..Self::default()
            },
            (Some(text), false) => Self {
                expect_not: Some(text),
                ..Self::default()
            },
            (None, true) => Self {
                expect_hex: hex(),
                ..Self::default()
            },
            (None, false) => Self {
                expect_not_hex: hex(),
                ..Self::default()
            },
        }
    }

    /// A regular expression that must fit, or must not.
    #[must_use]
    pub fn expects_pattern(pattern: impl Into<String>, is_wanted: bool) -> Self {
        let pattern = Some(pattern.into());
        match is_wanted {
            true => Self {
                expect_pattern: pattern,
                ..Self::default()
            },
            false => Self {
                expect_not_pattern: pattern,
                ..Self::default()
            },
        }
    }

    /// The step for a probe.
    ///
    /// # Errors
    ///
    /// When it has no key, or several.
    pub fn step(&self) -> Result<health::CheckStep, &'static str> {
        let bytes = |text: &String| text.clone().into_bytes();
        let hex = |hex: &Hex| hex.0.clone();
        let octets = |octets| Content::Octets(octets);
        let expect = |is_wanted| {
            move |content| health::CheckStep::Expect(Expectation { content, is_wanted })
        };
        let patterns = [&self.expect_pattern, &self.expect_not_pattern]
            .map(|pattern| pattern.clone().map(Content::Pattern));
        let [pattern, not_pattern] = patterns;
        let written = [
            self.send.as_ref().map(bytes).map(health::CheckStep::Send),
            self.send_hex.as_ref().map(hex).map(health::CheckStep::Send),
            self.expect
                .as_ref()
                .map(bytes)
                .map(octets)
                .map(expect(true)),
            self.expect_hex
                .as_ref()
                .map(hex)
                .map(octets)
                .map(expect(true)),
            pattern.map(expect(true)),
            self.expect_not
                .as_ref()
                .map(bytes)
                .map(octets)
                .map(expect(false)),
            self.expect_not_hex
                .as_ref()
                .map(hex)
                .map(octets)
                .map(expect(false)),
            not_pattern.map(expect(false)),
        ];
        let mut steps = written.into_iter().flatten();
        match (steps.next(), steps.next()) {
            (Some(step), None) => Ok(step),
            (None, _) => Err("a step sends or expects something"),
            (Some(_), Some(_)) => Err("a step has one key"),
        }
    }
}

/// Octets that are better read as text.
fn text(octets: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(octets).ok()?;
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\r' | '\n' | '\t');
    text.chars().all(is_plain).then(|| text.to_owned())
}

/// Octets in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl FromStr for Hex {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        const WORDS: TextError =
            TextError("octets in hexadecimal have two digits each, as in 0d0a");
        let digit = |letter: u8| {
            let digit = char::from(letter).to_digit(16).ok_or(WORDS)?;
            u8::try_from(digit).map_err(|_| WORDS)
        };
        let (pairs, rest) = text.as_bytes().as_chunks();
        let octet = |[high, low]: &[u8; 2]| Ok(digit(*high)? << 4 | digit(*low)?);
        match rest.is_empty() {
            true => pairs.iter().map(octet).collect::<Result<_, _>>().map(Self),
            false => Err(WORDS),
        }
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut octets = self.0.iter();
        octets.try_for_each(|octet| write!(formatter, "{octet:02x}"))
    }
}

as_text!(Hex, "hexadecimal");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_written_and_read() {
        let hex: Hex = "0D0a00ff".parse().unwrap();
        assert_eq!(hex.0, [13, 10, 0, 255]);
        assert_eq!(hex.to_string(), "0d0a00ff");
        assert!("".parse::<Hex>().unwrap().0.is_empty());
        for wrong in ["0", "0d0", "0g", "+1", "0x0d", "é"] {
            assert!(wrong.parse::<Hex>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_step_is_one_thing() {
        use health::CheckStep::{Expect, Send};
        let expect = |content, is_wanted| Expect(Expectation { content, is_wanted });
        for (step, expected) in [
            (CheckStep::sends(b"PING\r\n"), Send(b"PING\r\n".to_vec())),
            (CheckStep::sends(&[0, 255]), Send(vec![0, 255])),
            (
                CheckStep::expects(b"+PONG", true),
                expect(Content::Octets(b"+PONG".to_vec()), true),
            ),
            (
                CheckStep::expects(&[0x30], false),
                expect(Content::Octets(b"0".to_vec()), false),
            ),
            (
                CheckStep::expects(&[1], false),
                expect(Content::Octets(vec![1]), false),
            ),
            (
                CheckStep::expects_pattern("^E", false),
                expect(Content::Pattern("^E".to_owned()), false),
            ),
        ] {
            assert_eq!(step.step(), Ok(expected), "{step:?}");
        }
        let read = toml::from_str::<CheckStep>("send-hex = \"00ff\"").unwrap();
        assert_eq!(read, CheckStep::sends(&[0, 255]));
        let nothing = CheckStep::default();
        assert!(nothing.step().unwrap_err().contains("something"));
        let two = CheckStep {
            expect: Some("x".to_owned()),
            ..CheckStep::sends(b"x")
        };
        assert!(two.step().unwrap_err().contains("one key"));
    }
}
