//! Findings in a site file, each with its place.

use std::fmt;
use std::ops::Range;

use config::{Check, Step};
use config_text::Problem;

/// Something that is odd, and may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How odd.
    pub kind: Kind,
    /// The finding and its place.
    pub problem: Problem,
}

/// How odd something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hardly ever meant.
    Warning,
    /// Good to know.
    Note,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.problem.position {
            write!(f, "{position}: ")?;
        }
        let kind = match self.kind {
            Kind::Warning => "warning",
            Kind::Note => "note",
        };
        write!(f, "{kind}: {}", self.problem.message)
    }
}

/// The findings so far.
#[derive(Debug)]
pub(super) struct Report<'c, 'd> {
    check: &'c mut Check<'d>,
    pub(super) remarks: Vec<Remark>,
}

impl<'c, 'd> Report<'c, 'd> {
    pub(super) fn new(check: &'c mut Check<'d>) -> Self {
        Self {
            check,
            remarks: Vec::new(),
        }
    }

    /// The place of a value, or of the last one on the way that the file has.
    pub(super) fn span(&self, way: &[Step<'_>]) -> Range<usize> {
        self.check.span(way)
    }

    /// The same for people.
    pub(super) fn position(&self, way: &[Step<'_>]) -> config_text::Position {
        self.check.position(way)
    }

    /// Whether a value, or an item of a list, was wrong and is left out.
    pub(super) fn is_lost(&self, way: &[Step<'_>]) -> bool {
        self.check.is_lost(way)
    }

    /// Whether anything is wrong so far.
    pub(super) fn has_problems(&self) -> bool {
        self.check.n_problems() > 0
    }

    /// Something that does not work.
    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.check.problem_in(span, message);
    }

    /// Something hardly ever meant.
    pub(super) fn warn(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.remark(Kind::Warning, span, message.into());
    }

    /// Something good to know.
    pub(super) fn note(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.remark(Kind::Note, span, message.into());
    }

    fn remark(&mut self, kind: Kind, span: Range<usize>, message: String) {
        let problem = self.check.document().problem(span, message);
        self.remarks.push(Remark { kind, problem });
    }
}
