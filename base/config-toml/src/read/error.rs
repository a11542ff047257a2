//! Errors of serde, kept apart until they are printed.

use std::fmt;
use std::ops::Range;

use config_text::nearest;
use serde::de;

/// An error with its place.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) kind: Kind,
    /// Bytes of the document; none until the innermost value around it is known.
    pub(super) span: Option<Range<usize>>,
}

#[derive(Debug)]
pub(super) enum Kind {
    UnknownKey(String, &'static [&'static str]),
    UnknownValue(String, &'static [&'static str]),
    MissingKey(&'static str),
    /// The value, and its range in words.
    OutOfRange(String, String),
    /// Said by the value's own type.
    Other(String),
}

impl Refusal {
    pub(super) fn other(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            kind: Kind::Other(message.into()),
            span: Some(span),
        }
    }

    /// The same, at `span` unless it already has a place further inside.
    pub(super) fn within(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    /// The known word next to the unknown one.
    pub(super) fn meant(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::UnknownKey(word, known) | Kind::UnknownValue(word, known) => {
                nearest(word, known.iter().copied())
            }
            Kind::MissingKey(_) | Kind::OutOfRange(..) | Kind::Other(_) => None,
        }
    }

    /// The error as people read it, for the value of a key.
    pub(super) fn of_key(&self, key: Option<&str>) -> String {
        match (&self.kind, key) {
            (Kind::OutOfRange(value, range), Some(key)) => {
                format!("{value} is out of range; `{key}` is {range}")
            }
            _ => self.to_string(),
        }
    }

    fn unknown(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        kind: &str,
        word: &str,
        known: &[&str],
    ) -> fmt::Result {
        write!(formatter, "unknown {kind} `{word}`")?;
        match self.meant() {
            Some(meant) => write!(formatter, ", did you mean `{meant}`?"),
            None if known.is_empty() => formatter.write_str(", none is known here"),
            None => write!(formatter, ", known here: `{}`", known.join("`, `")),
        }
    }
}

impl From<Kind> for Refusal {
    fn from(kind: Kind) -> Self {
        Self { kind, span: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::UnknownKey(word, known) => self.unknown(formatter, "key", word, known),
            Kind::UnknownValue(word, known) => self.unknown(formatter, "value", word, known),
            Kind::MissingKey(key) => write!(formatter, "missing key `{key}`"),
            Kind::OutOfRange(value, range) => {
                write!(formatter, "{value} is out of range; it is {range}")
            }
            Kind::Other(words) => formatter.write_str(words),
        }
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Kind::Other(message.to_string()).into()
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match unexpected {
            // As the types with a range say it.
            de::Unexpected::Other(value) => {
                Kind::OutOfRange(value.to_owned(), expected.to_string()).into()
            }
            _ => Self::custom(format_args!(
                "invalid value: {unexpected}, expected {expected}"
            )),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Kind::UnknownValue(variant.to_owned(), expected).into()
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Kind::UnknownKey(field.to_owned(), expected).into()
    }

    fn missing_field(field: &'static str) -> Self {
        Kind::MissingKey(field).into()
    }
}
