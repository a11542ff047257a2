//! Findings in a site file, each with its place.

use std::fmt;
use std::ops::Range;

use daemon::config::{Document, Problem, Problems};

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
pub(super) struct Report<'d> {
    document: &'d Document,
    pub(super) problems: Problems,
    pub(super) remarks: Vec<Remark>,
}

impl<'d> Report<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            document,
            problems: Problems::default(),
            remarks: Vec::new(),
        }
    }

    /// The document.
    pub(super) fn document(&self) -> &'d Document {
        self.document
    }

    /// Something that does not work.
    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        let problem = self.document.problem(span, message);
        self.problems.push(problem);
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
        let problem = self.document.problem(span, message);
        self.remarks.push(Remark { kind, problem });
    }
}
