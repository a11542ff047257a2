//! JSON on standard output.

use daemon::{errln, outln};
use serde::Serialize;

/// Prints a value, for programs.
pub(crate) fn print_json(shown: &impl Serialize) {
    match serde_json::to_string_pretty(shown) {
        Ok(text) => outln!("{text}"),
        // None of the fields can be without a form in JSON.
        Err(error) => errln!("{error}"),
    }
}

/// Prints a value on one line, for programs that read events.
pub(crate) fn print_line(shown: &impl Serialize) {
    match serde_json::to_string(shown) {
        Ok(text) => outln!("{text}"),
        // None of the fields can be without a form in JSON.
        Err(error) => errln!("{error}"),
    }
}
