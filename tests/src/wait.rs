//! Waiting for something to become true, with a limit.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Asks again and again until `question` has an answer, and panics with `what` after `limit`.
#[track_caller]
pub fn until<T>(what: &str, limit: Duration, question: impl FnMut() -> Option<T>) -> T {
    until_at(STEP, what, limit, question)
}

/// As [`until`], for a question that costs something: asked again only after `step`.
#[track_caller]
pub fn until_at<T>(
    step: Duration,
    what: &str,
    limit: Duration,
    mut question: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(step);
    }
}

/// As [`until`], for a plain condition.
#[track_caller]
pub fn for_it(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || condition().then_some(()));
}

/// Receives over a socket that has a time limit, whatever signals come meanwhile.
///
/// A test is one thread of many, and others start programs. One that ends while the thread that started it
/// is about to start another leaves SIGCHLD pending for the whole process, for that thread blocks signals
/// just then; any other thread is woken for it, and the system does not continue a call on a socket that
/// has a limit (signal(7)).
///
/// # Errors
///
/// As `receive`, except that it was interrupted.
pub fn uninterrupted<T>(mut receive: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match receive() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// Time between two looks. Short against every interval that the tests measure.
const STEP: Duration = Duration::from_millis(10);
