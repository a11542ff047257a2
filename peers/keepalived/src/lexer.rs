//! Words and braces of a file and of what it includes.
//!
//! `!` and `#` begin a comment, a backslash at the end of a line continues it, quotes keep words
//! together, `@id` and `@^id` at the beginning of a line say on which machine it counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{Files, MAX_PROBLEMS, Position, Problem};

use super::substitute::Parameters;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String, Position),
    Open(Position),
    Close(Position),
    /// The end of a line.
    End,
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// Lines that count on one machine of several, when its id is unknown; and lines with
    /// what cannot be evaluated.
    pub(super) conditional: Vec<(Position, String)>,
}

/// Files within files within files.
const MOST_INCLUDES: usize = 16;

/// Files in all; a directory that includes itself ends somewhere.
const MOST_FILES: usize = 1000;

/// All tokens of a file.
pub(super) fn lex(
    path: &Path,
    files: &mut dyn Files,
    id: Option<&str>,
) -> Result<Lexed, Vec<Problem>> {
    let mut lexer = Lexer {
        files,
        id,
        parameters: Parameters::default(),
        lexed: Lexed::default(),
        problems: Vec::new(),
        n_files: 0,
    };
    lexer.file(path, None, 0);
    if lexer.problems.is_empty() {
        Ok(lexer.lexed)
    } else {
        lexer.problems.truncate(MAX_PROBLEMS);
        Err(lexer.problems)
    }
}

struct Lexer<'a> {
    files: &'a mut dyn Files,
    id: Option<&'a str>,
    parameters: Parameters,
    lexed: Lexed,
    problems: Vec<Problem>,
    n_files: usize,
}

impl Lexer<'_> {
    /// A file, that `from` includes.
    fn file(&mut self, path: &Path, from: Option<&Position>, depth: usize) {
        self.n_files += 1;
        let read = self.files.read(path);
        let octets = match (read, from) {
            (Ok(octets), _) => octets,
            (Err(error), from) => {
                let message = format!("cannot read {}: {error}", path.display());
                self.problems.push(Problem {
                    position: from.cloned(),
                    message,
                });
                return;
            }
        };
        let text = String::from_utf8_lossy(&octets);
        let file: Arc<Path> = path.into();
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            let place = Position {
                file: Arc::clone(&file),
                line: number,
                column: 1,
            };
            let mut line = bare(line);
            // In a definition every line is one of its value; elsewhere they are one line.
            let is_definition = line.text.trim_start().starts_with('$') && line.text.contains('=');
            let separator = if is_definition { '\n' } else { ' ' };
            while line.is_continued {
                let Some((_, next)) = lines.next() else { break };
                let next = bare(next);
                line.text.push(separator);
                line.text.push_str(&next.text);
                line.is_continued = next.is_continued;
            }
            self.line(&line.text, &place, depth);
        }
    }

    /// A line without its comment.
    fn line(&mut self, line: &str, place: &Position, depth: usize) {
        let Some(line) = self.condition(line, place) else {
            return;
        };
        if self.parameters.define(line.trim_start()) {
            return;
        }
        let Some(replaced) = self.parameters.replace(line) else {
            self.problem(place, "there is no end to its parameters");
            return;
        };
        if replaced == line {
            self.plain(line, place, depth);
            return;
        }
        // A parameter may be several lines, each with its condition.
        for line in replaced.lines() {
            if let Some(line) = self.condition(line, place) {
                self.plain(line, place, depth);
            }
        }
    }

    /// The text behind the condition; none when the line does not count.
    fn condition<'l>(&mut self, line: &'l str, place: &Position) -> Option<&'l str> {
        let Some(rest) = line.strip_prefix('@') else {
            return Some(line);
        };
        let (is_not, rest) = match rest.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end)?;
        let Some(id) = self.id else {
            self.lexed
                .conditional
                .push((place.clone(), line.to_owned()));
            return None;
        };
        ((name == id) != is_not).then(|| rest.trim_start())
    }

    fn plain(&mut self, line: &str, place: &Position, depth: usize) {
        if line.contains("~SEQ(") || line.contains("~LST(") {
            self.lexed
                .conditional
                .push((place.clone(), line.to_owned()));
            return;
        }
        if let Some(pattern) = included(line) {
            self.include(pattern, place, depth);
            return;
        }
        if let Err(message) = words(line, place, &mut self.lexed.tokens) {
            self.problem(place, message);
        }
        self.lexed.tokens.push(Token::End);
    }

    fn include(&mut self, pattern: &str, place: &Position, depth: usize) {
        if depth >= MOST_INCLUDES || self.n_files >= MOST_FILES {
            self.problem(place, "files include each other without end");
            return;
        }
        let directory = place.file.parent().unwrap_or_else(|| Path::new(""));
        let path = directory.join(pattern);
        let paths = match self.matching(&path) {
            Ok(paths) => paths,
            Err(message) => return self.problem(place, message),
        };
        for path in paths {
            if self.n_files < MOST_FILES {
                self.file(&path, Some(place), depth + 1);
            }
        }
    }

    /// The files that a pattern stands for, in the order of their names.
    fn matching(&mut self, path: &Path) -> Result<Vec<PathBuf>, String> {
        let Some(pattern) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(format!("cannot include {}", path.display()));
        };
        if !pattern.contains(['*', '?']) {
            return Ok(vec![path.to_owned()]);
        }
        let directory = path.parent().unwrap_or_else(|| Path::new(""));
        let listed = self.files.list(directory);
        let mut paths =
            listed.map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                !name.starts_with('.') && fits(pattern.as_bytes(), name.as_bytes())
            })
        });
        paths.sort();
        Ok(paths)
    }

    fn problem(&mut self, place: &Position, message: impl Into<String>) {
        self.problems.push(Problem::at(place.clone(), message));
    }
}

