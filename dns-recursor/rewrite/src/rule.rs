//! One rule: the questions that it matches, and what it makes of them.

use config::dns_recursor::{AnswerChange, Rewrite, RewriteMatch, RewriteThen};
use dns_wire::Type;
use regex::{Captures, Regex, RegexBuilder};

use crate::back::{Back, Change, Place};

/// The longest regular expression, in octets: that of `CoreDNS`.
const MAX_PATTERN: usize = 10_000;
/// The memory of a compiled regular expression, in octets.
const MAX_COMPILED: usize = 1 << 20;
/// The largest number of a group that a replacement can name.
const MAX_GROUP: usize = 100;

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    matching: Matching,
    /// Whether names of the answer are changed back by what the rule has changed.
    is_reverted: bool,
    /// Further changes of the answer.
    changes: Vec<Change>,
    goes_on: bool,
}

#[derive(Clone, Debug)]
enum Matching {
    Exact { from: String, to: String },
    Prefix { from: String, to: String },
    Suffix { from: String, to: String },
    Substring { from: String, to: String },
    Regex(Replacement),
    Type { from: Type, to: Type },
}

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

impl Rule {
    /// The rule of a configuration.
    ///
    /// # Errors
    /// When a type, a regular expression or a group does not exist.
    pub fn new(file: &Rewrite) -> Result<Self, RuleError> {
        if file.from.is_empty() {
            return Err(RuleError::Empty);
        }
        let (from, to) = (full(&file.from), full(&file.to));
        let matching = match file.kind {
            RewriteMatch::Exact => Matching::Exact { from, to },
            RewriteMatch::Prefix => Matching::Prefix { from, to },
            RewriteMatch::Suffix => Matching::Suffix { from, to },
            RewriteMatch::Substring => Matching::Substring { from, to },
            RewriteMatch::Regex => Matching::Regex(Replacement::new(&file.from, &file.to)?),
            RewriteMatch::Type => Matching::Type {
                from: rtype(&file.from)?,
                to: rtype(&file.to)?,
            },
        };
        if file.kind == RewriteMatch::Type
            && !(file.answer_name.is_empty() && file.answer_value.is_empty())
        {
            return Err(RuleError::Answer);
        }
        let of = |place, changes: &[AnswerChange]| {
            let changes = changes.iter();
            let changes = changes.map(move |change| {
                let replacement = Replacement::new(&change.from, &change.to)?;
                Ok(Change::Regex(place, replacement))
            });
            changes.collect::<Result<Vec<Change>, RuleError>>()
        };
        let mut changes = of(Place::Owner, &file.answer_name)?;
        changes.extend(of(Place::Value, &file.answer_value)?);
        Ok(Self {
            matching,
            is_reverted: file.answer,
            changes,
            goes_on: file.then == RewriteThen::Continue,
        })
    }

    /// Whether the rules behind it count, too.
    pub(crate) const fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Changes a question; whether the rule matches.
    pub(crate) fn apply(&self, text: &mut String, qtype: &mut Type, back: &mut Back) -> bool {
        let changed = match &self.matching {
            Matching::Type { from, to } => {
                let is_matched = qtype == from;
                if is_matched {
                    *qtype = *to;
                }
                return is_matched;
            }
            Matching::Exact { from, to } => (text == from).then(|| to.clone()),
            Matching::Prefix { from, to } => {
                let rest = text.strip_prefix(from.as_str());
                rest.map(|rest| [to, rest].concat())
            }
            Matching::Suffix { from, to } => {
                let rest = text.strip_suffix(from.as_str());
                rest.map(|rest| [rest, to].concat())
            }
            Matching::Substring { from, to } => {
                let is_matched = text.contains(from.as_str());
                is_matched.then(|| text.replace(from, to))
            }
            Matching::Regex(replacement) => replacement.apply(text),
        };
        let Some(changed) = changed else {
            return false;
        };
        // The steps of the answer are taken in reverse.
        if self.is_reverted {
            let change = match &self.matching {
                Matching::Suffix { from, to } => Change::Suffix {
                    from: to.clone(),
                    to: from.clone(),
                },
                _ => Change::Name {
                    from: changed.clone(),
                    to: text.clone(),
                },
            };
            back.push(change);
        }
        for change in &self.changes {
            back.push(change.clone());
        }
        *text = changed;
        true
    }
}

/// A text in lower case with a final dot, as names are.
fn full(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    match text.ends_with('.') {
        true => text,
        false => text + ".",
    }
}

fn rtype(text: &str) -> Result<Type, RuleError> {
    text.to_ascii_uppercase()
        .parse()
        .map_err(|_| RuleError::Type(text.to_owned()))
}

/// A regular expression, and what takes the place of the names that it matches: `{1}` is its first group.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pattern: Regex,
    to: String,
}

impl Replacement {
    fn new(from: &str, to: &str) -> Result<Self, RuleError> {
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

    /// What becomes of a name; `None` for one that does not match.
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
