//! Why files were refused, and which ones to look at again.

use std::fmt;
use std::path::PathBuf;

use crate::Problem;

/// Why what some files say was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The problems in the order of the files; never empty.
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
