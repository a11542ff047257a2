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
            Kind::MissingKey(_) | Kind::Other(_) => None,
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
            Kind::Other(words) => formatter.write_str(words),
        }
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Kind::Other(message.to_string()).into()
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
