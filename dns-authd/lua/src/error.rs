//! Why a program gives no answer.

use std::borrow::Cow;

use dns_wire::Type;

/// The reason why a program gives no answer; the query gets SERVFAIL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LuaError {
    /// The program does not compile, raises an error, misuses a function, or returns neither a string nor a
    /// list of strings.
    #[error("{}", start(.0))]
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
    /// The program returns something that is not data of the record's type.
    #[error("`{}` is no {rtype} data: {}", start(answer), start(reason))]
    Answer {
        /// The type of the records that the program makes.
        rtype: Type,
        /// The returned text.
        answer: String,
        /// The reason.
        reason: String,
    },
    /// `failOnIncompleteCheck` is set, and no target of the call has been probed yet.
    #[error("no health check has been completed")]
    Incomplete,
    /// Everything is down, and the configuration says not to answer then.
    #[error("every target is down")]
    AllDown,
}

impl LuaError {
    /// Whether the zone's author must fix the program; otherwise the state of the site calls for no answer.
    #[must_use]
    pub const fn is_defect(&self) -> bool {
        !matches!(self, Self::Incomplete | Self::AllDown)
    }
}

/// The start of a text, short enough for a log line: programs make texts of any length.
fn start(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// The most characters of a text in a message; longer than any address or path.
const MAX_SHOWN: usize = 300;

/// The message of an error: one line, without the name of the chunk or a backtrace.
pub(crate) fn message(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            return message(cause);
        }
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            message.clone()
        }
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("lua:1: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_returns_is_shown_up_to_a_bound() {
        let error = |length| LuaError::Answer {
            rtype: Type::A,
            answer: "ä".repeat(length),
            reason: "no IPv4 address".to_owned(),
        };
        assert_eq!(error(3).to_string(), "`äää` is no A data: no IPv4 address");
        let shown = error(100_000).to_string();
        assert!(shown.chars().count() < MAX_SHOWN + 50, "{shown}");
        assert!(shown.contains("ä…` is no A data"), "{shown}");
    }
}
