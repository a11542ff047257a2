//! `outpost status --watch`: the same again and again, until Ctrl-C.

use std::io::{self, IsTerminal as _, Write};

/// Shows a status: on a terminal in place of the one before, elsewhere below it. JSON is one line.
///
/// # Errors
///
/// When standard output takes no more: its reader has gone.
pub(crate) fn show(text: &str, is_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write_to(&mut out, text, is_json, io::stdout().is_terminal())
}

fn write_to(out: &mut impl Write, text: &str, is_json: bool, is_terminal: bool) -> io::Result<()> {
    match (is_json, is_terminal) {
        (true, _) => writeln!(out, "{}", one_line(text))?,
        // The cursor goes to the top, and what is below it away.
        (false, true) => writeln!(out, "\x1b[H\x1b[J{text}")?,
        (false, false) => writeln!(out, "{text}\n")?,
    }
    out.flush()
}

/// JSON without what is between its values for people.
fn one_line(text: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    value.map_or_else(|_| text.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_one_status_and_a_program_reads_lines() {
        let written = |text, is_json, is_terminal| {
            let mut out = Vec::new();
            write_to(&mut out, text, is_json, is_terminal).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("a\nb", false, true), "\x1b[H\x1b[Ja\nb\n");
        assert_eq!(written("a\nb", false, false), "a\nb\n\n");
        let json = "{\n  \"a\": [\n    1\n  ]\n}";
        for is_terminal in [true, false] {
            assert_eq!(written(json, true, is_terminal), "{\"a\":[1]}\n");
        }
    }
}
