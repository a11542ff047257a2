//! Text that people write and read: positions in a file and problems there, the files that it includes,
//! text in [URLs and pages](web), and [numbers of things](counted()).
//!
//! For every parser of such text: the configuration, zones, and peers' files. Reads nothing.

#![warn(missing_docs)]

mod counted;
mod files;
mod nearest;
mod rejected;
pub mod web;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use counted::{counted, counted_as};
pub use files::{Files, OneFile};
pub use nearest::nearest;
pub use rejected::Rejected;

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
    /// Its place in a file.
    pub position: Option<Position>,
    /// A sentence without a full stop.
    pub message: String,
}

impl Problem {
    /// A problem that has no place in a file.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            position: None,
            message: message.into(),
        }
    }

    /// A problem at a place.
    pub fn at(position: Position, message: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            message: message.into(),
        }
    }
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

/// How many problems of one set of files are reported; people with more begin with these.
pub const MAX_PROBLEMS: usize = 100;
/// How many warnings of one set of files are kept.
pub const MAX_WARNINGS: usize = 1000;
