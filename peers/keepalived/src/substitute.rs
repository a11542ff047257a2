//! Parameters: `$NAME=value`, and `$NAME` or `${NAME}` wherever it is used.

use std::collections::HashMap;

/// The definitions so far.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, String>);

/// More letters than these do not come of one line: parameters may name each other.
const LONGEST: usize = 64 * 1024;

/// More replacements than these are made in no line.
const MOST: usize = 1000;

impl Parameters {
    /// Takes a line that is a definition; false when it is none.
    pub(super) fn define(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.strip_prefix('$').and_then(|rest| rest.split_once('='))
        else {
            return false;
        };
        let is_name = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(is_part);
        if is_name {
            self.0.insert(
                name.to_owned(),
                value.trim_start_matches([' ', '\t']).to_owned(),
            );
        }
        is_name
    }

    /// A line with its parameters replaced, again and again; those that are not defined stay. None when
    /// there is no end to it.
    pub(super) fn replace(&self, line: &str) -> Option<String> {
        let mut line = line.to_owned();
        if self.0.is_empty() {
            return Some(line);
        }
        let mut from = 0;
        for _ in 0..MOST {
            let Some((start, end, value)) = self.first_use(&line, from) else {
                return Some(line);
            };
            if line.len() + value.len() > LONGEST {
                return None;
            }
            // The lines that come in may have parameters of their own.
            from = start;
            line.replace_range(start..end, value);
        }
        None
    }

    /// The place where the first parameter at or after `from` is used, and its value.
    fn first_use(&self, line: &str, from: usize) -> Option<(usize, usize, &str)> {
        let rest = line.get(from..)?;
        rest.match_indices('$').find_map(|(at, _)| {
            let after = rest.get(at + 1..)?;
            let (name, length) = match after.strip_prefix('{') {
                Some(inner) => {
                    let (name, _) = inner.split_once('}')?;
                    (name, name.len() + 3)
                }
                None => {
                    let end = after.find(|letter| !is_part(letter)).unwrap_or(after.len());
                    let (name, next) = after.split_at_checked(end)?;
                    // Without braces it has to be followed by a space.
                    if !next.is_empty() && !next.starts_with(char::is_whitespace) {
                        return None;
                    }
                    (name, name.len() + 1)
                }
            };
            let value = self.0.get(name)?;
            Some((from + at, from + at + length, value.as_str()))
        })
    }
}

fn is_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(lines: &[&str]) -> Parameters {
        let mut parameters = Parameters::default();
        for line in lines {
            assert!(parameters.define(line), "{line}");
        }
        parameters
    }

    #[test]
    fn parameters_are_replaced_when_they_are_used() {
        let parameters = parameters(&[
            "$BASE=10.2.${SUB}",
            "$SUB=0",
            "$SUB=10",
            "$EMPTY=",
            "$P= 50",
        ]);
        for (line, expected) in [
            ("${BASE}.100/32", "10.2.10.100/32"),
            ("priority $P", "priority 50"),
            ("a $P b $P", "a 50 b 50"),
            ("$P.1 ${P}.1", "$P.1 50.1"),
            ("[${EMPTY}]", "[]"),
            (
                "$UNKNOWN ${UNKNOWN} $ ${ ${P",
                "$UNKNOWN ${UNKNOWN} $ ${ ${P",
            ),
            ("ü${P}ü", "ü50ü"),
        ] {
            assert_eq!(
                parameters.replace(line).as_deref(),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn parameters_without_end_are_given_up() {
        let endless = parameters(&["$A=${B}", "$B=${A}"]);
        assert_eq!(endless.replace("${A}"), None);
        let growing = parameters(&["$A=${A}${A}x"]);
        assert_eq!(growing.replace("${A}"), None);
        let large = parameters(&[
            "$A=${B}${B}",
            "$B=${C}${C}",
            &format!("$C={}", "x".repeat(40_000)),
        ]);
        assert_eq!(large.replace("${A}"), None);
    }

    #[test]
    fn only_names_are_defined() {
        let mut parameters = Parameters::default();
        for line in ["$1=x", "$=x", "$A B=x", "A=x", "$A", "$A-B=x", " $A=x"] {
            assert!(!parameters.define(line), "{line}");
        }
    }
}
