//! The prose of a file: comments, docs, and sentences in string literals; and the paragraphs of Markdown.
//!
//! Code in backticks and in fenced blocks is left out. A paragraph keeps the line of each of its words.

use std::path::Path;

/// A stretch of text without a break.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Paragraph {
    pub text: String,
    /// From which byte of the text on, which line.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    /// The line of the file at which a byte of the text stands.
    pub fn line_at(&self, byte: usize) -> usize {
        let before = self.lines.iter().take_while(|(start, _)| *start <= byte);
        before.last().map_or(0, |(_, line)| *line)
    }

    fn push(&mut self, text: &str, line: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), line));
        let words: Vec<&str> = text.split_whitespace().collect();
        self.text.push_str(&words.join(" "));
    }
}

/// The paragraphs of a file of Rust or of Markdown; none of another.
pub fn of_file(path: &Path) -> Vec<Paragraph> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => of_rust(&text),
        Some("md") => of_lines(text.lines().zip(1..)),
        _ => Vec::new(),
    }
}

/// Comments and string literals of two words or more.
pub fn of_rust(text: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut block: Vec<(String, usize)> = Vec::new();
    let mut kind = "";
    for piece in pieces(text) {
        match piece {
            Piece::Comment { marker, text, line } => {
                let follows = block.last().is_some_and(|(_, last)| last + 1 == line);
                if !follows || kind != marker {
                    flush(&mut block, &mut found);
                }
                kind = marker;
                block.push((text, line));
            }
            Piece::Text { text, line } => {
                flush(&mut block, &mut found);
                if text.split_whitespace().nth(1).is_some() {
                    let mut paragraph = Paragraph::default();
                    for (part, line) in text.split('\n').zip(line..) {
                        paragraph.push(&without_code(part.trim_end_matches('\\')), line);
                    }
                    found.push(paragraph);
                }
            }
        }
    }
    flush(&mut block, &mut found);
    found
}

fn flush(block: &mut Vec<(String, usize)>, found: &mut Vec<Paragraph>) {
    let lines = block.iter().map(|(text, line)| (text.as_str(), *line));
    found.extend(of_lines(lines));
    block.clear();
}

/// The paragraphs of lines of Markdown.
pub fn of_lines<'a>(lines: impl Iterator<Item = (&'a str, usize)>) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut paragraph = Paragraph::default();
    let mut in_code = false;
    for (text, line) in lines {
        let trimmed = text.trim();
        let is_fence = trimmed.starts_with("```");
        in_code ^= is_fence;
        let begins = is_fence
            || trimmed.is_empty()
            || trimmed.starts_with(['|', '#', '>'])
            || trimmed.starts_with("* ")
            || trimmed.starts_with("- ")
            || trimmed
                .split_once(". ")
                .is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if begins && !paragraph.text.is_empty() {
            found.push(std::mem::take(&mut paragraph));
        }
        if in_code || is_fence || trimmed.is_empty() {
            continue;
        }
        // A cell of a table is a text of its own: the bar counts as the end of a sentence.
        let text = without_code(trimmed.trim_start_matches(['*', '-', '#', '>', '|', ' ']))
            .replace('|', ".");
        paragraph.push(&text, line);
    }
    if !paragraph.text.is_empty() {
        found.push(paragraph);
    }
    found
}

/// The text with `code` replaced by an empty pair of backticks.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let kept = parts.map(|(index, part)| if index % 2 == 0 { part } else { "``" });
    kept.collect()
}

//--- Rust

enum Piece {
    Comment {
        marker: &'static str,
        text: String,
        line: usize,
    },
    Text {
        text: String,
        line: usize,
    },
}

/// The comments and string literals of a file, in their order.
fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            let marker = ["//!", "///", "//"]
                .into_iter()
                .find(|m| rest.starts_with(m))
                .unwrap_or("//");
            let text = rest[..end].trim_start_matches(marker).to_owned();
            found.push(Piece::Comment { marker, text, line });
            end
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            let (content, taken) = plain(rest);
            found.push(Piece::Text {
                text: content.to_owned(),
                line,
            });
            taken
        } else if let Some((content, taken)) = raw(rest, before) {
            found.push(Piece::Text {
                text: content.to_owned(),
                line,
            });
            taken
        } else if first == '\'' {
            character(rest)
        } else {
            first.len_utf8()
        };
        line += rest[..taken].matches('\n').count();
        before = rest[..taken].chars().next_back().unwrap_or(' ');
        rest = &rest[taken..];
    }
    found
}

/// The content of a literal that begins with a quotation mark, and how long all of it is.
fn plain(rest: &str) -> (&str, usize) {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            '"' if !escaped => return (&rest[1..at], at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    (&rest[1..], rest.len())
}

/// The same of `r"…"` and `r#"…"#`.
fn raw(rest: &str, before: char) -> Option<(&str, usize)> {
    if before.is_alphanumeric() && before != 'b' || before == '_' {
        return None;
    }
    let hashes = rest.strip_prefix('r')?;
    let n = hashes.len() - hashes.trim_start_matches('#').len();
    let content = hashes[n..].strip_prefix('"')?;
    let end = content.find(&format!("\"{}", "#".repeat(n)))?;
    Some((&content[..end], 1 + n + 1 + end + 1 + n))
}

/// The length of a character literal, or of the mark of a lifetime.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            characters.next();
            characters
                .find(|(_, c)| *c == '\'')
                .map_or(1, |(at, _)| at + 1)
        }
        Some((_, _)) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_sentences_are_prose_and_code_is_not() {
        let text = "//! What it is,\n//! in `two words`.\n\nlet a: &'a str = \"one\"; // beside\nlet c = '\"';\nlog(\"it is \\\"so\\\"\");\nlet r = r#\"raw \"text\" // no\"#;\n";
        let found = of_rust(text);
        let texts: Vec<&str> = found.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "What it is, in ``.",
                "beside",
                "it is \\\"so\\\"",
                "raw \"text\" // no"
            ]
        );
        assert_eq!(found[0].line_at(found[0].text.find("in").unwrap()), 2);
        assert_eq!(found[3].line_at(0), 7);
    }

    #[test]
    fn paragraphs_of_markdown_are_apart() {
        let text = "# Head\nOne\ntwo.\n\n```sh\ncode here\n```\n* item\n| a | b |\n";
        let found = of_lines(text.lines().zip(1..));
        let texts: Vec<&str> = found.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(texts, ["Head One two.", "item", "a . b ."]);
    }
}
