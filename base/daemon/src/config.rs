//! Configuration files: TOML with `version = "v1"`, unknown keys refused, every problem with its place.
//!
//! [`Document`] holds the text of one file and turns it into a service's `Spec`. The `Spec` is what
//! people write: a struct with `#[serde(deny_unknown_fields, rename_all = "kebab-case")]` and no
//! field for the version, or an enum with one variant a version (`enum Spec { V1(SpecV1) }`, lower
//! case or kebab-case names, no `tag`). The service then builds its own config from the spec, and
//! points at a place with [`Document::problem`] and the span of a `toml::Spanned` value.
//!
//! Never looks at what the values mean; a service's own `config.rs` does.

mod common;
mod parse;
mod units;

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use config_text::Rejected;
use serde::de::DeserializeOwned;

use crate::disk;

pub use common::{AdminListen, AdminSpec, Common, LogSpec};
pub use config_text::{Position, Problem, nearest};
pub use units::{ByteSize, HumanDuration, UnitError};

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

/// The text of one configuration file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name, as problems print it.
    pub path: Arc<Path>,
    /// Its content.
    pub text: String,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is not UTF-8 or is larger than 16 MiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Problems> {
        let path = path.as_ref();
        let text = disk::read(path).and_then(|octets| {
            let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not valid UTF-8");
            String::from_utf8(octets).map_err(not_text)
        });
        let text = text.map_err(|error| {
            Problem::new(format!(
                "cannot read configuration file {}: {error}",
                path.display()
            ))
        })?;
        Ok(Self {
            path: path.into(),
            text,
        })
    }

    /// A document that is not a file: `name` stands for the file in problems.
    pub fn inline(name: impl AsRef<Path>, text: impl Into<String>) -> Self {
        Self {
            path: name.as_ref().into(),
            text: text.into(),
        }
    }

    /// Checks the version and parses the rest into `S`.
    ///
    /// # Errors
    ///
    /// All problems that can be told apart: syntax errors, or unknown keys with the nearest known
    /// one and values of the wrong kind.
    pub fn parse<S: DeserializeOwned>(&self) -> Result<S, Problems> {
        parse::parse(self)
    }

    /// A problem at the start of `span`, a byte range of the text (as `toml::Spanned` has it).
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

#[cfg(test)]
mod tests;
