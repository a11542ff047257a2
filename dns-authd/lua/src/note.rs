//! Notes of programs to the operator.

/// A note of a program to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The severity.
    pub severity: Severity,
    /// The text.
    pub message: String,
}

/// The severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For debugging.
    Debug,
    /// For information.
    Info,
    /// Something is odd.
    Warning,
    /// Something is wrong.
    Error,
}

impl Note {
    pub(crate) fn new(severity: Severity, message: String) -> Self {
        Self { severity, message }
    }

    pub(crate) fn warning(message: String) -> Self {
        Self::new(Severity::Warning, message)
    }

    pub(crate) fn error(message: String) -> Self {
        Self::new(Severity::Error, message)
    }
}
