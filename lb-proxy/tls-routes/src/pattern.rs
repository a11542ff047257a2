//! A regular expression of names.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression, without regard to case. It takes time linear in the name.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// The largest program of a pattern, in bytes.
const LARGEST: usize = 1 << 18;

impl Pattern {
    /// The pattern that `text` is. It fits anywhere in a name, unless `^` and `$` tie it.
    ///
    /// # Errors
    ///
    /// Why it is none, or that it is too large.
    pub fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text)
            .unicode(false)
            .case_insensitive(true)
            .size_limit(LARGEST)
            .dfa_size_limit(LARGEST)
            .build();
        regex.map(Self).map_err(|error| {
            let error = error.to_string();
            let last = error.lines().last().unwrap_or_default();
            let reason = last.strip_prefix("error: ").unwrap_or(last);
            format!("`{text}` is no regular expression: {reason}")
        })
    }

    pub(crate) fn fits(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes())
    }
}

/// The pattern's text for a name that has `text` in it as it stands.
#[must_use]
pub fn anywhere(text: &str) -> String {
    regex::escape(text)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}
