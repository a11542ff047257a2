//! Lines of words: quotes, escapes, comments, and environment variables (configuration.txt §2.2, §2.3).

use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;
use std::sync::Arc;

use config_text::{MAX_PROBLEMS, Position, Problem};

use super::HostInfo;

/// A line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// At least one.
    pub words: Vec<Word>,
}

impl Line {
    /// The place of its beginning.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.words.first().map(|word| &word.position)
    }

    /// The word at `index`.
    #[must_use]
    pub fn word(&self, index: usize) -> Option<&str> {
        self.words.get(index).map(|word| word.text.as_str())
    }

    /// The words from `index` on.
    #[must_use]
    pub fn from(&self, index: usize) -> &[Word] {
        self.words.get(index..).unwrap_or_default()
    }

    /// The words with a space between each two.
    #[must_use]
    pub fn text(&self) -> String {
        joined(&self.words)
    }
}

/// Words with a space between each two.
pub(super) fn joined(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

/// A word without its quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// The place of its beginning.
    pub position: Position,
}

/// The lines of a file.
pub(super) fn lex(
    file: &Path,
    text: &[u8],
    surroundings: &dyn HostInfo,
) -> Result<Vec<Line>, Vec<Problem>> {
    let file: Arc<Path> = file.into();
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    for (number, octets) in (1..).zip(text.split(|octet| *octet == b'\n')) {
        let line = String::from_utf8_lossy(octets);
        let lexer = Lexer {
            letters: line.trim_end_matches('\r').chars().peekable(),
            place: Position {
                file: Arc::clone(&file),
                line: number,
                column: 1,
            },
            words: Vec::new(),
            word: None,
            surroundings,
        };
        match lexer.run() {
            Ok(words) if words.is_empty() => {}
            Ok(words) => lines.push(Line { words }),
            Err(problem) => problems.push(problem),
        }
        if problems.len() == MAX_PROBLEMS {
            break;
        }
    }
    if problems.is_empty() {
        Ok(lines)
    } else {
        Err(problems)
    }
}

/// How the next letter is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    None,
    /// `"`: escapes and variables are, spaces and comments are not.
    Weak,
    /// `'`: nothing is.
    Strong,
}

struct Lexer<'a> {
    letters: Peekable<Chars<'a>>,
    place: Position,
    words: Vec<Word>,
    word: Option<Word>,
    surroundings: &'a dyn HostInfo,
}

impl Lexer<'_> {
    fn run(mut self) -> Result<Vec<Word>, Problem> {
        let mut quote = Quote::None;
        let mut opened = self.place.clone();
        loop {
            let start = self.place.clone();
            let Some(letter) = self.advance() else { break };
            match (quote, letter) {
                (Quote::None, ' ' | '\t') => self.end_word(),
                (Quote::None, '#') => break,
                (Quote::None, '"' | '\'') => {
                    quote = if letter == '"' {
                        Quote::Weak
                    } else {
                        Quote::Strong
                    };
                    self.begin_word(&start);
                    opened = start;
                }
                (Quote::Weak, '"') | (Quote::Strong, '\'') => quote = Quote::None,
                (Quote::Weak, '$') => self.variable(&start)?,
                (Quote::None | Quote::Weak, '\\') => self.escape(&start)?,
                _ => self.push(&start, letter),
            }
        }
        if quote != Quote::None {
            return Err(Problem::at(opened, "this quote does not end on its line"));
        }
        self.end_word();
        Ok(self.words)
    }

    fn advance(&mut self) -> Option<char> {
        let letter = self.letters.next()?;
        self.place.column += 1;
        Some(letter)
    }

    fn begin_word(&mut self, start: &Position) -> &mut String {
        let word = self.word.get_or_insert_with(|| Word {
            text: String::new(),
            position: start.clone(),
        });
        &mut word.text
    }

    fn push(&mut self, start: &Position, letter: char) {
        self.begin_word(start).push(letter);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn escape(&mut self, start: &Position) -> Result<(), Problem> {
        let letter = match self.letters.peek() {
            Some(' ' | '\t' | '\\' | '#' | '\'' | '"' | '$') => self.advance().unwrap_or('\\'),
            Some('n') => self.instead('\n'),
            Some('r') => self.instead('\r'),
            Some('t') => self.instead('\t'),
            Some('x') => {
                self.advance();
                self.hexadecimal(start)?
            }
            // Before anything else the backslash stays.
            _ => '\\',
        };
        self.push(start, letter);
        Ok(())
    }

    fn instead(&mut self, letter: char) -> char {
        self.advance();
        letter
    }

    fn hexadecimal(&mut self, start: &Position) -> Result<char, Problem> {
        let mut value = 0;
        for _ in 0..2 {
            let digit = self.advance().and_then(|letter| letter.to_digit(16));
            let Some(digit) = digit else {
                let message = "`\\x` wants two hexadecimal digits";
                return Err(Problem::at(start.clone(), message));
            };
            value = value * 16 + digit;
        }
        // Above ASCII an octet is none of UTF-8; the letter with its number stands for it.
        Ok(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// `$NAME`, `${NAME}`, `${NAME-default}` or `${NAME[*]}`; the dollar is taken.
    fn variable(&mut self, start: &Position) -> Result<(), Problem> {
        let is_braced = self.letters.next_if_eq(&'{').is_some();
        self.place.column += usize::from(is_braced);
        let mut name = String::new();
        while let Some(letter) = self
            .letters
            .next_if(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'))
        {
            self.place.column += 1;
            name.push(letter);
        }
        let mut default = None;
        let mut is_list = false;
        if is_braced {
            let mut rest = String::new();
            loop {
                match self.advance() {
                    Some('}') => break,
                    Some(letter) => rest.push(letter),
                    None => {
                        let message = "`${` does not end on its line";
                        return Err(Problem::at(start.clone(), message));
                    }
                }
            }
            is_list = rest.starts_with("[*]");
            let rest = rest.strip_prefix("[*]").unwrap_or(&rest);
            match rest.strip_prefix('-') {
                Some(text) => default = Some(text.to_owned()),
                None if rest.is_empty() => {}
                None => {
                    let message =
                        "`${` wants a name, and after it `[*]`, a dash and a default, or `}`";
                    return Err(Problem::at(start.clone(), message));
                }
            }
        }
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
            let message = "the name of a variable is missing after `$`";
            return Err(Problem::at(start.clone(), message));
        }
        // A variable that is not set is empty.
        let value = self.value(&name).or(default).unwrap_or_default();
        self.insert(start, &value, is_list);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<String> {
        match name {
            ".FILE" => Some(self.place.file.display().to_string()),
            ".LINE" => Some(self.place.line.to_string()),
            _ => self.surroundings.variable(name),
        }
    }

    /// A list becomes as many words as it has.
    fn insert(&mut self, start: &Position, value: &str, is_list: bool) {
        for letter in value.chars() {
            if is_list && matches!(letter, ' ' | '\t') {
                self.end_word();
            } else {
                self.push(start, letter);
            }
        }
    }
}
