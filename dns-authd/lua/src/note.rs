//! What programs say to the operator.

/// Something a program says to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// What it says.
    pub message: String,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// To those who look for a fault.
    Debug,
    /// To those who want to know what happens.
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