/// A line without its comment.
struct Bare {
    text: String,
    is_continued: bool,
}

fn bare(line: &str) -> Bare {
    let mut text = String::new();
    let mut is_quoted = false;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '!' | '#' if !is_quoted => break,
            '\\' => match letters.next() {
                None => {
                    return Bare {
                        text: text.trim_end().to_owned(),
                        is_continued: true,
                    };
                }
                Some(next @ ('!' | '#')) if !is_quoted => {
                    text.push(next);
                    continue;
                }
                Some(next) => {
                    text.extend(['\\', next]);
                    continue;
                }
            },
            _ => {}
        }
        text.push(letter);
    }
    Bare {
        text: text.trim_end().to_owned(),
        is_continued: false,
    }
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let (first, rest) = line.trim_start().split_once([' ', '\t'])?;
    // How errors count may follow: include, includer, includem, includew, includeb, includea.
    let kind = first.strip_prefix("include")?;
    let is_include = matches!(kind, "" | "r" | "m" | "w" | "b" | "a");
    is_include.then(|| rest.trim().trim_matches('"'))
}

/// A pattern of `*` and `?`. Goes back to the last star alone, so that it takes no longer than the
/// pattern times the name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut star = None;
    while let Some(letter) = name.get(at_name) {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern, at_name));
                at_pattern += 1;
                continue;
            }
            Some(wanted) if *wanted == b'?' || wanted == letter => {
                at_pattern += 1;
                at_name += 1;
                continue;
            }
            _ => {}
        }
        let Some((star_pattern, star_name)) = star else {
            return false;
        };
        at_pattern = star_pattern + 1;
        at_name = star_name + 1;
        star = Some((star_pattern, at_name));
    }
    pattern
        .get(at_pattern..)
        .is_some_and(|rest| rest.iter().all(|letter| *letter == b'*'))
}

/// Words and braces of a line.
fn words(line: &str, place: &Position, tokens: &mut Vec<Token>) -> Result<(), String> {
    let mut word: Option<(String, Position)> = None;
    let mut letters = line.chars().peekable();
    let mut column = 0;
    while let Some(letter) = letters.next() {
        column += 1;
        let here = Position {
            column: place.column + column - 1,
            ..place.clone()
        };
        match letter {
            letter if letter.is_whitespace() => tokens.extend(word.take().map(ended)),
            '{' | '}' => {
                tokens.extend(word.take().map(ended));
                tokens.push(if letter == '{' {
                    Token::Open(here)
                } else {
                    Token::Close(here)
                });
            }
            '"' | '\'' => {
                let (text, _) = word.get_or_insert_with(|| (String::new(), here));
                loop {
                    column += 1;
                    match letters.next() {
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' && letters.peek().is_some() => {
                            column += 1;
                            text.extend(letters.next());
                        }
                        Some(inside) => text.push(inside),
                        None => return Err("a quote does not end on its line".to_owned()),
                    }
                }
            }
            // A parameter that is not defined stays as it is.
            '$' if letters.peek() == Some(&'{') => {
                let (text, _) = word.get_or_insert_with(|| (String::new(), here));
                text.push('$');
                for inside in letters.by_ref() {
                    column += 1;
                    text.push(inside);
                    if inside == '}' {
                        break;
                    }
                }
            }
            letter => {
                let (text, _) = word.get_or_insert_with(|| (String::new(), here));
                text.push(letter);
            }
        }
    }
    tokens.extend(word.map(ended));
    Ok(())
}

fn ended((text, position): (String, Position)) -> Token {
    Token::Word(text, position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_a_shell_has_them() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("**", "x", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
        let long = "a".repeat(2_000);
        assert!(!fits(
            format!("{}b", "*a".repeat(500)).as_bytes(),
            long.as_bytes()
        ));
    }
}
