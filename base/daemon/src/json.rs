//! JSON on standard output.

use serde::Serialize;

use crate::outln;

/// Prints a value, for programs.
pub fn print(shown: &impl Serialize) {
    outln!("{}", text(shown));
}

/// A value as text, over several lines.
pub fn text(shown: &impl Serialize) -> String {
    // None of the fields can be without a form in JSON.
    serde_json::to_string_pretty(shown).unwrap_or_else(|error| error.to_string())
}

/// Prints a value on one line, for programs that read events.
pub fn print_line(shown: &impl Serialize) {
    outln!("{}", line(shown));
}

/// A value as text on one line.
pub fn line(shown: &impl Serialize) -> String {
    // None of the fields can be without a form in JSON.
    serde_json::to_string(shown).unwrap_or_else(|error| error.to_string())
}
