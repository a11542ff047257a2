//! The words of named.conf: strings, braces, semicolons, and comments in three styles.

/// Reads words from the octets of one file.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// The last requested place, and the number of octets before it: columns are counted from there,
    /// because a whole file may be one line.
    place: Place,
    counted: usize,
}

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word, in quotes or not.
    Word { text: &'a [u8], quoted: bool },
    /// `{`
    Open,
    /// `}`
    Close,
    /// `;`
    End,
}

/// A place in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A quote or a comment that is not closed, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclosed {
    pub(super) place: Place,
    pub(super) what: &'static str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let start = if text.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        Self {
            text,
            at: start,
            place: Place { line: 1, column: 1 },
            counted: start,
        }
    }

    /// The place that the lexer has come to, in characters.
    pub(super) fn place(&mut self) -> Place {
        let passed = self.text.get(self.counted..self.at).unwrap_or_default();
        for octet in passed {
            match octet {
                b'\n' => {
                    self.place.line += 1;
                    self.place.column = 1;
                }
                // A continuation octet of UTF-8 is not a column of its own.
                octet if *octet & 0xc0 == 0x80 => {}
                _ => self.place.column += 1,
            }
        }
        self.counted = self.at;
        self.place
    }

    /// The next word and its place; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<(Token<'a>, Place)>, Unclosed> {
        self.skip_blanks()?;
        let place = self.place();
        let token = match self.text.get(self.at) {
            None => return Ok(None),
            Some(b'{') => Token::Open,
            Some(b'}') => Token::Close,
            Some(b';') => Token::End,
            Some(b'"') => return self.quoted(place).map(|token| Some((token, place))),
            Some(_) => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let end = rest.iter().position(|octet| {
                    matches!(octet, b'{' | b'}' | b';' | b'"' | b'\t'..=b'\r' | b' ')
                });
                let text = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
                self.at += text.len();
                return Ok(Some((
                    Token::Word {
                        text,
                        quoted: false,
                    },
                    place,
                )));
            }
        };
        self.at += 1;
        Ok(Some((token, place)))
    }

    /// A string in quotes; a backslash escapes the next character.
    fn quoted(&mut self, place: Place) -> Result<Token<'a>, Unclosed> {
        let start = self.at + 1;
        self.at = start;
        loop {
            match self.text.get(self.at) {
                None => {
                    return Err(Unclosed {
                        place,
                        what: "this quote is not closed",
                    });
                }
                Some(b'"') => break,
                Some(b'\\')
                    if self
                        .text
                        .get(self.at + 1)
                        .is_some_and(|next| *next != b'\n') =>
                {
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        Ok(Token::Word { text, quoted: true })
    }

    fn skip_blanks(&mut self) -> Result<(), Unclosed> {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            match rest {
                [b'#', ..] | [b'/', b'/', ..] => {
                    let end = rest.iter().position(|octet| *octet == b'\n');
                    self.at += end.unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => {
                    let unclosed = Unclosed {
                        place: self.place(),
                        what: "this comment is not closed",
                    };
                    self.at += 2;
                    while !self
                        .text
                        .get(self.at..)
                        .unwrap_or_default()
                        .starts_with(b"*/")
                    {
                        if self.at >= self.text.len() {
                            return Err(unclosed);
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                [b'\t'..=b'\r' | b' ', ..] => self.at += 1,
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut all = Vec::new();
        loop {
            match lexer.next() {
                Ok(Some((token, at))) => {
                    let word = match token {
                        Token::Word { text, quoted } => {
                            let quote = if quoted { "\"" } else { "" };
                            format!("{quote}{}{quote}", String::from_utf8_lossy(text))
                        }
                        Token::Open => "{".to_owned(),
                        Token::Close => "}".to_owned(),
                        Token::End => ";".to_owned(),
                    };
                    all.push(format!("{}:{} {word}", at.line, at.column));
                }
                Ok(None) => return all,
                Err(Unclosed { place, what }) => {
                    all.push(format!("{}:{} ! {what}", place.line, place.column));
                    return all;
                }
            }
        }
    }

    #[test]
    fn words_and_marks_have_their_places() {
        assert_eq!(
            words("zone \"a b\"{type master;};\r\n\tfile /x/y"),
            [
                "1:1 zone",
                "1:6 \"a b\"",
                "1:11 {",
                "1:12 type",
                "1:17 master",
                "1:23 ;",
                "1:24 }",
                "1:25 ;",
                "2:2 file",
                "2:7 /x/y"
            ]
        );
        assert_eq!(words("é \"ü\" x"), ["1:1 é", "1:3 \"ü\"", "1:7 x"]);
        assert_eq!(words("a\"b\"c"), ["1:1 a", "1:2 \"b\"", "1:5 c"]);
        assert_eq!(words("\"a\nb\\\"\" c"), ["1:1 \"a\nb\\\"\"", "2:6 c"]);
    }

    #[test]
    fn comments_come_in_three_styles() {
        assert_eq!(
            words("# x { \n a // b\n/* c\n \"d */ e /**/ f #"),
            ["2:2 a", "4:8 e", "4:15 f"]
        );
        assert_eq!(words("a/b http://x"), ["1:1 a/b", "1:5 http://x"]);
    }

    #[test]
    fn what_is_not_closed_is_told_where_it_begins() {
        assert_eq!(
            words("a\n \"b"),
            ["1:1 a", "2:2 ! this quote is not closed"]
        );
        assert_eq!(
            words("a \"b\\"),
            ["1:1 a", "1:3 ! this quote is not closed"]
        );
        assert_eq!(
            words("a /* b *"),
            ["1:1 a", "1:3 ! this comment is not closed"]
        );
        assert_eq!(words("/*/"), ["1:1 ! this comment is not closed"]);
    }
}
