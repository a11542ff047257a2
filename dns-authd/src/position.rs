//! Where in a file something stands, and what is wrong there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place in a text file; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The file as it was named.
    pub file: Arc<Path>,
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Something wrong, with its place when it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub position: Option<Position>,
    /// What is wrong, in words.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// How many problems of one set of files are reported; whoever has more begins with these.
pub const MAX_PROBLEMS: usize = 100;
/// How many warnings of one set of files are kept.
pub const MAX_WARNINGS: usize = 1000;

/// Why what some files say was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What is wrong, in the order of the files; never empty.
    pub problems: Vec<Problem>,
    /// Every file that was read or looked for: when one of them changes, try again.
    pub files: Vec<PathBuf>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejected {}
