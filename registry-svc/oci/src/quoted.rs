//! Quoted strings of header fields (RFC 9110 §5.6.4), as challenges have them.

/// A quoted string; leaves out characters that cannot be in a header.
#[must_use]
pub fn write(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => {}
        }
    }
    quoted.push('"');
    quoted
}

/// A quoted string behind its first quote, and what follows its last; one that does not end is all
/// that there is.
#[must_use]
pub fn read(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            character => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["", "registry.example.org", r#"a "b" \c"#, "\\", "\""] {
            let quoted = write(text) + ", more";
            let inside = quoted.strip_prefix('"').unwrap();
            assert_eq!(read(inside), (text.to_owned(), ", more"), "{quoted}");
        }
        assert_eq!(write("line\nümlaut"), "\"linemlaut\"");
        assert_eq!(read("no end"), ("no end".to_owned(), ""));
    }
}
