//! The syntax of named.conf without its meaning: statements of words and of braces that hold more
//! statements.

use super::lexer::{Lexer, Place, Token};

/// How deep braces may nest. BIND's own statements need four.
const MAX_DEPTH: usize = 32;

/// The words and blocks before one `;`.
#[derive(Debug, Default)]
pub(super) struct Statement<'a> {
    pub(super) items: Vec<Item<'a>>,
}

/// A part of a statement.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A word, in quotes or not.
    Word(&'a [u8], Place),
    /// Statements in braces.
    Block(Vec<Statement<'a>>, Place),
}

impl Item<'_> {
    pub(super) const fn place(&self) -> Place {
        match self {
            Self::Word(_, place) | Self::Block(_, place) => *place,
        }
    }
}

/// A syntax error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
        }
    }
}

/// Reads a file's statements and their syntax errors; a missing `;` is noted and then assumed.
pub(super) fn read(text: &[u8]) -> (Vec<Statement<'_>>, Vec<Fault>) {
    let mut lexer = Lexer::new(text);
    let mut faults = Vec::new();
    let mut open: Vec<(Level<'_>, Place)> = Vec::new();
    let mut level = Level::default();
    loop {
        let (token, place) = match lexer.next() {
            Ok(Some(token)) => token,
            Ok(None) => break,
            Err(unclosed) => {
                faults.push(Fault::new(unclosed.place, unclosed.what));
                return (level.statements, faults);
            }
        };
        match token {
            Token::Word { text, .. } => level.current.items.push(Item::Word(text, place)),
            Token::End => level.end(),
            Token::Open if open.len() == MAX_DEPTH => {
                faults.push(Fault::new(
                    place,
                    format!("braces nest deeper than {MAX_DEPTH}"),
                ));
                return (Vec::new(), faults);
            }
            Token::Open => open.push((std::mem::take(&mut level), place)),
            Token::Close => {
                if !level.current.items.is_empty() {
                    faults.push(Fault::new(place, "`;` is missing before this brace"));
                }
                level.end();
                match open.pop() {
                    Some((outer, start)) => {
                        let inner = std::mem::replace(&mut level, outer);
                        level
                            .current
                            .items
                            .push(Item::Block(inner.statements, start));
                    }
                    None => faults.push(Fault::new(place, "this brace closes nothing")),
                }
            }
        }
    }
    if let Some((_, place)) = open.last() {
        faults.push(Fault::new(*place, "this brace is not closed"));
        level = open
            .into_iter()
            .next()
            .map(|(outermost, _)| outermost)
            .unwrap_or_default();
    } else if !level.current.items.is_empty() {
        faults.push(Fault::new(
            lexer.place(),
            "`;` is missing at the end of the file",
        ));
        level.end();
    }
    (level.statements, faults)
}

/// The statements between two braces, read so far.
#[derive(Debug, Default)]
struct Level<'a> {
    statements: Vec<Statement<'a>>,
    current: Statement<'a>,
}

impl Level<'_> {
    fn end(&mut self) {
        if !self.current.items.is_empty() {
            self.statements.push(std::mem::take(&mut self.current));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(statements: &[Statement<'_>]) -> String {
        let item = |item: &Item<'_>| match item {
            Item::Word(text, _) => String::from_utf8_lossy(text).into_owned(),
            Item::Block(inner, _) => format!("{{{}}}", shape(inner)),
        };
        let statement =
            |it: &Statement<'_>| it.items.iter().map(item).collect::<Vec<_>>().join(" ");
        statements
            .iter()
            .map(statement)
            .collect::<Vec<_>>()
            .join(";")
    }

    #[track_caller]
    fn check(text: &str, expected: &str, faults: &[&str]) {
        let (statements, found) = read(text.as_bytes());
        assert_eq!(shape(&statements), expected, "{text}");
        let found: Vec<String> = found
            .iter()
            .map(|it| format!("{}:{} {}", it.place.line, it.place.column, it.message))
            .collect();
        assert_eq!(found, faults, "{text}");
    }

    #[test]
    fn statements_nest() {
        check("", "", &[]);
        check(";; a b;;", "a b", &[]);
        check(
            "a { b c; d { }; } e { f; }; g;",
            "a {b c;d {}} e {f};g",
            &[],
        );
    }

    #[test]
    fn a_missing_semicolon_is_noted() {
        check(
            "a { b }; c",
            "a {b};c",
            &[
                "1:7 `;` is missing before this brace",
                "1:11 `;` is missing at the end of the file",
            ],
        );
    }

    #[test]
    fn braces_must_pair() {
        check("a;\n b { c {", "a", &["2:8 this brace is not closed"]);
        check(
            "a }; b;",
            "a;b",
            &[
                "1:3 `;` is missing before this brace",
                "1:3 this brace closes nothing",
            ],
        );
        check("a; \"b", "a", &["1:4 this quote is not closed"]);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = "a {".repeat(100_000);
        check(&deep, "", &["1:99 braces nest deeper than 32"]);
    }
}
