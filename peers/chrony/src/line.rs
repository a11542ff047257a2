//! A line: words, and where they stand.

use std::path::Path;
use std::sync::Arc;

use config_text::Position;

/// A word and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) column: usize,
}

impl Word<'_> {
    /// Whether it is this, in any case.
    pub(super) fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }
}

/// A line that says something.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    /// The directive.
    pub(super) name: Word<'t>,
    /// The rest of the line.
    pub(super) words: Vec<Word<'t>>,
    /// Column behind the last word.
    end: usize,
    file: &'t Arc<Path>,
    number: usize,
}

impl<'t> Line<'t> {
    /// Takes a line apart; `None` if it is empty or a comment.
    pub(super) fn parse(text: &'t str, file: &'t Arc<Path>, number: usize) -> Option<Self> {
        let mut words = Vec::new();
        let mut column = 1;
        let mut end = 1;
        let mut rest = text;
        loop {
            let trimmed = rest.trim_start_matches(is_space);
            column += rest.len() - trimmed.len();
            let length = trimmed.find(is_space).unwrap_or(trimmed.len());
            let (word, behind) = trimmed.split_at(length);
            if word.is_empty() {
                break;
            }
            words.push(Word { text: word, column });
            column += word.chars().count();
            end = column;
            rest = behind;
        }
        let name = *words.first()?;
        if name.text.starts_with(['!', ';', '#', '%']) {
            return None;
        }
        words.remove(0);
        Some(Self {
            name,
            words,
            end,
            file,
            number,
        })
    }

    /// The position of a word.
    pub(super) fn at(&self, word: Word<'_>) -> Position {
        self.column(word.column)
    }

    /// The end of the line, for a missing word.
    pub(super) fn end(&self) -> Position {
        self.column(self.end)
    }

    /// The position of the directive.
    pub(super) fn start(&self) -> Position {
        self.at(self.name)
    }

    pub(super) fn column(&self, column: usize) -> Position {
        Position {
            file: Arc::clone(self.file),
            line: self.number,
            column,
        }
    }
}

/// White space of the C locale.
fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
