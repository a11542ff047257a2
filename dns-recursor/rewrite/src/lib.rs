//! Rules that change the name or the type of a question, as the `rewrite` of `CoreDNS` does.
//!
//! ```text
//! question ─► rules, in their order ─► another question ─► cache, upstreams
//!                                                              │
//! answer to the client ◄─ names changed back, last rule first ◄─ answer
//! ```
//!
//! Names are texts here: in lower case, with their final dot. An answer that is changed has other owners than its
//! signatures were made for, and so has none.

mod back;
mod replacement;
mod rule;

use dns_cache::key;
use dns_wire::{Name, Type};

pub use back::Back;
pub use replacement::RuleError;
pub use rule::Rule;

/// All rules, in their order.
#[derive(Clone, Debug, Default)]
pub struct Rewrites(Vec<Rule>);

/// The result of rules for a question.
#[derive(Clone, Debug)]
pub enum Rewritten {
    /// No rule matches.
    Unchanged,
    /// Another question, in wire form and lower case, and the way back.
    Question(Box<[u8]>, Back),
    /// A text that is no domain name.
    NoName,
}

impl Rewrites {
    #[must_use]
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Whether there are no rules.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the rules to a question in wire form and lower case: the first that matches, and those behind it as long as each
    /// says so.
    #[must_use]
    pub fn apply(&self, question: &[u8]) -> Rewritten {
        let Ok((name, _)) = Name::from_wire(question) else {
            return Rewritten::Unchanged;
        };
        let mut text = name.to_string();
        let mut qtype = key::qtype(question);
        let mut back = Back::new(question);
        let mut is_changed = false;
        for rule in &self.0 {
            if !rule.apply(&mut text, &mut qtype, &mut back) {
                continue;
            }
            is_changed = true;
            if !rule.goes_on() {
                break;
            }
        }
        if !is_changed {
            return Rewritten::Unchanged;
        }
        match Name::parse(&text) {
            Ok(name) => Rewritten::Question(question_of(&name, qtype, question), back),
            Err(_) => Rewritten::NoName,
        }
    }
}

fn question_of(name: &Name, qtype: Type, question: &[u8]) -> Box<[u8]> {
    let class = question.last_chunk::<2>().copied().unwrap_or_default();
    let name = name.to_lowercase();
    let question = [name.as_wire(), &qtype.0.to_be_bytes(), &class].concat();
    question.into()
}

#[cfg(test)]
mod tests;
