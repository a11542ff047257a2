//! Regular expressions, and the texts that replace the names that they match.

use regex::{Captures, Regex, RegexBuilder};

/// The longest regular expression, in octets: that of `CoreDNS`.
const MAX_PATTERN: usize = 10_000;
/// The memory of a compiled regular expression, in octets.
const MAX_COMPILED: usize = 1 << 20;
/// The largest number of a group that a replacement can name.
const MAX_GROUP: usize = 100;

/// The reason why a rule cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("`{0}` is no type of records")]
    Type(String),
    #[error("the regular expression is longer than 10000 octets")]
    Long,
    #[error("`{0}` is no regular expression: {1}")]
    Pattern(String, String),
    #[error("`{0}` names the group {{{1}}}, which `{2}` does not have")]
    Group(String, usize, String),
    #[error("`from` is empty")]
    Empty,
    #[error("a rule for a type changes nothing in the answer")]
    Answer,
}

/// A text in lower case with a final dot, as names are.
pub(crate) fn full(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.ends_with('.') {
        true => text,
        false => text + ".",
    }
}

/// A regular expression, and the text that replaces the names that it matches: `{1}` is its first group.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pattern: Regex,
    to: String,
}

impl Replacement {
    pub(crate) fn new(from: &str, to: &str) -> Result<Self, RuleError> {
        if from.len() > MAX_PATTERN {
            return Err(RuleError::Long);
        }
        let pattern = RegexBuilder::new(from).size_limit(MAX_COMPILED).build();
        let pattern = pattern
            .map_err(|error| RuleError::Pattern(from.to_owned(), one_line(&error.to_string())))?;
        let missing = pattern.captures_len()..=MAX_GROUP;
        let mut missing = missing.filter(|group| to.contains(&format!("{{{group}}}")));
        match missing.next() {
            Some(group) => Err(RuleError::Group(to.to_owned(), group, from.to_owned())),
            None => Ok(Self {
                pattern,
                to: full(to),
            }),
        }
    }

    /// The changed name; `None` for one that does not match.
    pub(crate) fn apply(&self, text: &str) -> Option<String> {
        let captures: Captures<'_> = self.pattern.captures(text)?;
        let mut changed = self.to.clone();
        for (group, value) in captures.iter().enumerate() {
            let value = value.map_or("", |value| value.as_str());
            changed = changed.replace(&format!("{{{group}}}"), value);
        }
        Some(changed)
    }
}

/// The last line of an error, which says what is wrong; the others show the place in columns.
fn one_line(error: &str) -> String {
    let last = error.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}
