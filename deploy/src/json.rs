//! JSON on standard output.

use daemon::outln;
use serde::Serialize;

/// Prints a value, for programs.
pub(crate) fn print_json(shown: &impl Serialize) {
    outln!("{}", json(shown));
}

/// A value as text, over several lines.
pub(crate) fn json(shown: &impl Serialize) -> String {
    // None of the fields can be without a form in JSON.
    serde_json::to_string_pretty(shown).unwrap_or_else(|error| error.to_string())
}

/// Prints a value on one line, for programs that read events.
pub(crate) fn print_line(shown: &impl Serialize) {
    outln!("{}", line(shown));
}

/// A value as text on one line.
pub(crate) fn line(shown: &impl Serialize) -> String {
    // None of the fields can be without a form in JSON.
    serde_json::to_string(shown).unwrap_or_else(|error| error.to_string())
}
