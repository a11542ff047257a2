//! How the clients of healthd come back to it.

use std::time::Duration;

use retry::Backoff;

/// Before the second attempt to connect.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between attempts at most: healthd's return is noticed within this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Waits so that the subscribers of a node do not all come back in the same instant.
pub(crate) const fn backoff() -> Backoff {
    backoff_up_to(LONGEST_WAIT)
}

/// The same with another longest wait.
pub(crate) const fn backoff_up_to(longest: Duration) -> Backoff {
    Backoff::new(FIRST_WAIT, longest)
}

/// An error and its causes in one line; a cause that its parent already ends with is not said twice.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
