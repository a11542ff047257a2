//! One rule: the questions that it matches, and what it makes from them.

use config::dns_recursor::{AnswerChange, Rewrite, RewriteMatch, RewriteThen};
use dns_wire::Type;

use crate::back::{Back, Change, Place};
use crate::replacement::{Replacement, RuleError, full};

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

fn rtype(text: &str) -> Result<Type, RuleError> {
    text.to_ascii_uppercase()
        .parse()
        .map_err(|_| RuleError::Type(text.to_owned()))
}
