//! Cuts a master file into entries and their words (RFC 1035 §5.1).
//!
//! An entry is one line, or several held together by parentheses. The lexer drops comments, blank lines and
//! line ends of any system. Words keep their escapes: the meaning of `\.` depends on the field.
//!
//! Never fails as a whole: it notes a problem in the entry, and reads the next one.

use dns_wire::rdata::Token;

/// Reads entries from the octets of one file.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    line_start: usize,
}

/// One directive or record, as written.
#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    /// Its words.
    pub(crate) tokens: Vec<Token<'a>>,
    /// The place of each word.
    pub(crate) places: Vec<Place>,
    /// Whether its first line begins with a blank, which repeats the previous owner.
    pub(crate) indented: bool,
    /// Its first error, with the column.
    pub(crate) fault: Option<(Place, &'static str)>,
}

/// A place in the file being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The line, counted from 1.
    pub(crate) line: usize,
    line_start: usize,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Begins at the start of a file, and skips a byte order mark.
    #[must_use]
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let start = if text.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        Self {
            text,
            at: start,
            line: 1,
            line_start: start,
        }
    }

    /// The place that the lexer has come to.
    #[must_use]
    pub(crate) const fn place(&self) -> Place {
        Place {
            line: self.line,
            line_start: self.line_start,
            at: self.at,
        }
    }

    /// The column of a place in characters, counted from 1. Octets that continue a UTF-8
    /// character do not count.
    #[must_use]
    pub(crate) fn column(&self, place: Place) -> usize {
        let before = self
            .text
            .get(place.line_start..place.at)
            .unwrap_or_default();
        before.iter().filter(|octet| **octet & 0xc0 != 0x80).count() + 1
    }

    /// Reads the next entry that is not empty; `false` at the end of the file.
    pub(crate) fn read(&mut self, entry: &mut Entry<'a>) -> bool {
        entry.tokens.clear();
        entry.places.clear();
        entry.fault = None;
        entry.indented = self.at_blank();
        let mut open: Vec<Place> = Vec::new();
        loop {
            let Some(octet) = self.text.get(self.at) else {
                if let Some(place) = open.first() {
                    entry.blame(*place, "this parenthesis is not closed");
                }
                return !entry.is_empty();
            };
            let place = self.place();
            match octet {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                    if open.is_empty() && !entry.is_empty() {
                        return true;
                    }
                    if open.is_empty() {
                        entry.indented = self.at_blank();
                    }
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b';' => self.skip_line(),
                b'(' => {
                    open.push(place);
                    self.at += 1;
                }
                b')' => {
                    if open.pop().is_none() {
                        entry.blame(place, "this parenthesis closes nothing");
                    }
                    self.at += 1;
                }
                b'"' => self.quoted(place, entry),
                _ => self.word(place, entry),
            }
        }
    }

    fn at_blank(&self) -> bool {
        matches!(self.text.get(self.at), Some(b' ' | b'\t'))
    }

    /// Skips to the end of the line, but not beyond.
    fn skip_line(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest
            .iter()
            .position(|octet| *octet == b'\n')
            .unwrap_or(rest.len());
    }

    /// Reads a word in quotes.
    fn quoted(&mut self, place: Place, entry: &mut Entry<'a>) {
        let Some(end) = self.closing_quote(self.at + 1, entry) else {
            entry.blame(place, "this quote is not closed on its line");
            self.skip_line();
            return;
        };
        let text = self.text.get(self.at + 1..end).unwrap_or_default();
        entry.push(Token { text, quoted: true }, place);
        self.at = end + 1;
    }

    /// The offset of the quote that closes a string whose text begins at `at`.
    fn closing_quote(&self, mut at: usize, entry: &mut Entry<'a>) -> Option<usize> {
        loop {
            match self.text.get(at)? {
                b'"' => return Some(at),
                b'\n' => return None,
                b'\\' if self.text.get(at + 1).is_some_and(|next| *next != b'\n') => at += 2,
                0 => {
                    entry.blame(Place { at, ..self.place() }, NUL);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Reads a word without quotes. A quote right behind a `=` belongs to it, as in
    /// `alpn="h2,h3"`.
    fn word(&mut self, place: Place, entry: &mut Entry<'a>) {
        let mut at = self.at;
        loop {
            let rest = self.text.get(at..).unwrap_or_default();
            at += rest
                .iter()
                .position(|octet| is_special(*octet))
                .unwrap_or(rest.len());
            let here = Place { at, ..place };
            match self.text.get(at) {
                Some(b'\\') => {
                    let next = self.text.get(at + 1);
                    if next.is_none_or(|next| matches!(next, b'\n' | b'\r')) {
                        entry.blame(here, r"a `\` stands at the end of the line");
                        at += 1;
                    } else {
                        at += 2;
                    }
                }
                Some(b'"') if at > self.at && self.text.get(at - 1) == Some(&b'=') => {
                    let Some(end) = self.closing_quote(at + 1, entry) else {
                        entry.blame(here, "this quote is not closed on its line");
                        self.skip_line();
                        return;
                    };
                    at = end + 1;
                }
                Some(0) => {
                    entry.blame(here, NUL);
                    at += 1;
                }
                _ => break,
            }
        }
        let text = self.text.get(self.at..at).unwrap_or_default();
        entry.push(Token::bare(text), place);
        self.at = at;
    }
}

const NUL: &str = "an octet of value 0: the file is damaged";

/// Whether an octet ends a word, or needs a second look inside it.
const fn is_special(octet: u8) -> bool {
    matches!(
        octet,
        0 | b'\t'..=b'\r' | b' ' | b'"' | b'(' | b')' | b';' | b'\\'
    )
}

impl<'a> Entry<'a> {
    const fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.fault.is_none()
    }

    fn push(&mut self, token: Token<'a>, place: Place) {
        self.tokens.push(token);
        self.places.push(place);
    }

    fn blame(&mut self, place: Place, what: &'static str) {
        self.fault.get_or_insert((place, what));
    }

    /// The place of the word with this number, or of the last one if there are fewer.
    #[must_use]
    pub(crate) fn place(&self, token: usize) -> Place {
        self.places
            .get(token)
            .or_else(|| self.places.last())
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries as lines: `>` for an inherited owner, words between bars, quoted ones in quotes.
    fn entries(text: &[u8]) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut entry = Entry::default();
        let mut all = Vec::new();
        while lexer.read(&mut entry) {
            let mut line = String::from(if entry.indented { ">" } else { "" });
            for token in &entry.tokens {
                let word = String::from_utf8_lossy(token.text);
                line.push_str(&if token.quoted {
                    format!("\"{word}\"|")
                } else {
                    format!("{word}|")
                });
            }
            if let Some((place, fault)) = entry.fault {
                line.push_str(&format!("! {}:{} {fault}", place.line, lexer.column(place)));
            }
            all.push(line);
        }
        all
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(entries(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn lines_are_entries_and_comments_are_dropped() {
        check("", &[]);
        check("\n\n  \n;x\n ; y", &[]);
        check("a b", &["a|b|"]);
        check("a b;c\n d\n", &["a|b|", ">d|"]);
        check("a\r\n\tb \r\n\r\n", &["a|", ">b|"]);
        check("\u{feff}$TTL 1", &["$TTL|1|"]);
    }

    #[test]
    fn parentheses_hold_lines_together() {
        check("a (b\n c ; x )\n\n\td) e\nf", &["a|b|c|d|e|", "f|"]);
        check("a(b)c\n( d\ne )", &["a|b|c|", "d|e|"]);
        check(" ( a (\n b ) )\n", &[">a|b|"]);
        check("(\n)\na", &["a|"]);
    }

    #[test]
    fn quotes_hide_everything_but_a_quote() {
        check(r#"a "b;(c " d"#, &[r#"a|"b;(c "|d|"#]);
        check(r#""a\"b""c""#, &[r#""a\"b"|"c"|"#]);
        check(r#"a"b"c"#, &[r#"a|"b"|c|"#]);
        check(r#"k="a b"c d="#, &[r#"k="a b"c|d=|"#]);
        check(r#"= ="" x"#, &[r#"=|=""|x|"#]);
    }

    #[test]
    fn escapes_hide_one_character() {
        check(r"a\;b\ c\(\)\\ d", &[r"a\;b\ c\(\)\\|d|"]);
        check("\\\"a \\000\n", &["\\\"a|\\000|"]);
    }

    #[test]
    fn a_faulty_entry_does_not_spoil_the_next() {
        check(
            "a \"b\nc",
            &["a|! 1:3 this quote is not closed on its line", "c|"],
        );
        check(
            "a k=\"b\nc",
            &["a|! 1:5 this quote is not closed on its line", "c|"],
        );
        check(
            "a \"b\\\nc",
            &["a|! 1:3 this quote is not closed on its line", "c|"],
        );
        check("a )\nb", &["a|! 1:3 this parenthesis closes nothing", "b|"]);
        check(
            "a ( (\nb )\n",
            &["a|b|! 1:3 this parenthesis is not closed"],
        );
        check(
            "a b\\\nc",
            &["a|b\\|! 1:4 a `\\` stands at the end of the line", "c|"],
        );
        check("a\\", &["a\\|! 1:2 a `\\` stands at the end of the line"]);
        check(
            "a\0b \0\nc",
            &[
                "a\0b|\0|! 1:2 an octet of value 0: the file is damaged",
                "c|",
            ],
        );
        check(
            "é \"ü\" )",
            &["é|\"ü\"|! 1:7 this parenthesis closes nothing"],
        );
        check("\n\n;\n )", &[">! 4:2 this parenthesis closes nothing"]);
    }

    #[test]
    fn any_octets_are_read_to_their_end() {
        let text: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for start in 0..256 {
            entries(&text[start..]);
        }
        assert_eq!(entries(b"\xff\xfe \x80").len(), 1);
    }
}
