//! Why a program gives no answer.

use dns_wire::Type;

/// Why a program gives no answer; the query is answered SERVFAIL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LuaError {
    /// The program does not compile, raises an error, misuses a function, or returns something
    /// else than a string or a list of strings.
    #[error("{0}")]
    Program(String),
    /// The program runs for longer than it may.
    #[error("runs for more than {limit} instructions")]
    Instructions {
        /// The configured limit.
        limit: u32,
    },
    /// The program needs more memory than it may have.
    #[error("needs more than {limit} bytes of memory")]
    Memory {
        /// The configured limit.
        limit: usize,
    },
    /// What the program returns is no data of the record's type.
    #[error("`{answer}` is no {rtype} data: {reason}")]
    Answer {
        /// The type of the records that the program makes.
        rtype: Type,
        /// What it returned.
        answer: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `failOnIncompleteCheck` is set, and nothing it asks for has been probed yet.
    #[error("no health check has been completed")]
    Incomplete,
    /// Everything is down, and the configuration wants no answer then.
    #[error("every target is down")]
    AllDown,
}

impl LuaError {
    /// Whether the zone's author has something to mend, rather than the site being in a state
    /// that asks for no answer.
    #[must_use]
    pub const fn is_defect(&self) -> bool {
        !matches!(self, Self::Incomplete | Self::AllDown)
    }
}
