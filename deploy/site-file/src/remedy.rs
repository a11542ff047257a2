//! The remedy of a problem: the part of its message behind the last semicolon, or from `as in`, `did you mean`
//! or `known here` on.
//!
//! The rules of a site write it themselves. The reader of TOML and of values knows no site file, so its
//! messages get theirs here.

use config_text::Problem;

/// The words that begin a remedy within a sentence.
const OPENERS: [&str; 3] = [", as in ", ", did you mean ", ", known here: "];

/// The part of a message that says what to do, if it has one.
#[must_use]
pub fn remedy(message: &str) -> Option<&str> {
    let outside = |at: &usize| message.get(..*at).is_some_and(|head| !is_quoting(head));
    let semicolon = message.rmatch_indices("; ").map(|(at, _)| at).find(outside);
    if let Some(rest) = semicolon.and_then(|at| message.get(at + 2..)) {
        return Some(rest);
    }
    let openers = OPENERS.iter().filter_map(|opener| {
        let mut places = message.match_indices(opener).map(|(at, _)| at);
        places.find(outside)
    });
    message.get(openers.min()? + 2..)
}

/// Whether a text ends within a quotation in backquotes.
fn is_quoting(text: &str) -> bool {
    text.matches('`').count() % 2 == 1
}

/// A problem whose message says what to do.
pub(super) fn complete(mut problem: Problem) -> Problem {
    let message = &mut problem.message;
    match added(message) {
        Some(remedy) => {
            message.push_str("; ");
            message.push_str(&remedy);
        }
        None if remedy(message).is_none() => {
            message.push_str("; the reference of site.toml has the form of each value");
        }
        None => {}
    }
    problem
}

/// The remedy of a message of the reader, where it has none, or none that helps.
fn added(message: &str) -> Option<String> {
    if let Some(key) = message.strip_prefix("missing key `") {
        let key = key.split('`').next().unwrap_or_default();
        let example = EXAMPLES.iter().find(|(name, _)| *name == key);
        let written = remedy(message).is_some();
        return example
            .filter(|_| !written)
            .map(|(key, value)| format!("write it, as in {key} = {value}"));
    }
    let by_words = WORDS.iter().find(|(words, _)| message.contains(words));
    by_words.map(|(_, remedy)| (*remedy).to_owned())
}

/// A value for each key that must be there.
const EXAMPLES: [(&str, &str); 8] = [
    ("address", "\"192.168.7.13\""),
    ("domain", "\"ocp4.example.com\""),
    ("name", "\"ocp4\""),
    ("networks", "[\"192.168.7.0/24\"]"),
    ("prefix", "\"quay\""),
    ("repositories", "\"dev/**\""),
    ("role", "\"master\""),
    ("size", "\"20GiB\""),
];

/// Words of the readers of TOML and of values, and what to do.
const WORDS: [(&str, &str); 22] = [
    (
        "must be quoted",
        "put the text into quotes, as in name = \"ocp4\"",
    ),
    (
        "duplicate key",
        "write the key once, or a [[…]] for a list of tables",
    ),
    ("unclosed array", "close the list with ]"),
    (
        "invalid basic string",
        "close the text with a quote on the same line",
    ),
    (
        "invalid literal string",
        "close the text with a quote on the same line",
    ),
    ("unclosed table", "close the head of the table with ]"),
    ("unclosed inline table", "close the table with }"),
    ("key with no value", "write KEY = VALUE, or [TABLE]"),
    ("missing value", "write a value behind the ="),
    ("extra", "one line has one KEY = VALUE"),
    (
        "missing comma between",
        "put a comma between two values, or close the list with ] before this line",
    ),
    (
        "unexpected",
        "one line has one KEY = VALUE, [TABLE] or [[LIST]]",
    ),
    (
        "is too large",
        "write a number of at most 9223372036854775807",
    ),
    ("a TTL is at most", "write 0 to 2147483647"),
    ("number of a virtual router", "write a number of 1 to 255"),
    (
        "expected u32",
        "write a number of 0 to 4294967295, without quotes",
    ),
    (
        "expected a whole number",
        "write digits alone, without quotes",
    ),
    ("expected a boolean", "write true or false, without quotes"),
    ("expected a string", "put the text into quotes"),
    ("expected a sequence", "write a list, as in [\"a\", \"b\"]"),
    ("expected struct", "write a table, as in [dns]"),
    ("expected a map", "write a table, as in [dns]"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_behind_the_last_semicolon_or_an_opener() {
        for (message, expected) in [
            ("it is wrong", None),
            ("it is wrong; write another", Some("write another")),
            ("a; b; write another", Some("write another")),
            ("`a; b` is no name", None),
            ("`a; b` is no name, as in \"c\"", Some("as in \"c\"")),
            (
                "unknown key `a`, did you mean `b`?",
                Some("did you mean `b`?"),
            ),
        ] {
            assert_eq!(remedy(message), expected, "{message}");
        }
    }
}
