//! A configuration file's text, and all that is wrong with it.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use config_text::{Position, Problem, Rejected};

//--- Problems

/// Everything that is wrong; never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// `Err` with the problems if there are any, else `Ok(value)`.
    ///
    /// # Errors
    ///
    /// Itself, unless empty.
    pub fn unless_empty<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }

    /// Adds a problem.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl From<Vec<Problem>> for Problems {
    fn from(problems: Vec<Problem>) -> Self {
        Self(problems)
    }
}

impl From<Rejected> for Problems {
    fn from(rejected: Rejected) -> Self {
        Self(rejected.problems)
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        self.0.extend(problems);
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

impl Error for Problems {}

//--- Document

/// A step on the way to a value: a key of a table, or the index of an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The key.
    Key(&'a str),
    /// The index, from 0.
    Item(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Item(index)
    }
}

/// The way to a value, for [`Check::problem`](crate::Check::problem): `at!["target", 2, "fast-interval"]`.
#[macro_export]
macro_rules! at {
    ($($step:expr),* $(,)?) => { [$($crate::Step::from($step)),*] };
}

/// The text of one configuration file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name, as problems print it.
    pub path: Arc<Path>,
    /// Its content.
    pub text: String,
}

impl Document {
    /// A document; `path` is the name of its file in problems.
    pub fn inline(path: impl AsRef<Path>, text: impl Into<String>) -> Self {
        Self {
            path: path.as_ref().into(),
            text: text.into(),
        }
    }

    /// A problem at the start of `span`, a byte range of the text.
    pub fn problem(&self, span: Range<usize>, message: impl Into<String>) -> Problem {
        Problem::at(self.position(span.start), message)
    }

    /// The line and column of a byte offset.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let before = self.text.as_bytes().get(..offset);
        let before = before.unwrap_or(self.text.as_bytes());
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let in_line = before.get(line_start..).unwrap_or_default();
        // A column is a character: bytes that continue one are not counted.
        let column = in_line.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() + 1;
        Position {
            file: Arc::clone(&self.path),
            line,
            column,
        }
    }
}
