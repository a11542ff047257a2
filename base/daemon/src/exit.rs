//! Exit codes (sysexits.h) and the one place that prints an error chain.

use std::error::Error;
use std::process::ExitCode;

/// Everything went as asked.
pub const OK: u8 = 0;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// A file given as input cannot be understood.
pub const DATA: u8 = 65;
/// The daemon asked for is not running, or does not answer.
pub const UNAVAILABLE: u8 = 69;
/// A bug, or a failure the program has no better word for.
pub const SOFTWARE: u8 = 70;
/// The work was given up for now: the same program, started again, can do it.
pub const TEMPORARY: u8 = 75;
/// The system refused what the program needs.
pub const NO_PERMISSION: u8 = 77;
/// The configuration is refused.
pub const CONFIG: u8 = 78;

/// An [`ExitCode`] from one of the codes above.
#[must_use]
pub fn code(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Prints an error and its sources on one line of standard error: `a: b: c`.
///
/// A closed standard error is ignored: there is no other place for it.
pub fn report(error: &dyn Error) {
    crate::errln!("{}", chain(error));
}

/// An error and its sources as `a: b: c`.
///
/// A source whose text its parent already ends with is not said twice.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

/// The code for a failed system call: 77 when the system refused, 70 otherwise.
#[must_use]
pub fn code_of_io(error: &std::io::Error) -> u8 {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => NO_PERMISSION,
        _ => SOFTWARE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read zone file /etc/z")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start: {0}")]
    struct Repeating(#[source] std::io::Error);

    #[test]
    fn a_chain_names_every_cause_once() {
        let refused = || std::io::Error::other("refused");
        assert_eq!(
            chain(&Outer(refused())),
            "cannot read zone file /etc/z: refused"
        );
        assert_eq!(chain(&Repeating(refused())), "cannot start: refused");
    }

    #[test]
    fn permission_has_its_own_code() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(code_of_io(&denied), NO_PERMISSION);
        assert_eq!(code_of_io(&std::io::Error::other("x")), SOFTWARE);
    }
}
