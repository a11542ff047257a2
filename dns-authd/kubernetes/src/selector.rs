//! Label selectors, as kubectl takes them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Conditions on the labels of an object, all of which must hold. Without one, every object is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    Absent,
}

/// The text is no label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASelector(String);

impl fmt::Display for NotASelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part) = self;
        write!(
            f,
            "`{part}` is no condition on a label: write `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` or `!key`"
        )
    }
}

impl std::error::Error for NotASelector {}

impl Selector {
    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|condition| condition.holds(labels))
    }
}

impl Condition {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
        }
    }
}

impl FromStr for Selector {
    type Err = NotASelector;

    fn from_str(text: &str) -> Result<Self, NotASelector> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        parts(text)
            .map(condition)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// The parts between the commas that are outside parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.split(move |letter| {
        match letter {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        letter == ',' && !is_inside
    })
}

fn condition(part: &str) -> Result<Condition, NotASelector> {
    let refused = || NotASelector(part.trim().to_owned());
    let part = part.trim();
    let (key, operator, values) = if let Some((key, value)) = part.split_once("!=") {
        (key, Operator::NotIn, vec![value])
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Operator::In, vec![value])
    } else if let Some((left, list)) = part.split_once('(') {
        let list = list.trim().strip_suffix(')').ok_or_else(refused)?;
        let (key, word) = left.trim().rsplit_once(' ').ok_or_else(refused)?;
        let operator = match word {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            _ => return Err(refused()),
        };
        (key, operator, list.split(',').collect())
    } else if let Some(key) = part.strip_prefix('!') {
        (key, Operator::Absent, Vec::new())
    } else {
        (part, Operator::Exists, Vec::new())
    };
    let key = key.trim();
    let values: Vec<String> = values.iter().map(|value| value.trim().to_owned()).collect();
    let is_key = !key.is_empty() && key.bytes().all(|byte| is_letter(byte) || byte == b'/');
    let are_values = values.iter().all(|value| value.bytes().all(is_letter));
    match is_key && are_values {
        true => Ok(Condition {
            key: key.to_owned(),
            operator,
            values,
        }),
        false => Err(refused()),
    }
}

/// Whether labels may have this octet, in their names and in their values.
const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let selector: Selector = selector.parse().unwrap();
        selector.selects(&labels.collect())
    }

    #[test]
    fn every_condition_must_hold() {
        let labels = [("tier", "web"), ("app.example.com/name", "shop")];
        for (selector, wanted) in [
            ("", true),
            ("tier=web", true),
            ("tier==web", true),
            ("tier = api", false),
            ("tier!=api", true),
            ("stage!=test", true),
            ("tier in (api, web)", true),
            ("tier notin (api,web)", false),
            ("stage notin (test)", true),
            ("tier", true),
            ("!tier", false),
            ("!stage", true),
            ("app.example.com/name=shop,tier in (web,api),!stage", true),
            ("app.example.com/name=shop,stage", false),
        ] {
            assert_eq!(selects(selector, &labels), wanted, "{selector}");
        }
    }

    #[test]
    fn other_text_is_refused_with_the_part() {
        for (text, part) in [
            ("a=b,", ""),
            ("a in b", "a in b"),
            ("a within (b)", "a within (b)"),
            ("a=b,c in (d", "c in (d"),
            ("=b", "=b"),
            ("a=b c", "a=b c"),
        ] {
            let error = text.parse::<Selector>().unwrap_err();
            assert_eq!(error, NotASelector(part.to_owned()), "{text}");
        }
    }
}
